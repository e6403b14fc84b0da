/* Every CPU kernel that this processor can run against the scalar one, on scenes made by hand: all
 * kinds of blocks, weights that leave [0, 1], last blocks of every length, every layout. */
#include "tests/support_scene.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The variant of the loop's index, or NULL, said loudly, where this processor lacks it. */
static dfm_skin_kernel *kernel_of(int index) {
    const dfm_skin_variant *variant = &dfm_skin_variants[index];
    if (variant->supported())
        return variant->kernel;
    printf("SKIPPED: the CPU kernel %s (this processor lacks it)\n", variant->name);
    fflush(stdout);
    return NULL;
}

static dfm_skin_args args_of(const dfm_skin_bind *bind, const scene_pose *pose) {
    return (dfm_skin_args){.blocks = bind->blocks,
                           .data = bind->data,
                           .vertex = bind->vertex,
                           .block_count = bind->block_count,
                           .palette = pose->palette,
                           .rotations = pose->rotations,
                           .duals = pose->duals,
                           .deltas = pose->deltas,
                           .delta_stamps = pose->stamps,
                           .generation = pose->generation};
}

static void compare_scene(dfm_skin_kernel *kernel, const scene_options *options,
                          uint32_t morph_every) {
    dfm_skin_bind *bind = scene_create(options);
    scene_pose *pose = scene_pose_create(bind, options->seed, morph_every);
    float *expected = scene_expected(bind, pose);
    float *frame = malloc(scene_frame_floats(bind) * sizeof *frame);
    memset(frame, 0xff, scene_frame_floats(bind) * sizeof *frame); /* NaN */
    dfm_skin_args args = args_of(bind, pose);
    args.position = (dfm_skin_output){frame, 24};
    args.normal = (dfm_skin_output){frame + 3, 24};
    kernel(&args);
    scene_compare(frame, expected, bind->vertex_count);
    free(frame);
    free(expected);
    scene_pose_free(pose);
    scene_free(bind);
}

START_TEST(each_kind_of_block_is_as_the_scalar_kernel_does_it) {
    dfm_skin_kernel *kernel = kernel_of(_i);
    for (uint32_t kind = 0; kernel && kind < DFM_KIND_COUNT; kind++) {
        for (uint32_t seed = 1; seed <= 5; seed++)
            compare_scene(
                kernel,
                &(scene_options){
                    .block_count = 200, .bone_count = 20, .kinds = 1u << kind, .seed = seed},
                seed % 3);
    }
}
END_TEST

START_TEST(a_few_blocks_are_as_the_scalar_kernel_does_them) {
    dfm_skin_kernel *kernel = kernel_of(_i);
    for (uint32_t blocks = 1; kernel && blocks <= 40; blocks++)
        compare_scene(kernel,
                      &(scene_options){.block_count = blocks, .bone_count = 9, .seed = blocks},
                      blocks % 4);
}
END_TEST

/* Blocks of one kind whose weights, and so the ways between their bones, go far beyond both. */
START_TEST(sdef_weights_outside_0_and_1_are_as_the_scalar_kernel_does_them) {
    dfm_skin_kernel *kernel = kernel_of(_i);
    if (!kernel)
        return;
    dfm_skin_bind *bind = scene_create(&(scene_options){
        .block_count = 60, .bone_count = 30, .kinds = 1u << DFM_KIND_SDEF, .seed = 3});
    uint32_t outside = 0;
    for (uint32_t b = 0; b < bind->block_count; b++) {
        float *weights = bind->data + ((size_t)bind->blocks[b].row + 6) * DFM_LANES;
        for (uint32_t lane = 0; lane < bind->blocks[b].lane_count; lane++) {
            weights[lane] = (float)(lane + b % 3) * 0.5f - 1.5f;
            outside += weights[lane] < 0 || weights[lane] > 1;
        }
        for (uint32_t lane = bind->blocks[b].lane_count; lane < DFM_LANES; lane++)
            weights[lane] = weights[lane - 1];
    }
    ck_assert_uint_gt(outside, 100);
    scene_pose *pose = scene_pose_create(bind, 5, 0);
    float *expected = scene_expected(bind, pose);
    float *frame = malloc(scene_frame_floats(bind) * sizeof *frame);
    dfm_skin_args args = args_of(bind, pose);
    args.position = (dfm_skin_output){frame, 24};
    args.normal = (dfm_skin_output){frame + 3, 24};
    kernel(&args);
    scene_compare(frame, expected, bind->vertex_count);
    free(frame);
    free(expected);
    scene_pose_free(pose);
    scene_free(bind);
}
END_TEST

/* --- layouts --------------------------------------------------------------------------------- */

/* Where position and normal of a vertex lie: `stride` bytes a vertex, 0 = not wanted. */
typedef struct layout {
    const char *name;
    dfm_component component;
    size_t position_stride, normal_stride;
    size_t normal_offset; /* from the beginning of the frame; 0: behind the positions */
} layout;

static const layout layouts[] = {
    {"interleaved f32", DFM_COMPONENT_F32, 24, 24, 12},
    {"interleaved f32, 28 bytes a vertex", DFM_COMPONENT_F32, 28, 28, 12},
    {"interleaved f32, normals first", DFM_COMPONENT_F32, 32, 32, 16},
    {"planar f32", DFM_COMPONENT_F32, 12, 12, 0},
    {"positions f32", DFM_COMPONENT_F32, 12, 0, 0},
    {"normals f32", DFM_COMPONENT_F32, 0, 12, 0},
    {"interleaved f16", DFM_COMPONENT_F16, 12, 12, 6},
    {"planar f16", DFM_COMPONENT_F16, 6, 6, 0},
    {"positions f16", DFM_COMPONENT_F16, 6, 0, 0},
    {"normals f16", DFM_COMPONENT_F16, 0, 6, 0},
};

static size_t layout_bytes(const layout *l, size_t vertices) {
    return vertices * (l->position_stride + l->normal_stride) + l->normal_offset;
}

static void skin_into(dfm_skin_kernel *kernel, dfm_skin_args args, const layout *l, size_t vertices,
                      uint8_t *frame) {
    size_t normals = l->normal_offset ? l->normal_offset : vertices * l->position_stride;
    args.component = l->component;
    if (l->position_stride)
        args.position = (dfm_skin_output){frame, l->position_stride};
    if (l->normal_stride)
        args.normal = (dfm_skin_output){frame + normals, l->normal_stride};
    kernel(&args);
}

static float number_at(const layout *l, const uint8_t *at) {
    float number;
    uint16_t half;
    if (l->component == DFM_COMPONENT_F32) {
        memcpy(&number, at, sizeof number);
        return number;
    }
    memcpy(&half, at, sizeof half);
    int exponent = half >> 10 & 31;
    float fraction = (float)(half & 0x3ff) + (exponent ? 1024 : 0);
    return ldexpf(half >> 15 ? -fraction : fraction, (exponent ? exponent : 1) - 25);
}

/* Both frames were one pattern before: what the scalar kernel left alone is left alone. */
static void compare_frames(const layout *l, const uint8_t *expected, const uint8_t *got,
                           size_t bytes) {
    size_t step = l->component == DFM_COMPONENT_F32 ? 4 : 2;
    float tolerance = step == 4 ? 1e-4f : 2e-3f;
    for (size_t at = 0; at + step <= bytes; at += step) {
        if (memcmp(expected + at, got + at, step) == 0)
            continue;
        float a = number_at(l, expected + at), b = number_at(l, got + at);
        if (!(fabsf(a - b) <= tolerance * fmaxf(1, fabsf(a))))
            ck_abort_msg("%s, byte %zu of %zu: %g in place of %g", l->name, at, bytes, (double)b,
                         (double)a);
    }
}

START_TEST(each_layout_is_as_the_scalar_kernel_writes_it_and_nothing_beside_it) {
    dfm_skin_kernel *kernel = kernel_of(_i);
    if (!kernel)
        return;
    dfm_skin_bind *bind =
        scene_create(&(scene_options){.block_count = 90, .bone_count = 12, .seed = 8});
    scene_pose *pose = scene_pose_create(bind, 8, 3);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        size_t bytes = layout_bytes(&layouts[i], bind->vertex_count);
        uint8_t *expected = malloc(bytes), *got = malloc(bytes); /* exactly sized */
        memset(expected, 0x55, bytes);
        memset(got, 0x55, bytes);
        skin_into(dfm_skin_scalar, args_of(bind, pose), &layouts[i], bind->vertex_count, expected);
        skin_into(kernel, args_of(bind, pose), &layouts[i], bind->vertex_count, got);
        compare_frames(&layouts[i], expected, got, bytes);
        free(expected);
        free(got);
    }
    scene_pose_free(pose);
    scene_free(bind);
}
END_TEST

START_TEST(a_range_of_blocks_writes_its_own_vertices_alone) {
    dfm_skin_kernel *kernel = kernel_of(_i);
    if (!kernel)
        return;
    dfm_skin_bind *bind =
        scene_create(&(scene_options){.block_count = 50, .bone_count = 12, .seed = 4});
    scene_pose *pose = scene_pose_create(bind, 4, 2);
    size_t bytes = scene_frame_floats(bind) * sizeof(float);
    uint8_t *whole = malloc(bytes), *parts = malloc(bytes);
    const layout *l = &layouts[0];
    skin_into(kernel, args_of(bind, pose), l, bind->vertex_count, whole);
    memset(parts, 0x55, bytes);
    static const size_t borders[] = {0, 1, 2, 17, 18, 43, 50};
    for (size_t i = 0; i + 1 < sizeof borders / sizeof *borders; i++) {
        dfm_skin_args args = args_of(bind, pose);
        args.block_first = borders[i];
        args.block_count = borders[i + 1] - borders[i];
        skin_into(kernel, args, l, bind->vertex_count, parts);
        for (uint32_t v = 0; v < bind->vertex_count; v++) {
            bool done = bind->slot[v] / DFM_LANES < borders[i + 1];
            if ((memcmp(parts + 24 * v, whole + 24 * v, 24) == 0) != done)
                ck_abort_msg("vertex %u after blocks up to %zu", v, borders[i + 1]);
        }
    }
    free(whole);
    free(parts);
    scene_pose_free(pose);
    scene_free(bind);
}
END_TEST

int main(void) {
    int variants = (int)dfm_skin_variant_count;
    Suite *suite = suite_create("skin variants");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, each_kind_of_block_is_as_the_scalar_kernel_does_it, 0, variants);
    tcase_add_loop_test(tests, a_few_blocks_are_as_the_scalar_kernel_does_them, 0, variants);
    tcase_add_loop_test(tests, sdef_weights_outside_0_and_1_are_as_the_scalar_kernel_does_them, 0,
                        variants);
    tcase_add_loop_test(tests, each_layout_is_as_the_scalar_kernel_writes_it_and_nothing_beside_it,
                        0, variants);
    tcase_add_loop_test(tests, a_range_of_blocks_writes_its_own_vertices_alone, 0, variants);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
