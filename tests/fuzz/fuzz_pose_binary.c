/* Any bytes as the body of a binary pose: it is refused with a reason, or answered with frames of
 * finite numbers. The first byte chooses the format and what is asked for. */
#include "tests/data/models.h"
#include "tests/support_api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static api_house house;
static char path[96];

/* The response; the caller frees it. */
static dfm_api_response send_body(const char *where, const char *query, const char *type,
                                  const uint8_t *body, size_t size) {
    dfm_api_request request = {.method = DFM_METHOD_POST,
                               .path = where,
                               .query = query,
                               .headers = {.content_type = type},
                               .body = body,
                               .body_bytes = size};
    dfm_api_response response;
    if (!dfm_api_admit(house.api, &request, (int64_t)size, &response).answered)
        dfm_api_handle(house.api, &request, &response);
    return response;
}

static void open_house(void) {
    dfm_arena arena = {0};
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_id id;
    size_t size;
    dfm_pmx odd = model_odd(&arena, 2.1f, DFM_TEXT_UTF8);
    uint8_t *bytes = model_bytes(&odd, NULL, &size);
    dfm_arena_free(&arena);
    api_house_open(&house, 0);
    dfm_api_response response = send_body("/models", "mode=cpu", NULL, bytes, size);
    REQUIRE(response.status == 201);
    dfm_api_response_free(&response);
    dfm_digest(bytes, size, digest, &id);
    free(bytes);
    snprintf(path, sizeof path, "/models/%s/deform", id.text);
}

static void check_numbers(const dfm_api_response *response) {
    const char *body = response->body;
    for (size_t i = 0; i + sizeof(float) <= response->body_bytes; i += sizeof(float)) {
        float number;
        memcpy(&number, body + i, sizeof number);
        REQUIRE(isfinite(number));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const queries[] = {"", "output=bones", "attributes=position,uv1", "ik=off"};
    static const char *const types[] = {"application/x-deformd-pose",
                                        "application/x-deformd-matrices"};
    if (!house.api)
        open_house();
    if (size < 2)
        return 0;
    dfm_api_response response =
        send_body(path, queries[data[0] / 2 % 4], types[data[0] & 1], data + 1, size - 1);
    if (response.stream)
        response.stream->free(response.stream); /* its frames are those of a whole answer */
    else if (response.status == 200)
        check_numbers(&response);
    else
        REQUIRE((response.status == 422 || response.status == 413) && response.body_bytes > 0);
    response.stream = NULL;
    dfm_api_response_free(&response);
    return 0;
}
