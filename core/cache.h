/* The model cache: uploaded models by id, under a byte budget, least recently used out first.
 *
 * An entry (dfm_resident) is an immutable snapshot: model, settings, bind data and binding. A
 * change of settings makes a new snapshot and swaps it in; requests that run keep the one they
 * began with, by its reference count, and so do models that are deleted or evicted meanwhile.
 * Thread safety: every function may be called by any thread; lookups hold a lock for the time of a
 * hash probe and never wait for a load, a bind or a skinner. */
#ifndef DFM_CORE_CACHE_H
#define DFM_CORE_CACHE_H

#include "core/consent.h"
#include "core/deform.h"
#include "core/id.h"

typedef enum dfm_mode { DFM_MODE_GPU, DFM_MODE_CPU } dfm_mode;

typedef struct dfm_settings {
    dfm_mode mode;
    bool sdef;
    dfm_weights_mode weights;
} dfm_settings;

/* The skinners of this process. `opencl` is NULL where no kernel is to be had, for the reason. */
typedef struct dfm_skinners {
    dfm_skinner *cpu, *opencl;
    char opencl_unavailable[256];
} dfm_skinners;

/* What was done with a model in this process, whatever its settings were, since it was loaded.
 * Counted by whoever deforms. */
typedef struct dfm_model_use {
    _Atomic uint64_t deforms, failures, frames; /* deforms asked for, failed ones among them */
    _Atomic uint64_t parse_ns, queue_ns, solve_ns, skin_ns, encode_ns;
    _Atomic int64_t last_unix_s; /* 0: never yet */
    int64_t since_unix_s;
} dfm_model_use;

typedef struct dfm_resident {
    dfm_id id;
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_settings settings;
    dfm_mode
        effective_mode; /* what runs; differs from settings.mode where no OpenCL kernel exists */
    dfm_deform_target target;
    dfm_model_use *use;
    size_t file_bytes;     /* of the upload */
    size_t resident_bytes; /* what counts against the budget */
    int64_t created_unix_s;
    char etag[72];               /* of the model document: changes with settings */
    _Atomic uint64_t checked_ns; /* a store was asked about it; kept by api/library */
    unsigned references;         /* dfm_resident_retain, dfm_resident_release */
} dfm_resident;

typedef struct dfm_cache dfm_cache;

typedef struct dfm_cache_options {
    size_t budget_bytes;
    dfm_pmx_limits limits;
    const dfm_skinners *skinners; /* borrowed; outlives the cache */
} dfm_cache_options;

typedef struct dfm_cache_stats {
    uint64_t models, resident_bytes, budget_bytes;
    uint64_t models_on_gpu; /* by effective mode */
    uint64_t hits, misses, loads, evictions, deletes;
} dfm_cache_stats;

dfm_status dfm_cache_create(const dfm_cache_options *options, dfm_cache **cache, dfm_error *error);
void dfm_cache_free(dfm_cache *cache); /* no resident may still be held */

/* Loads bytes and keeps them. Where they are here already, `settings` that `given` marks are
 * applied and *created is false. *resident has a reference for the caller.
 * Failures: dfm_model_load's; NO_ROOM; CONFLICT (same id, other digest); BACKEND (bind). */
typedef struct dfm_settings_given {
    bool mode, sdef, weights;
} dfm_settings_given;
dfm_status dfm_cache_put(dfm_cache *cache, const uint8_t *bytes, size_t size,
                         const dfm_settings *settings, dfm_settings_given given,
                         dfm_resident **resident, bool *created, dfm_error *error);

/* Loads bytes with the settings and the time that they have elsewhere. Where they are here already,
 * they get these settings. The consent (nullable) is asked of the dfm_resident. Failures: put's,
 * the consent's. */
dfm_status dfm_cache_restore(dfm_cache *cache, const uint8_t *bytes, size_t size,
                             int64_t created_unix_s, const dfm_settings *settings,
                             const dfm_consent *consent, dfm_resident **resident, dfm_error *error);

/* Whether it is here, with checked_ns of `since_ns` or later. */
bool dfm_cache_is_checked(dfm_cache *cache, const char *id, uint64_t since_ns);

/* Looks up and marks as used. Failures: NOT_FOUND, EVICTED. `id` is DFM_ID_DIGITS hex digits. */
dfm_status dfm_cache_get(dfm_cache *cache, const char *id, dfm_resident **resident,
                         dfm_error *error);

/* Changes settings: binds anew outside the lock, then swaps. Where `if_match` is not NULL it must
 * be the entry's etag (CONFLICT). Failures: those of get and put. */
dfm_status dfm_cache_configure(dfm_cache *cache, const char *id, const char *if_match,
                               const dfm_settings *settings, dfm_settings_given given,
                               dfm_resident **resident, dfm_error *error);

/* The same, with a consent that is asked of the new dfm_resident, or of the one that is here where
 * nothing changes; more than once where others change it at the same time. */
dfm_status dfm_cache_configure_asking(dfm_cache *cache, const char *id, const char *if_match,
                                      const dfm_settings *settings, dfm_settings_given given,
                                      const dfm_consent *consent, dfm_resident **resident,
                                      dfm_error *error);

dfm_status dfm_cache_delete(dfm_cache *cache, const char *id, const char *if_match,
                            dfm_error *error);

/* Up to `limit` residents with ids > `after` (NULL: from the first), sorted by id, each with a
 * reference for the caller. Returns how many; *more tells whether others follow. */
size_t dfm_cache_list(dfm_cache *cache, const char *after, size_t limit, dfm_resident **residents,
                      bool *more);

dfm_cache_stats dfm_cache_get_stats(dfm_cache *cache);

dfm_resident *dfm_resident_retain(dfm_resident *resident);
void dfm_resident_release(dfm_resident *resident); /* NULL is allowed */

#endif
