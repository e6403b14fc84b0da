#include "api/problem.h"

#include "api/doc.h"
#include "api/response.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const dfm_problem_kind dfm_problem_kinds[DFM_PROBLEM_COUNT] = {
    [DFM_PROBLEM_BAD_REQUEST] = {"bad-request", 400, "The request is not valid HTTP", 0},
    [DFM_PROBLEM_INVALID_QUERY] = {"invalid-query", 400, "The query string is not valid", 0},
    [DFM_PROBLEM_INVALID_HEADER] = {"invalid-header", 400, "A request header is not valid", 0},
    [DFM_PROBLEM_INVALID_JSON] = {"invalid-json", 400, "The body is not JSON", 0},
    [DFM_PROBLEM_UNAUTHORIZED] = {"unauthorized", 401, "A bearer token is needed", 0},
    [DFM_PROBLEM_FORBIDDEN] = {"forbidden", 403, "The token does not allow this", 0},
    [DFM_PROBLEM_NOT_FOUND] = {"not-found", 404, "There is nothing at this path", 0},
    [DFM_PROBLEM_MODEL_NOT_FOUND] = {"model-not-found", 404, "There is no such model", 0},
    [DFM_PROBLEM_MODEL_EVICTED] = {"model-evicted", 404,
                                   "The model had to make room for others: upload it again", 0},
    [DFM_PROBLEM_MOTION_NOT_FOUND] = {"motion-not-found", 404, "There is no such motion", 0},
    [DFM_PROBLEM_MOTION_EVICTED] = {"motion-evicted", 404,
                                    "The motion had to make room for others: upload it again", 0},
    [DFM_PROBLEM_METHOD_NOT_ALLOWED] = {"method-not-allowed", 405,
                                        "The path does not have this method", 0},
    [DFM_PROBLEM_NOT_ACCEPTABLE] = {"not-acceptable", 406,
                                    "No form of the answer is one that Accept names", 0},
    [DFM_PROBLEM_ID_CONFLICT] = {"id-conflict", 409, "Another file has this id", 0},
    [DFM_PROBLEM_PRECONDITION_FAILED] = {"precondition-failed", 412, "If-Match names another state",
                                         0},
    [DFM_PROBLEM_BODY_TOO_LARGE] = {"body-too-large", 413, "The body is too large", 0},
    [DFM_PROBLEM_RESULT_TOO_LARGE] = {"result-too-large", 413, "The result would be too large", 0},
    [DFM_PROBLEM_UNSUPPORTED_MEDIA_TYPE] = {"unsupported-media-type", 415,
                                            "The body is of a type that is not taken here", 0},
    [DFM_PROBLEM_INVALID_MODEL] = {"invalid-model", 422, "The file is not a valid PMX model", 0},
    [DFM_PROBLEM_INVALID_MOTION] = {"invalid-motion", 422, "The file is not a valid VMD motion", 0},
    [DFM_PROBLEM_INVALID_VPD] = {"invalid-vpd", 422, "The body is not a valid VPD pose", 0},
    [DFM_PROBLEM_MODEL_OVER_LIMIT] = {"model-over-limit", 422,
                                      "The model holds more than this server takes", 0},
    [DFM_PROBLEM_REQUEST_OVER_LIMIT] = {"request-over-limit", 422,
                                        "The request asks for more than this server takes", 0},
    [DFM_PROBLEM_INVALID_SETTINGS] = {"invalid-settings", 422, "The settings are not valid", 0},
    [DFM_PROBLEM_INVALID_POSE] = {"invalid-pose", 422, "The pose is not valid", 0},
    [DFM_PROBLEM_UNKNOWN_NAME] = {"unknown-name", 422, "The pose names what the model lacks", 0},
    [DFM_PROBLEM_INVALID_LENGTH] = {"invalid-length", 422, "The body is no whole number of frames",
                                    0},
    [DFM_PROBLEM_MISSING_ATTRIBUTE] = {"missing-attribute", 422,
                                       "The model does not have this attribute", 0},
    [DFM_PROBLEM_BUSY] = {"busy", 503, "The server is busy", 1},
    [DFM_PROBLEM_NOT_READY] = {"not-ready", 503, "The server is not ready", 1},
    [DFM_PROBLEM_OUT_OF_MEMORY] = {"out-of-memory", 503, "The server has no memory left", 1},
    [DFM_PROBLEM_OPENCL_UNAVAILABLE] = {"opencl-unavailable", 503,
                                        "No OpenCL kernel is to be had here", 0},
    [DFM_PROBLEM_CP932_UNAVAILABLE] = {"cp932-unavailable", 503,
                                       "The server's system cannot convert CP932", 0},
    [DFM_PROBLEM_BACKEND_FAILED] = {"backend-failed", 503, "The skinner failed", 1},
    [DFM_PROBLEM_STORE_FAILED] = {"store-failed", 503, "The store of uploads failed", 5},
    [DFM_PROBLEM_STORE_CORRUPT] = {"store-corrupt", 500,
                                   "The stored file is damaged: upload it again", 0},
    [DFM_PROBLEM_DEADLINE_PASSED] = {"deadline-passed", 504, "The request's deadline passed", 0},
    [DFM_PROBLEM_NO_ROOM] = {"no-room", 507, "There is no room for the file", 0},
    [DFM_PROBLEM_STORE_FULL] = {"store-full", 507, "The store of uploads is full", 0},
};

void dfm_problem_set(dfm_problem *problem, dfm_problem_code code, const char *format, ...) {
    problem->code = code;
    problem->has_pointer = problem->has_sizes = false;
    problem->section = problem->parameter = NULL;
    problem->item = problem->offset = -1;
    problem->limit = problem->received = 0;
    problem->unknown_count = 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem->detail, sizeof problem->detail, format, arguments);
    va_end(arguments);
}

/* --- from core ------------------------------------------------------------------------------ */

static bool is_motion(dfm_problem_subject subject) {
    return subject == DFM_SUBJECT_MOTION || subject == DFM_SUBJECT_MOTION_FILE;
}

static bool is_file(dfm_problem_subject subject) {
    return subject == DFM_SUBJECT_MODEL_FILE || subject == DFM_SUBJECT_MOTION_FILE;
}

static dfm_problem_code code_of(dfm_status status, dfm_problem_subject subject) {
    switch (status) {
    case DFM_ERROR_LIMIT:
        /* A stored model may have been taken under higher limits. */
        return subject == DFM_SUBJECT_MODEL_FILE || subject == DFM_SUBJECT_MODEL
                   ? DFM_PROBLEM_MODEL_OVER_LIMIT
                   : DFM_PROBLEM_RESULT_TOO_LARGE;
    case DFM_ERROR_TRUNCATED:
    case DFM_ERROR_MALFORMED:
        return is_motion(subject)           ? DFM_PROBLEM_INVALID_MOTION
               : subject == DFM_SUBJECT_VPD ? DFM_PROBLEM_INVALID_VPD
                                            : DFM_PROBLEM_INVALID_MODEL;
    case DFM_ERROR_ARGUMENT:
        return subject == DFM_SUBJECT_POSE ? DFM_PROBLEM_INVALID_POSE
                                           : DFM_PROBLEM_INVALID_SETTINGS;
    case DFM_ERROR_NOT_FOUND:
        return is_motion(subject) ? DFM_PROBLEM_MOTION_NOT_FOUND : DFM_PROBLEM_MODEL_NOT_FOUND;
    case DFM_ERROR_EVICTED:
        return is_motion(subject) ? DFM_PROBLEM_MOTION_EVICTED : DFM_PROBLEM_MODEL_EVICTED;
    case DFM_ERROR_CONFLICT:
        return is_file(subject) ? DFM_PROBLEM_ID_CONFLICT : DFM_PROBLEM_PRECONDITION_FAILED;
    case DFM_ERROR_NO_ROOM:
        return DFM_PROBLEM_NO_ROOM;
    case DFM_ERROR_UNAVAILABLE:
        return is_motion(subject) || subject == DFM_SUBJECT_VPD ? DFM_PROBLEM_CP932_UNAVAILABLE
                                                                : DFM_PROBLEM_OPENCL_UNAVAILABLE;
    case DFM_ERROR_BACKEND:
        return DFM_PROBLEM_BACKEND_FAILED;
    case DFM_ERROR_STORE:
        return DFM_PROBLEM_STORE_FAILED;
    case DFM_ERROR_STORE_FULL:
        return DFM_PROBLEM_STORE_FULL;
    case DFM_ERROR_CORRUPT:
        return DFM_PROBLEM_STORE_CORRUPT;
    default:
        return DFM_PROBLEM_OUT_OF_MEMORY;
    }
}

void dfm_problem_from_error(dfm_problem *problem, dfm_problem_subject subject,
                            const dfm_error *error) {
    dfm_problem_set(problem, code_of(error->status, subject), "%s", error->info);
    problem->section = error->section;
    problem->item = error->item;
    problem->offset = error->offset;
    problem->has_sizes = error->status == DFM_ERROR_LIMIT;
    problem->limit = error->limit;
    problem->received = error->received;
}

void dfm_problem_from_json(dfm_problem *problem, const dfm_json_reader *json) {
    size_t line, column;
    dfm_json_position(json, json->error_offset, &line, &column);
    dfm_problem_set(problem,
                    json->limit ? DFM_PROBLEM_REQUEST_OVER_LIMIT : DFM_PROBLEM_INVALID_JSON,
                    "line %zu, column %zu: %s", line, column, json->error);
    problem->offset = (int64_t)json->error_offset;
    problem->has_sizes = json->limit > 0;
    problem->limit = json->limit;
    problem->received = json->limit + 1;
}

/* --- to the client -------------------------------------------------------------------------- */

static void add_unknown(dfm_doc *doc, cJSON *parent, const dfm_problem *problem) {
    cJSON *list = dfm_doc_add_array(doc, parent, "unknown");
    for (uint64_t i = 0; i < problem->unknown_count && i < DFM_PROBLEM_MAX_UNKNOWN; i++) {
        const dfm_problem_name *name = &problem->unknown[i];
        cJSON *item = dfm_doc_add_object(doc, list, NULL);
        if (name->frame >= 0)
            dfm_doc_add_integer(doc, item, "frame", name->frame);
        dfm_doc_add_string(doc, item, "in", name->member);
        dfm_doc_add_string(doc, item, "name", name->name);
    }
    dfm_doc_add_integer(doc, parent, "unknown_count", (int64_t)problem->unknown_count);
}

static void add_help(dfm_doc *doc, cJSON *root, const dfm_problem *problem) {
    if (problem->section)
        dfm_doc_add_string(doc, root, "section", problem->section);
    if (problem->item >= 0)
        dfm_doc_add_integer(doc, root, "item", problem->item);
    if (problem->offset >= 0)
        dfm_doc_add_integer(doc, root, "offset", problem->offset);
    if (problem->parameter)
        dfm_doc_add_string(doc, root, "parameter", problem->parameter);
    if (problem->has_pointer)
        dfm_doc_add_string(doc, root, "pointer", problem->pointer);
    if (problem->has_sizes) {
        dfm_doc_add_integer(doc, root, "limit", (int64_t)problem->limit);
        dfm_doc_add_integer(doc, root, "received", (int64_t)problem->received);
    }
    if (problem->unknown_count > 0)
        add_unknown(doc, root, problem);
}

static cJSON *document(const dfm_problem *problem, const char *request_id) {
    const dfm_problem_kind *kind = &dfm_problem_kinds[problem->code];
    char type[64];
    snprintf(type, sizeof type, "/problems/%s", kind->code);
    dfm_doc doc = {0};
    cJSON *root = dfm_doc_object(&doc);
    dfm_doc_add_string(&doc, root, "type", type);
    dfm_doc_add_string(&doc, root, "title", kind->title);
    dfm_doc_add_integer(&doc, root, "status", kind->status);
    dfm_doc_add_string(&doc, root, "detail", problem->detail);
    dfm_doc_add_string(&doc, root, "request_id", request_id);
    add_help(&doc, root, problem);
    return dfm_doc_done(&doc, root);
}

void dfm_problem_respond(const dfm_problem *problem, const dfm_api_request *request,
                         dfm_api_response *response) {
    static const char media_type[] = "application/problem+json";
    static const char without_memory[] =
        "{\"type\":\"/problems/out-of-memory\",\"title\":\"The server has no memory left\"}";
    const dfm_problem_kind *kind = &dfm_problem_kinds[problem->code];
    dfm_response_begin(response, request, kind->status);
    response->account.problem = kind->code;
    response->account.frames = 0;
    if (kind->retry_after_s > 0)
        dfm_response_header(response, "Retry-After", "%d", kind->retry_after_s);
    const char *request_id = response->headers[0].value; /* as begin set it */
    cJSON *body = document(problem, request_id);
    if (!body || !dfm_response_json(response, media_type, body))
        dfm_response_static(response, media_type, without_memory, sizeof without_memory - 1);
}
