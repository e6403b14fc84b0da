/* The figure: a mannequin of tubes along bent paths, closed at both ends, on a rig as MMD's
 * characters have it. Lengths in units; the model faces -Z, +X is its left. */
#include "tests/data/build.h"
#include "tests/data/models.h"

#include <math.h>
#include <string.h>

enum { MAX_VERTICES = 6000, MAX_SDEF = 1500, MAX_STATIONS = 13, MAX_ZONES = 8 };

/* --- the rig ------------------------------------------------------------------------------ */

/* A bone of the middle, or, without 左 or 右 in front, one of both sides, given for the left. */
struct bone_row {
    const char *name, *name_en, *parent;
    float position[3];
    uint16_t flags; /* besides those that every bone has */
    const char *append_source;
    float append_ratio;
};

static const struct bone_row middle_bones[] = {
    {"全ての親", "mother", NULL, {0, 0, 0}, DFM_BONE_MOVABLE, NULL, 0},
    {"センター", "center", "全ての親", {0, 9, 0}, DFM_BONE_MOVABLE, NULL, 0},
    {"グルーブ", "groove", "センター", {0, 9.2f, 0}, DFM_BONE_MOVABLE, NULL, 0},
    {"腰", "waist", "グルーブ", {0, 11.2f, 0.3f}, 0, NULL, 0},
    {"上半身", "upper body", "腰", {0, 11.6f, 0}, 0, NULL, 0},
    {"上半身2", "upper body2", "上半身", {0, 13.2f, 0.1f}, 0, NULL, 0},
    {"首", "neck", "上半身2", {0, 16.2f, 0.1f}, 0, NULL, 0},
    {"頭", "head", "首", {0, 17.1f, 0}, 0, NULL, 0},
    {"両目", "eyes", "頭", {0, 20.5f, 0}, 0, NULL, 0},
    {"髪１", "hair1", "頭", {0, 19.2f, 1.3f}, 0, NULL, 0},
    {"髪２", "hair2", "髪１", {0, 17.6f, 2.2f}, 0, NULL, 0},
    {"髪３", "hair3", "髪２", {0, 15.8f, 2.2f}, 0, NULL, 0},
    {"下半身", "lower body", "腰", {0, 11.6f, 0}, 0, NULL, 0},
};

/* Along the arm: shoulder joint + length x direction, 38 degrees down. */
#define ARM_X 0.788f
#define ARM_Y (-0.616f)
#define ARM(length)                                                                                \
    { 1.35f + ARM_X *(length), 15.6f + ARM_Y *(length), 0.1f }
#define ARM_AT(length, z)                                                                          \
    { 1.35f + ARM_X *(length), 15.6f + ARM_Y *(length), 0.1f + (z) }
#define ANKLE                                                                                      \
    { 0.85f, 1.0f, 0.25f }
#define TOE                                                                                        \
    { 0.85f, 0.0f, -1.3f }
/* The thumb leaves the palm forward and a little down. */
#define THUMB(length)                                                                              \
    { 5.62f + 0.55f * (length), 12.25f - 0.4f * (length), -0.1f - 0.73f * (length) }

static const struct bone_row side_bones[] = {
    {"目", "eye", "頭", {0.42f, 18.3f, -0.5f}, DFM_BONE_APPEND_ROTATION, "両目", 0.5f},
    {"肩P", "shoulderP", "上半身2", {0.35f, 15.8f, 0.1f}, 0, NULL, 0},
    {"肩", "shoulder", "肩P", {0.35f, 15.8f, 0.1f}, 0, NULL, 0},
    {"肩C", "shoulderC", "肩", ARM(0), DFM_BONE_APPEND_ROTATION, "肩P", -1},
    {"腕", "arm", "肩C", ARM(0), DFM_BONE_LOCAL_AXIS, NULL, 0},
    {"腕捩", "arm twist", "腕", ARM(1.6f), DFM_BONE_FIXED_AXIS, NULL, 0},
    {"腕捩1", "arm twist1", "腕", ARM(1.0f), DFM_BONE_APPEND_ROTATION, "腕捩", 0.5f},
    {"ひじ", "elbow", "腕捩", ARM(2.75f), DFM_BONE_LOCAL_AXIS, NULL, 0},
    {"手捩", "wrist twist", "ひじ", ARM(4.1f), DFM_BONE_FIXED_AXIS, NULL, 0},
    {"手捩1", "wrist twist1", "ひじ", ARM(3.4f), DFM_BONE_APPEND_ROTATION, "手捩", 0.5f},
    {"手首", "wrist", "手捩", ARM(5.2f), DFM_BONE_LOCAL_AXIS, NULL, 0},
    {"親指０", "thumb0", "手首", THUMB(0), 0, NULL, 0},
    {"親指１", "thumb1", "親指０", THUMB(0.35f), 0, NULL, 0},
    {"親指２", "thumb2", "親指１", THUMB(0.68f), 0, NULL, 0},
    {"人指１", "fore1", "手首", ARM_AT(6.2f, -0.27f), 0, NULL, 0},
    {"人指２", "fore2", "人指１", ARM_AT(6.6f, -0.27f), 0, NULL, 0},
    {"人指３", "fore3", "人指２", ARM_AT(6.85f, -0.27f), 0, NULL, 0},
    {"中指１", "middle1", "手首", ARM_AT(6.2f, -0.09f), 0, NULL, 0},
    {"中指２", "middle2", "中指１", ARM_AT(6.65f, -0.09f), 0, NULL, 0},
    {"中指３", "middle3", "中指２", ARM_AT(6.95f, -0.09f), 0, NULL, 0},
    {"薬指１", "third1", "手首", ARM_AT(6.2f, 0.09f), 0, NULL, 0},
    {"薬指２", "third2", "薬指１", ARM_AT(6.6f, 0.09f), 0, NULL, 0},
    {"薬指３", "third3", "薬指２", ARM_AT(6.85f, 0.09f), 0, NULL, 0},
    {"小指１", "little1", "手首", ARM_AT(6.2f, 0.27f), 0, NULL, 0},
    {"小指２", "little2", "小指１", ARM_AT(6.5f, 0.27f), 0, NULL, 0},
    {"小指３", "little3", "小指２", ARM_AT(6.7f, 0.27f), 0, NULL, 0},
    {"足", "leg", "下半身", {0.85f, 10.3f, 0}, 0, NULL, 0},
    {"ひざ", "knee", "足", {0.85f, 5.6f, -0.08f}, 0, NULL, 0},
    {"足首", "ankle", "ひざ", ANKLE, 0, NULL, 0},
    {"つま先", "toe", "足首", TOE, 0, NULL, 0},
    {"足ＩＫ", "leg IK", "全ての親", ANKLE, DFM_BONE_MOVABLE, NULL, 0},
    {"つま先ＩＫ", "toe IK", "足ＩＫ", TOE, DFM_BONE_MOVABLE, NULL, 0},
    {"足D", "legD", "下半身", {0.85f, 10.3f, 0}, DFM_BONE_APPEND_ROTATION, "足", 1},
    {"ひざD", "kneeD", "足D", {0.85f, 5.6f, -0.08f}, DFM_BONE_APPEND_ROTATION, "ひざ", 1},
    {"足首D", "ankleD", "ひざD", ANKLE, DFM_BONE_APPEND_ROTATION, "足首", 1},
    {"足先EX", "toe EX", "足首D", {0.85f, 0.35f, -0.7f}, 0, NULL, 0},
};

enum {
    MIDDLE_COUNT = sizeof middle_bones / sizeof *middle_bones,
    SIDE_COUNT = sizeof side_bones / sizeof *side_bones,
    BONE_COUNT = MIDDLE_COUNT + 2 * SIDE_COUNT,
};

/* `side` is 0 for the middle, 1 for the left, -1 for the right. */
static const char *join(struct builder *builder, const char *first, const char *second) {
    size_t length = strlen(first);
    char *text = build_allocate(builder, length + strlen(second) + 1, 1);
    memcpy(text, first, length);
    strcpy(text + length, second);
    return text;
}

static const char *sided(struct builder *builder, int side, const char *name) {
    return side == 0 ? name : join(builder, side > 0 ? "左" : "右", name);
}

static bool is_named(dfm_text text, const char *prefix, const char *name) {
    size_t length = strlen(prefix);
    return text.length == length + strlen(name) && memcmp(text.data, prefix, length) == 0 &&
           memcmp(text.data + length, name, strlen(name)) == 0;
}

/* The bone of this name on this side, or else in the middle. */
static int32_t find_bone(const struct builder *builder, int side, const char *name) {
    const char *prefix = side > 0 ? "左" : side < 0 ? "右" : "";
    const dfm_pmx *pmx = &builder->pmx;
    for (uint32_t i = 0; i < pmx->bone_count; i++) {
        if (is_named(pmx->bones[i].name, prefix, name) || is_named(pmx->bones[i].name, "", name))
            return (int32_t)i;
    }
    build_fail(name);
}

static void add_bone(struct builder *builder, int side, const struct bone_row *row) {
    const float position[3] = {side < 0 ? -row->position[0] : row->position[0], row->position[1],
                               row->position[2]};
    const char *name_en =
        side == 0 ? row->name_en : join(builder, row->name_en, side > 0 ? "_L" : "_R");
    int32_t parent = row->parent ? find_bone(builder, side, row->parent) : -1;
    dfm_pmx_bone *bone =
        build_add_bone(builder, sided(builder, side, row->name), name_en, position, parent);
    const float along[3] = {side < 0 ? -ARM_X : ARM_X, ARM_Y, 0};
    bone->flags |= row->flags;
    if (row->append_source) {
        bone->append_source = find_bone(builder, side, row->append_source);
        bone->append_ratio = row->append_ratio;
        bone->layer = 1;
    }
    if (row->flags & DFM_BONE_FIXED_AXIS)
        memcpy(bone->fixed_axis, along, sizeof along);
    if (row->flags & DFM_BONE_LOCAL_AXIS) {
        memcpy(bone->local_x, along, sizeof along);
        bone->local_z[2] = -1;
    }
}

static void make_ik(struct builder *builder, int side, const char *name, const char *target,
                    int loops, float limit_rad, uint32_t link_count, const char *const *links) {
    dfm_pmx_bone *bone = &builder->pmx.bones[find_bone(builder, side, name)];
    bone->flags |= DFM_BONE_IK;
    bone->ik_target = find_bone(builder, side, target);
    bone->ik_loop_count = loops;
    bone->ik_limit_rad = limit_rad;
    bone->ik_link_count = link_count;
    bone->ik_links = build_allocate(builder, link_count, sizeof *bone->ik_links);
    for (uint32_t i = 0; i < link_count; i++) {
        bone->ik_links[i].bone = find_bone(builder, side, links[i]);
        if (strcmp(links[i], "ひざ") == 0) { /* bends backward only, never quite straight */
            bone->ik_links[i].has_limits = 1;
            bone->ik_links[i].limit_min[0] = -3.1415927f;
            bone->ik_links[i].limit_max[0] = -0.008726646f;
        }
    }
}

/* A bone's tail is its first child, which is what editors draw. */
static void point_tails(struct builder *builder) {
    dfm_pmx_bone *bones = builder->pmx.bones;
    for (uint32_t i = builder->pmx.bone_count; i-- > 1;) {
        if (bones[i].parent >= 0) {
            bones[bones[i].parent].flags |= DFM_BONE_TAIL_IS_BONE;
            bones[bones[i].parent].tail_bone = (int32_t)i;
        }
    }
}

static void add_rig(struct builder *builder) {
    static const char *const leg_links[] = {"ひざ", "足"};
    static const char *const toe_links[] = {"足首"};
    for (size_t i = 0; i < MIDDLE_COUNT; i++)
        add_bone(builder, 0, &middle_bones[i]);
    for (int side = 1; side >= -1; side -= 2) {
        for (size_t i = 0; i < SIDE_COUNT; i++)
            add_bone(builder, side, &side_bones[i]);
        make_ik(builder, side, "足ＩＫ", "足首", 40, 2, 2, leg_links);
        make_ik(builder, side, "つま先ＩＫ", "つま先", 3, 4, 1, toe_links);
    }
    point_tails(builder);
}

/* --- the surface -------------------------------------------------------------------------- */

/* A place on a part's path: its centre and the two radii of the ring around it. */
struct station {
    float centre[3];
    float across, through; /* radius along the part's `across`, and at right angles to it */
};

/* Where one bone hands over to the next, in stations along the path (2.5: halfway from the third
 * station to the fourth). */
struct zone {
    float from, to;
    const char *bone;
    dfm_weight_type kind; /* BDEF2, SDEF or QDEF */
};

/* A closed tube. Bone names are without side; x is the left's. */
struct part {
    const char *material;
    const char *bone; /* of the path's beginning */
    float across[3];
    float cap_length; /* how far the ends are rounded out */
    int cap_rings, rings, segments;
    bool both_sides;
    bool hips; /* legs take a share of the lower end */
    int station_count;
    struct station stations[MAX_STATIONS];
    struct zone zones[MAX_ZONES]; /* up to the first without a bone */
};

#define ELLIPSOID(x, y, z, rx, ry, rz)                                                             \
    .across = {1, 0, 0}, .cap_length = 0.98f * (ry), .station_count = 2,                           \
    .stations = {{{x, (y)-0.02f * (ry), z}, rx, rz}, {{x, (y) + 0.02f * (ry), z}, rx, rz}}
#define FINGER(z, length, first, second, third)                                                    \
    .material = "肌", .bone = "手首", .across = {0, 0, -1}, .cap_length = 0.09f, .cap_rings = 2,   \
    .rings = 7, .segments = 6, .both_sides = true, .station_count = 4,                             \
    .stations = {{ARM_AT(6.05f, z), 0.1f, 0.1f},                                                   \
                 {ARM_AT(6.2f, z), 0.1f, 0.1f},                                                    \
                 {ARM_AT(6.2f + 0.5f * (length), z), 0.095f, 0.09f},                               \
                 {ARM_AT(6.2f + (length), z), 0.08f, 0.075f}},                                     \
    .zones = {{0.6f, 1.2f, first, DFM_WEIGHT_BDEF2},                                               \
              {1.75f, 2.1f, second, DFM_WEIGHT_BDEF2},                                             \
              {2.4f, 2.7f, third, DFM_WEIGHT_BDEF2}}

static const struct part parts[] = {
    {.material = "肌",
     .bone = "頭",
     .across = {1, 0, 0},
     .cap_length = 0.25f,
     .cap_rings = 3,
     .rings = 16,
     .segments = 20,
     .station_count = 6,
     .stations = {{{0, 17.05f, -0.3f}, 0.42f, 0.5f},
                  {{0, 17.35f, -0.2f}, 0.78f, 0.85f},
                  {{0, 18.0f, -0.05f}, 1.08f, 1.12f},
                  {{0, 18.6f, 0}, 1.15f, 1.2f},
                  {{0, 19.2f, 0}, 1.05f, 1.12f},
                  {{0, 19.65f, 0}, 0.72f, 0.8f}}},
    {.material = "肌",
     .bone = "上半身2",
     .across = {1, 0, 0},
     .cap_length = 0.2f,
     .cap_rings = 2,
     .rings = 8,
     .segments = 14,
     .station_count = 4,
     .stations = {{{0, 15.7f, 0.1f}, 0.5f, 0.46f},
                  {{0, 16.3f, 0.1f}, 0.42f, 0.42f},
                  {{0, 16.9f, 0.05f}, 0.4f, 0.42f},
                  {{0, 17.4f, 0}, 0.42f, 0.45f}},
     .zones = {{0.2f, 1.1f, "首", DFM_WEIGHT_BDEF2}, {1.6f, 2.4f, "頭", DFM_WEIGHT_BDEF2}}},
    {.material = "肌",
     .bone = "肩",
     .across = {0, 0, -1},
     .cap_length = 0.25f,
     .cap_rings = 3,
     .rings = 38,
     .segments = 12,
     .both_sides = true,
     .station_count = 13,
     .stations = {{ARM(-0.5f), 0.46f, 0.46f},
                  {ARM(0.2f), 0.5f, 0.52f},
                  {ARM(1.0f), 0.45f, 0.46f},
                  {ARM(1.6f), 0.42f, 0.43f},
                  {ARM(2.2f), 0.39f, 0.4f},
                  {ARM(2.75f), 0.36f, 0.37f},
                  {ARM(3.3f), 0.38f, 0.38f},
                  {ARM(4.1f), 0.33f, 0.32f},
                  {ARM(4.7f), 0.27f, 0.26f},
                  {ARM(5.2f), 0.24f, 0.21f},
                  {ARM(5.55f), 0.35f, 0.19f},
                  {ARM(6.0f), 0.4f, 0.17f},
                  {ARM(6.25f), 0.36f, 0.14f}},
     .zones = {{0.4f, 1.4f, "腕", DFM_WEIGHT_BDEF2},
               {1.8f, 2.4f, "腕捩1", DFM_WEIGHT_BDEF2},
               {2.7f, 3.4f, "腕捩", DFM_WEIGHT_BDEF2},
               {4.2f, 5.8f, "ひじ", DFM_WEIGHT_SDEF},
               {6.1f, 6.9f, "手捩1", DFM_WEIGHT_QDEF},
               {7.0f, 7.9f, "手捩", DFM_WEIGHT_QDEF},
               {8.4f, 9.4f, "手首", DFM_WEIGHT_QDEF}}},
    {.material = "肌",
     .bone = "手首",
     .across = {0, 1, 0},
     .cap_length = 0.1f,
     .cap_rings = 2,
     .rings = 7,
     .segments = 6,
     .both_sides = true,
     .station_count = 4,
     .stations = {{THUMB(-0.15f), 0.13f, 0.13f},
                  {THUMB(0.1f), 0.12f, 0.12f},
                  {THUMB(0.5f), 0.105f, 0.11f},
                  {THUMB(0.95f), 0.09f, 0.09f}},
     .zones = {{0.3f, 0.9f, "親指０", DFM_WEIGHT_BDEF2},
               {1.4f, 1.8f, "親指１", DFM_WEIGHT_BDEF2},
               {2.2f, 2.6f, "親指２", DFM_WEIGHT_BDEF2}}},
    {FINGER(-0.27f, 0.85f, "人指１", "人指２", "人指３")},
    {FINGER(-0.09f, 0.95f, "中指１", "中指２", "中指３")},
    {FINGER(0.09f, 0.88f, "薬指１", "薬指２", "薬指３")},
    {FINGER(0.27f, 0.7f, "小指１", "小指２", "小指３")},
    {.material = "肌",
     .bone = "下半身",
     .across = {1, 0, 0},
     .cap_length = 0.15f,
     .cap_rings = 2,
     .rings = 30,
     .segments = 12,
     .both_sides = true,
     .station_count = 10,
     .stations = {{{0.8f, 10.7f, 0.05f}, 0.66f, 0.72f},
                  {{0.85f, 9.8f, 0}, 0.78f, 0.82f},
                  {{0.85f, 8.5f, 0}, 0.68f, 0.72f},
                  {{0.85f, 7.0f, -0.03f}, 0.56f, 0.6f},
                  {{0.85f, 5.6f, -0.08f}, 0.44f, 0.47f},
                  {{0.85f, 4.6f, 0.05f}, 0.44f, 0.49f},
                  {{0.85f, 3.2f, 0.18f}, 0.37f, 0.42f},
                  {{0.85f, 1.9f, 0.24f}, 0.27f, 0.3f},
                  {{0.85f, 1.0f, 0.25f}, 0.25f, 0.28f},
                  {{0.85f, 0.6f, 0.25f}, 0.24f, 0.26f}},
     .zones = {{0.2f, 1.4f, "足D", DFM_WEIGHT_BDEF2},
               {3.2f, 4.8f, "ひざD", DFM_WEIGHT_SDEF},
               {7.4f, 8.4f, "足首D", DFM_WEIGHT_BDEF2}}},
    {.material = "服",
     .bone = "下半身",
     .across = {1, 0, 0},
     .cap_length = 0.15f,
     .cap_rings = 3,
     .rings = 26,
     .segments = 20,
     .hips = true,
     .station_count = 10,
     .stations = {{{0, 9.7f, 0.05f}, 0.75f, 0.62f},
                  {{0, 10.4f, 0.05f}, 1.35f, 0.95f},
                  {{0, 11.0f, 0.05f}, 1.42f, 1.0f},
                  {{0, 11.8f, 0}, 1.12f, 0.8f},
                  {{0, 12.5f, 0}, 1.0f, 0.74f},
                  {{0, 13.5f, 0}, 1.18f, 0.85f},
                  {{0, 14.5f, -0.02f}, 1.38f, 0.95f},
                  {{0, 15.3f, 0.05f}, 1.38f, 0.85f},
                  {{0, 15.9f, 0.1f}, 1.05f, 0.66f},
                  {{0, 16.25f, 0.12f}, 0.6f, 0.5f}},
     .zones = {{2.4f, 3.6f, "上半身", DFM_WEIGHT_BDEF2},
               {4.4f, 5.6f, "上半身2", DFM_WEIGHT_BDEF2},
               {8.4f, 9.4f, "首", DFM_WEIGHT_BDEF2}}},
    {.material = "服",
     .bone = "下半身",
     .across = {1, 0, 0},
     .cap_length = 0.08f,
     .cap_rings = 2,
     .rings = 12,
     .segments = 20,
     .hips = true,
     .station_count = 5,
     .stations = {{{0, 8.0f, 0}, 2.05f, 1.75f},
                  {{0, 9.1f, 0}, 1.85f, 1.5f},
                  {{0, 10.2f, 0.02f}, 1.65f, 1.25f},
                  {{0, 11.2f, 0.03f}, 1.48f, 1.06f},
                  {{0, 11.9f, 0}, 1.16f, 0.85f}}},
    {.material = "靴",
     .bone = "足首D",
     .across = {1, 0, 0},
     .cap_length = 0.15f,
     .cap_rings = 2,
     .rings = 12,
     .segments = 12,
     .both_sides = true,
     .station_count = 5,
     .stations = {{{0.85f, 0.42f, 0.6f}, 0.27f, 0.33f},
                  {{0.85f, 0.43f, 0.2f}, 0.33f, 0.41f},
                  {{0.85f, 0.36f, -0.5f}, 0.39f, 0.34f},
                  {{0.85f, 0.28f, -1.15f}, 0.37f, 0.26f},
                  {{0.85f, 0.24f, -1.45f}, 0.24f, 0.18f}},
     .zones = {{1.8f, 2.6f, "足先EX", DFM_WEIGHT_BDEF2}}},
    {.material = "髪",
     .bone = "頭",
     .cap_rings = 7,
     .rings = 2,
     .segments = 22,
     ELLIPSOID(0, 18.7f, 0.22f, 1.28f, 1.38f, 1.25f)},
    {.material = "髪",
     .bone = "頭",
     .cap_rings = 4,
     .rings = 2,
     .segments = 18,
     ELLIPSOID(0, 19.35f, -0.5f, 0.98f, 0.5f, 0.78f)},
    {.material = "髪",
     .bone = "頭",
     .across = {1, 0, 0},
     .cap_length = 0.15f,
     .cap_rings = 2,
     .rings = 18,
     .segments = 10,
     .station_count = 5,
     .stations = {{{0, 19.2f, 1.3f}, 0.24f, 0.24f},
                  {{0, 18.6f, 2.0f}, 0.44f, 0.4f},
                  {{0, 17.2f, 2.3f}, 0.52f, 0.44f},
                  {{0, 15.4f, 2.2f}, 0.38f, 0.32f},
                  {{0, 14.2f, 1.95f}, 0.1f, 0.1f}},
     .zones = {{0.1f, 0.9f, "髪１", DFM_WEIGHT_BDEF2},
               {1.3f, 2.1f, "髪２", DFM_WEIGHT_BDEF2},
               {2.4f, 3.2f, "髪３", DFM_WEIGHT_BDEF2}}},
    {.material = "目",
     .bone = "目",
     .cap_rings = 4,
     .rings = 2,
     .segments = 12,
     .both_sides = true,
     ELLIPSOID(0.42f, 18.3f, -1.0f, 0.18f, 0.27f, 0.13f)},
    {.material = "眉",
     .bone = "頭",
     .across = {0, 1, 0},
     .cap_length = 0.05f,
     .cap_rings = 2,
     .rings = 4,
     .segments = 6,
     .both_sides = true,
     .station_count = 3,
     .stations = {{{0.24f, 18.76f, -1.14f}, 0.03f, 0.03f},
                  {{0.45f, 18.82f, -1.08f}, 0.045f, 0.03f},
                  {{0.66f, 18.74f, -0.96f}, 0.03f, 0.03f}}},
    {.material = "口",
     .bone = "頭",
     .cap_rings = 3,
     .rings = 2,
     .segments = 12,
     ELLIPSOID(0, 17.62f, -1.03f, 0.2f, 0.04f, 0.05f)},
};

enum { PART_COUNT = sizeof parts / sizeof *parts };

struct range {
    uint32_t first, count;
};

struct figure {
    struct builder builder;
    struct range ranges[PART_COUNT][2]; /* vertices of the left, or middle, and of the right */
};

static void cross(const float a[3], const float b[3], float result[3]) {
    for (int k = 0; k < 3; k++)
        result[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
}

static void normalize(float v[3]) {
    float length = sqrtf(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int k = 0; k < 3; k++)
        v[k] /= length;
}

/* Catmull-Rom: from b at t = 0 to c at t = 1. */
static float spline(float a, float b, float c, float d, float t) {
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

/* The ring at a place on the path, counted in stations; held at both ends. */
static struct station station_at(const struct part *part, float at) {
    int last = part->station_count - 1;
    at = at < 0 ? 0 : at > (float)last ? (float)last : at;
    int i = (int)at < last ? (int)at : last - 1;
    const struct station *b = &part->stations[i], *c = b + 1;
    const struct station *a = i > 0 ? b - 1 : b, *d = i + 2 <= last ? c + 1 : c;
    float t = at - (float)i;
    struct station result = {
        .across = spline(a->across, b->across, c->across, d->across, t),
        .through = spline(a->through, b->through, c->through, d->through, t),
    };
    for (int k = 0; k < 3; k++)
        result.centre[k] = spline(a->centre[k], b->centre[k], c->centre[k], d->centre[k], t);
    return result;
}

/* Unit vectors: along the path, and the two that span its ring, right-handed in the numbers, so
 * that triangles come out clockwise as seen from outside in MMD's left-handed space. */
struct frame {
    float along[3], across[3], through[3];
};

static struct frame frame_at(const struct part *part, float at) {
    struct station before = station_at(part, at - 0.02f), after = station_at(part, at + 0.02f);
    struct frame frame;
    for (int k = 0; k < 3; k++)
        frame.along[k] = after.centre[k] - before.centre[k];
    normalize(frame.along);
    cross(frame.along, part->across, frame.through);
    normalize(frame.through);
    cross(frame.through, frame.along, frame.across);
    return frame;
}

/* --- weights ------------------------------------------------------------------------------ */

/* The two bones at a place on the path; *zone is the zone that it lies in, or NULL. */
static size_t blend(struct figure *figure, const struct part *part, int side, float at,
                    dfm_influence influences[2], const struct zone **zone) {
    const char *bone = part->bone;
    *zone = NULL;
    for (const struct zone *z = part->zones; z < part->zones + MAX_ZONES && z->bone; z++) {
        if (at <= z->from)
            break;
        if (at < z->to) {
            float share = (at - z->from) / (z->to - z->from);
            influences[0] = (dfm_influence){find_bone(&figure->builder, side, bone), 1 - share};
            influences[1] = (dfm_influence){find_bone(&figure->builder, side, z->bone), share};
            *zone = z;
            return 2;
        }
        bone = z->bone;
    }
    influences[0] = (dfm_influence){find_bone(&figure->builder, side, bone), 1};
    return 1;
}

/* Both legs pull at what hangs around the hips: more the lower it is, each more on its own side. */
static size_t add_hips(struct figure *figure, const float position[3], dfm_influence *influences,
                       size_t count) {
    float share = 0.3f * (11.2f - position[1]);
    share = share < 0 ? 0 : share > 0.6f ? 0.6f : share;
    float left = 0.5f + 0.5f * position[0];
    left = left < 0 ? 0 : left > 1 ? 1 : left;
    for (size_t i = 0; i < count; i++)
        influences[i].weight *= 1 - share;
    influences[count++] = (dfm_influence){find_bone(&figure->builder, 1, "足D"), share * left};
    influences[count++] =
        (dfm_influence){find_bone(&figure->builder, -1, "足D"), share * (1 - left)};
    return count;
}

/* SDEF: R0 and R1 are the ends of the zone on the path, C the vertex's own place on it. */
static void place_sdef(const struct part *part, int side, const struct zone *zone, float at,
                       float sdef[3][3]) {
    const float places[3] = {at, zone->from, zone->to};
    for (int row = 0; row < 3; row++) {
        struct station station = station_at(part, places[row]);
        station.centre[0] *= side < 0 ? -1.0f : 1.0f;
        memcpy(sdef[row], station.centre, sizeof station.centre);
    }
}

static void weigh(struct figure *figure, const struct part *part, int side, float at,
                  build_vertex *vertex) {
    dfm_influence influences[4];
    const struct zone *zone;
    size_t count = blend(figure, part, side, at, influences, &zone);
    if (part->hips)
        count = add_hips(figure, vertex->position, influences, count);
    bool sdef = zone && zone->kind == DFM_WEIGHT_SDEF;
    vertex->type = dfm_pmx_author_weights(influences, count, sdef, vertex->bone, vertex->weight);
    if (vertex->type == DFM_WEIGHT_SDEF)
        place_sdef(part, side, zone, at, vertex->sdef);
    if (zone && zone->kind == DFM_WEIGHT_QDEF)
        vertex->type = DFM_WEIGHT_QDEF;
}

/* --- tubes -------------------------------------------------------------------------------- */

/* A ring of the tube: where on the path, how far beyond its end, how much smaller than there. */
struct ring {
    float at, beyond, scale;
};

/* Rings are counted over both caps: cap_rings, rings, cap_rings. */
static struct ring ring_at(const struct part *part, int i) {
    float last = (float)(part->station_count - 1);
    int inner = i - part->cap_rings;
    if (inner >= 0 && inner < part->rings)
        return (struct ring){.at = last * (float)inner / (float)(part->rings - 1), .scale = 1};
    int step = inner < 0 ? -inner : inner - part->rings + 1;
    float angle = 1.5707964f * (float)step / (float)(part->cap_rings + 1);
    float beyond = part->cap_length * sinf(angle);
    return (struct ring){
        .at = inner < 0 ? 0 : last, .beyond = inner < 0 ? -beyond : beyond, .scale = cosf(angle)};
}

/* A vertex at an angle of a ring. U runs to the front and back again, so that no seam is needed. */
static void add_vertex(struct figure *figure, const struct part *part, int side,
                       const struct ring *ring, float turn) {
    struct station station = station_at(part, ring->at);
    struct frame frame = frame_at(part, ring->at);
    float angle = 6.2831853f * turn;
    build_vertex vertex = {.uv = {fabsf(2 * turn - 1), ring->at / (float)(part->station_count - 1)},
                           .edge_scale = 1};
    for (int k = 0; k < 3; k++)
        vertex.position[k] = station.centre[k] + ring->beyond * frame.along[k] +
                             ring->scale * (cosf(angle) * station.across * frame.across[k] +
                                            sinf(angle) * station.through * frame.through[k]);
    if (side < 0)
        vertex.position[0] = -vertex.position[0];
    weigh(figure, part, side, ring->at, &vertex);
    uint32_t i = build_add_vertex(&figure->builder, &vertex);
    float *additional = figure->builder.pmx.vertices.additional_uv[0][i];
    memcpy(additional, vertex.uv, sizeof vertex.uv);
    additional[3] = 1;
}

/* The right side is the left's mirror image, so its triangles turn the other way. */
static void add_triangle(struct figure *figure, int side, uint32_t a, uint32_t b, uint32_t c) {
    build_add_triangle(&figure->builder, a, side < 0 ? c : b, side < 0 ? b : c);
}

static void join_rings(struct figure *figure, const struct part *part, int side, uint32_t first) {
    uint32_t segments = (uint32_t)part->segments;
    uint32_t ring_count = (uint32_t)(part->rings + 2 * part->cap_rings);
    uint32_t start = first, ring = first + 1, end = first + 1 + ring_count * segments;
    for (uint32_t k = 0; k < segments; k++) {
        uint32_t next = (k + 1) % segments;
        add_triangle(figure, side, start, ring + next, ring + k);
        for (uint32_t i = 0; i + 1 < ring_count; i++) {
            uint32_t low = ring + i * segments, high = low + segments;
            add_triangle(figure, side, low + k, low + next, high + k);
            add_triangle(figure, side, low + next, high + next, high + k);
        }
        add_triangle(figure, side, end - segments + k, end - segments + next, end);
    }
}

static void add_tube(struct figure *figure, const struct part *part, int side) {
    uint32_t first = figure->builder.pmx.vertices.count;
    int ring_count = part->rings + 2 * part->cap_rings;
    struct ring pole = {.at = 0, .beyond = -part->cap_length};
    add_vertex(figure, part, side, &pole, 0.25f);
    for (int i = 0; i < ring_count; i++) {
        struct ring ring = ring_at(part, i);
        for (int k = 0; k < part->segments; k++)
            add_vertex(figure, part, side, &ring, (float)k / (float)part->segments);
    }
    pole = (struct ring){.at = (float)(part->station_count - 1), .beyond = part->cap_length};
    add_vertex(figure, part, side, &pole, 0.25f);
    join_rings(figure, part, side, first);
    figure->ranges[part - parts][side < 0 ? 1 : 0] =
        (struct range){.first = first, .count = figure->builder.pmx.vertices.count - first};
}

static void add_material(struct figure *figure, const char *name) {
    static const struct {
        const char *name, *name_en;
        float colour[3];
    } rows[] = {
        {"肌", "skin", {0.98f, 0.86f, 0.77f}},  {"服", "dress", {0.25f, 0.45f, 0.75f}},
        {"靴", "shoes", {0.25f, 0.18f, 0.15f}}, {"髪", "hair", {0.35f, 0.22f, 0.16f}},
        {"目", "eyes", {0.1f, 0.2f, 0.35f}},    {"眉", "brows", {0.3f, 0.18f, 0.13f}},
        {"口", "mouth", {0.75f, 0.3f, 0.3f}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) != 0)
            continue;
        dfm_pmx_material *material =
            build_add_material(&figure->builder, rows[i].name, rows[i].name_en);
        material->flags = 0x1E; /* shadows and edge, single-sided */
        memcpy(material->diffuse, rows[i].colour, sizeof rows[i].colour);
        for (int k = 0; k < 3; k++)
            material->ambient[k] = 0.5f * rows[i].colour[k];
    }
}

static void add_surface(struct figure *figure) {
    const char *material = "";
    for (size_t i = 0; i < PART_COUNT; i++) {
        if (strcmp(parts[i].material, material) != 0)
            add_material(figure, material = parts[i].material);
        add_tube(figure, &parts[i], parts[i].both_sides ? 1 : 0);
        if (parts[i].both_sides)
            add_tube(figure, &parts[i], -1);
    }
    build_normals(&figure->builder, 0);
}

/* --- morphs ------------------------------------------------------------------------------- */

/* All vertices of one material, which lie one after another. */
static struct range range_of(const struct figure *figure, const char *material) {
    struct range range = {0};
    for (size_t i = 0; i < PART_COUNT; i++) {
        if (strcmp(parts[i].material, material) != 0)
            continue;
        if (range.count == 0)
            range.first = figure->ranges[i][0].first;
        range.count += figure->ranges[i][0].count + figure->ranges[i][1].count;
    }
    return range;
}

/* The half of a range that lies on one side. */
static struct range half(struct range range, int side) {
    range.count /= 2;
    if (side < 0)
        range.first += range.count;
    return range;
}

/* A morph that scales vertices up and down and to the sides about a height, and moves them. */
struct face_morph {
    const char *name, *name_en, *material;
    uint8_t panel;
    int side; /* 0: both */
    float centre_y, scale_x, scale_y, shift_y;
};

static void add_face_morph(struct figure *figure, const struct face_morph *face) {
    struct range range = range_of(figure, face->material);
    if (face->side != 0)
        range = half(range, face->side);
    dfm_pmx_morph *morph = build_add_morph(&figure->builder, face->name, face->name_en, face->panel,
                                           DFM_MORPH_VERTEX, range.count);
    for (uint32_t k = 0; k < range.count; k++) {
        uint32_t vertex = range.first + k;
        const float *at = figure->builder.pmx.vertices.position[vertex];
        morph->offsets.vertices[k] = (dfm_pmx_vertex_offset){
            .vertex = vertex,
            .offset = {at[0] * (face->scale_x - 1),
                       (at[1] - face->centre_y) * (face->scale_y - 1) + face->shift_y, 0},
        };
    }
}

static void add_face_morphs(struct figure *figure) {
    static const struct face_morph faces[] = {
        {"あ", "a", "口", 3, 0, 17.62f, 0.9f, 4.5f, -0.1f},
        {"い", "i", "口", 3, 0, 17.62f, 1.3f, 1.2f, 0},
        {"う", "u", "口", 3, 0, 17.62f, 0.5f, 2, 0},
        {"え", "e", "口", 3, 0, 17.62f, 1.1f, 2.5f, -0.04f},
        {"お", "o", "口", 3, 0, 17.62f, 0.7f, 4, -0.08f},
        {"まばたき", "blink", "目", 2, 0, 18.3f, 1, 0.1f, -0.05f},
        {"ウィンク", "wink", "目", 2, 1, 18.3f, 1, 0.1f, -0.05f},
        {"ウィンク右", "wink_R", "目", 2, -1, 18.3f, 1, 0.1f, -0.05f},
        {"上", "brows up", "眉", 1, 0, 18.8f, 1, 1, 0.12f},
        {"下", "brows down", "眉", 1, 0, 18.8f, 1, 1, -0.12f},
    };
    for (size_t i = 0; i < sizeof faces / sizeof *faces; i++)
        add_face_morph(figure, &faces[i]);
}

static int32_t find_morph(const struct figure *figure, const char *name) {
    const dfm_pmx *pmx = &figure->builder.pmx;
    for (uint32_t i = 0; i < pmx->morph_count; i++) {
        if (is_named(pmx->morphs[i].name, "", name))
            return (int32_t)i;
    }
    build_fail(name);
}

static void add_family(struct figure *figure, const char *name, const char *name_en,
                       dfm_morph_type type, uint32_t count, const char *const *children,
                       float weight) {
    dfm_pmx_morph *morph = build_add_morph(&figure->builder, name, name_en, 4, type, count);
    for (uint32_t k = 0; k < count; k++)
        morph->offsets.children[k] =
            (dfm_pmx_child_morph){.morph = find_morph(figure, children[k]), .weight = weight};
}

static void add_uv_morph(struct figure *figure, const char *name, const char *name_en,
                         const char *material, dfm_morph_type type) {
    struct range range = range_of(figure, material);
    dfm_pmx_morph *morph = build_add_morph(&figure->builder, name, name_en, 4, type, range.count);
    for (uint32_t k = 0; k < range.count; k++)
        morph->offsets.uvs[k] =
            (dfm_pmx_uv_offset){.vertex = range.first + k, .offset = {0.25f, 0, 0, 0}};
}

static void add_nod(struct figure *figure) {
    static const char *const bones[] = {"首", "頭"};
    dfm_pmx_morph *morph =
        build_add_morph(&figure->builder, "うなずき", "nod", 4, DFM_MORPH_BONE, 2);
    for (int k = 0; k < 2; k++)
        morph->offsets.bones[k] = (dfm_pmx_bone_offset){
            .bone = find_bone(&figure->builder, 0, bones[k]),
            .rotation = {-0.1305262f, 0, 0, 0.9914449f}, /* 15 degrees forward */
        };
}

static void add_blush(struct figure *figure) {
    dfm_pmx_morph *morph =
        build_add_morph(&figure->builder, "赤面", "blush", 4, DFM_MORPH_MATERIAL, 1);
    morph->offsets.materials[0] =
        (dfm_pmx_material_offset){.operation = 1, .diffuse = {0.02f, -0.1f, -0.08f, 0}};
}

static void add_morphs(struct figure *figure) {
    static const char *const smile[] = {"まばたき", "い", "上"};
    static const char *const vowels[] = {"あ", "い", "う", "え", "お"};
    add_face_morphs(figure);
    add_family(figure, "笑い", "smile", DFM_MORPH_GROUP, 3, smile, 0.8f);
    add_family(figure, "母音", "vowels", DFM_MORPH_FLIP, 5, vowels, 1);
    add_nod(figure);
    add_uv_morph(figure, "柄移動", "pattern", "服", DFM_MORPH_UV);
    add_uv_morph(figure, "髪艶", "hair shine", "髪", DFM_MORPH_UV1);
    add_blush(figure);
    dfm_pmx_morph *wind = build_add_morph(&figure->builder, "風", "wind", 4, DFM_MORPH_IMPULSE, 1);
    wind->offsets.impulses[0] = (dfm_pmx_impulse){.rigid_body = -1, .velocity = {0, 0, 1}};
}

dfm_pmx model_figure(dfm_arena *arena) {
    const builder_capacity capacity = {
        .vertices = MAX_VERTICES,
        .sdef_vertices = MAX_SDEF,
        .indices = 6 * MAX_VERTICES,
        .materials = 8,
        .bones = BONE_COUNT,
        .morphs = 20,
        .additional_uvs = 1,
    };
    struct figure figure = {.builder = build_begin(arena, 2.1f, DFM_TEXT_UTF16LE, &capacity)};
    figure.builder.pmx.name = model_text("見本人形");
    figure.builder.pmx.name_en = model_text("sample figure");
    figure.builder.pmx.comment = model_text("deformdの見本。計算で作られたモデルです。");
    figure.builder.pmx.comment_en = model_text("The sample model of deformd, made by a program.");
    add_rig(&figure.builder);
    add_surface(&figure);
    add_morphs(&figure);
    return figure.builder.pmx;
}
