/* A bump allocator: everything that belongs to one model lies in one arena and goes with it.
 *
 * Thread safety: none; an arena is filled by one thread and read by any number afterwards.
 * Memory is zeroed. Alignment is 64 bytes, so that kernels may use aligned loads. */
#ifndef DFM_CORE_ARENA_H
#define DFM_CORE_ARENA_H

#include <stddef.h>

typedef struct dfm_arena_chunk dfm_arena_chunk;

typedef struct dfm_arena {
    dfm_arena_chunk *chunks;
    size_t bytes;     /* bytes taken from the system, headers included */
    char *text;       /* where the next short text goes ... */
    size_t text_room; /* ... and how many bytes are left there */
} dfm_arena;

/* count x size zeroed bytes, or NULL: the product overflows or the allocator said no. A count or
 * size of 0 gives a valid pointer that must not be dereferenced. */
void *dfm_arena_alloc(dfm_arena *arena, size_t count, size_t size);

/* Zeroed bytes without alignment, for texts: short ones share blocks, so that a file of many short
 * names does not grow in memory by an alignment each. NULL: the allocator said no. */
char *dfm_arena_alloc_text(dfm_arena *arena, size_t bytes);

/* Frees all chunks; the arena is empty and may be used again. */
void dfm_arena_free(dfm_arena *arena);

#endif
