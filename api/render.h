/* A deform's result, frame by frame: what a request and its model came to, independent of whether
 * it is answered from one buffer or as a stream.
 *
 * Thread safety: constant once it is measured; any worker may render any frame, each with a worker
 * index of its own. */
#ifndef DFM_API_RENDER_H
#define DFM_API_RENDER_H

#include "api/wanted.h"

typedef struct dfm_render {
    const dfm_api *api;
    dfm_resident *resident; /* a reference is held */
    dfm_wanted wanted;
    dfm_frames frames;
    uint64_t head_bytes;  /* in front of the frames: of point caches */
    uint64_t frame_bytes; /* of one frame, in raw form */
    uint64_t total_bytes; /* head and all frames; UINT64_MAX: more than that */
} dfm_render;

/* Takes the reference over. */
void dfm_render_begin(dfm_render *render, const dfm_api *api, dfm_resident *resident);
void dfm_render_free(dfm_render *render);

/* Works out the sizes, once `wanted` and `frames` are filled in. False: *problem (422), this result
 * has no place in the format. */
bool dfm_render_measure(dfm_render *render, dfm_problem *problem);

/* Writes head_bytes. */
void dfm_render_write_head(const dfm_render *render, uint8_t *memory);

/* How many frames are best rendered with one call; at least 1. */
uint32_t dfm_render_batch(const dfm_render *render);

/* Renders `count` frames from `first` on, up to dfm_render_batch, into frame_bytes each at
 * `memory`, which is aligned to 4. The worker's workspace has been reserved for the model. False:
 * *problem, whose item is the frame where there are several. */
bool dfm_render_frames(const dfm_render *render, uint64_t first, uint32_t count, uint32_t worker,
                       uint8_t *memory, dfm_deform_times *times, dfm_problem *problem);

/* Renders the first `count` frames, batch by batch, and looks at the call's deadline before each.
 * False: call->problem. */
bool dfm_render_in_time(const dfm_render *render, dfm_call *call, uint64_t count, uint8_t *memory,
                        dfm_deform_times *times);

/* Bones or vertices of a frame. */
uint32_t dfm_render_element_count(const dfm_render *render);

#endif
