#include "core/arena.h"

#include <stdint.h>
#include <stdlib.h>

enum { ALIGNMENT = 64, SMALL_CHUNK_BYTES = 16 * 1024, TEXT_BLOCK_BYTES = 2048 };

struct dfm_arena_chunk {
    void *block; /* what calloc gave: the chunk begins at its first aligned byte */
    dfm_arena_chunk *next;
    size_t used, size; /* payload bytes, after the header's ALIGNMENT bytes */
};

static dfm_arena_chunk *add_chunk(dfm_arena *arena, size_t size) {
    /* calloc knows which of its pages are fresh, and does not write zeros to them. */
    size_t bytes = ALIGNMENT - 1 + ALIGNMENT + size;
    char *block = calloc(1, bytes);
    if (!block)
        return NULL;
    char *aligned = block + (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;
    dfm_arena_chunk *chunk = (dfm_arena_chunk *)(void *)aligned;
    *chunk = (dfm_arena_chunk){.block = block, .size = size};
    arena->bytes += bytes;
    return chunk;
}

void *dfm_arena_alloc(dfm_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    dfm_arena_chunk *head = arena->chunks;
    if (!head || head->size - head->used < bytes) {
        /* A large block gets a chunk of its own behind the head, which still has room for small
         * ones: an arena of many texts and few arrays wastes little. */
        size_t chunk_bytes = bytes > SMALL_CHUNK_BYTES / 4 ? bytes : SMALL_CHUNK_BYTES;
        dfm_arena_chunk *chunk = add_chunk(arena, chunk_bytes);
        if (!chunk)
            return NULL;
        if (head && chunk_bytes == bytes) {
            chunk->next = head->next;
            head->next = chunk;
        } else {
            chunk->next = head;
            arena->chunks = chunk;
        }
        head = chunk;
    }
    void *result = (char *)head + ALIGNMENT + head->used;
    head->used += bytes;
    return result;
}

char *dfm_arena_alloc_text(dfm_arena *arena, size_t bytes) {
    if (bytes > TEXT_BLOCK_BYTES / 4)
        return dfm_arena_alloc(arena, bytes, 1);
    if (bytes > arena->text_room) {
        char *block = dfm_arena_alloc(arena, TEXT_BLOCK_BYTES, 1);
        if (!block)
            return NULL;
        arena->text = block;
        arena->text_room = TEXT_BLOCK_BYTES;
    }
    char *result = arena->text;
    arena->text += bytes;
    arena->text_room -= bytes;
    return result;
}

void dfm_arena_free(dfm_arena *arena) {
    for (dfm_arena_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk->block);
    }
    *arena = (dfm_arena){0};
}
