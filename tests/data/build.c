#include "tests/data/build.h"
#include "tests/data/models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void build_fail(const char *what) {
    fprintf(stderr, "model generator: %s\n", what);
    abort();
}

void *build_allocate(struct builder *builder, size_t count, size_t size) {
    void *result = dfm_arena_alloc(builder->arena, count, size);
    if (!result)
        build_fail("out of memory");
    return result;
}

dfm_text model_text(const char *text) {
    return (dfm_text){.data = text, .length = (uint32_t)strlen(text)};
}

struct builder build_begin(dfm_arena *arena, float version, dfm_text_encoding encoding,
                           const builder_capacity *capacity) {
    struct builder builder = {.arena = arena, .capacity = *capacity};
    dfm_pmx *pmx = &builder.pmx;
    dfm_pmx_vertices *vertices = &pmx->vertices;
    pmx->version = version;
    pmx->encoding = encoding;
    pmx->name = pmx->name_en = pmx->comment = pmx->comment_en = model_text("");
    vertices->additional_uv_count = capacity->additional_uvs;
    vertices->position = build_allocate(&builder, capacity->vertices, sizeof *vertices->position);
    vertices->normal = build_allocate(&builder, capacity->vertices, sizeof *vertices->normal);
    vertices->uv = build_allocate(&builder, capacity->vertices, sizeof *vertices->uv);
    for (uint32_t i = 0; i < capacity->additional_uvs; i++)
        vertices->additional_uv[i] =
            build_allocate(&builder, capacity->vertices, sizeof *vertices->additional_uv[i]);
    vertices->weight_type = build_allocate(&builder, capacity->vertices, 1);
    vertices->bone = build_allocate(&builder, capacity->vertices, sizeof *vertices->bone);
    vertices->weight = build_allocate(&builder, capacity->vertices, sizeof *vertices->weight);
    vertices->sdef = build_allocate(&builder, capacity->sdef_vertices, sizeof *vertices->sdef);
    vertices->edge_scale =
        build_allocate(&builder, capacity->vertices, sizeof *vertices->edge_scale);
    pmx->indices = build_allocate(&builder, capacity->indices, sizeof *pmx->indices);
    pmx->textures = build_allocate(&builder, capacity->textures, sizeof *pmx->textures);
    pmx->materials = build_allocate(&builder, capacity->materials, sizeof *pmx->materials);
    pmx->bones = build_allocate(&builder, capacity->bones, sizeof *pmx->bones);
    pmx->morphs = build_allocate(&builder, capacity->morphs, sizeof *pmx->morphs);
    return builder;
}

static uint32_t claim(uint32_t *count, uint32_t capacity, const char *what) {
    if (*count == capacity)
        build_fail(what);
    return (*count)++;
}

/* Bones and weights in the form of dfm_pmx_vertices: what the type has not is -1 and 0. */
static void set_weights(int32_t bone[4], float weight[4], const build_vertex *vertex) {
    bool quad = vertex->type == DFM_WEIGHT_BDEF4 || vertex->type == DFM_WEIGHT_QDEF;
    int bone_count = quad ? 4 : vertex->type == DFM_WEIGHT_BDEF1 ? 1 : 2;
    for (int k = 0; k < 4; k++) {
        bone[k] = k < bone_count ? vertex->bone[k] : -1;
        weight[k] = quad ? vertex->weight[k] : 0;
    }
    if (quad)
        return;
    weight[0] = bone_count == 1 ? 1 : vertex->weight[0];
    weight[1] = bone_count == 1 ? 0 : 1 - vertex->weight[0];
}

uint32_t build_add_vertex(struct builder *builder, const build_vertex *vertex) {
    dfm_pmx_vertices *vertices = &builder->pmx.vertices;
    uint32_t i = claim(&vertices->count, builder->capacity.vertices, "too many vertices");
    memcpy(vertices->position[i], vertex->position, sizeof vertex->position);
    memcpy(vertices->normal[i], vertex->normal, sizeof vertex->normal);
    memcpy(vertices->uv[i], vertex->uv, sizeof vertex->uv);
    vertices->weight_type[i] = (uint8_t)vertex->type;
    vertices->edge_scale[i] = vertex->edge_scale;
    set_weights(vertices->bone[i], vertices->weight[i], vertex);
    if (vertex->type == DFM_WEIGHT_SDEF) {
        uint32_t row =
            claim(&vertices->sdef_count, builder->capacity.sdef_vertices, "too many SDEF vertices");
        memcpy(vertices->sdef[row], vertex->sdef, sizeof vertex->sdef);
    }
    return i;
}

void build_add_triangle(struct builder *builder, uint32_t a, uint32_t b, uint32_t c) {
    dfm_pmx *pmx = &builder->pmx;
    if (pmx->index_count + 3 > builder->capacity.indices || pmx->material_count == 0)
        build_fail("too many indices, or no material to take them");
    uint32_t *index = pmx->indices + pmx->index_count;
    index[0] = a;
    index[1] = b;
    index[2] = c;
    pmx->index_count += 3;
    pmx->materials[pmx->material_count - 1].index_count += 3;
}

uint32_t build_add_texture(struct builder *builder, const char *path) {
    dfm_pmx *pmx = &builder->pmx;
    uint32_t i = claim(&pmx->texture_count, builder->capacity.textures, "too many textures");
    pmx->textures[i] = model_text(path);
    return i;
}

dfm_pmx_material *build_add_material(struct builder *builder, const char *name,
                                     const char *name_en) {
    dfm_pmx *pmx = &builder->pmx;
    uint32_t i = claim(&pmx->material_count, builder->capacity.materials, "too many materials");
    pmx->materials[i] = (dfm_pmx_material){
        .name = model_text(name),
        .name_en = model_text(name_en),
        .diffuse = {1, 1, 1, 1},
        .specular_power = 5,
        .ambient = {0.5f, 0.5f, 0.5f},
        .edge_colour = {0, 0, 0, 1},
        .edge_size = 1,
        .texture = -1,
        .sphere_texture = -1,
        .toon = -1,
        .memo = model_text(""),
    };
    return &pmx->materials[i];
}

dfm_pmx_bone *build_add_bone(struct builder *builder, const char *name, const char *name_en,
                             const float position[3], int32_t parent) {
    dfm_pmx *pmx = &builder->pmx;
    uint32_t i = claim(&pmx->bone_count, builder->capacity.bones, "too many bones");
    pmx->bones[i] = (dfm_pmx_bone){
        .name = model_text(name),
        .name_en = model_text(name_en),
        .position = {position[0], position[1], position[2]},
        .parent = parent,
        .flags = DFM_BONE_ROTATABLE | DFM_BONE_VISIBLE | DFM_BONE_ENABLED,
        .tail_bone = -1,
        .append_source = -1,
        .ik_target = -1,
    };
    return &pmx->bones[i];
}

static size_t offset_bytes(dfm_morph_type type) {
    switch (type) {
    case DFM_MORPH_GROUP:
    case DFM_MORPH_FLIP:
        return sizeof(dfm_pmx_child_morph);
    case DFM_MORPH_VERTEX:
        return sizeof(dfm_pmx_vertex_offset);
    case DFM_MORPH_BONE:
        return sizeof(dfm_pmx_bone_offset);
    case DFM_MORPH_MATERIAL:
        return sizeof(dfm_pmx_material_offset);
    case DFM_MORPH_IMPULSE:
        return sizeof(dfm_pmx_impulse);
    default:
        return sizeof(dfm_pmx_uv_offset);
    }
}

dfm_pmx_morph *build_add_morph(struct builder *builder, const char *name, const char *name_en,
                               uint8_t panel, dfm_morph_type type, uint32_t count) {
    dfm_pmx *pmx = &builder->pmx;
    uint32_t i = claim(&pmx->morph_count, builder->capacity.morphs, "too many morphs");
    pmx->morphs[i] = (dfm_pmx_morph){
        .name = model_text(name),
        .name_en = model_text(name_en),
        .panel = panel,
        .type = (uint8_t)type,
        .count = count,
        .offsets.any = build_allocate(builder, count, offset_bytes(type)),
    };
    return &pmx->morphs[i];
}

static void add_face_normal(const dfm_pmx_vertices *vertices, const uint32_t *triangle) {
    const float *a = vertices->position[triangle[0]];
    float u[3], v[3];
    for (int k = 0; k < 3; k++) {
        u[k] = vertices->position[triangle[1]][k] - a[k];
        v[k] = vertices->position[triangle[2]][k] - a[k];
    }
    const float face[3] = {u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2],
                           u[0] * v[1] - u[1] * v[0]};
    for (int corner = 0; corner < 3; corner++) {
        for (int k = 0; k < 3; k++)
            vertices->normal[triangle[corner]][k] += face[k];
    }
}

void build_normals(struct builder *builder, uint32_t first) {
    dfm_pmx *pmx = &builder->pmx;
    for (uint32_t i = first; i < pmx->vertices.count; i++)
        memset(pmx->vertices.normal[i], 0, sizeof pmx->vertices.normal[i]);
    for (uint32_t i = 0; i < pmx->index_count; i += 3) {
        if (pmx->indices[i] >= first)
            add_face_normal(&pmx->vertices, pmx->indices + i);
    }
    for (uint32_t i = first; i < pmx->vertices.count; i++) {
        float *normal = pmx->vertices.normal[i];
        float length = sqrtf(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]);
        for (int k = 0; k < 3 && length > 0; k++)
            normal[k] /= length;
    }
}

uint64_t random_next(uint64_t *state) {
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

float random_unit(uint64_t *state) {
    return (float)(random_next(state) >> 40) / (float)(1 << 24);
}

uint8_t *model_bytes(const dfm_pmx *pmx, const dfm_pmx_write_options *options, size_t *size) {
    uint8_t *bytes;
    dfm_error error;
    dfm_error_clear(&error);
    if (dfm_pmx_write(pmx, options, &bytes, size, &error) != DFM_OK)
        build_fail(error.info);
    return bytes;
}
