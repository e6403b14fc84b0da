/* VMD: reading, names, curves, evaluation. Expected numbers by hand. */
#include "core/cp932.h"
#include "core/motion.h"
#include "tests/data/models.h"
#include "tests/support_vmd.h"

#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static vmd_writer file;
static dfm_motion *motion;
static dfm_model *model;
static dfm_motion_binding *binding;
static dfm_pose pose;

static const float STILL[3] = {0, 0, 0};
static const float NO_TURN[4] = {0, 0, 0, 1};
static const float Z90[4] = {0, 0, .70710678f, .70710678f};

#define CENTRE "\x83\x5a\x83\x93\x83\x5e\x81\x5b"      /* センター */
#define LEFT_LEG_IK "\x8d\xb6\x91\xab\x82\x68\x82\x6a" /* 左足ＩＫ */
#define SMILE "\x8f\xce\x82\xa2"                       /* 笑い */

/* Bones: センター, 頭 by a long name, 左足ＩＫ (IK), "emoji", a twin of センター. Morphs: 笑い. */
static void make_model(void) {
    static dfm_pmx_bone bones[6];
    static dfm_pmx_morph morphs[1];
    static dfm_pmx_ik_link link = {.bone = 0};
    static const char *names[6] = {"センター", "とても長い名前の頭", "左足ＩＫ",
                                   "😀head",    "センター",           "とても長い名前のIK"};
    for (int i = 0; i < 6; i++)
        bones[i] = (dfm_pmx_bone){.name = model_text(names[i]),
                                  .name_en = model_text(""),
                                  .parent = -1,
                                  .tail_bone = -1,
                                  .flags = DFM_BONE_TAIL_IS_BONE};
    for (int i = 2; i < 6; i += 3) {
        bones[i].flags |= DFM_BONE_IK;
        bones[i].ik_target = 1;
        bones[i].ik_link_count = 1;
        bones[i].ik_links = &link;
    }
    morphs[0] = (dfm_pmx_morph){
        .name = model_text("笑い"), .name_en = model_text(""), .type = DFM_MORPH_VERTEX};
    dfm_pmx pmx = {.version = 2,
                   .name = model_text("m"),
                   .name_en = model_text(""),
                   .comment = model_text(""),
                   .comment_en = model_text(""),
                   .bone_count = 6,
                   .bones = bones,
                   .morph_count = 1,
                   .morphs = morphs};
    size_t size;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    dfm_error error = {0};
    ck_assert_msg(dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, &error) == DFM_OK,
                  "%s", error.info);
    free(bytes);
    pose = (dfm_pose){.bone_count = 6,
                      .morph_count = 1,
                      .bones = calloc(6, sizeof *pose.bones),
                      .morph_weights = calloc(1, sizeof(double)),
                      .ik_off = calloc(6, 1)};
}

static void load(void) {
    dfm_error error = {0};
    /* Exactly sized, so that the address sanitizer sees a read past the end. */
    uint8_t *bytes = malloc(file.size);
    memcpy(bytes, file.bytes, file.size);
    ck_assert_msg(dfm_motion_load(bytes, file.size, &motion, &error) == DFM_OK, "%s", error.info);
    free(bytes);
}

static void open_motion(void) {
    load();
    make_model();
    ck_assert_int_eq(dfm_motion_bind(motion, model, &binding, NULL), DFM_OK);
}

static void close_motion(void) {
    dfm_motion_binding_free(binding);
    dfm_motion_release(motion);
    dfm_model_release(model);
    free(pose.bones);
    free(pose.morph_weights);
    free(pose.ik_off);
}

static double x_at(double frame) {
    dfm_motion_evaluate(binding, frame, &pose);
    return pose.bones[0].translation[0];
}

static void expect_z_turn(uint32_t bone, double degrees) {
    const double *q = pose.bones[bone].rotation;
    double expected[4] = {0, 0, sin(degrees * M_PI / 360), cos(degrees * M_PI / 360)};
    for (int k = 0; k < 4; k++)
        ck_assert_double_eq_tol(q[k], expected[k], 1e-6);
}

START_TEST(values_hold_before_the_first_and_after_the_last_key) {
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 10, (float[]){1, 2, 3}, NO_TURN, NULL);
    vmd_bone(&file, CENTRE, 20, (float[]){5, 2, 3}, Z90, NULL);
    vmd_section(&file);
    vmd_morph(&file, SMILE, 10, .25f);
    vmd_morph(&file, SMILE, 30, .75f);
    open_motion();
    ck_assert_uint_eq(motion->vmd.last_frame, 30);
    ck_assert_double_eq(x_at(0), 1);
    ck_assert_double_eq(x_at(-1e9), 1);
    ck_assert_double_eq(pose.morph_weights[0], .25);
    expect_z_turn(0, 0);
    ck_assert_double_eq(x_at(9.99), 1);
    ck_assert_double_eq(x_at(10), 1);
    ck_assert_double_eq(x_at(20), 5);
    ck_assert_double_eq(x_at(20.01), 5);
    ck_assert_double_eq(x_at(1e12), 5);
    ck_assert_double_eq(pose.bones[0].translation[2], 3);
    ck_assert_double_eq(pose.morph_weights[0], .75);
    expect_z_turn(0, 90);
    close_motion();
}
END_TEST

START_TEST(fractional_frames_are_between) {
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 10, (float[]){1, 0, 0}, NO_TURN, NULL);
    vmd_bone(&file, CENTRE, 20, (float[]){5, 0, 0}, Z90, NULL);
    vmd_section(&file);
    vmd_morph(&file, SMILE, 0, 0);
    vmd_morph(&file, SMILE, 4, 1);
    open_motion();
    ck_assert_double_eq_tol(x_at(12.5), 2, 1e-12);
    expect_z_turn(0, 22.5);
    x_at(1.5);
    ck_assert_double_eq_tol(pose.morph_weights[0], .375, 1e-12);
    close_motion();
}
END_TEST

START_TEST(later_key_owns_the_curves_and_each_axis_its_own) {
    static const uint8_t early[4][4] = {
        {0, 127, 0, 127}, {0, 127, 0, 127}, {0, 127, 0, 127}, {0, 127, 0, 127}};
    /* x slow, y fast, z straight, the rotation slow: bytes of four different curves. */
    static const uint8_t late[4][4] = {
        {127, 0, 127, 0}, {0, 127, 0, 127}, {64, 64, 64, 64}, {100, 10, 110, 20}};
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 0, STILL, NO_TURN, early);
    vmd_bone(&file, CENTRE, 10, (float[]){1, 1, 1}, Z90, late);
    open_motion();
    const dfm_vmd_bone_key *key = &motion->vmd.bone_keys[1];
    ck_assert_mem_eq(key->translation_curves, late, 12);
    ck_assert_mem_eq(&key->rotation_curve, late[3], 4);
    dfm_motion_evaluate(binding, 5, &pose);
    /* x(s) = 3 s (1 - s) + s^3 = 1/2 at s = 0.206299...; y = s^3. */
    double s = 1 - cbrt(.5);
    ck_assert_double_eq_tol(pose.bones[0].translation[0], s * s * s, 1e-7);
    ck_assert_double_eq_tol(pose.bones[0].translation[1], 1 - s * s * s, 1e-7);
    ck_assert_double_eq_tol(pose.bones[0].translation[2], .5, 1e-12);
    expect_z_turn(0, 90 * dfm_vmd_curve_at(key->rotation_curve, .5));
    ck_assert_double_lt(pose.bones[0].rotation[2], .2);
    close_motion();
}
END_TEST

START_TEST(points_beyond_127_are_clamped) {
    static const uint8_t wild[4][4] = {{255, 0, 128, 200}, {0}, {0}, {0}};
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 0, STILL, NO_TURN, wild);
    load();
    const dfm_vmd_curve *curve = &motion->vmd.bone_keys[0].translation_curves[0];
    ck_assert_uint_eq(curve->x1, 127);
    ck_assert_uint_eq(curve->y1, 0);
    ck_assert_uint_eq(curve->x2, 127);
    ck_assert_uint_eq(curve->y2, 127);
    dfm_motion_release(motion);
}
END_TEST

/* The root by halving alone. */
static double curve_by_halving(dfm_vmd_curve c, double t) {
    long double low = 0, high = 1;
    long double x1 = c.x1 / 127.0L, x2 = c.x2 / 127.0L, y1 = c.y1 / 127.0L, y2 = c.y2 / 127.0L;
    for (int i = 0; i < 64; i++) {
        long double s = (low + high) / 2, r = 1 - s;
        if (3 * r * r * s * x1 + 3 * r * s * s * x2 + s * s * s < (long double)t)
            low = s;
        else
            high = s;
    }
    long double s = low, r = 1 - s;
    return (double)(3 * r * r * s * y1 + 3 * r * s * s * y2 + s * s * s);
}

START_TEST(curves_are_solved_to_the_root) {
    static const uint8_t points[] = {0, 1, 20, 63, 64, 100, 126, 127};
    double worst = 0;
    for (unsigned code = 0; code < 8 * 8 * 8 * 8; code++) {
        dfm_vmd_curve curve = {points[code & 7], points[code >> 3 & 7], points[code >> 6 & 7],
                               points[code >> 9]};
        ck_assert_double_eq_tol(dfm_vmd_curve_at(curve, 0), 0, 1e-12);
        ck_assert_double_eq_tol(dfm_vmd_curve_at(curve, 1), 1, 1e-12);
        for (int i = 1; i < 40; i++) {
            double t = i / 40.0;
            worst = fmax(worst, fabs(dfm_vmd_curve_at(curve, t) - curve_by_halving(curve, t)));
        }
    }
    ck_assert_double_lt(worst, 1e-6);
}
END_TEST

START_TEST(rotation_goes_the_short_way) {
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 0, STILL, NO_TURN, NULL);
    vmd_bone(&file, CENTRE, 10, STILL, (float[]){-Z90[0], -Z90[1], -Z90[2], -Z90[3]}, NULL);
    open_motion();
    dfm_motion_evaluate(binding, 5, &pose);
    expect_z_turn(0, 45);
    close_motion();
}
END_TEST

START_TEST(rotation_of_no_length_is_none_and_others_are_normalised) {
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 0, STILL, (float[]){0, 0, 0, 0}, NULL);
    vmd_bone(&file, CENTRE, 10, STILL, (float[]){0, 0, 3e-20f, 3e-20f}, NULL);
    open_motion();
    dfm_motion_evaluate(binding, 0, &pose);
    expect_z_turn(0, 0);
    dfm_motion_evaluate(binding, 10, &pose);
    expect_z_turn(0, 90);
    close_motion();
}
END_TEST

START_TEST(last_of_equal_frames_wins) {
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 5, (float[]){1, 0, 0}, NO_TURN, NULL);
    vmd_bone(&file, CENTRE, 0, (float[]){9, 0, 0}, NO_TURN, NULL);
    vmd_bone(&file, CENTRE, 5, (float[]){2, 0, 0}, NO_TURN, NULL);
    vmd_bone(&file, CENTRE, 5, (float[]){3, 0, 0}, NO_TURN, NULL);
    open_motion();
    ck_assert_uint_eq(motion->vmd.bone_key_count, 2);
    ck_assert_double_eq(x_at(5), 3);
    ck_assert_double_eq(x_at(0), 9);
    close_motion();
}
END_TEST

static void write_dance(unsigned order) {
    vmd_begin(&file);
    vmd_section(&file);
    for (unsigned i = 0; i < 60; i++) {
        unsigned key =
            (i * order) % 61 % 60; /* a permutation for orders prime to 61, or straight */
        if (order > 1)
            key = (i + order) % 60;
        const uint8_t curves[4][4] = {
            {(uint8_t)(key * 2), 5, 90, 120}, {1, 2, 3, 4}, {0}, {(uint8_t)key, 100, 20, 30}};
        vmd_bone(&file, key % 2 ? CENTRE : LEFT_LEG_IK, key * 3,
                 (float[]){(float)key, sinf((float)key), 0}, (float[]){0, sinf((float)key), 0, 1},
                 curves);
    }
    vmd_section(&file);
    for (unsigned i = 0; i < 20; i++)
        vmd_morph(&file, SMILE, (i * 7 + order) % 20, (float)((i * 7 + order) % 20) / 20);
}

START_TEST(order_of_keys_in_the_file_has_no_effect) {
    double straight[12][6 * 7];
    for (unsigned order = 1; order < 40; order += 19) {
        write_dance(order);
        open_motion();
        for (int i = 0; i < 12; i++) {
            dfm_motion_evaluate(binding, i * 13.7, &pose);
            if (order == 1)
                memcpy(straight[i], pose.bones, sizeof straight[i]);
            ck_assert_mem_eq(straight[i], pose.bones, sizeof straight[i]);
        }
        close_motion();
    }
}
END_TEST

START_TEST(ik_switches_are_steps) {
    static const char *const names[] = {LEFT_LEG_IK, "unknown"};
    vmd_begin(&file);
    for (int i = 0; i < 6; i++)
        vmd_section(&file); /* all but the last stay empty */
    vmd_property(&file, 10, names, (uint8_t[]){0, 1}, 2);
    vmd_property(&file, 20, names, (uint8_t[]){1, 0}, 2);
    vmd_property(&file, 30, names, (uint8_t[]){0, 0}, 1);
    open_motion();
    static const struct {
        double frame;
        int off;
    } steps[] = {{0, 1}, {10, 1}, {19.99, 1}, {20, 0}, {29.5, 0}, {30, 1}, {1e6, 1}};
    for (int i = 0; i < 7; i++) {
        dfm_motion_evaluate(binding, steps[i].frame, &pose);
        ck_assert_int_eq(pose.ik_off[2], steps[i].off);
        ck_assert_int_eq(pose.ik_off[0], 0);
    }
    ck_assert_uint_eq(binding->iks.matched_count, 1);
    ck_assert_uint_eq(dfm_motion_unmatched_count(binding), 1);
    ck_assert_uint_eq(motion->vmd.last_frame, 30);
    close_motion();
}
END_TEST

/* とても長い名前の頭 is 18 bytes of CP932: the first 15 end inside の's successor. */
#define LONG_15 "\x82\xc6\x82\xc4\x82\xe0\x92\xb7\x82\xa2\x96\xbc\x91\x4f\x82"
/* とても長い名前のIK in CP932. */
#define LONG_IK LONG_15 "\xccIK"

START_TEST(names_match_cut_at_15_bytes_and_up_to_the_first_nul) {
    static const char *const ik_names[] = {LONG_IK}, *const short_ik_names[] = {LONG_15};
    for (int i = 0; i < 2; i++) {
        vmd_begin(&file);
        vmd_section(&file);
        vmd_bone(&file, CENTRE, 0, (float[]){1, 0, 0}, NO_TURN, NULL);
        vmd_bone(&file, LONG_15, 0, (float[]){2, 0, 0}, NO_TURN, NULL);
        vmd_bone(&file, "?head", 0, (float[]){3, 0, 0}, NO_TURN, NULL);
        vmd_bone(&file, "", 0, (float[]){4, 0, 0}, NO_TURN, NULL);
        vmd_bone(&file, "HEAD", 0, (float[]){5, 0, 0}, NO_TURN, NULL);
        for (int k = 0; k < 5; k++)
            vmd_section(&file);
        vmd_property(&file, 0, i ? short_ik_names : ik_names, (uint8_t[]){0}, 1);
        open_motion();
        dfm_motion_evaluate(binding, 0, &pose);
        ck_assert_double_eq(pose.bones[0].translation[0], 1);
        ck_assert_double_eq(pose.bones[1].translation[0], 2);
        ck_assert_double_eq(pose.bones[3].translation[0], 3); /* what CP932 lacks is '?' there */
        ck_assert_double_eq(pose.bones[4].translation[0], 0); /* of equal names the first */
        ck_assert_uint_eq(pose.ik_off[5], 1);
        ck_assert_uint_eq(binding->bones.track_count, 5);
        ck_assert_uint_eq(binding->bones.matched_count, 3);
        ck_assert_uint_eq(dfm_motion_unmatched_count(binding), 2);
        close_motion();
    }
}
END_TEST

START_TEST(names_are_decoded_for_people) {
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, LONG_15, 0, STILL, NO_TURN, NULL);
    load();
    ck_assert_str_eq(motion->vmd.model_name.data, "モデル");
    ck_assert_str_eq(motion->vmd.bone_tracks[0].name.data, "とても長い名前\xef\xbf\xbd");
    dfm_motion_release(motion);
}
END_TEST

START_TEST(motion_that_matches_nothing_says_so_and_rests) {
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, "nobody", 0, (float[]){1, 2, 3}, Z90, NULL);
    vmd_section(&file);
    vmd_morph(&file, "nothing", 0, 1);
    open_motion();
    ck_assert_uint_eq(binding->bones.matched_count + binding->morphs.matched_count, 0);
    ck_assert_uint_eq(dfm_motion_unmatched_count(binding), 2);
    pose.bones[0].translation[0] = 99; /* whatever was there is gone */
    pose.morph_weights[0] = 99;
    pose.ik_off[2] = 1;
    pose.has_matrices = true;
    dfm_motion_evaluate(binding, 0, &pose);
    ck_assert_double_eq(pose.bones[0].translation[0], 0);
    ck_assert_double_eq(pose.bones[0].rotation[3], 1);
    ck_assert_double_eq(pose.morph_weights[0], 0);
    ck_assert_uint_eq(pose.ik_off[2], 0);
    ck_assert(!pose.has_matrices);
    close_motion();
}
END_TEST

START_TEST(cameras_lights_and_shadows_are_skipped_and_counted) {
    static const char *const names[] = {LEFT_LEG_IK};
    vmd_begin(&file);
    vmd_section(&file);
    vmd_section(&file);
    vmd_section(&file);
    vmd_filler(&file, 61);
    vmd_filler(&file, 61);
    vmd_section(&file);
    vmd_filler(&file, 28);
    vmd_section(&file);
    vmd_filler(&file, 9);
    vmd_filler(&file, 9);
    vmd_filler(&file, 9);
    vmd_section(&file);
    vmd_property(&file, 7, names, (uint8_t[]){0}, 1);
    load();
    ck_assert_uint_eq(motion->vmd.camera_key_count, 2);
    ck_assert_uint_eq(motion->vmd.light_key_count, 1);
    ck_assert_uint_eq(motion->vmd.shadow_key_count, 3);
    ck_assert_uint_eq(motion->vmd.ik_track_count, 1);
    ck_assert_uint_eq(motion->vmd.last_frame, 7);
    dfm_motion_release(motion);
}
END_TEST

START_TEST(numbers_that_are_not_finite_count_as_none_with_a_warning) {
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 3, (float[]){NAN, 1, INFINITY}, (float[]){NAN, 0, 0, 0}, NULL);
    vmd_section(&file);
    vmd_morph(&file, SMILE, 0, 1e30f);
    open_motion();
    ck_assert_str_eq(motion->warnings.items[0].code, "motion-not-finite");
    ck_assert_uint_eq(motion->warnings.items[0].count, 4);
    dfm_motion_evaluate(binding, 0, &pose);
    ck_assert_double_eq(pose.bones[0].translation[0], 0);
    ck_assert_double_eq(pose.bones[0].translation[1], 1);
    expect_z_turn(0, 0);
    ck_assert_double_eq(pose.morph_weights[0], 0);
    close_motion();
}
END_TEST

START_TEST(old_files_have_a_shorter_model_name) {
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 3, (float[]){1, 0, 0}, NO_TURN, NULL);
    memcpy(file.bytes, "Vocaloid Motion Data file", 25);
    memmove(file.bytes + 40, file.bytes + 50, file.size - 50);
    file.size -= 10;
    load();
    ck_assert_uint_eq(motion->vmd.bone_key_count, 1);
    ck_assert_str_eq(motion->vmd.bone_tracks[0].name.data, "センター");
    dfm_motion_release(motion);
}
END_TEST

static void write_everything(void) {
    static const char *const names[] = {LEFT_LEG_IK, "other"};
    vmd_begin(&file);
    vmd_section(&file);
    vmd_bone(&file, CENTRE, 0, STILL, NO_TURN, NULL);
    vmd_bone(&file, CENTRE, 9, STILL, Z90, NULL);
    vmd_section(&file);
    vmd_morph(&file, SMILE, 4, 1);
    vmd_section(&file);
    vmd_filler(&file, 61);
    vmd_section(&file);
    vmd_filler(&file, 28);
    vmd_section(&file);
    vmd_filler(&file, 9);
    vmd_section(&file);
    vmd_property(&file, 0, names, (uint8_t[]){1, 0}, 2);
}

static dfm_status load_part(size_t size, dfm_error *error) {
    uint8_t *bytes = malloc(size + !size);
    memcpy(bytes, file.bytes, size);
    *error = (dfm_error){0};
    dfm_error_clear(error);
    dfm_status status = dfm_motion_load(bytes, size, &motion, error);
    free(bytes);
    dfm_motion_release(motion);
    return status;
}

START_TEST(file_cut_at_any_byte_is_an_error_with_its_place_or_ends_between_sections) {
    write_everything();
    unsigned loaded = 0;
    for (size_t size = 0; size <= file.size; size++) {
        dfm_error error;
        dfm_status status = load_part(size, &error);
        if (status == DFM_OK) {
            loaded++;
            continue;
        }
        ck_assert_int_eq(status, DFM_ERROR_TRUNCATED);
        ck_assert_ptr_nonnull(error.section);
        ck_assert_int_ge(error.offset, 0);
        ck_assert_int_le(error.offset, (int64_t)size);
    }
    /* After the header and after each of six sections. */
    ck_assert_uint_eq(loaded, 7);
}
END_TEST

START_TEST(counts_that_lie_are_errors_before_anything_is_allocated) {
    static const uint32_t lies[] = {UINT32_MAX, INT32_MAX, 0x10000, 1000};
    write_everything();
    size_t size = file.size;
    /* The counts: behind the header, behind each section, and in the property key. */
    size_t at[] = {50, 54 + 222, 58 + 222 + 23, 0, 0, 0, 0};
    at[3] = at[2] + 4 + 61;
    at[4] = at[3] + 4 + 28;
    at[5] = at[4] + 4 + 9;
    at[6] = at[5] + 4 + 5;
    for (int i = 0; i < 7; i++) {
        for (int k = 0; k < 4; k++) {
            uint32_t kept;
            dfm_error error;
            memcpy(&kept, file.bytes + at[i], 4);
            memcpy(file.bytes + at[i], &lies[k], 4);
            ck_assert_int_eq(load_part(size, &error), DFM_ERROR_TRUNCATED);
            ck_assert_int_ge(error.offset, (int64_t)at[i]);
            memcpy(file.bytes + at[i], &kept, 4);
        }
    }
}
END_TEST

START_TEST(other_files_are_no_motions) {
    write_everything();
    file.bytes[0] = 'P';
    dfm_error error;
    ck_assert_int_eq(load_part(file.size, &error), DFM_ERROR_MALFORMED);
    ck_assert_str_eq(error.section, "header");
}
END_TEST

START_TEST(public_motions_load) {
    const char *root = getenv("DEFORMD_TEST_DATA");
    char path[1024], folder[512];
    snprintf(folder, sizeof folder, "%.400s/models/yohawing", root ? root : "../shared");
    DIR *entries = opendir(folder);
    if (!entries) {
        printf("SKIPPED: public motions (no %s)\n", folder);
        return;
    }
    unsigned files = 0;
    for (struct dirent *entry; (entry = readdir(entries));) {
        size_t length = strlen(entry->d_name);
        if (length < 4 || strcmp(entry->d_name + length - 4, ".vmd") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *stream = fopen(path, "rb");
        ck_assert_ptr_nonnull(stream);
        static uint8_t bytes[1 << 20];
        size_t size = fread(bytes, 1, sizeof bytes, stream);
        fclose(stream);
        dfm_error error = {0};
        ck_assert_msg(dfm_motion_load(bytes, size, &motion, &error) == DFM_OK, "%s: %s", path,
                      error.info);
        dfm_motion_release(motion);
        files++;
    }
    closedir(entries);
    ck_assert_uint_gt(files, 0);
}
END_TEST

START_TEST(cp932_cuts_encodes_and_decodes) {
    dfm_cp932 cp932;
    ck_assert_int_eq(dfm_cp932_open(&cp932, NULL), DFM_OK);
    uint8_t bytes[16];
    char text[64];
    ck_assert_uint_eq(dfm_cp932_encode(&cp932, "ｱ～①髙", 12, bytes, 16), 7);
    ck_assert_mem_eq(bytes, "\xb1\x81\x60\x87\x40\xfb\xfc", 7);
    ck_assert_uint_eq(dfm_cp932_encode(&cp932, "ああ", 6, bytes, 3), 3);
    ck_assert_mem_eq(bytes, "\x82\xa0\x82", 3);
    ck_assert_uint_eq(dfm_cp932_encode(&cp932, "é😀b", 7, bytes, 16), 3);
    ck_assert_mem_eq(bytes, "??b", 3);
    ck_assert_uint_eq(dfm_cp932_encode(&cp932, "", 0, bytes, 16), 0);
    size_t length = dfm_cp932_decode(&cp932, (const uint8_t *)"\x82\xa0\xff\x82", 4, text);
    ck_assert_uint_eq(length, 9);
    ck_assert_mem_eq(text, "あ\xef\xbf\xbd\xef\xbf\xbd", 9);
    for (int i = 0; i < 256; i++) { /* the room that is promised is enough for any byte */
        uint8_t pair[2] = {(uint8_t)i, (uint8_t)i};
        ck_assert_uint_le(dfm_cp932_decode(&cp932, pair, 2, text), 6);
    }
    dfm_cp932_close(&cp932);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("vmd");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, values_hold_before_the_first_and_after_the_last_key);
    tcase_add_test(tests, fractional_frames_are_between);
    tcase_add_test(tests, later_key_owns_the_curves_and_each_axis_its_own);
    tcase_add_test(tests, points_beyond_127_are_clamped);
    tcase_add_test(tests, curves_are_solved_to_the_root);
    tcase_add_test(tests, rotation_goes_the_short_way);
    tcase_add_test(tests, rotation_of_no_length_is_none_and_others_are_normalised);
    tcase_add_test(tests, last_of_equal_frames_wins);
    tcase_add_test(tests, order_of_keys_in_the_file_has_no_effect);
    tcase_add_test(tests, ik_switches_are_steps);
    tcase_add_test(tests, names_match_cut_at_15_bytes_and_up_to_the_first_nul);
    tcase_add_test(tests, names_are_decoded_for_people);
    tcase_add_test(tests, motion_that_matches_nothing_says_so_and_rests);
    tcase_add_test(tests, cameras_lights_and_shadows_are_skipped_and_counted);
    tcase_add_test(tests, numbers_that_are_not_finite_count_as_none_with_a_warning);
    tcase_add_test(tests, old_files_have_a_shorter_model_name);
    tcase_add_test(tests, file_cut_at_any_byte_is_an_error_with_its_place_or_ends_between_sections);
    tcase_add_test(tests, counts_that_lie_are_errors_before_anything_is_allocated);
    tcase_add_test(tests, other_files_are_no_motions);
    tcase_add_test(tests, public_motions_load);
    tcase_add_test(tests, cp932_cuts_encodes_and_decodes);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
