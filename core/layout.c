#include "core/layout.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t components;
} attributes[DFM_ATTRIBUTE_COUNT] = {
    [DFM_ATTRIBUTE_POSITION] = {"position", 3},
    [DFM_ATTRIBUTE_NORMAL] = {"normal", 3},
    [DFM_ATTRIBUTE_UV] = {"uv", 2},
    [DFM_ATTRIBUTE_UV1] = {"uv1", 4},
    [DFM_ATTRIBUTE_UV2] = {"uv2", 4},
    [DFM_ATTRIBUTE_UV3] = {"uv3", 4},
    [DFM_ATTRIBUTE_UV4] = {"uv4", 4},
    [DFM_ATTRIBUTE_EDGE_SCALE] = {"edge_scale", 1},
};

uint32_t dfm_attribute_components(dfm_attribute attribute) {
    return attributes[attribute].components;
}

const char *dfm_attribute_name(dfm_attribute attribute) {
    return attributes[attribute].name;
}

static uint32_t element_bytes(const dfm_layout *layout, uint32_t i) {
    uint32_t component_bytes = layout->component == DFM_COMPONENT_F16 ? 2 : 4;
    return component_bytes * attributes[layout->attributes[i]].components;
}

void dfm_layout_finish(dfm_layout *layout, uint32_t vertex_count) {
    layout->stride_bytes = 0;
    for (uint32_t i = 0; i < layout->attribute_count; i++) {
        uint64_t before = layout->stride_bytes;
        layout->offset_bytes[i] = layout->planar ? before * vertex_count : before;
        layout->stride_bytes += element_bytes(layout, i);
    }
    layout->frame_bytes = (uint64_t)layout->stride_bytes * vertex_count;
}

dfm_skin_output dfm_layout_output(const dfm_layout *layout, uint32_t i, void *frame) {
    return (dfm_skin_output){
        .data = (char *)frame + layout->offset_bytes[i],
        .stride_bytes = layout->planar ? element_bytes(layout, i) : layout->stride_bytes,
    };
}

void dfm_layout_store(const dfm_layout *layout, const dfm_skin_output *output, uint32_t vertex,
                      const float *values, uint32_t count) {
    char *to = (char *)output->data + (size_t)vertex * output->stride_bytes;
    if (layout->component == DFM_COMPONENT_F32) {
        memcpy(to, values, count * sizeof *values);
        return;
    }
    uint16_t half[4];
    dfm_half_from_floats(half, values, count);
    memcpy(to, half, count * sizeof *half);
}

/* An attribute's values in the document, vertex after vertex. */
const float *dfm_layout_source(const dfm_pmx_vertices *vertices, dfm_attribute attribute) {
    switch (attribute) {
    case DFM_ATTRIBUTE_POSITION:
        return vertices->position[0];
    case DFM_ATTRIBUTE_NORMAL:
        return vertices->normal[0];
    case DFM_ATTRIBUTE_UV:
        return vertices->uv[0];
    case DFM_ATTRIBUTE_EDGE_SCALE:
        return vertices->edge_scale;
    default:
        return vertices->additional_uv[attribute - DFM_ATTRIBUTE_UV1][0];
    }
}

void dfm_layout_write_bind(const dfm_layout *layout, uint32_t i, const dfm_pmx_vertices *vertices,
                           void *frame) {
    if (vertices->count == 0)
        return;
    dfm_attribute attribute = layout->attributes[i];
    uint32_t components = attributes[attribute].components;
    const float *source = dfm_layout_source(vertices, attribute);
    dfm_skin_output output = dfm_layout_output(layout, i, frame);
    for (uint32_t v = 0; v < vertices->count; v++, source += components) {
        bool finite = true;
        for (uint32_t k = 0; k < components; k++)
            finite &= isfinite(source[k]) != 0;
        const float zero[4] = {0};
        dfm_layout_store(layout, &output, v, finite ? source : zero, components);
    }
}
