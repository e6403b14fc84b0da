/* Motions of public models against two independent solvers: every case of kind "motion" under
 * $DEFORMD_TEST_DATA/reference (README there). */
#include "core/motion.h"
#include "tests/support_reference.h"

#include <check.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static void load(reference_case *c, dfm_motion **motion, dfm_model **model) {
    size_t size;
    dfm_error error = {0};
    uint8_t *bytes = reference_model_file(c, "motion", &size);
    ck_assert_msg(dfm_motion_load(bytes, size, motion, &error) == DFM_OK, "%s", error.info);
    free(bytes);
    bytes = reference_model_file(c, "model", &size);
    ck_assert_msg(dfm_model_load(bytes, size, &dfm_pmx_default_limits, model, &error) == DFM_OK,
                  "%s", error.info);
    free(bytes);
}

static void motion_case(reference_case *c) {
    dfm_motion *motion;
    dfm_model *model;
    dfm_motion_binding *binding;
    load(c, &motion, &model);
    ck_assert_int_eq(dfm_motion_bind(motion, model, &binding, NULL), DFM_OK);
    uint32_t frame = 0;
    cJSON *number;
    cJSON_ArrayForEach(number, cJSON_GetObjectItemCaseSensitive(c->json, "frames")) {
        dfm_motion_evaluate(binding, number->valuedouble, &c->pose);
        memset(c->pose.ik_off, 1, c->bone_count);
        reference_compare(c, frame++);
    }
    dfm_motion_binding_free(binding);
    dfm_motion_release(motion);
    dfm_model_release(model);
}

START_TEST(bones_of_motions_lie_near_one_of_two_other_solvers) {
    reference_run("motion", motion_case);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("motion reference");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, bones_of_motions_lie_near_one_of_two_other_solvers);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
