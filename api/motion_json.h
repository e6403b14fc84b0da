/* Frames of a motion in a deform body: {"motion": id, "frames": {"start", "end", "step"} or [...],
 * "overrides": pose}.
 *
 * Thread safety: no state; a dfm_motion_frames belongs to one request, and is constant once it is
 * counted. */
#ifndef DFM_API_MOTION_JSON_H
#define DFM_API_MOTION_JSON_H

#include "api/overrides.h"
#include "api/pose_reader.h"

typedef struct dfm_motion_frames {
    char id[DFM_ID_DIGITS + 1]; /* of the motion */
    double *list;               /* frames as listed, `count`; malloc'ed; NULL: a range */
    bool has_end;               /* else `end` is the motion's last key */
    double start, end, step;    /* of a range; step > 0 */
    uint64_t count;             /* of a range: set by dfm_motion_frames_count */
    dfm_overrides *overrides;   /* NULL: none */
} dfm_motion_frames;

/* From frame 0 to the last key, one by one. */
void dfm_motion_frames_begin(dfm_motion_frames *frames);
void dfm_motion_frames_free(dfm_motion_frames *frames);

/* Read the value of "motion" and of "frames". False: *reader->problem. */
bool dfm_motion_json_read_id(dfm_pose_reader *reader, dfm_motion_frames *frames);
bool dfm_motion_json_read_frames(dfm_pose_reader *reader, dfm_motion_frames *frames);

/* Counts a range: floor((end - start) / step + 1e-9) + 1, `end` included. False: *problem (422), it
 * ends before it starts, or has more frames than can be numbered. */
bool dfm_motion_frames_count(dfm_motion_frames *frames, uint32_t last_key, dfm_problem *problem);

/* The frame (30 a second, may be fractional) of index < count. */
double dfm_motion_frames_at(const dfm_motion_frames *frames, uint64_t index);

/* How far the frames lie apart; false: not evenly, or not forward. `step` of a single frame is that
 * of the range, or 1. */
bool dfm_motion_frames_step(const dfm_motion_frames *frames, double *step);

#endif
