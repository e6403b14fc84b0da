/* Any bytes as the body of a deform: what is accepted is a pose of finite numbers, is to cJSON the
 * same JSON, and reads the same a second time; what is refused says why. The first byte chooses
 * whether unknown names are ignored; the rest is the body. */
#include "api/pose_json.h"
#include "tests/support_json.h"
#include "tests/support_pose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static dfm_model *model;
static dfm_pose *pose;
static dfm_pose_scratch scratch;

static void check_pose(void) {
    for (int i = 0; i < POSE_BONES; i++) {
        const dfm_bone_pose *bone = &pose->bones[i];
        double length2 = 0;
        for (int k = 0; k < 4; k++)
            length2 += bone->rotation[k] * bone->rotation[k];
        REQUIRE(fabs(length2 - 1) < 1e-9);
        for (int k = 0; k < 3; k++)
            REQUIRE(fabs(bone->translation[k]) <= DFM_POSE_MAX_NUMBER);
        if (pose->has_matrices)
            REQUIRE(dfm_pose_determinant(pose->matrices[i]) > DFM_POSE_MIN_DETERMINANT);
    }
    for (int i = 0; i < POSE_MORPHS; i++)
        REQUIRE(fabs(pose->morph_weights[i]) <= DFM_POSE_MAX_NUMBER);
}

/* cJSON cuts numbers at 63 bytes. */
static bool has_long_number(const char *body, size_t size) {
    size_t length = 0;
    for (size_t i = 0; i < size && length < 63; i++)
        length = memchr("0123456789+-.eE", body[i], 15) ? length + 1 : 0;
    return length == 63;
}

/* cJSON takes more than JSON, except that it knows no escaped NUL and no long number. */
static void check_with_cjson(const char *body, size_t size) {
    if (memmem(body, size, "\\u0000", 6) || has_long_number(body, size))
        return;
    dfm_json_reader reader;
    cJSON *root = cJSON_ParseWithLength(body, size);
    REQUIRE(cJSON_IsObject(root));
    dfm_json_begin(&reader, body, size);
    REQUIRE(json_same_value(&reader, root) && dfm_json_finish(&reader));
    cJSON_Delete(root);
}

static void check_list(dfm_pose_reader *reader, const dfm_pose_list *list) {
    REQUIRE(list->is_motion ? list->count == 0 : list->count > 0);
    for (size_t i = 0; list->is_list && i < list->count; i++) {
        REQUIRE(dfm_pose_json_read_again(reader, list->offsets[i], pose));
        check_pose();
    }
}

static void check_problem(const dfm_problem *problem, size_t size) {
    REQUIRE(problem->detail[0] != 0);
    if (problem->code == DFM_PROBLEM_REQUEST_OVER_LIMIT)
        REQUIRE(problem->has_sizes && problem->received > problem->limit);
    if (problem->code == DFM_PROBLEM_INVALID_JSON ||
        problem->code == DFM_PROBLEM_REQUEST_OVER_LIMIT)
        REQUIRE(problem->offset >= 0 && (size_t)problem->offset <= size);
    else
        REQUIRE(problem->has_pointer && strlen(problem->pointer) < DFM_PROBLEM_POINTER_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!model) {
        model = pose_model();
        pose = pose_create();
    }
    if (size == 0)
        return 0;
    dfm_pose_reader reader;
    dfm_pose_list list;
    dfm_problem problem;
    const char *body = (const char *)data + 1;
    dfm_pose_reset(pose);
    REQUIRE(dfm_pose_json_begin(&reader, model, data[0] & 1, &scratch, body, size - 1, &problem));
    if (dfm_pose_json_read_body(&reader, pose, &list)) {
        check_pose();
        check_with_cjson(body, size - 1);
        check_list(&reader, &list);
    } else {
        check_problem(&problem, size - 1);
    }
    dfm_pose_list_free(&list);
    return 0;
}
