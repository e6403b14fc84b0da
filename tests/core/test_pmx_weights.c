/* The authoring rule: any number of influences become a weight type. */
#include "core/pmx.h"

#include <check.h>
#include <math.h>

static int32_t bone[4];
static float weight[4];

static dfm_weight_type author(const dfm_influence *influences, size_t count, bool sdef) {
    return dfm_pmx_author_weights(influences, count, sdef, bone, weight);
}

static void expect_slot(int slot, int32_t expected_bone, float expected_weight) {
    ck_assert_int_eq(bone[slot], expected_bone);
    ck_assert_float_eq_tol(weight[slot], expected_weight, 1e-6f);
}

static void expect_unused_from(int slot) {
    for (; slot < 4; slot++)
        expect_slot(slot, -1, 0);
}

START_TEST(no_influence_becomes_bdef1_on_bone_0) {
    ck_assert_int_eq(author(NULL, 0, true), DFM_WEIGHT_BDEF1);
    expect_slot(0, 0, 1);
    expect_unused_from(1);
    ck_assert_int_eq(author((dfm_influence[]){{5, 0}, {6, 0}}, 2, true), DFM_WEIGHT_BDEF1);
    expect_slot(0, 0, 1);
}
END_TEST

START_TEST(one_influence_becomes_bdef1_with_weight_1) {
    ck_assert_int_eq(author((dfm_influence[]){{7, 0.3f}}, 1, true), DFM_WEIGHT_BDEF1);
    expect_slot(0, 7, 1);
    expect_unused_from(1);
}
END_TEST

START_TEST(two_influences_become_bdef2_or_sdef_with_w1_from_w0) {
    const dfm_influence two[] = {{3, 0.25f}, {9, 0}, {4, 0.5f}};
    ck_assert_int_eq(author(two, 3, false), DFM_WEIGHT_BDEF2);
    expect_slot(0, 3, 0.25f);
    expect_slot(1, 4, 0.75f);
    expect_unused_from(2);
    ck_assert_int_eq(author(two, 3, true), DFM_WEIGHT_SDEF);
    expect_slot(1, 4, 0.75f);
}
END_TEST

START_TEST(three_or_four_influences_become_bdef4_as_they_are) {
    const dfm_influence four[] = {{1, 0.1f}, {2, 0.2f}, {3, 0.3f}, {4, 0.9f}};
    ck_assert_int_eq(author(four, 3, true), DFM_WEIGHT_BDEF4);
    expect_slot(2, 3, 0.3f);
    expect_unused_from(3);
    ck_assert_int_eq(author(four, 4, true), DFM_WEIGHT_BDEF4);
    for (int i = 0; i < 4; i++)
        expect_slot(i, four[i].bone, four[i].weight);
}
END_TEST

START_TEST(five_or_more_keep_the_four_largest_and_fill_the_last) {
    const dfm_influence six[] = {{1, 0.05f}, {2, 0.3f}, {3, 0.1f},
                                 {4, 0.3f},  {5, 0.2f}, {6, 0.05f}};
    ck_assert_int_eq(author(six, 6, true), DFM_WEIGHT_BDEF4);
    expect_slot(0, 2, 0.3f);
    expect_slot(1, 4, 0.3f); /* a tie stays in order */
    expect_slot(2, 5, 0.2f);
    expect_slot(3, 3, 0.2f); /* 1 - 0.8, not its own 0.1 */
}
END_TEST

START_TEST(ties_for_the_last_slot_go_to_the_earlier) {
    const dfm_influence equal[] = {{1, 0.2f}, {2, 0.2f}, {3, 0.2f}, {4, 0.2f}, {5, 0.2f}};
    author(equal, 5, false);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(bone[i], i + 1);
    expect_slot(3, 4, 0.4f);
}
END_TEST

START_TEST(the_last_of_too_heavy_influences_is_never_below_0) {
    const dfm_influence heavy[] = {{1, 0.9f}, {2, 0.8f}, {3, 0.7f}, {4, 0.6f}, {5, 0.5f}};
    ck_assert_int_eq(author(heavy, 5, false), DFM_WEIGHT_BDEF4);
    expect_slot(3, 4, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pmx_weights");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, no_influence_becomes_bdef1_on_bone_0);
    tcase_add_test(tests, one_influence_becomes_bdef1_with_weight_1);
    tcase_add_test(tests, two_influences_become_bdef2_or_sdef_with_w1_from_w0);
    tcase_add_test(tests, three_or_four_influences_become_bdef4_as_they_are);
    tcase_add_test(tests, five_or_more_keep_the_four_largest_and_fill_the_last);
    tcase_add_test(tests, ties_for_the_last_slot_go_to_the_earlier);
    tcase_add_test(tests, the_last_of_too_heavy_influences_is_never_below_0);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
