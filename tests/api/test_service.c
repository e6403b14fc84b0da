/* The service's own pages, request ids, and the answers that the server gives itself. */
#include "tests/support_api.h"

#include <check.h>
#include <string.h>

static api_house house;

static void setup(void) {
    api_house_open(&house, 0);
}

static void teardown(void) {
    api_house_close(&house);
}

static api_answer get(const char *path) {
    return api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = path});
}

START_TEST(the_index_tells_version_skinners_and_limits) {
    api_answer answer = get("/");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(api_string(&answer, "version"), "1.2.3");
    ck_assert_str_eq(api_string(&answer, "build"), "test");
    ck_assert_str_eq(api_string(&answer, "default_mode"), "gpu");
    cJSON *skinners = cJSON_GetObjectItemCaseSensitive(answer.json, "skinners");
    cJSON *opencl = cJSON_GetObjectItemCaseSensitive(skinners, "opencl");
    ck_assert(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(opencl, "available")));
    ck_assert_str_eq(cJSON_GetObjectItemCaseSensitive(opencl, "reason")->valuestring,
                     "no OpenCL platform");
    cJSON *limits = cJSON_GetObjectItemCaseSensitive(answer.json, "limits");
    ck_assert(cJSON_GetObjectItemCaseSensitive(limits, "max_json_bytes")->valuedouble == 1 << 20);
    ck_assert(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(limits, "max_result_bytes")));
    api_answer_free(&answer);
    house.config.max_result_bytes = 1 << 30;
    api_house_reopen(&house);
    answer = get("/");
    limits = cJSON_GetObjectItemCaseSensitive(answer.json, "limits");
    ck_assert(cJSON_GetObjectItemCaseSensitive(limits, "max_result_bytes")->valuedouble == 1 << 30);
    api_answer_free(&answer);
}
END_TEST

START_TEST(live_is_always_and_ready_only_when_ready) {
    api_answer answer = get("/readyz");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(api_string(&answer, "status"), "ready");
    api_answer_free(&answer);
    house.not_ready = true;
    answer = get("/readyz");
    ck_assert_int_eq(answer.status, 503);
    ck_assert_str_eq(api_problem(&answer), "not-ready");
    ck_assert_ptr_nonnull(api_header(&answer, "Retry-After"));
    api_answer_free(&answer);
    answer = get("/livez");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(api_string(&answer, "status"), "alive");
    api_answer_free(&answer);
}
END_TEST

START_TEST(the_contract_is_served) {
    api_answer answer = get("/v1/openapi.yaml");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(api_header(&answer, "Content-Type"), "application/yaml");
    ck_assert_ptr_nonnull(strstr(answer.body, "openapi: 3"));
    api_answer_free(&answer);
}
END_TEST

START_TEST(queries_where_none_is_taken_are_400) {
    api_answer answer = api_send(
        &house, &(api_ask){.method = DFM_METHOD_GET, .path = "/livez", .query = "verbose=1"});
    ck_assert_int_eq(answer.status, 400);
    ck_assert_str_eq(api_problem(&answer), "invalid-query");
    ck_assert_ptr_nonnull(strstr(api_string(&answer, "detail"), "verbose"));
    api_answer_free(&answer);
}
END_TEST

START_TEST(sane_request_ids_come_back_and_others_are_replaced) {
    static const char *const sane[] = {
        "a", "frame-0042", "A.b_c-9",
        "0123456789012345678901234567890123456789012345678901234567890123"};
    static const char *const insane[] = {
        "",          " ",   "a b",
        "a\r\nX: y", "ä",   "a\"",
        "%41",       "a/b", "01234567890123456789012345678901234567890123456789012345678901234"};
    for (size_t i = 0; i < sizeof sane / sizeof *sane; i++) {
        api_ask ask = {
            .method = DFM_METHOD_GET, .path = "/livez", .headers = {.request_id = sane[i]}};
        api_answer answer = api_send(&house, &ask);
        ck_assert_str_eq(api_header(&answer, "X-Request-Id"), sane[i]);
        api_answer_free(&answer);
        ask.path = "/nothing";
        answer = api_send(&house, &ask);
        ck_assert_str_eq(api_string(&answer, "request_id"), sane[i]);
        api_answer_free(&answer);
    }
    char last[DFM_API_REQUEST_ID_BYTES + 1] = "";
    for (size_t i = 0; i < sizeof insane / sizeof *insane; i++) {
        api_answer answer = api_send(&house, &(api_ask){.method = DFM_METHOD_GET,
                                                        .path = "/livez",
                                                        .headers = {.request_id = insane[i]}});
        const char *made = api_header(&answer, "X-Request-Id");
        ck_assert_uint_eq(strlen(made), 16);
        ck_assert_uint_eq(strspn(made, "0123456789abcdef"), 16);
        ck_assert_str_ne(made, last);
        strcpy(last, made);
        api_answer_free(&answer);
    }
}
END_TEST

START_TEST(the_servers_own_answers_have_the_same_form) {
    dfm_api_request request = {.request_id = "mine"}, unknown = {0};
    dfm_api_response responses[5];
    static const int statuses[] = {413, 503, 400, 504, 400};
    static const char *const codes[] = {"body-too-large", "busy", "bad-request", "deadline-passed",
                                        "bad-request"};
    dfm_api_body_too_large(&request, 10, 20, &responses[0]);
    dfm_api_busy(&request, "the queue is full", &responses[1]);
    dfm_api_bad_request(&request, "no Host", &responses[2]);
    dfm_api_deadline_passed(&request, &responses[3]);
    dfm_api_bad_request(&unknown, "before it was admitted", &responses[4]);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(responses[i].status, statuses[i]);
        cJSON *root = cJSON_ParseWithLength(responses[i].body, responses[i].body_bytes);
        const char *type = cJSON_GetObjectItemCaseSensitive(root, "type")->valuestring;
        ck_assert_str_eq(strrchr(type, '/') + 1, codes[i]);
        const char *id = cJSON_GetObjectItemCaseSensitive(root, "request_id")->valuestring;
        ck_assert_str_eq(id, responses[i].headers[0].value);
        if (i < 4)
            ck_assert_str_eq(id, "mine");
        else
            ck_assert_uint_eq(strlen(id), 16);
        cJSON_Delete(root);
        dfm_api_response_free(&responses[i]);
        dfm_api_response_free(&responses[i]); /* empty by now */
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("service");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_index_tells_version_skinners_and_limits);
    tcase_add_test(tests, live_is_always_and_ready_only_when_ready);
    tcase_add_test(tests, the_contract_is_served);
    tcase_add_test(tests, queries_where_none_is_taken_are_400);
    tcase_add_test(tests, sane_request_ids_come_back_and_others_are_replaced);
    tcase_add_test(tests, the_servers_own_answers_have_the_same_form);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
