/* The daemon on a store: restarts, eviction, two daemons on one folder, damage, full disks, kill
 * -9.
 *
 * SOAK_KILLS=N sets how many times a daemon is killed (make soak). */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/e2e/support.h"
#include "tests/support_disk.h"
#include "tests/support_vmd.h"

enum { MODELS = 4 };

static char folder[64];
static uint8_t *bytes[MODELS];
static size_t sizes[MODELS];

static void set_up(void) {
    daemon_hide_opencl();
    strcpy(folder, "/tmp/deformd-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (uint32_t i = 0; i < MODELS; i++) {
        dfm_arena arena = {0};
        grid_options grid = grid_default_options(3000 + 100 * i, 20);
        dfm_pmx model = model_grid(&arena, &grid);
        bytes[i] = model_bytes(&model, NULL, &sizes[i]);
        dfm_arena_free(&arena);
    }
}

static void tear_down(void) {
    char command[128];
    for (int i = 0; i < MODELS; i++)
        free(bytes[i]);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static daemon_process start(void) {
    return daemon_start(ARGUMENTS("--store", folder, "--store-check-ms", "100"));
}

static long put(daemon_process *d, int i, const char *query, char id[64]) {
    char path[96];
    snprintf(path, sizeof path, "/models%s", query);
    reply r = http(d, &(request){.path = path, .body = bytes[i], .size = sizes[i]});
    long status = r.status;
    if (id && status < 300)
        snprintf(id, 64, "%s", reply_field(&r, "id"));
    reply_free(&r);
    return status;
}

static long ask(const daemon_process *d, const char *method, const char *format, const char *id) {
    char path[160];
    snprintf(path, sizeof path, format, id);
    reply r = http(d, &(request){.method = method, .path = path});
    long status = r.status;
    reply_free(&r);
    return status;
}

static long deform(const daemon_process *d, const char *id) {
    char path[160];
    snprintf(path, sizeof path, "/models/%s/deform", id);
    reply r = http_json(d, "POST", path, "{}");
    long status = r.status;
    reply_free(&r);
    return status;
}

static long patch(const daemon_process *d, const char *id, const char *json) {
    char path[160];
    snprintf(path, sizeof path, "/models/%s", id);
    reply r = http_json(d, "PATCH", path, json);
    long status = r.status;
    reply_free(&r);
    return status;
}

/* A field of the model document, in a static buffer; "" where there is no document. */
static const char *field(const daemon_process *d, const char *id, const char *name) {
    static char value[256];
    char path[160];
    snprintf(path, sizeof path, "/models/%s", id);
    reply r = http_get(d, path);
    const char *found = r.status == 200 ? reply_field(&r, name) : NULL;
    snprintf(value, sizeof value, "%s", found ? found : "");
    reply_free(&r);
    return value;
}

static void expect_field(const daemon_process *d, const char *id, const char *name,
                         const char *wanted) {
    for (int i = 0; i < 100 && strcmp(field(d, id, name), wanted) != 0; i++)
        usleep(20000);
    ck_assert_str_eq(field(d, id, name), wanted);
}

static void expect_gone(const daemon_process *d, const char *id) {
    for (int i = 0; i < 100 && ask(d, "GET", "/models/%s", id) != 404; i++)
        usleep(20000);
    ck_assert_int_eq(ask(d, "GET", "/models/%s", id), 404);
}

static void run(const char *format, const char *id) {
    char command[512];
    snprintf(command, sizeof command, format, folder, id);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(what_was_uploaded_outlives_the_daemon) {
    char id[64], path[96], etag[128];
    daemon_process d = start();
    expect_logged(&d, "store /tmp/deformd-store-");
    ck_assert_int_eq(put(&d, 0, "?mode=cpu&sdef=off", id), 201);
    ck_assert_int_eq(put(&d, 0, "", id), 200);
    ck_assert_int_eq(patch(&d, id, "{\"weights\":\"raw\"}"), 200);
    snprintf(path, sizeof path, "/models/%s", id);
    reply r = http_get(&d, path);
    snprintf(etag, sizeof etag, "%s", reply_header(&r, "ETag"));
    reply_free(&r);
    daemon_stop(&d);
    d = start();
    r = http_get(&d, path);
    expect_status(&r, 200);
    ck_assert_str_eq(reply_header(&r, "ETag"), etag);
    ck_assert_str_eq(reply_field(&r, "mode"), "cpu");
    ck_assert_str_eq(reply_field(&r, "weights"), "raw");
    ck_assert_ptr_nonnull(strstr((char *)r.body, "\"sdef\":false"));
    reply_free(&r);
    ck_assert_int_eq(put(&d, 0, "", NULL), 200);
    ck_assert_int_eq(deform(&d, id), 200);
    ck_assert_int_eq(ask(&d, "DELETE", "/models/%s", id), 204);
    ck_assert_int_eq(deform(&d, id), 404);
    daemon_stop(&d);
    d = start();
    ck_assert_int_eq(deform(&d, id), 404);
    daemon_stop(&d);
}
END_TEST

START_TEST(lists_show_what_is_not_in_memory) {
    daemon_process d = start();
    char id[64];
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(put(&d, i, "?mode=cpu", id), 201);
    reply before = http_get(&d, "/models");
    daemon_stop(&d);
    d = start();
    reply r = http_get(&d, "/models?limit=2");
    expect_status(&r, 200);
    ck_assert_ptr_nonnull(strstr((char *)r.body, "\"resident_bytes\":0"));
    ck_assert_ptr_null(strstr((char *)r.body, "\"next\":null"));
    reply_free(&r);
    ck_assert_int_eq(deform(&d, id), 200);
    r = http_get(&d, "/models");
    ck_assert_ptr_nonnull(strstr((char *)r.body, id));
    ck_assert_ptr_nonnull(strstr((char *)r.body, "\"next\":null"));
    reply_free(&r);
    reply_free(&before);
    daemon_stop(&d);
}
END_TEST

START_TEST(evicted_models_come_back_by_themselves) {
    daemon_process d =
        daemon_start(ARGUMENTS("--store", folder, "--cache-bytes", "1MiB", "--workers", "2"));
    char ids[MODELS][64];
    for (int i = 0; i < MODELS; i++)
        ck_assert_int_eq(put(&d, i, "?mode=cpu&sdef=off", ids[i]), 201);
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < MODELS; i++)
            ck_assert_int_eq(deform(&d, ids[i]), 200);
    expect_field(&d, ids[0], "mode", "cpu");
    reply r = http_get(&d, "/metrics");
    const char *loads = strstr((char *)r.body, "\ndeformd_store_loads_total ");
    ck_assert_ptr_nonnull(loads);
    ck_assert_int_gt(atoi(loads + strlen("\ndeformd_store_loads_total ")), 3);
    reply_free(&r);
    daemon_stop(&d);
}
END_TEST

START_TEST(two_daemons_see_what_the_other_does) {
    daemon_process a = start(), b = start();
    char id[64];
    ck_assert_int_eq(put(&a, 0, "?mode=cpu", id), 201);
    ck_assert_int_eq(deform(&b, id), 200);
    ck_assert_int_eq(put(&b, 0, "", NULL), 200);
    ck_assert_int_eq(patch(&b, id, "{\"weights\":\"raw\"}"), 200);
    expect_field(&a, id, "weights", "raw");
    ck_assert_int_eq(ask(&a, "DELETE", "/models/%s", id), 204);
    expect_gone(&b, id);
    ck_assert_int_eq(put(&b, 0, "?mode=cpu", id), 201);
    ck_assert_int_eq(deform(&a, id), 200);
    /* A tag that the other made invalid is refused, however fresh it looks here. */
    char path[96], tag[160];
    snprintf(path, sizeof path, "/models/%s", id);
    reply r = http_get(&a, path);
    snprintf(tag, sizeof tag, "If-Match: %s", reply_header(&r, "ETag"));
    reply_free(&r);
    ck_assert_int_eq(patch(&b, id, "{\"sdef\":false}"), 200);
    const char *headers[] = {tag, NULL};
    r = http(&a, &(request){.method = "PATCH",
                            .path = path,
                            .content_type = "application/json",
                            .headers = headers,
                            .body = "{\"mode\":\"gpu\"}",
                            .size = 14});
    expect_status(&r, 412);
    reply_free(&r);
    daemon_stop(&a);
    daemon_stop(&b);
}
END_TEST

START_TEST(motions_are_kept_too) {
    static vmd_writer vmd;
    vmd_begin(&vmd);
    vmd_section(&vmd);
    vmd_bone(&vmd, "bone1", 0, (float[3]){0, 1, 0}, (float[4]){0, 0, 0, 1}, NULL);
    daemon_process d = start();
    char id[64], motion[64], path[160], body[128];
    ck_assert_int_eq(put(&d, 0, "?mode=cpu", id), 201);
    reply r = http(&d, &(request){.path = "/motions", .body = vmd.bytes, .size = vmd.size});
    expect_status(&r, 201);
    snprintf(motion, sizeof motion, "%s", reply_field(&r, "id"));
    reply_free(&r);
    daemon_stop(&d);
    d = start();
    r = http_get(&d, "/motions");
    ck_assert_ptr_nonnull(strstr((char *)r.body, motion));
    reply_free(&r);
    snprintf(path, sizeof path, "/models/%s/deform", id);
    snprintf(body, sizeof body, "{\"motion\":\"%s\",\"frames\":[0,1]}", motion);
    r = http_json(&d, "POST", path, body);
    expect_status(&r, 200);
    reply_free(&r);
    ck_assert_int_eq(ask(&d, "DELETE", "/motions/%s", motion), 204);
    ck_assert_int_eq(ask(&d, "GET", "/motions/%s", motion), 404);
    daemon_stop(&d);
}
END_TEST

START_TEST(damaged_files_are_told_and_mended_by_an_upload) {
    daemon_process d = start();
    char id[64], other[64], path[96];
    ck_assert_int_eq(put(&d, 0, "?mode=cpu", id), 201);
    ck_assert_int_eq(put(&d, 1, "?mode=cpu", other), 201);
    daemon_stop(&d);
    static const char *const damages[] = {
        "printf x | dd of=%s/models/%s/file bs=1 seek=1000 conv=notrunc status=none",
        "truncate -s 500 %s/models/%s/file", "echo '{' >%s/models/%s/about.json",
        "head -c 70000 /dev/zero >%s/models/%s/about.json"};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        run(damages[i], id);
        d = start();
        snprintf(path, sizeof path, "/models/%s", id);
        reply r = http_get(&d, path);
        expect_status(&r, 500);
        ck_assert_ptr_nonnull(strstr((char *)r.body, "store-corrupt"));
        reply_free(&r);
        expect_logged(&d, "store-corrupt");
        ck_assert_int_eq(deform(&d, other), 200);
        r = http_get(&d, "/models");
        expect_status(&r, 200);
        ck_assert_ptr_nonnull(strstr((char *)r.body, other));
        reply_free(&r);
        ck_assert_int_eq(put(&d, 0, "?mode=cpu", NULL), 200);
        ck_assert_int_eq(deform(&d, id), 200);
        daemon_stop(&d);
        d = start();
        ck_assert_int_eq(deform(&d, id), 200);
        daemon_stop(&d);
    }
}
END_TEST

START_TEST(a_store_that_vanishes_leaves_what_is_in_memory) {
    daemon_process d = start();
    char warm[64], cold[64], path[96];
    ck_assert_int_eq(put(&d, 0, "?mode=cpu", warm), 201);
    ck_assert_int_eq(put(&d, 1, "?mode=cpu", cold), 201);
    daemon_stop(&d);
    d = start();
    ck_assert_int_eq(deform(&d, warm), 200);
    if (geteuid() == 0) { /* whom no permissions stop: files in place of folders do */
        run("mv %s/models/%s /tmp/deformd-away", warm);
        run("rm -rf %s/models/%s", cold);
        run("echo >%s/models/%s", warm);
        run("echo >%s/models/%s", cold);
    } else {
        run("chmod 0 %s/models # %s", "");
    }
    usleep(150000);
    ck_assert_int_eq(deform(&d, warm), 200);
    snprintf(path, sizeof path, "/models/%s", cold);
    reply r = http_get(&d, path);
    expect_status(&r, 503);
    ck_assert_ptr_nonnull(strstr((char *)r.body, "store-failed"));
    ck_assert_ptr_nonnull(reply_header(&r, "Retry-After"));
    reply_free(&r);
    expect_logged(&d, "store-failed");
    r = http_get(&d, "/metrics");
    ck_assert_ptr_nonnull(strstr((char *)r.body, "\ndeformd_store_up 0\n"));
    reply_free(&r);
    if (geteuid() == 0)
        run("rm -rf /tmp/deformd-away # %s%s", "");
    else
        run("chmod 755 %s/models # %s", "");
    daemon_stop(&d);
}
END_TEST

START_TEST(a_store_that_is_removed_is_503_not_empty) {
    char warm[64], cold[64], path[96];
    daemon_process d = start();
    ck_assert_int_eq(put(&d, 0, "?mode=cpu", warm), 201);
    ck_assert_int_eq(put(&d, 1, "?mode=cpu", cold), 201);
    daemon_stop(&d);
    d = start();
    ck_assert_int_eq(deform(&d, warm), 200);
    /* In one step, or a look in between finds the model removed, as it may. */
    run("cd %s && mv models away && rm -rf %s", folder);
    for (int i = 0; i < 3; i++) {
        usleep(150000); /* it is looked up each time */
        ck_assert_int_eq(deform(&d, warm), 200);
    }
    snprintf(path, sizeof path, "/models/%s", cold);
    reply r = http_get(&d, path);
    expect_status(&r, 503);
    ck_assert_ptr_nonnull(strstr((char *)r.body, "store-failed"));
    reply_free(&r);
    ck_assert_int_eq(ask(&d, "GET", "/models%.0s", ""), 503);
    ck_assert_int_eq(put(&d, 2, "", NULL), 503);
    ck_assert_int_eq(patch(&d, warm, "{\"weights\":\"raw\"}"), 503);
    ck_assert_int_eq(ask(&d, "DELETE", "/models/%s", warm), 503);
    ck_assert_int_eq(deform(&d, warm), 200);
    expect_logged(&d, "was removed while it was in use");
    r = http_get(&d, "/metrics");
    ck_assert_ptr_nonnull(strstr((char *)r.body, "\ndeformd_store_up 0\n"));
    reply_free(&r);
    daemon_stop(&d);
    d = start(); /* made anew */
    ck_assert_int_eq(put(&d, 0, "?mode=cpu", NULL), 201);
    daemon_stop(&d);
}
END_TEST

START_TEST(what_lacks_a_file_comes_back_by_an_upload) {
    static const char *const losses[] = {"rm %s/models/%s/file", "rm %s/models/%s/about.json",
                                         "rm %s/models/%s/*"};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        char id[64];
        daemon_process d = start();
        ck_assert_int_lt(put(&d, 0, "?mode=cpu", id), 300);
        daemon_stop(&d);
        run(losses[i], id);
        d = start();
        ck_assert_int_eq(ask(&d, "GET", "/models/%s", id), 404);
        ck_assert_int_eq(ask(&d, "GET", "/models%.0s", ""), 200);
        ck_assert_int_lt(put(&d, 0, "?mode=cpu", id), 300);
        ck_assert_int_eq(deform(&d, id), 200);
        daemon_stop(&d);
        d = start();
        ck_assert_int_eq(deform(&d, id), 200);
        daemon_stop(&d);
    }
}
END_TEST

START_TEST(a_full_disk_is_507_and_the_others_go_on) {
    if (!small_disk(folder, "400k")) {
        printf("SKIPPED: no tmpfs can be mounted here: full disks\n");
        return;
    }
    daemon_process d = start();
    char ids[MODELS][64];
    int kept = 0;
    long status = 201;
    while (kept < MODELS && (status = put(&d, kept, "?mode=cpu", ids[kept])) == 201)
        kept++;
    ck_assert_int_eq(status, 507);
    ck_assert_int_gt(kept, 0);
    reply r = http(&d, &(request){.path = "/models", .body = bytes[kept], .size = sizes[kept]});
    ck_assert_ptr_nonnull(strstr((char *)r.body, "store-full"));
    reply_free(&r);
    expect_logged(&d, "store-failed");
    for (int i = 0; i < kept; i++)
        ck_assert_int_eq(deform(&d, ids[i]), 200);
    ck_assert_int_eq(ask(&d, "DELETE", "/models/%s", ids[0]), 204);
    ck_assert_int_eq(put(&d, 0, "?mode=cpu", NULL), 201);
    daemon_stop(&d);
    umount(folder);
}
END_TEST

START_TEST(many_who_want_a_cold_model_load_it_once) {
    enum { CLIENTS = 12 };
    daemon_process d = start();
    char id[64], path[160];
    ck_assert_int_eq(put(&d, 0, "?mode=cpu", id), 201);
    daemon_stop(&d);
    d = start();
    snprintf(path, sizeof path, "/models/%s/deform", id);
    background clients[CLIENTS];
    request what = {.path = path, .content_type = "application/json", .body = "{}", .size = 2};
    for (int i = 0; i < CLIENTS; i++)
        background_start(&clients[i], &d, &what);
    for (int i = 0; i < CLIENTS; i++) {
        background_join(&clients[i]);
        expect_status(&clients[i].reply, 200);
        reply_free(&clients[i].reply);
    }
    reply r = http_get(&d, "/metrics");
    ck_assert_ptr_nonnull(strstr((char *)r.body, "\ndeformd_store_loads_total 1\n"));
    reply_free(&r);
    daemon_stop(&d);
}
END_TEST

/* --- kill -9 -----------------------------------------------------------------------------------
 */

/* What a model can be: not there, or there with weights "normalized" or "raw". */
enum { GONE, NORMALIZED, RAW };

/* One writer a model: what it was told last, and what it has asked for since. */
typedef struct writer {
    daemon_process *daemon;
    int model;
    char id[64];
    unsigned seed;
    int acknowledged, pending, answers;
} writer;

/* Asks for w->pending; what answers that it was done, given what was acknowledged, is *wanted. */
static long ask_for_pending(writer *w, long *wanted) {
    static const char *const queries[] = {NULL, "?mode=cpu&weights=normalized",
                                          "?mode=cpu&weights=raw"};
    static const char *const changes[] = {NULL, "{\"weights\":\"normalized\"}",
                                          "{\"weights\":\"raw\"}"};
    bool there = w->acknowledged != GONE;
    if (w->pending == GONE) {
        *wanted = there ? 204 : 404;
        return ask(w->daemon, "DELETE", "/models/%s", w->id);
    }
    if (there && rand_r(&w->seed) % 2) {
        *wanted = 200;
        return patch(w->daemon, w->id, changes[w->pending]);
    }
    *wanted = there ? 200 : 201;
    return put(w->daemon, w->model, queries[w->pending], NULL);
}

/* Nobody else writes the model, so every answer is known before. */
static void *write_until_killed(void *argument) {
    writer *w = argument;
    for (;;) {
        long wanted, status;
        w->pending = (int)(rand_r(&w->seed) % 3);
        status = ask_for_pending(w, &wanted);
        if (status == 0)
            return NULL; /* killed meanwhile: `pending` may have happened, or not */
        ck_assert_msg(status == wanted, "model %d, from %d to %d: %ld in place of %ld", w->model,
                      w->acknowledged, w->pending, status, wanted);
        w->acknowledged = w->pending;
        w->answers++;
    }
}

static int state_of(const daemon_process *d, const char *id) {
    long status = ask(d, "GET", "/models/%s", id);
    ck_assert_msg(status == 200 || status == 404, "%ld", status);
    if (status == 404)
        return GONE;
    ck_assert_int_eq(deform(d, id), 200); /* the file's digest was checked for that */
    return strcmp(field(d, id, "weights"), "raw") == 0 ? RAW : NORMALIZED;
}

static void check_after_kill(const daemon_process *d, int round, writer *w) {
    int state = state_of(d, w->id);
    ck_assert_msg(state == w->acknowledged || state == w->pending,
                  "round %d, model %d: %d; acknowledged %d, asked for %d", round, w->model, state,
                  w->acknowledged, w->pending);
    w->acknowledged = w->pending = state;
}

/* What is listed is what is there. */
static void check_list(const daemon_process *d, const writer writers[MODELS]) {
    reply r = http_get(d, "/models");
    expect_status(&r, 200);
    for (int i = 0; i < MODELS; i++) {
        bool listed = strstr((char *)r.body, writers[i].id) != NULL;
        ck_assert_int_eq(listed, writers[i].acknowledged != GONE);
    }
    reply_free(&r);
}

START_TEST(kill_at_any_moment_loses_nothing_that_was_acknowledged) {
    int kills = getenv("SOAK_KILLS") ? atoi(getenv("SOAK_KILLS")) : SANITIZED ? 3 : 15;
    int answers = 0;
    writer writers[MODELS] = {0};
    daemon_process d = start();
    for (int i = 0; i < MODELS; i++) {
        writers[i] = (writer){.model = i, .seed = (unsigned)i + 1};
        ck_assert_int_eq(put(&d, i, "?mode=cpu", writers[i].id), 201);
        writers[i].acknowledged = writers[i].pending = NORMALIZED;
    }
    for (int round = 0; round < kills; round++) {
        pthread_t threads[MODELS];
        for (int i = 0; i < MODELS; i++) {
            writers[i].daemon = &d;
            ck_assert_int_eq(pthread_create(&threads[i], NULL, write_until_killed, &writers[i]), 0);
        }
        usleep((useconds_t)(5000 + rand() % 300000));
        kill(d.pid, SIGKILL);
        for (int i = 0; i < MODELS; i++)
            pthread_join(threads[i], NULL);
        ck_assert_int_eq(daemon_wait(&d, 5000), 1000 + SIGKILL);
        unlink(d.log_path);
        d = start();
        for (int i = 0; i < MODELS; i++)
            check_after_kill(&d, round, &writers[i]);
        check_list(&d, writers);
    }
    for (int i = 0; i < MODELS; i++)
        answers += writers[i].answers;
    printf("cases: %d kills of the daemon, %d answers acknowledged\n", kills, answers);
    ck_assert_int_gt(answers, 2 * kills);
    run("test $(ls %s/tmp | wc -l) = 2 # %s", ""); /* the running one's, and its lock */
    daemon_stop(&d);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("store");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, getenv("SOAK_KILLS") ? 600 : 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_was_uploaded_outlives_the_daemon);
    tcase_add_test(tests, lists_show_what_is_not_in_memory);
    tcase_add_test(tests, evicted_models_come_back_by_themselves);
    tcase_add_test(tests, two_daemons_see_what_the_other_does);
    tcase_add_test(tests, motions_are_kept_too);
    tcase_add_test(tests, damaged_files_are_told_and_mended_by_an_upload);
    tcase_add_test(tests, a_store_that_vanishes_leaves_what_is_in_memory);
    tcase_add_test(tests, a_store_that_is_removed_is_503_not_empty);
    tcase_add_test(tests, what_lacks_a_file_comes_back_by_an_upload);
    tcase_add_test(tests, a_full_disk_is_507_and_the_others_go_on);
    tcase_add_test(tests, many_who_want_a_cold_model_load_it_once);
    tcase_add_test(tests, kill_at_any_moment_loses_nothing_that_was_acknowledged);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
