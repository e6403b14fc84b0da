/* The listening socket: TCP over IPv4 or IPv6, or a Unix socket. */
#ifndef DFM_SERVER_LISTEN_H
#define DFM_SERVER_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

enum { DFM_LISTEN_TEXT_BYTES = 320, DFM_LISTEN_HOST_BYTES = 256, DFM_LISTEN_PORT_BYTES = 16 };

typedef struct dfm_listener {
    int fd; /* listening, close-on-exec */
    char
        address[DFM_LISTEN_TEXT_BYTES]; /* "http://127.0.0.1:8080" or "unix:/path": the real port */
    const char *unix_path;              /* inside `address`; removed by close. NULL for TCP */
} dfm_listener;

/* "HOST:PORT" (a name, an IPv4 address, or an IPv6 address in brackets) or "unix:/path". A Unix
 * socket that nobody listens on any more is replaced; one that is in use is not.
 * False: `message` says why, in one sentence. */
bool dfm_listen(dfm_listener *listener, const char *where, char *message, size_t message_bytes);

/* "HOST:PORT" into its two parts; brackets around an IPv6 address are taken off. False: it is
 * something else. */
bool dfm_listen_split(const char *where, char host[DFM_LISTEN_HOST_BYTES],
                      char port[DFM_LISTEN_PORT_BYTES]);

/* Refuses new connections while the descriptor stays valid for whoever still polls it, and removes
 * a Unix socket's file. */
void dfm_listen_shut(dfm_listener *listener);
void dfm_listen_close(dfm_listener *listener);

#endif
