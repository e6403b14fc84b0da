#include "server/linger.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SOCKETS_MAX = 64, LINGER_MS = 2000, PIECE_BYTES = 64 * 1024 };

struct dfm_linger {
    pthread_mutex_t lock; /* of added and stopping */
    int added[SOCKETS_MAX];
    unsigned added_count;
    bool stopping;
    int wake_fd;
    pthread_t thread;
    /* The thread's own. polled[0] is wake_fd. */
    struct pollfd polled[1 + SOCKETS_MAX];
    int64_t ends_ms[1 + SOCKETS_MAX];
    unsigned count;
    char piece[PIECE_BYTES];
};

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Moves what was added into the thread's table; false: the end. */
static bool take_added(dfm_linger *l) {
    pthread_mutex_lock(&l->lock);
    for (; l->added_count > 0; l->added_count--) {
        int fd = l->added[l->added_count - 1];
        if (l->count > SOCKETS_MAX) {
            close(fd);
            continue;
        }
        l->polled[l->count] = (struct pollfd){.fd = fd, .events = POLLIN};
        l->ends_ms[l->count++] = now_ms() + LINGER_MS;
    }
    bool stopping = l->stopping;
    pthread_mutex_unlock(&l->lock);
    return !stopping;
}

/* True where the client has closed, or the connection broke. */
static bool is_over(dfm_linger *l, int fd) {
    ssize_t got;
    do
        got = recv(fd, l->piece, PIECE_BYTES, MSG_DONTWAIT);
    while (got > 0);
    return got == 0 || (errno != EAGAIN && errno != EINTR);
}

static void close_finished(dfm_linger *l) {
    int64_t now = now_ms();
    for (unsigned i = l->count; i-- > 1;) {
        if (now < l->ends_ms[i] && !(l->polled[i].revents && is_over(l, l->polled[i].fd)))
            continue;
        close(l->polled[i].fd);
        l->count--;
        l->polled[i] = l->polled[l->count];
        l->ends_ms[i] = l->ends_ms[l->count];
    }
}

static void *run(void *argument) {
    dfm_linger *l = argument;
    while (take_added(l)) {
        poll(l->polled, l->count, l->count > 1 ? LINGER_MS / 10 : -1);
        eventfd_t ignored;
        eventfd_read(l->wake_fd, &ignored);
        close_finished(l);
    }
    while (l->count > 1)
        close(l->polled[--l->count].fd);
    return NULL;
}

dfm_linger *dfm_linger_create(void) {
    dfm_linger *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    pthread_mutex_init(&l->lock, NULL);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->polled[0] = (struct pollfd){.fd = l->wake_fd, .events = POLLIN};
    l->count = 1;
    if (l->wake_fd >= 0 && pthread_create(&l->thread, NULL, run, l) == 0) {
        pthread_setname_np(l->thread, "deformd-linger");
        return l;
    }
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    free(l);
    return NULL;
}

void dfm_linger_add(dfm_linger *l, int fd) {
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return;
    pthread_mutex_lock(&l->lock);
    bool room = l->added_count < SOCKETS_MAX;
    if (room)
        l->added[l->added_count++] = copy;
    pthread_mutex_unlock(&l->lock);
    if (room)
        eventfd_write(l->wake_fd, 1);
    else
        close(copy);
}

void dfm_linger_free(dfm_linger *l) {
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    pthread_mutex_unlock(&l->lock);
    eventfd_write(l->wake_fd, 1);
    pthread_join(l->thread, NULL);
    close(l->wake_fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
