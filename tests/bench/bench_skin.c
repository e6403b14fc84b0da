/* The CPU skinner against the stream bound: what it costs merely to read the bind data and to write
 * 24 bytes a vertex, measured in turns with the kernels, so that a noisy machine hits both alike.
 * Times are medians, in ns a vertex; x is the ratio to the stream bound of the same line. */
#include "core/deform.h"
#include "tests/bench/timing.h"
#include "tests/data/models.h"
#include "tests/data/real.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* --- threads -----------------------------------------------------------------------------------
 */

enum { THREADS_MAX = 64 };

/* A share of a frame: as the worker pool shares out a large model, whole blocks. */
typedef struct share {
    const bench *b;
    dfm_skin_kernel *kernel; /* NULL: the stream bound */
    uint32_t index, count;
    pthread_barrier_t *begin, *end;
} share;

static void do_share(const share *s) {
    const dfm_skin_bind *bind = s->b->bind;
    uint32_t first = (uint32_t)((uint64_t)bind->block_count * s->index / s->count);
    uint32_t past = (uint32_t)((uint64_t)bind->block_count * (s->index + 1) / s->count);
    if (s->kernel) {
        dfm_skin_args args = args_of(s->b);
        args.blocks += first;
        args.vertex += (size_t)first * DFM_LANES;
        args.block_count = past - first;
        s->kernel(&args);
        return;
    }
    dfm_skin_bind part = *bind;
    part.blocks += first;
    part.vertex += (size_t)first * DFM_LANES;
    part.block_count = past - first;
    if (past < bind->block_count)
        part.row_count = bind->blocks[past].row;
    part.vertex_count = bind->vertex_count / s->count;
    stream(&part, s->b->frame + (size_t)24 * part.vertex_count * s->index);
}

static void *work(void *argument) {
    const share *s = argument;
    for (;;) {
        pthread_barrier_wait(s->begin);
        do_share(s);
        pthread_barrier_wait(s->end);
    }
    return NULL;
}

static double time_shares(share *shares, uint32_t count, dfm_skin_kernel *kernel) {
    for (uint32_t i = 0; i < count; i++)
        shares[i].kernel = kernel;
    double start = now_us();
    if (count > 1)
        pthread_barrier_wait(shares->begin);
    do_share(&shares[0]);
    if (count > 1)
        pthread_barrier_wait(shares->end);
    return now_us() - start;
}

/* One thread against one a core; beside it what the cores give to as many where memory is no bound
 * (the scalar kernel), and what the memory gives (streaming). */
static void report_threads(uint32_t vertices) {
    static double times[6][SAMPLES_MAX];
    static share many[THREADS_MAX];
    static pthread_barrier_t begin, end;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t count = cores < 2 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (uint32_t)cores;
    grid_options options = grid_default_options(vertices, 300);
    bench b = open_grid(&options);
    const dfm_deform_target target = {.model = b.model, .bind = b.bind};
    dfm_deform_times ignored = {0};
    if (dfm_deform_solve(&target, &b.workspace, &ignored, NULL) != DFM_OK)
        stop("the pose does not solve");
    pthread_barrier_init(&begin, NULL, count);
    pthread_barrier_init(&end, NULL, count);
    share one = {.b = &b, .count = 1};
    for (uint32_t i = 0; i < count; i++) {
        pthread_t thread;
        many[i] = (share){.b = &b, .index = i, .count = count, .begin = &begin, .end = &end};
        if (i > 0 && pthread_create(&thread, NULL, work, &many[i]) != 0)
            stop("no thread");
    }
    size_t fastest = 0, samples = 0;
    while (!dfm_skin_variants[fastest].supported())
        fastest++;
    double until = now_us() + 3e6 * bench_seconds();
    while (samples < SAMPLES_MAX && (samples < 3 || now_us() < until)) {
        dfm_skin_kernel *const kernels[3] = {dfm_skin_variants[fastest].kernel, dfm_skin_scalar,
                                             NULL};
        for (int i = 0; i < 3; i++) {
            times[2 * i][samples] = time_shares(&one, 1, kernels[i]);
            times[2 * i + 1][samples] = time_shares(many, count, kernels[i]);
        }
        samples++;
    }
    double ms[6];
    for (int i = 0; i < 6; i++)
        ms[i] = median(times[i], samples) / 1e3;
    printf("| %-7s | %8u | %7u | %6.2f | %6.2f | %4.2fx | %4.2fx | %4.2fx |\n",
           dfm_skin_variants[fastest].name, vertices, count, ms[0], ms[1], ms[0] / ms[1],
           ms[2] / ms[3], ms[4] / ms[5]);
    fflush(stdout);
} /* the threads wait for more: nothing is freed */

/* --- morphs ------------------------------------------------------------------------------------
 */

/* The whole deform of a pose with this many active morphs, each of a tenth of the vertices. */
static void report_morphs(uint32_t morphs, uint32_t active) {
    static double times[SAMPLES_MAX];
    static double without;
    grid_options options = grid_default_options(30000, 300);
    options.morph_count = morphs;
    bench b = open_grid(&options);
    dfm_deform_target target = {.model = b.model, .bind = b.bind};
    const dfm_skinner_options one = {.worker_count = 1};
    dfm_deform_times ignored = {0};
    if (dfm_skinner_open(&dfm_skinner_cpu, &one, &target.skinner, NULL) != DFM_OK ||
        dfm_skinner_bind(target.skinner, b.bind, &target.binding, NULL) != DFM_OK)
        stop("no skinner");
    for (uint32_t i = 0; i < active; i++)
        b.workspace.pose.morph_weights[i] = 0.5;
    size_t samples = 0;
    double until = now_us() + 1e6 * bench_seconds();
    while (samples < SAMPLES_MAX && (samples < 3 || now_us() < until)) {
        double start = now_us();
        if (dfm_deform(&target, &b.workspace, 0, &b.layout, b.frame, &ignored, NULL) != DFM_OK)
            stop("a deform failed");
        times[samples++] = now_us() - start;
    }
    double us = median(times, samples);
    if (active == 0)
        without = us;
    uint32_t offsets = active * 3000;
    printf("| %6u | %6u | %8u | %8.1f | ", morphs, active, offsets, us);
    if (active > 0)
        printf("%5.2f |\n", 1e3 * (us - without) / offsets);
    else
        printf("      |\n");
    fflush(stdout);
    dfm_skinner_unbind(target.skinner, target.binding);
    dfm_skinner_close(target.skinner);
    close_bench(&b);
}

static void report_all_morphs(void) {
    printf("\n| morphs, 30,000 vertices: in the model | active | active offsets | us a deform | ns "
           "an offset |\n| --- | --- | --- | --- | --- |\n");
    static const uint32_t rows[][2] = {{1, 0},    {500, 0},   {500, 1},
                                       {500, 10}, {500, 100}, {500, 500}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        report_morphs(rows[i][0], rows[i][1]);
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
    report_all_morphs();
    printf("\n| threads | vertices | threads | one, ms | all, ms | gain | gain of scalar | of "
           "streaming alone |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    report_threads(30000);
    report_threads(1000000);
    return 0;
}
