/* Solved bones of public models against two independent solvers: every case of kind "solve" under
 * $DEFORMD_TEST_DATA/reference (README there). */
#include "tests/support_reference.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static void solve_case(reference_case *c) {
    size_t frame_floats = (size_t)c->bone_count * 7, have = 0;
    float *poses = reference_floats(c, "poses", &have);
    ck_assert_uint_eq(have, frame_floats * c->frame_count);
    for (uint32_t frame = 0; frame < c->frame_count; frame++) {
        for (uint32_t bone = 0; bone < c->bone_count; bone++) {
            const float *values = poses + frame * frame_floats + bone * 7;
            for (int k = 0; k < 4; k++)
                c->pose.bones[bone].rotation[k] = values[k];
            for (int k = 0; k < 3; k++)
                c->pose.bones[bone].translation[k] = values[4 + k];
        }
        reference_compare(c, frame);
    }
    free(poses);
}

START_TEST(solved_bones_lie_near_one_of_two_other_solvers) {
    reference_run("solve", solve_case);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rig reference");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, solved_bones_lie_near_one_of_two_other_solvers);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
