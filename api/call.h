/* What a handler works with: the service, one request, and the response to fill.
 *
 * Private to api/. Thread safety: a call belongs to one thread; struct dfm_api is shared, and
 * constant but for the workers' scratch, of which each belongs to one worker. */
#ifndef DFM_API_CALL_H
#define DFM_API_CALL_H

#include "api/library.h"
#include "api/pose_json.h"
#include "api/routes.h"
#include "core/workspace.h"

#include <cjson/cJSON.h>

enum { DFM_ETAG_BYTES = 96 };

/* A result as JSON is for looking at it: one of more bytes in raw form is not had as JSON. */
enum { DFM_JSON_RESULT_MAX_BYTES = 4 << 20 };

/* What a worker of the compute lane keeps from one request to the next. */
typedef struct dfm_api_worker {
    dfm_workspace workspace;
    dfm_pose_scratch scratch;
    /* For frames that are skinned together with the one in `workspace`: DFM_DEFORM_BATCH_MAX - 1 of
     * them, without any `more`. NULL: there was none such yet. */
    struct dfm_api_worker *more;
} dfm_api_worker;

struct dfm_api {
    dfm_api_config config;
    dfm_api_worker *workers; /* config.worker_count */
    dfm_metrics *metrics;
    dfm_library *library;
};

typedef struct dfm_call {
    const dfm_api *api;
    const dfm_api_request *request;
    dfm_api_response *response;
    dfm_query query;
    char id[DFM_ID_DIGITS + 1];
    uint64_t begun_ns;   /* CLOCK_MONOTONIC: the handler's turn came */
    dfm_problem problem; /* for whoever fails */
} dfm_call;

uint64_t dfm_call_now_ns(void);

/* Answers with call->problem. */
void dfm_call_fail(dfm_call *call);

/* Answers with a failure of core. */
void dfm_call_fail_core(dfm_call *call, dfm_problem_subject subject, const dfm_error *error);

/* 503 without memory. */
void dfm_call_fail_memory(dfm_call *call);

/* False: the deadline has passed; *problem says so. */
bool dfm_call_in_time(const dfm_call *call, dfm_problem *problem);

/* The resident of {id}, with a reference for the caller; NULL: the failure is answered. */
dfm_resident *dfm_call_resident(dfm_call *call);

/* The same as the store has it now: for what If-Match is compared with. */
dfm_resident *dfm_call_resident_now(dfm_call *call);

/* The motion of {id}, with a reference for the caller; NULL: the failure is answered. */
dfm_stored_motion *dfm_call_motion(dfm_call *call);
dfm_stored_motion *dfm_call_motion_now(dfm_call *call);

/* Whether a result of `size` bytes may be sent; false: call->problem (413). */
bool dfm_call_check_result(dfm_call *call, uint64_t size);

/* Whether two buffers of these capacities (0: none) can ever be had together, beside the request's
 * body: without this check a request that cannot would be told to come again for ever. False:
 * call->problem (413). */
bool dfm_call_check_room(dfm_call *call, uint64_t first, uint64_t second);

/* Answers a list of models or motions, a page of it. */
void dfm_call_list(dfm_call *call, dfm_store_kind kind);

/* A pooled buffer for a result of `size` bytes (dfm_response_capacity); NULL: call->problem says
 * that it is too large (413) or that there is no room for it now (503). */
dfm_buffer *dfm_call_result(dfm_call *call, uint64_t size);

/* True: If-None-Match holds `etag`, and 304 is answered. */
bool dfm_call_not_modified(dfm_call *call, const char *etag);

/* Tags the answer with a digest of its body, and makes a 304 of it where If-None-Match holds that.
 */
void dfm_call_tag_body(dfm_call *call);

/* Answers with a document, which is freed; a NULL document is "no memory". With `etag` NULL the tag
 * is made over the body, and If-None-Match looked at. */
void dfm_call_document(dfm_call *call, int status, const char *etag, cJSON *document);

/* The handlers of the route table. */
void dfm_service_index(dfm_call *call);
void dfm_service_live(dfm_call *call);
void dfm_service_ready(dfm_call *call);
void dfm_service_openapi(dfm_call *call);
void dfm_service_metrics(dfm_call *call);
void dfm_models_upload(dfm_call *call);
void dfm_models_list(dfm_call *call);
void dfm_models_get(dfm_call *call);
void dfm_models_stats(dfm_call *call);
void dfm_models_configure(dfm_call *call);
void dfm_models_delete(dfm_call *call);
void dfm_models_bones(dfm_call *call);
void dfm_models_morphs(dfm_call *call);
void dfm_models_materials(dfm_call *call);
void dfm_models_indices(dfm_call *call);
void dfm_models_vertices(dfm_call *call);
void dfm_deform_handle(dfm_call *call);
void dfm_motions_upload(dfm_call *call);
void dfm_motions_list(dfm_call *call);
void dfm_motions_get(dfm_call *call);
void dfm_motions_delete(dfm_call *call);
void dfm_motions_match(dfm_call *call);

/* Their looks at queries. */
bool dfm_models_check_settings(const dfm_query *query, dfm_problem *problem);
bool dfm_models_check_attributes(const dfm_query *query, dfm_problem *problem);
bool dfm_deform_check(const dfm_query *query, dfm_problem *problem);
bool dfm_motions_check_match(const dfm_query *query, dfm_problem *problem);

#endif
