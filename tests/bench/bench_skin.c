/* The CPU skinner against the stream bound: what it costs merely to read the bind data and to write
 * 24 bytes a vertex, measured in turns with the kernels, so that a noisy machine hits both alike.
 * Times are medians, in ns a vertex; x is the ratio to the stream bound of the same line. */
#include "core/deform.h"
#include "tests/bench/timing.h"
#include "tests/data/models.h"
#include "tests/data/real.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES_MAX = 20000, VARIANTS_MAX = 8 };

typedef struct bench {
    dfm_model *model;
    dfm_skin_bind *bind;
    dfm_workspace workspace;
    dfm_layout layout;
    uint8_t *frame;
} bench;

static void stop(const char *why) {
    fprintf(stderr, "bench_skin: %s\n", why);
    exit(1);
}

/* --- a model, posed ----------------------------------------------------------------------------
 */

/* Every bone turned by its own small angle about its own axis. */
static void pose_all(const dfm_pmx *pmx, dfm_pose *pose) {
    for (uint32_t i = 0; i < pmx->bone_count; i++) {
        double angle = 0.02 * (1 + i % 7), s = sin(angle / 2) / sqrt(3);
        double signs[3] = {i & 1 ? s : -s, i & 2 ? s : -s, i & 4 ? s : -s};
        memcpy(pose->bones[i].rotation, signs, sizeof signs);
        pose->bones[i].rotation[3] = cos(angle / 2);
        pose->ik_off[i] = 1;
    }
}

static bench open_bytes(const uint8_t *bytes, size_t size) {
    bench b = {.layout = {.attribute_count = 2,
                          .attributes = {DFM_ATTRIBUTE_POSITION, DFM_ATTRIBUTE_NORMAL}}};
    dfm_error error;
    dfm_error_clear(&error);
    if (dfm_model_load(bytes, size, &dfm_pmx_default_limits, &b.model, &error) != DFM_OK ||
        dfm_skin_bind_create(b.model, DFM_WEIGHTS_NORMALIZED, true, &b.bind, &error) != DFM_OK ||
        dfm_workspace_reserve(&b.workspace, b.bind, &error) != DFM_OK)
        stop(error.info);
    dfm_layout_finish(&b.layout, b.bind->vertex_count);
    b.frame = aligned_alloc(64, (b.layout.frame_bytes + 63) / 64 * 64);
    if (!b.frame)
        stop("no memory");
    memset(b.frame, 0, b.layout.frame_bytes);
    pose_all(&b.model->pmx, &b.workspace.pose);
    return b;
}

static bench open_grid(const grid_options *options) {
    dfm_arena arena = {0};
    dfm_pmx pmx = model_grid(&arena, options);
    size_t size;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    dfm_arena_free(&arena);
    bench b = open_bytes(bytes, size);
    free(bytes);
    return b;
}

static void close_bench(bench *b) {
    free(b->frame);
    dfm_workspace_free(&b->workspace);
    dfm_skin_bind_free(b->bind);
    dfm_model_release(b->model);
}

/* --- what is timed -----------------------------------------------------------------------------
 */

#if defined(__x86_64__)
#define WIDE __attribute__((noinline, target("avx2"))) /* this file's measure only */
#else
#define WIDE __attribute__((noinline))
#endif

/* Reads every row, index and block of the bind data and writes every byte of the frame. */
WIDE static void stream(const dfm_skin_bind *bind, uint8_t *frame) {
    typedef float v8 __attribute__((vector_size(32), aligned(16)));
    const v8 *row = (const v8 *)(const void *)bind->data;
    size_t done = 0;
    typedef uint32_t u8 __attribute__((vector_size(32), aligned(16)));
    const u8 *vertex = (const u8 *)(const void *)bind->vertex;
    u8 indices = {0};
    for (uint32_t b = 0; b < bind->block_count; b++) {
        const dfm_skin_block *block = &bind->blocks[b];
        size_t end = b + 1 < bind->block_count ? block[1].row : bind->row_count;
        v8 sum = {0};
        for (size_t r = block->row + 6; r < end; r++)
            sum += row[r];
        indices += vertex[b];
        if (done + DFM_LANES > bind->vertex_count)
            break;
        for (int i = 0; i < 6; i++) {
            v8 out = row[block->row + (size_t)i] + sum;
            memcpy(frame + 24 * done + 32 * (size_t)i, &out, 32);
        }
        done += DFM_LANES;
    }
    __asm__ volatile("" ::"m"(indices), "r"(frame) : "memory");
}

static dfm_skin_args args_of(const bench *b) {
    const dfm_workspace *w = &b->workspace;
    return (dfm_skin_args){.blocks = b->bind->blocks,
                           .data = b->bind->data,
                           .vertex = b->bind->vertex,
                           .block_count = b->bind->block_count,
                           .palette = w->palette,
                           .rotations = w->rotations,
                           .duals = w->duals,
                           .position = {b->frame, 24},
                           .normal = {b->frame + 12, 24}};
}

static void report(const char *what, bench *b) {
    static double times[1 + VARIANTS_MAX][SAMPLES_MAX];
    const dfm_deform_target target = {.model = b->model, .bind = b->bind};
    dfm_deform_times ignored = {0};
    if (dfm_deform_solve(&target, &b->workspace, &ignored, NULL) != DFM_OK)
        stop("the pose does not solve");
    dfm_skin_args args = args_of(b);
    double end = now_us() + 1e6 * bench_seconds();
    size_t samples = 0;
    while (samples < SAMPLES_MAX && (samples < 3 || now_us() < end)) {
        double start = now_us();
        stream(b->bind, b->frame);
        times[0][samples] = now_us() - start;
        for (size_t i = 0; i < dfm_skin_variant_count; i++) {
            if (!dfm_skin_variants[i].supported())
                continue;
            start = now_us();
            dfm_skin_variants[i].kernel(&args);
            times[1 + i][samples] = now_us() - start;
        }
        samples++;
    }
    double scale = 1e3 / b->bind->vertex_count, bound = median(times[0], samples) * scale;
    printf("| %-28s | %8u | %4u | %5.2f |", what, b->bind->vertex_count, b->bind->bone_count,
           bound);
    for (size_t i = 0; i < dfm_skin_variant_count; i++) {
        if (!dfm_skin_variants[i].supported())
            continue;
        double ns = median(times[1 + i], samples) * scale;
        printf(" %5.2f (%4.1fx) |", ns, ns / bound);
    }
    printf("\n");
    fflush(stdout);
}

static void report_grid(const char *what, grid_options options) {
    bench b = open_grid(&options);
    report(what, &b);
    close_bench(&b);
}

/* 100 %, in grid_options' way: what no other type takes is BDEF1. */
static grid_options pure(uint32_t bdef2, uint32_t bdef4, uint32_t sdef, uint32_t qdef) {
    grid_options options = grid_default_options(30000, 300);
    options.bdef2 = bdef2;
    options.bdef4 = bdef4;
    options.sdef = sdef;
    options.qdef = qdef;
    return options;
}

/* Public characters, where they lie beside the project. */
static void report_real(void) {
    static const char *const names[] = {"appearance_miku.pmx", "yw_test_model.pmx"};
    real_models models = real_models_find("real models");
    for (size_t i = 0; i < models.count; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (!real_is(models.paths[i], names[k]))
                continue;
            size_t size;
            uint8_t *bytes = real_read_file(models.paths[i], &size);
            bench b = open_bytes(bytes, size);
            free(bytes);
            report(names[k], &b);
            close_bench(&b);
        }
    }
    real_models_free(&models);
}

int main(void) {
    printf("| %-28s | vertices | bones | stream |", "skin, ns a vertex, one thread");
    for (size_t i = 0; i < dfm_skin_variant_count; i++)
        if (dfm_skin_variants[i].supported())
            printf(" %-13s |", dfm_skin_variants[i].name);
    printf("\n| --- | --- | --- | --- |");
    for (size_t i = 0; i < dfm_skin_variant_count; i++)
        if (dfm_skin_variants[i].supported())
            printf(" --- |");
    printf("\n");
    report_grid("mix 35/40/15/10", grid_default_options(30000, 300));
    report_grid("BDEF1", pure(0, 0, 0, 0));
    report_grid("BDEF2", pure(100, 0, 0, 0));
    report_grid("BDEF4", pure(0, 100, 0, 0));
    report_grid("SDEF", pure(0, 0, 100, 0));
    report_grid("QDEF", pure(0, 0, 0, 100));
    grid_options shuffled = grid_default_options(30000, 300);
    shuffled.shuffled = true;
    report_grid("mix, random order", shuffled);
    report_real();
    static const uint32_t sizes[] = {1000, 10000, 100000, 1000000}, bones[] = {1, 50, 700};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        report_grid("mix", grid_default_options(sizes[i], 300));
    for (size_t i = 0; i < sizeof bones / sizeof *bones; i++)
        report_grid("mix", grid_default_options(30000, bones[i]));
    return 0;
}
