/* An OpenCL device with deformd's program on it, ready to launch.
 *
 * The program is built and its kernel launched once in dfm_opencl_open, so that nothing is compiled
 * later. Thread safety: open and close by one thread; between them the struct is read only, and
 * any thread may make queues, kernels and buffers from it. */
#ifndef DFM_CORE_OPENCL_DEVICE_H
#define DFM_CORE_OPENCL_DEVICE_H

#include "core/skinner.h"

#include <CL/cl.h>

/* Work-items of a group. Drivers compile again for every group size they meet, so there is one. */
#define DFM_OPENCL_GROUP_ITEMS 64

typedef struct dfm_opencl {
    cl_device_id device;
    cl_context context;
    cl_program program;
    uint32_t item_lanes; /* DFM_ITEM_LANES of skin.cl: DFM_LANES on CPUs, 1 elsewhere */
    bool host_memory;    /* a CPU that does blocks: kernels work on the host's arrays, no copies */
} dfm_opencl;

/* Opens the device that the options name. `description` (size bytes) becomes "device name (platform
 * version)". Failures: UNAVAILABLE, there is no kernel to be had here, and why: no platform or
 * device at the index, the program does not build, or PoCL's cache folder cannot serve. */
dfm_status dfm_opencl_open(dfm_opencl *opencl, const dfm_skinner_options *options,
                           char *description, size_t size, dfm_error *error);
void dfm_opencl_close(dfm_opencl *opencl);

/* A queue and a kernel of one worker's own. Failures: `failure`. */
dfm_status dfm_opencl_worker(const dfm_opencl *opencl, cl_command_queue *queue, cl_kernel *kernel,
                             dfm_status failure, dfm_error *error);

/* Enqueues `frames` frames of `block_count` blocks; arguments are set. */
cl_int dfm_opencl_launch(const dfm_opencl *opencl, cl_command_queue queue, cl_kernel kernel,
                         size_t block_count, size_t frames);

/* DFM_OK for CL_SUCCESS, else `failure` with the call's and the code's name. */
dfm_status dfm_opencl_check(cl_int code, const char *call, dfm_status failure, dfm_error *error);

#endif
