#include "core/opencl_device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define KERNEL_NAME "dfm_skin"
/* Drivers tell launches with a dimension above this from smaller ones (PoCL compiles for each). */
#define SMALL_GRID_ITEMS 65535

enum { LISTED_MAX = 64 }; /* platforms, or devices of one, that an index can reach */

extern const char dfm_skin_cl[]; /* kernels/skin.cl, embedded by the Makefile */

/* --- errors ----------------------------------------------------------------------------------- */

static const char *error_name(cl_int code) {
#define NAME(code)                                                                                 \
    case code:                                                                                     \
        return #code
    switch (code) {
        NAME(CL_DEVICE_NOT_FOUND);
        NAME(CL_DEVICE_NOT_AVAILABLE);
        NAME(CL_COMPILER_NOT_AVAILABLE);
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE);
        NAME(CL_OUT_OF_RESOURCES);
        NAME(CL_OUT_OF_HOST_MEMORY);
        NAME(CL_BUILD_PROGRAM_FAILURE);
        NAME(CL_MAP_FAILURE);
        NAME(CL_LINKER_NOT_AVAILABLE);
        NAME(CL_LINK_PROGRAM_FAILURE);
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        NAME(CL_INVALID_VALUE);
        NAME(CL_INVALID_PLATFORM);
        NAME(CL_INVALID_DEVICE);
        NAME(CL_INVALID_CONTEXT);
        NAME(CL_INVALID_COMMAND_QUEUE);
        NAME(CL_INVALID_HOST_PTR);
        NAME(CL_INVALID_MEM_OBJECT);
        NAME(CL_INVALID_BINARY);
        NAME(CL_INVALID_BUILD_OPTIONS);
        NAME(CL_INVALID_PROGRAM);
        NAME(CL_INVALID_PROGRAM_EXECUTABLE);
        NAME(CL_INVALID_KERNEL_NAME);
        NAME(CL_INVALID_KERNEL_DEFINITION);
        NAME(CL_INVALID_KERNEL);
        NAME(CL_INVALID_ARG_INDEX);
        NAME(CL_INVALID_ARG_VALUE);
        NAME(CL_INVALID_ARG_SIZE);
        NAME(CL_INVALID_KERNEL_ARGS);
        NAME(CL_INVALID_WORK_DIMENSION);
        NAME(CL_INVALID_WORK_GROUP_SIZE);
        NAME(CL_INVALID_WORK_ITEM_SIZE);
        NAME(CL_INVALID_GLOBAL_OFFSET);
        NAME(CL_INVALID_OPERATION);
        NAME(CL_INVALID_BUFFER_SIZE);
        NAME(CL_INVALID_GLOBAL_WORK_SIZE);
    case -1001: /* CL_PLATFORM_NOT_FOUND_KHR, in cl_ext.h */
        return "CL_PLATFORM_NOT_FOUND_KHR";
    default:
        return "an error of the driver's own";
    }
#undef NAME
}

dfm_status dfm_opencl_check(cl_int code, const char *call, dfm_status failure, dfm_error *error) {
    if (code == CL_SUCCESS)
        return DFM_OK;
    return dfm_fail(error, failure, "opencl", -1, -1, "%s failed: %s (%d)", call, error_name(code),
                    (int)code);
}

static dfm_status unavailable(dfm_error *error, const char *format, const char *what) {
    return dfm_fail(error, DFM_ERROR_UNAVAILABLE, "opencl", -1, -1, format, what);
}

/* --- PoCL's cache folder ---------------------------------------------------------------------- */

/* Where PoCL keeps the kernels that it compiles, by its own rules. False: the path is too long. */
static bool pocl_cache_path(char path[PATH_MAX]) {
    const char *own = getenv("POCL_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int length;
    if (own)
        length = snprintf(path, PATH_MAX, "%s", own);
    else if (cache && *cache)
        length = snprintf(path, PATH_MAX, "%s/pocl/kcache", cache);
    else if (home)
        length = snprintf(path, PATH_MAX, "%s/.cache/pocl/kcache", home);
    else
        length = snprintf(path, PATH_MAX, "/tmp/pocl/kcache");
    return length < PATH_MAX;
}

/* mkdir -p. The result of mkdir is of no interest: whether the folder serves is tried out next. */
static void make_folders(char *path) {
    for (char *at = path; *at; at++) {
        if (*at == '/' && at > path) {
            *at = '\0';
            mkdir(path, 0777);
            *at = '/';
        }
    }
    mkdir(path, 0777);
}

/* Does with a file in `folder` what PoCL does with a kernel: writes it and maps it as a program.
 * 0, or errno: EPERM where the mount is noexec. */
static int try_program_file(const char *folder) {
    char path[PATH_MAX + 24];
    snprintf(path, sizeof path, "%s/deformd-probe-XXXXXX", folder);
    int file = mkostemp(path, O_CLOEXEC);
    if (file < 0)
        return errno;
    int problem = 0;
    static const char page[4096];
    if (write(file, page, sizeof page) != (ssize_t)sizeof page) {
        problem = ENOSPC;
    } else {
        void *program = mmap(NULL, sizeof page, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        if (program == MAP_FAILED)
            problem = errno;
        else
            munmap(program, sizeof page);
    }
    unlink(path);
    close(file);
    return problem;
}

/* PoCL ends the whole process when it cannot load what it compiled, and says only "no device" or
 * "build failure" when it cannot write it. So its folder is tried before its first use. */
static dfm_status check_pocl_cache(dfm_error *error) {
    char path[PATH_MAX];
    int problem = ENAMETOOLONG;
    if (pocl_cache_path(path)) {
        make_folders(path);
        problem = try_program_file(path);
    }
    if (problem == 0)
        return DFM_OK;
    return dfm_fail(error, DFM_ERROR_UNAVAILABLE, "opencl", -1, -1,
                    "PoCL cannot keep compiled kernels in %.90s (%s); set POCL_CACHE_DIR to a "
                    "writable folder on a mount without noexec",
                    path, problem == EPERM ? "mounted noexec" : strerror(problem));
}

/* --- platform and device ---------------------------------------------------------------------- */

/* A text of the platform's or device's, by either of the two calls; "?" when it has none. */
#define DESCRIBE(call, id, what, text)                                                             \
    do {                                                                                           \
        if (call((id), (what), sizeof(text), (text), NULL) != CL_SUCCESS)                          \
            memcpy((text), "?", 2);                                                                \
        (text)[sizeof(text) - 1] = '\0';                                                           \
    } while (0)

static dfm_status check_index(uint32_t index, cl_uint count, const char *what, dfm_error *error) {
    if (index < count && index < LISTED_MAX)
        return DFM_OK;
    return dfm_fail(error, DFM_ERROR_UNAVAILABLE, "opencl", index, -1,
                    "OpenCL %s %u was asked for, and there are %u, counted from 0", what, index,
                    count);
}

static dfm_status find_platform(uint32_t index, cl_platform_id *platform, dfm_error *error) {
    cl_platform_id ids[LISTED_MAX];
    cl_uint count = 0;
    cl_int code = clGetPlatformIDs(LISTED_MAX, ids, &count);
    if (code != CL_SUCCESS || count == 0)
        return unavailable(error, "there is no OpenCL platform here (%s): no driver is installed",
                           code ? error_name(code) : "none listed");
    dfm_status status = check_index(index, count, "platform", error);
    if (status == DFM_OK)
        *platform = ids[index];
    return status;
}

static dfm_status find_device(cl_platform_id platform, uint32_t index, cl_device_id *device,
                              dfm_error *error) {
    char name[128];
    DESCRIBE(clGetPlatformInfo, platform, CL_PLATFORM_NAME, name);
    if (strcmp(name, "Portable Computing Language") == 0) {
        dfm_status status = check_pocl_cache(error);
        if (status != DFM_OK)
            return status;
    }
    cl_device_id ids[LISTED_MAX];
    cl_uint count = 0;
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, LISTED_MAX, ids, &count);
    if (code != CL_SUCCESS || count == 0)
        return unavailable(error, "the OpenCL platform \"%s\" has no device", name);
    dfm_status status = check_index(index, count, "device", error);
    if (status == DFM_OK)
        *device = ids[index];
    return status;
}

static void describe(const dfm_opencl *opencl, cl_platform_id platform, char *text, size_t size) {
    char device[128], version[128];
    DESCRIBE(clGetDeviceInfo, opencl->device, CL_DEVICE_NAME, device);
    DESCRIBE(clGetPlatformInfo, platform, CL_PLATFORM_VERSION, version);
    snprintf(text, size, "%s (%s)", device, version);
}

/* --- program ---------------------------------------------------------------------------------- */

static dfm_status build_failure(const dfm_opencl *opencl, cl_int code, dfm_error *error) {
    size_t size = 0;
    clGetProgramBuildInfo(opencl->program, opencl->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = calloc(1, size + 1);
    if (log && size > 0)
        clGetProgramBuildInfo(opencl->program, opencl->device, CL_PROGRAM_BUILD_LOG, size, log,
                              NULL);
    dfm_status status = dfm_fail(error, DFM_ERROR_UNAVAILABLE, "opencl", -1, -1,
                                 "the OpenCL kernel does not build, %s (%d): %s", error_name(code),
                                 (int)code, log && *log ? log : "the driver left no log");
    free(log);
    return status;
}

static dfm_status build_program(dfm_opencl *opencl, const char *source, dfm_error *error) {
    cl_int code;
    opencl->context = clCreateContext(NULL, 1, &opencl->device, NULL, NULL, &code);
    dfm_status status = dfm_opencl_check(code, "clCreateContext", DFM_ERROR_UNAVAILABLE, error);
    if (status != DFM_OK)
        return status;
    opencl->program = clCreateProgramWithSource(opencl->context, 1, &source, NULL, &code);
    status = dfm_opencl_check(code, "clCreateProgramWithSource", DFM_ERROR_UNAVAILABLE, error);
    if (status != DFM_OK)
        return status;
    char build_options[64];
    snprintf(build_options, sizeof build_options, "-cl-std=CL1.2 -DDFM_ITEM_LANES=%u",
             opencl->item_lanes);
    code = clBuildProgram(opencl->program, 1, &opencl->device, build_options, NULL, NULL);
    return code == CL_SUCCESS ? DFM_OK : build_failure(opencl, code, error);
}

dfm_status dfm_opencl_worker(const dfm_opencl *opencl, cl_command_queue *queue, cl_kernel *kernel,
                             dfm_status failure, dfm_error *error) {
    cl_int code;
    *queue = clCreateCommandQueue(opencl->context, opencl->device, 0, &code);
    dfm_status status = dfm_opencl_check(code, "clCreateCommandQueue", failure, error);
    if (status != DFM_OK)
        return status;
    *kernel = clCreateKernel(opencl->program, KERNEL_NAME, &code);
    return dfm_opencl_check(code, "clCreateKernel", failure, error);
}

cl_int dfm_opencl_launch(const dfm_opencl *opencl, cl_command_queue queue, cl_kernel kernel,
                         size_t block_count, size_t frames) {
    size_t items = block_count * DFM_LANES / opencl->item_lanes;
    size_t groups = (items + DFM_OPENCL_GROUP_ITEMS - 1) / DFM_OPENCL_GROUP_ITEMS;
    const size_t global[2] = {groups * DFM_OPENCL_GROUP_ITEMS, frames};
    const size_t local[2] = {DFM_OPENCL_GROUP_ITEMS, 1};
    return clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, local, 0, NULL, NULL);
}

/* Launches that cover no block, one of each size that drivers compile for. */
static cl_int launch_idle(const dfm_opencl *opencl, cl_command_queue queue, cl_kernel kernel,
                          cl_mem nothing) {
    const dfm_skin_launch none = {0};
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < 6 && code == CL_SUCCESS; i++)
        code = clSetKernelArg(kernel, i, sizeof nothing, &nothing);
    if (code == CL_SUCCESS)
        code = clSetKernelArg(kernel, 6, sizeof none, &none);
    if (code == CL_SUCCESS)
        code = dfm_opencl_launch(opencl, queue, kernel, DFM_LANES, 1);
    if (code == CL_SUCCESS)
        code = dfm_opencl_launch(opencl, queue, kernel, SMALL_GRID_ITEMS + DFM_LANES, 1);
    if (code == CL_SUCCESS)
        code = clFinish(queue);
    return code;
}

static dfm_status warm_up(const dfm_opencl *opencl, dfm_error *error) {
    cl_command_queue queue = NULL;
    cl_kernel kernel = NULL;
    dfm_status status = dfm_opencl_worker(opencl, &queue, &kernel, DFM_ERROR_UNAVAILABLE, error);
    if (status == DFM_OK) {
        cl_int code;
        cl_mem nothing = clCreateBuffer(opencl->context, CL_MEM_READ_WRITE, 64, NULL, &code);
        if (code == CL_SUCCESS)
            code = launch_idle(opencl, queue, kernel, nothing);
        if (nothing)
            clReleaseMemObject(nothing);
        status = dfm_opencl_check(code, "the kernel's first launch", DFM_ERROR_UNAVAILABLE, error);
    }
    if (kernel)
        clReleaseKernel(kernel);
    if (queue)
        clReleaseCommandQueue(queue);
    return status;
}

static dfm_status look_at_device(dfm_opencl *opencl, uint32_t item_lanes, dfm_error *error) {
    cl_device_type type = 0;
    dfm_status status =
        dfm_opencl_check(clGetDeviceInfo(opencl->device, CL_DEVICE_TYPE, sizeof type, &type, NULL),
                         "clGetDeviceInfo", DFM_ERROR_UNAVAILABLE, error);
    bool cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
    opencl->item_lanes = item_lanes ? item_lanes : cpu ? DFM_LANES : 1;
    opencl->host_memory = cpu && opencl->item_lanes == DFM_LANES;
    return status;
}

dfm_status dfm_opencl_open(dfm_opencl *opencl, const dfm_skinner_options *options,
                           char *description, size_t size, dfm_error *error) {
    *opencl = (dfm_opencl){0};
    cl_platform_id platform = NULL;
    dfm_status status = find_platform(options->opencl_platform, &platform, error);
    if (status == DFM_OK)
        status = find_device(platform, options->opencl_device, &opencl->device, error);
    if (status == DFM_OK)
        status = look_at_device(opencl, options->opencl_item_lanes, error);
    if (status == DFM_OK)
        status = build_program(
            opencl, options->kernel_source ? options->kernel_source : dfm_skin_cl, error);
    if (status == DFM_OK)
        status = warm_up(opencl, error);
    if (status == DFM_OK)
        describe(opencl, platform, description, size);
    else
        dfm_opencl_close(opencl);
    return status;
}

void dfm_opencl_close(dfm_opencl *opencl) {
    if (opencl->program)
        clReleaseProgram(opencl->program);
    if (opencl->context)
        clReleaseContext(opencl->context);
    *opencl = (dfm_opencl){0};
}
