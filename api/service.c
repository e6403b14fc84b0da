#include "api/call.h"
#include "api/doc.h"
#include "api/media.h"
#include "api/response.h"

#include <stdlib.h>
#include <string.h>

extern const char dfm_openapi_yaml[]; /* made from openapi.yaml by the Makefile */

static void add_skinner(dfm_doc *doc, cJSON *parent, const char *key, const dfm_skinner *skinner,
                        const char *reason) {
    cJSON *item = dfm_doc_add_object(doc, parent, key);
    dfm_doc_add_bool(doc, item, "available", skinner != NULL);
    dfm_doc_add_string(doc, item, skinner ? "description" : "reason",
                       skinner ? skinner->description : reason);
}

static void add_limits(dfm_doc *doc, cJSON *parent, const dfm_api_config *config) {
    cJSON *limits = dfm_doc_add_object(doc, parent, "limits");
    dfm_doc_add_integer(doc, limits, "max_upload_bytes", (int64_t)config->max_upload_bytes);
    dfm_doc_add_integer(doc, limits, "max_json_bytes", (int64_t)config->max_json_bytes);
    dfm_doc_add_integer(doc, limits, "max_pose_bytes", (int64_t)config->max_pose_bytes);
    if (config->max_result_bytes)
        dfm_doc_add_integer(doc, limits, "max_result_bytes", (int64_t)config->max_result_bytes);
    else
        dfm_doc_add_null(doc, limits, "max_result_bytes");
    if (config->max_frames)
        dfm_doc_add_integer(doc, limits, "max_frames", (int64_t)config->max_frames);
    else
        dfm_doc_add_null(doc, limits, "max_frames");
    dfm_doc_add_integer(doc, limits, "max_json_result_bytes", DFM_JSON_RESULT_MAX_BYTES);
    if (config->request_timeout_ms)
        dfm_doc_add_integer(doc, limits, "request_timeout_ms", (int64_t)config->request_timeout_ms);
    else
        dfm_doc_add_null(doc, limits, "request_timeout_ms");
    dfm_doc_add_integer(doc, limits, "cache_bytes",
                        (int64_t)dfm_cache_get_stats(config->cache).budget_bytes);
    dfm_doc_add_integer(doc, limits, "motion_cache_bytes",
                        (int64_t)dfm_motion_store_get_stats(config->motions).budget_bytes);
    dfm_doc_add_integer(doc, limits, "workers", config->worker_count);
}

void dfm_service_index(dfm_call *call) {
    const dfm_api_config *config = &call->api->config;
    const dfm_skinners *skinners = config->skinners;
    dfm_doc doc = {0};
    cJSON *root = dfm_doc_object(&doc);
    dfm_doc_add_string(&doc, root, "name", "deformd");
    dfm_doc_add_string(&doc, root, "version", config->version);
    dfm_doc_add_string(&doc, root, "build", config->build);
    cJSON *list = dfm_doc_add_object(&doc, root, "skinners");
    add_skinner(&doc, list, "cpu", skinners->cpu, "");
    add_skinner(&doc, list, "opencl", skinners->opencl, skinners->opencl_unavailable);
    dfm_doc_add_string(&doc, root, "default_mode",
                       config->defaults.mode == DFM_MODE_GPU ? "gpu" : "cpu");
    dfm_doc_add_bool(&doc, root, "strict_mode", config->strict_mode);
    add_limits(&doc, root, config);
    cJSON *links = dfm_doc_add_object(&doc, root, "links");
    dfm_doc_add_string(&doc, links, "models", "models");
    dfm_doc_add_string(&doc, links, "motions", "motions");
    dfm_doc_add_string(&doc, links, "openapi", "openapi.yaml");
    dfm_call_document(call, 200, NULL, dfm_doc_done(&doc, root));
}

static void answer_status(dfm_call *call, const char *status) {
    dfm_doc doc = {0};
    cJSON *root = dfm_doc_object(&doc);
    dfm_doc_add_string(&doc, root, "status", status);
    dfm_call_document(call, 200, NULL, dfm_doc_done(&doc, root));
}

void dfm_service_live(dfm_call *call) {
    answer_status(call, "alive");
}

void dfm_service_ready(dfm_call *call) {
    const dfm_api_config *config = &call->api->config;
    if (!config->ready || config->ready(config->ready_context)) {
        answer_status(call, "ready");
        return;
    }
    dfm_problem_set(&call->problem, DFM_PROBLEM_NOT_READY, "starting or draining");
    dfm_call_fail(call);
}

void dfm_service_metrics(dfm_call *call) {
    dfm_api_response *response = call->response;
    size_t size;
    char *text = dfm_metrics_print(call->api, &size);
    if (!text) {
        dfm_call_fail_memory(call);
        return;
    }
    dfm_response_begin(response, call->request, 200);
    dfm_response_static(response, DFM_MEDIA_METRICS, text, size);
    response->free_body = free;
    response->free_context = text;
    dfm_call_tag_body(call);
}

void dfm_service_openapi(dfm_call *call) {
    dfm_api_response *response = call->response;
    dfm_response_begin(response, call->request, 200);
    dfm_response_static(response, DFM_MEDIA_YAML, dfm_openapi_yaml, strlen(dfm_openapi_yaml));
    dfm_call_tag_body(call);
}
