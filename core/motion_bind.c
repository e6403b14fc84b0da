#include "core/cp932.h"
#include "core/motion.h"

#include <stdlib.h>

/* Names of a model as VMD files write them: CP932, cut. */
typedef struct cut_names {
    dfm_text *texts; /* empty where left out: no track has that name */
    dfm_names names;
} cut_names;

typedef struct binder {
    const dfm_model *model;
    dfm_cp932 cp932;
    dfm_arena scratch; /* what only binding needs */
} binder;

static bool cut_name(binder *b, const dfm_text *name, size_t capacity, dfm_text *cut) {
    uint8_t *bytes = dfm_arena_alloc(&b->scratch, capacity, 1);
    if (!bytes)
        return false;
    size_t length = dfm_cp932_encode(&b->cp932, name->data, name->length, bytes, capacity);
    *cut = (dfm_text){(const char *)bytes, (uint32_t)length};
    return true;
}

static bool index_names(binder *b, cut_names *cut, uint32_t count) {
    int64_t hidden;
    return dfm_names_build(&cut->names, &b->scratch, cut->texts, count, sizeof *cut->texts,
                           &hidden) >= 0;
}

/* `wanted_flags`: bones without one of them are left out. */
static bool cut_bone_names(binder *b, cut_names *cut, size_t capacity, uint16_t wanted_flags) {
    const dfm_pmx *pmx = &b->model->pmx;
    cut->texts = dfm_arena_alloc(&b->scratch, pmx->bone_count, sizeof *cut->texts);
    bool good = cut->texts;
    for (uint32_t i = 0; good && i < pmx->bone_count; i++) {
        cut->texts[i] = (dfm_text){"", 0};
        if ((pmx->bones[i].flags & wanted_flags) == wanted_flags)
            good = cut_name(b, &pmx->bones[i].name, capacity, &cut->texts[i]);
    }
    return good && index_names(b, cut, pmx->bone_count);
}

static bool cut_morph_names(binder *b, cut_names *cut) {
    const dfm_pmx *pmx = &b->model->pmx;
    cut->texts = dfm_arena_alloc(&b->scratch, pmx->morph_count, sizeof *cut->texts);
    bool good = cut->texts;
    for (uint32_t i = 0; good && i < pmx->morph_count; i++)
        good = cut_name(b, &pmx->morphs[i].name, DFM_VMD_NAME_BYTES, &cut->texts[i]);
    return good && index_names(b, cut, pmx->morph_count);
}

static int32_t find(const cut_names *cut, const dfm_vmd_track *track) {
    if (track->raw_length == 0)
        return -1;
    return dfm_names_find(&cut->names, (const char *)track->raw, track->raw_length);
}

static bool match(dfm_arena *arena, const dfm_vmd_track *tracks, uint32_t count,
                  const cut_names *cut, dfm_motion_targets *targets) {
    targets->track_count = count;
    targets->target = dfm_arena_alloc(arena, count, sizeof *targets->target);
    if (!targets->target)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        targets->target[i] = find(cut, &tracks[i]);
        targets->matched_count += targets->target[i] >= 0;
    }
    return true;
}

/* Property keys have room for 20 bytes of a name, and some programs cut at 15 there too. */
static void match_short_iks(const dfm_vmd *vmd, const cut_names *cut, dfm_motion_targets *targets) {
    for (uint32_t i = 0; i < targets->track_count; i++) {
        const dfm_vmd_track *track = &vmd->ik_tracks[i];
        if (targets->target[i] >= 0 || track->raw_length != DFM_VMD_NAME_BYTES)
            continue;
        targets->target[i] = find(cut, track);
        targets->matched_count += targets->target[i] >= 0;
    }
}

static bool match_all(binder *b, dfm_motion_binding *binding) {
    const dfm_vmd *vmd = &binding->motion->vmd;
    cut_names bones, iks, short_iks, morphs;
    bool good =
        cut_bone_names(b, &bones, DFM_VMD_NAME_BYTES, 0) &&
        cut_bone_names(b, &iks, DFM_VMD_IK_NAME_BYTES, DFM_BONE_IK) &&
        cut_bone_names(b, &short_iks, DFM_VMD_NAME_BYTES, DFM_BONE_IK) &&
        cut_morph_names(b, &morphs) &&
        match(&binding->arena, vmd->bone_tracks, vmd->bone_track_count, &bones, &binding->bones) &&
        match(&binding->arena, vmd->morph_tracks, vmd->morph_track_count, &morphs,
              &binding->morphs) &&
        match(&binding->arena, vmd->ik_tracks, vmd->ik_track_count, &iks, &binding->iks);
    if (good)
        match_short_iks(vmd, &short_iks, &binding->iks);
    return good;
}

dfm_status dfm_motion_bind(dfm_motion *motion, const dfm_model *model, dfm_motion_binding **binding,
                           dfm_error *error) {
    *binding = NULL;
    binder b = {.model = model};
    dfm_status status = dfm_cp932_open(&b.cp932, error);
    if (status != DFM_OK)
        return status;
    dfm_motion_binding *bound = calloc(1, sizeof *bound);
    bool good = bound;
    if (good) {
        bound->motion = dfm_motion_retain(motion);
        bound->model = dfm_model_retain((dfm_model *)(uintptr_t)model); /* counts, no more */
        good = match_all(&b, bound);
    }
    dfm_arena_free(&b.scratch);
    dfm_cp932_close(&b.cp932);
    if (!good) {
        dfm_motion_binding_free(bound);
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1,
                        "no memory to bind a motion to a model");
    }
    *binding = bound;
    return DFM_OK;
}

void dfm_motion_binding_free(dfm_motion_binding *binding) {
    if (!binding)
        return;
    dfm_motion_release(binding->motion);
    dfm_model_release(binding->model);
    dfm_arena_free(&binding->arena);
    free(binding);
}

uint32_t dfm_motion_unmatched_count(const dfm_motion_binding *binding) {
    const dfm_motion_targets *kinds[] = {&binding->bones, &binding->morphs, &binding->iks};
    uint32_t count = 0;
    for (int i = 0; i < 3; i++)
        count += kinds[i]->track_count - kinds[i]->matched_count;
    return count;
}
