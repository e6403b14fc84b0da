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

/* Numbers of a larger magnitude do not come out of a solve: single precision would not hold what
 * skinning makes of them. */
#define DFM_RIG_MAX_NUMBER 1e18

#define DFM_RIG_IK_BUDGET 2000000

typedef struct dfm_rig_bone {
    double rest[3];        /* rest position, model space */
    double rest_offset[3]; /* rest - parent's rest: the bind-pose translation */
    int32_t parent;        /* -1 = none; valid, and never part of a cycle */
} dfm_rig_bone;

/* One bone that a bone morph moves; cleaned at load. */
typedef struct dfm_rig_morph_offset {
    uint32_t bone; /* valid */
    double translation[3];
    double rotation[4]; /* unit length, w >= 0 */
} dfm_rig_morph_offset;

typedef struct dfm_rig_morph {
    uint32_t morph; /* index in the model */
    uint32_t count;
    dfm_rig_morph_offset *offsets; /* count */
} dfm_rig_morph;

typedef struct dfm_rig {
    uint32_t bone_count;
    uint32_t ik_count; /* bones with the IK flag, solvable or not */
    dfm_rig_bone *bones;
    uint32_t *order;        /* bone_count indices: (after physics, layer, index), stable */
    uint32_t *parent_first; /* bone_count indices: every bone before all that hangs on it, which
                               follows it without a gap */
    uint32_t *position;     /* of a bone in parent_first */
    uint32_t *subtree_size; /* of a bone: itself and all that hangs on it */
    uint32_t morph_count;   /* bone morphs, in morph index order */
    dfm_rig_morph *morphs;
    uint32_t fixed_axis_count;
    struct dfm_rig_fixed_axis *fixed_axes;
    uint32_t append_count;
    struct dfm_rig_append *appends; /* a source's own append before those that take from it */
    uint32_t solver_count;
    struct dfm_rig_ik *solvers; /* what can be solved, in deform order */
    uint32_t max_link_count;    /* of one solver */
} dfm_rig;

struct dfm_rig_local; /* core/rig/solve.h */
struct dfm_rig_link_state;

/* Scratch and result of one solve. The memory is the caller's (core/workspace). */
typedef struct dfm_rig_state {
    double (*global)[12];             /* result: bone_count G, 3x4 row-major, model space */
    double (*rotation)[4];            /* result: bone_count rotations of G as unit quaternions */
    struct dfm_rig_local *local;      /* scratch: bone_count */
    uint32_t *stamps;                 /* scratch: bone_count */
    struct dfm_rig_link_state *links; /* scratch: max_link_count */
} dfm_rig_state;

/* Bytes that a state of this rig takes, and the state laid into `memory`: that many bytes, aligned
 * to 64, contents undefined. A larger block serves as well. */
size_t dfm_rig_state_bytes(const dfm_rig *rig);
void dfm_rig_state_place(dfm_rig_state *state, const dfm_rig *rig, void *memory);

/* Failures: DFM_ERROR_NO_MEMORY. Warnings: `parent-invalid`, `parent-cycle`, `append-invalid`,
 * `append-cycle`, `fixed-axis-invalid`, `ik-target-invalid`, `ik-link-invalid`, `ik-budget`, and
 * for bone morphs `morph-offset-invalid`. */
dfm_status dfm_rig_build(dfm_rig *rig, const struct dfm_pmx *pmx, dfm_arena *arena,
                         dfm_warnings *warnings, dfm_error *error);

/* Solves `pose` (matrices: copies them and takes rotations by Gram-Schmidt, x first) into `state`.
 * `morph_weights` are expanded (dfm_morph_expand), for bone morphs. No allocation, no failure;
 * the result depends on the arguments alone. Returns false where a number left the range that
 * single precision holds (|x| > 1e18): the pose is then the caller's error.
 * Time is bounded whatever the model: IK spends at most DFM_RIG_IK_BUDGET updates of links and of
 * what hangs on them, in deform order; solvers that find nothing left do not turn their links. */
bool dfm_rig_solve(const dfm_rig *rig, const struct dfm_pmx *pmx, const dfm_pose *pose,
                   const double *morph_weights, dfm_rig_state *state);

/* Skinning matrices and rotations in the form skinners take (core/skinner.h), from a solved state:
 * palette M = G * inverse(B) (bone_count x 12), rotations (bone_count x 4), and, unless NULL,
 * duals: the dual parts of the unit dual quaternions (bone_count x 4) of the bones' rigid motions:
 * the rotation about the rest position, then the move of that point (g - R rest), so that a scaled
 * matrix keeps its pivot. */
void dfm_rig_palette(const dfm_rig *rig, const dfm_rig_state *state, float *palette,
                     float *rotations, float *duals);

#endif
