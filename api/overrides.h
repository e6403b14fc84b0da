/* A pose that is laid over each frame of a motion: what it gives replaces what the motion says, a
 * bone's rotation, its translation, a morph and an IK switch each on its own.
 *
 * Thread safety: plain memory; constant once it is filled. */
#ifndef DFM_API_OVERRIDES_H
#define DFM_API_OVERRIDES_H

#include "core/model.h"

enum { DFM_GIVEN_ROTATION = 1, DFM_GIVEN_TRANSLATION = 2 };

typedef struct dfm_overrides {
    dfm_pose pose;        /* values; no matrices */
    uint8_t *bones;       /* bone_count: DFM_GIVEN_ bits */
    uint8_t *morphs, *ik; /* morph_count, bone_count: 1 = given */
} dfm_overrides;

/* For poses of the model, nothing given; NULL: no memory. One block: free() it. */
dfm_overrides *dfm_overrides_create(const dfm_model *model);

void dfm_overrides_apply(const dfm_overrides *overrides, dfm_pose *pose);

#endif
