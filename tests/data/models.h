/* The models that tests, benchmarks and the demo use, made from nothing: no public model's data.
 *
 * Every builder puts a document into `arena`, which the caller frees, and is deterministic: the
 * same arguments give the same document on every machine. Builders end the process with a message
 * when the arena is out of memory: they serve tests and tools. */
#ifndef DFM_TESTS_DATA_MODELS_H
#define DFM_TESTS_DATA_MODELS_H

#include "core/pmx.h"

/* A human-like figure: about 4,000 vertices, closed surfaces with outward normals, standing at the
 * origin, facing -Z, about 20 units high, in PMX 2.1. Standard Japanese and English bone names,
 * arms and legs that bend, IK legs with knee limits, append bones (eyes, D bones, twists), every
 * weight type (BDEF1, BDEF2 trunk and shoulders, BDEF4 hips, SDEF elbows and knees, QDEF wrists)
 * and every morph type. */
dfm_pmx model_figure(dfm_arena *arena);

/* A benchmark model: a sheet of `vertex_count` vertices hung on bones in chains of 10. Parts are
 * in percent, BDEF1 takes what is left. */
typedef struct grid_options {
    uint32_t vertex_count, bone_count; /* bone_count >= 1 */
    uint32_t chain_length;             /* bones in a chain; 0 = 10 */
    uint32_t bdef2, bdef4, sdef, qdef; /* percent of the vertices */
    uint32_t morph_count;              /* vertex morphs, each with vertex_count / 10 offsets */
    uint32_t additional_uv_count;
    bool shuffled; /* types and bones in random order over the vertices instead of in patches */
} grid_options;

/* 35 % BDEF1, 40 % BDEF2, 15 % BDEF4, 10 % SDEF: about what characters have. */
grid_options grid_default_options(uint32_t vertex_count, uint32_t bone_count);
dfm_pmx model_grid(dfm_arena *arena, const grid_options *options);

/* A small odd model (under 20 KB as a file) with every section filled: all weight and morph types
 * that the version has, all bone flags, IK with and without limits, duplicate names, parents after
 * children, 4 additional UVs, unnormalised weights, invalid bone indices, names with a NUL and with
 * characters outside the basic plane. `version` is 2.0f or 2.1f. */
dfm_pmx model_odd(dfm_arena *arena, float version, dfm_text_encoding encoding);

/* A 440-bone rig with 4 IK legs (40 loops, 2 links each), 26 appends and few vertices. */
dfm_pmx model_legs440(dfm_arena *arena);

/* A VMD file in which every bone of `pmx`, whose names are ASCII, moves from frame 0 to the last of
 * `key_count` keys, one every MOTION_KEY_STEP frames, along curves that are not straight: free()
 * it. */
enum { MOTION_KEY_STEP = 10 };
uint8_t *motion_bytes(const dfm_pmx *pmx, uint32_t key_count, size_t *size);

/* A text from a C string; the string is borrowed. */
dfm_text model_text(const char *text);

/* Writes a document with the default (NULL) or given options into malloc'ed bytes: free() them.
 * Ends the process with a message on failure. */
uint8_t *model_bytes(const dfm_pmx *pmx, const dfm_pmx_write_options *options, size_t *size);

#endif
