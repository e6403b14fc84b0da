#include "core/rig/rig.h"
#include "core/pmx.h"
#include "core/rig/math.h"
#include "core/rig/solve.h"

static dfm_status no_memory(dfm_error *error) {
    return dfm_fail(error, DFM_ERROR_NO_MEMORY, "bones", -1, -1, "no memory for the rig");
}

/* A rotation is good when it has a direction; zero stands for none, as in the field's files. */
static bool clean_rotation(double out[4], const float in[4]) {
    double length2 = 0;
    for (int i = 0; i < 4; i++) {
        out[i] = in[i];
        length2 += out[i] * out[i];
    }
    if (!isfinite(length2))
        return false;
    quat_normalize(out);
    for (int i = 0; out[3] < 0 && i < 4; i++)
        out[i] = -out[i];
    return true;
}

static bool clean_offset(dfm_rig_morph_offset *out, const dfm_pmx_bone_offset *in,
                         uint32_t bone_count) {
    if (in->bone < 0 || (uint32_t)in->bone >= bone_count)
        return false;
    out->bone = (uint32_t)in->bone;
    for (int i = 0; i < 3; i++)
        out->translation[i] = in->translation[i];
    return isfinite(vec3_dot(out->translation, out->translation)) &&
           clean_rotation(out->rotation, in->rotation);
}

static dfm_status take_morph(dfm_rig *rig, const dfm_pmx *pmx, uint32_t index, dfm_arena *arena,
                             dfm_warnings *warnings, dfm_error *error) {
    const dfm_pmx_morph *source = &pmx->morphs[index];
    dfm_rig_morph *morph = &rig->morphs[rig->morph_count];
    morph->morph = index;
    morph->offsets = dfm_arena_alloc(arena, source->count, sizeof *morph->offsets);
    if (!morph->offsets)
        return no_memory(error);
    for (uint32_t i = 0; i < source->count; i++) {
        if (clean_offset(&morph->offsets[morph->count], &source->offsets.bones[i], rig->bone_count))
            morph->count++;
        else
            dfm_warn(
                warnings, "morph-offset-invalid", index,
                "morph %u, offset %u: no bone %d, or numbers that are not finite; dropped (%s)",
                index, i, source->offsets.bones[i].bone, source->name.data);
    }
    rig->morph_count++;
    return DFM_OK;
}

static dfm_status take_morphs(dfm_rig *rig, const dfm_pmx *pmx, dfm_arena *arena,
                              dfm_warnings *warnings, dfm_error *error) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < pmx->morph_count; i++)
        count += pmx->morphs[i].type == DFM_MORPH_BONE;
    rig->morphs = dfm_arena_alloc(arena, count, sizeof *rig->morphs);
    if (!rig->morphs)
        return no_memory(error);
    dfm_status status = DFM_OK;
    for (uint32_t i = 0; i < pmx->morph_count && status == DFM_OK; i++) {
        if (pmx->morphs[i].type == DFM_MORPH_BONE)
            status = take_morph(rig, pmx, i, arena, warnings, error);
    }
    return status;
}

static void take_rest(dfm_rig *rig, const dfm_pmx *pmx) {
    for (uint32_t i = 0; i < rig->bone_count; i++) {
        for (int k = 0; k < 3; k++)
            rig->bones[i].rest[k] = pmx->bones[i].position[k];
        rig->ik_count += (pmx->bones[i].flags & DFM_BONE_IK) != 0;
    }
    static const double origin[3] = {0, 0, 0};
    for (uint32_t i = 0; i < rig->bone_count; i++) {
        int32_t parent = rig->bones[i].parent;
        vec3_sub(rig->bones[i].rest_offset, rig->bones[i].rest,
                 parent < 0 ? origin : rig->bones[parent].rest);
    }
}

dfm_status dfm_rig_build(dfm_rig *rig, const dfm_pmx *pmx, dfm_arena *arena, dfm_warnings *warnings,
                         dfm_error *error) {
    *rig = (dfm_rig){.bone_count = pmx->bone_count};
    rig->bones = dfm_arena_alloc(arena, rig->bone_count, sizeof *rig->bones);
    if (!rig->bones)
        return no_memory(error);
    dfm_status status = dfm_rig_sort(rig, pmx, arena, warnings, error);
    if (status != DFM_OK)
        return status;
    take_rest(rig, pmx);
    return take_morphs(rig, pmx, arena, warnings, error);
}

enum { STATE_ALIGNMENT = 64 };

static size_t align_up(size_t bytes) {
    return (bytes + STATE_ALIGNMENT - 1) / STATE_ALIGNMENT * STATE_ALIGNMENT;
}

size_t dfm_rig_state_bytes(const dfm_rig *rig) {
    dfm_rig_state *none = NULL;
    size_t count = rig->bone_count;
    return align_up(count * sizeof *none->global) + align_up(count * sizeof *none->rotation) +
           align_up(count * sizeof *none->local) + STATE_ALIGNMENT;
}

void dfm_rig_state_place(dfm_rig_state *state, const dfm_rig *rig, void *memory) {
    char *at = memory;
    size_t count = rig->bone_count;
    state->global = (void *)at;
    at += align_up(count * sizeof *state->global);
    state->rotation = (void *)at;
    at += align_up(count * sizeof *state->rotation);
    state->local = (void *)at;
}
