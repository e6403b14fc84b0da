/* A driver that ends its process does not end the daemon. The drivers here are made up: what they
 * do is what the real ones were seen to do. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/probe.h"

static const dfm_skinner_options options = {.worker_count = 1};

static dfm_status open_aborting(const dfm_skinner_options *o, dfm_skinner **s, dfm_error *e) {
    (void)o, (void)s, (void)e;
    abort();
}

static dfm_status open_exiting(const dfm_skinner_options *o, dfm_skinner **s, dfm_error *e) {
    (void)o, (void)s, (void)e;
    _exit(7);
}

static dfm_status open_hanging(const dfm_skinner_options *o, dfm_skinner **s, dfm_error *e) {
    (void)o, (void)s, (void)e;
    pause();
    return DFM_OK;
}

static dfm_status open_refusing(const dfm_skinner_options *o, dfm_skinner **s, dfm_error *e) {
    (void)o, (void)s;
    return dfm_fail(e, DFM_ERROR_UNAVAILABLE, "skinner", -1, -1, "no device");
}

static void expect_failure(dfm_status (*open)(const dfm_skinner_options *, dfm_skinner **,
                                              dfm_error *),
                           const char *words) {
    const dfm_skinner_backend backend = {.name = "made up", .open = open};
    dfm_error error;
    dfm_error_clear(&error);
    ck_assert(!dfm_probe_skinner(&backend, &options, 2000, &error));
    ck_assert_int_eq(error.status, DFM_ERROR_UNAVAILABLE);
    ck_assert_msg(strstr(error.info, words) != NULL, "%s", error.info);
}

START_TEST(driver_that_aborts_is_unavailable) {
    expect_failure(open_aborting, "signal 6");
}
END_TEST

START_TEST(driver_that_exits_is_unavailable) {
    expect_failure(open_exiting, "exit status 7");
}
END_TEST

START_TEST(driver_that_hangs_is_unavailable) {
    expect_failure(open_hanging, "within 2000 ms");
}
END_TEST

START_TEST(driver_that_says_no_comes_through) {
    const dfm_skinner_backend backend = {.name = "made up", .open = open_refusing};
    ck_assert(dfm_probe_skinner(&backend, &options, 2000, NULL));
    ck_assert(dfm_probe_skinner(&dfm_skinner_cpu, &options, 2000, NULL));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("probe");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 20);
    tcase_add_test(all, driver_that_aborts_is_unavailable);
    tcase_add_test(all, driver_that_exits_is_unavailable);
    tcase_add_test(all, driver_that_hangs_is_unavailable);
    tcase_add_test(all, driver_that_says_no_comes_through);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
