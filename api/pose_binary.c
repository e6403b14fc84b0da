#include "api/pose_binary.h"

#include "api/pose_json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { FLOATS_A_BONE = 7, FLOATS_A_MATRIX = 12 };

uint64_t dfm_pose_binary_frame_bytes(const dfm_model *model, dfm_pose_format format) {
    uint64_t bones = model->pmx.bone_count, morphs = model->pmx.morph_count;
    uint64_t floats = format == DFM_POSE_FORMAT_MATRICES ? bones * FLOATS_A_MATRIX
                                                         : bones * FLOATS_A_BONE + morphs;
    return floats * sizeof(float);
}

bool dfm_pose_binary_count(const dfm_model *model, dfm_pose_format format, uint64_t size,
                           uint64_t *frame_count, dfm_problem *problem) {
    uint64_t frame_bytes = dfm_pose_binary_frame_bytes(model, format);
    if (frame_bytes > 0 && size > 0 && size % frame_bytes == 0) {
        *frame_count = size / frame_bytes;
        return true;
    }
    dfm_problem_set(problem, DFM_PROBLEM_INVALID_LENGTH,
                    "%" PRIu64 " bytes are no whole number of frames of %" PRIu64
                    " bytes (%u bones, %u morphs)",
                    size, frame_bytes, model->pmx.bone_count, model->pmx.morph_count);
    problem->has_sizes = true;
    problem->limit = frame_bytes;
    problem->received = size;
    return false;
}

/* Where a read is: the body, and the frame for a problem. */
struct cursor {
    const uint8_t *begin, *at;
    uint64_t frame;
    dfm_problem *problem;
};

static bool fail(const struct cursor *cursor, size_t back_bytes, const char *what) {
    dfm_problem_set(cursor->problem, DFM_PROBLEM_INVALID_POSE, "frame %" PRIu64 ": %s",
                    cursor->frame, what);
    cursor->problem->item = (int64_t)cursor->frame;
    cursor->problem->offset = (int64_t)(cursor->at - cursor->begin) - (int64_t)back_bytes;
    return false;
}

static bool take(struct cursor *cursor, double *numbers, size_t count) {
    for (size_t i = 0; i < count; i++, cursor->at += sizeof(float)) {
        float number;
        memcpy(&number, cursor->at, sizeof number);
        if (!(fabsf(number) <= (float)DFM_POSE_MAX_NUMBER))
            return fail(cursor, 0, "a finite number within 1e18 expected");
        numbers[i] = (double)number;
    }
    return true;
}

static bool take_local(struct cursor *cursor, dfm_pose *pose) {
    for (uint32_t i = 0; i < pose->bone_count; i++) {
        dfm_bone_pose *bone = &pose->bones[i];
        if (!take(cursor, bone->rotation, 4))
            return false;
        if (!dfm_pose_normalize(bone->rotation))
            return fail(cursor, 4 * sizeof(float), "the quaternion is zero");
        if (!take(cursor, bone->translation, 3))
            return false;
    }
    return take(cursor, pose->morph_weights, pose->morph_count);
}

static bool take_matrices(struct cursor *cursor, dfm_pose *pose) {
    pose->has_matrices = true;
    for (uint32_t i = 0; i < pose->bone_count; i++) {
        if (!take(cursor, pose->matrices[i], FLOATS_A_MATRIX))
            return false;
        if (!(dfm_pose_determinant(pose->matrices[i]) > DFM_POSE_MIN_DETERMINANT))
            return fail(cursor, FLOATS_A_MATRIX * sizeof(float),
                        "the determinant of a matrix is 1e-8 or less");
    }
    return true;
}

bool dfm_pose_binary_read(const dfm_model *model, dfm_pose_format format, const uint8_t *bytes,
                          uint64_t frame, dfm_pose *pose, dfm_problem *problem) {
    struct cursor cursor = {.begin = bytes,
                            .at = bytes + frame * dfm_pose_binary_frame_bytes(model, format),
                            .frame = frame,
                            .problem = problem};
    return format == DFM_POSE_FORMAT_MATRICES ? take_matrices(&cursor, pose)
                                              : take_local(&cursor, pose);
}
