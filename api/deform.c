#include "api/attributes.h"
#include "api/frames.h"
#include "api/media.h"
#include "api/response.h"
#include "api/result_json.h"

#include <inttypes.h>
#include <string.h>

typedef enum result_format { RESULT_RAW, RESULT_JSON } result_format;

/* What the query and Accept ask for. */
struct wanted {
    dfm_layout layout; /* not finished: that takes the model */
    result_format format;
    bool ignore_unknown;
};

/* One deform, from the parsed request to the result. */
struct job {
    dfm_call *call;
    dfm_resident *resident;
    dfm_api_worker *worker;
    struct wanted wanted;
    dfm_frames frames;
    uint64_t result_bytes; /* of the vertex data of all frames */
    uint64_t parse_ns;
    dfm_deform_times times;
};

/* --- what is asked for ---------------------------------------------------------------------- */

/* What a client of JSON cannot see in it is refused, so that nobody thinks it had an effect. */
static bool check_json_layout(const dfm_layout *layout, dfm_problem *problem) {
    if (!layout->planar && layout->component == DFM_COMPONENT_F32)
        return true;
    dfm_problem_set(problem, DFM_PROBLEM_INVALID_QUERY,
                    "layout=planar and components=f16 are for raw results");
    problem->parameter = layout->planar ? "layout" : "components";
    return false;
}

static bool read_wanted(const dfm_query *query, const char *accept, struct wanted *wanted,
                        dfm_problem *problem) {
    static const char *const formats[] = {"raw", "json", NULL};
    static const char *const unknowns[] = {"error", "ignore", NULL};
    static const char *const media[] = {DFM_MEDIA_BYTES, DFM_MEDIA_JSON};
    int unknown = dfm_query_choice(query, "unknown", unknowns, 0, problem);
    if (unknown < 0)
        return false;
    int format =
        dfm_query_choice(query, "format", formats, dfm_media_choose(accept, media, 2), problem);
    if (format < 0 || !dfm_attributes_parse(query, &wanted->layout, problem))
        return false;
    wanted->format = (result_format)format;
    wanted->ignore_unknown = unknown;
    return format == RESULT_RAW || check_json_layout(&wanted->layout, problem);
}

bool dfm_deform_check(const dfm_query *query, dfm_problem *problem) {
    struct wanted wanted;
    return read_wanted(query, NULL, &wanted, problem);
}

/* --- the result's size, before anything runs ------------------------------------------------ */

static bool check_json_size(uint64_t bytes, dfm_problem *problem) {
    if (bytes <= DFM_JSON_RESULT_MAX_BYTES)
        return true;
    dfm_problem_set(problem, DFM_PROBLEM_RESULT_TOO_LARGE,
                    "JSON is for results of at most %d bytes of vertex data, this one has %" PRIu64
                    ": ask for raw",
                    DFM_JSON_RESULT_MAX_BYTES, bytes);
    problem->has_sizes = true;
    problem->limit = DFM_JSON_RESULT_MAX_BYTES;
    problem->received = bytes;
    return false;
}

static bool measure(struct job *job) {
    const dfm_layout *layout = &job->wanted.layout;
    if (__builtin_mul_overflow(layout->frame_bytes, job->frames.count, &job->result_bytes))
        job->result_bytes = UINT64_MAX; /* over every limit */
    return job->wanted.format == RESULT_RAW ||
           check_json_size(job->result_bytes, &job->call->problem);
}

/* --- frames --------------------------------------------------------------------------------- */

/* Renders frame `index` into memory of frame_bytes. */
static bool render_frame(struct job *job, uint64_t index, uint8_t *memory) {
    dfm_call *call = job->call;
    dfm_error error = {0};
    if (!dfm_call_in_time(call, &call->problem) ||
        !dfm_frames_load(&job->frames, index, job->worker, &call->problem))
        return false;
    if (dfm_deform(&job->resident->target, &job->worker->workspace, call->request->worker,
                   &job->wanted.layout, memory, &job->times, &error) == DFM_OK)
        return true;
    dfm_problem_from_error(&call->problem, DFM_SUBJECT_POSE, &error);
    if (job->frames.count > 1)
        call->problem.item = (int64_t)index;
    return false;
}

static bool render_all(struct job *job, uint8_t *memory) {
    for (uint64_t i = 0; i < job->frames.count; i++) {
        if (!render_frame(job, i, memory + i * job->wanted.layout.frame_bytes))
            return false;
    }
    return true;
}

/* --- answers -------------------------------------------------------------------------------- */

static double ms(uint64_t ns) {
    return (double)ns / 1e6;
}

static const char *skinner_name(const struct job *job) {
    return job->resident->target.skinner->backend->name;
}

static void add_headers(const struct job *job) {
    const dfm_call *call = job->call;
    dfm_api_response *response = call->response;
    uint64_t received_ns = call->request->received_ns;
    uint64_t queue_ns =
        received_ns && call->begun_ns > received_ns ? call->begun_ns - received_ns : 0;
    dfm_attributes_add_headers(&job->wanted.layout, job->frames.count, job->frames.model, response);
    dfm_response_header(response, "Deformd-Skinner", "%s", skinner_name(job));
    dfm_response_header(response, "Deformd-Unmatched", "%" PRIu64, job->frames.unmatched);
    dfm_response_header(response, "Server-Timing",
                        "parse;dur=%.3f, queue;dur=%.3f, solve;dur=%.3f, skin;dur=%.3f, "
                        "encode;dur=%.3f",
                        ms(job->parse_ns), ms(queue_ns), ms(job->times.solve_ns),
                        ms(job->times.skin_ns), ms(job->times.encode_ns));
}

static void give_back(const dfm_call *call, dfm_buffer *buffer) {
    const dfm_buffers *buffers = &call->api->config.buffers;
    buffers->release(buffers->context, buffer);
}

static void answer_with(struct job *job, const char *media_type, dfm_buffer *buffer, size_t size) {
    dfm_call *call = job->call;
    dfm_response_begin(call->response, call->request, 200);
    dfm_response_buffer(call->response, media_type, &call->api->config.buffers, buffer, size);
    add_headers(job);
}

/* Renders straight into the response's buffer. False: call->problem. */
static bool answer_raw(struct job *job) {
    dfm_buffer *buffer = dfm_call_result(job->call, job->result_bytes);
    if (!buffer)
        return false;
    if (!render_all(job, buffer->data)) {
        give_back(job->call, buffer);
        return false;
    }
    answer_with(job, DFM_MEDIA_BYTES, buffer, (size_t)job->result_bytes);
    return true;
}

/* Prints rendered frames into a buffer of its own. */
static bool print_json(struct job *job, const uint8_t *frames) {
    const dfm_result_json result = {.skinner = skinner_name(job),
                                    .unmatched = job->frames.unmatched,
                                    .vertex_count = job->frames.model->pmx.vertices.count,
                                    .frame_count = job->frames.count,
                                    .layout = &job->wanted.layout};
    dfm_buffer *buffer = dfm_call_result(job->call, dfm_result_json_bound(&result));
    if (!buffer)
        return false;
    uint64_t begun_ns = dfm_call_now_ns();
    size_t size = dfm_result_json_write(&result, frames, (char *)buffer->data);
    job->times.encode_ns += dfm_call_now_ns() - begun_ns;
    answer_with(job, DFM_MEDIA_JSON, buffer, size);
    return true;
}

static bool answer_json(struct job *job) {
    dfm_buffer *frames = dfm_call_result(job->call, job->result_bytes);
    if (!frames)
        return false;
    bool good = render_all(job, frames->data) && print_json(job, frames->data);
    give_back(job->call, frames);
    return good;
}

/* --- the way from the request to the answer ------------------------------------------------- */

/* Reads query and body. False: call->problem. */
static bool prepare(struct job *job) {
    dfm_call *call = job->call;
    const dfm_model *model = job->resident->target.model;
    dfm_error error = {0};
    if (!read_wanted(&call->query, call->request->headers.accept, &job->wanted, &call->problem) ||
        !dfm_attributes_finish(&job->wanted.layout, model, &call->problem))
        return false;
    if (dfm_workspace_reserve(&job->worker->workspace, job->resident->target.bind, &error) !=
        DFM_OK) {
        dfm_problem_from_error(&call->problem, DFM_SUBJECT_POSE, &error);
        return false;
    }
    bool good = dfm_frames_open(&job->frames, call, model, job->wanted.ignore_unknown, job->worker);
    job->parse_ns = dfm_call_now_ns() - call->begun_ns;
    return good && measure(job);
}

void dfm_deform_handle(dfm_call *call) {
    struct job job = {.call = call, .worker = &call->api->workers[call->request->worker]};
    job.resident = dfm_call_resident(call);
    if (!job.resident)
        return;
    bool good =
        prepare(&job) && (job.wanted.format == RESULT_JSON ? answer_json(&job) : answer_raw(&job));
    if (!good)
        dfm_call_fail(call);
    dfm_frames_free(&job.frames);
    dfm_resident_release(job.resident);
}
