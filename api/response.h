/* Building responses: headers, JSON documents, pooled bodies, entity tags.
 *
 * Thread safety: a response belongs to one request. */
#ifndef DFM_API_RESPONSE_H
#define DFM_API_RESPONSE_H

#include "api/api.h"

#include <cjson/cJSON.h>

/* Sets request_id: the client's X-Request-Id where it is 1 to 64 of [A-Za-z0-9._-], else a new one.
 */
void dfm_request_id_choose(dfm_api_request *request);

/* A response without a body, with X-Request-Id. */
void dfm_response_begin(dfm_api_response *response, const dfm_api_request *request, int status);

/* Adds a header (printf). `name` is static. More than DFM_API_MAX_HEADERS are a programming error.
 */
void dfm_response_header(dfm_api_response *response, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets a static body. */
void dfm_response_static(dfm_api_response *response, const char *content_type, const void *body,
                         size_t size);

/* Prints a document as the body and frees it; false: no memory (the response has no body then). */
bool dfm_response_json(dfm_api_response *response, const char *content_type, cJSON *document);

/* Makes a pooled buffer the body; it goes back to the pool with the response. The buffer was
 * acquired with dfm_response_capacity(size) bytes, of which the last hold what gives it back. */
size_t dfm_response_capacity(size_t size);
void dfm_response_buffer(dfm_api_response *response, const char *content_type,
                         const dfm_buffers *buffers, dfm_buffer *buffer, size_t size);

/* A body in memory of a resident, which is released (the caller's reference) with the response. */
void dfm_response_borrowed(dfm_api_response *response, const char *content_type, const void *body,
                           size_t size, dfm_resident *owner);

/* Whether an If-None-Match or If-Match list (may be "*") holds `etag`: weak or strong comparison of
 * RFC 9110, 8.8.3.2. */
bool dfm_etag_matches_weakly(const char *list, const char *etag);
bool dfm_etag_matches_strongly(const char *list, const char *etag);

#endif
