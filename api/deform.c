#include "api/response.h"
#include "api/result_json.h"
#include "api/result_stream.h"
#include "api/stats.h"

#include <inttypes.h>

/* One deform, from the request to the answer. */
struct job {
    dfm_call *call;
    dfm_render render;
    uint64_t parse_ns;
    dfm_deform_times times; /* of a stream: of the frames before the answer begins */
};

bool dfm_deform_check(const dfm_query *query, dfm_problem *problem) {
    dfm_wanted wanted;
    return dfm_wanted_read(&wanted, query, NULL, problem);
}

/* --- headers -------------------------------------------------------------------------------- */

static double ms(uint64_t ns) {
    return (double)ns / 1e6;
}

static const char *skinner_name(const dfm_render *render) {
    return render->resident->target.skinner->backend->name;
}

/* Point caches say by themselves what is in them, and lie otherwise than a header could say. */
static void add_content_headers(const dfm_render *render, dfm_api_response *response) {
    uint64_t frames = render->frames.count;
    if (render->wanted.output == DFM_OUTPUT_BONES) {
        dfm_response_header(response, "Deformd-Frames", "%" PRIu64, frames);
        dfm_response_header(response, "Deformd-Bones", "%u", dfm_render_element_count(render));
        dfm_response_header(response, "Deformd-Stride", "48");
        dfm_response_header(response, "Deformd-Layout", "matrix:f32x12@0");
    } else if (render->head_bytes > 0) {
        dfm_response_header(response, "Deformd-Frames", "%" PRIu64, frames);
        dfm_response_header(response, "Deformd-Vertices", "%u", dfm_render_element_count(render));
    } else {
        dfm_attributes_add_headers(&render->wanted.layout, frames, render->frames.model, response);
    }
}

static void account(const struct job *job, const dfm_render *render) {
    const dfm_call *call = job->call;
    dfm_account *account = &call->response->account;
    uint64_t received_ns = call->request->received_ns;
    account->frames = render->frames.count;
    account->stage_ns[DFM_STAGE_PARSE] = job->parse_ns;
    account->stage_ns[DFM_STAGE_QUEUE] =
        received_ns && call->begun_ns > received_ns ? call->begun_ns - received_ns : 0;
    account->stage_ns[DFM_STAGE_SOLVE] = job->times.solve_ns;
    account->stage_ns[DFM_STAGE_SKIN] = job->times.skin_ns;
    account->stage_ns[DFM_STAGE_ENCODE] = job->times.encode_ns;
}

static void begin_answer(const struct job *job, const dfm_render *render) {
    const dfm_call *call = job->call;
    dfm_api_response *response = call->response;
    const uint64_t *stage_ns = response->account.stage_ns;
    account(job, render);
    dfm_response_begin(response, call->request, 200);
    add_content_headers(render, response);
    if (render->wanted.output == DFM_OUTPUT_VERTICES)
        dfm_response_header(response, "Deformd-Skinner", "%s", skinner_name(render));
    dfm_response_header(response, "Deformd-Unmatched", "%" PRIu64, render->frames.unmatched);
    dfm_response_header(response, "Server-Timing",
                        "parse;dur=%.3f, queue;dur=%.3f, solve;dur=%.3f, skin;dur=%.3f, "
                        "encode;dur=%.3f",
                        ms(stage_ns[DFM_STAGE_PARSE]), ms(stage_ns[DFM_STAGE_QUEUE]),
                        ms(stage_ns[DFM_STAGE_SOLVE]), ms(stage_ns[DFM_STAGE_SKIN]),
                        ms(stage_ns[DFM_STAGE_ENCODE]));
}

/* --- answers from one buffer ---------------------------------------------------------------- */

/* Frames without a byte are not looked at, however many were asked for, but for the first. */
static bool render_all(struct job *job, uint8_t *memory) {
    dfm_call *call = job->call;
    const dfm_render *render = &job->render;
    uint64_t count = render->frame_bytes > 0 ? render->frames.count : 1;
    dfm_render_write_head(render, memory);
    return dfm_render_in_time(render, call, count, memory + render->head_bytes, &job->times);
}

static void give_back(const dfm_call *call, dfm_buffer *buffer) {
    const dfm_buffers *buffers = &call->api->config.buffers;
    buffers->release(buffers->context, buffer);
}

static void answer_with(struct job *job, dfm_buffer *buffer, size_t size) {
    dfm_call *call = job->call;
    begin_answer(job, &job->render);
    dfm_response_buffer(call->response, dfm_result_media[job->render.wanted.format],
                        &call->api->config.buffers, buffer, size);
}

/* Renders straight into the response's buffer. False: call->problem. */
static bool answer_whole(struct job *job) {
    dfm_buffer *buffer = dfm_call_result(job->call, job->render.total_bytes);
    if (!buffer)
        return false;
    if (!render_all(job, buffer->data)) {
        give_back(job->call, buffer);
        return false;
    }
    answer_with(job, buffer, (size_t)job->render.total_bytes);
    return true;
}

/* --- JSON ----------------------------------------------------------------------------------- */

static bool check_json_size(const dfm_render *render, dfm_problem *problem) {
    uint64_t bytes = render->total_bytes;
    if (bytes < render->frames.count)
        bytes = render->frames.count; /* each prints something */
    if (bytes <= DFM_JSON_RESULT_MAX_BYTES)
        return true;
    dfm_problem_set(problem, DFM_PROBLEM_RESULT_TOO_LARGE,
                    "JSON is for results of at most %d bytes in raw form, this one has %" PRIu64
                    ": ask for raw",
                    DFM_JSON_RESULT_MAX_BYTES, bytes);
    problem->has_sizes = true;
    problem->limit = DFM_JSON_RESULT_MAX_BYTES;
    problem->received = bytes;
    return false;
}

static dfm_result_json describe_json(const dfm_render *render) {
    bool bones = render->wanted.output == DFM_OUTPUT_BONES;
    dfm_result_json result = {.skinner = bones ? NULL : skinner_name(render),
                              .element_count = dfm_render_element_count(render),
                              .unmatched = render->frames.unmatched,
                              .frame_count = render->frames.count,
                              .frame_bytes = render->frame_bytes};
    if (bones)
        dfm_result_json_of_bones(&result);
    else
        dfm_result_json_of_layout(&result, &render->wanted.layout);
    return result;
}

/* Prints rendered frames into a buffer of its own. */
static bool print_json(struct job *job, const dfm_result_json *result, const uint8_t *frames) {
    dfm_buffer *buffer = dfm_call_result(job->call, dfm_result_json_bound(result));
    if (!buffer)
        return false;
    uint64_t begun_ns = dfm_call_now_ns();
    size_t size = dfm_result_json_write(result, frames, (char *)buffer->data);
    job->times.encode_ns += dfm_call_now_ns() - begun_ns;
    answer_with(job, buffer, size);
    return true;
}

/* The frames in raw form and their text have to fit together, which is known before anything runs.
 */
static bool answer_json(struct job *job) {
    dfm_call *call = job->call;
    if (!check_json_size(&job->render, &call->problem))
        return false;
    dfm_result_json result = describe_json(&job->render);
    size_t bound = dfm_result_json_bound(&result);
    if (!dfm_call_check_result(call, bound) ||
        !dfm_call_check_room(call, dfm_response_capacity((size_t)job->render.total_bytes),
                             dfm_response_capacity(bound)))
        return false;
    dfm_buffer *frames = dfm_call_result(call, job->render.total_bytes);
    if (!frames)
        return false;
    bool good = render_all(job, frames->data) && print_json(job, &result, frames->data);
    give_back(call, frames);
    return good;
}

/* --- streams -------------------------------------------------------------------------------- */

static bool answer_stream(struct job *job) {
    dfm_call *call = job->call;
    dfm_api_stream *stream = dfm_result_stream_create(call, &job->render, &job->times);
    if (!stream)
        return false;
    const dfm_render *render = dfm_result_stream_render(stream);
    begin_answer(job, render);
    dfm_response_header(call->response, "Content-Type", "%s",
                        dfm_result_media[render->wanted.format]);
    call->response->stream = stream;
    return true;
}

/* --- the way from the request to the answer ------------------------------------------------- */

static bool check_frames(const struct job *job) {
    dfm_call *call = job->call;
    uint64_t limit = call->api->config.max_frames, count = job->render.frames.count;
    if (limit == 0 || count <= limit)
        return true;
    dfm_problem_set(&call->problem, DFM_PROBLEM_REQUEST_OVER_LIMIT,
                    "%" PRIu64 " frames, --max-frames is %" PRIu64, count, limit);
    call->problem.has_sizes = true;
    call->problem.limit = limit;
    call->problem.received = count;
    return false;
}

/* Reads query and body. False: call->problem. */
static bool prepare(struct job *job) {
    dfm_call *call = job->call;
    dfm_render *render = &job->render;
    dfm_wanted *wanted = &render->wanted;
    const dfm_deform_target *target = &render->resident->target;
    dfm_api_worker *worker = &call->api->workers[call->request->worker];
    dfm_error error = {0};
    if (!dfm_wanted_read(wanted, &call->query, call->request->headers.accept, &call->problem) ||
        !dfm_attributes_finish(&wanted->layout, target->model, &call->problem))
        return false;
    if (dfm_workspace_reserve(&worker->workspace, target->bind, &error) != DFM_OK) {
        dfm_problem_from_error(&call->problem, DFM_SUBJECT_POSE, &error);
        return false;
    }
    bool good = dfm_frames_open(&render->frames, call, target->model, wanted->ignore_unknown,
                                wanted->ik, worker);
    job->parse_ns = dfm_call_now_ns() - call->begun_ns;
    return good && check_frames(job) && dfm_render_measure(render, &call->problem);
}

static bool answer(struct job *job) {
    if (job->render.wanted.format == DFM_RESULT_JSON)
        return answer_json(job);
    return dfm_result_is_streamed(&job->render) ? answer_stream(job) : answer_whole(job);
}

void dfm_deform_handle(dfm_call *call) {
    struct job job = {.call = call};
    dfm_resident *resident = dfm_call_resident(call);
    if (!resident)
        return;
    dfm_resident_retain(resident); /* a stream takes the render's away */
    dfm_render_begin(&job.render, call->api, resident);
    if (!prepare(&job) || !answer(&job))
        dfm_call_fail(call);
    dfm_stats_count(resident->use, &call->response->account);
    dfm_render_free(&job.render);
    dfm_resident_release(resident);
}
