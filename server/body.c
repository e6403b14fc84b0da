#include "server/body.h"

#include <string.h>

enum { FIRST_CAPACITY = 16 * 1024 };

static dfm_body_state fail(dfm_body *body, dfm_body_state state) {
    dfm_buffer_release(body->pool, body->buffer);
    body->buffer = NULL;
    return body->state = state;
}

dfm_body_state dfm_body_begin(dfm_body *body, dfm_buffer_pool *pool, size_t limit_bytes,
                              int64_t length) {
    *body = (dfm_body){.pool = pool, .limit_bytes = limit_bytes, .most_bytes = limit_bytes};
    if (length <= 0)
        return DFM_BODY_OK;
    if ((uint64_t)length > limit_bytes)
        return fail(body, DFM_BODY_TOO_LARGE);
    body->most_bytes = (size_t)length;
    dfm_buffer_stats stats = dfm_buffer_pool_stats(pool);
    bool room = body->most_bytes <= stats.budget_bytes - stats.used_bytes;
    return room ? DFM_BODY_OK : fail(body, DFM_BODY_NO_ROOM);
}

/* Room for `size` bytes in all. */
static bool reserve(dfm_body *body, size_t size) {
    size_t capacity = body->buffer ? body->buffer->capacity : 0;
    if (size <= capacity)
        return true;
    capacity = capacity ? capacity * 2 : FIRST_CAPACITY;
    if (capacity > body->most_bytes)
        capacity = body->most_bytes;
    if (capacity < size)
        capacity = size;
    if (body->buffer)
        return dfm_buffer_grow(body->pool, &body->buffer, capacity);
    body->buffer = dfm_buffer_acquire(body->pool, capacity);
    return body->buffer != NULL;
}

dfm_body_state dfm_body_append(dfm_body *body, const void *data, size_t size) {
    if (body->state != DFM_BODY_OK || size == 0)
        return body->state;
    size_t used = body->buffer ? body->buffer->size : 0;
    if (size > body->limit_bytes - used)
        return fail(body, DFM_BODY_TOO_LARGE);
    if (!reserve(body, used + size))
        return fail(body, DFM_BODY_NO_ROOM);
    memcpy(body->buffer->data + used, data, size);
    body->buffer->size += size;
    return DFM_BODY_OK;
}

void dfm_body_free(dfm_body *body) {
    dfm_buffer_release(body->pool, body->buffer);
    *body = (dfm_body){0};
}
