/* Tokens and their scopes, and pages of other origins. */
#include "api/cors.h"
#include "api/routes.h"
#include "tests/support_api.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define DEFORM "deform-token-0123456789"
#define ADMIN "admin-token-0123456789"

static api_house house;
static dfm_access *access_;

static void setup(void) {
    static const char text[] =
        "# for the farm\ndeform " DEFORM "\n\n  admin\t" ADMIN " # of Anna\n";
    char message[128];
    dfm_access_counts counts;
    access_ = dfm_access_create();
    ck_assert(dfm_access_load(access_, text, sizeof text - 1, &counts, message, sizeof message));
    ck_assert_uint_eq(counts.deform, 1);
    ck_assert_uint_eq(counts.admin, 1);
    api_house_open(&house, 0);
    house.config.access = access_;
    house.config.cors_origins = "https://farm.example, https://viewer.example:8443";
    api_house_reopen(&house);
}

static void teardown(void) {
    api_house_close(&house);
    dfm_access_free(access_);
}

START_TEST(a_wrong_file_is_refused_by_its_line_and_shows_no_token) {
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"", "no token"},
        {"# nothing\n", "no token"},
        {"deform " DEFORM "\nread secret-secret-secret\n", "line 2"},
        {"deform\n", "shorter"},
        {"deform secret-15-char\n", "shorter"},
        {"admin secret secret secret secret\n", "character"},
        {"admin secret-with-\xc3\xa4-in-it\n", "character"},
        {"admin secret=in-the-middle\n", "character"},
        {"admin ================\n", "character"},
        {"deform secret-0123456789\nadmin secret-0123456789\n",
         "line 2: the token stands there twice"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char message[128] = "";
        dfm_access_counts counts;
        ck_assert(!dfm_access_load(access_, wrong[i].text, strlen(wrong[i].text), &counts, message,
                                   sizeof message));
        ck_assert_msg(strstr(message, wrong[i].words) != NULL, "%zu: %s", i, message);
        ck_assert_ptr_null(strstr(message, "secret"));
    }
    char longest[400] = "deform ", message[128];
    dfm_access_counts counts;
    memset(longest + 7, 'x', 256);
    ck_assert(dfm_access_load(access_, longest, 7 + 256, &counts, message, sizeof message));
    longest[7 + 256] = 'x';
    ck_assert(!dfm_access_load(access_, longest, 7 + 257, &counts, message, sizeof message));
}
END_TEST

START_TEST(a_replaced_token_is_known_no_more) {
    char message[128];
    dfm_access_counts counts;
    ck_assert_int_eq(dfm_access_check(access_, "Bearer " ADMIN, DFM_SCOPE_ADMIN),
                     DFM_ACCESS_GRANTED);
    ck_assert(dfm_access_load(access_, "admin another-token-000\r\n", 25, &counts, message,
                              sizeof message));
    ck_assert_int_eq(dfm_access_check(access_, "Bearer " ADMIN, DFM_SCOPE_DEFORM),
                     DFM_ACCESS_UNKNOWN);
    ck_assert_int_eq(dfm_access_check(access_, "bearer  another-token-000", DFM_SCOPE_ADMIN),
                     DFM_ACCESS_GRANTED);
}
END_TEST

static api_answer ask(dfm_method method, const char *path, const char *authorization) {
    return api_send(
        &house,
        &(api_ask){.method = method, .path = path, .headers = {.authorization = authorization}});
}

/* What the table itself must say: only reading and deforming go without the scope admin. */
START_TEST(routes_that_change_something_take_admin) {
    for (size_t r = 0; r < dfm_route_count; r++) {
        const dfm_route *route = &dfm_routes[r];
        bool changes = route->method != DFM_METHOD_GET && !strstr(route->name, "/deform");
        ck_assert_msg((route->scope == DFM_SCOPE_ADMIN) == changes, "%s", route->name);
    }
}
END_TEST

/* Every route of the table, with every kind of token. */
START_TEST(routes_take_the_scope_of_the_table) {
    static const struct {
        const char *header;
        int rank; /* -1: none, -2: wrong */
    } given[] = {{NULL, -1},           {"Bearer wrong-wrong-wrong-wrong", -2},
                 {"Basic " ADMIN, -1}, {"Bearer", -1},
                 {"Bearer" ADMIN, -1}, {"Bearer " DEFORM, 0},
                 {"Bearer " ADMIN, 1}, {"Bearer " ADMIN "x", -2}};
    for (size_t r = 0; r < dfm_route_count; r++) {
        const dfm_route *route = &dfm_routes[r];
        const char *pattern = strchr(route->name, ' ') + 1, *id = strstr(pattern, "{id}");
        char path[128];
        if (id)
            snprintf(path, sizeof path, "%.*s%032d%s", (int)(id - pattern), pattern, 7, id + 4);
        else
            snprintf(path, sizeof path, "%s", pattern);
        bool open = route->scope == DFM_SCOPE_OPEN || strcmp(pattern, "/metrics") == 0;
        for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
            api_answer answer = ask(route->method, path, given[i].header);
            int status = open || given[i].rank >= (int)route->scope ? 0
                         : given[i].rank >= 0                       ? 403
                                                                    : 401;
            bool refused = answer.status == 401 || answer.status == 403;
            ck_assert_msg(status ? answer.status == status : !refused, "%s, %s: %d", route->name,
                          given[i].header, answer.status);
            if (refused) {
                ck_assert(!answer.admitted);
                const char *challenge = api_header(&answer, "WWW-Authenticate");
                ck_assert_ptr_nonnull(challenge);
                ck_assert((strstr(challenge, "invalid_token") != NULL) ==
                          (status == 401 && given[i].header != NULL));
                ck_assert((strstr(challenge, "insufficient_scope") != NULL) == (status == 403));
            }
            api_answer_free(&answer);
        }
    }
}
END_TEST

START_TEST(metrics_take_a_token_where_that_is_chosen) {
    api_answer answer = ask(DFM_METHOD_GET, "/metrics", NULL);
    ck_assert_int_eq(answer.status, 200);
    api_answer_free(&answer);
    house.config.metrics_token = true;
    api_house_reopen(&house);
    answer = ask(DFM_METHOD_GET, "/metrics", NULL);
    ck_assert_int_eq(answer.status, 401);
    api_answer_free(&answer);
    answer = ask(DFM_METHOD_GET, "/metrics", "Bearer " DEFORM);
    ck_assert_int_eq(answer.status, 200);
    api_answer_free(&answer);
}
END_TEST

START_TEST(every_answer_says_nosniff) {
    static const char *const paths[] = {"/livez", "/", "/nothing", "/models"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        api_answer answer = ask(DFM_METHOD_GET, paths[i], NULL);
        ck_assert_str_eq(api_header(&answer, "X-Content-Type-Options"), "nosniff");
        ck_assert_ptr_null(api_header(&answer, "Access-Control-Allow-Origin"));
        api_answer_free(&answer);
    }
}
END_TEST

START_TEST(pages_of_named_origins_are_answered) {
    static const struct {
        const char *origin;
        bool allowed;
    } pages[] = {{"https://farm.example", true},
                 {"https://viewer.example:8443", true},
                 {"https://viewer.example", false},
                 {"https://farm.example.evil", false},
                 {"https://farm", false},
                 {"null", false},
                 {"", false},
                 {NULL, false}};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        api_ask what = {.method = DFM_METHOD_GET,
                        .path = "/models",
                        .headers = {.origin = pages[i].origin, .authorization = "Bearer " DEFORM}};
        api_answer answer = api_send(&house, &what);
        const char *origin = api_header(&answer, "Access-Control-Allow-Origin");
        ck_assert_int_eq(origin != NULL, pages[i].allowed);
        if (origin) {
            ck_assert_str_eq(origin, pages[i].origin);
            ck_assert_ptr_nonnull(
                strstr(api_header(&answer, "Access-Control-Expose-Headers"), "X-Request-Id"));
        }
        ck_assert_str_eq(api_header(&answer, "Vary"), "Origin"); /* of those without a page, too */
        api_answer_free(&answer);
        what.headers.authorization = NULL; /* failures can be read by the page as well */
        answer = api_send(&house, &what);
        ck_assert_int_eq(answer.status, 401);
        ck_assert_int_eq(api_header(&answer, "Access-Control-Allow-Origin") != NULL,
                         pages[i].allowed);
        api_answer_free(&answer);
    }
}
END_TEST

/* A header that is not named there is invisible to a page. */
START_TEST(pages_see_every_header_of_every_route) {
    api_ask what = {
        .method = DFM_METHOD_GET, .path = "/livez", .headers = {.origin = "https://farm.example"}};
    api_answer answer = api_send(&house, &what);
    const char *exposed = api_header(&answer, "Access-Control-Expose-Headers");
    for (size_t r = 0; r < dfm_route_count; r++)
        for (const char *const *name = dfm_routes[r].headers; name && *name; name++)
            ck_assert_msg(strstr(exposed, *name) != NULL, "%s", *name);
    const char *last = "X-Request-Id"; /* it was not cut off */
    ck_assert_str_eq(exposed + strlen(exposed) - strlen(last), last);
    api_answer_free(&answer);
}
END_TEST

START_TEST(a_page_of_any_origin_is_answered_the_same) {
    static const char *const origins[] = {NULL, "https://a.example", "null"};
    house.config.cors_origins = "*";
    api_house_reopen(&house);
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++) {
        api_ask what = {
            .method = DFM_METHOD_GET, .path = "/livez", .headers = {.origin = origins[i]}};
        api_answer answer = api_send(&house, &what);
        ck_assert_str_eq(api_header(&answer, "Access-Control-Allow-Origin"), "*");
        ck_assert_ptr_null(api_header(&answer, "Vary"));
        api_answer_free(&answer);
    }
}
END_TEST

/* What would never match is no setting. */
START_TEST(origins_are_what_browsers_send) {
    static const struct {
        const char *list, *words; /* NULL: good */
    } lists[] = {{"", NULL},
                 {"*", NULL},
                 {"https://farm.example", NULL},
                 {"http://localhost:3000,https://[::1]:8443 , app://viewer", NULL},
                 {"https://xn--hxajbheg2az3al.example", NULL},
                 {"https://farm.example/", "\"https://farm.example/\""},
                 {"https://a.example, https://b.example/path", "\"https://b.example/path\""},
                 {"https://Farm.example", "\"https://Farm.example\""},
                 {"https://farm.example:443", "default port"},
                 {"http://farm.example:80", "default port"},
                 {"farm.example", "\"farm.example\""},
                 {"https://", "\"https://\""},
                 {"://farm.example", "\"://farm.example\""},
                 {"https://*.example", "\"https://*.example\""},
                 {"*, https://farm.example", "\"*\""},
                 {"null", "\"null\""},
                 {" , ", "no origin in it"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char message[256] = "";
        ck_assert_msg(dfm_cors_check(lists[i].list, message, sizeof message) == !lists[i].words,
                      "%s: %s", lists[i].list, message);
        ck_assert_msg(!lists[i].words || strstr(message, lists[i].words), "%s: %s", lists[i].list,
                      message);
    }
    char longest[8 + 193 + 1], message[256];
    snprintf(longest, sizeof longest, "https://%0192d", 0);
    ck_assert(dfm_cors_check(longest, message, sizeof message));
    snprintf(longest, sizeof longest, "https://%0193d", 0);
    ck_assert(!dfm_cors_check(longest, message, sizeof message));
}
END_TEST

START_TEST(a_preflight_needs_no_token) {
    api_ask what = {
        .method = DFM_METHOD_OPTIONS,
        .path = "/models/00000000000000000000000000000007",
        .headers = {.origin = "https://farm.example", .access_control_request_method = "PATCH"}};
    api_answer answer = api_send(&house, &what);
    ck_assert_int_eq(answer.status, 204);
    ck_assert_str_eq(api_header(&answer, "Access-Control-Allow-Methods"),
                     "GET, HEAD, PATCH, DELETE");
    ck_assert_ptr_nonnull(
        strstr(api_header(&answer, "Access-Control-Allow-Headers"), "Authorization"));
    api_answer_free(&answer);
    what.headers.origin = "https://evil.example";
    answer = api_send(&house, &what);
    ck_assert_int_eq(answer.status, 405);
    ck_assert_ptr_null(api_header(&answer, "Access-Control-Allow-Origin"));
    api_answer_free(&answer);
    house.config.cors_origins = "*";
    api_house_reopen(&house);
    answer = api_send(&house, &what);
    ck_assert_int_eq(answer.status, 204);
    ck_assert_str_eq(api_header(&answer, "Access-Control-Allow-Origin"), "*");
    api_answer_free(&answer);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("access");
    TCase *tests = tcase_create("access");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_wrong_file_is_refused_by_its_line_and_shows_no_token);
    tcase_add_test(tests, a_replaced_token_is_known_no_more);
    tcase_add_test(tests, routes_that_change_something_take_admin);
    tcase_add_test(tests, routes_take_the_scope_of_the_table);
    tcase_add_test(tests, metrics_take_a_token_where_that_is_chosen);
    tcase_add_test(tests, every_answer_says_nosniff);
    tcase_add_test(tests, pages_of_named_origins_are_answered);
    tcase_add_test(tests, pages_see_every_header_of_every_route);
    tcase_add_test(tests, a_page_of_any_origin_is_answered_the_same);
    tcase_add_test(tests, origins_are_what_browsers_send);
    tcase_add_test(tests, a_preflight_needs_no_token);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
