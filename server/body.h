/* A request body on its way in: collected into one pooled buffer, under a limit.
 *
 * The buffer comes with the first byte and grows by doubling: what a client says that it will send
 * costs nothing. A failure is remembered, later bytes are dropped, and the memory is given back at
 * once.
 * Thread safety: none; a body belongs to one request. */
#ifndef DFM_SERVER_BODY_H
#define DFM_SERVER_BODY_H

#include "server/buffers.h"

typedef enum dfm_body_state {
    DFM_BODY_OK,
    DFM_BODY_TOO_LARGE, /* over the limit */
    DFM_BODY_NO_ROOM    /* the buffer pool's budget is used up */
} dfm_body_state;

typedef struct dfm_body {
    dfm_buffer_pool *pool; /* borrowed */
    dfm_buffer *buffer;    /* NULL until the first byte */
    size_t limit_bytes;
    size_t most_bytes; /* the length where it is known, else the limit */
    dfm_body_state state;
} dfm_body;

/* `length` is -1 where it is not known; one that the pool has no room for now is refused now. */
dfm_body_state dfm_body_begin(dfm_body *body, dfm_buffer_pool *pool, size_t limit_bytes,
                              int64_t length);
dfm_body_state dfm_body_append(dfm_body *body, const void *data, size_t size);
void dfm_body_free(dfm_body *body); /* the body is empty afterwards */

#endif
