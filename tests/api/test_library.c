/* Memory over a store: what is asked of it and when, what its failures do, and other processes. */
#include "tests/data/models.h"
#include "tests/support_api.h"
#include "tests/support_store.h"
#include "tests/support_vmd.h"

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
static vmd_writer vmd;
static dfm_id motion_id;
static char motion_path[96];

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
    static const float still[3], no_turn[4] = {0, 0, 0, 1};
    vmd_begin(&vmd);
    vmd_section(&vmd);
    vmd_bone(&vmd, "bone", 0, still, no_turn, NULL);
    vmd_bone(&vmd, "bone", 30, still, no_turn, NULL);
    dfm_digest(vmd.bytes, vmd.size, digest, &motion_id);
    snprintf(motion_path, sizeof motion_path, "/motions/%s", motion_id.text);
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

/* What another process does. */

static void set_raw_elsewhere(void) {
    char *about = strdup(fake_store_about(fake, id)), *at = strstr(about, "\"normalized\"");
    ck_assert_ptr_nonnull(at);
    memcpy(at, "\"raw\"       ", 12); /* JSON takes the blanks */
    fake_store_set_about(fake, id, about);
    free(about);
}

static void drop_elsewhere(void) {
    fake_store_drop(fake, id);
}

static void upload_raw_elsewhere(void) {
    uint8_t digest[DFM_DIGEST_BYTES];
    char hex[2 * DFM_DIGEST_BYTES + 1], about[512];
    bool created;
    dfm_id made;
    dfm_digest(bytes, size, digest, &made);
    dfm_hex(hex, digest, sizeof digest);
    snprintf(about, sizeof about,
             "{\"digest\":\"%s\",\"bytes\":%zu,\"created_unix_s\":1000000000,\"settings\":"
             "{\"mode\":\"cpu\",\"sdef\":true,\"weights\":\"raw\"}}",
             hex, size);
    store.put(store.context, DFM_STORE_MODEL, &made, bytes, size, about, &created, NULL);
}

static void upload_anew_elsewhere(void) {
    drop_elsewhere();
    upload_raw_elsewhere();
}

START_TEST(changes_by_others_are_seen) {
    restart(0); /* each request looks */
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    set_raw_elsewhere();
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
        if (status == 200) {
            ck_assert_uint_eq(n, 3);
            break;
        }
        ck_assert_int_eq(status, 503); /* the look, then the change */
        ck_assert_str_eq(fake_store_about(fake, id), before);
        ck_assert_str_eq(field("weights"), "normalized");
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

START_TEST(no_memory_here_says_nothing_of_the_store) {
    fake_store_fail(fake, DFM_ERROR_STORE);
    ck_assert_int_eq(get(), 503);
    ck_assert_ptr_nonnull(strstr(notes, "store-failed: the store was made to fail"));
    fake_store_fail(fake, DFM_ERROR_NO_MEMORY);
    ck_assert_int_eq(get(), 503);
    ck_assert_ptr_null(strstr(notes, "works again"));
    fake_store_fail(fake, DFM_OK);
    ck_assert_int_eq(get(), 404);
    ck_assert_ptr_nonnull(strstr(notes, "works again"));
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
    set_raw_elsewhere();
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

/* Its document is too large to stand beside it. */
START_TEST(a_model_of_many_words_is_listed_too) {
    enum { WORDS_BYTES = 100000 };
    static char words[WORDS_BYTES + 1];
    char long_id[DFM_ID_DIGITS + 1];
    dfm_arena arena = {0};
    grid_options options = grid_default_options(100, 3);
    dfm_pmx pmx = model_grid(&arena, &options);
    memset(words, 'w', WORDS_BYTES);
    pmx.comment = model_text(words);
    size_t long_size;
    uint8_t *long_bytes = model_bytes(&pmx, NULL, &long_size);
    dfm_arena_free(&arena);
    api_upload(&house, long_bytes, long_size, long_id);
    free(long_bytes);
    ck_assert_uint_lt(strlen(fake_store_about(fake, long_id)), 1000);
    restart(1000000);
    api_answer answer = api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = "/models"});
    const cJSON *models = cJSON_GetObjectItem(answer.json, "models");
    ck_assert_int_eq(cJSON_GetArraySize(models), 1);
    const cJSON *model = cJSON_GetArrayItem(models, 0);
    ck_assert_str_eq(cJSON_GetObjectItem(model, "id")->valuestring, long_id);
    ck_assert_uint_eq(strlen(cJSON_GetObjectItem(model, "comment")->valuestring), WORDS_BYTES);
    api_answer_free(&answer);
    ck_assert_uint_eq(fake_store_count(fake).reads, 1); /* it had to be loaded */
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

/* --- nobody sees what is not stored ------------------------------------------------------------
 */

static dfm_status seen;
static dfm_weights_mode seen_weights;

static void look_into_memory(void) {
    dfm_resident *resident;
    seen = dfm_cache_get(house.cache, id, &resident, NULL);
    if (seen == DFM_OK)
        seen_weights = resident->settings.weights;
    dfm_resident_release(resident);
}

START_TEST(an_upload_is_seen_when_it_is_stored) {
    seen = DFM_OK;
    fake_store_meanwhile(fake, 2, look_into_memory); /* read_about, put */
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    ck_assert_int_eq(seen, DFM_ERROR_NOT_FOUND);
    fake_store_meanwhile(fake, 3, look_into_memory); /* read_about, put, write_about */
    ck_assert_int_eq(put_model("weights=raw"), 200);
    ck_assert_int_eq(seen, DFM_OK);
    ck_assert_int_eq(seen_weights, DFM_WEIGHTS_NORMALIZED);
    ck_assert_str_eq(field("weights"), "raw");
}
END_TEST

START_TEST(settings_of_an_upload_that_fails_are_not_seen) {
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    fake_store_fail_nth(fake, 3, DFM_ERROR_STORE_FULL);
    ck_assert_int_eq(put_model("weights=raw"), 507);
    ck_assert_str_eq(field("weights"), "normalized");
    ck_assert_ptr_nonnull(strstr(fake_store_about(fake, id), "normalized"));
}
END_TEST

START_TEST(a_change_is_seen_when_it_is_stored) {
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    fake_store_meanwhile(fake, 2, look_into_memory); /* read_about, write_about */
    ck_assert_int_eq(patch("{\"weights\":\"raw\"}"), 200);
    ck_assert_int_eq(seen, DFM_OK);
    ck_assert_int_eq(seen_weights, DFM_WEIGHTS_NORMALIZED);
    ck_assert_str_eq(field("weights"), "raw");
    unsigned calls = fake_store_count(fake).calls;
    ck_assert_int_eq(patch("{\"weights\":\"raw\"}"), 200);
    ck_assert_uint_eq(fake_store_count(fake).calls, calls + 1); /* the look alone */
}
END_TEST

/* --- other processes ---------------------------------------------------------------------------
 */

START_TEST(an_upload_that_is_overtaken_keeps_the_others_settings) {
    fake_store_meanwhile(fake, 2, upload_raw_elsewhere);
    ck_assert_int_eq(put_model("mode=cpu&sdef=off"), 200);
    ck_assert_str_eq(field("weights"), "raw");
    ck_assert_str_eq(field("created"), "2001-09-09T01:46:40Z");
    ck_assert_ptr_nonnull(strstr(fake_store_about(fake, id), "\"sdef\":false"));
    ck_assert_ptr_nonnull(strstr(fake_store_about(fake, id), "\"raw\""));
}
END_TEST

START_TEST(an_upload_of_what_is_removed_meanwhile_is_an_upload) {
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    fake_store_meanwhile(fake, 2, drop_elsewhere); /* before the put */
    ck_assert_int_eq(put_model(""), 201);
    fake_store_meanwhile(fake, 3, drop_elsewhere); /* between put and write_about */
    ck_assert_int_eq(put_model("weights=raw"), 201);
    ck_assert_uint_eq(fake_store_items(fake), 1);
    ck_assert_str_eq(field("weights"), "raw");
}
END_TEST

START_TEST(a_change_of_what_is_removed_meanwhile_is_404) {
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    fake_store_meanwhile(fake, 2, drop_elsewhere);
    ck_assert_int_eq(patch("{\"weights\":\"raw\"}"), 404);
    ck_assert_int_eq(get(), 404);
}
END_TEST

START_TEST(what_was_removed_and_uploaded_again_elsewhere_is_that) {
    restart(0);
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    upload_anew_elsewhere();
    ck_assert_str_eq(field("created"), "2001-09-09T01:46:40Z");
    ck_assert_str_eq(field("weights"), "raw");
    restart(1000000); /* and where only an upload looks */
    ck_assert_int_eq(deform(), 200);
    drop_elsewhere();
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    ck_assert_str_ne(field("created"), "2001-09-09T01:46:40Z");
    ck_assert_str_eq(field("weights"), "normalized");
}
END_TEST

static void etag_of(const char *where, char etag[96]) {
    api_answer answer = api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = where});
    snprintf(etag, 96, "%s", api_header(&answer, "ETag"));
    api_answer_free(&answer);
}

static int send_if_match(dfm_method method, const char *where, const char *etag, const char *body) {
    api_answer answer = api_send(
        &house,
        &(api_ask){.method = method, .path = where, .headers = {.if_match = etag}, .body = body});
    int status = answer.status;
    api_answer_free(&answer);
    return status;
}

START_TEST(an_etag_that_another_process_gave_is_known_at_once) {
    char old[96], new[96];
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    etag_of(path, old);
    char *before = strdup(fake_store_about(fake, id));
    set_raw_elsewhere();
    char *after = strdup(fake_store_about(fake, id));
    restart(1000000);
    etag_of(path, new);
    ck_assert_str_ne(old, new);
    fake_store_set_about(fake, id, before);
    restart(1000000);
    ck_assert_int_eq(get(), 200); /* has the old one, and would not look for long */
    fake_store_set_about(fake, id, after);
    /* First: a look that is no longer needed would hide that none was made. */
    ck_assert_int_eq(send_if_match(DFM_METHOD_PATCH, path, new, "{\"sdef\":false}"), 200);
    ck_assert_int_eq(send_if_match(DFM_METHOD_PATCH, path, old, "{\"sdef\":false}"), 412);
    ck_assert_str_eq(field("weights"), "raw");
    free(before);
    free(after);
}
END_TEST

START_TEST(an_etag_that_is_right_must_still_be_at_the_change) {
    char etag[96];
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    etag_of(path, etag);
    fake_store_meanwhile(fake, 2, set_raw_elsewhere); /* between the look and the change */
    ck_assert_int_eq(send_if_match(DFM_METHOD_DELETE, path, etag, NULL), 412);
    ck_assert_uint_eq(fake_store_items(fake), 1);
    etag_of(path, etag);
    fake_store_meanwhile(fake, 2, upload_anew_elsewhere);
    ck_assert_int_eq(send_if_match(DFM_METHOD_PATCH, path, etag, "{\"sdef\":false}"), 412);
    ck_assert_str_eq(field("created"), "2001-09-09T01:46:40Z");
    etag_of(path, etag);
    fake_store_meanwhile(fake, 2, drop_elsewhere);
    ck_assert_int_eq(send_if_match(DFM_METHOD_DELETE, path, etag, NULL), 404);
}
END_TEST

/* Half of a digest is the id: another file with the same half is none of the same id. */
START_TEST(another_file_of_the_same_id_is_a_conflict) {
    char problem[64];
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    char *about = strdup(fake_store_about(fake, id));
    char *digest = strstr(about, id);
    digest[DFM_ID_DIGITS] = digest[DFM_ID_DIGITS] == '0' ? '1' : '0';
    fake_store_set_about(fake, id, about);
    free(about);
    restart(1000000);
    ck_assert_int_eq(ask(DFM_METHOD_POST, "/models", "mode=cpu", bytes, size, problem), 409);
    ck_assert_str_eq(problem, "id-conflict");
}
END_TEST

/* --- memory ------------------------------------------------------------------------------------
 */

START_TEST(what_had_to_leave_memory_comes_back) {
    dfm_arena arena = {0};
    grid_options options = grid_default_options(120, 3);
    dfm_pmx pmx = model_grid(&arena, &options);
    size_t other_size;
    uint8_t *other = model_bytes(&pmx, NULL, &other_size);
    char other_id[DFM_ID_DIGITS + 1], other_path[96];
    dfm_arena_free(&arena);
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    size_t one = dfm_cache_get_stats(house.cache).resident_bytes;
    api_house_close(&house);
    api_house_open(&house, one * 3 / 2);
    house.config.store = &store;
    house.config.store_check_ms = 1000000;
    api_house_reopen(&house);
    api_upload(&house, other, other_size, other_id);
    snprintf(other_path, sizeof other_path, "/models/%s", other_id);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(deform(), 200);
        ck_assert_int_eq(ask(DFM_METHOD_GET, other_path, NULL, NULL, 0, NULL), 200);
        ck_assert_uint_eq(dfm_cache_get_stats(house.cache).models, 1);
    }
    api_answer all = api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = "/models"});
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(all.json, "models")), 2);
    api_answer_free(&all);
    free(other);
}
END_TEST

START_TEST(a_stored_model_over_the_limits_of_today_says_so) {
    dfm_cache_options options = {.budget_bytes = (size_t)1 << 30,
                                 .limits = dfm_pmx_default_limits,
                                 .skinners = &house.skinners};
    char problem[64];
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    restart(1000000);
    options.limits.max_vertices = 10;
    dfm_cache_free(house.cache);
    ck_assert_int_eq(dfm_cache_create(&options, &house.cache, NULL), DFM_OK);
    house.config.cache = house.cache;
    api_house_reopen(&house);
    ck_assert_int_eq(ask(DFM_METHOD_GET, path, NULL, NULL, 0, problem), 422);
    ck_assert_str_eq(problem, "model-over-limit");
    ck_assert_uint_eq(fake_store_items(fake), 1);
}
END_TEST

START_TEST(who_must_not_wait_does_not) {
    dfm_api_request request = {.method = DFM_METHOD_GET, .path = path};
    dfm_api_response response;
    restart(0);
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    ck_assert(must_load(&request));
    request.must_not_wait = true;
    unsigned calls = fake_store_count(fake).calls;
    dfm_api_handle(house.api, &request, &response);
    ck_assert_int_eq(response.status, 200);
    dfm_api_response_free(&response);
    ck_assert_int_eq(dfm_cache_delete(house.cache, id, NULL, NULL), DFM_OK);
    dfm_api_handle(house.api, &request, &response);
    ck_assert_int_eq(response.status, 404);
    dfm_api_response_free(&response);
    ck_assert_uint_eq(fake_store_count(fake).calls, calls);
}
END_TEST

START_TEST(a_load_that_fails_is_the_answer) {
    dfm_api_request request = {.method = DFM_METHOD_GET, .path = path};
    dfm_api_response response;
    must_load(&request);
    ck_assert(!dfm_api_load(house.api, &request, &response));
    ck_assert_int_eq(response.status, 404);
    dfm_api_response_free(&response);
    ck_assert_uint_eq(fake_store_count(fake).calls, 1);
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    fake_store_damage(fake, id);
    restart(1000000);
    must_load(&request);
    ck_assert(!dfm_api_load(house.api, &request, &response));
    ck_assert_int_eq(response.status, 500);
    dfm_api_response_free(&response);
    /* One line, which says what and how. */
    ck_assert_ptr_nonnull(strstr(notes, "store-corrupt: the stored file of"));
    ck_assert_ptr_nonnull(strstr(notes, id));
    ck_assert_ptr_eq(strchr(notes, '\n'), strrchr(notes, '\n'));
}
END_TEST

START_TEST(a_load_that_fails_fails_for_all_who_wait) {
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    fake_store_damage(fake, id);
    restart(1000000);
    fake_store_slow(fake, 500);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, load, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *status;
        pthread_join(threads[i], &status);
        ck_assert_int_eq((int)(intptr_t)status, 500);
    }
    ck_assert_uint_lt(fake_store_count(fake).reads, THREADS / 2);
    fake_store_slow(fake, 0);
    ck_assert_int_eq(put_model("mode=cpu"), 200); /* which mends it */
    ck_assert_int_eq(get(), 200);
}
END_TEST

/* --- motions -----------------------------------------------------------------------------------
 */

static int put_motion(void) {
    return ask(DFM_METHOD_POST, "/motions", NULL, vmd.bytes, vmd.size, NULL);
}

static int get_motion(char problem[64]) {
    return ask(DFM_METHOD_GET, motion_path, NULL, NULL, 0, problem);
}

START_TEST(motions_are_stored_as_models_are) {
    char problem[64], etag[96], body[128];
    ck_assert_int_eq(put_motion(), 201);
    ck_assert_int_eq(put_motion(), 200);
    ck_assert_ptr_null(strstr(fake_store_about(fake, motion_id.text), "settings"));
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    etag_of(motion_path, etag);
    restart(0);
    snprintf(body, sizeof body, "{\"motion\":\"%s\",\"frames\":[0,15]}", motion_id.text);
    ck_assert_int_eq(ask(DFM_METHOD_POST, deform_path, "unknown=ignore", body, 0, problem), 200);
    char again[96];
    etag_of(motion_path, again);
    ck_assert_str_eq(again, etag);
    ck_assert_int_eq(send_if_match(DFM_METHOD_DELETE, motion_path, "\"other\"", NULL), 412);
    ck_assert_int_eq(send_if_match(DFM_METHOD_DELETE, motion_path, etag, NULL), 204);
    ck_assert_int_eq(get_motion(problem), 404);
    ck_assert_str_eq(problem, "motion-not-found");
    ck_assert_uint_eq(fake_store_items(fake), 1);
}
END_TEST

START_TEST(a_motion_that_was_uploaded_again_elsewhere_has_that_etag) {
    char etag[96];
    ck_assert_int_eq(put_motion(), 201);
    char *about = strdup(fake_store_about(fake, motion_id.text));
    char *at = strstr(about, "\"created_unix_s\":");
    ck_assert_ptr_nonnull(at);
    at[strlen("\"created_unix_s\":")]++; /* some decades later */
    char *before = strdup(fake_store_about(fake, motion_id.text));
    fake_store_set_about(fake, motion_id.text, about);
    restart(0);
    etag_of(motion_path, etag);
    fake_store_set_about(fake, motion_id.text, before);
    restart(1000000);
    ck_assert_int_eq(get_motion(NULL), 200); /* has the old one, and would not look for long */
    fake_store_set_about(fake, motion_id.text, about);
    ck_assert_int_eq(send_if_match(DFM_METHOD_DELETE, motion_path, etag, NULL), 204);
    free(before);
    free(about);
}
END_TEST

START_TEST(motions_of_a_store_that_fails) {
    char problem[64];
    fake_store_fail_nth(fake, 2, DFM_ERROR_STORE_FULL);
    ck_assert_int_eq(put_motion(), 507);
    ck_assert_int_eq(get_motion(NULL), 404);
    ck_assert_int_eq(put_motion(), 201);
    restart(0);
    fake_store_damage(fake, motion_id.text);
    ck_assert_int_eq(get_motion(problem), 500);
    ck_assert_str_eq(problem, "store-corrupt");
    ck_assert_int_eq(put_motion(), 200);
    ck_assert_int_eq(get_motion(NULL), 200);
    fake_store_fail(fake, DFM_ERROR_STORE);
    ck_assert_int_eq(get_motion(NULL), 200);
    ck_assert_int_eq(ask(DFM_METHOD_DELETE, motion_path, NULL, NULL, 0, problem), 503);
    ck_assert_int_eq(ask(DFM_METHOD_GET, "/motions", NULL, NULL, 0, problem), 503);
    ck_assert_str_eq(problem, "store-failed");
    fake_store_fail(fake, DFM_OK);
    fake_store_drop(fake, motion_id.text); /* elsewhere */
    ck_assert_int_eq(get_motion(NULL), 404);
}
END_TEST

START_TEST(lists_of_motions_are_of_the_store) {
    ck_assert_int_eq(put_motion(), 201);
    restart(1000000);
    api_answer all = api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = "/motions"});
    cJSON *one = cJSON_GetArrayItem(cJSON_GetObjectItem(all.json, "motions"), 0);
    ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(one, "id")), motion_id.text);
    ck_assert_int_eq(cJSON_GetObjectItem(one, "resident_bytes")->valueint, 0);
    api_answer_free(&all);
    ck_assert_uint_eq(fake_store_count(fake).reads, 0);
}
END_TEST

/* --- what is said of it ------------------------------------------------------------------------
 */

START_TEST(what_the_store_does_is_counted) {
    static const char *const lines[] = {
        "\ndeformd_store_up 0\n",           "\ndeformd_store_loads_total 1\n",
        "\ndeformd_store_puts_total 1\n",   "\ndeformd_store_removes_total 1\n",
        "\ndeformd_store_checks_total 2\n", "\ndeformd_store_failures_total 1\n"};
    ck_assert_int_eq(put_model("mode=cpu"), 201);
    restart(0);
    ck_assert_int_eq(get(), 200); /* loads */
    ck_assert_int_eq(get(), 200); /* checks */
    ck_assert_int_eq(put_model("mode=cpu"), 200);
    ck_assert_int_eq(get(), 200);
    ck_assert_int_eq(ask(DFM_METHOD_DELETE, path, NULL, NULL, 0, NULL), 204);
    fake_store_fail_nth(fake, 1, DFM_ERROR_STORE);
    ck_assert_int_eq(get(), 503);
    api_answer answer = api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = "/metrics"});
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ck_assert_msg(strstr(answer.body, lines[i]), "%s: %s", lines[i], answer.body);
    api_answer_free(&answer);
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
    tcase_add_test(tests, no_memory_here_says_nothing_of_the_store);
    tcase_add_test(tests, many_at_a_time_load_once);
    tcase_add_test(tests, an_etag_guards_changes_by_others_too);
    tcase_add_test(tests, lists_are_of_the_store);
    tcase_add_test(tests, a_model_of_many_words_is_listed_too);
    tcase_add_test(tests, strict_mode_holds_for_what_is_stored);
    tcase_add_test(tests, an_upload_is_seen_when_it_is_stored);
    tcase_add_test(tests, settings_of_an_upload_that_fails_are_not_seen);
    tcase_add_test(tests, a_change_is_seen_when_it_is_stored);
    tcase_add_test(tests, an_upload_that_is_overtaken_keeps_the_others_settings);
    tcase_add_test(tests, an_upload_of_what_is_removed_meanwhile_is_an_upload);
    tcase_add_test(tests, a_change_of_what_is_removed_meanwhile_is_404);
    tcase_add_test(tests, what_was_removed_and_uploaded_again_elsewhere_is_that);
    tcase_add_test(tests, an_etag_that_another_process_gave_is_known_at_once);
    tcase_add_test(tests, an_etag_that_is_right_must_still_be_at_the_change);
    tcase_add_test(tests, another_file_of_the_same_id_is_a_conflict);
    tcase_add_test(tests, what_had_to_leave_memory_comes_back);
    tcase_add_test(tests, a_stored_model_over_the_limits_of_today_says_so);
    tcase_add_test(tests, who_must_not_wait_does_not);
    tcase_add_test(tests, a_load_that_fails_is_the_answer);
    tcase_add_test(tests, a_load_that_fails_fails_for_all_who_wait);
    tcase_add_test(tests, motions_are_stored_as_models_are);
    tcase_add_test(tests, a_motion_that_was_uploaded_again_elsewhere_has_that_etag);
    tcase_add_test(tests, motions_of_a_store_that_fails);
    tcase_add_test(tests, lists_of_motions_are_of_the_store);
    tcase_add_test(tests, what_the_store_does_is_counted);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
