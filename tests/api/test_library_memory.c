/* Requests over a store with the Nth allocation failing: an answer comes all the same, what it says
 * of the store is so, nothing stored is lost or called damaged, and nothing is leaked. */
#include "tests/data/models.h"
#include "tests/support_api.h"
#include "tests/support_store.h"
#include "tests/support_vmd.h"
#include "tests/wrap_allocator.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Check's own macros allocate: they come when all counting is done. */

static api_house house;
static fake_store *fake;
static dfm_store store;
static uint8_t *bytes;
static size_t size;
static vmd_writer vmd;
static dfm_id model_id, motion_id;
static char model_path[96], motion_path[96];
static bool said_damaged;

static void *hook_malloc(size_t bytes_wanted) {
    return malloc(bytes_wanted);
}

static void hook_free(void *memory) {
    free(memory);
}

static void note(void *context, const char *message) {
    (void)context;
    said_damaged |= strstr(message, "corrupt") != NULL;
}

static void setup(void) {
    static const float still[3], no_turn[4] = {0, 0, 0, 1};
    dfm_arena arena = {0};
    uint8_t digest[DFM_DIGEST_BYTES];
    cJSON_InitHooks(&(cJSON_Hooks){hook_malloc, hook_free});
    grid_options options = grid_default_options(16, 2);
    dfm_pmx pmx = model_grid(&arena, &options);
    bytes = model_bytes(&pmx, NULL, &size);
    dfm_arena_free(&arena);
    dfm_digest(bytes, size, digest, &model_id);
    snprintf(model_path, sizeof model_path, "/models/%s", model_id.text);
    vmd_begin(&vmd);
    vmd_section(&vmd);
    vmd_bone(&vmd, "bone", 0, still, no_turn, NULL);
    dfm_digest(vmd.bytes, vmd.size, digest, &motion_id);
    snprintf(motion_path, sizeof motion_path, "/motions/%s", motion_id.text);
    fake = fake_store_create();
    store = fake_store_interface(fake);
    api_house_open(&house, 0);
    house.config.store = &store;
    house.config.store_check_ms = 0;
    house.config.note = note;
    api_house_reopen(&house);
    said_damaged = false;
}

static void teardown(void) {
    api_house_close(&house);
    fake_store_free(fake);
    free(bytes);
    cJSON_InitHooks(NULL);
}

typedef struct ask {
    dfm_method method;
    const char *path, *query, *body;
} ask;

/* Files for POST without a body. Returns the status, and whether a JSON body is whole. */
static int send(const ask *what, bool *whole) {
    dfm_api_request request = {.method = what->method, .path = what->path, .query = what->query};
    dfm_api_response response;
    bool is_motion = strcmp(what->path, "/motions") == 0;
    request.body = (const uint8_t *)what->body;
    request.body_bytes = what->body ? strlen(what->body) : 0;
    if (what->method == DFM_METHOD_POST) {
        request.body = is_motion ? vmd.bytes : bytes;
        request.body_bytes = is_motion ? vmd.size : size;
    }
    if (!dfm_api_admit(house.api, &request, (int64_t)request.body_bytes, &response).answered)
        dfm_api_handle(house.api, &request, &response);
    size_t fail_at = wrap.fail_at;
    wrap.fail_at = 0; /* what follows is the test's */
    size_t calls = wrap.calls;
    *whole = true;
    if (response.body_bytes > 0) {
        cJSON *root = cJSON_ParseWithLength(response.body, response.body_bytes);
        *whole = root != NULL;
        cJSON_Delete(root);
    }
    wrap.fail_at = fail_at;
    wrap.calls = calls;
    dfm_api_response_free(&response);
    return response.status;
}

static bool send_well(const ask *what) {
    bool whole;
    return send(what, &whole) < 300 && whole;
}

static void forget_all(void) {
    dfm_cache_delete(house.cache, model_id.text, NULL, NULL);
    dfm_motion_store_delete(house.motions, motion_id.text, NULL);
}

static void drop_all(void) {
    forget_all();
    if (fake_store_about(fake, model_id.text))
        fake_store_drop(fake, model_id.text);
    if (fake_store_about(fake, motion_id.text))
        fake_store_drop(fake, motion_id.text);
}

typedef enum state { NOTHING, STORED, IN_MEMORY } state;

/* What was uploaded has settings that no upload below names. */
static bool bring_to(state begin) {
    drop_all();
    if (begin == NOTHING)
        return true;
    bool good = send_well(&(ask){DFM_METHOD_POST, "/models", "mode=cpu&weights=raw", NULL}) &&
                send_well(&(ask){DFM_METHOD_POST, "/motions", NULL, NULL});
    if (begin == STORED)
        forget_all();
    return good;
}

static bool is_stored(const char *text) {
    const char *about = fake_store_about(fake, model_id.text);
    return about && strstr(about, text);
}

typedef struct outcome {
    bool ready, reached, whole, kept;
    int status;
    size_t leaked;
} outcome;

static outcome send_failing_at(const ask *what, state begin, size_t n) {
    outcome o = {.ready = bring_to(NOTHING)};
    size_t live = wrap.live_count;
    o.ready = o.ready && bring_to(begin);
    wrap_reset(n);
    o.status = send(what, &o.whole);
    o.reached = wrap.calls >= n;
    wrap_reset(0);
    /* Whatever happened, what had been stored keeps what it was not told to change. */
    o.kept = begin == NOTHING || what->method == DFM_METHOD_DELETE || is_stored("\"raw\"");
    drop_all();
    o.leaked = wrap.live_count - live;
    return o;
}

static void fails_everywhere(const ask *what, state begin, int usual_status) {
    outcome o = {.reached = true};
    size_t n = 1;
    for (; o.reached; n++) {
        o = send_failing_at(what, begin, n);
        ck_assert(o.ready);
        ck_assert_msg(o.whole, "%s: allocation %zu: no JSON", what->path, n);
        ck_assert_msg(o.kept, "%s: allocation %zu: settings were lost", what->path, n);
        ck_assert_msg(o.status == usual_status || (o.reached && o.status == 503),
                      "%s: allocation %zu: %d", what->path, n, o.status);
        ck_assert_msg(o.leaked == 0, "%s: allocation %zu leaks", what->path, n);
        ck_assert(!said_damaged);
        ck_assert_uint_eq(house.buffers_out, 0);
        ck_assert_uint_eq(dfm_cache_get_stats(house.cache).resident_bytes, 0);
        ck_assert_uint_eq(dfm_motion_store_get_stats(house.motions).resident_bytes, 0);
    }
    ck_assert_uint_gt(n, 3); /* some allocation was there to fail */
}

START_TEST(requests_over_a_store_answer_when_memory_runs_out) {
    const struct {
        ask ask;
        state begin;
        int status;
    } cases[] = {
        {{DFM_METHOD_POST, "/models", "mode=cpu", NULL}, NOTHING, 201},
        {{DFM_METHOD_POST, "/models", "sdef=off", NULL}, STORED, 200},
        {{DFM_METHOD_POST, "/models", "sdef=off", NULL}, IN_MEMORY, 200},
        {{DFM_METHOD_GET, model_path, NULL, NULL}, STORED, 200},
        {{DFM_METHOD_GET, model_path, NULL, NULL}, IN_MEMORY, 200},
        {{DFM_METHOD_GET, "/models", NULL, NULL}, STORED, 200},
        {{DFM_METHOD_GET, "/models", NULL, NULL}, IN_MEMORY, 200},
        {{DFM_METHOD_PATCH, model_path, NULL, "{\"sdef\":false}"}, STORED, 200},
        {{DFM_METHOD_PATCH, model_path, NULL, "{\"sdef\":false}"}, IN_MEMORY, 200},
        {{DFM_METHOD_POST, "/motions", NULL, NULL}, NOTHING, 201},
        {{DFM_METHOD_POST, "/motions", NULL, NULL}, IN_MEMORY, 200},
        {{DFM_METHOD_GET, motion_path, NULL, NULL}, STORED, 200},
        {{DFM_METHOD_GET, "/motions", NULL, NULL}, STORED, 200},
    };
    ck_assert(bring_to(IN_MEMORY)); /* tables grow once and stay */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fails_everywhere(&cases[i].ask, cases[i].begin, cases[i].status);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("library_memory");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, requests_over_a_store_answer_when_memory_runs_out);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
