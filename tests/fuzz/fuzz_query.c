/* Any text as path, query and headers of a request. The input is lines: path, query, Accept,
 * Content-Type, If-None-Match, Request-Timeout-Ms, X-Request-Id, Authorization, Origin,
 * Access-Control-Request-Method. Every method is tried, with and without tokens and origins; what
 * is answered at once is whole, and what is admitted and needs no model is answered too. */
#include "api/routes.h"
#include "tests/support_api.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

enum { LINES = 10 };

static api_house house;
static dfm_api *guarded; /* the same house, with a token and an origin */

static void check(dfm_api_response *response) {
    REQUIRE(response->status >= 200 && response->status < 600);
    REQUIRE(response->header_count > 0 && response->header_count <= DFM_API_MAX_HEADERS);
    for (uint32_t i = 0; i < response->header_count; i++)
        REQUIRE(!strpbrk(response->headers[i].value, "\r\n"));
    if (response->status >= 400) {
        cJSON *root = cJSON_ParseWithLength(response->body, response->body_bytes);
        REQUIRE(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(root, "detail")));
        cJSON_Delete(root);
    }
    dfm_api_response_free(response);
}

static void send_as(const dfm_api *api, dfm_method method, char *const lines[LINES]) {
    dfm_api_request request = {.method = method,
                               .path = lines[0],
                               .query = lines[1],
                               .headers = {.accept = lines[2],
                                           .content_type = lines[3],
                                           .if_none_match = lines[4],
                                           .request_timeout_ms = lines[5],
                                           .request_id = lines[6],
                                           .authorization = lines[7],
                                           .origin = lines[8],
                                           .access_control_request_method = lines[9]}};
    dfm_api_response response;
    if (!dfm_api_admit(api, &request, -1, &response).answered)
        dfm_api_handle(api, &request, &response);
    check(&response);
}

static void open_house(void) {
    static const char tokens[] = "deform deform-token-0123456789\n";
    char message[128];
    dfm_access_counts counts;
    dfm_access *access = dfm_access_create();
    api_house_open(&house, 0);
    REQUIRE(access &&
            dfm_access_load(access, tokens, sizeof tokens - 1, &counts, message, sizeof message));
    dfm_api_config config = house.config;
    config.access = access;
    config.cors_origins = "https://farm.example";
    REQUIRE(guarded = dfm_api_create(&config));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!house.api)
        open_house();
    char *text = malloc(size + 1), *lines[LINES] = {text}, *at = text;
    REQUIRE(text);
    memcpy(text, data, size);
    text[size] = 0;
    for (int i = 1; i < LINES && (at = strchr(at, '\n')); i++) {
        *at++ = 0;
        lines[i] = at;
    }
    for (dfm_method method = DFM_METHOD_GET; method <= DFM_METHOD_OTHER; method++)
        send_as(house.api, method, lines), send_as(guarded, method, lines);
    free(text);
    return 0;
}
