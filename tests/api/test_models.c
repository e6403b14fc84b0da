/* The models' routes: uploads, documents, lists, settings, what a model consists of. */
#include "api/routes.h"
#include "tests/data/models.h"
#include "tests/support_api.h"
#include "tests/support_pose.h"
#include "tests/support_vmd.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static api_house house;
static dfm_arena arena;
static uint8_t *bytes; /* of the small model */
static size_t size;
static char id[DFM_ID_DIGITS + 1], path[128];

static void setup(void) {
    api_house_open(&house, 0);
    bytes = pose_model_bytes(&size);
}

static void teardown(void) {
    free(bytes);
    dfm_arena_free(&arena);
    api_house_close(&house);
}

static void upload(void) {
    api_upload(&house, bytes, size, id);
    snprintf(path, sizeof path, "/models/%s", id);
}

static api_answer send_upload(const char *query, const char *content_type) {
    return api_send(&house, &(api_ask){.method = DFM_METHOD_POST,
                                       .path = "/models",
                                       .query = query,
                                       .headers = {.content_type = content_type},
                                       .body = bytes,
                                       .body_bytes = size});
}

static api_answer get(const char *at) {
    return api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = at});
}

static api_answer patch(const char *body) {
    return api_send(&house, &(api_ask){.method = DFM_METHOD_PATCH, .path = path, .body = body});
}

/* A value in the JSON body, by a path of member names. */
static cJSON *value(const api_answer *answer, const char *a, const char *b) {
    cJSON *item = cJSON_GetObjectItemCaseSensitive(answer->json, a);
    return b ? cJSON_GetObjectItemCaseSensitive(item, b) : item;
}

static double number(const api_answer *answer, const char *a, const char *b) {
    cJSON *item = value(answer, a, b);
    ck_assert_msg(cJSON_IsNumber(item), "%s.%s", a, b ? b : "");
    return item->valuedouble;
}

static void expect(api_answer answer, int status, const char *problem) {
    ck_assert_msg(answer.status == status, "%d %s", answer.status, answer.body);
    ck_assert_str_eq(api_problem(&answer), problem);
    if (status >= 400) {
        ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/problem+json");
        ck_assert_int_eq((int)number(&answer, "status", NULL), status);
        ck_assert_str_eq(api_string(&answer, "request_id"), api_header(&answer, "X-Request-Id"));
        ck_assert_uint_gt(strlen(api_string(&answer, "title")), 0);
        ck_assert_uint_gt(strlen(api_string(&answer, "detail")), 0);
    }
    api_answer_free(&answer);
}

/* --- uploads ---------------------------------------------------------------------------------- */

START_TEST(an_upload_is_answered_with_the_document) {
    api_answer answer = send_upload(NULL, "application/octet-stream");
    ck_assert_int_eq(answer.status, 201);
    const char *name = api_string(&answer, "id");
    char location[64], digest[65];
    uint8_t raw[DFM_DIGEST_BYTES];
    dfm_id made;
    dfm_digest(bytes, size, raw, &made);
    ck_assert_str_eq(name, made.text);
    for (int i = 0; i < DFM_DIGEST_BYTES; i++)
        snprintf(digest + 2 * i, 3, "%02x", raw[i]);
    ck_assert_str_eq(api_string(&answer, "digest"), digest);
    snprintf(location, sizeof location, "models/%s", name);
    ck_assert_str_eq(api_header(&answer, "Location"), location);
    ck_assert_str_eq(api_string(&answer, "mode"), "gpu");
    ck_assert_str_eq(api_string(&answer, "effective_mode"), "cpu");
    ck_assert_str_eq(api_string(&answer, "weights"), "normalized");
    ck_assert_str_eq(api_string(&answer, "physics"), "not simulated");
    ck_assert_str_eq(api_string(&answer, "text_encoding"), "utf-8");
    ck_assert(cJSON_IsTrue(value(&answer, "sdef", NULL)));
    ck_assert(number(&answer, "pmx_version", NULL) == 2);
    ck_assert(number(&answer, "counts", "bones") == POSE_BONES);
    ck_assert(number(&answer, "counts", "morphs") == POSE_MORPHS);
    ck_assert(number(&answer, "counts", "vertices") == 3);
    ck_assert(number(&answer, "counts", "triangles") == 1);
    ck_assert(number(&answer, "weight_types", "bdef1") == 3);
    ck_assert(number(&answer, "file_bytes", NULL) == (double)size);
    ck_assert(number(&answer, "resident_bytes", NULL) > (double)size);
    ck_assert(cJSON_GetArrayItem(value(&answer, "bounds", "max"), 0)->valuedouble == 2);
    ck_assert_ptr_nonnull(strchr(api_string(&answer, "created"), 'T'));
    api_answer_free(&answer);
}
END_TEST

START_TEST(the_same_bytes_again_are_200_and_only_given_settings_change) {
    expect(send_upload("sdef=off&mode=cpu", NULL), 201, "");
    api_answer answer = send_upload("weights=raw", NULL);
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(api_string(&answer, "mode"), "cpu");
    ck_assert_str_eq(api_string(&answer, "weights"), "raw");
    ck_assert(cJSON_IsFalse(value(&answer, "sdef", NULL)));
    api_answer_free(&answer);
    ck_assert_uint_eq(dfm_cache_get_stats(house.cache).models, 1);
}
END_TEST

START_TEST(uploads_come_under_several_types) {
    expect(send_upload(NULL, "application/x-www-form-urlencoded"), 201, "");
    expect(send_upload(NULL, "Application/Octet-Stream"), 200, "");
    expect(send_upload(NULL, ""), 200, "");
    api_answer answer = send_upload(NULL, "multipart/form-data; boundary=x");
    ck_assert(answer.admission.takes_multipart);
    ck_assert_int_eq(answer.status, 200);
    api_answer_free(&answer);
    expect(send_upload(NULL, "text/plain"), 415, "unsupported-media-type");
    expect(send_upload(NULL, "application/json"), 415, "unsupported-media-type");
}
END_TEST

/* The server inflates before it hands the body over. */
START_TEST(of_encodings_gzip_is_taken) {
    api_ask ask = {.method = DFM_METHOD_POST,
                   .path = "/models",
                   .headers = {.content_encoding = "br"},
                   .body = bytes,
                   .body_bytes = size};
    expect(api_send(&house, &ask), 415, "unsupported-media-type");
    ask.headers.content_encoding = "gzip, gzip";
    expect(api_send(&house, &ask), 415, "unsupported-media-type");
    ask.headers.content_encoding = "gzip";
    ask.headers.content_type = "multipart/form-data; boundary=x";
    expect(api_send(&house, &ask), 415, "unsupported-media-type");
    ask.headers.content_type = NULL;
    api_answer answer = api_send(&house, &ask);
    ck_assert(answer.admission.gzip);
    expect(answer, 201, "");
    ask.headers.content_encoding = "identity";
    answer = api_send(&house, &ask);
    ck_assert(!answer.admission.gzip);
    expect(answer, 200, "");
}
END_TEST

START_TEST(wrong_settings_are_refused_before_the_body_is_read) {
    static const char *const wrong[] = {"mode=GPU",     "mode=",   "mode=opencl",      "sdef=true",
                                        "weights=none", "mod=gpu", "mode=gpu&mode=gpu"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        api_answer answer = send_upload(wrong[i], NULL);
        ck_assert(!answer.admitted);
        expect(answer, 400, "invalid-query");
    }
}
END_TEST

START_TEST(large_bodies_are_refused_by_their_announced_length) {
    api_ask ask = {.method = DFM_METHOD_POST,
                   .path = "/models",
                   .content_length = (int64_t)house.config.max_upload_bytes + 1};
    api_answer answer = api_send(&house, &ask);
    ck_assert(!answer.admitted);
    ck_assert(number(&answer, "limit", NULL) == (double)house.config.max_upload_bytes);
    ck_assert(number(&answer, "received", NULL) == (double)ask.content_length);
    expect(answer, 413, "body-too-large");
    ask.headers.content_type = "multipart/form-data; boundary=x"; /* boundaries come on top */
    answer = api_send(&house, &ask);
    ck_assert(answer.admitted);
    api_answer_free(&answer);
    ask.headers.content_type = NULL;
    ask.content_length = -1; /* the server counts */
    answer = api_send(&house, &ask);
    ck_assert_uint_eq(answer.admission.max_body_bytes, house.config.max_upload_bytes);
    api_answer_free(&answer);
}
END_TEST

START_TEST(a_broken_file_is_422_with_section_and_offset) {
    size_t whole = size;
    size = 200;
    api_answer answer = send_upload(NULL, NULL);
    ck_assert_uint_gt(strlen(api_string(&answer, "section")), 0);
    ck_assert(number(&answer, "offset", NULL) <= 200);
    expect(answer, 422, "invalid-model");
    size = whole;
    bytes[0] = 'Q';
    answer = send_upload(NULL, NULL);
    ck_assert_str_eq(api_string(&answer, "section"), "header");
    ck_assert(number(&answer, "offset", NULL) == 0);
    expect(answer, 422, "invalid-model");
    expect(api_send(&house, &(api_ask){.method = DFM_METHOD_POST, .path = "/models"}), 422,
           "invalid-model");
    ck_assert_uint_eq(dfm_cache_get_stats(house.cache).models, 0);
}
END_TEST

START_TEST(a_model_that_cannot_fit_is_507) {
    teardown();
    api_house_open(&house, 4096);
    bytes = pose_model_bytes(&size);
    expect(send_upload(NULL, NULL), 507, "no-room");
}
END_TEST

START_TEST(an_evicted_model_is_404_of_its_own_kind) {
    upload();
    size_t one = dfm_cache_get_stats(house.cache).resident_bytes;
    teardown();
    api_house_open(&house, one + one / 2);
    bytes = pose_model_bytes(&size);
    upload();
    size_t other_size;
    dfm_pmx odd = model_odd(&arena, 2.0f, DFM_TEXT_UTF8);
    odd.vertices.count = odd.index_count = odd.material_count = 0;
    odd.bone_count = odd.morph_count = 0;
    uint8_t *other = model_bytes(&odd, NULL, &other_size);
    char other_id[DFM_ID_DIGITS + 1];
    api_upload(&house, other, other_size, other_id);
    free(other);
    expect(get(path), 404, "model-evicted");
    upload();
    expect(get(path), 200, "");
}
END_TEST

/* --- modes ------------------------------------------------------------------------------------ */

static cJSON *find_warning(const api_answer *answer, const char *code) {
    cJSON *warning;
    cJSON_ArrayForEach(warning, value(answer, "warnings", NULL)) {
        if (strcmp(cJSON_GetObjectItemCaseSensitive(warning, "code")->valuestring, code) == 0)
            return warning;
    }
    return NULL;
}

START_TEST(gpu_without_a_kernel_runs_on_the_cpu_and_says_so) {
    api_answer answer = send_upload("mode=gpu", NULL);
    ck_assert_str_eq(api_string(&answer, "mode"), "gpu");
    ck_assert_str_eq(api_string(&answer, "effective_mode"), "cpu");
    cJSON *warning = find_warning(&answer, "opencl-unavailable");
    ck_assert_ptr_nonnull(warning);
    ck_assert_str_eq(cJSON_GetObjectItemCaseSensitive(warning, "message")->valuestring,
                     "no OpenCL platform");
    ck_assert(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(warning, "first")));
    api_answer_free(&answer);
    answer = send_upload("mode=cpu", NULL);
    ck_assert_str_eq(api_string(&answer, "effective_mode"), "cpu");
    ck_assert_ptr_null(find_warning(&answer, "opencl-unavailable"));
    api_answer_free(&answer);
}
END_TEST

START_TEST(strict_mode_refuses_gpu_without_a_kernel) {
    house.config.strict_mode = true;
    api_house_reopen(&house);
    expect(send_upload(NULL, NULL), 503, "opencl-unavailable");
    expect(send_upload("mode=gpu", NULL), 503, "opencl-unavailable");
    ck_assert_uint_eq(dfm_cache_get_stats(house.cache).models, 0);
    expect(send_upload("mode=cpu", NULL), 201, "");
    expect(send_upload(NULL, NULL), 200, ""); /* its mode stays cpu */
    expect(send_upload("mode=gpu", NULL), 503, "opencl-unavailable");
    api_answer answer = send_upload(NULL, NULL);
    snprintf(path, sizeof path, "/models/%s", api_string(&answer, "id"));
    api_answer_free(&answer);
    expect(patch("{\"mode\":\"gpu\"}"), 503, "opencl-unavailable");
    expect(patch("{\"sdef\":false}"), 200, "");
    answer = get(path);
    ck_assert_str_eq(api_string(&answer, "mode"), "cpu");
    api_answer_free(&answer);
}
END_TEST

/* --- one model -------------------------------------------------------------------------------- */

START_TEST(a_document_has_a_tag_that_if_none_match_honours) {
    upload();
    api_answer answer = get(path);
    char tag[96], weak[128];
    snprintf(tag, sizeof tag, "%s", api_header(&answer, "ETag"));
    snprintf(weak, sizeof weak, "\"x\", W/%s", tag);
    api_answer_free(&answer);
    const char *const hits[] = {tag, weak, "*"}, *const misses[] = {"\"x\"", "x", ""};
    for (int i = 0; i < 3; i++) {
        api_ask ask = {
            .method = DFM_METHOD_GET, .path = path, .headers = {.if_none_match = hits[i]}};
        answer = api_send(&house, &ask);
        ck_assert_uint_eq(answer.body_bytes, 0);
        ck_assert_str_eq(api_header(&answer, "ETag"), tag);
        expect(answer, 304, "");
        ask.headers.if_none_match = misses[i];
        expect(api_send(&house, &ask), 200, "");
    }
}
END_TEST

/* A VMD file without a key. */
static const char *upload_motion(void) {
    static char motion[DFM_ID_DIGITS + 1];
    static vmd_writer file;
    vmd_begin(&file);
    api_upload_motion(&house, file.bytes, file.size, motion);
    return motion;
}

START_TEST(every_get_has_a_tag_and_knows_it_again) {
    upload();
    const char *motion = upload_motion();
    for (size_t i = 0; i < dfm_route_count; i++) {
        if (dfm_routes[i].method != DFM_METHOD_GET)
            continue;
        const char *pattern = strchr(dfm_routes[i].name, ' ') + 1, *hole = strstr(pattern, "{id}");
        const char *of = strncmp(pattern, "/motions", 8) == 0 ? motion : id;
        char at[128], query[64];
        snprintf(at, sizeof at, "%.*s%s%s", hole ? (int)(hole - pattern) : (int)strlen(pattern),
                 pattern, hole ? of : "", hole ? hole + 4 : "");
        snprintf(query, sizeof query, "model=%s", id);
        api_ask ask = {
            .method = DFM_METHOD_GET, .path = at, .query = strstr(at, "/match") ? query : NULL};
        api_answer answer = api_send(&house, &ask);
        const char *tag = api_header(&answer, "ETag");
        ck_assert_msg(answer.status == 200 && tag && tag[0] == '"', "%s: %d", at, answer.status);
        ask.method = DFM_METHOD_HEAD;
        ask.headers.if_none_match = tag;
        api_answer again = api_send(&house, &ask);
        ck_assert_str_eq(api_header(&again, "ETag"), tag);
        expect(again, 304, "");
        api_answer_free(&answer);
    }
}
END_TEST

START_TEST(what_is_not_there_is_404) {
    upload();
    expect(get("/models/00000000000000000000000000000000"), 404, "model-not-found");
    expect(get("/models/00000000000000000000000000000000/bones"), 404, "model-not-found");
    expect(get("/models/short"), 404, "model-not-found");
    expect(get("/nothing"), 404, "not-found");
}
END_TEST

START_TEST(other_methods_are_405_with_what_there_is) {
    upload();
    api_answer answer = api_send(&house, &(api_ask){.method = DFM_METHOD_OTHER, .path = path});
    ck_assert_str_eq(api_header(&answer, "Allow"), "GET, HEAD, PATCH, DELETE");
    expect(answer, 405, "method-not-allowed");
    expect(api_send(&house, &(api_ask){.method = DFM_METHOD_POST, .path = path}), 405,
           "method-not-allowed");
}
END_TEST

START_TEST(answers_that_accept_rules_out_are_406) {
    upload();
    api_ask ask = {.method = DFM_METHOD_GET, .path = path, .headers = {.accept = "text/html"}};
    expect(api_send(&house, &ask), 406, "not-acceptable");
    ask.headers.accept = "text/html, */*;q=0.1";
    expect(api_send(&house, &ask), 200, "");
    ask.path = "/openapi.yaml";
    ask.headers.accept = "application/json";
    expect(api_send(&house, &ask), 406, "not-acceptable");
}
END_TEST

START_TEST(a_delete_forgets_the_model) {
    upload();
    api_ask ask = {.method = DFM_METHOD_DELETE, .path = path, .headers = {.if_match = "\"x\""}};
    expect(api_send(&house, &ask), 412, "precondition-failed");
    ask.headers.if_match = NULL;
    api_answer answer = api_send(&house, &ask);
    ck_assert_uint_eq(answer.body_bytes, 0);
    expect(answer, 204, "");
    expect(api_send(&house, &ask), 404, "model-not-found");
    expect(get(path), 404, "model-not-found");
    ck_assert_uint_eq(dfm_cache_get_stats(house.cache).resident_bytes, 0);
}
END_TEST

/* --- settings --------------------------------------------------------------------------------- */

START_TEST(a_patch_changes_what_it_names) {
    upload();
    api_answer before = get(path), answer = patch(" {\"sdef\": false, \"weights\":\"r\\u0061w\"} ");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(api_string(&answer, "mode"), "gpu");
    ck_assert_str_eq(api_string(&answer, "weights"), "raw");
    ck_assert(cJSON_IsFalse(value(&answer, "sdef", NULL)));
    ck_assert_str_ne(api_header(&answer, "ETag"), api_header(&before, "ETag"));
    api_answer after = get(path);
    ck_assert_str_eq(api_header(&answer, "ETag"), api_header(&after, "ETag"));
    ck_assert_str_eq(answer.body, after.body);
    api_answer_free(&after);
    api_answer_free(&answer);
    answer = patch("{\"sdef\":true,\"weights\":\"normalized\"}");
    ck_assert_str_eq(answer.body, before.body);
    api_answer_free(&answer);
    api_answer_free(&before);
    expect(patch("{}"), 200, "");
}
END_TEST

START_TEST(wrong_patches_are_pointed_at) {
    upload();
    static const struct {
        const char *body, *pointer;
    } cases[] = {
        {"[]", ""},
        {"null", ""},
        {"{\"mode\":null}", "/mode"},
        {"{\"mode\":\"GPU\"}", "/mode"},
        {"{\"mode\":1}", "/mode"},
        {"{\"sdef\":\"on\"}", "/sdef"},
        {"{\"sdef\":0}", "/sdef"},
        {"{\"weights\":[]}", "/weights"},
        {"{\"Mode\":\"gpu\"}", "/Mode"},
        {"{\"mode\\u0000\":\"cpu\"}", "/mode\\u0000"},
        {"{\"name/~\":\"x\"}", "/name~1~0"},
        {"{\"sdef\":true,\"sdef\":false}", "/sdef"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        api_answer answer = patch(cases[i].body);
        ck_assert_msg(strcmp(api_string(&answer, "pointer"), cases[i].pointer) == 0, "%s: %s",
                      cases[i].body, answer.body);
        ck_assert_ptr_nonnull(value(&answer, "pointer", NULL));
        expect(answer, 422, "invalid-settings");
    }
    static const char *const broken[] = {"{",
                                         "{\"mode\":}",
                                         "{\"mode\":gpu}",
                                         "{} {}",
                                         "{\"mode\":\"\xff\"}",
                                         "{\"sdef\":tru}",
                                         "{\"sdef\":true,}"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        expect(patch(broken[i]), 400, "invalid-json");
    expect(patch(NULL), 400, "bad-request");
}
END_TEST

START_TEST(patches_come_as_merge_patch_or_json) {
    upload();
    api_ask ask = {.method = DFM_METHOD_PATCH,
                   .path = path,
                   .headers = {.content_type = "application/merge-patch+json"},
                   .body = "{}"};
    expect(api_send(&house, &ask), 200, "");
    ask.headers.content_type = "application/json; charset=utf-8";
    expect(api_send(&house, &ask), 200, "");
    ask.headers.content_type = "application/json-patch+json";
    expect(api_send(&house, &ask), 415, "unsupported-media-type");
}
END_TEST

START_TEST(if_match_guards_a_patch) {
    upload();
    api_answer answer = get(path);
    char tag[96], weak[128];
    snprintf(tag, sizeof tag, "%s", api_header(&answer, "ETag"));
    snprintf(weak, sizeof weak, "W/%s", tag);
    api_answer_free(&answer);
    api_ask ask = {.method = DFM_METHOD_PATCH,
                   .path = path,
                   .headers = {.if_match = weak},
                   .body = "{\"sdef\":false}"};
    expect(api_send(&house, &ask), 412, "precondition-failed");
    ask.headers.if_match = tag;
    expect(api_send(&house, &ask), 200, "");
    expect(api_send(&house, &ask), 412, "precondition-failed");
    ask.headers.if_match = "*";
    expect(api_send(&house, &ask), 200, "");
    ask.path = "/models/00000000000000000000000000000000";
    expect(api_send(&house, &ask), 404, "model-not-found");
}
END_TEST

/* --- lists ------------------------------------------------------------------------------------ */

static api_answer list(const char *query) {
    return api_send(&house,
                    &(api_ask){.method = DFM_METHOD_GET, .path = "/models", .query = query});
}

START_TEST(models_are_listed_by_id_in_pages) {
    enum { COUNT = 7 };
    for (int i = 0; i < COUNT; i++) {
        size_t other_size;
        grid_options options = grid_default_options(10 + (uint32_t)i, 2);
        dfm_pmx grid = model_grid(&arena, &options);
        uint8_t *other = model_bytes(&grid, NULL, &other_size);
        api_upload(&house, other, other_size, id);
        free(other);
    }
    char query[64] = "limit=3", last[DFM_ID_DIGITS + 1] = "";
    int seen = 0;
    for (int page = 0; page < 3; page++) {
        api_answer answer = list(query);
        cJSON *model, *next = value(&answer, "next", NULL);
        cJSON_ArrayForEach(model, value(&answer, "models", NULL)) {
            const char *now = cJSON_GetObjectItemCaseSensitive(model, "id")->valuestring;
            ck_assert_int_gt(strcmp(now, last), 0);
            snprintf(last, sizeof last, "%s", now);
            seen++;
        }
        ck_assert_int_eq(cJSON_IsNull(next), page == 2);
        if (page < 2)
            ck_assert_str_eq(next->valuestring, last);
        snprintf(query, sizeof query, "limit=3&cursor=%s", last);
        api_answer_free(&answer);
    }
    ck_assert_int_eq(seen, COUNT);
    api_answer answer = list(NULL);
    ck_assert_int_eq(cJSON_GetArraySize(value(&answer, "models", NULL)), COUNT);
    api_answer_free(&answer);
    answer = list("cursor=ffffffffffffffffffffffffffffffff");
    ck_assert_int_eq(cJSON_GetArraySize(value(&answer, "models", NULL)), 0);
    api_answer_free(&answer);
}
END_TEST

START_TEST(wrong_pages_are_400) {
    static const char *const wrong[] = {"limit=0", "limit=1001",
                                        "limit=x", "cursor=x",
                                        "cursor=", "cursor=FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF",
                                        "page=1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect(list(wrong[i]), 400, "invalid-query");
}
END_TEST

/* --- what a model consists of ----------------------------------------------------------------- */

static api_answer get_part(const char *part, const char *query) {
    char at[192];
    snprintf(at, sizeof at, "%s/%s", path, part);
    return api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = at, .query = query});
}

static void use_odd_model(void) {
    dfm_pmx odd = model_odd(&arena, 2.1f, DFM_TEXT_UTF16LE);
    free(bytes);
    bytes = model_bytes(&odd, NULL, &size);
    upload();
}

START_TEST(lists_are_in_file_order_and_say_all) {
    use_odd_model();
    dfm_model *model;
    dfm_error error = {0};
    ck_assert_int_eq(dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, &error), DFM_OK);
    const struct {
        const char *part;
        uint32_t count;
    } lists[] = {{"bones", model->pmx.bone_count},
                 {"morphs", model->pmx.morph_count},
                 {"materials", model->pmx.material_count}};
    for (int k = 0; k < 3; k++) {
        api_answer answer = get_part(lists[k].part, NULL);
        ck_assert_int_eq(answer.status, 200);
        cJSON *items = value(&answer, lists[k].part, NULL), *item;
        ck_assert_int_eq(cJSON_GetArraySize(items), (int)lists[k].count);
        int index = 0;
        cJSON_ArrayForEach(item, items) {
            ck_assert(cJSON_GetObjectItemCaseSensitive(item, "index")->valuedouble == index++);
            ck_assert(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(item, "name")));
            ck_assert(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(item, "name_en")));
        }
        api_answer_free(&answer);
    }
    dfm_model_release(model);
}
END_TEST

START_TEST(bones_carry_append_axes_and_ik) {
    use_odd_model();
    api_answer answer = get_part("bones", NULL);
    static const char *const words[] = {"\"append\":{\"source\":",
                                        "\"fixed_axis\":[",
                                        "\"local_axis\":{\"x\":[",
                                        "\"ik\":{\"target\":0",
                                        "\"limits_rad\":{\"min\":[-3,0,0]",
                                        "\"external_parent\":",
                                        "\"tail\":{\"bone\":1}",
                                        "\"parent\":null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        ck_assert_msg(strstr(answer.body, words[i]) != NULL, "%s", words[i]);
    api_answer_free(&answer);
}
END_TEST

START_TEST(names_with_a_nul_come_out_whole) {
    upload();
    api_answer answer = get_part("bones", NULL);
    ck_assert_ptr_nonnull(strstr(answer.body, "\"nul\\u0000in\""));
    api_answer_free(&answer);
}
END_TEST

START_TEST(indices_are_u16_where_they_fit) {
    upload();
    api_answer answer = get_part("indices", NULL);
    ck_assert_str_eq(api_header(&answer, "Deformd-Index-Type"), "u16");
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/octet-stream");
    ck_assert_uint_eq(answer.body_bytes, 6);
    ck_assert_mem_eq(answer.body, ((uint16_t[]){0, 1, 2}), 6);
    api_answer_free(&answer);
    grid_options options = grid_default_options(70000, 10);
    dfm_pmx grid = model_grid(&arena, &options);
    free(bytes);
    bytes = model_bytes(&grid, NULL, &size);
    upload();
    answer = get_part("indices", NULL);
    ck_assert_str_eq(api_header(&answer, "Deformd-Index-Type"), "u32");
    ck_assert_uint_eq(answer.body_bytes, (size_t)grid.index_count * 4);
    ck_assert_mem_eq(answer.body, grid.indices, answer.body_bytes);
    api_answer_free(&answer);
}
END_TEST

START_TEST(vertices_are_the_bind_pose_in_any_layout) {
    upload();
    api_answer answer = get_part("vertices", NULL);
    ck_assert_str_eq(api_header(&answer, "Deformd-Layout"), "position:f32x3@0,normal:f32x3@12");
    ck_assert_str_eq(api_header(&answer, "Deformd-Vertices"), "3");
    ck_assert_str_eq(api_header(&answer, "Deformd-Stride"), "24");
    ck_assert_str_eq(api_header(&answer, "Deformd-Frames"), "1");
    ck_assert_uint_eq(answer.body_bytes, 72);
    ck_assert_mem_eq(answer.body + 24, ((float[]){1, 1, 0, 0, 0, -1}), 24);
    api_answer_free(&answer);
    answer = get_part("vertices", "attributes=edge_scale,position&layout=planar&components=f16");
    ck_assert_str_eq(api_header(&answer, "Deformd-Layout"),
                     "edge_scale:f16x1@0,position:f16x3@6;planar");
    ck_assert_uint_eq(answer.body_bytes, 24);
    ck_assert_mem_eq(answer.body + 6 + 6, ((uint16_t[]){0x3C00, 0x3C00, 0}), 6);
    api_answer_free(&answer);
}
END_TEST

START_TEST(wrong_attributes_are_400_and_missing_ones_422) {
    upload();
    static const char *const wrong[] = {"attributes=",
                                        "attributes=position,",
                                        "attributes=Position",
                                        "attributes=uv5",
                                        "attributes=position,position",
                                        "layout=rows",
                                        "components=f64",
                                        "format=json",
                                        "attributes=position;normal",
                                        "attributes=position%00"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect(get_part("vertices", wrong[i]), 400, "invalid-query");
    expect(get_part("vertices", "attributes=uv1"), 422, "missing-attribute");
    use_odd_model(); /* has four */
    api_answer answer = get_part(
        "vertices", "attributes=position,normal,uv,uv1,uv2,uv3,uv4,edge_scale&layout=planar");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_ptr_nonnull(strstr(api_header(&answer, "Deformd-Layout"), ";planar"));
    api_answer_free(&answer);
}
END_TEST

START_TEST(results_over_the_limit_are_413_and_without_room_503) {
    upload();
    house.config.max_result_bytes = 71;
    api_house_reopen(&house);
    api_answer answer = get_part("vertices", NULL);
    ck_assert(number(&answer, "limit", NULL) == 71);
    ck_assert(number(&answer, "received", NULL) == 72);
    expect(answer, 413, "result-too-large");
    house.config.max_result_bytes = 72;
    api_house_reopen(&house);
    expect(get_part("vertices", NULL), 200, "");
    house.refuse_buffers = true;
    answer = get_part("vertices", NULL);
    ck_assert_ptr_nonnull(api_header(&answer, "Retry-After"));
    expect(answer, 503, "busy");
    expect(get_part("indices", NULL), 503, "busy");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("models");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_upload_is_answered_with_the_document);
    tcase_add_test(tests, the_same_bytes_again_are_200_and_only_given_settings_change);
    tcase_add_test(tests, uploads_come_under_several_types);
    tcase_add_test(tests, of_encodings_gzip_is_taken);
    tcase_add_test(tests, wrong_settings_are_refused_before_the_body_is_read);
    tcase_add_test(tests, large_bodies_are_refused_by_their_announced_length);
    tcase_add_test(tests, a_broken_file_is_422_with_section_and_offset);
    tcase_add_test(tests, a_model_that_cannot_fit_is_507);
    tcase_add_test(tests, an_evicted_model_is_404_of_its_own_kind);
    tcase_add_test(tests, gpu_without_a_kernel_runs_on_the_cpu_and_says_so);
    tcase_add_test(tests, strict_mode_refuses_gpu_without_a_kernel);
    tcase_add_test(tests, a_document_has_a_tag_that_if_none_match_honours);
    tcase_add_test(tests, every_get_has_a_tag_and_knows_it_again);
    tcase_add_test(tests, what_is_not_there_is_404);
    tcase_add_test(tests, other_methods_are_405_with_what_there_is);
    tcase_add_test(tests, answers_that_accept_rules_out_are_406);
    tcase_add_test(tests, a_delete_forgets_the_model);
    tcase_add_test(tests, a_patch_changes_what_it_names);
    tcase_add_test(tests, wrong_patches_are_pointed_at);
    tcase_add_test(tests, patches_come_as_merge_patch_or_json);
    tcase_add_test(tests, if_match_guards_a_patch);
    tcase_add_test(tests, models_are_listed_by_id_in_pages);
    tcase_add_test(tests, wrong_pages_are_400);
    tcase_add_test(tests, lists_are_in_file_order_and_say_all);
    tcase_add_test(tests, bones_carry_append_axes_and_ik);
    tcase_add_test(tests, names_with_a_nul_come_out_whole);
    tcase_add_test(tests, indices_are_u16_where_they_fit);
    tcase_add_test(tests, vertices_are_the_bind_pose_in_any_layout);
    tcase_add_test(tests, wrong_attributes_are_400_and_missing_ones_422);
    tcase_add_test(tests, results_over_the_limit_are_413_and_without_room_503);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
