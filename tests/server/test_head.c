/* Request targets and methods, as they come off the wire. */
#include <check.h>
#include <string.h>

#include "server/head.h"

static const struct {
    const char *target, *path, *query;
} good[] = {
    {"/", "/", NULL},
    {"/models", "/models", NULL},
    {"/models?mode=cpu&x", "/models", "mode=cpu&x"},
    {"/models?", "/models", ""},
    {"/a?b?c", "/a", "b?c"},
    {"/%E3%81%82?q=%20", "/%E3%81%82", "q=%20"},
    {"http://host:1/models?x", "/models", "x"},
    {"HTTPS://host/", "/", NULL},
};

START_TEST(target_splits_into_path_and_query) {
    char text[128];
    const char *path, *query;
    strcpy(text, good[_i].target);
    ck_assert_ptr_null(dfm_head_split_target(text, &path, &query));
    ck_assert_str_eq(path, good[_i].path);
    ck_assert_pstr_eq(query, good[_i].query);
}
END_TEST

static const char *const bad[] = {"",         "*",      "models", "http://host", "/a b",
                                  "/a%00/..", "/\x01x", "/a?%00", "/a\x7f",      "ftp://host/"};

START_TEST(odd_target_is_refused_and_still_leaves_a_path) {
    char text[128];
    const char *path, *query;
    strcpy(text, bad[_i]);
    ck_assert_ptr_nonnull(dfm_head_split_target(text, &path, &query));
    ck_assert_str_eq(path, "/");
    ck_assert_ptr_null(query);
}
END_TEST

START_TEST(methods_are_known_by_their_exact_names) {
    ck_assert_int_eq(dfm_head_method("GET"), DFM_METHOD_GET);
    ck_assert_int_eq(dfm_head_method("HEAD"), DFM_METHOD_HEAD);
    ck_assert_int_eq(dfm_head_method("POST"), DFM_METHOD_POST);
    ck_assert_int_eq(dfm_head_method("PATCH"), DFM_METHOD_PATCH);
    ck_assert_int_eq(dfm_head_method("DELETE"), DFM_METHOD_DELETE);
    ck_assert_int_eq(dfm_head_method("get"), DFM_METHOD_OTHER);
    ck_assert_int_eq(dfm_head_method("PUT"), DFM_METHOD_OTHER);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("head");
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, target_splits_into_path_and_query, 0, sizeof good / sizeof good[0]);
    tcase_add_loop_test(tests, odd_target_is_refused_and_still_leaves_a_path, 0,
                        sizeof bad / sizeof bad[0]);
    tcase_add_test(tests, methods_are_known_by_their_exact_names);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
