/* Pooled memory for request bodies and results, within one budget.
 *
 * A buffer that is given back keeps its pages and serves the next request of its size class, so
 * that in steady state no request maps, unmaps or touches new memory. What is in use and what is
 * kept for later never exceeds the budget together. Thread safety: any thread. */
#ifndef DFM_SERVER_BUFFERS_H
#define DFM_SERVER_BUFFERS_H

#include "api/api.h"

typedef struct dfm_buffer_pool dfm_buffer_pool;

typedef struct dfm_buffer_stats {
    size_t budget_bytes;
    size_t used_bytes; /* in requests now */
    size_t kept_bytes; /* waiting for the next one */
    uint64_t maps;     /* times that the kernel was asked for memory */
} dfm_buffer_stats;

/* NULL: no memory. */
dfm_buffer_pool *dfm_buffer_pool_create(size_t budget_bytes);
void dfm_buffer_pool_free(dfm_buffer_pool *pool); /* every buffer was given back; NULL allowed */

/* At least `capacity` bytes (at least 1), 64-byte aligned, size 0, contents undefined. NULL: over
 * the budget, or no memory. */
dfm_buffer *dfm_buffer_acquire(dfm_buffer_pool *pool, size_t capacity);

/* Makes the buffer hold `capacity` bytes, with what it has; it may move. False: over the budget, or
 * no memory, and the buffer is as it was. Only what it grows by counts against the budget. */
bool dfm_buffer_grow(dfm_buffer_pool *pool, dfm_buffer **buffer, size_t capacity);
void dfm_buffer_release(dfm_buffer_pool *pool, dfm_buffer *buffer); /* NULL buffer allowed */

dfm_buffer_stats dfm_buffer_pool_stats(dfm_buffer_pool *pool);

/* The pool as api/ sees it; `context` is the pool. */
dfm_buffers dfm_buffer_pool_interface(dfm_buffer_pool *pool);

#endif
