/* From the bytes of an upload to a model that can be deformed: reading the file, binding it for the
 * CPU skinner, and freeing it again. Medians in milliseconds. Large arrays lie in fresh memory each
 * time, as those of a daemon's models do, which stay: half of the time is the system's, for pages.
 */
#include "core/skin_bind.h"
#include "tests/bench/timing.h"
#include "tests/data/models.h"
#include "tests/data/real.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES_MAX = 4096 };

static void stop(const char *why) {
    fprintf(stderr, "bench_upload: %s\n", why);
    exit(1);
}

static void report(const char *what, const uint8_t *bytes, size_t size) {
    static double read_us[SAMPLES_MAX], bind_us[SAMPLES_MAX], free_us[SAMPLES_MAX];
    size_t samples = 0;
    uint32_t vertices = 0;
    double end = now_us() + 1e6 * bench_seconds();
    while (samples < SAMPLES_MAX && (samples < 3 || now_us() < end)) {
        dfm_model *model;
        dfm_skin_bind *bind;
        double start = now_us();
        if (dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, NULL) != DFM_OK)
            stop("a model does not load");
        double read = now_us();
        if (dfm_skin_bind_create(model, DFM_WEIGHTS_NORMALIZED, true, &bind, NULL) != DFM_OK)
            stop("a model does not bind");
        double bound = now_us();
        vertices = model->pmx.vertices.count;
        dfm_skin_bind_free(bind);
        dfm_model_release(model);
        read_us[samples] = read - start;
        bind_us[samples] = bound - read;
        free_us[samples++] = now_us() - bound;
    }
    double read = median(read_us, samples), bind = median(bind_us, samples);
    printf("| %-28s | %8u | %6.1f | %7.2f | %7.2f | %7.2f | %8.2f | %5.0f |\n", what, vertices,
           (double)size / 1e6, read / 1e3, bind / 1e3, (read + bind) / 1e3,
           median(free_us, samples) / 1e3, 1e3 * (read + bind) / vertices);
    fflush(stdout);
}

static void report_grid(uint32_t vertices) {
    dfm_arena arena = {0};
    grid_options options = grid_default_options(vertices, 300);
    dfm_pmx pmx = model_grid(&arena, &options);
    size_t size;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    dfm_arena_free(&arena);
    report("grid, mix 35/40/15/10", bytes, size);
    free(bytes);
}

int main(void) {
    mallopt(M_MMAP_THRESHOLD, 128 * 1024); /* setting it keeps it from growing with what is freed */
    printf("| upload, one core, ms         | vertices |     MB |    read |    bind |     sum |  "
           "freeing "
           "| ns/v. |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    report_grid(1000);
    report_grid(50000);
    report_grid(500000);
    static const char *const names[] = {"appearance_miku.pmx", "yw_test_model.pmx"};
    real_models models = real_models_find("real models");
    for (size_t i = 0; i < models.count; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (!real_is(models.paths[i], names[k]))
                continue;
            size_t size;
            uint8_t *bytes = real_read_file(models.paths[i], &size);
            report(names[k], bytes, size);
            free(bytes);
        }
    }
    real_models_free(&models);
    return 0;
}
