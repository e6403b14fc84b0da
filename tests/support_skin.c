#include "tests/support_skin.h"
#include "tests/data/build.h"
#include "tests/data/models.h"
#include "tests/data/real.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lanes that a work-item does: OpenCL devices differ in what suits them. */
static const uint32_t opencl_lanes[] = {1, DFM_LANES};

int skin_backend_count(void) {
    return (int)(dfm_skin_variant_count + sizeof opencl_lanes / sizeof *opencl_lanes);
}

const dfm_skinner_backend *skin_backend(int index, dfm_skinner_options *options) {
    *options = (dfm_skinner_options){.worker_count = 2};
    size_t i = (size_t)index;
    if (i < dfm_skin_variant_count) {
        options->simd = dfm_skin_variants[i].name;
        return &dfm_skinner_cpu;
    }
    options->opencl_item_lanes = opencl_lanes[i - dfm_skin_variant_count];
    return &dfm_skinner_opencl;
}

dfm_skinner *skin_open_backend(int index, const char *what) {
    dfm_skinner_options options;
    const dfm_skinner_backend *backend = skin_backend(index, &options);
    const char *name = options.simd ? options.simd : backend->name;
    dfm_skinner *skinner;
    dfm_error error = {0};
    dfm_status status = dfm_skinner_open(backend, &options, &skinner, &error);
    if (status == DFM_ERROR_UNAVAILABLE) {
        printf("SKIPPED: %s on %s (%s)\n", what, name, error.info);
        fflush(stdout);
        return NULL;
    }
    ck_assert_msg(status == DFM_OK, "%s: %s", name, error.info);
    return skinner;
}

const char *skin_backend_name(const dfm_skinner *skinner) {
    return skinner->backend == &dfm_skinner_cpu ? skinner->description : skinner->backend->name;
}

/* --- a model --------------------------------------------------------------------------------- */

void skin_model_open(skin_model *m, dfm_skinner *skinner, const dfm_pmx *pmx,
                     dfm_weights_mode weights, bool sdef) {
    *m = (skin_model){.skinner = skinner};
    size_t size;
    dfm_pmx written = *pmx;
    written.version = 2.1f; /* public files of version 2.0 have QDEF, which the writer keeps to */
    uint8_t *bytes = model_bytes(&written, NULL, &size);
    dfm_error error = {0};
    dfm_status status = dfm_model_load(bytes, size, &dfm_pmx_default_limits, &m->model, &error);
    free(bytes);
    ck_assert_msg(status == DFM_OK, "load: %s", error.info);
    status = dfm_skin_bind_create(m->model, weights, sdef, &m->bind, &error);
    ck_assert_msg(status == DFM_OK, "bind: %s", error.info);
    status = dfm_skinner_bind(skinner, m->bind, &m->binding, &error);
    ck_assert_msg(status == DFM_OK, "bind: %s", error.info);
    status = dfm_workspace_reserve(&m->workspace, m->bind, &error);
    ck_assert_msg(status == DFM_OK, "reserve: %s", error.info);
    m->layout = (dfm_layout){.component = DFM_COMPONENT_F32,
                             .attribute_count = 2,
                             .attributes = {DFM_ATTRIBUTE_POSITION, DFM_ATTRIBUTE_NORMAL}};
    dfm_layout_finish(&m->layout, m->bind->vertex_count);
    m->frame = malloc(m->layout.frame_bytes + 1);
    ck_assert_ptr_nonnull(m->frame);
}

void skin_model_close(skin_model *m) {
    free(m->frame);
    dfm_workspace_free(&m->workspace);
    dfm_skinner_unbind(m->skinner, m->binding);
    dfm_skin_bind_free(m->bind);
    dfm_model_release(m->model);
}

void skin_model_deform(skin_model *m) {
    dfm_deform_target target = {m->model, m->bind, m->skinner, m->binding};
    dfm_deform_times times = {0};
    dfm_error error = {0};
    memset(m->frame, 0xff, m->layout.frame_bytes); /* NaN: what is not written does not pass */
    dfm_status status = dfm_deform(&target, &m->workspace, 0, &m->layout, m->frame, &times, &error);
    ck_assert_msg(status == DFM_OK, "deform: %s", error.info);
    const float *numbers = (const float *)m->frame;
    size_t count = (size_t)m->bind->vertex_count * 6, finite = 0;
    while (finite < count && isfinite(numbers[finite]))
        finite++;
    ck_assert_msg(finite == count, "vertex %zu: number %zu is not finite", finite / 6, finite % 6);
}

/* --- poses ----------------------------------------------------------------------------------- */

static double random_signed(uint64_t *state) {
    return 2 * (double)random_unit(state) - 1;
}

static void random_rotation(uint64_t *state, double degrees, double q[4]) {
    double axis[3], length2 = 0;
    do {
        length2 = 0;
        for (int k = 0; k < 3; k++) {
            axis[k] = random_signed(state);
            length2 += axis[k] * axis[k];
        }
    } while (length2 < 0.01 || length2 > 1);
    double half = (double)random_unit(state) * degrees * (M_PI / 360);
    for (int k = 0; k < 3; k++)
        q[k] = axis[k] / sqrt(length2) * sin(half);
    q[3] = cos(half);
}

void skin_pose_random(dfm_pose *pose, uint64_t seed, double degrees, bool morphs) {
    dfm_pose_reset(pose);
    for (uint32_t i = 0; i < pose->bone_count; i++) {
        random_rotation(&seed, degrees, pose->bones[i].rotation);
        for (int k = 0; k < 3; k++)
            pose->bones[i].translation[k] = 0.2 * random_signed(&seed);
        pose->ik_off[i] = 1;
    }
    for (uint32_t i = 0; morphs && i < pose->morph_count; i++)
        pose->morph_weights[i] = random_unit(&seed) < 0.6f ? random_signed(&seed) : 0;
}

static void rotate(const double q[4], const double v[3], double out[3]) {
    double c[3] = {q[1] * v[2] - q[2] * v[1], q[2] * v[0] - q[0] * v[2], q[0] * v[1] - q[1] * v[0]};
    double d[3] = {q[1] * c[2] - q[2] * c[1], q[2] * c[0] - q[0] * c[2], q[0] * c[1] - q[1] * c[0]};
    for (int k = 0; k < 3; k++)
        out[k] = v[k] + 2 * (q[3] * c[k] + d[k]);
}

void skin_pose_rigid(dfm_pose *pose, const dfm_pmx *pmx, uint64_t seed, double motion[12]) {
    double q[4], move[3];
    random_rotation(&seed, 360, q);
    for (int k = 0; k < 3; k++) {
        const double axis[3] = {k == 0, k == 1, k == 2};
        double column[3];
        rotate(q, axis, column);
        for (int r = 0; r < 3; r++)
            motion[4 * r + k] = column[r];
        move[k] = 3 * random_signed(&seed);
        motion[4 * k + 3] = move[k];
    }
    dfm_pose_reset(pose);
    pose->has_matrices = true;
    for (uint32_t i = 0; i < pose->bone_count; i++) {
        memcpy(pose->matrices[i], motion, sizeof pose->matrices[i]);
        double rest[3], place[3];
        for (int k = 0; k < 3; k++)
            rest[k] = (double)pmx->bones[i].position[k];
        rotate(q, rest, place);
        for (int k = 0; k < 3; k++)
            pose->matrices[i][4 * k + 3] = place[k] + move[k];
    }
}

/* --- comparisons ----------------------------------------------------------------------------- */

void skin_compare(skin_difference *sum, const char *name, uint32_t vertex, const double p[3],
                  const double n[3], const float got[6]) {
    double dp = 0, dn = 0, size = 0;
    for (int k = 0; k < 3; k++) {
        dp += pow((double)got[k] - p[k], 2);
        size += p[k] * p[k];
        if (n)
            dn += pow((double)got[3 + k] - n[k], 2);
    }
    dp = sqrt(dp) / fmax(1, sqrt(size));
    dn = sqrt(dn);
    sum->vertices++;
    sum->position = fmax(sum->position, dp);
    sum->normal = fmax(sum->normal, dn);
    if (dp <= 1e-5 && dn <= 1e-4)
        return;
    if (sum->failures++ < 10)
        printf("    %s vertex %u: %.3g off at %g %g %g, normal %.3g off\n", name, vertex, dp, p[0],
               p[1], p[2], dn);
}

void skin_compare_reference(skin_difference *sum, const char *name, const skin_model *m,
                            reference_settings settings) {
    const dfm_pmx *pmx = &m->model->pmx;
    double *weights = reference_weights(pmx, &m->workspace.pose);
    if (!reference_expands(pmx))
        memcpy(weights, m->workspace.morph_weights, pmx->morph_count * sizeof *weights);
    double(*own)[12] = reference_globals(pmx, &m->workspace.pose, weights);
    const double(*globals)[12] = (const double(*)[12])own;
    if (!reference_solves(pmx))
        globals = (const double(*)[12])m->workspace.rig_state.global;
    reference_vertex *expected = reference_deform(pmx, globals, weights, settings);
    for (uint32_t i = 0; i < pmx->vertices.count; i++) {
        if (expected[i].undecided)
            sum->undecided++;
        else
            skin_compare(sum, name, i, expected[i].position,
                         expected[i].normal_undecided ? NULL : expected[i].normal, m->frame[i]);
    }
    free(expected);
    free(own);
    free(weights);
}

/* --- documents ------------------------------------------------------------------------------- */

typedef struct visitor {
    void (*visit)(const char *name, dfm_pmx *pmx, void *context);
    void *context;
} visitor;

static void visit_generated(const visitor *v) {
    dfm_arena arena = {0};
    dfm_pmx figure = model_figure(&arena);
    v->visit("figure", &figure, v->context);
    dfm_pmx odd = model_odd(&arena, 2.1f, DFM_TEXT_UTF8);
    v->visit("odd 2.1", &odd, v->context);
    dfm_pmx old = model_odd(&arena, 2.0f, DFM_TEXT_UTF16LE);
    v->visit("odd 2.0", &old, v->context);
    dfm_pmx legs = model_legs440(&arena);
    v->visit("legs440", &legs, v->context);
    grid_options options = grid_default_options(3001, 60);
    options.bdef4 = 20;
    options.sdef = 20;
    options.qdef = 20;
    options.morph_count = 4;
    options.shuffled = true;
    dfm_pmx grid = model_grid(&arena, &options);
    v->visit("grid", &grid, v->context);
    dfm_arena_free(&arena);
}

static void visit_file(const visitor *v, const char *path) {
    size_t size;
    uint8_t *bytes = real_read_file(path, &size);
    dfm_arena arena = {0};
    dfm_warnings warnings = {0};
    dfm_pmx pmx;
    if (dfm_pmx_read(bytes, size, &dfm_pmx_default_limits, &arena, &warnings, &pmx, NULL) ==
        DFM_OK) {
        const char *slash = strrchr(path, '/');
        v->visit(slash ? slash + 1 : path, &pmx, v->context);
    }
    free(bytes);
    dfm_arena_free(&arena);
}

void skin_each_document(const char *what,
                        void (*visit)(const char *name, dfm_pmx *pmx, void *context),
                        void *context) {
    visitor v = {visit, context};
    visit_generated(&v);
    real_models models = real_models_find(what);
    for (size_t i = 0; i < models.count; i++)
        visit_file(&v, models.paths[i]);
    real_models_free(&models);
    fflush(stdout);
}
