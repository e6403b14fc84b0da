/* What benchmarks share: a clock, order statistics, and how long one may run.
 *
 * BENCH_SECONDS (default 1) is the time for one line of a table; CI sets it low, to see that the
 * benchmarks run. */
#ifndef DFM_TESTS_BENCH_TIMING_H
#define DFM_TESTS_BENCH_TIMING_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static inline double bench_seconds(void) {
    const char *seconds = getenv("BENCH_SECONDS");
    return seconds ? atof(seconds) : 1;
}

static inline int compare_doubles(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sorts. */
static inline double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_doubles);
    return values[count / 2];
}

#endif
