/* The OpenCL skinner on a real driver: results, layouts, batches, threads, and what it says where
 * there is no kernel to be had (models: test_skin_invariants.c and its neighbours). Every test is a
 * process of its own: what the ICD loader and a driver read from the environment, they read once.
 */
#include "core/skinner.h"
#include "tests/support_scene.h"

#include <CL/cl.h>
#include <check.h>
#include <dlfcn.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char dfm_skin_cl[];

/* --- driver calls that fail on demand -------------------------------------------------------- */

/* The calls of one run, in front of the ICD loader's: number `failing_call` of them fails. */
static int failing_call = -1;
static atomic_int seen_calls, launches;

static bool call_fails(void) {
    return seen_calls++ == failing_call;
}

#define DRIVER(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                      cl_int *code) {
    if (!call_fails())
        return DRIVER(clCreateBuffer)(context, flags, size, host, code);
    *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return NULL;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                            size_t size, const void *host, cl_uint wait_count, const cl_event *wait,
                            cl_event *event) {
    if (call_fails())
        return CL_OUT_OF_RESOURCES;
    return DRIVER(clEnqueueWriteBuffer)(queue, buffer, blocking, offset, size, host, wait_count,
                                        wait, event);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t size, void *host, cl_uint wait_count, const cl_event *wait,
                           cl_event *event) {
    if (call_fails())
        return CL_OUT_OF_RESOURCES;
    return DRIVER(clEnqueueReadBuffer)(queue, buffer, blocking, offset, size, host, wait_count,
                                       wait, event);
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                         cl_map_flags flags, size_t offset, size_t size, cl_uint wait_count,
                         const cl_event *wait, cl_event *event, cl_int *code) {
    if (!call_fails())
        return DRIVER(clEnqueueMapBuffer)(queue, buffer, blocking, flags, offset, size, wait_count,
                                          wait, event, code);
    *code = CL_MAP_FAILURE;
    return NULL;
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
    return call_fails() ? CL_OUT_OF_RESOURCES : DRIVER(clSetKernelArg)(kernel, index, size, value);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint wait_count, const cl_event *wait, cl_event *event) {
    launches++;
    if (call_fails())
        return CL_OUT_OF_RESOURCES;
    return DRIVER(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, local,
                                          wait_count, wait, event);
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void *mapped,
                               cl_uint wait_count, const cl_event *wait, cl_event *event) {
    cl_int code = DRIVER(clEnqueueUnmapMemObject)(queue, buffer, mapped, wait_count, wait, event);
    return call_fails() ? CL_OUT_OF_RESOURCES : code;
}

cl_int clFlush(cl_command_queue queue) {
    cl_int code = DRIVER(clFlush)(queue);
    return call_fails() ? CL_OUT_OF_RESOURCES : code;
}

cl_int clFinish(cl_command_queue queue) {
    cl_int code = DRIVER(clFinish)(queue);
    return call_fails() ? CL_OUT_OF_RESOURCES : code;
}

/* --- what most tests do ---------------------------------------------------------------------- */

static const uint32_t both_ways[2] = {1, DFM_LANES}; /* lanes that a work-item does */

static dfm_error error;

static void assert_ok(dfm_status status) {
    ck_assert_msg(status == DFM_OK, "%s: %s", dfm_status_name(status), error.info);
}

static dfm_skinner *open_opencl(uint32_t worker_count, uint32_t item_lanes) {
    dfm_error_clear(&error);
    dfm_skinner *skinner = NULL;
    const dfm_skinner_options options = {.worker_count = worker_count,
                                         .opencl_item_lanes = item_lanes};
    assert_ok(dfm_skinner_open(&dfm_skinner_opencl, &options, &skinner, &error));
    return skinner;
}

static dfm_skin_binding *bind_to(dfm_skinner *skinner, const dfm_skin_bind *bind) {
    dfm_skin_binding *binding = NULL;
    assert_ok(dfm_skinner_bind(skinner, bind, &binding, &error));
    return binding;
}

static float *frames_of(const dfm_skin_bind *bind, size_t count) {
    float *frames = aligned_alloc(64, (scene_frame_floats(bind) * count * 4 + 64) / 64 * 64);
    ck_assert_ptr_nonnull(frames);
    for (size_t i = 0; i < scene_frame_floats(bind) * count; i++)
        frames[i] = NAN; /* nothing may stay unwritten */
    return frames;
}

/* Skins one pose and compares it with the scalar kernel. */
static void run_and_compare(dfm_skinner *skinner, dfm_skin_binding *binding,
                            const scene_pose *pose) {
    const dfm_skin_bind *bind = binding->data;
    float *frame = frames_of(bind, 1), *expected = scene_expected(bind, pose);
    const dfm_skin_job job = scene_job(pose, frame);
    assert_ok(dfm_skinner_run(skinner, binding, 0, &job, 1, &error));
    scene_compare(frame, expected, bind->vertex_count);
    free(frame);
    free(expected);
}

static void compare_scene(const scene_options *options, uint32_t item_lanes, uint32_t morph_every) {
    dfm_skin_bind *bind = scene_create(options);
    scene_pose *pose = scene_pose_create(bind, options->seed, morph_every);
    dfm_skinner *skinner = open_opencl(1, item_lanes);
    dfm_skin_binding *binding = bind_to(skinner, bind);
    run_and_compare(skinner, binding, pose);
    dfm_skinner_unbind(skinner, binding);
    dfm_skinner_close(skinner);
    scene_pose_free(pose);
    scene_free(bind);
}

/* --- kernel: small, also run under oclgrind -------------------------------------------------- */

START_TEST(a_kind_equals_the_scalar_kernel) {
    for (uint32_t way = 0; way < 2; way++)
        compare_scene(
            &(scene_options){
                .block_count = 70, .bone_count = 40, .kinds = 1u << _i, .seed = (uint32_t)_i + 1},
            both_ways[way], 0);
}
END_TEST

START_TEST(all_kinds_and_morphs_equal_the_scalar_kernel) {
    for (uint32_t way = 0; way < 2; way++)
        compare_scene(&(scene_options){.block_count = 200, .bone_count = 40, .seed = 11},
                      both_ways[way], (uint32_t)_i);
}
END_TEST

START_TEST(a_model_without_bones_stays_at_rest) {
    for (uint32_t way = 0; way < 2; way++)
        compare_scene(&(scene_options){.block_count = 9, .seed = 12}, both_ways[way], 2);
}
END_TEST

/* Two slots of one bone whose weights cancel out: nothing to turn about, so linear. */
START_TEST(a_thin_dual_quaternion_falls_back_to_linear) {
    dfm_skin_bind *bind = scene_create(
        &(scene_options){.block_count = 4, .bone_count = 8, .kinds = 1u << DFM_KIND_QDEF});
    for (uint32_t b = 0; b < bind->block_count; b++) {
        bind->blocks[b].bone[1] = bind->blocks[b].bone[0];
        float *weights = bind->data + ((size_t)bind->blocks[b].row + 6) * DFM_LANES;
        for (uint32_t lane = b % 2; lane < DFM_LANES; lane += 2) {
            weights[lane] = .5f;
            weights[DFM_LANES + lane] = -.5f;
            weights[2 * DFM_LANES + lane] = weights[3 * DFM_LANES + lane] = 0;
        }
    }
    scene_pose *pose = scene_pose_create(bind, 3, 0);
    for (uint32_t way = 0; way < 2; way++) {
        dfm_skinner *skinner = open_opencl(1, both_ways[way]);
        dfm_skin_binding *binding = bind_to(skinner, bind);
        run_and_compare(skinner, binding, pose);
        dfm_skinner_unbind(skinner, binding);
        dfm_skinner_close(skinner);
    }
    scene_pose_free(pose);
    scene_free(bind);
}
END_TEST

START_TEST(a_batch_equals_its_frames_bit_for_bit) {
    enum { FRAMES = 7 };
    dfm_skin_bind *bind =
        scene_create(&(scene_options){.block_count = 100, .bone_count = 20, .seed = 5});
    dfm_skinner *skinner = open_opencl(2, both_ways[_i]);
    dfm_skin_binding *binding = bind_to(skinner, bind);
    scene_pose *poses[FRAMES];
    dfm_skin_job jobs[FRAMES];
    size_t floats = scene_frame_floats(bind);
    float *batch = frames_of(bind, FRAMES), *single = frames_of(bind, 1);
    for (uint32_t i = 0; i < FRAMES; i++) {
        poses[i] = scene_pose_create(bind, 100 + i, i % 3); /* 0: no morph; 1: all blocks */
        jobs[i] = scene_job(poses[i], batch + i * floats);
    }
    launches = 0;
    assert_ok(dfm_skinner_run(skinner, binding, 0, jobs, FRAMES, &error));
    ck_assert_int_eq(launches, 1);
    float *normals = frames_of(bind, FRAMES); /* alone */
    for (uint32_t i = 0; i < FRAMES; i++) {
        jobs[i].position.data = NULL;
        jobs[i].normal.data = normals + i * floats;
    }
    assert_ok(dfm_skinner_run(skinner, binding, 0, jobs, FRAMES, &error));
    ck_assert_int_eq(launches, 2);
    for (uint32_t i = 0; i < FRAMES; i++) {
        const dfm_skin_job alone = scene_job(poses[i], single);
        assert_ok(dfm_skinner_run(skinner, binding, 1, &alone, 1, &error));
        ck_assert_mem_eq(single, batch + i * floats, floats * sizeof *single);
        for (size_t v = 0; v < floats; v += 6)
            ck_assert_mem_eq(single + v + 3, normals + i * floats + v, 3 * sizeof *single);
        scene_pose_free(poses[i]);
    }
    free(normals);
    free(batch);
    free(single);
    dfm_skinner_unbind(skinner, binding);
    dfm_skinner_close(skinner);
    scene_free(bind);
}
END_TEST

/* --- numbers that leave their range
 * --------------------------------------------------------------- */

START_TEST(what_is_sent_is_finite_whatever_the_palette) {
    static const float odd[] = {3e38f, -3e38f, INFINITY, -INFINITY, NAN, 0};
    dfm_skin_bind *bind =
        scene_create(&(scene_options){.block_count = 120, .bone_count = 12, .seed = 9});
    scene_pose *pose = scene_pose_create(bind, 4, 2);
    for (uint32_t i = 0; i < bind->bone_count; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            pose->palette[12 * i + (5 * k + i) % 12] = odd[(i + k) % 6];
            pose->rotations[4 * i + k] = i % 2 ? odd[(i + k) % 6] : pose->rotations[4 * i + k];
        }
        pose->duals[4 * i + i % 4] = odd[i % 6];
    }
    dfm_skinner *skinner = open_opencl(1, both_ways[_i]);
    dfm_skin_binding *binding = bind_to(skinner, bind);
    float *frame = frames_of(bind, 1);
    const dfm_skin_job job = scene_job(pose, frame);
    assert_ok(dfm_skinner_run(skinner, binding, 0, &job, 1, &error));
    for (size_t v = 0; v < bind->vertex_count; v++) {
        const float *at = frame + 6 * v;
        float length2 = at[3] * at[3] + at[4] * at[4] + at[5] * at[5];
        bool finite = isfinite(at[0]) && isfinite(at[1]) && isfinite(at[2]) && isfinite(length2);
        if (!finite || (length2 != 0 && !(fabsf(length2 - 1) < 1e-4f)))
            ck_abort_msg("vertex %zu: %g %g %g, a normal of length %g", v, (double)at[0],
                         (double)at[1], (double)at[2], (double)sqrtf(length2));
    }
    free(frame);
    dfm_skinner_unbind(skinner, binding);
    dfm_skinner_close(skinner);
    scene_pose_free(pose);
    scene_free(bind);
}
END_TEST

/* --- morphs, sizes
 * ---------------------------------------------------------------------------------- */

START_TEST(a_pose_leaves_no_morph_behind) {
    dfm_skin_bind *bind =
        scene_create(&(scene_options){.block_count = 90, .bone_count = 9, .seed = 2});
    dfm_skinner *skinner = open_opencl(1, 0);
    dfm_skin_binding *binding = bind_to(skinner, bind);
    static const uint32_t every[] = {1, 0, 5, 2, 0};
    for (uint32_t i = 0; i < 5; i++) {
        scene_pose *pose = scene_pose_create(bind, i, every[i]);
        run_and_compare(skinner, binding, pose);
        scene_pose_free(pose);
    }
    dfm_skinner_unbind(skinner, binding);
    dfm_skinner_close(skinner);
    scene_free(bind);
}
END_TEST

/* Drivers number work-items of launches above 65,535 otherwise. */
START_TEST(large_and_small_models_take_turns) {
    dfm_skinner *skinner = open_opencl(1, both_ways[_i]);
    static const uint32_t block_counts[] = {3, 66000, 1, 9000, 64};
    for (uint32_t i = 0; i < 5; i++) {
        dfm_skin_bind *bind = scene_create(
            &(scene_options){.block_count = block_counts[i], .bone_count = 30, .seed = i});
        scene_pose *pose = scene_pose_create(bind, i, 7);
        dfm_skin_binding *binding = bind_to(skinner, bind);
        run_and_compare(skinner, binding, pose);
        dfm_skinner_unbind(skinner, binding);
        scene_pose_free(pose);
        scene_free(bind);
    }
    dfm_skinner_close(skinner);
}
END_TEST

START_TEST(a_batch_over_the_launch_limit_is_divided) {
    enum { FRAMES = 5 };
    dfm_skin_bind *bind =
        scene_create(&(scene_options){.block_count = 60000, .bone_count = 10, .seed = 8});
    ck_assert_uint_gt(scene_frame_floats(bind) * 4 * FRAMES, 40 << 20);
    scene_pose *pose = scene_pose_create(bind, 8, 50);
    dfm_skinner *skinner = open_opencl(1, both_ways[_i]);
    dfm_skin_binding *binding = bind_to(skinner, bind);
    float *frames = frames_of(bind, FRAMES), *expected = scene_expected(bind, pose);
    dfm_skin_job jobs[FRAMES];
    for (size_t i = 0; i < FRAMES; i++)
        jobs[i] = scene_job(pose, frames + i * scene_frame_floats(bind));
    launches = 0;
    assert_ok(dfm_skinner_run(skinner, binding, 0, jobs, FRAMES, &error));
    ck_assert_int_eq(launches, both_ways[_i] == 1 ? FRAMES : 2);
    for (size_t i = 0; i < FRAMES; i++)
        scene_compare(frames + i * scene_frame_floats(bind), expected, bind->vertex_count);
    free(frames);
    free(expected);
    dfm_skinner_unbind(skinner, binding);
    dfm_skinner_close(skinner);
    scene_pose_free(pose);
    scene_free(bind);
}
END_TEST

/* A CPU reads the bind data where it is; other devices hold a copy. */
START_TEST(a_binding_counts_what_the_device_holds) {
    dfm_skin_bind *bind = scene_create(&(scene_options){.block_count = 50, .bone_count = 9});
    size_t arrays = bind->block_count * (sizeof *bind->blocks + DFM_LANES * sizeof *bind->vertex) +
                    bind->row_count * DFM_LANES * sizeof *bind->data;
    for (uint32_t way = 0; way < 2; way++) {
        dfm_skinner *skinner = open_opencl(1, both_ways[way]);
        dfm_skin_binding *binding = bind_to(skinner, bind);
        ck_assert_int_eq(binding->resident_bytes > arrays, both_ways[way] == 1);
        dfm_skinner_unbind(skinner, binding);
        dfm_skinner_close(skinner);
    }
    scene_free(bind);
}
END_TEST

START_TEST(a_model_without_vertices_is_no_error) {
    dfm_skin_bind *bind = scene_create(&(scene_options){.block_count = 0, .bone_count = 140});
    scene_pose *pose = scene_pose_create(bind, 1, 0);
    dfm_skinner *skinner = open_opencl(1, 0);
    dfm_skin_binding *binding = bind_to(skinner, bind);
    const dfm_skin_job job = scene_job(pose, NULL);
    assert_ok(dfm_skinner_run(skinner, binding, 0, &job, 1, &error));
    dfm_skinner_unbind(skinner, binding);
    dfm_skinner_close(skinner);
    scene_pose_free(pose);
    scene_free(bind);
}
END_TEST

/* --- layouts
 * ---------------------------------------------------------------------------------------- */

typedef struct case_layout {
    dfm_component component;
    size_t position_offset, position_stride, normal_offset,
        normal_stride; /* stride 0: not wanted */
    size_t shift;      /* of the whole frame from its alignment */
} case_layout;

enum { FAR = 40000 }; /* beyond the other output of the scene below */

static const case_layout layouts[] = {
    {DFM_COMPONENT_F32, 0, 24, 12, 24, 0},  /* written in place */
    {DFM_COMPONENT_F32, 0, 24, 12, 24, 4},  /* likewise, off any vector's alignment */
    {DFM_COMPONENT_F32, 0, 24, 12, 24, 1},  /* off any number's alignment */
    {DFM_COMPONENT_F32, 12, 24, 0, 24, 0},  /* normal first */
    {DFM_COMPONENT_F32, 0, 56, 40, 56, 0},  /* other attributes between and after */
    {DFM_COMPONENT_F32, 0, 12, FAR, 12, 0}, /* planar */
    {DFM_COMPONENT_F32, 0, 12, 0, 0, 0},    /* positions alone */
    {DFM_COMPONENT_F32, 0, 0, 0, 12, 0},    /* normals alone */
    {DFM_COMPONENT_F32, 0, 0, 0, 0, 0},     /* nothing */
    {DFM_COMPONENT_F16, 0, 12, 6, 12, 0},   /* f16 interleaved */
    {DFM_COMPONENT_F16, 0, 6, FAR, 6, 1},   /* f16 planar, unaligned */
    {DFM_COMPONENT_F16, 0, 28, 20, 28, 2},  /* f16 with others between */
    {DFM_COMPONENT_F16, 0, 24, 12, 24, 0},  /* f16 in the places of f32 */
};

static dfm_skin_output output_at(char *frame, size_t offset, size_t stride) {
    return (dfm_skin_output){stride ? frame + offset : NULL, stride};
}

/* What a frame becomes in this layout, over bytes of 0xa5. */
static void expected_layout(char *to, const case_layout *l, const float *frame,
                            size_t vertex_count) {
    const dfm_skin_output outputs[2] = {output_at(to, l->position_offset, l->position_stride),
                                        output_at(to, l->normal_offset, l->normal_stride)};
    for (size_t o = 0; o < 2; o++) {
        for (size_t v = 0; v < vertex_count && outputs[o].data; v++) {
            char *at = (char *)outputs[o].data + v * outputs[o].stride_bytes;
            const float *from = frame + 6 * v + 3 * o;
            uint16_t halves[3];
            dfm_half_from_floats(halves, from, 3);
            if (l->component == DFM_COMPONENT_F16)
                memcpy(at, halves, sizeof halves);
            else
                memcpy(at, from, 3 * sizeof *from);
        }
    }
}

START_TEST(every_layout_holds_the_same_frame_and_nothing_else_is_touched) {
    const case_layout *l = &layouts[_i / 2];
    dfm_skin_bind *bind =
        scene_create(&(scene_options){.block_count = 100, .bone_count = 20, .seed = 21});
    ck_assert_uint_lt(bind->vertex_count * 12, FAR);
    scene_pose *pose = scene_pose_create(bind, 6, 4);
    dfm_skinner *skinner = open_opencl(1, both_ways[_i % 2]);
    dfm_skin_binding *binding = bind_to(skinner, bind);
    float *frame = frames_of(bind, 1);
    dfm_skin_job jobs[3] = {scene_job(pose, frame)};
    assert_ok(dfm_skinner_run(skinner, binding, 0, jobs, 1, &error));

    enum { ROOM = 2 * FAR };
    char *is = aligned_alloc(64, 2 * ROOM), *should = aligned_alloc(64, 2 * ROOM);
    memset(is, 0xa5, 2 * ROOM);
    memset(should, 0xa5, 2 * ROOM);
    for (size_t i = 0; i < 2; i++) { /* the layout twice, and in between one in place */
        char *at = is + l->shift + i * ROOM;
        jobs[2 * i] = jobs[0];
        jobs[2 * i].component = l->component;
        jobs[2 * i].position = output_at(at, l->position_offset, l->position_stride);
        jobs[2 * i].normal = output_at(at, l->normal_offset, l->normal_stride);
        expected_layout(should + l->shift + i * ROOM, l, frame, bind->vertex_count);
    }
    float *between = frames_of(bind, 1);
    jobs[1] = scene_job(pose, between);
    assert_ok(dfm_skinner_run(skinner, binding, 0, jobs, 3, &error));
    ck_assert_mem_eq(is, should, 2 * ROOM);
    ck_assert_mem_eq(between, frame, scene_frame_floats(bind) * sizeof *frame);
    free(is);
    free(should);
    free(between);
    free(frame);
    dfm_skinner_unbind(skinner, binding);
    dfm_skinner_close(skinner);
    scene_pose_free(pose);
    scene_free(bind);
}
END_TEST

/* Frames of every layout behind each other, as a request has them, are one launch, and each is the
 * one that it is alone. */
START_TEST(a_batch_of_every_layout_is_one_launch) {
    enum { FRAMES = 5 };
    const case_layout *l = &layouts[_i / 2];
    dfm_skin_bind *bind =
        scene_create(&(scene_options){.block_count = 60, .bone_count = 20, .seed = 22});
    ck_assert_uint_lt(bind->vertex_count * 56, FAR * 2);
    dfm_skinner *skinner = open_opencl(1, both_ways[_i % 2]);
    dfm_skin_binding *binding = bind_to(skinner, bind);
    enum { ROOM = 2 * FAR };
    char *together = aligned_alloc(64, FRAMES * ROOM), *alone = aligned_alloc(64, FRAMES * ROOM);
    memset(together, 0xa5, FRAMES * ROOM);
    memset(alone, 0xa5, FRAMES * ROOM);
    scene_pose *poses[FRAMES];
    dfm_skin_job jobs[FRAMES];
    for (uint32_t i = 0; i < FRAMES; i++) {
        poses[i] = scene_pose_create(bind, 60 + i, i % 3);
        char *at = alone + i * ROOM + l->shift;
        jobs[i] = scene_job(poses[i], NULL);
        jobs[i].component = l->component;
        jobs[i].position = output_at(at, l->position_offset, l->position_stride);
        jobs[i].normal = output_at(at, l->normal_offset, l->normal_stride);
        assert_ok(dfm_skinner_run(skinner, binding, 0, &jobs[i], 1, &error));
        at = together + i * ROOM + l->shift;
        jobs[i].position = output_at(at, l->position_offset, l->position_stride);
        jobs[i].normal = output_at(at, l->normal_offset, l->normal_stride);
    }
    launches = 0;
    assert_ok(dfm_skinner_run(skinner, binding, 0, jobs, FRAMES, &error));
    ck_assert_int_eq(launches, l->position_stride || l->normal_stride ? 1 : 0);
    ck_assert_mem_eq(together, alone, FRAMES * ROOM);
    for (uint32_t i = 0; i < FRAMES; i++)
        scene_pose_free(poses[i]);
    free(together);
    free(alone);
    dfm_skinner_unbind(skinner, binding);
    dfm_skinner_close(skinner);
    scene_free(bind);
}
END_TEST

/* What the largest half is not: larger, infinite, or no number. */
START_TEST(halves_round_and_saturate_as_on_the_cpu) {
    static const float factors[] = {1, 1e-3f, 1e-6f, 3e-8f, 1e4f, 65504, 1e6f, 3e38f};
    dfm_skin_bind *bind =
        scene_create(&(scene_options){.block_count = 24, .bone_count = 12, .seed = 23});
    dfm_skinner *skinner = open_opencl(1, both_ways[_i]);
    dfm_skin_binding *binding = bind_to(skinner, bind);
    float *frame = frames_of(bind, 1);
    uint16_t *halves = (uint16_t *)frames_of(bind, 1);
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        scene_pose *pose = scene_pose_create(bind, 7, 0);
        for (uint32_t i = 0; i < bind->bone_count * 12; i++)
            pose->palette[i] *= factors[f];
        dfm_skin_job job = scene_job(pose, frame);
        assert_ok(dfm_skinner_run(skinner, binding, 0, &job, 1, &error));
        job.component = DFM_COMPONENT_F16;
        job.position = output_at((char *)halves, 0, 12);
        job.normal = output_at((char *)halves, 6, 12);
        assert_ok(dfm_skinner_run(skinner, binding, 0, &job, 1, &error));
        for (size_t i = 0; i < scene_frame_floats(bind); i++)
            ck_assert_msg(halves[i] == dfm_half_from_float(frame[i]), "%a is %04x, not %04x",
                          (double)frame[i], halves[i], dfm_half_from_float(frame[i]));
        scene_pose_free(pose);
    }
    free(frame);
    free(halves);
    dfm_skinner_unbind(skinner, binding);
    dfm_skinner_close(skinner);
    scene_free(bind);
}
END_TEST

/* --- threads
 * ------------------------------------------------------------------------------------------ */

enum { THREADS = 4, ROUNDS = 25, THREAD_FRAMES = 3 };

typedef struct thread_task {
    pthread_t thread;
    uint32_t worker;
    dfm_skinner *skinner;
    const dfm_skin_bind *bind;
    dfm_skin_binding *binding; /* shared by all */
    const scene_pose *pose;
    const float *expected;
    const char *failure; /* Check's assertions are for the main thread */
    dfm_error error;
} thread_task;

static void *skin_rounds(void *argument) {
    thread_task *task = argument;
    size_t floats = scene_frame_floats(task->bind);
    float *frames = malloc(THREAD_FRAMES * floats * sizeof *frames);
    for (uint32_t round = 0; round < ROUNDS && frames && !task->failure; round++) {
        memset(frames, 0xff, THREAD_FRAMES * floats * sizeof *frames);
        dfm_skin_job jobs[THREAD_FRAMES];
        for (size_t i = 0; i < THREAD_FRAMES; i++) {
            jobs[i] = scene_job(task->pose, frames + i * floats);
            if (round % 2) /* through the device's own buffers */
                jobs[i].normal.data = NULL;
        }
        dfm_skin_binding *own = NULL; /* binding while others run */
        if (dfm_skinner_bind(task->skinner, task->bind, &own, &task->error) != DFM_OK)
            task->failure = "bind";
        else if (dfm_skinner_run(task->skinner, round % 3 ? task->binding : own, task->worker, jobs,
                                 THREAD_FRAMES, &task->error) != DFM_OK)
            task->failure = "run";
        dfm_skinner_unbind(task->skinner, own);
        for (size_t i = 0; i < THREAD_FRAMES * floats && !task->failure; i++) {
            bool written = round % 2 == 0 || i % 6 < 3;
            if (written && memcmp(&frames[i], &task->expected[i % floats], sizeof *frames) != 0)
                task->failure = "another result than alone";
        }
    }
    free(frames);
    return NULL;
}

START_TEST(workers_do_not_disturb_each_other) {
    dfm_skin_bind *bind =
        scene_create(&(scene_options){.block_count = 300, .bone_count = 60, .seed = 31});
    dfm_skinner *skinner = open_opencl(THREADS, both_ways[_i]);
    dfm_skin_binding *binding = bind_to(skinner, bind);
    thread_task tasks[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        scene_pose *pose = scene_pose_create(bind, 40 + i, i);
        float *expected = frames_of(bind, 1);
        const dfm_skin_job job = scene_job(pose, expected);
        assert_ok(dfm_skinner_run(skinner, binding, i, &job, 1, &error));
        tasks[i] = (thread_task){.worker = i,
                                 .skinner = skinner,
                                 .bind = bind,
                                 .binding = binding,
                                 .pose = pose,
                                 .expected = expected};
        dfm_error_clear(&tasks[i].error);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&tasks[i].thread, NULL, skin_rounds, &tasks[i]), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(tasks[i].thread, NULL);
    for (uint32_t i = 0; i < THREADS; i++) {
        ck_assert_msg(!tasks[i].failure, "worker %u: %s: %s", i, tasks[i].failure,
                      tasks[i].error.info);
        scene_pose_free((scene_pose *)tasks[i].pose);
        free((float *)tasks[i].expected);
    }
    dfm_skinner_unbind(skinner, binding);
    dfm_skinner_close(skinner);
    scene_free(bind);
}
END_TEST

/* --- nothing is compiled in a request
 * -------------------------------------------------------------------- */

static int counted_files;

static int count_file(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)path, (void)status, (void)where;
    counted_files += kind == FTW_F;
    return 0;
}

static int remove_file(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)kind, (void)where;
    remove(path);
    return 0;
}

static char folder[] = "/tmp/deformd-test-XXXXXX";

static void make_folder(void) {
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void) {
    nftw(folder, remove_file, 16, FTW_DEPTH | FTW_PHYS);
}

static int files_in_folder(void) {
    counted_files = 0;
    nftw(folder, count_file, 16, FTW_PHYS);
    return counted_files;
}

START_TEST(nothing_is_compiled_after_open) {
    make_folder();
    setenv("POCL_CACHE_DIR", folder, 1);
    dfm_skinner *skinner = open_opencl(1, both_ways[_i]);
    int opened = files_in_folder();
    if (opened == 0)
        printf("SKIPPED: this driver does not keep kernels in POCL_CACHE_DIR\n");
    static const uint32_t block_counts[] = {1, 63, 1000, 8192, 70000};
    for (uint32_t i = 0; i < 5; i++) {
        dfm_skin_bind *bind = scene_create(
            &(scene_options){.block_count = block_counts[i], .bone_count = 30, .seed = i});
        scene_pose *pose = scene_pose_create(bind, i, i % 2);
        dfm_skin_binding *binding = bind_to(skinner, bind);
        run_and_compare(skinner, binding, pose);
        float *frames = frames_of(bind, 20);
        dfm_skin_job jobs[20];
        for (size_t k = 0; k < 20; k++)
            jobs[k] = scene_job(pose, frames + k * scene_frame_floats(bind));
        assert_ok(dfm_skinner_run(skinner, binding, 0, jobs, 20, &error));
        free(frames);
        dfm_skinner_unbind(skinner, binding);
        scene_pose_free(pose);
        scene_free(bind);
    }
    ck_assert_int_eq(files_in_folder(), opened);
    dfm_skinner_close(skinner);
    remove_folder();
}
END_TEST

START_TEST(the_description_names_device_and_driver) {
    dfm_skinner *skinner = open_opencl(1, 0);
    ck_assert_ptr_nonnull(strstr(skinner->description, " (OpenCL "));
    ck_assert_str_eq(skinner->backend->name, "opencl");
    dfm_skinner_close(skinner);
}
END_TEST

/* --- no kernel to be had
 * ------------------------------------------------------------------------------------ */

static void assert_unavailable(const dfm_skinner_options *options, const char *word) {
    dfm_error_clear(&error);
    dfm_skinner *skinner = (dfm_skinner *)&error;
    dfm_status status = dfm_skinner_open(&dfm_skinner_opencl, options, &skinner, &error);
    ck_assert_msg(status == DFM_ERROR_UNAVAILABLE, "%s: %s", dfm_status_name(status), error.info);
    ck_assert_ptr_null(skinner);
    ck_assert_str_eq(error.section, "opencl");
    ck_assert_msg(strstr(error.info, word) != NULL, "\"%s\" does not say \"%s\"", error.info, word);
}

static const dfm_skinner_options plain = {.worker_count = 1};

START_TEST(no_driver_is_unavailable) {
    make_folder();
    char with_slash[sizeof folder + 1];
    snprintf(with_slash, sizeof with_slash, "%s/", folder);
    setenv("OCL_ICD_VENDORS", with_slash, 1);
    assert_unavailable(&plain, "CL_PLATFORM_NOT_FOUND_KHR");
    remove_folder();
}
END_TEST

START_TEST(a_platform_without_device_is_unavailable) {
    setenv("POCL_DEVICES", "", 1);
    assert_unavailable(&plain, "has no device");
}
END_TEST

START_TEST(an_index_out_of_range_is_unavailable_and_says_the_count) {
    assert_unavailable(&(dfm_skinner_options){.worker_count = 1, .opencl_platform = 7},
                       "platform 7 was asked for, and there are ");
    assert_unavailable(&(dfm_skinner_options){.worker_count = 1, .opencl_device = 9},
                       "device 9 was asked for, and there are ");
    assert_unavailable(&(dfm_skinner_options){.worker_count = 1, .opencl_device = UINT32_MAX},
                       "device 4294967295 was asked for, and there are ");
}
END_TEST

START_TEST(a_kernel_that_does_not_build_is_unavailable_and_shows_the_log) {
    assert_unavailable(
        &(dfm_skinner_options){.worker_count = 1,
                               .kernel_source = "kernel void dfm_skin() { nonsense }"},
        "nonsense");
}
END_TEST

START_TEST(a_program_without_the_kernel_is_unavailable) {
    assert_unavailable(
        &(dfm_skinner_options){.worker_count = 1, .kernel_source = "kernel void other(int i) { }"},
        "CL_INVALID_KERNEL_NAME");
    assert_unavailable(&(dfm_skinner_options){.worker_count = 1,
                                              .kernel_source = "kernel void dfm_skin(int i) { }"},
                       "CL_INVALID_ARG");
}
END_TEST

START_TEST(the_kernels_source_may_be_given) {
    dfm_error_clear(&error);
    const dfm_skinner_options options = {.worker_count = 1, .kernel_source = dfm_skin_cl};
    dfm_skinner *skinner = NULL;
    assert_ok(dfm_skinner_open(&dfm_skinner_opencl, &options, &skinner, &error));
    dfm_skinner_close(skinner);
}
END_TEST

/* Permissions do not bind root: as somebody else, for the rest of this process. */
static void be_nobody(void) {
    if (geteuid() == 0)
        ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
}

START_TEST(a_cache_folder_that_cannot_be_written_is_unavailable) {
    make_folder();
    ck_assert_int_eq(chmod(folder, 0555), 0);
    setenv("POCL_CACHE_DIR", folder, 1);
    be_nobody();
    assert_unavailable(&plain, "set POCL_CACHE_DIR");
    assert_unavailable(&plain, "Permission denied");
    rmdir(folder);
}
END_TEST

START_TEST(a_home_that_cannot_be_written_is_unavailable) {
    unsetenv("POCL_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/proc/nowhere", 1);
    assert_unavailable(&plain, "/proc/nowhere/.cache/pocl/kcache (No such file or directory)");
    setenv("XDG_CACHE_HOME", "/proc/elsewhere", 1);
    assert_unavailable(&plain, "/proc/elsewhere/pocl/kcache (");
    setenv("POCL_CACHE_DIR", "/proc/third", 1);
    assert_unavailable(&plain, "/proc/third (");
}
END_TEST

START_TEST(a_cache_folder_that_is_missing_is_made) {
    make_folder();
    char inner[sizeof folder + 8];
    snprintf(inner, sizeof inner, "%s/a/b/c", folder);
    setenv("POCL_CACHE_DIR", inner, 1);
    dfm_skinner_close(open_opencl(1, 0));
    ck_assert_int_eq(access(inner, W_OK), 0);
    remove_folder();
}
END_TEST

START_TEST(a_cache_folder_mounted_noexec_is_unavailable) {
    make_folder();
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", MS_NOEXEC, "size=16m") != 0) {
        printf("SKIPPED: a cache folder mounted noexec (mounting a tmpfs takes more rights)\n");
    } else {
        setenv("POCL_CACHE_DIR", folder, 1);
        assert_unavailable(&plain, "mounted noexec");
        ck_assert_int_eq(files_in_folder(), 0);
        umount(folder);
    }
    rmdir(folder);
}
END_TEST

/* --- a device that fails later
 * -------------------------------------------------------------------------------- */

/* Frames with and without gaps, so three launches, of which two are under way at one time. */
enum { FAILING_JOBS = 3 };

static void make_failing_jobs(dfm_skin_job jobs[FAILING_JOBS], const dfm_skin_bind *bind,
                              const scene_pose *pose, float *frames) {
    for (size_t i = 0; i < FAILING_JOBS; i++)
        jobs[i] = scene_job(pose, frames + i * scene_frame_floats(bind));
    jobs[1].normal.data = NULL;
}

/* Fails the first driver call, then the second, and so on, until a run gets through. */
static int fail_every_call(dfm_skinner *skinner, const dfm_skin_bind *bind) {
    scene_pose *pose = scene_pose_create(bind, 1, 3);
    float *frames = frames_of(bind, FAILING_JOBS), *expected = scene_expected(bind, pose);
    dfm_skin_job jobs[FAILING_JOBS];
    make_failing_jobs(jobs, bind, pose, frames);
    int failures = 0;
    for (bool through = false; !through; failures += !through) {
        failing_call = failures;
        seen_calls = 0;
        dfm_error_clear(&error);
        dfm_skin_binding *binding = NULL;
        dfm_status status = dfm_skinner_bind(skinner, bind, &binding, &error);
        if (status == DFM_OK)
            status = dfm_skinner_run(skinner, binding, 0, jobs, FAILING_JOBS, &error);
        else
            ck_assert_ptr_null(binding);
        through = status == DFM_OK;
        ck_assert_msg(through || status == DFM_ERROR_BACKEND, "%s", dfm_status_name(status));
        ck_assert_msg(through || strstr(error.info, " failed: CL_"), "\"%s\"", error.info);
        failing_call = -1;
        if (binding)
            run_and_compare(skinner, binding, pose); /* the next run is none the worse */
        dfm_skinner_unbind(skinner, binding);
    }
    scene_compare(frames, expected, bind->vertex_count);
    free(frames);
    free(expected);
    scene_pose_free(pose);
    return failures;
}

START_TEST(a_driver_call_that_fails_is_an_error_of_that_run_alone) {
    dfm_skin_bind *bind =
        scene_create(&(scene_options){.block_count = 30, .bone_count = 6, .seed = 1});
    dfm_skinner *skinner = open_opencl(1, both_ways[_i]);
    /* 3 buffers to bind; then for each launch upload, 7 arguments, launch, flush, finish, ... */
    ck_assert_int_ge(fail_every_call(skinner, bind), 3 + FAILING_JOBS * (1 + 7 + 1 + 1 + 1 + 1));
    dfm_skinner_close(skinner);
    scene_free(bind);
}
END_TEST

START_TEST(a_driver_call_that_fails_at_open_is_unavailable) {
    int calls = 0;
    do {
        failing_call = calls;
        seen_calls = 0;
        dfm_error_clear(&error);
        dfm_skinner *skinner = NULL;
        dfm_status status = dfm_skinner_open(&dfm_skinner_opencl, &plain, &skinner, &error);
        ck_assert_msg(status == (skinner ? DFM_OK : DFM_ERROR_UNAVAILABLE), "%s",
                      dfm_status_name(status));
        dfm_skinner_close(skinner);
        calls += !skinner;
    } while (seen_calls > failing_call);
    ck_assert_int_eq(calls, 1 + 7 + 2 + 1); /* buffer, arguments, launches, finish */
}
END_TEST

int main(void) {
    Suite *suite = suite_create("skinner_opencl");
    TCase *kernel = tcase_create("kernel");
    tcase_add_loop_test(kernel, a_kind_equals_the_scalar_kernel, 0, DFM_KIND_COUNT);
    tcase_add_loop_test(kernel, all_kinds_and_morphs_equal_the_scalar_kernel, 0, 4);
    tcase_add_test(kernel, a_model_without_bones_stays_at_rest);
    tcase_add_test(kernel, a_thin_dual_quaternion_falls_back_to_linear);
    tcase_add_loop_test(kernel, a_batch_equals_its_frames_bit_for_bit, 0, 2);
    tcase_add_loop_test(kernel, halves_round_and_saturate_as_on_the_cpu, 0, 2);
    TCase *results = tcase_create("results");
    tcase_add_loop_test(results, what_is_sent_is_finite_whatever_the_palette, 0, 2);
    tcase_add_test(results, a_pose_leaves_no_morph_behind);
    tcase_add_loop_test(results, large_and_small_models_take_turns, 0, 2);
    tcase_add_loop_test(results, a_batch_over_the_launch_limit_is_divided, 0, 2);
    tcase_add_test(results, a_binding_counts_what_the_device_holds);
    tcase_add_test(results, a_model_without_vertices_is_no_error);
    tcase_add_loop_test(results, every_layout_holds_the_same_frame_and_nothing_else_is_touched, 0,
                        2 * sizeof layouts / sizeof *layouts);
    tcase_add_loop_test(results, a_batch_of_every_layout_is_one_launch, 0,
                        2 * sizeof layouts / sizeof *layouts);
    tcase_add_loop_test(results, workers_do_not_disturb_each_other, 0, 2);
    tcase_add_loop_test(results, nothing_is_compiled_after_open, 0, 2);
    tcase_add_test(results, the_description_names_device_and_driver);
    TCase *missing = tcase_create("missing");
    tcase_add_test(missing, no_driver_is_unavailable);
    tcase_add_test(missing, a_platform_without_device_is_unavailable);
    tcase_add_test(missing, an_index_out_of_range_is_unavailable_and_says_the_count);
    tcase_add_test(missing, a_kernel_that_does_not_build_is_unavailable_and_shows_the_log);
    tcase_add_test(missing, a_program_without_the_kernel_is_unavailable);
    tcase_add_test(missing, the_kernels_source_may_be_given);
    tcase_add_test(missing, a_cache_folder_that_cannot_be_written_is_unavailable);
    tcase_add_test(missing, a_home_that_cannot_be_written_is_unavailable);
    tcase_add_test(missing, a_cache_folder_that_is_missing_is_made);
    tcase_add_test(missing, a_cache_folder_mounted_noexec_is_unavailable);
    TCase *failing = tcase_create("failing");
    tcase_add_loop_test(failing, a_driver_call_that_fails_is_an_error_of_that_run_alone, 0, 2);
    tcase_add_test(failing, a_driver_call_that_fails_at_open_is_unavailable);
    TCase *const cases[] = {kernel, results, missing, failing};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcase_set_timeout(cases[i],
                          120); /* a driver may compile, under a sanitizer, on a busy machine */
        suite_add_tcase(suite, cases[i]);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
