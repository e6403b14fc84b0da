/* Append (付与): a bone takes over a part of another bone's rotation or move (SEMANTICS 5). */
#include "core/pmx.h"
#include "core/rig/math.h"
#include "core/rig/solve.h"

#include <stdlib.h>

enum { ANY_APPEND = DFM_BONE_APPEND_ROTATION | DFM_BONE_APPEND_TRANSLATION };

typedef struct sources {
    const dfm_pmx *pmx;
    dfm_warnings *warnings;
    int32_t *above; /* each bone's source; -1 = takes nothing over */
} sources;

static uint32_t take_sources(const sources *s) {
    uint32_t appends = 0, count = s->pmx->bone_count;
    for (uint32_t i = 0; i < count; i++) {
        const dfm_pmx_bone *bone = &s->pmx->bones[i];
        s->above[i] = -1;
        if (!(bone->flags & ANY_APPEND))
            continue;
        int32_t source = bone->append_source;
        if (source < 0 || (uint32_t)source >= count || !isfinite(bone->append_ratio)) {
            dfm_warn(s->warnings, "append-invalid", i,
                     "bone %u takes over from bone %d of %u by the ratio %g; it takes nothing over "
                     "now (%s)",
                     i, source, count, (double)bone->append_ratio, bone->name.data);
            continue;
        }
        s->above[i] = source;
        appends++;
    }
    return appends;
}

static void warn_cycle(void *context, uint32_t bone, uint32_t source) {
    const sources *s = context;
    dfm_warn(s->warnings, "append-cycle", bone,
             "bone %u takes over from itself through bone %u; it takes nothing over now (%s)", bone,
             source, s->pmx->bones[bone].name.data);
}

static dfm_rig_append make_append(const sources *s, uint32_t bone) {
    const dfm_pmx_bone *taker = &s->pmx->bones[bone];
    uint32_t source = (uint32_t)s->above[bone];
    bool through = s->above[source] >= 0 && !(taker->flags & DFM_BONE_APPEND_LOCAL);
    uint16_t given = s->pmx->bones[source].flags;
    return (dfm_rig_append){
        .bone = bone,
        .source = source,
        .ratio = taker->append_ratio,
        .rotation = taker->flags & DFM_BONE_APPEND_ROTATION,
        .translation = taker->flags & DFM_BONE_APPEND_TRANSLATION,
        .through_rotation = through && (given & DFM_BONE_APPEND_ROTATION),
        .through_translation = through && (given & DFM_BONE_APPEND_TRANSLATION),
    };
}

dfm_status dfm_rig_take_appends(dfm_rig *rig, const dfm_pmx *pmx, dfm_arena *arena,
                                dfm_warnings *warnings, dfm_error *error) {
    uint32_t count = rig->bone_count;
    int32_t *scratch = calloc(4 * (size_t)count + 1, sizeof *scratch);
    sources s = {pmx, warnings, scratch};
    uint32_t append_count = scratch ? take_sources(&s) : 0;
    rig->appends = dfm_arena_alloc(arena, append_count, sizeof *rig->appends);
    if (!scratch || !rig->appends) {
        free(scratch);
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, "bones", -1, -1, "no memory for %u appends",
                        append_count);
    }
    uint32_t *sources_first = (uint32_t *)scratch + 3 * (size_t)count;
    dfm_forest_cut(s.above, count, (uint32_t *)scratch + count, warn_cycle, &s);
    dfm_forest_walk(s.above, count, scratch + count, sources_first);
    for (uint32_t i = 0; i < count; i++) {
        if (s.above[sources_first[i]] >= 0)
            rig->appends[rig->append_count++] = make_append(&s, sources_first[i]);
    }
    free(scratch);
    return DFM_OK;
}

/* What the source has of its own and hands on: ik * pose * morph, and its append where the chain
 * goes through it. */
static void handed_rotation(double out[4], const dfm_rig_local *source, bool through) {
    if (source->has_ik)
        quat_mul(out, source->ik, source->own);
    else
        memcpy(out, source->own, sizeof source->own);
    if (through && source->has_append)
        quat_mul(out, out, source->append);
}

void dfm_rig_append_apply(const dfm_rig_append *append, dfm_rig_local *locals) {
    const dfm_rig_local *source = &locals[append->source];
    dfm_rig_local *local = &locals[append->bone];
    quat_identity(local->append);
    local->append_move[0] = local->append_move[1] = local->append_move[2] = 0;
    if (append->rotation) {
        double handed[4];
        handed_rotation(handed, source, append->through_rotation);
        quat_scale_angle(local->append, handed, append->ratio);
    }
    for (int k = 0; append->translation && k < 3; k++) {
        double handed = source->own_move[k];
        if (append->through_translation && source->has_append)
            handed += source->append_move[k];
        local->append_move[k] = append->ratio * handed;
    }
    local->has_append = true;
}
