/* The skinner: one job, two backends (skinner_cpu.c, skinner_opencl.c).
 *
 * A backend is a table of functions. `bind` converts and uploads a model's bind data once; `run`
 * never compiles anything, is re-entrant, and takes a batch of jobs (frames) of one binding. Jobs
 * are validated in one place for both (dfm_skinner_run), so that the backends cannot differ in what
 * they accept. Thread safety: run may be called by any number of threads at once, each with a
 * worker index of its own. */
#ifndef DFM_CORE_SKINNER_H
#define DFM_CORE_SKINNER_H

#include "core/skin_bind.h"
#include "kernels/skin.h"

/* Morphed bind positions of one pose; see dfm_skin_args. Made by core/workspace. */
typedef struct dfm_skin_deltas {
    const float *deltas;
    const uint32_t *stamps;
    uint32_t generation;
    const uint32_t *touched; /* blocks with this generation's stamp, touched_count of them */
    uint32_t touched_count;  /* 0: no morph is active, and the arrays may be NULL */
} dfm_skin_deltas;

/* One frame. Every array is borrowed for the time of the call. */
typedef struct dfm_skin_job {
    const float *palette;   /* bone_count x 12, dfm_rig_palette */
    const float *rotations; /* bone_count x 4 */
    const float *duals;     /* bone_count x 4, or NULL where the bind data has no QDEF */
    dfm_skin_deltas deltas;
    dfm_component component;
    dfm_skin_output position,
        normal; /* vertex_count elements each, file order; data NULL = not wanted */
} dfm_skin_job;

/* A way to spread work over threads that have nothing else to do. `share` calls part(argument, i)
 * once for each i < parts, on the calling thread and perhaps on others, and returns when all are
 * done. */
typedef struct dfm_parallel {
    void (*share)(void *context, void (*part)(void *argument, size_t index), void *argument,
                  size_t parts);
    void *context;
} dfm_parallel;

typedef struct dfm_skinner_options {
    uint32_t worker_count;                   /* worker indices are 0 .. worker_count - 1 */
    const char *simd;                        /* CPU: a variant's name; NULL = the fastest */
    uint32_t opencl_platform, opencl_device; /* indices as OpenCL lists them */
    const char *kernel_source;    /* OpenCL: NULL = the embedded skin.cl (tests pass others) */
    uint32_t opencl_item_lanes;   /* lanes that a work-item does: DFM_LANES, or 1 and copies of
                                     everything, as on GPUs; 0 = as suits the device */
    const dfm_parallel *parallel; /* CPU: for large models; outlives the skinner. NULL = none */
} dfm_skinner_options;

typedef struct dfm_skinner dfm_skinner; /* an opened backend */
typedef struct dfm_skin_binding dfm_skin_binding;

typedef struct dfm_skinner_backend {
    const char *name; /* "cpu", "opencl" */
    bool batches;     /* many jobs at once cost less than one by one */
    /* Failures: OpenCL: DFM_ERROR_UNAVAILABLE, no kernel is to be had here, with the reason. */
    dfm_status (*open)(const dfm_skinner_options *options, dfm_skinner **skinner, dfm_error *error);
    /* `bind` data outlives the binding. Failures: NO_MEMORY, BACKEND. */
    dfm_status (*bind)(dfm_skinner *skinner, const dfm_skin_bind *data, dfm_skin_binding **binding,
                       dfm_error *error);
    /* Jobs are valid (dfm_skinner_run has looked). Failures: BACKEND. */
    dfm_status (*run)(dfm_skinner *skinner, dfm_skin_binding *binding, uint32_t worker,
                      const dfm_skin_job *jobs, size_t job_count, dfm_error *error);
    void (*unbind)(dfm_skinner *skinner, dfm_skin_binding *binding);
    void (*close)(dfm_skinner *skinner);
} dfm_skinner_backend;

/* What every backend's own struct begins with. */
struct dfm_skinner {
    const dfm_skinner_backend *backend;
    uint32_t worker_count;
    char description[256]; /* "scalar", "avx2", "PoCL 3.1 on pthread-..." */
};

struct dfm_skin_binding {
    const dfm_skin_bind *data;
    size_t resident_bytes; /* memory of this binding alone: host, or device */
};

extern const dfm_skinner_backend dfm_skinner_cpu, dfm_skinner_opencl;

/* Opens, binds, runs, ... through the table. run checks every job first: pointers present that the
 * bind data needs, strides that hold an element, worker < worker_count. Failures: ARGUMENT, and the
 * backend's. */
dfm_status dfm_skinner_open(const dfm_skinner_backend *backend, const dfm_skinner_options *options,
                            dfm_skinner **skinner, dfm_error *error);
dfm_status dfm_skinner_bind(dfm_skinner *skinner, const dfm_skin_bind *data,
                            dfm_skin_binding **binding, dfm_error *error);
dfm_status dfm_skinner_run(dfm_skinner *skinner, dfm_skin_binding *binding, uint32_t worker,
                           const dfm_skin_job *jobs, size_t job_count, dfm_error *error);
void dfm_skinner_unbind(dfm_skinner *skinner, dfm_skin_binding *binding); /* NULL binding allowed */
void dfm_skinner_close(dfm_skinner *skinner);                             /* NULL allowed */

#endif
