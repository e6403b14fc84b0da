/* GET /metrics and GET /models/{id}/stats: what they count, and the form they have. */
#include "api/routes.h"
#include "tests/data/models.h"
#include "tests/support_api.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static api_house house;
static char id[DFM_ID_DIGITS + 1];

static void setup(void) {
    api_house_open(&house, 0);
    dfm_arena arena = {0};
    grid_options options = grid_default_options(60, 3);
    dfm_pmx pmx = model_grid(&arena, &options);
    size_t size;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    api_upload(&house, bytes, size, id);
    free(bytes);
    dfm_arena_free(&arena);
}

static void teardown(void) {
    api_house_close(&house);
}

static api_answer get(const char *path) {
    return api_send(&house, &(api_ask){.method = DFM_METHOD_GET, .path = path});
}

/* Deforms, and counts it as the server does. */
static int deform(const char *pose) {
    char path[96];
    snprintf(path, sizeof path, "/models/%s/deform", id);
    api_answer answer =
        api_send(&house, &(api_ask){.method = DFM_METHOD_POST, .path = path, .body = pose});
    int status = answer.status;
    dfm_api_count(house.api,
                  &(dfm_metrics_request){.route = dfm_route_find(DFM_METHOD_POST, path).route,
                                         .status = status,
                                         .duration_ns = 700000,
                                         .received_bytes = strlen(pose),
                                         .sent_bytes = answer.body_bytes,
                                         .account = &answer.response.account});
    api_answer_free(&answer);
    return status;
}

/* The value behind a whole name with labels, -1 where there is none. */
static double value(const char *text, const char *name) {
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t length = strlen(name);
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return atof(line + length);
    }
    return -1;
}

static char *scrape(void) {
    api_answer answer = get("/metrics");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(api_header(&answer, "Content-Type"),
                     "text/plain; version=0.0.4; charset=utf-8");
    char *text = strdup(answer.body);
    api_answer_free(&answer);
    return text;
}

START_TEST(requests_are_counted_by_route_and_status) {
    ck_assert_int_eq(deform("{}"), 200);
    ck_assert_int_eq(deform("{\"poses\": [{}, {}]}"), 200);
    ck_assert_int_eq(deform("{\"bones\": 1}"), 422);
    char *text = scrape();
    static const char deforms[] = "method=\"POST\",route=\"/models/{id}/deform\"";
    static const struct {
        const char *name, *labels;
        double value;
    } wanted[] = {
        {"requests_total", ",code=\"200\"", 2},
        {"requests_total", ",code=\"422\"", 1},
        {"request_duration_seconds_bucket", ",le=\"0.0005\"", 0},
        {"request_duration_seconds_bucket", ",le=\"0.001\"", 3},
        {"request_duration_seconds_bucket", ",le=\"+Inf\"", 3},
        {"request_duration_seconds_count", "", 3},
        {"request_duration_seconds_sum", "", 0.0021},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char name[160];
        snprintf(name, sizeof name, "deformd_%s{%s%s}", wanted[i].name, deforms, wanted[i].labels);
        ck_assert_msg(value(text, name) == wanted[i].value, "%s: %g", name, value(text, name));
    }
    ck_assert(value(text, "deformd_problems_total{problem=\"invalid-pose\"}") == 1);
    ck_assert(value(text, "deformd_problems_total{problem=\"busy\"}") == 0);
    ck_assert(value(text, "deformd_frames_total") == 3);
    ck_assert(value(text, "deformd_received_bytes_total") == 2 + 19 + 12);
    ck_assert(value(text, "deformd_sent_bytes_total") > 3 * 60 * 24);
    ck_assert(value(text, "deformd_stage_duration_seconds_count{stage=\"skin\"}") == 2);
    ck_assert(value(text, "deformd_stage_duration_seconds_sum{stage=\"skin\"}") > 0);
    free(text);
}
END_TEST

START_TEST(unknown_paths_and_vanished_clients_have_their_place) {
    dfm_account account = {0};
    dfm_api_count(house.api, &(dfm_metrics_request){.status = 404, .account = &account});
    dfm_api_count(house.api,
                  &(dfm_metrics_request){.route = dfm_route_find(DFM_METHOD_GET, "/models").route,
                                         .account = &account});
    char *text = scrape();
    ck_assert(
        value(text, "deformd_requests_total{method=\"other\",route=\"other\",code=\"404\"}") == 1);
    ck_assert(value(text, "deformd_requests_total{method=\"GET\",route=\"/models\",code=\"0\"}") ==
              1);
    free(text);
}
END_TEST

static void read_gauges(void *context, dfm_gauges *gauges) {
    *gauges = *(const dfm_gauges *)context;
}

START_TEST(gauges_and_caches_are_shown_as_they_are) {
    dfm_gauges gauges = {.workers = 4,
                         .workers_busy = 3,
                         .queued = 7,
                         .queue_capacity = 256,
                         .connections = 12,
                         .buffer_bytes = 1 << 20,
                         .start_unix_s = 1700000000};
    house.config.read_gauges = read_gauges;
    house.config.gauges_context = &gauges;
    api_house_reopen(&house);
    char *text = scrape();
    ck_assert(value(text, "deformd_workers_busy") == 3);
    ck_assert(value(text, "deformd_queue_requests") == 7);
    ck_assert(value(text, "deformd_connections") == 12);
    ck_assert(value(text, "deformd_buffer_bytes") == 1 << 20);
    ck_assert(value(text, "deformd_start_time_seconds") == 1700000000);
    ck_assert(value(text, "deformd_cache_items{kind=\"model\"}") == 1);
    ck_assert(value(text, "deformd_cache_items{kind=\"motion\"}") == 0);
    ck_assert(value(text, "deformd_cache_loads_total{kind=\"model\"}") == 1);
    ck_assert(value(text, "deformd_models{effective_mode=\"cpu\"}") == 1);
    ck_assert(value(text, "deformd_models{effective_mode=\"gpu\"}") == 0);
    ck_assert_ptr_nonnull(strstr(text, "deformd_build_info{version=\"1.2.3\",build=\"test\""));
    free(text);
}
END_TEST

/* Each sample follows the HELP and TYPE of its metric, each metric stands in one place, counters
 * end in _total and nothing else does. */
START_TEST(the_text_is_what_prometheus_reads) {
    ck_assert_int_eq(deform("{}"), 200);
    char *text = scrape(), *rest = text, *line, metric[96] = "", type[16] = "";
    size_t samples = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        if (sscanf(line, "# HELP %95s", metric) == 1) {
            char again[112];
            snprintf(again, sizeof again, "# TYPE %s ", metric);
            ck_assert_msg(rest && strncmp(rest, again, strlen(again)) == 0, "%s", line);
            ck_assert_ptr_null(strstr(rest, line));
            continue;
        }
        if (sscanf(line, "# TYPE %*s %15s", type) == 1) {
            size_t length = strlen(metric);
            bool total = length > 6 && strcmp(metric + length - 6, "_total") == 0;
            ck_assert_msg(total == (strcmp(type, "counter") == 0), "%s", line);
            continue;
        }
        ck_assert_msg(strncmp(line, metric, strlen(metric)) == 0, "%s after %s", line, metric);
        ck_assert_ptr_nonnull(strrchr(line, ' '));
        samples++;
    }
    ck_assert_uint_gt(samples, 100);
    free(text);
}
END_TEST

START_TEST(a_models_use_is_told) {
    char path[96];
    snprintf(path, sizeof path, "/models/%s/stats", id);
    api_answer answer = get(path);
    ck_assert_int_eq(answer.status, 200);
    ck_assert(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(answer.json, "last_used")));
    api_answer_free(&answer);
    ck_assert_int_eq(deform("{\"poses\": [{}, {}, {}]}"), 200);
    ck_assert_int_eq(deform("{\"bones\": 1}"), 422);
    answer = get(path);
    ck_assert_str_eq(api_string(&answer, "id"), id);
    static const struct {
        const char *name;
        int value;
    } wanted[] = {{"deforms", 2}, {"failures", 1}, {"frames", 3}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        ck_assert_int_eq(cJSON_GetObjectItemCaseSensitive(answer.json, wanted[i].name)->valueint,
                         wanted[i].value);
    ck_assert_ptr_nonnull(strchr(api_string(&answer, "last_used"), 'T'));
    ck_assert_ptr_nonnull(cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(answer.json, "stages_us"), "skin"));
    api_answer_free(&answer);
    answer = get("/models/00000000000000000000000000000000/stats");
    ck_assert_int_eq(answer.status, 404);
    api_answer_free(&answer);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("metrics");
    TCase *tests = tcase_create("metrics");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, requests_are_counted_by_route_and_status);
    tcase_add_test(tests, unknown_paths_and_vanished_clients_have_their_place);
    tcase_add_test(tests, gauges_and_caches_are_shown_as_they_are);
    tcase_add_test(tests, the_text_is_what_prometheus_reads);
    tcase_add_test(tests, a_models_use_is_told);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
