/* The CPU skinner: the kernels work on the bind data as it is, so there is nothing to convert. */
#include "core/skinner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cpu_skinner {
    dfm_skinner base; /* first */
    dfm_skin_kernel *kernel;
    const dfm_parallel *parallel;
};

/* Vertices are shared out in parts of this many blocks, 32,768 vertices: some 60 us of work, which
 * is worth waking a thread for (that costs 10 to 20 us). */
enum { PART_BLOCKS = 4096 };

/* The variant of this name, or without a name the fastest that the processor supports. */
static dfm_status choose_variant(const char *name, const dfm_skin_variant **chosen,
                                 dfm_error *error) {
    for (size_t i = 0; i < dfm_skin_variant_count; i++) {
        const dfm_skin_variant *variant = &dfm_skin_variants[i];
        if (name && strcmp(name, variant->name) != 0)
            continue;
        if (variant->supported()) {
            *chosen = variant;
            return DFM_OK;
        }
        if (name)
            return dfm_fail(error, DFM_ERROR_UNAVAILABLE, "skinner", -1, -1,
                            "this processor does not support the CPU kernel %s", name);
    }
    return dfm_fail(error, DFM_ERROR_ARGUMENT, "skinner", -1, -1, "there is no CPU kernel %s",
                    name);
}

static dfm_status cpu_open(const dfm_skinner_options *options, dfm_skinner **skinner,
                           dfm_error *error) {
    const dfm_skin_variant *variant = NULL;
    dfm_status status = choose_variant(options->simd, &variant, error);
    if (status != DFM_OK)
        return status;
    struct cpu_skinner *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, "skinner", -1, -1, "no memory");
    cpu->base.backend = &dfm_skinner_cpu;
    cpu->base.worker_count = options->worker_count;
    cpu->kernel = variant->kernel;
    cpu->parallel = options->parallel;
    snprintf(cpu->base.description, sizeof cpu->base.description, "%s", variant->name);
    *skinner = &cpu->base;
    return DFM_OK;
}

static dfm_status cpu_bind(dfm_skinner *skinner, const dfm_skin_bind *data,
                           dfm_skin_binding **binding, dfm_error *error) {
    (void)skinner;
    dfm_skin_binding *made = calloc(1, sizeof *made);
    if (!made)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, "skinner", -1, -1, "no memory");
    made->data = data;
    made->resident_bytes = sizeof *made;
    *binding = made;
    return DFM_OK;
}

static dfm_skin_args job_args(const dfm_skin_bind *data, const dfm_skin_job *job) {
    bool morphed = job->deltas.touched_count > 0;
    return (dfm_skin_args){
        .blocks = data->blocks,
        .data = data->data,
        .vertex = data->vertex,
        .block_first = 0,
        .block_count = data->block_count,
        .palette = job->palette,
        .rotations = job->rotations,
        .duals = job->duals,
        .deltas = morphed ? job->deltas.deltas : NULL,
        .delta_stamps = morphed ? job->deltas.stamps : NULL,
        .generation = job->deltas.generation,
        .component = job->component,
        .position = job->position,
        .normal = job->normal,
    };
}

/* One frame, and who works on parts of it. */
struct frame {
    dfm_skin_kernel *kernel;
    dfm_skin_args args;
};

/* Parts end at the borders of blocks, and a block is computed alike wherever it lies: the bytes do
 * not depend on how many threads took part. */
static void skin_part(void *argument, size_t index) {
    const struct frame *frame = argument;
    dfm_skin_args args = frame->args;
    size_t end = args.block_count;
    args.block_first = index * PART_BLOCKS;
    args.block_count = end - args.block_first < PART_BLOCKS ? end - args.block_first : PART_BLOCKS;
    frame->kernel(&args);
}

static dfm_status cpu_run(dfm_skinner *skinner, dfm_skin_binding *binding, uint32_t worker,
                          const dfm_skin_job *jobs, size_t job_count, dfm_error *error) {
    (void)worker;
    (void)error;
    const struct cpu_skinner *cpu = (const struct cpu_skinner *)skinner;
    for (size_t i = 0; i < job_count; i++) {
        struct frame frame = {cpu->kernel, job_args(binding->data, &jobs[i])};
        size_t parts = (frame.args.block_count + PART_BLOCKS - 1) / PART_BLOCKS;
        if (cpu->parallel && parts > 1)
            cpu->parallel->share(cpu->parallel->context, skin_part, &frame, parts);
        else
            cpu->kernel(&frame.args);
    }
    return DFM_OK;
}

static void cpu_unbind(dfm_skinner *skinner, dfm_skin_binding *binding) {
    (void)skinner;
    free(binding);
}

static void cpu_close(dfm_skinner *skinner) {
    free(skinner);
}

const dfm_skinner_backend dfm_skinner_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .bind = cpu_bind,
    .run = cpu_run,
    .unbind = cpu_unbind,
    .close = cpu_close,
};
