/* Log lines on stderr, as text or as JSON, one event a line.
 *
 * Callers never wait for stderr: a line is copied into a bounded buffer that a thread of its own
 * writes out. Where stderr cannot keep up, lines are dropped and their number is logged. Whatever
 * is logged, it cannot forge a line or break JSON: in both forms messages, methods and paths are
 * escaped as inside of a JSON string, and what is not UTF-8 is U+FFFD. Thread safety: any thread
 * may log. */
#ifndef DFM_SERVER_LOG_H
#define DFM_SERVER_LOG_H

#include "api/metrics.h"
#include "server/config.h"

/* Starts the writing thread. Lines logged before open or after close are written by the caller.
 * False: no thread or no memory; then all lines are written by their callers. */
bool dfm_log_open(dfm_log_level level, dfm_log_format format);
uint64_t dfm_log_dropped(void); /* lines, since the start */
void dfm_log_close(void);       /* writes what is left; waits a second at most for a stuck stderr */

bool dfm_log_enabled(dfm_log_level level);

void dfm_log(dfm_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The line of one request, at DFM_LOG_INFO. */
typedef struct dfm_log_exchange {
    const char *method, *path, *id; /* path as sent; its query is not logged */
    int status;                     /* 0: the client was gone before the answer */
    uint64_t bytes;                 /* of the body that was answered */
    uint64_t duration_ns;           /* from the request's head to the answer's last byte */
    const dfm_account *account;     /* what of it is known; NULL = nothing */
} dfm_log_exchange;

void dfm_log_request(const dfm_log_exchange *exchange);

#endif
