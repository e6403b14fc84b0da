/* Start and end of the daemon: sockets, flags, OpenCL missing, drain, second signal. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/e2e/support.h"

static const char *program(void) {
    const char *named = getenv("DEFORMD");
    return named ? named : "build/release/deformd";
}

/* Runs a command line of the daemon that ends by itself; returns its exit status. */
static int run(const char *arguments, char *output, size_t output_size) {
    char command[512];
    snprintf(command, sizeof command, "timeout 20 %s %s 2>&1", program(), arguments);
    FILE *pipe = popen(command, "r");
    output[fread(output, 1, output_size - 1, pipe)] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

static void upload_small(daemon_process *d, char id[64]) {
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    strcpy(id, upload(d, &figure, ""));
    dfm_arena_free(&arena);
}

START_TEST(help_and_version_end_well) {
    char output[16384];
    ck_assert_int_eq(run("--help", output, sizeof output), 0);
    ck_assert_ptr_nonnull(strstr(output, "--max-inflight-bytes"));
    ck_assert_int_eq(run("--version", output, sizeof output), 0);
    ck_assert_int_eq(strncmp(output, "deformd ", 8), 0);
}
END_TEST

START_TEST(wrong_flag_ends_with_2_and_says_why) {
    char output[4096];
    ck_assert_int_eq(run("--queue 0", output, sizeof output), 2);
    ck_assert_ptr_nonnull(strstr(output, "--queue"));
    ck_assert_ptr_nonnull(strstr(output, "1..65536"));
}
END_TEST

START_TEST(place_that_cannot_be_had_ends_with_1_and_says_why) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(NULL);
    char arguments[512], output[4096];
    snprintf(arguments, sizeof arguments, "--listen 127.0.0.1:%d", d.port);
    ck_assert_int_eq(run(arguments, output, sizeof output), 1);
    ck_assert_ptr_nonnull(strstr(output, "in use"));
    ck_assert_int_eq(run("--listen 127.0.0.1", output, sizeof output), 1);
    ck_assert_ptr_nonnull(strstr(output, "HOST:PORT"));
    ck_assert_int_eq(run("--listen unix:/nonexistent/folder/socket", output, sizeof output), 1);
    daemon_stop(&d);
}
END_TEST

START_TEST(ipv6_and_names_are_listened_on) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--listen", "localhost:0"));
    reply r = http_get(&d, "/readyz");
    expect_status(&r, 200);
    reply_free(&r);
    daemon_stop(&d);
    int six = socket(AF_INET6, SOCK_STREAM, 0); /* containers without IPv6 are common */
    if (six < 0)
        return;
    close(six);
    d = daemon_start(ARGUMENTS("--listen", "[::]:0"));
    ck_assert_int_eq(strncmp(d.url, "http://[::]:", 12), 0);
    close(raw_connect(&d)); /* takes IPv4 as well */
    daemon_stop(&d);
}
END_TEST

START_TEST(unix_socket_is_served_replaced_when_stale_and_removed_at_the_end) {
    daemon_hide_opencl();
    char folder[] = "/tmp/deformd-unix-XXXXXX", listen[128], output[4096];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(listen, sizeof listen, "unix:%s/socket", folder);
    const char *path = listen + 5;
    daemon_process d = daemon_start(ARGUMENTS("--listen", listen));
    reply r = http_get(&d, "/livez");
    expect_status(&r, 200);
    reply_free(&r);
    char arguments[160];
    snprintf(arguments, sizeof arguments, "--listen %s", listen);
    ck_assert_int_eq(run(arguments, output, sizeof output), 1); /* in use: not taken over */
    r = http_get(&d, "/livez");
    expect_status(&r, 200);
    reply_free(&r);
    kill(d.pid, SIGKILL); /* leaves its file behind */
    ck_assert_int_eq(daemon_wait(&d, 5000), 1000 + SIGKILL);
    ck_assert_int_eq(access(path, F_OK), 0);
    d = daemon_start(ARGUMENTS("--listen", listen));
    daemon_stop(&d);
    ck_assert_int_ne(access(path, F_OK), 0);
    FILE *file = fopen(path, "w"); /* a plain file is never removed */
    fclose(file);
    ck_assert_int_eq(run(arguments, output, sizeof output), 1);
    ck_assert_int_eq(access(path, F_OK), 0);
    unlink(path);
    rmdir(folder);
}
END_TEST

START_TEST(start_says_what_runs) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--workers", "3", "--log-format", "json"));
    reply r = http_get(&d, "/livez");
    reply_free(&r);
    daemon_stop(&d);
    d.pid = 0;
    d = daemon_start(ARGUMENTS("--workers", "3"));
    /* The log is written by a thread of its own, which may be behind. */
    char *log = daemon_log(&d);
    for (int i = 0; i < 100 && !strstr(log, "workers 3"); i++) {
        free(log);
        usleep(50000);
        log = daemon_log(&d);
    }
    ck_assert_ptr_nonnull(strstr(log, "info deformd "));
    ck_assert_ptr_nonnull(strstr(log, "skinner cpu: "));
    ck_assert_ptr_nonnull(strstr(log, "warn opencl-unavailable: "));
    ck_assert_ptr_nonnull(strstr(log, "workers 3"));
    ck_assert_ptr_nonnull(strstr(log, "models live in memory only"));
    free(log);
    daemon_stop(&d);
}
END_TEST

START_TEST(model_set_to_gpu_without_opencl_runs_on_the_cpu_and_says_so) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(NULL);
    char id[64], path[128];
    upload_small(&d, id);
    snprintf(path, sizeof path, "/models/%s", id);
    reply r = http_get(&d, path);
    expect_status(&r, 200);
    ck_assert_str_eq(reply_field(&r, "mode"), "gpu");
    ck_assert_str_eq(reply_field(&r, "effective_mode"), "cpu");
    ck_assert_ptr_nonnull(strstr((char *)r.body, "opencl-unavailable"));
    reply_free(&r);
    strcat(path, "/deform");
    r = http_json(&d, "POST", path, "{}");
    expect_status(&r, 200);
    ck_assert_str_eq(reply_header(&r, "Deformd-Skinner"), "cpu");
    reply_free(&r);
    daemon_stop(&d);
}
END_TEST

START_TEST(strict_mode_without_opencl_refuses_gpu_with_503) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--strict-mode"));
    dfm_arena arena = {0};
    size_t size;
    dfm_pmx figure = model_figure(&arena);
    uint8_t *bytes = model_bytes(&figure, NULL, &size);
    dfm_arena_free(&arena);
    reply r = http(&d, &(request){.path = "/models", .body = bytes, .size = size});
    expect_status(&r, 503);
    ck_assert_ptr_nonnull(strstr((char *)r.body, "opencl-unavailable"));
    reply_free(&r);
    char path[128];
    snprintf(path, sizeof path, "/models/%s", upload_bytes(&d, bytes, size, "?mode=cpu"));
    r = http_json(&d, "PATCH", path, "{\"mode\":\"gpu\"}");
    expect_status(&r, 503);
    reply_free(&r);
    free(bytes);
    daemon_stop(&d);
}
END_TEST

START_TEST(term_in_the_middle_of_a_request_lets_it_end) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--workers", "1"));
    char heavy[64];
    strcpy(heavy, upload_heavy(&d));
    background running, queued;
    request what = heavy_deform(heavy, HEAVY_POSES);
    background_start(&running, &d, &what);
    background_start(&queued, &d, &what);
    int idle = raw_connect(&d); /* a kept-alive connection must not hold the end up */
    raw_send(idle, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    usleep(100000);
    kill(d.pid, SIGTERM);
    background_join(&running);
    background_join(&queued);
    expect_status(&running.reply, 200);
    expect_status(&queued.reply, 200);
    ck_assert_uint_eq(running.reply.size, HEAVY_POSES * HEAVY_FRAME_BYTES);
    ck_assert_uint_eq(queued.reply.size, HEAVY_POSES * HEAVY_FRAME_BYTES);
    uint64_t before = now_ms();
    ck_assert_int_eq(daemon_wait(&d, 40000), 0);
    ck_assert_uint_lt(now_ms() - before, SANITIZED ? 20000 : 2000);
    reply_free(&running.reply);
    reply_free(&queued.reply);
    close(idle);
    unlink(d.log_path);
}
END_TEST

/* A deform whose client does not read: active until it does, however fast the machine is. */
static int start_unread_deform(daemon_process *d) {
    char head[512], first;
    request what = heavy_deform(upload_heavy(d), HEAVY_POSES);
    int fd = raw_connect_narrow(d, 4096);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             "Connection: close\r\nContent-Length: %zu\r\n\r\n",
             what.path, what.size);
    raw_send(fd, head);
    raw_send_bytes(fd, what.body, what.size);
    ck_assert_int_eq(recv(fd, &first, 1, MSG_PEEK), 1); /* its answer has begun */
    return fd;
}

START_TEST(draining_refuses_new_work_and_is_not_ready) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--workers", "1"));
    bool closed;
    int kept = raw_connect(&d), ready = raw_connect(&d);
    raw_send(kept, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_send(ready, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
    char *text = raw_read(kept, 200, &closed);
    ck_assert_msg(strncmp(text, "HTTP/1.1 200", 12) == 0, "%s", text);
    free(text);
    text = raw_read(ready, 200, &closed);
    ck_assert_msg(strncmp(text, "HTTP/1.1 200", 12) == 0, "%s", text);
    free(text);
    int unread = start_unread_deform(&d);
    kill(d.pid, SIGTERM);
    expect_logged(&d, "draining");
    usleep(50000);
    raw_send(kept, "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
    raw_send(ready, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
    text = raw_read(kept, 5000, &closed);
    ck_assert_msg(strncmp(text, "HTTP/1.1 503", 12) == 0, "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "Retry-After"));
    ck_assert_ptr_nonnull(strstr(text, "Connection: close"));
    ck_assert(closed);
    free(text);
    text = raw_read(ready, 5000, &closed);
    ck_assert_msg(strncmp(text, "HTTP/1.1 503", 12) == 0, "%s", text);
    free(text);
    reply r = http_get(&d, "/livez"); /* nobody new comes in */
    ck_assert_int_eq(r.status, 0);
    reply_free(&r);
    text = raw_read(unread, 20000, &closed); /* what was begun is sent to its end */
    ck_assert(closed);
    const char *body = strstr(text, "\r\n\r\n");
    char length[64];
    snprintf(length, sizeof length, "Content-Length: %d\r\n", HEAVY_POSES * HEAVY_FRAME_BYTES);
    ck_assert_ptr_nonnull(strstr(text, length));
    ck_assert_ptr_nonnull(body);
    free(text);
    close(unread);
    ck_assert_int_eq(daemon_wait(&d, 40000), 0);
    close(kept);
    close(ready);
    unlink(d.log_path);
}
END_TEST

START_TEST(the_drain_delay_turns_balancers_away_first) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--drain-delay-ms", SANITIZED ? "6000" : "1500"));
    char id[64], path[128];
    upload_small(&d, id);
    snprintf(path, sizeof path, "/models/%s/deform", id);
    kill(d.pid, SIGTERM);
    expect_logged(&d, "draining");
    usleep(100000);
    reply r = http_get(&d, "/readyz");
    expect_status(&r, 503);
    reply_free(&r);
    r = http_json(&d, "POST", path, "{}"); /* on a new connection, and work */
    expect_status(&r, 200);
    ck_assert_str_eq(reply_header(&r, "Connection"), "close");
    reply_free(&r);
    ck_assert_int_eq(daemon_wait(&d, 20000), 0);
    r = http_get(&d, "/livez");
    ck_assert_int_eq(r.status, 0);
    reply_free(&r);
    unlink(d.log_path);
}
END_TEST

START_TEST(second_signal_in_the_drain_delay_ends_at_once) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--drain-delay-ms", "60000"));
    kill(d.pid, SIGTERM);
    expect_logged(&d, "draining");
    kill(d.pid, SIGTERM);
    ck_assert_int_eq(daemon_wait(&d, 5000), 1);
    unlink(d.log_path);
}
END_TEST

START_TEST(healthcheck_asks_a_running_daemon) {
    daemon_hide_opencl();
    char arguments[512], output[1024];
    daemon_process d = daemon_start(ARGUMENTS("--drain-delay-ms", "60000"));
    snprintf(arguments, sizeof arguments, "--healthcheck %s/livez", d.url);
    ck_assert_int_eq(run(arguments, output, sizeof output), 0);
    snprintf(arguments, sizeof arguments, "--listen 127.0.0.1:%d --healthcheck", d.port);
    ck_assert_int_eq(run(arguments, output, sizeof output), 0);
    ck_assert_ptr_nonnull(strstr(output, "/readyz: 200"));
    snprintf(arguments, sizeof arguments, "--healthcheck %s/nothing", d.url);
    ck_assert_int_eq(run(arguments, output, sizeof output), 1);
    ck_assert_ptr_nonnull(strstr(output, "404"));
    kill(d.pid, SIGTERM);
    expect_logged(&d, "draining");
    usleep(100000);
    snprintf(arguments, sizeof arguments, "--healthcheck %s", d.url);
    ck_assert_int_eq(run(arguments, output, sizeof output), 1);
    ck_assert_ptr_nonnull(strstr(output, "503"));
    kill(d.pid, SIGTERM);
    ck_assert_int_eq(daemon_wait(&d, 5000), 1);
    ck_assert_int_eq(run(arguments, output, sizeof output), 1); /* nobody is there */
    ck_assert_ptr_nonnull(strstr(output, "refused"));
    ck_assert_int_eq(run("--healthcheck nonsense", output, sizeof output), 1);
    unlink(d.log_path);
}
END_TEST

START_TEST(healthcheck_waits_three_seconds_for_a_daemon_that_hangs) {
    daemon_hide_opencl();
    char arguments[512], output[1024];
    daemon_process d = daemon_start(NULL);
    kill(d.pid, SIGSTOP);
    snprintf(arguments, sizeof arguments, "--healthcheck %s", d.url);
    uint64_t before = now_ms();
    ck_assert_int_eq(run(arguments, output, sizeof output), 1);
    ck_assert_uint_ge(now_ms() - before, 2900);
    ck_assert_ptr_nonnull(strstr(output, "no answer"));
    kill(d.pid, SIGCONT);
    daemon_stop(&d);
}
END_TEST

START_TEST(second_signal_ends_at_once) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--workers", "1"));
    int unread = start_unread_deform(&d);
    kill(d.pid, SIGTERM);
    expect_logged(&d, "draining");
    kill(d.pid, SIGINT);
    ck_assert_int_eq(daemon_wait(&d, SANITIZED ? 20000 : 2000), 1);
    close(unread);
    unlink(d.log_path);
}
END_TEST

START_TEST(drain_timeout_cuts_off_and_says_so) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--drain-timeout-ms", "100"));
    int stuck = raw_connect(&d); /* an upload that never goes on */
    raw_send(stuck, "POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nPmx");
    usleep(100000);
    kill(d.pid, SIGTERM);
    ck_assert_int_eq(daemon_wait(&d, 5000), 1);
    char *log = daemon_log(&d);
    ck_assert_ptr_nonnull(strstr(log, "--drain-timeout-ms passed: 1 request"));
    free(log);
    close(stuck);
    unlink(d.log_path);
}
END_TEST

/* Streams and answers from one buffer, running and queued, when the timeout passes: whatever the
 * threads are at, the end is the exit status. */
START_TEST(cutting_off_ends_with_1_whatever_is_running) {
    enum { CALLERS = 6, ROUNDS = SANITIZED ? 1 : 4, SMALL_POSES = SANITIZED ? 1 : 3 };
    static char *const timeouts[] = {"0", "5", "50"};
    daemon_hide_opencl();
    for (int round = 0; round < ROUNDS; round++) {
        daemon_process d =
            daemon_start(ARGUMENTS("--workers", "1", "--drain-timeout-ms", timeouts[_i]));
        char heavy[64];
        strcpy(heavy, upload_heavy(&d));
        background callers[CALLERS];
        char *paths[CALLERS], *bodies[CALLERS];
        for (unsigned i = 0; i < CALLERS; i++) {
            request what = heavy_deform(heavy, i % 2 ? SMALL_POSES : HEAVY_POSES);
            what.path = paths[i] = strdup(what.path);
            what.body = bodies[i] = strdup(what.body);
            background_start(&callers[i], &d, &what);
        }
        usleep(20000);
        kill(d.pid, SIGTERM);
        ck_assert_int_eq(daemon_wait(&d, 20000), 1);
        for (unsigned i = 0; i < CALLERS; i++) {
            background_join(&callers[i]);
            reply_free(&callers[i].reply);
            free(paths[i]);
            free(bodies[i]);
        }
        unlink(d.log_path);
    }
}
END_TEST

START_TEST(nothing_to_cut_off_ends_with_0_without_a_timeout) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--drain-timeout-ms", "0"));
    int idle = raw_connect(&d);
    usleep(50000);
    daemon_stop(&d);
    close(idle);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lifecycle");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, help_and_version_end_well);
    tcase_add_test(tests, wrong_flag_ends_with_2_and_says_why);
    tcase_add_test(tests, place_that_cannot_be_had_ends_with_1_and_says_why);
    tcase_add_test(tests, ipv6_and_names_are_listened_on);
    tcase_add_test(tests, unix_socket_is_served_replaced_when_stale_and_removed_at_the_end);
    tcase_add_test(tests, start_says_what_runs);
    tcase_add_test(tests, model_set_to_gpu_without_opencl_runs_on_the_cpu_and_says_so);
    tcase_add_test(tests, strict_mode_without_opencl_refuses_gpu_with_503);
    tcase_add_test(tests, term_in_the_middle_of_a_request_lets_it_end);
    tcase_add_test(tests, draining_refuses_new_work_and_is_not_ready);
    tcase_add_test(tests, the_drain_delay_turns_balancers_away_first);
    tcase_add_test(tests, second_signal_in_the_drain_delay_ends_at_once);
    tcase_add_test(tests, healthcheck_asks_a_running_daemon);
    tcase_add_test(tests, healthcheck_waits_three_seconds_for_a_daemon_that_hangs);
    tcase_add_test(tests, second_signal_ends_at_once);
    tcase_add_test(tests, drain_timeout_cuts_off_and_says_so);
    tcase_add_loop_test(tests, cutting_off_ends_with_1_whatever_is_running, 0, 3);
    tcase_add_test(tests, nothing_to_cut_off_ends_with_0_without_a_timeout);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
