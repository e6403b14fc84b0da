/* Append (付与) and fixed axes. Expected numbers by hand. */
#include "tests/support_rig.h"

#include <check.h>
#include <math.h>
#include <string.h>

static rig_fixture rig;

#define APPEND(source, ratio)                                                                      \
    .append_source = (source), .append_ratio = (ratio),                                            \
    .flags = DFM_BONE_APPEND_ROTATION | DFM_BONE_APPEND_TRANSLATION

static void turn(uint32_t bone, double x, double y, double z, double degrees) {
    rig_axis_angle(rig.pose.bones[bone].rotation, x, y, z, degrees);
}

static void expect_turn(uint32_t bone, double x, double y, double z, double degrees) {
    double q[4];
    rig_axis_angle(q, x, y, z, degrees);
    rig_expect_rotation(&rig, bone, q, 1e-12);
}

START_TEST(any_ratio_scales_the_angle_and_the_move) {
    static const float ratios[] = {-2, 0, .5f, 1, 1.5f};
    for (int i = 0; i < 5; i++) {
        dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)},
                                {RIG_BONE(-1, 5, 0, 0), APPEND(0, ratios[i])}};
        rig_fixture_open(&rig, bones, 2, NULL, 0);
        turn(0, 1, 2, -1, 100);
        rig.pose.bones[0].translation[1] = 4;
        ck_assert(rig_fixture_solve(&rig));
        expect_turn(1, 1, 2, -1, 100.0 * (double)ratios[i]);
        rig_expect_position(&rig, 1, 5, 4.0 * (double)ratios[i], 0, 1e-12);
        rig_fixture_close(&rig);
    }
}
END_TEST

START_TEST(source_turned_past_180_is_taken_the_short_way) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(-1, 0, 0, 0), APPEND(0, .5f)}};
    rig_fixture_open(&rig, bones, 2, NULL, 0);
    turn(0, 0, 0, 1, 260); /* = -100 */
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(1, 0, 0, 1, -50);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(own_pose_turns_on_the_left_of_what_is_appended) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(-1, 0, 0, 0), APPEND(0, 1)}};
    rig_fixture_open(&rig, bones, 2, NULL, 0);
    turn(0, 0, 0, 1, 90);
    turn(1, 1, 0, 0, 90);
    ck_assert(rig_fixture_solve(&rig));
    /* x90 * z90 = (s,0,0,s) * (0,0,s,s). */
    rig_expect_rotation(&rig, 1, (double[]){.5, -.5, .5, .5}, 1e-15);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(only_what_the_flags_name_is_taken_over) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)},
                            {RIG_BONE(-1, 0, 0, 0), APPEND(0, 1)},
                            {RIG_BONE(-1, 0, 0, 0), APPEND(0, 1)}};
    bones[1].flags = DFM_BONE_APPEND_ROTATION;
    bones[2].flags = DFM_BONE_APPEND_TRANSLATION;
    rig_fixture_open(&rig, bones, 3, NULL, 0);
    turn(0, 0, 1, 0, 40);
    rig.pose.bones[0].translation[0] = 3;
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(1, 0, 1, 0, 40);
    rig_expect_position(&rig, 1, 0, 0, 0, 0);
    expect_turn(2, 0, 1, 0, 0);
    rig_expect_position(&rig, 2, 3, 0, 0, 0);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(the_source_alone_counts_not_what_it_hangs_on) {
    dfm_pmx_bone bones[] = {
        {RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(0, 0, 0, 0)}, {RIG_BONE(-1, 0, 0, 0), APPEND(1, 1)}};
    rig_fixture_open(&rig, bones, 3, NULL, 0);
    turn(0, 0, 1, 0, 40);
    turn(1, 0, 0, 1, 30);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(2, 0, 0, 1, 30);
    rig_fixture_close(&rig);
}
END_TEST

/* A (turned 80, moved 8) -> B (ratio 0.5, turned 10, moved 1) -> C (ratio -1): B hands on its own
 * value and its append, 50 degrees and 5 units, in whatever order and layers the three stand. */
static void expect_chain(const uint32_t place[3], const int32_t layer[3]) {
    dfm_pmx_bone bones[3] = {
        {RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(-1, 0, 0, 0)}};
    uint32_t a = place[0], b = place[1], c = place[2];
    for (int i = 0; i < 3; i++)
        bones[place[i]].layer = layer[i];
    bones[b].flags |= DFM_BONE_APPEND_ROTATION | DFM_BONE_APPEND_TRANSLATION;
    bones[b].append_source = (int32_t)a;
    bones[b].append_ratio = .5f;
    bones[c].flags |= DFM_BONE_APPEND_ROTATION | DFM_BONE_APPEND_TRANSLATION;
    bones[c].append_source = (int32_t)b;
    bones[c].append_ratio = -1;
    rig_fixture_open(&rig, bones, 3, NULL, 0);
    turn(a, 1, 1, 0, 80);
    turn(b, 1, 1, 0, 10);
    rig.pose.bones[a].translation[2] = 8;
    rig.pose.bones[b].translation[2] = 1;
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(b, 1, 1, 0, 50);
    rig_expect_position(&rig, b, 0, 0, 5, 1e-12);
    expect_turn(c, 1, 1, 0, -50);
    rig_expect_position(&rig, c, 0, 0, -5, 1e-12);
    rig_fixture_close(&rig);
}

START_TEST(chains_hand_on_the_same_in_every_order_and_layer) {
    static const uint32_t places[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const int32_t layers[3][3] = {{0, 0, 0}, {0, 1, 2}, {2, 1, 0}};
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 3; k++)
            expect_chain(places[i], layers[k]);
    }
}
END_TEST

START_TEST(local_flag_takes_the_source_without_its_append) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)},
                            {RIG_BONE(-1, 0, 0, 0), APPEND(0, 1)},
                            {RIG_BONE(-1, 0, 0, 0), APPEND(1, 1)}};
    bones[2].flags |= DFM_BONE_APPEND_LOCAL;
    rig_fixture_open(&rig, bones, 3, NULL, 0);
    turn(0, 0, 0, 1, 70);
    turn(1, 0, 0, 1, 5);
    rig.pose.bones[0].translation[0] = 7;
    rig.pose.bones[1].translation[0] = 1;
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(1, 0, 0, 1, 75);
    expect_turn(2, 0, 0, 1, 5);
    rig_expect_position(&rig, 2, 1, 0, 0, 1e-15);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(chain_goes_through_an_append_of_the_same_kind_only) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)},
                            {RIG_BONE(-1, 0, 0, 0), APPEND(0, 1)},
                            {RIG_BONE(-1, 0, 0, 0), APPEND(1, 1)}};
    bones[1].flags = DFM_BONE_APPEND_ROTATION;
    rig_fixture_open(&rig, bones, 3, NULL, 0);
    turn(0, 0, 0, 1, 70);
    rig.pose.bones[0].translation[0] = 7;
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(2, 0, 0, 1, 70);
    rig_expect_position(&rig, 2, 0, 0, 0, 0);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(bone_morphs_are_part_of_what_is_handed_on) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)}, {RIG_BONE(-1, 0, 0, 0), APPEND(0, 1)}};
    dfm_pmx_bone_offset offset = {0, {0, 2, 0}, {0, 0, (float)M_SQRT1_2, (float)M_SQRT1_2}};
    dfm_pmx_morph morph = {.type = DFM_MORPH_BONE, .count = 1, .offsets.bones = &offset};
    rig_fixture_open(&rig, bones, 2, &morph, 1);
    rig.pose.morph_weights[0] = 1;
    ck_assert(rig_fixture_solve(&rig));
    rig_expect_rotation(&rig, 1, (double[]){0, 0, M_SQRT1_2, M_SQRT1_2}, 1e-7);
    rig_expect_position(&rig, 1, 0, 2, 0, 0);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(child_of_a_later_bone_with_an_append_follows_it) {
    dfm_pmx_bone bones[] = {{RIG_BONE(1, 0, 2, 0)},
                            {RIG_BONE(-1, 0, 0, 0), APPEND(2, 1), .layer = 3},
                            {RIG_BONE(-1, 0, 0, 0)}};
    rig_fixture_open(&rig, bones, 3, NULL, 0);
    turn(2, 0, 0, 1, 90);
    ck_assert(rig_fixture_solve(&rig));
    rig_expect_position(&rig, 0, -2, 0, 0, 1e-15);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(parent_may_take_over_from_its_child) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0), APPEND(1, -1)}, {RIG_BONE(0, 0, 1, 0)}};
    rig_fixture_open(&rig, bones, 2, NULL, 0);
    ck_assert_uint_eq(rig.warnings.count, 0);
    turn(1, 0, 0, 1, 30);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, -30);
    expect_turn(1, 0, 0, 1, 0);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(append_cycles_and_bad_sources_are_cut_and_warned_about) {
    dfm_pmx_bone bones[] = {
        {RIG_BONE(-1, 0, 0, 0), APPEND(0, 1)},   {RIG_BONE(-1, 0, 0, 0), APPEND(2, 1)},
        {RIG_BONE(-1, 0, 0, 0), APPEND(3, 1)},   {RIG_BONE(-1, 0, 0, 0), APPEND(1, 1)},
        {RIG_BONE(-1, 0, 0, 0), APPEND(-1, 1)},  {RIG_BONE(-1, 0, 0, 0), APPEND(9, 1)},
        {RIG_BONE(-1, 0, 0, 0), APPEND(7, NAN)}, {RIG_BONE(-1, 0, 0, 0)}};
    rig_fixture_open(&rig, bones, 8, NULL, 0);
    ck_assert_uint_eq(rig_fixture_warned(&rig, "append-cycle"), 2);
    ck_assert_uint_eq(rig_fixture_warned(&rig, "append-invalid"), 3);
    turn(3, 0, 0, 1, 10);
    turn(7, 0, 0, 1, 10);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(1, 0, 0, 1, 10); /* 1 takes from 2, 2 from 3; 3 took from 1 */
    expect_turn(3, 0, 0, 1, 10);
    expect_turn(6, 0, 0, 1, 0);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(fixed_axis_keeps_the_angle_and_takes_the_axis) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0), .fixed_axis = {0, 0, 4}},
                            {RIG_BONE(-1, 0, 0, 0), .fixed_axis = {0, 0, 0}},
                            {RIG_BONE(-1, 0, 0, 0), .fixed_axis = {NAN, 0, 0}}};
    for (int i = 0; i < 3; i++)
        bones[i].flags |= DFM_BONE_FIXED_AXIS;
    rig_fixture_open(&rig, bones, 3, NULL, 0);
    ck_assert_uint_eq(rig_fixture_warned(&rig, "fixed-axis-invalid"), 2);
    for (uint32_t i = 0; i < 3; i++)
        turn(i, 1, 0, -.1, 50);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, -50); /* the axis pointed away from the fixed one */
    expect_turn(1, 1, 0, -.1, 50);
    expect_turn(2, 1, 0, -.1, 50);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(fixed_axis_holds_the_pose_but_not_the_morph) {
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0), .fixed_axis = {0, 1, 0}}};
    bones[0].flags |= DFM_BONE_FIXED_AXIS;
    dfm_pmx_bone_offset offset = {0, {0}, {(float)M_SQRT1_2, 0, 0, (float)M_SQRT1_2}};
    dfm_pmx_morph morph = {.type = DFM_MORPH_BONE, .count = 1, .offsets.bones = &offset};
    rig_fixture_open(&rig, bones, 1, &morph, 1);
    turn(0, 0, 1, 0, 90);
    rig.pose.morph_weights[0] = 1;
    ck_assert(rig_fixture_solve(&rig));
    /* y90 * x90. */
    rig_expect_rotation(&rig, 0, (double[]){.5, .5, -.5, .5}, 1e-7);
    rig_fixture_close(&rig);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rig append");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, any_ratio_scales_the_angle_and_the_move);
    tcase_add_test(tests, source_turned_past_180_is_taken_the_short_way);
    tcase_add_test(tests, own_pose_turns_on_the_left_of_what_is_appended);
    tcase_add_test(tests, only_what_the_flags_name_is_taken_over);
    tcase_add_test(tests, the_source_alone_counts_not_what_it_hangs_on);
    tcase_add_test(tests, chains_hand_on_the_same_in_every_order_and_layer);
    tcase_add_test(tests, local_flag_takes_the_source_without_its_append);
    tcase_add_test(tests, chain_goes_through_an_append_of_the_same_kind_only);
    tcase_add_test(tests, bone_morphs_are_part_of_what_is_handed_on);
    tcase_add_test(tests, child_of_a_later_bone_with_an_append_follows_it);
    tcase_add_test(tests, parent_may_take_over_from_its_child);
    tcase_add_test(tests, append_cycles_and_bad_sources_are_cut_and_warned_about);
    tcase_add_test(tests, fixed_axis_keeps_the_angle_and_takes_the_axis);
    tcase_add_test(tests, fixed_axis_holds_the_pose_but_not_the_morph);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
