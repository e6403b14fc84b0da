#include "core/pmx.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are copied as they lie in files");

/* Writes go on after a failure without effect, so that sections need not look at every one. */
struct writer {
    const dfm_pmx *pmx;
    dfm_pmx_write_options sizes; /* chosen: none is 0 */
    uint8_t *bytes;
    size_t size, capacity;
    const char *section;
    int64_t item;
    dfm_status status;
    dfm_error *error;
};

#define FAIL(writer, code, ...)                                                                    \
    ((writer)->status = (writer)->status != DFM_OK                                                 \
                            ? (writer)->status                                                     \
                            : dfm_fail((writer)->error, (code), (writer)->section, (writer)->item, \
                                       -1, __VA_ARGS__))

/* Room for `count` more bytes, or NULL. */
static uint8_t *extend(struct writer *writer, size_t count) {
    if (writer->status != DFM_OK)
        return NULL;
    if (count > writer->capacity - writer->size) {
        size_t capacity = writer->capacity + writer->capacity / 2 + count + 256;
        uint8_t *bytes = realloc(writer->bytes, capacity);
        if (!bytes) {
            FAIL(writer, DFM_ERROR_NO_MEMORY, "no memory for a file of %zu bytes", capacity);
            return NULL;
        }
        writer->bytes = bytes;
        writer->capacity = capacity;
    }
    writer->size += count;
    return writer->bytes + writer->size - count;
}

static void put_bytes(struct writer *writer, const void *bytes, size_t count) {
    uint8_t *room = extend(writer, count);
    if (room && count > 0)
        memcpy(room, bytes, count);
}

static void put_u8(struct writer *writer, uint8_t value) {
    put_bytes(writer, &value, 1);
}

static void put_u16(struct writer *writer, uint16_t value) {
    put_bytes(writer, &value, 2);
}

static void put_i32(struct writer *writer, int32_t value) {
    put_bytes(writer, &value, 4);
}

static void put_floats(struct writer *writer, const float *values, size_t count) {
    put_bytes(writer, values, count * sizeof *values);
}

static void put_count(struct writer *writer, uint32_t count, const char *what) {
    if (count > INT32_MAX)
        FAIL(writer, DFM_ERROR_ARGUMENT, "%s is %" PRIu32 ", more than a file can say", what,
             count);
    put_i32(writer, (int32_t)count);
}

static void put_text(struct writer *writer, dfm_text text, const char *what) {
    if (!dfm_text_is_utf8(text.data, text.length)) {
        FAIL(writer, DFM_ERROR_ARGUMENT, "%s is not UTF-8", what);
        return;
    }
    if (writer->pmx->encoding == DFM_TEXT_UTF8) {
        put_count(writer, text.length, what);
        put_bytes(writer, text.data, text.length);
        return;
    }
    size_t size = dfm_text_encode_utf16le(text.data, text.length, NULL);
    put_count(writer, (uint32_t)size, what);
    uint8_t *room = extend(writer, size);
    if (room)
        dfm_text_encode_utf16le(text.data, text.length, room);
}

static void put_index_in(struct writer *writer, uint8_t index_size, int64_t index, int64_t least,
                         int64_t most, const char *what) {
    if (index < least || index > most)
        FAIL(writer, DFM_ERROR_ARGUMENT,
             "%s %" PRId64 " does not fit into an index of %d bytes (%" PRId64 " to %" PRId64 ")",
             what, index, index_size, least, most);
    put_bytes(writer, &index, index_size);
}

static void put_index(struct writer *writer, uint8_t index_size, int32_t index, const char *what) {
    int64_t most = (INT64_C(1) << (8 * index_size - 1)) - 1;
    put_index_in(writer, index_size, index, -most - 1, most, what);
}

/* Vertex indices are unsigned: "for 1 and 2 bytes" in the specification, and with 4 bytes
 * 0xffffffff is its -1. */
static void put_vertex_index(struct writer *writer, uint32_t index) {
    uint8_t size = writer->sizes.vertex_index_size;
    put_index_in(writer, size, index, 0, (INT64_C(1) << (8 * size)) - 1, "vertex index");
}

static void put_bone_index(struct writer *writer, int32_t index, const char *what) {
    put_index(writer, writer->sizes.bone_index_size, index, what);
}

/* --- header ------------------------------------------------------------------------------- */

static uint8_t choose_size(struct writer *writer, uint8_t forced, uint32_t count,
                           bool is_unsigned) {
    if (forced == 1 || forced == 2 || forced == 4)
        return forced;
    if (forced != 0)
        FAIL(writer, DFM_ERROR_ARGUMENT, "index size %d: 1, 2, 4 or 0 expected", forced);
    if (count <= (is_unsigned ? UINT8_MAX : INT8_MAX))
        return 1;
    return count <= (is_unsigned ? UINT16_MAX : INT16_MAX) ? 2 : 4;
}

/* The document has no rigid bodies, only impulses that name them. */
static uint32_t count_rigid_bodies(const dfm_pmx *pmx) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < pmx->morph_count; i++) {
        const dfm_pmx_morph *morph = &pmx->morphs[i];
        for (uint32_t k = 0; morph->type == DFM_MORPH_IMPULSE && k < morph->count; k++) {
            int32_t rigid_body = morph->offsets.impulses[k].rigid_body;
            if (rigid_body >= 0 && (uint32_t)rigid_body >= count)
                count = (uint32_t)rigid_body + 1;
        }
    }
    return count;
}

static void choose_sizes(struct writer *writer, const dfm_pmx_write_options *options) {
    const dfm_pmx_write_options given = options ? *options : (dfm_pmx_write_options){0};
    const dfm_pmx *pmx = writer->pmx;
    dfm_pmx_write_options *sizes = &writer->sizes;
    sizes->vertex_index_size =
        choose_size(writer, given.vertex_index_size, pmx->vertices.count, true);
    sizes->texture_index_size =
        choose_size(writer, given.texture_index_size, pmx->texture_count, false);
    sizes->material_index_size =
        choose_size(writer, given.material_index_size, pmx->material_count, false);
    sizes->bone_index_size = choose_size(writer, given.bone_index_size, pmx->bone_count, false);
    sizes->morph_index_size = choose_size(writer, given.morph_index_size, pmx->morph_count, false);
    sizes->rigid_body_index_size =
        choose_size(writer, given.rigid_body_index_size, count_rigid_bodies(pmx), false);
}

static bool is_version_20(const struct writer *writer) {
    return writer->pmx->version == 2.0f;
}

static void write_header(struct writer *writer) {
    const dfm_pmx *pmx = writer->pmx;
    const dfm_pmx_write_options *sizes = &writer->sizes;
    if (pmx->version != 2.0f && pmx->version != 2.1f)
        FAIL(writer, DFM_ERROR_ARGUMENT, "version %g: 2.0 or 2.1 expected", (double)pmx->version);
    if (pmx->vertices.additional_uv_count > DFM_PMX_MAX_ADDITIONAL_UVS)
        FAIL(writer, DFM_ERROR_ARGUMENT, "%" PRIu32 " additional UVs: 0 to 4 expected",
             pmx->vertices.additional_uv_count);
    put_bytes(writer, "PMX ", 4);
    put_floats(writer, &pmx->version, 1);
    const uint8_t globals[] = {8,
                               (uint8_t)pmx->encoding,
                               (uint8_t)pmx->vertices.additional_uv_count,
                               sizes->vertex_index_size,
                               sizes->texture_index_size,
                               sizes->material_index_size,
                               sizes->bone_index_size,
                               sizes->morph_index_size,
                               sizes->rigid_body_index_size};
    put_bytes(writer, globals, sizeof globals);
    put_text(writer, pmx->name, "model name");
    put_text(writer, pmx->name_en, "English model name");
    put_text(writer, pmx->comment, "comment");
    put_text(writer, pmx->comment_en, "English comment");
}

/* --- vertices to materials ---------------------------------------------------------------- */

static void write_weights(struct writer *writer, uint32_t i, uint32_t *sdef_row) {
    const dfm_pmx_vertices *vertices = &writer->pmx->vertices;
    uint8_t type = vertices->weight_type[i];
    bool quad = type == DFM_WEIGHT_BDEF4 || type == DFM_WEIGHT_QDEF;
    if (type >= DFM_WEIGHT_TYPE_COUNT || (type == DFM_WEIGHT_QDEF && is_version_20(writer))) {
        FAIL(writer, DFM_ERROR_ARGUMENT, "weight type %d does not exist in version %g", type,
             (double)writer->pmx->version);
        return;
    }
    put_u8(writer, type);
    int bone_count = quad ? 4 : type == DFM_WEIGHT_BDEF1 ? 1 : 2;
    for (int k = 0; k < bone_count; k++)
        put_bone_index(writer, vertices->bone[i][k], "bone");
    if (type != DFM_WEIGHT_BDEF1)
        put_floats(writer, vertices->weight[i], quad ? 4 : 1);
    if (type == DFM_WEIGHT_SDEF)
        put_floats(writer, vertices->sdef[(*sdef_row)++][0], 9);
}

static void write_vertices(struct writer *writer) {
    const dfm_pmx_vertices *vertices = &writer->pmx->vertices;
    uint32_t sdef_row = 0;
    put_count(writer, vertices->count, "vertex count");
    for (uint32_t i = 0; i < vertices->count && writer->status == DFM_OK; i++) {
        writer->item = i;
        put_floats(writer, vertices->position[i], 3);
        put_floats(writer, vertices->normal[i], 3);
        put_floats(writer, vertices->uv[i], 2);
        for (uint32_t k = 0; k < vertices->additional_uv_count; k++)
            put_floats(writer, vertices->additional_uv[k][i], 4);
        write_weights(writer, i, &sdef_row);
        put_floats(writer, &vertices->edge_scale[i], 1);
    }
}

static void write_indices(struct writer *writer) {
    put_count(writer, writer->pmx->index_count, "index count");
    for (uint32_t i = 0; i < writer->pmx->index_count && writer->status == DFM_OK; i++) {
        writer->item = i;
        put_vertex_index(writer, writer->pmx->indices[i]);
    }
}

static void write_textures(struct writer *writer) {
    put_count(writer, writer->pmx->texture_count, "texture count");
    for (uint32_t i = 0; i < writer->pmx->texture_count; i++) {
        writer->item = i;
        put_text(writer, writer->pmx->textures[i], "texture path");
    }
}

static void write_material(struct writer *writer, const dfm_pmx_material *material) {
    uint8_t texture_index_size = writer->sizes.texture_index_size;
    put_text(writer, material->name, "material name");
    put_text(writer, material->name_en, "English material name");
    put_floats(writer, material->diffuse, 4);
    put_floats(writer, material->specular, 3);
    put_floats(writer, &material->specular_power, 1);
    put_floats(writer, material->ambient, 3);
    put_u8(writer, material->flags);
    put_floats(writer, material->edge_colour, 4);
    put_floats(writer, &material->edge_size, 1);
    put_index(writer, texture_index_size, material->texture, "texture");
    put_index(writer, texture_index_size, material->sphere_texture, "sphere texture");
    put_u8(writer, material->sphere_mode);
    put_u8(writer, material->toon_shared);
    if (material->toon_shared)
        put_u8(writer, (uint8_t)material->toon);
    else
        put_index(writer, texture_index_size, material->toon, "toon texture");
    put_text(writer, material->memo, "memo");
    put_count(writer, material->index_count, "material index count");
}

static void write_materials(struct writer *writer) {
    put_count(writer, writer->pmx->material_count, "material count");
    for (uint32_t i = 0; i < writer->pmx->material_count; i++) {
        writer->item = i;
        write_material(writer, &writer->pmx->materials[i]);
    }
}

/* --- bones -------------------------------------------------------------------------------- */

static void write_ik(struct writer *writer, const dfm_pmx_bone *bone) {
    put_bone_index(writer, bone->ik_target, "IK target");
    put_i32(writer, bone->ik_loop_count);
    put_floats(writer, &bone->ik_limit_rad, 1);
    put_count(writer, bone->ik_link_count, "IK link count");
    for (uint32_t i = 0; i < bone->ik_link_count; i++) {
        const dfm_pmx_ik_link *link = &bone->ik_links[i];
        put_bone_index(writer, link->bone, "IK link");
        put_u8(writer, link->has_limits ? 1 : 0);
        if (link->has_limits) {
            put_floats(writer, link->limit_min, 3);
            put_floats(writer, link->limit_max, 3);
        }
    }
}

static void write_bone(struct writer *writer, const dfm_pmx_bone *bone) {
    put_text(writer, bone->name, "bone name");
    put_text(writer, bone->name_en, "English bone name");
    put_floats(writer, bone->position, 3);
    put_bone_index(writer, bone->parent, "parent");
    put_i32(writer, bone->layer);
    put_u16(writer, bone->flags);
    if (bone->flags & DFM_BONE_TAIL_IS_BONE)
        put_bone_index(writer, bone->tail_bone, "tail bone");
    else
        put_floats(writer, bone->tail_offset, 3);
    if (bone->flags & (DFM_BONE_APPEND_ROTATION | DFM_BONE_APPEND_TRANSLATION)) {
        put_bone_index(writer, bone->append_source, "append source");
        put_floats(writer, &bone->append_ratio, 1);
    }
    if (bone->flags & DFM_BONE_FIXED_AXIS)
        put_floats(writer, bone->fixed_axis, 3);
    if (bone->flags & DFM_BONE_LOCAL_AXIS) {
        put_floats(writer, bone->local_x, 3);
        put_floats(writer, bone->local_z, 3);
    }
    if (bone->flags & DFM_BONE_EXTERNAL_PARENT)
        put_i32(writer, bone->external_key);
    if (bone->flags & DFM_BONE_IK)
        write_ik(writer, bone);
}

static void write_bones(struct writer *writer) {
    put_count(writer, writer->pmx->bone_count, "bone count");
    for (uint32_t i = 0; i < writer->pmx->bone_count; i++) {
        writer->item = i;
        write_bone(writer, &writer->pmx->bones[i]);
    }
}

/* --- morphs ------------------------------------------------------------------------------- */

static void write_child(struct writer *writer, const dfm_pmx_child_morph *child) {
    put_index(writer, writer->sizes.morph_index_size, child->morph, "morph");
    put_floats(writer, &child->weight, 1);
}

static void write_bone_offset(struct writer *writer, const dfm_pmx_bone_offset *offset) {
    put_bone_index(writer, offset->bone, "bone");
    put_floats(writer, offset->translation, 3);
    put_floats(writer, offset->rotation, 4);
}

static void write_material_offset(struct writer *writer, const dfm_pmx_material_offset *offset) {
    put_index(writer, writer->sizes.material_index_size, offset->material, "material");
    put_u8(writer, offset->operation);
    put_floats(writer, offset->diffuse, 4);
    put_floats(writer, offset->specular, 3);
    put_floats(writer, &offset->specular_power, 1);
    put_floats(writer, offset->ambient, 3);
    put_floats(writer, offset->edge_colour, 4);
    put_floats(writer, &offset->edge_size, 1);
    put_floats(writer, offset->texture, 4);
    put_floats(writer, offset->sphere, 4);
    put_floats(writer, offset->toon, 4);
}

static void write_impulse(struct writer *writer, const dfm_pmx_impulse *impulse) {
    put_index(writer, writer->sizes.rigid_body_index_size, impulse->rigid_body, "rigid body");
    put_u8(writer, impulse->local);
    put_floats(writer, impulse->velocity, 3);
    put_floats(writer, impulse->torque, 3);
}

static void write_offset(struct writer *writer, const dfm_pmx_morph *morph, uint32_t i) {
    switch (morph->type) {
    case DFM_MORPH_GROUP:
    case DFM_MORPH_FLIP:
        write_child(writer, &morph->offsets.children[i]);
        break;
    case DFM_MORPH_VERTEX:
        put_vertex_index(writer, morph->offsets.vertices[i].vertex);
        put_floats(writer, morph->offsets.vertices[i].offset, 3);
        break;
    case DFM_MORPH_BONE:
        write_bone_offset(writer, &morph->offsets.bones[i]);
        break;
    case DFM_MORPH_MATERIAL:
        write_material_offset(writer, &morph->offsets.materials[i]);
        break;
    case DFM_MORPH_IMPULSE:
        write_impulse(writer, &morph->offsets.impulses[i]);
        break;
    default:
        put_vertex_index(writer, morph->offsets.uvs[i].vertex);
        put_floats(writer, morph->offsets.uvs[i].offset, 4);
    }
}

static void write_morph(struct writer *writer, const dfm_pmx_morph *morph) {
    bool needs_21 = morph->type == DFM_MORPH_FLIP || morph->type == DFM_MORPH_IMPULSE;
    if (morph->type >= DFM_MORPH_TYPE_COUNT || (needs_21 && is_version_20(writer))) {
        FAIL(writer, DFM_ERROR_ARGUMENT, "morph type %d does not exist in version %g", morph->type,
             (double)writer->pmx->version);
        return;
    }
    put_text(writer, morph->name, "morph name");
    put_text(writer, morph->name_en, "English morph name");
    put_u8(writer, morph->panel);
    put_u8(writer, morph->type);
    put_count(writer, morph->count, "morph offset count");
    for (uint32_t i = 0; i < morph->count && writer->status == DFM_OK; i++)
        write_offset(writer, morph, i);
}

static void write_morphs(struct writer *writer) {
    put_count(writer, writer->pmx->morph_count, "morph count");
    for (uint32_t i = 0; i < writer->pmx->morph_count; i++) {
        writer->item = i;
        write_morph(writer, &writer->pmx->morphs[i]);
    }
}

/* Display frames, rigid bodies, joints and, in version 2.1, soft bodies: none of each. */
static void write_rest(struct writer *writer) {
    int sections = is_version_20(writer) ? 3 : 4;
    for (int i = 0; i < sections; i++)
        put_i32(writer, 0);
}

dfm_status dfm_pmx_write(const dfm_pmx *pmx, const dfm_pmx_write_options *options, uint8_t **bytes,
                         size_t *size, dfm_error *error) {
    static const struct {
        const char *name;
        void (*write)(struct writer *);
    } sections[] = {
        {"header", write_header},     {"vertices", write_vertices},   {"indices", write_indices},
        {"textures", write_textures}, {"materials", write_materials}, {"bones", write_bones},
        {"morphs", write_morphs},     {"rest", write_rest},
    };
    struct writer writer = {.pmx = pmx, .section = "header", .item = -1, .error = error};
    *bytes = NULL;
    *size = 0;
    choose_sizes(&writer, options);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        writer.section = sections[i].name;
        writer.item = -1;
        sections[i].write(&writer);
    }
    if (writer.status != DFM_OK) {
        free(writer.bytes);
        return writer.status;
    }
    *bytes = writer.bytes;
    *size = writer.size;
    return DFM_OK;
}
