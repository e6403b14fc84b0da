/* Counts what a test allocates, and makes the Nth allocation fail.
 *
 * Include it in one test program whose name ends in _memory: the Makefile links those with ld's
 * --wrap, so that malloc, calloc, realloc, aligned_alloc, free and open_memstream of all project
 * code come here; nothing is changed in what is tested. What is taken from an arena counts and
 * fails like any allocation: which of them needs a chunk is chance. Thread safety: none, one thread
 * only. */
#ifndef DFM_TESTS_WRAP_ALLOCATOR_H
#define DFM_TESTS_WRAP_ALLOCATOR_H

#include "core/arena.h"

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct {
    size_t live_count, live_bytes, peak_bytes;
    size_t calls;   /* since wrap_reset */
    size_t fail_at; /* the call that fails, from 1; 0 = none */
} wrap;

static inline void wrap_reset(size_t fail_at) {
    wrap.calls = 0;
    wrap.fail_at = fail_at;
    wrap.peak_bytes = wrap.live_bytes;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *memory);
void *__real_dfm_arena_alloc(dfm_arena *arena, size_t count, size_t size);
void *__wrap_dfm_arena_alloc(dfm_arena *arena, size_t count, size_t size);
char *__real_dfm_arena_alloc_text(dfm_arena *arena, size_t bytes);
char *__wrap_dfm_arena_alloc_text(dfm_arena *arena, size_t bytes);

static int wrap_fails(void) {
    return ++wrap.calls == wrap.fail_at;
}

static void *wrap_add(void *memory) {
    if (memory) {
        wrap.live_count++;
        wrap.live_bytes += malloc_usable_size(memory);
        if (wrap.live_bytes > wrap.peak_bytes)
            wrap.peak_bytes = wrap.live_bytes;
    }
    return memory;
}

static void wrap_remove(void *memory) {
    if (memory) {
        wrap.live_count--;
        wrap.live_bytes -= malloc_usable_size(memory);
    }
}

void *__wrap_malloc(size_t size) {
    return wrap_fails() ? NULL : wrap_add(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size) {
    return wrap_fails() ? NULL : wrap_add(__real_calloc(count, size));
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return wrap_fails() ? NULL : wrap_add(__real_aligned_alloc(alignment, size));
}

void *__wrap_realloc(void *old, size_t size) {
    if (wrap_fails())
        return NULL;
    size_t old_bytes = old ? malloc_usable_size(old) : 0;
    void *memory = __real_realloc(old, size);
    if (!memory)
        return NULL;
    if (old) {
        wrap.live_count--;
        wrap.live_bytes -= old_bytes;
    }
    return wrap_add(memory);
}

void __wrap_free(void *memory) {
    wrap_remove(memory);
    __real_free(memory);
}

void *__wrap_dfm_arena_alloc(dfm_arena *arena, size_t count, size_t size) {
    return wrap_fails() ? NULL : __real_dfm_arena_alloc(arena, count, size);
}

char *__wrap_dfm_arena_alloc_text(dfm_arena *arena, size_t bytes) {
    return wrap_fails() ? NULL : __real_dfm_arena_alloc_text(arena, bytes);
}

/* --- open_memstream, whose memory the C library would take past all this ---------------------- */

FILE *__wrap_open_memstream(char **text, size_t *size);

struct wrap_memstream {
    char **text;
    size_t *size;
};

static ssize_t wrap_memstream_write(void *context, const char *bytes, size_t count) {
    struct wrap_memstream *stream = context;
    char *grown = __wrap_realloc(*stream->text, *stream->size + count + 1);
    if (!grown)
        return 0;
    memcpy(grown + *stream->size, bytes, count);
    *stream->size += count;
    grown[*stream->size] = 0;
    *stream->text = grown;
    return (ssize_t)count;
}

static int wrap_memstream_close(void *context) {
    __wrap_free(context);
    return 0;
}

FILE *__wrap_open_memstream(char **text, size_t *size) {
    static const cookie_io_functions_t functions = {.write = wrap_memstream_write,
                                                    .close = wrap_memstream_close};
    struct wrap_memstream *stream = __wrap_malloc(sizeof *stream);
    if (!stream)
        return NULL;
    *stream = (struct wrap_memstream){text, size};
    *text = NULL;
    *size = 0;
    return fopencookie(stream, "w", functions);
}

#endif
