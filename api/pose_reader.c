#include "api/pose_reader.h"

#include "api/pointer.h"

#include <math.h>

bool dfm_pose_point(dfm_pose_reader *reader, const dfm_json_string *key) {
    dfm_pointer pointer;
    dfm_pointer_begin(&pointer, reader->problem);
    dfm_pointer_add(&pointer, reader->outer);
    dfm_pointer_add(&pointer, reader->frame >= 0 ? "poses" : NULL);
    dfm_pointer_add_index(&pointer, reader->frame);
    dfm_pointer_add(&pointer, reader->member);
    if (reader->name.data)
        dfm_pointer_add_string(&pointer, &reader->name);
    dfm_pointer_add(&pointer, reader->field);
    dfm_pointer_add_index(&pointer, reader->row);
    dfm_pointer_add_index(&pointer, reader->column);
    if (key)
        dfm_pointer_add_string(&pointer, key);
    return false;
}

bool dfm_pose_fail_syntax(dfm_pose_reader *reader) {
    dfm_problem_from_json(reader->problem, &reader->json);
    return false;
}

bool dfm_pose_fail_type(dfm_pose_reader *reader, const char *expected) {
    if (reader->json.error)
        return dfm_pose_fail_syntax(reader);
    dfm_json_type type = dfm_json_peek(&reader->json);
    if (!dfm_json_skip(&reader->json))
        return dfm_pose_fail_syntax(reader);
    return DFM_POSE_FAIL(reader, "%s expected, not %s", expected, dfm_json_type_name(type));
}

bool dfm_pose_left(dfm_pose_reader *reader) {
    return reader->json.error ? dfm_pose_fail_syntax(reader) : true;
}

static bool is_small(double number) {
    return fabs(number) <= DFM_POSE_MAX_NUMBER;
}

static bool fail_large(dfm_pose_reader *reader) {
    return DFM_POSE_FAIL(reader, "a number within 1e18 expected");
}

bool dfm_pose_read_number(dfm_pose_reader *reader, double *number) {
    if (!dfm_json_number(&reader->json, number))
        return dfm_pose_fail_type(reader, "a number");
    return is_small(*number) || fail_large(reader);
}

bool dfm_pose_read_numbers(dfm_pose_reader *reader, double *numbers, int64_t count,
                           int64_t *position) {
    if (!dfm_json_enter_array(&reader->json))
        return dfm_pose_fail_type(reader, "an array");
    int64_t received = (int64_t)dfm_json_numbers(&reader->json, numbers, (size_t)count);
    for (int64_t i = 0; i < received; i++) {
        *position = i;
        if (!is_small(numbers[i]))
            return fail_large(reader);
    }
    for (; dfm_json_next_item(&reader->json); received++) {
        double surplus;
        *position = received;
        if (!dfm_pose_read_number(reader, received < count ? &numbers[received] : &surplus))
            return false;
    }
    *position = -1;
    if (!dfm_pose_left(reader))
        return false;
    return received == count || DFM_POSE_FAIL(reader, "%lld numbers expected, not %lld",
                                              (long long)count, (long long)received);
}
