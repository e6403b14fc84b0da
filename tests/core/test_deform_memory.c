/* Workspaces that serve models of different size: when memory runs out, and that in steady state
 * nothing is allocated. */
#include "core/deform.h"
#include "tests/data/models.h"
#include "tests/support_skin.h"
#include "tests/wrap_allocator.h"

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

static dfm_model *load(const dfm_pmx *pmx) {
    size_t size;
    dfm_model *model;
    uint8_t *bytes = model_bytes(pmx, NULL, &size);
    ck_assert_int_eq(dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, NULL), DFM_OK);
    free(bytes);
    return model;
}

static dfm_skin_bind *bind_model(const dfm_model *model) {
    dfm_skin_bind *bind;
    ck_assert_int_eq(dfm_skin_bind_create(model, DFM_WEIGHTS_NORMALIZED, true, &bind, NULL),
                     DFM_OK);
    return bind;
}

/* --- the Nth allocation fails ----------------------------------------------------------------- */

/* Check's own macros allocate: in these tests they come when all counting is done. */

/* Reserves for `bind` after `smaller` has been served, with the Nth allocation failing; then for
 * `smaller` again. Returns whether there was an Nth. */
static bool reserve_failing_at(const dfm_skin_bind *bind, const dfm_skin_bind *smaller, size_t n) {
    dfm_workspace workspace = {0};
    size_t live = wrap.live_count;
    dfm_error_clear(&error);
    dfm_status first = dfm_workspace_reserve(&workspace, smaller, NULL);
    bool first_uvs = dfm_workspace_reserve_uvs(&workspace, smaller->vertex_count);
    wrap_reset(n);
    dfm_status status = dfm_workspace_reserve(&workspace, bind, &error);
    bool uvs = status == DFM_OK && dfm_workspace_reserve_uvs(&workspace, bind->vertex_count);
    bool reached = wrap.calls >= n;
    wrap_reset(0);
    dfm_status again = dfm_workspace_reserve(&workspace, smaller, NULL);
    bool again_uvs = dfm_workspace_reserve_uvs(&workspace, smaller->vertex_count);
    bool at_rest = workspace.pose.bones[smaller->bone_count - 1].rotation[3] == 1 &&
                   workspace.pose.bone_count == smaller->bone_count;
    dfm_workspace_free(&workspace);
    size_t leaked = wrap.live_count - live;
    ck_assert_uint_eq(leaked, 0);
    ck_assert_int_eq(first, DFM_OK);
    ck_assert(first_uvs);
    ck_assert(reached ? status == DFM_ERROR_NO_MEMORY || !uvs : status == DFM_OK && uvs);
    ck_assert_int_eq(error.status, status);
    ck_assert_int_eq(again, DFM_OK);
    ck_assert(again_uvs);
    ck_assert(at_rest);
    return reached;
}

START_TEST(a_workspace_that_could_not_grow_serves_on) {
    dfm_pmx small = model_odd(&arena, 2.1f, DFM_TEXT_UTF8), large = model_figure(&arena);
    dfm_model *models[2] = {load(&small), load(&large)};
    dfm_skin_bind *binds[2] = {bind_model(models[0]), bind_model(models[1])};
    size_t n = 1;
    while (reserve_failing_at(binds[1], binds[0], n))
        n++;
    ck_assert_uint_ge(n, 15); /* 6 of bones, 2 of morphs, 3 of blocks, 1 of the rig, 3 of UVs */
    for (int i = 0; i < 2; i++) {
        dfm_skin_bind_free(binds[i]);
        dfm_model_release(models[i]);
    }
}
END_TEST

/* --- deforms ---------------------------------------------------------------------------------- */

static dfm_layout all_attributes(const dfm_pmx *pmx, dfm_component component) {
    dfm_layout layout = {.component = component, .planar = true};
    for (uint32_t i = 0; i < DFM_ATTRIBUTE_COUNT; i++) {
        bool missing = i >= DFM_ATTRIBUTE_UV1 && i <= DFM_ATTRIBUTE_UV4 &&
                       i - DFM_ATTRIBUTE_UV1 >= pmx->vertices.additional_uv_count;
        if (!missing)
            layout.attributes[layout.attribute_count++] = (dfm_attribute)i;
    }
    dfm_layout_finish(&layout, pmx->vertices.count);
    return layout;
}

/* The odd model's and the figure's morphs, all attributes, models by turns: after the first round
 * no call allocates or frees. (The OpenCL driver's own allocations are not project code's, but are
 * made in libraries that ld's --wrap does not reach.) */
START_TEST(a_deform_in_steady_state_allocates_nothing) {
    dfm_skinner *skinner = skin_open_backend(_i, "allocations in steady state");
    if (!skinner)
        return;
    dfm_pmx documents[2] = {model_odd(&arena, 2.1f, DFM_TEXT_UTF8), model_figure(&arena)};
    skin_model models[2];
    for (int i = 0; i < 2; i++)
        skin_model_open(&models[i], skinner, &documents[i], DFM_WEIGHTS_NORMALIZED, true);
    dfm_layout layouts[2] = {all_attributes(&models[0].model->pmx, DFM_COMPONENT_F32),
                             all_attributes(&models[1].model->pmx, DFM_COMPONENT_F16)};
    uint8_t *frame = malloc(layouts[0].frame_bytes + layouts[1].frame_bytes);
    dfm_workspace workspace = {0};
    dfm_deform_times times = {0};
    dfm_status worst = DFM_OK;
    size_t calls = 0;
    for (uint64_t round = 0; round < 12; round++) {
        skin_model *m = &models[round % 2];
        dfm_deform_target target = {m->model, m->bind, m->skinner, m->binding};
        wrap_reset(0);
        dfm_status status = dfm_workspace_reserve(&workspace, m->bind, NULL);
        skin_pose_random(&workspace.pose, round, 60, true);
        for (uint32_t k = 0; round < 2 && k < workspace.pose.morph_count; k++)
            workspace.pose.morph_weights[k] = 1; /* the warm-up needs all that may be needed */
        if (status == DFM_OK)
            status = dfm_deform(&target, &workspace, 0, &layouts[round % 2], frame, &times, NULL);
        worst = status == DFM_OK ? worst : status;
        calls += round < 2 ? 0 : wrap.calls;
    }
    dfm_workspace_free(&workspace);
    free(frame);
    ck_assert_int_eq(worst, DFM_OK);
    ck_assert_uint_eq(calls, 0);
    for (int i = 0; i < 2; i++)
        skin_model_close(&models[i]);
    dfm_skinner_close(skinner);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("deform_memory");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_workspace_that_could_not_grow_serves_on);
    tcase_add_loop_test(tests, a_deform_in_steady_state_allocates_nothing, 0, skin_backend_count());
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
