/* The cases of $DEFORMD_TEST_DATA/reference (default ../shared/reference) that hold solved bones:
 * kinds "solve" and "motion". README there says what the files are and which solvers made them. */
#ifndef TESTS_SUPPORT_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_H

#include "core/morph.h"
#include "core/pmx.h"
#include "core/rig/rig.h"

#include <stddef.h>

struct cJSON;

typedef struct reference_case {
    const char *name;
    char folder[512], models[512];
    struct cJSON *json; /* case.json */
    dfm_pmx pmx;
    dfm_rig rig;
    dfm_warnings warnings;
    dfm_arena arena;
    dfm_pose pose; /* at rest; IK as the case says. The caller fills in a frame's bones */
    dfm_rig_state state;
    double *weights; /* zeros */
    uint32_t bone_count, frame_count;
    uint32_t expected_count; /* solvers that the case has results of: 1 or 2 */
    float *expected[2];      /* frame_count x bone_count x 12 */
    uint8_t *moved_by_ik;    /* of each bone, where the case solves IK */
    uint8_t *skipped;        /* of each bone */
    double position_tolerance, degree_tolerance;
    double worst_position, worst_degree; /* in units of the tolerance */
    double worst_still;                  /* of the bones that no IK moves, in units */
    uint32_t failures;
} reference_case;

/* Calls `run` for every case of a kind, prints a line on each, and fails the test where a case has
 * failures. Without the folder it prints a SKIPPED line. */
void reference_run(const char *kind, void (*run)(reference_case *c));

/* Solves c->pose and compares it with frame `frame`: each bone with the nearer of the solvers. */
void reference_compare(reference_case *c, uint32_t frame);

/* The file that the case names under `key`, as floats: free() them. Fails the test without it. */
float *reference_floats(const reference_case *c, const char *key, size_t *count);

/* A file under the models folder, whole: free() it. Fails the test without it. */
uint8_t *reference_model_file(const reference_case *c, const char *key, size_t *size);

#endif
