/* The generated models are what their header says: other tests and the demo build on it. */
#include "core/pmx.h"
#include "tests/data/build.h"
#include "tests/data/models.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static dfm_arena arena;

static void setup(void) {
    arena = (dfm_arena){0};
}

static void teardown(void) {
    dfm_arena_free(&arena);
}

static int32_t find_bone(const dfm_pmx *pmx, const char *name) {
    for (uint32_t i = 0; i < pmx->bone_count; i++) {
        if (strcmp(pmx->bones[i].name.data, name) == 0)
            return (int32_t)i;
    }
    return -1;
}

static void count_types(const dfm_pmx *pmx, uint32_t counts[DFM_WEIGHT_TYPE_COUNT]) {
    memset(counts, 0, DFM_WEIGHT_TYPE_COUNT * sizeof *counts);
    for (uint32_t i = 0; i < pmx->vertices.count; i++)
        counts[pmx->vertices.weight_type[i]]++;
}

/* --- figure ------------------------------------------------------------------------------- */

static int compare_edges(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

START_TEST(the_figures_surface_is_closed) {
    dfm_pmx figure = model_figure(&arena);
    uint64_t *edges = calloc(2 * figure.index_count, sizeof *edges);
    for (uint32_t i = 0; i < figure.index_count; i++) {
        uint64_t from = figure.indices[i], to = figure.indices[i % 3 == 2 ? i - 2 : i + 1];
        ck_assert_uint_ne(from, to);
        edges[2 * i] = from << 33 | to << 1;         /* this edge ... */
        edges[2 * i + 1] = to << 33 | from << 1 | 1; /* ... and the one that must be there too */
    }
    qsort(edges, 2 * figure.index_count, sizeof *edges, compare_edges);
    uint32_t open = 0;
    for (uint32_t i = 0; i < 2 * figure.index_count; i += 2)
        open += edges[i] + 1 != edges[i + 1];
    ck_assert_uint_eq(open, 0);
    free(edges);
}
END_TEST

/* Six times the volume that a triangle spans with the origin: positive outward. */
static double volume(const dfm_pmx *pmx, const uint32_t *triangle) {
    const float *a = pmx->vertices.position[triangle[0]], *b = pmx->vertices.position[triangle[1]];
    const float *c = pmx->vertices.position[triangle[2]];
    return (double)a[0] * (b[1] * c[2] - b[2] * c[1]) + (double)a[1] * (b[2] * c[0] - b[0] * c[2]) +
           (double)a[2] * (b[0] * c[1] - b[1] * c[0]);
}

static double along_normal(const dfm_pmx *pmx, const uint32_t *triangle) {
    const float *a = pmx->vertices.position[triangle[0]], *n = pmx->vertices.normal[triangle[0]];
    const float *b = pmx->vertices.position[triangle[1]], *c = pmx->vertices.position[triangle[2]];
    double u[3], v[3];
    for (int k = 0; k < 3; k++) {
        u[k] = b[k] - a[k];
        v[k] = c[k] - a[k];
    }
    return n[0] * (u[1] * v[2] - u[2] * v[1]) + n[1] * (u[2] * v[0] - u[0] * v[2]) +
           n[2] * (u[0] * v[1] - u[1] * v[0]);
}

START_TEST(the_figures_triangles_turn_clockwise_and_its_normals_point_outward) {
    dfm_pmx figure = model_figure(&arena);
    uint32_t first = 0;
    for (uint32_t m = 0; m < figure.material_count; m++) {
        double sum = 0;
        for (uint32_t i = first; i < first + figure.materials[m].index_count; i += 3)
            sum += volume(&figure, figure.indices + i);
        ck_assert_msg(sum > 0, "%s is inside out", figure.materials[m].name_en.data);
        first += figure.materials[m].index_count;
    }
    ck_assert_uint_eq(first, figure.index_count);
    uint32_t inward = 0;
    for (uint32_t i = 0; i < figure.index_count; i += 3)
        inward += !(along_normal(&figure, figure.indices + i) > 0);
    ck_assert_uint_eq(inward, 0);
    for (uint32_t i = 0; i < figure.vertices.count; i++) {
        const float *n = figure.vertices.normal[i];
        ck_assert_float_eq_tol(n[0] * n[0] + n[1] * n[1] + n[2] * n[2], 1, 1e-5f);
    }
}
END_TEST

START_TEST(the_figure_stands_upright_and_faces_minus_z) {
    dfm_pmx figure = model_figure(&arena);
    float low = 1e9f, high = -1e9f;
    for (uint32_t i = 0; i < figure.vertices.count; i++) {
        low = fminf(low, figure.vertices.position[i][1]);
        high = fmaxf(high, figure.vertices.position[i][1]);
    }
    ck_assert_float_eq_tol(low, 0, 0.1f);
    ck_assert_float_eq_tol(high, 20, 0.5f);
    ck_assert_float_gt(figure.bones[find_bone(&figure, "左腕")].position[0], 0);
    ck_assert_float_lt(figure.bones[find_bone(&figure, "左つま先")].position[2],
                       figure.bones[find_bone(&figure, "左足首")].position[2]);
    ck_assert_float_lt(figure.bones[find_bone(&figure, "左目")].position[2], 0);
}
END_TEST

START_TEST(the_figure_has_every_weight_type_and_clean_weights) {
    dfm_pmx figure = model_figure(&arena);
    uint32_t counts[DFM_WEIGHT_TYPE_COUNT];
    count_types(&figure, counts);
    ck_assert_uint_ge(figure.vertices.count, 2000);
    ck_assert_uint_le(figure.vertices.count, 6000);
    for (int type = 0; type < DFM_WEIGHT_TYPE_COUNT; type++)
        ck_assert_uint_ge(counts[type], 100);
    for (uint32_t i = 0; i < figure.vertices.count; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++) {
            sum += figure.vertices.weight[i][k];
            ck_assert_int_lt(figure.vertices.bone[i][k], (int)figure.bone_count);
            if (figure.vertices.weight[i][k] != 0)
                ck_assert_int_ge(figure.vertices.bone[i][k], 0);
        }
        ck_assert_float_eq_tol(sum, 1, 1e-5f);
    }
}
END_TEST

START_TEST(the_figure_has_the_standard_bones) {
    static const char *const names[] = {
        "全ての親", "センター",     "グルーブ", "上半身",   "上半身2", "首",
        "頭",       "下半身",       "左肩",     "左腕",     "左ひじ",  "左手首",
        "左足",     "左ひざ",       "両目",     "左目",     "左足首",  "左足ＩＫ",
        "左足D",    "左つま先ＩＫ", "右腕",     "右足ＩＫ", "右目",    "右足先EX"};
    dfm_pmx figure = model_figure(&arena);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(find_bone(&figure, names[i]) >= 0, "%s", names[i]);
    for (uint32_t i = 0; i < figure.bone_count; i++) {
        ck_assert_int_eq(find_bone(&figure, figure.bones[i].name.data), (int)i);
        ck_assert_uint_gt(figure.bones[i].name_en.length, 0);
    }
    const dfm_pmx_bone *ik = &figure.bones[find_bone(&figure, "右足ＩＫ")];
    ck_assert_int_eq(ik->ik_target, find_bone(&figure, "右足首"));
    ck_assert_uint_eq(ik->ik_link_count, 2);
    ck_assert_int_eq(ik->ik_links[0].bone, find_bone(&figure, "右ひざ"));
    ck_assert_uint_eq(ik->ik_links[0].has_limits, 1);
}
END_TEST

START_TEST(the_figure_has_every_kind_of_morph) {
    dfm_pmx figure = model_figure(&arena);
    bool seen[DFM_MORPH_TYPE_COUNT] = {false};
    for (uint32_t i = 0; i < figure.morph_count; i++) {
        seen[figure.morphs[i].type] = true;
        ck_assert_uint_gt(figure.morphs[i].count, 0);
    }
    for (int type = 0; type < DFM_MORPH_TYPE_COUNT; type++)
        ck_assert(seen[type] || (type > DFM_MORPH_UV1 && type <= DFM_MORPH_UV4));
}
END_TEST

/* --- the others --------------------------------------------------------------------------- */

START_TEST(a_grid_has_the_mix_that_is_asked_for) {
    uint32_t counts[DFM_WEIGHT_TYPE_COUNT];
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        grid_options options = grid_default_options(10000, 95);
        options.qdef = 5;
        options.shuffled = shuffled;
        dfm_pmx grid = model_grid(&arena, &options);
        const uint32_t expected[] = {3000, 4000, 1500, 1000, 500};
        count_types(&grid, counts);
        ck_assert_uint_eq(grid.vertices.count, 10000);
        ck_assert_uint_eq(grid.bone_count, 95);
        for (int type = 0; type < DFM_WEIGHT_TYPE_COUNT; type++)
            ck_assert_int_le(abs((int)counts[type] - (int)expected[type]), shuffled ? 200 : 0);
    }
}
END_TEST

START_TEST(a_grid_is_the_same_each_time) {
    grid_options options = grid_default_options(500, 20);
    options.shuffled = true;
    options.morph_count = 2;
    size_t sizes[2];
    uint8_t *bytes[2];
    for (int i = 0; i < 2; i++) {
        dfm_pmx grid = model_grid(&arena, &options);
        bytes[i] = model_bytes(&grid, NULL, &sizes[i]);
    }
    ck_assert_uint_eq(sizes[0], sizes[1]);
    ck_assert_mem_eq(bytes[0], bytes[1], sizes[0]);
    free(bytes[0]);
    free(bytes[1]);
}
END_TEST

START_TEST(small_grids_are_whole) {
    for (uint32_t count = 0; count < 20; count++) {
        grid_options options = grid_default_options(count, 1);
        dfm_pmx grid = model_grid(&arena, &options);
        ck_assert_uint_eq(grid.vertices.count, count);
        for (uint32_t i = 0; i < grid.index_count; i++)
            ck_assert_uint_lt(grid.indices[i], count);
    }
}
END_TEST

START_TEST(the_odd_model_is_small_and_has_everything) {
    uint32_t counts[DFM_WEIGHT_TYPE_COUNT];
    dfm_pmx odd = model_odd(&arena, 2.1f, DFM_TEXT_UTF16LE);
    size_t size;
    free(model_bytes(&odd, &(dfm_pmx_write_options){4, 4, 4, 4, 4, 4}, &size));
    ck_assert_uint_lt(size, 20 * 1024);
    count_types(&odd, counts);
    for (int type = 0; type < DFM_WEIGHT_TYPE_COUNT; type++)
        ck_assert_uint_gt(counts[type], 0);
    uint32_t flags = 0, morphs = 0;
    for (uint32_t i = 0; i < odd.bone_count; i++)
        flags |= odd.bones[i].flags;
    for (uint32_t i = 0; i < odd.morph_count; i++)
        morphs |= 1u << odd.morphs[i].type;
    ck_assert_uint_eq(flags, 0x3FBF);
    ck_assert_uint_eq(morphs, (1u << DFM_MORPH_TYPE_COUNT) - 1);
}
END_TEST

START_TEST(the_rig_of_440_bones_has_what_its_name_says) {
    dfm_pmx legs = model_legs440(&arena);
    uint32_t iks = 0, appends = 0;
    for (uint32_t i = 0; i < legs.bone_count; i++) {
        const dfm_pmx_bone *bone = &legs.bones[i];
        iks += (bone->flags & DFM_BONE_IK) != 0;
        appends += (bone->flags & DFM_BONE_APPEND_ROTATION) != 0;
        if (bone->flags & DFM_BONE_IK) {
            ck_assert_int_eq(bone->ik_loop_count, 40);
            ck_assert_uint_eq(bone->ik_link_count, 2);
            ck_assert_int_eq(strncmp(legs.bones[bone->ik_target].name.data, "ankle", 5), 0);
        }
        ck_assert_int_lt(bone->parent, (int)i);
    }
    ck_assert_uint_eq(legs.bone_count, 440);
    ck_assert_uint_eq(iks, 4);
    ck_assert_uint_eq(appends, 26);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("models");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_figures_surface_is_closed);
    tcase_add_test(tests, the_figures_triangles_turn_clockwise_and_its_normals_point_outward);
    tcase_add_test(tests, the_figure_stands_upright_and_faces_minus_z);
    tcase_add_test(tests, the_figure_has_every_weight_type_and_clean_weights);
    tcase_add_test(tests, the_figure_has_the_standard_bones);
    tcase_add_test(tests, the_figure_has_every_kind_of_morph);
    tcase_add_test(tests, a_grid_has_the_mix_that_is_asked_for);
    tcase_add_test(tests, a_grid_is_the_same_each_time);
    tcase_add_test(tests, small_grids_are_whole);
    tcase_add_test(tests, the_odd_model_is_small_and_has_everything);
    tcase_add_test(tests, the_rig_of_440_bones_has_what_its_name_says);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
