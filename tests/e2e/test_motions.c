/* Motions over real HTTP: upload, match, frames as a stream, point caches, VPD; and the public
 * motions of ../shared/reference against two other solvers. */
#include <check.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/support.h"
#include "tests/support_reference.h"
#include "tests/support_vmd.h"

#define CENTRE "\x83\x5a\x83\x93\x83\x5e\x81\x5b" /* センター, CP932 */

static daemon_process d;
static char model[64], motion[64], deform_path[128];
static vmd_writer file;
static uint32_t vertex_count;

/* The figure sways for 100 frames. */
static void make_motion(void) {
    static const float left[3] = {-2, 0, 0}, right[3] = {2, -1, 0}, no_turn[4] = {0, 0, 0, 1};
    vmd_begin(&file);
    vmd_section(&file);
    for (uint32_t frame = 0; frame <= 100; frame += 20)
        vmd_bone(&file, CENTRE, frame, frame % 40 ? left : right, no_turn, NULL);
    vmd_bone(&file, "nobody", 0, left, no_turn, NULL);
}

static reply post(const char *path, const char *type, const void *body, size_t size) {
    return http(&d, &(request){.path = path, .content_type = type, .body = body, .size = size});
}

static void set_up(void) {
    daemon_hide_opencl();
    d = daemon_start(ARGUMENTS("--workers", "2"));
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    vertex_count = figure.vertices.count;
    snprintf(model, sizeof model, "%s", upload(&d, &figure, "?mode=cpu"));
    dfm_arena_free(&arena);
    snprintf(deform_path, sizeof deform_path, "/models/%s/deform", model);
    make_motion();
    reply r = post("/motions", "application/octet-stream", file.bytes, file.size);
    expect_status(&r, 201);
    snprintf(motion, sizeof motion, "%s", reply_field(&r, "id"));
    reply_free(&r);
}

static void tear_down(void) {
    daemon_stop(&d);
}

static reply play(const char *query, const char *rest) {
    char path[256], body[512];
    snprintf(path, sizeof path, "%s%s", deform_path, query);
    snprintf(body, sizeof body, "{\"motion\":\"%s\"%s}", motion, rest);
    reply r = http_json(&d, "POST", path, body);
    expect_status(&r, 200);
    return r;
}

START_TEST(motion_is_uploaded_listed_matched_and_deleted) {
    char path[160];
    reply r = http(
        &d,
        &(request){.path = "/motions", .body = file.bytes, .size = file.size, .multipart = true});
    expect_status(&r, 200);
    ck_assert_str_eq(reply_field(&r, "id"), motion);
    ck_assert_str_eq(reply_field(&r, "last_frame"), "100");
    reply_free(&r);
    r = http(&d, &(request){.path = "/motions",
                            .content_type = "application/octet-stream",
                            .body = file.bytes,
                            .size = file.size,
                            .chunked = true});
    expect_status(&r, 200);
    reply_free(&r);
    r = http_get(&d, "/v1/motions");
    expect_status(&r, 200);
    ck_assert_ptr_nonnull(strstr((char *)r.body, motion));
    reply_free(&r);
    snprintf(path, sizeof path, "/motions/%s/match?model=%s", motion, model);
    r = http_get(&d, path);
    expect_status(&r, 200);
    ck_assert_str_eq(reply_field(&r, "unmatched"), "1");
    reply_free(&r);
    snprintf(path, sizeof path, "/motions/%s", motion);
    r = http(&d, &(request){.method = "HEAD", .path = path});
    expect_status(&r, 200);
    reply_free(&r);
    r = http(&d, &(request){.method = "DELETE", .path = path});
    expect_status(&r, 204);
    reply_free(&r);
    r = http(&d, &(request){.method = "HEAD", .path = path});
    expect_status(&r, 404);
    reply_free(&r);
}
END_TEST

START_TEST(stream_has_its_length_and_the_frames_of_single_requests) {
    size_t frame_bytes = (size_t)vertex_count * 24;
    char length[32];
    snprintf(length, sizeof length, "%zu", 101 * frame_bytes);
    reply all = play("", "");
    ck_assert_str_eq(reply_header(&all, "Content-Length"), length);
    ck_assert_str_eq(reply_header(&all, "Deformd-Frames"), "101");
    ck_assert_str_eq(reply_header(&all, "Deformd-Unmatched"), "1");
    ck_assert_uint_eq(all.size, 101 * frame_bytes);
    for (int frame = 0; frame <= 100; frame += 9) {
        char rest[64];
        snprintf(rest, sizeof rest, ",\"frames\":[%d]", frame);
        reply one = play("", rest);
        ck_assert_uint_eq(one.size, frame_bytes);
        ck_assert_msg(memcmp(one.body, all.body + (size_t)frame * frame_bytes, frame_bytes) == 0,
                      "frame %d", frame);
        reply_free(&one);
    }
    reply_free(&all);
}
END_TEST

/* Streams that run at the same time share the workers, and what they give is the same. */
START_TEST(streams_side_by_side_have_the_same_bytes) {
    enum { STREAMS = 4 };
    char body[128];
    background streams[STREAMS];
    snprintf(body, sizeof body, "{\"motion\":\"%s\"}", motion);
    request what = {.path = deform_path,
                    .content_type = "application/json",
                    .body = body,
                    .size = strlen(body)};
    for (int i = 0; i < STREAMS; i++)
        background_start(&streams[i], &d, &what);
    for (int i = 0; i < STREAMS; i++) {
        background_join(&streams[i]);
        expect_status(&streams[i].reply, 200);
        ck_assert_uint_eq(streams[i].reply.size, (size_t)101 * vertex_count * 24);
        ck_assert_int_eq(
            memcmp(streams[i].reply.body, streams[0].reply.body, streams[0].reply.size), 0);
    }
    for (int i = 0; i < STREAMS; i++)
        reply_free(&streams[i].reply);
}
END_TEST

START_TEST(point_caches_are_streamed_whole) {
    reply raw = play("?attributes=position", ""), pc2 = play("?format=pc2", "");
    reply mdd = play("?format=mdd", "");
    ck_assert_str_eq(reply_header(&pc2, "Content-Type"), "application/x-pc2");
    ck_assert_uint_eq(pc2.size, 32 + raw.size);
    ck_assert_mem_eq(pc2.body, "POINTCACHE2", 12);
    ck_assert_int_eq(memcmp(pc2.body + 32, raw.body, raw.size), 0);
    ck_assert_str_eq(reply_header(&mdd, "Content-Type"), "application/x-mdd");
    ck_assert_uint_eq(mdd.size, 8 + 4 * 101 + raw.size);
    const uint8_t *first = mdd.body + 8 + 4 * 101;
    for (size_t i = 0; i < raw.size; i++)
        ck_assert_uint_eq(first[i], raw.body[i ^ 3]);
    reply_free(&raw);
    reply_free(&pc2);
    reply_free(&mdd);
}
END_TEST

START_TEST(vpd_file_is_a_body) {
    static const char vpd[] = "Vocaloid Pose Data file\r\n\r\nfigure.osm;\r\n1;\r\n\r\n"
                              "Bone0{" CENTRE "\r\n  2,-1,0;\r\n  0,0,0,1;\r\n}\r\n";
    reply posed = post(deform_path, "text/x-vpd", vpd, sizeof vpd - 1);
    expect_status(&posed, 200);
    reply played = play("", ",\"frames\":[40]");
    ck_assert_uint_eq(posed.size, played.size);
    reply_free(&played);
    played = play("", ",\"frames\":[0]");
    ck_assert_int_eq(memcmp(posed.body, played.body, posed.size), 0);
    reply_free(&posed);
    reply_free(&played);
    posed = post(deform_path, "text/x-vpd", "Bone0{", 6);
    expect_status(&posed, 422);
    reply_free(&posed);
}
END_TEST

START_TEST(result_over_the_limit_is_refused_up_front) {
    daemon_stop(&d);
    d = daemon_start(ARGUMENTS("--workers", "1", "--max-result-bytes", "8MiB",
                               "--max-inflight-bytes", "300MiB"));
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    upload(&d, &figure, "?mode=cpu");
    dfm_arena_free(&arena);
    reply r = post("/motions", NULL, file.bytes, file.size);
    expect_status(&r, 201);
    reply_free(&r);
    char body[128];
    snprintf(body, sizeof body, "{\"motion\":\"%s\"}", motion);
    r = http_json(&d, "POST", deform_path, body);
    expect_status(&r, 413);
    ck_assert_str_eq(reply_field(&r, "limit"), "8388608");
    reply_free(&r);
}
END_TEST

/* --- public motions ----------------------------------------------------------------------------
 */

static void upload_reference(reference_case *c, const char *key, const char *path, char id[64]) {
    size_t size;
    uint8_t *bytes = reference_model_file(c, key, &size);
    reply r = post(path, "application/octet-stream", bytes, size);
    ck_assert_int_eq((int)r.status / 100, 2);
    snprintf(id, 64, "%s", reply_field(&r, "id"));
    reply_free(&r);
    free(bytes);
}

static double distance(const float *a, const float *b) {
    double sum = 0;
    for (int k = 3; k < 12; k += 4)
        sum += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
    return sqrt(sum);
}

/* Of the turn from one to the other, in degrees. */
static double turn(const float *a, const float *b) {
    double sum = 0;
    for (int k = 0; k < 12; k++) {
        double off = k % 4 < 3 ? (double)a[k] - (double)b[k] : 0;
        sum += off * off;
    }
    /* The Frobenius norm of the difference is sqrt(8) x the sine of half the angle. */
    return 2 * asin(fmin(sqrt(sum / 8), 1)) * 180 / M_PI;
}

/* Each bone with the nearer of the solvers. */
static void compare(reference_case *c, const float *bones) {
    for (size_t i = 0; i < (size_t)c->frame_count * c->bone_count; i++) {
        double best = INFINITY, position = 0, degrees = 0;
        for (uint32_t k = 0; k < c->expected_count && !c->skipped[i % c->bone_count]; k++) {
            double off = distance(bones + 12 * i, c->expected[k] + 12 * i);
            double turned = turn(bones + 12 * i, c->expected[k] + 12 * i);
            double far = fmax(off / c->position_tolerance, turned / c->degree_tolerance);
            if (far < best) {
                best = far;
                position = off;
                degrees = turned;
            }
        }
        c->worst_position = fmax(c->worst_position, position);
        c->worst_degree = fmax(c->worst_degree, degrees);
        c->failures += !c->skipped[i % c->bone_count] && !(best <= 1);
    }
}

static void play_reference(reference_case *c) {
    char model_id[64], motion_id[64], path[128], body[512];
    upload_reference(c, "model", "/models?mode=cpu", model_id);
    upload_reference(c, "motion", "/motions", motion_id);
    char *frames = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(c->json, "frames"));
    snprintf(path, sizeof path, "/models/%s/deform?output=bones&ik=off", model_id);
    snprintf(body, sizeof body, "{\"motion\":\"%s\",\"frames\":%s}", motion_id, frames);
    cJSON_free(frames);
    reply r = http_json(&d, "POST", path, body);
    expect_status(&r, 200);
    ck_assert_uint_eq(r.size, (size_t)c->frame_count * c->bone_count * 48);
    float *bones = malloc(r.size);
    memcpy(bones, r.body, r.size);
    compare(c, bones);
    free(bones);
    reply_free(&r);
}

START_TEST(bones_of_public_motions_lie_near_one_of_two_other_solvers) {
    reference_run("motion", play_reference);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("motions");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, motion_is_uploaded_listed_matched_and_deleted);
    tcase_add_test(tests, stream_has_its_length_and_the_frames_of_single_requests);
    tcase_add_test(tests, streams_side_by_side_have_the_same_bytes);
    tcase_add_test(tests, point_caches_are_streamed_whole);
    tcase_add_test(tests, vpd_file_is_a_body);
    tcase_add_test(tests, result_over_the_limit_is_refused_up_front);
    tcase_add_test(tests, bones_of_public_motions_lie_near_one_of_two_other_solvers);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
