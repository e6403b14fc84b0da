#include "core/deform.h"

#include <string.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- solve ------------------------------------------------------------------------------------ */

dfm_status dfm_deform_solve(const dfm_deform_target *target, dfm_workspace *workspace,
                            dfm_deform_times *times, dfm_error *error) {
    uint64_t begin_ns = now_ns();
    const dfm_model *model = target->model;
    const dfm_pose *pose = &workspace->pose;
    memcpy(workspace->morph_weights, pose->morph_weights,
           model->pmx.morph_count * sizeof *workspace->morph_weights);
    dfm_morph_expand(&model->morph_graph, &model->pmx, workspace->morph_weights);
    bool in_range = dfm_rig_solve(&model->rig, &model->pmx, pose, workspace->morph_weights,
                                  &workspace->rig_state);
    if (in_range)
        dfm_rig_palette(&model->rig, &workspace->rig_state, workspace->palette,
                        workspace->rotations, target->bind->has_qdef ? workspace->duals : NULL);
    times->solve_ns += now_ns() - begin_ns;
    if (!in_range)
        return dfm_fail(error, DFM_ERROR_ARGUMENT, "pose", -1, -1,
                        "the posed bones leave the range of single precision");
    return DFM_OK;
}

/* --- morphs ----------------------------------------------------------------------------------- */

/* The block of a slot, cleared where this pose has not touched it yet. */
static float *touch_block(dfm_workspace *w, dfm_skin_deltas *deltas, uint32_t block) {
    float *at = w->deltas + 3 * DFM_LANES * (size_t)block;
    if (w->delta_stamps[block] != deltas->generation) {
        w->delta_stamps[block] = deltas->generation;
        w->delta_touched[deltas->touched_count++] = block;
        memset(at, 0, 3 * DFM_LANES * sizeof *at);
    }
    return at;
}

static void add_vertex_morph(const dfm_skin_bind *bind, const dfm_pmx_morph *morph, double weight,
                             dfm_workspace *w, dfm_skin_deltas *deltas) {
    for (uint32_t i = 0; i < morph->count; i++) {
        const dfm_pmx_vertex_offset *offset = &morph->offsets.vertices[i];
        if (offset->vertex >= bind->vertex_count)
            continue; /* reported at load */
        uint32_t slot = bind->slot[offset->vertex];
        float *lane = touch_block(w, deltas, slot / DFM_LANES) + slot % DFM_LANES;
        for (int k = 0; k < 3; k++)
            lane[k * DFM_LANES] += (float)(weight * (double)offset->offset[k]);
    }
}

/* The lanes that a block leaves over repeat its last vertex, moved as that is. */
static void fill_spare_lanes(const dfm_skin_bind *bind, dfm_workspace *w,
                             const dfm_skin_deltas *deltas) {
    for (uint32_t i = 0; i < deltas->touched_count; i++) {
        uint32_t block = w->delta_touched[i], lanes = bind->blocks[block].lane_count;
        for (int k = 0; k < 3; k++) {
            float *row = w->deltas + (3 * (size_t)block + (size_t)k) * DFM_LANES;
            for (uint32_t lane = lanes; lane < DFM_LANES; lane++)
                row[lane] = row[lanes - 1];
        }
    }
}

static dfm_skin_deltas morph_vertices(const dfm_deform_target *target, dfm_workspace *w) {
    const dfm_pmx *pmx = &target->model->pmx;
    dfm_skin_deltas deltas = {.deltas = w->deltas,
                              .stamps = w->delta_stamps,
                              .generation = dfm_workspace_next_generation(w),
                              .touched = w->delta_touched};
    for (uint32_t i = 0; i < pmx->morph_count; i++)
        if (pmx->morphs[i].type == DFM_MORPH_VERTEX && w->morph_weights[i] != 0)
            add_vertex_morph(target->bind, &pmx->morphs[i], w->morph_weights[i], w, &deltas);
    fill_spare_lanes(target->bind, w, &deltas);
    return deltas;
}

/* --- attributes that are not skinned ---------------------------------------------------------- */

static bool is_uv(dfm_attribute attribute) {
    return attribute >= DFM_ATTRIBUTE_UV && attribute <= DFM_ATTRIBUTE_UV4;
}

static uint8_t uv_morph_type(dfm_attribute attribute) {
    return (uint8_t)(DFM_MORPH_UV + (attribute - DFM_ATTRIBUTE_UV));
}

static bool has_active_morph(const dfm_pmx *pmx, const dfm_workspace *w, uint8_t type) {
    for (uint32_t i = 0; i < pmx->morph_count; i++)
        if (pmx->morphs[i].type == type && w->morph_weights[i] != 0 && pmx->morphs[i].count > 0)
            return true;
    return false;
}

/* Sums the active UV morphs of a type; returns how many vertices they touch. */
static uint32_t sum_uv_morphs(const dfm_pmx *pmx, dfm_workspace *w, uint8_t type) {
    uint32_t generation = dfm_workspace_next_generation(w), touched = 0;
    for (uint32_t i = 0; i < pmx->morph_count; i++) {
        const dfm_pmx_morph *morph = &pmx->morphs[i];
        if (morph->type != type || w->morph_weights[i] == 0)
            continue;
        for (uint32_t k = 0; k < morph->count; k++) {
            const dfm_pmx_uv_offset *offset = &morph->offsets.uvs[k];
            if (offset->vertex >= pmx->vertices.count)
                continue; /* reported at load */
            float *sum = w->uv_deltas + 4 * (size_t)offset->vertex;
            if (w->uv_stamps[offset->vertex] != generation) {
                w->uv_stamps[offset->vertex] = generation;
                w->uv_touched[touched++] = offset->vertex;
                memset(sum, 0, 4 * sizeof *sum);
            }
            for (int c = 0; c < 4; c++)
                sum[c] += (float)(w->morph_weights[i] * (double)offset->offset[c]);
        }
    }
    return touched;
}

static dfm_status add_uv_morphs(const dfm_pmx *pmx, dfm_workspace *w, const dfm_layout *layout,
                                uint32_t i, void *frame, dfm_error *error) {
    dfm_attribute attribute = layout->attributes[i];
    uint8_t type = uv_morph_type(attribute);
    if (!has_active_morph(pmx, w, type))
        return DFM_OK;
    if (!dfm_workspace_reserve_uvs(w, pmx->vertices.count))
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, "pose", -1, -1,
                        "no memory for the UV morphs of %u vertices", pmx->vertices.count);
    uint32_t touched = sum_uv_morphs(pmx, w, type);
    uint32_t components = dfm_attribute_components(attribute);
    const float *source = dfm_layout_source(&pmx->vertices, attribute);
    dfm_skin_output output = dfm_layout_output(layout, i, frame);
    for (uint32_t k = 0; k < touched; k++) {
        size_t vertex = w->uv_touched[k];
        float moved[4];
        for (uint32_t c = 0; c < components; c++)
            moved[c] = dfm_finite(source[components * vertex + c] + w->uv_deltas[4 * vertex + c]);
        dfm_layout_store(layout, &output, (uint32_t)vertex, moved, components);
    }
    return DFM_OK;
}

static dfm_status write_attributes(const dfm_pmx *pmx, dfm_workspace *w, const dfm_layout *layout,
                                   void *frame, dfm_error *error) {
    for (uint32_t i = 0; i < layout->attribute_count; i++) {
        dfm_attribute attribute = layout->attributes[i];
        if (attribute == DFM_ATTRIBUTE_POSITION || attribute == DFM_ATTRIBUTE_NORMAL)
            continue;
        dfm_layout_write_bind(layout, i, &pmx->vertices, frame);
        if (!is_uv(attribute))
            continue;
        dfm_status status = add_uv_morphs(pmx, w, layout, i, frame, error);
        if (status != DFM_OK)
            return status;
    }
    return DFM_OK;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* Bytes of frames that one launch makes: a few, so that a stream's memory stays a few frames. */
static const uint64_t batch_bytes_max = 4 << 20;

uint32_t dfm_deform_batch(const dfm_deform_target *target, uint64_t frame_bytes) {
    if (!target->skinner->backend->batches)
        return 1;
    uint64_t fit = frame_bytes > 0 ? batch_bytes_max / frame_bytes : 1;
    return fit < 1 ? 1 : fit > DFM_DEFORM_BATCH_MAX ? DFM_DEFORM_BATCH_MAX : (uint32_t)fit;
}

static dfm_skin_job make_job(const dfm_deform_target *target, dfm_workspace *w,
                             const dfm_layout *layout, void *frame) {
    dfm_skin_job job = {.palette = w->palette,
                        .rotations = w->rotations,
                        .duals = w->duals,
                        .component = layout->component};
    for (uint32_t i = 0; i < layout->attribute_count; i++) {
        if (layout->attributes[i] == DFM_ATTRIBUTE_POSITION)
            job.position = dfm_layout_output(layout, i, frame);
        else if (layout->attributes[i] == DFM_ATTRIBUTE_NORMAL)
            job.normal = dfm_layout_output(layout, i, frame);
    }
    if (job.position.data || job.normal.data)
        job.deltas = morph_vertices(target, w);
    return job;
}

/* All frames want the same attributes. */
static dfm_status skin(const dfm_deform_target *target, dfm_workspace *const *workspaces,
                       uint32_t count, uint32_t worker, const dfm_layout *layout, uint8_t *frames,
                       dfm_error *error) {
    dfm_skin_job jobs[DFM_DEFORM_BATCH_MAX];
    for (uint32_t i = 0; i < count; i++)
        jobs[i] = make_job(target, workspaces[i], layout, frames + i * layout->frame_bytes);
    if (!jobs[0].position.data && !jobs[0].normal.data)
        return DFM_OK;
    return dfm_skinner_run(target->skinner, target->binding, worker, jobs, count, error);
}

dfm_status dfm_deform_frames(const dfm_deform_target *target, dfm_workspace *const *workspaces,
                             uint32_t count, uint32_t worker, const dfm_layout *layout,
                             void *frames, dfm_deform_times *times, uint32_t *failed,
                             dfm_error *error) {
    dfm_status status;
    for (*failed = 0; *failed < count; ++*failed) {
        status = dfm_deform_solve(target, workspaces[*failed], times, error);
        if (status != DFM_OK)
            return status;
    }
    *failed = 0;
    uint64_t solved_ns = now_ns();
    status = skin(target, workspaces, count, worker, layout, frames, error);
    uint64_t skinned_ns = now_ns();
    times->skin_ns += skinned_ns - solved_ns;
    for (; status == DFM_OK && *failed < count; ++*failed)
        status = write_attributes(&target->model->pmx, workspaces[*failed], layout,
                                  (uint8_t *)frames + *failed * layout->frame_bytes, error);
    times->encode_ns += now_ns() - skinned_ns;
    return status;
}

dfm_status dfm_deform(const dfm_deform_target *target, dfm_workspace *workspace, uint32_t worker,
                      const dfm_layout *layout, void *frame, dfm_deform_times *times,
                      dfm_error *error) {
    uint32_t failed;
    return dfm_deform_frames(target, &workspace, 1, worker, layout, frame, times, &failed, error);
}
