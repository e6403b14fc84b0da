/* Every route with the Nth allocation failing: an answer comes all the same, whole JSON in it, and
 * nothing is leaked. And: a deform in steady state allocates next to nothing. */
#include "tests/data/models.h"
#include "tests/support_pose.h"
#include "tests/support_vmd.h"
#include "tests/wrap_allocator.h"

#include "api/api.h"

#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Check's own macros allocate: they come when all counting is done. */

static dfm_skinners skinners;
static dfm_skinner_backend batching; /* the CPU skinner where OpenCL's is: asked in batches */
static dfm_cache *cache;
static dfm_motion_store *motions;
static dfm_api *api;
static uint8_t *bytes;
static size_t size;
static char model_path[48];
static char stats_path[64], deform_path[64], bones_path[64], morphs_path[64], materials_path[64],
    indices_path[64], vertices_path[64];
static vmd_writer vmd;
static char motion_path[48], match_path[64], match_query[64];
static char play_body[256], stream_body[256];
static float pose_body[512], matrices_body[1024];
static size_t pose_bytes, matrices_bytes;

static void *hook_malloc(size_t bytes_wanted) {
    return malloc(bytes_wanted);
}

static void hook_free(void *memory) {
    free(memory);
}

static dfm_buffer *acquire(void *context, size_t capacity) {
    (void)context;
    dfm_buffer *buffer = malloc(sizeof *buffer);
    uint8_t *data = buffer ? aligned_alloc(64, (capacity + 63) / 64 * 64) : NULL;
    if (!data) {
        free(buffer);
        return NULL;
    }
    *buffer = (dfm_buffer){.data = data, .capacity = capacity};
    return buffer;
}

static void release(void *context, dfm_buffer *buffer) {
    (void)context;
    free(buffer->data);
    free(buffer);
}

static uint64_t footprint(void *context, uint64_t capacity) {
    (void)context;
    return capacity;
}

/* Opens a house without workspaces yet: the first deform makes them. False: no memory. */
static bool open_api(void) {
    dfm_api_config config = {
        .version = "1",
        .build = "test",
        .defaults = {.mode = DFM_MODE_GPU, .sdef = true},
        .max_upload_bytes = 1 << 24,
        .max_json_bytes = 1 << 20,
        .max_pose_bytes = 1 << 20,
        .worker_count = 2,
        .cache = cache,
        .motions = motions,
        .skinners = &skinners,
        .buffers = {acquire, release, footprint, NULL},
    };
    api = dfm_api_create(&config);
    return api != NULL;
}

static void make_paths(void) {
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_id id;
    dfm_digest(bytes, size, digest, &id);
    snprintf(model_path, sizeof model_path, "/models/%s", id.text);
    snprintf(stats_path, sizeof stats_path, "%s/stats", model_path);
    snprintf(deform_path, sizeof deform_path, "%s/deform", model_path);
    snprintf(bones_path, sizeof bones_path, "%s/bones", model_path);
    snprintf(morphs_path, sizeof morphs_path, "%s/morphs", model_path);
    snprintf(materials_path, sizeof materials_path, "%s/materials", model_path);
    snprintf(indices_path, sizeof indices_path, "%s/indices", model_path);
    snprintf(vertices_path, sizeof vertices_path, "%s/vertices", model_path);
}

/* A motion of the odd model's first bone and of one that it lacks. */
static void make_motion(void) {
    static const float still[3], no_turn[4] = {0, 0, 0, 1};
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_id id;
    vmd_begin(&vmd);
    vmd_section(&vmd);
    vmd_bone(&vmd, "\x8d\xaa", 0, still, no_turn, NULL); /* 根 */
    vmd_bone(&vmd, "nobody", 9, still, no_turn, NULL);
    dfm_digest(vmd.bytes, vmd.size, digest, &id);
    snprintf(motion_path, sizeof motion_path, "/motions/%s", id.text);
    snprintf(match_path, sizeof match_path, "%s/match", motion_path);
    snprintf(match_query, sizeof match_query, "model=%s", model_path + strlen("/models/"));
    snprintf(play_body, sizeof play_body,
             "{\"motion\":\"%s\",\"frames\":[0,3.5],\"overrides\":{\"bones\":{\"#0\":{}}}}",
             id.text);
    snprintf(stream_body, sizeof stream_body, "{\"motion\":\"%s\",\"frames\":{\"end\":1e6}}",
             id.text);
}

/* Binary poses of a model at rest. */
static void make_poses(const dfm_pmx *pmx) {
    pose_bytes = sizeof *pose_body * (7 * (size_t)pmx->bone_count + pmx->morph_count);
    matrices_bytes = sizeof *matrices_body * 12 * (size_t)pmx->bone_count;
    ck_assert(pose_bytes <= sizeof pose_body && matrices_bytes <= sizeof matrices_body);
    for (uint32_t i = 0; i < pmx->bone_count; i++) {
        pose_body[7 * i + 3] = 1;
        for (int k = 0; k < 3; k++)
            matrices_body[12 * i + 5 * (uint32_t)k] = 1;
    }
}

static void open_skinners(void) {
    dfm_skinner_options options = {.worker_count = 2};
    ck_assert_int_eq(dfm_skinner_open(&dfm_skinner_cpu, &options, &skinners.cpu, NULL), DFM_OK);
    ck_assert_int_eq(dfm_skinner_open(&dfm_skinner_cpu, &options, &skinners.opencl, NULL), DFM_OK);
    batching = dfm_skinner_cpu;
    batching.batches = true;
    skinners.opencl->backend = &batching;
}

static void setup(void) {
    dfm_arena arena = {0};
    dfm_error error = {0};
    cJSON_InitHooks(&(cJSON_Hooks){hook_malloc, hook_free});
    dfm_pmx odd = model_odd(&arena, 2.1f, DFM_TEXT_UTF16LE);
    bytes = model_bytes(&odd, NULL, &size);
    make_poses(&odd);
    dfm_arena_free(&arena);
    make_paths();
    make_motion();
    open_skinners();
    dfm_cache_options cache_options = {
        .budget_bytes = 1 << 26, .limits = dfm_pmx_default_limits, .skinners = &skinners};
    ck_assert_int_eq(dfm_cache_create(&cache_options, &cache, &error), DFM_OK);
    ck_assert_int_eq(dfm_motion_store_create(1 << 26, &motions, &error), DFM_OK);
    ck_assert(open_api());
}

static void teardown(void) {
    dfm_api_free(api);
    dfm_cache_free(cache);
    dfm_motion_store_free(motions);
    dfm_skinner_close(skinners.cpu);
    skinners.opencl->backend = &dfm_skinner_cpu;
    dfm_skinner_close(skinners.opencl);
    free(bytes);
    cJSON_InitHooks(NULL);
}

typedef struct ask {
    dfm_method method;
    const char *path, *query, *body;
    bool upload; /* of the model, or, to /motions, of the motion */
    const char *content_type;
    const char *if_match;
    const void *binary; /* in place of `body` */
    size_t binary_bytes;
} ask;

static dfm_api_response send_ask(const ask *what) {
    dfm_api_request request = {.method = what->method, .path = what->path, .query = what->query};
    dfm_api_response response;
    request.headers.content_type = what->content_type;
    request.body = (const uint8_t *)what->body;
    request.body_bytes = what->body ? strlen(what->body) : 0;
    request.headers.if_match = what->if_match;
    if (what->binary) {
        request.body = what->binary;
        request.body_bytes = what->binary_bytes;
    }
    if (what->upload) {
        bool is_motion = strcmp(what->path, "/motions") == 0;
        request.body = is_motion ? vmd.bytes : bytes;
        request.body_bytes = is_motion ? vmd.size : size;
    }
    if (!dfm_api_admit(api, &request, (int64_t)request.body_bytes, &response).answered)
        dfm_api_handle(api, &request, &response);
    return response;
}

static bool send_well(const ask *what) {
    dfm_api_response response = send_ask(what);
    bool good = response.status < 300;
    dfm_api_response_free(&response);
    return good;
}

static bool upload(void) {
    return send_well(&(ask){
               .method = DFM_METHOD_POST, .path = "/models", .query = "sdef=on", .upload = true}) &&
           send_well(&(ask){.method = DFM_METHOD_POST, .path = "/motions", .upload = true});
}

static bool is_json(const dfm_api_response *response) {
    for (uint32_t i = 0; i < response->header_count; i++) {
        if (strcmp(response->headers[i].name, "Content-Type") == 0)
            return strstr(response->headers[i].value, "json") != NULL;
    }
    return false;
}

typedef struct outcome {
    bool reached; /* there was an Nth allocation */
    bool whole;   /* the body is JSON, or is none that should be */
    int status;
} outcome;

/* Sends with the Nth allocation failing. */
static outcome send_failing_at(const ask *what, size_t n) {
    outcome result = {.whole = true};
    wrap_reset(n);
    dfm_api_response response = send_ask(what);
    result.reached = wrap.calls >= n;
    result.status = response.status;
    wrap_reset(0);
    if (is_json(&response)) {
        cJSON *root = cJSON_ParseWithLength(response.body, response.body_bytes);
        result.whole = root != NULL;
        cJSON_Delete(root);
    }
    dfm_api_response_free(&response);
    return result;
}

static void check(const ask *what, size_t n, outcome result, int usual_status) {
    ck_assert_msg(result.whole, "%s: allocation %zu: no JSON", what->path, n);
    ck_assert_msg(result.status == usual_status || (result.reached && result.status == 503),
                  "%s: allocation %zu: %d", what->path, n, result.status);
}

/* A house as it was before its first request. */
static bool start_anew(void) {
    dfm_cache_delete(cache, model_path + strlen("/models/"), NULL, NULL);
    dfm_motion_store_delete(motions, motion_path + strlen("/motions/"), NULL);
    dfm_api_free(api);
    return open_api();
}

static void fails_everywhere(const ask *what, int usual_status) {
    outcome result = {.reached = true};
    for (size_t n = 1; result.reached; n++) {
        bool good = start_anew();
        size_t live = wrap.live_count;
        good = good && (what->upload || upload());
        result = send_failing_at(what, n);
        good = good && start_anew();
        size_t leaked = wrap.live_count - live;
        ck_assert(good);
        check(what, n, result, usual_status);
        ck_assert_msg(leaked == 0, "%s: allocation %zu leaks", what->path, n);
        ck_assert_uint_eq(dfm_cache_get_stats(cache).resident_bytes, 0);
        ck_assert_uint_eq(dfm_motion_store_get_stats(motions).resident_bytes, 0);
    }
}

#define POSE                                                                                       \
    "{\"bones\":{\"#0\":{\"rotation\":[0,0,1,1]},\"\\u6839\":{}},\"morphs\":{\"#0\":1,\"#3\":1}}"

START_TEST(every_route_answers_when_memory_runs_out) {
    const struct {
        ask ask;
        int status;
    } cases[] = {
        {{.method = DFM_METHOD_GET, .path = "/"}, 200},
        {{.method = DFM_METHOD_GET, .path = "/livez"}, 200},
        {{.method = DFM_METHOD_GET, .path = "/openapi.yaml"}, 200},
        {{.method = DFM_METHOD_GET, .path = "/metrics"}, 200},
        {{.method = DFM_METHOD_GET, .path = "/nothing"}, 404},
        {{.method = DFM_METHOD_POST, .path = "/models", .upload = true}, 201},
        {{.method = DFM_METHOD_GET, .path = "/models"}, 200},
        {{.method = DFM_METHOD_GET, .path = model_path}, 200},
        {{.method = DFM_METHOD_PATCH, .path = model_path, .body = "{\"sdef\":false}"}, 200},
        {{.method = DFM_METHOD_PATCH, .path = model_path, .body = "{\"sdef\":1}"}, 422},
        {{.method = DFM_METHOD_PATCH, .path = model_path, .body = "{}", .if_match = "\"x\""}, 412},
        {{.method = DFM_METHOD_GET, .path = stats_path}, 200},
        {{.method = DFM_METHOD_DELETE, .path = model_path}, 204},
        {{.method = DFM_METHOD_GET, .path = indices_path}, 200},
        {{.method = DFM_METHOD_GET, .path = vertices_path}, 200},
        {{.method = DFM_METHOD_POST, .path = deform_path, .body = POSE}, 200},
        {{.method = DFM_METHOD_POST, .path = deform_path, .query = "format=json", .body = POSE},
         200},
        {{.method = DFM_METHOD_POST, .path = deform_path, .body = "{\"poses\":[" POSE ",{}]}"},
         200},
        {{.method = DFM_METHOD_POST, .path = deform_path, .body = "{\"bones\":{\"x\":{}}}"}, 422},
        {{.method = DFM_METHOD_POST, .path = "/motions", .upload = true}, 201},
        {{.method = DFM_METHOD_GET, .path = "/motions"}, 200},
        {{.method = DFM_METHOD_GET, .path = motion_path}, 200},
        {{.method = DFM_METHOD_GET, .path = match_path, .query = match_query}, 200},
        {{.method = DFM_METHOD_DELETE, .path = motion_path}, 204},
        {{.method = DFM_METHOD_POST, .path = deform_path, .body = play_body}, 200},
        {{.method = DFM_METHOD_POST, .path = deform_path, .query = "format=mdd", .body = play_body},
         200},
        {{.method = DFM_METHOD_POST, .path = deform_path, .query = "format=pc2", .body = play_body},
         200},
        {{.method = DFM_METHOD_POST,
          .path = deform_path,
          .query = "attributes=position,normal,uv,uv1,edge_scale&layout=planar&components=f16",
          .body = "{\"poses\":[" POSE ",{}]}"},
         200},
        {{.method = DFM_METHOD_POST, .path = deform_path, .query = "output=bones", .body = POSE},
         200},
        {{.method = DFM_METHOD_POST,
          .path = deform_path,
          .content_type = "application/x-deformd-pose",
          .binary = pose_body,
          .binary_bytes = pose_bytes},
         200},
        {{.method = DFM_METHOD_POST,
          .path = deform_path,
          .content_type = "application/x-deformd-matrices",
          .binary = matrices_body,
          .binary_bytes = matrices_bytes},
         200},
        {{.method = DFM_METHOD_POST,
          .path = deform_path,
          .content_type = "application/x-deformd-matrices",
          .binary = matrices_body,
          .binary_bytes = matrices_bytes - 1},
         422},
        {{.method = DFM_METHOD_POST,
          .path = deform_path,
          .query = "output=bones&format=json",
          .body = play_body},
         200},
        {{.method = DFM_METHOD_POST, .path = deform_path, .body = stream_body}, 200},
        {{.method = DFM_METHOD_POST,
          .path = deform_path,
          .body = "Vocaloid Pose Data file\nBone0{\x8d\xaa\n0,1,0;0,0,0,1;}",
          .content_type = "text/x-vpd"},
         200},
    };
    ck_assert(upload()); /* the cache's table grows once and stays */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fails_everywhere(&cases[i].ask, cases[i].status);
}
END_TEST

/* Long lists take thousands of allocations: every one of a part, then some. */
START_TEST(lists_answer_when_memory_runs_out) {
    const char *const paths[] = {bones_path, morphs_path, materials_path};
    ck_assert(upload());
    for (int i = 0; i < 3; i++) {
        ask what = {.method = DFM_METHOD_GET, .path = paths[i]};
        outcome result = {.reached = true};
        size_t n = 1;
        for (; result.reached; n += n < 200 ? 1 : 37) {
            size_t live = wrap.live_count;
            result = send_failing_at(&what, n);
            size_t leaked = wrap.live_count - live;
            check(&what, n, result, 200);
            ck_assert_uint_eq(leaked, 0);
        }
        ck_assert_uint_gt(n, 100);
    }
}
END_TEST

typedef struct stream_outcome {
    bool ready, reached, good, says_less;
    char said[128];
} stream_outcome;

/* A block of a stream, by a worker that has had none yet, with the Nth allocation failing; where it
 * fails, the next block too. */
static stream_outcome render_failing_at(size_t n) {
    const ask what = {.method = DFM_METHOD_POST, .path = deform_path, .body = stream_body};
    stream_outcome o = {.ready = upload()};
    dfm_api_response response = send_ask(&what);
    dfm_api_stream *stream = response.stream;
    uint8_t *block = stream ? aligned_alloc(64, (stream->block_bytes + 63) / 64 * 64) : NULL;
    const char *why = "";
    o.ready = o.ready && block;
    if (block) {
        wrap_reset(n);
        o.good = stream->render(stream, 0, 1, block, &why);
        o.reached = wrap.calls >= n;
        snprintf(o.said, sizeof o.said, "%s", why);
        wrap_reset(1);
        o.says_less = !o.good && !stream->render(stream, 1, 1, block, &why) && why[0];
        wrap_reset(0);
    }
    free(block);
    dfm_api_response_free(&response);
    return o;
}

START_TEST(a_stream_that_runs_out_of_memory_says_so_and_leaks_nothing) {
    ck_assert(upload());
    stream_outcome o = {.reached = true};
    size_t n = 0;
    while (o.reached) {
        bool good = start_anew();
        size_t live = wrap.live_count;
        o = render_failing_at(++n);
        good = good && start_anew();
        size_t leaked = wrap.live_count - live;
        ck_assert(good && o.ready);
        ck_assert_int_eq(o.good, !o.reached);
        if (o.reached)
            ck_assert_msg(strncmp(o.said, "frame ", 6) == 0 && strstr(o.said, "memory"), "%s",
                          o.said);
        ck_assert_int_eq(o.says_less, o.reached);
        ck_assert_msg(leaked == 0, "allocation %zu leaks", n);
    }
    ck_assert_uint_gt(n, 5);
}
END_TEST

START_TEST(a_service_that_has_no_memory_is_none) {
    bool made = false;
    size_t n = 0;
    dfm_api_free(api);
    while (!made) {
        size_t live = wrap.live_count;
        wrap_reset(++n);
        made = open_api();
        bool reached = wrap.calls >= n;
        wrap_reset(0);
        dfm_api_free(api);
        size_t leaked = wrap.live_count - live;
        api = NULL;
        ck_assert_uint_eq(leaked, 0);
        ck_assert_int_eq(made, !reached);
    }
    ck_assert_uint_gt(n, 4);
}
END_TEST

START_TEST(tokens_stay_as_they_are_when_memory_runs_out) {
    static const char first[] = "admin 0123456789abcdef\n", next[] = "admin fedcba9876543210\n";
    static const char header[] = "Bearer 0123456789abcdef";
    dfm_access_counts counts;
    char message[128];
    wrap_reset(1);
    dfm_access *none = dfm_access_create();
    wrap_reset(0);
    ck_assert_ptr_null(none);
    dfm_access *access = dfm_access_create();
    ck_assert(access &&
              dfm_access_load(access, first, strlen(first), &counts, message, sizeof message));
    size_t n = 0;
    for (bool loaded = false; !loaded;) {
        size_t live = wrap.live_count;
        wrap_reset(++n);
        loaded = dfm_access_load(access, next, strlen(next), &counts, message, sizeof message);
        bool reached = wrap.calls >= n;
        wrap_reset(0);
        size_t leaked = wrap.live_count - live;
        ck_assert_uint_eq(leaked, 0);
        ck_assert_int_eq(loaded, !reached);
        ck_assert_int_eq(dfm_access_check(access, header, DFM_SCOPE_ADMIN),
                         loaded ? DFM_ACCESS_UNKNOWN : DFM_ACCESS_GRANTED);
        if (!loaded)
            ck_assert_ptr_nonnull(strstr(message, "memory"));
    }
    ck_assert_uint_gt(n, 1);
    dfm_access_free(access);
}
END_TEST

START_TEST(a_deform_in_steady_state_allocates_only_its_result) {
    static const ask what = {.method = DFM_METHOD_POST, .path = deform_path, .body = POSE};
    ck_assert(upload());
    dfm_api_response response = send_ask(&what);
    dfm_api_response_free(&response);
    wrap_reset(0);
    response = send_ask(&what);
    size_t calls = wrap.calls;
    int status = response.status;
    dfm_api_response_free(&response);
    ck_assert_int_eq(status, 200);
    ck_assert_uint_eq(calls, 2); /* those of acquire, above; the server's pool has none */
}
END_TEST

int main(void) {
    Suite *suite = suite_create("api_memory");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, every_route_answers_when_memory_runs_out);
    tcase_add_test(tests, lists_answer_when_memory_runs_out);
    tcase_add_test(tests, a_stream_that_runs_out_of_memory_says_so_and_leaks_nothing);
    tcase_add_test(tests, a_service_that_has_no_memory_is_none);
    tcase_add_test(tests, tokens_stay_as_they_are_when_memory_runs_out);
    tcase_add_test(tests, a_deform_in_steady_state_allocates_only_its_result);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
