/* The models resource over real HTTP: upload in three ways, list, read, change, delete. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/support.h"

static daemon_process d;
static uint8_t *bytes; /* of the figure */
static size_t size;

static void set_up(void) {
    daemon_hide_opencl();
    d = daemon_start(ARGUMENTS("--workers", "2"));
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    bytes = model_bytes(&figure, NULL, &size);
    dfm_arena_free(&arena);
}

static void tear_down(void) {
    free(bytes);
    daemon_stop(&d);
}

static const char *path_of(const char *id, const char *rest) {
    static char path[256];
    snprintf(path, sizeof path, "/models/%s%s", id, rest);
    return path;
}

START_TEST(raw_multipart_and_chunked_uploads_give_the_same_model) {
    request what = {.path = "/models?mode=cpu",
                    .content_type = "application/octet-stream",
                    .body = bytes,
                    .size = size};
    reply first = http(&d, &what);
    expect_status(&first, 201);
    char id[64], location[128];
    strcpy(id, reply_field(&first, "id"));
    snprintf(location, sizeof location, "%s", reply_header(&first, "Location"));
    ck_assert_ptr_nonnull(strstr(location, id));
    ck_assert_str_eq(reply_field(&first, "mode"), "cpu");

    what.chunked = true;
    reply second = http(&d, &what);
    expect_status(&second, 200);
    ck_assert_str_eq(reply_field(&second, "id"), id);

    what = (request){.path = "/models", .body = bytes, .size = size, .multipart = true};
    reply third = http(&d, &what);
    expect_status(&third, 200);
    ck_assert_str_eq(reply_field(&third, "id"), id);
    ck_assert_str_eq(reply_field(&third, "mode"), "cpu"); /* not given: stays */
    reply_free(&first);
    reply_free(&second);
    reply_free(&third);
}
END_TEST

START_TEST(form_without_a_file_is_400) {
    static const char body[] =
        "--bb\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nx\r\n--bb--\r\n";
    reply r = http(&d, &(request){.path = "/models",
                                  .content_type = "multipart/form-data; boundary=bb",
                                  .body = body,
                                  .size = sizeof body - 1});
    expect_status(&r, 400);
    ck_assert_ptr_nonnull(strstr((char *)r.body, "file"));
    reply_free(&r);
}
END_TEST

static const char *const broken_forms[][2] = {
    {"multipart/form-data", "--bb\r\n\r\n--bb--\r\n"},
    {"multipart/form-data; boundary=", "--bb\r\n\r\n--bb--\r\n"},
    {"multipart/form-data; boundary=bb",
     "--bb\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nPmx without an end"},
    {"multipart/form-data; boundary=bb", "rubbish"},
    {"multipart/form-data; boundary=bb",
     "--bb\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n"
     "--bb\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\ny\r\n--bb--\r\n"},
};

START_TEST(broken_form_is_400) {
    reply r = http(&d, &(request){.path = "/models",
                                  .content_type = broken_forms[_i][0],
                                  .body = broken_forms[_i][1],
                                  .size = strlen(broken_forms[_i][1])});
    expect_status(&r, 400);
    ck_assert_str_eq(reply_header(&r, "Content-Type"), "application/problem+json");
    reply_free(&r);
}
END_TEST

/* Bytes that look like a boundary, at every place of the parser's window. */
START_TEST(form_hands_over_exactly_the_files_bytes) {
    size_t whole = size + 200000; /* what lies behind the morphs is not read */
    uint8_t *file = malloc(whole);
    memcpy(file, bytes, size);
    for (size_t i = size; i < whole; i++)
        file[i] = (uint8_t) "\r\n--b\r\n-\r\r\n--"[(i * 7 + i / 11) % 13];
    request what = {.path = "/models?mode=cpu", .body = file, .size = whole, .multipart = true};
    reply form = http(&d, &what);
    what.multipart = false;
    what.content_type = "application/octet-stream";
    reply raw = http(&d, &what);
    expect_status(&form, 201);
    expect_status(&raw, 200); /* the same bytes, so the same id */
    reply_free(&form);
    reply_free(&raw);
    free(file);
}
END_TEST

START_TEST(document_is_listed_read_changed_and_deleted) {
    char id[64];
    strcpy(id, upload_bytes(&d, bytes, size, "?mode=cpu"));
    reply r = http_get(&d, "/models");
    expect_status(&r, 200);
    ck_assert_ptr_nonnull(strstr((char *)r.body, id));
    reply_free(&r);

    r = http_get(&d, path_of(id, ""));
    expect_status(&r, 200);
    char etag[128];
    strcpy(etag, reply_header(&r, "ETag"));
    ck_assert_str_eq(reply_field(&r, "effective_mode"), "cpu");
    size_t document = r.size;
    reply_free(&r);

    r = http(&d, &(request){.method = "HEAD", .path = path_of(id, "")});
    expect_status(&r, 200);
    ck_assert_uint_eq(r.size, 0);
    ck_assert_int_eq(atoi(reply_header(&r, "Content-Length")), (int)document);
    ck_assert_str_eq(reply_header(&r, "ETag"), etag);
    reply_free(&r);

    char match[160];
    snprintf(match, sizeof match, "If-None-Match: %s", etag);
    const char *headers[] = {match, NULL};
    r = http(&d, &(request){.path = path_of(id, ""), .headers = headers});
    expect_status(&r, 304);
    ck_assert_uint_eq(r.size, 0);
    reply_free(&r);

    r = http(&d, &(request){.method = "PATCH",
                            .path = path_of(id, ""),
                            .content_type = "application/merge-patch+json",
                            .body = "{\"sdef\":false}",
                            .size = 14});
    expect_status(&r, 200);
    ck_assert_ptr_nonnull(strstr((char *)r.body, "\"sdef\":false"));
    ck_assert_str_ne(reply_header(&r, "ETag"), etag);
    reply_free(&r);

    r = http(&d, &(request){.method = "DELETE", .path = path_of(id, "")});
    expect_status(&r, 204);
    reply_free(&r);
    r = http_get(&d, path_of(id, ""));
    expect_status(&r, 404);
    reply_free(&r);
}
END_TEST

START_TEST(wrong_calls_get_the_right_problem) {
    char id[64];
    strcpy(id, upload_bytes(&d, bytes, size, "?mode=cpu"));
    reply r = http_get(&d, "/nowhere");
    expect_status(&r, 404);
    ck_assert_str_eq(reply_header(&r, "Content-Type"), "application/problem+json");
    ck_assert_ptr_nonnull(reply_header(&r, "X-Request-Id"));
    reply_free(&r);

    r = http(&d, &(request){.method = "PUT", .path = "/models", .body = "x", .size = 1});
    expect_status(&r, 405);
    ck_assert_ptr_nonnull(strstr(reply_header(&r, "Allow"), "POST"));
    reply_free(&r);

    r = http(&d, &(request){.path = path_of(id, "/deform"),
                            .content_type = "text/html",
                            .body = "<p>",
                            .size = 3});
    expect_status(&r, 415);
    reply_free(&r);

    r = http_json(&d, "POST", path_of(id, "/deform"), "{\"bones\":{\"nobody\":{}}}");
    expect_status(&r, 422);
    ck_assert_ptr_nonnull(strstr((char *)r.body, "nobody"));
    reply_free(&r);

    r = http(&d, &(request){.path = "/models",
                            .content_type = "application/octet-stream",
                            .body = bytes,
                            .size = 100});
    expect_status(&r, 422);
    ck_assert_ptr_nonnull(reply_field(&r, "offset"));
    reply_free(&r);
}
END_TEST

START_TEST(clients_request_id_comes_back) {
    const char *headers[] = {"X-Request-Id: farm-17.frame_3", NULL};
    reply r = http(&d, &(request){.path = "/livez", .headers = headers});
    expect_status(&r, 200);
    ck_assert_str_eq(reply_header(&r, "X-Request-Id"), "farm-17.frame_3");
    reply_free(&r);
    expect_logged(&d, "GET /livez status=200");
    expect_logged(&d, "id=farm-17.frame_3");
}
END_TEST

static size_t deform(const char *id, const char *query, const char *vertices) {
    char path[256];
    snprintf(path, sizeof path, "/models/%s/deform%s", id, query);
    reply r = http_json(&d, "POST", path, "{}");
    expect_status(&r, 200);
    ck_assert_str_eq(reply_header(&r, "Deformd-Vertices"), vertices);
    ck_assert_str_eq(reply_header(&r, "Deformd-Skinner"), "cpu");
    size_t answer = r.size;
    reply_free(&r);
    return answer;
}

START_TEST(deform_answers_in_every_layout) {
    char id[64], vertices[16];
    strcpy(id, upload_bytes(&d, bytes, size, "?mode=cpu"));
    reply r = http_get(&d, path_of(id, ""));
    strcpy(vertices, reply_field(&r, "vertices"));
    reply_free(&r);
    size_t count = (size_t)atoi(vertices);
    ck_assert_uint_eq(deform(id, "", vertices), count * 24);
    ck_assert_uint_eq(deform(id, "?components=f16", vertices), count * 12);
    ck_assert_uint_eq(deform(id, "?layout=planar", vertices), count * 24);
    ck_assert_uint_eq(deform(id, "?attributes=position", vertices), count * 12);
    ck_assert_uint_gt(deform(id, "?format=json", vertices), count * 12);
    char path[256];
    snprintf(path, sizeof path, "/v1/models/%s/deform", id);
    r = http_json(&d, "POST", path, "{\"poses\":[{},{},{}]}");
    expect_status(&r, 200);
    ck_assert_str_eq(reply_header(&r, "Deformd-Frames"), "3");
    ck_assert_uint_eq(r.size, 3 * count * 24);
    reply_free(&r);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("models");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, raw_multipart_and_chunked_uploads_give_the_same_model);
    tcase_add_test(tests, form_without_a_file_is_400);
    tcase_add_loop_test(tests, broken_form_is_400, 0, sizeof broken_forms / sizeof broken_forms[0]);
    tcase_add_test(tests, form_hands_over_exactly_the_files_bytes);
    tcase_add_test(tests, document_is_listed_read_changed_and_deleted);
    tcase_add_test(tests, wrong_calls_get_the_right_problem);
    tcase_add_test(tests, clients_request_id_comes_back);
    tcase_add_test(tests, deform_answers_in_every_layout);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
