/* Deformed vertices against two references: the numbers under $DEFORMD_TEST_DATA/reference, kind
 * "pose" (README there), and the double-precision reference in tests/reference, for generated and
 * public models in random poses. On every backend. */
#include "tests/data/build.h"
#include "tests/data/models.h"
#include "tests/data/real.h"
#include "tests/support_skin.h"

#include <check.h>
#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static dfm_skinner *skinner;
static dfm_arena arena;

static void setup(void) {
    skinner = NULL;
    arena = (dfm_arena){0};
}

static void teardown(void) {
    dfm_skinner_close(skinner);
    dfm_arena_free(&arena);
}

/* --- cases of ../shared/reference ------------------------------------------------------------ */

static const char *test_data(void) {
    const char *folder = getenv("DEFORMD_TEST_DATA");
    return folder ? folder : "../shared";
}

static int32_t index_of(const char *name, const dfm_names *names, uint32_t count) {
    int32_t index =
        name[0] == '#' ? atoi(name + 1) : dfm_names_find(names, name, (uint32_t)strlen(name));
    ck_assert_msg(index >= 0 && (uint32_t)index < count, "the case names no %s", name);
    return index;
}

static void take_numbers(const cJSON *array, double *numbers, int count) {
    for (int i = 0; array && i < count; i++)
        numbers[i] = cJSON_GetArrayItem(array, i)->valuedouble;
}

static void take_pose(const cJSON *json, const dfm_model *model, dfm_pose *pose) {
    ck_assert(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(json, "ik")));
    memset(pose->ik_off, 1, pose->bone_count);
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "bones")) {
        dfm_bone_pose *bone =
            &pose->bones[index_of(item->string, &model->bone_names, pose->bone_count)];
        take_numbers(cJSON_GetObjectItemCaseSensitive(item, "rotation"), bone->rotation, 4);
        take_numbers(cJSON_GetObjectItemCaseSensitive(item, "translation"), bone->translation, 3);
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "morphs")) {
        int32_t morph = index_of(item->string, &model->morph_names, pose->morph_count);
        pose->morph_weights[morph] = item->valuedouble;
    }
}

/* Largest distances from the numbers of the case. */
static void measure(const skin_model *m, const float *expected, double *dp, double *dn) {
    *dp = *dn = 0;
    for (uint32_t i = 0; i < m->bind->vertex_count; i++) {
        double p2 = 0, n2 = 0;
        for (int k = 0; k < 3; k++) {
            p2 += pow((double)m->frame[i][k] - (double)expected[6 * i + (uint32_t)k], 2);
            n2 += pow((double)m->frame[i][3 + k] - (double)expected[6 * i + (uint32_t)k + 3], 2);
        }
        *dp = fmax(*dp, sqrt(p2));
        *dn = fmax(*dn, sqrt(n2));
    }
}

static double number_of(const cJSON *json, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    ck_assert_msg(cJSON_IsNumber(item), "case.json has no %s", key);
    return item->valuedouble;
}

/* How many vertices are out of tolerance: 0 or 1. */
static bool run_pose_case(const char *folder, const char *name, const cJSON *json) {
    char path[1024];
    size_t size;
    snprintf(path, sizeof path, "%s/models/%s", test_data(),
             cJSON_GetObjectItemCaseSensitive(json, "model")->valuestring);
    uint8_t *bytes = real_read_file(path, &size);
    dfm_pmx pmx;
    dfm_warnings warnings = {0};
    ck_assert_int_eq(
        dfm_pmx_read(bytes, size, &dfm_pmx_default_limits, &arena, &warnings, &pmx, NULL), DFM_OK);
    free(bytes);

    skin_model m;
    skin_model_open(&m, skinner, &pmx, DFM_WEIGHTS_NORMALIZED, true);
    take_pose(cJSON_GetObjectItemCaseSensitive(json, "pose"), m.model, &m.workspace.pose);
    skin_model_deform(&m);
    snprintf(path, sizeof path, "%.900s/expected.f32", folder);
    uint8_t *expected = real_read_file(path, &size);
    ck_assert_uint_eq(size, m.layout.frame_bytes);
    double dp, dn;
    measure(&m, (const float *)(void *)expected, &dp, &dn);
    skin_difference own = {0};
    skin_compare_reference(&own, name, &m, (reference_settings){0});
    printf("cases: %-22s %-6s %6u vertices: |dp| %.2g of %.2g, |dn| %.2g of %.2g; against double "
           "%.2g of 1e-05\n",
           name, skin_backend_name(skinner), m.bind->vertex_count, dp, number_of(json, "dp"), dn,
           number_of(json, "dn"), own.position);
    free(expected);
    skin_model_close(&m);
    return dp <= number_of(json, "dp") && dn <= number_of(json, "dn") && own.failures == 0;
}

/* -1: not a case of this kind; else whether it is within tolerance. */
static int run_folder(const char *folder, const char *name) {
    char path[1024];
    size_t size;
    snprintf(path, sizeof path, "%.900s/case.json", folder);
    if (access(path, R_OK) != 0)
        return -1;
    uint8_t *bytes = real_read_file(path, &size);
    cJSON *json = cJSON_ParseWithLength((const char *)bytes, size);
    free(bytes);
    ck_assert_msg(json != NULL, "%s is no JSON", path);
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "kind"));
    int result = strcmp(kind, "pose") == 0 ? run_pose_case(folder, name, json) : -1;
    cJSON_Delete(json);
    return result;
}

START_TEST(the_numbers_of_the_reference_come_out) {
    char path[512];
    snprintf(path, sizeof path, "%.400s/reference", test_data());
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) {
        printf("SKIPPED: the reference cases of kind pose (no %s)\n", path);
        return;
    }
    skinner = skin_open_backend(_i, "reference cases of kind pose");
    int ran = 0, passed = 0;
    for (int i = 0; i < count; i++) {
        char folder[1024];
        snprintf(folder, sizeof folder, "%s/%s", path, entries[i]->d_name);
        int result =
            skinner && entries[i]->d_name[0] != '.' ? run_folder(folder, entries[i]->d_name) : -1;
        ran += result >= 0;
        passed += result == 1;
        free(entries[i]);
    }
    free(entries);
    if (!skinner)
        return;
    printf("cases: %d of %d poses pass on %s\n", passed, ran, skin_backend_name(skinner));
    fflush(stdout);
    ck_assert_int_gt(ran, 0);
    ck_assert_int_eq(passed, ran);
}
END_TEST

/* --- the reference in tests/reference -------------------------------------------------------- */

typedef struct sweep {
    skin_difference sum;
    uint32_t models;
    dfm_weights_mode weights;
    bool sdef;
} sweep;

static void compare_document(const char *name, dfm_pmx *pmx, void *context) {
    sweep *s = context;
    reference_settings settings = {.raw = s->weights == DFM_WEIGHTS_RAW, .sdef_off = !s->sdef};
    skin_model m;
    skin_model_open(&m, skinner, pmx, s->weights, s->sdef);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        skin_pose_random(&m.workspace.pose, seed, seed == 3 ? 160 : 50, seed > 1);
        skin_model_deform(&m);
        skin_compare_reference(&s->sum, name, &m, settings);
    }
    skin_model_close(&m);
    s->models++;
}

static void sweep_models(int backend, dfm_weights_mode weights, bool sdef) {
    skinner = skin_open_backend(backend, "comparison with the double-precision reference");
    if (!skinner)
        return;
    sweep s = {.weights = weights, .sdef = sdef};
    skin_each_document("public models against the double-precision reference", compare_document,
                       &s);
    printf("cases: %u models, 3 poses each, %s weights, sdef %s, on %s: |dp| %.2g, |dn| %.2g over "
           "%llu vertices, %llu left out\n",
           s.models, weights == DFM_WEIGHTS_RAW ? "raw" : "normalized", sdef ? "on" : "off",
           skin_backend_name(skinner), s.sum.position, s.sum.normal,
           (unsigned long long)s.sum.vertices, (unsigned long long)s.sum.undecided);
    fflush(stdout);
    ck_assert_uint_eq(s.sum.failures, 0);
    ck_assert_uint_lt(s.sum.undecided * 50, s.sum.vertices);
}

START_TEST(random_poses_agree_with_double_precision) {
    sweep_models(_i, DFM_WEIGHTS_NORMALIZED, true);
}
END_TEST

START_TEST(random_poses_with_raw_weights_agree_with_double_precision) {
    sweep_models(_i, DFM_WEIGHTS_RAW, true);
}
END_TEST

START_TEST(random_poses_without_sdef_agree_with_double_precision) {
    sweep_models(_i, DFM_WEIGHTS_NORMALIZED, false);
}
END_TEST

/* --- matrices that are more than rigid motions ------------------------------------------------ */

/* out = m with its three columns stretched and sheared along the bone's own axes. The determinant
 * stays positive. */
static void stretch(double out[12], const double m[12], uint64_t *random) {
    double s[3][3] = {{0}};
    for (int k = 0; k < 3; k++)
        s[k][k] = 0.3 + 2 * (double)random_unit(random);
    s[0][1] = (double)random_unit(random) - 0.5;
    s[1][2] = (double)random_unit(random) - 0.5;
    for (int r = 0; r < 3; r++) {
        out[4 * r + 3] = m[4 * r + 3];
        for (int c = 0; c < 3; c++)
            out[4 * r + c] = m[4 * r] * s[0][c] + m[4 * r + 1] * s[1][c] + m[4 * r + 2] * s[2][c];
    }
}

static void pose_by_matrices(dfm_pose *pose, const dfm_pmx *pmx, uint64_t seed) {
    skin_pose_random(pose, seed, 100, true);
    double *weights = reference_weights(pmx, pose);
    double(*globals)[12] = reference_globals(pmx, pose, weights);
    for (uint32_t i = 0; i < pose->bone_count; i++)
        stretch(pose->matrices[i], globals[i], &seed);
    pose->has_matrices = true;
    free(globals);
    free(weights);
}

static void compare_stretched(const char *name, dfm_pmx *pmx, void *context) {
    sweep *s = context;
    skin_model m;
    skin_model_open(&m, skinner, pmx, DFM_WEIGHTS_NORMALIZED, true);
    pose_by_matrices(&m.workspace.pose, pmx, 11);
    skin_model_deform(&m);
    skin_compare_reference(&s->sum, name, &m, (reference_settings){0});
    skin_model_close(&m);
    s->models++;
}

/* Normals go by the 3x3 as given, SDEF and QDEF by the rotation in it. */
START_TEST(matrices_with_scale_and_shear_agree_with_double_precision) {
    skinner = skin_open_backend(_i, "matrices with scale and shear");
    if (!skinner)
        return;
    sweep s = {0};
    skin_each_document("matrices on public models", compare_stretched, &s);
    printf("cases: %u models by stretched matrices on %s: |dp| %.2g, |dn| %.2g over %llu vertices, "
           "%llu left out\n",
           s.models, skin_backend_name(skinner), s.sum.position, s.sum.normal,
           (unsigned long long)s.sum.vertices, (unsigned long long)s.sum.undecided);
    fflush(stdout);
    ck_assert_uint_eq(s.sum.failures, 0);
    ck_assert_uint_lt(s.sum.undecided * 50, s.sum.vertices);
}
END_TEST

/* --- QDEF without a rotation ------------------------------------------------------------------ */

/* Weights of 1/2 and -1/2 on bones that turn alike leave a dual quaternion of no length. */
START_TEST(qdef_that_cancels_out_is_linear) {
    skinner = skin_open_backend(_i, "QDEF that cancels out");
    if (!skinner)
        return;
    builder_capacity capacity = {.vertices = 1, .bones = 2};
    struct builder builder = build_begin(&arena, 2.1f, DFM_TEXT_UTF8, &capacity);
    for (int i = 0; i < 2; i++)
        build_add_bone(&builder, "bone", "bone", (const float[3]){0}, -1);
    build_add_vertex(&builder, &(build_vertex){.position = {7, 8, 9},
                                               .normal = {0, 1, 0},
                                               .type = DFM_WEIGHT_QDEF,
                                               .bone = {0, 1, -1, -1},
                                               .weight = {.5f, -.5f}});
    skin_model m;
    skin_model_open(&m, skinner, &builder.pmx, DFM_WEIGHTS_RAW, true);
    m.workspace.pose.bones[0].translation[0] = 2;
    m.workspace.pose.bones[1].translation[1] = 4;
    skin_model_deform(&m);
    const float expected[6] = {1, -2, 0, 0, 0, 0}; /* half the way from one bone to the other */
    for (int k = 0; k < 6; k++)
        ck_assert_float_eq_tol(m.frame[0][k], expected[k], 1e-6f);
    skin_model_close(&m);
}
END_TEST

/* --- UV morphs ------------------------------------------------------------------------------- */

START_TEST(uv_morphs_agree_with_double_precision) {
    skinner = skin_open_backend(0, "UV morphs");
    dfm_pmx pmx = model_odd(&arena, 2.1f, DFM_TEXT_UTF8);
    skin_model m;
    skin_model_open(&m, skinner, &pmx, DFM_WEIGHTS_NORMALIZED, true);
    dfm_layout layout = {.component = DFM_COMPONENT_F32, .attribute_count = 5};
    for (uint32_t set = 0; set < 5; set++)
        layout.attributes[set] = (dfm_attribute)(DFM_ATTRIBUTE_UV + set);
    dfm_layout_finish(&layout, pmx.vertices.count);
    float *frame = malloc(layout.frame_bytes);
    dfm_deform_target target = {m.model, m.bind, m.skinner, m.binding};
    dfm_deform_times times = {0};
    uint32_t moved = 0;
    double worst = 0;
    for (uint64_t seed = 1; seed < 20; seed++) {
        skin_pose_random(&m.workspace.pose, seed, 0, true);
        for (uint32_t i = 0; i < pmx.morph_count; i++) {
            if (pmx.morphs[i].type == DFM_MORPH_FLIP || pmx.morphs[i].type == DFM_MORPH_GROUP)
                m.workspace.pose.morph_weights[i] = 0; /* see reference_expands */
        }
        ck_assert_int_eq(dfm_deform(&target, &m.workspace, 0, &layout, frame, &times, NULL),
                         DFM_OK);
        double *weights = reference_weights(&m.model->pmx, &m.workspace.pose);
        for (uint32_t set = 0; set < 5; set++) {
            double(*uv)[4] = reference_uvs(&m.model->pmx, weights, set);
            for (uint32_t v = 0; v < pmx.vertices.count; v++) {
                const float *got = frame + (layout.stride_bytes * v + layout.offset_bytes[set]) / 4;
                const float *bind =
                    dfm_layout_source(&m.model->pmx.vertices, layout.attributes[set]);
                for (uint32_t k = 0; k < (set ? 4 : 2); k++) {
                    worst = fmax(worst, fabs((double)got[k] - uv[v][k]));
                    moved += got[k] != bind[v * (set ? 4 : 2) + k];
                }
            }
            free(uv);
        }
        free(weights);
    }
    free(frame);
    skin_model_close(&m);
    ck_assert_double_le(worst, 1e-5);
    ck_assert_uint_gt(moved, 50);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("deform reference");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, the_numbers_of_the_reference_come_out, 0, skin_backend_count());
    tcase_add_loop_test(tests, random_poses_agree_with_double_precision, 0, skin_backend_count());
    tcase_add_loop_test(tests, random_poses_with_raw_weights_agree_with_double_precision, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, random_poses_without_sdef_agree_with_double_precision, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, matrices_with_scale_and_shear_agree_with_double_precision, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, qdef_that_cancels_out_is_linear, 0, skin_backend_count());
    tcase_add_test(tests, uv_morphs_agree_with_double_precision);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
