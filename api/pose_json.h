/* Poses as JSON: {"bones": {...} or "matrices": [...], "morphs": {...}, "ik": ...}, straight from
 * the body's bytes into a dfm_pose.
 *
 * Wrong syntax is invalid-json (400); everything else that is wrong is a 422 with a JSON pointer.
 * Names that the model lacks are collected over the whole body and listed together.
 * Thread safety: a reader and its scratch belong to one thread. */
#ifndef DFM_API_POSE_JSON_H
#define DFM_API_POSE_JSON_H

#include "api/json_reader.h"
#include "api/problem.h"

/* Numbers of a larger magnitude are refused: products of them leave single precision. */
#define DFM_POSE_MAX_NUMBER 1e18
/* A quaternion none of whose components passes this has no direction that means anything. */
#define DFM_POSE_MIN_QUATERNION 1e-10
/* The determinant of a matrix' 3x3 must be more than this. */
#define DFM_POSE_MIN_DETERMINANT 1e-8

/* Reused from request to request; grows to the largest model and name that it has met. */
typedef struct dfm_pose_scratch {
    uint32_t *stamps; /* bones, then morphs, then IK bones: the pose that named one last */
    size_t stamp_capacity;
    uint32_t generation;
    char *text; /* a name with its escapes resolved */
    size_t text_capacity;
} dfm_pose_scratch;

void dfm_pose_scratch_free(dfm_pose_scratch *scratch);

typedef struct dfm_pose_reader {
    dfm_json_reader json;
    const dfm_model *model;
    bool ignore_unknown; /* names that the model lacks are counted in unmatched, and no error */
    dfm_pose_scratch *scratch;
    dfm_problem *problem;
    uint64_t unmatched;
    /* Where it is, for the pointer of a problem. */
    int64_t frame;      /* index in "poses"; -1 = the body is the pose */
    const char *member; /* "bones", ...; NULL = the pose itself */
    const dfm_json_string *name;
    const char *field;   /* "rotation", "translation" */
    int64_t row, column; /* -1 = none */
} dfm_pose_reader;

/* Begins on `size` bytes and makes the scratch large enough. False: no memory. */
bool dfm_pose_json_begin(dfm_pose_reader *reader, const dfm_model *model, bool ignore_unknown,
                         dfm_pose_scratch *scratch, const void *bytes, size_t size,
                         dfm_problem *problem);

/* What a body holds. */
typedef struct dfm_pose_list {
    bool is_list;      /* {"poses": [...]}; else one pose, which is in `pose` now */
    size_t count;      /* poses */
    uint32_t *offsets; /* is_list: where each begins in the body; malloc'ed, the caller frees it */
} dfm_pose_list;

/* Reads the whole body and checks every pose in it. `pose` is a reset pose of the model; after a
 * list it holds the last one. False: *problem. */
bool dfm_pose_json_read_body(dfm_pose_reader *reader, dfm_pose *pose, dfm_pose_list *list);

/* Reads one pose of a list that dfm_pose_json_read_body has accepted, from its offset. */
bool dfm_pose_json_read_again(dfm_pose_reader *reader, uint32_t offset, dfm_pose *pose);

/* Checks a quaternion and brings it to unit length; false: it is zero. */
bool dfm_pose_normalize(double rotation[4]);

/* Determinant of the 3x3 of a 3x4 row-major matrix. */
double dfm_pose_determinant(const double matrix[12]);

#endif
