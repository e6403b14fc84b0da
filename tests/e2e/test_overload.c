/* Busy, slow and vanished: what the service does when there is more work than workers. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/e2e/support.h"

static daemon_process d;
static char heavy[64]; /* id of the heavy model */
static char busy[64];  /* of the one that is turned to JSON */
static uint8_t *bytes; /* of the figure */
static size_t size;

static void start(char *const *arguments) {
    daemon_hide_opencl();
    d = daemon_start(arguments);
    strcpy(heavy, upload_heavy(&d));
    dfm_arena arena = {0};
    grid_options grid = grid_default_options(50000, 100);
    dfm_pmx sheet = model_grid(&arena, &grid);
    strcpy(busy, upload(&d, &sheet, "?mode=cpu"));
    dfm_pmx figure = model_figure(&arena);
    bytes = model_bytes(&figure, NULL, &size);
    dfm_arena_free(&arena);
}

static void tear_down(void) {
    free(bytes);
    daemon_stop(&d);
}

static void set_up_small(void) {
    start(ARGUMENTS("--workers", "1", "--queue", "1"));
}

static void set_up_wide(void) {
    start(ARGUMENTS("--workers", "1"));
}

/* --- a worker kept busy: results as JSON text take some 50 ms each --- */

enum { BURST = 20 };
static int burst[BURST];

static request busy_deform(void) {
    static char path[128];
    snprintf(path, sizeof path, "/models/%s/deform?format=json&attributes=position", busy);
    return (request){.path = path, .content_type = "application/json", .body = "{}", .size = 2};
}

static void start_burst(void) {
    char text[512];
    snprintf(text, sizeof text,
             "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             "Connection: close\r\nContent-Length: 2\r\n\r\n{}",
             busy_deform().path);
    for (int i = 0; i < BURST; i++)
        burst[i] = raw_connect(&d);
    for (int i = 0; i < BURST; i++)
        raw_send(burst[i], text);
    usleep(10000);
}

static bool burst_goes_on(void) {
    char byte;
    for (int i = 0; i < BURST; i++)
        if (recv(burst[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
            return true;
    return false;
}

/* Takes all answers; every one is whole or, where `refused` counts them, a 503. */
static int finish_burst(int *refused) {
    int served = 0;
    for (int i = 0; i < BURST; i++) {
        bool closed;
        char *text = raw_read(burst[i], 60000, &closed);
        ck_assert(closed);
        close(burst[i]);
        if (strncmp(text, "HTTP/1.1 200", 12) == 0) {
            ck_assert_str_eq(text + strlen(text) - 2, "]}");
            served++;
        } else {
            ck_assert_msg(refused && strncmp(text, "HTTP/1.1 503", 12) == 0, "%.400s", text);
            ck_assert_ptr_nonnull(strstr(text, "Retry-After: "));
            (*refused)++;
        }
        free(text);
    }
    return served;
}

START_TEST(full_queue_is_503_at_once_with_retry_after) {
    int refused = 0;
    start_burst();
    int served = finish_burst(&refused);
    ck_assert_int_ge(served, 1);
    ck_assert_int_ge(refused, 1);
    request what = busy_deform();
    reply after = http(&d, &what); /* and all is well again */
    expect_status(&after, 200);
    reply_free(&after);
}
END_TEST

START_TEST(queued_past_its_deadline_is_504) {
    start_burst();
    const char *headers[] = {"Request-Timeout-Ms: 1", NULL};
    request what = busy_deform();
    what.headers = headers;
    reply r = http(&d, &what);
    expect_status(&r, 504);
    reply_free(&r);
    ck_assert_int_eq(finish_burst(NULL), BURST);
}
END_TEST

START_TEST(reads_and_health_do_not_wait_for_busy_workers) {
    char path[128];
    snprintf(path, sizeof path, "/models/%s", heavy);
    const char *const quick[] = {path, "/livez", "/readyz", "/"};
    start_burst();
    for (size_t i = 0; i < sizeof quick / sizeof quick[0]; i++) {
        reply r = http_get(&d, quick[i]);
        expect_status(&r, 200);
        reply_free(&r);
    }
    ck_assert(burst_goes_on());
    ck_assert_int_eq(finish_burst(NULL), BURST);
}
END_TEST

START_TEST(uploads_and_changes_do_not_wait_for_busy_workers) {
    start_burst();
    char path[64];
    snprintf(path, sizeof path, "/models/%s", upload_bytes(&d, bytes, size, "?mode=cpu"));
    reply r = http_json(&d, "PATCH", path, "{\"sdef\":false}");
    expect_status(&r, 200);
    reply_free(&r);
    ck_assert(burst_goes_on());
    ck_assert_int_eq(finish_burst(NULL), BURST);
}
END_TEST

START_TEST(deforms_do_not_wait_for_an_upload) {
    dfm_arena arena = {0};
    grid_options grid = grid_default_options(400000, 50);
    grid.morph_count = 20;
    dfm_pmx model = model_grid(&arena, &grid);
    size_t large_size;
    uint8_t *large = model_bytes(&model, NULL, &large_size);
    dfm_arena_free(&arena);
    char id[64], path[128];
    strcpy(id, upload_bytes(&d, bytes, size, "?mode=cpu"));
    snprintf(path, sizeof path, "/models/%s/deform", id);
    background uploading;
    background_start(&uploading, &d,
                     &(request){.path = "/models?mode=cpu",
                                .content_type = "application/octet-stream",
                                .body = large,
                                .size = large_size});
    int served = 0;
    uint64_t longest = 0;
    for (uint64_t begun = now_ms(); now_ms() < begun + 300; served++) {
        uint64_t before = now_ms();
        reply r = http_json(&d, "POST", path, "{}");
        expect_status(&r, 200);
        reply_free(&r);
        longest = now_ms() - before > longest ? now_ms() - before : longest;
    }
    background_join(&uploading);
    expect_status(&uploading.reply, 201);
    ck_assert_int_gt(served, 1);
    /* None waited for the whole of it. */
    ck_assert_uint_lt(longest, uploading.ended_ms - uploading.started_ms + 20);
    reply_free(&uploading.reply);
    free(large);
}
END_TEST

static void send_deform(int fd, unsigned poses) {
    char head[512];
    request what = heavy_deform(heavy, poses);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             "Connection: close\r\nContent-Length: %zu\r\n\r\n",
             what.path, what.size);
    raw_send(fd, head);
    raw_send_bytes(fd, what.body, what.size);
}

START_TEST(slow_readers_hold_no_worker) {
    enum { READERS = 8 };
    int readers[READERS];
    for (int i = 0; i < READERS; i++) { /* each answer is far larger than the sockets' buffers */
        readers[i] = raw_connect_narrow(&d, 4096);
        send_deform(readers[i], 10);
    }
    char path[128];
    snprintf(path, sizeof path, "/models/%s/deform", heavy);
    for (int i = 0; i < 5; i++) {
        reply r = http_json(&d, "POST", path, "{}");
        expect_status(&r, 200);
        reply_free(&r);
    }
    for (int i = 0; i < READERS; i++) {
        bool closed;
        char *text = raw_read(readers[i], 300, &closed);
        ck_assert_msg(strncmp(text, "HTTP/1.1 200", 12) == 0, "%.100s", text);
        free(text);
        close(readers[i]);
    }
}
END_TEST

START_TEST(vanished_clients_give_their_memory_back) {
    static uint8_t part[16 << 20];
    int fd;
    for (int round = 0; round < 20; round++) {
        fd = raw_connect(&d); /* gone in the middle of its body */
        raw_send(fd, "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
        raw_send_bytes(fd, part, sizeof part);
        close(fd);
        fd = raw_connect(&d); /* gone while its request is being worked on */
        send_deform(fd, 2);
        close(fd);
        fd = raw_connect(&d); /* gone in the middle of its answer */
        send_deform(fd, 10);
        char piece[1000];
        ck_assert_int_gt(recv(fd, piece, sizeof piece, 0), 0);
        close(fd);
    }
    /* Less than 256 MiB of the 512 would be left, had the uploads kept their buffers. What is
     * queued runs to its end first. */
    bool accepted = false;
    for (uint64_t end = now_ms() + 60000; !accepted && now_ms() < end; usleep(100000)) {
        fd = raw_connect(&d);
        raw_send(fd, "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 268435456\r\n"
                     "Expect: 100-continue\r\n\r\n");
        bool closed;
        char *text = raw_read(fd, 1000, &closed);
        accepted = strncmp(text, "HTTP/1.1 100", 12) == 0;
        free(text);
        close(fd);
    }
    ck_assert(accepted);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("overload");
    TCase *small = tcase_create("small queue"), *wide = tcase_create("one worker");
    tcase_set_timeout(small, 240);
    tcase_set_timeout(wide, 240);
    tcase_add_checked_fixture(small, set_up_small, tear_down);
    tcase_add_checked_fixture(wide, set_up_wide, tear_down);
    tcase_add_test(small, full_queue_is_503_at_once_with_retry_after);
    tcase_add_test(wide, queued_past_its_deadline_is_504);
    tcase_add_test(wide, reads_and_health_do_not_wait_for_busy_workers);
    tcase_add_test(wide, uploads_and_changes_do_not_wait_for_busy_workers);
    tcase_add_test(wide, deforms_do_not_wait_for_an_upload);
    tcase_add_test(wide, slow_readers_hold_no_worker);
    tcase_add_test(wide, vanished_clients_give_their_memory_back);
    suite_add_tcase(suite, small);
    suite_add_tcase(suite, wide);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
