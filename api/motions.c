#include "api/call.h"
#include "api/media.h"
#include "api/motion_documents.h"
#include "api/response.h"

#include <stdio.h>
#include <string.h>

/* The document of one file is the same as long as it is kept: only the time can differ. */
static void make_etag(const dfm_call *call, const dfm_stored_motion *stored,
                      char etag[DFM_ETAG_BYTES]) {
    snprintf(etag, DFM_ETAG_BYTES, "\"%s.%llx.%.16s\"", stored->id.text,
             (unsigned long long)stored->created_unix_s, call->api->config.version);
}

static void answer_motion(dfm_call *call, int status, const dfm_stored_motion *stored) {
    char etag[DFM_ETAG_BYTES];
    make_etag(call, stored, etag);
    if (status == 200 && call->request->method != DFM_METHOD_POST &&
        dfm_call_not_modified(call, etag))
        return;
    dfm_call_document(call, status, etag, dfm_document_motion(stored));
}

void dfm_motions_upload(dfm_call *call) {
    const dfm_api_request *request = call->request;
    dfm_stored_motion *stored;
    bool created;
    dfm_error error = {0};
    if (dfm_library_put_motion(call->api->library, request->body, request->body_bytes, &stored,
                               &created, &error) != DFM_OK) {
        dfm_call_fail_core(call, DFM_SUBJECT_MOTION_FILE, &error);
        return;
    }
    answer_motion(call, created ? 201 : 200, stored);
    /* Relative to /motions, so that it holds behind any prefix. */
    if (call->response->status < 300)
        dfm_response_header(call->response, "Location", "motions/%s", stored->id.text);
    dfm_stored_motion_release(stored);
}

void dfm_motions_get(dfm_call *call) {
    dfm_stored_motion *stored = dfm_call_motion(call);
    if (!stored)
        return;
    answer_motion(call, 200, stored);
    dfm_stored_motion_release(stored);
}

/* A file never changes under its id, so that looking and deleting need not be one step. False:
 * answered. */
static bool check_if_match(dfm_call *call) {
    char etag[DFM_ETAG_BYTES];
    const char *list = call->request->headers.if_match;
    if (!list)
        return true;
    dfm_stored_motion *stored = dfm_call_motion_now(call);
    if (!stored)
        return false;
    make_etag(call, stored, etag);
    dfm_stored_motion_release(stored);
    if (dfm_etag_matches_strongly(list, etag))
        return true;
    dfm_problem_set(&call->problem, DFM_PROBLEM_PRECONDITION_FAILED, "the motion's ETag is %s",
                    etag);
    dfm_call_fail(call);
    return false;
}

void dfm_motions_delete(dfm_call *call) {
    dfm_error error = {0};
    if (!check_if_match(call))
        return;
    if (dfm_library_delete_motion(call->api->library, call->id, &error) == DFM_OK)
        dfm_response_begin(call->response, call->request, 204);
    else
        dfm_call_fail_core(call, DFM_SUBJECT_MOTION, &error);
}

void dfm_motions_list(dfm_call *call) {
    dfm_call_list(call, DFM_STORE_MOTION);
}

/* --- match ---------------------------------------------------------------------------------- */

bool dfm_motions_check_match(const dfm_query *query, dfm_problem *problem) {
    const char *model = dfm_query_get(query, "model");
    if (model && dfm_query_is_id(model))
        return true;
    dfm_problem_set(problem, DFM_PROBLEM_INVALID_QUERY,
                    model ? "model is no id" : "model is missing: the id of a model");
    problem->parameter = "model";
    return false;
}

static void answer_match(dfm_call *call, const dfm_stored_motion *stored,
                         const dfm_resident *resident) {
    dfm_motion_binding *binding;
    dfm_error error = {0};
    if (dfm_motion_bind(stored->motion, resident->target.model, &binding, &error) != DFM_OK) {
        dfm_call_fail_core(call, DFM_SUBJECT_MOTION, &error);
        return;
    }
    dfm_call_document(call, 200, NULL, dfm_document_match(stored, &resident->id, binding));
    dfm_motion_binding_free(binding);
}

void dfm_motions_match(dfm_call *call) {
    dfm_resident *resident;
    dfm_error error = {0};
    dfm_stored_motion *stored = dfm_call_motion(call);
    if (!stored)
        return;
    if (dfm_library_get_model(call->api->library, dfm_query_get(&call->query, "model"),
                              DFM_LIBRARY_CHECKED, &resident, &error) == DFM_OK)
        answer_match(call, stored, resident);
    else
        dfm_call_fail_core(call, DFM_SUBJECT_MODEL, &error);
    dfm_resident_release(resident);
    dfm_stored_motion_release(stored);
}
