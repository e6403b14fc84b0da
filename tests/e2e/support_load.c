#include "tests/e2e/support_load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_BYTES = 8192, PIECE_BYTES = 256 * 1024, LATENCIES = 1 << 20 };

typedef struct client {
    int fd;
    size_t sent;           /* of the request */
    char head[HEAD_BYTES]; /* of the answer */
    size_t head_size, body_offset;
    bool in_body;
    double started;
    double asks_at;      /* refused: when it asks again; 0 = it has asked */
    size_t refusal_left; /* bytes of a refusal's body still to come */
} client;

typedef struct load {
    const load_options *options;
    load_result result;
    char *request;
    size_t request_size;
    reply expected;
    int epoll_fd;
    client *clients;
    char *piece;
    float *latencies, *refusals; /* ms */
    bool measuring;
} load;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void note_error(load *l, const char *why) {
    if (l->result.errors++ == 0)
        snprintf(l->result.first_error, sizeof l->result.first_error, "%.200s", why);
}

static void open_client(load *l, client *c) {
    c->fd = raw_connect(l->options->daemon);
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
}

static void begin_request(client *c) {
    c->sent = c->head_size = c->body_offset = 0;
    c->in_body = false;
    c->asks_at = 0;
    c->refusal_left = 0;
    c->started = now_s();
}

static void reconnect(load *l, client *c, const char *why) {
    note_error(l, why);
    close(c->fd);
    open_client(l, c);
    begin_request(c);
}

static void send_request(load *l, client *c) {
    if (c->asks_at > 0)
        return;
    while (c->sent < l->request_size) {
        ssize_t sent = send(c->fd, l->request + c->sent, l->request_size - c->sent, MSG_NOSIGNAL);
        if (sent < 0)
            return; /* EAGAIN, or an error that the next read reports */
        c->sent += (size_t)sent;
    }
}

static void end_request(load *l, client *c) {
    if (l->measuring) {
        if (l->result.requests < LATENCIES)
            l->latencies[l->result.requests] = (float)((now_s() - c->started) * 1e3);
        l->result.requests++;
    }
    begin_request(c);
    send_request(l, c);
}

/* The rest of a refusal is dropped. */
static void end_refusal(load *l, client *c) {
    if (l->measuring) {
        if (l->result.refusals < LATENCIES)
            l->refusals[l->result.refusals] = (float)((now_s() - c->started) * 1e3);
        l->result.refusals++;
    }
    c->head_size = 0;
    c->asks_at = now_s() + l->options->retry_seconds;
}

static const char *take_refusal(load *l, client *c, size_t head_bytes, size_t body_bytes) {
    const char *length = strcasestr(c->head, "\r\nContent-Length:");
    size_t size = length ? strtoul(length + 17, NULL, 10) : 0;
    if (size < body_bytes || strcasestr(c->head, "\r\nRetry-After:") == NULL || head_bytes == 0)
        return "a refusal without Content-Length or Retry-After";
    c->refusal_left = size - body_bytes;
    if (c->refusal_left == 0)
        end_refusal(l, c);
    return NULL;
}

static bool take_body(load *l, client *c, const char *data, size_t size) {
    if (size > l->expected.size - c->body_offset)
        return false;
    if (memcmp(l->expected.body + c->body_offset, data, size) != 0)
        return false;
    c->body_offset += size;
    if (c->body_offset == l->expected.size)
        end_request(l, c);
    return true;
}

/* Finds the end of the head; bytes behind it are body. */
static const char *take(load *l, client *c, const char *data, size_t size) {
    if (c->refusal_left > 0) {
        if (size > c->refusal_left)
            return "more than a refusal came";
        c->refusal_left -= size;
        if (c->refusal_left == 0)
            end_refusal(l, c);
        return NULL;
    }
    if (c->in_body)
        return take_body(l, c, data, size) ? NULL
                                           : "the answer's bytes differ from the first one's";
    size_t room = HEAD_BYTES - 1 - c->head_size, copied = size < room ? size : room;
    memcpy(c->head + c->head_size, data, copied);
    c->head_size += copied;
    c->head[c->head_size] = '\0';
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end)
        return c->head_size == HEAD_BYTES - 1 ? "the answer's head has no end" : NULL;
    size_t head_bytes = (size_t)(end + 4 - c->head);
    size_t body_bytes = c->head_size - head_bytes + (size - copied);
    if (strncmp(c->head, "HTTP/1.1 503 ", 13) == 0 && l->options->retry_seconds > 0)
        return take_refusal(l, c, head_bytes, body_bytes);
    if (strncmp(c->head, "HTTP/1.1 200 ", 13) != 0)
        return c->head;
    c->in_body = true;
    return take_body(l, c, data + size - body_bytes, body_bytes)
               ? NULL
               : "the answer's bytes differ from the first one's";
}

static void serve(load *l, client *c) {
    send_request(l, c);
    for (;;) {
        ssize_t got = recv(c->fd, l->piece, PIECE_BYTES, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        const char *problem =
            got <= 0 ? "the connection was closed" : take(l, c, l->piece, (size_t)got);
        if (problem) {
            reconnect(l, c, problem);
            return;
        }
    }
}

static void build_request(load *l) {
    const load_options *o = l->options;
    l->request = malloc(strlen(o->json) + 512);
    int size = sprintf(l->request,
                       "POST %s HTTP/1.1\r\nHost: load\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       o->path, strlen(o->json), o->json);
    l->request_size = (size_t)size;
}

static void sample_memory(load *l) {
    load_result *r = &l->result;
    uint64_t now = daemon_get_usage(l->options->daemon).resident_bytes;
    if (r->rss_first == 0)
        r->rss_first = r->rss_least = r->rss_most = now;
    r->rss_last = now;
    r->rss_least = now < r->rss_least ? now : r->rss_least;
    r->rss_most = now > r->rss_most ? now : r->rss_most;
}

static void ask_again(load *l, double now) {
    for (unsigned i = 0; i < l->options->connections; i++) {
        client *c = &l->clients[i];
        if (c->asks_at > 0 && now >= c->asks_at) {
            begin_request(c);
            send_request(l, c);
        }
    }
}

static void run_for(load *l, double seconds) {
    double end = now_s() + seconds, next_sample = 0;
    struct epoll_event events[64];
    for (double now = now_s(); now < end; now = now_s()) {
        if (l->measuring && now >= next_sample) {
            sample_memory(l);
            next_sample = now + 0.1;
        }
        if (l->options->retry_seconds > 0)
            ask_again(l, now);
        int count = epoll_wait(l->epoll_fd, events, 64, l->options->retry_seconds > 0 ? 5 : 100);
        for (int i = 0; i < count; i++)
            serve(l, events[i].data.ptr);
    }
}

/* As many connections as will follow ask, and none reads: with all their answers in the daemon's
 * memory, it has all the buffers that it will ever need for them. */
static void fill(load *l) {
    unsigned count = l->options->connections;
    int *slow = malloc(count * sizeof *slow);
    for (unsigned i = 0; i < count; i++) {
        slow[i] = raw_connect_narrow(l->options->daemon, 4096);
        raw_send_bytes(slow[i], l->request, l->request_size);
    }
    uint64_t before, after = 0;
    do {
        before = after;
        usleep(500000);
        after = daemon_get_usage(l->options->daemon).resident_bytes;
    } while (after != before);
    for (unsigned i = 0; i < count; i++)
        close(slow[i]);
    free(slow);
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void work_out(load *l, uint64_t faults) {
    load_result *r = &l->result;
    size_t refusals = r->refusals < LATENCIES ? r->refusals : LATENCIES;
    if (refusals > 0) {
        qsort(l->refusals, refusals, sizeof(float), compare_floats);
        r->refusal_p99_ms = (double)l->refusals[refusals - 1 - refusals / 100];
        r->refusal_max_ms = (double)l->refusals[refusals - 1];
    }
    size_t count = r->requests < LATENCIES ? r->requests : LATENCIES;
    if (count == 0)
        return;
    qsort(l->latencies, count, sizeof(float), compare_floats);
    r->median_ms = (double)l->latencies[count / 2];
    r->p99_ms = (double)l->latencies[count - 1 - count / 100];
    r->max_ms = (double)l->latencies[count - 1];
    r->requests_per_second = (double)r->requests / r->seconds;
    r->faults_per_request = (double)faults / (double)r->requests;
}

load_result load_run(const load_options *options) {
    load l = {.options = options};
    build_request(&l);
    l.expected = http_json(options->daemon, "POST", options->path, options->json);
    while (l.expected.status == 503 && options->retry_seconds > 0) { /* of the load before */
        reply_free(&l.expected);
        usleep((useconds_t)(options->retry_seconds * 1e6));
        l.expected = http_json(options->daemon, "POST", options->path, options->json);
    }
    expect_status(&l.expected, 200);
    l.result.answer_bytes = l.expected.size;
    l.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l.clients = calloc(options->connections, sizeof *l.clients);
    l.piece = malloc(PIECE_BYTES);
    l.latencies = malloc(LATENCIES * sizeof *l.latencies);
    l.refusals = malloc(LATENCIES * sizeof *l.refusals);
    if (options->retry_seconds == 0)
        fill(&l);
    for (unsigned i = 0; i < options->connections; i++) {
        begin_request(&l.clients[i]);
        open_client(&l, &l.clients[i]);
    }
    run_for(&l, options->warm_seconds);
    uint64_t faults = daemon_get_usage(options->daemon).minor_faults;
    double begun = now_s();
    l.measuring = true;
    run_for(&l, options->seconds);
    l.result.seconds = now_s() - begun;
    work_out(&l, daemon_get_usage(options->daemon).minor_faults - faults);
    for (unsigned i = 0; i < options->connections; i++)
        close(l.clients[i].fd);
    close(l.epoll_fd);
    reply_free(&l.expected);
    free(l.clients);
    free(l.piece);
    free(l.latencies);
    free(l.refusals);
    free(l.request);
    return l.result;
}

void load_print(const load_result *r) {
    const double mib = 1 << 20;
    printf("requests   %llu in %.1f s = %.0f/s, %zu bytes each; errors %llu%s%s\n",
           (unsigned long long)r->requests, r->seconds, r->requests_per_second, r->answer_bytes,
           (unsigned long long)r->errors, r->errors ? ": " : "", r->first_error);
    printf("latency    median %.2f ms, p99 %.2f ms, max %.2f ms\n", r->median_ms, r->p99_ms,
           r->max_ms);
    if (r->refusals)
        printf("refusals   %llu, p99 %.2f ms, max %.2f ms\n", (unsigned long long)r->refusals,
               r->refusal_p99_ms, r->refusal_max_ms);
    printf("daemon     %.5f minor page faults a request; RSS %.1f MiB at first, %.1f at last, "
           "%.1f..%.1f between\n",
           r->faults_per_request, (double)r->rss_first / mib, (double)r->rss_last / mib,
           (double)r->rss_least / mib, (double)r->rss_most / mib);
}
