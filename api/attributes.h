/* Which attributes a client wants and how they lie: ?attributes=, ?layout=, ?components= to a
 * dfm_layout, and a layout to the Deformd-Layout header. Thread safety: no state. */
#ifndef DFM_API_ATTRIBUTES_H
#define DFM_API_ATTRIBUTES_H

#include "api/query.h"
#include "core/layout.h"

/* Fills in component, planar and attributes (position, normal where none are named). False:
 * *problem (400: an unknown word, a duplicate). */
bool dfm_attributes_parse(const dfm_query *query, dfm_layout *layout, dfm_problem *problem);

/* Checks that the model has them, and fills in the rest of the layout. False: *problem (422). */
bool dfm_attributes_finish(dfm_layout *layout, const dfm_model *model, dfm_problem *problem);

/* Adds Deformd-Frames, -Vertices, -Stride and -Layout ("position:f32x3@0,normal:f32x3@12", with
 * ";planar" behind where it is). */
void dfm_attributes_add_headers(const dfm_layout *layout, uint64_t frame_count,
                                const dfm_model *model, dfm_api_response *response);

#endif
