/* A PMX 2.0/2.1 document: the content of the file as plain data, up to and with the morphs.
 *
 * Space: PMX's own, left-handed, +Y up, the model faces -Z; 1 unit is about 0.08 m. UV origin top
 * left. Quaternions are x, y, z, w. Angles in radians. Nothing is converted; what is repaired, so
 * that nobody behind the reader meets it, is counted in the warnings: numbers that are not finite
 * or beyond 1e18 become 0 (not normals, weights and SDEF vectors, which are left as NaN for the
 * skinner's bind to judge), textures that do not exist become -1, text that is none becomes U+FFFD,
 * and materials get no more indices than there are. Bone, morph, material and rigid body indices,
 * and the vertex indices of morphs, may have any value.
 * Thread safety: a document is plain memory, immutable after dfm_pmx_read.
 * Source of the layout: the PMX specification of PMX Editor (PMX仕様.txt), sections 2.0 and 2.1. */
#ifndef DFM_CORE_PMX_H
#define DFM_CORE_PMX_H

#include "core/arena.h"
#include "core/status.h"
#include "core/warnings.h"

/* UTF-8, `length` bytes, and a NUL behind them (names with a NUL inside exist). */
typedef struct dfm_text {
    const char *data;
    uint32_t length;
} dfm_text;

typedef enum dfm_text_encoding { DFM_TEXT_UTF16LE = 0, DFM_TEXT_UTF8 = 1 } dfm_text_encoding;

/* The weight type byte of a vertex. */
typedef enum dfm_weight_type {
    DFM_WEIGHT_BDEF1 = 0,
    DFM_WEIGHT_BDEF2 = 1,
    DFM_WEIGHT_BDEF4 = 2,
    DFM_WEIGHT_SDEF = 3,
    DFM_WEIGHT_QDEF = 4,
    DFM_WEIGHT_TYPE_COUNT
} dfm_weight_type;

enum { DFM_PMX_MAX_ADDITIONAL_UVS = 4 };

/* Structure of arrays, `count` elements each unless another number is given. */
typedef struct dfm_pmx_vertices {
    uint32_t count;
    uint32_t additional_uv_count; /* 0..4 */
    uint32_t sdef_count;          /* vertices whose weight_type is SDEF */
    float (*position)[3];         /* always finite */
    float (*normal)[3];           /* as in the file: may be zero or not finite */
    float (*uv)[2];
    float (*additional_uv[DFM_PMX_MAX_ADDITIONAL_UVS])[4]; /* NULL from additional_uv_count on */
    uint8_t *weight_type;                                  /* dfm_weight_type */
    int32_t (*bone)[4]; /* unused slots of BDEF1/BDEF2/SDEF are -1; any value may be out of range */
    float (*weight)[4]; /* BDEF1: 1 0 0 0. BDEF2, SDEF: w0, 1 - w0, 0, 0. BDEF4, QDEF: as stored */
    float (
        *sdef)[3][3]; /* sdef_count rows of C, R0, R1, in vertex order: one for each SDEF vertex */
    float *edge_scale;
} dfm_pmx_vertices;

typedef struct dfm_pmx_material {
    dfm_text name, name_en;
    float diffuse[4]; /* r g b a */
    float specular[3], specular_power;
    float ambient[3];
    uint8_t flags; /* 1 double-sided, 2 ground shadow, 4 cast, 8 receive, 16 edge, 32 vertex colour,
                      ... */
    float edge_colour[4], edge_size;
    int32_t texture, sphere_texture; /* valid, or -1 = none */
    uint8_t sphere_mode;             /* 0 off, 1 multiply, 2 add, 3 additional UV */
    uint8_t toon_shared; /* 1: toon is a shared one, 0..9 as a rule; 0: a texture, or -1 */
    int32_t toon;
    dfm_text memo;
    uint32_t
        index_count; /* vertex indices that use this material, one material's behind another's */
} dfm_pmx_material;

enum { /* dfm_pmx_bone.flags */
       DFM_BONE_TAIL_IS_BONE = 0x0001,
       DFM_BONE_ROTATABLE = 0x0002,
       DFM_BONE_MOVABLE = 0x0004,
       DFM_BONE_VISIBLE = 0x0008,
       DFM_BONE_ENABLED = 0x0010,
       DFM_BONE_IK = 0x0020,
       DFM_BONE_APPEND_LOCAL = 0x0080,
       DFM_BONE_APPEND_ROTATION = 0x0100,
       DFM_BONE_APPEND_TRANSLATION = 0x0200,
       DFM_BONE_FIXED_AXIS = 0x0400,
       DFM_BONE_LOCAL_AXIS = 0x0800,
       DFM_BONE_AFTER_PHYSICS = 0x1000,
       DFM_BONE_EXTERNAL_PARENT = 0x2000
};

typedef struct dfm_pmx_ik_link {
    int32_t bone;
    uint8_t has_limits;
    float limit_min[3], limit_max[3]; /* radians about x, y, z; zero without limits */
} dfm_pmx_ik_link;

/* Fields of a flag that is not set are zero, indices -1. */
typedef struct dfm_pmx_bone {
    dfm_text name, name_en;
    float position[3]; /* rest position in model space; finite */
    int32_t parent;    /* -1 = none */
    int32_t layer;     /* deform layer */
    uint16_t flags;
    int32_t tail_bone;
    float tail_offset[3];
    int32_t append_source;
    float append_ratio;
    float fixed_axis[3];
    float local_x[3], local_z[3];
    int32_t external_key;
    int32_t ik_target; /* the effector */
    int32_t ik_loop_count;
    float ik_limit_rad; /* per step and link, as stored */
    uint32_t ik_link_count;
    dfm_pmx_ik_link *ik_links; /* from the one next to the effector upward */
} dfm_pmx_bone;

typedef enum dfm_morph_type {
    DFM_MORPH_GROUP = 0,
    DFM_MORPH_VERTEX = 1,
    DFM_MORPH_BONE = 2,
    DFM_MORPH_UV = 3, /* 4..7: additional UV 1..4 */
    DFM_MORPH_UV1 = 4,
    DFM_MORPH_UV2 = 5,
    DFM_MORPH_UV3 = 6,
    DFM_MORPH_UV4 = 7,
    DFM_MORPH_MATERIAL = 8,
    DFM_MORPH_FLIP = 9,
    DFM_MORPH_IMPULSE = 10,
    DFM_MORPH_TYPE_COUNT
} dfm_morph_type;

typedef struct dfm_pmx_vertex_offset {
    uint32_t vertex; /* may be out of range; 4-byte -1 reads as 0xffffffff */
    float offset[3];
} dfm_pmx_vertex_offset;

typedef struct dfm_pmx_uv_offset {
    uint32_t vertex;
    float offset[4];
} dfm_pmx_uv_offset;

typedef struct dfm_pmx_bone_offset {
    int32_t bone;
    float translation[3];
    float rotation[4];
} dfm_pmx_bone_offset;

typedef struct dfm_pmx_child_morph { /* group and flip */
    int32_t morph;
    float weight;
} dfm_pmx_child_morph;

typedef struct dfm_pmx_material_offset {
    int32_t material;  /* -1 = all */
    uint8_t operation; /* 0 multiply, 1 add */
    float diffuse[4], specular[3], specular_power, ambient[3];
    float edge_colour[4], edge_size, texture[4], sphere[4], toon[4];
} dfm_pmx_material_offset;

typedef struct dfm_pmx_impulse {
    int32_t rigid_body;
    uint8_t local;
    float velocity[3], torque[3];
} dfm_pmx_impulse;

typedef struct dfm_pmx_morph {
    dfm_text name, name_en;
    uint8_t panel; /* 0 none, 1 eyebrow, 2 eye, 3 lip, 4 other */
    uint8_t type;  /* dfm_morph_type */
    uint32_t count;
    union { /* `count` elements, by type */
        dfm_pmx_child_morph *children;
        dfm_pmx_vertex_offset *vertices;
        dfm_pmx_bone_offset *bones;
        dfm_pmx_uv_offset *uvs;
        dfm_pmx_material_offset *materials;
        dfm_pmx_impulse *impulses;
        void *any;
    } offsets;
} dfm_pmx_morph;

typedef struct dfm_pmx {
    float version; /* 2.0 or 2.1 */
    dfm_text_encoding encoding;
    dfm_text name, name_en, comment, comment_en;
    dfm_pmx_vertices vertices;
    uint32_t index_count; /* 3 a triangle, clockwise */
    uint32_t *indices;    /* all < vertices.count */
    uint32_t texture_count;
    dfm_text *textures; /* paths as in the file */
    uint32_t material_count;
    dfm_pmx_material *materials;
    uint32_t bone_count;
    dfm_pmx_bone *bones;
    uint32_t morph_count;
    dfm_pmx_morph *morphs;
} dfm_pmx;

/* What a file may hold at most; each has a configuration flag. Checked before allocation. */
typedef struct dfm_pmx_limits {
    uint32_t max_vertices;
    uint32_t max_indices;
    uint32_t max_textures;
    uint32_t max_materials;
    uint32_t max_bones;
    uint32_t max_ik_links; /* over all bones */
    uint32_t max_morphs;
    uint32_t max_morph_offsets; /* over all morphs */
    uint32_t max_text_bytes;    /* one text, as stored */
} dfm_pmx_limits;

/* At least twice what the largest public models hold. */
extern const dfm_pmx_limits dfm_pmx_default_limits;

/* Reads a document. All memory comes from `arena`, also on failure: free it in both cases. Oddities
 * that a good model may have are added to `warnings`.
 * Failures: DFM_ERROR_TRUNCATED, DFM_ERROR_MALFORMED, DFM_ERROR_LIMIT (with section, item, byte
 * offset), DFM_ERROR_NO_MEMORY. What lies behind the morphs (display frames, rigid bodies, joints,
 * soft bodies) is not read and may be missing. */
dfm_status dfm_pmx_read(const uint8_t *bytes, size_t size, const dfm_pmx_limits *limits,
                        dfm_arena *arena, dfm_warnings *warnings, dfm_pmx *pmx, dfm_error *error);

/* How a document is written. Zero is "choose": the smallest index size that holds the counts. */
typedef struct dfm_pmx_write_options {
    uint8_t vertex_index_size, texture_index_size, material_index_size;
    uint8_t bone_index_size, morph_index_size, rigid_body_index_size;
} dfm_pmx_write_options;

/* Writes a document (with empty display frames, rigid bodies and joints behind the morphs) in the
 * version and encoding that it names. *bytes is malloc'ed: free() it. What is written reads back
 * as the same document.
 * Failures: DFM_ERROR_NO_MEMORY; DFM_ERROR_ARGUMENT: an index that its size cannot hold, a text
 * that is not UTF-8, QDEF, flip or impulse in version 2.0. */
dfm_status dfm_pmx_write(const dfm_pmx *pmx, const dfm_pmx_write_options *options, uint8_t **bytes,
                         size_t *size, dfm_error *error);

/* One influence of a vertex, as authoring tools hold them. */
typedef struct dfm_influence {
    int32_t bone;
    float weight;
} dfm_influence;

/* The field's authoring rule: any number of influences and an SDEF flag become a weight type, bones
 * and weights. Zero weights are dropped first; none -> BDEF1 on bone 0; one -> BDEF1 with 1; two ->
 * BDEF2, or SDEF where `sdef` is set, w1 = 1 - w0; three or four -> BDEF4, weights as they are;
 * five or more -> BDEF4 of the four largest (descending, ties by order), the last = 1 - the others'
 * sum, never below 0. `sdef` has no effect with any other number. Unused slots: bone -1, weight 0.
 */
dfm_weight_type dfm_pmx_author_weights(const dfm_influence *influences, size_t count, bool sdef,
                                       int32_t bone[4], float weight[4]);

#endif
