/* The wire contract without sockets: a request in, a response out.
 *
 * server/ (or a test, or a fuzzer) calls dfm_api_admit when a request's head is known and, once the
 * body is there, dfm_api_handle on a thread of the lane that admit named. Nothing here knows
 * libmicrohttpd, threads or files. The contract is openapi.yaml; the route table is api/routes.c.
 * Thread safety: one dfm_api serves any number of threads; a request, its admission and its
 * response belong to one request. */
#ifndef DFM_API_API_H
#define DFM_API_API_H

#include "api/access.h"
#include "api/json_reader.h"
#include "api/metrics.h"
#include "core/cache.h"
#include "core/motion_store.h"

enum { DFM_API_MAX_HEADERS = 24, DFM_API_REQUEST_ID_BYTES = 64 };

typedef enum dfm_method {
    DFM_METHOD_GET,
    DFM_METHOD_HEAD, /* handled as GET; server/ sends no body */
    DFM_METHOD_POST,
    DFM_METHOD_PATCH,
    DFM_METHOD_DELETE,
    DFM_METHOD_OPTIONS, /* of CORS; else 405 */
    DFM_METHOD_OTHER    /* 405 everywhere */
} dfm_method;

/* Where a request runs. */
typedef enum dfm_lane {
    DFM_LANE_INLINE,  /* on the HTTP thread: microseconds, waits for nothing */
    DFM_LANE_COMPUTE, /* the worker pool: deforms, large lists and buffers; needs a worker index */
    DFM_LANE_LOAD     /* the load threads: uploads, changes of settings; so no deform waits */
} dfm_lane;

/* Pooled memory for large bodies, counted against --max-inflight-bytes. */
typedef struct dfm_buffer {
    uint8_t *data; /* 64-byte aligned, `capacity` bytes, contents undefined */
    size_t size;   /* bytes used */
    size_t capacity;
} dfm_buffer;

typedef struct dfm_buffers {
    dfm_buffer *(*acquire)(void *context, size_t capacity); /* NULL: over the budget or no memory */
    void (*release)(void *context, dfm_buffer *buffer);
    /* What a buffer of this capacity (0: none) takes of the budget. */
    uint64_t (*footprint)(void *context, uint64_t capacity);
    void *context;
} dfm_buffers;

typedef struct dfm_api_config {
    const char *version;           /* "0.1.0" */
    const char *build;             /* "release, gcc 12.2.0" */
    dfm_settings defaults;         /* settings of an upload that names none */
    dfm_access *access;            /* borrowed; NULL: everybody may do everything */
    bool metrics_token;            /* /metrics takes one, of either scope */
    const char *cors_origins;      /* "*", or origins with commas between; NULL or "" = none */
    const struct dfm_store *store; /* borrowed; NULL: uploads live in memory only */
    uint64_t store_check_ms;       /* how old a look at the store may be that a request relies on */
    bool strict_mode;              /* gpu without a kernel is 503, not the CPU skinner */
    size_t max_upload_bytes;       /* POST /models and /motions */
    size_t max_json_bytes;         /* JSON bodies */
    size_t max_pose_bytes;         /* binary poses and VPD */
    dfm_json_limits json;          /* JSON bodies */
    uint64_t max_frames;           /* of one deform; 0 = none */
    uint64_t max_result_bytes;     /* one response; 0 = none */
    size_t buffer_bytes;           /* all that `buffers` have: what a request needs of them at one
                                      time, its body included, cannot be more; 0 = any size */
    uint64_t request_timeout_ms;   /* cap and default of Request-Timeout-Ms; 0 = none */
    uint32_t worker_count;
    dfm_cache *cache;             /* borrowed */
    dfm_motion_store *motions;    /* borrowed */
    const dfm_skinners *skinners; /* borrowed */
    dfm_buffers buffers;
    void (*read_gauges)(void *context, dfm_gauges *gauges); /* NULL: all are 0 */
    void *gauges_context;
    void (*note)(void *context, const char *message); /* for the log; NULL: nobody reads */
    void *note_context;
    bool (*ready)(void *context); /* /readyz: false while draining or loading */
    void *ready_context;
} dfm_api_config;

typedef struct dfm_api dfm_api;
typedef struct dfm_library dfm_library;

/* Request headers that mean something here; NULL where absent. Borrowed until dfm_api_handle is
 * through. */
typedef struct dfm_api_headers {
    const char *accept, *content_type, *content_encoding;
    const char *if_match, *if_none_match;
    const char *request_timeout_ms;
    const char *request_id; /* the client's X-Request-Id */
    const char *authorization;
    const char *origin, *access_control_request_method; /* of CORS */
} dfm_api_headers;

typedef struct dfm_api_request {
    dfm_method method;
    const char *path;  /* percent-encoded as sent, without the query; "/v1" in front is accepted */
    const char *query; /* percent-encoded as sent, without '?'; NULL or "" = none */
    dfm_api_headers headers;
    const char *cors_origin; /* set by admit: what Access-Control-Allow-Origin says; NULL = none */
    bool cors_varies;        /* set by admit: it would say something else to another page */
    /* Set by admit: the client's where it is sane, or a new one. */
    char request_id[DFM_API_REQUEST_ID_BYTES + 1];
    const uint8_t *body; /* after multipart was taken apart; NULL and 0 = none */
    size_t body_bytes;
    size_t body_capacity;          /* of the pooled buffer that the body is in; 0 = in none */
    uint32_t worker;               /* of the compute lane */
    bool must_not_wait;            /* handled on the HTTP thread: no store is asked */
    uint64_t started_ns;           /* CLOCK_MONOTONIC: the head was read */
    uint64_t received_ns;          /* the body was complete */
    uint64_t deadline_ns;          /* set by admit from Request-Timeout-Ms; 0 = none */
    const struct dfm_route *route; /* set by admit */
} dfm_api_request;

typedef struct dfm_api_header {
    const char *name; /* static */
    char value[256];  /* long enough for a Deformd-Layout of every attribute */
} dfm_api_header;

/* A body that is made while it is sent: a head, then blocks of equal size, in order. What it costs
 * in memory is a few blocks, however long it is.
 *
 * render may be called by any compute worker, for any block, in any order, several at a time (never
 * twice for one block). `free` is called once, when no render runs and none will: after the last
 * byte, after a failure, or when the client went away. */
typedef struct dfm_api_stream dfm_api_stream;
struct dfm_api_stream {
    uint64_t total_bytes; /* head_bytes + block_count * block_bytes: the Content-Length */
    const uint8_t *head;  /* lives until `free`; NULL = none */
    uint64_t head_bytes;
    uint64_t block_count;
    size_t block_bytes; /* > 0 */
    /* Spent on blocks so far, by all workers. */
    _Atomic uint64_t solve_ns, skin_ns, encode_ns;
    bool borrows_body; /* the request's body stays where it is until `free` has returned */
    /* Fills block_bytes at `memory` (64-byte aligned). False: the block cannot be made; the
     * connection is cut, and *why says so in the log (static or until `free`). */
    bool (*render)(dfm_api_stream *stream, uint64_t block, uint32_t worker, uint8_t *memory,
                   const char **why);
    void (*free)(dfm_api_stream *stream);
};

typedef struct dfm_api_response {
    int status;
    uint32_t header_count;
    /* Content-Type is one of them; Content-Length is not. */
    dfm_api_header headers[DFM_API_MAX_HEADERS];
    const void *body; /* `body_bytes` bytes, valid until free_body is called */
    size_t body_bytes;
    void (*free_body)(void *context); /* NULL: static */
    void *free_context;
    dfm_api_stream *stream; /* in place of a body; the response owns it. NULL: body */
    dfm_account account;    /* all but QUEUE and SEND of what is sent at once; zeroed by admit */
} dfm_api_response;

typedef struct dfm_admission {
    bool answered; /* the response is complete (404, 405, 413, 415, ...): send it, drop the body */
    dfm_lane lane;
    bool takes_body;
    bool takes_multipart;  /* multipart/form-data: hand the field "file" over as the body */
    bool gzip;             /* the body is compressed: inflate it, under the same limit */
    size_t max_body_bytes; /* over it: dfm_api_body_too_large */
} dfm_admission;

/* Copies the configuration. NULL: out of memory. */
dfm_api *dfm_api_create(const dfm_api_config *config);
void dfm_api_free(dfm_api *api);

/* Looks at method, path, query and headers. `content_length` is -1 where the request does not say.
 * Sets request_id, deadline_ns and route. Cheap and without waiting; called on the HTTP thread. */
dfm_admission dfm_api_admit(const dfm_api *api, dfm_api_request *request, int64_t content_length,
                            dfm_api_response *response);

/* Whether an admitted request should go to a load thread, for dfm_api_load, before it goes on to
 * its own lane: what it is about is not in memory, or must be looked up in the store again. Cheap
 * and without waiting; called on the HTTP thread when the body is there. */
bool dfm_api_must_load(const dfm_api *api, const dfm_api_request *request);

/* Brings what the request is about into memory, so that no worker waits for a store. Blocks. False:
 * that failed, and the response says how. */
bool dfm_api_load(const dfm_api *api, const dfm_api_request *request, dfm_api_response *response);

/* Answers an admitted request. Blocks for as long as the work takes. */
void dfm_api_handle(const dfm_api *api, dfm_api_request *request, dfm_api_response *response);

/* Counts a request that is over (GET /metrics). */
void dfm_api_count(const dfm_api *api, const dfm_metrics_request *request);

/* Answers that server/ gives itself, in the same form (problem+json, X-Request-Id): 413, 503 with
 * Retry-After, 400, 504. */
void dfm_api_body_too_large(const dfm_api_request *request, uint64_t limit, uint64_t received,
                            dfm_api_response *response);
void dfm_api_busy(const dfm_api_request *request, const char *why, dfm_api_response *response);
void dfm_api_bad_request(const dfm_api_request *request, const char *detail,
                         dfm_api_response *response);
void dfm_api_deadline_passed(const dfm_api_request *request, dfm_api_response *response);

/* Frees the body; the response is empty afterwards. */
void dfm_api_response_free(dfm_api_response *response);

/* The routes, for the test that compares them with openapi.yaml: "GET /models/{id}" and so on.
 * NULL past the last. */
const char *dfm_api_route_name(size_t index);

#endif
