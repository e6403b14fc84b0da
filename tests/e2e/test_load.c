/* Many connections at once: right answers only, flat memory, and settings that change meanwhile. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/support_load.h"

static const char pose[] =
    "{\"bones\":{\"#1\":{\"rotation\":[0,0,0.5,0.866]},\"#3\":{\"rotation\":[0.3,0,0,0.95]},"
    "\"#11\":{\"rotation\":[0,0.7,0,0.7],\"translation\":[0.1,0.2,0.3]}}}";

static daemon_process d;
static char id[64];

static void upload_grid(const char *query) {
    dfm_arena arena = {0};
    grid_options grid = grid_default_options(30000, 100);
    dfm_pmx model = model_grid(&arena, &grid);
    strcpy(id, upload(&d, &model, query));
    dfm_arena_free(&arena);
}

START_TEST(load_of_64_connections_is_served_without_error_or_page_fault) {
    daemon_hide_opencl();
    d = daemon_start(ARGUMENTS("--log-level", "warn"));
    upload_grid("?mode=cpu");
    char path[128];
    snprintf(path, sizeof path, "/models/%s/deform", id);
    load_result r;
    int round = 0;
    do { /* on a busy machine the first seconds are not the steady state yet */
        r = load_run(&(load_options){.daemon = &d,
                                     .path = path,
                                     .json = pose,
                                     .connections = 64,
                                     .warm_seconds = 1,
                                     .seconds = 2});
        load_print(&r);
        ck_assert_msg(r.errors == 0, "%llu errors: %s", (unsigned long long)r.errors,
                      r.first_error);
        ck_assert_uint_gt(r.requests, SANITIZED ? 0 : 64);
    } while (!SANITIZED && r.faults_per_request >= 0.01 && ++round < 4);
    ck_assert_uint_eq(r.answer_bytes, 30000 * 24);
    if (!SANITIZED) {
        ck_assert_double_lt(r.faults_per_request, 0.01);
        ck_assert_uint_lt(r.rss_most - r.rss_least, 1 << 20);
    }
    daemon_stop(&d);
}
END_TEST

/* The answers that are right under one of the settings; the same request on the same skinner gives
 * the same bytes. */
static reply right[4];
static atomic_bool done;
static atomic_uint wrong, served;

static void *deform_all_the_time(void *unused) {
    (void)unused;
    char path[128];
    snprintf(path, sizeof path, "/models/%s/deform", id);
    while (!atomic_load(&done)) {
        reply r = http_json(&d, "POST", path, pose);
        bool known = false;
        for (size_t i = 0; i < 4; i++)
            known |= r.status == 200 && r.size == right[i].size &&
                     memcmp(r.body, right[i].body, r.size) == 0;
        atomic_fetch_add(known ? &served : &wrong, 1);
        if (!known)
            fprintf(stderr, "status %ld, %zu bytes, skinner %.20s\n", r.status, r.size,
                    strstr(r.headers, "Skinner") ? strstr(r.headers, "Skinner") : "?");
        reply_free(&r);
    }
    return NULL;
}

static void set(const char *json) {
    char path[128];
    snprintf(path, sizeof path, "/models/%s", id);
    reply r = http_json(&d, "PATCH", path, json);
    expect_status(&r, 200);
    reply_free(&r);
}

static const char *const settings[4] = {
    "{\"mode\":\"cpu\",\"sdef\":true}", "{\"mode\":\"cpu\",\"sdef\":false}",
    "{\"mode\":\"gpu\",\"sdef\":true}", "{\"mode\":\"gpu\",\"sdef\":false}"};

/* With OpenCL where there is a driver (not in sanitizer builds), without it otherwise. */
START_TEST(settings_change_under_load_and_every_answer_is_right) {
    enum { CONNECTIONS = 8, CHANGES = 60 };
    if (SANITIZED)
        daemon_hide_opencl();
    d = daemon_start(NULL);
    upload_grid("?mode=cpu");
    char path[128];
    snprintf(path, sizeof path, "/models/%s/deform", id);
    for (int i = 0; i < 4; i++) {
        set(settings[i]);
        right[i] = http_json(&d, "POST", path, pose);
        expect_status(&right[i], 200);
    }
    ck_assert_int_ne(memcmp(right[0].body, right[1].body, right[0].size), 0); /* sdef shows */
    pthread_t threads[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, deform_all_the_time, NULL), 0);
    for (int i = 0; i < CHANGES; i++) {
        set(settings[(i * 3 + i / 4) % 4]);
        usleep(10000);
    }
    atomic_store(&done, true);
    for (int i = 0; i < CONNECTIONS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(atomic_load(&wrong), 0);
    ck_assert_uint_gt(atomic_load(&served), CHANGES);
    for (int i = 0; i < 4; i++)
        reply_free(&right[i]);
    daemon_stop(&d);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("load");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, load_of_64_connections_is_served_without_error_or_page_fault);
    tcase_add_test(tests, settings_change_under_load_and_every_answer_is_right);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
