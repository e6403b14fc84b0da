/* Pages of other origins that may use the service (CORS, the Fetch standard). Thread safety: no
 * state. */
#ifndef DFM_API_CORS_H
#define DFM_API_CORS_H

#include "api/api.h"

/* `allowed` is "*" or origins with commas between, "" = none. False: one of them is none that a
 * browser would ever send, and `message` says which. */
bool dfm_cors_check(const char *allowed, char *message, size_t message_bytes);

/* Whether this request's page is of an allowed origin: sets the request's cors_origin and
 * cors_varies. `allowed` may be NULL, too. */
void dfm_cors_look(const char *allowed, dfm_api_request *request);

/* A browser asks beforehand whether a page may send a request; it sends no token for that. */
bool dfm_cors_is_preflight(const dfm_api_request *request);

/* `allow`: the methods of the path, "" = there is none. */
void dfm_cors_answer(const dfm_api_request *request, const char *allow, dfm_api_response *response);

/* To every answer: what dfm_cors_look found. An answer that depends on the origin says so to
 * whoever asks, or a cache would give a page what it keeps for others. */
void dfm_cors_add_headers(const dfm_api_request *request, dfm_api_response *response);

#endif
