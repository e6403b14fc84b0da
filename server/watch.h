/* Clients that vanish while they send a request.
 *
 * libmicrohttpd 0.9.75 waits for the next edge from epoll after a short read; where the client's
 * end came before that read, there is none, and the connection with its body's memory stays until
 * the idle timeout. So sockets of requests that are being received are looked at once a second,
 * and the ones at their end are shut, which is an edge. Thread safety: begin and end are called by
 * one thread at a time for an entry; the descriptor stays open from begin to end. */
#ifndef DFM_SERVER_WATCH_H
#define DFM_SERVER_WATCH_H

#include <stdbool.h>

typedef struct dfm_watch dfm_watch;

/* Embedded in what is watched; zero before the first begin. */
typedef struct dfm_watched {
    int fd;
    bool active;
    bool ended; /* the client's end was there at the last look */
    struct dfm_watched *previous, *next;
} dfm_watched;

dfm_watch *dfm_watch_create(void);     /* NULL: no memory, descriptor or thread */
void dfm_watch_free(dfm_watch *watch); /* nothing is watched any more; NULL allowed */

void dfm_watch_begin(dfm_watch *watch, dfm_watched *watched, int fd);
void dfm_watch_end(dfm_watch *watch, dfm_watched *watched); /* not begun: does nothing */

#endif
