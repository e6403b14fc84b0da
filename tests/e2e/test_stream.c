/* Results of many frames, sent while they are computed: the bytes, slow and vanished readers,
 * memory, timeouts, drain.
 *
 * STREAM_FRAMES=N sets the length of the longest stream (make stream-soak). */
#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/e2e/support.h"

enum {
    VERTICES = 50000,
    BONES = 50,
    FRAME_BYTES = VERTICES * 24,
    PERIOD = 7,              /* poses that a long request repeats */
    POSE_FLOATS = BONES * 7, /* rotation and translation of each bone */
    MIB = 1 << 20
};

/* --- requests of many frames -------------------------------------------------------------------
 */

static const char *upload_sheet(const daemon_process *d) {
    dfm_arena arena = {0};
    grid_options grid = grid_default_options(VERTICES, BONES);
    dfm_pmx model = model_grid(&arena, &grid);
    const char *id = upload(d, &model, "?mode=cpu");
    dfm_arena_free(&arena);
    return id;
}

static void write_pose(float *pose, unsigned number) {
    for (unsigned bone = 0; bone < BONES; bone++, pose += 7) {
        float y = 0.01f * (float)((bone * 7 + number * 13) % 40);
        memcpy(pose, (float[7]){0, y, 0, 1, 0.1f * (float)number, 0, 0}, 7 * sizeof(float));
    }
}

/* The poses of frames 0 .. count - 1; free() it. */
static float *make_poses(unsigned count) {
    float *poses = malloc((size_t)count * POSE_FLOATS * sizeof *poses);
    for (unsigned i = 0; i < count; i++)
        write_pose(poses + (size_t)i * POSE_FLOATS, i % PERIOD);
    return poses;
}

static request deform_of(const char *id, const float *poses, unsigned count) {
    static char path[128];
    snprintf(path, sizeof path, "/models/%s/deform", id);
    return (request){.path = path,
                     .content_type = "application/x-deformd-pose",
                     .body = poses,
                     .size = (size_t)count * POSE_FLOATS * sizeof *poses};
}

/* Each of the poses that repeat, asked for by itself; free() it. */
static uint8_t *single_frames(const daemon_process *d, const char *id) {
    uint8_t *frames = malloc((size_t)PERIOD * FRAME_BYTES);
    float *poses = make_poses(PERIOD);
    for (unsigned i = 0; i < PERIOD; i++) {
        request what = deform_of(id, poses + (size_t)i * POSE_FLOATS, 1);
        reply r = http(d, &what);
        expect_status(&r, 200);
        ck_assert_uint_eq(r.size, FRAME_BYTES);
        memcpy(frames + (size_t)i * FRAME_BYTES, r.body, FRAME_BYTES);
        reply_free(&r);
    }
    free(poses);
    return frames;
}

/* --- reading with little memory ----------------------------------------------------------------
 */

/* Asks for `count` frames on a socket of its own, whose window is narrow where `slow`. */
static int ask(const daemon_process *d, const char *id, unsigned count, bool slow,
               const char *header) {
    int fd = slow ? raw_connect_narrow(d, 8192) : raw_connect(d);
    float *poses = make_poses(count);
    request what = deform_of(id, poses, count);
    char head[512];
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n",
             what.path, what.content_type, what.size, header);
    raw_send(fd, head);
    ck_assert(raw_send_bytes(fd, what.body, what.size));
    free(poses);
    return fd;
}

/* At least a byte; 0: the end, or a reset. */
static size_t read_some(int fd, void *into, size_t size) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    ck_assert_msg(poll(&wait, 1, 30000) == 1, "nothing came for 30 s");
    ssize_t got = recv(fd, into, size, 0);
    return got > 0 ? (size_t)got : 0;
}

static void expect_head(int fd, unsigned frames) {
    char head[4096], length[64];
    size_t size = 0;
    do {
        ck_assert_uint_eq(read_some(fd, head + size, 1), 1);
        head[++size] = '\0';
        ck_assert_uint_lt(size, sizeof head - 1);
    } while (size < 4 || strcmp(head + size - 4, "\r\n\r\n") != 0);
    snprintf(length, sizeof length, "Content-Length: %llu\r\n",
             (unsigned long long)frames * FRAME_BYTES);
    ck_assert_msg(strncmp(head, "HTTP/1.1 200 ", 13) == 0 && strstr(head, length), "%s", head);
}

typedef struct reading {
    int fd;
    const uint8_t *expected; /* single_frames */
    uint64_t got;
} reading;

/* Reads up to `bytes` more, and compares. False: the end came. */
static bool read_on(reading *r, uint64_t bytes) {
    static uint8_t part[MIB];
    for (uint64_t end = r->got + bytes; r->got < end;) {
        uint64_t at = r->got % ((uint64_t)PERIOD * FRAME_BYTES);
        uint64_t most = (uint64_t)PERIOD * FRAME_BYTES - at;
        if (most > end - r->got)
            most = end - r->got;
        size_t size = read_some(r->fd, part, most < sizeof part ? (size_t)most : sizeof part);
        if (size == 0)
            return false;
        ck_assert_msg(memcmp(part, r->expected + at, size) == 0, "wrong after byte %llu",
                      (unsigned long long)r->got);
        r->got += size;
    }
    return true;
}

static void expect_rest(reading *r, unsigned frames) {
    ck_assert_msg(read_on(r, (uint64_t)frames * FRAME_BYTES - r->got), "cut off at %llu",
                  (unsigned long long)r->got);
}

static daemon_process start(char *const *arguments) {
    daemon_hide_opencl();
    return daemon_start(arguments);
}

/* --- tests -------------------------------------------------------------------------------------
 */

START_TEST(stream_has_the_bytes_of_its_frames_asked_for_singly) {
    enum { FRAMES = 40 };
    daemon_process d = start(ARGUMENTS("--workers", "2"));
    const char *id = upload_sheet(&d);
    uint8_t *expected = single_frames(&d, id);
    float *poses = make_poses(FRAMES);
    request what = deform_of(id, poses, FRAMES);
    for (int round = 0; round < 3; round++) {
        reply r = http(&d, &what);
        expect_status(&r, 200);
        ck_assert_uint_eq(r.size, (size_t)FRAMES * FRAME_BYTES);
        ck_assert_str_eq(reply_header(&r, "Content-Type"), "application/octet-stream");
        ck_assert_str_eq(reply_header(&r, "Content-Length"), "48000000");
        ck_assert_str_eq(reply_header(&r, "Deformd-Frames"), "40");
        for (size_t i = 0; i < FRAMES; i++)
            ck_assert(memcmp(r.body + i * FRAME_BYTES, expected + i % PERIOD * FRAME_BYTES,
                             FRAME_BYTES) == 0);
        reply_free(&r);
    }
    free(poses);
    free(expected);
    daemon_stop(&d);
}
END_TEST

START_TEST(connection_goes_on_after_a_stream) {
    enum { FRAMES = 10 };
    daemon_process d = start(NULL);
    const char *id = upload_sheet(&d);
    uint8_t *expected = single_frames(&d, id);
    int fd = ask(&d, id, FRAMES, false, "");
    expect_head(fd, FRAMES);
    expect_rest(&(reading){.fd = fd, .expected = expected}, FRAMES);
    raw_send(fd, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    bool closed;
    char *answer = raw_read(fd, 5000, &closed);
    ck_assert_int_eq(strncmp(answer, "HTTP/1.1 200 ", 13), 0);
    free(answer);
    close(fd);
    free(expected);
    daemon_stop(&d);
}
END_TEST

/* One worker, two streams whose readers stand still: others are served as if there were none. */
START_TEST(slow_readers_hold_no_worker) {
    enum { FRAMES = 400 };
    daemon_process d = start(ARGUMENTS("--workers", "1", "--queue", "2"));
    const char *id = upload_sheet(&d);
    uint8_t *expected = single_frames(&d, id);
    reading slow[2];
    for (int i = 0; i < 2; i++) {
        slow[i] = (reading){.fd = ask(&d, id, FRAMES, true, ""), .expected = expected};
        expect_head(slow[i].fd, FRAMES);
        ck_assert(read_on(&slow[i], 10000));
    }
    float *poses = make_poses(1);
    request what = deform_of(id, poses, 1);
    for (int i = 0; i < 30; i++) {
        uint64_t begun = now_ms();
        reply r = http(&d, &what);
        expect_status(&r, 200);
        reply_free(&r);
        ck_assert_uint_lt(now_ms() - begun, 2000);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert(read_on(&slow[i], 3 * FRAME_BYTES)); /* they still have their streams */
        close(slow[i].fd);
    }
    free(poses);
    free(expected);
    daemon_stop(&d);
}
END_TEST

/* Buffers that were not given back would use up this budget many times over. */
START_TEST(vanished_readers_give_everything_back) {
    enum { FRAMES = 300 };
    daemon_process d = start(ARGUMENTS("--max-inflight-bytes", "32MiB", "--max-upload-bytes",
                                       "16MiB", "--max-pose-bytes", "16MiB"));
    const char *id = upload_sheet(&d);
    uint8_t *expected = single_frames(&d, id);
    for (unsigned i = 0; i < 40; i++) {
        reading r = {.fd = ask(&d, id, FRAMES, i % 2, ""), .expected = expected};
        if (i % 4 > 0) {
            expect_head(r.fd, FRAMES);
            ck_assert(read_on(&r, i * 100000));
        }
        close(r.fd);
    }
    int fd = ask(&d, id, FRAMES, false, "");
    expect_head(fd, FRAMES);
    expect_rest(&(reading){.fd = fd, .expected = expected}, FRAMES);
    close(fd);
    free(expected);
    daemon_stop(&d); /* which waits for requests that have not ended */
}
END_TEST

START_TEST(deadline_runs_to_the_first_byte_only) {
    enum { FRAMES = 60 };
    daemon_process d = start(NULL);
    const char *id = upload_sheet(&d);
    uint8_t *expected = single_frames(&d, id);
    reading r = {.fd = ask(&d, id, FRAMES, true, "Request-Timeout-Ms: 1000\r\n"),
                 .expected = expected};
    expect_head(r.fd, FRAMES);
    for (int i = 0; i < 15; i++) {
        ck_assert(read_on(&r, FRAME_BYTES));
        usleep(100000);
    }
    expect_rest(&r, FRAMES);
    close(r.fd);
    free(expected);
    daemon_stop(&d);
}
END_TEST

START_TEST(reader_that_stands_still_is_cut_off_and_a_slow_one_is_not) {
    enum { FRAMES = 400 };
    daemon_process d = start(ARGUMENTS("--send-timeout-ms", "1000"));
    const char *id = upload_sheet(&d);
    uint8_t *expected = single_frames(&d, id);
    reading still = {.fd = ask(&d, id, FRAMES, true, "X-Request-Id: still\r\n"),
                     .expected = expected};
    reading slow = {.fd = ask(&d, id, FRAMES, true, ""), .expected = expected};
    expect_head(still.fd, FRAMES);
    expect_head(slow.fd, FRAMES);
    for (int i = 0; i < 30; i++) {
        usleep(100000);
        ck_assert(read_on(&slow, 100000));
    }
    expect_logged(&d, "still: the client took nothing for --send-timeout-ms");
    ck_assert(!read_on(&still, (uint64_t)FRAMES * FRAME_BYTES));
    ck_assert(read_on(&slow, 5 * FRAME_BYTES));
    close(still.fd);
    close(slow.fd);
    free(expected);
    daemon_stop(&d);
}
END_TEST

START_TEST(drain_lets_streams_end) {
    enum { FRAMES = 60 };
    daemon_process d = start(NULL);
    const char *id = upload_sheet(&d);
    uint8_t *expected = single_frames(&d, id);
    reading r = {.fd = ask(&d, id, FRAMES, true, ""), .expected = expected};
    expect_head(r.fd, FRAMES);
    ck_assert(read_on(&r, FRAME_BYTES));
    kill(d.pid, SIGTERM);
    expect_logged(&d, "draining");
    expect_rest(&r, FRAMES);
    close(r.fd);
    ck_assert_int_eq(daemon_wait(&d, 10000), 0);
    unlink(d.log_path);
    free(expected);
}
END_TEST

/* Exit status 3, and not that of an abort or of a sanitizer: nothing was left behind. */
START_TEST(drain_cuts_streams_after_its_timeout) {
    enum { FRAMES = 400 };
    daemon_process d = start(ARGUMENTS("--drain-timeout-ms", "300", "--workers", "2"));
    const char *id = upload_sheet(&d);
    uint8_t *expected = single_frames(&d, id);
    reading readings[3];
    for (int i = 0; i < 3; i++) {
        readings[i] = (reading){.fd = ask(&d, id, FRAMES, true, ""), .expected = expected};
        expect_head(readings[i].fd, FRAMES);
    }
    uint64_t begun = now_ms();
    kill(d.pid, SIGTERM);
    int status = daemon_wait(&d, 10000);
    char *log = daemon_log(&d);
    ck_assert_msg(status == 1, "%d: %s", status, log);
    ck_assert_ptr_nonnull(strstr(log, "--drain-timeout-ms passed: 3 requests are cut off"));
    free(log);
    ck_assert_uint_ge(now_ms() - begun, 300);
    for (int i = 0; i < 3; i++) {
        ck_assert(!read_on(&readings[i], (uint64_t)FRAMES * FRAME_BYTES));
        close(readings[i].fd);
    }
    unlink(d.log_path);
    free(expected);
}
END_TEST

/* What a stream adds to the daemon's memory is its request's body and a few frames. */
START_TEST(memory_stays_at_a_few_frames) {
    const char *frames_text = getenv("STREAM_FRAMES");
    unsigned frames = frames_text ? (unsigned)atoi(frames_text) : 400;
    daemon_process d = start(NULL);
    const char *id = upload_sheet(&d);
    uint8_t *expected = single_frames(&d, id);
    uint64_t at_start = daemon_get_usage(&d).resident_bytes, most = 0;
    uint64_t body = (uint64_t)frames * POSE_FLOATS * sizeof(float);
    uint64_t begun = now_ms();
    reading r = {.fd = ask(&d, id, frames, false, ""), .expected = expected};
    expect_head(r.fd, frames);
    uint64_t first_byte = now_ms();
    for (unsigned i = 0; i < frames; i++) {
        ck_assert(read_on(&r, FRAME_BYTES));
        uint64_t now = i % 16 == 0 ? daemon_get_usage(&d).resident_bytes : 0;
        most = now > most ? now : most;
    }
    double seconds = (double)(now_ms() - begun) / 1000;
    close(r.fd);
    fprintf(stderr,
            "%u frames of %d vertices, %.2f GB in %.2f s (%.0f MB/s, all compared), head after "
            "%llu ms; resident %.1f MiB before, %.1f MiB at most, %.1f MiB of them the body\n",
            frames, VERTICES, (double)r.got / 1e9, seconds, (double)r.got / 1e6 / seconds,
            (unsigned long long)(first_byte - begun), (double)at_start / MIB, (double)most / MIB,
            (double)body / MIB);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    ck_assert_uint_lt(most, at_start + body + (uint64_t)24 * MIB);
#endif
    free(expected);
    daemon_stop(&d);
}
END_TEST

/* On OpenCL several frames are one launch: of a small result in one buffer, of a stream block by
 * block, with a rest that fills no batch. Runs on the CPU skinner where there is no driver. */
START_TEST(frames_that_are_launched_together_are_those_launched_singly) {
    static const unsigned counts[] = {2, 3, 5, 17, 40};
    if (SANITIZED)
        daemon_hide_opencl();
    daemon_process d = daemon_start(NULL);
    char id[64];
    dfm_arena arena = {0};
    grid_options grid = grid_default_options(VERTICES, BONES);
    dfm_pmx model = model_grid(&arena, &grid);
    strcpy(id, upload(&d, &model, "?mode=gpu"));
    dfm_arena_free(&arena);
    uint8_t *single = single_frames(&d, id);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        float *poses = make_poses(counts[i]);
        request what = deform_of(id, poses, counts[i]);
        reply r = http(&d, &what);
        expect_status(&r, 200);
        ck_assert_uint_eq(r.size, (size_t)counts[i] * FRAME_BYTES);
        for (unsigned k = 0; k < counts[i]; k++)
            ck_assert_msg(memcmp(r.body + (size_t)k * FRAME_BYTES,
                                 single + (size_t)(k % PERIOD) * FRAME_BYTES, FRAME_BYTES) == 0,
                          "frame %u of %u", k, counts[i]);
        reply_free(&r);
        free(poses);
    }
    free(single);
    daemon_stop(&d);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("stream");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, stream_has_the_bytes_of_its_frames_asked_for_singly);
    tcase_add_test(tests, frames_that_are_launched_together_are_those_launched_singly);
    tcase_add_test(tests, connection_goes_on_after_a_stream);
    tcase_add_test(tests, slow_readers_hold_no_worker);
    tcase_add_test(tests, vanished_readers_give_everything_back);
    tcase_add_test(tests, deadline_runs_to_the_first_byte_only);
    tcase_add_test(tests, reader_that_stands_still_is_cut_off_and_a_slow_one_is_not);
    tcase_add_test(tests, drain_lets_streams_end);
    tcase_add_test(tests, drain_cuts_streams_after_its_timeout);
    suite_add_tcase(suite, tests);
    TCase *memory = tcase_create("memory");
    tcase_set_timeout(memory, 600);
    tcase_add_test(memory, memory_stays_at_a_few_frames);
    suite_add_tcase(suite, memory);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
