/* VPD: reading and applying. */
#include "core/vpd.h"
#include "tests/data/models.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static dfm_vpd vpd;
static dfm_arena arena;
static dfm_error error;

static dfm_status read_bytes(const char *text, size_t size) {
    dfm_arena_free(&arena);
    dfm_error_clear(&error);
    /* Exactly sized, so that the address sanitizer sees a read past the end. */
    uint8_t *bytes = malloc(size + !size);
    memcpy(bytes, text, size);
    dfm_status status = dfm_vpd_read(bytes, size, &arena, &vpd, &error);
    free(bytes);
    return status;
}

static void read_good(const char *text) {
    ck_assert_msg(read_bytes(text, strlen(text)) == DFM_OK, "%s", error.info);
}

static void expect_bone(uint32_t index, const char *name, double x, double y, double z, double qz,
                        double qw) {
    const dfm_vpd_bone *bone = &vpd.bones[index];
    ck_assert_str_eq(bone->name.data, name);
    ck_assert_uint_eq(bone->name.length, strlen(name));
    const double expected[7] = {x, y, z, 0, 0, qz, qw};
    for (int k = 0; k < 3; k++)
        ck_assert_double_eq_tol(bone->translation[k], expected[k], 1e-12);
    for (int k = 0; k < 4; k++)
        ck_assert_double_eq_tol(bone->rotation[k], expected[3 + k], 1e-7);
}

#define HEAD                                                                                       \
    "Vocaloid Pose Data file\r\n\r\nmiku.osm;\t\t// parent file\r\n2;\t\t\t// bones\r\n\r\n"

START_TEST(pose_of_mmd_in_cp932_with_crlf_and_comments) {
    read_good(HEAD "Bone0{\x83\x5a\x83\x93\x83\x5e\x81\x5b\r\n"
                   "  1.500000,-2.250000,0.000000;\t\t\t\t// trans x,y,z\r\n"
                   "  0.000000,0.000000,0.707107,0.707107;\t\t// Quaternion x,y,z,w\r\n"
                   "}\r\n\r\n"
                   "Bone1{\x93\xaa\r\n  0,0,0;\r\n  0,0,0,1;\r\n}\r\n\r\n");
    ck_assert_uint_eq(vpd.bone_count, 2);
    ck_assert_uint_eq(vpd.morph_count, 0);
    expect_bone(0, "センター", 1.5, -2.25, 0, M_SQRT1_2, M_SQRT1_2);
    expect_bone(1, "頭", 0, 0, 0, 0, 1);
}
END_TEST

START_TEST(names_whose_second_bytes_look_like_braces_and_backslashes) {
    /* ボ is 83 7B, ソ is 83 5C, マ is 83 7D. */
    read_good(HEAD "Bone0{\x83\x7b\x83\x5c\x83\x7d\n1,2,3;\n0,0,0,1;\n}\n");
    expect_bone(0, "ボソマ", 1, 2, 3, 0, 1);
}
END_TEST

START_TEST(utf8_with_and_without_mark) {
    read_good(HEAD "Bone0{左ひじ\n1,2,3;\n0,0,0,1;\n}\n");
    expect_bone(0, "左ひじ", 1, 2, 3, 0, 1);
    read_good("\xef\xbb\xbf" HEAD "Bone0{左ひじ\n1,2,3;\n0,0,0,1;\n}\n");
    expect_bone(0, "左ひじ", 1, 2, 3, 0, 1);
}
END_TEST

START_TEST(layout_is_taken_leniently) {
    read_good("Vocaloid Pose Data file // 1\r x / y.osm ; 99 ; "
              "Bone 7 {  left arm  // the left\r1 2 , 3 // x\r 0 0 0 2 } Bone{b\n"
              "1e1;+2;-.5\n\n//}\n0,0,-1,1}Morph0{smile\n.5\n}");
    ck_assert_uint_eq(vpd.bone_count, 2);
    expect_bone(0, "left arm", 1, 2, 3, 0, 1);
    expect_bone(1, "b", 10, 2, -.5, -M_SQRT1_2, M_SQRT1_2);
    ck_assert_uint_eq(vpd.morph_count, 1);
    ck_assert_str_eq(vpd.morphs[0].name.data, "smile");
    ck_assert_double_eq(vpd.morphs[0].weight, .5);
}
END_TEST

START_TEST(file_without_blocks_is_a_rest_pose) {
    read_good("Vocaloid Pose Data file");
    ck_assert_uint_eq(vpd.bone_count + vpd.morph_count, 0);
    read_good(HEAD);
    ck_assert_uint_eq(vpd.bone_count + vpd.morph_count, 0);
}
END_TEST

START_TEST(rotation_of_no_length_is_none) {
    read_good(HEAD "Bone0{a\n1,2,3;\n0,0,0,0;\n}\n");
    expect_bone(0, "a", 1, 2, 3, 0, 1);
}
END_TEST

static void expect_bad(const char *text, dfm_status status, const char *section, int64_t item,
                       const char *at) {
    ck_assert_int_eq(read_bytes(text, strlen(text)), status);
    ck_assert_str_eq(error.section, section);
    ck_assert_int_eq(error.item, item);
    ck_assert_int_eq(error.offset, strstr(text, at) - text);
}

START_TEST(errors_name_section_block_and_place) {
    expect_bad("Pose", DFM_ERROR_MALFORMED, "header", -1, "Pose");
    expect_bad(HEAD "Bone0{\n1", DFM_ERROR_MALFORMED, "bones", 0, "\n1");
    expect_bad(HEAD "Bone0{a\n1,2,x;", DFM_ERROR_MALFORMED, "bones", 0, "x;");
    expect_bad(HEAD "Bone0{a\n1,2,nan;", DFM_ERROR_MALFORMED, "bones", 0, "nan");
    expect_bad(HEAD "Bone0{a\n1,2,1e400;", DFM_ERROR_MALFORMED, "bones", 0, "1e400");
    expect_bad(HEAD "Bone0{a\n1,2,3;0,0,0,1;9;}", DFM_ERROR_MALFORMED, "bones", 0, "9;}");
    expect_bad(HEAD "Bone0{a\n1,2,3;0,0,0;}", DFM_ERROR_MALFORMED, "bones", 0, "}");
    expect_bad(HEAD "Morph0{a\n1}Morph1{b\n?}", DFM_ERROR_MALFORMED, "morphs", 1, "?");
}
END_TEST

static const char WHOLE[] = HEAD "Bone0{a b\n1,2,3;\n0,0,0,1;\n}\nMorph0{m\n0.5;\n}\n";

START_TEST(file_cut_at_any_byte_is_an_error_with_its_place_or_loads) {
    for (size_t size = 0; size < sizeof WHOLE; size++) {
        dfm_status status = read_bytes(WHOLE, size);
        if (status == DFM_OK)
            continue;
        ck_assert(status == DFM_ERROR_TRUNCATED || status == DFM_ERROR_MALFORMED);
        ck_assert_ptr_nonnull(error.section);
        ck_assert_int_ge(error.offset, 0);
        ck_assert_int_le(error.offset, (int64_t)size);
    }
    ck_assert_uint_eq(vpd.bone_count, 1);
    ck_assert_uint_eq(vpd.morph_count, 1);
}
END_TEST

START_TEST(nul_bytes_are_blanks) {
    char bytes[sizeof WHOLE];
    memcpy(bytes, WHOLE, sizeof WHOLE);
    *strchr(bytes, 'B') = 0;
    bytes[sizeof WHOLE - 1] = 0;
    ck_assert_int_eq(read_bytes(bytes, sizeof bytes), DFM_OK);
    ck_assert_uint_eq(vpd.bone_count, 0);
    ck_assert_uint_eq(vpd.morph_count, 1);
}
END_TEST

START_TEST(megabytes_of_braces_and_slashes_end_soon_and_ask_for_little) {
    static const char *const patterns[] = {"{",   "/ ", "Bone", "Bone{", "Bone{a\n0,0,0;0,0,0,1}",
                                           "//\n"};
    enum { SIZE = 1 << 20 };
    char *bytes = malloc(SIZE);
    for (int i = 0; i < 6; i++) {
        size_t length = strlen(patterns[i]), head = strlen(HEAD);
        memcpy(bytes, HEAD, head);
        for (size_t at = head; at < SIZE; at++)
            bytes[at] = patterns[i][(at - head) % length];
        read_bytes(bytes, SIZE);
        ck_assert_uint_lt(arena.bytes, 64ull * SIZE);
    }
    free(bytes);
}
END_TEST

START_TEST(names_set_the_models_bones_and_others_are_counted) {
    static const char *const names[] = {"a", "頭", "a"};
    dfm_pmx_bone bones[3];
    for (int i = 0; i < 3; i++)
        bones[i] = (dfm_pmx_bone){.name = model_text(names[i]),
                                  .name_en = model_text(""),
                                  .parent = -1,
                                  .tail_bone = -1,
                                  .flags = DFM_BONE_TAIL_IS_BONE};
    dfm_pmx_morph morph = {
        .name = model_text("m"), .name_en = model_text(""), .type = DFM_MORPH_VERTEX};
    dfm_text none = model_text("");
    dfm_pmx pmx = {.version = 2,
                   .name = none,
                   .name_en = none,
                   .comment = none,
                   .comment_en = none,
                   .bone_count = 3,
                   .bones = bones,
                   .morph_count = 1,
                   .morphs = &morph};
    size_t size;
    dfm_model *model;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    ck_assert_int_eq(dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, NULL), DFM_OK);
    free(bytes);
    dfm_bone_pose locals[3];
    double weight = 0;
    uint8_t ik_off[3] = {0, 1, 0};
    dfm_pose pose = {.bone_count = 3,
                     .morph_count = 1,
                     .bones = locals,
                     .morph_weights = &weight,
                     .ik_off = ik_off};
    dfm_pose_reset(&pose);
    locals[2].translation[0] = 7; /* of equal names the first is meant; others stay as they are */
    read_good(HEAD "Bone0{頭\n1,2,3;0,0,1,1;}\nBone1{b\n1,2,3;0,0,1,1;}\nBone2{a\n4,0,0;0,0,0,1}\n"
                   "Bone3{a\n5,0,0;0,0,0,1}\nMorph0{m\n.25}\nMorph1{n\n1}\n");
    ck_assert_uint_eq(dfm_vpd_apply(&vpd, model, &pose), 2);
    ck_assert_double_eq(locals[1].translation[2], 3);
    ck_assert_double_eq_tol(locals[1].rotation[2], M_SQRT1_2, 1e-12);
    ck_assert_double_eq(locals[0].translation[0], 5);
    ck_assert_double_eq(locals[2].translation[0], 7);
    ck_assert_double_eq(weight, .25);
    dfm_model_release(model);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("vpd");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, pose_of_mmd_in_cp932_with_crlf_and_comments);
    tcase_add_test(tests, names_whose_second_bytes_look_like_braces_and_backslashes);
    tcase_add_test(tests, utf8_with_and_without_mark);
    tcase_add_test(tests, layout_is_taken_leniently);
    tcase_add_test(tests, file_without_blocks_is_a_rest_pose);
    tcase_add_test(tests, rotation_of_no_length_is_none);
    tcase_add_test(tests, errors_name_section_block_and_place);
    tcase_add_test(tests, file_cut_at_any_byte_is_an_error_with_its_place_or_loads);
    tcase_add_test(tests, nul_bytes_are_blanks);
    tcase_add_test(tests, megabytes_of_braces_and_slashes_end_soon_and_ask_for_little);
    tcase_add_test(tests, names_set_the_models_bones_and_others_are_counted);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
