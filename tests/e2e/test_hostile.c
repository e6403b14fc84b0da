/* Clients that are slow on purpose, many, or send what inflates: cut off or refused, and others
 * are served meanwhile. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/e2e/support.h"

static void expect_served(const daemon_process *d) {
    reply r = http_get(d, "/readyz");
    expect_status(&r, 200);
    reply_free(&r);
}

/* Sends a text byte by byte, ten a second, over and over; returns when it is cut off. */
static uint64_t drip_until_cut(int fd, const char *text, uint64_t most_ms) {
    uint64_t begun = now_ms();
    for (size_t i = 0; now_ms() - begun < most_ms; i++) {
        if (!raw_send_bytes(fd, text + i % strlen(text), 1))
            return now_ms() - begun;
        usleep(100000);
    }
    ck_abort_msg("still open after %llu ms", (unsigned long long)most_ms);
    return 0;
}

enum { LIMIT_MS = SANITIZED ? 4000 : 1000, MOST_MS = SANITIZED ? 20000 : 5000 };
#define LIMIT_TEXT (SANITIZED ? "4000" : "1000")

START_TEST(head_that_drips_is_cut_off_wherever_it_is) {
    static const char *const begun[] = {
        "", "GET /livez HTTP/1.1\r\n", "GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" /* and then the next one drips */};
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--idle-timeout-ms", LIMIT_TEXT));
    int fd = raw_connect(&d);
    raw_send(fd, begun[_i]);
    uint64_t took_ms = drip_until_cut(fd, "abcdefg", MOST_MS);
    ck_assert_uint_ge(took_ms, LIMIT_MS / 2);
    expect_served(&d);
    close(fd);
    daemon_stop(&d);
}
END_TEST

START_TEST(body_that_drips_is_cut_off_and_its_memory_is_free) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--body-timeout-ms", LIMIT_TEXT));
    static const char *const heads[] = {"Content-Length: 100000\r\n\r\n",
                                        "Transfer-Encoding: chunked\r\n\r\n"};
    int fd = raw_connect(&d);
    raw_send(fd, "POST /models HTTP/1.1\r\nHost: x\r\n");
    raw_send(fd, heads[_i]);
    uint64_t took_ms = drip_until_cut(fd, "1\r\nx\r\n", MOST_MS);
    ck_assert_uint_ge(took_ms, LIMIT_MS / 2);
    expect_logged(&d, "--body-timeout-ms");
    expect_served(&d);
    close(fd);
    daemon_stop(&d);
}
END_TEST

START_TEST(idle_connections_are_closed_and_busy_ones_are_not) {
    daemon_hide_opencl();
    daemon_process d =
        daemon_start(ARGUMENTS("--workers", "1", "--idle-timeout-ms", LIMIT_TEXT,
                               "--body-timeout-ms", LIMIT_TEXT, "--send-timeout-ms", "60000"));
    bool closed;
    int idle = raw_connect(&d);
    char *text = raw_read(idle, MOST_MS, &closed);
    ck_assert(closed);
    ck_assert_uint_eq(strlen(text), 0);
    free(text);
    close(idle);
    /* An answer that takes longer to send than either timeout is not cut. */
    char head[512];
    request what = heavy_deform(upload_heavy(&d), HEAVY_POSES);
    int slow = raw_connect_narrow(&d, 4096);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             "Connection: close\r\nContent-Length: %zu\r\n\r\n",
             what.path, what.size);
    raw_send(slow, head);
    raw_send_bytes(slow, what.body, what.size);
    usleep(3 * LIMIT_MS * 1000);
    expect_served(&d);
    size_t have = 0;
    char *answer = malloc(1 << 16);
    for (ssize_t got; (got = read(slow, answer, 1 << 16)) > 0;)
        have += (size_t)got;
    ck_assert_uint_gt(have, (size_t)HEAVY_POSES * HEAVY_FRAME_BYTES);
    free(answer);
    close(slow);
    daemon_stop(&d);
}
END_TEST

START_TEST(a_hundred_half_open_uploads_hold_nobody_up) {
    enum { CLIENTS = 100 };
    daemon_hide_opencl();
    daemon_process d = daemon_start(NULL);
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = raw_connect(&d);
        raw_send(fds[i],
                 "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\nPmx");
    }
    uint64_t resident = daemon_get_usage(&d).resident_bytes;
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    char path[96];
    snprintf(path, sizeof path, "/models/%s/deform", upload(&d, &figure, "?mode=cpu"));
    dfm_arena_free(&arena);
    reply r = http_json(&d, "POST", path, "{}");
    expect_status(&r, 200);
    reply_free(&r);
    if (!SANITIZED)
        ck_assert_uint_lt(resident, 128u << 20);
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    daemon_stop(&d);
}
END_TEST

START_TEST(connections_of_one_address_are_limited) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--max-connections-per-address", "3"));
    int fds[4];
    bool closed;
    for (int i = 0; i < 4; i++)
        fds[i] = raw_connect(&d);
    for (int i = 0; i < 3; i++) {
        raw_send(fds[i], "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
        char *text = raw_read(fds[i], 500, &closed);
        ck_assert_msg(strncmp(text, "HTTP/1.1 200", 12) == 0, "%s", text);
        free(text);
    }
    char *text = raw_read(fds[3], 2000, &closed);
    ck_assert(closed && !text[0]);
    free(text);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    daemon_stop(&d);
}
END_TEST

static size_t pack(const void *bytes, size_t size, uint8_t *out, size_t room) {
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)bytes,
                  .avail_in = (unsigned)size,
                  .next_out = out,
                  .avail_out = (unsigned)room};
    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static reply send_gzip(const daemon_process *d, const char *path, const void *bytes, size_t size) {
    static const char *const headers[] = {"Content-Encoding: gzip", NULL};
    return http(d, &(request){.path = path, .headers = headers, .body = bytes, .size = size});
}

START_TEST(gzip_uploads_are_what_they_inflate_to) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(NULL);
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    size_t size;
    uint8_t *bytes = model_bytes(&figure, NULL, &size), *packed = malloc(size);
    dfm_arena_free(&arena);
    size_t packed_size = pack(bytes, size, packed, size);
    reply r = send_gzip(&d, "/models?mode=cpu", packed, packed_size);
    expect_status(&r, 201);
    char id[64], path[96];
    snprintf(id, sizeof id, "%s", reply_field(&r, "id"));
    reply_free(&r);
    r = http(&d, &(request){.path = "/models", .body = bytes, .size = size});
    expect_status(&r, 200); /* the same file, the same id */
    ck_assert_str_eq(reply_field(&r, "id"), id);
    reply_free(&r);
    snprintf(path, sizeof path, "/models/%s/deform", id);
    uint8_t pose[256];
    size_t pose_size = pack("{\"bones\":{}}", 12, pose, sizeof pose);
    r = send_gzip(&d, path, pose, pose_size);
    expect_status(&r, 200);
    reply_free(&r);
    r = send_gzip(&d, "/models", packed, packed_size / 2);
    expect_status(&r, 400);
    ck_assert_ptr_nonnull(strstr((char *)r.body, "cut off"));
    reply_free(&r);
    r = send_gzip(&d, "/models", bytes, size);
    expect_status(&r, 400);
    reply_free(&r);
    free(packed);
    free(bytes);
    daemon_stop(&d);
}
END_TEST

START_TEST(gzip_bomb_is_413_and_stops_at_the_limit) {
    enum { BOMB = 100 << 20 };
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--max-upload-bytes", "4MiB"));
    uint8_t *zeros = calloc(BOMB, 1), *packed = malloc(BOMB / 500);
    size_t size = pack(zeros, BOMB, packed, BOMB / 500);
    free(zeros);
    uint64_t before = daemon_get_usage(&d).resident_bytes;
    for (int i = 0; i < 5; i++) {
        reply r = send_gzip(&d, "/models", packed, size);
        expect_status(&r, 413);
        ck_assert_int_eq(atol(reply_field(&r, "limit")), 4 << 20);
        reply_free(&r);
    }
    if (!SANITIZED)
        ck_assert_uint_lt(daemon_get_usage(&d).resident_bytes, before + (16u << 20));
    free(packed);
    daemon_stop(&d);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("hostile");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, head_that_drips_is_cut_off_wherever_it_is, 0, 4);
    tcase_add_loop_test(tests, body_that_drips_is_cut_off_and_its_memory_is_free, 0, 2);
    tcase_add_test(tests, idle_connections_are_closed_and_busy_ones_are_not);
    tcase_add_test(tests, a_hundred_half_open_uploads_hold_nobody_up);
    tcase_add_test(tests, connections_of_one_address_are_limited);
    tcase_add_test(tests, gzip_uploads_are_what_they_inflate_to);
    tcase_add_test(tests, gzip_bomb_is_413_and_stops_at_the_limit);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
