/* Three daemons over one store behind a real HAProxy with the configuration that docker/ shows:
 * rolling restarts without an error, a killed replica, and models that stay where they are. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/support.h"

enum { REPLICAS = 3, CLIENTS = 4, VERTICES = 20000 };

static char folder[] = "/tmp/deformd-farm-XXXXXX";
static daemon_process replicas[REPLICAS];
static daemon_process proxy; /* url and port, for http() */
static char model[64];

/* A port that was free a moment ago. */
static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    close(fd);
    return ntohs(address.sin_port);
}

static void start_replica(int i, int port) {
    char listen[64], store[96];
    snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
    snprintf(store, sizeof store, "%s/store", folder);
    replicas[i] = daemon_start(ARGUMENTS("--listen", listen, "--store", store, "--drain-delay-ms",
                                         "2500", "--log-format", "json", "--default-mode", "cpu"));
}

/* The configuration of docker/, with these addresses. */
static void start_proxy(void) {
    char command[1024], config[96];
    proxy.port = free_port();
    snprintf(proxy.url, sizeof proxy.url, "http://127.0.0.1:%d", proxy.port);
    snprintf(config, sizeof config, "%s/haproxy.cfg", folder);
    snprintf(command, sizeof command,
             "sed -e 's/bind :8080/bind 127.0.0.1:%d/' -e 's/deformd-1:8080/127.0.0.1:%d/' "
             "-e 's/deformd-2:8080/127.0.0.1:%d/' -e 's/deformd-3:8080/127.0.0.1:%d/' "
             "docker/haproxy.cfg >%s",
             proxy.port, replicas[0].port, replicas[1].port, replicas[2].port, config);
    ck_assert_int_eq(system(command), 0);
    char log[96];
    snprintf(log, sizeof log, "%s/haproxy.log", folder);
    proxy.pid = fork();
    if (proxy.pid == 0) {
        if (!freopen(log, "w", stdout))
            _exit(126);
        execlp("haproxy", "haproxy", "-db", "-f", config, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 100; i++) {
        reply r = http_get(&proxy, "/readyz");
        bool ready = r.status == 200;
        reply_free(&r);
        if (ready)
            return;
        usleep(100000);
    }
    ck_abort_msg("HAProxy does not answer");
}

static void set_up(void) {
    daemon_hide_opencl();
    strcpy(folder, "/tmp/deformd-farm-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < REPLICAS; i++)
        start_replica(i, free_port());
    start_proxy();
    dfm_arena arena = {0};
    grid_options grid = grid_default_options(VERTICES, 50);
    dfm_pmx pmx = model_grid(&arena, &grid);
    strcpy(model, upload(&proxy, &pmx, ""));
    dfm_arena_free(&arena);
}

static void tear_down(void) {
    char command[128];
    for (int i = 0; i < REPLICAS; i++) {
        kill(replicas[i].pid, SIGKILL);
        daemon_wait(&replicas[i], 5000);
        unlink(replicas[i].log_path);
    }
    kill(proxy.pid, SIGKILL);
    waitpid(proxy.pid, NULL, 0);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static reply deform(const daemon_process *d) {
    char path[128];
    snprintf(path, sizeof path, "/models/%s/deform", model);
    return http_json(d, "POST", path, "{\"bones\":{\"#1\":{\"rotation\":[0,0,0.5,0.866]}}}");
}

START_TEST(an_upload_through_one_is_deformed_by_all) {
    for (int i = 0; i < REPLICAS; i++) {
        reply r = deform(&replicas[i]);
        expect_status(&r, 200);
        ck_assert_uint_eq(r.size, VERTICES * 24);
        reply_free(&r);
    }
}
END_TEST

/* --- load --------------------------------------------------------------------------------------
 */

static atomic_bool done;
static atomic_uint served, cut, wrong;
static reply expected;

static void *deform_all_the_time(void *unused) {
    (void)unused;
    while (!atomic_load(&done)) {
        reply r = deform(&proxy);
        bool whole = r.status == 200 && r.size == expected.size &&
                     memcmp(r.body, expected.body, r.size) == 0;
        /* curl tells of an answer that is shorter than its Content-Length. */
        bool is_cut = !whole && r.status == 0 && strstr(r.error, "bytes");
        atomic_fetch_add(whole ? &served : is_cut ? &cut : &wrong, 1);
        if (!whole)
            printf("    status %ld, %zu bytes: %s %.100s\n", r.status, r.size, r.error, r.body);
        reply_free(&r);
    }
    return NULL;
}

static void start_load(pthread_t threads[CLIENTS]) {
    atomic_store(&done, false);
    atomic_store(&served, 0), atomic_store(&cut, 0), atomic_store(&wrong, 0);
    expected = deform(&proxy);
    expect_status(&expected, 200);
    for (int i = 0; i < CLIENTS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, deform_all_the_time, NULL), 0);
    usleep(500000);
}

static void end_load(pthread_t threads[CLIENTS]) {
    atomic_store(&done, true);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    reply_free(&expected);
    printf("%u served, %u cut, %u wrong\n", atomic_load(&served), atomic_load(&cut),
           atomic_load(&wrong));
}

START_TEST(rolling_restarts_show_to_no_client) {
    pthread_t threads[CLIENTS];
    start_load(threads);
    for (int i = 0; i < REPLICAS; i++) {
        int port = replicas[i].port;
        kill(replicas[i].pid, SIGTERM);
        ck_assert_int_eq(daemon_wait(&replicas[i], 20000), 0);
        unlink(replicas[i].log_path);
        start_replica(i, port);
        sleep(3); /* until the proxy sees it again */
    }
    end_load(threads);
    ck_assert_uint_eq(atomic_load(&wrong) + atomic_load(&cut), 0);
    ck_assert_uint_gt(atomic_load(&served), 100);
}
END_TEST

START_TEST(a_killed_replica_cuts_only_what_it_was_sending) {
    pthread_t threads[CLIENTS];
    start_load(threads);
    for (int i = 0; i < REPLICAS; i++) {
        int port = replicas[i].port;
        kill(replicas[i].pid, SIGKILL);
        daemon_wait(&replicas[i], 5000);
        unlink(replicas[i].log_path);
        sleep(1);
        start_replica(i, port);
        sleep(3);
    }
    end_load(threads);
    ck_assert_uint_eq(atomic_load(&wrong), 0);
    ck_assert_uint_le(atomic_load(&cut), REPLICAS * CLIENTS);
    ck_assert_uint_gt(atomic_load(&served), 100);
}
END_TEST

/* --- where models land -------------------------------------------------------------------------
 */

enum { IDS = 120 };

/* Asks for ids that nobody has, and finds out from the logs who was asked. */
static void find_homes(const char *round, int homes[IDS]) {
    char path[96];
    for (unsigned i = 0; i < IDS; i++) {
        snprintf(path, sizeof path, "/models/%08x%s%016x", i * 2654435761u, round, i);
        reply r = http_get(&proxy, path);
        expect_status(&r, 404);
        reply_free(&r);
    }
    sleep(1);
    for (int k = 0; k < REPLICAS; k++) {
        char *log = replicas[k].pid ? daemon_log(&replicas[k]) : strdup("");
        for (unsigned i = 0; i < IDS; i++) {
            snprintf(path, sizeof path, "/models/%08x%s%016x", i * 2654435761u, round, i);
            if (strstr(log, path))
                homes[i] = k;
        }
        free(log);
    }
}

START_TEST(models_stay_where_they_are_when_another_replica_leaves) {
    int before[IDS], again[IDS], after[IDS], share[REPLICAS] = {0}, moved = 0;
    find_homes("aaaaaaaa", before);
    find_homes("aaaaaaaa", again);
    for (int i = 0; i < IDS; i++) {
        ck_assert_int_eq(before[i], again[i]);
        share[before[i]]++;
    }
    printf("of %d models: %d, %d, %d\n", IDS, share[0], share[1], share[2]);
    for (int k = 0; k < REPLICAS; k++)
        ck_assert_int_gt(share[k], IDS / 10);
    kill(replicas[2].pid, SIGTERM);
    ck_assert_int_eq(daemon_wait(&replicas[2], 20000), 0);
    int port = replicas[2].port;
    char *log_path = strdup(replicas[2].log_path);
    replicas[2].pid = 0;
    sleep(3);
    find_homes("aaaaaaaa", after);
    for (int i = 0; i < IDS; i++)
        moved += before[i] != after[i];
    printf("moved when one of three left: %d of %d, %d of them its own\n", moved, IDS, share[2]);
    ck_assert_int_le(moved, share[2] + IDS / 10);
    unlink(log_path);
    free(log_path);
    start_replica(2, port);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("farm");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, an_upload_through_one_is_deformed_by_all);
    tcase_add_test(tests, rolling_restarts_show_to_no_client);
    tcase_add_test(tests, a_killed_replica_cuts_only_what_it_was_sending);
    tcase_add_test(tests, models_stay_where_they_are_when_another_replica_leaves);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
