/* Frames that a gpu model is asked for together are one run of its skinner, so one launch: how many
 * runs there are, how large they are, and that their frames are those asked for singly. */
#include "tests/data/models.h"
#include "tests/support_api.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS_MAX = 64, VERTICES = 2000, BONES = 20, FRAME_BYTES = VERTICES * 24 };

static api_house house;
static char id[DFM_ID_DIGITS + 1], path[128];
static unsigned far_pose; /* leaves the range of single precision */

/* --- a skinner that counts -------------------------------------------------------------------- */

static dfm_skinner *skinner; /* what `counting` stands in front of */
static dfm_skinner_backend counting;
static const dfm_skinner_backend *counted;
static size_t runs, run_jobs[RUNS_MAX];
static uint32_t run_takes_ms;
static size_t failing_run; /* the run of a request that fails, from 1; 0: none */
static bool binds_fail;

static dfm_status count_run(dfm_skinner *self, dfm_skin_binding *binding, uint32_t worker,
                            const dfm_skin_job *jobs, size_t job_count, dfm_error *error) {
    ck_assert_uint_lt(runs, RUNS_MAX);
    run_jobs[runs++] = job_count;
    if (runs == failing_run)
        return dfm_fail(error, DFM_ERROR_BACKEND, "opencl", -1, -1, "the device is gone");
    nanosleep(&(struct timespec){.tv_nsec = run_takes_ms * 1000000L}, NULL);
    return counted->run(self, binding, worker, jobs, job_count, error);
}

static dfm_status bind_or_fail(dfm_skinner *self, const dfm_skin_bind *data,
                               dfm_skin_binding **binding, dfm_error *error) {
    if (!binds_fail)
        return counted->bind(self, data, binding, error);
    *binding = NULL;
    return dfm_fail(error, DFM_ERROR_BACKEND, "opencl", -1, -1, "the device is full");
}

/* OpenCL where there is a driver, else the CPU skinner in its place: who asks for what is the same.
 */
static void open_counting(void) {
    const dfm_skinner_options options = {.worker_count = 2};
    dfm_error error = {0};
    counted = &dfm_skinner_opencl;
    if (dfm_skinner_open(counted, &options, &skinner, &error) != DFM_OK) {
        printf("SKIPPED: batches on OpenCL, the CPU skinner stands in (%s)\n", error.info);
        counted = &dfm_skinner_cpu;
        ck_assert_int_eq(dfm_skinner_open(counted, &options, &skinner, NULL), DFM_OK);
    }
    counting = *counted;
    counting.batches = true;
    counting.run = count_run;
    counting.bind = bind_or_fail;
    skinner->backend = &counting;
    house.skinners.opencl = skinner;
}

/* --- what is asked for ------------------------------------------------------------------------ */

static dfm_arena arena;
static dfm_pmx grid;

static void use_grid(uint32_t vertex_count) {
    grid_options options = grid_default_options(vertex_count, BONES);
    grid = model_grid(&arena, &options);
    size_t size;
    uint8_t *bytes = model_bytes(&grid, NULL, &size);
    api_upload(&house, bytes, size, id);
    snprintf(path, sizeof path, "/models/%s/deform", id);
    free(bytes);
}

static void setup(void) {
    binds_fail = false;
    api_house_open(&house, 0);
    open_counting();
    use_grid(VERTICES);
    runs = 0;
    run_takes_ms = 0;
    failing_run = 0;
    far_pose = UINT_MAX;
}

static void teardown(void) {
    dfm_arena_free(&arena);
    api_house_close(&house);
    dfm_skinner_close(skinner);
}

static api_answer deform(const char *query, const char *body, const char *timeout_ms) {
    runs = 0;
    return api_send(&house, &(api_ask){.method = DFM_METHOD_POST,
                                       .path = path,
                                       .query = query,
                                       .headers = {.request_timeout_ms = timeout_ms},
                                       .body = body});
}

enum { POSE_BYTES = 1024 };

/* Pose i turns and moves bone 0 by an amount of its own. */
static int print_pose(char *to, unsigned i) {
    if (i == far_pose) {
        int length = sprintf(to, "{\"bones\":{");
        for (int bone = 0; bone < BONES; bone++)
            length += sprintf(to + length, "%s\"#%d\":{\"translation\":[1e18,0,0]}",
                              bone ? "," : "", bone);
        return length + sprintf(to + length, "}}");
    }
    return sprintf(to, "{\"bones\":{\"#0\":{\"rotation\":[0,0,%u,100],\"translation\":[%u,0,1]}}}",
                   i % 90, i % 7);
}

static char *poses_body(unsigned count) {
    char *body = malloc(POSE_BYTES * ((size_t)count + 1));
    ck_assert_ptr_nonnull(body);
    char *at = body + sprintf(body, "{\"poses\":[");
    for (unsigned i = 0; i < count; i++) {
        if (i > 0)
            *at++ = ',';
        at += print_pose(at, i);
    }
    strcpy(at, "]}");
    return body;
}

static void expect_single(const char *query, const char *body, const char *frame, size_t bytes) {
    api_answer single = deform(query, body, NULL);
    ck_assert_uint_eq(runs, 1);
    ck_assert_uint_eq(run_jobs[0], 1);
    ck_assert_uint_eq(single.body_bytes, bytes);
    ck_assert_msg(memcmp(single.body, frame, bytes) == 0, "another frame than %s alone", body);
    api_answer_free(&single);
}

static void expect_single_pose(const char *query, unsigned i, const char *frame, size_t bytes) {
    char body[POSE_BYTES];
    print_pose(body, i);
    expect_single(query, body, frame, bytes);
}

/* --- tests ------------------------------------------------------------------------------------ */

static const char *const queries[] = {NULL,
                                      "components=f16",
                                      "layout=planar",
                                      "attributes=position",
                                      "attributes=position,uv,normal",
                                      "attributes=normal,position&components=f16&layout=planar"};

START_TEST(poses_of_a_request_are_a_launch_for_each_sixteen) {
    const char *query = queries[_i];
    enum { COUNT = 35 };
    char *body = poses_body(COUNT);
    api_answer answer = deform(query, body, NULL);
    ck_assert_msg(answer.status == 200, "%s", answer.body);
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "35");
    ck_assert_uint_eq(runs, 3);
    ck_assert_uint_eq(run_jobs[0], DFM_DEFORM_BATCH_MAX);
    ck_assert_uint_eq(run_jobs[1], DFM_DEFORM_BATCH_MAX);
    ck_assert_uint_eq(run_jobs[2], 3);
    size_t bytes = answer.body_bytes / COUNT;
    for (unsigned i = 0; i < COUNT; i++)
        expect_single_pose(query, i, answer.body + i * bytes, bytes);
    api_answer_free(&answer);
    free(body);
}
END_TEST

/* Whoever renders which block: a launch each, and every frame in its place. */
START_TEST(blocks_of_a_stream_are_a_launch_each) {
    enum { COUNT = 100 };
    char *body = poses_body(COUNT);
    api_answer answer = deform(NULL, body, NULL);
    ck_assert_int_eq(answer.status, 200);
    ck_assert(answer.streamed);
    ck_assert_str_eq(answer.cut, "");
    ck_assert_uint_eq(answer.body_bytes, (size_t)COUNT * FRAME_BYTES);
    ck_assert_uint_eq(runs, (COUNT + DFM_DEFORM_BATCH_MAX - 1) / DFM_DEFORM_BATCH_MAX);
    ck_assert_uint_eq(runs, answer.block_count + 1); /* the head's too */
    for (unsigned i = 0; i < COUNT; i++)
        expect_single_pose(NULL, i, answer.body + (size_t)i * FRAME_BYTES, FRAME_BYTES);
    api_answer_free(&answer);
    free(body);
}
END_TEST

START_TEST(frames_of_a_motion_are_launched_together) {
    char motion[DFM_ID_DIGITS + 1], body[128];
    size_t size;
    uint8_t *bytes = motion_bytes(&grid, 30, &size);
    api_upload_motion(&house, bytes, size, motion);
    free(bytes);
    snprintf(body, sizeof body, "{\"motion\":\"%s\",\"frames\":{\"start\":0,\"end\":199}}", motion);
    api_answer answer = deform(NULL, body, NULL);
    ck_assert_msg(answer.status == 200, "%s", answer.body);
    ck_assert(answer.streamed);
    ck_assert_uint_eq(answer.body_bytes, (size_t)200 * FRAME_BYTES);
    ck_assert_uint_eq(runs, 13);
    for (unsigned i = 0; i < 200; i += 9) {
        snprintf(body, sizeof body, "{\"motion\":\"%s\",\"frames\":[%u]}", motion, i);
        expect_single(NULL, body, answer.body + (size_t)i * FRAME_BYTES, FRAME_BYTES);
    }
    api_answer_free(&answer);
}
END_TEST

/* A launch's frames are a few megabytes, whatever a frame is; and at least one. */
START_TEST(large_frames_are_launched_in_smaller_numbers) {
    static const struct {
        uint32_t vertices;
        size_t together;
    } sizes[] = {{20000, 8}, {60000, 2}, {200000, 1}};
    use_grid(sizes[_i].vertices);
    char *body = poses_body(17);
    api_answer answer = deform(NULL, body, NULL);
    ck_assert_int_eq(answer.status, 200);
    ck_assert_uint_eq(answer.body_bytes, (size_t)17 * 24 * sizes[_i].vertices);
    ck_assert_uint_eq(runs, (17 + sizes[_i].together - 1) / sizes[_i].together);
    for (size_t i = 0; i < runs; i++)
        ck_assert_uint_le(run_jobs[i], sizes[_i].together);
    api_answer_free(&answer);
    free(body);
}
END_TEST

START_TEST(a_deadline_that_passes_in_a_launch_leaves_the_next_undone) {
    char *body = poses_body(48);
    run_takes_ms = 400;
    api_answer answer = deform(NULL, body, "300");
    ck_assert_int_eq(answer.status, 504);
    ck_assert_uint_le(runs, 1); /* 0: a machine so busy that the first came too late */
    api_answer_free(&answer);
    free(body);
}
END_TEST

START_TEST(a_pose_that_fails_among_others_is_named) {
    far_pose = 21;
    char *body = poses_body(40);
    api_answer answer = deform(NULL, body, NULL);
    ck_assert_int_eq(answer.status, 422);
    ck_assert_str_eq(api_problem(&answer), "invalid-pose");
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(answer.json, "item");
    ck_assert_msg(cJSON_IsNumber(item) && item->valueint == 21, "%s", answer.body);
    ck_assert_uint_eq(runs, 1); /* of the 16 before its own */
    api_answer_free(&answer);
    free(body);
}
END_TEST

/* --- a device that fails ---------------------------------------------------------------------- */

static void expect_failures(unsigned count) {
    char line[64];
    snprintf(line, sizeof line, "\ndeformd_backend_failures_total %u\n", count);
    api_answer answer = api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = "/metrics"});
    ck_assert_msg(strstr(answer.body, line), "no %s", line);
    api_answer_free(&answer);
}

START_TEST(a_launch_that_fails_is_told_and_counted) {
    char *body = poses_body(20);
    expect_failures(0);
    failing_run = 2;
    api_answer answer = deform(NULL, body, NULL);
    ck_assert_int_eq(answer.status, 503);
    ck_assert_str_eq(api_problem(&answer), "backend-failed");
    ck_assert_ptr_nonnull(api_header(&answer, "Retry-After"));
    ck_assert_ptr_nonnull(strstr(api_string(&answer, "detail"), "the device is gone"));
    api_answer_free(&answer);
    expect_failures(1);
    failing_run = 0;
    answer = deform(NULL, body, NULL);
    ck_assert_int_eq(answer.status, 200);
    api_answer_free(&answer);
    expect_failures(1);
    free(body);
}
END_TEST

START_TEST(a_launch_that_fails_cuts_its_stream) {
    char *body = poses_body(100);
    failing_run = 3;
    api_answer answer = deform(NULL, body, NULL);
    ck_assert_int_eq(answer.status, 200);
    ck_assert(answer.streamed);
    ck_assert_msg(strstr(answer.cut, "the device is gone"), "%s", answer.cut);
    api_answer_free(&answer);
    expect_failures(1);
    free(body);
}
END_TEST

START_TEST(an_upload_to_a_device_that_fails_is_told_and_counted) {
    size_t size;
    grid_options options = grid_default_options(50, 2);
    dfm_pmx other = model_grid(&arena, &options);
    uint8_t *bytes = model_bytes(&other, NULL, &size);
    const api_ask ask = {
        .method = DFM_METHOD_POST, .path = "/models", .body = bytes, .body_bytes = size};
    binds_fail = true;
    api_answer answer = api_send(&house, &ask);
    ck_assert_int_eq(answer.status, 503);
    ck_assert_str_eq(api_problem(&answer), "backend-failed");
    api_answer_free(&answer);
    expect_failures(1);
    binds_fail = false;
    answer = api_send(&house, &ask);
    ck_assert_int_eq(answer.status, 201);
    api_answer_free(&answer);
    free(bytes);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("batches");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120); /* a driver may compile, on a busy machine */
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, poses_of_a_request_are_a_launch_for_each_sixteen, 0,
                        sizeof queries / sizeof *queries);
    tcase_add_test(tests, blocks_of_a_stream_are_a_launch_each);
    tcase_add_test(tests, frames_of_a_motion_are_launched_together);
    tcase_add_loop_test(tests, large_frames_are_launched_in_smaller_numbers, 0, 3);
    tcase_add_test(tests, a_deadline_that_passes_in_a_launch_leaves_the_next_undone);
    tcase_add_test(tests, a_pose_that_fails_among_others_is_named);
    tcase_add_test(tests, a_launch_that_fails_is_told_and_counted);
    tcase_add_test(tests, a_launch_that_fails_cuts_its_stream);
    tcase_add_test(tests, an_upload_to_a_device_that_fails_is_told_and_counted);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
