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
    DFM_FRAMES_BINARY
} dfm_frames_form;

typedef struct dfm_frames {
    dfm_frames_form form;
    uint64_t count;     /* at least 1 */
    uint64_t unmatched; /* names that the model lacks and that were ignored */
    const dfm_model *model;
    const uint8_t *body; /* borrowed */
    size_t body_bytes;
    dfm_pose_list poses;    /* DFM_FRAMES_JSON */
    dfm_pose_format format; /* DFM_FRAMES_BINARY */
} dfm_frames;

/* Reads and checks the call's body. The worker's workspace has been reserved for the model; its
 * pose holds the last frame afterwards. False: call->problem. Free the list in both cases. */
bool dfm_frames_open(dfm_frames *frames, dfm_call *call, const dfm_model *model,
                     bool ignore_unknown, dfm_api_worker *worker);
void dfm_frames_free(dfm_frames *frames);

/* Puts frame `index` into the worker's pose; a single frame stays with the worker that opened the
 * list. False: *problem (only memory can fail by now). */
bool dfm_frames_load(const dfm_frames *frames, uint64_t index, dfm_api_worker *worker,
                     dfm_problem *problem);

#endif
