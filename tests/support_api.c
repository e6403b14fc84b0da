#include "tests/support_api.h"

#include "api/routes.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static dfm_buffer *acquire(void *context, size_t capacity) {
    api_house *house = context;
    if (house->refuse_buffers)
        return NULL;
    dfm_buffer *buffer = malloc(sizeof *buffer);
    size_t rounded = (capacity + 63) / 64 * 64;
    uint8_t *data = buffer ? aligned_alloc(64, rounded) : NULL;
    if (!data) {
        free(buffer);
        return NULL;
    }
    *buffer = (dfm_buffer){.data = data, .capacity = capacity};
    house->buffers_out++;
    return buffer;
}

static void release(void *context, dfm_buffer *buffer) {
    api_house *house = context;
    house->buffers_out--;
    free(buffer->data);
    free(buffer);
}

static uint64_t footprint(void *context, uint64_t capacity) {
    (void)context;
    return capacity;
}

static bool ready(void *context) {
    return !((api_house *)context)->not_ready;
}

/* Not by Check: fuzzers open a house too. */
static void require(bool holds) {
    if (!holds)
        abort();
}

void api_house_open(api_house *house, size_t budget_bytes) {
    dfm_error error = {0};
    *house = (api_house){0};
    dfm_skinner_options options = {.worker_count = 2};
    require(dfm_skinner_open(&dfm_skinner_cpu, &options, &house->skinners.cpu, &error) == DFM_OK);
    snprintf(house->skinners.opencl_unavailable, sizeof house->skinners.opencl_unavailable,
             "no OpenCL platform");
    dfm_cache_options cache = {.budget_bytes = budget_bytes ? budget_bytes : (size_t)1 << 30,
                               .limits = dfm_pmx_default_limits,
                               .skinners = &house->skinners};
    require(dfm_cache_create(&cache, &house->cache, &error) == DFM_OK);
    require(dfm_motion_store_create(cache.budget_bytes, &house->motions, &error) == DFM_OK);
    house->config = (dfm_api_config){
        .version = "1.2.3",
        .build = "test",
        .defaults = {.mode = DFM_MODE_GPU, .sdef = true, .weights = DFM_WEIGHTS_NORMALIZED},
        .max_upload_bytes = 16 << 20,
        .max_json_bytes = 1 << 20,
        .max_pose_bytes = 4 << 20,
        .worker_count = options.worker_count,
        .cache = house->cache,
        .motions = house->motions,
        .skinners = &house->skinners,
        .buffers = {acquire, release, footprint, house},
        .ready = ready,
        .ready_context = house,
    };
    house->api = dfm_api_create(&house->config);
    require(house->api);
}

void api_house_reopen(api_house *house) {
    dfm_api_free(house->api);
    house->api = dfm_api_create(&house->config);
    require(house->api);
}

void api_house_close(api_house *house) {
    ck_assert_uint_eq(house->buffers_out, 0);
    dfm_api_free(house->api);
    dfm_cache_free(house->cache);
    dfm_motion_store_free(house->motions);
    dfm_skinner_close(house->skinners.cpu);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The body is handed over in memory of exactly its size, so that the address sanitizer sees a read
 * past its end. */
static uint8_t *copy_body(const api_ask *ask, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    ck_assert_ptr_nonnull(copy);
    if (size)
        memcpy(copy, ask->body, size);
    return copy;
}

static bool listed(const char *const *list, const char *name) {
    for (; list && *list; list++) {
        if (strcmp(*list, name) == 0)
            return true;
    }
    return false;
}

/* What every answer must keep: an id, a type where there is a body, and no header that the route
 * table does not name. */
static void check_headers(const api_answer *answer, const dfm_route *route) {
    static const char *const everywhere[] = {"X-Request-Id",
                                             "Content-Type",
                                             "X-Content-Type-Options",
                                             "Vary",
                                             "Access-Control-Allow-Origin",
                                             "Access-Control-Expose-Headers",
                                             "Access-Control-Allow-Methods",
                                             "Access-Control-Allow-Headers",
                                             "Access-Control-Max-Age",
                                             NULL};
    static const char *const problems[] = {"Retry-After", "Allow", "WWW-Authenticate", NULL};
    ck_assert_ptr_nonnull(api_header(answer, "X-Request-Id"));
    if (answer->body_bytes > 0)
        ck_assert_ptr_nonnull(api_header(answer, "Content-Type"));
    for (uint32_t i = 0; i < answer->response.header_count; i++) {
        const char *name = answer->response.headers[i].name;
        bool known =
            answer->status < 400 ? route && listed(route->headers, name) : listed(problems, name);
        ck_assert_msg(known || listed(everywhere, name), "%s on %d", name, answer->status);
        ck_assert_int_eq(strpbrk(answer->response.headers[i].value, "\r\n") != NULL, false);
    }
}

/* Renders into aligned memory of exactly a block, as the server has it. */
static void drain(const api_house *house, dfm_api_stream *stream, api_answer *answer) {
    void *block;
    ck_assert_int_eq(posix_memalign(&block, 64, stream->block_bytes), 0);
    ck_assert_uint_gt(stream->block_bytes, 0);
    ck_assert_uint_eq(stream->total_bytes,
                      stream->head_bytes + stream->block_count * stream->block_bytes);
    answer->streamed = true;
    answer->block_count = stream->block_count;
    if (stream->head_bytes)
        memcpy(answer->body, stream->head, stream->head_bytes);
    for (uint64_t i = stream->block_count; i-- > 0 && !answer->cut[0];) {
        const char *why = "";
        uint32_t worker = (uint32_t)(i % house->config.worker_count);
        if (stream->render(stream, i, worker, block, &why))
            memcpy(answer->body + stream->head_bytes + i * stream->block_bytes, block,
                   stream->block_bytes);
        else
            snprintf(answer->cut, sizeof answer->cut, "block %llu: %s", (unsigned long long)i, why);
    }
    free(block);
}

static void take_answer(const api_house *house, api_answer *answer, dfm_api_response *response) {
    answer->status = response->status;
    answer->response = *response;
    answer->body_bytes = response->stream ? response->stream->total_bytes : response->body_bytes;
    answer->body = malloc(answer->body_bytes + 1);
    ck_assert_ptr_nonnull(answer->body);
    if (response->stream)
        drain(house, response->stream, answer);
    else if (response->body_bytes)
        memcpy(answer->body, response->body, response->body_bytes);
    answer->body[answer->body_bytes] = 0;
    dfm_api_response_free(response);
    const char *type = api_header(answer, "Content-Type");
    if (type && strstr(type, "json")) {
        answer->json = cJSON_ParseWithLengthOpts(answer->body, answer->body_bytes, NULL, false);
        ck_assert_msg(answer->json != NULL, "not JSON: %s", answer->body);
    }
}

api_answer api_send(api_house *house, const api_ask *ask) {
    size_t size = ask->body && !ask->body_bytes ? strlen(ask->body) : ask->body_bytes;
    uint8_t *body = copy_body(ask, size);
    dfm_api_request request = {.method = ask->method,
                               .path = ask->path,
                               .query = ask->query,
                               .headers = ask->headers,
                               .started_ns = now_ns()};
    dfm_api_response response;
    memset(&response, 0xA5, sizeof response); /* nobody may rely on zeros */
    api_answer answer = {0};
    answer.admission = dfm_api_admit(
        house->api, &request, ask->content_length ? ask->content_length : (int64_t)size, &response);
    answer.admitted = !answer.admission.answered;
    if (answer.admitted) {
        request.body = size ? body : NULL;
        request.body_bytes = size;
        request.body_capacity = size;
        request.received_ns = now_ns();
        request.worker = ask->worker;
        dfm_api_handle(house->api, &request, &response);
    }
    if (!response.stream || !response.stream->borrows_body) {
        free(body);
        body = NULL;
    }
    if (ask->meanwhile)
        ask->meanwhile();
    take_answer(house, &answer, &response);
    free(body);
    check_headers(&answer, request.route);
    return answer;
}

void api_answer_free(api_answer *answer) {
    cJSON_Delete(answer->json);
    free(answer->body);
    *answer = (api_answer){0};
}

const char *api_header(const api_answer *answer, const char *name) {
    for (uint32_t i = 0; i < answer->response.header_count; i++) {
        if (strcmp(answer->response.headers[i].name, name) == 0)
            return answer->response.headers[i].value;
    }
    return NULL;
}

const char *api_string(const api_answer *answer, const char *name) {
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer->json, name));
    return value ? value : "";
}

const char *api_problem(const api_answer *answer) {
    const char *type = api_string(answer, "type"), prefix[] = "/problems/";
    return strncmp(type, prefix, sizeof prefix - 1) == 0 ? type + sizeof prefix - 1 : "";
}

static void upload_to(api_house *house, const char *path, const uint8_t *bytes, size_t size,
                      char id[DFM_ID_DIGITS + 1]) {
    api_ask ask = {.method = DFM_METHOD_POST, .path = path, .body = bytes, .body_bytes = size};
    api_answer answer = api_send(house, &ask);
    ck_assert_msg(answer.status == 201 || answer.status == 200, "upload: %d %s", answer.status,
                  answer.body);
    snprintf(id, DFM_ID_DIGITS + 1, "%s", api_string(&answer, "id"));
    api_answer_free(&answer);
}

void api_upload(api_house *house, const uint8_t *bytes, size_t size, char id[DFM_ID_DIGITS + 1]) {
    upload_to(house, "/models", bytes, size, id);
}

void api_upload_motion(api_house *house, const uint8_t *bytes, size_t size,
                       char id[DFM_ID_DIGITS + 1]) {
    upload_to(house, "/motions", bytes, size, id);
}
