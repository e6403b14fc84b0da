/* What a hostile or broken client can put on the wire: it gets a 400 or a closed connection, and
 * never is one request read as two. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/e2e/support.h"

static daemon_process d;

static void set_up(void) {
    daemon_hide_opencl();
    d = daemon_start(
        ARGUMENTS("--workers", "1", "--max-json-bytes", "64KiB", "--max-upload-bytes", "1MiB"));
}

static void tear_down(void) {
    reply r = http_get(&d, "/livez");
    expect_status(&r, 200); /* whatever happened, it lives */
    reply_free(&r);
    daemon_stop(&d);
}

static unsigned count(const char *text, const char *part) {
    unsigned found = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        found++;
    return found;
}

/* Behind each of these comes a second request, which a server that loses its place would answer. */
#define SECOND "GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: smuggled\r\n\r\n"

static const char *const smuggling[] = {
    "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "
    "chunked\r\n\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: "
    "0\r\n\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, "
    "identity\r\n\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked \r\n\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
    "identity\r\n\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length : 0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 0x0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551616\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
    "chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
    "chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5 "
    "\r\nhello\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
    "chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
    "chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n" SECOND,
    "POST /models HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SECOND,
    "GET /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
    "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" SECOND,
    "GET /livez HTTP/1.1\r\n\r\n" SECOND,
    "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" SECOND,
    "GET /livez%00/../models HTTP/1.1\r\nHost: x\r\n\r\n" SECOND,
    "G\"ET /livez HTTP/1.1\r\nHost: x\r\n\r\n" SECOND,
    "GET\x1b[2J /livez HTTP/1.1\r\nHost: x\r\n\r\n" SECOND,
    "GET /livez HTTP/9.9\r\nHost: x\r\n\r\n" SECOND,
    "GET /livez\r\nHost: x\r\n\r\n" SECOND,
    "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n" SECOND,
    "GET livez HTTP/1.1\r\nHost: x\r\n\r\n" SECOND,
    "\x16\x03\x01\x02 \x7f\r\n\r\n" SECOND,
    "GET /livez HTTP/1.1\r\nHost: x\r\nno colon here\r\n\r\n" SECOND,
};

START_TEST(ambiguous_request_is_400_or_closed_and_never_two) {
    int fd = raw_connect(&d);
    bool closed;
    raw_send(fd, smuggling[_i]);
    char *text = raw_read(fd, 5000, &closed);
    ck_assert_msg(closed, "case %d stays open:\n%s\n%s", _i, smuggling[_i], text);
    ck_assert_msg(!strstr(text, "HTTP/1.1 2"), "case %d was served:\n%s\n%s", _i, smuggling[_i],
                  text);
    char *log = daemon_log(&d);
    ck_assert_msg(!strstr(text, "smuggled") && !strstr(log, "smuggled"),
                  "case %d is two requests:\n%s\n%s", _i, text, log);
    free(log);
    free(text);
    close(fd);
}
END_TEST

START_TEST(method_that_is_no_token_is_400_and_forges_no_log_line) {
    static const char *const methods[] = {"G\"E\\T", "\x1b[2J\xc2\x9b", "G\xff\x01", "G{}"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        int fd = raw_connect(&d);
        bool closed;
        raw_send(fd, methods[i]);
        raw_send(fd, " /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: forger\r\n\r\n");
        char *text = raw_read(fd, 5000, &closed);
        ck_assert_msg(strncmp(text, "HTTP/1.1 400", 12) == 0, "%zu: %s", i, text);
        ck_assert_ptr_nonnull(strstr(text, "not a token"));
        free(text);
        close(fd);
    }
    expect_logged(&d, "info G\\\"E\\\\T /livez status=400");
    expect_logged(&d, "info \\u001b[2J\\u009b /livez status=400");
    expect_logged(&d, "info G\xef\xbf\xbd\\u0001 /livez status=400");
}
END_TEST

START_TEST(pipelined_requests_are_answered_in_order) {
    int fd = raw_connect(&d);
    bool closed;
    raw_send(fd, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
                 "GET /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
                 "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    char *text = raw_read(fd, 5000, &closed);
    ck_assert(closed);
    ck_assert_uint_eq(count(text, "HTTP/1.1 200"), 2);
    ck_assert_uint_eq(count(text, "HTTP/1.1 404"), 1);
    free(text);
    close(fd);
}
END_TEST

START_TEST(request_in_single_bytes_is_one_request) {
    static const char text[] = "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                               "Connection: close\r\n\r\n3;x=y\r\nPmx\r\n0\r\nTrailer: z\r\n\r\n";
    int fd = raw_connect(&d);
    bool closed;
    for (size_t i = 0; i < sizeof text - 1; i++) {
        raw_send_bytes(fd, text + i, 1);
        usleep(500);
    }
    char *answer = raw_read(fd, 5000, &closed);
    ck_assert(closed);
    ck_assert_msg(strncmp(answer, "HTTP/1.1 422", 12) == 0, "%s", answer);
    free(answer);
    close(fd);
}
END_TEST

START_TEST(body_over_its_limit_is_413_with_both_numbers) {
    size_t size = (1 << 20) + 1;
    uint8_t *bytes = calloc(1, size);
    request what = {
        .path = "/models", .content_type = "application/octet-stream", .body = bytes, .size = size};
    reply r = http(&d, &what); /* refused at its head */
    expect_status(&r, 413);
    ck_assert_str_eq(reply_field(&r, "limit"), "1048576");
    ck_assert_str_eq(reply_field(&r, "received"), "1048577");
    reply_free(&r);
    what.chunked = true;
    r = http(&d, &what); /* refused at its end */
    expect_status(&r, 413);
    ck_assert_str_eq(reply_field(&r, "limit"), "1048576");
    reply_free(&r);
    free(bytes);
}
END_TEST

START_TEST(endless_chunked_body_is_cut_off) {
    int fd = raw_connect(&d);
    static char piece[65536 + 16];
    int head = sprintf(piece, "10000\r\n");
    memset(piece + head, 'x', 65536);
    memcpy(piece + head + 65536, "\r\n", 2);
    raw_send(fd, "POST /models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    size_t sent = 0;
    while (sent < (64 << 20) && send(fd, piece, (size_t)head + 65536 + 2, MSG_NOSIGNAL) > 0)
        sent += 65536;
    ck_assert_uint_lt(sent, 32 << 20); /* twice the limit, and what the sockets hold */
    close(fd);
}
END_TEST

START_TEST(expecting_client_is_refused_before_it_sends) {
    int fd = raw_connect(&d);
    bool closed;
    raw_send(fd, "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n"
                 "Expect: 100-continue\r\n\r\n");
    char *text = raw_read(fd, 5000, &closed);
    ck_assert(closed);
    ck_assert_msg(strncmp(text, "HTTP/1.1 413", 12) == 0, "%s", text);
    free(text);
    close(fd);
    fd = raw_connect(&d);
    raw_send(fd, "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n"
                 "Expect: 100-continue\r\n\r\n");
    text = raw_read(fd, 200, &closed);
    ck_assert_msg(strncmp(text, "HTTP/1.1 100", 12) == 0, "%s", text);
    free(text);
    raw_send(fd, "Pmx");
    text = raw_read(fd, 5000, &closed);
    ck_assert_msg(strncmp(text, "HTTP/1.1 422", 12) == 0, "%s", text);
    free(text);
    close(fd);
}
END_TEST

START_TEST(refusal_with_a_small_body_keeps_the_connection) {
    int fd = raw_connect(&d);
    bool closed;
    raw_send(fd, "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
                 "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    char *text = raw_read(fd, 5000, &closed);
    ck_assert_uint_eq(count(text, "HTTP/1.1 404"), 1);
    ck_assert_uint_eq(count(text, "HTTP/1.1 200"), 1);
    free(text);
    close(fd);
}
END_TEST

START_TEST(refusal_of_a_large_body_reaches_a_client_that_only_sends) {
    int fd = raw_connect(&d);
    bool closed;
    raw_send(fd, "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n");
    char *body = calloc(1, 3000000);
    ck_assert(raw_send_bytes(fd, body, 3000000)); /* no broken pipe on the way */
    char *text = raw_read(fd, 5000, &closed);
    ck_assert_msg(strncmp(text, "HTTP/1.1 404", 12) == 0, "%s", text);
    ck_assert(closed);
    free(text);
    free(body);
    close(fd);
}
END_TEST

/* However libmicrohttpd's memory for a head fills up, there is an answer, and at once. */
START_TEST(head_of_many_parts_is_answered) {
    static const struct {
        const char *begin, *part, *end;
        const char *status; /* of many parts */
    } heads[] = {
        {"GET /livez?", "a&", " HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
        {"GET /livez?", "a=%41&", " HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
        {"GET /livez HTTP/1.1\r\nHost: x\r\n", "a: b\r\n", "\r\n", "HTTP/1.1 431"},
        {"GET /livez HTTP/1.1\r\nHost: x\r\nCookie: a", "=b; c", "\r\n\r\n", "HTTP/1.1 431"},
    };
    static char text[65536];
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        for (unsigned parts = 600; parts <= 4000; parts += 850) {
            char *at = stpcpy(text, heads[i].begin);
            for (unsigned k = 0; k < parts; k++)
                at = stpcpy(at, heads[i].part);
            stpcpy(at, heads[i].end);
            int fd = raw_connect(&d);
            bool closed;
            raw_send(fd, text);
            char *answer = raw_read(fd, 1000, &closed);
            ck_assert_msg(strncmp(answer, heads[i].status, 12) == 0, "head %zu of %u parts: %s", i,
                          parts, answer);
            free(answer);
            close(fd);
        }
    }
}
END_TEST

START_TEST(head_without_an_end_is_refused) {
    int fd = raw_connect(&d);
    bool closed;
    raw_send(fd, "GET /livez HTTP/1.1\r\nHost: x\r\nX: ");
    char *junk = malloc(100000);
    memset(junk, 'a', 100000);
    raw_send_bytes(fd, junk, 100000);
    char *text = raw_read(fd, 5000, &closed);
    ck_assert(closed);
    ck_assert_ptr_null(strstr(text, "HTTP/1.1 200"));
    free(text);
    free(junk);
    close(fd);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("wire");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, ambiguous_request_is_400_or_closed_and_never_two, 0,
                        sizeof smuggling / sizeof smuggling[0]);
    tcase_add_test(tests, method_that_is_no_token_is_400_and_forges_no_log_line);
    tcase_add_test(tests, pipelined_requests_are_answered_in_order);
    tcase_add_test(tests, request_in_single_bytes_is_one_request);
    tcase_add_test(tests, body_over_its_limit_is_413_with_both_numbers);
    tcase_add_test(tests, endless_chunked_body_is_cut_off);
    tcase_add_test(tests, expecting_client_is_refused_before_it_sends);
    tcase_add_test(tests, refusal_with_a_small_body_keeps_the_connection);
    tcase_add_test(tests, refusal_of_a_large_body_reaches_a_client_that_only_sends);
    tcase_add_test(tests, head_of_many_parts_is_answered);
    tcase_add_test(tests, head_without_an_end_is_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
