/* Who may do what: bearer tokens (RFC 6750) with scopes.
 *
 * Only digests of tokens are kept, and one that is given is compared with all of them in constant
 * time. Thread safety: any thread; a check waits for nothing but a replacement's swap. */
#ifndef DFM_API_ACCESS_H
#define DFM_API_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

/* What a route takes; each includes the ones before it. */
typedef enum dfm_scope {
    DFM_SCOPE_DEFORM, /* read and deform */
    DFM_SCOPE_ADMIN,  /* upload, change, delete */
    DFM_SCOPE_OPEN    /* a route for everybody; no token has it */
} dfm_scope;

enum { DFM_TOKEN_MIN_BYTES = 16, DFM_TOKEN_MAX_BYTES = 256 };

typedef struct dfm_access dfm_access;

/* Everything is refused until tokens were loaded. NULL: no memory. */
dfm_access *dfm_access_create(void);
void dfm_access_free(dfm_access *access); /* NULL allowed */

typedef struct dfm_access_counts {
    size_t deform, admin;
} dfm_access_counts;

/* Replaces all tokens by those of a file's text: lines "deform TOKEN" and "admin TOKEN", empty
 * ones, and comments after '#'. False: the old ones stay, and `message` names the line and what is
 * wrong with it, and never a token. */
bool dfm_access_load(dfm_access *access, const char *text, size_t size, dfm_access_counts *counts,
                     char *message, size_t message_bytes);

typedef enum dfm_access_answer {
    DFM_ACCESS_GRANTED,
    DFM_ACCESS_MISSING,  /* no token was given */
    DFM_ACCESS_UNKNOWN,  /* one that is none of ours */
    DFM_ACCESS_FORBIDDEN /* one without the scope */
} dfm_access_answer;

/* `authorization` is the header's value, NULL = none. */
dfm_access_answer dfm_access_check(dfm_access *access, const char *authorization, dfm_scope needed);

#endif
