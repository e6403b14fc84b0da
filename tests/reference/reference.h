/* What a pose does to a model, in double precision and written from the formulas alone: tests hold
 * every skinner against it. It reads documents and shares no code with rig, bind data or kernels.
 *
 * Forward kinematics (append, fixed axes and IK are not here), morphs (vertex, group, UV and bone),
 * all weight types. Slow and plain on purpose. */
#ifndef TESTS_REFERENCE_REFERENCE_H
#define TESTS_REFERENCE_REFERENCE_H

#include "core/pmx.h"
#include "core/pose.h"

typedef struct reference_settings {
    bool raw;      /* weights as stored */
    bool sdef_off; /* SDEF as BDEF2 */
} reference_settings;

typedef struct reference_vertex {
    double position[3];
    double normal[3]; /* unit length, or 0, 0, 0 */
    /* Two rotations lie at right angles in quaternion space, so that either way round is as short
     * as the other, or a dual quaternion is hardly longer than where it counts as none: rounding
     * decides. */
    bool undecided;
    /* The bones' normals nearly cancel out: rounding decides where what is left points. */
    bool normal_undecided;
} reference_vertex;

/* The weights as they act: group morphs handed on. morph_count values: free() them. */
double *reference_weights(const dfm_pmx *pmx, const dfm_pose *pose);

/* Global matrices (3x4 row-major) by forward kinematics, or the pose's own: free() them. */
double (*reference_globals(const dfm_pmx *pmx, const dfm_pose *pose, const double *weights))[12];

/* Whether the model's morphs are no more than that: no flips, and no group that leads to itself. */
bool reference_expands(const dfm_pmx *pmx);

/* Whether forward kinematics is all that the model's bones do while IK is off. */
bool reference_solves(const dfm_pmx *pmx);

/* Bind positions with vertex morphs: vertices.count x 3: free() them. */
double (*reference_morphed(const dfm_pmx *pmx, const double *weights))[3];

/* Every vertex as it comes out: vertices.count: free() them. */
reference_vertex *reference_deform(const dfm_pmx *pmx, const double (*globals)[12],
                                   const double *weights, reference_settings settings);

/* A UV set (0 = UV, 1..4 = additional) with its morphs: vertices.count x 4, of which UV has 2:
 * free() them. */
double (*reference_uvs(const dfm_pmx *pmx, const double *weights, uint32_t set))[4];

#endif
