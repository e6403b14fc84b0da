/* Bodies that came with Content-Encoding: gzip. Thread safety: a body belongs to one thread. */
#ifndef DFM_SERVER_INFLATE_H
#define DFM_SERVER_INFLATE_H

#include "server/body.h"

/* Puts what the body holds in compressed form in its place, under the body's own limit: a small
 * body that would inflate without end stops there. False: body->state says which limit, or it is
 * DFM_BODY_OK and *why says what is wrong with the bytes (static). *inflated_bytes counts up to
 * the first byte over the limit. */
bool dfm_inflate_body(dfm_body *body, uint64_t *inflated_bytes, const char **why);

#endif
