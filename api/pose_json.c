#include "api/pose_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- numbers -------------------------------------------------------------------------------- */

bool dfm_pose_normalize(double rotation[4]) {
    double largest = 0, length2 = 0;
    for (int i = 0; i < 4; i++) {
        double size = fabs(rotation[i]);
        largest = size > largest ? size : largest;
        length2 += size * size;
    }
    if (!(largest > DFM_POSE_MIN_QUATERNION))
        return false;
    double length = sqrt(length2);
    for (int i = 0; i < 4; i++)
        rotation[i] /= length;
    return true;
}

double dfm_pose_determinant(const double matrix[12]) {
    const double *x = matrix, *y = matrix + 4, *z = matrix + 8;
    return x[0] * (y[1] * z[2] - y[2] * z[1]) - x[1] * (y[0] * z[2] - y[2] * z[0]) +
           x[2] * (y[0] * z[1] - y[1] * z[0]);
}

/* --- names ---------------------------------------------------------------------------------- */

/* What may be named in a pose: a range of the scratch's stamps. */
struct kind {
    const char *what;
    const dfm_names *names;
    uint32_t count;
    size_t stamp_first;
    int64_t previous; /* the index of the name that was read last; -1: none yet */
};

/* The name with its escapes resolved, in the body or in the scratch; NULL: no memory. */
static const char *resolve(dfm_pose_reader *reader, const dfm_json_string *key, size_t *length) {
    dfm_pose_scratch *scratch = reader->scratch;
    *length = key->length;
    if (!key->escaped)
        return key->data;
    if (scratch->text_capacity < key->length) {
        char *text = realloc(scratch->text, key->length);
        if (!text)
            return NULL;
        scratch->text = text;
        scratch->text_capacity = key->length;
    }
    *length = dfm_json_string_decode(key, scratch->text);
    return scratch->text;
}

/* "#12" is index 12; -2: not of this form, a name; -1: no such index. */
static int64_t hash_index(const char *name, size_t length, uint32_t count) {
    int64_t index = 0;
    if (length < 2 || name[0] != '#')
        return -2;
    for (size_t i = 1; i < length; i++) {
        if (name[i] < '0' || name[i] > '9')
            return -2;
        if (index < count)
            index = index * 10 + (name[i] - '0');
    }
    return index < count ? index : -1;
}

/* Copies whole characters, as many as there is room for; false: not all of them. */
static bool copy_name(char out[DFM_PROBLEM_NAME_BYTES], const char *name, size_t length) {
    size_t used = 0, whole = 0; /* whole: up to the last character's begin */
    for (size_t i = 0; i < length; i++) {
        const char plain[2] = {name[i], 0};
        const char *written = name[i] ? plain : DFM_PROBLEM_NUL;
        if (((unsigned char)name[i] & 0xC0) != 0x80)
            whole = used;
        if (used + strlen(written) >= DFM_PROBLEM_NAME_BYTES) {
            out[whole] = 0;
            return false;
        }
        memcpy(out + used, written, strlen(written));
        used += strlen(written);
    }
    out[used] = 0;
    return true;
}

static void note_unknown(dfm_pose_reader *reader, const char *name, size_t length) {
    dfm_problem *problem = reader->problem;
    if (!reader->ignore_unknown && reader->unmatched < DFM_PROBLEM_MAX_UNKNOWN) {
        dfm_problem_name *unknown = &problem->unknown[reader->unmatched];
        unknown->member = reader->member;
        unknown->frame = reader->frame;
        unknown->cut = !copy_name(unknown->name, name, length);
    }
    reader->unmatched++;
}

/* Looks the key up. False: a problem. *index -1: the model lacks it, which is noted. */
static bool find(dfm_pose_reader *reader, struct kind *kind, const dfm_json_string *key,
                 int64_t *index) {
    size_t length;
    const char *name = resolve(reader, key, &length);
    if (!name) {
        dfm_problem_set(reader->problem, DFM_PROBLEM_OUT_OF_MEMORY, "no memory for a name");
        return false;
    }
    *index = hash_index(name, length, kind->count);
    if (*index == -2)
        *index = dfm_names_find_next(kind->names, name, (uint32_t)length, kind->previous);
    if (*index < 0) {
        note_unknown(reader, name, length);
        return true;
    }
    kind->previous = *index;
    uint32_t *stamp = &reader->scratch->stamps[kind->stamp_first + (size_t)*index];
    if (*stamp == reader->scratch->generation)
        return DFM_POSE_FAIL(reader, "the same %s is given twice", kind->what);
    *stamp = reader->scratch->generation;
    return true;
}

static struct kind bones_of(const dfm_model *model) {
    return (struct kind){"bone", &model->bone_names, model->pmx.bone_count, 0, -1};
}

static struct kind morphs_of(const dfm_model *model) {
    return (struct kind){"morph", &model->morph_names, model->pmx.morph_count,
                         model->pmx.bone_count, -1};
}

static struct kind ik_of(const dfm_model *model) {
    return (struct kind){"IK bone", &model->bone_names, model->pmx.bone_count,
                         (size_t)model->pmx.bone_count + model->pmx.morph_count, -1};
}

/* --- values --------------------------------------------------------------------------------- */

static bool read_rotation(dfm_pose_reader *reader, dfm_bone_pose *bone) {
    if (!dfm_pose_read_numbers(reader, bone->rotation, 4, &reader->row))
        return false;
    return dfm_pose_normalize(bone->rotation) || DFM_POSE_FAIL(reader, "the quaternion is zero");
}

/* A bone's {"rotation": [...], "translation": [...]}. */
static bool read_bone(dfm_pose_reader *reader, dfm_bone_pose *bone, uint8_t *given) {
    static const char *const fields[] = {"rotation", "translation"};
    bool seen[2] = {false, false};
    dfm_json_string key;
    if (!dfm_json_enter_object(&reader->json))
        return dfm_pose_fail_type(reader, "an object");
    while (dfm_json_next_key(&reader->json, &key)) {
        int field = dfm_json_string_is(&key, "rotation")      ? 0
                    : dfm_json_string_is(&key, "translation") ? 1
                                                              : -1;
        if (field < 0)
            return DFM_POSE_FAIL_KEY(reader, &key, "rotation or translation expected");
        if (seen[field])
            return DFM_POSE_FAIL_KEY(reader, &key, "%s is given twice", fields[field]);
        seen[field] = true;
        reader->field = fields[field];
        if (field == 0 ? !read_rotation(reader, bone)
                       : !dfm_pose_read_numbers(reader, bone->translation, 3, &reader->row))
            return false;
        reader->field = NULL;
        *given |= field == 0 ? DFM_GIVEN_ROTATION : DFM_GIVEN_TRANSLATION;
    }
    return dfm_pose_left(reader);
}

/* Where it is marked that item `index` was given: nowhere, unless it overrides. */
static uint8_t *mark_of(uint8_t *marks, int64_t index, uint8_t *nowhere) {
    return marks && index >= 0 ? &marks[index] : nowhere;
}

static bool read_bones(dfm_pose_reader *reader, dfm_pose *pose) {
    struct kind kind = bones_of(reader->model);
    dfm_json_string key;
    if (!dfm_json_enter_object(&reader->json))
        return dfm_pose_fail_type(reader, "an object");
    while (dfm_json_next_key(&reader->json, &key)) {
        dfm_bone_pose ignored;
        uint8_t nowhere = 0, *marks = reader->overrides ? reader->overrides->bones : NULL;
        int64_t index;
        reader->name = key;
        if (!find(reader, &kind, &key, &index) ||
            !read_bone(reader, index < 0 ? &ignored : &pose->bones[index],
                       mark_of(marks, index, &nowhere)))
            return false;
        reader->name.data = NULL;
    }
    return dfm_pose_left(reader);
}

static bool read_matrix(dfm_pose_reader *reader, double matrix[12]) {
    if (!dfm_pose_read_numbers(reader, matrix, 12, &reader->column))
        return false;
    double determinant = dfm_pose_determinant(matrix);
    return determinant > DFM_POSE_MIN_DETERMINANT ||
           DFM_POSE_FAIL(reader, "the determinant is %g, more than 1e-8 expected", determinant);
}

static bool read_matrices(dfm_pose_reader *reader, dfm_pose *pose) {
    if (!dfm_json_enter_array(&reader->json))
        return dfm_pose_fail_type(reader, "an array");
    int64_t received = 0;
    for (; dfm_json_next_item(&reader->json); received++) {
        double surplus[12] = {0};
        reader->row = received;
        if (!read_matrix(reader, received < pose->bone_count ? pose->matrices[received] : surplus))
            return false;
    }
    reader->row = -1;
    if (!dfm_pose_left(reader))
        return false;
    pose->has_matrices = true;
    return received == pose->bone_count || DFM_POSE_FAIL(reader, "%u matrices expected, not %lld",
                                                         pose->bone_count, (long long)received);
}

static bool read_morphs(dfm_pose_reader *reader, dfm_pose *pose) {
    struct kind kind = morphs_of(reader->model);
    dfm_json_string key;
    if (!dfm_json_enter_object(&reader->json))
        return dfm_pose_fail_type(reader, "an object");
    while (dfm_json_next_key(&reader->json, &key)) {
        double ignored;
        uint8_t nowhere, *marks = reader->overrides ? reader->overrides->morphs : NULL;
        int64_t index;
        reader->name = key;
        if (!find(reader, &kind, &key, &index) ||
            !dfm_pose_read_number(reader, index < 0 ? &ignored : &pose->morph_weights[index]))
            return false;
        *mark_of(marks, index, &nowhere) = 1;
        reader->name.data = NULL;
    }
    return dfm_pose_left(reader);
}

static bool read_ik_names(dfm_pose_reader *reader, dfm_pose *pose) {
    struct kind kind = ik_of(reader->model);
    dfm_json_string key;
    while (dfm_json_next_key(&reader->json, &key)) {
        bool on;
        uint8_t nowhere, *marks = reader->overrides ? reader->overrides->ik : NULL;
        int64_t index;
        reader->name = key;
        if (!find(reader, &kind, &key, &index))
            return false;
        if (!dfm_json_bool(&reader->json, &on))
            return dfm_pose_fail_type(reader, "a boolean");
        if (index >= 0 && !(reader->model->pmx.bones[index].flags & DFM_BONE_IK))
            return DFM_POSE_FAIL(reader, "this bone has no IK");
        if (index >= 0)
            pose->ik_off[index] = !on;
        *mark_of(marks, index, &nowhere) = 1;
        reader->name.data = NULL;
    }
    return dfm_pose_left(reader);
}

static bool read_ik(dfm_pose_reader *reader, dfm_pose *pose) {
    bool on;
    if (dfm_json_enter_object(&reader->json))
        return read_ik_names(reader, pose);
    if (!dfm_json_bool(&reader->json, &on))
        return dfm_pose_fail_type(reader, "true, false or an object");
    if (pose->bone_count)
        memset(pose->ik_off, !on, pose->bone_count);
    if (pose->bone_count && reader->overrides)
        memset(reader->overrides->ik, 1, pose->bone_count);
    return true;
}

/* --- poses ---------------------------------------------------------------------------------- */

enum { BONES, MATRICES, MORPHS, IK, POSES, MOTION, FRAMES, OVERRIDES, MEMBER_COUNT };
static const char *const members[MEMBER_COUNT] = {"bones", "matrices", "morphs", "ik",
                                                  "poses", "motion",   "frames", "overrides"};
#define BIT(member) (1u << (member))
static const unsigned OF_A_POSE = BIT(BONES) | BIT(MATRICES) | BIT(MORPHS) | BIT(IK);
static const unsigned OF_A_MOTION = BIT(MOTION) | BIT(FRAMES) | BIT(OVERRIDES);

static int find_member(const dfm_json_string *key) {
    for (int i = 0; i < MEMBER_COUNT; i++) {
        if (dfm_json_string_is(key, members[i]))
            return i;
    }
    return -1;
}

static void next_generation(dfm_pose_scratch *scratch) {
    if (++scratch->generation == 0) { /* after 2^32 poses old stamps could pass for new ones */
        memset(scratch->stamps, 0, scratch->stamp_capacity * sizeof *scratch->stamps);
        scratch->generation = 1;
    }
}

/* What may stand beside a member: what it is part of. */
static unsigned companions(int member) {
    unsigned of_a_motion = BIT(member) & OF_A_MOTION;
    return of_a_motion ? OF_A_MOTION : BIT(member) & OF_A_POSE ? OF_A_POSE : 0;
}

/* Whether the member may stand here; `seen` are those before it, as bits. */
static bool check_member(dfm_pose_reader *reader, int member, unsigned seen,
                         const dfm_json_string *key, bool is_body) {
    if (member < 0 || (member >= POSES && !is_body))
        return DFM_POSE_FAIL_KEY(reader, key, "bones, matrices, morphs%s expected",
                                 is_body ? ", ik, poses or motion" : " or ik");
    if (seen & BIT(member))
        return DFM_POSE_FAIL_KEY(reader, key, "%s is given twice", members[member]);
    if (member == MATRICES && reader->overrides)
        return DFM_POSE_FAIL_KEY(reader, key, "matrices override nothing: they are a whole pose");
    if ((member == BONES && seen & BIT(MATRICES)) || (member == MATRICES && seen & BIT(BONES)))
        return DFM_POSE_FAIL_KEY(reader, key, "matrices stand in place of bones, not beside them");
    if (seen & BIT(POSES) || (member == POSES && seen))
        return DFM_POSE_FAIL_KEY(reader, key, "poses stands alone");
    if (seen & ~companions(member))
        return DFM_POSE_FAIL_KEY(reader, key, "beside a motion stand frames and overrides");
    return true;
}

static bool read_list(dfm_pose_reader *reader, dfm_pose *pose, dfm_pose_list *list);
static bool read_overrides(dfm_pose_reader *reader, dfm_motion_frames *motion);

static bool read_value(dfm_pose_reader *reader, int member, dfm_pose *pose, dfm_pose_list *list) {
    switch (member) {
    case BONES:
        return read_bones(reader, pose);
    case MATRICES:
        return read_matrices(reader, pose);
    case MORPHS:
        return read_morphs(reader, pose);
    case IK:
        return read_ik(reader, pose);
    case MOTION:
        return dfm_motion_json_read_id(reader, &list->motion);
    default:
        return dfm_motion_json_read_frames(reader, &list->motion);
    }
}

static bool read_member(dfm_pose_reader *reader, int member, dfm_pose *pose, dfm_pose_list *list) {
    if (member == POSES)
        return read_list(reader, pose, list);
    if (member == OVERRIDES)
        return read_overrides(reader, &list->motion);
    reader->member = members[member];
    bool good = read_value(reader, member, pose, list);
    if (good)
        reader->member = NULL;
    return good;
}

/* The members of one pose; `list`: of the body's own object, which may hold "poses" or a motion
 * instead; NULL: of one of those. */
static bool read_members(dfm_pose_reader *reader, dfm_pose *pose, dfm_pose_list *list,
                         unsigned *seen) {
    dfm_json_string key;
    next_generation(reader->scratch);
    if (!dfm_json_enter_object(&reader->json))
        return dfm_pose_fail_type(reader, "an object");
    while (dfm_json_next_key(&reader->json, &key)) {
        int member = find_member(&key);
        if (!check_member(reader, member, *seen, &key, list != NULL))
            return false;
        *seen |= BIT(member);
        if (!read_member(reader, member, pose, list))
            return false;
    }
    return dfm_pose_left(reader);
}

static bool read_pose(dfm_pose_reader *reader, dfm_pose *pose) {
    unsigned seen = 0;
    return read_members(reader, pose, NULL, &seen);
}

static bool read_overrides(dfm_pose_reader *reader, dfm_motion_frames *motion) {
    motion->overrides = dfm_overrides_create(reader->model);
    if (!motion->overrides) {
        dfm_problem_set(reader->problem, DFM_PROBLEM_OUT_OF_MEMORY, "no memory for overrides");
        return false;
    }
    reader->outer = members[OVERRIDES];
    reader->overrides = motion->overrides;
    bool good = read_pose(reader, &motion->overrides->pose);
    reader->outer = NULL;
    reader->overrides = NULL;
    return good;
}

/* Whether the body's members make a motion that is whole. */
static bool check_motion(dfm_pose_reader *reader, unsigned seen, dfm_pose_list *list) {
    list->is_motion = seen & BIT(MOTION);
    if (list->is_motion)
        list->count = 0;
    if (list->is_motion || !(seen & OF_A_MOTION))
        return true;
    reader->member = members[seen & BIT(FRAMES) ? FRAMES : OVERRIDES];
    return DFM_POSE_FAIL(reader, "there is no motion beside it");
}

static bool add_offset(dfm_pose_reader *reader, dfm_pose_list *list, size_t *capacity) {
    if (list->count == *capacity) {
        *capacity = *capacity ? *capacity * 2 : 64;
        uint32_t *offsets = realloc(list->offsets, *capacity * sizeof *offsets);
        if (!offsets) {
            dfm_problem_set(reader->problem, DFM_PROBLEM_OUT_OF_MEMORY, "no memory for poses");
            return false;
        }
        list->offsets = offsets;
    }
    list->offsets[list->count++] = (uint32_t)(reader->json.at - reader->json.begin);
    return true;
}

static bool read_list(dfm_pose_reader *reader, dfm_pose *pose, dfm_pose_list *list) {
    size_t capacity = 0;
    list->is_list = true;
    list->count = 0;
    reader->member = "poses";
    if (!dfm_json_enter_array(&reader->json))
        return dfm_pose_fail_type(reader, "an array");
    reader->member = NULL;
    while (dfm_json_next_item(&reader->json)) {
        reader->frame = (int64_t)list->count;
        dfm_pose_reset(pose);
        if (!add_offset(reader, list, &capacity) || !read_pose(reader, pose))
            return false;
    }
    reader->frame = -1;
    if (!dfm_pose_left(reader))
        return false;
    reader->member = "poses";
    bool some = list->count > 0 || DFM_POSE_FAIL(reader, "one pose or more expected");
    reader->member = NULL;
    return some;
}

static bool fail_unknown(dfm_pose_reader *reader, const char *outer) {
    dfm_problem *problem = reader->problem;
    dfm_problem_set(problem, DFM_PROBLEM_UNKNOWN_NAME,
                    "%llu name%s that the model lacks, first %s in %s; ?unknown=ignore passes over "
                    "them",
                    (unsigned long long)reader->unmatched, reader->unmatched == 1 ? "" : "s",
                    problem->unknown[0].name, problem->unknown[0].member);
    problem->unknown_count = reader->unmatched;
    const dfm_problem_name *first = &problem->unknown[0];
    dfm_json_string name = {.data = first->name, .length = strlen(first->name)};
    reader->outer = outer;
    reader->frame = first->frame;
    reader->member = first->member;
    return dfm_pose_point(reader, first->cut ? NULL : &name);
}

bool dfm_pose_json_read_body(dfm_pose_reader *reader, dfm_pose *pose, dfm_pose_list *list) {
    unsigned seen = 0;
    *list = (dfm_pose_list){.count = 1};
    dfm_motion_frames_begin(&list->motion);
    if (!read_members(reader, pose, list, &seen))
        return false;
    if (!dfm_json_finish(&reader->json))
        return dfm_pose_fail_syntax(reader);
    if (!check_motion(reader, seen, list))
        return false;
    return reader->ignore_unknown || reader->unmatched == 0 ||
           fail_unknown(reader, list->is_motion ? members[OVERRIDES] : NULL);
}

bool dfm_pose_json_read_again(dfm_pose_reader *reader, uint32_t offset, dfm_pose *pose) {
    reader->json.at = reader->json.begin + offset;
    reader->json.fresh = false;
    reader->json.depth = 0;
    reader->json.items = 0; /* they were counted when the body was read */
    dfm_pose_reset(pose);
    return read_pose(reader, pose);
}

void dfm_pose_list_free(dfm_pose_list *list) {
    free(list->offsets);
    list->offsets = NULL;
    dfm_motion_frames_free(&list->motion);
}

/* --- life ----------------------------------------------------------------------------------- */

static bool reserve(dfm_pose_scratch *scratch, const dfm_model *model) {
    size_t need = 2 * (size_t)model->pmx.bone_count + model->pmx.morph_count;
    if (need <= scratch->stamp_capacity)
        return true;
    uint32_t *stamps = calloc(need, sizeof *stamps);
    if (!stamps)
        return false;
    free(scratch->stamps);
    scratch->stamps = stamps;
    scratch->stamp_capacity = need;
    scratch->generation = 0;
    return true;
}

bool dfm_pose_json_begin(dfm_pose_reader *reader, const dfm_model *model, bool ignore_unknown,
                         dfm_pose_scratch *scratch, const void *bytes, size_t size,
                         dfm_problem *problem) {
    *reader = (dfm_pose_reader){.model = model,
                                .ignore_unknown = ignore_unknown,
                                .scratch = scratch,
                                .problem = problem,
                                .frame = -1,
                                .row = -1,
                                .column = -1};
    dfm_json_begin(&reader->json, bytes, size);
    dfm_json_limit(&reader->json, &scratch->limits);
    return reserve(scratch, model);
}

void dfm_pose_scratch_free(dfm_pose_scratch *scratch) {
    free(scratch->stamps);
    free(scratch->text);
    *scratch = (dfm_pose_scratch){0};
}
