#include "core/cache.h"
#include "core/shelf.h"

#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A model in memory, shared by the snapshots that bind it with different settings. */
struct loaded {
    dfm_model *model;
    size_t bytes;
    unsigned references; /* guarded by the shelf's lock */
    dfm_model_use use;
};

/* What stands behind a dfm_resident; the public part comes first. */
struct snapshot {
    dfm_resident resident;
    dfm_cache *cache;
    struct loaded *loaded;
    dfm_skin_bind *bind;
    size_t own_bytes; /* without the model, which others may share */
    bool counted;     /* own_bytes are in the shelf's used_bytes */
};

struct dfm_cache {
    dfm_cache_options options;
    dfm_shelf shelf; /* of snapshots */
};

/* --- snapshots ------------------------------------------------------------------------------ */

static struct snapshot *snapshot_of(dfm_resident *resident) {
    return (struct snapshot *)resident;
}

/* Takes bytes from the count and the model's reference back; true: the model is to be freed. */
static bool uncount(struct snapshot *snapshot) {
    dfm_shelf *shelf = &snapshot->cache->shelf;
    pthread_mutex_lock(&shelf->lock);
    bool last = --snapshot->loaded->references == 0;
    if (snapshot->counted)
        shelf->used_bytes -= snapshot->own_bytes + (last ? snapshot->loaded->bytes : 0);
    pthread_mutex_unlock(&shelf->lock);
    return last;
}

static void snapshot_free(struct snapshot *snapshot) {
    dfm_deform_target *target = &snapshot->resident.target;
    if (target->binding)
        dfm_skinner_unbind(target->skinner, target->binding);
    if (snapshot->bind)
        dfm_skin_bind_free(snapshot->bind);
    if (uncount(snapshot)) {
        dfm_model_release(snapshot->loaded->model);
        free(snapshot->loaded);
    }
    free(snapshot);
}

dfm_resident *dfm_resident_retain(dfm_resident *resident) {
    __atomic_add_fetch(&resident->references, 1, __ATOMIC_RELAXED);
    return resident;
}

void dfm_resident_release(dfm_resident *resident) {
    if (resident && __atomic_sub_fetch(&resident->references, 1, __ATOMIC_ACQ_REL) == 0)
        snapshot_free(snapshot_of(resident));
}

static unsigned reference_count(const struct snapshot *snapshot) {
    return __atomic_load_n(&snapshot->resident.references, __ATOMIC_ACQUIRE);
}

/* A digest of everything in the model document that can differ for one file. */
static void make_etag(dfm_resident *resident) {
    uint8_t digest[DFM_DIGEST_BYTES];
    const int64_t facts[] = {resident->settings.mode,    resident->settings.sdef,
                             resident->settings.weights, resident->effective_mode,
                             resident->created_unix_s,   (int64_t)resident->resident_bytes};
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, DFM_DIGEST_BYTES, resident->digest);
    sha256_update(&context, sizeof facts, (const uint8_t *)facts);
    sha256_digest(&context, sizeof digest, digest);
    resident->etag[0] = '"';
    dfm_hex(resident->etag + 1, digest, 16);
    strcat(resident->etag, "\"");
}

static void choose_skinner(const dfm_skinners *skinners, dfm_resident *resident) {
    bool gpu = resident->settings.mode == DFM_MODE_GPU && skinners->opencl;
    resident->effective_mode = gpu ? DFM_MODE_GPU : DFM_MODE_CPU;
    resident->target.skinner = gpu ? skinners->opencl : skinners->cpu;
}

static dfm_status bind(struct snapshot *snapshot, dfm_error *error) {
    dfm_resident *resident = &snapshot->resident;
    dfm_deform_target *target = &resident->target;
    dfm_status status = dfm_skin_bind_create(target->model, resident->settings.weights,
                                             resident->settings.sdef, &snapshot->bind, error);
    if (status != DFM_OK)
        return status;
    target->bind = snapshot->bind;
    return dfm_skinner_bind(target->skinner, snapshot->bind, &target->binding, error);
}

/* A snapshot with one reference, from what identifies the file (`origin`: id, digest, file_bytes,
 * created_unix_s) and settings. Not counted and not in the table yet. */
static dfm_status snapshot_create(dfm_cache *cache, struct loaded *loaded,
                                  const dfm_resident *origin, const dfm_settings *settings,
                                  struct snapshot **result, dfm_error *error) {
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for a model's entry");
    pthread_mutex_lock(&cache->shelf.lock);
    loaded->references++;
    pthread_mutex_unlock(&cache->shelf.lock);
    snapshot->cache = cache;
    snapshot->loaded = loaded;
    dfm_resident *resident = &snapshot->resident;
    resident->id = origin->id;
    memcpy(resident->digest, origin->digest, sizeof resident->digest);
    resident->file_bytes = origin->file_bytes;
    resident->created_unix_s = origin->created_unix_s;
    resident->settings = *settings;
    resident->target.model = loaded->model;
    resident->use = &loaded->use;
    resident->references = 1;
    choose_skinner(cache->options.skinners, resident);
    dfm_status status = bind(snapshot, error);
    if (status != DFM_OK) {
        dfm_resident_release(resident);
        return status;
    }
    snapshot->own_bytes = sizeof *snapshot + dfm_skin_bind_resident_bytes(snapshot->bind) +
                          resident->target.binding->resident_bytes;
    resident->resident_bytes = snapshot->own_bytes + loaded->bytes;
    make_etag(resident);
    *result = snapshot;
    return DFM_OK;
}

static bool same_settings(const dfm_settings *a, const dfm_settings *b) {
    return a->mode == b->mode && a->sdef == b->sdef && a->weights == b->weights;
}

static dfm_settings merge_settings(dfm_settings now, const dfm_settings *wanted,
                                   dfm_settings_given given) {
    if (given.mode)
        now.mode = wanted->mode;
    if (given.sdef)
        now.sdef = wanted->sdef;
    if (given.weights)
        now.weights = wanted->weights;
    return now;
}

/* --- on the shelf --------------------------------------------------------------------------- */

static const dfm_id *snapshot_id(const void *item) {
    const struct snapshot *snapshot = item;
    return &snapshot->resident.id;
}

/* The table's reference is the only one: no request uses it, and none can begin to without the
 * lock. */
static bool snapshot_is_idle(const void *item) {
    return reference_count(item) == 1;
}

static size_t snapshot_freed_bytes(const void *item) {
    const struct snapshot *snapshot = item;
    return snapshot->own_bytes + (snapshot->loaded->references == 1 ? snapshot->loaded->bytes : 0);
}

static void snapshot_retain(void *item) {
    dfm_resident_retain(item);
}

static void snapshot_release(void *item) {
    dfm_resident_release(item);
}

static const dfm_shelf_kind models = {
    .name = "model",
    .id = snapshot_id,
    .is_idle = snapshot_is_idle,
    .freed_bytes = snapshot_freed_bytes,
    .retain = snapshot_retain,
    .release = snapshot_release,
};

/* --- uploads -------------------------------------------------------------------------------- */

static dfm_status load(dfm_cache *cache, const uint8_t *bytes, size_t size, struct loaded **result,
                       dfm_error *error) {
    struct loaded *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for a model");
    dfm_status status = dfm_model_load(bytes, size, &cache->options.limits, &loaded->model, error);
    if (status != DFM_OK) {
        free(loaded);
        return status;
    }
    loaded->use.since_unix_s = (int64_t)time(NULL);
    loaded->bytes = sizeof *loaded + dfm_model_resident_bytes(loaded->model);
    *result = loaded;
    return DFM_OK;
}

/* Loads and binds without the lock. */
static dfm_status load_snapshot(dfm_cache *cache, const uint8_t *bytes, size_t size,
                                const dfm_resident *origin, const dfm_settings *settings,
                                struct snapshot **snapshot, dfm_error *error) {
    struct loaded *loaded = NULL;
    dfm_status status = load(cache, bytes, size, &loaded, error);
    if (status != DFM_OK)
        return status;
    /* A reference of this function's own, so that a failure below frees the model here. */
    loaded->references = 1;
    status = snapshot_create(cache, loaded, origin, settings, snapshot, error);
    pthread_mutex_lock(&cache->shelf.lock);
    bool last = --loaded->references == 0;
    pthread_mutex_unlock(&cache->shelf.lock);
    if (last) {
        dfm_model_release(loaded->model);
        free(loaded);
    }
    return status;
}

static dfm_status insert(dfm_cache *cache, struct snapshot *snapshot, bool *found,
                         dfm_error *error) {
    dfm_status status =
        dfm_shelf_insert(&cache->shelf, snapshot, snapshot->resident.resident_bytes, found, error);
    snapshot->counted = status == DFM_OK && !*found;
    return status;
}

static dfm_status check_digest(dfm_cache *cache, const dfm_resident *origin, bool *found,
                               dfm_error *error) {
    dfm_status status = DFM_OK;
    pthread_mutex_lock(&cache->shelf.lock);
    const struct snapshot *now = dfm_shelf_find(&cache->shelf, origin->id.text);
    *found = now != NULL;
    if (now && memcmp(now->resident.digest, origin->digest, DFM_DIGEST_BYTES) != 0)
        status = dfm_fail(error, DFM_ERROR_CONFLICT, NULL, -1, -1, "another file has the id %s",
                          origin->id.text);
    pthread_mutex_unlock(&cache->shelf.lock);
    return status;
}

/* Defined below: *missing is true where it is not here (any more). */
static dfm_status configure(dfm_cache *cache, const char *id, const char *if_match,
                            const dfm_settings *settings, dfm_settings_given given,
                            const dfm_consent *consent, dfm_resident **resident, bool *missing,
                            dfm_error *error);

/* Shows a new snapshot, and takes it over; *found: another one is here already. */
static dfm_status show(dfm_cache *cache, struct snapshot *snapshot, const dfm_consent *consent,
                       dfm_resident **resident, bool *found, dfm_error *error) {
    *found = false;
    dfm_status status = DFM_OK;
    if (consent)
        status = dfm_shelf_try_room(&cache->shelf, snapshot->resident.resident_bytes, error);
    if (status == DFM_OK)
        status = dfm_consent_ask(consent, &snapshot->resident, error);
    if (status == DFM_OK)
        status = insert(cache, snapshot, found, error);
    if (status == DFM_OK && !*found)
        *resident = &snapshot->resident;
    else
        dfm_resident_release(&snapshot->resident);
    return status;
}

static dfm_status put(dfm_cache *cache, const uint8_t *bytes, size_t size, int64_t created_unix_s,
                      const dfm_settings *settings, dfm_settings_given given,
                      const dfm_consent *consent, dfm_resident **resident, bool *created,
                      dfm_error *error) {
    dfm_resident origin = {.file_bytes = size, .created_unix_s = created_unix_s};
    dfm_digest(bytes, size, origin.digest, &origin.id);
    *resident = NULL;
    for (;;) {
        bool found, missing;
        dfm_status status = check_digest(cache, &origin, &found, error);
        if (status != DFM_OK)
            return status;
        *created = !found;
        if (found) {
            dfm_error own = {.status = DFM_OK};
            status = configure(cache, origin.id.text, NULL, settings, given, consent, resident,
                               &missing, &own);
            if (missing)
                continue; /* it left in between: load it */
            if (status != DFM_OK && error && error->status == DFM_OK)
                *error = own;
            return status;
        }
        struct snapshot *snapshot;
        status = load_snapshot(cache, bytes, size, &origin, settings, &snapshot, error);
        if (status == DFM_OK)
            status = show(cache, snapshot, consent, resident, &found, error);
        if (status != DFM_OK || !found)
            return status;
    }
}

dfm_status dfm_cache_put(dfm_cache *cache, const uint8_t *bytes, size_t size,
                         const dfm_settings *settings, dfm_settings_given given,
                         dfm_resident **resident, bool *created, dfm_error *error) {
    return put(cache, bytes, size, (int64_t)time(NULL), settings, given, NULL, resident, created,
               error);
}

dfm_status dfm_cache_restore(dfm_cache *cache, const uint8_t *bytes, size_t size,
                             int64_t created_unix_s, const dfm_settings *settings,
                             const dfm_consent *consent, dfm_resident **resident,
                             dfm_error *error) {
    bool created;
    return put(cache, bytes, size, created_unix_s, settings,
               (dfm_settings_given){.mode = true, .sdef = true, .weights = true}, consent, resident,
               &created, error);
}

/* --- the rest of the public functions ------------------------------------------------------- */

dfm_status dfm_cache_create(const dfm_cache_options *options, dfm_cache **cache, dfm_error *error) {
    *cache = calloc(1, sizeof **cache);
    if (!*cache)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for the cache");
    (*cache)->options = *options;
    dfm_shelf_init(&(*cache)->shelf, &models, options->budget_bytes);
    return DFM_OK;
}

void dfm_cache_free(dfm_cache *cache) {
    if (!cache)
        return;
    dfm_shelf_destroy(&cache->shelf);
    free(cache);
}

dfm_status dfm_cache_get(dfm_cache *cache, const char *id, dfm_resident **resident,
                         dfm_error *error) {
    void *item;
    pthread_mutex_lock(&cache->shelf.lock);
    dfm_status status = dfm_shelf_get(&cache->shelf, id, &item, error);
    pthread_mutex_unlock(&cache->shelf.lock);
    *resident = item;
    return status;
}

bool dfm_cache_is_checked(dfm_cache *cache, const char *id, uint64_t since_ns) {
    pthread_mutex_lock(&cache->shelf.lock);
    const struct snapshot *snapshot = dfm_shelf_find(&cache->shelf, id);
    bool checked = snapshot && snapshot->resident.checked_ns >= since_ns;
    pthread_mutex_unlock(&cache->shelf.lock);
    return checked;
}

static dfm_status check_if_match(const dfm_resident *resident, const char *if_match,
                                 dfm_error *error) {
    if (!if_match || strcmp(resident->etag, if_match) == 0)
        return DFM_OK;
    return dfm_fail(error, DFM_ERROR_CONFLICT, NULL, -1, -1, "the model's ETag is %s, not %s",
                    resident->etag, if_match);
}

/* What is there, if it is what the client thinks: borrowed, under the lock. */
static dfm_status find_matching(dfm_cache *cache, const char *id, const char *if_match,
                                struct snapshot **now, dfm_error *error) {
    *now = dfm_shelf_find(&cache->shelf, id);
    return *now ? check_if_match(&(*now)->resident, if_match, error)
                : dfm_shelf_fail_missing(&cache->shelf, id, error);
}

/* Finds what is to be changed, with a reference for the caller. */
static dfm_status begin_change(dfm_cache *cache, const char *id, const char *if_match,
                               struct snapshot **now, dfm_error *error) {
    pthread_mutex_lock(&cache->shelf.lock);
    dfm_status status = find_matching(cache, id, if_match, now, error);
    if (status == DFM_OK) {
        dfm_shelf_mark_used(&cache->shelf, id);
        dfm_resident_retain(&(*now)->resident);
    }
    pthread_mutex_unlock(&cache->shelf.lock);
    return status;
}

/* Makes room for `next` as long as the table holds `now`; false: it does not any more. */
static bool make_room_beside(dfm_cache *cache, struct snapshot *now, const struct snapshot *next,
                             dfm_status *status, dfm_error *error) {
    bool unlocked = true;
    *status = DFM_OK;
    while (*status == DFM_OK && unlocked) {
        if (dfm_shelf_find(&cache->shelf, now->resident.id.text) != now)
            return false;
        /* The table's reference and the caller's: nobody else keeps the old one in memory. */
        size_t freed = reference_count(now) == 2 ? now->own_bytes : 0;
        size_t need = next->own_bytes > freed ? next->own_bytes - freed : 0;
        *status = dfm_shelf_make_room(&cache->shelf, need, &unlocked, error);
    }
    return true;
}

/* Swaps `next` in for `now` where the table still holds that; else *swapped is false. */
static dfm_status end_change(dfm_cache *cache, struct snapshot *now, struct snapshot *next,
                             bool *swapped, dfm_error *error) {
    dfm_status status;
    pthread_mutex_lock(&cache->shelf.lock);
    *swapped = make_room_beside(cache, now, next, &status, error) && status == DFM_OK;
    if (*swapped) {
        cache->shelf.used_bytes += next->own_bytes;
        next->counted = true;
        dfm_shelf_swap(&cache->shelf, next);
    }
    pthread_mutex_unlock(&cache->shelf.lock);
    if (*swapped)
        dfm_resident_release(&now->resident); /* the table's */
    return status;
}

/* Asks once it is known that there is room; *swapped false: `now` is not here any more. */
static dfm_status ask_and_swap(dfm_cache *cache, struct snapshot *now, struct snapshot *next,
                               const dfm_consent *consent, bool *swapped, dfm_error *error) {
    dfm_status status = DFM_OK;
    *swapped = false;
    if (consent) {
        pthread_mutex_lock(&cache->shelf.lock);
        bool here = make_room_beside(cache, now, next, &status, error);
        pthread_mutex_unlock(&cache->shelf.lock);
        if (!here || status != DFM_OK)
            return status;
        status = dfm_consent_ask(consent, &next->resident, error);
    }
    return status == DFM_OK ? end_change(cache, now, next, swapped, error) : status;
}

static dfm_status configure(dfm_cache *cache, const char *id, const char *if_match,
                            const dfm_settings *settings, dfm_settings_given given,
                            const dfm_consent *consent, dfm_resident **resident, bool *missing,
                            dfm_error *error) {
    *resident = NULL;
    for (;;) {
        struct snapshot *now, *next;
        bool swapped;
        dfm_status status = begin_change(cache, id, if_match, &now, error);
        *missing = status == DFM_ERROR_NOT_FOUND || status == DFM_ERROR_EVICTED;
        if (status != DFM_OK)
            return status;
        dfm_settings merged = merge_settings(now->resident.settings, settings, given);
        if (same_settings(&merged, &now->resident.settings)) {
            status = dfm_consent_ask(consent, &now->resident, error);
            if (status == DFM_OK)
                *resident = &now->resident;
            else
                dfm_resident_release(&now->resident);
            return status;
        }
        status = snapshot_create(cache, now->loaded, &now->resident, &merged, &next, error);
        if (status == DFM_OK) {
            status = ask_and_swap(cache, now, next, consent, &swapped, error);
            if (status == DFM_OK && swapped)
                *resident = &next->resident;
            else
                dfm_resident_release(&next->resident);
        }
        dfm_resident_release(&now->resident);
        if (status != DFM_OK || *resident)
            return status;
    }
}

dfm_status dfm_cache_configure_asking(dfm_cache *cache, const char *id, const char *if_match,
                                      const dfm_settings *settings, dfm_settings_given given,
                                      const dfm_consent *consent, dfm_resident **resident,
                                      dfm_error *error) {
    bool missing;
    return configure(cache, id, if_match, settings, given, consent, resident, &missing, error);
}

dfm_status dfm_cache_configure(dfm_cache *cache, const char *id, const char *if_match,
                               const dfm_settings *settings, dfm_settings_given given,
                               dfm_resident **resident, dfm_error *error) {
    return dfm_cache_configure_asking(cache, id, if_match, settings, given, NULL, resident, error);
}

dfm_status dfm_cache_delete(dfm_cache *cache, const char *id, const char *if_match,
                            dfm_error *error) {
    struct snapshot *now;
    pthread_mutex_lock(&cache->shelf.lock);
    dfm_status status = find_matching(cache, id, if_match, &now, error);
    if (status == DFM_OK) {
        dfm_shelf_take(&cache->shelf, id);
        cache->shelf.stats.deletes++;
    }
    pthread_mutex_unlock(&cache->shelf.lock);
    if (status == DFM_OK)
        dfm_resident_release(&now->resident);
    return status;
}

size_t dfm_cache_list(dfm_cache *cache, const char *after, size_t limit, dfm_resident **residents,
                      bool *more) {
    return dfm_shelf_list(&cache->shelf, after, limit, residents, more);
}

static void count_on_gpu(const void *item, void *count) {
    const struct snapshot *snapshot = item;
    *(uint64_t *)count += snapshot->resident.effective_mode == DFM_MODE_GPU;
}

dfm_cache_stats dfm_cache_get_stats(dfm_cache *cache) {
    uint64_t on_gpu = 0;
    dfm_shelf_stats stats = dfm_shelf_get_stats(&cache->shelf);
    dfm_shelf_each(&cache->shelf, count_on_gpu, &on_gpu);
    return (dfm_cache_stats){.models = stats.count,
                             .models_on_gpu = on_gpu,
                             .resident_bytes = stats.used_bytes,
                             .budget_bytes = stats.budget_bytes,
                             .hits = stats.hits,
                             .misses = stats.misses,
                             .loads = stats.loads,
                             .evictions = stats.evictions,
                             .deletes = stats.deletes};
}
