/* The route table: every path and method, where it runs, what it takes and what it gives.
 *
 * openapi.yaml is compared with it both ways by a test. Thread safety: constant. */
#ifndef DFM_API_ROUTES_H
#define DFM_API_ROUTES_H

#include "api/query.h"

struct dfm_call;

enum { DFM_ROUTE_MAX_BODY_TYPES = 4 };

/* Which limit of the configuration a body falls under. */
typedef enum dfm_body_limit {
    DFM_BODY_NONE, /* the end of the list */
    DFM_BODY_UPLOAD,
    DFM_BODY_JSON,
    DFM_BODY_POSE
} dfm_body_limit;

/* A Content-Type that a route takes. The first is assumed where a request names none. */
typedef struct dfm_body_type {
    const char *media_type;
    dfm_body_limit limit;
} dfm_body_type;

typedef struct dfm_route {
    const char *name; /* "GET /models/{id}": method, a space, and the pattern */
    dfm_method method;
    dfm_lane lane;
    dfm_scope scope; /* what a token must have */
    void (*handle)(struct dfm_call *call);
    /* Looks at the query's values before the body is read; NULL: there is nothing to look at. */
    bool (*check_query)(const dfm_query *query, dfm_problem *problem);
    /* Lists with a NULL past the last; NULL: none. */
    const char *const *query;        /* parameter names */
    const char *const *media;        /* forms of the answer; the first is the default */
    const char *const *headers;      /* of the answer, besides X-Request-Id and Content-Type */
    const dfm_body_type *body_types; /* media_type NULL past the last; NULL: takes no body */
} dfm_route;

/* All routes; dfm_route_count of them. */
extern const dfm_route dfm_routes[];
extern const size_t dfm_route_count;

/* What a path means. */
typedef struct dfm_route_match {
    const dfm_route *route;     /* NULL: not this method, or no such path at all */
    char allow[64];             /* the methods that the path has; "" = no such path */
    char id[DFM_ID_DIGITS + 1]; /* of {id}; "" where it cannot be one */
} dfm_route_match;

dfm_route_match dfm_route_find(dfm_method method, const char *path);

#endif
