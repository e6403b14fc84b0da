/* A load generator: connections that send one request over and over and compare every answer,
 * byte for byte, with the first. One thread, epoll, keep-alive, closed loop. Where refusals (503)
 * are expected, a refused connection asks again after a moment. */
#ifndef DFM_TESTS_E2E_SUPPORT_LOAD_H
#define DFM_TESTS_E2E_SUPPORT_LOAD_H

#include "tests/e2e/support.h"

typedef struct load_options {
    const daemon_process *daemon;
    const char *path; /* of a POST */
    const char *json; /* its body */
    unsigned connections;
    double warm_seconds, seconds; /* figures are of `seconds`; what came before warms up */
    double retry_seconds;         /* after a refusal; 0: a refusal is an error */
} load_options;

typedef struct load_result {
    uint64_t requests, errors; /* answers that were not 200 with the first answer's bytes */
    char first_error[256];
    double seconds, requests_per_second;
    double median_ms, p99_ms, max_ms; /* of what was served */
    uint64_t refusals;
    double refusal_p99_ms, refusal_max_ms;
    size_t answer_bytes;
    double faults_per_request;                         /* minor page faults of the daemon */
    uint64_t rss_first, rss_last, rss_least, rss_most; /* bytes, sampled ten times a second */
} load_result;

load_result load_run(const load_options *options);
void load_print(const load_result *result);

#endif
