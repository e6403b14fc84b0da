/* Morph weights: groups, flips, cycles; and bone morphs in the solve. Expected numbers by hand. */
#include "tests/support_rig.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static rig_fixture rig;

static dfm_pmx_morph morph(dfm_morph_type type, void *offsets, uint32_t count) {
    return (dfm_pmx_morph){
        .name = {"morph", 5}, .type = (uint8_t)type, .count = count, .offsets.any = offsets};
}

#define MORPH(type, array) morph(type, array, sizeof(array) / sizeof *(array))

static void expand(void) {
    ck_assert(rig_fixture_solve(&rig));
}

START_TEST(group_hands_weight_times_factor_to_children_and_weights_add) {
    dfm_pmx_child_morph inner[] = {{2, .5f}, {3, -2}}, outer[] = {{0, .5f}, {3, 1}};
    dfm_pmx_morph morphs[] = {MORPH(DFM_MORPH_GROUP, inner), MORPH(DFM_MORPH_GROUP, outer),
                              morph(DFM_MORPH_VERTEX, NULL, 0), morph(DFM_MORPH_UV, NULL, 0)};
    rig_fixture_open(&rig, NULL, 0, morphs, 4);
    const double posed[] = {1, 2, .25, 10};
    memcpy(rig.pose.morph_weights, posed, sizeof posed);
    expand();
    /* The outer group hands 1 to the inner one, which then has 2. */
    const double expected[] = {0, 0, .25 + 1, 10 + 2 - 4};
    ck_assert_mem_eq(rig.weights, expected, sizeof expected);
    ck_assert_uint_eq(rig.warnings.count, 0);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(group_cycles_are_cut_and_warned_about) {
    dfm_pmx_child_morph a[] = {{1, 1}, {3, 1}}, b[] = {{2, 1}, {3, 1}}, c[] = {{0, 1}, {2, 1}};
    dfm_pmx_morph morphs[] = {MORPH(DFM_MORPH_GROUP, a), MORPH(DFM_MORPH_GROUP, b),
                              MORPH(DFM_MORPH_GROUP, c), morph(DFM_MORPH_VERTEX, NULL, 0)};
    rig_fixture_open(&rig, NULL, 0, morphs, 4);
    ck_assert_uint_eq(rig_fixture_warned(&rig, "morph-cycle"), 2);
    rig.pose.morph_weights[0] = 1;
    expand();
    ck_assert_double_eq(rig.weights[3], 2);
    rig.pose.morph_weights[0] = 0;
    rig.pose.morph_weights[2] = 1; /* both its references were cut */
    expand();
    ck_assert_double_eq(rig.weights[3], 0);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(invalid_references_are_dropped_and_warned_about) {
    dfm_pmx_child_morph children[] = {{-1, 1}, {2, 1}, {1, NAN}, {1, .5f}};
    dfm_pmx_morph morphs[] = {MORPH(DFM_MORPH_GROUP, children), morph(DFM_MORPH_VERTEX, NULL, 0)};
    rig_fixture_open(&rig, NULL, 0, morphs, 2);
    ck_assert_uint_eq(rig_fixture_warned(&rig, "morph-offset-invalid"), 3);
    rig.pose.morph_weights[0] = 1;
    expand();
    ck_assert_double_eq(rig.weights[1], .5);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(flip_choice_follows_the_formula) {
    static const struct {
        double weight;
        uint32_t count;
        int64_t choice;
    } cases[] = {{0, 3, -1},    {-1, 3, -1},
                 {1e-9, 3, 0},  {.25, 3, 0},
                 {.49, 3, 0},   {.5, 3, 1},
                 {.74, 3, 1},   {.75, 3, 2},
                 {1, 3, 2},     {5, 3, 2},
                 {1e300, 3, 2}, {1, 0, -1},
                 {.5, 1, 0},    {1, UINT32_MAX, UINT32_MAX - 1ll}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_int_eq(dfm_morph_flip_choice(cases[i].weight, cases[i].count), cases[i].choice);
}
END_TEST

START_TEST(flip_adds_the_factor_of_one_child_and_counts_invalid_slots) {
    dfm_pmx_child_morph children[] = {{1, .5f}, {99, 1}, {2, .25f}};
    dfm_pmx_morph morphs[] = {MORPH(DFM_MORPH_FLIP, children), morph(DFM_MORPH_VERTEX, NULL, 0),
                              morph(DFM_MORPH_VERTEX, NULL, 0)};
    rig_fixture_open(&rig, NULL, 0, morphs, 3);
    rig.pose.morph_weights[1] = 1;
    rig.pose.morph_weights[0] = .3;
    expand();
    ck_assert_double_eq(rig.weights[1], 1.5);
    ck_assert_double_eq(rig.weights[2], 0);
    rig.pose.morph_weights[0] = .6;
    expand();
    ck_assert_double_eq(rig.weights[1], 1);
    rig.pose.morph_weights[0] = 1;
    expand();
    ck_assert_double_eq(rig.weights[2], .25);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(nesting_30000_deep_is_one_walk_and_stays_finite) {
    enum { COUNT = 30000 };
    dfm_pmx_child_morph(*children)[2] = calloc(COUNT, sizeof *children);
    dfm_pmx_morph *morphs = calloc(COUNT, sizeof *morphs);
    for (int i = 0; i < COUNT; i++) {
        /* Each names the one before twice: 2^30000 ways to the first. */
        children[i][0] = children[i][1] = (dfm_pmx_child_morph){i - 1, 1};
        morphs[i] = morph(i ? DFM_MORPH_GROUP : DFM_MORPH_VERTEX, children[i], i ? 2 : 0);
    }
    rig_fixture_open(&rig, NULL, 0, morphs, COUNT);
    rig.pose.morph_weights[COUNT - 1] = 1;
    expand();
    ck_assert_double_eq(rig.weights[0], 1e30);
    rig_fixture_close(&rig);
    free(morphs);
    free(children);
}
END_TEST

START_TEST(bone_morph_adds_translation_and_turns_on_the_right) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(0, 0, 1, 0)}};
    float s = (float)M_SQRT1_2;
    dfm_pmx_bone_offset offsets[] = {
        {0, {1, 2, 3}, {0, 0, s, s}}, {5, {0}, {0, 0, 0, 1}}, {1, {NAN, 0, 0}, {0, 0, 0, 1}}};
    dfm_pmx_bone_offset still[] = {{1, {4, 0, 0}, {0, 0, 0, 0}}};
    dfm_pmx_child_morph children[] = {{0, 2}};
    dfm_pmx_morph morphs[] = {MORPH(DFM_MORPH_BONE, offsets), MORPH(DFM_MORPH_BONE, still),
                              MORPH(DFM_MORPH_GROUP, children)};
    rig_fixture_open(&rig, bones, 2, morphs, 3);
    ck_assert_uint_eq(rig_fixture_warned(&rig, "morph-offset-invalid"), 2);
    rig_axis_angle(rig.pose.bones[0].rotation, 1, 0, 0, 90);
    rig.pose.bones[0].translation[0] = 10;
    rig.pose.morph_weights[0] = .5;
    ck_assert(rig_fixture_solve(&rig));
    double half[4], whole[4];
    rig_axis_angle(half, 0, 0, 1, 45);
    const double *p = rig.pose.bones[0].rotation;
    /* pose * morph, with the pose about x: (px, 0, 0, pw) * (0, 0, mz, mw). */
    const double expected[] = {p[0] * half[3], -p[0] * half[2], p[3] * half[2], p[3] * half[3]};
    rig_expect_rotation(&rig, 0, expected, 1e-7);
    rig_expect_position(&rig, 0, 10.5, 1, 1.5, 1e-12);
    /* Through the group with factor 2, beyond 1, and with a zero quaternion that turns nothing. */
    rig.pose.morph_weights[2] = .5;
    rig.pose.morph_weights[1] = -1;
    memcpy(rig.pose.bones[0].rotation, (double[]){0, 0, 0, 1}, sizeof(double[4]));
    rig.pose.bones[0].translation[0] = 0;
    ck_assert(rig_fixture_solve(&rig));
    rig_axis_angle(whole, 0, 0, 1, 135);
    rig_expect_rotation(&rig, 0, whole, 1e-6);
    rig_expect_position(&rig, 0, 1.5, 3, 4.5, 1e-12);
    rig_expect_rotation(&rig, 1, whole, 1e-6);
    rig_fixture_close(&rig);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("morph");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, group_hands_weight_times_factor_to_children_and_weights_add);
    tcase_add_test(tests, group_cycles_are_cut_and_warned_about);
    tcase_add_test(tests, invalid_references_are_dropped_and_warned_about);
    tcase_add_test(tests, flip_choice_follows_the_formula);
    tcase_add_test(tests, flip_adds_the_factor_of_one_child_and_counts_invalid_slots);
    tcase_add_test(tests, nesting_30000_deep_is_one_walk_and_stays_finite);
    tcase_add_test(tests, bone_morph_adds_translation_and_turns_on_the_right);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
