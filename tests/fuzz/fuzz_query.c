/* Any text as a request to a service with one model and one motion. The input is lines: path,
 * query, Accept, Content-Type, If-None-Match, Request-Timeout-Ms, X-Request-Id, Authorization,
 * Origin, Access-Control-Request-Method, If-Match, Content-Encoding, and what is left is the body;
 * an empty line is no such header, '@' stands for the model's id, '~' for the motion's. Every
 * method is tried, with and without tokens and origins. Every answer is well-formed and of a known
 * status, and nobody without a token gets more than what is open. */
#include "api/call.h"
#include "api/problem.h"
#include "core/text.h"
#include "tests/data/models.h"
#include "tests/support_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

enum { LINES = 12, MAX_INPUT_BYTES = 4096 };

#define DEFORM_TOKEN "deform-token-0123456789"
#define ADMIN_TOKEN "admin-token-0123456789"

static api_house house;
static dfm_api *guarded; /* the same house, with tokens and an origin */
static uint8_t *model_file, *motion_file;
static size_t model_size, motion_size;
static dfm_id model_id, motion_id;

/* --- what every answer keeps ------------------------------------------------------------------ */

static bool is_known(int status) {
    for (int i = 0; i < DFM_PROBLEM_COUNT; i++)
        if (dfm_problem_kinds[i].status == status)
            return true;
    return status == 200 || status == 201 || status == 204 || status == 304;
}

static const char *header(const dfm_api_response *response, const char *name) {
    for (uint32_t i = 0; i < response->header_count; i++)
        if (strcmp(response->headers[i].name, name) == 0)
            return response->headers[i].value;
    return NULL;
}

static bool is_text(const char *value) {
    for (; *value; value++)
        if ((unsigned char)*value < 0x20 || *value == 0x7F)
            return false;
    return true;
}

static void check_headers(const dfm_api_response *response) {
    REQUIRE(response->header_count <= DFM_API_MAX_HEADERS);
    REQUIRE(header(response, "X-Request-Id"));
    for (uint32_t i = 0; i < response->header_count; i++)
        REQUIRE(is_text(response->headers[i].value));
}

static void check_problem(const cJSON *root, const char *type, int status) {
    REQUIRE(strcmp(type, "application/problem+json") == 0);
    REQUIRE(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(root, "type")));
    REQUIRE(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(root, "title")));
    REQUIRE(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(root, "detail")));
    REQUIRE(cJSON_GetObjectItemCaseSensitive(root, "status")->valueint == status);
}

static void check_body(const dfm_api_response *response) {
    const char *type = header(response, "Content-Type");
    bool has_body = response->body_bytes > 0 || response->stream;
    REQUIRE(type || !has_body);
    REQUIRE(response->status < 400 || has_body);
    if (response->stream || !type || !strstr(type, "json"))
        return;
    REQUIRE(dfm_text_is_utf8(response->body, response->body_bytes));
    cJSON *root = cJSON_ParseWithLength(response->body, response->body_bytes);
    REQUIRE(cJSON_IsObject(root));
    if (response->status >= 400)
        check_problem(root, type, response->status);
    cJSON_Delete(root);
}

/* Its first and its last block, as two workers make them. */
static void check_stream(dfm_api_stream *stream) {
    const char *why;
    uint8_t *block = aligned_alloc(64, (stream->block_bytes + 63) / 64 * 64);
    REQUIRE(block && stream->block_bytes > 0);
    REQUIRE(stream->total_bytes == stream->head_bytes + stream->block_count * stream->block_bytes);
    for (uint64_t i = 0;
         i<stream->block_count; i += stream->block_count> 1 ? stream->block_count - 1 : 1)
        if (!stream->render(stream, i, i > 0, block, &why))
            REQUIRE(why[0]);
    free(block);
}

static void check(dfm_api_response *response) {
    REQUIRE(is_known(response->status));
    check_headers(response);
    check_body(response);
    if (response->stream)
        check_stream(response->stream);
}

/* What a token, which the input may hold, was needed for. */
static void check_access(const dfm_api_request *request, const dfm_api_response *response) {
    const dfm_route *route = request->route;
    if (response->status >= 400 || !route || route->scope == DFM_SCOPE_OPEN ||
        strcmp(route->name, "GET /metrics") == 0)
        return;
    const char *given = request->headers.authorization;
    REQUIRE(given);
    REQUIRE(strstr(given, ADMIN_TOKEN) ||
            (strstr(given, DEFORM_TOKEN) && route->scope == DFM_SCOPE_DEFORM));
}

/* --- requests --------------------------------------------------------------------------------- */

/* Returns the status. */
static int send_to(const dfm_api *api, dfm_api_request request) {
    dfm_api_response response;
    request.started_ns = dfm_call_now_ns();
    memset(&response, 0xA5, sizeof response); /* nobody may rely on zeros */
    dfm_admission admission = dfm_api_admit(api, &request, (int64_t)request.body_bytes, &response);
    if (!admission.answered && !admission.takes_body)
        request.body = NULL, request.body_bytes = 0;
    if (!admission.answered)
        dfm_api_handle(api, &request, &response);
    check(&response);
    if (api == guarded)
        check_access(&request, &response);
    dfm_api_response_free(&response);
    return response.status;
}

static void upload(const char *path, const uint8_t *bytes, size_t size) {
    send_to(house.api,
            (dfm_api_request){
                .method = DFM_METHOD_POST, .path = path, .body = bytes, .body_bytes = size});
}

/* Whatever was deleted, changed or added, the next input finds what the first one found. */
static void furnish(void) {
    dfm_cache_delete(house.cache, model_id.text, NULL, NULL);
    dfm_motion_store_delete(house.motions, motion_id.text, NULL);
    upload("/models", model_file, model_size);
    upload("/motions", motion_file, motion_size);
}

static void open_house(void) {
    static const char tokens[] = "deform " DEFORM_TOKEN "\nadmin " ADMIN_TOKEN "\n";
    char message[128];
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_access_counts counts;
    dfm_arena arena = {0};
    grid_options options = grid_default_options(16, 2);
    options.morph_count = 1;
    dfm_pmx grid = model_grid(&arena, &options);
    model_file = model_bytes(&grid, NULL, &model_size);
    motion_file = motion_bytes(&grid, 2, &motion_size);
    dfm_arena_free(&arena);
    dfm_digest(model_file, model_size, digest, &model_id);
    dfm_digest(motion_file, motion_size, digest, &motion_id);
    dfm_access *access = dfm_access_create();
    api_house_open(&house, 1 << 22);
    house.config.max_frames = 1000;
    house.config.max_result_bytes = 1 << 22;
    api_house_reopen(&house);
    REQUIRE(access &&
            dfm_access_load(access, tokens, sizeof tokens - 1, &counts, message, sizeof message));
    dfm_api_config config = house.config;
    config.access = access;
    config.cors_origins = "https://farm.example";
    REQUIRE(guarded = dfm_api_create(&config));
    furnish();
}

/* --- inputs ----------------------------------------------------------------------------------- */

/* A copy with its ids in place; the caller frees it. */
static char *expand(const uint8_t *data, size_t size, size_t *expanded) {
    char *text = malloc(size * DFM_ID_DIGITS + 1);
    REQUIRE(text);
    size_t at = 0;
    for (size_t i = 0; i < size; i++) {
        const char *id = data[i] == '@' ? model_id.text : data[i] == '~' ? motion_id.text : NULL;
        memcpy(text + at, id ? (const void *)id : data + i, id ? DFM_ID_DIGITS : 1);
        at += id ? DFM_ID_DIGITS : 1;
    }
    text[at] = 0;
    *expanded = at;
    return text;
}

/* The lines, which end in a NUL now; NULL for one that is empty or is not there. Returns what is
 * behind the last one. */
static char *split(char *text, char *lines[LINES]) {
    for (int i = 0; i < LINES; i++) {
        char *end = text ? strchr(text, '\n') : NULL;
        if (end)
            *end = 0;
        lines[i] = text && text[0] ? text : NULL;
        text = end ? end + 1 : NULL;
    }
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!house.api)
        open_house();
    if (size > MAX_INPUT_BYTES)
        return 0;
    size_t expanded;
    char *lines[LINES], *text = expand(data, size, &expanded), *body = split(text, lines);
    dfm_api_request request = {.path = lines[0] ? lines[0] : "",
                               .query = lines[1],
                               .headers = {.accept = lines[2],
                                           .content_type = lines[3],
                                           .if_none_match = lines[4],
                                           .request_timeout_ms = lines[5],
                                           .request_id = lines[6],
                                           .authorization = lines[7],
                                           .origin = lines[8],
                                           .access_control_request_method = lines[9],
                                           .if_match = lines[10],
                                           .content_encoding = lines[11]}};
    request.body = (const uint8_t *)body;
    request.body_bytes = body ? (size_t)(text + expanded - body) : 0;
    for (int method = DFM_METHOD_GET; method <= DFM_METHOD_OTHER; method++) {
        request.method = (dfm_method)method;
        for (int i = 0; i < 2; i++) {
            int status = send_to(i ? guarded : house.api, request);
            if (status < 300 && method >= DFM_METHOD_POST && method <= DFM_METHOD_DELETE)
                furnish();
        }
    }
    free(text);
    return 0;
}
