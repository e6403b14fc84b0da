#include "core/motion_store.h"
#include "core/shelf.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What stands behind a dfm_stored_motion; the public part comes first. */
struct kept {
    dfm_stored_motion stored;
    dfm_motion_store *store;
    bool counted; /* resident_bytes are in the shelf's used_bytes */
};

struct dfm_motion_store {
    dfm_shelf shelf; /* of struct kept */
};

/* --- one motion ----------------------------------------------------------------------------- */

static void kept_free(struct kept *kept) {
    dfm_shelf *shelf = &kept->store->shelf;
    if (kept->counted) {
        pthread_mutex_lock(&shelf->lock);
        shelf->used_bytes -= kept->stored.resident_bytes;
        pthread_mutex_unlock(&shelf->lock);
    }
    dfm_motion_release(kept->stored.motion);
    free(kept);
}

dfm_stored_motion *dfm_stored_motion_retain(dfm_stored_motion *stored) {
    __atomic_add_fetch(&stored->references, 1, __ATOMIC_RELAXED);
    return stored;
}

void dfm_stored_motion_release(dfm_stored_motion *stored) {
    if (stored && __atomic_sub_fetch(&stored->references, 1, __ATOMIC_ACQ_REL) == 0)
        kept_free((struct kept *)stored);
}

static const dfm_id *kept_id(const void *item) {
    const struct kept *kept = item;
    return &kept->stored.id;
}

static bool kept_is_idle(const void *item) {
    const struct kept *kept = item;
    return __atomic_load_n(&kept->stored.references, __ATOMIC_ACQUIRE) == 1;
}

static size_t kept_bytes(const void *item) {
    const struct kept *kept = item;
    return kept->stored.resident_bytes;
}

static void kept_retain(void *item) {
    dfm_stored_motion_retain(item);
}

static void kept_release(void *item) {
    dfm_stored_motion_release(item);
}

static const dfm_shelf_kind motions = {
    .name = "motion",
    .id = kept_id,
    .is_idle = kept_is_idle,
    .freed_bytes = kept_bytes,
    .retain = kept_retain,
    .release = kept_release,
};

/* --- the store ------------------------------------------------------------------------------ */

dfm_status dfm_motion_store_create(size_t budget_bytes, dfm_motion_store **store,
                                   dfm_error *error) {
    *store = calloc(1, sizeof **store);
    if (!*store)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for the motions");
    dfm_shelf_init(&(*store)->shelf, &motions, budget_bytes);
    return DFM_OK;
}

void dfm_motion_store_free(dfm_motion_store *store) {
    if (!store)
        return;
    dfm_shelf_destroy(&store->shelf);
    free(store);
}

/* Looks for the same bytes: *kept is NULL where they are not here. */
static dfm_status find_same(dfm_motion_store *store, const dfm_id *id,
                            const uint8_t digest[DFM_DIGEST_BYTES], struct kept **kept,
                            dfm_error *error) {
    dfm_status status = DFM_OK;
    pthread_mutex_lock(&store->shelf.lock);
    *kept = dfm_shelf_find(&store->shelf, id->text);
    if (*kept && memcmp((*kept)->stored.digest, digest, DFM_DIGEST_BYTES) != 0) {
        status = dfm_fail(error, DFM_ERROR_CONFLICT, NULL, -1, -1, "another file has the id %s",
                          id->text);
        *kept = NULL;
    }
    if (*kept) {
        dfm_shelf_mark_used(&store->shelf, id->text);
        dfm_stored_motion_retain(&(*kept)->stored);
    }
    pthread_mutex_unlock(&store->shelf.lock);
    return status;
}

/* Loads without the lock. */
static dfm_status load(dfm_motion_store *store, const uint8_t *bytes, size_t size, const dfm_id *id,
                       const uint8_t digest[DFM_DIGEST_BYTES], int64_t created_unix_s,
                       struct kept **result, dfm_error *error) {
    struct kept *kept = calloc(1, sizeof *kept);
    if (!kept)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory to keep a motion");
    dfm_status status = dfm_motion_load(bytes, size, &kept->stored.motion, error);
    if (status != DFM_OK) {
        free(kept);
        return status;
    }
    kept->store = store;
    dfm_stored_motion *stored = &kept->stored;
    stored->id = *id;
    memcpy(stored->digest, digest, sizeof stored->digest);
    stored->file_bytes = size;
    stored->resident_bytes = sizeof *kept + dfm_motion_resident_bytes(stored->motion);
    stored->created_unix_s = created_unix_s;
    stored->references = 1;
    *result = kept;
    return DFM_OK;
}

/* Shows a new motion, and takes it over; *found: it is here already. */
static dfm_status show(dfm_motion_store *store, struct kept *kept, const dfm_consent *consent,
                       dfm_stored_motion **stored, bool *found, dfm_error *error) {
    dfm_status status = DFM_OK;
    *found = false;
    if (consent)
        status = dfm_shelf_try_room(&store->shelf, kept->stored.resident_bytes, error);
    if (status == DFM_OK)
        status = dfm_consent_ask(consent, &kept->stored, error);
    if (status == DFM_OK)
        status = dfm_shelf_insert(&store->shelf, kept, kept->stored.resident_bytes, found, error);
    kept->counted = status == DFM_OK && !*found;
    if (kept->counted)
        *stored = &kept->stored;
    else
        dfm_stored_motion_release(&kept->stored);
    return status;
}

static dfm_status put(dfm_motion_store *store, const uint8_t *bytes, size_t size,
                      int64_t created_unix_s, const dfm_consent *consent,
                      dfm_stored_motion **stored, bool *created, dfm_error *error) {
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_id id;
    dfm_digest(bytes, size, digest, &id);
    *stored = NULL;
    *created = false;
    for (;;) {
        struct kept *kept;
        bool found;
        dfm_status status = find_same(store, &id, digest, &kept, error);
        if (status != DFM_OK)
            return status;
        if (kept) {
            status = dfm_consent_ask(consent, &kept->stored, error);
            if (status == DFM_OK)
                *stored = &kept->stored;
            else
                dfm_stored_motion_release(&kept->stored);
            return status;
        }
        status = load(store, bytes, size, &id, digest, created_unix_s, &kept, error);
        if (status == DFM_OK)
            status = show(store, kept, consent, stored, &found, error);
        *created = status == DFM_OK && !found;
        if (status != DFM_OK || *created)
            return status;
    }
}

dfm_status dfm_motion_store_put(dfm_motion_store *store, const uint8_t *bytes, size_t size,
                                dfm_stored_motion **stored, bool *created, dfm_error *error) {
    return put(store, bytes, size, (int64_t)time(NULL), NULL, stored, created, error);
}

dfm_status dfm_motion_store_restore(dfm_motion_store *store, const uint8_t *bytes, size_t size,
                                    int64_t created_unix_s, const dfm_consent *consent,
                                    dfm_stored_motion **stored, dfm_error *error) {
    bool created;
    return put(store, bytes, size, created_unix_s, consent, stored, &created, error);
}

bool dfm_motion_store_is_checked(dfm_motion_store *store, const char *id, uint64_t since_ns) {
    pthread_mutex_lock(&store->shelf.lock);
    const struct kept *kept = dfm_shelf_find(&store->shelf, id);
    bool checked = kept && kept->stored.checked_ns >= since_ns;
    pthread_mutex_unlock(&store->shelf.lock);
    return checked;
}

dfm_status dfm_motion_store_get(dfm_motion_store *store, const char *id, dfm_stored_motion **stored,
                                dfm_error *error) {
    void *item;
    pthread_mutex_lock(&store->shelf.lock);
    dfm_status status = dfm_shelf_get(&store->shelf, id, &item, error);
    pthread_mutex_unlock(&store->shelf.lock);
    *stored = item;
    return status;
}

dfm_status dfm_motion_store_delete(dfm_motion_store *store, const char *id, dfm_error *error) {
    void *item = NULL;
    dfm_status status = DFM_OK;
    pthread_mutex_lock(&store->shelf.lock);
    if (dfm_shelf_find(&store->shelf, id)) {
        item = dfm_shelf_take(&store->shelf, id);
        store->shelf.stats.deletes++;
    } else {
        status = dfm_shelf_fail_missing(&store->shelf, id, error);
    }
    pthread_mutex_unlock(&store->shelf.lock);
    dfm_stored_motion_release(item);
    return status;
}

size_t dfm_motion_store_list(dfm_motion_store *store, const char *after, size_t limit,
                             dfm_stored_motion **stored, bool *more) {
    return dfm_shelf_list(&store->shelf, after, limit, stored, more);
}

dfm_motion_store_stats dfm_motion_store_get_stats(dfm_motion_store *store) {
    dfm_shelf_stats stats = dfm_shelf_get_stats(&store->shelf);
    return (dfm_motion_store_stats){.motions = stats.count,
                                    .resident_bytes = stats.used_bytes,
                                    .budget_bytes = stats.budget_bytes,
                                    .hits = stats.hits,
                                    .misses = stats.misses,
                                    .loads = stats.loads,
                                    .evictions = stats.evictions,
                                    .deletes = stats.deletes};
}
