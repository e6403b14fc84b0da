#include "api/render.h"

#include "api/point_cache.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MATRIX_FLOATS = 12, MATRIX_BYTES = MATRIX_FLOATS * sizeof(float) };

void dfm_render_begin(dfm_render *render, const dfm_api *api, dfm_resident *resident) {
    *render = (dfm_render){.api = api, .resident = resident};
}

void dfm_render_free(dfm_render *render) {
    dfm_frames_free(&render->frames);
    dfm_resident_release(render->resident);
    render->resident = NULL;
}

uint32_t dfm_render_element_count(const dfm_render *render) {
    const dfm_pmx *pmx = &render->resident->target.model->pmx;
    return render->wanted.output == DFM_OUTPUT_BONES ? pmx->bone_count : pmx->vertices.count;
}

/* --- sizes ---------------------------------------------------------------------------------- */

static bool fail_frames(dfm_problem *problem, const char *why) {
    dfm_problem_set(problem, DFM_PROBLEM_INVALID_POSE, "%s", why);
    problem->has_pointer = true;
    strcpy(problem->pointer, "/frames");
    return false;
}

static bool check_point_cache(const dfm_render *render, dfm_problem *problem) {
    double step;
    if (render->frames.count > DFM_POINT_CACHE_MAX_FRAMES ||
        dfm_render_element_count(render) > (uint32_t)INT32_MAX)
        return fail_frames(problem, "point caches count frames and points up to 2^31 - 1");
    return render->wanted.format != DFM_RESULT_PC2 || dfm_frames_step(&render->frames, &step) ||
           fail_frames(problem, "PC2 has one step between its frames, above 0: these are uneven");
}

static uint64_t head_bytes(const dfm_render *render) {
    switch (render->wanted.format) {
    case DFM_RESULT_PC2:
        return DFM_PC2_HEAD_BYTES;
    case DFM_RESULT_MDD:
        return dfm_mdd_head_bytes(render->frames.count);
    default:
        return 0;
    }
}

bool dfm_render_measure(dfm_render *render, dfm_problem *problem) {
    bool bones = render->wanted.output == DFM_OUTPUT_BONES;
    render->frame_bytes = bones ? (uint64_t)MATRIX_BYTES * dfm_render_element_count(render)
                                : render->wanted.layout.frame_bytes;
    bool cache = render->wanted.format == DFM_RESULT_PC2 || render->wanted.format == DFM_RESULT_MDD;
    if (cache && !check_point_cache(render, problem))
        return false;
    render->head_bytes = head_bytes(render);
    uint64_t bytes;
    if (__builtin_mul_overflow(render->frame_bytes, render->frames.count, &bytes) ||
        __builtin_add_overflow(bytes, render->head_bytes, &render->total_bytes))
        render->total_bytes = UINT64_MAX;
    return true;
}

/* --- heads ---------------------------------------------------------------------------------- */

static void write_mdd_head(const dfm_render *render, uint8_t *memory) {
    const dfm_frames *frames = &render->frames;
    dfm_mdd_write_counts(memory, (uint32_t)frames->count, dfm_render_element_count(render));
    for (uint64_t i = 0; i < frames->count; i++)
        dfm_mdd_write_time(memory, i, dfm_frames_time(frames, i));
}

static void write_pc2_head(const dfm_render *render, uint8_t *memory) {
    const dfm_frames *frames = &render->frames;
    double step;
    dfm_frames_step(frames, &step); /* even: measured */
    dfm_pc2_write_head(memory, dfm_render_element_count(render), dfm_frames_time(frames, 0), step,
                       (uint32_t)frames->count);
}

void dfm_render_write_head(const dfm_render *render, uint8_t *memory) {
    if (render->wanted.format == DFM_RESULT_PC2)
        write_pc2_head(render, memory);
    else if (render->wanted.format == DFM_RESULT_MDD)
        write_mdd_head(render, memory);
}

/* --- frames --------------------------------------------------------------------------------- */

static dfm_status render_bones(const dfm_render *render, dfm_workspace *workspace, uint8_t *memory,
                               dfm_deform_times *times, dfm_error *error) {
    const dfm_deform_target *target = &render->resident->target;
    dfm_status status = dfm_deform_solve(target, workspace, times, error);
    if (status != DFM_OK)
        return status;
    for (uint32_t i = 0; i < target->model->pmx.bone_count; i++) {
        float matrix[MATRIX_FLOATS];
        for (int k = 0; k < MATRIX_FLOATS; k++)
            matrix[k] = (float)workspace->rig_state.global[i][k];
        memcpy(memory + (size_t)MATRIX_BYTES * i, matrix, MATRIX_BYTES);
    }
    return DFM_OK;
}

static void finish_point_cache(const dfm_render *render, uint8_t *memory, dfm_deform_times *times) {
    uint64_t begun_ns = dfm_call_now_ns(), count = render->frame_bytes / sizeof(float);
    dfm_point_cache_scale((float *)(void *)memory, count, render->wanted.scale);
    if (render->wanted.format == DFM_RESULT_MDD)
        dfm_point_cache_swap(memory, count);
    times->encode_ns += dfm_call_now_ns() - begun_ns;
}

uint32_t dfm_render_batch(const dfm_render *render) {
    if (render->wanted.output == DFM_OUTPUT_BONES)
        return 1;
    uint32_t batch = dfm_deform_batch(&render->resident->target, render->frame_bytes);
    return batch > render->frames.count ? (uint32_t)render->frames.count : batch;
}

/* The scratch of each frame of a batch. False: no memory. */
static bool reserve_batch(const dfm_render *render, dfm_api_worker *worker, uint32_t count,
                          dfm_api_worker *frames[DFM_DEFORM_BATCH_MAX], dfm_error *error) {
    frames[0] = worker;
    if (count > 1 && !worker->more)
        worker->more = calloc(DFM_DEFORM_BATCH_MAX - 1, sizeof *worker->more);
    if (count > 1 && !worker->more)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, "pose", -1, -1, "no memory for poses"), false;
    for (uint32_t i = 1; i < count; i++) {
        frames[i] = &worker->more[i - 1];
        if (dfm_workspace_reserve(&frames[i]->workspace, render->resident->target.bind, error) !=
            DFM_OK)
            return false;
    }
    return true;
}

static bool fail_frame(const dfm_render *render, uint64_t frame, const dfm_error *error,
                       dfm_problem *problem) {
    if (error->status == DFM_ERROR_BACKEND)
        dfm_metrics_count_backend_failure(render->api->metrics);
    dfm_problem_from_error(problem, DFM_SUBJECT_POSE, error);
    if (render->frames.count > 1)
        problem->item = (int64_t)frame;
    return false;
}

static dfm_status render_vertices(const dfm_render *render,
                                  dfm_workspace *const workspaces[DFM_DEFORM_BATCH_MAX],
                                  uint32_t count, uint32_t worker, uint8_t *memory,
                                  dfm_deform_times *times, uint32_t *failed, dfm_error *error) {
    dfm_status status = dfm_deform_frames(&render->resident->target, workspaces, count, worker,
                                          &render->wanted.layout, memory, times, failed, error);
    bool cache = render->wanted.format == DFM_RESULT_PC2 || render->wanted.format == DFM_RESULT_MDD;
    for (uint32_t i = 0; cache && status == DFM_OK && i < count; i++)
        finish_point_cache(render, memory + i * render->frame_bytes, times);
    return status;
}

bool dfm_render_frames(const dfm_render *render, uint64_t first, uint32_t count, uint32_t worker,
                       uint8_t *memory, dfm_deform_times *times, dfm_problem *problem) {
    dfm_api_worker *scratch[DFM_DEFORM_BATCH_MAX];
    dfm_workspace *workspaces[DFM_DEFORM_BATCH_MAX];
    uint32_t failed = 0;
    dfm_error error = {0};
    if (!reserve_batch(render, &render->api->workers[worker], count, scratch, &error))
        return fail_frame(render, first, &error, problem);
    for (uint32_t i = 0; i < count; i++) {
        workspaces[i] = &scratch[i]->workspace;
        if (!dfm_frames_load(&render->frames, first + i, scratch[i], problem))
            return false;
    }
    dfm_status status =
        render->wanted.output == DFM_OUTPUT_BONES
            ? render_bones(render, workspaces[0], memory, times, &error)
            : render_vertices(render, workspaces, count, worker, memory, times, &failed, &error);
    return status == DFM_OK || fail_frame(render, first + failed, &error, problem);
}

bool dfm_render_in_time(const dfm_render *render, dfm_call *call, uint64_t count, uint8_t *memory,
                        dfm_deform_times *times) {
    uint32_t batch = dfm_render_batch(render);
    for (uint64_t first = 0; first < count; first += batch, memory += batch * render->frame_bytes) {
        uint32_t now = count - first < batch ? (uint32_t)(count - first) : batch;
        if (!dfm_call_in_time(call, &call->problem) ||
            !dfm_render_frames(render, first, now, call->request->worker, memory, times,
                               &call->problem))
            return false;
    }
    return true;
}
