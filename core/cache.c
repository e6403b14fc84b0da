#include "core/cache.h"

#include <nettle/sha2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVICTED_REMEMBERED = 1024 };

/* A model in memory, shared by the snapshots that bind it with different settings. */
struct loaded {
    dfm_model *model;
    size_t bytes;
    unsigned references; /* guarded by the cache's lock */
};

/* What stands behind a dfm_resident; the public part comes first. */
struct snapshot {
    dfm_resident resident;
    dfm_cache *cache;
    struct loaded *loaded;
    dfm_skin_bind *bind;
    size_t own_bytes; /* without the model, which others may share */
    bool counted;     /* own_bytes are in the cache's used_bytes */
};

struct entry {
    struct snapshot *snapshot; /* the table's reference */
    struct entry *newer, *older;
};

struct dfm_cache {
    pthread_mutex_t lock;
    dfm_cache_options options;
    struct entry **entries; /* sorted by id: ids are digests, so nobody can make this unbalanced */
    size_t entry_count, entry_capacity;
    struct entry *newest, *oldest; /* by use */
    size_t used_bytes; /* of everything not freed yet, deleted and evicted ones in use included */
    dfm_id evicted[EVICTED_REMEMBERED];
    size_t evicted_next;
    dfm_cache_stats stats;
};

/* --- table and list, under the lock --------------------------------------------------------- */

/* Where `id` is, or where it would go. */
static size_t lower_bound(const dfm_cache *cache, const char *id) {
    size_t first = 0, count = cache->entry_count;
    while (count > 0) {
        size_t half = count / 2;
        if (strcmp(cache->entries[first + half]->snapshot->resident.id.text, id) < 0) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

static struct entry *find(const dfm_cache *cache, const char *id) {
    size_t at = lower_bound(cache, id);
    if (at == cache->entry_count)
        return NULL;
    struct entry *entry = cache->entries[at];
    return strcmp(entry->snapshot->resident.id.text, id) == 0 ? entry : NULL;
}

static void list_remove(dfm_cache *cache, struct entry *entry) {
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
}

static void list_add_newest(dfm_cache *cache, struct entry *entry) {
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static void mark_used(dfm_cache *cache, struct entry *entry) {
    list_remove(cache, entry);
    list_add_newest(cache, entry);
}

/* Takes the entry out; its reference goes to the caller. */
static struct snapshot *table_remove(dfm_cache *cache, struct entry *entry) {
    struct snapshot *snapshot = entry->snapshot;
    size_t at = lower_bound(cache, snapshot->resident.id.text);
    memmove(&cache->entries[at], &cache->entries[at + 1],
            (cache->entry_count - at - 1) * sizeof *cache->entries);
    cache->entry_count--;
    list_remove(cache, entry);
    free(entry);
    return snapshot;
}

/* Puts a snapshot in; the table keeps a reference of its own. */
static dfm_status table_add(dfm_cache *cache, struct snapshot *snapshot, dfm_error *error) {
    if (cache->entry_count == cache->entry_capacity) {
        size_t capacity = cache->entry_capacity ? cache->entry_capacity * 2 : 64;
        struct entry **entries = realloc(cache->entries, capacity * sizeof *entries);
        if (!entries)
            return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for the table");
        cache->entries = entries;
        cache->entry_capacity = capacity;
    }
    struct entry *entry = malloc(sizeof *entry);
    if (!entry)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for an entry");
    entry->snapshot = snapshot;
    dfm_resident_retain(&snapshot->resident);
    size_t at = lower_bound(cache, snapshot->resident.id.text);
    memmove(&cache->entries[at + 1], &cache->entries[at],
            (cache->entry_count - at) * sizeof *cache->entries);
    cache->entries[at] = entry;
    cache->entry_count++;
    list_add_newest(cache, entry);
    return DFM_OK;
}

static void remember_evicted(dfm_cache *cache, const dfm_id *id) {
    cache->evicted[cache->evicted_next] = *id;
    cache->evicted_next = (cache->evicted_next + 1) % EVICTED_REMEMBERED;
}

static dfm_id *find_evicted(dfm_cache *cache, const char *id) {
    for (size_t i = 0; i < EVICTED_REMEMBERED; i++) {
        if (strcmp(cache->evicted[i].text, id) == 0)
            return &cache->evicted[i];
    }
    return NULL;
}

static void forget_evicted(dfm_cache *cache, const char *id) {
    dfm_id *evicted = find_evicted(cache, id);
    if (evicted)
        evicted->text[0] = 0;
}

static dfm_status fail_missing(dfm_cache *cache, const char *id, dfm_error *error) {
    if (find_evicted(cache, id))
        return dfm_fail(error, DFM_ERROR_EVICTED, NULL, -1, -1,
                        "model %s had to make room for others: upload it again", id);
    return dfm_fail(error, DFM_ERROR_NOT_FOUND, NULL, -1, -1, "no model %s", id);
}

/* --- snapshots ------------------------------------------------------------------------------ */

static struct snapshot *snapshot_of(dfm_resident *resident) {
    return (struct snapshot *)resident;
}

/* Takes bytes from the count and the model's reference back; true: the model is to be freed. */
static bool uncount(struct snapshot *snapshot) {
    dfm_cache *cache = snapshot->cache;
    pthread_mutex_lock(&cache->lock);
    bool last = --snapshot->loaded->references == 0;
    if (snapshot->counted)
        cache->used_bytes -= snapshot->own_bytes + (last ? snapshot->loaded->bytes : 0);
    pthread_mutex_unlock(&cache->lock);
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

static void hex(char *out, const uint8_t *bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * count] = 0;
}

void dfm_digest(const uint8_t *bytes, size_t size, uint8_t digest[DFM_DIGEST_BYTES], dfm_id *id) {
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, size, bytes);
    sha256_digest(&context, DFM_DIGEST_BYTES, digest);
    hex(id->text, digest, DFM_ID_DIGITS / 2);
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
    hex(resident->etag + 1, digest, 16);
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
    pthread_mutex_lock(&cache->lock);
    loaded->references++;
    pthread_mutex_unlock(&cache->lock);
    snapshot->cache = cache;
    snapshot->loaded = loaded;
    dfm_resident *resident = &snapshot->resident;
    resident->id = origin->id;
    memcpy(resident->digest, origin->digest, sizeof resident->digest);
    resident->file_bytes = origin->file_bytes;
    resident->created_unix_s = origin->created_unix_s;
    resident->settings = *settings;
    resident->target.model = loaded->model;
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

/* --- room ----------------------------------------------------------------------------------- */

/* The table's reference is the only one: no request uses it, and none can begin to without the
 * lock. */
static bool is_idle(const struct snapshot *snapshot) {
    return reference_count(snapshot) == 1;
}

static size_t idle_bytes(const dfm_cache *cache) {
    size_t bytes = 0;
    for (const struct entry *entry = cache->newest; entry; entry = entry->older) {
        const struct snapshot *snapshot = entry->snapshot;
        if (is_idle(snapshot))
            bytes += snapshot->own_bytes +
                     (snapshot->loaded->references == 1 ? snapshot->loaded->bytes : 0);
    }
    return bytes;
}

static struct entry *oldest_idle(const dfm_cache *cache) {
    struct entry *entry = cache->oldest;
    while (entry && !is_idle(entry->snapshot))
        entry = entry->newer;
    return entry;
}

/* Makes room for `need` more bytes by evicting idle models, least recently used first; refuses
 * before it evicts any where that could not be enough. Called with the lock held and returns with
 * it held, but lets it go while it frees: *unlocked says that the table may have changed. */
static dfm_status make_room(dfm_cache *cache, size_t need, bool *unlocked, dfm_error *error) {
    size_t budget = cache->options.budget_bytes;
    *unlocked = false;
    while (need > budget || cache->used_bytes > budget - need) {
        size_t idle = idle_bytes(cache);
        struct entry *victim = oldest_idle(cache);
        if (need > budget || !victim || cache->used_bytes - idle > budget - need)
            return dfm_fail(error, DFM_ERROR_NO_ROOM, NULL, -1, -1,
                            "the model takes %zu bytes of a cache of %zu, of which models in use "
                            "hold %zu",
                            need, budget, cache->used_bytes - idle);
        struct snapshot *snapshot = table_remove(cache, victim);
        remember_evicted(cache, &snapshot->resident.id);
        cache->stats.evictions++;
        pthread_mutex_unlock(&cache->lock);
        dfm_resident_release(&snapshot->resident);
        pthread_mutex_lock(&cache->lock);
        *unlocked = true;
    }
    return DFM_OK;
}

static void count_bytes(dfm_cache *cache, struct snapshot *snapshot, size_t bytes) {
    cache->used_bytes += bytes;
    snapshot->counted = true;
}

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
    pthread_mutex_lock(&cache->lock);
    bool last = --loaded->references == 0;
    pthread_mutex_unlock(&cache->lock);
    if (last) {
        dfm_model_release(loaded->model);
        free(loaded);
    }
    return status;
}

/* Puts a new snapshot into the table unless its id is there by now: then *found is the entry. */
static dfm_status insert(dfm_cache *cache, struct snapshot *snapshot, bool *found,
                         dfm_error *error) {
    dfm_status status = DFM_OK;
    bool unlocked = true;
    pthread_mutex_lock(&cache->lock);
    while (status == DFM_OK && unlocked) {
        *found = find(cache, snapshot->resident.id.text) != NULL;
        if (*found)
            break;
        status = make_room(cache, snapshot->resident.resident_bytes, &unlocked, error);
    }
    if (status == DFM_OK && !*found)
        status = table_add(cache, snapshot, error);
    if (status == DFM_OK && !*found) {
        count_bytes(cache, snapshot, snapshot->resident.resident_bytes);
        forget_evicted(cache, snapshot->resident.id.text);
        cache->stats.loads++;
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

static dfm_status check_digest(dfm_cache *cache, const dfm_resident *origin, bool *found,
                               dfm_error *error) {
    dfm_status status = DFM_OK;
    pthread_mutex_lock(&cache->lock);
    const struct entry *entry = find(cache, origin->id.text);
    *found = entry != NULL;
    if (entry && memcmp(entry->snapshot->resident.digest, origin->digest, DFM_DIGEST_BYTES) != 0)
        status = dfm_fail(error, DFM_ERROR_CONFLICT, NULL, -1, -1, "another file has the id %s",
                          origin->id.text);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

dfm_status dfm_cache_put(dfm_cache *cache, const uint8_t *bytes, size_t size,
                         const dfm_settings *settings, dfm_settings_given given,
                         dfm_resident **resident, bool *created, dfm_error *error) {
    dfm_resident origin = {.file_bytes = size, .created_unix_s = (int64_t)time(NULL)};
    dfm_digest(bytes, size, origin.digest, &origin.id);
    *resident = NULL;
    for (;;) {
        bool found;
        dfm_status status = check_digest(cache, &origin, &found, error);
        if (status != DFM_OK)
            return status;
        *created = !found;
        if (found) {
            dfm_error missing = {.status = DFM_OK};
            status = dfm_cache_configure(cache, origin.id.text, NULL, settings, given, resident,
                                         &missing);
            if (status == DFM_ERROR_NOT_FOUND || status == DFM_ERROR_EVICTED)
                continue; /* it left in between: load it */
            if (status != DFM_OK && error && error->status == DFM_OK)
                *error = missing;
            return status;
        }
        struct snapshot *snapshot;
        status = load_snapshot(cache, bytes, size, &origin, settings, &snapshot, error);
        if (status != DFM_OK)
            return status;
        status = insert(cache, snapshot, &found, error);
        if (status == DFM_OK && !found) {
            *resident = &snapshot->resident;
            return DFM_OK;
        }
        dfm_resident_release(&snapshot->resident);
        if (status != DFM_OK)
            return status;
    }
}

/* --- the rest of the public functions ------------------------------------------------------- */

dfm_status dfm_cache_create(const dfm_cache_options *options, dfm_cache **cache, dfm_error *error) {
    *cache = calloc(1, sizeof **cache);
    if (!*cache)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for the cache");
    (*cache)->options = *options;
    (*cache)->stats.budget_bytes = options->budget_bytes;
    pthread_mutex_init(&(*cache)->lock, NULL);
    return DFM_OK;
}

void dfm_cache_free(dfm_cache *cache) {
    if (!cache)
        return;
    while (cache->newest)
        dfm_resident_release(&table_remove(cache, cache->newest)->resident);
    pthread_mutex_destroy(&cache->lock);
    free(cache->entries);
    free(cache);
}

dfm_status dfm_cache_get(dfm_cache *cache, const char *id, dfm_resident **resident,
                         dfm_error *error) {
    dfm_status status = DFM_OK;
    *resident = NULL;
    pthread_mutex_lock(&cache->lock);
    struct entry *entry = find(cache, id);
    if (entry) {
        mark_used(cache, entry);
        *resident = dfm_resident_retain(&entry->snapshot->resident);
        cache->stats.hits++;
    } else {
        status = fail_missing(cache, id, error);
        cache->stats.misses++;
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

static dfm_status check_if_match(const dfm_resident *resident, const char *if_match,
                                 dfm_error *error) {
    if (!if_match || strcmp(resident->etag, if_match) == 0)
        return DFM_OK;
    return dfm_fail(error, DFM_ERROR_CONFLICT, NULL, -1, -1, "the model's ETag is %s, not %s",
                    resident->etag, if_match);
}

/* Finds what is to be changed, with a reference for the caller. */
static dfm_status begin_change(dfm_cache *cache, const char *id, const char *if_match,
                               struct snapshot **now, dfm_error *error) {
    pthread_mutex_lock(&cache->lock);
    struct entry *entry = find(cache, id);
    dfm_status status = entry ? check_if_match(&entry->snapshot->resident, if_match, error)
                              : fail_missing(cache, id, error);
    if (status == DFM_OK) {
        mark_used(cache, entry);
        *now = entry->snapshot;
        dfm_resident_retain(&entry->snapshot->resident);
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

/* Swaps `next` in for `now` where the table still holds that; else *swapped is false. */
static dfm_status end_change(dfm_cache *cache, struct snapshot *now, struct snapshot *next,
                             bool *swapped, dfm_error *error) {
    dfm_status status = DFM_OK;
    bool unlocked = true;
    struct entry *entry = NULL;
    pthread_mutex_lock(&cache->lock);
    while (status == DFM_OK && unlocked) {
        entry = find(cache, now->resident.id.text);
        if (!entry || entry->snapshot != now) {
            entry = NULL;
            break;
        }
        /* The table's reference and the caller's: nobody else keeps the old one in memory. */
        size_t freed = reference_count(now) == 2 ? now->own_bytes : 0;
        size_t need = next->own_bytes > freed ? next->own_bytes - freed : 0;
        status = make_room(cache, need, &unlocked, error);
    }
    *swapped = status == DFM_OK && entry;
    if (*swapped) {
        count_bytes(cache, next, next->own_bytes);
        entry->snapshot = next;
        dfm_resident_retain(&next->resident);
    }
    pthread_mutex_unlock(&cache->lock);
    if (*swapped)
        dfm_resident_release(&now->resident); /* the table's */
    return status;
}

dfm_status dfm_cache_configure(dfm_cache *cache, const char *id, const char *if_match,
                               const dfm_settings *settings, dfm_settings_given given,
                               dfm_resident **resident, dfm_error *error) {
    *resident = NULL;
    for (;;) {
        struct snapshot *now, *next;
        bool swapped;
        dfm_status status = begin_change(cache, id, if_match, &now, error);
        if (status != DFM_OK)
            return status;
        dfm_settings merged = merge_settings(now->resident.settings, settings, given);
        if (same_settings(&merged, &now->resident.settings)) {
            *resident = &now->resident;
            return DFM_OK;
        }
        status = snapshot_create(cache, now->loaded, &now->resident, &merged, &next, error);
        if (status == DFM_OK) {
            status = end_change(cache, now, next, &swapped, error);
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

dfm_status dfm_cache_delete(dfm_cache *cache, const char *id, const char *if_match,
                            dfm_error *error) {
    struct snapshot *removed = NULL;
    pthread_mutex_lock(&cache->lock);
    struct entry *entry = find(cache, id);
    dfm_status status = entry ? check_if_match(&entry->snapshot->resident, if_match, error)
                              : fail_missing(cache, id, error);
    if (status == DFM_OK) {
        removed = table_remove(cache, entry);
        cache->stats.deletes++;
    }
    pthread_mutex_unlock(&cache->lock);
    if (removed)
        dfm_resident_release(&removed->resident);
    return status;
}

size_t dfm_cache_list(dfm_cache *cache, const char *after, size_t limit, dfm_resident **residents,
                      bool *more) {
    pthread_mutex_lock(&cache->lock);
    size_t at = after ? lower_bound(cache, after) : 0;
    if (after && at < cache->entry_count &&
        strcmp(cache->entries[at]->snapshot->resident.id.text, after) == 0)
        at++;
    size_t count = cache->entry_count - at < limit ? cache->entry_count - at : limit;
    for (size_t i = 0; i < count; i++)
        residents[i] = dfm_resident_retain(&cache->entries[at + i]->snapshot->resident);
    *more = at + count < cache->entry_count;
    pthread_mutex_unlock(&cache->lock);
    return count;
}

dfm_cache_stats dfm_cache_get_stats(dfm_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    dfm_cache_stats stats = cache->stats;
    stats.models = cache->entry_count;
    stats.resident_bytes = cache->used_bytes;
    pthread_mutex_unlock(&cache->lock);
    return stats;
}
