/* The open connections, and which of them are too slow.
 *
 * libmicrohttpd 0.9.75 counts inactivity only: a client that drips a byte now and then holds its
 * connection, and the memory of a body, for ever; before a request's head is complete no handler
 * even knows of it. So each connection has a time by which its next head, and then its body, must
 * be complete, and one that passes it is shut.
 * It also waits for the next edge from epoll after a short read; where the client's end came before
 * that read, there is none. So the sockets of requests that are being received are looked at once
 * a second, and those at their end are shut, which is an edge.
 *
 * Thread safety: a connection's functions are called by the HTTP thread; its descriptor stays open
 * from open to close. NULL as a connection is allowed: there was no memory for it. */
#ifndef DFM_SERVER_CONNECTIONS_H
#define DFM_SERVER_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct dfm_connections dfm_connections;
typedef struct dfm_connection dfm_connection;

/* 0 = any time. NULL: no memory, descriptor or thread. */
dfm_connections *dfm_connections_create(uint64_t idle_timeout_ms, uint64_t body_timeout_ms);
void dfm_connections_free(dfm_connections *connections); /* all are closed; NULL allowed */

/* It waits for a head. NULL: no memory. */
dfm_connection *dfm_connection_open(dfm_connections *connections, int fd);
void dfm_connection_begin_head(dfm_connection *connection); /* the request line is here */
void dfm_connection_begin_body(dfm_connection *connection); /* the head is here */
void dfm_connection_begin_work(dfm_connection *connection); /* the request is here: no more times */
void dfm_connection_wait(dfm_connection *connection);       /* answered: for the next head */
void dfm_connection_close(dfm_connection *connection);

#endif
