/* Query strings, media types, entity tags and the route table's paths. */
#include "api/media.h"
#include "api/query.h"
#include "api/response.h"
#include "api/routes.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"mode", "limit", "attributes", NULL};
static dfm_query query;
static dfm_problem problem;

static bool parse(const char *text) {
    memset(&query, 0xA5, sizeof query);
    return dfm_query_parse(&query, names, text, &problem);
}

START_TEST(parameters_are_decoded) {
    ck_assert(parse("mode=%67pu&attributes=a%2Cb%26c=d"));
    ck_assert_str_eq(dfm_query_get(&query, "mode"), "gpu");
    ck_assert_str_eq(dfm_query_get(&query, "attributes"), "a,b&c=d");
    ck_assert_ptr_null(dfm_query_get(&query, "limit"));
    ck_assert(parse("%6Dode=%e3%81%82&&"));
    ck_assert_str_eq(dfm_query_get(&query, "mode"), "あ");
    ck_assert(parse("mode"));
    ck_assert_str_eq(dfm_query_get(&query, "mode"), "");
    ck_assert(parse("mode=a+b"));
    ck_assert_str_eq(dfm_query_get(&query, "mode"), "a+b");
    ck_assert(parse(NULL));
    ck_assert(parse(""));
    ck_assert(parse("&"));
}
END_TEST

START_TEST(wrong_queries_name_the_parameter) {
    static const struct {
        const char *text, *parameter;
    } cases[] = {
        {"colour=red", NULL},
        {"Mode=gpu", NULL},
        {"mode=gpu&x", NULL},
        {"mode=a&mode=a", "mode"},
        {"mode=a&%6dode=b", "mode"},
        {"mode=%", "mode"},
        {"mode=%1", "mode"},
        {"mode=%g1", "mode"},
        {"mode=%00", "mode"},
        {"mode=a%00b", "mode"},
        {"mo%00de=a", NULL},
        {"%=1", NULL},
        {"=", NULL},
        {"mode=%-1", "mode"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(!parse(cases[i].text), "%s", cases[i].text);
        ck_assert_int_eq(problem.code, DFM_PROBLEM_INVALID_QUERY);
        ck_assert_msg(cases[i].parameter
                          ? problem.parameter && strcmp(problem.parameter, cases[i].parameter) == 0
                          : !problem.parameter,
                      "%s: %s", cases[i].text, problem.parameter);
    }
    parse("colour=red");
    ck_assert_ptr_nonnull(strstr(problem.detail, "colour"));
}
END_TEST

START_TEST(long_values_and_names_are_refused) {
    char text[2048] = "mode=";
    memset(text + 5, 'a', 1500);
    ck_assert(!parse(text));
    memset(text, 'a', 1500);
    ck_assert(!parse(text));
    strcpy(text, "mode=");
    memset(text + 5, 'a', DFM_QUERY_VALUE_BYTES - 1);
    text[5 + DFM_QUERY_VALUE_BYTES - 1] = 0;
    ck_assert(parse(text));
    strcat(text, "&limit="); /* there is no byte left for its NUL */
    ck_assert(!parse(text));
}
END_TEST

START_TEST(choices_and_numbers_are_checked) {
    static const char *const words[] = {"gpu", "cpu", NULL};
    uint64_t value;
    parse("mode=cpu");
    ck_assert_int_eq(dfm_query_choice(&query, "mode", words, 0, &problem), 1);
    parse("");
    ck_assert_int_eq(dfm_query_choice(&query, "mode", words, 1, &problem), 1);
    parse("mode=CPU");
    ck_assert_int_eq(dfm_query_choice(&query, "mode", words, 0, &problem), -1);
    ck_assert_str_eq(problem.detail, "mode is \"CPU\", expected is gpu or cpu");
    ck_assert_str_eq(problem.parameter, "mode");
    parse("limit=1000");
    ck_assert(dfm_query_integer(&query, "limit", 1, 1000, 7, &value, &problem));
    ck_assert_uint_eq(value, 1000);
    parse("");
    ck_assert(dfm_query_integer(&query, "limit", 1, 1000, 7, &value, &problem));
    ck_assert_uint_eq(value, 7);
    static const char *const wrong[] = {"limit=",
                                        "limit=0",
                                        "limit=1001",
                                        "limit=-1",
                                        "limit=+1",
                                        "limit=1.5",
                                        "limit=0x10",
                                        "limit= 1",
                                        "limit=%201",
                                        "limit=1a",
                                        "limit=99999999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert(parse(wrong[i]));
        ck_assert_msg(!dfm_query_integer(&query, "limit", 1, 1000, 7, &value, &problem), "%s",
                      wrong[i]);
    }
}
END_TEST

START_TEST(content_types_are_compared_without_case_and_parameters) {
    ck_assert(dfm_media_is("application/json", DFM_MEDIA_JSON));
    ck_assert(dfm_media_is(" Application/JSON ; charset=utf-8", DFM_MEDIA_JSON));
    ck_assert(dfm_media_is("application/json;x", DFM_MEDIA_JSON));
    ck_assert(!dfm_media_is("application/jsonp", DFM_MEDIA_JSON));
    ck_assert(!dfm_media_is("application/jso", DFM_MEDIA_JSON));
    ck_assert(!dfm_media_is("", DFM_MEDIA_JSON));
}
END_TEST

START_TEST(accept_chooses_the_best_form) {
    static const char *const offers[] = {"application/octet-stream", "application/json"};
    static const struct {
        const char *accept;
        int choice;
    } cases[] = {
        {NULL, 0},
        {"", 0},
        {"*/*", 0},
        {"application/*", 0},
        {"application/json", 1},
        {"APPLICATION/JSON", 1},
        {"text/html, application/json;q=0.5", 1},
        {"application/json, */*;q=0.1", 1},
        {"application/json;q=0.1, */*", 0},
        {"application/octet-stream;q=0, */*", 1},
        {"application/octet-stream;q=0.300,application/json;q=0.301", 1},
        {"application/json ; q=0.2 , application/octet-stream ;q=0.3", 0},
        {"*/*;q=0.5, application/json;q=0", 0},
        {"text/html", -1},
        {"text/*", -1},
        {"application/json;q=0", -1},
        {"*/*;q=0.000", -1},
        {"nonsense", -1},
        {";;;,,,q=", -1},
        {"application/jso, application/jsonx, app/*", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(dfm_media_choose(cases[i].accept, offers, 2) == cases[i].choice, "%s",
                      cases[i].accept);
}
END_TEST

START_TEST(entity_tags_are_found_in_lists) {
    static const struct {
        const char *list;
        bool weakly, strongly;
    } cases[] = {
        {"\"a\"", true, true},        {"*", true, true},
        {" * ", true, true},          {"W/\"a\"", true, false},
        {"\"b\", \"a\"", true, true}, {"\"b\",W/\"a\"", true, false},
        {"\"b\"", false, false},      {"a", false, false},
        {"", false, false},           {"\"a", false, false},
        {"\"aa\"", false, false},     {"\"\"", false, false},
        {"*, \"b\"", false, false},   {"w/\"a\"", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(dfm_etag_matches_weakly(cases[i].list, "\"a\"") == cases[i].weakly, "%s",
                      cases[i].list);
        ck_assert_msg(dfm_etag_matches_strongly(cases[i].list, "\"a\"") == cases[i].strongly, "%s",
                      cases[i].list);
    }
}
END_TEST

#define ID "0123456789abcdef0123456789abcdef"

START_TEST(paths_find_their_routes) {
    static const struct {
        dfm_method method;
        const char *path, *route, *allow, *id;
    } cases[] = {
        {DFM_METHOD_GET, "/", "GET /", "GET, HEAD", ""},
        {DFM_METHOD_GET, "/v1", "GET /", "GET, HEAD", ""},
        {DFM_METHOD_GET, "/v1/", "GET /", "GET, HEAD", ""},
        {DFM_METHOD_HEAD, "/livez", "GET /livez", "GET, HEAD", ""},
        {DFM_METHOD_POST, "/models", "POST /models", "POST, GET, HEAD", ""},
        {DFM_METHOD_POST, "/v1/models", "POST /models", "POST, GET, HEAD", ""},
        {DFM_METHOD_DELETE, "/models", NULL, "POST, GET, HEAD", ""},
        {DFM_METHOD_GET, "/models/" ID, "GET /models/{id}", "GET, HEAD, PATCH, DELETE", ID},
        {DFM_METHOD_OTHER, "/models/" ID, NULL, "GET, HEAD, PATCH, DELETE", ID},
        {DFM_METHOD_GET, "/models/%30123456789abcdef0123456789abcdef", "GET /models/{id}",
         "GET, HEAD, PATCH, DELETE", ID},
        {DFM_METHOD_GET, "/mod%65ls/" ID "/bones", "GET /models/{id}/bones", "GET, HEAD", ID},
        {DFM_METHOD_GET, "/models/short", "GET /models/{id}", "GET, HEAD, PATCH, DELETE", ""},
        {DFM_METHOD_GET, "/models/0123456789ABCDEF0123456789ABCDEF", "GET /models/{id}",
         "GET, HEAD, PATCH, DELETE", ""},
        {DFM_METHOD_GET, "/models/" ID "0", "GET /models/{id}", "GET, HEAD, PATCH, DELETE", ""},
        {DFM_METHOD_GET, "/models/%00", "GET /models/{id}", "GET, HEAD, PATCH, DELETE", ""},
        {DFM_METHOD_GET, "/models/..", "GET /models/{id}", "GET, HEAD, PATCH, DELETE", ""},
        {DFM_METHOD_GET, "/models/" ID "/deform", NULL, "POST", ID},
        {DFM_METHOD_GET, "", NULL, "", ""},
        {DFM_METHOD_GET, "*", NULL, "", ""},
        {DFM_METHOD_GET, "//", NULL, "", ""},
        {DFM_METHOD_GET, "/%00", NULL, "", ""},
        {DFM_METHOD_GET, "/%", NULL, "", ""},
        {DFM_METHOD_GET, "/livez/", NULL, "", ""},
        {DFM_METHOD_GET, "/livez%00", NULL, "", ""},
        {DFM_METHOD_GET, "/models/", NULL, "", ""},
        {DFM_METHOD_GET, "/models//bones", NULL, "", ""},
        {DFM_METHOD_GET, "/models%2f" ID, NULL, "", ""},
        {DFM_METHOD_GET, "/v1models", NULL, "", ""},
        {DFM_METHOD_GET, "/v1/v1/models", NULL, "", ""},
        {DFM_METHOD_GET, "/v2/models", NULL, "", ""},
        {DFM_METHOD_GET, "/models/" ID "/bones/0", NULL, "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dfm_route_match match = dfm_route_find(cases[i].method, cases[i].path);
        ck_assert_msg(cases[i].route ? match.route && strcmp(match.route->name, cases[i].route) == 0
                                     : !match.route,
                      "%s: %s", cases[i].path, match.route ? match.route->name : "none");
        ck_assert_str_eq(match.allow, cases[i].allow);
        if (cases[i].route)
            ck_assert_str_eq(match.id, cases[i].id);
    }
}
END_TEST

START_TEST(the_tables_hold_together) {
    for (size_t i = 0; i < dfm_route_count; i++) {
        const dfm_route *route = &dfm_routes[i];
        ck_assert_ptr_eq(dfm_api_route_name(i), route->name);
        static const char *const methods[] = {"GET ", "HEAD ", "POST ", "PATCH ", "DELETE "};
        ck_assert_int_eq(
            strncmp(route->name, methods[route->method], strlen(methods[route->method])), 0);
        size_t parameters = 0, types = 0;
        for (; route->query && route->query[parameters]; parameters++)
            ;
        ck_assert_uint_le(parameters, DFM_QUERY_MAX_PARAMETERS);
        for (; route->body_types && route->body_types[types].media_type; types++)
            ;
        ck_assert_uint_le(types, DFM_ROUTE_MAX_BODY_TYPES);
    }
    ck_assert_ptr_null(dfm_api_route_name(dfm_route_count));
    for (int i = 0; i < DFM_PROBLEM_COUNT; i++) {
        const dfm_problem_kind *kind = &dfm_problem_kinds[i];
        ck_assert_ptr_nonnull(kind->code);
        ck_assert_ptr_nonnull(kind->title);
        ck_assert(kind->status >= 400 && kind->status < 600);
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(kind->code, dfm_problem_kinds[k].code);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("query");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, parameters_are_decoded);
    tcase_add_test(tests, wrong_queries_name_the_parameter);
    tcase_add_test(tests, long_values_and_names_are_refused);
    tcase_add_test(tests, choices_and_numbers_are_checked);
    tcase_add_test(tests, content_types_are_compared_without_case_and_parameters);
    tcase_add_test(tests, accept_chooses_the_best_form);
    tcase_add_test(tests, entity_tags_are_found_in_lists);
    tcase_add_test(tests, paths_find_their_routes);
    tcase_add_test(tests, the_tables_hold_together);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
