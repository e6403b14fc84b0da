#include "core/workspace.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

/* A new array in place of *array, which is freed: nothing in a workspace outlives a growth. */
static bool renew(void *array, size_t count, size_t size) {
    void **at = array;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ALIGNMENT)
        return false;
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    free(*at);
    *at = aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT);
    if (*at)
        memset(*at, 0, bytes);
    return *at != NULL;
}

/* A capacity counts only once all its arrays are there: after a failure they are made anew. */
static bool reserve_bones(dfm_workspace *w, size_t count) {
    if (w->bones_ready && count <= w->bone_capacity)
        return true;
    w->bones_ready = renew(&w->pose.bones, count, sizeof *w->pose.bones) &&
                     renew(&w->pose.ik_off, count, sizeof *w->pose.ik_off) &&
                     renew(&w->pose.matrices, count, sizeof *w->pose.matrices) &&
                     renew(&w->palette, count, 12 * sizeof *w->palette) &&
                     renew(&w->rotations, count, 4 * sizeof *w->rotations) &&
                     renew(&w->duals, count, 4 * sizeof *w->duals);
    w->bone_capacity = w->bones_ready ? count : 0;
    return w->bones_ready;
}

static bool reserve_morphs(dfm_workspace *w, size_t count) {
    if (w->morphs_ready && count <= w->morph_capacity)
        return true;
    w->morphs_ready = renew(&w->pose.morph_weights, count, sizeof *w->pose.morph_weights) &&
                      renew(&w->morph_weights, count, sizeof *w->morph_weights);
    w->morph_capacity = w->morphs_ready ? count : 0;
    return w->morphs_ready;
}

static bool reserve_blocks(dfm_workspace *w, size_t count) {
    if (w->blocks_ready && count <= w->block_capacity)
        return true;
    w->blocks_ready = renew(&w->deltas, count, 3 * DFM_LANES * sizeof *w->deltas) &&
                      renew(&w->delta_stamps, count, sizeof *w->delta_stamps) &&
                      renew(&w->delta_touched, count, sizeof *w->delta_touched);
    w->block_capacity = w->blocks_ready ? count : 0;
    return w->blocks_ready;
}

static bool reserve_rig(dfm_workspace *w, const dfm_rig *rig) {
    size_t bytes = dfm_rig_state_bytes(rig);
    if (!w->rig_memory || bytes > w->rig_bytes) {
        w->rig_bytes = renew(&w->rig_memory, bytes, 1) ? bytes : 0;
        if (!w->rig_memory)
            return false;
    }
    dfm_rig_state_place(&w->rig_state, rig, w->rig_memory);
    return true;
}

dfm_status dfm_workspace_reserve(dfm_workspace *workspace, const dfm_skin_bind *bind,
                                 dfm_error *error) {
    const dfm_pmx *pmx = &bind->model->pmx;
    if (!reserve_bones(workspace, pmx->bone_count) ||
        !reserve_morphs(workspace, pmx->morph_count) ||
        !reserve_blocks(workspace, bind->block_count) || !reserve_rig(workspace, &bind->model->rig))
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, "pose", -1, -1,
                        "no memory for the scratch of %u vertices and %u bones",
                        pmx->vertices.count, pmx->bone_count);
    workspace->pose.bone_count = pmx->bone_count;
    workspace->pose.morph_count = pmx->morph_count;
    dfm_pose_reset(&workspace->pose);
    return DFM_OK;
}

bool dfm_workspace_reserve_uvs(dfm_workspace *w, size_t vertex_count) {
    if (w->uvs_ready && vertex_count <= w->vertex_capacity)
        return true;
    w->uvs_ready = renew(&w->uv_deltas, vertex_count, 4 * sizeof *w->uv_deltas) &&
                   renew(&w->uv_stamps, vertex_count, sizeof *w->uv_stamps) &&
                   renew(&w->uv_touched, vertex_count, sizeof *w->uv_touched);
    w->vertex_capacity = w->uvs_ready ? vertex_count : 0;
    return w->uvs_ready;
}

uint32_t dfm_workspace_next_generation(dfm_workspace *w) {
    if (++w->generation == 0) { /* every 2^32 poses: no old stamp may come true again */
        if (w->delta_stamps)
            memset(w->delta_stamps, 0, w->block_capacity * sizeof *w->delta_stamps);
        if (w->uv_stamps)
            memset(w->uv_stamps, 0, w->vertex_capacity * sizeof *w->uv_stamps);
        w->generation = 1;
    }
    return w->generation;
}

void dfm_workspace_free(dfm_workspace *w) {
    void *const arrays[] = {w->pose.bones, w->pose.ik_off,  w->pose.matrices, w->palette,
                            w->rotations,  w->duals,        w->morph_weights, w->pose.morph_weights,
                            w->deltas,     w->delta_stamps, w->delta_touched, w->uv_deltas,
                            w->uv_stamps,  w->uv_touched,   w->rig_memory};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    *w = (dfm_workspace){0};
}
