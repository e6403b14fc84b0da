/* Facts about a model that are odd but bearable: kept with it and shown to the client.
 *
 * A warning is a code, how often it was met, the first place, and a sentence. Codes are static
 * strings and part of the HTTP contract (README lists them). Thread safety: none while it is
 * filled. */
#ifndef DFM_CORE_WARNINGS_H
#define DFM_CORE_WARNINGS_H

#include <stdint.h>

enum { DFM_MAX_WARNINGS = 48 };

typedef struct dfm_warning {
    const char *code; /* static: "sdef-zero-centre", ... */
    uint64_t count;   /* how many places */
    int64_t first;    /* index of the first vertex, bone, morph, ...; -1 = no index */
    char message[200];
} dfm_warning;

typedef struct dfm_warnings {
    uint32_t count;
    dfm_warning items[DFM_MAX_WARNINGS];
} dfm_warnings;

/* Counts one more place under `code`; the first call for a code sets `first` and the message
 * (printf format). More than DFM_MAX_WARNINGS different codes: the rest is counted in the last. */
void dfm_warn(dfm_warnings *warnings, const char *code, int64_t first, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
