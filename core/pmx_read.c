#include "core/pmx.h"
#include "core/stream.h"
#include "core/text.h"

#include <inttypes.h>

/* The largest public stages have 1.5 million vertices, the largest rigs some thousand bones. The
 * figures leave more than twice that, and keep what one file can make the process allocate near
 * what the upload limit allows anyway. */
const dfm_pmx_limits dfm_pmx_default_limits = {
    .max_vertices = 4u << 20,
    .max_indices = 24u << 20, /* 6 a vertex: a closed mesh has two triangles for each vertex */
    .max_textures = 16384,
    .max_materials = 16384,
    .max_bones = 65536,
    .max_ik_links = 65536,
    .max_morphs = 16384,
    .max_morph_offsets = 16u << 20,
    .max_text_bytes = 1u << 20,
};

enum {
    TEXT_BYTES = 4,    /* an empty text: its length */
    GLOBALS_COUNT = 8, /* what versions 2.0 and 2.1 define */
    BONE_FLAGS_KNOWN = 0x3FBF,
    MATERIAL_BYTES =
        76 + 2 * TEXT_BYTES, /* with empty texts, and without its two texture indices */
};

struct reader {
    dfm_stream stream;
    const dfm_pmx_limits *limits;
    dfm_arena *arena;
    dfm_warnings *warnings;
    dfm_pmx *pmx;
    uint8_t vertex_index_size, texture_index_size, material_index_size;
    uint8_t bone_index_size, morph_index_size, rigid_body_index_size;
    uint32_t ik_links, morph_offsets; /* so far: the limits go over the whole file */
};

static bool failed(const struct reader *reader) {
    return reader->stream.status != DFM_OK;
}

static void begin_section(struct reader *reader, const char *section) {
    reader->stream.section = section;
    reader->stream.item = -1;
}

static void *allocate(struct reader *reader, size_t count, size_t size) {
    if (failed(reader))
        return NULL;
    void *result = dfm_arena_alloc(reader->arena, count, size);
    if (!result)
        dfm_stream_fail(&reader->stream, DFM_ERROR_NO_MEMORY, reader->stream.at,
                        "no memory for %zu items of %zu bytes", count, size);
    return result;
}

/* A count, which must leave room for that many records of at least `record_bytes` in the file (so
 * that four bytes cannot make the process allocate gigabytes) and, with `used` records before, be
 * no more than `limit`. */
static uint32_t read_more(struct reader *reader, const char *what, uint32_t limit, uint32_t used,
                          size_t record_bytes) {
    dfm_stream *stream = &reader->stream;
    size_t offset = stream->at;
    int32_t count = dfm_stream_i32(stream, what);
    size_t remaining = dfm_stream_remaining(stream);
    if (count < 0)
        dfm_stream_fail(stream, DFM_ERROR_MALFORMED, offset,
                        "%s is %" PRId32 ", 0 or more expected", what, count);
    else if ((size_t)count > remaining / record_bytes)
        dfm_stream_fail(stream, DFM_ERROR_TRUNCATED, offset,
                        "%s is %" PRId32 ", which takes at least %zu bytes, and %zu remain", what,
                        count, (size_t)count * record_bytes, remaining);
    else if ((uint32_t)count > limit - used)
        stream->status =
            dfm_fail_limit(stream->error, stream->section, stream->item, (int64_t)offset, limit,
                           (uint64_t)used + (uint64_t)count, what);
    return failed(reader) ? 0 : (uint32_t)count;
}

static uint32_t read_count(struct reader *reader, const char *what, uint32_t limit,
                           size_t record_bytes) {
    return read_more(reader, what, limit, 0, record_bytes);
}

static dfm_text read_text(struct reader *reader, const char *what) {
    static const dfm_text empty = {.data = "", .length = 0};
    uint32_t size = read_count(reader, what, reader->limits->max_text_bytes, 1);
    const uint8_t *bytes = dfm_stream_take(&reader->stream, size, what);
    if (!bytes || size == 0)
        return empty;
    size_t (*decode)(const uint8_t *, size_t, char *, size_t *) =
        reader->pmx->encoding == DFM_TEXT_UTF8 ? dfm_text_decode_utf8 : dfm_text_decode_utf16le;
    size_t replaced, length = decode(bytes, size, NULL, &replaced);
    char *data = dfm_arena_alloc_text(reader->arena, length + 1);
    if (!data) {
        dfm_stream_fail(&reader->stream, DFM_ERROR_NO_MEMORY, reader->stream.at,
                        "no memory for a text of %zu bytes", length);
        return empty;
    }
    decode(bytes, size, data, NULL);
    if (replaced > 0)
        dfm_warn(reader->warnings, "text-replaced", reader->stream.item,
                 "texts hold bytes that are no characters, read as U+FFFD; first: %s in %s", what,
                 reader->stream.section);
    return (dfm_text){.data = data, .length = (uint32_t)length};
}

/* Floats of which none may reach an output as NaN: those that are not finite are read as 0. */
static void read_finite(struct reader *reader, float *values, size_t count, const char *what) {
    dfm_stream_floats(&reader->stream, values, count, what);
    for (size_t i = 0; i < count; i++) {
        if (isnan(values[i])) {
            values[i] = 0;
            dfm_warn(reader->warnings, "number-not-finite", reader->stream.item,
                     "numbers that are not finite (or beyond 1e18) are read as 0; first: %s in %s",
                     what, reader->stream.section);
        }
    }
}

static void read_position(struct reader *reader, float position[3]) {
    size_t offset = reader->stream.at;
    dfm_stream_floats(&reader->stream, position, 3, "position");
    for (int i = 0; i < 3; i++) {
        if (isnan(position[i])) {
            dfm_stream_fail(&reader->stream, DFM_ERROR_MALFORMED, offset + 4 * (size_t)i,
                            "position %c is not a finite number within 1e18", "xyz"[i]);
            return;
        }
    }
}

/* A byte that says how the record goes on: 0 or 1. */
static uint8_t read_switch(struct reader *reader, const char *what) {
    uint8_t value = dfm_stream_u8(&reader->stream, what);
    if (value > 1)
        dfm_stream_fail(&reader->stream, DFM_ERROR_MALFORMED, reader->stream.at - 1,
                        "%s is %d, 0 or 1 expected", what, value);
    return value;
}

static int32_t read_bone_index(struct reader *reader, const char *what) {
    return dfm_stream_index(&reader->stream, reader->bone_index_size, what);
}

/* --- header ------------------------------------------------------------------------------- */

static void read_signature(struct reader *reader) {
    dfm_stream *stream = &reader->stream;
    const uint8_t *signature = dfm_stream_take(stream, 4, "signature");
    if (!signature)
        return;
    if (memcmp(signature, "PMX", 3) != 0)
        dfm_stream_fail(stream, DFM_ERROR_MALFORMED, 0,
                        "signature is %02x %02x %02x %02x, \"PMX \" expected", signature[0],
                        signature[1], signature[2], signature[3]);
    else if (signature[3] != ' ')
        dfm_warn(reader->warnings, "signature", -1,
                 "the signature ends in byte 0x%02x, not a space", signature[3]);
}

static void read_version(struct reader *reader) {
    size_t offset = reader->stream.at;
    float version;
    dfm_stream_floats(&reader->stream, &version, 1, "version");
    /* Some writers round 2.1 in another way: half a step is a wide enough catch. */
    bool is_20 = fabsf(version - 2.0f) < 0.05f, is_21 = fabsf(version - 2.1f) < 0.05f;
    if (!failed(reader) && !is_20 && !is_21)
        dfm_stream_fail(&reader->stream, DFM_ERROR_MALFORMED, offset,
                        "version is %g, 2.0 or 2.1 expected", (double)version);
    reader->pmx->version = is_21 ? 2.1f : 2.0f;
}

static uint8_t read_index_size(struct reader *reader, const char *what) {
    uint8_t size = dfm_stream_u8(&reader->stream, what);
    if (!failed(reader) && size != 1 && size != 2 && size != 4)
        dfm_stream_fail(&reader->stream, DFM_ERROR_MALFORMED, reader->stream.at - 1,
                        "%s is %d, 1, 2 or 4 expected", what, size);
    return size;
}

static void read_globals(struct reader *reader) {
    dfm_stream *stream = &reader->stream;
    uint8_t count = dfm_stream_u8(stream, "globals count");
    if (!failed(reader) && count < GLOBALS_COUNT)
        dfm_stream_fail(stream, DFM_ERROR_MALFORMED, stream->at - 1,
                        "globals count is %d, %d or more expected", count, GLOBALS_COUNT);
    reader->pmx->encoding = read_switch(reader, "text encoding");
    uint8_t additional_uvs = dfm_stream_u8(stream, "additional UV count");
    if (additional_uvs > DFM_PMX_MAX_ADDITIONAL_UVS)
        dfm_stream_fail(stream, DFM_ERROR_MALFORMED, stream->at - 1,
                        "additional UV count is %d, 0 to 4 expected", additional_uvs);
    reader->pmx->vertices.additional_uv_count = additional_uvs;
    reader->vertex_index_size = read_index_size(reader, "vertex index size");
    reader->texture_index_size = read_index_size(reader, "texture index size");
    reader->material_index_size = read_index_size(reader, "material index size");
    reader->bone_index_size = read_index_size(reader, "bone index size");
    reader->morph_index_size = read_index_size(reader, "morph index size");
    reader->rigid_body_index_size = read_index_size(reader, "rigid body index size");
    if (!failed(reader) && count > GLOBALS_COUNT) {
        dfm_stream_take(stream, (size_t)count - GLOBALS_COUNT, "further globals");
        dfm_warn(reader->warnings, "header-globals", -1,
                 "%d globals instead of %d: the rest is skipped", count, GLOBALS_COUNT);
    }
}

static void read_header(struct reader *reader) {
    begin_section(reader, "header");
    read_signature(reader);
    read_version(reader);
    read_globals(reader);
    reader->pmx->name = read_text(reader, "model name");
    reader->pmx->name_en = read_text(reader, "English model name");
    reader->pmx->comment = read_text(reader, "comment");
    reader->pmx->comment_en = read_text(reader, "English comment");
}

/* --- vertices ----------------------------------------------------------------------------- */

/* Bytes of a vertex before its weight type, ... */
static size_t vertex_head_bytes(const struct reader *reader) {
    return 32 + 16 * (size_t)reader->pmx->vertices.additional_uv_count;
}

/* ... and from the byte after the type to the edge scale, or 0 for a type that does not exist. */
static size_t vertex_tail_bytes(const struct reader *reader, uint8_t weight_type) {
    size_t bone = reader->bone_index_size, edge_scale = 4;
    switch (weight_type) {
    case DFM_WEIGHT_BDEF1:
        return bone + edge_scale;
    case DFM_WEIGHT_BDEF2:
        return 2 * bone + 4 + edge_scale;
    case DFM_WEIGHT_BDEF4:
    case DFM_WEIGHT_QDEF:
        return 4 * bone + 16 + edge_scale;
    case DFM_WEIGHT_SDEF:
        return 2 * bone + 4 + 36 + edge_scale;
    default:
        return 0;
    }
}

/* Walks over the vertices ahead of reading them, so that only SDEF vertices get SDEF rows. Stops
 * where the data go wrong: reading will say so. */
static uint32_t count_sdef(const struct reader *reader, uint32_t vertex_count) {
    const dfm_stream *stream = &reader->stream;
    size_t at = stream->at, head = vertex_head_bytes(reader);
    uint32_t result = 0;
    for (uint32_t i = 0; i < vertex_count && stream->size - at > head; i++) {
        uint8_t type = stream->bytes[at + head];
        size_t tail = vertex_tail_bytes(reader, type);
        if (tail == 0 || tail > stream->size - at - head - 1)
            break;
        result += type == DFM_WEIGHT_SDEF;
        at += head + 1 + tail;
    }
    return result;
}

static bool allocate_vertices(struct reader *reader, uint32_t count) {
    dfm_pmx_vertices *vertices = &reader->pmx->vertices;
    vertices->sdef_count = failed(reader) ? 0 : count_sdef(reader, count);
    vertices->position = allocate(reader, count, sizeof *vertices->position);
    vertices->normal = allocate(reader, count, sizeof *vertices->normal);
    vertices->uv = allocate(reader, count, sizeof *vertices->uv);
    for (uint32_t i = 0; i < vertices->additional_uv_count; i++)
        vertices->additional_uv[i] = allocate(reader, count, sizeof *vertices->additional_uv[i]);
    vertices->weight_type = allocate(reader, count, sizeof *vertices->weight_type);
    vertices->bone = allocate(reader, count, sizeof *vertices->bone);
    vertices->weight = allocate(reader, count, sizeof *vertices->weight);
    vertices->sdef = allocate(reader, vertices->sdef_count, sizeof *vertices->sdef);
    vertices->edge_scale = allocate(reader, count, sizeof *vertices->edge_scale);
    return !failed(reader);
}

static void read_normal(struct reader *reader, float normal[3]) {
    dfm_stream_floats(&reader->stream, normal, 3, "normal");
    if (isnan(normal[0]) || isnan(normal[1]) || isnan(normal[2]))
        dfm_warn(reader->warnings, "normal-not-finite", reader->stream.item,
                 "normals that are not finite: deformed ones are 0, 0, 0");
    else if (normal[0] == 0 && normal[1] == 0 && normal[2] == 0)
        dfm_warn(reader->warnings, "normal-zero", reader->stream.item,
                 "normals of length 0: deformed ones are 0, 0, 0");
}

static void read_bone_pair(struct reader *reader, int32_t bone[4], float weight[4]) {
    bone[0] = read_bone_index(reader, "bone index");
    bone[1] = read_bone_index(reader, "bone index");
    dfm_stream_floats(&reader->stream, weight, 1, "weight");
    weight[1] = 1 - weight[0];
}

static void read_bone_quad(struct reader *reader, int32_t bone[4], float weight[4]) {
    for (int i = 0; i < 4; i++)
        bone[i] = read_bone_index(reader, "bone index");
    dfm_stream_floats(&reader->stream, weight, 4, "weights");
}

static void read_weights(struct reader *reader, uint32_t i, uint32_t *sdef_row) {
    dfm_pmx_vertices *vertices = &reader->pmx->vertices;
    int32_t *bone = vertices->bone[i];
    float *weight = vertices->weight[i];
    uint8_t type = dfm_stream_u8(&reader->stream, "weight type");
    vertices->weight_type[i] = type;
    memset(bone, -1, sizeof vertices->bone[i]);
    switch (type) {
    case DFM_WEIGHT_BDEF1:
        bone[0] = read_bone_index(reader, "bone index");
        weight[0] = 1;
        break;
    case DFM_WEIGHT_BDEF2:
        read_bone_pair(reader, bone, weight);
        break;
    case DFM_WEIGHT_SDEF:
        read_bone_pair(reader, bone, weight);
        /* The row exists: count_sdef has seen this vertex whole, or this read fails. */
        if (dfm_stream_remaining(&reader->stream) >= sizeof *vertices->sdef)
            dfm_stream_floats(&reader->stream, vertices->sdef[*sdef_row][0], 9, "SDEF C, R0, R1");
        else
            dfm_stream_take(&reader->stream, sizeof *vertices->sdef, "SDEF C, R0, R1");
        (*sdef_row)++;
        break;
    case DFM_WEIGHT_QDEF:
        if (reader->pmx->version < 2.05f)
            dfm_warn(reader->warnings, "qdef-version", reader->stream.item,
                     "QDEF vertices in a file of version 2.0, which has no QDEF");
        read_bone_quad(reader, bone, weight);
        break;
    case DFM_WEIGHT_BDEF4:
        read_bone_quad(reader, bone, weight);
        break;
    default:
        dfm_stream_fail(&reader->stream, DFM_ERROR_MALFORMED, reader->stream.at - 1,
                        "weight type is %d, 0 to 4 expected", type);
    }
}

static void read_vertices(struct reader *reader) {
    begin_section(reader, "vertices");
    dfm_pmx_vertices *vertices = &reader->pmx->vertices;
    size_t least = vertex_head_bytes(reader) + 1 + vertex_tail_bytes(reader, DFM_WEIGHT_BDEF1);
    uint32_t count = read_count(reader, "vertex count", reader->limits->max_vertices, least);
    if (!allocate_vertices(reader, count))
        return;
    uint32_t sdef_row = 0;
    for (uint32_t i = 0; i < count; i++) {
        reader->stream.item = i;
        read_position(reader, vertices->position[i]);
        read_normal(reader, vertices->normal[i]);
        read_finite(reader, vertices->uv[i], 2, "UV");
        for (uint32_t k = 0; k < vertices->additional_uv_count; k++)
            read_finite(reader, vertices->additional_uv[k][i], 4, "additional UV");
        read_weights(reader, i, &sdef_row);
        read_finite(reader, &vertices->edge_scale[i], 1, "edge scale");
        if (failed(reader))
            return;
    }
    vertices->count = count;
}

/* --- indices, textures, materials --------------------------------------------------------- */

/* Indices of 1, 2 or 4 bytes; returns the largest. */
static inline uint32_t widen_indices(const uint8_t *bytes, uint8_t size, uint32_t count,
                                     uint32_t *indices) {
    uint32_t largest = 0;
    for (uint32_t i = 0; i < count; i++, bytes += size) {
        indices[i] = dfm_stream_widen(bytes, size);
        largest = indices[i] > largest ? indices[i] : largest;
    }
    return largest;
}

static void fail_index(struct reader *reader, const uint32_t *indices, size_t offset) {
    uint32_t i = 0;
    while (indices[i] < reader->pmx->vertices.count)
        i++;
    reader->stream.item = i;
    dfm_stream_fail(&reader->stream, DFM_ERROR_MALFORMED,
                    offset + (size_t)i * reader->vertex_index_size,
                    "vertex index is %" PRIu32 ", less than %" PRIu32 " expected", indices[i],
                    reader->pmx->vertices.count);
}

static void read_indices(struct reader *reader) {
    begin_section(reader, "indices");
    dfm_stream *stream = &reader->stream;
    size_t count_offset = stream->at;
    uint32_t count =
        read_count(reader, "index count", reader->limits->max_indices, reader->vertex_index_size);
    if (count % 3 != 0)
        dfm_stream_fail(stream, DFM_ERROR_MALFORMED, count_offset,
                        "index count is %" PRIu32 ", a multiple of 3 expected", count);
    uint32_t *indices = allocate(reader, count, sizeof *indices);
    size_t offset = stream->at;
    const uint8_t *bytes =
        dfm_stream_take(stream, (size_t)count * reader->vertex_index_size, "vertex indices");
    if (failed(reader))
        return;
    uint32_t largest = reader->vertex_index_size == 1   ? widen_indices(bytes, 1, count, indices)
                       : reader->vertex_index_size == 2 ? widen_indices(bytes, 2, count, indices)
                                                        : widen_indices(bytes, 4, count, indices);
    if (count > 0 && largest >= reader->pmx->vertices.count) {
        fail_index(reader, indices, offset);
        return;
    }
    reader->pmx->indices = indices;
    reader->pmx->index_count = count;
}

static void read_textures(struct reader *reader) {
    begin_section(reader, "textures");
    uint32_t count = read_count(reader, "texture count", reader->limits->max_textures, TEXT_BYTES);
    dfm_text *textures = allocate(reader, count, sizeof *textures);
    for (uint32_t i = 0; i < count && !failed(reader); i++) {
        reader->stream.item = i;
        textures[i] = read_text(reader, "texture path");
    }
    if (failed(reader))
        return;
    reader->pmx->textures = textures;
    reader->pmx->texture_count = count;
}

static int32_t read_texture_index(struct reader *reader, const char *what) {
    int32_t index = dfm_stream_index(&reader->stream, reader->texture_index_size, what);
    if (index >= -1 && index < (int64_t)reader->pmx->texture_count)
        return index;
    dfm_warn(reader->warnings, "texture-index-invalid", reader->stream.item,
             "materials name textures that do not exist, read as none; first: %s %" PRId32
             " of material %" PRId64,
             what, index, reader->stream.item);
    return -1;
}

/* Materials share the index list one after another: what a material asks for beyond the list's end
 * is cut, so that nobody reads there. */
static uint32_t read_material_index_count(struct reader *reader, uint32_t left) {
    size_t offset = reader->stream.at;
    int32_t count = dfm_stream_i32(&reader->stream, "material index count");
    if (count < 0)
        dfm_stream_fail(&reader->stream, DFM_ERROR_MALFORMED, offset,
                        "material index count is %" PRId32 ", 0 or more expected", count);
    if ((uint32_t)count <= left)
        return (uint32_t)count;
    if (!failed(reader))
        dfm_warn(reader->warnings, "material-indices", reader->stream.item,
                 "materials ask for more indices than the model has: cut");
    return left;
}

static void read_material(struct reader *reader, dfm_pmx_material *material,
                          uint32_t indices_left) {
    dfm_stream *stream = &reader->stream;
    material->name = read_text(reader, "material name");
    material->name_en = read_text(reader, "English material name");
    read_finite(reader, material->diffuse, 4, "diffuse colour");
    read_finite(reader, material->specular, 3, "specular colour");
    read_finite(reader, &material->specular_power, 1, "specular power");
    read_finite(reader, material->ambient, 3, "ambient colour");
    material->flags = dfm_stream_u8(stream, "material flags");
    read_finite(reader, material->edge_colour, 4, "edge colour");
    read_finite(reader, &material->edge_size, 1, "edge size");
    material->texture = read_texture_index(reader, "texture");
    material->sphere_texture = read_texture_index(reader, "sphere texture");
    material->sphere_mode = dfm_stream_u8(stream, "sphere mode");
    material->toon_shared = read_switch(reader, "toon kind");
    material->toon = material->toon_shared ? dfm_stream_u8(stream, "shared toon")
                                           : read_texture_index(reader, "toon texture");
    material->memo = read_text(reader, "memo");
    material->index_count = read_material_index_count(reader, indices_left);
}

static void read_materials(struct reader *reader) {
    begin_section(reader, "materials");
    size_t least = MATERIAL_BYTES + 2 * (size_t)reader->texture_index_size;
    uint32_t count = read_count(reader, "material count", reader->limits->max_materials, least);
    dfm_pmx_material *materials = allocate(reader, count, sizeof *materials);
    uint32_t left = reader->pmx->index_count;
    for (uint32_t i = 0; i < count && !failed(reader); i++) {
        reader->stream.item = i;
        read_material(reader, &materials[i], left);
        left -= materials[i].index_count;
    }
    if (failed(reader))
        return;
    if (left > 0)
        dfm_warn(reader->warnings, "material-indices", -1,
                 "the last %" PRIu32 " vertex indices belong to no material", left);
    reader->pmx->materials = materials;
    reader->pmx->material_count = count;
}

/* --- bones -------------------------------------------------------------------------------- */

static void read_ik_link(struct reader *reader, dfm_pmx_ik_link *link) {
    link->bone = read_bone_index(reader, "IK link");
    link->has_limits = read_switch(reader, "IK limits switch");
    if (link->has_limits) {
        read_finite(reader, link->limit_min, 3, "IK limit");
        read_finite(reader, link->limit_max, 3, "IK limit");
    }
}

static void read_ik(struct reader *reader, dfm_pmx_bone *bone) {
    bone->ik_target = read_bone_index(reader, "IK target");
    bone->ik_loop_count = dfm_stream_i32(&reader->stream, "IK loop count");
    read_finite(reader, &bone->ik_limit_rad, 1, "IK limit angle");
    uint32_t count = read_more(reader, "IK link count", reader->limits->max_ik_links,
                               reader->ik_links, (size_t)reader->bone_index_size + 1);
    bone->ik_links = allocate(reader, count, sizeof *bone->ik_links);
    reader->ik_links += count;
    for (uint32_t i = 0; i < count && !failed(reader); i++)
        read_ik_link(reader, &bone->ik_links[i]);
    bone->ik_link_count = count;
}

static uint16_t read_bone_flags(struct reader *reader) {
    uint16_t flags = dfm_stream_u16(&reader->stream, "bone flags");
    if (flags & ~BONE_FLAGS_KNOWN)
        dfm_warn(reader->warnings, "bone-flags", reader->stream.item,
                 "bones with flags that version 2.1 does not define; first: 0x%04x", flags);
    return flags;
}

static void read_bone(struct reader *reader, dfm_pmx_bone *bone) {
    dfm_stream *stream = &reader->stream;
    bone->tail_bone = bone->append_source = bone->ik_target = -1;
    bone->name = read_text(reader, "bone name");
    bone->name_en = read_text(reader, "English bone name");
    read_position(reader, bone->position);
    bone->parent = read_bone_index(reader, "parent");
    bone->layer = dfm_stream_i32(stream, "deform layer");
    bone->flags = read_bone_flags(reader);
    if (bone->flags & DFM_BONE_TAIL_IS_BONE)
        bone->tail_bone = read_bone_index(reader, "tail bone");
    else
        read_finite(reader, bone->tail_offset, 3, "tail offset");
    if (bone->flags & (DFM_BONE_APPEND_ROTATION | DFM_BONE_APPEND_TRANSLATION)) {
        bone->append_source = read_bone_index(reader, "append source");
        read_finite(reader, &bone->append_ratio, 1, "append ratio");
    }
    if (bone->flags & DFM_BONE_FIXED_AXIS)
        read_finite(reader, bone->fixed_axis, 3, "fixed axis");
    if (bone->flags & DFM_BONE_LOCAL_AXIS) {
        read_finite(reader, bone->local_x, 3, "local x axis");
        read_finite(reader, bone->local_z, 3, "local z axis");
    }
    if (bone->flags & DFM_BONE_EXTERNAL_PARENT)
        bone->external_key = dfm_stream_i32(stream, "external parent key");
    if (bone->flags & DFM_BONE_IK)
        read_ik(reader, bone);
}

static void read_bones(struct reader *reader) {
    begin_section(reader, "bones");
    size_t least = 2 * TEXT_BYTES + 18 + 2 * (size_t)reader->bone_index_size;
    uint32_t count = read_count(reader, "bone count", reader->limits->max_bones, least);
    dfm_pmx_bone *bones = allocate(reader, count, sizeof *bones);
    for (uint32_t i = 0; i < count && !failed(reader); i++) {
        reader->stream.item = i;
        read_bone(reader, &bones[i]);
    }
    if (failed(reader))
        return;
    reader->pmx->bones = bones;
    reader->pmx->bone_count = count;
}

/* --- morphs ------------------------------------------------------------------------------- */

static void read_child(struct reader *reader, dfm_pmx_child_morph *child) {
    child->morph = dfm_stream_index(&reader->stream, reader->morph_index_size, "morph index");
    read_finite(reader, &child->weight, 1, "morph weight");
}

static void read_vertex_offset(struct reader *reader, dfm_pmx_vertex_offset *offset) {
    offset->vertex =
        dfm_stream_unsigned_index(&reader->stream, reader->vertex_index_size, "vertex index");
    read_finite(reader, offset->offset, 3, "vertex offset");
}

static void read_uv_offset(struct reader *reader, dfm_pmx_uv_offset *offset) {
    offset->vertex =
        dfm_stream_unsigned_index(&reader->stream, reader->vertex_index_size, "vertex index");
    read_finite(reader, offset->offset, 4, "UV offset");
}

static void read_bone_offset(struct reader *reader, dfm_pmx_bone_offset *offset) {
    offset->bone = read_bone_index(reader, "bone index");
    read_finite(reader, offset->translation, 3, "bone translation");
    read_finite(reader, offset->rotation, 4, "bone rotation");
}

static void read_material_offset(struct reader *reader, dfm_pmx_material_offset *offset) {
    dfm_stream *stream = &reader->stream;
    offset->material = dfm_stream_index(stream, reader->material_index_size, "material index");
    offset->operation = dfm_stream_u8(stream, "material operation");
    read_finite(reader, offset->diffuse, 4, "diffuse colour");
    read_finite(reader, offset->specular, 3, "specular colour");
    read_finite(reader, &offset->specular_power, 1, "specular power");
    read_finite(reader, offset->ambient, 3, "ambient colour");
    read_finite(reader, offset->edge_colour, 4, "edge colour");
    read_finite(reader, &offset->edge_size, 1, "edge size");
    read_finite(reader, offset->texture, 4, "texture colour");
    read_finite(reader, offset->sphere, 4, "sphere colour");
    read_finite(reader, offset->toon, 4, "toon colour");
}

static void read_impulse(struct reader *reader, dfm_pmx_impulse *impulse) {
    impulse->rigid_body =
        dfm_stream_index(&reader->stream, reader->rigid_body_index_size, "rigid body index");
    impulse->local = dfm_stream_u8(&reader->stream, "impulse space");
    read_finite(reader, impulse->velocity, 3, "impulse velocity");
    read_finite(reader, impulse->torque, 3, "impulse torque");
}

/* Bytes of one offset in the file. */
static size_t morph_offset_bytes(const struct reader *reader, uint8_t type) {
    switch (type) {
    case DFM_MORPH_GROUP:
    case DFM_MORPH_FLIP:
        return (size_t)reader->morph_index_size + 4;
    case DFM_MORPH_VERTEX:
        return (size_t)reader->vertex_index_size + 12;
    case DFM_MORPH_BONE:
        return (size_t)reader->bone_index_size + 28;
    case DFM_MORPH_MATERIAL:
        return (size_t)reader->material_index_size + 113;
    case DFM_MORPH_IMPULSE:
        return (size_t)reader->rigid_body_index_size + 25;
    default:
        return (size_t)reader->vertex_index_size + 16;
    }
}

/* Calls `read` for each of the morph's offsets into a new array of `type`. */
#define READ_OFFSETS(reader, morph, array, read)                                                   \
    do {                                                                                           \
        (morph)->offsets.array = allocate(reader, (morph)->count, sizeof *(morph)->offsets.array); \
        for (uint32_t k = 0; k < (morph)->count && !failed(reader); k++)                           \
            read(reader, &(morph)->offsets.array[k]);                                              \
    } while (0)

static void read_offsets(struct reader *reader, dfm_pmx_morph *morph) {
    switch (morph->type) {
    case DFM_MORPH_GROUP:
    case DFM_MORPH_FLIP:
        READ_OFFSETS(reader, morph, children, read_child);
        break;
    case DFM_MORPH_VERTEX:
        READ_OFFSETS(reader, morph, vertices, read_vertex_offset);
        break;
    case DFM_MORPH_BONE:
        READ_OFFSETS(reader, morph, bones, read_bone_offset);
        break;
    case DFM_MORPH_MATERIAL:
        READ_OFFSETS(reader, morph, materials, read_material_offset);
        break;
    case DFM_MORPH_IMPULSE:
        READ_OFFSETS(reader, morph, impulses, read_impulse);
        break;
    default:
        READ_OFFSETS(reader, morph, uvs, read_uv_offset);
    }
}

static void read_morph(struct reader *reader, dfm_pmx_morph *morph) {
    dfm_stream *stream = &reader->stream;
    morph->name = read_text(reader, "morph name");
    morph->name_en = read_text(reader, "English morph name");
    morph->panel = dfm_stream_u8(stream, "morph panel");
    morph->type = dfm_stream_u8(stream, "morph type");
    if (morph->type >= DFM_MORPH_TYPE_COUNT)
        dfm_stream_fail(stream, DFM_ERROR_MALFORMED, stream->at - 1,
                        "morph type is %d, 0 to 10 expected", morph->type);
    morph->count = read_more(reader, "morph offset count", reader->limits->max_morph_offsets,
                             reader->morph_offsets, morph_offset_bytes(reader, morph->type));
    reader->morph_offsets += morph->count;
    read_offsets(reader, morph);
}

static void read_morphs(struct reader *reader) {
    begin_section(reader, "morphs");
    uint32_t count =
        read_count(reader, "morph count", reader->limits->max_morphs, 2 * TEXT_BYTES + 6);
    dfm_pmx_morph *morphs = allocate(reader, count, sizeof *morphs);
    for (uint32_t i = 0; i < count && !failed(reader); i++) {
        reader->stream.item = i;
        read_morph(reader, &morphs[i]);
    }
    if (failed(reader))
        return;
    reader->pmx->morphs = morphs;
    reader->pmx->morph_count = count;
}

dfm_status dfm_pmx_read(const uint8_t *bytes, size_t size, const dfm_pmx_limits *limits,
                        dfm_arena *arena, dfm_warnings *warnings, dfm_pmx *pmx, dfm_error *error) {
    *pmx = (dfm_pmx){0};
    struct reader reader = {
        .stream = {.bytes = bytes, .size = size, .error = error},
        .limits = limits,
        .arena = arena,
        .warnings = warnings,
        .pmx = pmx,
    };
    static void (*const sections[])(struct reader *) = {
        read_header,    read_vertices, read_indices, read_textures,
        read_materials, read_bones,    read_morphs,
    };
    for (size_t i = 0; i < sizeof sections / sizeof *sections && !failed(&reader); i++)
        sections[i](&reader);
    return reader.stream.status;
}
