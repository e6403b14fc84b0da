#include "api/metrics.h"

#include "api/call.h"
#include "api/problem.h"
#include "api/routes.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const dfm_stage_names[DFM_STAGE_COUNT] = {
    [DFM_STAGE_PARSE] = "parse", [DFM_STAGE_QUEUE] = "queue",   [DFM_STAGE_SOLVE] = "solve",
    [DFM_STAGE_SKIN] = "skin",   [DFM_STAGE_ENCODE] = "encode", [DFM_STAGE_SEND] = "send"};

/* Upper bounds in seconds, from what a small pose takes to what a client waits for. */
static const double bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
enum { BOUND_COUNT = sizeof bounds / sizeof *bounds, STATUS_COUNT = 600 };

typedef _Atomic uint64_t counter;

typedef struct histogram {
    counter buckets[BOUND_COUNT + 1]; /* each alone, not yet summed up; the last is +Inf */
    counter sum_ns;
} histogram;

typedef struct route_counts {
    counter by_status[STATUS_COUNT]; /* 0: the client was gone */
    histogram duration;
} route_counts;

struct dfm_metrics {
    route_counts *routes; /* dfm_route_count, and one more for paths that are none of ours */
    counter problems[DFM_PROBLEM_COUNT];
    histogram stages[DFM_STAGE_COUNT]; /* of deforms that went well */
    counter received_bytes, sent_bytes, frames, backend_failures;
};

dfm_metrics *dfm_metrics_create(void) {
    dfm_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    metrics->routes = calloc(dfm_route_count + 1, sizeof *metrics->routes);
    if (metrics->routes)
        return metrics;
    free(metrics);
    return NULL;
}

void dfm_metrics_free(dfm_metrics *metrics) {
    if (!metrics)
        return;
    free(metrics->routes);
    free(metrics);
}

/* --- counting ------------------------------------------------------------------------------- */

static void add(counter *c, uint64_t value) {
    atomic_fetch_add_explicit(c, value, memory_order_relaxed);
}

static uint64_t read_counter(const counter *c) {
    return atomic_load_explicit(c, memory_order_relaxed);
}

static void observe(histogram *h, uint64_t ns) {
    size_t i = 0;
    while (i < BOUND_COUNT && (double)ns > bounds[i] * 1e9)
        i++;
    add(&h->buckets[i], 1);
    add(&h->sum_ns, ns);
}

static size_t route_index(const dfm_route *route) {
    return route ? (size_t)(route - dfm_routes) : dfm_route_count;
}

static void count_problem(dfm_metrics *metrics, const char *problem) {
    for (size_t i = 0; problem && i < DFM_PROBLEM_COUNT; i++)
        if (strcmp(dfm_problem_kinds[i].code, problem) == 0)
            add(&metrics->problems[i], 1);
}

void dfm_metrics_count(dfm_metrics *metrics, const dfm_metrics_request *request) {
    const dfm_account *account = request->account;
    route_counts *route = &metrics->routes[route_index(request->route)];
    add(&route->by_status[request->status >= 0 && request->status < STATUS_COUNT ? request->status
                                                                                 : 0],
        1);
    observe(&route->duration, request->duration_ns);
    add(&metrics->received_bytes, request->received_bytes);
    add(&metrics->sent_bytes, request->sent_bytes);
    count_problem(metrics, account->problem);
    if (account->frames == 0)
        return;
    add(&metrics->frames, account->frames);
    for (size_t i = 0; i < DFM_STAGE_COUNT; i++)
        observe(&metrics->stages[i], account->stage_ns[i]);
}

void dfm_metrics_count_backend_failure(dfm_metrics *metrics) {
    add(&metrics->backend_failures, 1);
}

/* --- printing ------------------------------------------------------------------------------- */

static void head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_one(FILE *out, const char *name, const char *type, const char *help,
                      uint64_t value) {
    head(out, name, type, help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

/* `labels`: "stage=\"skin\"". */
static void print_histogram(FILE *out, const char *name, const char *labels, const histogram *h) {
    uint64_t count = 0;
    for (size_t i = 0; i <= BOUND_COUNT; i++) {
        char bound[32] = "+Inf";
        if (i < BOUND_COUNT)
            snprintf(bound, sizeof bound, "%g", bounds[i]);
        count += read_counter(&h->buckets[i]);
        fprintf(out, "%s_bucket{%s,le=\"%s\"} %" PRIu64 "\n", name, labels, bound, count);
    }
    fprintf(out, "%s_sum{%s} %.9f\n", name, labels, (double)read_counter(&h->sum_ns) * 1e-9);
    fprintf(out, "%s_count{%s} %" PRIu64 "\n", name, labels, count);
}

static void print_route_labels(char labels[128], size_t index) {
    const char *name = index < dfm_route_count ? dfm_routes[index].name : "other other";
    int method = (int)strcspn(name, " ");
    snprintf(labels, 128, "method=\"%.*s\",route=\"%s\"", method, name, name + method + 1);
}

static bool was_asked(const route_counts *route) {
    uint64_t count = 0;
    for (size_t i = 0; i <= BOUND_COUNT; i++)
        count += read_counter(&route->duration.buckets[i]);
    return count > 0;
}

static void print_requests(FILE *out, const dfm_metrics *metrics) {
    char labels[128];
    head(out, "deformd_requests_total", "counter",
         "Requests that are over, by route and status; code 0: the client was gone.");
    for (size_t r = 0; r <= dfm_route_count; r++) {
        print_route_labels(labels, r);
        for (size_t s = 0; s < STATUS_COUNT; s++) {
            uint64_t count = read_counter(&metrics->routes[r].by_status[s]);
            if (count > 0)
                fprintf(out, "deformd_requests_total{%s,code=\"%zu\"} %" PRIu64 "\n", labels, s,
                        count);
        }
    }
    head(out, "deformd_request_duration_seconds", "histogram",
         "From a request's head to its answer's last byte.");
    for (size_t r = 0; r <= dfm_route_count; r++) {
        print_route_labels(labels, r);
        if (was_asked(&metrics->routes[r]))
            print_histogram(out, "deformd_request_duration_seconds", labels,
                            &metrics->routes[r].duration);
    }
    head(out, "deformd_stage_duration_seconds", "histogram",
         "Where the time of deforms that went well went.");
    for (size_t i = 0; i < DFM_STAGE_COUNT; i++) {
        snprintf(labels, sizeof labels, "stage=\"%s\"", dfm_stage_names[i]);
        print_histogram(out, "deformd_stage_duration_seconds", labels, &metrics->stages[i]);
    }
    head(out, "deformd_problems_total", "counter", "Requests that failed, by the problem's code.");
    for (size_t i = 0; i < DFM_PROBLEM_COUNT; i++)
        fprintf(out, "deformd_problems_total{problem=\"%s\"} %" PRIu64 "\n",
                dfm_problem_kinds[i].code, read_counter(&metrics->problems[i]));
    print_one(out, "deformd_frames_total", "counter", "Frames of deforms that went well.",
              read_counter(&metrics->frames));
    print_one(out, "deformd_received_bytes_total", "counter", "Bytes of request bodies.",
              read_counter(&metrics->received_bytes));
    print_one(out, "deformd_sent_bytes_total", "counter", "Bytes of answers' bodies.",
              read_counter(&metrics->sent_bytes));
    print_one(out, "deformd_backend_failures_total", "counter",
              "Times that a skinner's device failed.", read_counter(&metrics->backend_failures));
}

static void print_gauges(FILE *out, const dfm_gauges *g) {
    print_one(out, "deformd_workers", "gauge", "Threads that deform.", g->workers);
    print_one(out, "deformd_workers_busy", "gauge", "Of these, at work now.", g->workers_busy);
    print_one(out, "deformd_queue_requests", "gauge", "Requests that wait for a worker.",
              g->queued);
    print_one(out, "deformd_queue_capacity_requests", "gauge", "The most that may wait (--queue).",
              g->queue_capacity);
    print_one(out, "deformd_connections", "gauge", "Connections that are open.", g->connections);
    print_one(out, "deformd_active_requests", "gauge",
              "Requests between their head and their answer's last byte.", g->active_requests);
    print_one(out, "deformd_streams", "gauge", "Answers that are computed while they are sent.",
              g->streams);
    print_one(out, "deformd_buffer_bytes", "gauge", "Memory of bodies and results in flight.",
              g->buffer_bytes);
    print_one(out, "deformd_buffer_budget_bytes", "gauge", "The most of it (--max-inflight-bytes).",
              g->buffer_budget_bytes);
    print_one(out, "deformd_log_lines_dropped_total", "counter",
              "Log lines that stderr was too slow for.", g->log_lines_dropped);
    print_one(out, "deformd_start_time_seconds", "gauge", "When this process began, unix time.",
              (uint64_t)g->start_unix_s);
}

/* One row of what the caches of models and motions have in common. */
struct cache_row {
    const char *name, *type, *help;
    uint64_t models, motions;
};

static void print_caches(FILE *out, const struct dfm_api_config *config) {
    dfm_cache_stats a = dfm_cache_get_stats(config->cache);
    dfm_motion_store_stats b = dfm_motion_store_get_stats(config->motions);
    const struct cache_row rows[] = {
        {"items", "gauge", "Models and motions in memory.", a.models, b.motions},
        {"bytes", "gauge", "Their memory.", a.resident_bytes, b.resident_bytes},
        {"budget_bytes", "gauge", "The most of it (--cache-bytes, --motion-cache-bytes).",
         a.budget_bytes, b.budget_bytes},
        {"hits_total", "counter", "Look-ups that found theirs in memory.", a.hits, b.hits},
        {"misses_total", "counter", "Look-ups that did not.", a.misses, b.misses},
        {"loads_total", "counter", "Files that were loaded.", a.loads, b.loads},
        {"evictions_total", "counter", "Items that had to make room.", a.evictions, b.evictions},
        {"deletes_total", "counter", "Items that were deleted.", a.deletes, b.deletes},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[64];
        snprintf(name, sizeof name, "deformd_cache_%s", rows[i].name);
        head(out, name, rows[i].type, rows[i].help);
        fprintf(out, "%s{kind=\"model\"} %" PRIu64 "\n%s{kind=\"motion\"} %" PRIu64 "\n", name,
                rows[i].models, name, rows[i].motions);
    }
    head(out, "deformd_models", "gauge", "Models in memory, by the mode that runs.");
    fprintf(out,
            "deformd_models{effective_mode=\"gpu\"} %" PRIu64
            "\ndeformd_models{effective_mode=\"cpu\"} %" PRIu64 "\n",
            a.models_on_gpu, a.models - a.models_on_gpu);
}

static void print_build(FILE *out, const struct dfm_api_config *config) {
    head(out, "deformd_build_info", "gauge", "What runs; always 1.");
    fprintf(out, "deformd_build_info{version=\"%s\",build=\"%s\",simd=\"%s\",opencl=\"%s\"} 1\n",
            config->version, config->build, config->skinners->cpu->description,
            config->skinners->opencl ? "available" : "unavailable");
}

static void print_store(FILE *out, dfm_library *library) {
    dfm_library_stats stats = dfm_library_get_stats(library);
    if (!stats.has_store)
        return;
    print_one(out, "deformd_store_up", "gauge", "1: the last call to the store went well.",
              !stats.failing);
    print_one(out, "deformd_store_loads_total", "counter", "Files that were read from the store.",
              stats.loads);
    print_one(out, "deformd_store_checks_total", "counter",
              "Looks at what the store says of an item in memory.", stats.checks);
    print_one(out, "deformd_store_puts_total", "counter", "Uploads that the store has.",
              stats.puts);
    print_one(out, "deformd_store_removes_total", "counter", "Items removed from the store.",
              stats.removes);
    print_one(out, "deformd_store_failures_total", "counter",
              "Calls to the store that failed, and files in it that were damaged.", stats.failures);
}

char *dfm_metrics_print(const struct dfm_api *api, size_t *size) {
    const dfm_api_config *config = &api->config;
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out)
        return NULL;
    dfm_gauges gauges = {0};
    if (config->read_gauges)
        config->read_gauges(config->gauges_context, &gauges);
    print_build(out, config);
    print_requests(out, api->metrics);
    print_gauges(out, &gauges);
    print_caches(out, config);
    print_store(out, api->library);
    bool good = !ferror(out);
    good &= fclose(out) == 0;
    if (good)
        return text;
    free(text);
    return NULL;
}
