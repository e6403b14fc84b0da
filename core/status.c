#include "core/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void dfm_error_clear(dfm_error *error) {
    if (error)
        *error = (dfm_error){.status = DFM_OK, .item = -1, .offset = -1};
}

dfm_status dfm_fail(dfm_error *error, dfm_status status, const char *section, int64_t item,
                    int64_t offset, const char *format, ...) {
    if (!error || error->status != DFM_OK)
        return status;
    dfm_error_clear(error);
    error->status = status;
    error->section = section;
    error->item = item;
    error->offset = offset;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->info, sizeof error->info, format, arguments);
    va_end(arguments);
    return status;
}

dfm_status dfm_fail_limit(dfm_error *error, const char *section, int64_t item, int64_t offset,
                          uint64_t limit, uint64_t received, const char *what) {
    bool first = error && error->status == DFM_OK;
    dfm_fail(error, DFM_ERROR_LIMIT, section, item, offset, "%s: %" PRIu64 ", at most %" PRIu64,
             what, received, limit);
    if (first) {
        error->limit = limit;
        error->received = received;
    }
    return DFM_ERROR_LIMIT;
}

const char *dfm_status_name(dfm_status status) {
    static const char *const names[DFM_STATUS_COUNT] = {
        [DFM_OK] = "ok",
        [DFM_ERROR_NO_MEMORY] = "no-memory",
        [DFM_ERROR_LIMIT] = "limit",
        [DFM_ERROR_TRUNCATED] = "truncated",
        [DFM_ERROR_MALFORMED] = "malformed",
        [DFM_ERROR_ARGUMENT] = "argument",
        [DFM_ERROR_NOT_FOUND] = "not-found",
        [DFM_ERROR_EVICTED] = "evicted",
        [DFM_ERROR_CONFLICT] = "conflict",
        [DFM_ERROR_NO_ROOM] = "no-room",
        [DFM_ERROR_UNAVAILABLE] = "unavailable",
        [DFM_ERROR_BACKEND] = "backend",
        [DFM_ERROR_STORE] = "store",
        [DFM_ERROR_STORE_FULL] = "store-full",
        [DFM_ERROR_CORRUPT] = "corrupt",
    };
    return status < DFM_STATUS_COUNT && names[status] ? names[status] : "unknown";
}
