/* The OpenCL skinner against the CPU skinner on the same cores, on every device that OpenCL lists:
 * batches of frames of one model in three layouts, and where a single frame's time goes. Both get
 * all cores: OpenCL as its driver spreads a launch, the CPU skinner a thread a core with whole
 * frames. Runs of the two take turns; times are medians. */
#include "core/deform.h"
#include "tests/bench/timing.h"
#include "tests/data/models.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SAMPLES_MAX = 4096,
    FRAMES_MAX = 64,
    THREADS_MAX = 64,
    VERTICES = 30000,
    BONES = 300,
    DEVICES_MAX = 16
};

static void stop(const char *why) {
    fprintf(stderr, "bench_opencl: %s\n", why);
    exit(1);
}

/* --- what the driver is asked for --------------------------------------------------------------
 */

/* Calls of the skinner's, in front of the ICD loader's: while `timing` is on, queues keep times and
 * every command leaves its event here. */
typedef enum part { PART_UP, PART_KERNEL, PART_DOWN, PART_COUNT } part;
enum { EVENTS_MAX = 16 };
static bool timing;
static cl_event events[EVENTS_MAX];
static part event_parts[EVENTS_MAX];
static size_t event_count;

#define DRIVER(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static cl_event *note(part of) {
    if (!timing)
        return NULL;
    if (event_count == EVENTS_MAX)
        stop("a frame of too many commands");
    event_parts[event_count] = of;
    return &events[event_count++];
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int *code) {
    if (timing)
        properties |= CL_QUEUE_PROFILING_ENABLE;
    return DRIVER(clCreateCommandQueue)(context, device, properties, code);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                            size_t size, const void *host, cl_uint wait_count, const cl_event *wait,
                            cl_event *event) {
    (void)event;
    return DRIVER(clEnqueueWriteBuffer)(queue, buffer, blocking, offset, size, host, wait_count,
                                        wait, note(PART_UP));
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t size, void *host, cl_uint wait_count, const cl_event *wait,
                           cl_event *event) {
    (void)event;
    return DRIVER(clEnqueueReadBuffer)(queue, buffer, blocking, offset, size, host, wait_count,
                                       wait, note(PART_DOWN));
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                         cl_map_flags flags, size_t offset, size_t size, cl_uint wait_count,
                         const cl_event *wait, cl_event *event, cl_int *code) {
    (void)event;
    return DRIVER(clEnqueueMapBuffer)(queue, buffer, blocking, flags, offset, size, wait_count,
                                      wait, note(PART_DOWN), code);
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void *mapped,
                               cl_uint wait_count, const cl_event *wait, cl_event *event) {
    (void)event;
    return DRIVER(clEnqueueUnmapMemObject)(queue, buffer, mapped, wait_count, wait,
                                           note(PART_DOWN));
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint wait_count, const cl_event *wait, cl_event *event) {
    (void)event;
    return DRIVER(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, local,
                                          wait_count, wait, note(PART_KERNEL));
}

/* Adds the milliseconds of the noted commands to those of their parts, and forgets them. */
static void sum_events(double ms[PART_COUNT]) {
    for (size_t i = 0; i < event_count; i++) {
        cl_ulong begun = 0, ended = 0;
        if (clGetEventProfilingInfo(events[i], CL_PROFILING_COMMAND_START, sizeof begun, &begun,
                                    NULL) != CL_SUCCESS ||
            clGetEventProfilingInfo(events[i], CL_PROFILING_COMMAND_END, sizeof ended, &ended,
                                    NULL) != CL_SUCCESS)
            stop("a command without times");
        ms[event_parts[i]] += (double)(ended - begun) / 1e6;
        clReleaseEvent(events[i]);
    }
    event_count = 0;
}

/* --- frames to be made -------------------------------------------------------------------------
 */

static dfm_model *model;
static dfm_skin_bind *bind;
static dfm_workspace workspace;
static dfm_skin_job jobs[FRAMES_MAX];
static uint8_t *frames;

static void pose_model(void) {
    for (uint32_t i = 0; i < BONES; i++) {
        double angle = 0.02 * (1 + i % 7);
        workspace.pose.bones[i].rotation[i % 3] = sin(angle / 2);
        workspace.pose.bones[i].rotation[3] = cos(angle / 2);
    }
    dfm_deform_times times = {0};
    const dfm_deform_target target = {.model = model, .bind = bind};
    if (dfm_deform_solve(&target, &workspace, &times, NULL) != DFM_OK)
        stop("no pose");
}

static void make_model(void) {
    dfm_arena arena = {0};
    grid_options options = grid_default_options(VERTICES, BONES);
    dfm_pmx pmx = model_grid(&arena, &options);
    size_t size, room = (size_t)FRAMES_MAX * VERTICES * 24;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    dfm_arena_free(&arena);
    if (dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, NULL) != DFM_OK ||
        dfm_skin_bind_create(model, DFM_WEIGHTS_NORMALIZED, true, &bind, NULL) != DFM_OK ||
        dfm_workspace_reserve(&workspace, bind, NULL) != DFM_OK)
        stop("no model");
    free(bytes);
    pose_model();
    frames = aligned_alloc(4096, (room + 4095) / 4096 * 4096);
    if (!frames)
        stop("no memory");
    memset(frames, 0, room);
}

typedef struct frame_shape {
    const char *name;
    dfm_component component;
    bool planar;
} frame_shape;

/* Frame after frame, position and normal each. */
static void make_jobs(const frame_shape *shape) {
    size_t element = shape->component == DFM_COMPONENT_F16 ? 6 : 12;
    size_t stride = shape->planar ? element : 2 * element;
    for (size_t i = 0; i < FRAMES_MAX; i++) {
        uint8_t *frame = frames + i * VERTICES * 2 * element;
        uint8_t *normals = frame + (shape->planar ? VERTICES * element : element);
        jobs[i] = (dfm_skin_job){.palette = workspace.palette,
                                 .rotations = workspace.rotations,
                                 .duals = workspace.duals,
                                 .component = shape->component,
                                 .position = {frame, stride},
                                 .normal = {normals, stride}};
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

static void open_opencl(const dfm_skinner_options *options) {
    dfm_error error = {0};
    if (dfm_skinner_open(&dfm_skinner_opencl, options, &opencl, &error) != DFM_OK ||
        dfm_skinner_bind(opencl, bind, &opencl_binding, &error) != DFM_OK)
        stop(error.info);
}

static void close_opencl(void) {
    dfm_skinner_unbind(opencl, opencl_binding);
    dfm_skinner_close(opencl);
}

static double opencl_us(void) {
    double start = now_us();
    if (dfm_skinner_run(opencl, opencl_binding, 0, jobs, frame_count, NULL) != DFM_OK)
        stop("the OpenCL skinner failed");
    return now_us() - start;
}

static void report_batch(const frame_shape *shape, size_t count) {
    static double device[SAMPLES_MAX], host[SAMPLES_MAX];
    size_t samples = 0;
    make_jobs(shape);
    frame_count = count;
    double until = now_us() + 1e6 * bench_seconds();
    while (samples < SAMPLES_MAX && (samples < 5 || now_us() < until)) {
        device[samples] = opencl_us();
        host[samples++] = cpu_us();
    }
    double ours = median(device, samples), theirs = median(host, samples);
    printf("| %-15s | %6zu | %10.3f | %10.3f | %4.1fx |\n", shape->name, count,
           ours / 1e3 / (double)count, theirs / 1e3 / (double)count, ours / theirs);
    fflush(stdout);
}

static void report_batches(void) {
    static const frame_shape shapes[] = {{"f32 interleaved", DFM_COMPONENT_F32, false},
                                         {"f32 planar", DFM_COMPONENT_F32, true},
                                         {"f16 interleaved", DFM_COMPONENT_F16, false}};
    static const size_t counts[] = {1, 4, 16, 64};
    printf("| layout | frames together | OpenCL, ms a frame | CPU, ms a frame | ratio |\n"
           "| --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        report_batch(&shapes[0], counts[i]);
    report_batch(&shapes[1], 16);
    report_batch(&shapes[2], 16);
}

/* What is left of a frame's time beside its commands is the host's: it writes the palette into
 * place, enqueues, and is woken at the end. */
static void report_parts(const dfm_skinner_options *options) {
    static double whole[SAMPLES_MAX], parts[PART_COUNT][SAMPLES_MAX], host[SAMPLES_MAX];
    const frame_shape interleaved = {"", DFM_COMPONENT_F32, false};
    size_t samples = 0;
    make_jobs(&interleaved);
    frame_count = 1;
    timing = true;
    open_opencl(options);
    double until = now_us() + 1e6 * bench_seconds();
    while (samples < SAMPLES_MAX && (samples < 5 || now_us() < until)) {
        double ms[PART_COUNT] = {0};
        whole[samples] = opencl_us() / 1e3;
        sum_events(ms);
        host[samples] = whole[samples];
        for (int i = 0; i < PART_COUNT; i++) {
            parts[i][samples] = ms[i];
            host[samples] -= ms[i];
        }
        samples++;
    }
    close_opencl();
    timing = false;
    printf("\n| a single frame, ms | palette up | kernel | frame down | launching and waiting |\n"
           "| --- | --- | --- | --- | --- |\n| %.3f | %.3f | %.3f | %.3f | %.3f |\n\n",
           median(whole, samples), median(parts[PART_UP], samples),
           median(parts[PART_KERNEL], samples), median(parts[PART_DOWN], samples),
           median(host, samples));
}

static void report_device(uint32_t platform, uint32_t device) {
    const dfm_skinner_options options = {
        .worker_count = 1, .opencl_platform = platform, .opencl_device = device};
    dfm_error error = {0};
    if (dfm_skinner_open(&dfm_skinner_opencl, &options, &opencl, &error) != DFM_OK) {
        printf("OpenCL platform %u, device %u: NOT MEASURED: %s\n\n", platform, device, error.info);
        return;
    }
    dfm_skinner_close(opencl);
    open_opencl(&options);
    printf("OpenCL on %s against %s on %u cores, mix of %d vertices, %d bones:\n\n",
           opencl->description, cpu->description, core_count, VERTICES, BONES);
    report_batches();
    close_opencl();
    report_parts(&options);
}

int main(void) {
    cl_platform_id platforms[DEVICES_MAX];
    cl_uint platform_count = 0, found = 0;
    make_model();
    open_cpu();
    if (clGetPlatformIDs(DEVICES_MAX, platforms, &platform_count) != CL_SUCCESS)
        platform_count = 0;
    for (cl_uint p = 0; p < platform_count && p < DEVICES_MAX; p++) {
        cl_uint count = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 0, NULL, &count) != CL_SUCCESS)
            continue;
        for (cl_uint d = 0; d < count; d++, found++)
            report_device(p, d);
    }
    if (found == 0)
        printf("OPENCL IS NOT MEASURED: there is no OpenCL device here (Debian: "
               "pocl-opencl-icd)\n");
    fflush(stdout);
    _Exit(0); /* the threads wait for more */
}
