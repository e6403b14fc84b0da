/* What the daemon tells of itself: metrics, log lines of requests, a model's stats. */
#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/metrics.h"
#include "tests/e2e/support.h"

/* The value behind a metric's name and labels; -1: it is not there. */
static double metric(const daemon_process *d, const char *name) {
    reply r = http_get(d, "/metrics");
    expect_status(&r, 200);
    double value = -1;
    size_t length = strlen(name);
    for (const char *line = (char *)r.body; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            value = atof(line + length);
    }
    reply_free(&r);
    return value;
}

/* A request is counted when its last byte has left, which its client may know before. */
static void expect_metric(const daemon_process *d, const char *name, double wanted) {
    double value = -1;
    for (int i = 0; i < 100 && (value = metric(d, name)) != wanted; i++)
        usleep(20000);
    ck_assert_msg(value == wanted, "%s is %g, not %g", name, value, wanted);
}

static void upload_figure(daemon_process *d, char id[64], char path[96]) {
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    strcpy(id, upload(d, &figure, "?mode=cpu"));
    snprintf(path, 96, "/models/%s/deform", id);
    dfm_arena_free(&arena);
}

/* The last line of the JSON log that is of a request to `path`. */
static cJSON *logged(const daemon_process *d, const char *path) {
    cJSON *found = NULL;
    for (int i = 0; i < 100 && !found; i++) {
        char *log = daemon_log(d), *rest = log, *line;
        while ((line = strsep(&rest, "\n")) && rest) {
            cJSON *json = cJSON_Parse(line);
            ck_assert_msg(json != NULL, "no JSON: %s", line);
            const char *of = cJSON_GetStringValue(cJSON_GetObjectItem(json, "path"));
            if (of && strcmp(of, path) == 0) {
                cJSON_Delete(found);
                found = json;
            } else {
                cJSON_Delete(json);
            }
        }
        free(log);
        usleep(found ? 0 : 20000);
    }
    ck_assert_ptr_nonnull(found);
    return found;
}

START_TEST(requests_show_in_the_metrics) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--workers", "2", "--queue", "17"));
    char id[64], path[96];
    upload_figure(&d, id, path);
    reply r = http_json(&d, "POST", path, "{\"poses\": [{}, {}]}");
    expect_status(&r, 200);
    double sent = (double)r.size;
    reply_free(&r);
    r = http_json(&d, "POST", path, "{\"bones\": 1}");
    expect_status(&r, 422);
    reply_free(&r);
    r = http_get(&d, "/nothing/here");
    expect_status(&r, 404);
    reply_free(&r);
    expect_metric(
        &d, "deformd_requests_total{method=\"POST\",route=\"/models/{id}/deform\",code=\"200\"}",
        1);
    expect_metric(
        &d, "deformd_requests_total{method=\"POST\",route=\"/models/{id}/deform\",code=\"422\"}",
        1);
    expect_metric(&d, "deformd_requests_total{method=\"other\",route=\"other\",code=\"404\"}", 1);
    expect_metric(&d, "deformd_frames_total", 2);
    expect_metric(&d, "deformd_workers", 2);
    expect_metric(&d, "deformd_workers_busy", 0);
    expect_metric(&d, "deformd_queue_requests", 0);
    expect_metric(&d, "deformd_queue_capacity_requests", 17);
    expect_metric(&d, "deformd_cache_items{kind=\"model\"}", 1);
    expect_metric(&d, "deformd_active_requests", 1); /* this one */
    ck_assert(metric(&d, "deformd_sent_bytes_total") > sent);
    ck_assert(metric(&d, "deformd_connections") >= 1);
    for (size_t i = 0; i < DFM_STAGE_COUNT; i++) {
        char name[96];
        snprintf(name, sizeof name, "deformd_stage_duration_seconds_count{stage=\"%s\"}",
                 dfm_stage_names[i]);
        expect_metric(&d, name, 1);
    }
    daemon_stop(&d);
}
END_TEST

START_TEST(a_stream_is_counted_with_all_its_frames) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--log-format", "json"));
    request what = heavy_deform(upload_heavy(&d), HEAVY_POSES);
    reply r = http(&d, &what);
    expect_status(&r, 200);
    reply_free(&r);
    expect_metric(&d, "deformd_frames_total", HEAVY_POSES);
    char path[128];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(what.path, "?"), what.path);
    cJSON *line = logged(&d, path);
    ck_assert_int_eq(cJSON_GetObjectItem(line, "frames")->valueint, HEAVY_POSES);
    const cJSON *stages = cJSON_GetObjectItem(line, "stages_ms");
    double first = cJSON_GetObjectItem(stages, "skin")->valuedouble;
    ck_assert_msg(first > 0, "%g", first);
    cJSON_Delete(line);
    ck_assert(metric(&d, "deformd_stage_duration_seconds_sum{stage=\"skin\"}") > 0);
    daemon_stop(&d);
}
END_TEST

START_TEST(a_request_is_one_line_without_its_pose) {
    daemon_hide_opencl();
    daemon_process d = daemon_start(ARGUMENTS("--log-format", "json"));
    char id[64], path[96];
    upload_figure(&d, id, path);
    static const char *const headers[] = {"X-Request-Id: frame-7", NULL};
    static const char pose[] = "{\"morphs\": {\"no-such-morph-at-all\": 1}}";
    reply r = http(&d, &(request){.path = path,
                                  .content_type = "application/json",
                                  .headers = headers,
                                  .body = pose,
                                  .size = sizeof pose - 1});
    expect_status(&r, 422);
    reply_free(&r);
    cJSON *line = logged(&d, path);
    ck_assert_str_eq(cJSON_GetObjectItem(line, "id")->valuestring, "frame-7");
    ck_assert_str_eq(cJSON_GetObjectItem(line, "model")->valuestring, id);
    ck_assert_str_eq(cJSON_GetObjectItem(line, "problem")->valuestring, "unknown-name");
    ck_assert_int_eq(cJSON_GetObjectItem(line, "status")->valueint, 422);
    ck_assert_ptr_null(cJSON_GetObjectItem(line, "frames"));
    cJSON_Delete(line);
    char *log = daemon_log(&d);
    ck_assert_ptr_null(strstr(log, "no-such-morph"));
    free(log);
    daemon_stop(&d);
}
END_TEST

/* Prometheus's own checker, where it is installed. */
START_TEST(promtool_finds_nothing_to_say) {
    if (system("command -v promtool >/dev/null 2>&1") != 0) {
        printf("skipped: promtool (package prometheus) is not installed\n");
        return;
    }
    daemon_hide_opencl();
    daemon_process d = daemon_start(NULL);
    char id[64], path[96], command[512], said[2048];
    upload_figure(&d, id, path);
    reply r = http_json(&d, "POST", path, "{}");
    reply_free(&r);
    snprintf(command, sizeof command, "curl -sS %s/metrics | promtool check metrics 2>&1", d.url);
    FILE *pipe = popen(command, "r");
    said[fread(said, 1, sizeof said - 1, pipe)] = '\0';
    int status = pclose(pipe);
    ck_assert_msg(status == 0 && !said[0], "%s", said);
    daemon_stop(&d);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("metrics");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, requests_show_in_the_metrics);
    tcase_add_test(tests, a_stream_is_counted_with_all_its_frames);
    tcase_add_test(tests, a_request_is_one_line_without_its_pose);
    tcase_add_test(tests, promtool_finds_nothing_to_say);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
