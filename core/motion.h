/* A motion: a VMD file loaded, bound to a model, and evaluated at any frame.
 *
 * A motion is immutable after load and shared by reference count, as models are. A binding says
 * which tracks move what of one model; it is made once for a pair and then only read.
 * Thread safety: any number of threads may read a motion or a binding; retain and release are
 * atomic. Source of the rules: SEMANTICS 6 (README, table of decisions). */
#ifndef DFM_CORE_MOTION_H
#define DFM_CORE_MOTION_H

#include "core/model.h"
#include "core/vmd.h"

typedef struct dfm_motion {
    dfm_vmd vmd;
    dfm_warnings warnings;
    dfm_arena arena;
    unsigned references; /* dfm_motion_retain, dfm_motion_release */
} dfm_motion;

/* Reads VMD bytes into a motion with one reference, owned by the caller. Failures: dfm_vmd_read's.
 */
dfm_status dfm_motion_load(const uint8_t *bytes, size_t size, dfm_motion **motion,
                           dfm_error *error);
dfm_motion *dfm_motion_retain(dfm_motion *motion);
void dfm_motion_release(dfm_motion *motion); /* NULL is allowed */
size_t dfm_motion_resident_bytes(const dfm_motion *motion);

/* For each track of one kind the bone or morph that it moves, or -1: the model has none of the
 * name. */
typedef struct dfm_motion_targets {
    uint32_t track_count; /* the motion's */
    uint32_t matched_count;
    int32_t *target; /* track_count */
} dfm_motion_targets;

typedef struct dfm_motion_binding {
    dfm_motion *motion; /* a reference is held */
    dfm_model *model;   /* a reference is held */
    dfm_motion_targets bones, morphs;
    dfm_motion_targets iks; /* bones with the IK flag */
    dfm_arena arena;
} dfm_motion_binding;

/* Names: the model's, in CP932 and cut to the bytes that a VMD file has room for, is compared with
 * the track's; of equal names the first bone or morph of the model is meant. A motion that matches
 * nothing is no failure: look at matched_count.
 * Failures: DFM_ERROR_NO_MEMORY, DFM_ERROR_UNAVAILABLE (dfm_cp932_open). */
dfm_status dfm_motion_bind(dfm_motion *motion, const dfm_model *model, dfm_motion_binding **binding,
                           dfm_error *error);
void dfm_motion_binding_free(dfm_motion_binding *binding); /* NULL is allowed */

/* Names that the model lacks, over the three kinds. */
uint32_t dfm_motion_unmatched_count(const dfm_motion_binding *binding);

/* Sets `pose` (of the model's counts) to the motion at `frame`, any finite number: what no track
 * moves is at rest. Before the first key of a track its first value holds, after the last its last.
 * IK switches are steps. No allocation; the result depends on the arguments alone. */
void dfm_motion_evaluate(const dfm_motion_binding *binding, double frame, dfm_pose *pose);

/* The curve's y (0..1) at x = `t` (0..1): the exact root within 1e-6. */
double dfm_vmd_curve_at(dfm_vmd_curve curve, double t);

#endif
