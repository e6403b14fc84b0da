/* IK: each rule of the solver, with numbers by hand. Figures of whole legs are in
 * test_rig_reference. */
#include "tests/support_rig.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static rig_fixture rig;

static const float PI_F = 3.1415927f;

static dfm_pmx_bone ik_bone(int32_t parent, const float at[3], int32_t target, int32_t loops,
                            double limit_degrees, dfm_pmx_ik_link *links, uint32_t link_count) {
    return (dfm_pmx_bone){RIG_BONE(parent, at[0], at[1], at[2]),
                          .flags = DFM_BONE_IK,
                          .ik_target = target,
                          .ik_loop_count = loops,
                          .ik_limit_rad = (float)(limit_degrees * M_PI / 180),
                          .ik_links = links,
                          .ik_link_count = link_count};
}

static void move(uint32_t bone, double x, double y, double z) {
    double *t = rig.pose.bones[bone].translation;
    t[0] = x, t[1] = y, t[2] = z;
}

static double distance(uint32_t a, uint32_t b) {
    const double *g = rig.state.global[a], *h = rig.state.global[b];
    return hypot(hypot(g[3] - h[3], g[7] - h[7]), g[11] - h[11]);
}

static void expect_turn(uint32_t bone, double x, double y, double z, double degrees,
                        double tolerance) {
    double q[4];
    rig_axis_angle(q, x, y, z, degrees);
    rig_expect_rotation(&rig, bone, q, tolerance);
}

/* The turn of a bone against its parent. */
static void local_turn(uint32_t bone, double q[4]) {
    int32_t parent = rig.rig.bones[bone].parent;
    const double none[4] = {0, 0, 0, 1};
    const double *p = parent < 0 ? none : rig.state.rotation[parent], *r = rig.state.rotation[bone];
    /* conjugate(p) * r */
    q[0] = p[3] * r[0] - p[0] * r[3] - p[1] * r[2] + p[2] * r[1];
    q[1] = p[3] * r[1] + p[0] * r[2] - p[1] * r[3] - p[2] * r[0];
    q[2] = p[3] * r[2] - p[0] * r[1] + p[1] * r[0] - p[2] * r[3];
    q[3] = p[3] * r[3] + p[0] * r[0] + p[1] * r[1] + p[2] * r[2];
}

/* One arm of length 1 along x with a goal at its end: bone 0 turns, bone 1 is the effector, bone 2
 * the goal. */
static void open_arm(int32_t loops, double limit_degrees, dfm_pmx_ik_link *link) {
    static dfm_pmx_bone bones[3];
    bones[0] = (dfm_pmx_bone){RIG_BONE(-1, 0, 0, 0)};
    bones[1] = (dfm_pmx_bone){RIG_BONE(0, 1, 0, 0)};
    bones[2] = ik_bone(-1, (float[]){1, 0, 0}, 1, loops, limit_degrees, link, 1);
    rig_fixture_open(&rig, bones, 3, NULL, 0);
}

START_TEST(one_free_link_turns_to_its_goal_in_one_loop) {
    dfm_pmx_ik_link link = {.bone = 0};
    open_arm(1, 180, &link);
    move(2, -1, 3, 0); /* straight above, out of reach */
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 90, 1e-14);
    rig_expect_position(&rig, 1, 0, 1, 0, 1e-14);
    move(2, -1, 0, -2); /* behind: -z */
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 1, 0, 90, 1e-14);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(goal_on_the_line_of_the_link_gives_no_turn_and_no_nan) {
    dfm_pmx_ik_link link = {.bone = 0};
    open_arm(40, 180, &link);
    static const double goals[4] = {2, -1, -1.5,
                                    -1e-5}; /* beyond, at the joint, behind it, there */
    for (int i = 0; i < 4; i++) {
        move(2, goals[i], 0, 0);
        ck_assert(rig_fixture_solve(&rig));
        expect_turn(0, 0, 0, 1, 0, 0);
    }
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(loop_count_limits_the_turns) {
    static const struct {
        int32_t loops;
        double limit, expected;
    } cases[] = {{0, 10, 0},          {1, 10, 10},        {3, 10, 30},     {40, 1, 40},
                 {255, .125, 31.875}, {256, .125, 32},    {257, .125, 32}, {INT32_MAX, .125, 32},
                 {-1, 10, 0},         {INT32_MIN, 10, 0}, {40, 10, 90}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dfm_pmx_ik_link link = {.bone = 0};
        open_arm(cases[i].loops, cases[i].limit, &link);
        move(2, -1, 1, 0);
        ck_assert(rig_fixture_solve(&rig));
        expect_turn(0, 0, 0, 1, cases[i].expected, 1e-6);
        rig_fixture_close(&rig);
    }
}
END_TEST

START_TEST(limit_angle_of_zero_below_or_not_a_number_gives_no_turn) {
    static const double limits[] = {0, -1, NAN};
    for (int i = 0; i < 3; i++) {
        dfm_pmx_ik_link link = {
            .bone = 0, .has_limits = 1, .limit_min = {0, 0, .5f}, .limit_max = {0, 0, 1}};
        open_arm(40, limits[i], &link);
        move(2, -1, 1, 0);
        ck_assert(rig_fixture_solve(&rig));
        expect_turn(0, 0, 0, 1, 0, 0);
        rig_fixture_close(&rig);
    }
}
END_TEST

START_TEST(limit_angle_grows_with_the_position_of_the_link) {
    /* Three bones on a line; the two next to the effector are locked, so that the third alone
     * turns: by three times the limit a loop. */
    dfm_pmx_ik_link links[] = {
        {.bone = 2, .has_limits = 1}, {.bone = 1, .has_limits = 1}, {.bone = 0}};
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)},
                            {RIG_BONE(0, 1, 0, 0)},
                            {RIG_BONE(1, 2, 0, 0)},
                            {RIG_BONE(2, 3, 0, 0)},
                            ik_bone(-1, (float[]){0, 3, 0}, 3, 2, 5, links, 3)};
    rig_fixture_open(&rig, bones, 5, NULL, 0);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 30, 1e-7);
    double q[4];
    local_turn(1, q);
    ck_assert_double_eq_tol(fabs(q[3]), 1, 1e-15);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(links_in_any_order_turn_from_the_effector_upward) {
    dfm_pmx_ik_link straight[] = {{.bone = 1}, {.bone = 0}},
                    reversed[] = {{.bone = 0}, {.bone = 1}};
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)},
                            {RIG_BONE(0, 1, .1f, 0)},
                            {RIG_BONE(1, 2, 0, 0)},
                            ik_bone(-1, (float[]){1, 1, 0}, 2, 3, 20, straight, 2)};
    double first[12];
    rig_fixture_open(&rig, bones, 4, NULL, 0);
    ck_assert(rig_fixture_solve(&rig));
    memcpy(first, rig.state.global[2], sizeof first);
    rig_fixture_close(&rig);
    bones[3].ik_links = reversed;
    rig_fixture_open(&rig, bones, 4, NULL, 0);
    ck_assert(rig_fixture_solve(&rig));
    ck_assert_mem_eq(first, rig.state.global[2], sizeof first);
    rig_fixture_close(&rig);
}
END_TEST

enum { HIP, KNEE, ANKLE, GOAL, LEG_BONES };

/* A leg of 5 + 5 units along -y, its knee a little in front (-z), that bends by x below -0.5
 * degrees. */
static void open_leg(double limit_degrees) {
    static dfm_pmx_bone bones[LEG_BONES];
    static dfm_pmx_ik_link links[2];
    links[0] = (dfm_pmx_ik_link){.bone = KNEE,
                                 .has_limits = 1,
                                 .limit_min = {-PI_F, 0, 0},
                                 .limit_max = {-.008726646f, 0, 0}};
    links[1] = (dfm_pmx_ik_link){.bone = HIP};
    bones[HIP] = (dfm_pmx_bone){RIG_BONE(-1, 0, 10, 0)};
    bones[KNEE] = (dfm_pmx_bone){RIG_BONE(HIP, 0, 5, -.1f)};
    bones[ANKLE] = (dfm_pmx_bone){RIG_BONE(KNEE, 0, 0, 0)};
    bones[GOAL] = ik_bone(-1, (float[]){0, 0, 0}, ANKLE, 100, limit_degrees, links, 2);
    rig_fixture_open(&rig, bones, LEG_BONES, NULL, 0);
}

/* The knee turns about x only, within its limits, and the bones keep their lengths. */
static void expect_leg_is_sound(void) {
    double q[4];
    local_turn(KNEE, q);
    ck_assert_double_eq_tol(q[1], 0, 1e-9);
    ck_assert_double_eq_tol(q[2], 0, 1e-9);
    double angle = 2 * atan2(q[0], q[3]);
    if (angle > M_PI)
        angle -= 2 * M_PI;
    if (angle < -M_PI - 1e-6)
        angle += 2 * M_PI;
    ck_assert_double_le(angle, -.008726646 + 1e-9);
    ck_assert_double_ge(angle, -M_PI - 1e-6);
    ck_assert_double_eq_tol(distance(HIP, KNEE), hypot(5, .1), 1e-6);
    ck_assert_double_eq_tol(distance(KNEE, ANKLE), hypot(5, .1), 1e-6);
}

START_TEST(leg_reaches_a_goal_within_reach) {
    open_leg(115);
    move(GOAL, 0, 2, 0);
    ck_assert(rig_fixture_solve(&rig));
    expect_leg_is_sound();
    ck_assert_double_lt(distance(ANKLE, GOAL), 1e-3);
    ck_assert_double_lt(rig.state.global[KNEE][11], -2.5); /* the knee goes forward */
    move(GOAL, 1, 3, -2);
    ck_assert(rig_fixture_solve(&rig));
    expect_leg_is_sound();
    ck_assert_double_lt(distance(ANKLE, GOAL), 1e-2);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(leg_stretches_towards_a_goal_out_of_reach) {
    open_leg(115);
    move(GOAL, 0, 10, -40); /* level with the hip, in front */
    ck_assert(rig_fixture_solve(&rig));
    expect_leg_is_sound();
    /* Bent by no more than half a degree beyond its 2.3 degrees of rest, it is 10 units long. */
    rig_expect_position(&rig, ANKLE, 0, 10, -10, .02);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(leg_with_a_goal_at_the_hip_folds) {
    open_leg(115);
    move(GOAL, 0, 10, 0);
    ck_assert(rig_fixture_solve(&rig));
    expect_leg_is_sound();
    ck_assert_double_lt(distance(ANKLE, GOAL), 10);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(leg_with_a_goal_behind_goes_there_with_a_sound_knee) {
    open_leg(115);
    move(GOAL, 0, 6, 5);
    ck_assert(rig_fixture_solve(&rig));
    expect_leg_is_sound();
    ck_assert_double_lt(distance(ANKLE, GOAL), .05);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(leg_at_rest_stays_at_rest_although_its_knee_is_out_of_its_limits) {
    open_leg(115);
    ck_assert(rig_fixture_solve(&rig));
    for (uint32_t i = 0; i < LEG_BONES; i++)
        expect_turn(i, 1, 0, 0, 0, 0);
    move(GOAL, 0, 9e-5, 0); /* near enough */
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(HIP, 1, 0, 0, 0, 0);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(pose_as_authored_stays_where_no_iteration_comes_nearer) {
    /* The arm is posed at 60 degrees, out of its limits of 0 to 30, and nearer to the goal at 90
     * than any turn within them. */
    dfm_pmx_ik_link link = {
        .bone = 0, .has_limits = 1, .limit_min = {0, 0, 0}, .limit_max = {0, 0, PI_F / 6}};
    open_arm(40, 180, &link);
    move(2, -1, 1, 0);
    rig_axis_angle(rig.pose.bones[0].rotation, 0, 0, 1, 60);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 60, 1e-15);
    rig_axis_angle(rig.pose.bones[0].rotation, 0, 0, 1, 10);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 30, 1e-7);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(limits_count_the_authored_pose_in) {
    /* Posed at -30 and free up to 45: the turn is by 75, not by 45 and not to 15. */
    dfm_pmx_ik_link link = {
        .bone = 0, .has_limits = 1, .limit_min = {0, 0, -PI_F}, .limit_max = {0, 0, PI_F / 4}};
    open_arm(40, 20, &link);
    move(2, -1, 1, 0);
    rig_axis_angle(rig.pose.bones[0].rotation, 0, 0, 1, -30);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 45, 1e-7);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(limits_the_wrong_way_round_are_sorted) {
    dfm_pmx_ik_link link = {
        .bone = 0, .has_limits = 1, .limit_min = {0, 0, PI_F / 4}, .limit_max = {0, 0, -PI_F / 4}};
    open_arm(40, 180, &link);
    move(2, -1, 1, 0);
    rig.pose.bones[2].translation[2] = .5;
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 45, 1e-7);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(first_turn_out_of_the_limits_goes_the_other_way) {
    /* The goal asks for 20 degrees, the limits are -90 to -5: 25 too far, so 25 back from -5. One
     * loop shows it; with more the arm goes back to the limit, which is nearest. */
    dfm_pmx_ik_link link = {.bone = 0,
                            .has_limits = 1,
                            .limit_min = {0, 0, -PI_F / 2},
                            .limit_max = {0, 0, -PI_F / 36}};
    open_arm(1, 180, &link);
    rig_axis_angle(rig.pose.bones[0].rotation, 0, 0, 1, -80);
    double angle = 20 * M_PI / 180;
    move(2, cos(angle) - 1, sin(angle), 0);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, -30, 1e-6);
    rig_fixture_close(&rig);
    open_arm(2, 180, &link);
    rig_axis_angle(rig.pose.bones[0].rotation, 0, 0, 1, -80);
    move(2, cos(angle) - 1, sin(angle), 0);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, -5, 1e-6);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(all_limits_zero_locks_the_link) {
    dfm_pmx_ik_link link = {.bone = 0, .has_limits = 1};
    open_arm(40, 180, &link);
    move(2, -1, 1, 0);
    rig_axis_angle(rig.pose.bones[0].rotation, 0, 0, 1, 12);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 12, 1e-15);
    rig_fixture_close(&rig);
}
END_TEST

/* Angles of R = Ry * Rx * Rz. */
static void angles_yxz(const double g[12], double angles[3]) {
    angles[0] = asin(-g[6]);
    angles[1] = atan2(g[2], g[10]);
    angles[2] = atan2(g[4], g[5]);
}

START_TEST(limits_on_two_axes_hold_each) {
    dfm_pmx_ik_link link = {
        .bone = 0, .has_limits = 1, .limit_min = {-.2f, 0, -.3f}, .limit_max = {.4f, 0, .5f}};
    open_arm(40, 180, &link);
    static const double goals[6][3] = {{-1, 1, 0},   {-1, -1, 0}, {-1, .3, 1},
                                       {-1, .3, -1}, {-2, .1, 0}, {0, .2, 0}};
    for (int i = 0; i < 6; i++) {
        move(2, goals[i][0], goals[i][1], goals[i][2]);
        ck_assert(rig_fixture_solve(&rig));
        double angles[3];
        angles_yxz(rig.state.global[0], angles);
        ck_assert_double_ge(angles[0], -.2f - 1e-6);
        ck_assert_double_le(angles[0], .4f + 1e-6);
        ck_assert_double_eq_tol(angles[1], 0, 1e-6);
        ck_assert_double_ge(angles[2], -.3f - 1e-6);
        ck_assert_double_le(angles[2], .5f + 1e-6);
        if (i == 0) /* straight up: z alone helps, as far as it may */
            ck_assert_double_eq_tol(angles[2], .5, 1e-6);
    }
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(angles_taken_apart_and_put_together_are_the_same_turn) {
    /* Limits so wide that nothing is cut: the link turns as a free one, in each of the three orders
     * of angles (the middle one is the axis within 90 degrees). */
    static const float wide = 7, narrow = 1.57f;
    for (int middle = 0; middle < 3; middle++) {
        dfm_pmx_ik_link link = {.bone = 0, .has_limits = 1};
        for (int k = 0; k < 3; k++) {
            link.limit_max[k] = k == middle ? narrow : wide;
            link.limit_min[k] = -link.limit_max[k];
        }
        open_arm(1, 180, &link);
        rig_axis_angle(rig.pose.bones[0].rotation, 1, 2, -1, 25);
        move(2, -1, 1, .7);
        ck_assert(rig_fixture_solve(&rig));
        double reach = sqrt(1 + .7 * .7);
        rig_expect_position(&rig, 1, 0, 1 / reach, .7 / reach, 1e-9);
        rig_fixture_close(&rig);
    }
}
END_TEST

/* The axis in the middle at 90 degrees: the other two are one. */
START_TEST(angles_of_a_turn_that_has_one_axis_twice_are_the_same_turn) {
    static const float wide = 7;
    for (int sign = -1; sign <= 1; sign += 2) {
        dfm_pmx_ik_link link = {.bone = 0,
                                .has_limits = 1,
                                .limit_min = {-wide, -wide, -wide},
                                .limit_max = {wide, wide, wide}};
        open_arm(1, 180, &link);
        rig_axis_angle(rig.pose.bones[0].rotation, sign, 0, 0, 90);
        move(2, -1, 0, -2); /* a quarter turn about y */
        ck_assert(rig_fixture_solve(&rig));
        rig_expect_rotation(&rig, 0, (double[]){sign * .5, .5, sign * -.5, .5}, 1e-9);
        rig_expect_position(&rig, 1, 0, 0, -1, 1e-9);
        rig_fixture_close(&rig);
    }
}
END_TEST

START_TEST(fixed_axis_link_turns_about_its_axis_only) {
    dfm_pmx_ik_link link = {.bone = 0};
    dfm_pmx_bone bones[] = {
        {RIG_BONE(-1, 0, 0, 0), .flags = DFM_BONE_FIXED_AXIS, .fixed_axis = {0, 0, -2}},
        {RIG_BONE(0, 1, 0, 0)},
        ik_bone(-1, (float[]){0, 1, 1}, 1, 40, 30, &link, 1)};
    rig_fixture_open(&rig, bones, 3, NULL, 0);
    ck_assert(rig_fixture_solve(&rig));
    double q[4];
    local_turn(0, q);
    ck_assert_double_eq_tol(q[0], 0, 1e-12);
    ck_assert_double_eq_tol(q[1], 0, 1e-12);
    ck_assert_double_gt(fabs(q[2]), .5); /* well on the way up */
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(fixed_axis_of_a_knee_keeps_the_limits) {
    dfm_pmx_ik_link link = {
        .bone = 0, .has_limits = 1, .limit_min = {0, 0, -.5f}, .limit_max = {0, 0, .5f}};
    dfm_pmx_bone bones[] = {
        {RIG_BONE(-1, 0, 0, 0), .flags = DFM_BONE_FIXED_AXIS, .fixed_axis = {0, 0, -1}},
        {RIG_BONE(0, 1, 0, 0)},
        ik_bone(-1, (float[]){0, 1, 0}, 1, 40, 180, &link, 1)};
    rig_fixture_open(&rig, bones, 3, NULL, 0);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, .5 * 180 / M_PI, 1e-7);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(ik_is_switched_off_by_its_bone) {
    dfm_pmx_ik_link link = {.bone = 0};
    open_arm(40, 180, &link);
    move(2, -1, 1, 0);
    rig_axis_angle(rig.pose.bones[0].rotation, 0, 0, 1, 12);
    rig.pose.ik_off[0] = rig.pose.ik_off[1] = 1; /* no IK bones */
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 90, 1e-12);
    rig.pose.ik_off[2] = 1;
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 12, 1e-15);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(appends_of_a_link_follow_whatever_their_order) {
    /* 3 stands before the IK bone in deform order, 5 after it; 4 takes over from 3 and hangs on it;
     * 6 hangs on the link, and 7 takes over the link's translation alone, which IK does not move.
     */
    dfm_pmx_ik_link link = {.bone = 0};
    uint16_t turns = DFM_BONE_APPEND_ROTATION, moves = DFM_BONE_APPEND_TRANSLATION;
    dfm_pmx_bone bones[] = {
        {RIG_BONE(-1, 0, 0, 0), .layer = 1},
        {RIG_BONE(0, 1, 0, 0), .layer = 1},
        ik_bone(-1, (float[]){0, 1, 0}, 1, 40, 180, &link, 1),
        {RIG_BONE(-1, 0, 0, 0), .flags = turns, .append_source = 0, .append_ratio = .5f},
        {RIG_BONE(3, 0, 2, 0), .flags = turns, .append_source = 3, .append_ratio = 1},
        {RIG_BONE(-1, 0, 0, 0), .flags = turns, .append_source = 0, .append_ratio = 1, .layer = 3},
        {RIG_BONE(0, 2, 0, 0), .layer = -5},
        {RIG_BONE(-1, 0, 0, 0), .flags = moves, .append_source = 0, .append_ratio = 1}};
    bones[2].layer = 2;
    rig_fixture_open(&rig, bones, 8, NULL, 0);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 90, 1e-14);
    expect_turn(3, 0, 0, 1, 45, 1e-14);
    expect_turn(4, 0, 0, 1, 90, 1e-14);
    rig_expect_position(&rig, 4, -M_SQRT2, M_SQRT2, 0, 1e-14);
    expect_turn(5, 0, 0, 1, 90, 1e-14);
    rig_expect_position(&rig, 6, 0, 2, 0, 1e-14);
    expect_turn(7, 0, 0, 1, 0, 0);
    rig_fixture_close(&rig);
}
END_TEST

/* Two arms of one bone; the second's goal hangs on the first's end, and so is moved by its IK where
 * that is solved first. */
static void expect_second_sees_first(uint16_t first_flags, int32_t first_layer,
                                     int32_t second_layer, bool sees) {
    dfm_pmx_ik_link first = {.bone = 0}, second = {.bone = 3};
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)},
                            {RIG_BONE(0, 1, 0, 0)},
                            ik_bone(-1, (float[]){0, 1, 0}, 1, 40, 180, &first, 1),
                            {RIG_BONE(-1, 0, 0, 0)},
                            {RIG_BONE(3, 1, 0, 0)},
                            ik_bone(1, (float[]){1, 0, 0}, 4, 40, 180, &second, 1)};
    bones[2].flags |= first_flags;
    bones[2].layer = first_layer;
    bones[5].layer = second_layer;
    rig_fixture_open(&rig, bones, 6, NULL, 0);
    ck_assert(rig_fixture_solve(&rig));
    rig_expect_position(&rig, 1, 0, 1, 0, 1e-14);
    rig_expect_position(&rig, 5, 0, 1, 0, 1e-14); /* hangs on it in any case */
    expect_turn(3, 0, 0, 1, sees ? 90 : 0, 1e-14);
    rig_fixture_close(&rig);
}

START_TEST(solvers_run_in_deform_order) {
    expect_second_sees_first(0, 0, 0, true);
    expect_second_sees_first(0, 1, 0, false);
    expect_second_sees_first(0, 1, 1, true);
    expect_second_sees_first(DFM_BONE_AFTER_PHYSICS, 0, 5, false);
}
END_TEST

START_TEST(link_of_two_solvers_begins_each_as_authored) {
    dfm_pmx_ik_link first = {.bone = 0}, second = {.bone = 0};
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)},
                            {RIG_BONE(0, 1, 0, 0)},
                            ik_bone(-1, (float[]){0, 1, 0}, 1, 40, 180, &first, 1),
                            ik_bone(-1, (float[]){1, -1, 0}, 1, 1, 30, &second, 1)};
    rig_fixture_open(&rig, bones, 4, NULL, 0);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, -30, 1e-7);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(bad_targets_and_links_are_left_out_with_warnings) {
    dfm_pmx_ik_link own[] = {{.bone = 0}, {.bone = 1}};
    dfm_pmx_ik_link bad[] = {{.bone = -1},
                             {.bone = 99},
                             {.bone = 1},
                             {.bone = 3},
                             {.bone = 0},
                             {.bone = 0},
                             {.bone = 0, .has_limits = 1, .limit_min = {NAN, 0, 0}}};
    dfm_pmx_ik_link good[] = {{.bone = 0}};
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)},
                            {RIG_BONE(0, 1, 0, 0)},
                            ik_bone(-1, (float[]){0, 1, 0}, 1, 40, 180, own, 2),
                            ik_bone(-1, (float[]){0, 1, 0}, -1, 40, 180, good, 1),
                            ik_bone(-1, (float[]){0, 1, 0}, 6, 40, 180, good, 1),
                            ik_bone(-1, (float[]){0, 1, 0}, 0, 40, 180, NULL, 0)};
    rig_fixture_open(&rig, bones, 6, NULL, 0);
    ck_assert_uint_eq(rig_fixture_warned(&rig, "ik-target-invalid"), 3);
    ck_assert_uint_eq(rig_fixture_warned(&rig, "ik-link-invalid"), 0);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 0, 0);
    rig_fixture_close(&rig);

    bones[5] = ik_bone(-1, (float[]){0, 1, 0}, 1, 40, 180, bad, 7);
    bad[2].bone = 5; /* the IK bone itself is not above the target */
    rig_fixture_open(&rig, bones, 6, NULL, 0);
    /* -1, 99, 5, 3, the second 0 and the one with a limit that is no number. */
    ck_assert_uint_eq(rig_fixture_warned(&rig, "ik-link-invalid"), 6);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 90, 1e-14);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(goal_that_hangs_on_its_own_links_stays_finite) {
    dfm_pmx_ik_link link = {.bone = 0};
    dfm_pmx_bone bones[] = {{RIG_BONE(-1, 0, 0, 0)},
                            {RIG_BONE(0, 1, 0, 0)},
                            ik_bone(1, (float[]){0, 1, 0}, 1, 40, 20, &link, 1)};
    rig_fixture_open(&rig, bones, 3, NULL, 0);
    ck_assert(rig_fixture_solve(&rig));
    expect_turn(0, 0, 0, 1, 90, 1e-6);
    rig_fixture_close(&rig);
}
END_TEST

START_TEST(numbers_out_of_range_end_in_false_not_in_a_hang) {
    dfm_pmx_ik_link link = {.bone = 0};
    open_arm(INT32_MAX, 180, &link);
    static const double far[] = {1e17, 1e19, 1e200, 1e308};
    for (int i = 0; i < 4; i++) {
        move(2, far[i], far[i], -far[i]);
        ck_assert_int_eq(rig_fixture_solve(&rig), far[i] < 1e18);
        move(0, -far[i], far[i], far[i]);
        ck_assert_int_eq(rig_fixture_solve(&rig), far[i] < 1e18);
        move(0, 0, 0, 0);
    }
    rig_fixture_close(&rig);
}
END_TEST

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

START_TEST(chain_of_30000_links_ends_in_bounded_time) {
    enum { COUNT = 30000 };
    dfm_pmx_bone *bones = calloc(COUNT, sizeof *bones);
    dfm_pmx_ik_link *links = calloc(COUNT, sizeof *links);
    for (int i = 0; i < COUNT - 1; i++) {
        bones[i] = (dfm_pmx_bone){RIG_BONE(i - 1, (float)i, (float)(i % 2), 0)};
        links[i] = (dfm_pmx_ik_link){.bone = COUNT - 3 - i};
    }
    bones[COUNT - 1] =
        ik_bone(-1, (float[]){0, 20000, 0}, COUNT - 2, INT32_MAX, 180, links, COUNT - 2);
    rig_fixture_open(&rig, bones, COUNT, NULL, 0);
    ck_assert_uint_eq(rig_fixture_warned(&rig, "ik-budget"), 1);
    double start = seconds();
    ck_assert(rig_fixture_solve(&rig));
    ck_assert_double_lt(seconds() - start, 5);
    for (uint32_t i = 0; i < COUNT; i++)
        ck_assert(isfinite(rig.state.global[i][3]));
    rig_fixture_close(&rig);
    free(bones);
    free(links);
}
END_TEST

START_TEST(budget_is_spent_in_deform_order) {
    /* Arms that never reach their goals, each of 100 links and 256 loops: 1.3 million updates for
     * the first. The ones past the budget keep their pose; with the first switched off, its share
     * goes to others. */
    enum { ARMS = 40, LINKS = 100, PER_ARM = LINKS + 2, COUNT = ARMS * PER_ARM };
    dfm_pmx_bone *bones = calloc(COUNT, sizeof *bones);
    dfm_pmx_ik_link *links = calloc(COUNT, sizeof *links);
    for (int arm = 0; arm < ARMS; arm++) {
        int first = arm * PER_ARM;
        for (int i = 0; i <= LINKS; i++)
            bones[first + i] = (dfm_pmx_bone){RIG_BONE(i ? first + i - 1 : -1, (float)i, 0, 0)};
        for (int i = 0; i < LINKS; i++)
            links[first + i] = (dfm_pmx_ik_link){.bone = first + LINKS - 1 - i};
        bones[first + LINKS + 1] =
            ik_bone(-1, (float[]){50, 50, 0}, first + LINKS, 256, 1e-5, links + first, LINKS);
    }
    rig_fixture_open(&rig, bones, COUNT, NULL, 0);
    ck_assert_uint_gt(rig_fixture_warned(&rig, "ik-budget"), 0);
    ck_assert(rig_fixture_solve(&rig));
    double first[12];
    memcpy(first, rig.state.global[LINKS], sizeof first);
    ck_assert_double_gt(rig.state.global[LINKS][7], 1); /* the first arm has moved up */
    ck_assert_double_eq(rig.state.global[COUNT - 2][7], 0);
    ck_assert_double_eq(rig.state.global[3 * PER_ARM + LINKS][7], 0);
    ck_assert(rig_fixture_solve(&rig));
    ck_assert_mem_eq(first, rig.state.global[LINKS], sizeof first);
    for (int arm = 0; arm < 3; arm++)
        rig.pose.ik_off[arm * PER_ARM + LINKS + 1] = 1;
    ck_assert(rig_fixture_solve(&rig));
    ck_assert_double_eq(rig.state.global[LINKS][7], 0);
    ck_assert_mem_eq(first, rig.state.global[3 * PER_ARM + LINKS], sizeof first);
    rig_fixture_close(&rig);
    free(bones);
    free(links);
}
END_TEST

START_TEST(result_depends_on_the_pose_alone) {
    open_leg(30);
    move(GOAL, .5, 2, -1);
    ck_assert(rig_fixture_solve(&rig));
    double first[LEG_BONES][12];
    memcpy(first, rig.state.global, sizeof first);
    for (int i = 0; i < 20; i++) { /* other poses in between, on the same state */
        move(GOAL, i, -i * .3, 3);
        rig_axis_angle(rig.pose.bones[HIP].rotation, 1, i, 0, 20 * i);
        ck_assert(rig_fixture_solve(&rig));
    }
    dfm_pose_reset(&rig.pose);
    move(GOAL, .5, 2, -1);
    ck_assert(rig_fixture_solve(&rig));
    ck_assert_mem_eq(first, rig.state.global, sizeof first);
    memset(rig.memory, 0x55, dfm_rig_state_bytes(&rig.rig));
    ck_assert(rig_fixture_solve(&rig));
    ck_assert_mem_eq(first, rig.state.global, sizeof first);
    rig_fixture_close(&rig);
}
END_TEST

static uint32_t random_state;

static uint32_t random_below(uint32_t count) {
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * count >> 32);
}

static float wild_number(void) {
    static const float numbers[] = {0,    1,     -1,    .5f, -3.1415927f, 3.1415927f, 1e-30f,
                                    1e9f, -1e9f, 1e17f, 100, -.0f,        NAN,        INFINITY};
    return random_below(2) ? (float)random_below(1000) / 250 - 2 : numbers[random_below(14)];
}

static float finite_number(void) {
    float number = wild_number();
    return isfinite(number) ? number : 0;
}

static void make_wild_bone(dfm_pmx_bone *bone, uint32_t count) {
    *bone = (dfm_pmx_bone){RIG_BONE((int32_t)random_below(count + 3) - 2, finite_number(),
                                    finite_number(), finite_number()),
                           .layer = (int32_t)random_below(3) - 1,
                           .flags = (uint16_t)random_below(0x4000),
                           .append_source = (int32_t)random_below(count + 3) - 2,
                           .append_ratio = wild_number(),
                           .fixed_axis = {wild_number(), wild_number(), wild_number()},
                           .ik_target = (int32_t)random_below(count + 3) - 2,
                           .ik_loop_count = (int32_t)random_below(400) - 2,
                           .ik_limit_rad = wild_number()};
    bone->ik_link_count = random_below(6);
    bone->ik_links = calloc(bone->ik_link_count + 1, sizeof *bone->ik_links);
    for (uint32_t i = 0; i < bone->ik_link_count; i++) {
        dfm_pmx_ik_link *link = &bone->ik_links[i];
        link->bone = (int32_t)random_below(count + 3) - 2;
        link->has_limits = (uint8_t)random_below(2);
        for (int k = 0; k < 3; k++) {
            link->limit_min[k] = random_below(3) ? finite_number() : 0;
            link->limit_max[k] = random_below(3) ? wild_number() : 0;
        }
    }
}

/* In range and rigid, or refused. */
static void expect_sound_state(void) {
    for (uint32_t i = 0; i < rig.rig.bone_count; i++) {
        const double *g = rig.state.global[i], *q = rig.state.rotation[i];
        for (int k = 0; k < 12; k++)
            ck_assert_double_le(fabs(g[k]), DFM_RIG_MAX_NUMBER);
        ck_assert_double_eq_tol(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3], 1, 1e-9);
    }
}

START_TEST(wild_rigs_solve_to_sound_numbers_and_the_same_twice) {
    enum { COUNT = 24 };
    dfm_pmx_bone bones[COUNT];
    double first[COUNT][12];
    unsigned solved = 0, with_ik = 0;
    for (random_state = 1; random_state < 1500;) {
        uint32_t seed = random_state;
        uint32_t count = 1 + random_below(COUNT);
        for (uint32_t i = 0; i < count; i++)
            make_wild_bone(&bones[i], count);
        rig_fixture_open(&rig, bones, count, NULL, 0);
        for (uint32_t i = 0; i < count; i++) {
            rig_axis_angle(rig.pose.bones[i].rotation, 1, finite_number(), .5, finite_number());
            for (int k = 0; k < 3; k++)
                rig.pose.bones[i].translation[k] = (double)finite_number();
        }
        if (rig_fixture_solve(&rig)) {
            solved++;
            with_ik += rig.rig.solver_count > 0;
            expect_sound_state();
            memcpy(first, rig.state.global, count * sizeof *first);
            ck_assert(rig_fixture_solve(&rig));
            ck_assert_mem_eq(first, rig.state.global, count * sizeof *first);
        }
        rig_fixture_close(&rig);
        for (uint32_t i = 0; i < count; i++)
            free(bones[i].ik_links);
        random_state = seed + 1;
    }
    ck_assert_uint_gt(solved, 500);
    ck_assert_uint_gt(with_ik, 200);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rig ik");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, one_free_link_turns_to_its_goal_in_one_loop);
    tcase_add_test(tests, goal_on_the_line_of_the_link_gives_no_turn_and_no_nan);
    tcase_add_test(tests, loop_count_limits_the_turns);
    tcase_add_test(tests, limit_angle_of_zero_below_or_not_a_number_gives_no_turn);
    tcase_add_test(tests, limit_angle_grows_with_the_position_of_the_link);
    tcase_add_test(tests, links_in_any_order_turn_from_the_effector_upward);
    tcase_add_test(tests, leg_reaches_a_goal_within_reach);
    tcase_add_test(tests, leg_stretches_towards_a_goal_out_of_reach);
    tcase_add_test(tests, leg_with_a_goal_at_the_hip_folds);
    tcase_add_test(tests, leg_with_a_goal_behind_goes_there_with_a_sound_knee);
    tcase_add_test(tests, leg_at_rest_stays_at_rest_although_its_knee_is_out_of_its_limits);
    tcase_add_test(tests, pose_as_authored_stays_where_no_iteration_comes_nearer);
    tcase_add_test(tests, limits_count_the_authored_pose_in);
    tcase_add_test(tests, limits_the_wrong_way_round_are_sorted);
    tcase_add_test(tests, first_turn_out_of_the_limits_goes_the_other_way);
    tcase_add_test(tests, all_limits_zero_locks_the_link);
    tcase_add_test(tests, limits_on_two_axes_hold_each);
    tcase_add_test(tests, angles_taken_apart_and_put_together_are_the_same_turn);
    tcase_add_test(tests, angles_of_a_turn_that_has_one_axis_twice_are_the_same_turn);
    tcase_add_test(tests, fixed_axis_link_turns_about_its_axis_only);
    tcase_add_test(tests, fixed_axis_of_a_knee_keeps_the_limits);
    tcase_add_test(tests, ik_is_switched_off_by_its_bone);
    tcase_add_test(tests, appends_of_a_link_follow_whatever_their_order);
    tcase_add_test(tests, solvers_run_in_deform_order);
    tcase_add_test(tests, link_of_two_solvers_begins_each_as_authored);
    tcase_add_test(tests, bad_targets_and_links_are_left_out_with_warnings);
    tcase_add_test(tests, goal_that_hangs_on_its_own_links_stays_finite);
    tcase_add_test(tests, numbers_out_of_range_end_in_false_not_in_a_hang);
    tcase_add_test(tests, chain_of_30000_links_ends_in_bounded_time);
    tcase_add_test(tests, budget_is_spent_in_deform_order);
    tcase_add_test(tests, result_depends_on_the_pose_alone);
    tcase_add_test(tests, wild_rigs_solve_to_sound_numbers_and_the_same_twice);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
