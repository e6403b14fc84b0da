/* POST /models/{id}/deform: forms of the request, forms of the answer, and every refusal. */
#include "api/response.h"
#include "tests/data/models.h"
#include "tests/support_api.h"
#include "tests/support_pose.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static api_house house;
static dfm_arena arena;
static char id[DFM_ID_DIGITS + 1], path[128];

static void use_bytes(uint8_t *bytes, size_t size) {
    api_upload(&house, bytes, size, id);
    snprintf(path, sizeof path, "/models/%s/deform", id);
    free(bytes);
}

static void setup(void) {
    api_house_open(&house, 0);
    size_t size;
    uint8_t *bytes = pose_model_bytes(&size);
    use_bytes(bytes, size);
}

static void teardown(void) {
    dfm_arena_free(&arena);
    api_house_close(&house);
}

static api_answer deform(const char *query, const char *body) {
    return api_send(&house, &(api_ask){.method = DFM_METHOD_POST,
                                       .path = path,
                                       .query = query,
                                       .headers = {.content_type = "application/json"},
                                       .body = body});
}

static api_answer deform_binary(const char *type, const void *body, size_t size) {
    return api_send(&house, &(api_ask){.method = DFM_METHOD_POST,
                                       .path = path,
                                       .headers = {.content_type = type},
                                       .body = body,
                                       .body_bytes = size});
}

static void expect(api_answer answer, int status, const char *problem) {
    ck_assert_msg(answer.status == status, "%d %s", answer.status, answer.body);
    ck_assert_str_eq(api_problem(&answer), problem);
    api_answer_free(&answer);
}

static const float bind[3][6] = {{0, 0, 0, 0, 0, -1}, {1, 1, 0, 0, 0, -1}, {2, 0, 0, 0, 0, -1}};

static void close_to(const void *actual, const float *expected, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, (const char *)actual + i * 4, 4);
        ck_assert_msg(fabsf(value - expected[i]) <= 1e-6f, "%zu: %g, not %g", i, (double)value,
                      (double)expected[i]);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

START_TEST(the_rest_pose_comes_back_as_the_bind_pose) {
    api_answer answer = deform(NULL, "{}");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_uint_eq(answer.body_bytes, sizeof bind);
    close_to(answer.body, bind[0], 18);
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/octet-stream");
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "1");
    ck_assert_str_eq(api_header(&answer, "Deformd-Vertices"), "3");
    ck_assert_str_eq(api_header(&answer, "Deformd-Stride"), "24");
    ck_assert_str_eq(api_header(&answer, "Deformd-Layout"), "position:f32x3@0,normal:f32x3@12");
    ck_assert_str_eq(api_header(&answer, "Deformd-Skinner"), "cpu");
    ck_assert_str_eq(api_header(&answer, "Deformd-Unmatched"), "0");
    const char *timing = api_header(&answer, "Server-Timing");
    static const char *const stages[] = {
        "parse;dur=", "queue;dur=", "solve;dur=", "skin;dur=", "encode;dur="};
    for (int i = 0; i < 5; i++)
        ck_assert_ptr_nonnull(strstr(timing, stages[i]));
    api_answer_free(&answer);
}
END_TEST

/* Bone 0 carries all vertices; a quarter turn about z, then a move. */
static const float turned[3][3] = {{1, 2, 3}, {0, 3, 3}, {1, 4, 3}};

START_TEST(a_posed_bone_moves_its_vertices) {
    api_answer answer =
        deform("attributes=position",
               "{\"bones\":{\"左ひじ\":{\"rotation\":[0,0,1,1],\"translation\":[1,2,3]}}}");
    ck_assert_uint_eq(answer.body_bytes, sizeof turned);
    close_to(answer.body, turned[0], 9);
    api_answer_free(&answer);
}
END_TEST

START_TEST(matrices_give_the_same_as_bones) {
    char body[1024] = "{\"matrices\":[[0,-1,0,1, 1,0,0,2, 0,0,1,3]";
    for (int i = 1; i < POSE_BONES; i++)
        strcat(body, ",[1,0,0,0,0,1,0,0,0,0,1,0]");
    strcat(body, "]}");
    api_answer answer = deform("attributes=position", body);
    ck_assert_int_eq(answer.status, 200);
    close_to(answer.body, turned[0], 9);
    api_answer_free(&answer);
}
END_TEST

START_TEST(many_poses_follow_each_other) {
    api_answer answer =
        deform("attributes=position",
               "{\"poses\":[{},{\"bones\":{\"#0\":{\"translation\":[5,0,0]}}},{},"
               "{\"bones\":{\"#0\":{\"rotation\":[0,0,1,1],\"translation\":[1,2,3]}}}]}");
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "4");
    ck_assert_uint_eq(answer.body_bytes, 4 * 36);
    static const float moved[9] = {5, 0, 0, 6, 1, 0, 7, 0, 0},
                       rest[9] = {0, 0, 0, 1, 1, 0, 2, 0, 0};
    close_to(answer.body, rest, 9);
    close_to(answer.body + 36, moved, 9);
    close_to(answer.body + 72, rest, 9);
    close_to(answer.body + 108, turned[0], 9);
    api_answer_free(&answer);
}
END_TEST

START_TEST(binary_poses_give_the_same_as_json) {
    enum { FLOATS = POSE_BONES * 7 + POSE_MORPHS };
    float body[2][FLOATS] = {{0}};
    for (int frame = 0; frame < 2; frame++) {
        for (int i = 0; i < POSE_BONES; i++)
            body[frame][i * 7 + 3] = 1;
    }
    memcpy(body[1], ((float[7]){0, 0, 2, 2, 1, 2, 3}), 28);
    api_answer answer = deform_binary("application/x-deformd-pose", body, sizeof body);
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "2");
    ck_assert_uint_eq(answer.body_bytes, 2 * sizeof bind);
    close_to(answer.body, bind[0], 18);
    for (int i = 0; i < 3; i++)
        close_to(answer.body + sizeof bind + 24 * (size_t)i, turned[i], 3);
    api_answer_free(&answer);
    float matrices[POSE_BONES][12] = {{0, -1, 0, 1, 1, 0, 0, 2, 0, 0, 1, 3}};
    for (int i = 1; i < POSE_BONES; i++)
        matrices[i][0] = matrices[i][5] = matrices[i][10] = 1;
    answer = deform_binary("application/x-deformd-matrices", matrices, sizeof matrices);
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "1");
    for (int i = 0; i < 3; i++)
        close_to(answer.body + 24 * (size_t)i, turned[i], 3);
    api_answer_free(&answer);
}
END_TEST

START_TEST(layouts_hold_what_the_header_says) {
    api_answer answer = deform("attributes=normal,position&layout=planar&components=f16", "{}");
    ck_assert_str_eq(api_header(&answer, "Deformd-Layout"),
                     "normal:f16x3@0,position:f16x3@18;planar");
    ck_assert_str_eq(api_header(&answer, "Deformd-Stride"), "12");
    ck_assert_uint_eq(answer.body_bytes, 36);
    ck_assert_mem_eq(answer.body, ((uint16_t[]){0, 0, 0xBC00, 0, 0, 0xBC00, 0, 0, 0xBC00}), 18);
    ck_assert_mem_eq(answer.body + 18, ((uint16_t[]){0, 0, 0, 0x3C00, 0x3C00, 0, 0x4000, 0, 0}),
                     18);
    api_answer_free(&answer);
    answer = deform("attributes=uv,edge_scale", "{}");
    ck_assert_str_eq(api_header(&answer, "Deformd-Layout"), "uv:f32x2@0,edge_scale:f32x1@8");
    ck_assert_uint_eq(answer.body_bytes, 36);
    api_answer_free(&answer);
}
END_TEST

static void check_json(api_answer answer) {
    ck_assert_msg(answer.status == 200, "%s", answer.body);
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/json");
    ck_assert_str_eq(api_string(&answer, "skinner"), "cpu");
    cJSON *frames = cJSON_GetObjectItemCaseSensitive(answer.json, "frames");
    ck_assert_int_eq(cJSON_GetArraySize(frames), 2);
    for (int frame = 0; frame < 2; frame++) {
        cJSON *item = cJSON_GetArrayItem(frames, frame);
        cJSON *positions = cJSON_GetObjectItemCaseSensitive(item, "position");
        cJSON *normals = cJSON_GetObjectItemCaseSensitive(item, "normal");
        ck_assert_int_eq(cJSON_GetArraySize(positions), 3);
        for (int v = 0; v < 3; v++) {
            for (int k = 0; k < 3; k++) {
                double p = cJSON_GetArrayItem(cJSON_GetArrayItem(positions, v), k)->valuedouble;
                double n = cJSON_GetArrayItem(cJSON_GetArrayItem(normals, v), k)->valuedouble;
                ck_assert_double_eq_tol(p, (double)bind[v][k] + (frame && k == 1 ? 0.1 : 0), 1e-6);
                ck_assert_double_eq_tol(n, (double)bind[v][3 + k], 1e-6);
            }
        }
    }
    api_answer_free(&answer);
}

START_TEST(json_is_chosen_by_format_or_accept) {
    static const char body[] =
        "{\"poses\":[{},{\"bones\":{\"左ひじ\":{\"translation\":[0,0.1,0]}}}]}";
    check_json(deform("format=json", body));
    api_ask ask = {.method = DFM_METHOD_POST,
                   .path = path,
                   .headers = {.accept = "application/json"},
                   .body = body};
    check_json(api_send(&house, &ask));
    ask.query = "format=raw"; /* wins over Accept */
    api_answer answer = api_send(&house, &ask);
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/octet-stream");
    api_answer_free(&answer);
    ask.headers.accept = "text/html";
    expect(api_send(&house, &ask), 200, "");
    ask.query = NULL;
    expect(api_send(&house, &ask), 406, "not-acceptable");
    expect(deform("format=json&layout=planar", "{}"), 400, "invalid-query");
    expect(deform("format=json&components=f16", "{}"), 400, "invalid-query");
}
END_TEST

START_TEST(the_longest_numbers_fit_into_json) {
    /* Every number at its longest: the bound must hold (address sanitizer). */
    api_answer answer = deform(
        "format=json", "{\"bones\":{\"#0\":{\"translation\":[-1.23456789e-30,-9.87654321e17,"
                       "-1.11111111e16],\"rotation\":[-0.123456789,0.23456789,-0.345678912,1]}}}");
    ck_assert_int_eq(answer.status, 200);
    api_answer_free(&answer);
}
END_TEST

START_TEST(a_model_without_vertices_gives_an_empty_result) {
    dfm_pmx odd = model_odd(&arena, 2.0f, DFM_TEXT_UTF8);
    odd.vertices.count = odd.vertices.sdef_count = odd.index_count = odd.material_count = 0;
    size_t size;
    uint8_t *bytes = model_bytes(&odd, NULL, &size);
    use_bytes(bytes, size);
    api_answer answer = deform(NULL, "{\"poses\":[{},{}]}");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_uint_eq(answer.body_bytes, 0);
    ck_assert_str_eq(api_header(&answer, "Deformd-Vertices"), "0");
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "2");
    api_answer_free(&answer);
    answer = deform("format=json", "{}");
    ck_assert_int_eq(answer.status, 200);
    api_answer_free(&answer);
}
END_TEST

/* --- requests --------------------------------------------------------------------------------- */

START_TEST(without_a_content_type_json_is_assumed) {
    api_ask ask = {.method = DFM_METHOD_POST, .path = path, .body = "{}"};
    expect(api_send(&house, &ask), 200, "");
    ask.headers.content_type = "application/JSON;charset=UTF-8";
    expect(api_send(&house, &ask), 200, "");
    ask.headers.content_type = "text/plain";
    expect(api_send(&house, &ask), 415, "unsupported-media-type");
    ask.headers.content_type = "multipart/form-data; boundary=x";
    expect(api_send(&house, &ask), 415, "unsupported-media-type");
    ask.headers.content_type = NULL;
    ask.headers.content_encoding = "deflate";
    expect(api_send(&house, &ask), 415, "unsupported-media-type");
}
END_TEST

static void expect_over_limit(const char *body, int limit) {
    api_answer answer = deform(NULL, body);
    ck_assert_int_eq(cJSON_GetObjectItemCaseSensitive(answer.json, "limit")->valueint, limit);
    ck_assert_int_gt(cJSON_GetObjectItemCaseSensitive(answer.json, "received")->valueint, limit);
    expect(answer, 422, "request-over-limit");
}

START_TEST(bodies_over_a_limit_are_422_with_both_numbers) {
    house.config.json = (dfm_json_limits){.depth = 8, .items = 20};
    house.config.max_frames = 3;
    api_house_reopen(&house);
    expect(deform(NULL, "{\"poses\":[{},{},{}]}"), 200, "");
    expect_over_limit("{\"poses\":[{},{},{},{}]}", 3);
    expect(deform(NULL, "{\"bones\":[[[[[[[1]]]]]]]}"), 422, "invalid-pose");
    expect_over_limit("{\"bones\":[[[[[[[[1]]]]]]]]}", 8);
    expect(deform(NULL, "{\"bones\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]}"), 422,
           "invalid-pose");
    expect_over_limit("{\"bones\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}", 20);
}
END_TEST

START_TEST(an_empty_body_is_400) {
    expect(deform(NULL, NULL), 400, "bad-request");
    expect(deform(NULL, ""), 400, "bad-request");
    expect(deform_binary("application/x-deformd-pose", NULL, 0), 400, "bad-request");
}
END_TEST

START_TEST(wrong_bodies_are_400_or_422_with_help) {
    api_answer answer = deform(NULL, "{\"bones\":{\"b\":{\"rotation\":[0,0,0,0]}}}");
    ck_assert_str_eq(api_string(&answer, "pointer"), "/bones/b/rotation");
    expect(answer, 422, "invalid-pose");
    answer = deform(NULL, "{\"bones\":");
    ck_assert(cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(answer.json, "offset")));
    expect(answer, 400, "invalid-json");
    answer = deform_binary("application/x-deformd-pose", "12345678", 8);
    ck_assert(cJSON_GetObjectItemCaseSensitive(answer.json, "received")->valuedouble == 8);
    ck_assert(cJSON_GetObjectItemCaseSensitive(answer.json, "limit")->valuedouble ==
              (POSE_BONES * 7 + POSE_MORPHS) * 4);
    expect(answer, 422, "invalid-length");
    float poses[2][POSE_BONES * 7 + POSE_MORPHS] = {{0}};
    for (int i = 0; i < 2 * POSE_BONES; i++)
        poses[i / POSE_BONES][i % POSE_BONES * 7 + 3] = 1;
    poses[1][5] = NAN;
    answer = deform_binary("application/x-deformd-pose", poses, sizeof poses);
    ck_assert(cJSON_GetObjectItemCaseSensitive(answer.json, "item")->valuedouble == 1);
    ck_assert(cJSON_GetObjectItemCaseSensitive(answer.json, "offset")->valuedouble ==
              sizeof poses[0] + 5 * sizeof(float));
    expect(answer, 422, "invalid-pose");
}
END_TEST

START_TEST(unknown_names_are_listed_or_ignored) {
    static const char body[] = "{\"bones\":{\"x\\u0000\\\"\":{}},\"morphs\":{\"z\":1}}";
    api_answer answer = deform(NULL, body);
    ck_assert_ptr_nonnull(strstr(answer.body, "{\"in\":\"morphs\",\"name\":\"z\"}"));
    ck_assert(cJSON_GetObjectItemCaseSensitive(answer.json, "unknown_count")->valuedouble == 2);
    expect(answer, 422, "unknown-name");
    answer = deform("unknown=ignore", body);
    ck_assert_str_eq(api_header(&answer, "Deformd-Unmatched"), "2");
    expect(answer, 200, "");
    expect(deform("unknown=error", body), 422, "unknown-name");
    expect(deform("unknown=", body), 400, "invalid-query");
}
END_TEST

START_TEST(wrong_queries_are_refused_before_the_body_is_read) {
    static const char *const wrong[] = {"attributes=position,position",
                                        "attributes=colour",
                                        "layout=x",
                                        "components=f64",
                                        "format=abc",
                                        "frames=1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        api_answer answer = deform(wrong[i], "{}");
        ck_assert(!answer.admitted);
        expect(answer, 400, "invalid-query");
    }
    expect(deform("attributes=uv4", "{}"), 422, "missing-attribute");
}
END_TEST

START_TEST(bodies_fall_under_the_limit_of_their_type) {
    api_ask ask = {.method = DFM_METHOD_POST, .path = path, .content_length = -1};
    api_answer answer = api_send(&house, &ask);
    ck_assert_uint_eq(answer.admission.max_body_bytes, house.config.max_json_bytes);
    api_answer_free(&answer);
    ask.headers.content_type = "application/x-deformd-matrices";
    answer = api_send(&house, &ask);
    ck_assert_uint_eq(answer.admission.max_body_bytes, house.config.max_pose_bytes);
    api_answer_free(&answer);
    ask.headers.content_type = NULL;
    ask.content_length = (int64_t)house.config.max_json_bytes + 1;
    expect(api_send(&house, &ask), 413, "body-too-large");
}
END_TEST

START_TEST(numbers_that_leave_single_precision_are_422) {
    char body[512] = "{\"bones\":{";
    for (int i = 0; i < POSE_BONES; i++)
        sprintf(body + strlen(body), "%s\"#%d\":{\"translation\":[1e18,0,0]}", i ? "," : "", i);
    strcat(body, "}}");
    expect(deform(NULL, body), 422, "invalid-pose");
}
END_TEST

START_TEST(an_unknown_model_is_404) {
    snprintf(path, sizeof path, "/models/00000000000000000000000000000000/deform");
    expect(deform(NULL, "{}"), 404, "model-not-found");
}
END_TEST

/* --- limits ----------------------------------------------------------------------------------- */

START_TEST(results_are_measured_before_anything_runs) {
    house.config.max_result_bytes = 3 * 72 - 1;
    api_house_reopen(&house);
    api_answer answer = deform(NULL, "{\"poses\":[{},{},{}]}");
    ck_assert(cJSON_GetObjectItemCaseSensitive(answer.json, "limit")->valuedouble == 3 * 72 - 1);
    ck_assert(cJSON_GetObjectItemCaseSensitive(answer.json, "received")->valuedouble == 3 * 72);
    expect(answer, 413, "result-too-large");
    expect(deform(NULL, "{\"poses\":[{},{}]}"), 200, "");
    house.config.max_result_bytes = 0;
    api_house_reopen(&house);
    house.refuse_buffers = true;
    expect(deform(NULL, "{}"), 503, "busy");
    expect(deform("format=json", "{}"), 503, "busy");
}
END_TEST

/* What can never be had is 413, not 503; `most` is the least budget that has room for it. */
static void expect_room(const char *query, const char *body, uint64_t most) {
    house.config.buffer_bytes = most - 1;
    api_house_reopen(&house);
    api_answer answer = deform(query, body);
    ck_assert(cJSON_GetObjectItemCaseSensitive(answer.json, "limit")->valuedouble ==
              (double)(most - 1));
    ck_assert(cJSON_GetObjectItemCaseSensitive(answer.json, "received")->valuedouble ==
              (double)most);
    expect(answer, 413, "result-too-large");
    house.config.buffer_bytes = most;
    api_house_reopen(&house);
    expect(deform(query, body), 200, "");
}

START_TEST(body_and_result_have_to_fit_the_memory_together) {
    enum { FRAME = 72 };
    static const char one[] = "{}", three[] = "{\"poses\":[{},{},{}]}";
    expect_room(NULL, one, sizeof one - 1 + dfm_response_capacity(FRAME));
    expect_room(NULL, three, sizeof three - 1 + dfm_response_capacity(3 * FRAME));
    house.config.buffer_bytes = 0;
    api_house_reopen(&house);
    api_answer answer = deform("format=json", one);
    size_t text = answer.body_bytes;
    expect(answer, 200, "");
    /* The frame in raw form, and room for more text than it comes to. */
    house.config.buffer_bytes = sizeof one - 1 + dfm_response_capacity(FRAME) + text;
    api_house_reopen(&house);
    expect(deform("format=json", one), 413, "result-too-large");
    house.config.buffer_bytes += 2000;
    api_house_reopen(&house);
    expect(deform("format=json", one), 200, "");
}
END_TEST

START_TEST(streams_need_room_for_their_head_and_one_block) {
    enum { FRAMES = 20 };
    grid_options options = grid_default_options(60000, 4);
    dfm_pmx grid = model_grid(&arena, &options);
    size_t size;
    uint8_t *bytes = model_bytes(&grid, NULL, &size);
    use_bytes(bytes, size);
    char body[128];
    size_t length = (size_t)sprintf(body, "{\"poses\":[{}");
    for (int i = 1; i < FRAMES; i++)
        length += (size_t)sprintf(body + length, ",{}");
    length += (size_t)sprintf(body + length, "]}");
    size_t frame = (size_t)grid.vertices.count * 24;
    expect_room(NULL, body, length + dfm_response_capacity(frame) + frame);
}
END_TEST

START_TEST(json_is_for_small_results) {
    grid_options options = grid_default_options(60000, 4);
    dfm_pmx grid = model_grid(&arena, &options);
    size_t size;
    uint8_t *bytes = model_bytes(&grid, NULL, &size);
    use_bytes(bytes, size);
    expect(deform("format=json", "{}"), 200, "");
    expect(deform("format=json", "{\"poses\":[{},{},{},{}]}"), 413, "result-too-large");
    expect(deform(NULL, "{\"poses\":[{},{},{},{}]}"), 200, "");
}
END_TEST

START_TEST(deadlines_are_read_capped_and_kept) {
    static const char *const wrong[] = {"", "0", "-1", "1.5", "x", "10 ", "9999999999999"};
    api_ask ask = {.method = DFM_METHOD_POST, .path = path, .body = "{}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ask.headers.request_timeout_ms = wrong[i];
        expect(api_send(&house, &ask), 400, "invalid-header");
    }
    ask.headers.request_timeout_ms = "60000";
    expect(api_send(&house, &ask), 200, "");
    dfm_api_request request = {.method = DFM_METHOD_POST,
                               .path = path,
                               .headers = {.request_timeout_ms = "60000"},
                               .started_ns = 1000};
    dfm_api_response response;
    ck_assert(!dfm_api_admit(house.api, &request, 2, &response).answered);
    ck_assert_uint_eq(request.deadline_ns, 1000 + 60000 * (uint64_t)1000000);
    house.config.request_timeout_ms = 5;
    api_house_reopen(&house);
    ck_assert(!dfm_api_admit(house.api, &request, 2, &response).answered);
    ck_assert_uint_eq(request.deadline_ns, 1000 + 5 * (uint64_t)1000000);
    request.headers.request_timeout_ms = NULL;
    ck_assert(!dfm_api_admit(house.api, &request, 2, &response).answered);
    ck_assert_uint_eq(request.deadline_ns, 1000 + 5 * (uint64_t)1000000);
    request.body = (const uint8_t *)"{}";
    request.body_bytes = 2;
    dfm_api_handle(house.api, &request, &response); /* long past */
    ck_assert_int_eq(response.status, 504);
    dfm_api_response_free(&response);
}
END_TEST

START_TEST(a_deadline_that_passes_between_frames_ends_the_request) {
    size_t size = 600000, at;
    char *body = malloc(size + 64); /* a quarter of a million poses take longer than 2 ms */
    at = (size_t)sprintf(body, "{\"poses\":[{}");
    for (; at < size; at += 3)
        memcpy(body + at, ",{}", 3);
    strcpy(body + at, "]}");
    api_ask ask = {.method = DFM_METHOD_POST,
                   .path = path,
                   .headers = {.request_timeout_ms = "2"},
                   .body = body};
    expect(api_send(&house, &ask), 504, "deadline-passed");
    free(body);
}
END_TEST

/* --- steadiness ------------------------------------------------------------------------------- */

START_TEST(a_request_does_not_depend_on_the_one_before) {
    static const char body[] =
        "{\"bones\":{\"b\":{\"translation\":[0,0.5,0]}},\"morphs\":{\"あ\":1}}";
    api_answer first = deform(NULL, "{}");
    expect(deform(NULL, body), 200, "");
    expect(deform(NULL, "{\"bones\":{\"b\":{\"rotation\":[0,1,0,1]},\"x\":{}}}"), 422,
           "unknown-name");
    api_answer again = deform(NULL, "{}");
    ck_assert_mem_eq(first.body, again.body, first.body_bytes);
    api_answer_free(&first);
    api_answer_free(&again);
}
END_TEST

START_TEST(models_of_all_sizes_take_turns_on_one_worker) {
    char small[128];
    strcpy(small, path);
    dfm_pmx figure = model_figure(&arena);
    size_t size;
    uint8_t *bytes = model_bytes(&figure, NULL, &size);
    use_bytes(bytes, size);
    char large[128];
    strcpy(large, path);
    for (int i = 0; i < 6; i++) {
        strcpy(path, i % 2 ? large : small);
        api_answer answer = deform("attributes=position", "{\"morphs\":{\"#0\":1}}");
        ck_assert_int_eq(answer.status, 200);
        ck_assert_uint_eq(answer.body_bytes, i % 2 ? figure.vertices.count * 12 : 36);
        api_answer_free(&answer);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("deform");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_rest_pose_comes_back_as_the_bind_pose);
    tcase_add_test(tests, a_posed_bone_moves_its_vertices);
    tcase_add_test(tests, matrices_give_the_same_as_bones);
    tcase_add_test(tests, many_poses_follow_each_other);
    tcase_add_test(tests, binary_poses_give_the_same_as_json);
    tcase_add_test(tests, layouts_hold_what_the_header_says);
    tcase_add_test(tests, json_is_chosen_by_format_or_accept);
    tcase_add_test(tests, the_longest_numbers_fit_into_json);
    tcase_add_test(tests, a_model_without_vertices_gives_an_empty_result);
    tcase_add_test(tests, without_a_content_type_json_is_assumed);
    tcase_add_test(tests, bodies_over_a_limit_are_422_with_both_numbers);
    tcase_add_test(tests, an_empty_body_is_400);
    tcase_add_test(tests, wrong_bodies_are_400_or_422_with_help);
    tcase_add_test(tests, unknown_names_are_listed_or_ignored);
    tcase_add_test(tests, wrong_queries_are_refused_before_the_body_is_read);
    tcase_add_test(tests, bodies_fall_under_the_limit_of_their_type);
    tcase_add_test(tests, numbers_that_leave_single_precision_are_422);
    tcase_add_test(tests, an_unknown_model_is_404);
    tcase_add_test(tests, results_are_measured_before_anything_runs);
    tcase_add_test(tests, body_and_result_have_to_fit_the_memory_together);
    tcase_add_test(tests, streams_need_room_for_their_head_and_one_block);
    tcase_add_test(tests, json_is_for_small_results);
    tcase_add_test(tests, deadlines_are_read_capped_and_kept);
    tcase_add_test(tests, a_deadline_that_passes_between_frames_ends_the_request);
    tcase_add_test(tests, a_request_does_not_depend_on_the_one_before);
    tcase_add_test(tests, models_of_all_sizes_take_turns_on_one_worker);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
