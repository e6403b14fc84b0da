/* Pages of other origins that may use the service (CORS, the Fetch standard). Thread safety: no
 * state. */
#ifndef DFM_API_CORS_H
#define DFM_API_CORS_H

#include "api/api.h"

/* What Access-Control-Allow-Origin is to say to a page of `origin` (NULL = no page asks): "*" or
 * the origin; NULL: nothing. `allowed` is "*" or origins with commas between, NULL or "" = none. */
const char *dfm_cors_allowed(const char *allowed, const char *origin);

/* A browser asks beforehand whether a page may send a request; it sends no token for that. */
bool dfm_cors_is_preflight(const dfm_api_request *request);

/* `allow`: the methods of the path, "" = there is none. */
void dfm_cors_answer(const dfm_api_request *request, const char *allow, dfm_api_response *response);

/* To every answer to a page: request->cors_origin is set. */
void dfm_cors_add_headers(const dfm_api_request *request, dfm_api_response *response);

#endif
