/* Fuzzes the VMD reader, and what a motion does behind it: it is bound to a model and evaluated,
 * and every number of the pose must be finite. */
#include "core/motion.h"
#include "tests/data/models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "fuzz_vmd: %s\n", what);
        abort();
    }
}

static dfm_model *figure(void) {
    static dfm_model *model;
    if (model)
        return model;
    dfm_arena arena = {0};
    dfm_pmx pmx = model_figure(&arena);
    size_t size;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    require(dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, NULL) == DFM_OK, "model");
    free(bytes);
    dfm_arena_free(&arena);
    return model;
}

static void check_pose(const dfm_pose *pose) {
    for (uint32_t i = 0; i < pose->bone_count; i++) {
        double length2 = 0;
        for (int k = 0; k < 4; k++)
            length2 += pose->bones[i].rotation[k] * pose->bones[i].rotation[k];
        require(fabs(length2 - 1) < 1e-6, "a rotation is not of unit length");
        for (int k = 0; k < 3; k++)
            require(isfinite(pose->bones[i].translation[k]), "a translation is not finite");
    }
    for (uint32_t i = 0; i < pose->morph_count; i++)
        require(isfinite(pose->morph_weights[i]), "a weight is not finite");
}

static void evaluate(dfm_motion *motion) {
    static const double frames[] = {-1, 0, 0.5, 1, 10.25, 1000, 5e9};
    dfm_model *model = figure();
    dfm_motion_binding *binding;
    require(dfm_motion_bind(motion, model, &binding, NULL) == DFM_OK, "binding failed");
    dfm_pose pose = {.bone_count = model->pmx.bone_count, .morph_count = model->pmx.morph_count};
    pose.bones = calloc(pose.bone_count, sizeof *pose.bones);
    pose.morph_weights = calloc(pose.morph_count, sizeof *pose.morph_weights);
    pose.ik_off = calloc(pose.bone_count, 1);
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        dfm_motion_evaluate(binding, frames[i], &pose);
        check_pose(&pose);
    }
    free(pose.bones);
    free(pose.morph_weights);
    free(pose.ik_off);
    dfm_motion_binding_free(binding);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dfm_motion *motion;
    dfm_error error;
    dfm_error_clear(&error);
    dfm_status status = dfm_motion_load(data, size, &motion, &error);
    if (status != DFM_OK) {
        require(error.status == status && error.section && error.offset >= 0 &&
                    error.offset <= (int64_t)size,
                "error without place");
        return 0;
    }
    require(dfm_motion_resident_bytes(motion) <= 64 * size + 65536, "a motion takes too much");
    evaluate(motion);
    dfm_motion_release(motion);
    return 0;
}
