/* What a pose in JSON may be, what it means, and how everything else is refused. */
#include "api/pose_json.h"
#include "tests/support_pose.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dfm_model *model;
static dfm_pose *pose;
static dfm_pose_scratch scratch;
static dfm_problem problem;
static dfm_pose_list list;
static uint64_t unmatched;

static void setup(void) {
    model = pose_model();
    pose = pose_create();
    scratch = (dfm_pose_scratch){0};
}

static void teardown(void) {
    dfm_pose_scratch_free(&scratch);
    dfm_model_release(model);
    free(pose);
}

/* From memory of exactly its size. */
static bool read_bytes(const char *text, size_t size, bool ignore_unknown) {
    dfm_pose_reader reader;
    char *body = malloc(size ? size : 1);
    memcpy(body, text, size);
    memset(&problem, 0xA5, sizeof problem);
    dfm_pose_reset(pose);
    ck_assert(dfm_pose_json_begin(&reader, model, ignore_unknown, &scratch, body, size, &problem));
    bool good = dfm_pose_json_read_body(&reader, pose, &list);
    unmatched = reader.unmatched;
    dfm_pose_list_free(&list);
    free(body);
    return good;
}

static void reads(const char *text) {
    bool good = read_bytes(text, strlen(text), false);
    ck_assert_msg(good, "%s: %s (%s)", text, problem.detail, problem.pointer);
}

static void refuses(const char *text, dfm_problem_code code, const char *pointer) {
    ck_assert_msg(!read_bytes(text, strlen(text), false), "accepted: %s", text);
    ck_assert_msg(problem.code == code, "%s: %s %s", text, dfm_problem_kinds[problem.code].code,
                  problem.detail);
    ck_assert_int_eq(problem.has_pointer, pointer != NULL);
    if (pointer)
        ck_assert_msg(strcmp(problem.pointer, pointer) == 0, "%s: pointer %s", text,
                      problem.pointer);
    ck_assert_uint_gt(strlen(problem.detail), 0);
}

static void at_rest(void) {
    for (int i = 0; i < POSE_BONES; i++) {
        ck_assert_mem_eq(pose->bones[i].rotation, ((double[4]){0, 0, 0, 1}), 4 * sizeof(double));
        ck_assert_mem_eq(pose->bones[i].translation, ((double[3]){0}), 3 * sizeof(double));
        ck_assert_int_eq(pose->ik_off[i], 0);
    }
    ck_assert_mem_eq(pose->morph_weights, ((double[POSE_MORPHS]){0}), sizeof(double) * POSE_MORPHS);
    ck_assert(!pose->has_matrices);
}

START_TEST(an_empty_object_is_the_rest_pose) {
    static const char *const texts[] = {"{}",
                                        "{\"bones\":{}}",
                                        "{\"morphs\":{},\"bones\":{}}",
                                        "{\"bones\":{\"b\":{}}}",
                                        "{\"ik\":true}",
                                        "{\"ik\":{}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        reads(texts[i]);
        at_rest();
        ck_assert(!list.is_list);
        ck_assert_uint_eq(list.count, 1);
    }
}
END_TEST

START_TEST(rotations_translations_and_weights_are_taken) {
    reads(
        "{\"bones\": {\"左ひじ\": {\"rotation\": [0, 0.6, 0, 0.8], \"translation\": [1, -2, 0.5]},"
        " \"#2\": {\"translation\": [3, 4, 5]}}, \"morphs\": {\"あ\": 0.25, \"#1\": -3}}");
    ck_assert_double_eq_tol(pose->bones[0].rotation[1], 0.6, 1e-15);
    ck_assert_double_eq_tol(pose->bones[0].rotation[3], 0.8, 1e-15);
    ck_assert_mem_eq(pose->bones[0].translation, ((double[3]){1, -2, 0.5}), 24);
    ck_assert_mem_eq(pose->bones[2].translation, ((double[3]){3, 4, 5}), 24);
    ck_assert_mem_eq(pose->morph_weights, ((double[2]){0.25, -3}), 16);
}
END_TEST

START_TEST(quaternions_are_normalised_whatever_their_length) {
    static const char *const texts[] = {"[0,3,0,4]", "[0,3e-9,0,4e-9]", "[0,3e17,0,4e17]"};
    for (size_t i = 0; i < 3; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"bones\":{\"b\":{\"rotation\":%s}}}", texts[i]);
        reads(text);
        ck_assert_double_eq_tol(pose->bones[1].rotation[1], 0.6, 1e-15);
        ck_assert_double_eq_tol(pose->bones[1].rotation[3], 0.8, 1e-15);
    }
}
END_TEST

START_TEST(names_are_found_through_escapes) {
    reads("{\"bones\":{\"\\u5de6ひ\\u3058\":{\"translation\":[1,0,0]}}}");
    ck_assert(pose->bones[0].translation[0] == 1);
    reads("{\"bones\":{\"nul\\u0000in\":{\"translation\":[2,0,0]}}}");
    ck_assert(pose->bones[5].translation[0] == 2);
    reads("{\"\\u0062ones\":{\"b\":{\"trans\\u006cation\":[3,0,0]}}}");
    ck_assert(pose->bones[1].translation[0] == 3);
    char text[4096]; /* longer than any name: the scratch grows */
    strcpy(text, "{\"bones\":{\"");
    for (int i = 0; i < 300; i++)
        strcat(text, "\\u0061");
    strcat(text, "\":{}}}");
    refuses(text, DFM_PROBLEM_UNKNOWN_NAME, "/bones");
}
END_TEST

START_TEST(of_equal_names_the_first_is_found_and_all_are_by_index) {
    reads("{\"bones\":{\"右\":{\"translation\":[1,0,0]},\"#4\":{\"translation\":[2,0,0]}}}");
    ck_assert(pose->bones[3].translation[0] == 1);
    ck_assert(pose->bones[4].translation[0] == 2);
}
END_TEST

START_TEST(ik_is_switched_for_all_or_by_name) {
    reads("{\"ik\":false}");
    ck_assert_int_eq(pose->ik_off[POSE_IK_BONE], 1);
    reads("{\"ik\":{\"b\":false}}");
    ck_assert_int_eq(pose->ik_off[POSE_IK_BONE], 1);
    reads("{\"ik\":{\"#1\":true}}");
    ck_assert_int_eq(pose->ik_off[POSE_IK_BONE], 0);
    refuses("{\"ik\":{\"b\":1}}", DFM_PROBLEM_INVALID_POSE, "/ik/b");
    refuses("{\"ik\":1}", DFM_PROBLEM_INVALID_POSE, "/ik");
    refuses("{\"ik\":null}", DFM_PROBLEM_INVALID_POSE, "/ik");
    refuses("{\"ik\":{\"左ひじ\":false}}", DFM_PROBLEM_INVALID_POSE, "/ik/左ひじ");
    refuses("{\"ik\":{\"b\":true,\"#1\":true}}", DFM_PROBLEM_INVALID_POSE, "/ik/#1");
    refuses("{\"ik\":{\"x\":true}}", DFM_PROBLEM_UNKNOWN_NAME, "/ik/x");
}
END_TEST

#define ROW "[1,0,0,0, 0,1,0,0, 0,0,1,0]"
#define ROWS ROW "," ROW "," ROW "," ROW "," ROW

START_TEST(matrices_stand_in_place_of_bones) {
    reads("{\"matrices\":[" ROWS ",[2,0,0,7, 0,2,0,8, 0,0,2,9]],\"morphs\":{\"い\":1}}");
    ck_assert(pose->has_matrices);
    ck_assert_mem_eq(pose->matrices[5], ((double[12]){2, 0, 0, 7, 0, 2, 0, 8, 0, 0, 2, 9}), 96);
    refuses("{\"matrices\":[" ROWS "]}", DFM_PROBLEM_INVALID_POSE, "/matrices");
    refuses("{\"matrices\":[" ROWS "," ROWS "]}", DFM_PROBLEM_INVALID_POSE, "/matrices");
    refuses("{\"matrices\":[" ROWS "," ROW "],\"bones\":{}}", DFM_PROBLEM_INVALID_POSE, "/bones");
    refuses("{\"bones\":{},\"matrices\":[" ROWS "," ROW "]}", DFM_PROBLEM_INVALID_POSE,
            "/matrices");
    refuses("{\"matrices\":[" ROW ",[1,0,0,0, 0,1,0,0, 0,0,1]]}", DFM_PROBLEM_INVALID_POSE,
            "/matrices/1");
    refuses("{\"matrices\":[" ROW ",[1,0,0,0, 0,1,0,0, 0,0,1e-9,0]]}", DFM_PROBLEM_INVALID_POSE,
            "/matrices/1");
    refuses("{\"matrices\":[" ROW ",[-1,0,0,0, 0,1,0,0, 0,0,1,0]]}", DFM_PROBLEM_INVALID_POSE,
            "/matrices/1");
    refuses("{\"matrices\":[[1,0,0,0, 0,true,0,0, 0,0,1,0]]}", DFM_PROBLEM_INVALID_POSE,
            "/matrices/0/5");
    refuses("{\"matrices\":[3]}", DFM_PROBLEM_INVALID_POSE, "/matrices/0");
    refuses("{\"matrices\":{}}", DFM_PROBLEM_INVALID_POSE, "/matrices");
}
END_TEST

START_TEST(wrong_values_are_pointed_at) {
    static const struct {
        const char *text, *pointer;
    } cases[] = {
        {"[]", ""},
        {"null", ""},
        {"1", ""},
        {"\"\"", ""},
        {"{\"bone\":{}}", "/bone"},
        {"{\"Bones\":{}}", "/Bones"},
        {"{\"motion\":\"x\"}", "/motion"},
        {"{\"a/b~c\":1}", "/a~1b~0c"},
        {"{\"bones\":[]}", "/bones"},
        {"{\"bones\":null}", "/bones"},
        {"{\"bones\":{\"b\":[]}}", "/bones/b"},
        {"{\"bones\":{\"b\":null}}", "/bones/b"},
        {"{\"bones\":{\"a/b~c\":0}}", "/bones/a~1b~0c"},
        {"{\"bones\":{\"b\":{\"scale\":1}}}", "/bones/b/scale"},
        {"{\"bones\":{\"b\":{\"rotation\":null}}}", "/bones/b/rotation"},
        {"{\"bones\":{\"b\":{\"rotation\":{}}}}", "/bones/b/rotation"},
        {"{\"bones\":{\"b\":{\"rotation\":[0,0,1]}}}", "/bones/b/rotation"},
        {"{\"bones\":{\"b\":{\"rotation\":[0,0,0,1,0]}}}", "/bones/b/rotation"},
        {"{\"bones\":{\"b\":{\"rotation\":[]}}}", "/bones/b/rotation"},
        {"{\"bones\":{\"b\":{\"rotation\":[0,\"0\",0,1]}}}", "/bones/b/rotation/1"},
        {"{\"bones\":{\"b\":{\"rotation\":[0,0,0,[1]]}}}", "/bones/b/rotation/3"},
        {"{\"bones\":{\"b\":{\"rotation\":[0,0,0,0]}}}", "/bones/b/rotation"},
        {"{\"bones\":{\"b\":{\"rotation\":[0,-0.0,1e-300,0]}}}", "/bones/b/rotation"},
        {"{\"bones\":{\"b\":{\"rotation\":[0,0,1e999,1]}}}", "/bones/b/rotation/2"},
        {"{\"bones\":{\"b\":{\"translation\":[0,0]}}}", "/bones/b/translation"},
        {"{\"bones\":{\"b\":{\"translation\":[0,0,0,0]}}}", "/bones/b/translation"},
        {"{\"bones\":{\"b\":{\"translation\":[0,-1e19,0]}}}", "/bones/b/translation/1"},
        {"{\"bones\":{\"b\":{\"rotation\":[0,0,0,1],\"rotation\":[0,0,0,1]}}}",
         "/bones/b/rotation"},
        {"{\"bones\":{\"b\":{},\"b\":{}}}", "/bones/b"},
        {"{\"bones\":{\"b\":{},\"\\u0062\":{}}}", "/bones/b"},
        {"{\"bones\":{\"b\":{},\"#1\":{}}}", "/bones/#1"},
        {"{\"bones\":{\"#1\":{},\"#01\":{}}}", "/bones/#01"},
        {"{\"bones\":{},\"bones\":{}}", "/bones"},
        {"{\"morphs\":[]}", "/morphs"},
        {"{\"morphs\":{\"あ\":true}}", "/morphs/あ"},
        {"{\"morphs\":{\"あ\":null}}", "/morphs/あ"},
        {"{\"morphs\":{\"あ\":1e400}}", "/morphs/あ"},
        {"{\"morphs\":{\"あ\":1,\"#0\":1}}", "/morphs/#0"},
        {"{\"ik\":true,\"ik\":false}", "/ik"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(cases[i].text, DFM_PROBLEM_INVALID_POSE, cases[i].pointer);
}
END_TEST

START_TEST(what_is_no_json_has_no_pointer_but_a_place) {
    static const char *const texts[] = {
        "{",
        "{\"bones\"",
        "{\"bones\":",
        "{\"bones\":{\"b\":{\"rotation\":[0,0,0,1}}}",
        "{\"bones\":{\"b\":{\"rotation\":[0,0,0,NaN]}}}",
        "{\"bones\":{\"b\":{\"rotation\":[0,0,0,01]}}}",
        "{\"bones\":nul}",
        "{\"bones\":{\"\xff\":{}}}",
        "{\"morphs\":{\"あ\":1},}",
        "{\"morphs\":tru",
        "{} x",
        "{\"bones\":[1,}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        refuses(texts[i], DFM_PROBLEM_INVALID_JSON, NULL);
        ck_assert_int_ge(problem.offset, 0);
        ck_assert_int_le(problem.offset, (int64_t)strlen(texts[i]));
    }
}
END_TEST

START_TEST(every_shorter_body_is_no_json) {
    static const char text[] =
        "{\"bones\":{\"b\":{\"rotation\":[0,0.5,0,1],\"translation\":[1,2,3]}},"
        "\"morphs\":{\"あ\":1e-1},\"ik\":{\"b\":false}}";
    reads(text);
    for (size_t size = 0; size < sizeof text - 1; size++) {
        ck_assert(!read_bytes(text, size, false));
        ck_assert_int_eq(problem.code, DFM_PROBLEM_INVALID_JSON);
    }
}
END_TEST

START_TEST(unknown_names_are_listed_together) {
    refuses("{\"bones\":{\"x\":{},\"b\":{},\"#6\":{}},\"morphs\":{\"#999999999999999999999\":1},"
            "\"ik\":{\"y/\\\\\":true}}",
            DFM_PROBLEM_UNKNOWN_NAME, "/bones/x");
    ck_assert_uint_eq(problem.unknown_count, 4);
    ck_assert_str_eq(problem.unknown[0].name, "x");
    ck_assert_str_eq(problem.unknown[0].member, "bones");
    ck_assert_int_eq(problem.unknown[0].frame, -1);
    ck_assert_str_eq(problem.unknown[1].name, "#6");
    ck_assert_str_eq(problem.unknown[2].member, "morphs");
    ck_assert_str_eq(problem.unknown[3].name, "y/\\");
    refuses("{\"bones\":{\"\\\\u0041\\\\\":{}}}", DFM_PROBLEM_UNKNOWN_NAME, "/bones/\\u0041\\");
    refuses("{\"bones\":{\"#\":{}}}", DFM_PROBLEM_UNKNOWN_NAME, "/bones/#");
    refuses("{\"bones\":{\"#-1\":{}}}", DFM_PROBLEM_UNKNOWN_NAME, "/bones/#-1");
    refuses("{\"bones\":{\"\":{}}}", DFM_PROBLEM_UNKNOWN_NAME, "/bones/");
    /* What is wrong besides comes first, since it would be wrong anyhow. */
    refuses("{\"bones\":{\"x\":{\"rotation\":0}}}", DFM_PROBLEM_INVALID_POSE, "/bones/x/rotation");
    refuses("{\"bones\":{\"x\":{}}", DFM_PROBLEM_INVALID_JSON, NULL);
}
END_TEST

START_TEST(more_unknown_names_than_are_listed_are_counted) {
    char text[2048] = "{\"morphs\":{";
    for (int i = 0; i < 40; i++)
        sprintf(text + strlen(text), "%s\"名%d\":0", i ? "," : "", i);
    strcat(text, "}}");
    refuses(text, DFM_PROBLEM_UNKNOWN_NAME, "/morphs/名0");
    ck_assert_uint_eq(problem.unknown_count, 40);
    ck_assert_str_eq(problem.unknown[DFM_PROBLEM_MAX_UNKNOWN - 1].name, "名15");
    ck_assert(read_bytes(text, strlen(text), true));
    ck_assert_uint_eq(unmatched, 40);
}
END_TEST

START_TEST(long_names_are_cut_at_characters) {
    char text[2048] = "{\"bones\":{\"";
    for (int i = 0; i < 200; i++)
        strcat(text, "長");
    strcat(text, "\":{}}}");
    refuses(text, DFM_PROBLEM_UNKNOWN_NAME, "/bones");
    ck_assert(problem.unknown[0].cut);
    ck_assert_uint_eq(strlen(problem.unknown[0].name), 126);
}
END_TEST

START_TEST(nul_in_a_name_is_shown) {
    refuses("{\"bones\":{\"a\\u0000b\":{}}}", DFM_PROBLEM_UNKNOWN_NAME, "/bones/a\\u0000b");
    ck_assert_str_eq(problem.unknown[0].name, "a\\u0000b");
    ck_assert_ptr_nonnull(strstr(problem.detail, "first a\\u0000b in bones"));
    refuses("{\"morphs\":{\"\\u0000\":0}}", DFM_PROBLEM_UNKNOWN_NAME, "/morphs/\\u0000");
    refuses("{\"a\\u0000/\":1}", DFM_PROBLEM_INVALID_POSE, "/a\\u0000~1");
    refuses("{\"bones\":{\"a\":{\"x\\u0000\":1}}}", DFM_PROBLEM_INVALID_POSE, "/bones/a/x\\u0000");
    char text[2048] = "{\"bones\":{\"";
    for (int i = 0; i < 50; i++)
        strcat(text, "\\u0000");
    strcat(text, "\":{}}}");
    refuses(text, DFM_PROBLEM_UNKNOWN_NAME, "/bones");
    ck_assert(problem.unknown[0].cut);
    ck_assert_uint_eq(strlen(problem.unknown[0].name), 21 * 6);
}
END_TEST

START_TEST(unknown_names_are_ignored_when_asked_for) {
    static const char text[] = "{\"bones\":{\"x\":{\"translation\":[1,2,3]},\"#9\":{}},"
                               "\"morphs\":{\"y\":4},\"ik\":{\"z\":false}}";
    ck_assert(read_bytes(text, sizeof text - 1, true));
    ck_assert_uint_eq(unmatched, 4);
    at_rest();
    ck_assert(!read_bytes("{\"bone\":{}}", 11, true)); /* keys are not names */
}
END_TEST

START_TEST(poses_are_listed_and_can_be_read_again_in_any_order) {
    static const char text[] = "{\"poses\": [ {\"morphs\":{\"あ\":1}},\n {} ,{\"ik\":false}, "
                               "{\"bones\":{\"b\":{\"translation\":[1,2,3]}}}]}";
    dfm_pose_reader reader;
    ck_assert(
        dfm_pose_json_begin(&reader, model, false, &scratch, text, sizeof text - 1, &problem));
    ck_assert(dfm_pose_json_read_body(&reader, pose, &list));
    ck_assert(list.is_list);
    ck_assert_uint_eq(list.count, 4);
    ck_assert(dfm_pose_json_read_again(&reader, list.offsets[0], pose));
    ck_assert(pose->morph_weights[0] == 1);
    ck_assert(pose->bones[1].translation[0] == 0);
    ck_assert(dfm_pose_json_read_again(&reader, list.offsets[3], pose));
    ck_assert(pose->bones[1].translation[0] == 1);
    ck_assert(dfm_pose_json_read_again(&reader, list.offsets[2], pose));
    ck_assert_int_eq(pose->ik_off[POSE_IK_BONE], 1);
    ck_assert(dfm_pose_json_read_again(&reader, list.offsets[1], pose));
    at_rest();
    dfm_pose_list_free(&list);
}
END_TEST

START_TEST(wrong_poses_in_a_list_are_pointed_at) {
    static const struct {
        const char *text, *pointer;
    } cases[] = {
        {"{\"poses\":[]}", "/poses"},
        {"{\"poses\":{}}", "/poses"},
        {"{\"poses\":null}", "/poses"},
        {"{\"poses\":[{},3]}", "/poses/1"},
        {"{\"poses\":[{},[]]}", "/poses/1"},
        {"{\"poses\":[{},{\"poses\":[]}]}", "/poses/1/poses"},
        {"{\"poses\":[{},{},{\"bones\":{\"b\":{\"rotation\":[0,0,0,0]}}}]}",
         "/poses/2/bones/b/rotation"},
        {"{\"poses\":[{}],\"bones\":{}}", "/bones"},
        {"{\"bones\":{},\"poses\":[{}]}", "/poses"},
        {"{\"poses\":[{}],\"poses\":[{}]}", "/poses"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(cases[i].text, DFM_PROBLEM_INVALID_POSE, cases[i].pointer);
    refuses("{\"poses\":[{},{\"bones\":{\"x\":{}}}]}", DFM_PROBLEM_UNKNOWN_NAME,
            "/poses/1/bones/x");
    ck_assert_int_eq(problem.unknown[0].frame, 1);
    refuses("{\"poses\":[{},]}", DFM_PROBLEM_INVALID_JSON, NULL);
    reads("{\"poses\":[{\"bones\":{\"b\":{}}},{\"bones\":{\"b\":{}}}]}"); /* not twice in one */
}
END_TEST

START_TEST(a_count_of_poses_that_wraps_does_not_confuse_duplicates) {
    reads("{\"bones\":{\"b\":{}}}");
    scratch.generation = UINT32_MAX;
    reads("{\"bones\":{\"b\":{}}}");
    refuses("{\"bones\":{\"b\":{},\"#1\":{}}}", DFM_PROBLEM_INVALID_POSE, "/bones/#1");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pose_json");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_empty_object_is_the_rest_pose);
    tcase_add_test(tests, rotations_translations_and_weights_are_taken);
    tcase_add_test(tests, quaternions_are_normalised_whatever_their_length);
    tcase_add_test(tests, names_are_found_through_escapes);
    tcase_add_test(tests, of_equal_names_the_first_is_found_and_all_are_by_index);
    tcase_add_test(tests, ik_is_switched_for_all_or_by_name);
    tcase_add_test(tests, matrices_stand_in_place_of_bones);
    tcase_add_test(tests, wrong_values_are_pointed_at);
    tcase_add_test(tests, what_is_no_json_has_no_pointer_but_a_place);
    tcase_add_test(tests, every_shorter_body_is_no_json);
    tcase_add_test(tests, unknown_names_are_listed_together);
    tcase_add_test(tests, more_unknown_names_than_are_listed_are_counted);
    tcase_add_test(tests, long_names_are_cut_at_characters);
    tcase_add_test(tests, nul_in_a_name_is_shown);
    tcase_add_test(tests, unknown_names_are_ignored_when_asked_for);
    tcase_add_test(tests, poses_are_listed_and_can_be_read_again_in_any_order);
    tcase_add_test(tests, wrong_poses_in_a_list_are_pointed_at);
    tcase_add_test(tests, a_count_of_poses_that_wraps_does_not_confuse_duplicates);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
