/* Writing PMX: what is written reads back the same, and what cannot be written is refused. */
#include "core/pmx.h"
#include "tests/data/compare.h"
#include "tests/data/models.h"
#include "tests/data/mutate.h"
#include "tests/data/real.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static dfm_arena arena;
static dfm_error error;

static void setup(void) {
    dfm_error_clear(&error);
}

static void teardown(void) {
    dfm_arena_free(&arena);
}

/* NULL, or where the document read back differs from the one written. */
static const char *trip(const dfm_pmx *pmx, const dfm_pmx_write_options *options) {
    dfm_arena read_arena = {0};
    dfm_warnings warnings = {0};
    dfm_pmx read;
    size_t size;
    uint8_t *bytes = model_bytes(pmx, options, &size);
    const char *result;
    if (dfm_pmx_read(bytes, size, &dfm_pmx_default_limits, &read_arena, &warnings, &read, &error) !=
        DFM_OK)
        result = error.info;
    else if (read.encoding != pmx->encoding)
        result = "encoding";
    else
        result = pmx_difference(pmx, &read);
    dfm_arena_free(&read_arena);
    free(bytes);
    return result;
}

static void expect_same(const dfm_pmx *pmx, const dfm_pmx_write_options *options) {
    const char *difference = trip(pmx, options);
    ck_assert_msg(difference == NULL, "%s", difference);
}

/* The index sizes in all their combinations: 3 to the power of 6. */
static dfm_pmx_write_options combination(int number) {
    static const uint8_t sizes[] = {1, 2, 4};
    return (dfm_pmx_write_options){
        .vertex_index_size = sizes[number % 3],
        .texture_index_size = sizes[number / 3 % 3],
        .material_index_size = sizes[number / 9 % 3],
        .bone_index_size = sizes[number / 27 % 3],
        .morph_index_size = sizes[number / 81 % 3],
        .rigid_body_index_size = sizes[number / 243 % 3],
    };
}

/* `_i` counts versions x encodings x additional UVs. */
START_TEST(a_document_survives_every_combination_of_index_sizes) {
    float version = _i % 2 ? 2.1f : 2.0f;
    dfm_pmx odd = model_odd(&arena, version, _i / 2 % 2 ? DFM_TEXT_UTF8 : DFM_TEXT_UTF16LE);
    odd.vertices.additional_uv_count = (uint32_t)_i / 4;
    for (int number = 0; number < 729; number++) {
        dfm_pmx_write_options options = combination(number);
        const char *difference = trip(&odd, &options);
        ck_assert_msg(difference == NULL, "combination %d: %s", number, difference);
    }
}
END_TEST

START_TEST(every_generated_model_survives) {
    dfm_pmx figure = model_figure(&arena), legs = model_legs440(&arena);
    grid_options options = grid_default_options(5000, 300);
    options.qdef = 10;
    options.morph_count = 3;
    options.additional_uv_count = 2;
    options.shuffled = true;
    dfm_pmx grid = model_grid(&arena, &options);
    expect_same(&figure, NULL);
    expect_same(&legs, NULL);
    expect_same(&grid, NULL);
    figure.encoding = DFM_TEXT_UTF8;
    expect_same(&figure, NULL);
}
END_TEST

START_TEST(an_empty_document_survives) {
    dfm_pmx empty = {.version = 2.0f};
    empty.name = empty.name_en = empty.comment = empty.comment_en = model_text("");
    expect_same(&empty, NULL);
    empty.version = 2.1f;
    empty.encoding = DFM_TEXT_UTF8;
    expect_same(&empty, NULL);
}
END_TEST

START_TEST(the_smallest_index_size_that_holds_the_count_is_chosen) {
    static const struct {
        uint32_t vertices, bones;
        uint8_t vertex_size, bone_size;
    } cases[] = {{255, 127, 1, 1}, {256, 128, 2, 2}, {65535, 32767, 2, 2}, {65536, 32768, 4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        grid_options options = grid_default_options(cases[i].vertices, cases[i].bones);
        dfm_pmx grid = model_grid(&arena, &options);
        size_t size;
        uint8_t *bytes = model_bytes(&grid, NULL, &size);
        ck_assert_uint_eq(bytes[11], cases[i].vertex_size);
        ck_assert_uint_eq(bytes[14], cases[i].bone_size);
        free(bytes);
        expect_same(&grid, NULL);
    }
}
END_TEST

START_TEST(empty_sections_follow_the_morphs) {
    for (int i = 0; i < 2; i++) {
        dfm_pmx odd = model_odd(&arena, i ? 2.1f : 2.0f, DFM_TEXT_UTF8);
        size_t size;
        uint8_t *bytes = model_bytes(&odd, NULL, &size);
        pmx_map map = pmx_map_make(bytes, size);
        size_t end = map.section_end[PMX_SECTION_COUNT - 1];
        ck_assert_uint_eq(size - end, i ? 16 : 12); /* soft bodies are 2.1's */
        for (size_t at = end; at < size; at++)
            ck_assert_uint_eq(bytes[at], 0);
        pmx_map_free(&map);
        free(bytes);
    }
}
END_TEST

/* --- refusals ----------------------------------------------------------------------------- */

static void expect_refused(const dfm_pmx *pmx, const dfm_pmx_write_options *options,
                           const char *section, int64_t item) {
    uint8_t *bytes = (uint8_t *)1;
    size_t size = 1;
    dfm_error_clear(&error);
    ck_assert_int_eq(dfm_pmx_write(pmx, options, &bytes, &size, &error), DFM_ERROR_ARGUMENT);
    ck_assert_ptr_null(bytes);
    ck_assert_uint_eq(size, 0);
    ck_assert_str_eq(error.section, section);
    ck_assert_int_eq(error.item, item);
}

START_TEST(what_version_2_0_has_not_is_refused) {
    dfm_pmx odd = model_odd(&arena, 2.1f, DFM_TEXT_UTF8);
    odd.version = 2.0f;
    expect_refused(&odd, NULL, "vertices", 4); /* QDEF */
    for (uint32_t i = 0; i < odd.vertices.count; i++) {
        if (odd.vertices.weight_type[i] == DFM_WEIGHT_QDEF)
            odd.vertices.weight_type[i] = DFM_WEIGHT_BDEF4;
    }
    expect_refused(&odd, NULL, "morphs", 13); /* flip */
    odd.morphs[13].type = DFM_MORPH_GROUP;
    expect_refused(&odd, NULL, "morphs", 14); /* impulse */
    odd.morph_count = 14;
    expect_same(&odd, NULL);
}
END_TEST

START_TEST(an_index_that_its_size_cannot_hold_is_refused) {
    dfm_pmx odd = model_odd(&arena, 2.1f, DFM_TEXT_UTF8);
    odd.bones[4].parent = 128;
    expect_refused(&odd, NULL, "bones", 4);
    expect_same(&odd, &(dfm_pmx_write_options){.bone_index_size = 2});
    odd.bones[4].parent = -129;
    expect_refused(&odd, NULL, "bones", 4);
    odd.bones[4].parent = -128;
    odd.morphs[0].offsets.vertices[3].vertex = 65536;
    expect_refused(&odd, NULL, "morphs", 0);
    expect_refused(&odd, &(dfm_pmx_write_options){.vertex_index_size = 2}, "morphs", 0);
    expect_same(&odd, &(dfm_pmx_write_options){.vertex_index_size = 4});
}
END_TEST

START_TEST(what_is_no_document_is_refused) {
    dfm_pmx odd = model_odd(&arena, 2.1f, DFM_TEXT_UTF16LE);
    expect_refused(&odd, &(dfm_pmx_write_options){.morph_index_size = 3}, "header", -1);
    odd.version = 2.2f;
    expect_refused(&odd, NULL, "header", -1);
    odd.version = 2.1f;
    odd.bones[5].name_en = (dfm_text){.data = "\xC3", .length = 1};
    expect_refused(&odd, NULL, "bones", 5);
    odd.encoding = DFM_TEXT_UTF8;
    expect_refused(&odd, NULL, "bones", 5);
    odd.bones[5].name_en = model_text("");
    odd.vertices.weight_type[6] = 5;
    expect_refused(&odd, NULL, "vertices", 6);
    odd.vertices.weight_type[6] = DFM_WEIGHT_BDEF2;
    odd.morphs[3].type = DFM_MORPH_TYPE_COUNT;
    expect_refused(&odd, NULL, "morphs", 3);
}
END_TEST

/* --- real models -------------------------------------------------------------------------- */

static const char *trip_file(const char *path) {
    size_t size;
    uint8_t *bytes = real_read_file(path, &size);
    dfm_arena read_arena = {0};
    dfm_warnings warnings = {0};
    dfm_pmx pmx;
    const char *difference = NULL;
    dfm_pmx_write_options four = {.vertex_index_size = 4, .bone_index_size = 4};
    if (dfm_pmx_read(bytes, size, &dfm_pmx_default_limits, &read_arena, &warnings, &pmx, &error) !=
        DFM_OK) {
        difference = error.info;
    } else {
        pmx.version = 2.1f; /* one of them has QDEF in 2.0 */
        difference = trip(&pmx, &four);
    }
    dfm_arena_free(&read_arena);
    free(bytes);
    return difference;
}

START_TEST(every_real_model_survives) {
    real_models models = real_models_find("real models written and read again");
    for (size_t i = 0; i < models.count; i++) {
        if (real_is(models.paths[i], "joint_orient_test.pmx"))
            continue;
        const char *difference = trip_file(models.paths[i]);
        ck_assert_msg(difference == NULL, "%s: %s", models.paths[i], difference);
    }
    real_models_free(&models);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pmx_write");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_document_survives_every_combination_of_index_sizes, 0, 20);
    tcase_add_test(tests, every_generated_model_survives);
    tcase_add_test(tests, an_empty_document_survives);
    tcase_add_test(tests, the_smallest_index_size_that_holds_the_count_is_chosen);
    tcase_add_test(tests, empty_sections_follow_the_morphs);
    tcase_add_test(tests, what_version_2_0_has_not_is_refused);
    tcase_add_test(tests, an_index_that_its_size_cannot_hold_is_refused);
    tcase_add_test(tests, what_is_no_document_is_refused);
    tcase_add_test(tests, every_real_model_survives);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
