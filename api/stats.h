/* What was done with a model in this process: GET /models/{id}/stats. Thread safety: any thread. */
#ifndef DFM_API_STATS_H
#define DFM_API_STATS_H

#include "api/metrics.h"
#include "core/cache.h"

#include <cjson/cJSON.h>

/* A deform has been answered, or its stream begun. */
void dfm_stats_count(dfm_model_use *use, const dfm_account *account);

/* Adds the times of frames that were made since: a stream's. SEND is left out. */
void dfm_stats_add_times(dfm_model_use *use, const uint64_t stage_ns[DFM_STAGE_COUNT]);

/* The caller owns it; NULL: no memory. */
cJSON *dfm_stats_document(const dfm_resident *resident);

#endif
