/* Who may do what, on the real daemon: tokens, SIGHUP, scopes, what never shows; pages of other
 * origins; a process without any rights. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/routes.h"
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
    daemon_process d = daemon_start(
        ARGUMENTS("--token-file", path, "--metrics-open=false", "--log-level", "debug"));
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

/* Every route of the table, by nobody and by both scopes. */
START_TEST(every_route_takes_its_scope) {
    daemon_process d = daemon_start(ARGUMENTS("--token-file", path));
    for (size_t i = 0; i < dfm_route_count; i++) {
        const dfm_route *route = &dfm_routes[i];
        const char *space = strchr(route->name, ' '), *id = strstr(space, "{id}");
        char method[16], where[128];
        snprintf(method, sizeof method, "%.*s", (int)(space - route->name), route->name);
        snprintf(where, sizeof where, "%.*s%s%s", (int)(id ? id - space - 1 : 100), space + 1,
                 id ? "00000000000000000000000000000007" : "", id ? id + 4 : "");
        bool open = route->scope == DFM_SCOPE_OPEN || strcmp(where, "/metrics") == 0;
        long none = status_of(&d, method, where, NULL);
        long wrong = status_of(&d, method, where, "nobody-s-token-012345");
        long deform = status_of(&d, method, where, "deform-token-0123456789");
        long admin = status_of(&d, method, where, "admin-token-0123456789");
        ck_assert_msg((none == 401) == !open && (wrong == 401) == !open, "%s: %ld, %ld",
                      route->name, none, wrong);
        ck_assert_msg(deform != 401 && (deform == 403) == (route->scope == DFM_SCOPE_ADMIN),
                      "%s: %ld", route->name, deform);
        ck_assert_msg(admin != 401 && admin != 403, "%s: %ld", route->name, admin);
    }
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
    static const struct {
        mode_t mode;
        bool warned;
    } modes[] = {{0644, true}, {0660, true}, {0640, false}, {0400, false}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        chmod(path, modes[i].mode);
        d = daemon_start(ARGUMENTS("--token-file", path));
        expect_logged(&d, "tokens: 1 for deform");
        char *log = daemon_log(&d);
        bool warned = strstr(log, "others can read or change it") != NULL;
        ck_assert_msg(warned == modes[i].warned, "%o: %s", (unsigned)modes[i].mode, log);
        free(log);
        daemon_stop(&d);
    }
}
END_TEST

/* --- pages of other origins ------------------------------------------------------------------ */

#define PAGE "https://viewer.example"

/* Every answer: its status, nosniff, and what a page may see of it. */
static void expect_for_page(const daemon_process *d, request what, long status, bool allowed) {
    static const char *const page[] = {"Origin: " PAGE, "If-None-Match: *", NULL};
    static const char *const other[] = {"Origin: https://evil.example", NULL};
    what.headers = allowed ? page : other;
    reply r = http(d, &what);
    expect_status(&r, status);
    ck_assert_str_eq(reply_header(&r, "X-Content-Type-Options"), "nosniff");
    ck_assert_str_eq(reply_header(&r, "Vary"), "Origin");
    const char *origin = reply_header(&r, "Access-Control-Allow-Origin");
    ck_assert_int_eq(origin != NULL, allowed);
    if (origin) {
        ck_assert_str_eq(origin, PAGE);
        ck_assert_ptr_nonnull(reply_header(&r, "Access-Control-Expose-Headers"));
    }
    reply_free(&r);
}

START_TEST(pages_of_named_origins_see_every_answer) {
    enum { UPLOAD_BYTES = 4 << 20 };
    daemon_process d = daemon_start(ARGUMENTS("--cors-origin", "https://farm.example, " PAGE,
                                              "--max-inflight-bytes", "8MiB", "--max-upload-bytes",
                                              "4MiB", "--max-json-bytes", "64KiB"));
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    char where[80];
    snprintf(where, sizeof where, "/models/%s", upload(&d, &figure, "?mode=cpu"));
    dfm_arena_free(&arena);
    char *bytes = calloc(1, UPLOAD_BYTES + 1);
    request get = {.path = where};
    request missing = {.path = "/nothing"};
    request large = {.path = "/models", .content_type = "application/octet-stream", .body = bytes};
    request chunked = large;
    large.size = UPLOAD_BYTES + 1;
    chunked.size = UPLOAD_BYTES + 1;
    chunked.chunked = true;
    expect_for_page(&d, get, 304, true);
    expect_for_page(&d, get, 200, false);
    expect_for_page(&d, missing, 404, true);
    expect_for_page(&d, missing, 404, false);
    expect_for_page(&d, large, 413, true);   /* at its head */
    expect_for_page(&d, chunked, 413, true); /* at its end */
    strcat(where, "/deform");
    request deform = {.path = where, .content_type = "application/json", .body = "{}", .size = 2};
    expect_for_page(&d, deform, 200, true);
    /* Half an upload each takes the memory for bodies: the next one is refused for it. */
    int fds[2];
    for (int i = 0; i < 2; i++) {
        bool closed;
        fds[i] = raw_connect(&d);
        raw_send(fds[i], "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 4194304\r\n"
                         "Expect: 100-continue\r\n\r\n");
        free(raw_read(fds[i], 500, &closed));
        ck_assert(raw_send_bytes(fds[i], bytes, UPLOAD_BYTES - 1));
    }
    usleep(200000);
    large.size = UPLOAD_BYTES;
    expect_for_page(&d, large, 503, true);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    free(bytes);
    daemon_stop(&d);
}
END_TEST

/* Framing that is not trusted is refused with a closed connection, and can be read by a page. */
START_TEST(a_refused_head_is_seen_by_a_page) {
    daemon_process d = daemon_start(ARGUMENTS("--cors-origin", PAGE));
    int fd = raw_connect(&d);
    raw_send(fd, "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\nOrigin: " PAGE "\r\n\r\n");
    bool closed;
    char *text = raw_read(fd, 2000, &closed);
    ck_assert_msg(closed && strncmp(text, "HTTP/1.1 400", 12) == 0, "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "Access-Control-Allow-Origin: " PAGE "\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "X-Content-Type-Options: nosniff\r\n"));
    free(text);
    close(fd);
    daemon_stop(&d);
}
END_TEST

START_TEST(a_preflight_is_answered_without_a_token) {
    static const char *const asks[] = {"Origin: " PAGE, "Access-Control-Request-Method: POST",
                                       "Access-Control-Request-Headers: authorization", NULL};
    daemon_process d = daemon_start(ARGUMENTS("--token-file", path, "--cors-origin", PAGE));
    reply r = http(&d, &(request){.method = "OPTIONS", .path = "/models", .headers = asks});
    expect_status(&r, 204);
    ck_assert_uint_eq(r.size, 0);
    ck_assert_str_eq(reply_header(&r, "Access-Control-Allow-Origin"), PAGE);
    ck_assert_str_eq(reply_header(&r, "Access-Control-Allow-Methods"), "POST, GET, HEAD");
    ck_assert_ptr_nonnull(
        strstr(reply_header(&r, "Access-Control-Allow-Headers"), "Authorization"));
    ck_assert_str_eq(reply_header(&r, "Access-Control-Max-Age"), "600");
    reply_free(&r);
    expect_for_page(&d, (request){.path = "/models"}, 401, true);
    daemon_stop(&d);
}
END_TEST

START_TEST(without_the_flag_no_page_is_answered) {
    static const char *const asks[] = {"Origin: " PAGE, "Access-Control-Request-Method: GET", NULL};
    static const char *const methods[] = {"OPTIONS", "GET"};
    daemon_process d = daemon_start(NULL);
    for (int i = 0; i < 2; i++) {
        reply r = http(&d, &(request){.method = methods[i], .path = "/livez", .headers = asks});
        expect_status(&r, i == 0 ? 405 : 200);
        ck_assert_ptr_null(reply_header(&r, "Access-Control-Allow-Origin"));
        ck_assert_ptr_null(reply_header(&r, "Vary"));
        ck_assert_str_eq(reply_header(&r, "X-Content-Type-Options"), "nosniff");
        reply_free(&r);
    }
    daemon_stop(&d);
}
END_TEST

/* --- as nobody ------------------------------------------------------------------------------- */

static void write_script(const char *where, const char *folder, bool read_only) {
    FILE *file = fopen(where, "w");
    ck_assert_ptr_nonnull(file);
    const char *nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps -all "
                         "--bounding-set -all --no-new-privs --pdeathsig KILL";
    fprintf(file, "#!/bin/sh\ncd /\nunset HOME POCL_CACHE_DIR XDG_CACHE_HOME TMPDIR\n");
    if (read_only)
        fprintf(file,
                "exec unshare -m sh -c 'mount -o remount,ro,bind / && "
                "exec %s \"$0\" \"$@\"' %s/deformd \"$@\"\n",
                nobody, folder);
    else
        fprintf(file, "exec %s %s/deformd \"$@\"\n", nobody, folder);
    fchmod(fileno(file), 0755);
    fclose(file);
}

static bool succeeds(const char *command) {
    char quiet[640];
    snprintf(quiet, sizeof quiet, "%s >/dev/null 2>&1", command);
    return system(quiet) == 0;
}

/* As a user without any rights, in a place where nothing can be written, and without a home. With
 * whatever OpenCL finds there: a skinner, or the reason why there is none. */
START_TEST(runs_as_nobody_without_a_place_to_write) {
    if (geteuid() != 0 || !succeeds("setpriv --reuid 65534 true")) {
        printf("SKIPPED: only root can become nobody, with setpriv\n");
        return;
    }
    bool read_only = succeeds("unshare -m mount -o remount,ro,bind /");
    if (!read_only)
        printf("SKIPPED in part: the root cannot be made read-only here\n");
    char folder[] = "/tmp/deformd-nobody-XXXXXX", script[64], command[512], before[256];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(script, sizeof script, "%s/run", folder);
    const char *named = getenv("DEFORMD");
    snprintf(before, sizeof before, "%s", named ? named : "build/release/deformd");
    /* Copied: a build folder may be where nobody may go. */
    snprintf(command, sizeof command, "chmod 755 %s && cp %s %s/deformd", folder, before, folder);
    ck_assert(succeeds(command));
    write_script(script, folder, read_only);
    if (!SANITIZED)
        unsetenv("OCL_ICD_VENDORS"); /* drivers are no subject of the sanitizers */
    setenv("DEFORMD", script, 1);
    daemon_process d = daemon_start(NULL);
    setenv("DEFORMD", before, 1);
    char status[64], *log = daemon_log(&d);
    ck_assert_msg(strstr(log, "skinner opencl:") || strstr(log, "opencl-unavailable:"), "%s", log);
    free(log);
    snprintf(status, sizeof status, "/proc/%d/status", (int)d.pid);
    snprintf(command, sizeof command,
             "grep -q '^Uid:.65534.65534.65534.65534' %s && grep -q '^CapEff:.0*$' %s", status,
             status);
    ck_assert(succeeds(command));
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    char where[80];
    snprintf(where, sizeof where, "/models/%s/deform", upload(&d, &figure, "?mode=gpu"));
    dfm_arena_free(&arena);
    reply r = http_json(&d, "POST", where, "{}");
    expect_status(&r, 200);
    reply_free(&r);
    daemon_stop(&d);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert(succeeds(command));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("access");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, scopes_open_what_they_name);
    tcase_add_test(tests, every_route_takes_its_scope);
    tcase_add_test(tests, a_refused_upload_is_answered_at_its_head);
    tcase_add_test(tests, the_file_is_read_again_at_sighup_and_a_bad_one_changes_nothing);
    tcase_add_test(tests, a_bad_file_and_tokens_as_arguments_do_not_start);
    tcase_add_test(tests, an_open_door_and_a_readable_file_are_warned_of);
    tcase_add_test(tests, pages_of_named_origins_see_every_answer);
    tcase_add_test(tests, a_refused_head_is_seen_by_a_page);
    tcase_add_test(tests, a_preflight_is_answered_without_a_token);
    tcase_add_test(tests, without_the_flag_no_page_is_answered);
    tcase_add_test(tests, runs_as_nobody_without_a_place_to_write);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
