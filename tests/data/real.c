#include "tests/data/real.h"
#include "tests/data/build.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

real_models real_models_find(const char *what) {
    const char *folder = getenv("DEFORMD_TEST_DATA");
    char pattern[4096];
    snprintf(pattern, sizeof pattern, "%s/models/*/*.pmx", folder ? folder : "../shared");
    real_models models = {0};
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0) {
        printf("SKIPPED: %s (no %s)\n", what, pattern);
        return models;
    }
    models.count = found.gl_pathc;
    models.paths = calloc(found.gl_pathc, sizeof *models.paths);
    for (size_t i = 0; models.paths && i < found.gl_pathc; i++)
        models.paths[i] = strdup(found.gl_pathv[i]);
    if (!models.paths)
        build_fail("out of memory");
    globfree(&found);
    return models;
}

void real_models_free(real_models *models) {
    for (size_t i = 0; i < models->count; i++)
        free(models->paths[i]);
    free(models->paths);
    *models = (real_models){0};
}

uint8_t *real_read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        build_fail(path);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size ? *size : 1);
    if (!bytes || fread(bytes, 1, *size, file) != *size)
        build_fail(path);
    fclose(file);
    return bytes;
}

bool real_is(const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, name) == 0;
}
