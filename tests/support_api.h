/* A service without sockets for tests of api/: a cache, the CPU skinner, buffers by malloc, and
 * requests that go through dfm_api_admit and dfm_api_handle like the server's.
 * Thread safety: one thread. */
#ifndef DFM_TESTS_SUPPORT_API_H
#define DFM_TESTS_SUPPORT_API_H

#include "api/api.h"

#include <cjson/cJSON.h>

typedef struct api_house {
    dfm_api_config config; /* change it, then api_house_reopen */
    dfm_skinners skinners;
    dfm_cache *cache;
    dfm_motion_store *motions;
    dfm_api *api;
    size_t buffers_out;  /* acquired and not given back */
    bool refuse_buffers; /* acquire answers NULL */
    bool not_ready;
} api_house;

/* With a model cache of `budget_bytes`; 0 = plenty. */
void api_house_open(api_house *house, size_t budget_bytes);
void api_house_reopen(api_house *house); /* a new dfm_api of house->config, the same cache */
void api_house_close(api_house *house);  /* fails the test where a buffer is still out */

/* A request; fields left out are absent. */
typedef struct api_ask {
    dfm_method method;
    const char *path, *query;
    dfm_api_headers headers;
    const void *body;
    size_t body_bytes;       /* 0 with a body: a C string */
    int64_t content_length;  /* 0: of the body; -1: not told */
    uint32_t worker;         /* that handles it */
    void (*meanwhile)(void); /* called when the request is gone, before the answer's body is read */
} api_ask;

/* What came back. The body ends in a NUL that does not count. A stream is drained by all workers in
 * turn, its last block first: whoever renders what and when must not matter. */
typedef struct api_answer {
    int status;
    dfm_api_response response; /* headers */
    char *body;
    size_t body_bytes;
    bool streamed;
    uint64_t block_count; /* of a stream */
    char cut[256];        /* why a stream ended early; "" = it did not */
    cJSON *json;          /* of a body of a JSON type */
    bool admitted;
    dfm_admission admission;
} api_answer;

api_answer api_send(api_house *house, const api_ask *ask);
void api_answer_free(api_answer *answer);

const char *api_header(const api_answer *answer, const char *name); /* NULL: absent */

/* The "code" of a problem's type, "" where the answer is none. */
const char *api_problem(const api_answer *answer);

/* A string member of the JSON body, "" where there is none. */
const char *api_string(const api_answer *answer, const char *name);

/* Uploads a model, or a motion, and fails the test unless it is taken; the id goes to `id`. */
void api_upload_motion(api_house *house, const uint8_t *bytes, size_t size,
                       char id[DFM_ID_DIGITS + 1]);
void api_upload(api_house *house, const uint8_t *bytes, size_t size, char id[DFM_ID_DIGITS + 1]);

#endif
