#include "api/motion_json.h"

#include "api/pointer.h"
#include "api/query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What rounding may take off a range's last frame, in steps. */
static const double END_TOLERANCE = 1e-9;

/* Up to here every number of frames is exact in a double. */
static const double MOST_FRAMES = 9007199254740992.0;

/* How far listed frames may lie from an even spacing, in steps. */
static const double EVEN_TOLERANCE = 1e-6;

void dfm_motion_frames_begin(dfm_motion_frames *frames) {
    *frames = (dfm_motion_frames){.step = 1};
}

void dfm_motion_frames_free(dfm_motion_frames *frames) {
    free(frames->list);
    free(frames->overrides);
    dfm_motion_frames_begin(frames);
}

/* --- reading -------------------------------------------------------------------------------- */

bool dfm_motion_json_read_id(dfm_pose_reader *reader, dfm_motion_frames *frames) {
    dfm_json_string string;
    if (!dfm_json_text(&reader->json, &string))
        return dfm_pose_fail_type(reader, "a string");
    bool fits = string.length == DFM_ID_DIGITS;
    memcpy(frames->id, string.data, fits ? DFM_ID_DIGITS : 0);
    frames->id[fits ? DFM_ID_DIGITS : 0] = 0;
    return dfm_query_is_id(frames->id) ||
           DFM_POSE_FAIL(reader, "the id of a motion expected: %d lower-case hex digits",
                         DFM_ID_DIGITS);
}

static bool add_frame(dfm_pose_reader *reader, dfm_motion_frames *frames, uint64_t *capacity) {
    if (frames->count == *capacity) {
        *capacity = *capacity ? *capacity * 2 : 64;
        double *list = realloc(frames->list, *capacity * sizeof *list);
        if (!list) {
            dfm_problem_set(reader->problem, DFM_PROBLEM_OUT_OF_MEMORY, "no memory for frames");
            return false;
        }
        frames->list = list;
    }
    return dfm_pose_read_number(reader, &frames->list[frames->count]);
}

static bool read_list(dfm_pose_reader *reader, dfm_motion_frames *frames) {
    uint64_t capacity = 0;
    while (dfm_json_next_item(&reader->json)) {
        reader->row = (int64_t)frames->count;
        if (!add_frame(reader, frames, &capacity))
            return false;
        frames->count++;
    }
    reader->row = -1;
    if (!dfm_pose_left(reader))
        return false;
    return frames->count > 0 || DFM_POSE_FAIL(reader, "one frame or more expected");
}

static bool read_bound(dfm_pose_reader *reader, const dfm_json_string *key,
                       dfm_motion_frames *frames, unsigned *seen) {
    static const char *const names[] = {"start", "end", "step"};
    double *const numbers[] = {&frames->start, &frames->end, &frames->step};
    int i = 0;
    while (i < 3 && !dfm_json_string_is(key, names[i]))
        i++;
    if (i == 3)
        return DFM_POSE_FAIL_KEY(reader, key, "start, end or step expected");
    if (*seen & 1u << i)
        return DFM_POSE_FAIL_KEY(reader, key, "%s is given twice", names[i]);
    *seen |= 1u << i;
    reader->field = names[i];
    if (!dfm_pose_read_number(reader, numbers[i]))
        return false;
    if (!(frames->step > 0))
        return DFM_POSE_FAIL(reader, "a step above 0 expected");
    reader->field = NULL;
    frames->has_end = *seen & 2;
    return true;
}

bool dfm_motion_json_read_frames(dfm_pose_reader *reader, dfm_motion_frames *frames) {
    unsigned seen = 0;
    dfm_json_string key;
    if (dfm_json_enter_array(&reader->json))
        return read_list(reader, frames);
    if (!dfm_json_enter_object(&reader->json))
        return dfm_pose_fail_type(reader, "an object or an array");
    while (dfm_json_next_key(&reader->json, &key)) {
        if (!read_bound(reader, &key, frames, &seen))
            return false;
    }
    return dfm_pose_left(reader);
}

/* --- counting ------------------------------------------------------------------------------- */

static bool fail_range(dfm_problem *problem, const char *format, double start, double end) {
    dfm_problem_set(problem, DFM_PROBLEM_INVALID_POSE, format, start, end);
    dfm_pointer pointer;
    dfm_pointer_begin(&pointer, problem);
    dfm_pointer_add(&pointer, "frames");
    return false;
}

bool dfm_motion_frames_count(dfm_motion_frames *frames, uint32_t last_key, dfm_problem *problem) {
    if (frames->list)
        return true;
    if (!frames->has_end)
        frames->end = last_key;
    if (frames->end < frames->start)
        return fail_range(problem, "the frames start at %g and end at %g", frames->start,
                          frames->end);
    double steps = floor((frames->end - frames->start) / frames->step + END_TOLERANCE);
    if (!(steps < MOST_FRAMES))
        return fail_range(problem, "from %g to %g there are more than 2^53 frames", frames->start,
                          frames->end);
    frames->count = (uint64_t)steps + 1;
    return true;
}

double dfm_motion_frames_at(const dfm_motion_frames *frames, uint64_t index) {
    return frames->list ? frames->list[index] : frames->start + (double)index * frames->step;
}

bool dfm_motion_frames_step(const dfm_motion_frames *frames, double *step) {
    *step = frames->step;
    if (!frames->list || frames->count == 1)
        return true;
    double first = frames->list[0], last = frames->list[frames->count - 1];
    *step = (last - first) / (double)(frames->count - 1);
    if (!(*step > 0))
        return false;
    for (uint64_t i = 1; i < frames->count; i++) {
        if (!(fabs(frames->list[i] - (first + (double)i * *step)) <= EVEN_TOLERANCE * *step))
            return false;
    }
    return true;
}
