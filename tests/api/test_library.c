/* Memory over a store: what is asked of it and when, what its failures do, and other processes. */
#include "tests/data/models.h"
#include "tests/support_api.h"
#include "tests/support_store.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static api_house house;
static fake_store *fake;
static dfm_store store;
static uint8_t *bytes;
static size_t size;
static char id[DFM_ID_DIGITS + 1], path[96], deform_path[96];
static char notes[4096];

static void note(void *context, const char *message) {
    (void)context;
    size_t at = strlen(notes);
    snprintf(notes + at, sizeof notes - at, "%s\n", message);
}

/* A new process, so to say, on the same store. */
static void restart(uint64_t check_ms) {
    if (house.api)
        api_house_close(&house);
    api_house_open(&house, 0);
    house.config.store = &store;
    house.config.store_check_ms = check_ms;
    house.config.note = note;
    notes[0] = '\0';
    api_house_reopen(&house);
}

static void setup(void) {
    dfm_arena arena = {0};
    grid_options options = grid_default_options(100, 3);
    dfm_pmx pmx = model_grid(&arena, &options);
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_id made;
    bytes = model_bytes(&pmx, NULL, &size);
    dfm_arena_free(&arena);
    dfm_digest(bytes, size, digest, &made);
    strcpy(id, made.text);
    snprintf(path, sizeof path, "/models/%s", id);
    snprintf(deform_path, sizeof deform_path, "/models/%s/deform", id);
    fake = fake_store_create();
    store = fake_store_interface(fake);
    restart(1000000);
}

static void teardown(void) {
    api_house_close(&house);
    fake_store_free(fake);
    free(bytes);
}

static int ask(dfm_method method, const char *where, const char *query, const void *body,
               size_t body_bytes, char problem[64]) {
    api_answer answer = api_send(&house, &(api_ask){.method = method,
                                                    .path = where,
                                                    .query = query,
                                                    .body = body,
                                                    .body_bytes = body_bytes});
    int status = answer.status;
    if (problem)
        snprintf(problem, 64, "%s", api_problem(&answer));
    api_answer_free(&answer);
    return status;
}

static int put_model(const char *query) {
    return ask(DFM_METHOD_POST, "/models", query, bytes, size, NULL);
}

static int patch(const char *json) {
    return ask(DFM_METHOD_PATCH, path, NULL, json, 0, NULL);
}

static int get(void) {
    return ask(DFM_METHOD_GET, path, NULL, NULL, 0, NULL);
}

static int deform(void) {
    return ask(DFM_METHOD_POST, deform_path, NULL, "{}", 0, NULL);
}

static const char *field(const char *name) {
    static char value[64];
    api_answer answer = api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = path});
    snprintf(value, sizeof value, "%s", api_string(&answer, name));
    api_answer_free(&answer);
    return value;
}

START_TEST(an_upload_is_in_the_store_with_its_settings) {
    ck_assert_int_eq(put_model("mode=cpu&weights=raw"), 201);
    ck_assert_uint_eq(fake_store_items(fake), 1);
    ck_assert_ptr_nonnull(strstr(fake_store_about(fake, id), "\"weights\":\"raw\""));
    ck_assert_int_eq(put_model("sdef=off"), 200);
    ck_assert_ptr_nonnull(strstr(fake_store_about(fake, id), "\"sdef\":false"));
    ck_assert_ptr_nonnull(strstr(fake_store_about(fake, id), "\"weights\":\"raw\""));
    restart(1000000);
    ck_assert_str_eq(field("weights"), "raw");
    ck_assert_int_eq(put_model(""), 200);
    ck_assert_str_eq(field("weights"), "raw");
}
END_TEST

START_TEST(a_bad_file_is_never_stored) {
    ck_assert_int_eq(ask(DFM_METHOD_POST, "/models", "", bytes, size / 2, NULL), 422);
    ck_assert_uint_eq(fake_store_items(fake), 0);
}
END_TEST

START_TEST(what_is_fresh_is_not_asked_for) {
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    unsigned calls = fake_store_count(fake).calls;
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(deform(), 200);
    ck_assert_uint_eq(fake_store_count(fake).calls, calls);
    restart(1000000);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(deform(), 200);
    ck_assert_uint_eq(fake_store_count(fake).reads, 1);
    ck_assert_uint_eq(fake_store_count(fake).calls, calls + 2);
}
END_TEST

static bool must_load(dfm_api_request *request) {
    dfm_api_response response;
    dfm_api_admit(house.api, request, -1, &response);
    return dfm_api_must_load(house.api, request);
}

START_TEST(requests_of_what_is_elsewhere_load_first) {
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    dfm_api_response response;
    dfm_api_request request = {.method = DFM_METHOD_GET, .path = path};
    ck_assert(!must_load(&request));
    restart(1000000);
    ck_assert(must_load(&request));
    ck_assert(dfm_api_load(house.api, &request, &response));
    ck_assert_uint_eq(fake_store_count(fake).reads, 1);
    ck_assert(!must_load(&request));
    request.path = "/livez";
    ck_assert(!must_load(&request));
    request.path = "/models/nonsense";
    ck_assert(!must_load(&request));
}
END_TEST

START_TEST(changes_by_others_are_seen) {
    restart(0); /* each request looks */
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    char *about = strdup(fake_store_about(fake, id)), *at = strstr(about, "\"normalized\"");
    ck_assert_ptr_nonnull(at);
    memcpy(at, "\"raw\"       ", 12); /* JSON takes the blanks */
    fake_store_set_about(fake, id, about);
    free(about);
    ck_assert_str_eq(field("weights"), "raw");
    fake_store_drop(fake, id);
    ck_assert_int_eq(get(), 404);
    ck_assert_int_eq(deform(), 404);
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    ck_assert_str_eq(field("weights"), "normalized");
}
END_TEST

START_TEST(a_store_that_cannot_be_reached_leaves_what_is_in_memory) {
    char problem[64];
    restart(0);
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    fake_store_fail(fake, DFM_ERROR_STORE);
    ck_assert_int_eq(deform(), 200);
    ck_assert_int_eq(get(), 200);
    ck_assert_ptr_nonnull(strstr(notes, "store-failed: "));
    ck_assert_int_eq(ask(DFM_METHOD_PATCH, path, NULL, "{\"sdef\":false}", 0, problem), 503);
    ck_assert_str_eq(problem, "store-failed");
    ck_assert_int_eq(ask(DFM_METHOD_DELETE, path, NULL, NULL, 0, problem), 503);
    ck_assert_int_eq(ask(DFM_METHOD_POST, "/models", "", bytes, size, problem), 503);
    ck_assert_int_eq(ask(DFM_METHOD_GET, "/models", NULL, NULL, 0, problem), 503);
    ck_assert_int_eq(deform(), 200);
    fake_store_fail(fake, DFM_OK);
    ck_assert_int_eq(deform(), 200);
    ck_assert_ptr_nonnull(strstr(notes, "the store works again"));
    ck_assert_ptr_nonnull(strstr(field("weights"), "normalized"));
    restart(0);
    fake_store_fail(fake, DFM_ERROR_STORE);
    ck_assert_int_eq(ask(DFM_METHOD_GET, path, NULL, NULL, 0, problem), 503);
    ck_assert_str_eq(problem, "store-failed");
    fake_store_fail(fake, DFM_OK);
}
END_TEST

/* Whatever call of an upload fails, the client is told, and then nobody has the model. */
START_TEST(an_upload_that_fails_leaves_nothing_behind) {
    for (unsigned n = 1;; n++) {
        fake_store_fail_nth(fake, n, DFM_ERROR_STORE_FULL);
        int status = put_model("mode=cpu");
        fake_store_fail_nth(fake, 0, DFM_OK);
        if (status == 201) {
            ck_assert_uint_eq(n, 3); /* read_about, put */
            break;
        }
        ck_assert_int_eq(status, 507);
        ck_assert_int_eq(get(), 404);
        ck_assert_uint_eq(fake_store_items(fake), 0);
    }
}
END_TEST

START_TEST(a_change_that_fails_is_taken_back) {
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    char *before = strdup(fake_store_about(fake, id));
    for (unsigned n = 1;; n++) {
        fake_store_fail_nth(fake, n, DFM_ERROR_STORE);
        int status = patch("{\"weights\":\"raw\"}");
        fake_store_fail_nth(fake, 0, DFM_OK);
        if (status == 200 && strstr(fake_store_about(fake, id), "\"raw\""))
            break;
        ck_assert_int_lt((int)n, 5);
        ck_assert_msg(status == 503 || status == 200, "%d", status);
        if (status == 503) {
            ck_assert_str_eq(fake_store_about(fake, id), before);
            ck_assert_str_eq(field("weights"), "normalized");
        } else { /* the look failed, the change did not */
            ck_assert_ptr_nonnull(strstr(fake_store_about(fake, id), "\"raw\""));
        }
    }
    ck_assert_str_eq(field("weights"), "raw");
    free(before);
}
END_TEST

START_TEST(damage_is_told_and_mended_by_the_right_bytes) {
    char problem[64];
    static const char *const wrong[] = {"", "{}", "[1,2", "{\"digest\":\"00\"}"};
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        if (i == 0)
            fake_store_damage(fake, id);
        else
            fake_store_set_about(fake, id, wrong[i - 1]);
        restart(1000000);
        ck_assert_int_eq(ask(DFM_METHOD_GET, path, NULL, NULL, 0, problem), 500);
        ck_assert_str_eq(problem, "store-corrupt");
        ck_assert_ptr_nonnull(strstr(notes, id));
        ck_assert_int_eq(ask(DFM_METHOD_GET, "/models", NULL, NULL, 0, NULL), 200);
        ck_assert_int_eq(put_model("mode=cpu"), 200);
        ck_assert_int_eq(deform(), 200);
        restart(1000000);
        ck_assert_int_eq(deform(), 200);
    }
}
END_TEST

START_TEST(without_memory_for_the_file_it_is_503) {
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    restart(1000000);
    house.refuse_buffers = true;
    ck_assert_int_eq(get(), 503);
    house.refuse_buffers = false;
    ck_assert_int_eq(get(), 200);
}
END_TEST

static void *load(void *argument) {
    dfm_api_request request = {.method = DFM_METHOD_GET, .path = path};
    dfm_api_response response;
    (void)argument;
    dfm_api_admit(house.api, &request, -1, &response);
    dfm_api_handle(house.api, &request, &response);
    int status = response.status;
    dfm_api_response_free(&response);
    return (void *)(intptr_t)status;
}

START_TEST(many_at_a_time_load_once) {
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    restart(1000000);
    fake_store_slow(fake, 50);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, load, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *status;
        pthread_join(threads[i], &status);
        ck_assert_int_eq((int)(intptr_t)status, 200);
    }
    ck_assert_uint_eq(fake_store_count(fake).reads, 1);
}
END_TEST

START_TEST(an_etag_guards_changes_by_others_too) {
    restart(1000000); /* this process would not look by itself */
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    api_answer answer = api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = path});
    char etag[96];
    snprintf(etag, sizeof etag, "%s", api_header(&answer, "ETag"));
    api_answer_free(&answer);
    char *about = strdup(fake_store_about(fake, id)), *at = strstr(about, "\"normalized\"");
    memcpy(at, "\"raw\"       ", 12);
    fake_store_set_about(fake, id, about);
    free(about);
    answer = api_send(
        &house,
        &(api_ask){.method = DFM_METHOD_DELETE, .path = path, .headers = {.if_match = etag}});
    ck_assert_int_eq(answer.status, 412);
    api_answer_free(&answer);
    ck_assert_uint_eq(fake_store_items(fake), 1);
    ck_assert_int_eq(ask(DFM_METHOD_DELETE, path, NULL, NULL, 0, NULL), 204);
    ck_assert_uint_eq(fake_store_items(fake), 0);
    ck_assert_int_eq(ask(DFM_METHOD_DELETE, path, NULL, NULL, 0, NULL), 404);
}
END_TEST

START_TEST(lists_are_of_the_store) {
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    api_answer here = api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = "/models"});
    restart(1000000);
    api_answer there = api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = "/models"});
    ck_assert_uint_eq(fake_store_count(fake).reads, 0);
    cJSON *a = cJSON_GetArrayItem(cJSON_GetObjectItem(here.json, "models"), 0);
    cJSON *b = cJSON_GetArrayItem(cJSON_GetObjectItem(there.json, "models"), 0);
    ck_assert_int_eq(cJSON_GetObjectItem(b, "resident_bytes")->valueint, 0);
    cJSON_ReplaceItemInObject(b, "resident_bytes",
                              cJSON_Duplicate(cJSON_GetObjectItem(a, "resident_bytes"), true));
    ck_assert(cJSON_Compare(a, b, true));
    api_answer_free(&here);
    api_answer_free(&there);
    fake_store_drop(fake, id); /* between the list and the look */
    there = api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = "/models"});
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(there.json, "models")), 0);
    api_answer_free(&there);
}
END_TEST

START_TEST(strict_mode_holds_for_what_is_stored) {
    ck_assert_int_eq(put_model("mode=gpu"), 201);
    restart(1000000);
    house.config.strict_mode = true;
    api_house_reopen(&house);
    char problem[64];
    ck_assert_int_eq(ask(DFM_METHOD_POST, "/models", "", bytes, size, problem), 503);
    ck_assert_str_eq(problem, "opencl-unavailable");
    ck_assert_int_eq(put_model("mode=cpu"), 200);
    ck_assert_int_eq(patch("{\"mode\":\"gpu\"}"), 503);
    ck_assert_str_eq(field("mode"), "cpu");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("library");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_upload_is_in_the_store_with_its_settings);
    tcase_add_test(tests, a_bad_file_is_never_stored);
    tcase_add_test(tests, what_is_fresh_is_not_asked_for);
    tcase_add_test(tests, requests_of_what_is_elsewhere_load_first);
    tcase_add_test(tests, changes_by_others_are_seen);
    tcase_add_test(tests, a_store_that_cannot_be_reached_leaves_what_is_in_memory);
    tcase_add_test(tests, an_upload_that_fails_leaves_nothing_behind);
    tcase_add_test(tests, a_change_that_fails_is_taken_back);
    tcase_add_test(tests, damage_is_told_and_mended_by_the_right_bytes);
    tcase_add_test(tests, without_memory_for_the_file_it_is_503);
    tcase_add_test(tests, many_at_a_time_load_once);
    tcase_add_test(tests, an_etag_guards_changes_by_others_too);
    tcase_add_test(tests, lists_are_of_the_store);
    tcase_add_test(tests, strict_mode_holds_for_what_is_stored);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
