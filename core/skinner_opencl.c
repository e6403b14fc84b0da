/* The OpenCL backend: bind data in device buffers, and for every worker turns of its own, each with
 * a queue, a kernel and buffers that grow to the largest batch seen and stay. One launch does a
 * batch: the poses of all its frames go up in one write, and the kernel writes what the jobs want,
 * in their component type. A worker's turns alternate, so that transfers of one go beside the other
 * one's kernel.
 *
 * Where results go. A CPU device writes into the jobs' own memory. Elsewhere frames without gaps
 * are read from the device's buffer into the jobs' memory; all others are made without gaps, and
 * copied to their places from the mapped buffer. */
#include "core/opencl_device.h"

#include <stdlib.h>
#include <string.h>

/* A launch takes frames up to this many bytes of poses and results, and always at least one. Where
 * results are transferred they are launched in smaller parts, so that there is something beside
 * which they can be. */
static const size_t batch_bytes_max = (size_t)32 << 20, transfer_bytes_max = (size_t)2 << 20;

/* Outputs of a vertex that are further apart than this, for each vertex, are not of one frame: all
 * attributes together take less. */
enum { VERTEX_BYTES_MAX = 128 };

enum { TURNS = 2 }; /* of a worker */

typedef struct device_buffer {
    cl_mem memory;
    size_t bytes;
} device_buffer;

/* How jobs get their frames. */
typedef enum delivery {
    DELIVER_IN_PLACE, /* the kernel writes into their memory */
    DELIVER_READ,     /* the device's buffer, frame by frame */
    DELIVER_COPY      /* the device's buffer, element by element */
} delivery;

/* Frames of the kernel's, in elements of a component; see dfm_skin_launch. */
typedef struct frame_shape {
    delivery delivery;
    dfm_component component;
    uint32_t position, position_stride, normal, normal_stride;
    size_t elements; /* from the first to the last that is written */
    char *begin;     /* of the job's memory; with DELIVER_COPY of no meaning */
} frame_shape;

/* Jobs of one launch. */
typedef struct frame_batch {
    const dfm_skin_job *jobs;
    size_t count;
    frame_shape shape; /* of each; begin is the first one's */
    size_t pitch;      /* elements from frame to frame */
} frame_batch;

typedef struct turn {
    cl_command_queue queue;
    cl_kernel kernel;
    uint32_t *words; /* the launch's parameters, as kernels/skin_layout.h lays them out */
    size_t word_capacity;
    device_buffer parameters, results;
    cl_mem in_place;   /* the jobs' memory, while the kernel may write there */
    char *mapped;      /* results of DELIVER_COPY */
    frame_batch batch; /* under way; of no job: there is none */
} turn;

typedef struct worker {
    turn turns[TURNS];
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

static void close_turn(turn *t) {
    release(t->parameters.memory);
    release(t->results.memory);
    if (t->kernel)
        clReleaseKernel(t->kernel);
    if (t->queue)
        clReleaseCommandQueue(t->queue);
    free(t->words);
}

static void close_worker(worker *w) {
    for (int i = 0; i < TURNS; i++)
        close_turn(&w->turns[i]);
}

static dfm_status open_worker(const dfm_opencl *opencl, worker *w, dfm_error *error) {
    dfm_status status = DFM_OK;
    for (int i = 0; i < TURNS && status == DFM_OK; i++)
        status = dfm_opencl_worker(opencl, &w->turns[i].queue, &w->turns[i].kernel,
                                   DFM_ERROR_UNAVAILABLE, error);
    return status;
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
        status = open_worker(&self->opencl, &workers[i], error);
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

/* --- run: the shape of frames ----------------------------------------------------------------- */

static size_t component_bytes(dfm_component component) {
    return component == DFM_COMPONENT_F16 ? sizeof(uint16_t) : sizeof(float);
}

/* Places an output in the shape's elements. False: it is not at one of them. */
static bool place_output(const frame_shape *shape, const dfm_skin_output *output, uint32_t *place,
                         uint32_t *stride) {
    if (!output->data)
        return true;
    size_t element = component_bytes(shape->component);
    size_t offset = (uintptr_t)output->data - (uintptr_t)shape->begin;
    *place = (uint32_t)(offset / element);
    *stride = (uint32_t)(output->stride_bytes / element);
    return offset % element == 0 && output->stride_bytes % element == 0;
}

static size_t elements_of(const frame_shape *shape, size_t vertex_count) {
    size_t count = 0;
    if (shape->position_stride)
        count = shape->position + (vertex_count - 1) * shape->position_stride + 3;
    size_t end = shape->normal + (vertex_count - 1) * shape->normal_stride + 3;
    return shape->normal_stride && end > count ? end : count;
}

static size_t wanted_elements(const dfm_skin_job *job, size_t vertex_count) {
    return vertex_count * 3 * ((size_t)(job->position.data != NULL) + (job->normal.data != NULL));
}

/* The job's own memory as a frame. False: its outputs do not lie in one. */
static bool shape_in_memory(frame_shape *shape, const dfm_skin_job *job, size_t vertex_count) {
    char *position = job->position.data, *normal = job->normal.data;
    size_t room = vertex_count * VERTEX_BYTES_MAX, apart = 0;
    *shape = (frame_shape){.component = job->component, .begin = position ? position : normal};
    if (position && normal && (uintptr_t)normal < (uintptr_t)position)
        shape->begin = normal;
    if (position && normal)
        apart = (uintptr_t)(shape->begin == normal ? position : normal) - (uintptr_t)shape->begin;
    if (room > UINT32_MAX || apart > room || (position && job->position.stride_bytes > room) ||
        (normal && job->normal.stride_bytes > room) ||
        !place_output(shape, &job->position, &shape->position, &shape->position_stride) ||
        !place_output(shape, &job->normal, &shape->normal, &shape->normal_stride))
        return false;
    shape->elements = elements_of(shape, vertex_count);
    return shape->elements <= room;
}

static frame_shape shape_without_gaps(const dfm_skin_job *job, size_t vertex_count) {
    bool position = job->position.data, normal = job->normal.data;
    uint32_t stride = position && normal ? 6 : 3;
    return (frame_shape){.delivery = DELIVER_COPY,
                         .component = job->component,
                         .position_stride = position ? stride : 0,
                         .normal = position ? 3 : 0,
                         .normal_stride = normal ? stride : 0,
                         .elements = wanted_elements(job, vertex_count)};
}

static frame_shape shape_of(const opencl_skinner *self, const dfm_skin_bind *data,
                            const dfm_skin_job *job) {
    frame_shape shape;
    if (!shape_in_memory(&shape, job, data->vertex_count))
        return shape_without_gaps(job, data->vertex_count);
    bool aligned = (uintptr_t)shape.begin % component_bytes(shape.component) == 0;
    if (self->opencl.host_memory && aligned)
        shape.delivery = DELIVER_IN_PLACE;
    else if (shape.elements == wanted_elements(job, data->vertex_count))
        shape.delivery = DELIVER_READ;
    else
        return shape_without_gaps(job, data->vertex_count);
    return shape;
}

static bool same_shape(const frame_shape *a, const frame_shape *b) {
    return a->delivery == b->delivery && a->component == b->component &&
           a->position == b->position && a->position_stride == b->position_stride &&
           a->normal == b->normal && a->normal_stride == b->normal_stride;
}

static size_t frame_bytes(const frame_shape *shape) {
    return shape->elements * component_bytes(shape->component);
}

/* --- run: batches ----------------------------------------------------------------------------- */

/* At most this many words hold a job's pose. */
static size_t job_words(const dfm_skin_bind *data, const dfm_skin_job *job) {
    return (size_t)data->bone_count * (12 + 4 + 4) + data->block_count +
           (size_t)job->deltas.touched_count * 3 * DFM_LANES;
}

/* Whether a frame that begins there may follow: frames in place are evenly spaced, and the second
 * one's place says how far. */
static bool follows(frame_batch *batch, const char *begin) {
    size_t element = component_bytes(batch->shape.component);
    size_t apart = (uintptr_t)begin - (uintptr_t)batch->shape.begin;
    if (batch->shape.delivery != DELIVER_IN_PLACE)
        return true;
    if (batch->count > 1)
        return apart == batch->count * batch->pitch * element;
    batch->pitch = apart / element;
    return (uintptr_t)begin > (uintptr_t)batch->shape.begin && apart % element == 0 &&
           batch->pitch >= batch->shape.elements && batch->pitch <= UINT32_MAX;
}

/* The first of the jobs that one launch can take. */
static frame_batch next_batch(const opencl_skinner *self, const dfm_skin_bind *data,
                              const dfm_skin_job *jobs, size_t job_count) {
    frame_shape first = shape_of(self, data, &jobs[0]);
    frame_batch batch = {.jobs = jobs, .count = 1, .shape = first, .pitch = first.elements};
    size_t most = first.delivery == DELIVER_IN_PLACE ? batch_bytes_max : transfer_bytes_max;
    size_t bytes = frame_bytes(&first) + job_words(data, &jobs[0]) * sizeof(uint32_t);
    for (; batch.count < job_count; batch.count++) {
        const dfm_skin_job *job = &jobs[batch.count];
        frame_shape shape = shape_of(self, data, job);
        bytes += frame_bytes(&shape) + job_words(data, job) * sizeof(uint32_t);
        if (bytes > most || !same_shape(&shape, &first) || !follows(&batch, shape.begin))
            break;
    }
    if (batch.count == 1)
        batch.pitch = first.elements;
    return batch;
}

static size_t batch_bytes(const frame_batch *batch) {
    return (batch->count - 1) * batch->pitch * component_bytes(batch->shape.component) +
           frame_bytes(&batch->shape);
}

/* --- run: what goes up ------------------------------------------------------------------------ */

/* Where the arrays of a frame lie; see dfm_skin_launch. */
static dfm_skin_launch plan(const dfm_skin_bind *data, const frame_batch *batch) {
    const frame_shape *shape = &batch->shape;
    dfm_skin_launch launch = {.block_count = data->block_count,
                              .frame_words = data->bone_count * 12,
                              .halves = shape->component == DFM_COMPONENT_F16,
                              .pitch = (uint32_t)batch->pitch,
                              .position = shape->position,
                              .position_stride = shape->position_stride,
                              .normal = shape->normal,
                              .normal_stride = shape->normal_stride};
    for (size_t i = 0; i < batch->count; i++)
        launch.morphed |= batch->jobs[i].deltas.touched_count > 0;
    launch.rotations = launch.frame_words;
    if (data->has_sdef || data->has_qdef)
        launch.frame_words += data->bone_count * 4;
    launch.duals = launch.frame_words;
    if (data->has_qdef)
        launch.frame_words += data->bone_count * 4;
    launch.slots = launch.frame_words;
    if (launch.morphed)
        launch.frame_words += data->block_count;
    launch.deltas = launch.frame_words * (uint32_t)batch->count;
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

static dfm_status reserve_words(turn *t, size_t count, dfm_error *error) {
    if (count <= t->word_capacity)
        return DFM_OK;
    free(t->words);
    t->words = malloc(count * sizeof *t->words);
    t->word_capacity = t->words ? count : 0;
    return t->words ? DFM_OK
                    : dfm_fail(error, DFM_ERROR_NO_MEMORY, "opencl", -1, -1, "no memory for poses");
}

/* Writes the poses of the turn's batch up, and says in *launch where they lie. */
static dfm_status upload(const opencl_skinner *self, turn *t, const dfm_skin_bind *data,
                         dfm_skin_launch *launch, dfm_error *error) {
    const frame_batch *batch = &t->batch;
    size_t room = 1; /* a model without bones has buffers too */
    for (size_t i = 0; i < batch->count; i++)
        room += job_words(data, &batch->jobs[i]);
    if (room > UINT32_MAX)
        return dfm_fail(error, DFM_ERROR_BACKEND, "opencl", -1, -1,
                        "a pose of %zu words is more than the kernel can address", room);
    dfm_status status = reserve_words(t, room, error);
    if (status == DFM_OK)
        status =
            reserve_buffer(self, &t->parameters, room * sizeof *t->words, CL_MEM_READ_ONLY, error);
    if (status != DFM_OK)
        return status;
    *launch = plan(data, batch);
    uint32_t used = 0;
    for (size_t i = 0; i < batch->count; i++)
        used = fill_frame(data, &batch->jobs[i], launch, t->words, i, used);
    size_t words = launch->deltas + (size_t)used * 3 * DFM_LANES;
    if (words == 0)
        return DFM_OK;
    return check(clEnqueueWriteBuffer(t->queue, t->parameters.memory, CL_FALSE, 0,
                                      words * sizeof *t->words, t->words, 0, NULL, NULL),
                 "clEnqueueWriteBuffer", error);
}

/* --- run: the launch -------------------------------------------------------------------------- */

static dfm_status launch_kernel(const opencl_skinner *self, turn *t, const opencl_binding *binding,
                                const dfm_skin_launch *launch, cl_mem results, dfm_error *error) {
    const cl_mem buffers[] = {binding->blocks,      binding->data,        binding->vertex,
                              t->parameters.memory, t->parameters.memory, results};
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < 6 && code == CL_SUCCESS; i++)
        code = clSetKernelArg(t->kernel, i, sizeof buffers[i], &buffers[i]);
    if (code == CL_SUCCESS)
        code = clSetKernelArg(t->kernel, 6, sizeof *launch, launch);
    if (code == CL_SUCCESS)
        code = dfm_opencl_launch(&self->opencl, t->queue, t->kernel, launch->block_count,
                                 t->batch.count);
    return check(code, "the kernel's launch", error);
}

/* The kernel writes into the jobs' memory itself; mapping it is what makes that visible. */
static dfm_status launch_in_place(const opencl_skinner *self, turn *t,
                                  const opencl_binding *binding, const dfm_skin_launch *launch,
                                  dfm_error *error) {
    size_t bytes = batch_bytes(&t->batch);
    cl_int code;
    t->in_place = clCreateBuffer(self->opencl.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                 bytes, t->batch.shape.begin, &code);
    dfm_status status = check(code, "clCreateBuffer", error);
    if (status == DFM_OK)
        status = launch_kernel(self, t, binding, launch, t->in_place, error);
    if (status != DFM_OK)
        return status;
    void *mapped = clEnqueueMapBuffer(t->queue, t->in_place, CL_FALSE, CL_MAP_READ, 0, bytes, 0,
                                      NULL, NULL, &code);
    status = check(code, "clEnqueueMapBuffer", error);
    return status == DFM_OK
               ? check(clEnqueueUnmapMemObject(t->queue, t->in_place, mapped, 0, NULL, NULL),
                       "clEnqueueUnmapMemObject", error)
               : status;
}

static dfm_status read_frames(turn *t, dfm_error *error) {
    size_t bytes = frame_bytes(&t->batch.shape);
    dfm_status status = DFM_OK;
    for (size_t i = 0; i < t->batch.count && status == DFM_OK; i++) {
        const dfm_skin_job *job = &t->batch.jobs[i];
        char *position = job->position.data, *normal = job->normal.data;
        bool normal_first = !position || (normal && (uintptr_t)normal < (uintptr_t)position);
        status = check(clEnqueueReadBuffer(t->queue, t->results.memory, CL_FALSE, i * bytes, bytes,
                                           normal_first ? normal : position, 0, NULL, NULL),
                       "clEnqueueReadBuffer", error);
    }
    return status;
}

/* The kernel writes into the device's buffer, and what it wrote is on its way here. */
static dfm_status launch_on_device(const opencl_skinner *self, turn *t,
                                   const opencl_binding *binding, const dfm_skin_launch *launch,
                                   dfm_error *error) {
    size_t bytes = batch_bytes(&t->batch);
    dfm_status status = reserve_buffer(self, &t->results, bytes, CL_MEM_READ_WRITE, error);
    if (status == DFM_OK)
        status = launch_kernel(self, t, binding, launch, t->results.memory, error);
    if (status != DFM_OK || t->batch.shape.delivery == DELIVER_READ)
        return status == DFM_OK ? read_frames(t, error) : status;
    cl_int code;
    t->mapped = clEnqueueMapBuffer(t->queue, t->results.memory, CL_FALSE, CL_MAP_READ, 0, bytes, 0,
                                   NULL, NULL, &code);
    return check(code, "clEnqueueMapBuffer", error);
}

/* --- run: a turn ------------------------------------------------------------------------------ */

/* Whatever comes of it, finish is to be called before the jobs' memory is used. */
static dfm_status start(const opencl_skinner *self, turn *t, const opencl_binding *binding,
                        const frame_batch *batch, dfm_error *error) {
    dfm_skin_launch launch;
    t->batch = *batch;
    dfm_status status = upload(self, t, binding->base.data, &launch, error);
    if (status == DFM_OK && batch->shape.delivery == DELIVER_IN_PLACE)
        status = launch_in_place(self, t, binding, &launch, error);
    else if (status == DFM_OK)
        status = launch_on_device(self, t, binding, &launch, error);
    return status == DFM_OK ? check(clFlush(t->queue), "clFlush", error) : status;
}

static void copy_output(const turn *t, const dfm_skin_output *output, size_t first, size_t stride,
                        size_t vertex_count) {
    size_t element = component_bytes(t->batch.shape.component);
    const char *from = t->mapped + first * element;
    char *to = output->data;
    for (size_t v = 0; to && v < vertex_count; v++)
        memcpy(to + v * output->stride_bytes, from + v * stride * element, 3 * element);
}

static void copy_frames(const turn *t, size_t vertex_count) {
    const frame_shape *shape = &t->batch.shape;
    for (size_t i = 0; i < t->batch.count; i++) {
        const dfm_skin_job *job = &t->batch.jobs[i];
        size_t begin = i * t->batch.pitch;
        copy_output(t, &job->position, begin + shape->position, shape->position_stride,
                    vertex_count);
        copy_output(t, &job->normal, begin + shape->normal, shape->normal_stride, vertex_count);
    }
}

/* Waits for the turn's batch: from here on nothing that was enqueued touches the jobs' memory. */
static dfm_status finish(turn *t, const dfm_skin_bind *data, dfm_error *error) {
    if (t->batch.count == 0)
        return DFM_OK;
    dfm_status status = check(clFinish(t->queue), "clFinish", error);
    if (t->mapped && status == DFM_OK)
        copy_frames(t, data->vertex_count);
    if (t->mapped) {
        cl_int code =
            clEnqueueUnmapMemObject(t->queue, t->results.memory, t->mapped, 0, NULL, NULL);
        if (status == DFM_OK)
            status = check(code, "clEnqueueUnmapMemObject", error);
    }
    release(t->in_place);
    t->in_place = NULL;
    t->mapped = NULL;
    t->batch = (frame_batch){0};
    return status;
}

static dfm_status opencl_run(dfm_skinner *skinner, dfm_skin_binding *binding, uint32_t worker_index,
                             const dfm_skin_job *jobs, size_t job_count, dfm_error *error) {
    const opencl_skinner *self = (const opencl_skinner *)skinner;
    worker *w = &self->workers[worker_index];
    dfm_status status = DFM_OK;
    size_t done = 0;
    for (int i = 0; done < job_count && status == DFM_OK; i = (i + 1) % TURNS) {
        frame_batch batch = next_batch(self, binding->data, jobs + done, job_count - done);
        done += batch.count;
        status = finish(&w->turns[i], binding->data, error);
        if (status == DFM_OK && batch.shape.elements > 0)
            status = start(self, &w->turns[i], (const opencl_binding *)binding, &batch, error);
    }
    for (int i = 0; i < TURNS; i++) { /* of several failures the first is told */
        dfm_status finished = finish(&w->turns[i], binding->data, error);
        status = status == DFM_OK ? finished : status;
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
