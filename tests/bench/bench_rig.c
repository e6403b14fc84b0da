/* Time of a bone solve: the generated 440-bone rig with 4 IK legs (40 loops, 2 links) and 26
 * appends, on one core. Prints the median and the slowest of many poses, and the pose of bones that
 * no IK moves for comparison. */
#include "core/model.h"
#include "tests/bench/timing.h"
#include "tests/data/models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POSES = 2000 };

static uint32_t random_state = 1;

static double random_number(void) { /* -1..1 */
    random_state = random_state * 1664525u + 1013904223u;
    return (double)random_state / 2147483648.0 - 1;
}

/* A dancer's frame: every bone turned a little, every IK bone moved by up to `reach` units. */
static void random_pose(const dfm_pmx *pmx, dfm_pose *pose, double reach) {
    dfm_pose_reset(pose);
    for (uint32_t i = 0; i < pmx->bone_count; i++) {
        double *q = pose->bones[i].rotation;
        for (int k = 0; k < 3; k++)
            q[k] = random_number() * 0.2;
        double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        for (int k = 0; k < 4; k++)
            q[k] /= length;
        for (int k = 0; k < 3 && pmx->bones[i].flags & DFM_BONE_IK; k++)
            pose->bones[i].translation[k] = random_number() * reach;
    }
}

static void measure(const dfm_model *model, dfm_pose *pose, dfm_rig_state *state,
                    const double *weights, const char *what, double reach) {
    static double times[POSES];
    for (int i = 0; i < POSES; i++) {
        random_pose(&model->pmx, pose, reach);
        for (uint32_t k = 0; reach == 0 && k < model->pmx.bone_count; k++)
            pose->ik_off[k] = 1;
        double start = now_us();
        if (!dfm_rig_solve(&model->rig, &model->pmx, pose, weights, state))
            exit(1);
        times[i] = now_us() - start;
    }
    qsort(times, POSES, sizeof *times, compare_doubles);
    printf("rig solve, %u bones, %u IK, %u appends, %-24s median %6.1f us, 99 %% %6.1f us\n",
           model->rig.bone_count, model->rig.solver_count, model->rig.append_count, what,
           times[POSES / 2], times[POSES * 99 / 100]);
}

int main(void) {
    dfm_arena arena = {0};
    dfm_pmx pmx = model_legs440(&arena);
    size_t size;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    dfm_model *model;
    dfm_error error = {0};
    if (dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, &error) != DFM_OK)
        return fprintf(stderr, "bench_rig: %s\n", error.info), 1;
    free(bytes);
    dfm_arena_free(&arena);

    uint32_t count = model->pmx.bone_count;
    dfm_pose pose = {.bone_count = count,
                     .bones = calloc(count, sizeof *pose.bones),
                     .ik_off = calloc(count, 1)};
    void *memory = aligned_alloc(64, dfm_rig_state_bytes(&model->rig));
    if (!pose.bones || !pose.ik_off || !memory)
        return fprintf(stderr, "bench_rig: no memory\n"), 1;
    dfm_rig_state state;
    dfm_rig_state_place(&state, &model->rig, memory);
    double weights = 0;
    measure(model, &pose, &state, &weights, "IK off", 0);
    measure(model, &pose, &state, &weights, "goals within 0.5 units", 0.5);
    measure(model, &pose, &state, &weights, "goals within 3 units", 3);
    measure(model, &pose, &state, &weights, "goals within 20 units", 20);
    free(memory);
    free(pose.bones);
    free(pose.ik_off);
    dfm_model_release(model);
    return 0;
}
