/* How a frame's vertex attributes lie in an output buffer.
 *
 * Interleaved: each vertex's attributes in the order asked for, tightly packed. Planar: all of the
 * first attribute, then all of the second, and so on. Little-endian, no padding, frame after frame.
 */
#ifndef DFM_CORE_LAYOUT_H
#define DFM_CORE_LAYOUT_H

#include "core/model.h"
#include "kernels/skin.h"

typedef enum dfm_attribute {
    DFM_ATTRIBUTE_POSITION,
    DFM_ATTRIBUTE_NORMAL,
    DFM_ATTRIBUTE_UV,
    DFM_ATTRIBUTE_UV1,
    DFM_ATTRIBUTE_UV2,
    DFM_ATTRIBUTE_UV3,
    DFM_ATTRIBUTE_UV4,
    DFM_ATTRIBUTE_EDGE_SCALE,
    DFM_ATTRIBUTE_COUNT
} dfm_attribute;

typedef struct dfm_layout {
    dfm_component component;
    bool planar;
    uint32_t attribute_count;
    dfm_attribute attributes[DFM_ATTRIBUTE_COUNT]; /* in order, no duplicate */
    uint64_t
        offset_bytes[DFM_ATTRIBUTE_COUNT]; /* of attributes[i]: in the vertex or in the frame */
    uint32_t stride_bytes;                 /* of a vertex, all attributes */
    uint64_t frame_bytes;                  /* vertex_count x stride_bytes */
} dfm_layout;

/* Components of an attribute: position and normal 3, uv 2, uv1..uv4 4, edge_scale 1. */
uint32_t dfm_attribute_components(dfm_attribute attribute);
const char *dfm_attribute_name(dfm_attribute attribute); /* "position", "uv1", ... */

/* Fills offsets, stride and frame_bytes from component, planar and attributes. */
void dfm_layout_finish(dfm_layout *layout, uint32_t vertex_count);

/* Where attribute i of the layout lies in a frame buffer, and its element stride. */
dfm_skin_output dfm_layout_output(const dfm_layout *layout, uint32_t i, void *frame);

/* Writes one element of `count` components, in the layout's component type. */
void dfm_layout_store(const dfm_layout *layout, const dfm_skin_output *output, uint32_t vertex,
                      const float *values, uint32_t count);

/* An attribute's values in the document, vertex after vertex, dfm_attribute_components each. The
 * document has vertices and the attribute. */
const float *dfm_layout_source(const dfm_pmx_vertices *vertices, dfm_attribute attribute);

/* Writes attribute i of the layout as it is in bind pose (position and normal included: the normal
 * as the file has it, not finite ones as 0), into a frame buffer. */
void dfm_layout_write_bind(const dfm_layout *layout, uint32_t i, const dfm_pmx_vertices *vertices,
                           void *frame);

#endif
