/* Forms of a deform's result: bones, point caches, streams; and that all of them hold the same
 * bytes, whoever makes them and when. */
#include "tests/data/models.h"
#include "tests/support_api.h"
#include "tests/support_pose.h"
#include "tests/support_vmd.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_ELBOW "\x8d\xb6\x82\xd0\x82\xb6"     /* 左ひじ, CP932 */
#define CENTRE "\x83\x5a\x83\x93\x83\x5e\x81\x5b" /* センター */
#define A "\x82\xa0"                              /* あ */

static const float STILL[3] = {0, 0, 0}, NO_TURN[4] = {0, 0, 0, 1};
static const float Y90[4] = {0, .70710678f, 0, .70710678f};

static api_house house;
static vmd_writer file;
static char model[DFM_ID_DIGITS + 1], motion[DFM_ID_DIGITS + 1], path[128];

static void use_model(uint8_t *bytes, size_t size) {
    api_upload(&house, bytes, size, model);
    snprintf(path, sizeof path, "/models/%s/deform", model);
    free(bytes);
}

static void use_pose_model(void) {
    size_t size;
    uint8_t *bytes = pose_model_bytes(&size);
    use_model(bytes, size);
}

static dfm_pmx figure;
static dfm_arena arena;

static void use_figure(void) {
    size_t size;
    figure = model_figure(&arena);
    uint8_t *bytes = model_bytes(&figure, NULL, &size);
    use_model(bytes, size);
}

/* センター moves by (1, 2, 3) in 100 frames, left elbow and あ change too. */
static void make_motion(void) {
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 0, STILL, NO_TURN, NULL);
    vmd_bone(&file, CENTRE, 100, (float[3]){1, -2, 3}, NO_TURN, NULL);
    vmd_bone(&file, LEFT_ELBOW, 0, STILL, NO_TURN, NULL);
    vmd_bone(&file, LEFT_ELBOW, 100, (float[3]){1, 2, 3}, Y90, NULL);
    vmd_section(&file);
    vmd_morph(&file, A, 0, 0);
    vmd_morph(&file, A, 100, 1);
    api_upload_motion(&house, file.bytes, file.size, motion);
}

static void setup(void) {
    api_house_open(&house, 0);
    use_pose_model();
    make_motion();
}

static void teardown(void) {
    dfm_arena_free(&arena);
    api_house_close(&house);
}

static api_answer deform(const char *query, const char *body) {
    return api_send(
        &house, &(api_ask){.method = DFM_METHOD_POST, .path = path, .query = query, .body = body});
}

static api_answer play_on(uint32_t worker, const char *query, const char *rest) {
    char body[1024];
    snprintf(body, sizeof body, "{\"motion\":\"%s\"%s}", motion, rest);
    return api_send(&house, &(api_ask){.method = DFM_METHOD_POST,
                                       .path = path,
                                       .query = query,
                                       .body = body,
                                       .worker = worker});
}

static api_answer play(const char *query, const char *rest) {
    return play_on(0, query, rest);
}

static void expect(api_answer answer, int status, const char *problem) {
    ck_assert_msg(answer.status == status, "%d %s", answer.status, answer.body);
    ck_assert_str_eq(api_problem(&answer), problem);
    api_answer_free(&answer);
}

static void expect_parameter(api_answer answer, const char *parameter) {
    ck_assert(!answer.admitted); /* before the body is read */
    ck_assert_str_eq(api_string(&answer, "parameter"), parameter);
    expect(answer, 400, "invalid-query");
}

/* --- bytes ------------------------------------------------------------------------------------ */

static uint32_t little_u32(const void *bytes) {
    const uint8_t *b = bytes;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint32_t big_u32(const void *bytes) {
    const uint8_t *b = bytes;
    return (uint32_t)b[3] | (uint32_t)b[2] << 8 | (uint32_t)b[1] << 16 | (uint32_t)b[0] << 24;
}

static float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static float little(const void *bytes) {
    return as_float(little_u32(bytes));
}

static float big(const void *bytes) {
    return as_float(big_u32(bytes));
}

/* --- PC2 -------------------------------------------------------------------------------------- */

START_TEST(pc2_is_a_head_and_positions_in_little_endian) {
    api_answer answer = play("format=pc2", ",\"frames\":{\"start\":10,\"end\":20,\"step\":2.5}");
    ck_assert_msg(answer.status == 200, "%s", answer.body);
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/x-pc2");
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "5");
    ck_assert_str_eq(api_header(&answer, "Deformd-Vertices"), "3");
    ck_assert_ptr_null(api_header(&answer, "Deformd-Layout"));
    ck_assert_uint_eq(answer.body_bytes, 32 + 5 * 36);
    ck_assert_mem_eq(answer.body, "POINTCACHE2\0\1\0\0\0\3\0\0\0", 20);
    ck_assert_float_eq(little(answer.body + 20), 10);
    ck_assert_float_eq(little(answer.body + 24), 2.5f);
    ck_assert_uint_eq(little_u32(answer.body + 28), 5);
    api_answer raw =
        play("attributes=position", ",\"frames\":{\"start\":10,\"end\":20,\"step\":2.5}");
    ck_assert_mem_eq(answer.body + 32, raw.body, 5 * 36);
    api_answer_free(&raw);
    api_answer_free(&answer);
}
END_TEST

static void expect_pc2_head(api_answer answer, float start, float step, uint32_t frames) {
    ck_assert_msg(answer.status == 200, "%s", answer.body);
    ck_assert_float_eq(little(answer.body + 20), start);
    ck_assert_float_eq(little(answer.body + 24), step);
    ck_assert_uint_eq(little_u32(answer.body + 28), frames);
    api_answer_free(&answer);
}

START_TEST(pc2_takes_start_and_step_from_the_frames) {
    expect_pc2_head(play("format=pc2", ""), 0, 1, 101);
    expect_pc2_head(play("format=pc2", ",\"frames\":[3,5,7]"), 3, 2, 3);
    expect_pc2_head(play("format=pc2", ",\"frames\":[0,0.1,0.2,0.30000000000000004]"), 0, 0.1f, 4);
    expect_pc2_head(play("format=pc2", ",\"frames\":[8.5]"), 8.5f, 1, 1);
    expect_pc2_head(play("format=pc2", ",\"frames\":{\"start\":-2,\"end\":-1,\"step\":0.25}"), -2,
                    0.25f, 5);
    expect_pc2_head(deform("format=pc2", "{\"poses\":[{},{},{}]}"), 0, 1, 3);
    expect_pc2_head(deform("format=pc2", "{}"), 0, 1, 1);
}
END_TEST

START_TEST(pc2_of_uneven_frames_is_422) {
    static const char *const uneven[] = {"[0,1,3]", "[2,1,0]", "[5,5]", "[0,1,1.9999]"};
    for (size_t i = 0; i < sizeof uneven / sizeof *uneven; i++) {
        char rest[64];
        snprintf(rest, sizeof rest, ",\"frames\":%s", uneven[i]);
        api_answer answer = play("format=pc2", rest);
        ck_assert_str_eq(api_string(&answer, "pointer"), "/frames");
        expect(answer, 422, "invalid-pose");
        expect(play("format=mdd", rest), 200, "");
        expect(play("format=raw", rest), 200, "");
    }
}
END_TEST

/* --- MDD -------------------------------------------------------------------------------------- */

START_TEST(mdd_is_counts_times_and_positions_in_big_endian) {
    api_answer answer = play("format=mdd", ",\"frames\":[30,0,45.5]");
    ck_assert_msg(answer.status == 200, "%s", answer.body);
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/x-mdd");
    ck_assert_uint_eq(answer.body_bytes, 8 + 3 * 4 + 3 * 36);
    ck_assert_uint_eq(big_u32(answer.body), 3);
    ck_assert_uint_eq(big_u32(answer.body + 4), 3);
    ck_assert_float_eq(big(answer.body + 8), 1);
    ck_assert_float_eq(big(answer.body + 12), 0);
    ck_assert_float_eq(big(answer.body + 16), (float)(45.5 / 30));
    api_answer raw = play("attributes=position", ",\"frames\":[30,0,45.5]");
    for (size_t i = 0; i < 27; i++)
        ck_assert_uint_eq(big_u32(answer.body + 20 + 4 * i), little_u32(raw.body + 4 * i));
    api_answer_free(&raw);
    api_answer_free(&answer);
    answer = deform("format=mdd", "{\"poses\":[{},{}]}");
    ck_assert_float_eq(big(answer.body + 12), (float)(1.0 / 30));
    api_answer_free(&answer);
}
END_TEST

START_TEST(scale_multiplies_positions) {
    static const char *const queries[] = {"format=pc2&scale=0.08", "format=mdd&scale=8e-2"};
    api_answer raw = play("attributes=position", ",\"frames\":[50]");
    for (int i = 0; i < 2; i++) {
        api_answer answer = play(queries[i], ",\"frames\":[50]");
        ck_assert_msg(answer.status == 200, "%s", answer.body);
        size_t head = i == 0 ? 32 : 12;
        for (size_t k = 0; k < 9; k++) {
            const char *at = answer.body + head + 4 * k;
            float expected = (float)((double)little(raw.body + 4 * k) * 0.08);
            ck_assert_float_eq(i == 0 ? little(at) : big(at), expected);
        }
        api_answer_free(&answer);
    }
    api_answer_free(&raw);
    api_answer plain = play("format=pc2", ""), one = play("format=pc2&scale=1", "");
    ck_assert_mem_eq(plain.body, one.body, plain.body_bytes);
    api_answer_free(&plain);
    api_answer_free(&one);
    api_answer huge = play("format=pc2&scale=1e300", ",\"frames\":[50]");
    for (size_t k = 0; k < 9; k++)
        ck_assert_float_le(fabsf(little(huge.body + 32 + 4 * k)), FLT_MAX);
    api_answer_free(&huge);
}
END_TEST

START_TEST(scales_that_are_none_are_400) {
    static const char *const wrong[] = {"",      "0",     "-1", "nan",   "inf",
                                        "0x1p3", "1e999", "1x", "1e-999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char query[64];
        snprintf(query, sizeof query, "format=pc2&scale=%s", wrong[i]);
        expect_parameter(deform(query, "{}"), "scale");
    }
    expect_parameter(deform("scale=2", "{}"), "scale");
    expect_parameter(deform("format=json&scale=2", "{}"), "scale");
}
END_TEST

START_TEST(point_caches_hold_positions_only) {
    expect_parameter(deform("format=pc2&attributes=position,normal", "{}"), "attributes");
    expect_parameter(deform("format=mdd&attributes=uv", "{}"), "attributes");
    expect_parameter(deform("format=pc2&layout=planar", "{}"), "layout");
    expect_parameter(deform("format=mdd&components=f16", "{}"), "components");
    expect_parameter(deform("format=pc2&output=bones", "{}"), "output");
    expect(deform("format=pc2&attributes=position", "{}"), 200, "");
    expect(deform("format=mdd&attributes=position&layout=interleaved&components=f32", "{}"), 200,
           "");
}
END_TEST

START_TEST(point_caches_are_chosen_by_accept_too) {
    api_ask ask = {.method = DFM_METHOD_POST,
                   .path = path,
                   .headers = {.accept = "application/x-mdd, text/html"},
                   .body = "{}"};
    api_answer answer = api_send(&house, &ask);
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/x-mdd");
    expect(answer, 200, "");
    ask.headers.accept = "application/x-pc2;q=0.5, application/octet-stream;q=0.4";
    answer = api_send(&house, &ask);
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/x-pc2");
    expect(answer, 200, "");
    ask.headers.accept = "*/*";
    answer = api_send(&house, &ask);
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/octet-stream");
    expect(answer, 200, "");
}
END_TEST

/* --- bones ------------------------------------------------------------------------------------ */

START_TEST(bones_are_their_global_matrices) {
    api_answer answer = deform("output=bones", "{\"poses\":[{},{\"bones\":{\"#0\":{\"rotation\":"
                                               "[0,0,1,1],\"translation\":[5,6,7]}}}]}");
    ck_assert_msg(answer.status == 200, "%s", answer.body);
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/octet-stream");
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "2");
    ck_assert_str_eq(api_header(&answer, "Deformd-Bones"), "6");
    ck_assert_str_eq(api_header(&answer, "Deformd-Stride"), "48");
    ck_assert_str_eq(api_header(&answer, "Deformd-Layout"), "matrix:f32x12@0");
    ck_assert_ptr_null(api_header(&answer, "Deformd-Vertices"));
    ck_assert_ptr_null(api_header(&answer, "Deformd-Skinner"));
    ck_assert_uint_eq(answer.body_bytes, 2 * 6 * 48);
    /* Bone 1 rests one unit above bone 0; a quarter turn lays it to the left of it. */
    static const float rest[12] = {1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0},
                       turned[12] = {0, -1, 0, 4, 1, 0, 0, 6, 0, 0, 1, 7};
    for (size_t k = 0; k < 12; k++) {
        ck_assert_float_eq_tol(little(answer.body + 48 + 4 * k), rest[k], 1e-6f);
        ck_assert_float_eq_tol(little(answer.body + (6 + 1) * 48 + 4 * k), turned[k], 1e-6f);
    }
    api_answer_free(&answer);
}
END_TEST

START_TEST(bones_have_no_parameters_of_vertices) {
    expect_parameter(deform("output=bones&attributes=position", "{}"), "attributes");
    expect_parameter(deform("output=bones&layout=interleaved", "{}"), "layout");
    expect_parameter(deform("output=bones&components=f32", "{}"), "components");
    expect_parameter(deform("output=all", "{}"), "output");
    expect(deform("output=vertices&attributes=uv", "{}"), 200, "");
}
END_TEST

static void close_to(const api_answer *a, const api_answer *b, float tolerance) {
    ck_assert_msg(a->status == 200 && b->status == 200, "%s %s", a->body, b->body);
    ck_assert_uint_eq(a->body_bytes, b->body_bytes);
    for (size_t at = 0; at < a->body_bytes; at += 4)
        ck_assert_msg(fabsf(little(a->body + at) - little(b->body + at)) <= tolerance,
                      "byte %zu: %g, %g", at, (double)little(a->body + at),
                      (double)little(b->body + at));
}

START_TEST(bones_fed_back_give_the_same_vertices) {
    use_figure();
    static const char rest[] = ",\"frames\":[0,37.5,100],\"overrides\":{\"morphs\":{\"あ\":0}}";
    api_answer vertices = play("attributes=position", rest), bones = play("output=bones", rest);
    ck_assert_int_eq(bones.status, 200);
    api_answer back =
        api_send(&house, &(api_ask){.method = DFM_METHOD_POST,
                                    .path = path,
                                    .query = "attributes=position",
                                    .headers = {.content_type = "application/x-deformd-matrices"},
                                    .body = bones.body,
                                    .body_bytes = bones.body_bytes});
    close_to(&vertices, &back, 5e-6f);
    api_answer json = play("output=bones&format=json", rest);
    ck_assert_msg(json.status == 200, "%s", json.body);
    char *body = malloc(json.body_bytes + 32);
    cJSON *frames = cJSON_GetObjectItemCaseSensitive(json.json, "frames");
    char *text = cJSON_PrintUnformatted(frames);
    sprintf(body, "{\"poses\":%s}", text);
    api_answer again = deform("attributes=position", body);
    ck_assert_msg(again.status == 200, "%s", again.body);
    close_to(&again, &back, 2e-6f); /* nine digits tell one float from the next */
    cJSON_free(text);
    free(body);
    api_answer *const all[] = {&vertices, &bones, &back, &json, &again};
    for (int i = 0; i < 5; i++)
        api_answer_free(all[i]);
}
END_TEST

START_TEST(matrices_come_out_as_they_went_in) {
    float matrices[POSE_BONES][12];
    for (int i = 0; i < POSE_BONES; i++) {
        for (int k = 0; k < 12; k++)
            matrices[i][k] = k % 5 == 0 ? 2 : 0.125f * (float)(k % 4 + i);
    }
    api_ask ask = {.method = DFM_METHOD_POST,
                   .path = path,
                   .query = "output=bones",
                   .headers = {.content_type = "application/x-deformd-matrices"},
                   .body = matrices,
                   .body_bytes = sizeof matrices};
    api_answer answer = api_send(&house, &ask);
    ck_assert_msg(answer.status == 200, "%s", answer.body);
    ck_assert_mem_eq(answer.body, matrices, sizeof matrices);
    api_answer_free(&answer);
}
END_TEST

/* --- streams ---------------------------------------------------------------------------------- */

/* 5,724 vertices: a frame of positions and normals is 137 KB. */
#define FORTY_NINE ",\"frames\":{\"start\":0,\"end\":96,\"step\":2}"

START_TEST(long_results_are_streams_and_short_ones_are_not) {
    use_figure();
    size_t frame_bytes = figure.vertices.count * 24;
    unsigned fit = (unsigned)((4u << 20) / frame_bytes);
    char rest[64];
    snprintf(rest, sizeof rest, ",\"frames\":{\"end\":%u}", fit - 1);
    api_answer answer = play(NULL, rest);
    ck_assert_int_eq(answer.status, 200);
    ck_assert(!answer.streamed);
    api_answer_free(&answer);
    snprintf(rest, sizeof rest, ",\"frames\":{\"end\":%u}", fit);
    answer = play(NULL, rest);
    ck_assert(answer.streamed);
    ck_assert_uint_eq(answer.body_bytes, (fit + 1) * frame_bytes);
    ck_assert_uint_gt(answer.block_count, 10);
    ck_assert_ptr_nonnull(api_header(&answer, "Server-Timing"));
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/octet-stream");
    api_answer_free(&answer);
}
END_TEST

static const char *const forms[] = {
    NULL,
    "attributes=position",
    "components=f16&layout=planar&attributes=normal,uv,position",
    "output=bones",
    "format=pc2&scale=0.08",
    "format=mdd",
    "ik=off",
};

/* Where the frames begin in a result of `count` frames. */
static size_t head_of(const char *query, size_t count) {
    return query && strstr(query, "pc2") ? 32 : query && strstr(query, "mdd") ? 8 + 4 * count : 0;
}

/* The same frame, alone, on a worker that has just been at something else. */
static void expect_frame(const char *query, unsigned frame, uint32_t worker, const char *expected,
                         size_t frame_bytes) {
    char rest[64], elsewhere[128];
    strcpy(elsewhere, path);
    use_pose_model();
    api_answer other = play_on(worker, NULL, ",\"frames\":[77]");
    api_answer_free(&other);
    strcpy(path, elsewhere);
    snprintf(rest, sizeof rest, ",\"frames\":[%u]", frame);
    api_answer single = play_on(worker, query, rest);
    ck_assert(!single.streamed);
    ck_assert_uint_eq(single.body_bytes, head_of(query, 1) + frame_bytes);
    ck_assert_msg(memcmp(single.body + head_of(query, 1), expected, frame_bytes) == 0,
                  "%s, frame %u", query ? query : "", frame);
    api_answer_free(&single);
}

static unsigned frames_in_block(size_t frame_bytes) {
    return frame_bytes < 256u << 10 ? (unsigned)((256u << 10) / frame_bytes) : 1;
}

/* As many frames as make a stream, and one that is left over from whole blocks. */
static unsigned enough_frames(size_t frame_bytes) {
    unsigned in_block = frames_in_block(frame_bytes),
             count = (4u << 20) / (unsigned)frame_bytes + 1;
    if (count < 100)
        count = 100;
    return in_block > 1 ? count + (in_block - count % in_block) + 1 : count;
}

START_TEST(a_frame_has_the_same_bytes_alone_in_a_batch_and_in_a_stream) {
    static const unsigned frames[] = {2, 50, 98};
    use_figure();
    const char *query = forms[_i];
    api_answer batch = play(query, ",\"frames\":[2,50,98]");
    ck_assert_msg(batch.status == 200, "%s", batch.body);
    ck_assert(!batch.streamed);
    size_t frame_bytes = (batch.body_bytes - head_of(query, 3)) / 3;
    unsigned count = enough_frames(frame_bytes);
    char rest[64];
    snprintf(rest, sizeof rest, ",\"frames\":{\"end\":%u}", count - 1);
    api_answer stream = play(query, rest), again = play_on(1, query, rest);
    ck_assert(stream.streamed);
    ck_assert_str_eq(stream.cut, "");
    ck_assert_uint_eq(stream.body_bytes, head_of(query, count) + count * frame_bytes);
    ck_assert_mem_eq(again.body, stream.body, stream.body_bytes);
    for (unsigned i = 0; i < 3; i++) {
        const char *in_batch = batch.body + head_of(query, 3) + i * frame_bytes;
        const char *in_stream = stream.body + head_of(query, count) + frames[i] * frame_bytes;
        ck_assert_mem_eq(in_batch, in_stream, frame_bytes);
        expect_frame(query, frames[i], i % 2, in_batch, frame_bytes);
        ck_assert_mem_ne(in_stream, in_stream - frame_bytes, frame_bytes);
    }
    api_answer_free(&again);
    api_answer_free(&stream);
    api_answer_free(&batch);
}
END_TEST

START_TEST(streams_of_whole_blocks_keep_their_order) {
    use_figure();
    size_t frame_bytes = figure.vertices.count * 12;
    unsigned in_block = frames_in_block(frame_bytes);
    ck_assert_uint_gt(in_block, 1);
    for (unsigned left_over = 0; left_over < in_block; left_over++) {
        unsigned count = 24 * in_block + left_over, last = 0;
        char rest[64];
        snprintf(rest, sizeof rest, ",\"frames\":{\"end\":%u}", count - 1);
        api_answer stream = play("attributes=position", rest);
        ck_assert(stream.streamed);
        ck_assert_uint_eq(stream.body_bytes, count * frame_bytes);
        for (unsigned i = 0; i < count; i += i < 4 || i + 5 > count ? 1 : 11, last = i) {
            snprintf(rest, sizeof rest, ",\"frames\":[%u]", i);
            api_answer single = play("attributes=position", rest);
            ck_assert_msg(memcmp(single.body, stream.body + i * frame_bytes, frame_bytes) == 0,
                          "frame %u of %u", i, count);
            api_answer_free(&single);
        }
        ck_assert_uint_ge(last, count);
        api_answer_free(&stream);
    }
}
END_TEST

START_TEST(streams_of_poses_outlive_their_body) {
    use_figure();
    enum { POSES = 61 };
    char *body = malloc(POSES * 80), *at = body;
    at += sprintf(at, "{\"poses\":[");
    for (int i = 0; i < POSES; i++)
        at += sprintf(at, "%s{\"bones\":{\"頭\":{\"translation\":[%d,0,0]}}}", i ? "," : "", i);
    sprintf(at, "]}");
    api_answer stream = deform(NULL, body);
    ck_assert_msg(stream.streamed, "%s", stream.body);
    size_t frame_bytes = figure.vertices.count * 24;
    for (int i = 0; i < POSES; i += 12) {
        char pose[80];
        sprintf(pose, "{\"bones\":{\"頭\":{\"translation\":[%d,0,0]}}}", i);
        api_answer single = deform(NULL, pose);
        ck_assert_mem_eq(single.body, stream.body + (size_t)i * frame_bytes, frame_bytes);
        api_answer_free(&single);
    }
    free(body);
    api_answer_free(&stream);
}
END_TEST

START_TEST(streams_of_binary_poses_outlive_their_body) {
    use_figure();
    size_t floats = figure.bone_count * 7 + figure.morph_count, frames = 61;
    float *body = calloc(frames * floats, sizeof *body);
    for (size_t i = 0; i < frames; i++) {
        for (size_t bone = 0; bone < figure.bone_count; bone++)
            body[i * floats + bone * 7 + 3] = 1;
        body[i * floats + 4] = (float)i; /* the first bone's x */
    }
    api_ask ask = {.method = DFM_METHOD_POST,
                   .path = path,
                   .headers = {.content_type = "application/x-deformd-pose"},
                   .body = body,
                   .body_bytes = frames * floats * sizeof *body};
    api_answer stream = api_send(&house, &ask);
    ck_assert_msg(stream.streamed, "%s", stream.body);
    size_t frame_bytes = figure.vertices.count * 24;
    for (size_t i = 0; i < frames; i += 12) {
        ask.body = body + i * floats;
        ask.body_bytes = floats * sizeof *body;
        api_answer single = api_send(&house, &ask);
        ck_assert_mem_eq(single.body, stream.body + i * frame_bytes, frame_bytes);
        api_answer_free(&single);
    }
    free(body);
    api_answer_free(&stream);
}
END_TEST

static void delete_everything(void) {
    char model_path[64], motion_path[64];
    snprintf(model_path, sizeof model_path, "/models/%s", model);
    snprintf(motion_path, sizeof motion_path, "/motions/%s", motion);
    expect(api_send(&house, &(api_ask){.method = DFM_METHOD_DELETE, .path = model_path}), 204, "");
    expect(api_send(&house, &(api_ask){.method = DFM_METHOD_DELETE, .path = motion_path}), 204, "");
}

START_TEST(a_stream_keeps_the_model_and_the_motion_that_it_began_with) {
    use_figure();
    char body[256];
    snprintf(body, sizeof body, "{\"motion\":\"%s\"%s,\"overrides\":{\"morphs\":{\"あ\":1}}}",
             motion, FORTY_NINE);
    api_ask ask = {.method = DFM_METHOD_POST, .path = path, .body = body};
    api_answer usual = api_send(&house, &ask);
    ask.meanwhile = delete_everything;
    api_answer answer = api_send(&house, &ask);
    ck_assert(answer.streamed);
    ck_assert_str_eq(answer.cut, "");
    ck_assert_uint_eq(answer.body_bytes, usual.body_bytes);
    ck_assert_mem_eq(answer.body, usual.body, usual.body_bytes);
    ck_assert_uint_eq(dfm_motion_store_get_stats(house.motions).resident_bytes, 0);
    api_answer_free(&answer);
    api_answer_free(&usual);
}
END_TEST

START_TEST(results_of_streams_are_limited_by_their_own_limit_only) {
    use_figure();
    house.config.buffer_bytes = 1 << 20; /* of a stream only the head lies in a buffer */
    api_house_reopen(&house);
    expect(play(NULL, FORTY_NINE), 200, "");
    house.config.max_result_bytes = 49 * figure.vertices.count * 24 - 1;
    api_house_reopen(&house);
    api_answer answer = play(NULL, FORTY_NINE);
    ck_assert(cJSON_GetObjectItemCaseSensitive(answer.json, "received")->valuedouble ==
              49.0 * figure.vertices.count * 24);
    expect(answer, 413, "result-too-large");
    house.config.max_result_bytes++;
    api_house_reopen(&house);
    expect(play(NULL, FORTY_NINE), 200, "");
}
END_TEST

/* The answer to a request without end is a stream that nobody drains. */
START_TEST(sizes_are_of_64_bits) {
    use_figure();
    char body[128];
    snprintf(body, sizeof body, "{\"motion\":\"%s\",\"frames\":{\"end\":1e12}}", motion);
    dfm_api_request request = {.method = DFM_METHOD_POST,
                               .path = path,
                               .body = (const uint8_t *)body,
                               .body_bytes = strlen(body)};
    dfm_api_response response;
    ck_assert(!dfm_api_admit(house.api, &request, -1, &response).answered);
    dfm_api_handle(house.api, &request, &response);
    ck_assert_int_eq(response.status, 200);
    ck_assert_ptr_nonnull(response.stream);
    ck_assert_uint_eq(response.stream->total_bytes, 1000000000001 * figure.vertices.count * 24);
    dfm_api_response_free(&response);
    expect(play(NULL, ",\"frames\":{\"end\":8e15}"), 413, "result-too-large");
}
END_TEST

START_TEST(what_is_wrong_at_once_is_a_problem_and_later_a_cut) {
    use_figure();
    enum { POSES = 61 };
    /* Numbers that are within bounds, until bones of a chain add them up. */
    static const char wild[] = "{\"bones\":{\"センター\":{\"translation\":[1e18,0,0]},"
                               "\"頭\":{\"translation\":[1e18,0,0]}}}";
    for (int where = 0; where < POSES; where += POSES - 1) {
        char body[2048], *at = body;
        at += sprintf(at, "{\"poses\":[");
        for (int i = 0; i < POSES; i++)
            at += sprintf(at, "%s%s", i ? "," : "", i == where ? wild : "{}");
        sprintf(at, "]}");
        api_answer answer = deform(NULL, body);
        if (where == 0) {
            expect(answer, 422, "invalid-pose");
            continue;
        }
        ck_assert_int_eq(answer.status, 200);
        ck_assert_msg(strstr(answer.cut, "frame 60: ") != NULL, "%s", answer.cut);
        ck_assert_ptr_nonnull(strstr(answer.cut, "single precision"));
        api_answer_free(&answer);
    }
}
END_TEST

START_TEST(a_stream_without_a_buffer_is_busy) {
    use_figure();
    house.refuse_buffers = true;
    expect(play(NULL, FORTY_NINE), 503, "busy");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("formats");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, pc2_is_a_head_and_positions_in_little_endian);
    tcase_add_test(tests, pc2_takes_start_and_step_from_the_frames);
    tcase_add_test(tests, pc2_of_uneven_frames_is_422);
    tcase_add_test(tests, mdd_is_counts_times_and_positions_in_big_endian);
    tcase_add_test(tests, scale_multiplies_positions);
    tcase_add_test(tests, scales_that_are_none_are_400);
    tcase_add_test(tests, point_caches_hold_positions_only);
    tcase_add_test(tests, point_caches_are_chosen_by_accept_too);
    tcase_add_test(tests, bones_are_their_global_matrices);
    tcase_add_test(tests, bones_have_no_parameters_of_vertices);
    tcase_add_test(tests, bones_fed_back_give_the_same_vertices);
    tcase_add_test(tests, matrices_come_out_as_they_went_in);
    tcase_add_test(tests, long_results_are_streams_and_short_ones_are_not);
    tcase_add_loop_test(tests, a_frame_has_the_same_bytes_alone_in_a_batch_and_in_a_stream, 0,
                        sizeof forms / sizeof *forms);
    tcase_add_test(tests, streams_of_whole_blocks_keep_their_order);
    tcase_add_test(tests, streams_of_poses_outlive_their_body);
    tcase_add_test(tests, streams_of_binary_poses_outlive_their_body);
    tcase_add_test(tests, a_stream_keeps_the_model_and_the_motion_that_it_began_with);
    tcase_add_test(tests, results_of_streams_are_limited_by_their_own_limit_only);
    tcase_add_test(tests, sizes_are_of_64_bits);
    tcase_add_test(tests, what_is_wrong_at_once_is_a_problem_and_later_a_cut);
    tcase_add_test(tests, a_stream_without_a_buffer_is_busy);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
