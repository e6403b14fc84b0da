/* The odd model: small, and everything that a file may hold is in it. */
#include "tests/data/build.h"
#include "tests/data/models.h"

#include <math.h>
#include <string.h>

enum { VERTICES = 48, FAR_BONE = 100, FAR_VERTEX = 200, FAR_MORPH = 90 };

/* --- bones -------------------------------------------------------------------------------- */

static dfm_pmx_bone *add_bone(struct builder *builder, const char *name, float x, float y, float z,
                              int32_t parent) {
    const float position[3] = {x, y, z};
    return build_add_bone(builder, name, name, position, parent);
}

static void add_tree(struct builder *builder) {
    add_bone(builder, "手", 0, 3, 0, 1); /* its parent comes after it */
    add_bone(builder, "腕", 0, 2, 0, 2);
    dfm_pmx_bone *root = add_bone(builder, "根", 0, 0, 0, -1);
    root->flags |= DFM_BONE_MOVABLE | DFM_BONE_TAIL_IS_BONE;
    root->tail_bone = 1;
    add_bone(builder, "腕", 1, 2, 0, 2); /* the name of another */
    dfm_pmx_bone *lost = add_bone(builder, "親なし", 2, 0, 0, FAR_BONE);
    lost->tail_offset[1] = 1;
    add_bone(builder, "輪1", 0, 1, 1, 6); /* each the other's parent */
    add_bone(builder, "輪2", 0, 1, 2, 5);
    dfm_pmx_bone *late = add_bone(builder, "𠮷😀", 0, 1, 3, 2);
    late->layer = -2;
    late->flags |= DFM_BONE_AFTER_PHYSICS;
    dfm_pmx_bone *nul = add_bone(builder, "", 0, 1, 4, 7);
    nul->name = (dfm_text){.data = "a\0b", .length = 3};
    nul->name_en = model_text("");
}

static void add_appends(struct builder *builder) {
    static const struct {
        const char *name;
        uint16_t flags;
        int32_t source;
        float ratio;
    } appends[] = {
        {"付与回転", DFM_BONE_APPEND_ROTATION, 1, 0.5f},
        {"付与移動", DFM_BONE_APPEND_TRANSLATION, 1, -1.0f},
        {"付与両方", DFM_BONE_APPEND_ROTATION | DFM_BONE_APPEND_TRANSLATION, 9, 1.5f},
        {"付与ローカル", DFM_BONE_APPEND_ROTATION | DFM_BONE_APPEND_LOCAL, 9, 1.0f},
        {"付与自分", DFM_BONE_APPEND_ROTATION, 13, 1.0f},
        {"付与輪", DFM_BONE_APPEND_ROTATION, 15, 1.0f},
        {"付与輪2", DFM_BONE_APPEND_ROTATION, 14, 1.0f},
        {"付与先なし", DFM_BONE_APPEND_ROTATION, FAR_BONE, 1.0f},
    };
    for (uint32_t i = 0; i < sizeof appends / sizeof *appends; i++) {
        dfm_pmx_bone *bone = add_bone(builder, appends[i].name, 1, 1, (float)i, 2);
        bone->flags |= appends[i].flags;
        bone->append_source = appends[i].source;
        bone->append_ratio = appends[i].ratio;
        bone->layer = 1;
    }
}

static void add_axes(struct builder *builder) {
    dfm_pmx_bone *twist = add_bone(builder, "捩", 0, 2.5f, 0, 1);
    twist->flags |= DFM_BONE_FIXED_AXIS;
    twist->fixed_axis[1] = 1;
    dfm_pmx_bone *zero = add_bone(builder, "軸なし", 0, 2.5f, 1, 1);
    zero->flags |= DFM_BONE_FIXED_AXIS;
    dfm_pmx_bone *local = add_bone(builder, "ローカル軸", 0, 2.5f, 2, 1);
    local->flags |= DFM_BONE_LOCAL_AXIS | DFM_BONE_EXTERNAL_PARENT;
    local->local_x[0] = 1;
    local->local_z[2] = 1;
    local->external_key = 7;
}

static void make_ik(struct builder *builder, dfm_pmx_bone *bone, int32_t target,
                    uint32_t link_count, const dfm_pmx_ik_link *links) {
    bone->flags |= DFM_BONE_IK | DFM_BONE_MOVABLE;
    bone->ik_target = target;
    bone->ik_loop_count = 20;
    bone->ik_limit_rad = 0.5f;
    bone->ik_link_count = link_count;
    bone->ik_links = build_allocate(builder, link_count, sizeof *links);
    if (link_count > 0)
        memcpy(bone->ik_links, links, link_count * sizeof *links);
}

static void add_iks(struct builder *builder) {
    const dfm_pmx_ik_link arm[] = {
        {.bone = 1, .has_limits = 1, .limit_min = {-3, 0, 0}, .limit_max = {-0.01f, 0, 0}},
        {.bone = 2},
    };
    const dfm_pmx_ik_link odd[] = {
        {.bone = 0, .has_limits = 1, .limit_min = {1, 1, 1}, .limit_max = {-1, -1, -1}},
        {.bone = -1},
        {.bone = FAR_BONE, .has_limits = 1},
        {.bone = 17},
    };
    make_ik(builder, add_bone(builder, "腕ＩＫ", 0, 3, 0, -1), 0, 2, arm);
    make_ik(builder, add_bone(builder, "奇ＩＫ", 0, 3, 1, 2), 0, 4, odd); /* target in its chain */
    make_ik(builder, add_bone(builder, "空ＩＫ", 0, 3, 2, 2), 0, 0, NULL);
    make_ik(builder, add_bone(builder, "先なしＩＫ", 0, 3, 3, 2), -1, 1, arm);
    builder->pmx.bones[builder->pmx.bone_count - 1].ik_loop_count = -5;
}

/* --- vertices ----------------------------------------------------------------------------- */

/* Every type in turn, with clean and with odd weights. */
static void weigh(build_vertex *vertex, uint32_t i, bool has_qdef) {
    static const int32_t bones[4][4] = {
        {0, 1, 2, 3}, {1, 1, 0, 0}, {2, -1, FAR_BONE, 1}, {-1, -1, -1, FAR_BONE}};
    static const float weights[4][4] = {
        {0.4f, 0.3f, 0.2f, 0.1f}, {0.5f, 0.5f, 0.5f, 0.5f}, {1.25f, 0, -0.5f, 0}, {0, 0, 0, 0}};
    vertex->type = i % (has_qdef ? 5 : 4);
    memcpy(vertex->bone, bones[i / 5 % 4], sizeof vertex->bone);
    memcpy(vertex->weight, weights[(i / 5 + i / 20) % 4], sizeof vertex->weight);
    for (int row = 0; row < 3; row++)
        memcpy(vertex->sdef[row], vertex->position, sizeof vertex->position);
    vertex->sdef[1][1] += 0.5f;
    vertex->sdef[2][1] -= 0.5f;
    if (i % 3 == 0)
        memset(vertex->sdef, 0, sizeof vertex->sdef);
    if (i % 7 == 0)
        vertex->sdef[0][0] = NAN;
}

static void add_vertices(struct builder *builder, bool has_qdef) {
    for (uint32_t i = 0; i < VERTICES; i++) {
        float angle = 0.7f * (float)i;
        build_vertex vertex = {
            .position = {cosf(angle), 0.07f * (float)i, sinf(angle)},
            .normal = {cosf(angle), 0, sinf(angle)},
            .uv = {0.02f * (float)i, -0.5f},
            .edge_scale = i % 2 ? 1 : 0.5f,
        };
        if (i == 11)
            memset(vertex.normal, 0, sizeof vertex.normal);
        if (i == 12)
            vertex.normal[1] = NAN;
        weigh(&vertex, i, has_qdef);
        build_add_vertex(builder, &vertex);
        for (int k = 0; k < DFM_PMX_MAX_ADDITIONAL_UVS; k++)
            builder->pmx.vertices.additional_uv[k][i][k] = (float)i;
    }
}

static void add_surface(struct builder *builder) {
    build_add_texture(builder, "tex\\布.png");
    build_add_texture(builder, "");
    dfm_pmx_material *cloth = build_add_material(builder, "布", "cloth");
    cloth->flags = 0x1F;
    cloth->texture = 0;
    cloth->sphere_texture = 1;
    cloth->sphere_mode = 2;
    cloth->toon_shared = 1;
    cloth->toon = 3;
    cloth->memo = model_text("メモ");
    for (uint32_t i = 0; i + 2 < VERTICES / 2; i++)
        build_add_triangle(builder, i, i + 1, i + 2);
    build_add_material(builder, "空", "empty");
    build_add_material(builder, "布", "");
    for (uint32_t i = VERTICES / 2; i + 2 < VERTICES; i++)
        build_add_triangle(builder, i, i, i + 2);
}

/* --- morphs ------------------------------------------------------------------------------- */

static void add_children(struct builder *builder, const char *name, dfm_morph_type type,
                         int32_t first, int32_t second) {
    dfm_pmx_morph *morph = build_add_morph(builder, name, name, 4, type, 2);
    morph->offsets.children[0] = (dfm_pmx_child_morph){.morph = first, .weight = 0.5f};
    morph->offsets.children[1] = (dfm_pmx_child_morph){.morph = second, .weight = -1.5f};
}

static void add_uv_morphs(struct builder *builder) {
    static const char *const names[] = {"UV", "追加UV1", "追加UV2", "追加UV3", "追加UV4"};
    for (int set = 0; set < 5; set++) {
        dfm_pmx_morph *morph =
            build_add_morph(builder, names[set], names[set], 4, DFM_MORPH_UV + set, 3);
        for (uint32_t k = 0; k < 3; k++)
            morph->offsets.uvs[k] = (dfm_pmx_uv_offset){.vertex = k == 2 ? FAR_VERTEX : 7 * k,
                                                        .offset = {0.1f, 0.2f, 0.3f, (float)set}};
    }
}

static void add_bone_morph(struct builder *builder) {
    static const int32_t bones[] = {1, FAR_BONE, 2};
    dfm_pmx_morph *morph = build_add_morph(builder, "ボーン", "bone", 1, DFM_MORPH_BONE, 3);
    for (int k = 0; k < 3; k++)
        morph->offsets.bones[k] = (dfm_pmx_bone_offset){
            .bone = bones[k], .translation = {0, 0.5f, 0}, .rotation = {0, 0.6f, 0, 0.8f}};
    memset(morph->offsets.bones[2].rotation, 0, sizeof morph->offsets.bones[2].rotation);
}

static void add_material_morph(struct builder *builder) {
    dfm_pmx_morph *morph = build_add_morph(builder, "材質", "material", 2, DFM_MORPH_MATERIAL, 2);
    for (int k = 0; k < 2; k++)
        morph->offsets.materials[k] = (dfm_pmx_material_offset){
            .material = k - 1,
            .operation = (uint8_t)k,
            .diffuse = {1, 0.5f, 0.25f, 1},
            .specular = {0.1f, 0.2f, 0.3f},
            .specular_power = 4,
            .ambient = {0.5f, 0.6f, 0.7f},
            .edge_colour = {0, 0, 1, 1},
            .edge_size = 2,
            .texture = {1, 1, 1, 0.5f},
            .sphere = {1, 1, 0.5f, 1},
            .toon = {1, 0.5f, 1, 1},
        };
}

static void add_morphs(struct builder *builder, bool has_21) {
    dfm_pmx_morph *vertex = build_add_morph(builder, "頂点", "vertex", 3, DFM_MORPH_VERTEX, 4);
    for (uint32_t k = 0; k < 4; k++)
        vertex->offsets.vertices[k] = (dfm_pmx_vertex_offset){.vertex = k == 3 ? FAR_VERTEX : 5 * k,
                                                              .offset = {0.25f, (float)k, -0.5f}};
    add_children(builder, "組", DFM_MORPH_GROUP, 0, 2);
    add_children(builder, "組輪1", DFM_MORPH_GROUP, 3, 0); /* a cycle of two */
    add_children(builder, "組輪2", DFM_MORPH_GROUP, 2, 0);
    add_children(builder, "組自分", DFM_MORPH_GROUP, 4, FAR_MORPH);
    build_add_morph(builder, "頂点", "empty", 0, DFM_MORPH_VERTEX, 0); /* the name of another */
    add_uv_morphs(builder);
    add_bone_morph(builder);
    add_material_morph(builder);
    if (!has_21)
        return;
    add_children(builder, "切替", DFM_MORPH_FLIP, 0, 1);
    dfm_pmx_morph *impulse = build_add_morph(builder, "衝撃", "impulse", 4, DFM_MORPH_IMPULSE, 1);
    impulse->offsets.impulses[0] =
        (dfm_pmx_impulse){.rigid_body = 3, .local = 1, .velocity = {0, 1, 0}, .torque = {1, 0, 0}};
}

dfm_pmx model_odd(dfm_arena *arena, float version, dfm_text_encoding encoding) {
    const builder_capacity capacity = {
        .vertices = VERTICES,
        .sdef_vertices = VERTICES,
        .indices = 3 * VERTICES,
        .textures = 2,
        .materials = 3,
        .bones = 24,
        .morphs = 16,
        .additional_uvs = DFM_PMX_MAX_ADDITIONAL_UVS,
    };
    bool has_21 = version > 2.05f;
    struct builder builder = build_begin(arena, version, encoding, &capacity);
    builder.pmx.name = model_text("奇妙なモデル");
    builder.pmx.name_en = model_text("odd model");
    builder.pmx.comment = model_text("何でもある\r\n");
    builder.pmx.comment_en = model_text("everything is in here");
    add_tree(&builder);
    add_appends(&builder);
    add_axes(&builder);
    add_iks(&builder);
    add_vertices(&builder, has_21);
    add_surface(&builder);
    add_morphs(&builder, has_21);
    return builder.pmx;
}
