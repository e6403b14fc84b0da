/* What can go wrong, in the form that clients get: RFC 9457 problem details.
 *
 * The catalogue is one table (code, status, title); `type` is /problems/<code> and stable. This
 * file is also the one place where a dfm_status of core becomes an HTTP status.
 * Thread safety: no state; a dfm_problem belongs to one request. */
#ifndef DFM_API_PROBLEM_H
#define DFM_API_PROBLEM_H

#include "api/api.h"

typedef enum dfm_problem_code {
    DFM_PROBLEM_BAD_REQUEST,
    DFM_PROBLEM_INVALID_QUERY,
    DFM_PROBLEM_INVALID_HEADER,
    DFM_PROBLEM_INVALID_JSON,
    DFM_PROBLEM_UNAUTHORIZED,
    DFM_PROBLEM_FORBIDDEN,
    DFM_PROBLEM_NOT_FOUND,
    DFM_PROBLEM_MODEL_NOT_FOUND,
    DFM_PROBLEM_MODEL_EVICTED,
    DFM_PROBLEM_MOTION_NOT_FOUND,
    DFM_PROBLEM_MOTION_EVICTED,
    DFM_PROBLEM_METHOD_NOT_ALLOWED,
    DFM_PROBLEM_NOT_ACCEPTABLE,
    DFM_PROBLEM_ID_CONFLICT,
    DFM_PROBLEM_PRECONDITION_FAILED,
    DFM_PROBLEM_BODY_TOO_LARGE,
    DFM_PROBLEM_RESULT_TOO_LARGE,
    DFM_PROBLEM_UNSUPPORTED_MEDIA_TYPE,
    DFM_PROBLEM_INVALID_MODEL,
    DFM_PROBLEM_INVALID_MOTION,
    DFM_PROBLEM_INVALID_VPD,
    DFM_PROBLEM_MODEL_OVER_LIMIT,
    DFM_PROBLEM_REQUEST_OVER_LIMIT,
    DFM_PROBLEM_INVALID_SETTINGS,
    DFM_PROBLEM_INVALID_POSE,
    DFM_PROBLEM_UNKNOWN_NAME,
    DFM_PROBLEM_INVALID_LENGTH,
    DFM_PROBLEM_MISSING_ATTRIBUTE,
    DFM_PROBLEM_BUSY,
    DFM_PROBLEM_NOT_READY,
    DFM_PROBLEM_OUT_OF_MEMORY,
    DFM_PROBLEM_OPENCL_UNAVAILABLE,
    DFM_PROBLEM_CP932_UNAVAILABLE,
    DFM_PROBLEM_BACKEND_FAILED,
    DFM_PROBLEM_STORE_FAILED,
    DFM_PROBLEM_STORE_CORRUPT,
    DFM_PROBLEM_DEADLINE_PASSED,
    DFM_PROBLEM_NO_ROOM,
    DFM_PROBLEM_STORE_FULL,
    DFM_PROBLEM_COUNT
} dfm_problem_code;

typedef struct dfm_problem_kind {
    const char *code; /* last part of `type` */
    int status;
    const char *title;
    int retry_after_s; /* Retry-After; 0 = none */
} dfm_problem_kind;

/* DFM_PROBLEM_COUNT rows, by code. */
extern const dfm_problem_kind dfm_problem_kinds[];

enum {
    DFM_PROBLEM_DETAIL_BYTES = 400,
    DFM_PROBLEM_POINTER_BYTES = 400,
    DFM_PROBLEM_MAX_UNKNOWN = 16,
    DFM_PROBLEM_NAME_BYTES = 128
};

/* What stands for a NUL in names and pointers, which would end there for many a reader. */
#define DFM_PROBLEM_NUL "\\u0000"

/* A name in a pose that the model lacks. */
typedef struct dfm_problem_name {
    const char *member; /* "bones", "morphs", "ik", of the pose or the overrides */
    int64_t frame;      /* of `poses`; -1 = a single pose */
    bool cut;           /* at a character, because it is longer than this: */
    char name[DFM_PROBLEM_NAME_BYTES];
} dfm_problem_name;

typedef struct dfm_problem {
    dfm_problem_code code;
    char detail[DFM_PROBLEM_DETAIL_BYTES];   /* one English sentence */
    char pointer[DFM_PROBLEM_POINTER_BYTES]; /* JSON pointer (RFC 6901) if has_pointer */
    bool has_pointer, has_sizes;
    const char *section;      /* of a file, or NULL */
    const char *parameter;    /* of the query, static, or NULL */
    int64_t item, offset;     /* -1 = none */
    uint64_t limit, received; /* if has_sizes */
    uint64_t unknown_count;   /* names that the model lacks, of which the first ones are listed */
    dfm_problem_name unknown[DFM_PROBLEM_MAX_UNKNOWN];
} dfm_problem;

/* Sets code and detail (printf), and clears all the rest but the list of names behind its count. */
void dfm_problem_set(dfm_problem *problem, dfm_problem_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What a failure of core was about: some statuses mean different things. */
typedef enum dfm_problem_subject {
    DFM_SUBJECT_MODEL_FILE,  /* an upload */
    DFM_SUBJECT_MODEL,       /* a model that is here, or its settings; CONFLICT is If-Match */
    DFM_SUBJECT_POSE,        /* a deform */
    DFM_SUBJECT_MOTION_FILE, /* an upload of a VMD file */
    DFM_SUBJECT_MOTION,      /* a motion that is here */
    DFM_SUBJECT_VPD          /* a deform's body */
} dfm_problem_subject;

void dfm_problem_from_error(dfm_problem *problem, dfm_problem_subject subject,
                            const dfm_error *error);

/* Of a reader that stopped at an error: at line and column, or over a limit. */
void dfm_problem_from_json(dfm_problem *problem, const dfm_json_reader *json);

/* Makes the whole response out of it. Never fails: without memory the body is a fixed text. */
void dfm_problem_respond(const dfm_problem *problem, const dfm_api_request *request,
                         dfm_api_response *response);

#endif
