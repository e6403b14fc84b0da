/* A rig made of a few bones in memory, and poses of it, for the tests of core/rig and core/morph.
 */
#ifndef TESTS_SUPPORT_RIG_H
#define TESTS_SUPPORT_RIG_H

#include "core/morph.h"
#include "core/pmx.h"
#include "core/rig/rig.h"

typedef struct rig_fixture {
    dfm_pmx pmx;
    dfm_rig rig;
    dfm_morph_graph graph;
    dfm_warnings warnings;
    dfm_arena arena;
    dfm_pose pose;
    dfm_rig_state state;
    double *weights; /* as they act */
    void *memory;
} rig_fixture;

/* A bone at x, y, z; other fields by designated initialisers behind it. */
#define RIG_BONE(parent_index, x, y, z)                                                            \
    .name = {"bone", 4}, .parent = (parent_index), .position = {(x), (y), (z)}

/* Builds rig, graph and a rest pose over borrowed bones and morphs; fails the test on an error. */
void rig_fixture_open(rig_fixture *fixture, dfm_pmx_bone *bones, uint32_t bone_count,
                      dfm_pmx_morph *morphs, uint32_t morph_count);
void rig_fixture_close(rig_fixture *fixture);

/* Expands the pose's weights and solves. */
bool rig_fixture_solve(rig_fixture *fixture);

/* How often `code` was warned about; 0 = never. */
uint64_t rig_fixture_warned(const rig_fixture *fixture, const char *code);

/* The rotation by `degrees` about an axis of any length. */
void rig_axis_angle(double q[4], double x, double y, double z, double degrees);

/* Fail unless bone's global position, or rotation (either sign), is this within `tolerance`. */
void rig_expect_position(const rig_fixture *fixture, uint32_t bone, double x, double y, double z,
                         double tolerance);
void rig_expect_rotation(const rig_fixture *fixture, uint32_t bone, const double q[4],
                         double tolerance);

#endif
