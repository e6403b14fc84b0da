/* What a deform request asks for, as a numbered list of poses, whatever form it came in.
 *
 * Everything is checked when the list is opened, so that a frame that is loaded later cannot be
 * wrong, and any worker can load any frame. Thread safety: after dfm_frames_open the list is
 * constant; each thread loads with a worker's scratch of its own. */
#ifndef DFM_API_FRAMES_H
#define DFM_API_FRAMES_H

#include "api/call.h"
#include "api/pose_binary.h"

typedef enum dfm_frames_form {
    DFM_FRAMES_JSON, /* one pose, or {"poses": [...]} */
    DFM_FRAMES_BINARY,
    DFM_FRAMES_VPD,
    DFM_FRAMES_MOTION /* {"motion": ...} */
} dfm_frames_form;

/* ?ik=, which wins over what poses, motions and overrides say. */
typedef enum dfm_ik_switch { DFM_IK_OFF, DFM_IK_ON, DFM_IK_AS_POSED } dfm_ik_switch;

typedef struct dfm_frames {
    dfm_frames_form form;
    dfm_ik_switch ik;
    uint64_t count;     /* at least 1 */
    uint64_t unmatched; /* names that the model lacks and that were ignored */
    const dfm_model *model;
    const uint8_t *body; /* borrowed from the request */
    size_t body_bytes;
    dfm_pose_list poses;         /* DFM_FRAMES_JSON, DFM_FRAMES_MOTION */
    dfm_pose_format format;      /* DFM_FRAMES_BINARY */
    dfm_stored_motion *motion;   /* DFM_FRAMES_MOTION: a reference is held */
    dfm_motion_binding *binding; /* of it, to the model */
} dfm_frames;

/* Reads and checks the call's body. The worker's workspace has been reserved for the model; its
 * pose holds the last frame afterwards. False: call->problem. Free the list in both cases. */
bool dfm_frames_open(dfm_frames *frames, dfm_call *call, const dfm_model *model,
                     bool ignore_unknown, dfm_ik_switch ik, dfm_api_worker *worker);
void dfm_frames_free(dfm_frames *frames);

/* Puts frame `index` into the worker's pose; a single frame stays with the worker that opened the
 * list. False: *problem (only memory can fail by now). */
bool dfm_frames_load(const dfm_frames *frames, uint64_t index, dfm_api_worker *worker,
                     dfm_problem *problem);

/* Whether the list reads the request's body for as long as it lives. */
bool dfm_frames_borrow_body(const dfm_frames *frames);

/* The frame's time, 30 a second: as the motion has it; poses are numbered from 0. */
double dfm_frames_time(const dfm_frames *frames, uint64_t index);

/* How far the frames lie apart in time; false: not evenly, or not forward. */
bool dfm_frames_step(const dfm_frames *frames, double *step);

#endif
