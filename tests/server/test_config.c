/* Flags and environment: precedence, sizes, and messages that name the flag and its range. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_reader.h"
#include "core/pmx.h"
#include "server/config.h"

static dfm_config config;
static char message[DFM_CONFIG_MESSAGE_BYTES];

/* Arguments end with NULL, as the environment does. */
static bool parse(char *const *arguments, char *const *environment) {
    char *all[16] = {"deformd"};
    int count = 1;
    while (arguments && *arguments)
        all[count++] = *arguments++;
    message[0] = '\0';
    return dfm_config_parse(&config, count, all, environment, message);
}

#define ARGUMENTS(...) ((char *[]){__VA_ARGS__, NULL})

START_TEST(defaults_are_those_of_the_documentation) {
    ck_assert(parse(NULL, NULL));
    ck_assert_str_eq(config.listen, "127.0.0.1:8080");
    ck_assert_uint_eq(config.workers, 0);
    ck_assert_uint_eq(config.queue, 256);
    ck_assert_uint_eq(config.cache_bytes, 1u << 30);
    ck_assert_uint_eq(config.motion_cache_bytes, 256u << 20);
    ck_assert_uint_eq(config.max_upload_bytes, 256u << 20);
    ck_assert_uint_eq(config.max_json_bytes, 1u << 20);
    ck_assert_uint_eq(config.max_pose_bytes, 64u << 20);
    ck_assert_uint_eq(config.max_inflight_bytes, 512u << 20);
    const dfm_pmx_limits *limits = &dfm_pmx_default_limits;
    ck_assert_uint_eq(config.max_vertices, limits->max_vertices);
    ck_assert_uint_eq(config.max_indices, limits->max_indices);
    ck_assert_uint_eq(config.max_textures, limits->max_textures);
    ck_assert_uint_eq(config.max_materials, limits->max_materials);
    ck_assert_uint_eq(config.max_bones, limits->max_bones);
    ck_assert_uint_eq(config.max_ik_links, limits->max_ik_links);
    ck_assert_uint_eq(config.max_morphs, limits->max_morphs);
    ck_assert_uint_eq(config.max_morph_offsets, limits->max_morph_offsets);
    ck_assert_uint_eq(config.max_text_bytes, limits->max_text_bytes);
    ck_assert_uint_eq(config.max_json_depth, DFM_JSON_MAX_DEPTH);
    ck_assert_uint_eq(config.default_mode, 0); /* gpu */
    ck_assert_uint_eq(config.strict_mode, 0);
    ck_assert_uint_eq(config.log_level, DFM_LOG_INFO);
    ck_assert_uint_eq(config.log_format, DFM_LOG_TEXT);
}
END_TEST

START_TEST(flag_wins_over_environment_and_environment_over_default) {
    char *environment[] = {"DEFORMD_QUEUE=7", "DEFORMD_WORKERS=3",
                           "DEFORMD_MAX_JSON_BYTES=", "DEFORMD_SERVICE_HOST=10.0.0.1", NULL};
    ck_assert(parse(ARGUMENTS("--queue", "9"), environment));
    ck_assert_uint_eq(config.queue, 9);
    ck_assert_uint_eq(config.workers, 3);
    ck_assert_uint_eq(config.max_json_bytes, 1u << 20); /* set but empty is not set */
}
END_TEST

START_TEST(variable_whose_flag_is_given_is_not_looked_at) {
    char *environment[] = {"DEFORMD_WORKERS=abc", "DEFORMD_STRICT_MODE=maybe", NULL};
    ck_assert(parse(ARGUMENTS("--workers", "1", "--strict-mode=false"), environment));
    ck_assert_uint_eq(config.workers, 1);
    ck_assert(!parse(ARGUMENTS("--workers", "1"), environment));
    ck_assert_ptr_nonnull(strstr(message, "DEFORMD_STRICT_MODE"));
    ck_assert(!parse(ARGUMENTS("--strict-mode"), environment));
    ck_assert_ptr_nonnull(strstr(message, "DEFORMD_WORKERS"));
}
END_TEST

START_TEST(defaults_shrink_to_a_smaller_budget_and_what_was_given_does_not) {
    ck_assert(parse(ARGUMENTS("--max-inflight-bytes", "32MiB"), NULL));
    ck_assert_uint_eq(config.max_upload_bytes, 32u << 20);
    ck_assert_uint_eq(config.max_pose_bytes, 32u << 20);
    ck_assert_uint_eq(config.max_json_bytes, 1u << 20);
    ck_assert_str_eq(
        message, "--max-upload-bytes is 32 MiB in place of 256 MiB, to fit --max-inflight-bytes; "
                 "--max-pose-bytes is 32 MiB in place of 64 MiB, to fit --max-inflight-bytes");
    ck_assert(parse(NULL, (char *[]){"DEFORMD_MAX_INFLIGHT_BYTES=1MiB", NULL}));
    ck_assert_uint_eq(config.max_upload_bytes, 1u << 20);
    ck_assert(parse(ARGUMENTS("--max-inflight-bytes", "512MiB"), NULL));
    ck_assert_str_eq(message, "");
    ck_assert(
        !parse(ARGUMENTS("--max-inflight-bytes", "32MiB", "--max-pose-bytes", "33MiB"), NULL));
    ck_assert_ptr_nonnull(strstr(message, "--max-pose-bytes is 33 MiB"));
    ck_assert(!parse(ARGUMENTS("--max-inflight-bytes", "32MiB"),
                     (char *[]){"DEFORMD_MAX_UPLOAD_BYTES=64MiB", NULL}));
}
END_TEST

START_TEST(value_follows_a_blank_or_an_equals_sign) {
    ck_assert(parse(ARGUMENTS("--listen=[::1]:0", "--default-mode", "cpu", "--strict-mode"), NULL));
    ck_assert_str_eq(config.listen, "[::1]:0");
    ck_assert_uint_eq(config.default_mode, 1);
    ck_assert_uint_eq(config.strict_mode, 1);
    ck_assert(parse(ARGUMENTS("--strict-mode=false"), (char *[]){"DEFORMD_STRICT_MODE=1", NULL}));
    ck_assert_uint_eq(config.strict_mode, 0);
}
END_TEST

static const struct {
    char *text;
    uint64_t bytes;
} sizes[] = {{"1048576", 1048576}, {"2MiB", 2u << 20},          {"2M", 2u << 20},
             {"2 mib", 2u << 20},  {"4GiB", (uint64_t)4 << 30}, {"1030k", 1030 << 10}};

START_TEST(sizes_take_binary_suffixes) {
    ck_assert_msg(parse(ARGUMENTS("--cache-bytes", sizes[_i].text), NULL), "%s", message);
    ck_assert_uint_eq(config.cache_bytes, sizes[_i].bytes);
}
END_TEST

/* What is wrong, and what the message must say of it. */
static const struct {
    char *flag, *value;
    const char *named, *range;
} wrong[] = {
    {"--queue", "0", "--queue", "1..65536"},
    {"--queue", "65537", "--queue", "1..65536"},
    {"--queue", "-1", "--queue", "1..65536"},
    {"--queue", " 5", "--queue", "1..65536"},
    {"--queue", "5x", "--queue", "1..65536"},
    {"--queue", "5K", "--queue", "1..65536"},
    {"--queue", "", "--queue", "1..65536"},
    {"--workers", "1025", "--workers", "0 or 1..1024"},
    {"--cache-bytes", "1023KiB", "--cache-bytes", "1 MiB..1024 GiB"},
    {"--cache-bytes", "18446744073709551616", "--cache-bytes", "1 MiB..1024 GiB"},
    {"--cache-bytes", "18014398509481984KiB", "--cache-bytes", "1 MiB..1024 GiB"},
    {"--cache-bytes", "1TiB", "--cache-bytes", "1 MiB..1024 GiB"},
    {"--default-mode", "opencl", "--default-mode", "gpu or cpu"},
    {"--log-level", "loud", "--log-level", "error, warn, info or debug"},
    {"--request-timeout-ms", "1s", "--request-timeout-ms", "0 or 1 ms..86400000 ms"},
    {"--strict-mode=maybe", NULL, "--strict-mode", "true or false"},
    {"--strict-mode", "maybe", "--strict-mode maybe", "--strict-mode=false"},
    {"--strict-mode", "true", "--strict-mode true", "--strict-mode=true"},
    {"--listen=", NULL, "--listen", "HOST:PORT"},
    {"--max-upload-bytes", "1GiB", "--max-upload-bytes", "--max-inflight-bytes (512 MiB)"},
    {"--que", "5", "--que", "no such flag"},
    {"queue", NULL, "queue", "no such flag"},
    {"--queue", NULL, "--queue", "N is missing"},
};

START_TEST(wrong_value_names_flag_and_range) {
    ck_assert(!parse(ARGUMENTS(wrong[_i].flag, wrong[_i].value), NULL));
    ck_assert_msg(strstr(message, wrong[_i].named) && strstr(message, wrong[_i].range), "%s",
                  message);
}
END_TEST

START_TEST(wrong_variable_is_named_as_the_variable) {
    ck_assert(!parse(NULL, (char *[]){"DEFORMD_LOG_FORMAT=xml", NULL}));
    ck_assert_ptr_nonnull(strstr(message, "DEFORMD_LOG_FORMAT"));
    ck_assert_ptr_nonnull(strstr(message, "text or json"));
}
END_TEST

/* Others see a command line, and a log: no flag takes a secret, and none is repeated. */
START_TEST(tokens_are_taken_from_a_file_only) {
    char *flags[] = {"--token", "--tokens", "--token=hunter2", "--admin-token=hunter2"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        ck_assert(!parse(ARGUMENTS(flags[i], "hunter2"), NULL));
        ck_assert_msg(strstr(message, "--token-file") && !strstr(message, "hunter2"), "%s",
                      message);
    }
    ck_assert(!parse(ARGUMENTS("--password=hunter2"), NULL));
    ck_assert_str_eq(message, "--password: no such flag (--help lists them all)");
    char *variables[] = {"DEFORMD_TOKEN=hunter2", "DEFORMD_TOKENS=hunter2"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        ck_assert(!parse(NULL, (char *[]){variables[i], NULL}));
        ck_assert_msg(strstr(message, "DEFORMD_TOKEN_FILE") && !strstr(message, "hunter2"), "%s",
                      message);
    }
    ck_assert(parse(NULL, (char *[]){"DEFORMD_TOKEN_FILE=/a/tokens", "DEFORMD_TOKEN=", NULL}));
    ck_assert_str_eq(config.token_file, "/a/tokens");
}
END_TEST

START_TEST(access_is_what_flags_say) {
    ck_assert(parse(NULL, NULL));
    ck_assert_str_eq(config.token_file, "");
    ck_assert_str_eq(config.cors_origin, "");
    ck_assert_uint_eq(config.metrics_open, 1);
    ck_assert(parse(ARGUMENTS("--metrics-open=false", "--cors-origin", "https://a.example"), NULL));
    ck_assert_uint_eq(config.metrics_open, 0);
    ck_assert_str_eq(config.cors_origin, "https://a.example");
    ck_assert(!parse(NULL, (char *[]){"DEFORMD_CORS_ORIGIN=https://a.example/", NULL}));
    ck_assert_ptr_nonnull(strstr(message, "--cors-origin: \"https://a.example/\" is no origin"));
}
END_TEST

START_TEST(help_lists_every_flag_with_default_range_and_variable) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    dfm_config_help(stream);
    fclose(stream);
    static const char *const parts[] = {"--listen HOST:PORT",
                                        "--max-inflight-bytes SIZE",
                                        "DEFORMD_DRAIN_TIMEOUT_MS",
                                        "1..65536; default 256; DEFORMD_QUEUE",
                                        "--version",
                                        "Exit status"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        ck_assert_msg(strstr(text, parts[i]) != NULL, "\"%s\" is not in:\n%s", parts[i], text);
    free(text);
    ck_assert(parse(ARGUMENTS("--help"), NULL) && config.show_help);
    ck_assert(parse(ARGUMENTS("--version"), NULL) && config.show_version);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("config");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, defaults_are_those_of_the_documentation);
    tcase_add_test(tests, flag_wins_over_environment_and_environment_over_default);
    tcase_add_test(tests, variable_whose_flag_is_given_is_not_looked_at);
    tcase_add_test(tests, defaults_shrink_to_a_smaller_budget_and_what_was_given_does_not);
    tcase_add_test(tests, value_follows_a_blank_or_an_equals_sign);
    tcase_add_loop_test(tests, sizes_take_binary_suffixes, 0, sizeof sizes / sizeof sizes[0]);
    tcase_add_loop_test(tests, wrong_value_names_flag_and_range, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tests, wrong_variable_is_named_as_the_variable);
    tcase_add_test(tests, tokens_are_taken_from_a_file_only);
    tcase_add_test(tests, access_is_what_flags_say);
    tcase_add_test(tests, help_lists_every_flag_with_default_range_and_variable);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
