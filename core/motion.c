#include "core/motion.h"

#include <stdlib.h>

dfm_status dfm_motion_load(const uint8_t *bytes, size_t size, dfm_motion **motion,
                           dfm_error *error) {
    *motion = NULL;
    dfm_motion *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for a motion");
    loaded->references = 1;
    dfm_status status =
        dfm_vmd_read(bytes, size, &loaded->arena, &loaded->warnings, &loaded->vmd, error);
    if (status != DFM_OK) {
        dfm_motion_release(loaded);
        return status;
    }
    *motion = loaded;
    return DFM_OK;
}

dfm_motion *dfm_motion_retain(dfm_motion *motion) {
    __atomic_add_fetch(&motion->references, 1, __ATOMIC_RELAXED);
    return motion;
}

void dfm_motion_release(dfm_motion *motion) {
    if (!motion || __atomic_sub_fetch(&motion->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    dfm_arena_free(&motion->arena);
    free(motion);
}

size_t dfm_motion_resident_bytes(const dfm_motion *motion) {
    return sizeof *motion + motion->arena.bytes;
}
