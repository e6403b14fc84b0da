#include "api/cors.h"

#include "api/response.h"

#include <string.h>

const char *dfm_cors_allowed(const char *allowed, const char *origin) {
    if (!allowed || !origin || !origin[0])
        return NULL;
    if (strcmp(allowed, "*") == 0)
        return allowed;
    size_t length = strlen(origin);
    while (*allowed) {
        allowed += strspn(allowed, ", ");
        size_t one = strcspn(allowed, ", ");
        if (one == length && memcmp(allowed, origin, length) == 0)
            return origin;
        allowed += one;
    }
    return NULL;
}

bool dfm_cors_is_preflight(const dfm_api_request *request) {
    return request->method == DFM_METHOD_OPTIONS && request->cors_origin &&
           request->headers.access_control_request_method;
}

void dfm_cors_answer(const dfm_api_request *request, const char *allow,
                     dfm_api_response *response) {
    dfm_response_begin(response, request, 204);
    if (allow[0])
        dfm_response_header(response, "Access-Control-Allow-Methods", "%s", allow);
    dfm_response_header(response, "Access-Control-Allow-Headers",
                        "Authorization, Content-Type, Content-Encoding, If-Match, If-None-Match, "
                        "Request-Timeout-Ms, X-Request-Id");
    dfm_response_header(response, "Access-Control-Max-Age", "600");
}

void dfm_cors_add_headers(const dfm_api_request *request, dfm_api_response *response) {
    dfm_response_header(response, "Access-Control-Allow-Origin", "%s", request->cors_origin);
    dfm_response_header(response, "Vary", "Origin");
    dfm_response_header(response, "Access-Control-Expose-Headers",
                        "Deformd-Frames, Deformd-Vertices, Deformd-Bones, Deformd-Stride, "
                        "Deformd-Layout, Deformd-Skinner, Deformd-Unmatched, Deformd-Index-Type, "
                        "ETag, Location, Retry-After, Server-Timing, X-Request-Id");
}
