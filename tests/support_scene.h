/* Bind data and poses made by hand, for tests of skinners without a model file: blocks of every
 * kind, full and partly full, vertices scattered over the output, and poses that reach every branch
 * of the kernels (bones that turn alike, opposite signs, thin dual quaternions, zero normals,
 * weights outside [0, 1]). Deterministic: a seed gives the same scene on every machine. */
#ifndef TESTS_SUPPORT_SCENE_H
#define TESTS_SUPPORT_SCENE_H

#include "core/skinner.h"

typedef struct scene_options {
    uint32_t block_count, bone_count; /* bone_count >= 4, or 0: REST blocks only */
    uint32_t kinds;                   /* bit set of 1 << DFM_KIND_*; 0 = all */
    uint32_t seed;
} scene_options;

/* Everything is the scene's own; model in `bind` is NULL. */
dfm_skin_bind *scene_create(const scene_options *options);
void scene_free(dfm_skin_bind *bind);

typedef struct scene_pose {
    float *palette, *rotations, *duals;
    float *deltas;
    uint32_t *stamps, *touched;
    uint32_t touched_count, generation;
} scene_pose;

/* A pose of rigid motions; every `morph_every`th block is morphed (0 = none). */
scene_pose *scene_pose_create(const dfm_skin_bind *bind, uint32_t seed, uint32_t morph_every);
void scene_pose_free(scene_pose *pose);

/* A job of the pose whose outputs lie interleaved at `frame` (vertex_count x 6 floats). */
dfm_skin_job scene_job(const scene_pose *pose, float *frame);

/* Floats of a frame. */
size_t scene_frame_floats(const dfm_skin_bind *bind);

/* The frame by dfm_skin_scalar, position and normal in 6 floats a vertex: free() it. */
float *scene_expected(const dfm_skin_bind *bind, const scene_pose *pose);

/* Fails the test unless |dp| <= 1e-5 * max(1, |p|) and |dn| <= 1e-4 everywhere, all finite. */
void scene_compare(const float *frame, const float *expected, uint32_t vertex_count);

#endif
