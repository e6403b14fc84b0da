/* Status codes and the error that every fallible function of core fills in.
 *
 * Functions return a dfm_status and take, as their last argument, a nullable pointer to a dfm_error
 * that the caller owns. The first failure wins: dfm_fail never overwrites an error already set.
 * Thread safety: no shared state; an error belongs to the thread that passes it. */
#ifndef DFM_CORE_STATUS_H
#define DFM_CORE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dfm_status {
    DFM_OK = 0,
    DFM_ERROR_NO_MEMORY,   /* the allocator said no */
    DFM_ERROR_LIMIT,       /* well-formed, but over a configured limit: see limit and received */
    DFM_ERROR_TRUNCATED,   /* the bytes end before the data that they announce */
    DFM_ERROR_MALFORMED,   /* the bytes are not what their format says */
    DFM_ERROR_ARGUMENT,    /* the caller's pose, job or setting is not valid */
    DFM_ERROR_NOT_FOUND,   /* no such thing */
    DFM_ERROR_EVICTED,     /* was here, had to make room */
    DFM_ERROR_CONFLICT,    /* another thing already has this id */
    DFM_ERROR_NO_ROOM,     /* does not fit the budget even when all idle entries are gone */
    DFM_ERROR_UNAVAILABLE, /* no OpenCL kernel is to be had on this machine */
    DFM_ERROR_BACKEND,     /* a device failed after the model was bound */
    DFM_ERROR_STORE,       /* the store of uploads cannot be read, written or reached */
    DFM_ERROR_STORE_FULL,  /* it has no space left */
    DFM_ERROR_CORRUPT,     /* what it holds is not what was stored */
    DFM_STATUS_COUNT
} dfm_status;

typedef struct dfm_error {
    dfm_status status;
    const char *section; /* static string: "header", "vertices", "bones", ...; NULL = none */
    int64_t item;        /* index within the section; -1 = none */
    int64_t offset;      /* byte offset in the file; -1 = none */
    uint64_t limit;      /* DFM_ERROR_LIMIT: the limit ... */
    uint64_t received;   /* ... and the value that passed it */
    char info[256];      /* one English sentence, UTF-8, NUL-terminated */
} dfm_error;

/* Resets an error to DFM_OK, no section, no item, no offset. NULL is allowed. */
void dfm_error_clear(dfm_error *error);

/* The one place where every failure passes (set a breakpoint here). Fills *error unless it is NULL
 * or already holds a failure, and returns `status`. `format` is printf's. */
dfm_status dfm_fail(dfm_error *error, dfm_status status, const char *section, int64_t item,
                    int64_t offset, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* dfm_fail for DFM_ERROR_LIMIT, with the two numbers. */
dfm_status dfm_fail_limit(dfm_error *error, const char *section, int64_t item, int64_t offset,
                          uint64_t limit, uint64_t received, const char *what);

/* A stable lower-case word for a status ("no-memory", "truncated", ...). Never NULL. */
const char *dfm_status_name(dfm_status status);

#endif
