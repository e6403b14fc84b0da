/* A loaded model: the PMX document and what is worked out from it once. Immutable after load.
 *
 * Thread safety: any number of threads may read a model; retain and release are atomic. */
#ifndef DFM_CORE_MODEL_H
#define DFM_CORE_MODEL_H

#include "core/morph.h"
#include "core/names.h"
#include "core/pmx.h"
#include "core/rig/rig.h"

typedef struct dfm_model {
    dfm_pmx pmx;
    dfm_names bone_names, morph_names; /* name -> index; of equal names the first wins */
    dfm_rig rig;
    dfm_morph_graph morph_graph;
    dfm_warnings warnings;
    uint64_t weight_type_counts[DFM_WEIGHT_TYPE_COUNT];
    float bounds_min[3], bounds_max[3]; /* of the bind positions; zero without vertices */
    dfm_arena arena;
    unsigned references; /* use dfm_model_retain and dfm_model_release */
} dfm_model;

/* Reads PMX bytes into a model with one reference, owned by the caller. Failures: dfm_pmx_read's.
 */
dfm_status dfm_model_load(const uint8_t *bytes, size_t size, const dfm_pmx_limits *limits,
                          dfm_model **model, dfm_error *error);

dfm_model *dfm_model_retain(dfm_model *model);
void dfm_model_release(dfm_model *model); /* NULL is allowed */

/* Bytes that the model holds in memory, without what skinners bind. */
size_t dfm_model_resident_bytes(const dfm_model *model);

#endif
