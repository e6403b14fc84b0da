#include "core/pose.h"

#include <string.h>

void dfm_pose_reset(dfm_pose *pose) {
    for (uint32_t i = 0; i < pose->bone_count; i++)
        pose->bones[i] = (dfm_bone_pose){.rotation = {0, 0, 0, 1}};
    for (uint32_t i = 0; i < pose->morph_count; i++)
        pose->morph_weights[i] = 0;
    if (pose->bone_count)
        memset(pose->ik_off, 0, pose->bone_count);
    pose->has_matrices = false;
}
