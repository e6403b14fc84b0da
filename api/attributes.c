#include "api/attributes.h"

#include "api/response.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool fail(dfm_problem *problem, dfm_problem_code code, const char *what, const char *name,
                 size_t length) {
    dfm_problem_set(problem, code, "%s: \"%.*s\"", what, (int)(length < 64 ? length : 64), name);
    problem->parameter = "attributes";
    return false;
}

static int find_attribute(const char *name, size_t length) {
    for (int i = 0; i < DFM_ATTRIBUTE_COUNT; i++) {
        const char *known = dfm_attribute_name((dfm_attribute)i);
        if (strlen(known) == length && memcmp(known, name, length) == 0)
            return i;
    }
    return -1;
}

static bool add_attribute(dfm_layout *layout, const char *name, size_t length,
                          dfm_problem *problem) {
    int attribute = find_attribute(name, length);
    if (attribute < 0)
        return fail(problem, DFM_PROBLEM_INVALID_QUERY,
                    "position, normal, uv, uv1 to uv4 or edge_scale expected", name, length);
    for (uint32_t i = 0; i < layout->attribute_count; i++) {
        if (layout->attributes[i] == (dfm_attribute)attribute)
            return fail(problem, DFM_PROBLEM_INVALID_QUERY, "an attribute is asked for twice", name,
                        length);
    }
    layout->attributes[layout->attribute_count++] = (dfm_attribute)attribute;
    return true;
}

bool dfm_attributes_parse(const dfm_query *query, dfm_layout *layout, dfm_problem *problem) {
    static const char *const layouts[] = {"interleaved", "planar", NULL};
    static const char *const components[] = {"f32", "f16", NULL};
    *layout = (dfm_layout){0};
    int planar = dfm_query_choice(query, "layout", layouts, 0, problem);
    int component = planar < 0 ? -1 : dfm_query_choice(query, "components", components, 0, problem);
    if (component < 0)
        return false;
    layout->planar = planar;
    layout->component = component ? DFM_COMPONENT_F16 : DFM_COMPONENT_F32;
    const char *name = dfm_query_get(query, "attributes");
    if (!name)
        name = "position,normal";
    for (;;) {
        size_t length = strcspn(name, ",");
        if (!add_attribute(layout, name, length, problem))
            return false;
        if (name[length] == 0)
            return true;
        name += length + 1;
    }
}

bool dfm_attributes_finish(dfm_layout *layout, const dfm_model *model, dfm_problem *problem) {
    uint32_t additional = model->pmx.vertices.additional_uv_count;
    for (uint32_t i = 0; i < layout->attribute_count; i++) {
        dfm_attribute attribute = layout->attributes[i];
        if (attribute < DFM_ATTRIBUTE_UV1 || attribute > DFM_ATTRIBUTE_UV4 ||
            (uint32_t)(attribute - DFM_ATTRIBUTE_UV1) < additional)
            continue;
        const char *name = dfm_attribute_name(attribute);
        fail(problem, DFM_PROBLEM_MISSING_ATTRIBUTE, "the model does not have", name, strlen(name));
        return false;
    }
    dfm_layout_finish(layout, model->pmx.vertices.count);
    return true;
}

enum { TEXT_BYTES = 240 };

static void describe(const dfm_layout *layout, char text[TEXT_BYTES]) {
    int at = 0;
    for (uint32_t i = 0; i < layout->attribute_count; i++) {
        dfm_attribute attribute = layout->attributes[i];
        at += snprintf(text + at, (size_t)(TEXT_BYTES - at), "%s%s:%sx%u@%" PRIu64, i ? "," : "",
                       dfm_attribute_name(attribute),
                       layout->component == DFM_COMPONENT_F16 ? "f16" : "f32",
                       dfm_attribute_components(attribute), layout->offset_bytes[i]);
    }
    snprintf(text + at, (size_t)(TEXT_BYTES - at), "%s", layout->planar ? ";planar" : "");
}

void dfm_attributes_add_headers(const dfm_layout *layout, uint64_t frame_count,
                                const dfm_model *model, dfm_api_response *response) {
    char text[TEXT_BYTES];
    describe(layout, text);
    dfm_response_header(response, "Deformd-Frames", "%" PRIu64, frame_count);
    dfm_response_header(response, "Deformd-Vertices", "%u", model->pmx.vertices.count);
    dfm_response_header(response, "Deformd-Stride", "%u", layout->stride_bytes);
    dfm_response_header(response, "Deformd-Layout", "%s", text);
}
