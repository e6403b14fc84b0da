/* Loading models: what is worked out at load, and that the real ones load. */
#include "core/model.h"
#include "tests/data/models.h"
#include "tests/data/real.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dfm_arena arena;
static dfm_error error;
static dfm_model *model;

static void setup(void) {
    dfm_error_clear(&error);
    model = NULL;
}

static void teardown(void) {
    dfm_model_release(model);
    dfm_arena_free(&arena);
}

static void load(const dfm_pmx *pmx) {
    size_t size;
    uint8_t *bytes = model_bytes(pmx, NULL, &size);
    dfm_status status = dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, &error);
    memset(bytes, 0xAA, size); /* nothing of a model may lie in the file's bytes */
    free(bytes);
    ck_assert_msg(status == DFM_OK, "%s", error.info);
}

static int32_t find(const dfm_names *names, const char *name) {
    return dfm_names_find(names, name, (uint32_t)strlen(name));
}

static const dfm_warning *warned(const char *code) {
    for (uint32_t i = 0; i < model->warnings.count; i++) {
        if (strcmp(model->warnings.items[i].code, code) == 0)
            return &model->warnings.items[i];
    }
    return NULL;
}

START_TEST(a_clean_model_loads_without_warnings) {
    dfm_pmx figure = model_figure(&arena);
    load(&figure);
    for (uint32_t i = 0; i < model->warnings.count; i++)
        ck_abort_msg("%s: %s", model->warnings.items[i].code, model->warnings.items[i].message);
    uint64_t sum = 0;
    for (int type = 0; type < DFM_WEIGHT_TYPE_COUNT; type++)
        sum += model->weight_type_counts[type];
    ck_assert_uint_eq(sum, figure.vertices.count);
    ck_assert_uint_eq(model->weight_type_counts[DFM_WEIGHT_SDEF], figure.vertices.sdef_count);
    ck_assert_uint_eq(model->rig.bone_count, figure.bone_count);
    ck_assert_uint_eq(model->morph_graph.morph_count, figure.morph_count);
}
END_TEST

START_TEST(names_are_found_and_the_first_of_equal_ones_wins) {
    dfm_pmx odd = model_odd(&arena, 2.1f, DFM_TEXT_UTF16LE);
    load(&odd);
    ck_assert_int_eq(find(&model->bone_names, "根"), 2);
    ck_assert_int_eq(find(&model->bone_names, "腕"), 1);
    ck_assert_int_eq(find(&model->bone_names, "𠮷😀"), 7);
    ck_assert_int_eq(dfm_names_find(&model->bone_names, "a\0b", 3), 8);
    ck_assert_int_eq(find(&model->bone_names, "頂点"), -1);
    ck_assert_int_eq(find(&model->morph_names, "頂点"), 0);
    ck_assert_uint_eq(warned("bone-name-duplicate")->count, 1);
    ck_assert_int_eq(warned("bone-name-duplicate")->first, 3);
    ck_assert_uint_eq(warned("morph-name-duplicate")->count, 1);
    ck_assert_int_eq(warned("morph-name-duplicate")->first, 5);
}
END_TEST

START_TEST(bounds_are_those_of_the_bind_positions) {
    dfm_pmx figure = model_figure(&arena);
    load(&figure);
    for (int k = 0; k < 3; k++) {
        float low = INFINITY, high = -INFINITY;
        for (uint32_t i = 0; i < figure.vertices.count; i++) {
            low = fminf(low, figure.vertices.position[i][k]);
            high = fmaxf(high, figure.vertices.position[i][k]);
        }
        ck_assert_float_eq(model->bounds_min[k], low);
        ck_assert_float_eq(model->bounds_max[k], high);
    }
}
END_TEST

START_TEST(a_model_without_anything_loads) {
    dfm_pmx empty = {.version = 2.0f};
    empty.name = empty.name_en = empty.comment = empty.comment_en = model_text("");
    load(&empty);
    ck_assert_float_eq(model->bounds_min[0], 0);
    ck_assert_float_eq(model->bounds_max[2], 0);
    ck_assert_int_eq(find(&model->bone_names, ""), -1);
    ck_assert_int_eq(find(&model->morph_names, ""), -1);
}
END_TEST

START_TEST(a_model_lives_until_the_last_reference_goes) {
    dfm_pmx odd = model_odd(&arena, 2.0f, DFM_TEXT_UTF8);
    load(&odd);
    ck_assert_ptr_eq(dfm_model_retain(model), model);
    dfm_model_release(model);
    ck_assert_str_eq(model->pmx.name_en.data, "odd model"); /* asan would see it gone */
    ck_assert_uint_gt(dfm_model_resident_bytes(model), sizeof *model);
    dfm_model_release(NULL);
}
END_TEST

START_TEST(a_million_and_a_half_vertices_load) {
    grid_options options = grid_default_options(1500000, 700);
    dfm_pmx grid = model_grid(&arena, &options);
    load(&grid);
    ck_assert_uint_eq(model->pmx.vertices.count, 1500000);
}
END_TEST

START_TEST(a_chain_of_30000_bones_loads) {
    grid_options options = grid_default_options(100, 30000);
    options.chain_length = 30000;
    dfm_pmx grid = model_grid(&arena, &options);
    load(&grid);
    ck_assert_int_eq(find(&model->bone_names, "bone29999"), 29999);
    ck_assert_int_eq(model->rig.bones[29999].parent, 29998);
}
END_TEST

/* --- real models -------------------------------------------------------------------------- */

static dfm_status load_file(const char *path) {
    size_t size;
    uint8_t *bytes = real_read_file(path, &size);
    dfm_error_clear(&error);
    dfm_status status = dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, &error);
    free(bytes);
    return status;
}

static void expect_miku(void) {
    ck_assert_uint_eq(model->pmx.vertices.count, 22509);
    ck_assert_uint_eq(model->weight_type_counts[DFM_WEIGHT_BDEF1], 13306);
    ck_assert_uint_eq(model->weight_type_counts[DFM_WEIGHT_BDEF2], 4992);
    ck_assert_uint_eq(model->weight_type_counts[DFM_WEIGHT_SDEF], 4211);
    ck_assert_uint_eq(model->rig.bone_count, 138);
    ck_assert_uint_eq(model->pmx.morph_count, 45);
    ck_assert_int_ge(find(&model->bone_names, "左ひじ"), 0);
    ck_assert_int_ge(find(&model->morph_names, "まばたき"), 0);
}

START_TEST(every_real_model_loads_but_the_malformed_one) {
    real_models models = real_models_find("real models loaded");
    for (size_t i = 0; i < models.count; i++) {
        dfm_status status = load_file(models.paths[i]);
        if (real_is(models.paths[i], "joint_orient_test.pmx")) {
            /* Its header says bone indices of one byte, its records have two. */
            ck_assert_int_eq(status, DFM_ERROR_MALFORMED);
            ck_assert_str_eq(error.section, "vertices");
            ck_assert_int_eq(error.item, 13);
            ck_assert_int_eq(error.offset, 683);
            continue;
        }
        ck_assert_msg(status == DFM_OK, "%s: %s", models.paths[i], error.info);
        if (real_is(models.paths[i], "appearance_miku.pmx"))
            expect_miku();
        dfm_model_release(model);
        model = NULL;
    }
    if (models.count > 0)
        printf("cases: %zu real models\n", models.count);
    real_models_free(&models);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_clean_model_loads_without_warnings);
    tcase_add_test(tests, names_are_found_and_the_first_of_equal_ones_wins);
    tcase_add_test(tests, bounds_are_those_of_the_bind_positions);
    tcase_add_test(tests, a_model_without_anything_loads);
    tcase_add_test(tests, a_model_lives_until_the_last_reference_goes);
    tcase_add_test(tests, a_million_and_a_half_vertices_load);
    tcase_add_test(tests, a_chain_of_30000_bones_loads);
    tcase_add_test(tests, every_real_model_loads_but_the_malformed_one);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
