/* Jobs and workspaces: what a skinner accepts, that results do not depend on what came before, and
 * where morphs go. On every backend. */
#include "tests/data/build.h"
#include "tests/data/models.h"
#include "tests/support_skin.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static dfm_skinner *skinner;
static dfm_arena arena;
static skin_model model;

static void setup(void) {
    skinner = NULL;
    arena = (dfm_arena){0};
    model = (skin_model){0};
}

static void teardown(void) {
    if (model.model)
        skin_model_close(&model);
    dfm_skinner_close(skinner);
    dfm_arena_free(&arena);
}

static bool open_odd(int backend, const char *what) {
    skinner = skin_open_backend(backend, what);
    if (!skinner)
        return false;
    dfm_pmx pmx = model_odd(&arena, 2.1f, DFM_TEXT_UTF8);
    skin_model_open(&model, skinner, &pmx, DFM_WEIGHTS_NORMALIZED, true);
    return true;
}

/* --- what is accepted ------------------------------------------------------------------------ */

static dfm_skin_job whole_job(void) {
    return (dfm_skin_job){.palette = model.workspace.palette,
                          .rotations = model.workspace.rotations,
                          .duals = model.workspace.duals,
                          .component = DFM_COMPONENT_F32,
                          .position = {model.frame, 24},
                          .normal = {model.frame[0] + 3, 24}};
}

static dfm_status run(const dfm_skin_job *job, uint32_t worker) {
    dfm_error error = {0};
    dfm_status status = dfm_skinner_run(skinner, model.binding, worker, job, 1, &error);
    ck_assert_int_eq(error.status, status);
    ck_assert(status == DFM_OK || strlen(error.info) > 0);
    return status;
}

START_TEST(a_job_that_is_not_whole_is_refused) {
    if (!open_odd(_i, "refused jobs"))
        return;
    skin_model_deform(&model);
    dfm_skin_job good = whole_job(), job = good;
    ck_assert_int_eq(run(&good, 0), DFM_OK);
    ck_assert_int_eq(run(&good, 1), DFM_OK);
    ck_assert_int_eq(run(&good, 2), DFM_ERROR_ARGUMENT);
    job.palette = NULL;
    ck_assert_int_eq(run(&job, 0), DFM_ERROR_ARGUMENT);
    job = good, job.rotations = NULL;
    ck_assert_int_eq(run(&job, 0), DFM_ERROR_ARGUMENT);
    job = good, job.duals = NULL;
    ck_assert_int_eq(run(&job, 0), DFM_ERROR_ARGUMENT);
    job = good, job.position.stride_bytes = 11;
    ck_assert_int_eq(run(&job, 0), DFM_ERROR_ARGUMENT);
    job = good, job.normal.stride_bytes = 11;
    ck_assert_int_eq(run(&job, 0), DFM_ERROR_ARGUMENT);
    job = good, job.component = DFM_COMPONENT_F16, job.normal.stride_bytes = 5;
    ck_assert_int_eq(run(&job, 0), DFM_ERROR_ARGUMENT);
    job = good, job.component = (dfm_component)7;
    ck_assert_int_eq(run(&job, 0), DFM_ERROR_ARGUMENT);
    job = good, job.deltas.touched_count = 1;
    ck_assert_int_eq(run(&job, 0), DFM_ERROR_ARGUMENT);
}
END_TEST

START_TEST(a_job_after_a_wrong_one_in_a_batch_is_not_begun) {
    if (!open_odd(_i, "batches"))
        return;
    skin_model_deform(&model);
    dfm_skin_job jobs[2] = {whole_job(), whole_job()};
    jobs[1].palette = NULL;
    memset(model.frame, 0x55, model.layout.frame_bytes);
    ck_assert_int_eq(dfm_skinner_run(skinner, model.binding, 0, jobs, 2, NULL), DFM_ERROR_ARGUMENT);
    const uint8_t *bytes = (const uint8_t *)model.frame;
    for (size_t i = 0; i < model.layout.frame_bytes; i++)
        ck_assert_uint_eq(bytes[i], 0x55);
}
END_TEST

START_TEST(an_output_that_is_not_wanted_is_not_written) {
    if (!open_odd(_i, "single outputs"))
        return;
    skin_model_deform(&model);
    size_t count = model.bind->vertex_count;
    float(*both)[6] = malloc(count * sizeof *both);
    memcpy(both, model.frame, count * sizeof *both);
    for (int part = 0; part < 2; part++) {
        dfm_skin_job job = whole_job();
        if (part == 0)
            job.normal = (dfm_skin_output){0};
        else
            job.position = (dfm_skin_output){0};
        memset(model.frame, 0x55, model.layout.frame_bytes);
        ck_assert_int_eq(run(&job, 0), DFM_OK);
        int wrong = 0;
        for (size_t i = 0; i < count; i++) {
            wrong += memcmp(model.frame[i] + 3 * part, both[i] + 3 * part, 12) != 0;
            for (int k = 0; k < 12; k++)
                wrong += ((const uint8_t *)(model.frame[i] + 3 * (1 - part)))[k] != 0x55;
        }
        ck_assert_int_eq(wrong, 0);
    }
    free(both);
}
END_TEST

START_TEST(a_skinner_without_workers_does_not_open) {
    dfm_skinner_options options;
    const dfm_skinner_backend *backend = skin_backend(_i, &options);
    dfm_error error = {0};
    options.worker_count = 0;
    ck_assert_int_eq(dfm_skinner_open(backend, &options, &skinner, &error), DFM_ERROR_ARGUMENT);
    ck_assert_ptr_null(skinner);
}
END_TEST

START_TEST(a_cpu_kernel_of_an_unknown_name_does_not_open) {
    const dfm_skinner_options options = {.worker_count = 1, .simd = "abacus"};
    dfm_error error = {0};
    dfm_skinner *none = (dfm_skinner *)1;
    ck_assert_int_eq(dfm_skinner_open(&dfm_skinner_cpu, &options, &none, &error),
                     DFM_ERROR_ARGUMENT);
    ck_assert_ptr_null(none);
    ck_assert_ptr_nonnull(strstr(error.info, "abacus"));
}
END_TEST

START_TEST(a_model_without_vertices_deforms_to_nothing) {
    skinner = skin_open_backend(_i, "no vertices");
    if (!skinner)
        return;
    builder_capacity capacity = {.bones = 1};
    struct builder builder = build_begin(&arena, 2.0f, DFM_TEXT_UTF8, &capacity);
    build_add_bone(&builder, "bone", "bone", (const float[3]){0}, -1);
    skin_model_open(&model, skinner, &builder.pmx, DFM_WEIGHTS_NORMALIZED, true);
    skin_model_deform(&model);
}
END_TEST

START_TEST(a_pose_that_leaves_single_precision_is_the_callers_error) {
    if (!open_odd(_i, "poses out of range"))
        return;
    model.workspace.pose.bones[2].translation[0] = 1e30;
    dfm_deform_target target = {model.model, model.bind, skinner, model.binding};
    dfm_deform_times times = {0};
    dfm_error error = {0};
    ck_assert_int_eq(
        dfm_deform(&target, &model.workspace, 0, &model.layout, model.frame, &times, &error),
        DFM_ERROR_ARGUMENT);
    ck_assert_str_eq(error.section, "pose");
}
END_TEST

/* --- one result for one pose ----------------------------------------------------------------- */

START_TEST(the_same_pose_gives_the_same_bytes_whatever_came_before) {
    if (!open_odd(_i, "repeated poses"))
        return;
    size_t size = model.layout.frame_bytes;
    void *first = malloc(size);
    skin_pose_random(&model.workspace.pose, 1, 60, true);
    skin_model_deform(&model);
    memcpy(first, model.frame, size);
    for (uint64_t seed = 2; seed < 6; seed++) {
        skin_pose_random(&model.workspace.pose, seed, 60, true);
        skin_model_deform(&model);
        ck_assert_int_ne(memcmp(first, model.frame, size), 0);
        skin_pose_random(&model.workspace.pose, 1, 60, true);
        skin_model_deform(&model);
        ck_assert_int_eq(memcmp(first, model.frame, size), 0);
    }
    free(first);
}
END_TEST

START_TEST(a_workspace_serves_one_model_after_another) {
    if (!open_odd(_i, "shared workspaces"))
        return;
    dfm_pmx figure = model_figure(&arena);
    skin_model other;
    skin_model_open(&other, skinner, &figure, DFM_WEIGHTS_NORMALIZED, true);
    size_t size = model.layout.frame_bytes;
    void *expected = malloc(size);
    skin_pose_random(&model.workspace.pose, 1, 60, true);
    skin_model_deform(&model);
    memcpy(expected, model.frame, size);
    /* The odd model once more, in the figure's workspace: larger, and full of its deltas. */
    skin_pose_random(&other.workspace.pose, 2, 60, true);
    skin_model_deform(&other);
    dfm_workspace own = model.workspace;
    model.workspace = other.workspace;
    ck_assert_int_eq(dfm_workspace_reserve(&model.workspace, model.bind, NULL), DFM_OK);
    skin_pose_random(&model.workspace.pose, 1, 60, true);
    skin_model_deform(&model);
    ck_assert_int_eq(memcmp(expected, model.frame, size), 0);
    other.workspace = model.workspace;
    model.workspace = own;
    skin_model_close(&other);
    free(expected);
}
END_TEST

/* --- where morphs go ------------------------------------------------------------------------- */

/* One bone, `count` vertices at the origin, a morph that moves vertex i by (i + 1, 0, 0), and one
 * that moves the first vertex alone. */
static void open_line(uint32_t count) {
    builder_capacity capacity = {.vertices = count, .bones = 1, .morphs = 2};
    struct builder builder = build_begin(&arena, 2.0f, DFM_TEXT_UTF8, &capacity);
    build_add_bone(&builder, "bone", "bone", (const float[3]){0}, -1);
    for (uint32_t i = 0; i < count; i++)
        build_add_vertex(&builder, &(build_vertex){.normal = {0, 1, 0}});
    dfm_pmx_morph *morph = build_add_morph(&builder, "morph", "morph", 4, DFM_MORPH_VERTEX, count);
    for (uint32_t i = 0; i < count; i++)
        morph->offsets.vertices[i] =
            (dfm_pmx_vertex_offset){.vertex = i, .offset = {(float)(i + 1), 0, 0}};
    morph = build_add_morph(&builder, "first", "first", 4, DFM_MORPH_VERTEX, 1);
    morph->offsets.vertices[0] = (dfm_pmx_vertex_offset){.vertex = 0, .offset = {1, 0, 0}};
    skin_model_open(&model, skinner, &builder.pmx, DFM_WEIGHTS_NORMALIZED, true);
}

START_TEST(the_last_vertex_of_a_block_that_is_not_full_is_morphed_too) {
    skinner = skin_open_backend(_i, "spare lanes");
    for (uint32_t count = 1; skinner && count <= 17; count++) {
        open_line(count);
        model.workspace.pose.morph_weights[0] = 0.5;
        skin_model_deform(&model);
        for (uint32_t i = 0; i < count; i++)
            ck_assert_float_eq_tol(model.frame[i][0], 0.5f * (float)(i + 1), 1e-6f);
        skin_model_close(&model);
    }
    model = (skin_model){0};
}
END_TEST

/* One bone, three full blocks of vertices at the origin; morph 0 moves the first, morph 1 the last.
 */
static void open_two_morphs(void) {
    enum { COUNT = 3 * DFM_LANES };
    builder_capacity capacity = {.vertices = COUNT, .bones = 1, .morphs = 2};
    struct builder builder = build_begin(&arena, 2.0f, DFM_TEXT_UTF8, &capacity);
    build_add_bone(&builder, "bone", "bone", (const float[3]){0}, -1);
    for (uint32_t i = 0; i < COUNT; i++)
        build_add_vertex(&builder, &(build_vertex){.normal = {0, 1, 0}});
    for (uint32_t m = 0; m < 2; m++) {
        dfm_pmx_morph *morph =
            build_add_morph(&builder, "morph", "morph", 4, DFM_MORPH_VERTEX, DFM_LANES);
        for (uint32_t i = 0; i < DFM_LANES; i++)
            morph->offsets.vertices[i] = (dfm_pmx_vertex_offset){.vertex = m * 2 * DFM_LANES + i,
                                                                 .offset = {0, (float)(m + 1), 0}};
    }
    skin_model_open(&model, skinner, &builder.pmx, DFM_WEIGHTS_NORMALIZED, true);
}

static void deform_with(uint32_t morph) {
    model.workspace.pose.morph_weights[morph] = 1;
    model.workspace.pose.morph_weights[1 - morph] = 0;
    skin_model_deform(&model);
    for (uint32_t i = 0; i < model.bind->vertex_count; i++) {
        bool moved = i / (2 * DFM_LANES) == morph && i / DFM_LANES != 1;
        ck_assert_float_eq(model.frame[i][1], moved ? (float)(morph + 1) : 0);
    }
}

START_TEST(a_generation_that_wraps_around_meets_no_old_stamp) {
    skinner = skin_open_backend(_i, "generations");
    if (!skinner)
        return;
    open_two_morphs();
    for (uint32_t generation = 1; generation < 6; generation++) {
        model.workspace.generation = generation - 1;
        deform_with(0); /* its block has this generation's stamp from now on */
        ck_assert_uint_eq(model.workspace.generation, generation);
        model.workspace.generation = UINT32_MAX - 2;
        for (int i = 0; i < 9; i++)
            deform_with(1); /* ... and is not touched while it comes round again */
        ck_assert_uint_lt(model.workspace.generation, 9);
    }
}
END_TEST

START_TEST(morph_offsets_without_a_vertex_move_nothing) {
    skinner = skin_open_backend(_i, "offsets without a vertex");
    if (!skinner)
        return;
    open_two_morphs();
    dfm_pmx_vertex_offset *offsets = model.model->pmx.morphs[0].offsets.vertices;
    for (uint32_t i = 1; i < DFM_LANES; i++)
        offsets[i] = (dfm_pmx_vertex_offset){
            .vertex = i % 2 ? model.bind->vertex_count : UINT32_MAX, .offset = {5, 5, 5}};
    model.workspace.pose.morph_weights[0] = 1;
    skin_model_deform(&model);
    for (uint32_t i = 0; i < model.bind->vertex_count; i++) {
        ck_assert_float_eq(model.frame[i][0], 0);
        ck_assert_float_eq(model.frame[i][1], i == 0);
    }
}
END_TEST

START_TEST(a_morph_of_weight_0_touches_nothing) {
    skinner = skin_open_backend(_i, "inactive morphs");
    if (!skinner)
        return;
    open_line(9);
    skin_model_deform(&model);
    for (uint32_t i = 0; i < 9; i++)
        ck_assert_float_eq(model.frame[i][0], 0);
    for (uint32_t i = 0; i < model.bind->block_count; i++)
        ck_assert_uint_eq(model.workspace.delta_stamps[i], 0);
}
END_TEST

START_TEST(a_generation_that_wraps_around_clears_the_stamps_of_uv_morphs) {
    skinner = skin_open_backend(0, "generations");
    open_line(17);
    ck_assert(dfm_workspace_reserve_uvs(&model.workspace, 17));
    for (uint32_t i = 0; i < 17; i++)
        model.workspace.uv_stamps[i] = i;
    model.workspace.generation = UINT32_MAX;
    ck_assert_uint_eq(dfm_workspace_next_generation(&model.workspace), 1);
    for (uint32_t i = 0; i < 17; i++)
        ck_assert_uint_eq(model.workspace.uv_stamps[i], 0);
}
END_TEST

/* --- dual quaternions that cancel out -------------------------------------------------------- */

START_TEST(a_dual_quaternion_blend_without_a_length_is_linear) {
    skinner = skin_open_backend(_i, "dual quaternions that cancel out");
    if (!skinner)
        return;
    builder_capacity capacity = {.vertices = 1, .bones = 2};
    struct builder builder = build_begin(&arena, 2.1f, DFM_TEXT_UTF8, &capacity);
    build_add_bone(&builder, "a", "a", (const float[3]){0}, -1);
    build_add_bone(&builder, "b", "b", (const float[3]){0}, -1);
    build_add_vertex(&builder, &(build_vertex){.position = {1, 2, 3},
                                               .normal = {0, 1, 0},
                                               .type = DFM_WEIGHT_QDEF,
                                               .bone = {0, 1},
                                               .weight = {0.5f, -0.5f}});
    skin_model_open(&model, skinner, &builder.pmx, DFM_WEIGHTS_RAW, true);
    model.workspace.pose.bones[0].translation[0] = 10;
    model.workspace.pose.bones[1].translation[1] = 4;
    skin_model_deform(&model);
    static const float expected[6] = {5, -2, 0, 0, 0, 0}; /* the moves' weighted sum; no normal */
    for (int k = 0; k < 6; k++)
        ck_assert_float_eq_tol(model.frame[0][k], expected[k], 1e-6f);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("skin jobs");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_job_that_is_not_whole_is_refused, 0, skin_backend_count());
    tcase_add_loop_test(tests, a_job_after_a_wrong_one_in_a_batch_is_not_begun, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, an_output_that_is_not_wanted_is_not_written, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, a_skinner_without_workers_does_not_open, 0, skin_backend_count());
    tcase_add_test(tests, a_cpu_kernel_of_an_unknown_name_does_not_open);
    tcase_add_loop_test(tests, a_model_without_vertices_deforms_to_nothing, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, a_pose_that_leaves_single_precision_is_the_callers_error, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, the_same_pose_gives_the_same_bytes_whatever_came_before, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, a_workspace_serves_one_model_after_another, 0, skin_backend_count());
    tcase_add_loop_test(tests, a_generation_that_wraps_around_meets_no_old_stamp, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, the_last_vertex_of_a_block_that_is_not_full_is_morphed_too, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, morph_offsets_without_a_vertex_move_nothing, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, a_morph_of_weight_0_touches_nothing, 0, skin_backend_count());
    tcase_add_test(tests, a_generation_that_wraps_around_clears_the_stamps_of_uv_morphs);
    tcase_add_loop_test(tests, a_dual_quaternion_blend_without_a_length_is_linear, 0,
                        skin_backend_count());
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
