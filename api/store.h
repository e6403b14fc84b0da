/* Where uploads are durable: a folder, a bucket. server/ fills the interface in; api/library.c is
 * what uses it.
 *
 * An item is the bytes of an uploaded file, which never change under an id, and a small JSON text
 * about it (digest, settings, facts for lists), which does. A store knows neither PMX nor JSON.
 * An item is there from the moment that its put is durable until its removal is; nobody ever sees
 * half of one, and a process that is killed at any moment leaves none behind.
 *
 * Thread safety: every function may be called by any thread, and any number of processes may share
 * one store. All of them block; none is called on the HTTP thread. Failures: NOT_FOUND;
 * STORE_FULL (no space, quota); STORE (everything else: it cannot be read, written or reached, and
 * `info` names the file and the system's reason); NO_MEMORY. */
#ifndef DFM_API_STORE_H
#define DFM_API_STORE_H

#include "core/id.h"
#include "core/status.h"

enum { DFM_STORE_ABOUT_BYTES = 64 * 1024 }; /* most of an `about`, its NUL included */

typedef struct dfm_store dfm_store;

typedef enum dfm_store_kind { DFM_STORE_MODEL, DFM_STORE_MOTION } dfm_store_kind;

struct dfm_store {
    void *context;
    /* Durable when it returns DFM_OK. An item that is there already keeps its `about` (*created is
     * false); its bytes are compared, and replaced where they are not these, which mends a damaged
     * file. */
    dfm_status (*put)(void *context, dfm_store_kind kind, const dfm_id *id, const uint8_t *bytes,
                      size_t size, const char *about, bool *created, dfm_error *error);
    /* Cheap: asked once a second for each item in use. */
    dfm_status (*read_about)(void *context, dfm_store_kind kind, const dfm_id *id,
                             char about[DFM_STORE_ABOUT_BYTES], dfm_error *error);
    /* Durable when it returns DFM_OK. NOT_FOUND where the item is gone. */
    dfm_status (*write_about)(void *context, dfm_store_kind kind, const dfm_id *id,
                              const char *about, dfm_error *error);
    /* Calls `take` once with the file's size, for the memory to read it into (NULL: none is to be
     * had now; then NO_MEMORY). The bytes are as they were found: whoever reads checks the digest.
     */
    dfm_status (*read_bytes)(void *context, dfm_store_kind kind, const dfm_id *id,
                             uint8_t *(*take)(void *taker, size_t size), void *taker,
                             dfm_error *error);
    dfm_status (*remove)(void *context, dfm_store_kind kind, const dfm_id *id, dfm_error *error);
    /* Up to `limit` ids > `after` (NULL: from the first), sorted. */
    dfm_status (*list)(void *context, dfm_store_kind kind, const char *after, size_t limit,
                       dfm_id *ids, size_t *count, bool *more, dfm_error *error);
};

#endif
