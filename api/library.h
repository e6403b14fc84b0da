/* The models and motions of the service: in memory (core/cache, core/motion_store) and, where there
 * is a store, in that, of which the memory then is a cache.
 *
 * What the store says holds. An item that is not in memory is loaded from it, once however many ask
 * for it at a time; its digest is checked. An item in memory is looked up in the store again when
 * the last look is longer ago than check_ms, by one of those who ask for it: so deletes, uploads
 * and settings of other processes are seen within that time. Where the store cannot be reached,
 * what is in memory goes on being served. An upload and a change are seen, and they and a delete
 * acknowledged, once the store has them. Two processes that change one item's settings at the same
 * moment are not kept apart: the later one's stay. Thread safety: every function may be called by
 * any thread. With a store all but must_ask and a get AT_ONCE block; the HTTP thread calls no
 * other. */
#ifndef DFM_API_LIBRARY_H
#define DFM_API_LIBRARY_H

#include "api/api.h"
#include "api/store.h"

#include <cjson/cJSON.h>

/* What it needs of the configuration: cache, motions, skinners, buffers, strict_mode, store,
 * store_check_ms, note. NULL: no memory. */
dfm_library *dfm_library_create(const dfm_api_config *config);
void dfm_library_free(dfm_library *library); /* NULL allowed */

typedef enum dfm_library_freshness {
    DFM_LIBRARY_CHECKED, /* as the store had it within check_ms, or has it now */
    DFM_LIBRARY_NOW,     /* as the store has it now; fails where that cannot be told */
    DFM_LIBRARY_AT_ONCE  /* as it is in memory; does not block. NO_MEMORY: it is not there any more
                          */
} dfm_library_freshness;

/* Failures: NOT_FOUND, EVICTED (without a store); loads: STORE, CORRUPT, and those of a put. */
dfm_status dfm_library_get_model(dfm_library *library, const char *id, dfm_library_freshness how,
                                 dfm_resident **resident, dfm_error *error);
dfm_status dfm_library_get_motion(dfm_library *library, const char *id, dfm_library_freshness how,
                                  dfm_stored_motion **stored, dfm_error *error);

/* True: to get it checked would ask the store. Cheap, and does not block. */
bool dfm_library_must_ask(dfm_library *library, dfm_store_kind kind, const char *id);

/* As dfm_cache_put and dfm_motion_store_put. Failures: theirs, STORE, STORE_FULL; UNAVAILABLE: the
 * model would run on the CPU where strict_mode refuses that. */
dfm_status dfm_library_put_model(dfm_library *library, const uint8_t *bytes, size_t size,
                                 const dfm_settings *settings, dfm_settings_given given,
                                 dfm_resident **resident, bool *created, dfm_error *error);
dfm_status dfm_library_put_motion(dfm_library *library, const uint8_t *bytes, size_t size,
                                  dfm_stored_motion **stored, bool *created, dfm_error *error);

/* As dfm_cache_configure. */
dfm_status dfm_library_configure(dfm_library *library, const char *id, const char *if_match,
                                 const dfm_settings *settings, dfm_settings_given given,
                                 dfm_resident **resident, dfm_error *error);

/* As dfm_cache_delete and dfm_motion_store_delete. */
dfm_status dfm_library_delete_model(dfm_library *library, const char *id, const char *if_match,
                                    dfm_error *error);
dfm_status dfm_library_delete_motion(dfm_library *library, const char *id, dfm_error *error);

/* {"models": [...], "next": id or null}, or motions, of ids > `after` (NULL: from the first). Of
 * what is only in the store, resident_bytes is 0. The caller owns it. Failures: NO_MEMORY, STORE.
 */
dfm_status dfm_library_list(dfm_library *library, dfm_store_kind kind, const char *after,
                            size_t limit, cJSON **document, dfm_error *error);

typedef struct dfm_library_stats {
    bool has_store;
    uint64_t loads, checks, puts, removes, failures; /* of the store */
    bool failing;                                    /* the last call failed */
} dfm_library_stats;

dfm_library_stats dfm_library_get_stats(dfm_library *library);

#endif
