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

static dfm_status take_fixed_axes(dfm_rig *rig, const dfm_pmx *pmx, dfm_arena *arena,
                                  dfm_warnings *warnings, dfm_error *error) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < pmx->bone_count; i++)
        count += (pmx->bones[i].flags & DFM_BONE_FIXED_AXIS) != 0;
    rig->fixed_axes = dfm_arena_alloc(arena, count, sizeof *rig->fixed_axes);
    if (!rig->fixed_axes)
        return no_memory(error);
    for (uint32_t i = 0; i < pmx->bone_count; i++) {
        if (!(pmx->bones[i].flags & DFM_BONE_FIXED_AXIS))
            continue;
        dfm_rig_fixed_axis *fixed = &rig->fixed_axes[rig->fixed_axis_count];
        *fixed = (dfm_rig_fixed_axis){.bone = i};
        for (int k = 0; k < 3; k++)
            fixed->axis[k] = pmx->bones[i].fixed_axis[k];
        if (vec3_unit(fixed->axis))
            rig->fixed_axis_count++;
        else
            dfm_warn(warnings, "fixed-axis-invalid", i,
                     "bone %u has a fixed axis without a direction; it turns freely (%s)", i,
                     pmx->bones[i].name.data);
    }
    return DFM_OK;
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
    status = take_fixed_axes(rig, pmx, arena, warnings, error);
    if (status == DFM_OK)
        status = dfm_rig_take_appends(rig, pmx, arena, warnings, error);
    if (status == DFM_OK)
        status = dfm_rig_take_solvers(rig, pmx, arena, warnings, error);
    if (status == DFM_OK)
        status = take_morphs(rig, pmx, arena, warnings, error);
    return status;
}

/* Where the arrays of a state lie in its memory. */
typedef struct state_layout {
    size_t global, rotation, local, stamps, links, bytes;
} state_layout;

static size_t place_array(size_t *at, size_t count, size_t size) {
    enum { ALIGNMENT = 64 };
    size_t here = *at;
    *at = (here + count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return here;
}

static state_layout lay_out(const dfm_rig *rig) {
    const dfm_rig_state *none = NULL;
    state_layout layout = {0};
    size_t count = rig->bone_count, *at = &layout.bytes;
    layout.global = place_array(at, count, sizeof *none->global);
    layout.rotation = place_array(at, count, sizeof *none->rotation);
    layout.local = place_array(at, count, sizeof *none->local);
    layout.stamps = place_array(at, count, sizeof *none->stamps);
    layout.links = place_array(at, rig->max_link_count, sizeof *none->links);
    return layout;
}

size_t dfm_rig_state_bytes(const dfm_rig *rig) {
    size_t bytes = lay_out(rig).bytes;
    return bytes > 0 ? bytes : 64;
}

void dfm_rig_state_place(dfm_rig_state *state, const dfm_rig *rig, void *memory) {
    state_layout layout = lay_out(rig);
    char *base = memory;
    state->global = (void *)(base + layout.global);
    state->rotation = (void *)(base + layout.rotation);
    state->local = (void *)(base + layout.local);
    state->stamps = (void *)(base + layout.stamps);
    state->links = (void *)(base + layout.links);
}
