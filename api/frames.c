#include "api/frames.h"

#include "api/media.h"
#include "api/pointer.h"
#include "core/vpd.h"

#include <stdlib.h>
#include <string.h>

static bool no_memory(dfm_problem *problem) {
    dfm_problem_set(problem, DFM_PROBLEM_OUT_OF_MEMORY, "no memory to read poses");
    return false;
}

static void switch_ik(const dfm_frames *frames, dfm_pose *pose) {
    if (frames->ik != DFM_IK_AS_POSED && pose->bone_count)
        memset(pose->ik_off, frames->ik == DFM_IK_OFF, pose->bone_count);
}

/* --- motions -------------------------------------------------------------------------------- */

static bool load_motion(const dfm_frames *frames, uint64_t index, dfm_api_worker *worker) {
    dfm_pose *pose = &worker->workspace.pose;
    const dfm_motion_frames *asked = &frames->poses.motion;
    dfm_motion_evaluate(frames->binding, dfm_motion_frames_at(asked, index), pose);
    if (asked->overrides)
        dfm_overrides_apply(asked->overrides, pose);
    return true;
}

static bool fail_motion(const dfm_error *error, dfm_problem *problem) {
    dfm_problem_from_error(problem, DFM_SUBJECT_MOTION, error);
    dfm_pointer pointer;
    dfm_pointer_begin(&pointer, problem);
    dfm_pointer_add(&pointer, "motion");
    return false;
}

/* The body has been read: `poses` says which frames of which motion. */
static bool open_motion(dfm_frames *frames, dfm_library *library, dfm_api_worker *worker,
                        dfm_problem *problem) {
    dfm_error error = {0};
    dfm_motion_frames *asked = &frames->poses.motion;
    frames->form = DFM_FRAMES_MOTION;
    if (dfm_library_get_motion(library, asked->id, DFM_LIBRARY_CHECKED, &frames->motion, &error) !=
            DFM_OK ||
        dfm_motion_bind(frames->motion->motion, frames->model, &frames->binding, &error) != DFM_OK)
        return fail_motion(&error, problem);
    if (!dfm_motion_frames_count(asked, frames->motion->motion->vmd.last_frame, problem))
        return false;
    frames->count = asked->count;
    frames->unmatched += dfm_motion_unmatched_count(frames->binding);
    return load_motion(frames, 0, worker);
}

/* --- JSON ----------------------------------------------------------------------------------- */

static bool begin_json(dfm_pose_reader *reader, const dfm_frames *frames, bool ignore_unknown,
                       dfm_api_worker *worker, dfm_problem *problem) {
    return dfm_pose_json_begin(reader, frames->model, ignore_unknown, &worker->scratch,
                               frames->body, frames->body_bytes, problem) ||
           no_memory(problem);
}

static bool open_json(dfm_frames *frames, dfm_library *library, bool ignore_unknown,
                      dfm_api_worker *worker, dfm_problem *problem) {
    dfm_pose_reader reader;
    if (!begin_json(&reader, frames, ignore_unknown, worker, problem) ||
        !dfm_pose_json_read_body(&reader, &worker->workspace.pose, &frames->poses))
        return false;
    frames->count = frames->poses.count;
    frames->unmatched = reader.unmatched;
    return !frames->poses.is_motion || open_motion(frames, library, worker, problem);
}

static bool load_json(const dfm_frames *frames, uint64_t index, dfm_api_worker *worker,
                      dfm_problem *problem) {
    dfm_pose_reader reader;
    return begin_json(&reader, frames, true, worker, problem) &&
           dfm_pose_json_read_again(&reader, frames->poses.offsets[index], &worker->workspace.pose);
}

/* --- binary poses --------------------------------------------------------------------------- */

static bool load_binary(const dfm_frames *frames, uint64_t index, dfm_api_worker *worker,
                        dfm_problem *problem) {
    dfm_pose_reset(&worker->workspace.pose);
    return dfm_pose_binary_read(frames->model, frames->format, frames->body, index,
                                &worker->workspace.pose, problem);
}

static bool open_binary(dfm_frames *frames, dfm_pose_format format, dfm_api_worker *worker,
                        dfm_problem *problem) {
    frames->form = DFM_FRAMES_BINARY;
    frames->format = format;
    if (!dfm_pose_binary_count(frames->model, format, frames->body_bytes, &frames->count, problem))
        return false;
    for (uint64_t i = 0; i < frames->count; i++) {
        if (!load_binary(frames, i, worker, problem))
            return false;
    }
    return true;
}

/* --- VPD ------------------------------------------------------------------------------------ */

static bool open_vpd(dfm_frames *frames, dfm_api_worker *worker, dfm_problem *problem) {
    dfm_arena arena = {0};
    dfm_vpd vpd;
    dfm_error error = {0};
    frames->form = DFM_FRAMES_VPD;
    frames->count = 1;
    dfm_status status = dfm_vpd_read(frames->body, frames->body_bytes, &arena, &vpd, &error);
    if (status == DFM_OK)
        frames->unmatched = dfm_vpd_apply(&vpd, frames->model, &worker->workspace.pose);
    else
        dfm_problem_from_error(problem, DFM_SUBJECT_VPD, &error);
    dfm_arena_free(&arena);
    return status == DFM_OK;
}

/* --- any of them ---------------------------------------------------------------------------- */

static bool open_form(dfm_frames *frames, const dfm_call *call, bool ignore_unknown,
                      dfm_api_worker *worker, dfm_problem *problem) {
    const char *type = call->request->headers.content_type;
    if (type && dfm_media_is(type, DFM_MEDIA_POSE))
        return open_binary(frames, DFM_POSE_FORMAT_LOCAL, worker, problem);
    if (type && dfm_media_is(type, DFM_MEDIA_MATRICES))
        return open_binary(frames, DFM_POSE_FORMAT_MATRICES, worker, problem);
    if (type && dfm_media_is(type, DFM_MEDIA_VPD))
        return open_vpd(frames, worker, problem);
    return open_json(frames, call->api->library, ignore_unknown, worker, problem);
}

bool dfm_frames_open(dfm_frames *frames, dfm_call *call, const dfm_model *model,
                     bool ignore_unknown, dfm_ik_switch ik, dfm_api_worker *worker) {
    *frames = (dfm_frames){.form = DFM_FRAMES_JSON,
                           .ik = ik,
                           .model = model,
                           .body = call->request->body,
                           .body_bytes = call->request->body_bytes};
    if (frames->body_bytes == 0) {
        dfm_problem_set(&call->problem, DFM_PROBLEM_BAD_REQUEST,
                        "the body is empty; {} is the rest pose");
        return false;
    }
    bool good = open_form(frames, call, ignore_unknown, worker, &call->problem);
    switch_ik(frames, &worker->workspace.pose);
    return good;
}

void dfm_frames_free(dfm_frames *frames) {
    dfm_pose_list_free(&frames->poses);
    dfm_motion_binding_free(frames->binding);
    dfm_stored_motion_release(frames->motion);
    *frames = (dfm_frames){0};
}

static bool load_form(const dfm_frames *frames, uint64_t index, dfm_api_worker *worker,
                      dfm_problem *problem) {
    switch (frames->form) {
    case DFM_FRAMES_MOTION:
        return load_motion(frames, index, worker);
    case DFM_FRAMES_BINARY:
        return load_binary(frames, index, worker, problem);
    default:
        return load_json(frames, index, worker, problem);
    }
}

bool dfm_frames_load(const dfm_frames *frames, uint64_t index, dfm_api_worker *worker,
                     dfm_problem *problem) {
    if (frames->count == 1)
        return true; /* it is in the pose since the list was opened */
    bool good = load_form(frames, index, worker, problem);
    switch_ik(frames, &worker->workspace.pose);
    return good;
}

bool dfm_frames_borrow_body(const dfm_frames *frames) {
    return frames->form != DFM_FRAMES_MOTION;
}

double dfm_frames_time(const dfm_frames *frames, uint64_t index) {
    return frames->form == DFM_FRAMES_MOTION ? dfm_motion_frames_at(&frames->poses.motion, index)
                                             : (double)index;
}

bool dfm_frames_step(const dfm_frames *frames, double *step) {
    *step = 1;
    return frames->form != DFM_FRAMES_MOTION || dfm_motion_frames_step(&frames->poses.motion, step);
}
