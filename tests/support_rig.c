#include "tests/support_rig.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void rig_fixture_open(rig_fixture *f, dfm_pmx_bone *bones, uint32_t bone_count,
                      dfm_pmx_morph *morphs, uint32_t morph_count) {
    *f = (rig_fixture){.pmx = {.bone_count = bone_count,
                               .bones = bones,
                               .morph_count = morph_count,
                               .morphs = morphs}};
    ck_assert_int_eq(dfm_rig_build(&f->rig, &f->pmx, &f->arena, &f->warnings, NULL), DFM_OK);
    ck_assert_int_eq(dfm_morph_graph_build(&f->graph, &f->pmx, &f->arena, &f->warnings, NULL),
                     DFM_OK);
    f->memory = aligned_alloc(64, dfm_rig_state_bytes(&f->rig));
    /* Nothing may depend on what a state held before. */
    memset(f->memory, 0xff, dfm_rig_state_bytes(&f->rig));
    dfm_rig_state_place(&f->state, &f->rig, f->memory);
    f->weights = calloc(morph_count + 1, sizeof *f->weights);
    f->pose = (dfm_pose){.bone_count = bone_count,
                         .morph_count = morph_count,
                         .bones = calloc(bone_count + 1, sizeof *f->pose.bones),
                         .morph_weights = calloc(morph_count + 1, sizeof *f->pose.morph_weights),
                         .ik_off = calloc(bone_count + 1, 1),
                         .matrices = calloc(bone_count + 1, sizeof *f->pose.matrices)};
    dfm_pose_reset(&f->pose);
}

void rig_fixture_close(rig_fixture *f) {
    free(f->pose.bones);
    free(f->pose.morph_weights);
    free(f->pose.ik_off);
    free(f->pose.matrices);
    free(f->weights);
    free(f->memory);
    dfm_arena_free(&f->arena);
}

bool rig_fixture_solve(rig_fixture *f) {
    memcpy(f->weights, f->pose.morph_weights, f->pose.morph_count * sizeof *f->weights);
    dfm_morph_expand(&f->graph, &f->pmx, f->weights);
    return dfm_rig_solve(&f->rig, &f->pmx, &f->pose, f->weights, &f->state);
}

uint64_t rig_fixture_warned(const rig_fixture *f, const char *code) {
    for (uint32_t i = 0; i < f->warnings.count; i++) {
        if (strcmp(f->warnings.items[i].code, code) == 0)
            return f->warnings.items[i].count;
    }
    return 0;
}

void rig_axis_angle(double q[4], double x, double y, double z, double degrees) {
    double half = degrees * (M_PI / 360), scale = sin(half) / sqrt(x * x + y * y + z * z);
    q[0] = x * scale, q[1] = y * scale, q[2] = z * scale, q[3] = cos(half);
}

void rig_expect_position(const rig_fixture *f, uint32_t bone, double x, double y, double z,
                         double tolerance) {
    const double *g = f->state.global[bone];
    if (!(hypot(hypot(g[3] - x, g[7] - y), g[11] - z) <= tolerance))
        ck_abort_msg("bone %u lies at %.9g %.9g %.9g, not at %.9g %.9g %.9g", bone, g[3], g[7],
                     g[11], x, y, z);
}

void rig_expect_rotation(const rig_fixture *f, uint32_t bone, const double q[4], double tolerance) {
    const double *r = f->state.rotation[bone];
    double same = 0, opposite = 0;
    for (int k = 0; k < 4; k++) {
        same = fmax(same, fabs(r[k] - q[k]));
        opposite = fmax(opposite, fabs(r[k] + q[k]));
    }
    if (!(fmin(same, opposite) <= tolerance))
        ck_abort_msg("bone %u is turned by %.9g %.9g %.9g %.9g, not by %.9g %.9g %.9g %.9g", bone,
                     r[0], r[1], r[2], r[3], q[0], q[1], q[2], q[3]);
}
