/* Time of a motion's frame on the generated 440-bone rig: every bone has a key every 10 frames,
 * with curves that are not straight. Evaluation alone, and with the solve of the rig. */
#include "core/motion.h"
#include "tests/bench/timing.h"
#include "tests/data/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 100, RECORD_BYTES = 111, FRAMES = 2000 };

static void write_key(uint8_t *record, const char *name, uint32_t key, uint32_t bone) {
    static const uint8_t points[4] = {64, 10, 100, 120};
    uint32_t frame = key * 10;
    float numbers[7] = {(float)(key % 7) * 0.05f,
                        (float)(bone % 5) * 0.03f,
                        (float)(key % 3) * 0.1f,
                        (float)(key % 5) * 0.1f,
                        (float)(bone % 3) * 0.1f,
                        0.1f,
                        1};
    strncpy((char *)record, name, DFM_VMD_NAME_BYTES);
    memcpy(record + 15, &frame, 4);
    memcpy(record + 19, numbers, sizeof numbers);
    for (int i = 0; i < 64; i++)
        record[47 + i] = points[i / 4 % 4];
}

/* A VMD file that moves every bone of the model; names are ASCII. */
static uint8_t *make_motion(const dfm_pmx *pmx, size_t *size) {
    uint32_t count = pmx->bone_count * KEYS;
    *size = 54 + (size_t)count * RECORD_BYTES;
    uint8_t *bytes = calloc(*size, 1);
    if (!bytes)
        return NULL;
    memcpy(bytes, "Vocaloid Motion Data 0002", 25);
    memcpy(bytes + 50, &count, 4);
    uint8_t *record = bytes + 54;
    for (uint32_t bone = 0; bone < pmx->bone_count; bone++) {
        for (uint32_t key = 0; key < KEYS; key++, record += RECORD_BYTES)
            write_key(record, pmx->bones[bone].name.data, key, bone);
    }
    return bytes;
}

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
    bytes = make_motion(&model->pmx, &size);
    if (!bytes || dfm_motion_load(bytes, size, &motion, NULL) != DFM_OK ||
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
