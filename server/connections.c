#include "server/connections.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/log.h"

enum { TICK_MS = 200, LOOK_EVERY_TICKS = 5 };

struct dfm_connection {
    dfm_connections *connections;
    int fd;
    _Atomic uint64_t deadline_ns; /* 0 = none */
    atomic_bool receiving;        /* between its request line and its request's end */
    atomic_bool in_body;
    bool ended; /* the ticking thread's: the client's end was there at the last look */
    struct dfm_connection *previous, *next;
};

struct dfm_connections {
    uint64_t idle_timeout_ns, body_timeout_ns;
    pthread_mutex_t lock; /* of the list; connections leave it before their socket is closed */
    dfm_connection *first;
    int stop_fd;
    pthread_t thread;
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- the ticking thread ------------------------------------------------------------------------
 */

static bool is_at_end(int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Shut at the second look: a client may close its half right behind a whole request, which is then
 * on its way through libmicrohttpd and received by the next look. */
static bool has_vanished(dfm_connection *c) {
    bool was_ended = c->ended;
    c->ended = atomic_load(&c->receiving) && is_at_end(c->fd);
    return c->ended && was_ended;
}

static bool is_late(const dfm_connection *c, uint64_t now) {
    uint64_t deadline_ns = atomic_load(&c->deadline_ns);
    return deadline_ns != 0 && now > deadline_ns;
}

static void tick(dfm_connections *connections, bool look) {
    uint64_t now = now_ns();
    pthread_mutex_lock(&connections->lock);
    for (dfm_connection *c = connections->first; c; c = c->next) {
        bool late = is_late(c, now);
        if (late && (atomic_load(&c->receiving) || atomic_load(&c->in_body)))
            dfm_log(DFM_LOG_WARN, "a client took longer than --%s for its request: cut off",
                    atomic_load(&c->in_body) ? "body-timeout-ms" : "idle-timeout-ms");
        if (late || (look && has_vanished(c))) {
            atomic_store(&c->deadline_ns, 0);
            shutdown(c->fd, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&connections->lock);
}

static void *run(void *argument) {
    dfm_connections *connections = argument;
    struct pollfd stop = {.fd = connections->stop_fd, .events = POLLIN};
    for (unsigned ticks = 1; poll(&stop, 1, TICK_MS) <= 0; ticks++)
        tick(connections, ticks % LOOK_EVERY_TICKS == 0);
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------
 */

dfm_connections *dfm_connections_create(uint64_t idle_timeout_ms, uint64_t body_timeout_ms) {
    dfm_connections *connections = calloc(1, sizeof *connections);
    if (!connections)
        return NULL;
    pthread_mutex_init(&connections->lock, NULL);
    connections->idle_timeout_ns = idle_timeout_ms * 1000000;
    connections->body_timeout_ns = body_timeout_ms * 1000000;
    connections->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (connections->stop_fd >= 0 &&
        pthread_create(&connections->thread, NULL, run, connections) == 0) {
        pthread_setname_np(connections->thread, "deformd-watch");
        return connections;
    }
    if (connections->stop_fd >= 0)
        close(connections->stop_fd);
    free(connections);
    return NULL;
}

void dfm_connections_free(dfm_connections *connections) {
    if (!connections)
        return;
    eventfd_write(connections->stop_fd, 1);
    pthread_join(connections->thread, NULL);
    close(connections->stop_fd);
    pthread_mutex_destroy(&connections->lock);
    free(connections);
}

static void set_deadline(dfm_connection *c, uint64_t timeout_ns) {
    atomic_store(&c->deadline_ns, timeout_ns ? now_ns() + timeout_ns : 0);
}

dfm_connection *dfm_connection_open(dfm_connections *connections, int fd) {
    dfm_connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->connections = connections;
    c->fd = fd;
    set_deadline(c, connections->idle_timeout_ns);
    pthread_mutex_lock(&connections->lock);
    c->next = connections->first;
    if (c->next)
        c->next->previous = c;
    connections->first = c;
    pthread_mutex_unlock(&connections->lock);
    return c;
}

void dfm_connection_close(dfm_connection *c) {
    if (!c)
        return;
    dfm_connections *connections = c->connections;
    pthread_mutex_lock(&connections->lock);
    if (c->previous)
        c->previous->next = c->next;
    else
        connections->first = c->next;
    if (c->next)
        c->next->previous = c->previous;
    pthread_mutex_unlock(&connections->lock);
    free(c);
}

/* --- where it is -------------------------------------------------------------------------------
 */

void dfm_connection_begin_head(dfm_connection *c) {
    if (c)
        atomic_store(&c->receiving, true);
}

void dfm_connection_begin_body(dfm_connection *c) {
    if (!c)
        return;
    atomic_store(&c->in_body, true);
    set_deadline(c, c->connections->body_timeout_ns);
}

void dfm_connection_begin_work(dfm_connection *c) {
    if (!c)
        return;
    atomic_store(&c->receiving, false);
    atomic_store(&c->in_body, false);
    atomic_store(&c->deadline_ns, 0);
}

void dfm_connection_wait(dfm_connection *c) {
    if (!c)
        return;
    dfm_connection_begin_work(c);
    set_deadline(c, c->connections->idle_timeout_ns);
}
