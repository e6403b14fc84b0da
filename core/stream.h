/* A cursor over the bytes of a little-endian file, with sticky failure.
 *
 * The first read that fails fills in the error (section, item, byte offset of what was missing) and
 * sets `status`; every read after it gives zeros and moves nothing. So a reader of a record needs
 * to look at `status` once, at the record's end. No read goes beyond `size`, whatever is asked.
 * Thread safety: a stream belongs to one thread; the bytes are borrowed. */
#ifndef DFM_CORE_STREAM_H
#define DFM_CORE_STREAM_H

#include "core/status.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are copied as they lie in files");

typedef struct dfm_stream {
    const uint8_t *bytes;
    size_t size, at;
    const char *section; /* where the reader is: goes into errors */
    int64_t item;
    dfm_status status;
    dfm_error *error; /* nullable */
} dfm_stream;

/* Numbers of a larger magnitude count as not finite: their products leave single precision. */
#define DFM_STREAM_MAX_NUMBER 1e18f

/* Fails at byte `offset` with a printf message, unless the stream has failed before. */
#define dfm_stream_fail(stream, code, offset, ...)                                                 \
    ((stream)->status = (stream)->status != DFM_OK                                                 \
                            ? (stream)->status                                                     \
                            : dfm_fail((stream)->error, (code), (stream)->section, (stream)->item, \
                                       (int64_t)(offset), __VA_ARGS__))

static inline size_t dfm_stream_remaining(const dfm_stream *stream) {
    return stream->size - stream->at;
}

/* The next `count` bytes, or NULL: the stream has failed before, or ends before them
 * (DFM_ERROR_TRUNCATED). `what` names them in the error. */
static inline const uint8_t *dfm_stream_take(dfm_stream *stream, size_t count, const char *what) {
    if (stream->status != DFM_OK)
        return NULL;
    if (count > dfm_stream_remaining(stream)) {
        dfm_stream_fail(stream, DFM_ERROR_TRUNCATED, stream->at,
                        "%s takes %zu bytes, and %zu remain", what, count,
                        dfm_stream_remaining(stream));
        return NULL;
    }
    const uint8_t *result = stream->bytes + stream->at;
    stream->at += count;
    return result;
}

static inline uint8_t dfm_stream_u8(dfm_stream *stream, const char *what) {
    const uint8_t *bytes = dfm_stream_take(stream, 1, what);
    return bytes ? bytes[0] : 0;
}

static inline uint16_t dfm_stream_u16(dfm_stream *stream, const char *what) {
    const uint8_t *bytes = dfm_stream_take(stream, 2, what);
    uint16_t value = 0;
    if (bytes)
        memcpy(&value, bytes, 2);
    return value;
}

static inline int32_t dfm_stream_i32(dfm_stream *stream, const char *what) {
    const uint8_t *bytes = dfm_stream_take(stream, 4, what);
    int32_t value = 0;
    if (bytes)
        memcpy(&value, bytes, 4);
    return value;
}

/* `count` floats as they are; those that are not finite, or larger than DFM_STREAM_MAX_NUMBER, come
 * out as NaN. Zeros on failure. */
static inline void dfm_stream_floats(dfm_stream *stream, float *values, size_t count,
                                     const char *what) {
    const uint8_t *bytes = dfm_stream_take(stream, count * sizeof(float), what);
    if (!bytes) {
        memset(values, 0, count * sizeof(float));
        return;
    }
    memcpy(values, bytes, count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        if (!(fabsf(values[i]) <= DFM_STREAM_MAX_NUMBER))
            values[i] = NAN;
    }
}

/* An unsigned number of 1, 2 or 4 bytes, from bytes that were taken. */
static inline uint32_t dfm_stream_widen(const uint8_t *bytes, uint8_t size) {
    uint16_t two;
    uint32_t four;
    switch (size) {
    case 1:
        return bytes[0];
    case 2:
        memcpy(&two, bytes, 2);
        return two;
    default:
        memcpy(&four, bytes, 4);
        return four;
    }
}

/* A signed index of 1, 2 or 4 bytes; -1 = none. */
static inline int32_t dfm_stream_index(dfm_stream *stream, uint8_t index_size, const char *what) {
    const uint8_t *bytes = dfm_stream_take(stream, index_size, what);
    if (!bytes)
        return 0;
    uint32_t value = dfm_stream_widen(bytes, index_size);
    return index_size == 1 ? (int8_t)value : index_size == 2 ? (int16_t)value : (int32_t)value;
}

/* An unsigned index of 1, 2 or 4 bytes. */
static inline uint32_t dfm_stream_unsigned_index(dfm_stream *stream, uint8_t index_size,
                                                 const char *what) {
    const uint8_t *bytes = dfm_stream_take(stream, index_size, what);
    return bytes ? dfm_stream_widen(bytes, index_size) : 0;
}

#endif
