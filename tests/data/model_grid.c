/* The benchmark models: many vertices, many bones, nothing to look at. */
#include "tests/data/build.h"
#include "tests/data/models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const float extent = 20; /* units, both ways */

grid_options grid_default_options(uint32_t vertex_count, uint32_t bone_count) {
    return (grid_options){.vertex_count = vertex_count,
                          .bone_count = bone_count,
                          .bdef2 = 40,
                          .bdef4 = 15,
                          .sdef = 10};
}

/* Where things lie: vertices in rows of `columns`, bones in chains that hang down side by side. */
struct grid {
    const grid_options *options;
    uint32_t columns, rows, chains, chain_length;
    uint64_t random;
};

static const char *numbered(struct builder *builder, const char *prefix, uint32_t number) {
    char text[32];
    int length = snprintf(text, sizeof text, "%s%u", prefix, number);
    char *name = build_allocate(builder, (size_t)length + 1, 1);
    memcpy(name, text, (size_t)length);
    return name;
}

static uint32_t bone_at(const struct grid *grid, uint32_t chain, uint32_t link) {
    uint32_t bone = (chain % grid->chains) * grid->chain_length + link % grid->chain_length;
    return bone < grid->options->bone_count ? bone : grid->options->bone_count - 1;
}

static void add_bones(struct builder *builder, const struct grid *grid) {
    for (uint32_t i = 0; i < grid->options->bone_count; i++) {
        uint32_t chain = i / grid->chain_length, link = i % grid->chain_length;
        const float position[3] = {extent * ((float)chain + 0.5f) / (float)grid->chains -
                                       extent / 2,
                                   extent * (1 - (float)link / (float)grid->chain_length), 0};
        const char *name = numbered(builder, "bone", i);
        dfm_pmx_bone *bone =
            build_add_bone(builder, name, name, position, link == 0 ? -1 : (int32_t)i - 1);
        bone->flags |= DFM_BONE_MOVABLE;
    }
}

static dfm_weight_type choose_type(struct grid *grid, uint32_t vertex) {
    const grid_options *options = grid->options;
    uint32_t percent = options->shuffled
                           ? (uint32_t)(random_next(&grid->random) % 100)
                           : (uint32_t)((uint64_t)vertex * 100 / options->vertex_count);
    if (percent < options->bdef2)
        return DFM_WEIGHT_BDEF2;
    percent -= options->bdef2;
    if (percent < options->bdef4)
        return DFM_WEIGHT_BDEF4;
    percent -= options->bdef4;
    if (percent < options->sdef)
        return DFM_WEIGHT_SDEF;
    percent -= options->sdef;
    return percent < options->qdef ? DFM_WEIGHT_QDEF : DFM_WEIGHT_BDEF1;
}

/* Bones around the vertex: two of its chain, two of the next. Across and down are in [0, 1). */
static void weigh(struct grid *grid, build_vertex *vertex, float across, float down) {
    float along = down * (float)grid->chain_length;
    uint32_t chain = (uint32_t)(across * (float)grid->chains), link = (uint32_t)along;
    float fraction = along - (float)link;
    if (grid->options->shuffled) {
        chain = (uint32_t)(random_next(&grid->random) % grid->chains);
        link = (uint32_t)(random_next(&grid->random) % grid->chain_length);
    }
    for (uint32_t k = 0; k < 4; k++)
        vertex->bone[k] = (int32_t)bone_at(grid, chain + k / 2, link + k % 2);
    if (vertex->type == DFM_WEIGHT_BDEF2 || vertex->type == DFM_WEIGHT_SDEF) {
        vertex->weight[0] = 1 - fraction;
        return;
    }
    vertex->weight[0] = 0.75f * (1 - fraction);
    vertex->weight[1] = 0.75f * fraction;
    vertex->weight[2] = 0.25f * (1 - fraction);
    vertex->weight[3] = 0.25f * fraction;
}

/* C on the chain, R0 and R1 a step to either side of it. */
static void place_sdef(build_vertex *vertex) {
    for (int k = 0; k < 3; k++)
        vertex->sdef[0][k] = vertex->sdef[1][k] = vertex->sdef[2][k] = vertex->position[k];
    vertex->sdef[0][2] = vertex->sdef[1][2] = vertex->sdef[2][2] = 0;
    vertex->sdef[1][1] += 0.5f;
    vertex->sdef[2][1] -= 0.5f;
}

static void add_vertex(struct builder *builder, struct grid *grid, uint32_t i) {
    float across = (float)(i % grid->columns) / (float)grid->columns;
    float down = (float)(i / grid->columns) / (float)grid->rows;
    float wave = across * 40, slope = cosf(wave) * 20 / extent;
    float length = sqrtf(slope * slope + 1);
    build_vertex vertex = {
        .position = {extent * (across - 0.5f), extent * (1 - down), 0.5f * sinf(wave)},
        .normal = {slope / length, 0, -1 / length},
        .uv = {across, down},
        .type = choose_type(grid, i),
        .edge_scale = 1,
    };
    weigh(grid, &vertex, across, down);
    place_sdef(&vertex);
    build_add_vertex(builder, &vertex);
    for (uint32_t k = 0; k < grid->options->additional_uv_count; k++) {
        const float uv[4] = {across, down, (float)k, 1};
        memcpy(builder->pmx.vertices.additional_uv[k][i], uv, sizeof uv);
    }
}

static void add_triangles(struct builder *builder, const struct grid *grid) {
    build_add_material(builder, "材質", "material");
    for (uint32_t i = 0; i + grid->columns + 1 < grid->options->vertex_count; i++) {
        if (i % grid->columns == grid->columns - 1)
            continue;
        uint32_t below = i + grid->columns;
        build_add_triangle(builder, i, i + 1, below);
        build_add_triangle(builder, i + 1, below + 1, below);
    }
}

/* Each morph moves a window of vertices, as an expression moves a face. */
static void add_morphs(struct builder *builder, struct grid *grid) {
    uint32_t count = grid->options->vertex_count / 10;
    for (uint32_t i = 0; i < grid->options->morph_count; i++) {
        const char *name = numbered(builder, "morph", i);
        dfm_pmx_morph *morph = build_add_morph(builder, name, name, 4, DFM_MORPH_VERTEX, count);
        uint32_t first =
            (uint32_t)(random_next(&grid->random) % (grid->options->vertex_count - count + 1));
        for (uint32_t k = 0; k < count; k++) {
            morph->offsets.vertices[k].vertex = first + k;
            for (int axis = 0; axis < 3; axis++)
                morph->offsets.vertices[k].offset[axis] = random_unit(&grid->random) - 0.5f;
        }
    }
}

dfm_pmx model_grid(dfm_arena *arena, const grid_options *options) {
    if (options->bone_count == 0 ||
        options->bdef2 + options->bdef4 + options->sdef + options->qdef > 100)
        build_fail("a grid has a bone at least, and its parts are 100 percent at most");
    struct grid grid = {.options = options, .random = 1};
    grid.columns = (uint32_t)ceil(sqrt((double)options->vertex_count));
    grid.rows = grid.columns ? (options->vertex_count + grid.columns - 1) / grid.columns : 0;
    grid.chain_length = options->chain_length ? options->chain_length : 10;
    grid.chains = (options->bone_count + grid.chain_length - 1) / grid.chain_length;
    const builder_capacity capacity = {
        .vertices = options->vertex_count,
        .sdef_vertices = options->sdef ? options->vertex_count : 0,
        .indices = 6 * options->vertex_count,
        .materials = 1,
        .bones = options->bone_count,
        .morphs = options->morph_count,
        .additional_uvs = options->additional_uv_count,
    };
    struct builder builder =
        build_begin(arena, options->qdef ? 2.1f : 2.0f, DFM_TEXT_UTF16LE, &capacity);
    builder.pmx.name = model_text("格子");
    builder.pmx.name_en = model_text("grid");
    add_bones(&builder, &grid);
    for (uint32_t i = 0; i < options->vertex_count; i++)
        add_vertex(&builder, &grid, i);
    add_triangles(&builder, &grid);
    add_morphs(&builder, &grid);
    return builder.pmx;
}
