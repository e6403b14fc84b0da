/* Tokens on the real daemon: the file, SIGHUP, scopes, and what never shows. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/e2e/support.h"

static char path[] = "/tmp/deformd-tokens-XXXXXX";

static void write_tokens(const char *text) {
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void set_up(void) {
    close(mkstemp(strcpy(path, "/tmp/deformd-tokens-XXXXXX")));
    write_tokens("deform deform-token-0123456789\nadmin admin-token-0123456789\n");
    daemon_hide_opencl();
}

static void tear_down(void) {
    unlink(path);
}

static long status_of(const daemon_process *d, const char *method, const char *where,
                      const char *token) {
    char header[128];
    snprintf(header, sizeof header, "Authorization: Bearer %s", token ? token : "");
    const char *headers[] = {header, NULL};
    reply r =
        http(d, &(request){.method = method, .path = where, .headers = token ? headers : NULL});
    long status = r.status;
    reply_free(&r);
    return status;
}

START_TEST(scopes_open_what_they_name) {
    daemon_process d = daemon_start(ARGUMENTS("--token-file", path, "--metrics-open=false"));
    expect_logged(&d, "tokens: 1 for deform, 1 for admin");
    ck_assert_int_eq(status_of(&d, "GET", "/livez", NULL), 200);
    ck_assert_int_eq(status_of(&d, "GET", "/readyz", NULL), 200);
    ck_assert_int_eq(status_of(&d, "GET", "/models", NULL), 401);
    ck_assert_int_eq(status_of(&d, "GET", "/metrics", NULL), 401);
    ck_assert_int_eq(status_of(&d, "GET", "/models", "nobody-s-token-012345"), 401);
    ck_assert_int_eq(status_of(&d, "GET", "/models", "deform-token-0123456789"), 200);
    ck_assert_int_eq(status_of(&d, "GET", "/metrics", "deform-token-0123456789"), 200);
    static const char id[] = "/models/00000000000000000000000000000000";
    ck_assert_int_eq(status_of(&d, "DELETE", id, "deform-token-0123456789"), 403);
    ck_assert_int_eq(status_of(&d, "DELETE", id, "admin-token-0123456789"), 404);
    char *log = daemon_log(&d);
    ck_assert_ptr_null(strstr(log, "token-0123456789"));
    free(log);
    daemon_stop(&d);
}
END_TEST

/* The body of an upload that is not allowed is not waited for. */
START_TEST(a_refused_upload_is_answered_at_its_head) {
    daemon_process d = daemon_start(ARGUMENTS("--token-file", path));
    int fd = raw_connect(&d);
    raw_send(fd, "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
    bool closed;
    char *text = raw_read(fd, 2000, &closed);
    ck_assert_msg(strncmp(text, "HTTP/1.1 401", 12) == 0, "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "WWW-Authenticate: Bearer"));
    free(text);
    close(fd);
    daemon_stop(&d);
}
END_TEST

START_TEST(the_file_is_read_again_at_sighup_and_a_bad_one_changes_nothing) {
    daemon_process d = daemon_start(ARGUMENTS("--token-file", path));
    write_tokens("deform another-token-012345\n");
    kill(d.pid, SIGHUP);
    expect_logged(&d, "tokens: 1 for deform, 0 for admin");
    ck_assert_int_eq(status_of(&d, "GET", "/models", "deform-token-0123456789"), 401);
    ck_assert_int_eq(status_of(&d, "GET", "/models", "another-token-012345"), 200);
    write_tokens("deform short\n");
    kill(d.pid, SIGHUP);
    expect_logged(&d, "line 1: the token is shorter");
    ck_assert_int_eq(status_of(&d, "GET", "/models", "another-token-012345"), 200);
    unlink(path);
    kill(d.pid, SIGHUP);
    expect_logged(&d, "No such file");
    ck_assert_int_eq(status_of(&d, "GET", "/models", "another-token-012345"), 200);
    daemon_stop(&d);
}
END_TEST

/* Runs a command line of the daemon that ends by itself; returns its exit status. */
static int run(const char *arguments, char output[4096]) {
    const char *named = getenv("DEFORMD");
    char command[512];
    snprintf(command, sizeof command, "timeout 20 %s %s 2>&1",
             named ? named : "build/release/deformd", arguments);
    FILE *pipe = popen(command, "r");
    output[fread(output, 1, 4095, pipe)] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

START_TEST(a_bad_file_and_tokens_as_arguments_do_not_start) {
    char output[4096], arguments[128];
    ck_assert_int_eq(run("--listen 127.0.0.1:0 --token-file /nonexistent", output), 1);
    ck_assert_ptr_nonnull(strstr(output, "No such file"));
    write_tokens("root secret-secret-secret\n");
    snprintf(arguments, sizeof arguments, "--listen 127.0.0.1:0 --token-file %s", path);
    ck_assert_int_eq(run(arguments, output), 1);
    ck_assert_ptr_nonnull(strstr(output, "line 1"));
    ck_assert_ptr_null(strstr(output, "secret"));
    ck_assert_int_eq(run("--token secret-secret-secret", output), 2);
    ck_assert_ptr_nonnull(strstr(output, "--token-file"));
    ck_assert_int_eq(run("--token=secret-secret-secret", output), 2);
    ck_assert_ptr_null(strstr(output, "secret-secret"));
}
END_TEST

START_TEST(an_open_door_and_a_readable_file_are_warned_of) {
    daemon_process d = daemon_start(ARGUMENTS("--listen", "0.0.0.0:0"));
    expect_logged(&d, "whoever can connect may upload and delete");
    daemon_stop(&d);
    chmod(path, 0644);
    d = daemon_start(ARGUMENTS("--token-file", path));
    expect_logged(&d, "others than its owner have rights on it");
    daemon_stop(&d);
}
END_TEST

/* As a user without any rights, in a place where nothing can be written, and without a home. */
START_TEST(runs_as_nobody_without_a_place_to_write) {
    if (geteuid() != 0 || system("command -v setpriv >/dev/null 2>&1") != 0) {
        printf("SKIPPED: only root can become nobody, with setpriv\n");
        return;
    }
    const char *named = getenv("DEFORMD");
    char command[700], text[4096];
    /* Copied: a build folder may be where nobody may go. */
    snprintf(
        command, sizeof command,
        "d=$(mktemp -d) && chmod 755 $d && cp %s $d/deformd && cd / && "
        "(env -i timeout -s TERM 5 setpriv --reuid 65534 --regid 65534 --clear-groups "
        "--bounding-set -all --no-new-privs $d/deformd --listen 127.0.0.1:0 >$d/out 2>&1 & "
        "for i in $(seq 40); do u=$(sed -n 's/^listening on //p' $d/out); [ -n \"$u\" ] && break; "
        "sleep 0.1; done; curl -sS $u/readyz; wait); rm -rf $d",
        named ? named : "build/release/deformd");
    FILE *pipe = popen(command, "r");
    text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
    pclose(pipe);
    ck_assert_msg(strstr(text, "\"ready\"") != NULL, "%s", text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("access");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, scopes_open_what_they_name);
    tcase_add_test(tests, a_refused_upload_is_answered_at_its_head);
    tcase_add_test(tests, the_file_is_read_again_at_sighup_and_a_bad_one_changes_nothing);
    tcase_add_test(tests, a_bad_file_and_tokens_as_arguments_do_not_start);
    tcase_add_test(tests, an_open_door_and_a_readable_file_are_warned_of);
    tcase_add_test(tests, runs_as_nobody_without_a_place_to_write);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
