/* A hash of names to indices, built once at load. Thread safety: read-only after dfm_names_build.
 */
#ifndef DFM_CORE_NAMES_H
#define DFM_CORE_NAMES_H

#include "core/arena.h"

#include <stdbool.h>
#include <stdint.h>

struct dfm_text;

typedef struct dfm_names {
    uint32_t mask;   /* slot count - 1; the slot count is a power of two */
    uint32_t *slots; /* index + 1; 0 = empty */
    const void *first;
    uint32_t stride_bytes;
    uint32_t count;
    bool hiding; /* a name is hidden by an equal one before it */
} dfm_names;

/* Builds the hash over `count` dfm_text values, the first at `first`, `stride_bytes` apart (so that
 * the name field of an array of structs serves as it is). The texts must outlive it. Returns the
 * number of names that an earlier one hides, and the index of the first such in *first_hidden; or
 * -1 when the arena is out of memory. The hash is seeded per process against crafted collisions. */
int64_t dfm_names_build(dfm_names *names, dfm_arena *arena, const void *first, uint32_t count,
                        uint32_t stride_bytes, int64_t *first_hidden);

/* Index of the first element with this name (bytes compared), or -1. */
int32_t dfm_names_find(const dfm_names *names, const char *name, uint32_t length);

/* The same, faster for a name that stands behind the one found before it, at `previous` (< 0:
 * none): who lists a model's names mostly does so in its order. */
int32_t dfm_names_find_next(const dfm_names *names, const char *name, uint32_t length,
                            int64_t previous);

#endif
