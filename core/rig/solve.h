/* Private to core/rig: what a bone is made of during a solve. */
#ifndef DFM_CORE_RIG_SOLVE_H
#define DFM_CORE_RIG_SOLVE_H

#include "core/rig/rig.h"

/* A bone's own values, without append and IK: pose and bone morphs. */
typedef struct dfm_rig_local {
    double rotation[4];
    double translation[3]; /* offset from rest */
} dfm_rig_local;

/* order.c: fills rig->order and rig->parent_first; cuts parent cycles. Private memory comes from
 * malloc and is freed. Failure: DFM_ERROR_NO_MEMORY. */
dfm_status dfm_rig_sort(dfm_rig *rig, const struct dfm_pmx *pmx, dfm_arena *arena,
                        dfm_warnings *warnings, dfm_error *error);

#endif
