/* A reader of poses in JSON: where it is, and how it fails.
 *
 * Private to the readers of deform bodies (pose_json.c, motion_json.c). Functions that return false
 * have filled in reader->problem. Thread safety: a reader and its scratch belong to one thread. */
#ifndef DFM_API_POSE_READER_H
#define DFM_API_POSE_READER_H

#include "api/json_reader.h"
#include "api/problem.h"

/* Numbers of a larger magnitude are refused: products of them leave single precision. */
#define DFM_POSE_MAX_NUMBER 1e18

/* Reused from request to request; grows to the largest model and name that it has met. */
typedef struct dfm_pose_scratch {
    uint32_t *stamps; /* bones, then morphs, then IK bones: the pose that named one last */
    size_t stamp_capacity;
    uint32_t generation;
    char *text; /* a name with its escapes resolved */
    size_t text_capacity;
    dfm_json_limits limits; /* for every body */
} dfm_pose_scratch;

typedef struct dfm_pose_reader {
    dfm_json_reader json;
    const dfm_model *model;
    bool ignore_unknown; /* names that the model lacks are counted in unmatched, and no error */
    dfm_pose_scratch *scratch;
    dfm_problem *problem;
    uint64_t unmatched;
    struct dfm_overrides *overrides; /* what is given is marked here; NULL: nobody asks */
    /* Where it is, for the pointer of a problem. */
    const char *outer;    /* "overrides"; NULL = the body */
    int64_t frame;        /* index in "poses"; -1 = the body is the pose */
    const char *member;   /* "bones", ...; NULL = the pose itself */
    dfm_json_string name; /* a bone, morph or IK bone; data NULL = none */
    const char *field;    /* "rotation", "translation" */
    int64_t row, column;  /* -1 = none */
} dfm_pose_reader;

/* Points the problem to where the reader is, and to `key` in there unless NULL. Returns false. */
bool dfm_pose_point(dfm_pose_reader *reader, const dfm_json_string *key);

/* Fail with invalid-pose (printf) here, or at `key` in here. */
#define DFM_POSE_FAIL(reader, ...)                                                                 \
    (dfm_problem_set((reader)->problem, DFM_PROBLEM_INVALID_POSE, __VA_ARGS__),                    \
     dfm_pose_point((reader), NULL))
#define DFM_POSE_FAIL_KEY(reader, key, ...)                                                        \
    (dfm_problem_set((reader)->problem, DFM_PROBLEM_INVALID_POSE, __VA_ARGS__),                    \
     dfm_pose_point((reader), (key)))

/* The body is not JSON. */
bool dfm_pose_fail_syntax(dfm_pose_reader *reader);

/* What follows is no `expected`: not JSON at all, or JSON of another type. */
bool dfm_pose_fail_type(dfm_pose_reader *reader, const char *expected);

/* A container has been left: by its closing bracket (true), or because of an error. */
bool dfm_pose_left(dfm_pose_reader *reader);

/* A number within DFM_POSE_MAX_NUMBER. */
bool dfm_pose_read_number(dfm_pose_reader *reader, double *number);

/* An array of exactly `count` numbers; `position` is what a pointer calls their place. */
bool dfm_pose_read_numbers(dfm_pose_reader *reader, double *numbers, int64_t count,
                           int64_t *position);

#endif
