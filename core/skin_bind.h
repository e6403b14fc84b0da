/* Bind data: a model's vertices in the form that both skinners work on, made once per model and
 * setting. Immutable after dfm_skin_bind_create, shared by any number of threads.
 *
 * Here the weights are made clean (or kept raw), SDEF is corrected (R0', R1'), vertices are sorted
 * by (kind, bones) into the blocks of kernels/skin_layout.h, and vertex morph offsets are turned
 * into slots. Every repair is counted in `warnings`. Source of the rules: SEMANTICS 2. */
#ifndef DFM_CORE_SKIN_BIND_H
#define DFM_CORE_SKIN_BIND_H

#include "core/model.h"
#include "kernels/skin_layout.h"

typedef enum dfm_weights_mode { DFM_WEIGHTS_NORMALIZED, DFM_WEIGHTS_RAW } dfm_weights_mode;

typedef struct dfm_skin_bind {
    const dfm_model *model; /* borrowed: the model outlives the bind data */
    uint32_t vertex_count, bone_count, block_count;
    bool has_sdef, has_qdef; /* some block is SDEF (needs rotations), QDEF (needs duals too) */
    dfm_skin_block *blocks;  /* block_count */
    float *data;             /* row_count x DFM_LANES */
    size_t row_count;
    uint32_t *vertex;      /* block_count x DFM_LANES: file index of a lane */
    uint32_t *slot;        /* vertex_count: block * DFM_LANES + lane of a vertex */
    dfm_warnings warnings; /* repairs */
    dfm_arena arena;
} dfm_skin_bind;

/* Failures: DFM_ERROR_NO_MEMORY. */
dfm_status dfm_skin_bind_create(const dfm_model *model, dfm_weights_mode weights, bool sdef,
                                dfm_skin_bind **bind, dfm_error *error);
void dfm_skin_bind_free(dfm_skin_bind *bind);
size_t dfm_skin_bind_resident_bytes(const dfm_skin_bind *bind);

#endif
