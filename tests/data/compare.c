#include "tests/data/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static char difference[128];
static const char *place;
static long place_index;

static bool differ(const char *what) {
    snprintf(difference, sizeof difference, "%s %ld: %s", place, place_index, what);
    return false;
}

static bool same_integer(int64_t a, int64_t b, const char *what) {
    return a == b || differ(what);
}

static bool same_floats(const float *a, const float *b, size_t count, const char *what) {
    for (size_t i = 0; i < count; i++) {
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return differ(what);
    }
    return true;
}

static bool same_text(dfm_text a, dfm_text b, const char *what) {
    bool same = a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
    return same || differ(what);
}

#define INTEGER(field) same_integer(a->field, b->field, #field)
#define NUMBER(field) same_floats(&a->field, &b->field, 1, #field)
#define NUMBERS(field) same_floats(a->field, b->field, sizeof a->field / sizeof(float), #field)
#define TEXT(field) same_text(a->field, b->field, #field)

static bool same_vertex(const dfm_pmx_vertices *a, const dfm_pmx_vertices *b, uint32_t i) {
    bool same = NUMBERS(position[i]) && NUMBERS(normal[i]) && NUMBERS(uv[i]) &&
                NUMBER(edge_scale[i]) && INTEGER(weight_type[i]) && NUMBERS(weight[i]);
    for (int k = 0; k < 4 && same; k++)
        same = INTEGER(bone[i][k]);
    for (uint32_t k = 0; k < a->additional_uv_count && same; k++)
        same = NUMBERS(additional_uv[k][i]);
    return same;
}

static bool same_vertices(const dfm_pmx_vertices *a, const dfm_pmx_vertices *b) {
    place = "vertices";
    if (!INTEGER(count) || !INTEGER(additional_uv_count) || !INTEGER(sdef_count))
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        place_index = i;
        if (!same_vertex(a, b, i))
            return false;
    }
    for (uint32_t i = 0; i < a->sdef_count; i++) {
        place_index = i;
        if (!same_floats(a->sdef[i][0], b->sdef[i][0], 9, "sdef row"))
            return false;
    }
    return true;
}

static bool same_material(const dfm_pmx_material *a, const dfm_pmx_material *b) {
    return TEXT(name) && TEXT(name_en) && NUMBERS(diffuse) && NUMBERS(specular) &&
           NUMBER(specular_power) && NUMBERS(ambient) && INTEGER(flags) && NUMBERS(edge_colour) &&
           NUMBER(edge_size) && INTEGER(texture) && INTEGER(sphere_texture) &&
           INTEGER(sphere_mode) && INTEGER(toon_shared) && INTEGER(toon) && TEXT(memo) &&
           INTEGER(index_count);
}

static bool same_surface(const dfm_pmx *a, const dfm_pmx *b) {
    place = "surface";
    if (!INTEGER(index_count) || !INTEGER(texture_count) || !INTEGER(material_count))
        return false;
    for (uint32_t i = 0; i < a->index_count; i++) {
        place_index = i;
        if (!INTEGER(indices[i]))
            return false;
    }
    for (uint32_t i = 0; i < a->texture_count; i++) {
        place_index = i;
        if (!TEXT(textures[i]))
            return false;
    }
    place = "material";
    for (uint32_t i = 0; i < a->material_count; i++) {
        place_index = i;
        if (!same_material(&a->materials[i], &b->materials[i]))
            return false;
    }
    return true;
}

static bool same_ik_link(const dfm_pmx_ik_link *a, const dfm_pmx_ik_link *b) {
    return INTEGER(bone) && INTEGER(has_limits) && NUMBERS(limit_min) && NUMBERS(limit_max);
}

static bool same_bone(const dfm_pmx_bone *a, const dfm_pmx_bone *b) {
    bool same = TEXT(name) && TEXT(name_en) && NUMBERS(position) && INTEGER(parent) &&
                INTEGER(layer) && INTEGER(flags) && INTEGER(tail_bone) && NUMBERS(tail_offset) &&
                INTEGER(append_source) && NUMBER(append_ratio) && NUMBERS(fixed_axis) &&
                NUMBERS(local_x) && NUMBERS(local_z) && INTEGER(external_key) &&
                INTEGER(ik_target) && INTEGER(ik_loop_count) && NUMBER(ik_limit_rad) &&
                INTEGER(ik_link_count);
    for (uint32_t i = 0; same && i < a->ik_link_count; i++)
        same = same_ik_link(&a->ik_links[i], &b->ik_links[i]);
    return same;
}

static bool same_bones(const dfm_pmx *a, const dfm_pmx *b) {
    place = "bone";
    if (!INTEGER(bone_count))
        return false;
    for (uint32_t i = 0; i < a->bone_count; i++) {
        place_index = i;
        if (!same_bone(&a->bones[i], &b->bones[i]))
            return false;
    }
    return true;
}

static bool same_material_offset(const dfm_pmx_material_offset *a,
                                 const dfm_pmx_material_offset *b) {
    return INTEGER(material) && INTEGER(operation) && NUMBERS(diffuse) && NUMBERS(specular) &&
           NUMBER(specular_power) && NUMBERS(ambient) && NUMBERS(edge_colour) &&
           NUMBER(edge_size) && NUMBERS(texture) && NUMBERS(sphere) && NUMBERS(toon);
}

static bool same_offset(const dfm_pmx_morph *a, const dfm_pmx_morph *b, uint32_t i) {
    switch (a->type) {
    case DFM_MORPH_GROUP:
    case DFM_MORPH_FLIP:
        return INTEGER(offsets.children[i].morph) && NUMBER(offsets.children[i].weight);
    case DFM_MORPH_VERTEX:
        return INTEGER(offsets.vertices[i].vertex) && NUMBERS(offsets.vertices[i].offset);
    case DFM_MORPH_BONE:
        return INTEGER(offsets.bones[i].bone) && NUMBERS(offsets.bones[i].translation) &&
               NUMBERS(offsets.bones[i].rotation);
    case DFM_MORPH_MATERIAL:
        return same_material_offset(&a->offsets.materials[i], &b->offsets.materials[i]);
    case DFM_MORPH_IMPULSE:
        return INTEGER(offsets.impulses[i].rigid_body) && INTEGER(offsets.impulses[i].local) &&
               NUMBERS(offsets.impulses[i].velocity) && NUMBERS(offsets.impulses[i].torque);
    default:
        return INTEGER(offsets.uvs[i].vertex) && NUMBERS(offsets.uvs[i].offset);
    }
}

static bool same_morph(const dfm_pmx_morph *a, const dfm_pmx_morph *b) {
    bool same = TEXT(name) && TEXT(name_en) && INTEGER(panel) && INTEGER(type) && INTEGER(count);
    for (uint32_t i = 0; same && i < a->count; i++)
        same = same_offset(a, b, i);
    return same;
}

static bool same_morphs(const dfm_pmx *a, const dfm_pmx *b) {
    place = "morph";
    if (!INTEGER(morph_count))
        return false;
    for (uint32_t i = 0; i < a->morph_count; i++) {
        place_index = i;
        if (!same_morph(&a->morphs[i], &b->morphs[i]))
            return false;
    }
    return true;
}

const char *pmx_difference(const dfm_pmx *a, const dfm_pmx *b) {
    place = "document";
    place_index = 0;
    bool same = NUMBER(version) && TEXT(name) && TEXT(name_en) && TEXT(comment) &&
                TEXT(comment_en) && same_vertices(&a->vertices, &b->vertices) &&
                same_surface(a, b) && same_bones(a, b) && same_morphs(a, b);
    return same ? NULL : difference;
}
