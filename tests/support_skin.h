/* Models bound to each skinner and posed, for the tests of bind data, skinners and deform. */
#ifndef TESTS_SUPPORT_SKIN_H
#define TESTS_SUPPORT_SKIN_H

#include "core/deform.h"
#include "tests/reference/reference.h"

/* Every way to skin: the CPU kernels that this build has, OpenCL with few and with many lanes a
 * work-item. A test loops over them with tcase_add_loop_test(..., 0, skin_backend_count()). */
int skin_backend_count(void);

/* The backend of an index, and the options that make it so (with two workers). */
const dfm_skinner_backend *skin_backend(int index, dfm_skinner_options *options);

/* Opens a backend, or prints SKIPPED with the reason where it is not to be had: NULL. Fails the
 * test on any other error. Close it with dfm_skinner_close. */
dfm_skinner *skin_open_backend(int index, const char *what);

/* For messages: "avx2", "opencl", ... */
const char *skin_backend_name(const dfm_skinner *skinner);

/* A model, bound, with a workspace at rest and a frame of positions and normals (f32). */
typedef struct skin_model {
    dfm_model *model;
    dfm_skin_bind *bind;
    dfm_skinner *skinner; /* borrowed */
    dfm_skin_binding *binding;
    dfm_workspace workspace;
    dfm_layout layout;
    float (*frame)[6]; /* vertex_count x (position, normal) */
} skin_model;

/* Loads what the document says (written and read back), binds it and reserves; fails the test on an
 * error. */
void skin_model_open(skin_model *m, dfm_skinner *skinner, const dfm_pmx *pmx,
                     dfm_weights_mode weights, bool sdef);
void skin_model_close(skin_model *m);

/* Deforms the workspace's pose into the frame; fails the test on an error, and unless all numbers
 * are finite. */
void skin_model_deform(skin_model *m);

/* Turns every bone by up to `degrees`, moves it a little, weighs morphs; IK off. Deterministic. */
void skin_pose_random(dfm_pose *pose, uint64_t seed, double degrees, bool morphs);

/* Every bone where it is at rest, then moved by one rigid motion, as matrices. */
void skin_pose_rigid(dfm_pose *pose, const dfm_pmx *pmx, uint64_t seed, double motion[12]);

/* What a comparison has seen so far. */
typedef struct skin_difference {
    uint64_t vertices, undecided, failures;
    double position; /* worst |dp| / max(1, |p|) */
    double normal;   /* worst |dn| */
} skin_difference;

/* |dp| <= 1e-5 * max(1, |p|), |dn| <= 1e-4 (SEMANTICS 3); `name` is for messages. */
void skin_compare(skin_difference *sum, const char *name, uint32_t vertex, const double p[3],
                  const double n[3], const float got[6]);

/* The frame against the double-precision reference. Bones and weights are the reference's own where
 * it can solve and expand them, and else those of the workspace. */
void skin_compare_reference(skin_difference *sum, const char *name, const skin_model *m,
                            reference_settings settings);

/* Calls `visit` with every generated model and every public one that loads; documents may be
 * changed. */
void skin_each_document(const char *what,
                        void (*visit)(const char *name, dfm_pmx *pmx, void *context),
                        void *context);

#endif
