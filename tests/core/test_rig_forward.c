/* Forward kinematics: order, parents, poses, matrices, palette. Expected numbers by hand. */
#include "tests/support_rig.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static rig_fixture rig;

static void close_rig(void) {
    rig_fixture_close(&rig);
}

START_TEST(rest_pose_gives_rest_positions_and_identity_palette) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 1, 2, 3)}, {RIG_BONE(0, 4, -5, 6)}};
    rig_fixture_open(&rig, bones, 2, NULL, 0);
    ck_assert(rig_fixture_solve(&rig));
    rig_expect_position(&rig, 0, 1, 2, 3, 0);
    rig_expect_position(&rig, 1, 4, -5, 6, 1e-15);
    float palette[24], rotations[8], duals[8];
    dfm_rig_palette(&rig.rig, &rig.state, palette, rotations, duals);
    for (int i = 0; i < 24; i++)
        ck_assert_float_eq(palette[i], (i % 12) % 5 == 0 ? 1 : 0);
    for (int i = 0; i < 8; i++) {
        ck_assert_float_eq(rotations[i], i % 4 == 3 ? 1 : 0);
        ck_assert_float_eq(duals[i], 0);
    }
    close_rig();
}
END_TEST

START_TEST(child_turns_about_its_parent_that_comes_later_in_the_file) {
    /* Bone 0 is the child. The parent turns by 90 degrees about z and moves by (10, 0, 0); the
     * child, 2 above it, then lies 2 to the left of it, and its own move of (0, 1, 0) goes there
     * too. */
    dfm_pmx_bone bones[] = {{RIG_BONE(1, 0, 3, 0)}, {RIG_BONE(-1, 0, 1, 0)}};
    rig_fixture_open(&rig, bones, 2, NULL, 0);
    rig_axis_angle(rig.pose.bones[1].rotation, 0, 0, 1, 90);
    rig.pose.bones[1].translation[0] = 10;
    rig.pose.bones[0].translation[1] = 1;
    rig_axis_angle(rig.pose.bones[0].rotation, 1, 0, 0, 90);
    ck_assert(rig_fixture_solve(&rig));
    rig_expect_position(&rig, 1, 10, 1, 0, 1e-15);
    rig_expect_position(&rig, 0, 7, 1, 0, 1e-14);
    rig_expect_rotation(&rig, 0, (double[]){.5, .5, .5, .5}, 1e-15);
    close_rig();
}
END_TEST

START_TEST(palette_and_duals_move_points_as_the_bone_does) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 1, 0, 0)}};
    rig_fixture_open(&rig, bones, 1, NULL, 0);
    rig_axis_angle(rig.pose.bones[0].rotation, 0, 0, 1, 90);
    rig.pose.bones[0].translation[2] = 5;
    ck_assert(rig_fixture_solve(&rig));
    /* (2, 0, 0) lies 1 beside the bone: it goes 1 above it. */
    float m[12], r[4], d[4];
    dfm_rig_palette(&rig.rig, &rig.state, m, r, d);
    ck_assert_float_eq_tol(m[0] * 2 + m[3], 1, 1e-6f);
    ck_assert_float_eq_tol(m[4] * 2 + m[7], 1, 1e-6f);
    ck_assert_float_eq_tol(m[8] * 2 + m[11], 5, 1e-6f);
    /* The move of a dual quaternion is 2 * dual * conjugate(real): here (1, -1, 5). */
    float x = 2 * (-d[3] * r[0] + d[0] * r[3] - d[1] * r[2] + d[2] * r[1]);
    float y = 2 * (-d[3] * r[1] + d[0] * r[2] + d[1] * r[3] - d[2] * r[0]);
    float z = 2 * (-d[3] * r[2] - d[0] * r[1] + d[1] * r[0] + d[2] * r[3]);
    ck_assert_float_eq_tol(x, 1, 1e-6f);
    ck_assert_float_eq_tol(y, -1, 1e-6f);
    ck_assert_float_eq_tol(z, 5, 1e-6f);
    close_rig();
}
END_TEST

START_TEST(quaternion_of_any_length_turns_by_its_direction) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(-1, 0, 0, 0)}};
    rig_fixture_open(&rig, bones, 2, NULL, 0);
    memcpy(rig.pose.bones[0].rotation, (double[]){0, 0, 3e5, 3e5}, sizeof(double[4]));
    memcpy(rig.pose.bones[1].rotation, (double[]){0, 0, 0, 0}, sizeof(double[4]));
    ck_assert(rig_fixture_solve(&rig));
    rig_expect_rotation(&rig, 0, (double[]){0, 0, M_SQRT1_2, M_SQRT1_2}, 1e-15);
    rig_expect_rotation(&rig, 1, (double[]){0, 0, 0, 1}, 0);
    close_rig();
}
END_TEST

START_TEST(order_is_physics_then_layer_then_index) {
    dfm_pmx_bone bones[6] = {{RIG_BONE(-1, 0, 0, 0), .layer = 1},  {RIG_BONE(-1, 0, 0, 0)},
                             {RIG_BONE(-1, 0, 0, 0), .layer = -2}, {RIG_BONE(-1, 0, 0, 0)},
                             {RIG_BONE(-1, 0, 0, 0), .layer = 1},  {RIG_BONE(-1, 0, 0, 0)}};
    bones[1].flags |= DFM_BONE_AFTER_PHYSICS;
    rig_fixture_open(&rig, bones, 6, NULL, 0);
    const uint32_t expected[] = {2, 3, 5, 0, 4, 1};
    ck_assert_mem_eq(rig.rig.order, expected, sizeof expected);
    close_rig();
}
END_TEST

START_TEST(every_parent_stands_before_its_children) {
    dfm_pmx_bone bones[] = {{RIG_BONE(3, 0, 0, 0)},  {RIG_BONE(0, 0, 0, 0)},
                            {RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(2, 0, 0, 0)},
                            {RIG_BONE(2, 0, 0, 0)},  {RIG_BONE(-1, 0, 0, 0)}};
    rig_fixture_open(&rig, bones, 6, NULL, 0);
    const uint32_t expected[] = {2, 3, 0, 1, 4, 5};
    ck_assert_mem_eq(rig.rig.parent_first, expected, sizeof expected);
    close_rig();
}
END_TEST

START_TEST(parent_cycles_are_cut_once_each_and_warned_about) {
    dfm_pmx_bone bones[] = {
        {RIG_BONE(0, 1, 0, 0)}, /* itself */
        {RIG_BONE(2, 2, 0, 0)}, /* 1 -> 2 -> 3 -> 1 */
        {RIG_BONE(3, 3, 0, 0)}, {RIG_BONE(1, 4, 0, 0)},
        {RIG_BONE(3, 5, 0, 0)}, /* hangs on the cycle */
    };
    rig_fixture_open(&rig, bones, 5, NULL, 0);
    ck_assert_uint_eq(rig_fixture_warned(&rig, "parent-cycle"), 2);
    ck_assert_int_eq(rig.rig.bones[0].parent, -1);
    ck_assert_int_eq(rig.rig.bones[3].parent, -1);
    ck_assert_int_eq(rig.rig.bones[1].parent, 2);
    ck_assert(rig_fixture_solve(&rig));
    for (uint32_t i = 0; i < 5; i++)
        rig_expect_position(&rig, i, i + 1, 0, 0, 1e-15);
    close_rig();
}
END_TEST

START_TEST(parents_that_the_model_lacks_become_none_with_a_warning) {
    dfm_pmx_bone bones[] = {
        {RIG_BONE(2, 1, 0, 0)}, {RIG_BONE(-2, 2, 0, 0)}, {RIG_BONE(INT32_MAX, 3, 0, 0)}};
    bones[2].parent = 3;
    rig_fixture_open(&rig, bones, 3, NULL, 0);
    ck_assert_uint_eq(rig_fixture_warned(&rig, "parent-invalid"), 2);
    ck_assert_int_eq(rig.rig.bones[0].parent, 2);
    ck_assert(rig_fixture_solve(&rig));
    rig_expect_position(&rig, 0, 1, 0, 0, 0);
    close_rig();
}
END_TEST

START_TEST(chain_of_30000_bones_solves_without_recursion) {
    enum { COUNT = 30000 };
    dfm_pmx_bone *bones = calloc(COUNT, sizeof *bones);
    for (int i = 0; i < COUNT; i++)
        bones[i] = (dfm_pmx_bone){RIG_BONE(i == COUNT - 1 ? -1 : i + 1, 0, (float)(COUNT - i), 0)};
    rig_fixture_open(&rig, bones, COUNT, NULL, 0);
    rig_axis_angle(rig.pose.bones[COUNT - 1].rotation, 0, 0, 1, 90);
    ck_assert(rig_fixture_solve(&rig));
    rig_expect_position(&rig, 0, -(COUNT - 1), 1, 0, 1e-6);
    close_rig();
    free(bones);
}
END_TEST

START_TEST(numbers_beyond_single_precision_are_refused) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(0, 0, 0, 0)}};
    rig_fixture_open(&rig, bones, 2, NULL, 0);
    rig.pose.bones[0].translation[1] = -0.9e18;
    ck_assert(rig_fixture_solve(&rig));
    rig.pose.bones[1].translation[1] = -0.9e18;
    ck_assert(!rig_fixture_solve(&rig));
    rig.pose.bones[0].translation[1] = 1e308;
    rig.pose.bones[1].translation[1] = 1e308;
    ck_assert(!rig_fixture_solve(&rig));
    /* An infinity minus another is no number, and must not pass either. */
    rig_axis_angle(rig.pose.bones[0].rotation, 0, 0, 1, 45);
    rig.pose.bones[1].translation[0] = 1.7e308;
    rig.pose.bones[1].translation[1] = 1.7e308;
    ck_assert(!rig_fixture_solve(&rig));
    close_rig();
}
END_TEST

START_TEST(matrices_are_taken_as_they_are_and_rotations_by_gram_schmidt_x_first) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 1, 2, 3)}, {RIG_BONE(0, 4, 5, 6)}};
    rig_fixture_open(&rig, bones, 2, NULL, 0);
    rig.pose.has_matrices = true;
    rig.pose.bones[0].translation[0] = 99; /* not looked at */
    /* x -> 2y, y -> 3(-x) sheared by 1 along y, z -> 4z: the x axis is kept, so 90 about z. */
    const double scaled[12] = {0, -3, 0, 7, 2, 1, 0, 8, 0, 0, 4, 9};
    const double halfway[12] = {-1, 0, 0, 0, 0, 1, 0, 0, 0, 0, -1, 0}; /* 180 about y */
    memcpy(rig.pose.matrices[0], scaled, sizeof scaled);
    memcpy(rig.pose.matrices[1], halfway, sizeof halfway);
    ck_assert(rig_fixture_solve(&rig));
    ck_assert_mem_eq(rig.state.global[0], scaled, sizeof scaled);
    rig_expect_rotation(&rig, 0, (double[]){0, 0, M_SQRT1_2, M_SQRT1_2}, 1e-15);
    rig_expect_rotation(&rig, 1, (double[]){0, 1, 0, 0}, 1e-15);
    /* The dual moves the pivot (1, 2, 3) to where the matrix has it: (7, 8, 9). */
    float m[24], r[8], d[8];
    dfm_rig_palette(&rig.rig, &rig.state, m, r, d);
    float x = 2 * (-d[3] * r[0] + d[0] * r[3] - d[1] * r[2] + d[2] * r[1]);
    float y = 2 * (-d[3] * r[1] + d[0] * r[2] + d[1] * r[3] - d[2] * r[0]);
    ck_assert_float_eq_tol(x, 7 + 2, 1e-5f);
    ck_assert_float_eq_tol(y, 8 - 1, 1e-5f);
    close_rig();
}
END_TEST

START_TEST(matrices_without_a_rotation_give_the_identity_and_no_nan) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(-1, 0, 0, 0)}};
    rig_fixture_open(&rig, bones, 2, NULL, 0);
    rig.pose.has_matrices = true;
    memcpy(rig.pose.matrices[1], (double[12]){1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0, 0}, 96);
    ck_assert(rig_fixture_solve(&rig));
    rig_expect_rotation(&rig, 0, (double[]){0, 0, 0, 1}, 0);
    for (int k = 0; k < 4; k++)
        ck_assert(isfinite(rig.state.rotation[1][k]));
    rig.pose.matrices[0][5] = 1.1e18;
    ck_assert(!rig_fixture_solve(&rig));
    close_rig();
}
END_TEST

START_TEST(every_turn_survives_the_way_through_a_matrix) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(-1, 0, 0, 0)}};
    rig_fixture_open(&rig, bones, 2, NULL, 0);
    for (int degrees = 0; degrees < 360; degrees += 15) {
        for (int axis = 0; axis < 7; axis++) {
            static const double axes[7][3] = {{1, 0, 0},  {0, 1, 0},  {0, 0, 1}, {1, 2, 3},
                                              {-3, 1, 0}, {0, 2, -1}, {1, 1, -4}};
            double turn[4];
            rig_axis_angle(turn, axes[axis][0], axes[axis][1], axes[axis][2], degrees);
            rig.pose.has_matrices = false;
            memcpy(rig.pose.bones[0].rotation, turn, sizeof turn);
            ck_assert(rig_fixture_solve(&rig));
            rig.pose.has_matrices = true;
            memcpy(rig.pose.matrices[0], rig.state.global[0], sizeof *rig.pose.matrices);
            ck_assert(rig_fixture_solve(&rig));
            rig_expect_rotation(&rig, 0, turn, 1e-14);
        }
    }
    close_rig();
}
END_TEST

START_TEST(model_without_bones_solves) {
    rig_fixture_open(&rig, NULL, 0, NULL, 0);
    ck_assert(rig_fixture_solve(&rig));
    close_rig();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rig forward");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, rest_pose_gives_rest_positions_and_identity_palette);
    tcase_add_test(tests, child_turns_about_its_parent_that_comes_later_in_the_file);
    tcase_add_test(tests, palette_and_duals_move_points_as_the_bone_does);
    tcase_add_test(tests, quaternion_of_any_length_turns_by_its_direction);
    tcase_add_test(tests, order_is_physics_then_layer_then_index);
    tcase_add_test(tests, every_parent_stands_before_its_children);
    tcase_add_test(tests, parent_cycles_are_cut_once_each_and_warned_about);
    tcase_add_test(tests, parents_that_the_model_lacks_become_none_with_a_warning);
    tcase_add_test(tests, chain_of_30000_bones_solves_without_recursion);
    tcase_add_test(tests, numbers_beyond_single_precision_are_refused);
    tcase_add_test(tests, matrices_are_taken_as_they_are_and_rotations_by_gram_schmidt_x_first);
    tcase_add_test(tests, matrices_without_a_rotation_give_the_identity_and_no_nan);
    tcase_add_test(tests, every_turn_survives_the_way_through_a_matrix);
    tcase_add_test(tests, model_without_bones_solves);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
