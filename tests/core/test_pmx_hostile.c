/* Hostile PMX files: cut off anywhere, or with counts that lie. Best run with config=asan. */
#include "core/model.h"
#include "tests/data/models.h"
#include "tests/data/mutate.h"
#include "tests/data/real.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tally {
    const char *name;
    size_t visited, loaded;
};

static void load(const mutation *made, void *context) {
    struct tally *tally = context;
    dfm_model *model;
    dfm_error error;
    dfm_error_clear(&error);
    dfm_status status =
        dfm_model_load(made->bytes, made->size, &dfm_pmx_default_limits, &model, &error);
    tally->visited++;
    tally->loaded += status == DFM_OK;
    dfm_model_release(model);
    if (made->expectation == MUTATION_MUST_LOAD && status != DFM_OK)
        ck_abort_msg("%s, %s: %s", tally->name, made->text, error.info);
    if (status == DFM_OK) {
        if (made->expectation == MUTATION_MUST_FAIL)
            ck_abort_msg("%s, %s: loaded", tally->name, made->text);
        return;
    }
    bool placed = error.status == status && error.section && error.info[0] != '\0' &&
                  error.offset >= 0 && error.offset <= (int64_t)made->size;
    if (!placed)
        ck_abort_msg("%s, %s: an error without place", tally->name, made->text);
    if (made->expectation == MUTATION_MUST_FAIL &&
        (status != DFM_ERROR_TRUNCATED || strcmp(error.section, made->section) != 0))
        ck_abort_msg("%s, %s: %s in %s, truncated in %s expected", tally->name, made->text,
                     dfm_status_name(status), error.section, made->section);
}

/* `_i` counts versions and encodings. */
static uint8_t *odd_bytes(int i, size_t *size) {
    dfm_arena arena = {0};
    dfm_pmx odd = model_odd(&arena, i % 2 ? 2.1f : 2.0f, i / 2 ? DFM_TEXT_UTF8 : DFM_TEXT_UTF16LE);
    uint8_t *bytes = model_bytes(&odd, NULL, size);
    dfm_arena_free(&arena);
    return bytes;
}

START_TEST(a_file_cut_anywhere_before_the_end_of_the_morphs_names_section_and_offset) {
    struct tally tally = {.name = "odd"};
    size_t size;
    uint8_t *bytes = odd_bytes(_i, &size);
    mutate_every_cut(bytes, size, load, &tally);
    ck_assert_uint_eq(tally.visited, size + 1);
    ck_assert_uint_eq(tally.loaded, _i % 2 ? 17 : 13); /* the empty sections behind the morphs */
    free(bytes);
}
END_TEST

START_TEST(counts_that_lie_are_errors_or_models) {
    struct tally tally = {.name = "odd"};
    size_t size;
    uint8_t *bytes = odd_bytes(_i, &size);
    mutate_counts(bytes, size, load, &tally);
    ck_assert_uint_gt(tally.visited, 300);
    ck_assert_uint_gt(tally.loaded, 0);
    ck_assert_uint_lt(tally.loaded, tally.visited / 2);
    free(bytes);
}
END_TEST

/* Random bytes in random places: nothing is expected but a decent end. */
START_TEST(bytes_that_lie_are_errors_or_models) {
    struct tally tally = {.name = "odd"};
    size_t size;
    uint8_t *bytes = odd_bytes(_i, &size), *copy = malloc(size);
    for (unsigned round = 0; round < 5000; round++) {
        memcpy(copy, bytes, size);
        for (unsigned k = 0; k <= round % 3; k++)
            copy[(unsigned)rand() % size] = (uint8_t)rand();
        mutation changed = {.bytes = copy, .size = size, .expectation = MUTATION_MAY_LOAD};
        snprintf(changed.text, sizeof changed.text, "round %u", round);
        load(&changed, &tally);
    }
    ck_assert_uint_gt(tally.loaded, 0);
    free(copy);
    free(bytes);
}
END_TEST

START_TEST(real_models_cut_at_borders_and_at_random_places) {
    real_models models = real_models_find("real models cut off");
    size_t visited = 0;
    for (size_t i = 0; i < models.count; i++) {
        if (real_is(models.paths[i], "joint_orient_test.pmx"))
            continue;
        struct tally tally = {.name = models.paths[i]};
        size_t size;
        uint8_t *bytes = real_read_file(models.paths[i], &size);
        mutate_some_cuts(bytes, size, 500, load, &tally);
        visited += tally.visited;
        free(bytes);
    }
    if (models.count > 0)
        printf("cases: %zu cut files of %zu real models\n", visited, models.count);
    real_models_free(&models);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pmx_hostile");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(
        tests, a_file_cut_anywhere_before_the_end_of_the_morphs_names_section_and_offset, 0, 4);
    tcase_add_loop_test(tests, counts_that_lie_are_errors_or_models, 0, 4);
    tcase_add_loop_test(tests, bytes_that_lie_are_errors_or_models, 0, 4);
    tcase_add_test(tests, real_models_cut_at_borders_and_at_random_places);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
