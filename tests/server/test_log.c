/* Log lines: their two forms, and what a client's bytes cannot do to them. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/log.h"

static int saved, ends[2];

static void set_up(void) {
    saved = dup(STDERR_FILENO);
    ck_assert_int_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
}

/* What was logged; puts stderr back. */
static char *logged(void) {
    static char text[65536];
    dfm_log_close();
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t got = read(ends[0], text, sizeof text - 1);
    text[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    return text;
}

static const dfm_log_exchange odd = {.method = "G\x1b[2J\"\xc2\x9b",
                                     .path = "/a\"b\\c\n{\xff}\xe3\x81\x82\x7f?token=secret",
                                     .id = "id-1",
                                     .status = 200,
                                     .bytes = 42,
                                     .duration_ns = 1500000};

START_TEST(text_lines_have_time_level_and_message) {
    set_up();
    ck_assert(dfm_log_open(DFM_LOG_INFO, DFM_LOG_TEXT));
    dfm_log(DFM_LOG_WARN, "%d things\nwarn forged \xe3\x81", 3);
    dfm_log(DFM_LOG_DEBUG, "not at this level");
    dfm_log_request(&odd);
    char *text = logged();
    ck_assert_int_eq(text[10], 'T');
    ck_assert_ptr_nonnull(strstr(text, "Z warn 3 things\\u000awarn forged \xef\xbf\xbd\n"));
    ck_assert_ptr_nonnull(strstr(text, "Z info G\\u001b[2J\\\"\\u009b "
                                       "/a\\\"b\\\\c\\u000a{\xef\xbf\xbd}\xe3\x81\x82\\u007f "
                                       "status=200 bytes=42 ms=1.500 id=id-1\n"));
    ck_assert_ptr_null(strstr(text, "not at this level"));
    ck_assert_ptr_null(strstr(text, "secret"));
}
END_TEST

START_TEST(json_lines_stay_json_whatever_a_client_sends) {
    set_up();
    ck_assert(dfm_log_open(DFM_LOG_DEBUG, DFM_LOG_JSON));
    dfm_log(DFM_LOG_DEBUG, "a \"quoted\" \\ thing\x01");
    dfm_log_request(&odd);
    char *text = logged();
    ck_assert_ptr_nonnull(
        strstr(text, "\"level\":\"debug\",\"message\":\"a \\\"quoted\\\" \\\\ thing\\u0001\"}\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "\"message\":\"request\",\"method\":\"G\\u001b[2J\\\"\\u009b\","
                     "\"path\":\"/a\\\"b\\\\c\\u000a{\xef\xbf\xbd}\xe3\x81\x82\\u007f\","
                     "\"status\":200,\"bytes\":42,\"ms\":1.500,\"id\":\"id-1\"}\n"));
}
END_TEST

/* The longest texts, and all of them escaped: the line still ends as it should. */
START_TEST(long_texts_are_cut_inside_of_a_whole_line) {
    static char text[100000];
    for (int format = DFM_LOG_TEXT; format <= DFM_LOG_JSON; format++) {
        set_up();
        memset(text, 1, sizeof text - 1);
        ck_assert(dfm_log_open(DFM_LOG_INFO, (dfm_log_format)format));
        dfm_log_request(&(dfm_log_exchange){.method = text, .path = text, .id = "id-1"});
        dfm_log(DFM_LOG_INFO, "%s", text);
        char *lines = logged(), *first_end = strchr(lines, '\n');
        ck_assert_ptr_nonnull(first_end);
        bool json = format == DFM_LOG_JSON;
        ck_assert_int_eq(strncmp(first_end - 4 - 2 * json, json ? "id-1\"}" : "id-1", 4 + 2 * json),
                         0);
        char *second_end = strchr(first_end + 1, '\n');
        ck_assert_ptr_nonnull(second_end);
        ck_assert_str_eq(second_end, "\n");
        ck_assert_int_eq(strncmp(second_end - 2, json ? "\"}" : "01", 2), 0);
    }
}
END_TEST

START_TEST(level_below_info_logs_no_request) {
    set_up();
    ck_assert(dfm_log_open(DFM_LOG_WARN, DFM_LOG_TEXT));
    dfm_log_request(&odd);
    ck_assert_str_eq(logged(), "");
}
END_TEST

/* stderr is a pipe that nobody reads: callers go on, and the loss is told. */
START_TEST(full_pipe_blocks_no_caller_and_losses_are_counted) {
    set_up();
    ck_assert(dfm_log_open(DFM_LOG_INFO, DFM_LOG_TEXT));
    for (int i = 0; i < 20000; i++)
        dfm_log(DFM_LOG_INFO, "line %d, and some more text to fill the buffer with", i);
    char *piece = malloc(1 << 20), *told = NULL;
    for (int i = 0; i < 100 && !told; i++) {
        dfm_log(DFM_LOG_INFO, "one more");
        ssize_t got = read(ends[0], piece, (1 << 20) - 1);
        piece[got > 0 ? got : 0] = '\0';
        told = strstr(piece, "log lines were dropped");
    }
    ck_assert_ptr_nonnull(told);
    free(piece);
    logged();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("log");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, text_lines_have_time_level_and_message);
    tcase_add_test(tests, json_lines_stay_json_whatever_a_client_sends);
    tcase_add_test(tests, long_texts_are_cut_inside_of_a_whole_line);
    tcase_add_test(tests, level_below_info_logs_no_request);
    tcase_add_test(tests, full_pipe_blocks_no_caller_and_losses_are_counted);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
