#include "api/call.h"
#include "api/cors.h"
#include "api/media.h"
#include "api/response.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* What multipart adds around a file: boundaries and part headers. */
enum { MULTIPART_ALLOWANCE_BYTES = 16384 };

#define NS_PER_MS ((uint64_t)1000000)

dfm_api *dfm_api_create(const dfm_api_config *config) {
    dfm_api *api = calloc(1, sizeof *api);
    if (!api)
        return NULL;
    api->config = *config;
    api->workers = calloc(config->worker_count, sizeof *api->workers);
    api->metrics = dfm_metrics_create();
    api->library = dfm_library_create(config);
    for (uint32_t i = 0; api->workers && i < config->worker_count; i++)
        api->workers[i].scratch.limits = config->json;
    if (api->workers && api->metrics && api->library)
        return api;
    dfm_api_free(api);
    return NULL;
}

static void free_worker(dfm_api_worker *worker) {
    for (uint32_t i = 0; worker->more && i < DFM_DEFORM_BATCH_MAX - 1; i++)
        free_worker(&worker->more[i]);
    free(worker->more);
    dfm_workspace_free(&worker->workspace);
    dfm_pose_scratch_free(&worker->scratch);
}

void dfm_api_free(dfm_api *api) {
    if (!api)
        return;
    for (uint32_t i = 0; api->workers && i < api->config.worker_count; i++) {
        free_worker(&api->workers[i]);
    }
    free(api->workers);
    dfm_metrics_free(api->metrics);
    dfm_library_free(api->library);
    free(api);
}

uint64_t dfm_call_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- admission ------------------------------------------------------------------------------ */

static bool refuse(dfm_problem *problem, dfm_problem_code code, const char *detail) {
    dfm_problem_set(problem, code, "%s", detail);
    return false;
}

static bool admit_path(dfm_api_request *request, char allow[64], dfm_problem *problem) {
    dfm_route_match match = dfm_route_find(request->method, request->path);
    memcpy(allow, match.allow, sizeof match.allow);
    request->route = match.route;
    if (match.route)
        return true;
    if (allow[0])
        dfm_problem_set(problem, DFM_PROBLEM_METHOD_NOT_ALLOWED, "this path has %s", allow);
    else
        dfm_problem_set(problem, DFM_PROBLEM_NOT_FOUND, "there is nothing at %.200s",
                        request->path);
    return false;
}

/* False: *problem; add_challenge says to the client what is wanted. */
static bool admit_access(const dfm_api *api, const dfm_api_request *request, dfm_problem *problem) {
    dfm_scope scope = request->route->scope;
    if (request->route->handle == dfm_service_metrics && !api->config.metrics_token)
        scope = DFM_SCOPE_OPEN;
    if (!api->config.access)
        return true;
    switch (dfm_access_check(api->config.access, request->headers.authorization, scope)) {
    case DFM_ACCESS_GRANTED:
        return true;
    case DFM_ACCESS_MISSING:
        return refuse(problem, DFM_PROBLEM_UNAUTHORIZED, "send Authorization: Bearer TOKEN");
    case DFM_ACCESS_UNKNOWN:
        return refuse(problem, DFM_PROBLEM_UNAUTHORIZED, "the token is not known here");
    default:
        return refuse(problem, DFM_PROBLEM_FORBIDDEN, "this takes a token of the scope admin");
    }
}

/* RFC 6750, 3. */
static void add_challenge(const dfm_problem *problem, const dfm_api_request *request,
                          dfm_api_response *response) {
    if (problem->code == DFM_PROBLEM_FORBIDDEN)
        dfm_response_header(response, "WWW-Authenticate",
                            "Bearer realm=\"deformd\", error=\"insufficient_scope\", "
                            "scope=\"admin\"");
    if (problem->code == DFM_PROBLEM_UNAUTHORIZED)
        dfm_response_header(response, "WWW-Authenticate", "Bearer realm=\"deformd\"%s",
                            request->headers.authorization ? ", error=\"invalid_token\"" : "");
}

static bool admit_query(const dfm_api_request *request, dfm_query *query, dfm_problem *problem) {
    const dfm_route *route = request->route;
    return dfm_query_parse(query, route->query, request->query, problem) &&
           (!route->check_query || route->check_query(query, problem));
}

/* Request-Timeout-Ms, capped by the server's own. */
static bool admit_deadline(const dfm_api *api, dfm_api_request *request, dfm_problem *problem) {
    const char *text = request->headers.request_timeout_ms;
    uint64_t timeout_ms = api->config.request_timeout_ms;
    if (text) {
        uint64_t asked_ms = 0;
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 12 || text[digits] != 0 ||
            sscanf(text, "%" SCNu64, &asked_ms) != 1 || asked_ms == 0)
            return refuse(
                problem, DFM_PROBLEM_INVALID_HEADER,
                "Request-Timeout-Ms: a whole number of milliseconds, 1 or more, expected");
        if (timeout_ms == 0 || asked_ms < timeout_ms)
            timeout_ms = asked_ms;
    }
    request->deadline_ns = timeout_ms ? request->started_ns + timeout_ms * NS_PER_MS : 0;
    return true;
}

static size_t list_length(const char *const *list) {
    size_t count = 0;
    while (list && list[count])
        count++;
    return count;
}

static void join(char *out, size_t room, const char *const *list) {
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; list[i] && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%s", i ? ", " : "", list[i]);
}

static bool admit_accept(const dfm_api_request *request, const dfm_query *query,
                         dfm_problem *problem) {
    const dfm_route *route = request->route;
    size_t count = list_length(route->media);
    if (count == 0 || dfm_query_get(query, "format") ||
        dfm_media_choose(request->headers.accept, route->media, count) >= 0)
        return true;
    char offers[128];
    join(offers, sizeof offers, route->media);
    dfm_problem_set(problem, DFM_PROBLEM_NOT_ACCEPTABLE, "the answer is to be had as %s", offers);
    return false;
}

/* The type of the body: the first of the route's where the request does not say. */
static const dfm_body_type *body_type(const dfm_api_request *request) {
    const dfm_body_type *types = request->route->body_types;
    const char *given = request->headers.content_type;
    if (!given || given[0] == 0)
        return types;
    while (types->media_type && !dfm_media_is(given, types->media_type))
        types++;
    return types->media_type ? types : NULL;
}

static bool fail_body_type(const dfm_api_request *request, dfm_problem *problem) {
    const char *names[DFM_ROUTE_MAX_BODY_TYPES + 1] = {NULL};
    for (size_t i = 0; i < DFM_ROUTE_MAX_BODY_TYPES && request->route->body_types[i].media_type;
         i++)
        names[i] = request->route->body_types[i].media_type;
    char offers[160];
    join(offers, sizeof offers, names);
    dfm_problem_set(problem, DFM_PROBLEM_UNSUPPORTED_MEDIA_TYPE,
                    "Content-Type is %.100s; taken are %s", request->headers.content_type, offers);
    return false;
}

static size_t body_limit(const dfm_api_config *config, dfm_body_limit limit) {
    return limit == DFM_BODY_UPLOAD ? config->max_upload_bytes
           : limit == DFM_BODY_POSE ? config->max_pose_bytes
                                    : config->max_json_bytes;
}

static void set_too_large(dfm_problem *problem, uint64_t limit, uint64_t received) {
    dfm_problem_set(problem, DFM_PROBLEM_BODY_TOO_LARGE, "at most %" PRIu64 " bytes are taken here",
                    limit);
    problem->has_sizes = true;
    problem->limit = limit;
    problem->received = received;
}

static bool admit_encoding(const dfm_api_request *request, dfm_admission *admission,
                           dfm_problem *problem) {
    const char *encoding = request->headers.content_encoding;
    if (!encoding || !encoding[0] || strcasecmp(encoding, "identity") == 0)
        return true;
    admission->gzip = strcasecmp(encoding, "gzip") == 0 || strcasecmp(encoding, "x-gzip") == 0;
    if (!admission->gzip)
        return refuse(problem, DFM_PROBLEM_UNSUPPORTED_MEDIA_TYPE,
                      "Content-Encoding: gzip is taken, or none");
    return !admission->takes_multipart ||
           refuse(problem, DFM_PROBLEM_UNSUPPORTED_MEDIA_TYPE,
                  "a form is not taken compressed: send the file as the body");
}

static bool admit_body(const dfm_api *api, const dfm_api_request *request, int64_t content_length,
                       dfm_admission *admission, dfm_problem *problem) {
    if (!request->route->body_types)
        return true;
    const dfm_body_type *type = body_type(request);
    if (!type)
        return fail_body_type(request, problem);
    admission->takes_body = true;
    admission->max_body_bytes = body_limit(&api->config, type->limit);
    admission->takes_multipart = strcmp(type->media_type, DFM_MEDIA_MULTIPART) == 0;
    if (!admit_encoding(request, admission, problem))
        return false;
    uint64_t limit = admission->max_body_bytes +
                     (admission->takes_multipart ? (uint64_t)MULTIPART_ALLOWANCE_BYTES : 0);
    if (content_length < 0 || (uint64_t)content_length <= limit)
        return true;
    set_too_large(problem, admission->max_body_bytes, (uint64_t)content_length);
    return false;
}

/* Routes of one item; its id where it can be one. False: of none. */
static bool find_item(const dfm_api_request *request, dfm_store_kind *kind,
                      char id[DFM_ID_DIGITS + 1]) {
    const char *name = request->route->name;
    if (!strstr(name, "{id}"))
        return false;
    *kind = strstr(name, " /motions/") ? DFM_STORE_MOTION : DFM_STORE_MODEL;
    memcpy(id, dfm_route_find(request->method, request->path).id, DFM_ID_DIGITS + 1);
    return id[0] != 0;
}

bool dfm_api_must_load(const dfm_api *api, const dfm_api_request *request) {
    dfm_store_kind kind;
    char id[DFM_ID_DIGITS + 1];
    return api->config.store && request->route->lane != DFM_LANE_LOAD &&
           find_item(request, &kind, id) && dfm_library_must_ask(api->library, kind, id);
}

dfm_admission dfm_api_admit(const dfm_api *api, dfm_api_request *request, int64_t content_length,
                            dfm_api_response *response) {
    dfm_admission admission = {0};
    dfm_problem problem;
    dfm_query query;
    char allow[64];
    dfm_request_id_choose(request);
    request->deadline_ns = 0;
    response->account = (dfm_account){0};
    dfm_cors_look(api->config.cors_origins, request);
    if (dfm_cors_is_preflight(request)) {
        dfm_cors_answer(request, dfm_route_find(request->method, request->path).allow, response);
        return (dfm_admission){.answered = true};
    }
    if (admit_path(request, allow, &problem) && admit_access(api, request, &problem) &&
        admit_query(request, &query, &problem) && admit_deadline(api, request, &problem) &&
        admit_accept(request, &query, &problem) &&
        admit_body(api, request, content_length, &admission, &problem)) {
        admission.lane = request->route->lane;
        return admission;
    }
    dfm_problem_respond(&problem, request, response);
    if (problem.code == DFM_PROBLEM_METHOD_NOT_ALLOWED)
        dfm_response_header(response, "Allow", "%s", allow);
    add_challenge(&problem, request, response);
    return (dfm_admission){.answered = true};
}

/* --- handling ------------------------------------------------------------------------------- */

static void begin_call(dfm_call *call, const dfm_api *api, const dfm_api_request *request,
                       dfm_api_response *response) {
    call->api = api;
    call->request = request;
    call->response = response;
    call->begun_ns = dfm_call_now_ns();
    memcpy(call->id, dfm_route_find(request->method, request->path).id, sizeof call->id);
    if (strstr(request->route->name, "/models/"))
        memcpy(response->account.model, call->id, sizeof call->id);
}

bool dfm_api_load(const dfm_api *api, const dfm_api_request *request, dfm_api_response *response) {
    dfm_call call;
    dfm_store_kind kind;
    char id[DFM_ID_DIGITS + 1];
    if (!find_item(request, &kind, id))
        return true;
    begin_call(&call, api, request, response);
    dfm_resident *resident = kind == DFM_STORE_MODEL ? dfm_call_resident(&call) : NULL;
    dfm_stored_motion *stored = kind == DFM_STORE_MOTION ? dfm_call_motion(&call) : NULL;
    bool loaded = resident || stored;
    dfm_resident_release(resident);
    dfm_stored_motion_release(stored);
    return loaded;
}

void dfm_api_handle(const dfm_api *api, dfm_api_request *request, dfm_api_response *response) {
    dfm_call call;
    begin_call(&call, api, request, response);
    if (!dfm_query_parse(&call.query, request->route->query, request->query, &call.problem) ||
        !dfm_call_in_time(&call, &call.problem))
        dfm_call_fail(&call);
    else
        request->route->handle(&call);
}

void dfm_call_fail(dfm_call *call) {
    dfm_problem_respond(&call->problem, call->request, call->response);
}

void dfm_call_fail_core(dfm_call *call, dfm_problem_subject subject, const dfm_error *error) {
    if (error->status == DFM_ERROR_BACKEND)
        dfm_metrics_count_backend_failure(call->api->metrics);
    dfm_problem_from_error(&call->problem, subject, error);
    dfm_call_fail(call);
}

void dfm_call_fail_memory(dfm_call *call) {
    dfm_problem_set(&call->problem, DFM_PROBLEM_OUT_OF_MEMORY, "no memory for the answer");
    dfm_call_fail(call);
}

bool dfm_call_in_time(const dfm_call *call, dfm_problem *problem) {
    uint64_t deadline_ns = call->request->deadline_ns;
    if (deadline_ns == 0 || dfm_call_now_ns() < deadline_ns)
        return true;
    return refuse(problem, DFM_PROBLEM_DEADLINE_PASSED, "the deadline passed before the answer");
}

/* False: the path's id cannot be one. */
static bool has_id(dfm_call *call, dfm_problem_code code) {
    if (call->id[0])
        return true;
    dfm_problem_set(&call->problem, code, "an id is %d lower-case hex digits", DFM_ID_DIGITS);
    dfm_call_fail(call);
    return false;
}

static dfm_library_freshness freshness(const dfm_call *call) {
    return call->request->must_not_wait ? DFM_LIBRARY_AT_ONCE : DFM_LIBRARY_CHECKED;
}

static dfm_resident *get_resident(dfm_call *call, dfm_library_freshness how) {
    dfm_resident *resident;
    dfm_error error = {0};
    if (!has_id(call, DFM_PROBLEM_MODEL_NOT_FOUND))
        return NULL;
    if (dfm_library_get_model(call->api->library, call->id, how, &resident, &error) == DFM_OK)
        return resident;
    dfm_call_fail_core(call, DFM_SUBJECT_MODEL, &error);
    return NULL;
}

dfm_resident *dfm_call_resident(dfm_call *call) {
    return get_resident(call, freshness(call));
}

dfm_resident *dfm_call_resident_now(dfm_call *call) {
    return get_resident(call, DFM_LIBRARY_NOW);
}

static dfm_stored_motion *get_motion(dfm_call *call, dfm_library_freshness how) {
    dfm_stored_motion *stored;
    dfm_error error = {0};
    if (!has_id(call, DFM_PROBLEM_MOTION_NOT_FOUND))
        return NULL;
    if (dfm_library_get_motion(call->api->library, call->id, how, &stored, &error) == DFM_OK)
        return stored;
    dfm_call_fail_core(call, DFM_SUBJECT_MOTION, &error);
    return NULL;
}

dfm_stored_motion *dfm_call_motion(dfm_call *call) {
    return get_motion(call, freshness(call));
}

dfm_stored_motion *dfm_call_motion_now(dfm_call *call) {
    return get_motion(call, DFM_LIBRARY_NOW);
}

void dfm_call_list(dfm_call *call, dfm_store_kind kind) {
    uint64_t limit;
    const char *cursor;
    cJSON *document;
    dfm_error error = {0};
    if (!dfm_query_page(&call->query, &limit, &cursor, &call->problem))
        dfm_call_fail(call);
    else if (dfm_library_list(call->api->library, kind, cursor, limit, &document, &error) == DFM_OK)
        dfm_call_document(call, 200, NULL, document);
    else
        dfm_call_fail_core(call, kind == DFM_STORE_MODEL ? DFM_SUBJECT_MODEL : DFM_SUBJECT_MOTION,
                           &error);
}

/* What a Content-Length can say. */
static const uint64_t MOST_RESULT_BYTES = INT64_MAX;

static bool fail_result(dfm_call *call, uint64_t limit, uint64_t received) {
    call->problem.has_sizes = true;
    call->problem.limit = limit;
    call->problem.received = received;
    return false;
}

bool dfm_call_check_result(dfm_call *call, uint64_t size) {
    const dfm_api_config *config = &call->api->config;
    uint64_t limit = config->max_result_bytes ? config->max_result_bytes : MOST_RESULT_BYTES;
    if (size <= limit)
        return true;
    dfm_problem_set(&call->problem, DFM_PROBLEM_RESULT_TOO_LARGE,
                    "the result would be %" PRIu64 " bytes, at most %" PRIu64 " are sent", size,
                    limit);
    return fail_result(call, limit, size);
}

bool dfm_call_check_room(dfm_call *call, uint64_t first, uint64_t second) {
    const dfm_buffers *buffers = &call->api->config.buffers;
    uint64_t budget = call->api->config.buffer_bytes;
    uint64_t bytes = call->request->body_capacity + buffers->footprint(buffers->context, first) +
                     buffers->footprint(buffers->context, second);
    if (budget == 0 || bytes <= budget)
        return true;
    dfm_problem_set(&call->problem, DFM_PROBLEM_RESULT_TOO_LARGE,
                    "the request would need %" PRIu64 " bytes of memory for its body and its "
                    "result, --max-inflight-bytes is %" PRIu64,
                    bytes, budget);
    return fail_result(call, budget, bytes);
}

dfm_buffer *dfm_call_result(dfm_call *call, uint64_t size) {
    const dfm_buffers *buffers = &call->api->config.buffers;
    if (!dfm_call_check_result(call, size))
        return NULL;
    size_t capacity = dfm_response_capacity((size_t)size);
    if (!dfm_call_check_room(call, capacity, 0))
        return NULL;
    dfm_buffer *buffer = buffers->acquire(buffers->context, capacity);
    if (!buffer)
        dfm_problem_set(&call->problem, DFM_PROBLEM_BUSY,
                        "the memory for bodies and results (--max-inflight-bytes) is used up");
    return buffer;
}

bool dfm_call_not_modified(dfm_call *call, const char *etag) {
    const char *list = call->request->headers.if_none_match;
    if (!list || !dfm_etag_matches_weakly(list, etag))
        return false;
    dfm_response_begin(call->response, call->request, 304);
    dfm_response_header(call->response, "ETag", "%s", etag);
    return true;
}

void dfm_call_tag_body(dfm_call *call) {
    char etag[DFM_ETAG_BYTES];
    dfm_api_response *response = call->response;
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_id id;
    dfm_digest(response->body, response->body_bytes, digest, &id);
    snprintf(etag, sizeof etag, "\"%s\"", id.text);
    dfm_api_response whole = *response;
    if (dfm_call_not_modified(call, etag))
        dfm_api_response_free(&whole);
    else
        dfm_response_header(response, "ETag", "%s", etag);
}

void dfm_call_document(dfm_call *call, int status, const char *etag, cJSON *document) {
    dfm_api_response *response = call->response;
    if (document)
        dfm_response_begin(response, call->request, status);
    if (!document || !dfm_response_json(response, DFM_MEDIA_JSON, document))
        dfm_call_fail_memory(call);
    else if (etag)
        dfm_response_header(response, "ETag", "%s", etag);
    else
        dfm_call_tag_body(call);
}

void dfm_api_count(const dfm_api *api, const dfm_metrics_request *request) {
    dfm_metrics_count(api->metrics, request);
}

/* --- answers that the server gives itself --------------------------------------------------- */

void dfm_api_body_too_large(const dfm_api_request *request, uint64_t limit, uint64_t received,
                            dfm_api_response *response) {
    dfm_problem problem;
    set_too_large(&problem, limit, received);
    dfm_problem_respond(&problem, request, response);
}

static void answer(const dfm_api_request *request, dfm_problem_code code, const char *detail,
                   dfm_api_response *response) {
    dfm_problem problem;
    dfm_problem_set(&problem, code, "%s", detail);
    dfm_problem_respond(&problem, request, response);
}

void dfm_api_busy(const dfm_api_request *request, const char *why, dfm_api_response *response) {
    answer(request, DFM_PROBLEM_BUSY, why, response);
}

void dfm_api_bad_request(const dfm_api_request *request, const char *detail,
                         dfm_api_response *response) {
    answer(request, DFM_PROBLEM_BAD_REQUEST, detail, response);
}

void dfm_api_deadline_passed(const dfm_api_request *request, dfm_api_response *response) {
    answer(request, DFM_PROBLEM_DEADLINE_PASSED, "the deadline passed before the answer", response);
}
