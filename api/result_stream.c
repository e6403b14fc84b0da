#include "api/result_stream.h"

#include "api/response.h"
#include "api/stats.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct result_stream {
    dfm_api_stream stream; /* first */
    dfm_render render;
    dfm_buffer *head; /* pooled: the format's head and the first frames */
    uint32_t frames_a_block;
    atomic_flag failed; /* whoever sets it writes `why` */
    char why[DFM_PROBLEM_DETAIL_BYTES + 64];
};

bool dfm_result_is_streamed(const dfm_render *render) {
    return render->wanted.format != DFM_RESULT_JSON && render->frames.count > 1 &&
           render->frame_bytes > 0 && render->total_bytes > DFM_STREAM_MIN_BYTES;
}

const dfm_render *dfm_result_stream_render(const dfm_api_stream *stream) {
    return &((const struct result_stream *)stream)->render;
}

static const char *note_failure(struct result_stream *s, uint64_t frame,
                                const dfm_problem *problem) {
    if (atomic_flag_test_and_set(&s->failed))
        return dfm_problem_kinds[problem->code].title;
    snprintf(s->why, sizeof s->why, "frame %" PRIu64 ": %s", frame, problem->detail);
    return s->why;
}

/* Blocks follow the frames in the head. */
static uint64_t first_frame(const struct result_stream *s, uint64_t block) {
    uint64_t in_blocks = s->stream.block_count * s->frames_a_block;
    return s->render.frames.count - in_blocks + block * s->frames_a_block;
}

static bool render_block(dfm_api_stream *stream, uint64_t block, uint32_t worker, uint8_t *memory,
                         const char **why) {
    struct result_stream *s = (struct result_stream *)stream;
    const dfm_render *render = &s->render;
    dfm_workspace *workspace = &render->api->workers[worker].workspace;
    dfm_deform_times times = {0};
    dfm_problem problem;
    dfm_error error = {0};
    uint64_t frame = first_frame(s, block);
    if (dfm_workspace_reserve(workspace, render->resident->target.bind, &error) != DFM_OK) {
        dfm_problem_from_error(&problem, DFM_SUBJECT_POSE, &error);
        *why = note_failure(s, frame, &problem);
        return false;
    }
    uint32_t batch = dfm_render_batch(render), left = s->frames_a_block;
    while (left > 0) {
        uint32_t count = left < batch ? left : batch;
        if (!dfm_render_frames(render, frame, count, worker, memory, &times, &problem)) {
            *why = note_failure(s, problem.item >= 0 ? (uint64_t)problem.item : frame, &problem);
            return false;
        }
        left -= count;
        frame += count;
        memory += count * render->frame_bytes;
    }
    s->stream.solve_ns += times.solve_ns;
    s->stream.skin_ns += times.skin_ns;
    s->stream.encode_ns += times.encode_ns;
    return true;
}

static void free_stream(dfm_api_stream *stream) {
    struct result_stream *s = (struct result_stream *)stream;
    const dfm_buffers *buffers = &s->render.api->config.buffers;
    if (s->head)
        buffers->release(buffers->context, s->head);
    dfm_stats_add_times(s->render.resident->use,
                        (uint64_t[DFM_STAGE_COUNT]){[DFM_STAGE_SOLVE] = stream->solve_ns,
                                                    [DFM_STAGE_SKIN] = stream->skin_ns,
                                                    [DFM_STAGE_ENCODE] = stream->encode_ns});
    dfm_render_free(&s->render);
    free(s);
}

/* Blocks are of equal size: what is left over of the frames goes into the head, at least one. */
static uint32_t divide(struct result_stream *s, const dfm_render *render) {
    uint64_t count = render->frames.count, fit = DFM_STREAM_BLOCK_BYTES / render->frame_bytes;
    uint32_t batch = dfm_render_batch(render);
    if (fit < batch)
        fit = batch;
    s->frames_a_block = fit > count ? (uint32_t)count : fit > 0 ? (uint32_t)fit : 1;
    uint32_t left_over = (uint32_t)(count % s->frames_a_block);
    uint32_t in_head = left_over > 0 ? left_over : s->frames_a_block;
    s->stream.total_bytes = render->total_bytes;
    s->stream.head_bytes = render->head_bytes + in_head * render->frame_bytes;
    s->stream.block_count = (count - in_head) / s->frames_a_block;
    s->stream.block_bytes = s->frames_a_block * render->frame_bytes;
    return in_head;
}

static bool render_head(dfm_call *call, const dfm_render *render, uint32_t frame_count,
                        uint8_t *memory, dfm_deform_times *times) {
    dfm_render_write_head(render, memory);
    return dfm_render_in_time(render, call, frame_count, memory + render->head_bytes, times);
}

static bool prepare(struct result_stream *s, dfm_call *call, const dfm_render *render,
                    dfm_deform_times *times) {
    uint32_t in_head = divide(s, render);
    if (!dfm_call_check_room(call, dfm_response_capacity((size_t)s->stream.head_bytes),
                             s->stream.block_count > 0 ? s->stream.block_bytes : 0))
        return false;
    s->head = dfm_call_result(call, s->stream.head_bytes);
    return s->head && render_head(call, render, in_head, s->head->data, times);
}

dfm_api_stream *dfm_result_stream_create(dfm_call *call, dfm_render *render,
                                         dfm_deform_times *times) {
    const dfm_buffers *buffers = &call->api->config.buffers;
    if (!dfm_call_check_result(call, render->total_bytes))
        return NULL;
    struct result_stream *s = calloc(1, sizeof *s);
    if (!s) {
        dfm_problem_set(&call->problem, DFM_PROBLEM_OUT_OF_MEMORY, "no memory for a stream");
        return NULL;
    }
    if (!prepare(s, call, render, times)) {
        if (s->head)
            buffers->release(buffers->context, s->head);
        free(s);
        return NULL;
    }
    atomic_flag_clear(&s->failed);
    s->render = *render;
    *render = (dfm_render){0};
    s->stream.head = s->head->data;
    s->stream.borrows_body = dfm_frames_borrow_body(&s->render.frames);
    s->stream.render = render_block;
    s->stream.free = free_stream;
    return &s->stream;
}
