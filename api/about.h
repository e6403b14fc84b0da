/* What a store keeps about an upload beside its bytes: a JSON text.
 *
 *     {"digest": "<64 hex digits>", "bytes": n, "created_unix_s": n,
 *      "settings": {"mode": "gpu", "sdef": true, "weights": "normalized"},     (models)
 *      "document": {...}}      the document when it was written, for lists; may be missing
 *
 * Thread safety: no state. */
#ifndef DFM_API_ABOUT_H
#define DFM_API_ABOUT_H

#include "api/store.h"
#include "core/cache.h"

#include <cjson/cJSON.h>

typedef struct dfm_about {
    uint8_t digest[DFM_DIGEST_BYTES];
    uint64_t file_bytes;
    int64_t created_unix_s;
    dfm_settings settings; /* of models */
} dfm_about;

/* The text, without the document where it would be too long with it; free() it. The document is the
 * caller's, NULL allowed. NULL: no memory. */
char *dfm_about_write(const dfm_about *about, dfm_store_kind kind, cJSON *document);

/* *document (nullable) is NULL where there is none, or no memory for it, else the caller's.
 * Failures: CORRUPT, the text is not what was written, or is about another item. */
dfm_status dfm_about_read(const char *text, dfm_store_kind kind, const dfm_id *id, dfm_about *about,
                          cJSON **document, dfm_error *error);

#endif
