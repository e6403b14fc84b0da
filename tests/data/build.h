/* Building PMX documents piece by piece, for the generators in this folder.
 *
 * A builder's arrays have a fixed capacity, given at the start; adding beyond it, or an arena out
 * of memory, ends the process with a message. Memory is the arena's. */
#ifndef DFM_TESTS_DATA_BUILD_H
#define DFM_TESTS_DATA_BUILD_H

#include "core/pmx.h"

typedef struct builder_capacity {
    uint32_t vertices, sdef_vertices, indices, textures, materials, bones, morphs;
    uint32_t additional_uvs; /* 0..4 */
} builder_capacity;

struct builder {
    dfm_pmx pmx; /* the document so far: whole at any moment */
    dfm_arena *arena;
    builder_capacity capacity;
};

typedef struct build_vertex {
    float position[3], normal[3], uv[2];
    dfm_weight_type type;
    int32_t bone[4]; /* only those that the type has are used */
    float weight[4]; /* BDEF2, SDEF: only the first is used */
    float sdef[3][3];
    float edge_scale;
} build_vertex;

void build_fail(const char *what) __attribute__((noreturn));
void *build_allocate(struct builder *builder, size_t count, size_t size);

struct builder build_begin(dfm_arena *arena, float version, dfm_text_encoding encoding,
                           const builder_capacity *capacity);

/* Each adds one thing and returns its index, or the thing to be filled in further. */
uint32_t build_add_vertex(struct builder *builder, const build_vertex *vertex);
void build_add_triangle(struct builder *builder, uint32_t a, uint32_t b, uint32_t c);
uint32_t build_add_texture(struct builder *builder, const char *path);
dfm_pmx_material *build_add_material(struct builder *builder, const char *name,
                                     const char *name_en);
dfm_pmx_bone *build_add_bone(struct builder *builder, const char *name, const char *name_en,
                             const float position[3], int32_t parent);
dfm_pmx_morph *build_add_morph(struct builder *builder, const char *name, const char *name_en,
                               uint8_t panel, dfm_morph_type type, uint32_t count);

/* Makes the vertices' normals from the triangles around them, weighted by area, from vertex `first`
 * on. */
void build_normals(struct builder *builder, uint32_t first);

/* A small deterministic generator (splitmix64). `unit` is in [0, 1). */
uint64_t random_next(uint64_t *state);
float random_unit(uint64_t *state);

#endif
