/* Poses as raw little-endian float32, frame after frame:
 * application/x-deformd-pose: bone_count x (qx qy qz qw tx ty tz), then morph_count weights;
 * application/x-deformd-matrices: bone_count x 12, as ?output=bones writes them.
 *
 * A problem names the frame (`item`) and the byte (`offset`). Thread safety: no state. */
#ifndef DFM_API_POSE_BINARY_H
#define DFM_API_POSE_BINARY_H

#include "api/problem.h"

typedef enum dfm_pose_format { DFM_POSE_FORMAT_LOCAL, DFM_POSE_FORMAT_MATRICES } dfm_pose_format;

/* Bytes of one frame; 0 for a model that has nothing to pose. */
uint64_t dfm_pose_binary_frame_bytes(const dfm_model *model, dfm_pose_format format);

/* Counts the frames; false (422): the size is no whole number of them. */
bool dfm_pose_binary_count(const dfm_model *model, dfm_pose_format format, uint64_t size,
                           uint64_t *frame_count, dfm_problem *problem);

/* Reads frame `frame` of the body into a reset pose; false (422): a number that is not finite (or
 * beyond 1e18), a zero quaternion, a determinant of 1e-8 or less. */
bool dfm_pose_binary_read(const dfm_model *model, dfm_pose_format format, const uint8_t *bytes,
                          uint64_t frame, dfm_pose *pose, dfm_problem *problem);

#endif
