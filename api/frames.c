#include "api/frames.h"

#include "api/media.h"

#include <stdlib.h>

static bool no_memory(dfm_problem *problem) {
    dfm_problem_set(problem, DFM_PROBLEM_OUT_OF_MEMORY, "no memory to read poses");
    return false;
}

static bool begin_json(dfm_pose_reader *reader, const dfm_frames *frames, bool ignore_unknown,
                       dfm_api_worker *worker, dfm_problem *problem) {
    return dfm_pose_json_begin(reader, frames->model, ignore_unknown, &worker->scratch,
                               frames->body, frames->body_bytes, problem) ||
           no_memory(problem);
}

static bool open_json(dfm_frames *frames, bool ignore_unknown, dfm_api_worker *worker,
                      dfm_problem *problem) {
    dfm_pose_reader reader;
    if (!begin_json(&reader, frames, ignore_unknown, worker, problem) ||
        !dfm_pose_json_read_body(&reader, &worker->workspace.pose, &frames->poses))
        return false;
    frames->count = frames->poses.count;
    frames->unmatched = reader.unmatched;
    return true;
}

static bool load_json(const dfm_frames *frames, uint64_t index, dfm_api_worker *worker,
                      dfm_problem *problem) {
    dfm_pose_reader reader;
    return begin_json(&reader, frames, true, worker, problem) &&
           dfm_pose_json_read_again(&reader, frames->poses.offsets[index], &worker->workspace.pose);
}

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

bool dfm_frames_open(dfm_frames *frames, dfm_call *call, const dfm_model *model,
                     bool ignore_unknown, dfm_api_worker *worker) {
    const char *type = call->request->headers.content_type;
    *frames = (dfm_frames){.form = DFM_FRAMES_JSON,
                           .model = model,
                           .body = call->request->body,
                           .body_bytes = call->request->body_bytes};
    if (frames->body_bytes == 0) {
        dfm_problem_set(&call->problem, DFM_PROBLEM_BAD_REQUEST,
                        "the body is empty; {} is the rest pose");
        return false;
    }
    if (type && dfm_media_is(type, DFM_MEDIA_POSE))
        return open_binary(frames, DFM_POSE_FORMAT_LOCAL, worker, &call->problem);
    if (type && dfm_media_is(type, DFM_MEDIA_MATRICES))
        return open_binary(frames, DFM_POSE_FORMAT_MATRICES, worker, &call->problem);
    return open_json(frames, ignore_unknown, worker, &call->problem);
}

void dfm_frames_free(dfm_frames *frames) {
    free(frames->poses.offsets);
    frames->poses.offsets = NULL;
}

bool dfm_frames_load(const dfm_frames *frames, uint64_t index, dfm_api_worker *worker,
                     dfm_problem *problem) {
    if (frames->count == 1)
        return true; /* it is in the pose since the list was opened */
    return frames->form == DFM_FRAMES_JSON ? load_json(frames, index, worker, problem)
                                           : load_binary(frames, index, worker, problem);
}
