#include "server/head.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct scan {
    dfm_head *head;
    unsigned lengths, encodings, hosts; /* how often each header came */
    const char *length, *encoding;
} scan;

/* RFC 9110, token: what a method or a header's name may hold. "Content-Length : 5" is one name to
 * us and another to a proxy. */
static bool is_token(const char *name, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)name[i]) && !memchr("!#$%&'*+-.^_`|~", name[i], 15))
            return false;
    return size > 0;
}

static void keep(const char *value, const char **where) {
    if (!*where)
        *where = value; /* of a repeated header the first counts */
}

static enum MHD_Result take_header(void *context, enum MHD_ValueKind kind, const char *name,
                                   size_t name_size, const char *value, size_t value_size) {
    (void)kind;
    scan *s = context;
    dfm_api_headers *headers = &s->head->headers;
    const struct {
        const char *name;
        const char **where;
    } known[] = {
        {"Accept", &headers->accept},
        {"Content-Type", &headers->content_type},
        {"Content-Encoding", &headers->content_encoding},
        {"If-Match", &headers->if_match},
        {"If-None-Match", &headers->if_none_match},
        {"Request-Timeout-Ms", &headers->request_timeout_ms},
        {"X-Request-Id", &headers->request_id},
        {"Authorization", &headers->authorization},
        {"Origin", &headers->origin},
        {"Access-Control-Request-Method", &headers->access_control_request_method},
    };
    if (!is_token(name, name_size))
        s->head->refusal = "a header name has a character that is not allowed";
    if (!value)
        value = "";
    if (strlen(value) != value_size)
        s->head->refusal = "a header value has a NUL byte";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcasecmp(name, known[i].name) == 0)
            keep(value, known[i].where);
    if (strcasecmp(name, "Content-Length") == 0) {
        s->lengths++;
        s->length = value;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        s->encodings++;
        s->encoding = value;
    } else if (strcasecmp(name, "Host") == 0) {
        s->hosts++;
    } else if (strcasecmp(name, "Expect") == 0) {
        s->head->expects_continue = strcasecmp(value, "100-continue") == 0;
    }
    return MHD_YES;
}

/* libmicrohttpd takes any bytes up to a blank for the method. */
static const char *check_method(const char *method) {
    return is_token(method, strlen(method)) ? NULL : "the request method is not a token";
}

static const char *check_framing(const scan *s, const char *version) {
    bool old = strcmp(version, "HTTP/1.0") == 0;
    if (s->lengths > 1)
        return "Content-Length came more than once";
    if (s->lengths > 0 && s->encodings > 0)
        return "Content-Length and Transfer-Encoding exclude each other";
    /* The comparison is libmicrohttpd's own: what it does not take for chunked has no end. */
    if (s->encodings > 1 || (s->encodings == 1 && strcasecmp(s->encoding, "chunked") != 0))
        return "Transfer-Encoding may only be \"chunked\"";
    if (s->encodings > 0 && old)
        return "HTTP/1.0 has no Transfer-Encoding";
    if (s->hosts > 1 || (s->hosts == 0 && !old))
        return "HTTP/1.1 needs exactly one Host header";
    return NULL;
}

void dfm_head_read(struct MHD_Connection *connection, const char *method, const char *version,
                   dfm_head *head) {
    *head = (dfm_head){.content_length = -1};
    scan s = {.head = head};
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, take_header, &s);
    head->chunked = s.encodings > 0;
    /* libmicrohttpd has refused what is not a number or does not fit 64 bits. */
    if (s.lengths > 0 && s.encodings == 0) {
        unsigned long long length = strtoull(s.length, NULL, 10);
        head->content_length = length > INT64_MAX ? INT64_MAX : (int64_t)length;
    }
    if (!head->refusal)
        head->refusal = check_method(method);
    if (!head->refusal)
        head->refusal = check_framing(&s, version);
}

/* "http://host/a" -> "/a" */
static char *skip_authority(char *target) {
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;
    return scheme ? strchr(target + scheme, '/') : target;
}

const char *dfm_head_split_target(char *target, const char **path, const char **query) {
    *path = "/";
    *query = NULL;
    for (const char *c = target; *c; c++)
        if ((unsigned char)*c <= 0x20 || *c == 0x7f)
            return "the request target has a blank or a control character";
    char *start = skip_authority(target);
    if (!start || *start != '/')
        return "the request target does not begin with \"/\"";
    /* libmicrohttpd would cut the path there and hand on another one. */
    if (strstr(start, "%00"))
        return "the request target has an encoded NUL";
    char *mark = strchr(start, '?');
    if (mark) {
        *mark = '\0';
        *query = mark + 1;
    }
    *path = start;
    return NULL;
}

dfm_method dfm_head_method(const char *name) {
    static const struct {
        const char *name;
        dfm_method method;
    } methods[] = {{"GET", DFM_METHOD_GET},       {"HEAD", DFM_METHOD_HEAD},
                   {"POST", DFM_METHOD_POST},     {"PATCH", DFM_METHOD_PATCH},
                   {"DELETE", DFM_METHOD_DELETE}, {"OPTIONS", DFM_METHOD_OPTIONS}};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(name, methods[i].name) == 0)
            return methods[i].method;
    return DFM_METHOD_OTHER;
}
