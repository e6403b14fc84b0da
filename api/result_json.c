#include "api/result_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    HEAD_BYTES = 192,     /* what stands before and behind the frames */
    ATTRIBUTE_BYTES = 24, /* "edge_scale":[ ... ], */
    NUMBER_BYTES = 17     /* "-1.23456789e-38", and what follows it */
};

size_t dfm_result_json_bound(const dfm_result_json *result) {
    const dfm_layout *layout = result->layout;
    size_t frame = 2, vertex = 0;
    for (uint32_t i = 0; i < layout->attribute_count; i++) {
        frame += ATTRIBUTE_BYTES;
        vertex += dfm_attribute_components(layout->attributes[i]) * NUMBER_BYTES + 3;
    }
    return HEAD_BYTES + (size_t)result->frame_count * (frame + 1 + result->vertex_count * vertex);
}

static char *put_text(char *out, const char *text) {
    size_t length = strlen(text);
    memcpy(out, text, length);
    return out + length;
}

static char *put_number(char *out, float value) {
    int length = snprintf(out, NUMBER_BYTES, "%.9g", (double)value);
    /* Some locales have a comma; a library that set one must not change what clients get. */
    char *comma = memchr(out, ',', (size_t)length);
    if (comma)
        *comma = '.';
    return out + length;
}

static char *put_element(char *out, const uint8_t *data, uint32_t components) {
    *out++ = '[';
    for (uint32_t i = 0; i < components; i++) {
        float value;
        memcpy(&value, data + i * sizeof value, sizeof value);
        if (i > 0)
            *out++ = ',';
        out = put_number(out, value);
    }
    *out++ = ']';
    return out;
}

static char *put_attribute(char *out, const dfm_result_json *result, uint32_t i,
                           const uint8_t *frame) {
    const dfm_layout *layout = result->layout;
    uint32_t components = dfm_attribute_components(layout->attributes[i]);
    const uint8_t *data = frame + layout->offset_bytes[i];
    *out++ = '"';
    out = put_text(out, dfm_attribute_name(layout->attributes[i]));
    out = put_text(out, "\":[");
    for (uint32_t v = 0; v < result->vertex_count; v++, data += layout->stride_bytes) {
        if (v > 0)
            *out++ = ',';
        out = put_element(out, data, components);
    }
    *out++ = ']';
    return out;
}

static char *put_frame(char *out, const dfm_result_json *result, const uint8_t *frame) {
    *out++ = '{';
    for (uint32_t i = 0; i < result->layout->attribute_count; i++) {
        if (i > 0)
            *out++ = ',';
        out = put_attribute(out, result, i, frame);
    }
    *out++ = '}';
    return out;
}

size_t dfm_result_json_write(const dfm_result_json *result, const uint8_t *frames, char *out) {
    char *at = out;
    at += sprintf(at,
                  "{\"skinner\":\"%.16s\",\"vertices\":%" PRIu32 ",\"unmatched\":%" PRIu64
                  ",\"frames\":[",
                  result->skinner, result->vertex_count, result->unmatched);
    for (uint64_t i = 0; i < result->frame_count; i++) {
        if (i > 0)
            *at++ = ',';
        at = put_frame(at, result, frames + i * result->layout->frame_bytes);
    }
    at = put_text(at, "]}");
    return (size_t)(at - out);
}
