/* Limits that clients run into together: the memory that all bodies and results share. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/support.h"

enum { UPLOAD_BYTES = 4 << 20 };

static daemon_process d;
static uint8_t *bytes; /* of the figure */
static size_t size;

static void set_up(void) {
    daemon_hide_opencl();
    d = daemon_start(
        ARGUMENTS("--workers", "1", "--max-inflight-bytes", "8MiB", "--max-upload-bytes", "4MiB"));
    expect_logged(&d, "--max-pose-bytes is 8 MiB in place of 64 MiB");
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    bytes = model_bytes(&figure, NULL, &size);
    dfm_arena_free(&arena);
}

static void tear_down(void) {
    free(bytes);
    daemon_stop(&d);
}

/* A connection whose request says that it has the largest body that is taken. */
static int begin_upload(void) {
    int fd = raw_connect(&d);
    raw_send(fd, "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 4194304\r\n"
                 "Expect: 100-continue\r\n\r\n");
    return fd;
}

static void expect_answer(int fd, const char *start) {
    bool closed;
    char *text = raw_read(fd, 500, &closed);
    ck_assert_msg(strncmp(text, start, strlen(start)) == 0, "%s", text);
    free(text);
}

static void expect_upload(long status) {
    reply r = http(&d, &(request){.path = "/models?mode=cpu",
                                  .content_type = "application/octet-stream",
                                  .body = bytes,
                                  .size = size});
    expect_status(&r, status);
    reply_free(&r);
}

START_TEST(declared_lengths_of_bodies_block_nobody) {
    enum { CLIENTS = 50 };
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = begin_upload();
        raw_send(fds[i], "x");
    }
    usleep(100000);
    expect_upload(201);
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
}
END_TEST

START_TEST(bodies_over_the_common_budget_are_503) {
    int fds[2];
    uint8_t *piece = calloc(1, UPLOAD_BYTES - 1);
    for (int i = 0; i < 2; i++) {
        fds[i] = begin_upload();
        expect_answer(fds[i], "HTTP/1.1 100");
        ck_assert(raw_send_bytes(fds[i], piece, UPLOAD_BYTES - 1));
    }
    usleep(200000);
    int refused = begin_upload(); /* before it sends anything */
    expect_answer(refused, "HTTP/1.1 503");
    close(refused);
    expect_upload(503);
    for (int i = 0; i < 2; i++) {
        raw_send(fds[i], "x"); /* those that were first are served */
        expect_answer(fds[i], "HTTP/1.1 422");
        close(fds[i]);
    }
    expect_upload(201);
    free(piece);
}
END_TEST

/* Frames and their text are in memory at the same time. With a larger body beside them they never
 * can be, whoever waits. */
START_TEST(request_that_never_fits_is_413_and_not_busy) {
    enum { VERTICES = 100000, BUDGET = 12 << 20 };
    daemon_process roomy =
        daemon_start(ARGUMENTS("--workers", "1", "--max-inflight-bytes", "12MiB"));
    dfm_arena arena = {0};
    grid_options options = grid_default_options(VERTICES, 4);
    dfm_pmx grid = model_grid(&arena, &options);
    char path[128];
    snprintf(path, sizeof path, "/models/%s/deform?format=json&attributes=position",
             upload(&roomy, &grid, "?mode=cpu"));
    dfm_arena_free(&arena);
    reply r = http_json(&roomy, "POST", path, "{}");
    expect_status(&r, 200);
    reply_free(&r);
    strcat(path, ",normal");
    r = http_json(&roomy, "POST", path, "{}");
    expect_status(&r, 413);
    ck_assert_ptr_nonnull(strstr((char *)r.body, "result-too-large"));
    ck_assert_int_eq(atol(reply_field(&r, "limit")), BUDGET);
    ck_assert_int_gt(atol(reply_field(&r, "received")), BUDGET);
    reply_free(&r);
    daemon_stop(&roomy);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("limits");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, declared_lengths_of_bodies_block_nobody);
    tcase_add_test(tests, bodies_over_the_common_budget_are_503);
    tcase_add_test(tests, request_that_never_fits_is_413_and_not_busy);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
