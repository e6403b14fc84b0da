#include "tests/data/mutate.h"
#include "tests/data/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const pmx_section_names[PMX_SECTION_COUNT] = {
    "header", "vertices", "indices", "textures", "materials", "bones", "morphs"};

/* --- the map ------------------------------------------------------------------------------ */

struct walk {
    const uint8_t *bytes;
    size_t size, at;
    uint8_t section;
    const uint8_t *globals; /* encoding, additional UVs, then the six index sizes */
    pmx_map map;
};

enum { ADDITIONAL_UVS = 1, VERTEX, TEXTURE, MATERIAL, BONE, MORPH, RIGID_BODY }; /* in globals */

static void skip(struct walk *walk, size_t count) {
    if (count > walk->size - walk->at)
        build_fail("mutate: not a whole PMX file");
    walk->at += count;
}

static void note(struct walk *walk, uint8_t size, const char *what) {
    pmx_map *map = &walk->map;
    if (map->field_count == map->field_capacity) {
        map->field_capacity = map->field_capacity * 2 + 64;
        map->fields = realloc(map->fields, map->field_capacity * sizeof *map->fields);
        if (!map->fields)
            build_fail("mutate: out of memory");
    }
    map->fields[map->field_count++] =
        (pmx_field){.offset = walk->at, .size = size, .section = walk->section, .what = what};
}

static uint8_t note_byte(struct walk *walk, const char *what) {
    note(walk, 1, what);
    skip(walk, 1);
    return walk->bytes[walk->at - 1];
}

static uint32_t note_count(struct walk *walk, const char *what) {
    uint32_t count;
    note(walk, 4, what);
    skip(walk, 4);
    memcpy(&count, walk->bytes + walk->at - 4, 4);
    return count;
}

static void walk_text(struct walk *walk, const char *what) {
    skip(walk, note_count(walk, what));
}

static void walk_header(struct walk *walk) {
    skip(walk, 8);
    uint8_t count = note_byte(walk, "globals count");
    walk->globals = walk->bytes + walk->at;
    skip(walk, count);
    walk_text(walk, "model name");
    walk_text(walk, "English model name");
    walk_text(walk, "comment");
    walk_text(walk, "English comment");
}

static void walk_vertices(struct walk *walk) {
    size_t bone = walk->globals[BONE];
    const size_t bytes[] = {bone, 2 * bone + 4, 4 * bone + 16, 2 * bone + 40, 4 * bone + 16};
    uint32_t count = note_count(walk, "vertex count");
    for (uint32_t i = 0; i < count; i++) {
        skip(walk, 32 + 16 * (size_t)walk->globals[ADDITIONAL_UVS]);
        uint8_t type = note_byte(walk, "weight type");
        if (type > 4)
            build_fail("mutate: unknown weight type");
        skip(walk, bytes[type] + 4);
    }
}

static void walk_indices(struct walk *walk) {
    skip(walk, (size_t)note_count(walk, "index count") * walk->globals[VERTEX]);
}

static void walk_textures(struct walk *walk) {
    uint32_t count = note_count(walk, "texture count");
    for (uint32_t i = 0; i < count; i++)
        walk_text(walk, "texture path");
}

static void walk_materials(struct walk *walk) {
    uint32_t count = note_count(walk, "material count");
    for (uint32_t i = 0; i < count; i++) {
        walk_text(walk, "material name");
        walk_text(walk, "English material name");
        skip(walk, 65 + 2 * (size_t)walk->globals[TEXTURE] + 1);
        skip(walk, note_byte(walk, "toon kind") ? 1 : walk->globals[TEXTURE]);
        walk_text(walk, "memo");
        note_count(walk, "material index count");
    }
}

static void walk_ik(struct walk *walk) {
    skip(walk, walk->globals[BONE]);
    note_count(walk, "IK loop count");
    skip(walk, 4);
    uint32_t links = note_count(walk, "IK link count");
    for (uint32_t i = 0; i < links; i++) {
        skip(walk, walk->globals[BONE]);
        if (note_byte(walk, "IK limits switch"))
            skip(walk, 24);
    }
}

static void walk_bones(struct walk *walk) {
    uint32_t count = note_count(walk, "bone count");
    size_t bone = walk->globals[BONE];
    for (uint32_t i = 0; i < count; i++) {
        walk_text(walk, "bone name");
        walk_text(walk, "English bone name");
        skip(walk, 12 + bone + 4 + 2);
        uint32_t flags = walk->bytes[walk->at - 2] | (uint32_t)walk->bytes[walk->at - 1] << 8;
        skip(walk, flags & 0x0001 ? bone : 12);
        skip(walk, flags & 0x0300 ? bone + 4 : 0);
        skip(walk, flags & 0x0400 ? 12 : 0);
        skip(walk, flags & 0x0800 ? 24 : 0);
        skip(walk, flags & 0x2000 ? 4 : 0);
        if (flags & 0x0020)
            walk_ik(walk);
    }
}

static void walk_morphs(struct walk *walk) {
    const uint8_t *sizes = walk->globals;
    size_t uv = sizes[VERTEX] + 16u;
    const size_t bytes[] = {
        sizes[MORPH] + 4u,      sizes[VERTEX] + 12u, sizes[BONE] + 28u,      uv, uv, uv, uv, uv,
        sizes[MATERIAL] + 113u, sizes[MORPH] + 4u,   sizes[RIGID_BODY] + 25u};
    uint32_t count = note_count(walk, "morph count");
    for (uint32_t i = 0; i < count; i++) {
        walk_text(walk, "morph name");
        walk_text(walk, "English morph name");
        skip(walk, 1);
        uint8_t type = note_byte(walk, "morph type");
        if (type > 10)
            build_fail("mutate: unknown morph type");
        skip(walk, note_count(walk, "morph offset count") * bytes[type]);
    }
}

pmx_map pmx_map_make(const uint8_t *bytes, size_t size) {
    static void (*const sections[PMX_SECTION_COUNT])(struct walk *) = {
        walk_header,    walk_vertices, walk_indices, walk_textures,
        walk_materials, walk_bones,    walk_morphs};
    struct walk walk = {.bytes = bytes, .size = size};
    for (int i = 0; i < PMX_SECTION_COUNT; i++) {
        walk.section = (uint8_t)i;
        sections[i](&walk);
        walk.map.section_end[i] = walk.at;
    }
    return walk.map;
}

void pmx_map_free(pmx_map *map) {
    free(map->fields);
    *map = (pmx_map){0};
}

const pmx_field *pmx_map_find(const pmx_map *map, const char *what, size_t index) {
    for (size_t i = 0; i < map->field_count; i++) {
        if (strcmp(map->fields[i].what, what) == 0 && index-- == 0)
            return &map->fields[i];
    }
    build_fail(what);
}

/* --- mutations ---------------------------------------------------------------------------- */

static uint8_t *copy_exactly(const uint8_t *bytes, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        build_fail("mutate: out of memory");
    memcpy(copy, bytes, size);
    return copy;
}

static void visit_cut(const pmx_map *map, const uint8_t *bytes, size_t cut, mutation_visit *visit,
                      void *context) {
    int section = 0;
    while (section < PMX_SECTION_COUNT && map->section_end[section] <= cut)
        section++;
    bool whole = section == PMX_SECTION_COUNT;
    uint8_t *copy = copy_exactly(bytes, cut);
    mutation made = {
        .bytes = copy,
        .size = cut,
        .expectation = whole ? MUTATION_MUST_LOAD : MUTATION_MUST_FAIL,
        .section = whole ? NULL : pmx_section_names[section],
    };
    snprintf(made.text, sizeof made.text, "cut to %zu bytes", cut);
    visit(&made, context);
    free(copy);
}

void mutate_every_cut(const uint8_t *bytes, size_t size, mutation_visit *visit, void *context) {
    pmx_map map = pmx_map_make(bytes, size);
    for (size_t cut = 0; cut <= size; cut++)
        visit_cut(&map, bytes, cut, visit, context);
    pmx_map_free(&map);
}

void mutate_some_cuts(const uint8_t *bytes, size_t size, uint32_t count, mutation_visit *visit,
                      void *context) {
    pmx_map map = pmx_map_make(bytes, size);
    for (int i = 0; i < PMX_SECTION_COUNT; i++) {
        size_t end = map.section_end[i];
        for (size_t cut = end > 8 ? end - 8 : 0; cut <= end + 8 && cut <= size; cut++)
            visit_cut(&map, bytes, cut, visit, context);
    }
    uint64_t random = size;
    for (uint32_t i = 0; i < count; i++)
        visit_cut(&map, bytes, random_next(&random) % size, visit, context);
    pmx_map_free(&map);
}

void mutate_counts(const uint8_t *bytes, size_t size, mutation_visit *visit, void *context) {
    static const int32_t values[] = {-1, 0, INT32_MAX};
    pmx_map map = pmx_map_make(bytes, size);
    for (size_t i = 0; i < map.field_count; i++) {
        const pmx_field *field = &map.fields[i];
        if (field->size == 1 && strcmp(field->what, "globals count") != 0)
            continue;
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            uint8_t *copy = copy_exactly(bytes, size);
            memcpy(copy + field->offset, &values[k], field->size);
            mutation made = {.bytes = copy, .size = size, .expectation = MUTATION_MAY_LOAD};
            snprintf(made.text, sizeof made.text, "%s at byte %zu set to %d", field->what,
                     field->offset, values[k]);
            visit(&made, context);
            free(copy);
        }
    }
    pmx_map_free(&map);
}
