/* A deform's result as JSON, for looking at it:
 * {"skinner": ..., "vertices": n, "unmatched": n, "frames": [{"position": [[x, y, z], ...], ...}]}
 * or, of bones, frames that are poses to POST again:
 * {"bones": n, "unmatched": n, "frames": [{"matrices": [[...], ...]}]}
 *
 * Numbers have 9 significant digits, which read back as the same float. Thread safety: no state. */
#ifndef DFM_API_RESULT_JSON_H
#define DFM_API_RESULT_JSON_H

#include "core/layout.h"

/* One array of a frame: an element of `components` floats for each vertex or bone. */
typedef struct dfm_result_array {
    const char *name; /* static */
    uint32_t components;
    uint64_t offset_bytes; /* of the first element in the frame */
    uint32_t stride_bytes;
} dfm_result_array;

typedef struct dfm_result_json {
    const char *skinner;  /* NULL: none ran */
    const char *elements; /* "vertices" or "bones" */
    uint32_t element_count;
    uint64_t unmatched;
    uint64_t frame_count, frame_bytes;
    uint32_t array_count;
    dfm_result_array arrays[DFM_ATTRIBUTE_COUNT];
} dfm_result_json;

/* Take the arrays of a layout (f32, interleaved), or of bone matrices. */
void dfm_result_json_of_layout(dfm_result_json *result, const dfm_layout *layout);
void dfm_result_json_of_bones(dfm_result_json *result);

/* No result takes more bytes than this. Sizes are far from overflow: the raw form of a result in
 * JSON, and its number of frames, are bounded by DFM_JSON_RESULT_MAX_BYTES. */
size_t dfm_result_json_bound(const dfm_result_json *result);

/* Writes the result into `out` and returns its length. `frames`: frame_count x frame_bytes. */
size_t dfm_result_json_write(const dfm_result_json *result, const uint8_t *frames, char *out);

#endif
