#include "core/model.h"

#include <stdlib.h>
#include <string.h>

static dfm_status index_names(dfm_names *names, dfm_arena *arena, const void *first, uint32_t count,
                              size_t stride_bytes, const char *code, const char *what,
                              dfm_warnings *warnings, dfm_error *error) {
    int64_t first_hidden;
    int64_t hidden =
        dfm_names_build(names, arena, first, count, (uint32_t)stride_bytes, &first_hidden);
    if (hidden < 0)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for %s names", what);
    for (int64_t i = 0; i < hidden; i++)
        dfm_warn(warnings, code, first_hidden,
                 "%ss with the name of an earlier one: by name the first is found, the others by "
                 "index",
                 what);
    return DFM_OK;
}

static dfm_status index_all_names(dfm_model *model, dfm_error *error) {
    const dfm_pmx *pmx = &model->pmx;
    dfm_status status =
        index_names(&model->bone_names, &model->arena, pmx->bone_count ? &pmx->bones[0].name : NULL,
                    pmx->bone_count, sizeof *pmx->bones, "bone-name-duplicate", "bone",
                    &model->warnings, error);
    if (status != DFM_OK)
        return status;
    return index_names(&model->morph_names, &model->arena,
                       pmx->morph_count ? &pmx->morphs[0].name : NULL, pmx->morph_count,
                       sizeof *pmx->morphs, "morph-name-duplicate", "morph", &model->warnings,
                       error);
}

static void count_weight_types(dfm_model *model) {
    const dfm_pmx_vertices *vertices = &model->pmx.vertices;
    for (uint32_t i = 0; i < vertices->count; i++)
        model->weight_type_counts[vertices->weight_type[i]]++;
}

static void measure_bounds(dfm_model *model) {
    const dfm_pmx_vertices *vertices = &model->pmx.vertices;
    for (uint32_t i = 0; i < vertices->count; i++) {
        for (int k = 0; k < 3; k++) {
            float x = vertices->position[i][k];
            if (i == 0 || x < model->bounds_min[k])
                model->bounds_min[k] = x;
            if (i == 0 || x > model->bounds_max[k])
                model->bounds_max[k] = x;
        }
    }
}

static dfm_status fill(dfm_model *model, const uint8_t *bytes, size_t size,
                       const dfm_pmx_limits *limits, dfm_error *error) {
    dfm_status status =
        dfm_pmx_read(bytes, size, limits, &model->arena, &model->warnings, &model->pmx, error);
    if (status == DFM_OK)
        status = index_all_names(model, error);
    if (status == DFM_OK)
        status = dfm_rig_build(&model->rig, &model->pmx, &model->arena, &model->warnings, error);
    if (status == DFM_OK)
        status = dfm_morph_graph_build(&model->morph_graph, &model->pmx, &model->arena,
                                       &model->warnings, error);
    if (status != DFM_OK)
        return status;
    count_weight_types(model);
    measure_bounds(model);
    return DFM_OK;
}

dfm_status dfm_model_load(const uint8_t *bytes, size_t size, const dfm_pmx_limits *limits,
                          dfm_model **model, dfm_error *error) {
    *model = NULL;
    dfm_model *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for a model");
    loaded->references = 1;
    dfm_status status = fill(loaded, bytes, size, limits, error);
    if (status != DFM_OK) {
        dfm_model_release(loaded);
        return status;
    }
    *model = loaded;
    return DFM_OK;
}

dfm_model *dfm_model_retain(dfm_model *model) {
    __atomic_add_fetch(&model->references, 1, __ATOMIC_RELAXED);
    return model;
}

void dfm_model_release(dfm_model *model) {
    if (!model || __atomic_sub_fetch(&model->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    dfm_arena_free(&model->arena);
    free(model);
}

size_t dfm_model_resident_bytes(const dfm_model *model) {
    return sizeof *model + model->arena.bytes;
}
