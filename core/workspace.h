/* A worker's scratch: everything one deform needs besides the model and the output buffer.
 *
 * It grows to the largest model it has served and is reused: in steady state nothing is allocated.
 * Thread safety: one workspace belongs to one thread. */
#ifndef DFM_CORE_WORKSPACE_H
#define DFM_CORE_WORKSPACE_H

#include "core/skinner.h"

typedef struct dfm_workspace {
    dfm_pose pose;           /* filled by the caller after dfm_workspace_reserve */
    double *morph_weights;   /* expanded weights of the pose being solved */
    dfm_rig_state rig_state; /* result of the last solve */
    float *palette, *rotations, *duals;
    float *deltas; /* positions, block layout */
    uint32_t *delta_stamps, *delta_touched;
    float *uv_deltas; /* UV morphs: one set at a time, vertex_count x 4 */
    uint32_t *uv_stamps, *uv_touched;
    uint32_t generation;
    size_t bone_capacity, morph_capacity, block_capacity, vertex_capacity;
    bool bones_ready, morphs_ready, blocks_ready, uvs_ready; /* all arrays of that kind exist */
    void *rig_memory;                                        /* rig_state lies in here */
    size_t rig_bytes;
} dfm_workspace;

/* Makes room for a model and sets the rest pose. UV scratch is grown only by poses that need it.
 * Failures: DFM_ERROR_NO_MEMORY; the workspace stays usable. */
dfm_status dfm_workspace_reserve(dfm_workspace *workspace, const dfm_skin_bind *bind,
                                 dfm_error *error);
/* Makes room for UV morphs. false: out of memory. */
bool dfm_workspace_reserve_uvs(dfm_workspace *workspace, size_t vertex_count);

/* A number that no stamp in this workspace has yet: stamps of earlier poses, and of other models,
 * need no clearing. */
uint32_t dfm_workspace_next_generation(dfm_workspace *workspace);

void dfm_workspace_free(dfm_workspace *workspace);

#endif
