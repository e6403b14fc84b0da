#include "api/cors.h"

#include "api/response.h"

#include <stdio.h>
#include <string.h>

/* So that an answer's header holds it. */
enum { ORIGIN_MAX_BYTES = 200 };

/* The next of a list and its length, *length 0 where there is none. */
static const char *next_origin(const char *list, size_t *length) {
    list += strspn(list, ", ");
    *length = strcspn(list, ", ");
    return list;
}

static bool ends_with(const char *text, size_t length, const char *end) {
    size_t size = strlen(end);
    return length >= size && memcmp(text + length - size, end, size) == 0;
}

/* As browsers write it: they compare byte by byte, and so do we. */
static bool is_origin(const char *text, size_t length) {
    size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+.-");
    if (scheme == 0 || length > ORIGIN_MAX_BYTES || strncmp(text + scheme, "://", 3) != 0)
        return false;
    size_t host = strspn(text + scheme + 3, "abcdefghijklmnopqrstuvwxyz0123456789._-:[]");
    bool is_default = (scheme == 4 && ends_with(text, length, ":80")) ||
                      (scheme == 5 && ends_with(text, length, ":443"));
    return host > 0 && scheme + 3 + host == length && !is_default;
}

bool dfm_cors_check(const char *allowed, char *message, size_t message_bytes) {
    size_t length, count = 0;
    if (!allowed[0] || strcmp(allowed, "*") == 0)
        return true;
    for (const char *one = next_origin(allowed, &length); length > 0;
         one = next_origin(one + length, &length), count++)
        if (!is_origin(one, length)) {
            snprintf(message, message_bytes,
                     "\"%.*s\" is no origin as browsers send it: scheme://host or "
                     "scheme://host:port, in lower case, without a path or a default port",
                     (int)(length < 100 ? length : 100), one);
            return false;
        }
    if (count == 0)
        snprintf(message, message_bytes, "there is no origin in it");
    return count > 0;
}

static bool is_listed(const char *allowed, const char *origin) {
    size_t length, size = strlen(origin);
    for (const char *one = next_origin(allowed, &length); length > 0;
         one = next_origin(one + length, &length))
        if (length == size && memcmp(one, origin, size) == 0)
            return true;
    return false;
}

void dfm_cors_look(const char *allowed, dfm_api_request *request) {
    const char *origin = request->headers.origin;
    request->cors_origin = NULL;
    request->cors_varies = false;
    if (!allowed || !allowed[0])
        return;
    if (strcmp(allowed, "*") == 0) {
        request->cors_origin = allowed;
        return;
    }
    request->cors_varies = true;
    if (origin && is_listed(allowed, origin))
        request->cors_origin = origin;
}

bool dfm_cors_is_preflight(const dfm_api_request *request) {
    return request->method == DFM_METHOD_OPTIONS && request->cors_origin &&
           request->headers.origin && request->headers.access_control_request_method;
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
    if (request->cors_varies)
        dfm_response_header(response, "Vary", "Origin");
    if (!request->cors_origin)
        return;
    dfm_response_header(response, "Access-Control-Allow-Origin", "%s", request->cors_origin);
    dfm_response_header(response, "Access-Control-Expose-Headers",
                        "Deformd-Frames, Deformd-Vertices, Deformd-Bones, Deformd-Stride, "
                        "Deformd-Layout, Deformd-Skinner, Deformd-Unmatched, Deformd-Index-Type, "
                        "ETag, Location, Retry-After, Server-Timing, X-Request-Id");
}
