/* A request's head: the headers that mean something here, and whether its framing can be trusted.
 *
 * libmicrohttpd passes on shapes that two servers in a row may read differently, which is how
 * requests are smuggled past a proxy; they are refused here. Thread safety: HTTP thread only. */
#ifndef DFM_SERVER_HEAD_H
#define DFM_SERVER_HEAD_H

#include <microhttpd.h>

#include "api/api.h"

typedef struct dfm_head {
    dfm_api_headers headers; /* borrowed from the connection until its request is completed */
    int64_t content_length;  /* -1: none */
    bool chunked;
    bool expects_continue;
    const char *refusal; /* NULL: good; else one sentence for a 400, after which we close */
} dfm_head;

void dfm_head_read(struct MHD_Connection *connection, const char *method, const char *version,
                   dfm_head *head);

/* Splits a request target in place: `path` without '?', `query` behind it or NULL. Takes the origin
 * form ("/a?b") and the absolute form ("http://host/a?b"). Returns NULL, or why it is refused. */
const char *dfm_head_split_target(char *target, const char **path, const char **query);

dfm_method dfm_head_method(const char *name);

#endif
