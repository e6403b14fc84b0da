/* JSON documents about models. Each returns a document that the caller owns, or NULL without
 * memory. Thread safety: no state. */
#ifndef DFM_API_DOCUMENTS_H
#define DFM_API_DOCUMENTS_H

#include "core/cache.h"

#include <cjson/cJSON.h>

/* Words for settings, as queries and documents have them; NULL past the last. */
extern const char *const dfm_mode_words[];    /* by dfm_mode */
extern const char *const dfm_weights_words[]; /* by dfm_weights_mode */

cJSON *dfm_document_model(const dfm_resident *resident, const dfm_skinners *skinners);

cJSON *dfm_document_bones(const dfm_model *model);     /* {"bones": [...]} */
cJSON *dfm_document_materials(const dfm_model *model); /* {"textures": [...], "materials": [...]} */

/* {"morphs": [...]}. Offsets of vertices and UVs are only counted; others are listed up to
 * DFM_DOCUMENT_MAX_OFFSETS in all, so that a file cannot blow the answer up beyond reason. */
enum { DFM_DOCUMENT_MAX_OFFSETS = 65536 };
cJSON *dfm_document_morphs(const dfm_model *model);

#endif
