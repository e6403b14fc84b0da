/* Time of a motion's frame on the generated 440-bone rig: every bone has a key every 10 frames,
 * with curves that are not straight. Evaluation alone, and with the solve of the rig. */
#include "core/motion.h"
#include "tests/bench/timing.h"
#include "tests/data/models.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 100, FRAMES = 2000 };

static void report(const char *what, double *times) {
    qsort(times, FRAMES, sizeof *times, compare_doubles);
    printf("motion frame, %-28s median %6.1f us, 99 %% %6.1f us\n", what, times[FRAMES / 2],
           times[FRAMES * 99 / 100]);
}

int main(void) {
    static double alone[FRAMES], solved[FRAMES];
    dfm_arena arena = {0};
    dfm_pmx pmx = model_legs440(&arena);
    size_t size;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    dfm_model *model;
    dfm_motion *motion;
    dfm_motion_binding *binding;
    if (dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, NULL) != DFM_OK)
        return 1;
    free(bytes);
    bytes = motion_bytes(&model->pmx, KEYS, &size);
    if (dfm_motion_load(bytes, size, &motion, NULL) != DFM_OK ||
        dfm_motion_bind(motion, model, &binding, NULL) != DFM_OK)
        return 1;
    free(bytes);
    dfm_arena_free(&arena);

    uint32_t count = model->pmx.bone_count;
    dfm_pose pose = {.bone_count = count,
                     .bones = calloc(count, sizeof *pose.bones),
                     .ik_off = calloc(count, 1)};
    void *memory = aligned_alloc(64, dfm_rig_state_bytes(&model->rig));
    if (!pose.bones || !pose.ik_off || !memory)
        return 1;
    dfm_rig_state state;
    dfm_rig_state_place(&state, &model->rig, memory);
    double weights = 0;
    for (int i = 0; i < FRAMES; i++) {
        double start = now_us();
        dfm_motion_evaluate(binding, i * 0.5 + 0.25, &pose);
        alone[i] = now_us() - start;
        if (!dfm_rig_solve(&model->rig, &model->pmx, &pose, &weights, &state))
            return 1;
        solved[i] = now_us() - start;
    }
    printf("motion of %u bones, %u keys\n", binding->bones.matched_count,
           motion->vmd.bone_key_count);
    report("evaluation", alone);
    report("evaluation and solve", solved);
    free(memory);
    free(pose.bones);
    free(pose.ik_off);
    dfm_motion_binding_free(binding);
    dfm_motion_release(motion);
    dfm_model_release(model);
    return 0;
}
