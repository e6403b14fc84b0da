/* Public models that may lie beside the project: ../shared, or the folder in DEFORMD_TEST_DATA. */
#ifndef DFM_TESTS_DATA_REAL_H
#define DFM_TESTS_DATA_REAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct real_models {
    size_t count;
    char **paths; /* sorted */
} real_models;

/* All of models/<folder>/<name>.pmx. Without any, prints a line "SKIPPED: <what> (...)" and gives
 * none. Free the result. */
real_models real_models_find(const char *what);
void real_models_free(real_models *models);

/* The bytes of a file, malloc'ed, exactly `*size` of them; ends the process on failure. */
uint8_t *real_read_file(const char *path, size_t *size);

/* Whether the path ends in this file name. */
bool real_is(const char *path, const char *name);

#endif
