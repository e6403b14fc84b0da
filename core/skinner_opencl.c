/* The OpenCL backend: bind data in device buffers, and for every worker a queue, a kernel and
 * buffers of its own that grow to the largest batch seen and stay. One launch does a batch:
 * the poses of all its frames go up in one write.
 *
 * Where results go. Position and normal as f32 in 24 bytes a vertex is what the kernel writes: on
 * a CPU device it writes into the job's own memory, elsewhere the device's buffer is read into it.
 * Every other layout is converted here from the mapped buffer. */
#include "core/opencl_device.h"

#include <stdlib.h>
#include <string.h>

#define FRAME_FLOATS 6 /* a vertex in the kernel's output */

/* A launch takes frames up to this many bytes of poses and results, and always at least one. */
static const size_t batch_bytes_max = (size_t)32 << 20;

typedef struct device_buffer {
    cl_mem memory;
    size_t bytes;
} device_buffer;

typedef struct worker {
    cl_command_queue queue;
    cl_kernel kernel;
    uint32_t *words; /* the launch's parameters, as kernels/skin_layout.h lays them out */
    size_t word_capacity;
    device_buffer parameters, results;
} worker;

typedef struct opencl_skinner {
    dfm_skinner base;
    dfm_opencl opencl;
    worker *workers; /* base.worker_count */
} opencl_skinner;

typedef struct opencl_binding {
    dfm_skin_binding base;
    cl_mem blocks, data, vertex; /* NULL where there is no vertex */
} opencl_binding;

static dfm_status check(cl_int code, const char *call, dfm_error *error) {
    return dfm_opencl_check(code, call, DFM_ERROR_BACKEND, error);
}

/* --- open and close --------------------------------------------------------------------------- */

static void release(cl_mem memory) {
    if (memory)
        clReleaseMemObject(memory);
}

static void close_worker(worker *w) {
    release(w->parameters.memory);
    release(w->results.memory);
    if (w->kernel)
        clReleaseKernel(w->kernel);
    if (w->queue)
        clReleaseCommandQueue(w->queue);
    free(w->words);
}

static void opencl_close(dfm_skinner *skinner) {
    opencl_skinner *self = (opencl_skinner *)skinner;
    for (uint32_t i = 0; self->workers && i < self->base.worker_count; i++)
        close_worker(&self->workers[i]);
    dfm_opencl_close(&self->opencl);
    free(self->workers);
    free(self);
}

static dfm_status opencl_open(const dfm_skinner_options *options, dfm_skinner **skinner,
                              dfm_error *error) {
    opencl_skinner *self = calloc(1, sizeof *self);
    worker *workers = calloc(options->worker_count ? options->worker_count : 1, sizeof *workers);
    if (!self || !workers) {
        free(self);
        free(workers);
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, "opencl", -1, -1, "no memory for workers");
    }
    self->base.backend = &dfm_skinner_opencl;
    self->base.worker_count = options->worker_count;
    self->workers = workers;
    dfm_status status = dfm_opencl_open(&self->opencl, options, self->base.description,
                                        sizeof self->base.description, error);
    for (uint32_t i = 0; i < options->worker_count && status == DFM_OK; i++)
        status = dfm_opencl_worker(&self->opencl, &workers[i].queue, &workers[i].kernel,
                                   DFM_ERROR_UNAVAILABLE, error);
    if (status != DFM_OK)
        opencl_close(&self->base);
    else
        *skinner = &self->base;
    return status;
}

/* --- bind ------------------------------------------------------------------------------------- */

/* A buffer that kernels read. A CPU device reads the bind data itself, which outlives the buffer;
 * others get a copy, counted in the binding's resident bytes. */
static dfm_status bind_array(const opencl_skinner *self, opencl_binding *binding, cl_mem *memory,
                             const void *array, size_t bytes, dfm_error *error) {
    cl_mem_flags flags = CL_MEM_READ_ONLY;
    flags |= self->opencl.host_memory ? CL_MEM_USE_HOST_PTR : CL_MEM_COPY_HOST_PTR;
    cl_int code;
    *memory = clCreateBuffer(self->opencl.context, flags, bytes, (void *)(uintptr_t)array, &code);
    if (!self->opencl.host_memory)
        binding->base.resident_bytes += bytes;
    return check(code, "clCreateBuffer", error);
}

static void opencl_unbind(dfm_skinner *skinner, dfm_skin_binding *binding) {
    (void)skinner;
    opencl_binding *self = (opencl_binding *)binding;
    release(self->blocks);
    release(self->data);
    release(self->vertex);
    free(self);
}

static dfm_status opencl_bind(dfm_skinner *skinner, const dfm_skin_bind *data,
                              dfm_skin_binding **result, dfm_error *error) {
    const opencl_skinner *self = (const opencl_skinner *)skinner;
    opencl_binding *binding = calloc(1, sizeof *binding);
    if (!binding)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, "opencl", -1, -1, "no memory for a binding");
    binding->base.data = data;
    binding->base.resident_bytes = sizeof *binding;
    size_t blocks = data->block_count;
    dfm_status status = DFM_OK;
    if (blocks > 0)
        status = bind_array(self, binding, &binding->blocks, data->blocks,
                            blocks * sizeof *data->blocks, error);
    if (blocks > 0 && status == DFM_OK)
        status = bind_array(self, binding, &binding->data, data->data,
                            data->row_count * DFM_LANES * sizeof *data->data, error);
    if (blocks > 0 && status == DFM_OK)
        status = bind_array(self, binding, &binding->vertex, data->vertex,
                            blocks * DFM_LANES * sizeof *data->vertex, error);
    if (status != DFM_OK)
        opencl_unbind(skinner, &binding->base);
    else
        *result = &binding->base;
    return status;
}

/* --- run: what goes up ------------------------------------------------------------------------ */

static size_t frame_bytes(const dfm_skin_bind *data) {
    return (size_t)data->vertex_count * FRAME_FLOATS * sizeof(float);
}

/* At most this many words hold a job's pose. */
static size_t job_words(const dfm_skin_bind *data, const dfm_skin_job *job) {
    return (size_t)data->bone_count * (12 + 4 + 4) + data->block_count +
           (size_t)job->deltas.touched_count * 3 * DFM_LANES;
}

/* Where the arrays of a frame lie; see dfm_skin_launch. */
static dfm_skin_launch plan(const dfm_skin_bind *data, const dfm_skin_job *jobs, size_t count) {
    dfm_skin_launch launch = {.block_count = data->block_count,
                              .vertex_count = data->vertex_count,
                              .frame_words = data->bone_count * 12};
    for (size_t i = 0; i < count; i++)
        launch.morphed |= jobs[i].deltas.touched_count > 0;
    launch.rotations = launch.frame_words;
    if (data->has_sdef || data->has_qdef)
        launch.frame_words += data->bone_count * 4;
    launch.duals = launch.frame_words;
    if (data->has_qdef)
        launch.frame_words += data->bone_count * 4;
    launch.slots = launch.frame_words;
    if (launch.morphed)
        launch.frame_words += data->block_count;
    launch.deltas = launch.frame_words * (uint32_t)count;
    return launch;
}

/* Writes one frame's pose; deltas go to place `used` of the launch's list and on. Costs the bones
 * and the touched blocks, and 4 bytes a block where any morph of the launch is active. */
static uint32_t fill_frame(const dfm_skin_bind *data, const dfm_skin_job *job,
                           const dfm_skin_launch *launch, uint32_t *words, size_t frame,
                           uint32_t used) {
    uint32_t *at = words + frame * launch->frame_words;
    size_t bones = data->bone_count;
    memcpy(at, job->palette, bones * 12 * sizeof(float));
    if (data->has_sdef || data->has_qdef)
        memcpy(at + launch->rotations, job->rotations, bones * 4 * sizeof(float));
    if (data->has_qdef)
        memcpy(at + launch->duals, job->duals, bones * 4 * sizeof(float));
    if (!launch->morphed)
        return used;
    memset(at + launch->slots, 0xff, data->block_count * sizeof *at); /* DFM_NO_SLOT */
    for (uint32_t i = 0; i < job->deltas.touched_count; i++, used++) {
        uint32_t block = job->deltas.touched[i];
        at[launch->slots + block] = used;
        memcpy(words + launch->deltas + (size_t)used * 3 * DFM_LANES,
               job->deltas.deltas + (size_t)block * 3 * DFM_LANES, 3 * DFM_LANES * sizeof(float));
    }
    return used;
}

/* Makes room for at least `bytes`; what was in the buffer is lost. */
static dfm_status reserve_buffer(const opencl_skinner *self, device_buffer *buffer, size_t bytes,
                                 cl_mem_flags flags, dfm_error *error) {
    if (bytes <= buffer->bytes)
        return DFM_OK;
    release(buffer->memory);
    *buffer = (device_buffer){0};
    cl_int code;
    buffer->memory = clCreateBuffer(self->opencl.context, flags, bytes, NULL, &code);
    if (code == CL_SUCCESS)
        buffer->bytes = bytes;
    return check(code, "clCreateBuffer", error);
}

static dfm_status reserve_words(worker *w, size_t count, dfm_error *error) {
    if (count <= w->word_capacity)
        return DFM_OK;
    free(w->words);
    w->words = malloc(count * sizeof *w->words);
    w->word_capacity = w->words ? count : 0;
    return w->words ? DFM_OK
                    : dfm_fail(error, DFM_ERROR_NO_MEMORY, "opencl", -1, -1, "no memory for poses");
}

/* Writes the poses of `count` jobs up, and says in *launch where they lie. */
static dfm_status upload(const opencl_skinner *self, worker *w, const dfm_skin_bind *data,
                         const dfm_skin_job *jobs, size_t count, dfm_skin_launch *launch,
                         dfm_error *error) {
    size_t room = 1; /* a model without bones has buffers too */
    for (size_t i = 0; i < count; i++)
        room += job_words(data, &jobs[i]);
    if (room > UINT32_MAX)
        return dfm_fail(error, DFM_ERROR_BACKEND, "opencl", -1, -1,
                        "a pose of %zu words is more than the kernel can address", room);
    dfm_status status = reserve_words(w, room, error);
    if (status == DFM_OK)
        status =
            reserve_buffer(self, &w->parameters, room * sizeof *w->words, CL_MEM_READ_ONLY, error);
    if (status != DFM_OK)
        return status;
    *launch = plan(data, jobs, count);
    uint32_t used = 0;
    for (size_t i = 0; i < count; i++)
        used = fill_frame(data, &jobs[i], launch, w->words, i, used);
    size_t words = launch->deltas + (size_t)used * 3 * DFM_LANES;
    if (words == 0)
        return DFM_OK;
    return check(clEnqueueWriteBuffer(w->queue, w->parameters.memory, CL_FALSE, 0,
                                      words * sizeof *w->words, w->words, 0, NULL, NULL),
                 "clEnqueueWriteBuffer", error);
}

/* --- run: the launch -------------------------------------------------------------------------- */

static cl_int launch_kernel(const opencl_skinner *self, worker *w, const opencl_binding *binding,
                            const dfm_skin_launch *launch, size_t frames, cl_mem results) {
    const cl_mem buffers[] = {binding->blocks,      binding->data,        binding->vertex,
                              w->parameters.memory, w->parameters.memory, results};
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < 6 && code == CL_SUCCESS; i++)
        code = clSetKernelArg(w->kernel, i, sizeof buffers[i], &buffers[i]);
    if (code == CL_SUCCESS)
        code = clSetKernelArg(w->kernel, 6, sizeof *launch, launch);
    if (code == CL_SUCCESS)
        code = dfm_opencl_launch(&self->opencl, w->queue, w->kernel, launch->block_count, frames);
    return code;
}

/* --- run: where results go -------------------------------------------------------------------- */

/* Whether the job wants its frame just as the kernel writes it. */
static bool is_interleaved(const dfm_skin_job *job) {
    const size_t stride = FRAME_FLOATS * sizeof(float);
    return job->component == DFM_COMPONENT_F32 && job->position.data &&
           job->normal.data == (char *)job->position.data + 3 * sizeof(float) &&
           job->position.stride_bytes == stride && job->normal.stride_bytes == stride;
}

/* Whether kernels can write into the job's memory. */
static bool is_direct(const opencl_skinner *self, const dfm_skin_job *job) {
    return self->opencl.host_memory && is_interleaved(job) &&
           (uintptr_t)job->position.data % sizeof(float) == 0;
}

/* How many of the jobs one launch takes: all alike, and direct ones frame after frame in memory. */
static size_t batch_count(const opencl_skinner *self, const dfm_skin_bind *data,
                          const dfm_skin_job *jobs, size_t job_count) {
    bool direct = is_direct(self, &jobs[0]);
    size_t bytes = 0, count = 0;
    for (; count < job_count; count++) {
        const dfm_skin_job *job = &jobs[count];
        bytes += frame_bytes(data) + job_words(data, job) * sizeof(uint32_t);
        if (count > 0 &&
            (bytes > batch_bytes_max || is_direct(self, job) != direct ||
             (direct && (char *)job->position.data !=
                            (char *)jobs[count - 1].position.data + frame_bytes(data))))
            break;
    }
    return count;
}

static void convert(const dfm_skin_output *output, dfm_component component, const float *results,
                    size_t vertex_count) {
    char *to = output->data;
    if (!to)
        return;
    for (size_t v = 0; v < vertex_count; v++, to += output->stride_bytes) {
        const float *from = results + v * FRAME_FLOATS;
        uint16_t halves[3];
        if (component == DFM_COMPONENT_F16) {
            dfm_half_from_floats(halves, from, 3);
            memcpy(to, halves, sizeof halves);
        } else {
            memcpy(to, from, 3 * sizeof *from);
        }
    }
}

/* Brings frame `frame` of the worker's results into the job's outputs. The reads may be under way
 * when it returns. */
static dfm_status deliver(worker *w, const dfm_skin_job *job, size_t frame, size_t vertex_count,
                          dfm_error *error) {
    size_t bytes = vertex_count * FRAME_FLOATS * sizeof(float);
    cl_mem results = w->results.memory;
    if (is_interleaved(job))
        return check(clEnqueueReadBuffer(w->queue, results, CL_FALSE, frame * bytes, bytes,
                                         job->position.data, 0, NULL, NULL),
                     "clEnqueueReadBuffer", error);
    cl_int code;
    float *mapped = clEnqueueMapBuffer(w->queue, results, CL_TRUE, CL_MAP_READ, frame * bytes,
                                       bytes, 0, NULL, NULL, &code);
    if (code != CL_SUCCESS)
        return check(code, "clEnqueueMapBuffer", error);
    convert(&job->position, job->component, mapped, vertex_count);
    convert(&job->normal, job->component, mapped + 3, vertex_count);
    return check(clEnqueueUnmapMemObject(w->queue, results, mapped, 0, NULL, NULL),
                 "clEnqueueUnmapMemObject", error);
}

static dfm_status run_through_device(const opencl_skinner *self, worker *w,
                                     const opencl_binding *binding, const dfm_skin_launch *launch,
                                     const dfm_skin_job *jobs, size_t count, dfm_error *error) {
    dfm_status status = reserve_buffer(self, &w->results, count * frame_bytes(binding->base.data),
                                       CL_MEM_READ_WRITE, error);
    if (status == DFM_OK)
        status = check(launch_kernel(self, w, binding, launch, count, w->results.memory),
                       "the kernel's launch", error);
    for (size_t i = 0; i < count && status == DFM_OK; i++)
        status = deliver(w, &jobs[i], i, launch->vertex_count, error);
    return status;
}

/* The kernel writes into the memory at `frames` itself; mapping it is what makes that visible. */
static dfm_status run_in_place(const opencl_skinner *self, worker *w, const opencl_binding *binding,
                               const dfm_skin_launch *launch, void *frames, size_t count,
                               dfm_error *error) {
    size_t bytes = count * frame_bytes(binding->base.data);
    cl_int code;
    cl_mem results = clCreateBuffer(self->opencl.context, CL_MEM_WRITE_ONLY | CL_MEM_USE_HOST_PTR,
                                    bytes, frames, &code);
    dfm_status status = check(code, "clCreateBuffer", error);
    if (status != DFM_OK)
        return status;
    status = check(launch_kernel(self, w, binding, launch, count, results), "the kernel's launch",
                   error);
    if (status == DFM_OK) {
        void *mapped = clEnqueueMapBuffer(w->queue, results, CL_FALSE, CL_MAP_READ, 0, bytes, 0,
                                          NULL, NULL, &code);
        status = check(code, "clEnqueueMapBuffer", error);
        if (status == DFM_OK)
            status = check(clEnqueueUnmapMemObject(w->queue, results, mapped, 0, NULL, NULL),
                           "clEnqueueUnmapMemObject", error);
    }
    clReleaseMemObject(results);
    return status;
}

static dfm_status run_batch(const opencl_skinner *self, worker *w, const opencl_binding *binding,
                            const dfm_skin_job *jobs, size_t count, dfm_error *error) {
    dfm_skin_launch launch;
    dfm_status status = upload(self, w, binding->base.data, jobs, count, &launch, error);
    if (status == DFM_OK && is_direct(self, &jobs[0]))
        status = run_in_place(self, w, binding, &launch, jobs[0].position.data, count, error);
    else if (status == DFM_OK)
        status = run_through_device(self, w, binding, &launch, jobs, count, error);
    /* Also after a failure: nothing that was enqueued may touch the caller's memory from here on.
     */
    cl_int finished = clFinish(w->queue);
    return status == DFM_OK ? check(finished, "clFinish", error) : status;
}

static dfm_status opencl_run(dfm_skinner *skinner, dfm_skin_binding *binding, uint32_t worker_index,
                             const dfm_skin_job *jobs, size_t job_count, dfm_error *error) {
    const opencl_skinner *self = (const opencl_skinner *)skinner;
    worker *w = &self->workers[worker_index];
    dfm_status status = DFM_OK;
    for (size_t done = 0, count; done < job_count && status == DFM_OK; done += count) {
        count = batch_count(self, binding->data, jobs + done, job_count - done);
        status = run_batch(self, w, (const opencl_binding *)binding, jobs + done, count, error);
    }
    return status;
}

const dfm_skinner_backend dfm_skinner_opencl = {
    .name = "opencl",
    .batches = true,
    .open = opencl_open,
    .bind = opencl_bind,
    .run = opencl_run,
    .unbind = opencl_unbind,
    .close = opencl_close,
};
