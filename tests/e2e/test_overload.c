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
static uint8_t *bytes; /* of the figure */
static size_t size;

static void start(char *const *arguments) {
    daemon_hide_opencl();
    d = daemon_start(arguments);
    strcpy(heavy, upload_heavy(&d));
    dfm_arena arena = {0};
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

static bool same_frames(const reply *r) {
    for (size_t frame = 1; frame < HEAVY_POSES; frame++)
        if (memcmp(r->body, r->body + frame * HEAVY_FRAME_BYTES, HEAVY_FRAME_BYTES) != 0)
            return false;
    return r->size == (size_t)HEAVY_POSES * HEAVY_FRAME_BYTES;
}

START_TEST(full_queue_is_503_at_once_with_retry_after) {
    enum { CALLERS = 6 };
    background callers[CALLERS];
    request what = heavy_deform(heavy, HEAVY_POSES);
    for (int i = 0; i < CALLERS; i++)
        background_start(&callers[i], &d, &what);
    int served = 0, refused = 0;
    for (int i = 0; i < CALLERS; i++) {
        background_join(&callers[i]);
        reply *r = &callers[i].reply;
        if (r->status == 200) {
            ck_assert(same_frames(r));
            served++;
        } else {
            expect_status(r, 503);
            ck_assert_ptr_nonnull(reply_header(r, "Retry-After"));
            refused++;
        }
        reply_free(r);
    }
    ck_assert_int_ge(served, 1);
    ck_assert_int_ge(refused, 1);
    reply after = http_json(&d, "POST", what.path, "{}"); /* and all is well again */
    expect_status(&after, 200);
    reply_free(&after);
}
END_TEST

START_TEST(queued_past_its_deadline_is_504) {
    background first;
    request what = heavy_deform(heavy, HEAVY_POSES);
    background_start(&first, &d, &what);
    usleep(50000);
    const char *headers[] = {"Request-Timeout-Ms: 1", NULL};
    char path[128];
    snprintf(path, sizeof path, "/models/%s/deform", heavy);
    reply r = http(&d, &(request){.path = path,
                                  .content_type = "application/json",
                                  .headers = headers,
                                  .body = "{}",
                                  .size = 2});
    expect_status(&r, 504);
    reply_free(&r);
    background_join(&first);
    expect_status(&first.reply, 200);
    reply_free(&first.reply);
}
END_TEST

START_TEST(reads_and_health_do_not_wait_for_busy_workers) {
    background busy;
    request what = heavy_deform(heavy, HEAVY_POSES);
    background_start(&busy, &d, &what);
    usleep(50000);
    char path[128];
    snprintf(path, sizeof path, "/models/%s", heavy);
    static const char *const others[] = {"/livez", "/readyz", "/models", "/"};
    reply r = http_get(&d, path);
    expect_status(&r, 200);
    reply_free(&r);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        r = http_get(&d, others[i]);
        expect_status(&r, 200);
        reply_free(&r);
    }
    uint64_t answered = now_ms();
    background_join(&busy);
    expect_status(&busy.reply, 200);
    ck_assert_uint_lt(answered, busy.ended_ms);
    reply_free(&busy.reply);
}
END_TEST

START_TEST(uploads_and_changes_do_not_wait_for_busy_workers) {
    background busy;
    request what = heavy_deform(heavy, HEAVY_POSES);
    background_start(&busy, &d, &what);
    usleep(50000);
    char path[64];
    snprintf(path, sizeof path, "/models/%s", upload_bytes(&d, bytes, size, "?mode=cpu"));
    reply r = http(&d, &(request){.method = "PATCH",
                                  .path = path,
                                  .content_type = "application/json",
                                  .body = "{\"sdef\":false}",
                                  .size = 14});
    expect_status(&r, 200);
    uint64_t answered = now_ms();
    background_join(&busy);
    expect_status(&busy.reply, 200);
    ck_assert_uint_lt(answered, busy.ended_ms);
    reply_free(&r);
    reply_free(&busy.reply);
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
             "Content-Length: %zu\r\n\r\n",
             what.path, what.size);
    raw_send(fd, head);
    raw_send_bytes(fd, what.body, what.size);
}

START_TEST(slow_readers_hold_no_worker) {
    enum { READERS = 8 };
    int readers[READERS];
    for (int i = 0; i < READERS; i++) { /* each answer is far larger than the sockets' buffers */
        readers[i] = raw_connect(&d);
        send_deform(readers[i], SANITIZED ? 3 : 10);
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
        send_deform(fd, SANITIZED ? 3 : 10);
        char piece[1000];
        ck_assert_int_gt(recv(fd, piece, sizeof piece, 0), 0);
        close(fd);
    }
    /* Less than 256 MiB of the 512 would be left, had the uploads kept their buffers. What is queued
     * runs to its end first. */
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
