/* The motions that were uploaded, by id, under a byte budget, least recently used out first: what
 * core/cache is for models.
 *
 * Thread safety: every function may be called by any thread; none waits for a load. */
#ifndef DFM_CORE_MOTION_STORE_H
#define DFM_CORE_MOTION_STORE_H

#include "core/consent.h"
#include "core/id.h"
#include "core/motion.h"

/* A motion that is kept, or was: immutable. */
typedef struct dfm_stored_motion {
    dfm_id id;
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_motion *motion;
    size_t file_bytes;     /* of the upload */
    size_t resident_bytes; /* what counts against the budget, until the last reference is gone */
    int64_t created_unix_s;
    _Atomic uint64_t checked_ns; /* a store was asked about it; kept by api/library */
    unsigned references;         /* dfm_stored_motion_retain, dfm_stored_motion_release */
} dfm_stored_motion;

typedef struct dfm_motion_store dfm_motion_store;

typedef struct dfm_motion_store_stats {
    uint64_t motions, resident_bytes, budget_bytes;
    uint64_t hits, misses, loads, evictions, deletes;
} dfm_motion_store_stats;

dfm_status dfm_motion_store_create(size_t budget_bytes, dfm_motion_store **store, dfm_error *error);
void dfm_motion_store_free(dfm_motion_store *store); /* no motion may still be held; NULL allowed */

/* Loads VMD bytes and keeps them; where they are here already *created is false. *stored has a
 * reference for the caller. Failures: dfm_motion_load's; NO_ROOM; CONFLICT (same id, other digest).
 */
dfm_status dfm_motion_store_put(dfm_motion_store *store, const uint8_t *bytes, size_t size,
                                dfm_stored_motion **stored, bool *created, dfm_error *error);

/* Loads bytes with the time that they have elsewhere, unless they are here. The consent (nullable)
 * is asked of the dfm_stored_motion. Failures: put's, the consent's. */
dfm_status dfm_motion_store_restore(dfm_motion_store *store, const uint8_t *bytes, size_t size,
                                    int64_t created_unix_s, const dfm_consent *consent,
                                    dfm_stored_motion **stored, dfm_error *error);

/* Whether it is here, with checked_ns of `since_ns` or later. */
bool dfm_motion_store_is_checked(dfm_motion_store *store, const char *id, uint64_t since_ns);

/* Looks up and marks as used. Failures: NOT_FOUND, EVICTED. `id` is DFM_ID_DIGITS hex digits. */
dfm_status dfm_motion_store_get(dfm_motion_store *store, const char *id, dfm_stored_motion **stored,
                                dfm_error *error);

dfm_status dfm_motion_store_delete(dfm_motion_store *store, const char *id, dfm_error *error);

/* Up to `limit` motions with ids > `after` (NULL: from the first), sorted by id, each with a
 * reference for the caller. Returns how many; *more tells whether others follow. */
size_t dfm_motion_store_list(dfm_motion_store *store, const char *after, size_t limit,
                             dfm_stored_motion **motions, bool *more);

dfm_motion_store_stats dfm_motion_store_get_stats(dfm_motion_store *store);

dfm_stored_motion *dfm_stored_motion_retain(dfm_stored_motion *stored);
void dfm_stored_motion_release(dfm_stored_motion *stored); /* NULL is allowed */

#endif
