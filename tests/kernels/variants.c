/* Every CPU kernel that this build has, against the double-precision reference, and in every layout
 * against the scalar kernel: a program of its own without a test library, to be run where a
 * processor is emulated (`make neon-test`).
 * usage: variants NAME: the kernel that must be the one that is chosen. */
#include "core/deform.h"
#include "tests/data/build.h"
#include "tests/data/models.h"
#include "tests/reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *what, const char *why) {
    fprintf(stderr, "variants: %s: %s\n", what, why);
    exit(1);
}

typedef struct posed {
    dfm_model *model;
    dfm_skin_bind *bind;
    dfm_workspace workspace;
    dfm_arena arena;
} posed;

static void pose_randomly(dfm_pose *pose, uint64_t seed) {
    dfm_pose_reset(pose);
    for (uint32_t i = 0; i < pose->bone_count; i++) {
        double *q = pose->bones[i].rotation, length = 0;
        for (int k = 0; k < 4; k++) {
            q[k] = (double)random_unit(&seed) - (k < 3 ? 0.5 : 0);
            length += q[k] * q[k];
        }
        for (int k = 0; k < 4; k++)
            q[k] /= sqrt(length);
        pose->bones[i].translation[i % 3] = (double)random_unit(&seed) - 0.5;
        pose->ik_off[i] = 1;
    }
    for (uint32_t i = 0; i < pose->morph_count; i++)
        pose->morph_weights[i] = i % 3 ? (double)random_unit(&seed) : 0;
}

static posed open_posed(uint32_t vertices, uint32_t bones, uint64_t seed) {
    posed m = {0};
    grid_options options = grid_default_options(vertices, bones);
    options.bdef2 = options.bdef4 = options.sdef = options.qdef = 20;
    options.morph_count = 5;
    options.shuffled = seed % 2;
    dfm_pmx pmx = model_grid(&m.arena, &options);
    pmx.version = 2.1f;
    size_t size;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    dfm_error error = {0};
    if (dfm_model_load(bytes, size, &dfm_pmx_default_limits, &m.model, &error) != DFM_OK ||
        dfm_skin_bind_create(m.model, DFM_WEIGHTS_NORMALIZED, true, &m.bind, &error) != DFM_OK ||
        dfm_workspace_reserve(&m.workspace, m.bind, &error) != DFM_OK)
        stop("a model", error.info);
    free(bytes);
    pose_randomly(&m.workspace.pose, seed);
    return m;
}

static void close_posed(posed *m) {
    dfm_workspace_free(&m->workspace);
    dfm_skin_bind_free(m->bind);
    dfm_model_release(m->model);
    dfm_arena_free(&m->arena);
}

static void deform(posed *m, const char *variant, const dfm_layout *layout, void *frame) {
    const dfm_skinner_options options = {.worker_count = 1, .simd = variant};
    dfm_deform_target target = {.model = m->model, .bind = m->bind};
    dfm_deform_times times = {0};
    dfm_error error = {0};
    if (dfm_skinner_open(&dfm_skinner_cpu, &options, &target.skinner, &error) != DFM_OK ||
        dfm_skinner_bind(target.skinner, m->bind, &target.binding, &error) != DFM_OK ||
        dfm_deform(&target, &m->workspace, 0, layout, frame, &times, &error) != DFM_OK)
        stop(variant, error.info);
    dfm_skinner_unbind(target.skinner, target.binding);
    dfm_skinner_close(target.skinner);
}

/* --- against the reference ---------------------------------------------------------------------
 */

static double distance(const double expected[3], const float *got) {
    double sum = 0;
    for (int k = 0; k < 3; k++)
        sum += pow((double)got[k] - expected[k], 2);
    return sqrt(sum);
}

static void compare_reference(posed *m, const char *variant) {
    const dfm_pmx *pmx = &m->model->pmx;
    dfm_layout layout = {.component = DFM_COMPONENT_F32,
                         .attribute_count = 2,
                         .attributes = {DFM_ATTRIBUTE_POSITION, DFM_ATTRIBUTE_NORMAL}};
    dfm_layout_finish(&layout, pmx->vertices.count);
    float(*frame)[6] = malloc(layout.frame_bytes);
    deform(m, variant, &layout, frame);
    double *weights = reference_weights(pmx, &m->workspace.pose);
    double(*globals)[12] = reference_globals(pmx, &m->workspace.pose, weights);
    reference_vertex *expected =
        reference_deform(pmx, (const double(*)[12])globals, weights, (reference_settings){0});
    for (uint32_t i = 0; i < pmx->vertices.count; i++) {
        const double *p = expected[i].position;
        double size = fmax(1, sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]));
        double off = distance(p, frame[i]) / size,
               turned = distance(expected[i].normal, frame[i] + 3);
        if (!expected[i].undecided &&
            (!(off <= 1e-5) || (!expected[i].normal_undecided && !(turned <= 1e-4)))) {
            fprintf(stderr, "vertex %u of %u, type %d: %g and %g off\n", i, pmx->vertices.count,
                    pmx->vertices.weight_type[i], off, turned);
            stop(variant, "differs from the reference");
        }
    }
    free(expected);
    free(globals);
    free(weights);
    free(frame);
}

/* --- layouts against the scalar kernel ---------------------------------------------------------
 */

static double number_at(const dfm_layout *layout, const uint8_t *at) {
    float number;
    if (layout->component == DFM_COMPONENT_F32)
        return memcpy(&number, at, sizeof number), (double)number;
    uint16_t half;
    memcpy(&half, at, sizeof half);
    double fraction = half & 0x3ff, sign = half >> 15 ? -1 : 1;
    int exponent = half >> 10 & 31;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static void compare_layout(posed *m, const char *variant, dfm_layout layout) {
    dfm_layout_finish(&layout, m->bind->vertex_count);
    size_t size = layout.frame_bytes, step = layout.component == DFM_COMPONENT_F32 ? 4 : 2;
    uint8_t *expected = calloc(size, 1), *got = calloc(size, 1);
    deform(m, "scalar", &layout, expected);
    deform(m, variant, &layout, got);
    double tolerance = step == 4 ? 1e-5 : 2e-3;
    for (size_t at = 0; at < size; at += step) {
        double a = number_at(&layout, expected + at), b = number_at(&layout, got + at);
        if (!(fabs(a - b) <= tolerance * fmax(1, fabs(a)) * 10)) {
            fprintf(stderr, "byte %zu of %zu: %g in place of %g\n", at, size, b, a);
            stop(variant, "a layout differs from the scalar kernel's");
        }
    }
    free(expected);
    free(got);
}

static void compare_layouts(posed *m, const char *variant) {
    for (int i = 0; i < 12; i++) {
        dfm_layout layout = {
            .component = i % 2 ? DFM_COMPONENT_F16 : DFM_COMPONENT_F32,
            .planar = i / 2 % 2,
            .attribute_count = i / 4 == 0 ? 2 : 1,
            .attributes = {i / 4 == 2 ? DFM_ATTRIBUTE_NORMAL : DFM_ATTRIBUTE_POSITION,
                           DFM_ATTRIBUTE_NORMAL}};
        compare_layout(m, variant, layout);
    }
}

int main(int count, char **arguments) {
    dfm_skinner *skinner;
    if (dfm_skinner_open(&dfm_skinner_cpu, &(dfm_skinner_options){.worker_count = 1}, &skinner,
                         NULL) != DFM_OK)
        stop("the CPU skinner", "does not open");
    if (count != 2 || strcmp(skinner->description, arguments[1]) != 0)
        stop(skinner->description, "is the kernel that is chosen");
    dfm_skinner_close(skinner);
    /* Every length of a last block, and sizes that take many. */
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 100, 3000};
    for (size_t i = 0; i < dfm_skin_variant_count; i++) {
        const dfm_skin_variant *variant = &dfm_skin_variants[i];
        if (!variant->supported())
            stop(variant->name, "cannot run here");
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            posed m = open_posed(sizes[k], sizes[k] < 40 ? 3 : 30, 17 + k);
            compare_reference(&m, variant->name);
            compare_layouts(&m, variant->name);
            close_posed(&m);
        }
        printf("%-8s as the reference, in every layout\n", variant->name);
    }
    return 0;
}
