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

/* Renders frame `index` into frame_bytes at `memory`, which is aligned to 4. The worker's workspace
 * has been reserved for the model. False: *problem. */
bool dfm_render_frame(const dfm_render *render, uint64_t index, uint32_t worker, uint8_t *memory,
                      dfm_deform_times *times, dfm_problem *problem);

/* Bones or vertices of a frame. */
uint32_t dfm_render_element_count(const dfm_render *render);

#endif
