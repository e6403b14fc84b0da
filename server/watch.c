#include "server/watch.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LOOK_EVERY_MS = 1000 };

struct dfm_watch {
    pthread_mutex_t lock;
    dfm_watched *first;
    int stop_fd;
    pthread_t thread;
};

static bool is_at_end(int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Shut at the second look: a client may close its half right behind a whole request, which is then
 * on its way through libmicrohttpd and unwatched by the next look. */
static void look(dfm_watch *watch) {
    pthread_mutex_lock(&watch->lock);
    for (dfm_watched *w = watch->first; w; w = w->next) {
        bool was_ended = w->ended;
        w->ended = is_at_end(w->fd);
        if (w->ended && was_ended)
            shutdown(w->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&watch->lock);
}

static void *run(void *argument) {
    dfm_watch *watch = argument;
    struct pollfd stop = {.fd = watch->stop_fd, .events = POLLIN};
    while (poll(&stop, 1, LOOK_EVERY_MS) <= 0)
        look(watch);
    return NULL;
}

dfm_watch *dfm_watch_create(void) {
    dfm_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    pthread_mutex_init(&watch->lock, NULL);
    watch->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (watch->stop_fd >= 0 && pthread_create(&watch->thread, NULL, run, watch) == 0) {
        pthread_setname_np(watch->thread, "deformd-watch");
        return watch;
    }
    if (watch->stop_fd >= 0)
        close(watch->stop_fd);
    free(watch);
    return NULL;
}

void dfm_watch_begin(dfm_watch *watch, dfm_watched *watched, int fd) {
    *watched = (dfm_watched){.fd = fd, .active = true};
    pthread_mutex_lock(&watch->lock);
    watched->next = watch->first;
    if (watch->first)
        watch->first->previous = watched;
    watch->first = watched;
    pthread_mutex_unlock(&watch->lock);
}

void dfm_watch_end(dfm_watch *watch, dfm_watched *watched) {
    if (!watched->active)
        return;
    watched->active = false;
    pthread_mutex_lock(&watch->lock);
    if (watched->previous)
        watched->previous->next = watched->next;
    else
        watch->first = watched->next;
    if (watched->next)
        watched->next->previous = watched->previous;
    pthread_mutex_unlock(&watch->lock);
}

void dfm_watch_free(dfm_watch *watch) {
    if (!watch)
        return;
    eventfd_write(watch->stop_fd, 1);
    pthread_join(watch->thread, NULL);
    close(watch->stop_fd);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}
