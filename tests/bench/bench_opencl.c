/* The OpenCL skinner against the CPU skinner on the same cores: batches of frames of one model,
 * position and normal, and what a single frame spends outside of the kernel. Both get all cores:
 * OpenCL as its driver spreads a launch, the CPU skinner a thread a core with whole frames. */
#include "core/deform.h"
#include "core/opencl_device.h"
#include "tests/bench/timing.h"
#include "tests/data/models.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES_MAX = 4096, FRAMES_MAX = 64, THREADS_MAX = 64, VERTICES = 30000, BONES = 300 };

static void stop(const char *why) {
    fprintf(stderr, "bench_opencl: %s\n", why);
    exit(1);
}

static dfm_model *model;
static dfm_skin_bind *bind;
static dfm_workspace workspace;
static dfm_skin_job jobs[FRAMES_MAX];
static float *frames;

static void make_jobs(void) {
    dfm_arena arena = {0};
    grid_options options = grid_default_options(VERTICES, BONES);
    dfm_pmx pmx = model_grid(&arena, &options);
    size_t size;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    dfm_arena_free(&arena);
    if (dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, NULL) != DFM_OK ||
        dfm_skin_bind_create(model, DFM_WEIGHTS_NORMALIZED, true, &bind, NULL) != DFM_OK ||
        dfm_workspace_reserve(&workspace, bind, NULL) != DFM_OK)
        stop("no model");
    free(bytes);
    for (uint32_t i = 0; i < BONES; i++) {
        double angle = 0.02 * (1 + i % 7);
        workspace.pose.bones[i].rotation[i % 3] = sin(angle / 2);
        workspace.pose.bones[i].rotation[3] = cos(angle / 2);
    }
    dfm_deform_times times = {0};
    const dfm_deform_target target = {.model = model, .bind = bind};
    if (dfm_deform_solve(&target, &workspace, &times, NULL) != DFM_OK)
        stop("no pose");
    frames = aligned_alloc(4096, (size_t)FRAMES_MAX * VERTICES * 24 + 4096);
    if (!frames)
        stop("no memory");
    memset(frames, 0, (size_t)FRAMES_MAX * VERTICES * 24);
    for (size_t i = 0; i < FRAMES_MAX; i++) {
        float *frame = frames + i * VERTICES * 6;
        jobs[i] = (dfm_skin_job){.palette = workspace.palette,
                                 .rotations = workspace.rotations,
                                 .duals = workspace.duals,
                                 .component = DFM_COMPONENT_F32,
                                 .position = {frame, 24},
                                 .normal = {frame + 3, 24}};
    }
}

/* --- the CPU skinner, a thread a core ----------------------------------------------------------
 */

static dfm_skinner *cpu;
static dfm_skin_binding *cpu_binding;
static uint32_t core_count;
static size_t frame_count;
static pthread_barrier_t begin, end;

static void skin_frames(uint32_t thread) {
    for (size_t i = thread; i < frame_count; i += core_count)
        if (dfm_skinner_run(cpu, cpu_binding, thread, &jobs[i], 1, NULL) != DFM_OK)
            stop("the CPU skinner failed");
}

static void *work(void *argument) {
    uint32_t thread = (uint32_t)(uintptr_t)argument;
    for (;;) {
        pthread_barrier_wait(&begin);
        skin_frames(thread);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

static void open_cpu(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    core_count = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (uint32_t)cores;
    const dfm_skinner_options options = {.worker_count = core_count};
    if (dfm_skinner_open(&dfm_skinner_cpu, &options, &cpu, NULL) != DFM_OK ||
        dfm_skinner_bind(cpu, bind, &cpu_binding, NULL) != DFM_OK)
        stop("no CPU skinner");
    pthread_barrier_init(&begin, NULL, core_count);
    pthread_barrier_init(&end, NULL, core_count);
    for (uint32_t i = 1; i < core_count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void *)(uintptr_t)i) != 0)
            stop("no thread");
        pthread_detach(thread);
    }
}

static double cpu_us(void) {
    double start = now_us();
    pthread_barrier_wait(&begin);
    skin_frames(0);
    pthread_barrier_wait(&end);
    return now_us() - start;
}

/* --- OpenCL ------------------------------------------------------------------------------------
 */

static dfm_skinner *opencl;
static dfm_skin_binding *opencl_binding;

static double opencl_us(void) {
    double start = now_us();
    if (dfm_skinner_run(opencl, opencl_binding, 0, jobs, frame_count, NULL) != DFM_OK)
        stop("the OpenCL skinner failed");
    return now_us() - start;
}

static void report(size_t count) {
    static double device[SAMPLES_MAX], host[SAMPLES_MAX];
    size_t samples = 0;
    frame_count = count;
    double until = now_us() + 1e6 * bench_seconds();
    while (samples < SAMPLES_MAX && (samples < 5 || now_us() < until)) {
        device[samples] = opencl_us();
        host[samples++] = cpu_us();
    }
    double ours = median(device, samples), theirs = median(host, samples);
    printf("| %6zu | %10.3f | %10.3f | %10.3f | %5.1fx |\n", count, ours / 1e3,
           ours / 1e3 / (double)count, theirs / 1e3 / (double)count, ours / theirs);
    fflush(stdout);
}

/* The parts of a single frame, by the skinner's own work done by hand: what a launch costs that has
 * nothing to do, what the pose costs on its way up, and the frame on its way down. */
static double time_of(cl_int (*step)(dfm_opencl *device, cl_command_queue queue, cl_kernel kernel,
                                     cl_mem memory),
                      dfm_opencl *device, cl_command_queue queue, cl_kernel kernel, cl_mem memory) {
    static double times[SAMPLES_MAX];
    size_t samples = 0;
    double until = now_us() + 0.3e6 * bench_seconds();
    while (samples < SAMPLES_MAX && (samples < 5 || now_us() < until)) {
        double start = now_us();
        if (step(device, queue, kernel, memory) != CL_SUCCESS || clFinish(queue) != CL_SUCCESS)
            stop("a part of a frame failed");
        times[samples++] = now_us() - start;
    }
    return median(times, samples) / 1e3;
}

static cl_int nothing(dfm_opencl *device, cl_command_queue queue, cl_kernel kernel, cl_mem memory) {
    (void)device, (void)kernel, (void)memory;
    return clEnqueueMarkerWithWaitList(queue, 0, NULL, NULL);
}

static cl_int pose_up(dfm_opencl *device, cl_command_queue queue, cl_kernel kernel, cl_mem memory) {
    (void)device, (void)kernel;
    return clEnqueueWriteBuffer(queue, memory, CL_FALSE, 0, BONES * 16 * sizeof(float), frames, 0,
                                NULL, NULL);
}

static cl_int frame_down(dfm_opencl *device, cl_command_queue queue, cl_kernel kernel,
                         cl_mem memory) {
    (void)device, (void)kernel;
    return clEnqueueReadBuffer(queue, memory, CL_FALSE, 0, VERTICES * 24, frames, 0, NULL, NULL);
}

/* A launch of a single block's work-items. */
static cl_int launch(dfm_opencl *device, cl_command_queue queue, cl_kernel kernel, cl_mem memory) {
    const dfm_skin_launch none = {.vertex_count = 0};
    for (cl_uint i = 0; i < 6; i++)
        if (clSetKernelArg(kernel, i, sizeof memory, &memory) != CL_SUCCESS)
            return CL_INVALID_KERNEL;
    if (clSetKernelArg(kernel, 6, sizeof none, &none) != CL_SUCCESS)
        return CL_INVALID_KERNEL;
    return dfm_opencl_launch(device, queue, kernel, 1, 1);
}

static void report_parts(const dfm_skinner_options *options) {
    dfm_opencl device = {0};
    char description[256];
    cl_command_queue queue;
    cl_kernel kernel;
    cl_int code;
    if (dfm_opencl_open(&device, options, description, sizeof description, NULL) != DFM_OK ||
        dfm_opencl_worker(&device, &queue, &kernel, DFM_ERROR_BACKEND, NULL) != DFM_OK)
        stop("no device for the parts of a frame");
    cl_mem memory = clCreateBuffer(device.context, CL_MEM_READ_WRITE, VERTICES * 24, NULL, &code);
    if (code != CL_SUCCESS)
        stop("no device memory");
    double wait = time_of(nothing, &device, queue, kernel, memory);
    double up = time_of(pose_up, &device, queue, kernel, memory);
    double start = time_of(launch, &device, queue, kernel, memory);
    double down = time_of(frame_down, &device, queue, kernel, memory);
    printf("\n| one frame's parts, ms | an empty queue | pose up | launch | frame down, where the "
           "device is no CPU |\n| --- | --- | --- | --- | --- |\n");
    printf("| each alone, with its wait | %.3f | %.3f | %.3f | %.3f |\n", wait, up, start, down);
    clReleaseMemObject(memory);
    clReleaseKernel(kernel);
    clReleaseCommandQueue(queue);
    dfm_opencl_close(&device);
}

int main(void) {
    const dfm_skinner_options options = {.worker_count = 1};
    dfm_error error = {0};
    if (dfm_skinner_open(&dfm_skinner_opencl, &options, &opencl, &error) != DFM_OK) {
        printf("skipped: no OpenCL device (%s)\n", error.info);
        return 0;
    }
    make_jobs();
    open_cpu();
    if (dfm_skinner_bind(opencl, bind, &opencl_binding, &error) != DFM_OK)
        stop(error.info);
    printf("%s, against %s on %u cores; mix of 30,000 vertices, 300 bones\n\n", opencl->description,
           cpu->description, core_count);
    printf("| frames | OpenCL, ms | ms a frame | CPU, ms a frame | ratio |\n"
           "| --- | --- | --- | --- | --- |\n");
    static const size_t counts[] = {1, 4, 16, 64};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        report(counts[i]);
    report_parts(&options);
    fflush(stdout);
    _Exit(0); /* the threads wait for more */
}
