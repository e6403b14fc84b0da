#include "api/result_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    HEAD_BYTES = 192, /* what stands before and behind the frames */
    ARRAY_BYTES = 24, /* "edge_scale":[ ... ], */
    NUMBER_BYTES = 17 /* "-1.23456789e-38", and what follows it */
};

void dfm_result_json_of_layout(dfm_result_json *result, const dfm_layout *layout) {
    result->elements = "vertices";
    result->array_count = layout->attribute_count;
    for (uint32_t i = 0; i < layout->attribute_count; i++)
        result->arrays[i] =
            (dfm_result_array){.name = dfm_attribute_name(layout->attributes[i]),
                               .components = dfm_attribute_components(layout->attributes[i]),
                               .offset_bytes = layout->offset_bytes[i],
                               .stride_bytes = layout->stride_bytes};
}

void dfm_result_json_of_bones(dfm_result_json *result) {
    result->elements = "bones";
    result->array_count = 1;
    result->arrays[0] = (dfm_result_array){
        .name = "matrices", .components = 12, .stride_bytes = 12 * sizeof(float)};
}

size_t dfm_result_json_bound(const dfm_result_json *result) {
    size_t frame = 2, element = 0;
    for (uint32_t i = 0; i < result->array_count; i++) {
        frame += ARRAY_BYTES;
        element += result->arrays[i].components * NUMBER_BYTES + 3;
    }
    return HEAD_BYTES + (size_t)result->frame_count * (frame + 1 + result->element_count * element);
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

static char *put_array(char *out, const dfm_result_json *result, const dfm_result_array *array,
                       const uint8_t *frame) {
    const uint8_t *data = frame + array->offset_bytes;
    *out++ = '"';
    out = put_text(out, array->name);
    out = put_text(out, "\":[");
    for (uint32_t i = 0; i < result->element_count; i++, data += array->stride_bytes) {
        if (i > 0)
            *out++ = ',';
        out = put_element(out, data, array->components);
    }
    *out++ = ']';
    return out;
}

static char *put_frame(char *out, const dfm_result_json *result, const uint8_t *frame) {
    *out++ = '{';
    for (uint32_t i = 0; i < result->array_count; i++) {
        if (i > 0)
            *out++ = ',';
        out = put_array(out, result, &result->arrays[i], frame);
    }
    *out++ = '}';
    return out;
}

size_t dfm_result_json_write(const dfm_result_json *result, const uint8_t *frames, char *out) {
    char *at = out;
    *at++ = '{';
    if (result->skinner)
        at += sprintf(at, "\"skinner\":\"%.16s\",", result->skinner);
    at += sprintf(at, "\"%s\":%" PRIu32 ",\"unmatched\":%" PRIu64 ",\"frames\":[", result->elements,
                  result->element_count, result->unmatched);
    for (uint64_t i = 0; i < result->frame_count; i++) {
        if (i > 0)
            *at++ = ',';
        at = put_frame(at, result, frames + i * result->frame_bytes);
    }
    at = put_text(at, "]}");
    return (size_t)(at - out);
}
