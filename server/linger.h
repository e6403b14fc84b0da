/* Lingering closes: connections that were answered before their body was read.
 *
 * Closing a socket with unread bytes in it resets the connection, and the reset can overtake the
 * answer: the client then sees a broken pipe in place of its 413 or 503. So the socket is read to
 * its end for a moment more, on a thread of its own, and only then closed. Bounded in time and
 * number: what does not fit is closed at once. Thread safety: any thread may add. */
#ifndef DFM_SERVER_LINGER_H
#define DFM_SERVER_LINGER_H

typedef struct dfm_linger dfm_linger;

dfm_linger *dfm_linger_create(void);      /* NULL: no memory, descriptor or thread */
void dfm_linger_free(dfm_linger *linger); /* closes what is left; NULL allowed */

/* Duplicates a socket whose owner is about to shut its writing side and close it. */
void dfm_linger_add(dfm_linger *linger, int fd);

#endif
