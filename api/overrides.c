#include "api/overrides.h"

#include <stdlib.h>
#include <string.h>

dfm_overrides *dfm_overrides_create(const dfm_model *model) {
    size_t bones = model->pmx.bone_count, morphs = model->pmx.morph_count;
    dfm_overrides *overrides = calloc(1, sizeof *overrides + bones * (sizeof(dfm_bone_pose) + 3) +
                                             morphs * (sizeof(double) + 1));
    if (!overrides)
        return NULL;
    dfm_pose *pose = &overrides->pose;
    pose->bone_count = (uint32_t)bones;
    pose->morph_count = (uint32_t)morphs;
    pose->bones = (dfm_bone_pose *)(overrides + 1);
    pose->morph_weights = (double *)(pose->bones + bones);
    pose->ik_off = (uint8_t *)(pose->morph_weights + morphs);
    overrides->ik = pose->ik_off + bones;
    overrides->bones = overrides->ik + bones;
    overrides->morphs = overrides->bones + bones;
    dfm_pose_reset(pose);
    return overrides;
}

void dfm_overrides_apply(const dfm_overrides *overrides, dfm_pose *pose) {
    const dfm_pose *given = &overrides->pose;
    for (uint32_t i = 0; i < given->bone_count; i++) {
        const dfm_bone_pose *from = &given->bones[i];
        dfm_bone_pose *to = &pose->bones[i];
        if (overrides->bones[i] & DFM_GIVEN_ROTATION)
            memcpy(to->rotation, from->rotation, sizeof to->rotation);
        if (overrides->bones[i] & DFM_GIVEN_TRANSLATION)
            memcpy(to->translation, from->translation, sizeof to->translation);
        if (overrides->ik[i])
            pose->ik_off[i] = given->ik_off[i];
    }
    for (uint32_t i = 0; i < given->morph_count; i++) {
        if (overrides->morphs[i])
            pose->morph_weights[i] = given->morph_weights[i];
    }
}
