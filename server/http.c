#include "server/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/connections.h"
#include "server/form.h"
#include "server/gate.h"
#include "server/head.h"
#include "server/inflate.h"
#include "server/linger.h"
#include "server/log.h"
#include "server/stream.h"

enum {
    /* A refused body up to this size is read and dropped, so that the connection can go on; a
     * larger one is refused at its head, and the connection closed. */
    DISCARD_BYTES = 64 * 1024,
    CONNECTIONS_MAX = 16384,
    QUIESCE_S = 1,         /* how long the HTTP thread may take to stop accepting */
    DESCRIPTORS_KEPT = 64, /* for all that is no connection */
    READ_BYTES = 8 * 1024,
    /* Results that wait to be sent push one another, and the bind data, out of the CPU's cache: one
     * large one, or many small ones, let a worker go on while the HTTP thread sends. */
    FINISHED_BYTES_PER_WORKER = 512 * 1024,
    TARGET_BYTES = 512,   /* longer request targets are malloc'ed */
    EXCHANGES_KEPT = 1024 /* finished ones kept for the next request */
};

typedef enum phase {
    PHASE_HEAD,    /* the request line is here */
    PHASE_BODY,    /* admitted, the body is on its way */
    PHASE_REFUSED, /* the response is complete; what follows of the body is dropped */
    PHASE_PARKED,  /* suspended; belongs to a pool's thread */
    PHASE_ANSWERED /* the answer was handed to libmicrohttpd */
} phase;

/* A request and its answer, from the request line to the last byte. Owned by the HTTP thread, but
 * for the time it is parked. */
typedef struct exchange {
    dfm_job job; /* first, so that the pool's job is its exchange */
    dfm_http *http;
    struct MHD_Connection *connection;
    dfm_connection *watched; /* NULL: no memory for it */
    const char *method;
    uint64_t received_bytes; /* of the body, kept or not */
    size_t finished_bytes;   /* among http->finished */
    char *target, target_space[TARGET_BYTES];
    phase phase;
    bool counted; /* among http->active */
    bool closing; /* the answer closes the connection */
    bool lingers; /* answered with a body still on its way */
    bool streams; /* the answer is made while it is sent */
    dfm_head head;
    dfm_api_request request;
    dfm_admission admission;
    dfm_body body;
    dfm_form *form; /* NULL: the body is the body */
    dfm_api_response response;
    struct MHD_Response *answer;
    int status;
    uint64_t answer_bytes; /* of a stream: so far */
    uint64_t answered_ns;  /* handed to libmicrohttpd; 0: not yet */
    struct exchange *next; /* in http->spare */
} exchange;

struct dfm_http {
    dfm_http_options options;
    struct MHD_Daemon *daemon;
    atomic_bool leaving; /* soon draining */
    atomic_bool draining;
    atomic_uint active;
    int idle_fd;
    atomic_bool quiesced; /* no connection is accepted any more */
    sem_t quiesced_now;
    dfm_gate finished; /* of deforms, until the HTTP thread takes them up */
    dfm_streams *streams;
    dfm_connections *connections;
    /* NULL where it could not be had: then a reset may overtake a refusal. */
    dfm_linger *linger;
    exchange *spare; /* HTTP thread only */
    unsigned spare_count;
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- exchanges ------------------------------------------------------------------------------ */

static exchange *exchange_take(dfm_http *http) {
    exchange *x = http->spare;
    if (x) {
        http->spare = x->next;
        http->spare_count--;
    } else if (!(x = malloc(sizeof *x))) {
        return NULL;
    }
    /* All but target_space and response.headers, which are written before they are read. */
    x->http = http;
    x->connection = NULL;
    x->watched = NULL;
    x->method = "";
    x->target = x->target_space;
    x->phase = PHASE_HEAD;
    x->counted = x->closing = x->lingers = x->streams = false;
    x->request = (dfm_api_request){.started_ns = now_ns()};
    x->body = (dfm_body){0};
    x->form = NULL;
    x->received_bytes = 0;
    x->finished_bytes = 0;
    x->response.status = 0;
    x->response.header_count = 0;
    x->response.body = NULL;
    x->response.body_bytes = 0;
    x->response.free_body = NULL;
    x->response.stream = NULL;
    x->answer = NULL;
    x->status = 0;
    x->answer_bytes = 0;
    x->answered_ns = 0;
    x->response.account = (dfm_account){0};
    return x;
}

static void exchange_free(exchange *x) {
    dfm_http *http = x->http;
    dfm_form_free(x->form);
    dfm_body_free(&x->body);
    dfm_api_response_free(&x->response);
    if (x->answer)
        MHD_destroy_response(x->answer);
    if (x->target != x->target_space)
        free(x->target);
    if (http->spare_count < EXCHANGES_KEPT) {
        x->next = http->spare;
        http->spare = x;
        http->spare_count++;
    } else {
        free(x);
    }
}

static bool copy_target(exchange *x, const char *target) {
    size_t size = strlen(target) + 1;
    if (size > sizeof x->target_space && !(x->target = malloc(size)))
        return false;
    memcpy(x->target, target, size);
    return true;
}

/* --- answers ---------------------------------------------------------------------------------- */

/* The body is handed over, not copied. */
static struct MHD_Response *make_whole_answer(dfm_api_response *response) {
    struct MHD_Response *answer;
    if (response->free_body && response->body_bytes > 0)
        answer = MHD_create_response_from_buffer_with_free_callback_cls(
            response->body_bytes, (void *)(uintptr_t)response->body, response->free_body,
            response->free_context);
    else
        answer = MHD_create_response_from_buffer(
            response->body_bytes, (void *)(uintptr_t)response->body, MHD_RESPMEM_PERSISTENT);
    if (answer && response->body_bytes > 0)
        response->free_body = NULL; /* the answer frees it */
    return answer;
}

/* NULL: the response is an ordinary one now, which says why. */
static struct MHD_Response *make_stream_answer(exchange *x) {
    const dfm_stream_order order = {.source = x->response.stream,
                                    .body = x->body,
                                    .connection = x->connection,
                                    .request_id = x->request.request_id,
                                    .sent_bytes = &x->answer_bytes,
                                    .account = &x->response.account};
    x->response.stream = NULL;
    x->body = (dfm_body){0};
    struct MHD_Response *answer = dfm_streams_answer(x->http->streams, &order);
    x->streams = answer != NULL;
    if (!answer) {
        dfm_api_response_free(&x->response);
        dfm_api_busy(&x->request, "--max-inflight-bytes is used up", &x->response);
    }
    return answer;
}

/* Makes libmicrohttpd's response of ours. Any thread. */
static void prepare_answer(exchange *x) {
    dfm_api_response *response = &x->response;
    if (response->stream)
        x->answer = make_stream_answer(x);
    if (!x->answer) {
        x->answer = make_whole_answer(response);
        x->answer_bytes = x->request.method == DFM_METHOD_HEAD ? 0 : response->body_bytes;
    }
    x->status = response->status;
    if (!x->answer)
        return;
    for (uint32_t i = 0; i < response->header_count; i++)
        MHD_add_response_header(x->answer, response->headers[i].name, response->headers[i].value);
    if (x->closing || dfm_http_is_leaving(x->http))
        MHD_add_response_header(x->answer, "Connection", "close");
}

/* libmicrohttpd counts in seconds. */
static unsigned idle_timeout_s(const dfm_http *http) {
    return (unsigned)((http->options.idle_timeout_ms + 999) / 1000);
}

static void set_timeout(exchange *x, unsigned seconds) {
    MHD_set_connection_option(x->connection, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

/* MHD_NO closes the connection at once. */
static enum MHD_Result send_answer(exchange *x) {
    if (!x->answer)
        return MHD_NO; /* no memory for it */
    x->phase = PHASE_ANSWERED;
    x->answered_ns = now_ns();
    if (x->streams)
        set_timeout(x, x->http->options.send_timeout_s);
    return MHD_queue_response(x->connection, (unsigned)x->status, x->answer);
}

static enum MHD_Result answer_now(exchange *x) {
    prepare_answer(x);
    return send_answer(x);
}

/* --- work ------------------------------------------------------------------------------------- */

/* False: the response says what is wrong with the compressed body. */
static bool inflate_body(exchange *x) {
    uint64_t bytes;
    const char *why;
    if (dfm_inflate_body(&x->body, &bytes, &why))
        return true;
    if (why)
        dfm_api_bad_request(&x->request, why, &x->response);
    else if (x->body.state == DFM_BODY_TOO_LARGE)
        dfm_api_body_too_large(&x->request, x->body.limit_bytes, bytes, &x->response);
    else
        dfm_api_busy(&x->request, "--max-inflight-bytes is used up", &x->response);
    return false;
}

static void work(exchange *x) {
    if (x->admission.gzip && x->body.buffer && !inflate_body(x))
        return;
    if (x->body.buffer) {
        x->request.body = x->body.buffer->data;
        x->request.body_bytes = x->body.buffer->size;
        x->request.body_capacity = x->body.buffer->capacity;
    }
    dfm_api_handle(x->http->options.api, &x->request, &x->response);
}

/* On a pool's thread. */
static void run_job(dfm_job *job, uint32_t thread) {
    exchange *x = (exchange *)job;
    bool is_deform = x->admission.lane == DFM_LANE_COMPUTE;
    if (is_deform)
        dfm_gate_wait(&x->http->finished);
    x->request.worker = thread;
    if (x->request.deadline_ns != 0 && now_ns() > x->request.deadline_ns)
        dfm_api_deadline_passed(&x->request, &x->response);
    else
        work(x);
    if (!x->response.stream || !x->response.stream->borrows_body)
        dfm_body_free(&x->body);
    prepare_answer(x);
    if (is_deform) {
        x->finished_bytes = x->response.body_bytes;
        dfm_gate_enter(&x->http->finished, x->finished_bytes);
    }
    MHD_resume_connection(x->connection); /* x belongs to the HTTP thread again */
}

static dfm_pool *pool_of(const exchange *x) {
    const dfm_http_options *options = &x->http->options;
    return x->admission.lane == DFM_LANE_LOAD ? options->load : options->compute;
}

/* On a load thread: first what it is about comes from the store, then the request goes its way. */
static void run_load(dfm_job *job, uint32_t thread) {
    exchange *x = (exchange *)job;
    (void)thread;
    bool loaded = dfm_api_load(x->http->options.api, &x->request, &x->response);
    bool computes = x->admission.lane == DFM_LANE_COMPUTE;
    if (loaded && computes && dfm_pool_reserve(pool_of(x))) {
        x->job.run = run_job;
        dfm_pool_submit(pool_of(x), &x->job);
        return;
    }
    if (loaded && computes)
        dfm_api_busy(&x->request, "the queue is full", &x->response);
    else if (loaded)
        work(x);
    dfm_body_free(&x->body);
    prepare_answer(x);
    MHD_resume_connection(x->connection);
}

static enum MHD_Result park(exchange *x, bool loads) {
    dfm_pool *pool = loads ? x->http->options.load : pool_of(x);
    if (!dfm_pool_reserve(pool)) {
        dfm_api_busy(&x->request, "the queue is full", &x->response);
        return answer_now(x);
    }
    x->phase = PHASE_PARKED;
    x->job.run = loads ? run_load : run_job;
    MHD_suspend_connection(x->connection); /* before submit: the job may be done at once */
    dfm_pool_submit(pool, &x->job);
    return MHD_YES;
}

/* The whole request is here. */
static enum MHD_Result handle(exchange *x) {
    x->request.received_ns = now_ns();
    bool loads = dfm_api_must_load(x->http->options.api, &x->request);
    if (x->admission.lane != DFM_LANE_INLINE || loads)
        return park(x, loads);
    x->request.must_not_wait = true;
    work(x);
    return answer_now(x);
}

/* --- heads ------------------------------------------------------------------------------------ */

static bool has_body(const exchange *x) {
    return x->head.chunked || x->head.content_length > 0;
}

static bool is_droppable(const exchange *x) {
    return !x->head.chunked && x->head.content_length <= DISCARD_BYTES && !x->head.expects_continue;
}

/* libmicrohttpd closes after an answer to a head. */
static enum MHD_Result answer_head(exchange *x) {
    x->lingers = has_body(x);
    return answer_now(x);
}

/* The response is complete, whatever body may come. */
static enum MHD_Result refuse(exchange *x) {
    x->phase = PHASE_REFUSED;
    if (!has_body(x) || is_droppable(x))
        return MHD_YES; /* answered when the request has ended, so that the connection goes on */
    return answer_head(x);
}

static enum MHD_Result refuse_busy(exchange *x, const char *why) {
    dfm_api_busy(&x->request, why, &x->response);
    return refuse(x);
}

static enum MHD_Result refuse_bad(exchange *x, const char *why) {
    x->closing = true; /* where the next request begins is anybody's guess */
    dfm_api_response_free(&x->response);
    dfm_api_bad_request(&x->request, why, &x->response);
    x->phase = PHASE_REFUSED;
    return answer_head(x);
}

static bool is_multipart(const exchange *x) {
    static const char type[] = "multipart/form-data";
    const char *given = x->head.headers.content_type;
    return x->admission.takes_multipart && given && strncasecmp(given, type, sizeof type - 1) == 0;
}

static enum MHD_Result begin_body(exchange *x) {
    if (!has_body(x))
        return MHD_YES;
    if (!x->admission.takes_body)
        return is_droppable(x) ? MHD_YES : refuse_bad(x, "this request takes no body");
    bool multipart = is_multipart(x);
    int64_t length = x->head.content_length;
    size_t limit = x->admission.max_body_bytes;
    /* A form is a little longer than the file in it. */
    if (multipart && length > 0 && (uint64_t)length > limit)
        length = (int64_t)limit;
    if (dfm_body_begin(&x->body, x->http->options.buffers, limit, length) == DFM_BODY_NO_ROOM)
        return refuse_busy(x, "--max-inflight-bytes is used up");
    if (multipart && !(x->form = dfm_form_begin(x->connection, &x->body)))
        return refuse_bad(x, "the multipart/form-data Content-Type has no usable boundary");
    return MHD_YES;
}

static void count_active(exchange *x) {
    x->counted = true;
    atomic_fetch_add(&x->http->active, 1); /* before draining is looked at: see dfm_http_drain */
}

/* The head is here, the body is not. */
static enum MHD_Result begin(exchange *x, struct MHD_Connection *connection, const char *method,
                             const char *version) {
    x->connection = connection;
    x->method = method;
    count_active(x);
    dfm_connection_begin_body(x->watched);
    dfm_head_read(connection, method, version, &x->head);
    const char *bad_target = dfm_head_split_target(x->target, &x->request.path, &x->request.query);
    x->request.method = dfm_head_method(method);
    x->request.headers = x->head.headers;
    x->admission =
        dfm_api_admit(x->http->options.api, &x->request, x->head.content_length, &x->response);
    if (x->head.refusal || bad_target)
        return refuse_bad(x, x->head.refusal ? x->head.refusal : bad_target);
    if (x->admission.answered)
        return refuse(x);
    x->phase = PHASE_BODY;
    if (x->admission.lane != DFM_LANE_INLINE) {
        if (dfm_http_is_draining(x->http))
            return refuse_busy(x, "the server is shutting down");
        if (dfm_pool_is_full(pool_of(x))) /* before its body takes time and memory */
            return refuse_busy(x, "the queue is full");
    }
    return begin_body(x);
}

/* --- bodies ----------------------------------------------------------------------------------- */

static enum MHD_Result take_body(exchange *x, const char *data, size_t size) {
    if (x->phase != PHASE_BODY || !x->body.pool)
        return MHD_YES; /* dropped */
    x->received_bytes += size;
    if (x->form)
        dfm_form_append(x->form, data, size);
    else
        dfm_body_append(&x->body, data, size);
    /* libmicrohttpd takes no answer in the middle of a body: one that only goes on is cut off. */
    return x->received_bytes / 2 > x->body.limit_bytes ? MHD_NO : MHD_YES;
}

static enum MHD_Result end_body(exchange *x) {
    const char *malformed = x->form ? dfm_form_end(x->form) : NULL;
    x->form = NULL;
    switch (x->body.state) {
    case DFM_BODY_TOO_LARGE:
        x->closing = true;
        dfm_api_body_too_large(&x->request, x->body.limit_bytes, x->received_bytes, &x->response);
        return answer_now(x);
    case DFM_BODY_NO_ROOM:
        dfm_api_busy(&x->request, "--max-inflight-bytes is used up", &x->response);
        return answer_now(x);
    case DFM_BODY_OK:
        break;
    }
    if (malformed) {
        dfm_api_bad_request(&x->request, malformed, &x->response);
        return answer_now(x);
    }
    return handle(x);
}

/* --- libmicrohttpd's callbacks, all on its thread --------------------------------------------- */

static void take_up(exchange *x) {
    dfm_gate_leave(&x->http->finished, x->finished_bytes);
    x->finished_bytes = 0;
}

static int socket_of(struct MHD_Connection *connection) {
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

static dfm_connection *watched_of(struct MHD_Connection *connection) {
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* The query is ours to take apart. libmicrohttpd would put each of its parameters into the
 * connection's memory, and 0.9.75 leaves a client without an answer when that is full. `target` is
 * its own buffer, of which it has noted the '?' and reads on from there up to a NUL. */
static void hide_query(const char *target) {
    char *mark = strchr((char *)(uintptr_t)target, '?');
    if (mark && mark[1])
        mark[1] = '\0';
}

/* The request line, before libmicrohttpd decodes and cuts it. */
static void *on_target(void *context, const char *target, struct MHD_Connection *connection) {
    dfm_http *http = context;
    exchange *x = exchange_take(http);
    if (!x)
        return NULL;
    if (!copy_target(x, target)) {
        exchange_free(x);
        return NULL;
    }
    hide_query(target);
    x->watched = watched_of(connection);
    dfm_connection_begin_head(x->watched);
    return x;
}

/* Called once with the head, then for each piece of the body, then once at its end, and once more
 * when a parked connection was resumed. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state) {
    (void)context, (void)url;
    exchange *x = *state;
    if (!x)
        return MHD_NO; /* no memory */
    if (x->phase == PHASE_HEAD)
        return begin(x, connection, method, version);
    if (*size > 0) {
        size_t taken = *size;
        *size = 0;
        return take_body(x, data, taken);
    }
    dfm_connection_begin_work(x->watched);
    switch (x->phase) {
    case PHASE_BODY:
        return end_body(x);
    case PHASE_REFUSED:
        return answer_now(x);
    default: /* PHASE_PARKED: it was resumed */
        take_up(x);
        return send_answer(x);
    }
}

/* The request is over: into the metrics, and the log. */
static void account_for(exchange *x, enum MHD_RequestTerminationCode code) {
    dfm_account *account = &x->response.account;
    uint64_t ended_ns = now_ns(), duration_ns = ended_ns - x->request.started_ns;
    int status = code == MHD_REQUEST_TERMINATED_COMPLETED_OK ? x->status : 0;
    if (x->answered_ns)
        account->stage_ns[DFM_STAGE_SEND] = ended_ns - x->answered_ns;
    if (status == 0)
        account->frames = 0;
    dfm_api_count(x->http->options.api, &(dfm_metrics_request){.route = x->request.route,
                                                               .status = status,
                                                               .duration_ns = duration_ns,
                                                               .received_bytes = x->received_bytes,
                                                               .sent_bytes = x->answer_bytes,
                                                               .account = account});
    dfm_log_request(&(dfm_log_exchange){.method = x->method,
                                        .path = x->request.path,
                                        .id = x->request.request_id,
                                        .status = status,
                                        .bytes = x->answer_bytes,
                                        .duration_ns = duration_ns,
                                        .account = account});
}

/* A connection that goes on idles as any other. */
static void end_stream(exchange *x, enum MHD_RequestTerminationCode code) {
    if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        set_timeout(x, idle_timeout_s(x->http));
    else if (code == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED)
        dfm_log(DFM_LOG_WARN, "%s: the client took nothing for --send-timeout-ms: cut off",
                x->request.request_id);
}

static void count_down(dfm_http *http) {
    if (atomic_fetch_sub(&http->active, 1) == 1 && dfm_http_is_draining(http))
        eventfd_write(http->idle_fd, 1);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code) {
    dfm_http *http = context;
    exchange *x = *state;
    if (!x)
        return;
    *state = NULL;
    take_up(x); /* resumed, and closed before its answer was sent */
    if (x->lingers && http->linger)
        dfm_linger_add(http->linger, socket_of(connection));
    if (x->streams)
        end_stream(x, code);
    bool counted = x->counted;
    if (counted)
        account_for(x, code);
    dfm_connection_wait(x->watched);
    exchange_free(x);
    if (counted)
        count_down(http);
}

/* Also: the first connection to begin or end while draining, most likely the one that
 * dfm_http_drain opens, stops the accepting. It must be done on this thread: from another one
 * libmicrohttpd 0.9.75 may take its socket out of the epoll set at the same time, fail, and abort
 * the process. */
static void on_connection(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code) {
    dfm_http *http = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *state = dfm_connection_open(http->connections, socket_of(connection));
    } else {
        dfm_connection_close(*state);
        *state = NULL;
    }
    if (!dfm_http_is_draining(http) || atomic_load(&http->quiesced))
        return;
    MHD_quiesce_daemon(http->daemon);
    atomic_store(&http->quiesced, true);
    sem_post(&http->quiesced_now);
}

/* Paths are taken as sent, so nothing is to be decoded in place. */
static size_t on_unescape(void *context, struct MHD_Connection *connection, char *text) {
    (void)context, (void)connection;
    return strlen(text);
}

/* Most of what libmicrohttpd says is about clients that went away or sent rubbish. */
static void on_message(void *context, const char *format, va_list arguments) {
    (void)context;
    char text[512];
    vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    bool serious =
        strncmp(text, "Hit process", 11) == 0 || strncmp(text, "Error accepting", 15) == 0;
    dfm_log(serious ? DFM_LOG_WARN : DFM_LOG_DEBUG, "libmicrohttpd: %s", text);
}

/* --- life ------------------------------------------------------------------------------------- */

dfm_http *dfm_http_create(void) {
    dfm_http *http = calloc(1, sizeof *http);
    if (!http)
        return NULL;
    http->idle_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sem_init(&http->quiesced_now, 0, 0);
    dfm_gate_init(&http->finished, 1); /* the limit comes with the workers */
    http->linger = dfm_linger_create();
    if (http->idle_fd >= 0)
        return http;
    dfm_http_free(http);
    return NULL;
}

/* As many connections as descriptors allow: over that, libmicrohttpd lets them wait unanswered. */
static unsigned descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return CONNECTIONS_MAX / 16;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur <= 2 * DESCRIPTORS_KEPT)
        return DESCRIPTORS_KEPT;
    rlim_t room = limit.rlim_cur - DESCRIPTORS_KEPT;
    return room > CONNECTIONS_MAX ? CONNECTIONS_MAX : (unsigned)room;
}

static unsigned connection_limit(const dfm_http_options *options) {
    unsigned most = descriptor_limit();
    return options->max_connections && options->max_connections < most ? options->max_connections
                                                                       : most;
}

bool dfm_http_start(dfm_http *http, const dfm_http_options *options) {
    http->options = *options;
    http->finished.limit = (size_t)FINISHED_BYTES_PER_WORKER * options->worker_count;
    http->streams = dfm_streams_create(options->compute, options->buffers, options->worker_count);
    http->connections = dfm_connections_create(options->idle_timeout_ms, options->body_timeout_ms);
    if (!http->streams || !http->connections)
        return false;
    // clang-format off
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
        0, NULL, NULL, on_request, http,
        MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL, /* first, or the others' errors go to stderr */
        MHD_OPTION_LISTEN_SOCKET, options->listen_fd,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, http,
        MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
        MHD_OPTION_CONNECTION_LIMIT, connection_limit(options),
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, options->max_connections_per_address,
        MHD_OPTION_CONNECTION_TIMEOUT, idle_timeout_s(http),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, options->max_header_bytes,
        MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)READ_BYTES,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_END);
    // clang-format on
    return http->daemon != NULL;
}

/* Gets the HTTP thread to on_connection, by a connection to our own socket: from this thread
 * nothing of libmicrohttpd is touched. Where connecting fails because connections queue up, those
 * do the same; where there is no descriptor, the next connection that ends does. */
static void wake(const dfm_http *http) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (getsockname(http->options.listen_fd, (struct sockaddr *)&address, &size) != 0)
        return;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (struct sockaddr *)&address, size) != 0 && errno != EINPROGRESS)
        dfm_log(DFM_LOG_DEBUG, "no connection to the own socket: %s", strerror(errno));
    close(fd);
}

void dfm_http_drain(dfm_http *http) {
    /* begin() counts a request before it looks at this flag, and whoever drains sets the flag
     * before reading the count: one of the two sees the other. */
    atomic_store(&http->leaving, true);
    atomic_store(&http->draining, true);
    wake(http);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += QUIESCE_S;
    while (sem_timedwait(&http->quiesced_now, &until) != 0 && errno == EINTR)
        continue;
}

uint32_t dfm_http_cut_streams(dfm_http *http) {
    return dfm_streams_cut(http->streams);
}

void dfm_http_leave(dfm_http *http) {
    atomic_store(&http->leaving, true);
}

bool dfm_http_is_leaving(const dfm_http *http) {
    return atomic_load(&http->leaving);
}

bool dfm_http_is_draining(const dfm_http *http) {
    return atomic_load(&http->draining);
}

dfm_http_stats dfm_http_get_stats(const dfm_http *http) {
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return (dfm_http_stats){.connections = info ? info->num_connections : 0,
                            .active_requests = dfm_http_active(http),
                            .streams = dfm_streams_count(http->streams)};
}

uint32_t dfm_http_active(const dfm_http *http) {
    return atomic_load(&http->active);
}

int dfm_http_idle_fd(const dfm_http *http) {
    return http->idle_fd;
}

bool dfm_http_stop(dfm_http *http) {
    if (!atomic_load(&http->quiesced))
        return false;
    MHD_stop_daemon(http->daemon);
    http->daemon = NULL;
    return true;
}

void dfm_http_free(dfm_http *http) {
    if (!http)
        return;
    while (http->spare) {
        exchange *next = http->spare->next;
        free(http->spare);
        http->spare = next;
    }
    dfm_streams_free(http->streams);
    dfm_gate_destroy(&http->finished);
    sem_destroy(&http->quiesced_now);
    dfm_linger_free(http->linger);
    dfm_connections_free(http->connections);
    if (http->idle_fd >= 0)
        close(http->idle_fd);
    free(http);
}
