/* A deform's result as JSON, for looking at it:
 * {"skinner": ..., "vertices": n, "unmatched": n, "frames": [{"position": [[x, y, z], ...], ...}]}
 *
 * Numbers have 9 significant digits, which read back as the same float. Thread safety: no state. */
#ifndef DFM_API_RESULT_JSON_H
#define DFM_API_RESULT_JSON_H

#include "core/layout.h"

typedef struct dfm_result_json {
    const char *skinner;
    uint64_t unmatched;
    uint32_t vertex_count;
    uint64_t frame_count;
    const dfm_layout *layout; /* f32, interleaved */
} dfm_result_json;

/* No result takes more bytes than this. Sizes are far from overflow: the vertex data of a result in
 * JSON is bounded by DFM_JSON_RESULT_MAX_BYTES. */
size_t dfm_result_json_bound(const dfm_result_json *result);

/* Writes the result into `out` and returns its length. `frames`: frame_count x frame_bytes. */
size_t dfm_result_json_write(const dfm_result_json *result, const uint8_t *frames, char *out);

#endif
