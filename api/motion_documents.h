/* JSON documents about motions. Each returns a document that the caller owns, or NULL without
 * memory. Thread safety: no state. */
#ifndef DFM_API_MOTION_DOCUMENTS_H
#define DFM_API_MOTION_DOCUMENTS_H

#include "core/motion_store.h"

#include <cjson/cJSON.h>

cJSON *dfm_document_motion(const dfm_stored_motion *stored);

/* {"motion": id, "model": id, "matched": n, "unmatched": n, "bones": {"has": [...], "lacks":
 * [...]}, "morphs":
 * ..., "ik": ...}, "has" and "lacks" said of the model. */
cJSON *dfm_document_match(const dfm_stored_motion *stored, const dfm_id *model,
                          const dfm_motion_binding *binding);

#endif
