/* A rig for benchmarks of the bone solve: as many bones, IK legs and appends as a large character.
 */
#include "tests/data/build.h"
#include "tests/data/models.h"

#include <stdio.h>
#include <string.h>

enum { BONES = 440, LEGS = 4, APPENDS = 26, CHAIN = 9 };

static const char *numbered(struct builder *builder, const char *prefix, uint32_t number) {
    char text[32];
    int length = snprintf(text, sizeof text, "%s%u", prefix, number);
    char *name = build_allocate(builder, (size_t)length + 1, 1);
    memcpy(name, text, (size_t)length);
    return name;
}

static int32_t add(struct builder *builder, const char *prefix, uint32_t number, float x, float y,
                   float z, int32_t parent) {
    const float position[3] = {x, y, z};
    const char *name = numbered(builder, prefix, number);
    build_add_bone(builder, name, name, position, parent);
    return (int32_t)builder->pmx.bone_count - 1;
}

static void add_leg(struct builder *builder, uint32_t leg, int32_t root) {
    float x = (float)leg - 1.5f;
    int32_t thigh = add(builder, "leg", leg, x, 10, 0, root);
    int32_t knee = add(builder, "knee", leg, x, 5.5f, -0.2f, thigh);
    int32_t ankle = add(builder, "ankle", leg, x, 1, 0.1f, knee);
    int32_t goal = add(builder, "IK", leg, x, 1, 0.1f, root);
    dfm_pmx_bone *ik = &builder->pmx.bones[goal];
    ik->flags |= DFM_BONE_IK | DFM_BONE_MOVABLE;
    ik->ik_target = ankle;
    ik->ik_loop_count = 40;
    ik->ik_limit_rad = 2;
    ik->ik_link_count = 2;
    ik->ik_links = build_allocate(builder, 2, sizeof *ik->ik_links);
    ik->ik_links[0] = (dfm_pmx_ik_link){
        .bone = knee, .has_limits = 1, .limit_min = {-3.1415927f}, .limit_max = {-0.008726646f}};
    ik->ik_links[1] = (dfm_pmx_ik_link){.bone = thigh};
}

static void add_appends(struct builder *builder, int32_t root) {
    for (uint32_t i = 0; i < APPENDS; i++) {
        int32_t bone = add(builder, "append", i, 0, 12, 0, root);
        builder->pmx.bones[bone].flags |= DFM_BONE_APPEND_ROTATION;
        /* Every leg's thigh and knee (4 bones a leg, behind the root), then append upon append. */
        builder->pmx.bones[bone].append_source =
            i < 2 * LEGS ? root + 1 + (int32_t)(i / 2 * 4 + i % 2) : bone - 1;
        builder->pmx.bones[bone].append_ratio = i % 3 == 0 ? 1.0f : 0.5f;
        builder->pmx.bones[bone].layer = 1;
    }
}

/* Hair, skirts and fingers: the bones that are left, in short chains. */
static void add_chains(struct builder *builder, int32_t root) {
    for (uint32_t i = 0; builder->pmx.bone_count < BONES; i++) {
        uint32_t link = i % CHAIN;
        int32_t parent = link == 0 ? root : (int32_t)builder->pmx.bone_count - 1;
        add(builder, "chain", i, (float)(i / CHAIN) * 0.2f - 4, 18 - (float)link, 0.5f, parent);
    }
}

/* A small triangle at every bone. */
static void add_triangles(struct builder *builder) {
    build_add_material(builder, "材質", "material");
    for (uint32_t i = 0; i < BONES; i++) {
        const float *at = builder->pmx.bones[i].position;
        const float corners[3][2] = {{0, 0}, {0, 0.2f}, {0.2f, 0}};
        uint32_t index[3];
        for (int k = 0; k < 3; k++)
            index[k] = build_add_vertex(
                builder, &(build_vertex){
                             .position = {at[0] + corners[k][0], at[1] + corners[k][1], at[2]},
                             .normal = {0, 0, -1},
                             .type = DFM_WEIGHT_BDEF1,
                             .bone = {(int32_t)i},
                             .edge_scale = 1,
                         });
        build_add_triangle(builder, index[0], index[1], index[2]);
    }
}

dfm_pmx model_legs440(dfm_arena *arena) {
    const builder_capacity capacity = {
        .vertices = 3 * BONES, .indices = 3 * BONES, .materials = 1, .bones = BONES};
    struct builder builder = build_begin(arena, 2.0f, DFM_TEXT_UTF16LE, &capacity);
    builder.pmx.name = model_text("四脚");
    builder.pmx.name_en = model_text("four legs, 440 bones");
    int32_t root = add(&builder, "root", 0, 0, 10, 0, -1);
    builder.pmx.bones[root].flags |= DFM_BONE_MOVABLE;
    for (uint32_t leg = 0; leg < LEGS; leg++)
        add_leg(&builder, leg, root);
    add_appends(&builder, root);
    add_chains(&builder, root);
    add_triangles(&builder);
    return builder.pmx;
}
