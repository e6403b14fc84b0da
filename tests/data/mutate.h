/* Hostile PMX files, made from good ones: cut off, or with a count that lies.
 *
 * The bytes are walked over by code of their own, which shares nothing with the reader under test.
 * Each mutated file is handed to a visitor in a buffer of exactly its size, so that an address
 * sanitizer sees a read of one byte too many. */
#ifndef DFM_TESTS_DATA_MUTATE_H
#define DFM_TESTS_DATA_MUTATE_H

#include <stddef.h>
#include <stdint.h>

enum { PMX_SECTION_COUNT = 7 };
extern const char *const pmx_section_names[PMX_SECTION_COUNT]; /* "header" .. "morphs" */

typedef struct pmx_field {
    size_t offset;
    uint8_t size;     /* 1 or 4 bytes */
    uint8_t section;  /* index into pmx_section_names */
    const char *what; /* static: "vertex count", "bone name", "weight type", ... */
} pmx_field;

/* Where things lie in a well-formed file: every count and length (4 bytes; the globals count: 1),
 * and every byte that says how its record goes on (weight type, toon kind, IK limits switch, morph
 * type). */
typedef struct pmx_map {
    size_t section_end[PMX_SECTION_COUNT];
    size_t field_count, field_capacity;
    pmx_field *fields;
} pmx_map;

/* Ends the process with a message when the bytes are not a whole PMX file. */
pmx_map pmx_map_make(const uint8_t *bytes, size_t size);
void pmx_map_free(pmx_map *map);

/* The `index`-th field called `what`; ends the process where there is none. */
const pmx_field *pmx_map_find(const pmx_map *map, const char *what, size_t index);

typedef enum mutation_expectation {
    MUTATION_MUST_FAIL, /* in `section` */
    MUTATION_MUST_LOAD,
    MUTATION_MAY_LOAD /* an error, or a model */
} mutation_expectation;

typedef struct mutation {
    const uint8_t *bytes; /* `size` bytes, malloc'ed for this call */
    size_t size;
    mutation_expectation expectation;
    const char *section; /* for MUTATION_MUST_FAIL */
    char text[96];       /* what was done, for messages */
} mutation;

typedef void mutation_visit(const mutation *made, void *context);

/* Cut at every byte: up to the end of the morphs it must fail, behind it must load. */
void mutate_every_cut(const uint8_t *bytes, size_t size, mutation_visit *visit, void *context);

/* Cut at section borders and up to 8 bytes around them, and at `count` random places. */
void mutate_some_cuts(const uint8_t *bytes, size_t size, uint32_t count, mutation_visit *visit,
                      void *context);

/* Every count and length, one at a time, set to -1, 0 and the largest number (255 for one byte). */
void mutate_counts(const uint8_t *bytes, size_t size, mutation_visit *visit, void *context);

#endif
