/* A pose: what a client sets for one frame, in the terms of VPD and VMD.
 *
 * Rotations are local quaternions x, y, z, w of unit length; translations are offsets from the rest
 * position in the parent's frame, in PMX units. All numbers are finite: whoever fills a pose checks
 * that, the solver relies on it. Thread safety: plain memory of one thread. */
#ifndef DFM_CORE_POSE_H
#define DFM_CORE_POSE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct dfm_bone_pose {
    double rotation[4];
    double translation[3];
} dfm_bone_pose;

typedef struct dfm_pose {
    uint32_t bone_count, morph_count; /* the model's */
    dfm_bone_pose *bones;             /* bone_count */
    double *morph_weights;            /* morph_count */
    uint8_t *ik_off;                  /* bone_count; 1 = this bone's IK is switched off */
    bool has_matrices;                /* then `bones` is not looked at and no rig is solved */
    double (*matrices)[12];           /* bone_count global matrices, 3x4 row-major, model space */
} dfm_pose;

/* The rest pose: identity, no offset, weights 0, IK on, no matrices. */
void dfm_pose_reset(dfm_pose *pose);

#endif
