#include "tests/support_pose.h"

#include "tests/data/build.h"
#include "tests/data/models.h"

#include <stdlib.h>
#include <string.h>

static dfm_pmx build(dfm_arena *arena) {
    static const builder_capacity capacity = {
        .vertices = 3, .indices = 3, .materials = 1, .bones = POSE_BONES, .morphs = POSE_MORPHS};
    static const char *const names[POSE_BONES] = {"左ひじ", "b", "a/b~c", "右", "右", "nul"};
    struct builder builder = build_begin(arena, 2.0f, DFM_TEXT_UTF8, &capacity);
    for (int i = 0; i < POSE_BONES; i++)
        build_add_bone(&builder, names[i], names[i], (float[3]){0, (float)i, 0}, i - 1);
    builder.pmx.bones[POSE_BONES - 1].name = (dfm_text){.data = "nul\0in", .length = 6};
    dfm_pmx_bone *ik = &builder.pmx.bones[POSE_IK_BONE];
    ik->flags |= DFM_BONE_IK;
    ik->ik_target = 3;
    for (int i = 0; i < 3; i++)
        build_add_vertex(&builder, &(build_vertex){.position = {(float)i, (float)(i % 2), 0},
                                                   .normal = {0, 0, -1},
                                                   .bone = {0},
                                                   .weight = {1}});
    build_add_material(&builder, "材", "m");
    build_add_triangle(&builder, 0, 1, 2);
    build_add_morph(&builder, "あ", "a", 3, DFM_MORPH_VERTEX, 0);
    build_add_morph(&builder, "い", "i", 3, DFM_MORPH_VERTEX, 0);
    return builder.pmx;
}

uint8_t *pose_model_bytes(size_t *size) {
    dfm_arena arena = {0};
    dfm_pmx pmx = build(&arena);
    uint8_t *bytes = model_bytes(&pmx, NULL, size);
    dfm_arena_free(&arena);
    return bytes;
}

dfm_model *pose_model(void) {
    dfm_model *model;
    dfm_error error = {0};
    size_t size;
    uint8_t *bytes = pose_model_bytes(&size);
    dfm_status status = dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, &error);
    if (status != DFM_OK)
        build_fail(error.info);
    free(bytes);
    return model;
}

dfm_pose *pose_create(void) {
    struct {
        dfm_pose pose;
        dfm_bone_pose bones[POSE_BONES];
        double morph_weights[POSE_MORPHS];
        uint8_t ik_off[POSE_BONES];
        double matrices[POSE_BONES][12];
    } *block = calloc(1, sizeof *block);
    if (!block)
        build_fail("no memory for a pose");
    block->pose = (dfm_pose){.bone_count = POSE_BONES,
                             .morph_count = POSE_MORPHS,
                             .bones = block->bones,
                             .morph_weights = block->morph_weights,
                             .ik_off = block->ik_off,
                             .matrices = block->matrices};
    dfm_pose_reset(&block->pose);
    return &block->pose;
}
