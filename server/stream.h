/* Answers that are made while they are sent: blocks rendered by the worker pool, sent in order.
 *
 * A stream owns a few pooled buffers, one a block. A worker renders a block when the stream has a
 * buffer free for it; the HTTP thread sends finished blocks and gives their buffers back to the
 * stream. So a reader that is slow, or gone, holds no worker and no more than the stream's few
 * buffers. A stream has one job in the pool's queue at a time, at its end: whoever takes it up
 * queues it again first, so that idle workers join in, and streams and other requests take turns.
 * The connection is suspended only while the block to be sent next is being made; at all other
 * times libmicrohttpd waits for the socket, sees the client leave, and counts its inactivity.
 * Thread safety: any thread. */
#ifndef DFM_SERVER_STREAM_H
#define DFM_SERVER_STREAM_H

#include <microhttpd.h>

#include "server/body.h"
#include "server/pool.h"

/* The running streams of a server. */
typedef struct dfm_streams dfm_streams;

/* Both pools are borrowed; `compute` has `worker_count` threads. NULL: no memory. */
dfm_streams *dfm_streams_create(dfm_pool *compute, dfm_buffer_pool *buffers, uint32_t worker_count);
void dfm_streams_free(dfm_streams *streams); /* `compute` was freed before; NULL allowed */

typedef struct dfm_stream_order {
    dfm_api_stream *source;
    dfm_body body; /* of the request, where `source` borrows it; may be empty */
    struct MHD_Connection *connection;
    const char *request_id; /* for log lines; copied */
    /* Written by the HTTP thread until the request is completed: how much of the answer's body was
     * handed to libmicrohttpd. */
    uint64_t *sent_bytes;
    dfm_account *account; /* likewise: the stages of what was rendered */
} dfm_stream_order;

/* The answer that sends a stream; rendering begins now. Source and body are taken over, also where
 * this fails. NULL: there is no buffer to be had for a single block, or no memory. */
struct MHD_Response *dfm_streams_answer(dfm_streams *streams, const dfm_stream_order *order);

uint32_t dfm_streams_count(dfm_streams *streams); /* running now */

/* Cuts the connections of all running streams, and of those to come. Returns the number of the
 * running ones. */
uint32_t dfm_streams_cut(dfm_streams *streams);

#endif
