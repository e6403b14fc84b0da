/* Poses as JSON: {"bones": {...} or "matrices": [...], "morphs": {...}, "ik": ...}, straight from
 * the body's bytes into a dfm_pose; and the bodies of deform, which are a pose, {"poses": [...]} or
 * frames of a motion (motion_json.h).
 *
 * Wrong syntax is invalid-json (400); everything else that is wrong is a 422 with a JSON pointer.
 * Names that the model lacks are collected over the whole body and listed together.
 * Thread safety: a reader and its scratch belong to one thread. */
#ifndef DFM_API_POSE_JSON_H
#define DFM_API_POSE_JSON_H

#include "api/motion_json.h"

/* A quaternion none of whose components passes this has no direction that means anything. */
#define DFM_POSE_MIN_QUATERNION 1e-10
/* The determinant of a matrix' 3x3 must be more than this. */
#define DFM_POSE_MIN_DETERMINANT 1e-8

void dfm_pose_scratch_free(dfm_pose_scratch *scratch);

/* Begins on `size` bytes and makes the scratch large enough. False: no memory. */
bool dfm_pose_json_begin(dfm_pose_reader *reader, const dfm_model *model, bool ignore_unknown,
                         dfm_pose_scratch *scratch, const void *bytes, size_t size,
                         dfm_problem *problem);

/* What a body holds. */
typedef struct dfm_pose_list {
    bool is_list;      /* {"poses": [...]} */
    bool is_motion;    /* {"motion": ...}; else, and no list: one pose, which is in `pose` now */
    size_t count;      /* poses; of a motion 0 */
    uint32_t *offsets; /* is_list: where each begins in the body; malloc'ed */
    dfm_motion_frames motion; /* is_motion; not counted yet */
} dfm_pose_list;

void dfm_pose_list_free(dfm_pose_list *list);

/* Reads the whole body and checks every pose in it. `pose` is a reset pose of the model; after a
 * list it holds the last one. False: *problem. Free the list in both cases. */
bool dfm_pose_json_read_body(dfm_pose_reader *reader, dfm_pose *pose, dfm_pose_list *list);

/* Reads one pose of a list that dfm_pose_json_read_body has accepted, from its offset. */
bool dfm_pose_json_read_again(dfm_pose_reader *reader, uint32_t offset, dfm_pose *pose);

/* Checks a quaternion of numbers within DFM_POSE_MAX_NUMBER and brings it to unit length; false: it
 * is zero. */
bool dfm_pose_normalize(double rotation[4]);

/* Determinant of the 3x3 of a 3x4 row-major matrix. */
double dfm_pose_determinant(const double matrix[12]);

#endif
