/* The libmicrohttpd adaptor: HTTP on one epoll thread, work on the two pools.
 *
 * A request that takes work is parked (its connection suspended) while a pool thread answers it;
 * the HTTP thread itself never waits. Order at the end: drain, wait until nothing is active, stop,
 * and only then free the pools, since a parked connection must be answered before the stop. */
#ifndef DFM_SERVER_HTTP_H
#define DFM_SERVER_HTTP_H

#include "server/body.h"
#include "server/pool.h"

typedef struct dfm_http_options {
    const dfm_api *api; /* all borrowed */
    dfm_buffer_pool *buffers;
    dfm_pool *compute, *load;
    uint32_t worker_count;                                 /* threads of `compute` */
    unsigned send_timeout_s;                               /* of streams; 0 = none */
    uint64_t idle_timeout_ms, body_timeout_ms;             /* 0 = none */
    unsigned max_connections, max_connections_per_address; /* 0 = what descriptors allow; any */
    size_t max_header_bytes;
    int listen_fd;
} dfm_http_options;

typedef struct dfm_http dfm_http;

/* NULL: no memory. Nothing is served before dfm_http_start. */
dfm_http *dfm_http_create(void);
bool dfm_http_start(dfm_http *http, const dfm_http_options *options);

/* From now on answers close their connections; everything else goes on. Before the drain, for
 * balancers to turn away meanwhile. */
void dfm_http_leave(dfm_http *http);
bool dfm_http_is_leaving(const dfm_http *http); /* or draining */

/* From now on work is refused with 503, answers close their connections, and no connection is
 * accepted. Requests that were let in before go on. Waits until the HTTP thread, which never waits
 * itself, has stopped accepting, a second at most. */
void dfm_http_drain(dfm_http *http);
bool dfm_http_is_draining(const dfm_http *http);

/* Cuts the connections of streams, running and to come; their requests end at once. Returns the
 * number of those that ran. Any thread. */
uint32_t dfm_http_cut_streams(dfm_http *http);

typedef struct dfm_http_stats {
    uint32_t connections, active_requests, streams;
} dfm_http_stats;

dfm_http_stats dfm_http_get_stats(const dfm_http *http); /* once it is started */

/* Requests between their head and the last byte of their answer. */
uint32_t dfm_http_active(const dfm_http *http);

/* Readable (poll) once draining has come down to no active request. */
int dfm_http_idle_fd(const dfm_http *http);

/* Closes all connections and joins the HTTP thread. Only while draining, with none active. False:
 * the HTTP thread did not come to stop accepting; it goes on, and only the process's end ends it.
 */
bool dfm_http_stop(dfm_http *http);
void dfm_http_free(dfm_http *http); /* NULL allowed */

#endif
