/* Query strings, strictly: what a route does not know, a name given twice, a broken percent escape
 * and a NUL are errors, so that a typo never passes as a default.
 * Thread safety: no state; a dfm_query belongs to one request. */
#ifndef DFM_API_QUERY_H
#define DFM_API_QUERY_H

#include "api/problem.h"

enum {
    DFM_QUERY_MAX_PARAMETERS = 8,
    DFM_QUERY_VALUE_BYTES = 512,
    DFM_PAGE_DEFAULT = 100, /* items of a list */
    DFM_PAGE_MAX = 1000
};

/* Parameters of a request, by their index in the route's list of names. */
typedef struct dfm_query {
    const char *const *names;                     /* the route's, NULL past the last */
    const char *values[DFM_QUERY_MAX_PARAMETERS]; /* decoded, into `text`; NULL = not given */
    char text[DFM_QUERY_VALUE_BYTES];
} dfm_query;

/* `names`: NULL past the last, at most DFM_QUERY_MAX_PARAMETERS; NULL: the route takes none.
 * `text`: what follows '?', NULL or "" = nothing. False: *problem says what is wrong (400). */
bool dfm_query_parse(dfm_query *query, const char *const *names, const char *text,
                     dfm_problem *problem);

/* The decoded value, or NULL where it was not given. `name` is one of the route's. */
const char *dfm_query_get(const dfm_query *query, const char *name);

/* Index of the value in `words` (NULL past the last): `fallback` where it was not given; -1 and a
 * problem that lists the words where it is none of them. */
int dfm_query_choice(const dfm_query *query, const char *name, const char *const *words,
                     int fallback, dfm_problem *problem);

/* A whole number within min..max; false: *problem says so. */
bool dfm_query_integer(const dfm_query *query, const char *name, uint64_t min, uint64_t max,
                       uint64_t fallback, uint64_t *value, dfm_problem *problem);

/* A finite number greater than 0; false: *problem says so. */
bool dfm_query_positive(const dfm_query *query, const char *name, double fallback, double *value,
                        dfm_problem *problem);

/* Whether the text is an id: DFM_ID_DIGITS lower-case hex digits. */
bool dfm_query_is_id(const char *text);

/* `limit` and `cursor` of a list; *cursor is NULL where it was not given. */
bool dfm_query_page(const dfm_query *query, uint64_t *limit, const char **cursor,
                    dfm_problem *problem);

/* The check of routes whose query is a page. */
bool dfm_query_check_page(const dfm_query *query, dfm_problem *problem);

/* Decodes percent escapes of `length` bytes into `out` (`room` bytes, a NUL behind). Returns the
 * length, or -1: a broken escape, a NUL, or no room. */
int64_t dfm_percent_decode(const char *text, size_t length, char *out, size_t room);

#endif
