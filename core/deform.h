/* One pose in, one frame out: the main job, in the order solve, morph, skin, copy.
 *
 * Thread safety: any number of threads at once, each with its own workspace and worker index. */
#ifndef DFM_CORE_DEFORM_H
#define DFM_CORE_DEFORM_H

#include "core/layout.h"
#include "core/workspace.h"

/* A model bound to a skinner: what a deform works on. Borrowed for the time of the call. */
typedef struct dfm_deform_target {
    const dfm_model *model;
    const dfm_skin_bind *bind;
    dfm_skinner *skinner;
    dfm_skin_binding *binding;
} dfm_deform_target;

/* Nanoseconds spent, added to what is there. */
typedef struct dfm_deform_times {
    uint64_t solve_ns, skin_ns, encode_ns;
} dfm_deform_times;

/* Solves workspace->pose: morph_weights, rig_state, palette, rotations, duals. Failures: ARGUMENT,
 * a number left the range of single precision (section "pose"). */
dfm_status dfm_deform_solve(const dfm_deform_target *target, dfm_workspace *workspace,
                            dfm_deform_times *times, dfm_error *error);

/* Deforms the pose in `workspace` into `frame` (layout->frame_bytes, any alignment). Every number
 * written is finite. Failures: dfm_deform_solve's, DFM_ERROR_NO_MEMORY, DFM_ERROR_BACKEND. */
dfm_status dfm_deform(const dfm_deform_target *target, dfm_workspace *workspace, uint32_t worker,
                      const dfm_layout *layout, void *frame, dfm_deform_times *times,
                      dfm_error *error);

/* At most this many frames are skinned together. */
enum { DFM_DEFORM_BATCH_MAX = 16 };

/* How many frames of `frame_bytes` the target's skinner likes to be given at once: on OpenCL one
 * launch does them all, on the CPU there is nothing to be gained. */
uint32_t dfm_deform_batch(const dfm_deform_target *target, uint64_t frame_bytes);

/* dfm_deform of `count` frames, up to DFM_DEFORM_BATCH_MAX: the pose in workspaces[i] goes to
 * frames + i x layout->frame_bytes. *failed is the frame that a failure is about. */
dfm_status dfm_deform_frames(const dfm_deform_target *target, dfm_workspace *const *workspaces,
                             uint32_t count, uint32_t worker, const dfm_layout *layout,
                             void *frames, dfm_deform_times *times, uint32_t *failed,
                             dfm_error *error);

#endif
