/* The motions resource, and deforms by frames of a motion and by VPD files. */
#include "tests/data/models.h"
#include "tests/support_api.h"
#include "tests/support_pose.h"
#include "tests/support_vmd.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CP932. */
#define LEFT_ELBOW                                                                                 \
    "\x8d\xb6\x82\xd0\x82\xb6" /* 左ひじ: bone 0 of the pose model, of all vertices */
#define A "\x82\xa0"           /* あ */

static const float STILL[3] = {0, 0, 0}, NO_TURN[4] = {0, 0, 0, 1};
static const float Z90[4] = {0, 0, .70710678f, .70710678f};

static api_house house;
static vmd_writer file;
static char model[DFM_ID_DIGITS + 1], motion[DFM_ID_DIGITS + 1];
static char deform_path[128], motion_path[128];

/* The elbow moves to x = 10 in 10 frames and turns by 90 degrees until frame 20; あ grows to 1 in
 * 10 frames; b's IK is off from frame 5 on. The model lacks "nobody", "nothing" and "noone". */
static void make_file(void) {
    static const char *const iks[] = {"b", "noone"};
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, LEFT_ELBOW, 0, STILL, NO_TURN, NULL);
    vmd_bone(&file, LEFT_ELBOW, 10, (float[3]){10, 0, 0}, NO_TURN, NULL);
    vmd_bone(&file, LEFT_ELBOW, 20, (float[3]){10, 0, 0}, Z90, NULL);
    vmd_bone(&file, "nobody", 3, STILL, NO_TURN, NULL);
    vmd_section(&file);
    vmd_morph(&file, A, 0, 0);
    vmd_morph(&file, A, 10, 1);
    vmd_morph(&file, "nothing", 0, 1);
    for (int i = 0; i < 3; i++)
        vmd_section(&file);
    vmd_section(&file);
    vmd_property(&file, 0, iks, (uint8_t[]){1, 1}, 2);
    vmd_property(&file, 5, iks, (uint8_t[]){0, 1}, 2);
}

static void setup(void) {
    size_t size;
    uint8_t *bytes = pose_model_bytes(&size);
    api_house_open(&house, 0);
    api_upload(&house, bytes, size, model);
    free(bytes);
    make_file();
    api_upload_motion(&house, file.bytes, file.size, motion);
    snprintf(deform_path, sizeof deform_path, "/models/%s/deform", model);
    snprintf(motion_path, sizeof motion_path, "/motions/%s", motion);
}

static void teardown(void) {
    api_house_close(&house);
}

static api_answer get(const char *path, const char *query) {
    return api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = path, .query = query});
}

static api_answer upload(const void *bytes, size_t size) {
    return api_send(&house, &(api_ask){.method = DFM_METHOD_POST,
                                       .path = "/motions",
                                       .body = bytes,
                                       .body_bytes = size});
}

static void expect(api_answer answer, int status, const char *problem) {
    ck_assert_msg(answer.status == status, "%d %s", answer.status, answer.body);
    ck_assert_str_eq(api_problem(&answer), problem);
    api_answer_free(&answer);
}

static double number(const api_answer *answer, const char *a, const char *b) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(answer->json, a);
    if (b)
        item = cJSON_GetObjectItemCaseSensitive(item, b);
    ck_assert_msg(cJSON_IsNumber(item), "%s.%s in %s", a, b ? b : "", answer->body);
    return item->valuedouble;
}

/* --- the resource ----------------------------------------------------------------------------- */

START_TEST(an_upload_is_answered_with_the_document) {
    char location[64];
    expect(api_send(&house, &(api_ask){.method = DFM_METHOD_DELETE, .path = motion_path}), 204, "");
    api_answer answer = upload(file.bytes, file.size);
    ck_assert_int_eq(answer.status, 201);
    ck_assert_str_eq(api_string(&answer, "id"), motion);
    snprintf(location, sizeof location, "motions/%s", motion);
    ck_assert_str_eq(api_header(&answer, "Location"), location);
    ck_assert_uint_eq(strlen(api_string(&answer, "digest")), 64);
    ck_assert_str_eq(api_string(&answer, "name"), "モデル");
    ck_assert(number(&answer, "counts", "bones") == 2);
    ck_assert(number(&answer, "counts", "bone_keys") == 4);
    ck_assert(number(&answer, "counts", "morphs") == 2);
    ck_assert(number(&answer, "counts", "morph_keys") == 3);
    ck_assert(number(&answer, "counts", "ik") == 2);
    ck_assert(number(&answer, "counts", "ik_keys") == 4);
    ck_assert(number(&answer, "first_frame", NULL) == 0);
    ck_assert(number(&answer, "last_frame", NULL) == 20);
    ck_assert(number(&answer, "frames_per_second", NULL) == 30);
    ck_assert(number(&answer, "file_bytes", NULL) == (double)file.size);
    ck_assert(number(&answer, "resident_bytes", NULL) > 0);
    ck_assert_ptr_nonnull(strchr(api_string(&answer, "created"), 'T'));
    ck_assert(cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(answer.json, "warnings")));
    api_answer_free(&answer);
    expect(upload(file.bytes, file.size), 200, "");
}
END_TEST

START_TEST(forms_are_taken_as_for_models) {
    api_ask ask = {.method = DFM_METHOD_POST,
                   .path = "/motions",
                   .headers = {.content_type = "multipart/form-data; boundary=x"},
                   .body = file.bytes,
                   .body_bytes = file.size};
    api_answer answer = api_send(&house, &ask);
    ck_assert(answer.admission.takes_multipart);
    ck_assert_int_eq(answer.admission.lane, DFM_LANE_LOAD);
    ck_assert_uint_eq(answer.admission.max_body_bytes, house.config.max_upload_bytes);
    expect(answer, 200, "");
    ask.headers.content_type = "application/x-www-form-urlencoded";
    expect(api_send(&house, &ask), 200, "");
    ask.headers.content_type = "application/json";
    expect(api_send(&house, &ask), 415, "unsupported-media-type");
}
END_TEST

START_TEST(a_broken_file_is_422_with_its_place) {
    api_answer answer = upload(file.bytes, file.size - 1);
    ck_assert_str_eq(api_string(&answer, "section"), "properties");
    ck_assert(number(&answer, "item", NULL) == 1);
    ck_assert(number(&answer, "offset", NULL) > 50);
    expect(answer, 422, "invalid-motion");
    expect(upload("not a motion at all, but long enough to be one", 46), 422, "invalid-motion");
    expect(upload(NULL, 0), 422, "invalid-motion");
}
END_TEST

START_TEST(every_shorter_upload_is_answered_without_a_read_past_its_end) {
    for (size_t size = 0; size < file.size; size++) {
        api_answer answer = upload(file.bytes, size);
        ck_assert_msg(answer.status == 422 || answer.status < 300, "%zu: %d", size, answer.status);
        api_answer_free(&answer);
    }
}
END_TEST

START_TEST(motions_are_listed_in_pages) {
    char second[DFM_ID_DIGITS + 1], query[64];
    vmd_begin(&file);
    api_upload_motion(&house, file.bytes, file.size, second);
    api_answer answer = get("/motions", "limit=1");
    const char *next = api_string(&answer, "next");
    const char *first = strcmp(motion, second) < 0 ? motion : second;
    ck_assert_str_eq(next, first);
    snprintf(query, sizeof query, "cursor=%s", next);
    api_answer_free(&answer);
    answer = get("/motions", query);
    cJSON *list = cJSON_GetObjectItemCaseSensitive(answer.json, "motions");
    ck_assert_int_eq(cJSON_GetArraySize(list), 1);
    ck_assert_str_eq(
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(list, 0), "id")),
        first == motion ? second : motion);
    ck_assert(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(answer.json, "next")));
    api_answer_free(&answer);
    expect(get("/motions", "limit=0"), 400, "invalid-query");
    expect(get("/motions", "cursor=x"), 400, "invalid-query");
}
END_TEST

START_TEST(what_is_not_there_is_404) {
    expect(get("/motions/00000000000000000000000000000000", NULL), 404, "motion-not-found");
    expect(get("/motions/short", NULL), 404, "motion-not-found");
    api_ask ask = {.method = DFM_METHOD_DELETE, .path = motion_path};
    expect(api_send(&house, &ask), 204, "");
    expect(api_send(&house, &ask), 404, "motion-not-found");
    expect(get(motion_path, NULL), 404, "motion-not-found");
}
END_TEST

START_TEST(deletes_are_guarded_by_if_match) {
    api_answer answer = get(motion_path, NULL);
    char tag[128];
    snprintf(tag, sizeof tag, "%s", api_header(&answer, "ETag"));
    api_answer_free(&answer);
    api_ask ask = {
        .method = DFM_METHOD_DELETE, .path = motion_path, .headers = {.if_match = "\"another\""}};
    expect(api_send(&house, &ask), 412, "precondition-failed");
    ask.headers.if_match = tag;
    expect(api_send(&house, &ask), 204, "");
    ask.headers.if_match = "*";
    expect(api_send(&house, &ask), 404, "motion-not-found");
}
END_TEST

/* A store with room for one motion only. */
static void open_narrow_store(void) {
    dfm_error error = {0};
    uint64_t used = dfm_motion_store_get_stats(house.motions).resident_bytes;
    dfm_motion_store_free(house.motions);
    ck_assert_int_eq(dfm_motion_store_create(used + used / 2, &house.motions, &error), DFM_OK);
    house.config.motions = house.motions;
    api_house_reopen(&house);
}

static void replace_motion(void) {
    char other[DFM_ID_DIGITS + 1];
    open_narrow_store();
    expect(upload(file.bytes, file.size), 201, "");
    file.bytes[60] ^= 1; /* in a name */
    api_upload_motion(&house, file.bytes, file.size, other);
}

START_TEST(an_evicted_motion_is_said_to_be_one) {
    replace_motion();
    expect(get(motion_path, NULL), 404, "motion-evicted");
    char body[128];
    snprintf(body, sizeof body, "{\"motion\":\"%s\"}", motion);
    api_answer answer =
        api_send(&house, &(api_ask){.method = DFM_METHOD_POST, .path = deform_path, .body = body});
    ck_assert_str_eq(api_string(&answer, "pointer"), "/motion");
    expect(answer, 404, "motion-evicted");
    file.bytes[60] ^= 1;
    expect(upload(file.bytes, file.size), 201, "");
    expect(get(motion_path, NULL), 200, "");
}
END_TEST

START_TEST(a_motion_that_cannot_fit_is_507) {
    static vmd_writer large;
    open_narrow_store();
    vmd_begin(&large);
    vmd_section(&large);
    for (uint32_t i = 0; i < 500; i++)
        vmd_bone(&large, "bone", i, STILL, NO_TURN, NULL);
    expect(upload(large.bytes, large.size), 507, "no-room");
}
END_TEST

/* --- match ------------------------------------------------------------------------------------ */

static void expect_names(const api_answer *answer, const char *kind, const char *side,
                         const char *name, int keys, int index) {
    cJSON *list = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(answer->json, kind), side);
    ck_assert_int_eq(cJSON_GetArraySize(list), 1);
    cJSON *item = cJSON_GetArrayItem(list, 0);
    ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name")), name);
    ck_assert_int_eq(cJSON_GetObjectItemCaseSensitive(item, "keys")->valueint, keys);
    cJSON *at = cJSON_GetObjectItemCaseSensitive(item, "index");
    ck_assert_int_eq(at ? at->valueint : -1, index);
}

START_TEST(match_says_what_the_model_has_and_lacks) {
    char path[160], query[64];
    snprintf(path, sizeof path, "%s/match", motion_path);
    snprintf(query, sizeof query, "model=%s", model);
    api_answer answer = get(path, query);
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(api_string(&answer, "motion"), motion);
    ck_assert_str_eq(api_string(&answer, "model"), model);
    ck_assert(number(&answer, "matched", NULL) == 3);
    ck_assert(number(&answer, "unmatched", NULL) == 3);
    expect_names(&answer, "bones", "has", "左ひじ", 3, 0);
    expect_names(&answer, "bones", "lacks", "nobody", 1, -1);
    expect_names(&answer, "morphs", "has", "あ", 2, 0);
    expect_names(&answer, "morphs", "lacks", "nothing", 1, -1);
    expect_names(&answer, "ik", "has", "b", 2, POSE_IK_BONE);
    expect_names(&answer, "ik", "lacks", "noone", 2, -1);
    api_answer_free(&answer);
    expect(get(path, NULL), 400, "invalid-query");
    expect(get(path, "model=x"), 400, "invalid-query");
    expect(get(path, "model=00000000000000000000000000000000"), 404, "model-not-found");
    expect(get("/motions/00000000000000000000000000000000/match", query), 404, "motion-not-found");
}
END_TEST

/* --- frames ----------------------------------------------------------------------------------- */

/* Posts {"motion": id, REST} for positions. */
static api_answer play(const char *query, const char *rest) {
    char body[2048], all[256];
    snprintf(body, sizeof body, "{\"motion\":\"%s\"%s}", motion, rest);
    snprintf(all, sizeof all, "attributes=position%s%s", query ? "&" : "", query ? query : "");
    return api_send(&house, &(api_ask){.method = DFM_METHOD_POST,
                                       .path = deform_path,
                                       .query = all,
                                       .headers = {.content_type = "application/json"},
                                       .body = body});
}

/* Where the elbow and vertex 1, one to the right of and one above it, are in a frame. */
static void elbow_of(const api_answer *answer, size_t frame, float elbow[3], float arm[3]) {
    ck_assert_msg(answer->status == 200, "%s", answer->body);
    ck_assert_uint_ge(answer->body_bytes, (frame + 1) * 36);
    memcpy(elbow, answer->body + frame * 36, 12);
    memcpy(arm, answer->body + frame * 36 + 12, 12);
}

static void expect_x(const api_answer *answer, size_t frame, float x) {
    float elbow[3], arm[3];
    elbow_of(answer, frame, elbow, arm);
    ck_assert_msg(fabsf(elbow[0] - x) < 1e-4f, "frame %zu: %g, not %g", frame, (double)elbow[0],
                  (double)x);
}

START_TEST(a_motion_alone_is_all_its_frames) {
    api_answer answer = play(NULL, "");
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "21");
    ck_assert_uint_eq(answer.body_bytes, 21 * 36);
    for (size_t frame = 0; frame <= 20; frame++)
        expect_x(&answer, frame, frame < 10 ? (float)frame : 10);
    float elbow[3], arm[3];
    elbow_of(&answer, 20, elbow, arm); /* (1, 1) turned by 90 degrees is (-1, 1) */
    ck_assert_float_eq_tol(arm[0], 9, 1e-5f);
    ck_assert_float_eq_tol(arm[1], 1, 1e-5f);
    api_answer_free(&answer);
}
END_TEST

static const struct {
    const char *frames;
    unsigned count;
    float first, last; /* x */
} ranges[] = {
    {"{}", 21, 0, 10},
    {"{\"start\":5}", 16, 5, 10},
    {"{\"end\":3}", 4, 0, 3},
    {"{\"step\":10}", 3, 0, 10},
    {"{\"step\":3,\"end\":10}", 4, 0, 9},
    {"{\"start\":2.5,\"end\":4.5,\"step\":0.5}", 5, 2.5f, 4.5f},
    {"{\"start\":0,\"end\":1,\"step\":0.1}", 11, 0, 1}, /* 1 / 0.1 is a little less than 10 */
    {"{\"start\":7,\"end\":7}", 1, 7, 7},
    {"{\"start\":-3,\"end\":0}", 4, 0, 0},
    {"{\"start\":9,\"end\":100,\"step\":91}", 2, 9, 10},
    {"{\"start\":0,\"end\":0.9999999995,\"step\":1}", 2, 0, 1}, /* the tolerance: 1e-9 of a step */
    {"{\"start\":0,\"end\":0.999999,\"step\":1}", 1, 0, 0},
    {"[4]", 1, 4, 4},
    {"[10,0,10.5,0,2.25]", 5, 10, 2.25f},
};

START_TEST(ranges_count_and_lists_keep_their_order) {
    char rest[128], count[16];
    snprintf(rest, sizeof rest, ",\"frames\":%s", ranges[_i].frames);
    snprintf(count, sizeof count, "%u", ranges[_i].count);
    api_answer answer = play(NULL, rest);
    ck_assert_msg(answer.status == 200, "%s", answer.body);
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), count);
    ck_assert_uint_eq(answer.body_bytes, ranges[_i].count * 36);
    expect_x(&answer, 0, ranges[_i].first);
    expect_x(&answer, ranges[_i].count - 1, ranges[_i].last);
    api_answer_free(&answer);
}
END_TEST

START_TEST(members_may_come_in_any_order) {
    char body[256];
    snprintf(body, sizeof body,
             "{\"overrides\":{\"morphs\":{\"あ\":0}},\"frames\":[3],\"motion\":\"%s\"}", motion);
    api_answer answer = api_send(&house, &(api_ask){.method = DFM_METHOD_POST,
                                                    .path = deform_path,
                                                    .query = "attributes=position",
                                                    .body = body});
    expect_x(&answer, 0, 3);
    api_answer_free(&answer);
}
END_TEST

START_TEST(names_that_the_model_lacks_are_counted) {
    api_answer answer = play(NULL, ",\"frames\":[0]");
    ck_assert_str_eq(api_header(&answer, "Deformd-Unmatched"), "3");
    api_answer_free(&answer);
    answer = play("unknown=ignore",
                  ",\"frames\":[0],\"overrides\":{\"bones\":{\"x\":{}},\"morphs\":{\"y\":1}}");
    ck_assert_str_eq(api_header(&answer, "Deformd-Unmatched"), "5");
    api_answer_free(&answer);
}
END_TEST

START_TEST(a_motion_that_matches_nothing_gives_the_rest_pose_and_says_so) {
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, "nobody", 0, (float[3]){1, 2, 3}, Z90, NULL);
    vmd_bone(&file, "nemo", 9, STILL, Z90, NULL);
    api_upload_motion(&house, file.bytes, file.size, motion);
    api_answer answer = play(NULL, "");
    ck_assert_str_eq(api_header(&answer, "Deformd-Unmatched"), "2");
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "10");
    for (size_t frame = 0; frame < 10; frame++)
        expect_x(&answer, frame, 0);
    api_answer_free(&answer);
}
END_TEST

START_TEST(a_motion_without_keys_is_one_frame) {
    vmd_begin(&file);
    api_upload_motion(&house, file.bytes, file.size, motion);
    api_answer answer = play(NULL, "");
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "1");
    expect_x(&answer, 0, 0);
    api_answer_free(&answer);
}
END_TEST

/* --- overrides -------------------------------------------------------------------------------- */

START_TEST(a_rotation_replaces_the_motions_and_leaves_its_translation) {
    float elbow[3], arm[3];
    api_answer answer = play(
        NULL, ",\"frames\":[15,20],\"overrides\":{\"bones\":{\"#0\":{\"rotation\":[0,0,1,0]}}}");
    for (size_t frame = 0; frame < 2; frame++) {
        elbow_of(&answer, frame, elbow, arm);
        ck_assert_float_eq_tol(elbow[0], 10, 1e-5f);
        ck_assert_float_eq_tol(arm[0], 9, 1e-5f); /* half a turn */
        ck_assert_float_eq_tol(arm[1], -1, 1e-5f);
    }
    api_answer_free(&answer);
}
END_TEST

START_TEST(a_translation_replaces_the_motions_and_leaves_its_rotation) {
    float elbow[3], arm[3];
    api_answer answer = play(
        NULL, ",\"frames\":[20],\"overrides\":{\"bones\":{\"左ひじ\":{\"translation\":[0,5,0]}}}");
    elbow_of(&answer, 0, elbow, arm);
    ck_assert_float_eq_tol(elbow[0], 0, 1e-5f);
    ck_assert_float_eq_tol(elbow[1], 5, 1e-5f);
    ck_assert_float_eq_tol(arm[0], -1, 1e-5f);
    ck_assert_float_eq_tol(arm[1], 6, 1e-5f);
    api_answer_free(&answer);
}
END_TEST

START_TEST(overrides_that_give_nothing_change_nothing) {
    api_answer plain = play(NULL, "");
    api_answer answer =
        play(NULL, ",\"overrides\":{\"bones\":{\"左ひじ\":{}},\"morphs\":{},\"ik\":{}}");
    ck_assert_uint_eq(answer.body_bytes, plain.body_bytes);
    ck_assert_mem_eq(answer.body, plain.body, plain.body_bytes);
    api_answer_free(&plain);
    api_answer_free(&answer);
}
END_TEST

/* The figure, whose legs and face show what IK and morphs do. */
static void use_figure(void) {
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    size_t size;
    uint8_t *bytes = model_bytes(&figure, NULL, &size);
    api_upload(&house, bytes, size, model);
    snprintf(deform_path, sizeof deform_path, "/models/%s/deform", model);
    free(bytes);
    dfm_arena_free(&arena);
}

#define CENTRE "\x83\x5a\x83\x93\x83\x5e\x81\x5b"      /* センター */
#define LEFT_LEG_IK "\x8d\xb6\x91\xab\x82\x68\x82\x6a" /* 左足ＩＫ */

/* The figure crouches; its left leg's IK is off from frame 10 on. */
static void use_crouch(void) {
    static const char *const iks[] = {LEFT_LEG_IK};
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 0, (float[3]){0, -3, 0}, NO_TURN, NULL);
    vmd_section(&file);
    vmd_morph(&file, A, 0, 1);
    for (int i = 0; i < 3; i++)
        vmd_section(&file);
    vmd_section(&file);
    vmd_property(&file, 0, iks, (uint8_t[]){1}, 1);
    vmd_property(&file, 10, iks, (uint8_t[]){0}, 1);
    api_upload_motion(&house, file.bytes, file.size, motion);
    use_figure();
}

static void expect_same(const char *query_a, const char *rest_a, const char *query_b,
                        const char *rest_b, bool same) {
    api_answer a = play(query_a, rest_a), b = play(query_b, rest_b);
    ck_assert_msg(a.status == 200 && b.status == 200, "%s %s", a.body, b.body);
    ck_assert_uint_eq(a.body_bytes, b.body_bytes);
    ck_assert_msg((memcmp(a.body, b.body, a.body_bytes) == 0) == same, "%s and %s", rest_a, rest_b);
    api_answer_free(&a);
    api_answer_free(&b);
}

#define AT_0 ",\"frames\":[0]"
#define AT_10 ",\"frames\":[10]"
#define LEFT_OFF ",\"overrides\":{\"ik\":{\"左足ＩＫ\":false}}"
#define LEFT_ON ",\"overrides\":{\"ik\":{\"左足ＩＫ\":true}}"

START_TEST(ik_is_the_querys_then_the_overrides_then_the_motions) {
    use_crouch();
    expect_same(NULL, AT_0, NULL, AT_10, false); /* the motion's own switch */
    expect_same(NULL, AT_0 LEFT_OFF, NULL, AT_10, true);
    expect_same(NULL, AT_10 LEFT_ON, NULL, AT_0, true);
    expect_same(NULL, AT_0, "ik=off", AT_0, false);
    expect_same("ik=on", AT_10, NULL, AT_0, true);
    expect_same("ik=on", AT_10 LEFT_OFF, NULL, AT_0, true);
    expect_same("ik=off", AT_0 LEFT_ON, "ik=off", AT_10, true);
    expect_same(NULL, AT_0 ",\"overrides\":{\"ik\":false}", "ik=off", AT_0, true);
    expect_same(NULL, AT_10 ",\"overrides\":{\"ik\":true}", NULL, AT_0, true);
    /* Also where every frame is loaded anew. */
    expect_same("ik=on", ",\"frames\":[10,10]", NULL, ",\"frames\":[0,0]", true);
    expect_same(NULL, ",\"frames\":[0,0]" LEFT_OFF, NULL, ",\"frames\":[10,10]", true);
}
END_TEST

START_TEST(a_morph_replaces_the_motions) {
    use_crouch();
    expect_same(NULL, AT_0, NULL, AT_0 ",\"overrides\":{\"morphs\":{\"あ\":1}}", true);
    expect_same(NULL, AT_0, NULL, AT_0 ",\"overrides\":{\"morphs\":{\"あ\":0}}", false);
    expect_same(NULL, AT_0 ",\"overrides\":{\"morphs\":{\"あ\":0}}", NULL,
                AT_0 ",\"overrides\":{\"morphs\":{\"#0\":0}}", true);
}
END_TEST

START_TEST(ik_off_is_for_every_body) {
    use_crouch();
    static const char body[] = "{\"bones\":{\"センター\":{\"translation\":[0,-3,0]}}}";
    api_ask ask = {.method = DFM_METHOD_POST,
                   .path = deform_path,
                   .query = "attributes=position",
                   .body = body};
    api_answer on = api_send(&house, &ask);
    ask.query = "attributes=position&ik=off";
    api_answer off = api_send(&house, &ask);
    ck_assert_mem_ne(on.body, off.body, on.body_bytes);
    ask.body = "{\"bones\":{\"センター\":{\"translation\":[0,-3,0]}},\"ik\":true}";
    api_answer said = api_send(&house, &ask);
    ck_assert_mem_eq(said.body, off.body, off.body_bytes);
    ask.body = "{\"poses\":[{\"bones\":{\"センター\":{\"translation\":[0,-3,0]}}},{}]}";
    api_answer many = api_send(&house, &ask);
    ck_assert_mem_eq(many.body, off.body, off.body_bytes);
    ask.headers.content_type = "text/x-vpd";
    ask.body = "Vocaloid Pose Data file\r\nBone0{センター\r\n0,-3,0;0,0,0,1;}\r\n";
    api_answer vpd = api_send(&house, &ask);
    ck_assert_msg(vpd.status == 200, "%s", vpd.body);
    ck_assert_mem_eq(vpd.body, off.body, off.body_bytes);
    ask.query = "attributes=position";
    api_answer vpd_on = api_send(&house, &ask);
    ck_assert_mem_eq(vpd_on.body, on.body, on.body_bytes);
    ask.query = "ik=maybe";
    expect(api_send(&house, &ask), 400, "invalid-query");
    api_answer *const all[] = {&on, &off, &said, &many, &vpd, &vpd_on};
    for (int i = 0; i < 6; i++)
        api_answer_free(all[i]);
}
END_TEST

/* --- what is wrong ---------------------------------------------------------------------------- */

static const struct {
    const char *body, *problem, *pointer;
    int status;
} wrong[] = {
    {"{\"motion\":1}", "invalid-pose", "/motion", 422},
    {"{\"motion\":\"\"}", "invalid-pose", "/motion", 422},
    {"{\"motion\":\"0000000000000000000000000000000G\"}", "invalid-pose", "/motion", 422},
    {"{\"motion\":\"00000000000000000000000000000000\"}", "motion-not-found", "/motion", 404},
    {"{\"frames\":[0]}", "invalid-pose", "/frames", 422},
    {"{\"overrides\":{}}", "invalid-pose", "/overrides", 422},
    {"{$,\"frames\":3}", "invalid-pose", "/frames", 422},
    {"{$,\"frames\":null}", "invalid-pose", "/frames", 422},
    {"{$,\"frames\":[]}", "invalid-pose", "/frames", 422},
    {"{$,\"frames\":[0,\"1\"]}", "invalid-pose", "/frames/1", 422},
    {"{$,\"frames\":[1e400]}", "invalid-pose", "/frames/0", 422},
    {"{$,\"frames\":{\"step\":0}}", "invalid-pose", "/frames/step", 422},
    {"{$,\"frames\":{\"step\":-1}}", "invalid-pose", "/frames/step", 422},
    {"{$,\"frames\":{\"start\":true}}", "invalid-pose", "/frames/start", 422},
    {"{$,\"frames\":{\"begin\":1}}", "invalid-pose", "/frames/begin", 422},
    {"{$,\"frames\":{\"end\":1,\"end\":2}}", "invalid-pose", "/frames/end", 422},
    {"{$,\"frames\":{\"start\":5,\"end\":4}}", "invalid-pose", "/frames", 422},
    {"{$,\"frames\":{\"start\":21}}", "invalid-pose", "/frames", 422},
    {"{$,\"frames\":{\"end\":1e18,\"step\":0.001}}", "invalid-pose", "/frames", 422},
    {"{$,\"frames\":{\"end\":1e18,\"step\":1e-300}}", "invalid-pose", "/frames", 422},
    {"{$,\"frames\":[0],\"frames\":[1]}", "invalid-pose", "/frames", 422},
    {"{$,\"bones\":{}}", "invalid-pose", "/bones", 422},
    {"{$,\"ik\":false}", "invalid-pose", "/ik", 422},
    {"{\"morphs\":{},$}", "invalid-pose", "/motion", 422},
    {"{$,\"poses\":[{}]}", "invalid-pose", "/poses", 422},
    {"{\"poses\":[{}],$}", "invalid-pose", "/motion", 422},
    {"{\"poses\":[{$}]}", "invalid-pose", "/poses/0/motion", 422},
    {"{$,\"overrides\":[]}", "invalid-pose", "/overrides", 422},
    {"{$,\"overrides\":{\"matrices\":[]}}", "invalid-pose", "/overrides/matrices", 422},
    {"{$,\"overrides\":{\"poses\":[]}}", "invalid-pose", "/overrides/poses", 422},
    {"{$,\"overrides\":{\"overrides\":{}}}", "invalid-pose", "/overrides/overrides", 422},
    {"{$,\"overrides\":{\"bones\":{\"b\":{\"rotation\":[0,0,0,0]}}}}", "invalid-pose",
     "/overrides/bones/b/rotation", 422},
    {"{$,\"overrides\":{\"bones\":{\"b\":{},\"#1\":{}}}}", "invalid-pose", "/overrides/bones/#1",
     422},
    {"{$,\"overrides\":{\"ik\":{\"左ひじ\":true}}}", "invalid-pose", "/overrides/ik/左ひじ", 422},
    {"{$,\"overrides\":{\"morphs\":{\"x\":1}}}", "unknown-name", "/overrides/morphs/x", 422},
    {"{$,\"overrides\":{\"morphs\":{\"x\":1}}", "invalid-json", "", 400},
};

START_TEST(wrong_bodies_point_to_what_is_wrong) {
    char body[512];
    const char *hole = strchr(wrong[_i].body, '$');
    if (hole)
        snprintf(body, sizeof body, "%.*s\"motion\":\"%s\"%s", (int)(hole - wrong[_i].body),
                 wrong[_i].body, motion, hole + 1);
    else
        snprintf(body, sizeof body, "%s", wrong[_i].body);
    api_answer answer =
        api_send(&house, &(api_ask){.method = DFM_METHOD_POST, .path = deform_path, .body = body});
    ck_assert_msg(strcmp(api_string(&answer, "pointer"), wrong[_i].pointer) == 0, "%s: %s", body,
                  answer.body);
    expect(answer, wrong[_i].status, wrong[_i].problem);
}
END_TEST

START_TEST(requests_without_end_are_refused_before_anything_runs) {
    house.config.max_result_bytes = 100 * 36;
    api_house_reopen(&house);
    expect(play(NULL, ",\"frames\":{\"end\":99}"), 200, "");
    expect(play(NULL, ",\"frames\":{\"end\":100}"), 413, "result-too-large");
    expect(play(NULL, ",\"frames\":{\"end\":1e15}"), 413, "result-too-large");
    house.config.max_result_bytes = 0;
    house.config.buffer_bytes = 1 << 20;
    api_house_reopen(&house);
    expect(play("format=mdd", ",\"frames\":{\"end\":2147483646}"), 413, "result-too-large");
    expect(play("format=mdd", ",\"frames\":{\"end\":2147483647}"), 422, "invalid-pose");
    api_answer answer = api_send(&house, &(api_ask){.method = DFM_METHOD_POST,
                                                    .path = deform_path,
                                                    .query = "format=json",
                                                    .body = "{}"});
    expect(answer, 200, "");
    expect(play("format=json", ",\"frames\":{\"end\":1e15}"), 413, "result-too-large");
}
END_TEST

START_TEST(frames_without_a_byte_cost_nothing) {
    dfm_arena arena = {0};
    dfm_pmx odd = model_odd(&arena, 2.0f, DFM_TEXT_UTF8);
    odd.vertices.count = odd.vertices.sdef_count = odd.index_count = odd.material_count = 0;
    size_t size;
    uint8_t *bytes = model_bytes(&odd, NULL, &size);
    api_upload(&house, bytes, size, model);
    snprintf(deform_path, sizeof deform_path, "/models/%s/deform", model);
    api_answer answer = play(NULL, ",\"frames\":{\"end\":1e15}");
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "1000000000000001");
    ck_assert_uint_eq(answer.body_bytes, 0);
    expect(answer, 200, "");
    expect(play("format=json", ",\"frames\":{\"end\":1e15}"), 413, "result-too-large");
    free(bytes);
    dfm_arena_free(&arena);
}
END_TEST

/* --- VPD -------------------------------------------------------------------------------------- */

static api_answer post_vpd(const char *body) {
    return api_send(&house, &(api_ask){.method = DFM_METHOD_POST,
                                       .path = deform_path,
                                       .query = "attributes=position",
                                       .headers = {.content_type = "text/x-vpd"},
                                       .body = body});
}

#define VPD(name)                                                                                  \
    "Vocaloid Pose Data file\r\n\r\nmodel.osm;\r\n2;\r\n\r\nBone0{" name                           \
    "\r\n  7,0,0;\r\n  0,0,1,0;\r\n}\r\nBone1{nobody\r\n 0,0,0;\r\n 0,0,0,1;\r\n}\r\n"

START_TEST(a_vpd_file_is_a_pose) {
    static const char *const bodies[] = {VPD(LEFT_ELBOW), VPD("左ひじ"),
                                         "\xef\xbb\xbf" VPD("左ひじ")};
    for (int i = 0; i < 3; i++) {
        float elbow[3], arm[3];
        api_answer answer = post_vpd(bodies[i]);
        elbow_of(&answer, 0, elbow, arm);
        ck_assert_float_eq_tol(elbow[0], 7, 1e-5f);
        ck_assert_float_eq_tol(arm[0], 6, 1e-5f);
        ck_assert_float_eq_tol(arm[1], -1, 1e-5f);
        ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "1");
        ck_assert_str_eq(api_header(&answer, "Deformd-Unmatched"), "1");
        api_answer_free(&answer);
    }
}
END_TEST

START_TEST(a_broken_vpd_is_422_with_its_place) {
    api_answer answer = post_vpd("Vocaloid Pose Data file\nBone0{b\n 0,0,0;\n 0,x,0,1;\n}\n");
    ck_assert_str_eq(api_string(&answer, "section"), "bones");
    ck_assert(number(&answer, "item", NULL) == 0);
    ck_assert(number(&answer, "offset", NULL) == 43);
    expect(answer, 422, "invalid-vpd");
    expect(post_vpd("Vocaloid Motion Data 0002"), 422, "invalid-vpd");
    expect(post_vpd("Vocaloid Pose Data file\nBone0{b\n 0,0,0;\n"), 422, "invalid-vpd");
    expect(post_vpd(""), 400, "bad-request");
    expect(post_vpd("Vocaloid Pose Data file"), 200, "");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("motions");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_upload_is_answered_with_the_document);
    tcase_add_test(tests, forms_are_taken_as_for_models);
    tcase_add_test(tests, a_broken_file_is_422_with_its_place);
    tcase_add_test(tests, every_shorter_upload_is_answered_without_a_read_past_its_end);
    tcase_add_test(tests, motions_are_listed_in_pages);
    tcase_add_test(tests, what_is_not_there_is_404);
    tcase_add_test(tests, deletes_are_guarded_by_if_match);
    tcase_add_test(tests, an_evicted_motion_is_said_to_be_one);
    tcase_add_test(tests, a_motion_that_cannot_fit_is_507);
    tcase_add_test(tests, match_says_what_the_model_has_and_lacks);
    tcase_add_test(tests, a_motion_alone_is_all_its_frames);
    tcase_add_loop_test(tests, ranges_count_and_lists_keep_their_order, 0,
                        sizeof ranges / sizeof *ranges);
    tcase_add_test(tests, members_may_come_in_any_order);
    tcase_add_test(tests, names_that_the_model_lacks_are_counted);
    tcase_add_test(tests, a_motion_that_matches_nothing_gives_the_rest_pose_and_says_so);
    tcase_add_test(tests, a_motion_without_keys_is_one_frame);
    tcase_add_test(tests, a_rotation_replaces_the_motions_and_leaves_its_translation);
    tcase_add_test(tests, a_translation_replaces_the_motions_and_leaves_its_rotation);
    tcase_add_test(tests, overrides_that_give_nothing_change_nothing);
    tcase_add_test(tests, ik_is_the_querys_then_the_overrides_then_the_motions);
    tcase_add_test(tests, a_morph_replaces_the_motions);
    tcase_add_test(tests, ik_off_is_for_every_body);
    tcase_add_loop_test(tests, wrong_bodies_point_to_what_is_wrong, 0,
                        sizeof wrong / sizeof *wrong);
    tcase_add_test(tests, requests_without_end_are_refused_before_anything_runs);
    tcase_add_test(tests, frames_without_a_byte_cost_nothing);
    tcase_add_test(tests, a_vpd_file_is_a_pose);
    tcase_add_test(tests, a_broken_vpd_is_422_with_its_place);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
