/* Poses as raw float32: lengths, what each number means, and what is refused. */
#include "api/pose_binary.h"
#include "tests/support_pose.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOCAL_FLOATS = POSE_BONES * 7 + POSE_MORPHS, MATRIX_FLOATS = POSE_BONES * 12 };

static dfm_model *model;
static dfm_pose *pose;
static dfm_problem problem;
static float local[2 * LOCAL_FLOATS], matrices[2 * MATRIX_FLOATS];

static void setup(void) {
    model = pose_model();
    pose = pose_create();
    memset(local, 0, sizeof local);
    memset(matrices, 0, sizeof matrices);
    for (int frame = 0; frame < 2; frame++) {
        for (int i = 0; i < POSE_BONES; i++) {
            local[frame * LOCAL_FLOATS + i * 7 + 3] = 1;
            for (int k = 0; k < 3; k++)
                matrices[frame * MATRIX_FLOATS + i * 12 + k * 5] = 1;
        }
    }
}

static void teardown(void) {
    dfm_model_release(model);
    free(pose);
}

/* From an odd address, in memory of exactly the size. */
static bool read_frame(dfm_pose_format format, uint64_t frame) {
    size_t size = format == DFM_POSE_FORMAT_MATRICES ? sizeof matrices : sizeof local;
    uint8_t *memory = malloc(size + 1);
    memcpy(memory + 1, format == DFM_POSE_FORMAT_MATRICES ? matrices : local, size);
    dfm_pose_reset(pose);
    bool good = dfm_pose_binary_read(model, format, memory + 1, frame, pose, &problem);
    free(memory);
    return good;
}

START_TEST(frames_are_counted_by_length) {
    uint64_t count;
    ck_assert_uint_eq(dfm_pose_binary_frame_bytes(model, DFM_POSE_FORMAT_LOCAL), LOCAL_FLOATS * 4);
    ck_assert(dfm_pose_binary_count(model, DFM_POSE_FORMAT_LOCAL, sizeof local, &count, &problem));
    ck_assert_uint_eq(count, 2);
    ck_assert(
        dfm_pose_binary_count(model, DFM_POSE_FORMAT_MATRICES, sizeof matrices, &count, &problem));
    ck_assert_uint_eq(count, 2);
    for (uint64_t size = 1; size < LOCAL_FLOATS * 4; size += 5) {
        ck_assert(!dfm_pose_binary_count(model, DFM_POSE_FORMAT_LOCAL, size, &count, &problem));
        ck_assert_int_eq(problem.code, DFM_PROBLEM_INVALID_LENGTH);
        ck_assert(problem.has_sizes);
        ck_assert_uint_eq(problem.limit, LOCAL_FLOATS * 4);
        ck_assert_uint_eq(problem.received, size);
    }
}
END_TEST

START_TEST(numbers_go_where_they_belong) {
    float *frame = local + LOCAL_FLOATS, *bone = frame + 2 * 7;
    memcpy(bone, ((float[7]){0, 3, 0, 4, 5, 6, 7}), 28);
    frame[POSE_BONES * 7 + 1] = -0.5f;
    ck_assert(read_frame(DFM_POSE_FORMAT_LOCAL, 1));
    ck_assert_double_eq_tol(pose->bones[2].rotation[1], 0.6, 1e-15);
    ck_assert_double_eq_tol(pose->bones[2].rotation[3], 0.8, 1e-15);
    ck_assert_mem_eq(pose->bones[2].translation, ((double[3]){5, 6, 7}), 24);
    ck_assert(pose->morph_weights[1] == -0.5);
    ck_assert(!pose->has_matrices);
    ck_assert(read_frame(DFM_POSE_FORMAT_LOCAL, 0));
    ck_assert(pose->morph_weights[1] == 0);
    matrices[MATRIX_FLOATS + 12 + 3] = 9;
    ck_assert(read_frame(DFM_POSE_FORMAT_MATRICES, 1));
    ck_assert(pose->has_matrices);
    ck_assert(pose->matrices[1][3] == 9);
    ck_assert(pose->matrices[1][5] == 1);
}
END_TEST

static void refused_at(dfm_pose_format format, uint64_t frame, int64_t offset) {
    ck_assert(!read_frame(format, frame));
    ck_assert_int_eq(problem.code, DFM_PROBLEM_INVALID_POSE);
    ck_assert_int_eq(problem.item, (int64_t)frame);
    ck_assert_int_eq(problem.offset, offset);
}

START_TEST(wrong_numbers_name_frame_and_byte) {
    static const float wrong[] = {NAN, INFINITY, -INFINITY, 2e18f};
    for (size_t i = 0; i < 4; i++) {
        for (int at = 0; at < LOCAL_FLOATS; at++) {
            float *number = &local[LOCAL_FLOATS + at], right = *number;
            *number = wrong[i];
            refused_at(DFM_POSE_FORMAT_LOCAL, 1, (LOCAL_FLOATS + at) * 4);
            *number = right;
        }
        for (int at = 0; at < MATRIX_FLOATS; at++) {
            float *number = &matrices[at], right = *number;
            *number = wrong[i];
            refused_at(DFM_POSE_FORMAT_MATRICES, 0, at * 4);
            *number = right;
        }
    }
}
END_TEST

START_TEST(a_zero_quaternion_and_a_flat_matrix_are_refused_where_they_begin) {
    local[3 * 7 + 3] = 0;
    refused_at(DFM_POSE_FORMAT_LOCAL, 0, 3 * 7 * 4);
    matrices[MATRIX_FLOATS + 4 * 12] = 0;
    refused_at(DFM_POSE_FORMAT_MATRICES, 1, (MATRIX_FLOATS + 4 * 12) * 4);
    matrices[MATRIX_FLOATS + 4 * 12] = -1;
    refused_at(DFM_POSE_FORMAT_MATRICES, 1, (MATRIX_FLOATS + 4 * 12) * 4);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pose_binary");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, frames_are_counted_by_length);
    tcase_add_test(tests, numbers_go_where_they_belong);
    tcase_add_test(tests, wrong_numbers_name_frame_and_byte);
    tcase_add_test(tests, a_zero_quaternion_and_a_flat_matrix_are_refused_where_they_begin);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
