#include "api/response.h"

#include "api/cors.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Sixteen hex digits that nobody can guess; without randomness (early at boot) the clock's. */
static void make_request_id(char id[DFM_API_REQUEST_ID_BYTES + 1]) {
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        number = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
    snprintf(id, DFM_API_REQUEST_ID_BYTES + 1, "%016llx", (unsigned long long)number);
}

void dfm_request_id_choose(dfm_api_request *request) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const char *given = request->headers.request_id;
    size_t length = given ? strspn(given, allowed) : 0;
    /* Anything else could break a log line or a header that it is copied into. */
    if (length == 0 || length > DFM_API_REQUEST_ID_BYTES || given[length] != 0)
        make_request_id(request->request_id);
    else
        memcpy(request->request_id, given, length + 1);
}

void dfm_response_begin(dfm_api_response *response, const dfm_api_request *request, int status) {
    response->status = status;
    response->header_count = 0;
    response->body = NULL;
    response->body_bytes = 0;
    response->free_body = NULL;
    response->free_context = NULL;
    response->stream = NULL;
    char made[DFM_API_REQUEST_ID_BYTES + 1];
    const char *id = request->request_id;
    if (id[0] == 0) { /* refused before it was admitted */
        make_request_id(made);
        id = made;
    }
    dfm_response_header(response, "X-Request-Id", "%s", id);
    dfm_response_header(response, "X-Content-Type-Options", "nosniff");
    dfm_cors_add_headers(request, response);
}

void dfm_response_header(dfm_api_response *response, const char *name, const char *format, ...) {
    if (response->header_count == DFM_API_MAX_HEADERS)
        abort();
    dfm_api_header *header = &response->headers[response->header_count++];
    header->name = name;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(header->value, sizeof header->value, format, arguments);
    va_end(arguments);
}

void dfm_response_static(dfm_api_response *response, const char *content_type, const void *body,
                         size_t size) {
    dfm_response_header(response, "Content-Type", "%s", content_type);
    response->body = body;
    response->body_bytes = size;
}

bool dfm_response_json(dfm_api_response *response, const char *content_type, cJSON *document) {
    char *text = cJSON_PrintUnformatted(document);
    cJSON_Delete(document);
    if (!text)
        return false;
    dfm_response_static(response, content_type, text, strlen(text));
    response->free_body = cJSON_free;
    response->free_context = text;
    return true;
}

/* Stands behind a pooled body, in the same buffer. */
struct trailer {
    dfm_buffers buffers;
    dfm_buffer *buffer;
};

static size_t trailer_offset(size_t size) {
    size_t unit = alignof(struct trailer);
    return (size + unit - 1) / unit * unit;
}

size_t dfm_response_capacity(size_t size) {
    return trailer_offset(size) + sizeof(struct trailer);
}

static void release_buffer(void *context) {
    struct trailer trailer = *(struct trailer *)context;
    trailer.buffers.release(trailer.buffers.context, trailer.buffer);
}

void dfm_response_buffer(dfm_api_response *response, const char *content_type,
                         const dfm_buffers *buffers, dfm_buffer *buffer, size_t size) {
    struct trailer *trailer = (struct trailer *)(void *)(buffer->data + trailer_offset(size));
    *trailer = (struct trailer){.buffers = *buffers, .buffer = buffer};
    buffer->size = size;
    dfm_response_static(response, content_type, buffer->data, size);
    response->free_body = release_buffer;
    response->free_context = trailer;
}

static void release_owner(void *context) {
    dfm_resident_release(context);
}

void dfm_response_borrowed(dfm_api_response *response, const char *content_type, const void *body,
                           size_t size, dfm_resident *owner) {
    dfm_response_static(response, content_type, body, size);
    response->free_body = release_owner;
    response->free_context = owner;
}

void dfm_api_response_free(dfm_api_response *response) {
    if (response->free_body)
        response->free_body(response->free_context);
    if (response->stream)
        response->stream->free(response->stream);
    response->body = NULL;
    response->body_bytes = 0;
    response->free_body = NULL;
    response->free_context = NULL;
    response->stream = NULL;
}

/* --- entity tags ---------------------------------------------------------------------------- */

/* The next tag of the list: from its opening quote to behind its closing one. */
static const char *next_tag(const char *at, const char **end, bool *weak) {
    at += strspn(at, " \t,");
    *weak = strncmp(at, "W/", 2) == 0;
    if (*weak)
        at += 2;
    if (*at != '"')
        return NULL;
    const char *quote = strchr(at + 1, '"');
    *end = quote ? quote + 1 : NULL;
    return quote ? at : NULL;
}

static bool matches(const char *list, const char *etag, bool take_weak) {
    size_t length = strlen(etag);
    list += strspn(list, " \t");
    if (list[0] == '*' && list[1 + strspn(list + 1, " \t")] == 0)
        return true;
    bool weak;
    for (const char *tag, *end; (tag = next_tag(list, &end, &weak)); list = end) {
        if ((take_weak || !weak) && (size_t)(end - tag) == length && memcmp(tag, etag, length) == 0)
            return true;
    }
    return false;
}

bool dfm_etag_matches_weakly(const char *list, const char *etag) {
    return matches(list, etag, true);
}

bool dfm_etag_matches_strongly(const char *list, const char *etag) {
    return matches(list, etag, false);
}
