/* What a deform's query and Accept header ask for. Thread safety: no state. */
#ifndef DFM_API_WANTED_H
#define DFM_API_WANTED_H

#include "api/attributes.h"
#include "api/frames.h"

typedef enum dfm_result_format {
    DFM_RESULT_RAW,
    DFM_RESULT_JSON,
    DFM_RESULT_PC2,
    DFM_RESULT_MDD
} dfm_result_format;

typedef enum dfm_output { DFM_OUTPUT_VERTICES, DFM_OUTPUT_BONES } dfm_output;

typedef struct dfm_wanted {
    dfm_output output;
    dfm_layout layout; /* of vertices; not finished: that takes the model */
    dfm_result_format format;
    double scale; /* of point caches */
    dfm_ik_switch ik;
    bool ignore_unknown;
} dfm_wanted;

/* By dfm_result_format; NULL past the last. */
extern const char *const dfm_result_media[];

/* `accept` NULL: any. What would have no effect on the form asked for is an error, so that nobody
 * thinks it had one. False: *problem (400). */
bool dfm_wanted_read(dfm_wanted *wanted, const dfm_query *query, const char *accept,
                     dfm_problem *problem);

#endif
