/* Counters and histograms of the service, and their text form for Prometheus.
 *
 * Thread safety: counting is a few atomic additions, from any thread; printing reads them one by
 * one, so that a scrape may see a request in one metric and not yet in another. */
#ifndef DFM_API_METRICS_H
#define DFM_API_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a request's time goes. */
typedef enum dfm_stage {
    DFM_STAGE_PARSE,  /* body to pose */
    DFM_STAGE_QUEUE,  /* the body was complete, no worker was free */
    DFM_STAGE_SOLVE,  /* pose to palette */
    DFM_STAGE_SKIN,   /* palette and morphs to vertices */
    DFM_STAGE_ENCODE, /* vertices to another form: JSON, f16 of attributes that do not move, ... */
    DFM_STAGE_SEND,   /* from the first byte handed to the kernel to the last */
    DFM_STAGE_COUNT
} dfm_stage;

extern const char *const dfm_stage_names[DFM_STAGE_COUNT];

/* What a request came to: for its log line and the metrics. */
typedef struct dfm_account {
    char model[33];      /* the id in the path; "" = none */
    const char *problem; /* its code ("busy"); NULL where it went well */
    uint64_t frames;     /* of a deform; 0: it was none, or failed */
    uint64_t stage_ns[DFM_STAGE_COUNT];
} dfm_account;

/* A request that is over. */
typedef struct dfm_metrics_request {
    const struct dfm_route *route; /* as admit found it; NULL: the path is none of ours */
    int status;                    /* 0: the client was gone before the answer's last byte */
    uint64_t duration_ns, received_bytes, sent_bytes; /* bytes of bodies */
    const dfm_account *account;
} dfm_metrics_request;

/* What is so now: of the process, not of api. */
typedef struct dfm_gauges {
    uint64_t workers, workers_busy, queued, queue_capacity;
    uint64_t connections, active_requests, streams;
    uint64_t buffer_bytes, buffer_budget_bytes;
    uint64_t log_lines_dropped; /* since the start */
    int64_t start_unix_s;
} dfm_gauges;

typedef struct dfm_metrics dfm_metrics;

dfm_metrics *dfm_metrics_create(void);       /* NULL: no memory */
void dfm_metrics_free(dfm_metrics *metrics); /* NULL allowed */

void dfm_metrics_count(dfm_metrics *metrics, const dfm_metrics_request *request);

/* A device or kernel that failed, in a request or in the middle of a stream. */
void dfm_metrics_count_backend_failure(dfm_metrics *metrics);

struct dfm_api;

/* The text, in version 0.0.4 of the exposition format; the caller frees it. NULL: no memory. */
char *dfm_metrics_print(const struct dfm_api *api, size_t *size);

#endif
