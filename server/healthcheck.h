/* `deformd --healthcheck`: asks a running deformd whether it is ready, for containers that have no
 * curl. Thread safety: one thread. */
#ifndef DFM_SERVER_HEALTHCHECK_H
#define DFM_SERVER_HEALTHCHECK_H

#include <stdbool.h>
#include <stddef.h>

enum { DFM_HEALTHCHECK_TIMEOUT_MS = 3000 };

/* GETs `where`, "http://HOST:PORT[/path]", "HOST:PORT" or "unix:/path"; without a path /readyz.
 * True: 200 came within the time. `message` says in one sentence what came. */
bool dfm_healthcheck(const char *where, char *message, size_t message_bytes);

#endif
