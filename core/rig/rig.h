/* The rig: from local poses to global bone matrices.
 *
 * Order, parents and everything else that does not depend on a pose is worked out once at load
 * (rig.c, order.c); a pose is solved in double precision (solve.c), with append (append.c) and IK
 * (ik.c) in places of their own. Source of the rules: SEMANTICS 5 (README, table of decisions).
 * Thread safety: a rig is immutable after dfm_rig_build; a state belongs to one thread. */
#ifndef DFM_CORE_RIG_H
#define DFM_CORE_RIG_H

#include "core/arena.h"
#include "core/pose.h"
#include "core/status.h"
#include "core/warnings.h"

struct dfm_pmx;
struct dfm_morph_graph;

typedef struct dfm_rig_bone {
    double rest[3];        /* rest position, model space */
    double rest_offset[3]; /* rest - parent's rest: the bind-pose translation */
    int32_t parent;        /* -1 = none; valid, and never part of a cycle */
} dfm_rig_bone;

typedef struct dfm_rig {
    uint32_t bone_count;
    uint32_t ik_count; /* bones with the IK flag */
    dfm_rig_bone *bones;
    uint32_t *order;        /* bone_count indices: (after physics, layer, index), stable */
    uint32_t *parent_first; /* bone_count indices: every parent before its children */
} dfm_rig;

/* Scratch and result of one solve. Owned by the caller (core/workspace); sized bone_count. */
typedef struct dfm_rig_state {
    double (*global)[12]; /* result: G, 3x4 row-major, model space */
    double (*rotation)[4]; /* result: the rotation of G as a unit quaternion */
} dfm_rig_state;

/* Failures: DFM_ERROR_NO_MEMORY. Warnings: `parent-invalid`, `parent-cycle`. */
dfm_status dfm_rig_build(dfm_rig *rig, const struct dfm_pmx *pmx, dfm_arena *arena,
                         dfm_warnings *warnings, dfm_error *error);

/* Solves `pose` (matrices: copies them and takes rotations by Gram-Schmidt, x first) into `state`.
 * `morph_weights` are expanded (dfm_morph_expand), for bone morphs. No allocation, no failure;
 * the result depends on the arguments alone. Returns false where a number left the range that
 * single precision holds (|x| > 1e18): the pose is then the caller's error. */
bool dfm_rig_solve(const dfm_rig *rig, const struct dfm_pmx *pmx, const dfm_pose *pose,
                   const double *morph_weights, dfm_rig_state *state);

/* Skinning matrices and rotations in the form skinners take (core/skinner.h), from a solved state:
 * palette M = G * inverse(B) (bone_count x 12), rotations (bone_count x 4), and, unless NULL, duals:
 * the dual parts of the unit dual quaternions of the bones' rigid motions (bone_count x 4). */
void dfm_rig_palette(const dfm_rig *rig, const dfm_rig_state *state, float *palette,
                     float *rotations, float *duals);

#endif
