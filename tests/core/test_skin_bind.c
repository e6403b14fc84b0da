/* Bind data: what weights become, normalized and raw, which repairs are reported, how blocks lie.
 */
#include "core/skin_bind.h"
#include "tests/data/build.h"
#include "tests/data/models.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static dfm_arena arena;
static dfm_model model; /* of which the bind data needs no more than the document */
static dfm_skin_bind *bind;

static void setup(void) {
    arena = (dfm_arena){0};
    model = (dfm_model){0};
    bind = NULL;
}

static void teardown(void) {
    dfm_skin_bind_free(bind);
    dfm_arena_free(&arena);
}

enum { BONE_COUNT = 4, MAX_VERTICES = 600 };

static struct builder begin(uint32_t vertex_count, uint32_t bone_count) {
    struct builder builder = build_begin(&arena, 2.1f, DFM_TEXT_UTF8,
                                         &(builder_capacity){.vertices = vertex_count,
                                                             .sdef_vertices = vertex_count,
                                                             .bones = bone_count,
                                                             .morphs = 3});
    for (uint32_t i = 0; i < bone_count; i++)
        build_add_bone(&builder, "bone", "bone", (const float[3]){(float)i, 0, 0}, (int32_t)i - 1);
    return builder;
}

static void bind_document(const dfm_pmx *pmx, dfm_weights_mode weights, bool sdef) {
    dfm_error error = {0};
    dfm_skin_bind_free(bind);
    model.pmx = *pmx;
    dfm_status status = dfm_skin_bind_create(&model, weights, sdef, &bind, &error);
    ck_assert_msg(status == DFM_OK, "%s", error.info);
}

static uint64_t warned(const char *code, int64_t *first) {
    for (uint32_t i = 0; i < bind->warnings.count; i++) {
        if (strcmp(bind->warnings.items[i].code, code) == 0) {
            *first = bind->warnings.items[i].first;
            return bind->warnings.items[i].count;
        }
    }
    return 0;
}

static const dfm_skin_block *block_of(uint32_t vertex) {
    return &bind->blocks[bind->slot[vertex] / DFM_LANES];
}

static float number_at(const dfm_skin_block *block, uint32_t row, uint32_t lane) {
    return bind->data[((size_t)block->row + row) * DFM_LANES + lane];
}

static float number_of(uint32_t vertex, uint32_t row) {
    return number_at(block_of(vertex), row, bind->slot[vertex] % DFM_LANES);
}

/* --- weights ---------------------------------------------------------------------------------- */

/* One vertex: how the file has it, and what it must become. */
typedef struct weight_case {
    const char *what;
    dfm_weight_type type;
    int32_t bone[4];
    float weight[4];
    uint32_t kind;
    uint32_t bones[4];
    float weights[4];
    const char *warnings[3]; /* the codes that this vertex is counted under; no others */
} weight_case;

#define BDEF1 DFM_WEIGHT_BDEF1
#define BDEF2 DFM_WEIGHT_BDEF2
#define BDEF4 DFM_WEIGHT_BDEF4
#define SDEF DFM_WEIGHT_SDEF
#define QDEF DFM_WEIGHT_QDEF

/* Cases that are clean: the same either way. */
static const weight_case clean_cases[] = {
    {"one bone", BDEF1, {2}, {1}, DFM_KIND_BDEF1, {2}, {0}, {0}},
    {"two bones", BDEF2, {1, 2}, {.25f}, DFM_KIND_BDEF2, {1, 2}, {.25f}, {0}},
    {"two bones, the later first", BDEF2, {2, 1}, {.25f}, DFM_KIND_BDEF2, {1, 2}, {.75f}, {0}},
    {"weight 1", BDEF2, {1, 2}, {1}, DFM_KIND_BDEF1, {1}, {0}, {0}},
    {"weight 0", BDEF2, {1, 2}, {0}, DFM_KIND_BDEF1, {2}, {0}, {0}},
    {"weight 1 and no second", BDEF2, {1, -1}, {1}, DFM_KIND_BDEF1, {1}, {0}, {0}},
    {"weight 0 and no first", BDEF2, {-1, 2}, {0}, DFM_KIND_BDEF1, {2}, {0}, {0}},
    {"one bone in both slots", BDEF2, {3, 3}, {.3f}, DFM_KIND_BDEF1, {3}, {0}, {0}},
    {"four bones",
     BDEF4,
     {3, 0, 2, 1},
     {.5f, .25f, .125f, .125f},
     DFM_KIND_BDEF4,
     {0, 1, 2, 3},
     {.25f, .125f, .125f, .5f},
     {0}},
    {"two of four weigh nothing",
     BDEF4,
     {3, 99, 1, -1},
     {.5f, 0, .5f, 0},
     DFM_KIND_BDEF2,
     {1, 3},
     {.5f},
     {0}},
    {"one of four weighs all", BDEF4, {0, 1, 2, 3}, {0, 0, 1, 0}, DFM_KIND_BDEF1, {2}, {0}, {0}},
    {"one bone in all slots",
     BDEF4,
     {1, 1, 1, 1},
     {.25f, .25f, .25f, .25f},
     DFM_KIND_BDEF1,
     {1},
     {0},
     {0}},
    {"one bone in two of four",
     BDEF4,
     {2, 1, 2, 0},
     {.25f, .25f, .25f, .25f},
     DFM_KIND_BDEF4,
     {0, 1, 2, 0},
     {.25f, .25f, .5f, 0},
     {0}},
    {"sdef", SDEF, {2, 1}, {.25f}, DFM_KIND_SDEF, {2, 1}, {.25f}, {0}},
    {"sdef, all on the first", SDEF, {2, 1}, {1}, DFM_KIND_BDEF1, {2}, {0}, {0}},
    {"sdef, all on the second", SDEF, {2, 1}, {0}, DFM_KIND_BDEF1, {1}, {0}, {0}},
    {"sdef with one bone twice", SDEF, {2, 2}, {.25f}, DFM_KIND_BDEF1, {2}, {0}, {0}},
    {"qdef",
     QDEF,
     {3, 0, 2, 1},
     {.5f, .25f, .125f, .125f},
     DFM_KIND_QDEF,
     {3, 0, 2, 1},
     {.5f, .25f, .125f, .125f},
     {0}},
    {"qdef of two",
     QDEF,
     {3, 0, 77, -2},
     {.5f, .5f, 0, 0},
     DFM_KIND_QDEF,
     {3, 0, 3, 3},
     {.5f, .5f, 0, 0},
     {0}},
    {"no bone",
     BDEF1,
     {-1},
     {1},
     DFM_KIND_REST,
     {0},
     {0},
     {"vertex-at-rest", "weights-bone-invalid"}},
    {"no bone that exists",
     BDEF4,
     {-1, 4, 1000000, INT32_MIN},
     {.25f, .25f, .25f, .25f},
     DFM_KIND_REST,
     {0},
     {0},
     {"vertex-at-rest", "weights-bone-invalid"}},
    {"no bone and no weight",
     QDEF,
     {-1, -1, -1, -1},
     {0},
     DFM_KIND_REST,
     {0},
     {0},
     {"vertex-at-rest"}},
};

static const weight_case normalized_cases[] = {
    {"weight above 1", BDEF2, {1, 2}, {1.5f}, DFM_KIND_BDEF1, {1}, {0}, {"weights-clamped"}},
    {"weight below 0", BDEF2, {1, 2}, {-.5f}, DFM_KIND_BDEF1, {2}, {0}, {"weights-clamped"}},
    {"sdef weight above 1", SDEF, {1, 2}, {7}, DFM_KIND_BDEF1, {1}, {0}, {"weights-clamped"}},
    {"the second does not exist",
     BDEF2,
     {1, 9},
     {.25f},
     DFM_KIND_BDEF1,
     {1},
     {0},
     {"weights-bone-invalid", "weights-normalized"}},
    {"the first of an sdef does not exist",
     SDEF,
     {-1, 3},
     {.25f},
     DFM_KIND_BDEF1,
     {3},
     {0},
     {"weights-bone-invalid", "weights-normalized"}},
    {"sum 2",
     BDEF4,
     {0, 1, 2, 3},
     {1, .5f, .25f, .25f},
     DFM_KIND_BDEF4,
     {0, 1, 2, 3},
     {.5f, .25f, .125f, .125f},
     {"weights-normalized"}},
    {"sum 1/2 of qdef",
     QDEF,
     {3, 2, -1, -1},
     {.25f, .25f, 0, 0},
     DFM_KIND_QDEF,
     {3, 2, 3, 3},
     {.5f, .5f, 0, 0},
     {"weights-normalized"}},
    {"one that is negative",
     BDEF4,
     {0, 1, 2, 3},
     {1, -.5f, .25f, -.25f},
     DFM_KIND_BDEF4,
     {0, 1, 2, 3},
     {2, -1, .5f, -.5f},
     {"weights-normalized"}},
    {"rounding is no repair",
     BDEF4,
     {0, 1, 2, -1},
     {.333333f, .333333f, .333333f, 0},
     DFM_KIND_BDEF4,
     {0, 1, 2, 0},
     {1 / 3.f, 1 / 3.f, 1 / 3.f, 0},
     {0}},
    {"no weight at all", BDEF4, {-1, 3, 2, 1}, {0}, DFM_KIND_BDEF1, {3}, {0}, {"weights-empty"}},
    {"a sum of 1e-6", BDEF4, {2, 3, 1, 0}, {1e-6f}, DFM_KIND_BDEF1, {2}, {0}, {"weights-empty"}},
    {"a sum just over it",
     BDEF4,
     {2, 3, 1, 0},
     {0, 1.1e-6f},
     DFM_KIND_BDEF1,
     {3},
     {0},
     {"weights-normalized"}},
    {"a sum below 0", BDEF4, {2, 3, 1, 0}, {.5f, -1}, DFM_KIND_BDEF1, {2}, {0}, {"weights-empty"}},
    {"weights that cancel out",
     QDEF,
     {2, 2, 1, 0},
     {1, -1},
     DFM_KIND_QDEF,
     {2, 2, 2, 2},
     {1},
     {"weights-empty"}},
    {"NaN", BDEF4, {2, 3, 1, 0}, {.5f, NAN}, DFM_KIND_BDEF1, {2}, {0}, {"weights-empty"}},
    {"infinite", BDEF2, {2, 3}, {INFINITY}, DFM_KIND_BDEF1, {2}, {0}, {"weights-empty"}},
    {"NaN of sdef",
     SDEF,
     {-1, 3},
     {NAN},
     DFM_KIND_BDEF1,
     {3},
     {0},
     {"weights-empty", "weights-bone-invalid"}},
    {"NaN of a bone that does not exist",
     BDEF4,
     {2, -1, 1, 0},
     {.5f, NAN, .5f},
     DFM_KIND_BDEF2,
     {1, 2},
     {.5f},
     {"weights-bone-invalid"}},
    {"the largest numbers there are",
     BDEF4,
     {0, 1, 2, 3},
     {FLT_MAX, FLT_MAX, FLT_MAX, FLT_MAX},
     DFM_KIND_BDEF4,
     {0, 1, 2, 3},
     {.25f, .25f, .25f, .25f},
     {"weights-normalized"}},
};

static const weight_case raw_cases[] = {
    {"weight above 1", BDEF2, {1, 2}, {1.5f}, DFM_KIND_BDEF2, {1, 2}, {1.5f}, {0}},
    {"weight below 0", BDEF2, {2, 1}, {-.5f}, DFM_KIND_BDEF2, {1, 2}, {1.5f}, {0}},
    {"sdef weight above 1", SDEF, {1, 2}, {7}, DFM_KIND_SDEF, {1, 2}, {7}, {0}},
    {"the second does not exist",
     BDEF2,
     {1, 9},
     {.25f},
     DFM_KIND_BDEF4,
     {1, 1, 1, 1},
     {.25f},
     {"weights-bone-invalid"}},
    {"sum 2",
     BDEF4,
     {0, 1, 2, 3},
     {1, .5f, .25f, .25f},
     DFM_KIND_BDEF4,
     {0, 1, 2, 3},
     {1, .5f, .25f, .25f},
     {0}},
    {"sum 1/2 of qdef",
     QDEF,
     {3, 2, -1, -1},
     {.25f, .25f, 0, 0},
     DFM_KIND_QDEF,
     {3, 2, 3, 3},
     {.25f, .25f, 0, 0},
     {0}},
    {"a sum of two that is not 1",
     BDEF4,
     {3, 1, 0, 0},
     {.5f, .25f, 0, 0},
     DFM_KIND_BDEF4,
     {1, 3, 1, 1},
     {.25f, .5f, 0, 0},
     {0}},
    {"one bone, not all of it",
     BDEF4,
     {3, 1, 0, 0},
     {.5f, 0, 0, 0},
     DFM_KIND_BDEF4,
     {3, 3, 3, 3},
     {.5f, 0, 0, 0},
     {0}},
    {"no weight at all", BDEF4, {-1, 3, 2, 1}, {0}, DFM_KIND_BDEF4, {3, 3, 3, 3}, {0}, {0}},
    {"weights that cancel out",
     QDEF,
     {2, 2, 1, 0},
     {1, -1},
     DFM_KIND_BDEF4,
     {2, 2, 2, 2},
     {0},
     {0}},
    {"NaN",
     BDEF4,
     {2, 3, 1, 0},
     {.5f, NAN},
     DFM_KIND_BDEF4,
     {2, 2, 2, 2},
     {.5f},
     {"weights-not-finite"}},
    {"infinite",
     BDEF2,
     {2, 3},
     {INFINITY},
     DFM_KIND_BDEF4,
     {2, 2, 2, 2},
     {0},
     {"weights-not-finite"}},
    {"NaN of sdef", SDEF, {2, 3}, {NAN}, DFM_KIND_BDEF4, {2, 2, 2, 2}, {0}, {"weights-not-finite"}},
};

static void add_case(struct builder *builder, const weight_case *c) {
    build_vertex vertex = {.position = {1, 2, 3},
                           .normal = {0, 3, 4},
                           .type = c->type,
                           .sdef = {{1, 1, 1}, {2, 1, 1}, {0, 1, 1}}};
    memcpy(vertex.bone, c->bone, sizeof vertex.bone);
    memcpy(vertex.weight, c->weight, sizeof vertex.weight);
    build_add_vertex(builder, &vertex);
}

static void check_block(uint32_t vertex, const weight_case *c) {
    static const int weight_counts[DFM_KIND_COUNT] = {0, 0, 1, 4, 1, 4};
    static const int bone_counts[DFM_KIND_COUNT] = {0, 1, 2, 4, 2, 4};
    const dfm_skin_block *block = block_of(vertex);
    ck_assert_msg(block->kind == c->kind, "%s: kind %u", c->what, block->kind);
    for (int i = 0; i < 4; i++) {
        uint32_t expected = i < bone_counts[c->kind] ? c->bones[i] : 0;
        ck_assert_msg(block->bone[i] == expected, "%s: bone %d is %u", c->what, i, block->bone[i]);
    }
    for (int i = 0; i < weight_counts[c->kind]; i++) {
        float weight = number_of(vertex, 6 + (uint32_t)i);
        ck_assert_msg(fabsf(weight - c->weights[i]) < 1e-7f * fmaxf(1, fabsf(weight)),
                      "%s: weight %d is %g", c->what, i, (double)weight);
    }
}

/* Each warning counts the vertices that name it, and begins at the first of them. */
static void check_warnings(const weight_case *cases, uint32_t count) {
    static const char *const codes[] = {"weights-clamped", "weights-not-finite",
                                        "weights-empty",   "weights-bone-invalid",
                                        "vertex-at-rest",  "weights-normalized"};
    uint32_t codes_met = 0;
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
        uint64_t expected = 0;
        int64_t first_expected = -1, first = -1;
        for (uint32_t i = 0; i < count; i++) {
            for (int w = 0; w < 3; w++) {
                bool named = cases[i].warnings[w] && strcmp(cases[i].warnings[w], codes[k]) == 0;
                expected += named;
                if (named && first_expected < 0)
                    first_expected = i;
            }
        }
        uint64_t met = warned(codes[k], &first);
        ck_assert_msg(met == expected, "%s: %llu times, not %llu", codes[k],
                      (unsigned long long)met, (unsigned long long)expected);
        ck_assert_msg(first == first_expected, "%s: first %lld", codes[k], (long long)first);
        codes_met += met > 0;
    }
    ck_assert_uint_eq(bind->warnings.count, codes_met);
}

static void check_cases(const weight_case *cases, uint32_t count, dfm_weights_mode weights) {
    struct builder builder = begin(count, BONE_COUNT);
    for (uint32_t i = 0; i < count; i++)
        add_case(&builder, &cases[i]);
    bind_document(&builder.pmx, weights, true);
    for (uint32_t i = 0; i < count; i++)
        check_block(i, &cases[i]);
    check_warnings(cases, count);
}

#define CASES(table) table, sizeof table / sizeof *table

START_TEST(clean_weights_become_the_cheapest_kind_that_says_the_same) {
    check_cases(CASES(clean_cases), DFM_WEIGHTS_NORMALIZED);
}
END_TEST

START_TEST(clean_weights_are_the_same_when_raw) {
    check_cases(CASES(clean_cases), DFM_WEIGHTS_RAW);
}
END_TEST

START_TEST(unclean_weights_are_normalized_and_reported) {
    check_cases(CASES(normalized_cases), DFM_WEIGHTS_NORMALIZED);
}
END_TEST

START_TEST(raw_weights_are_kept_and_never_read_a_bone_that_is_not_there) {
    check_cases(CASES(raw_cases), DFM_WEIGHTS_RAW);
}
END_TEST

START_TEST(a_warning_counts_its_vertices_and_names_the_first) {
    struct builder builder = begin(10, BONE_COUNT);
    for (int i = 0; i < 10; i++)
        add_case(&builder, i == 3 || i > 6 ? &normalized_cases[0] : &clean_cases[1]);
    bind_document(&builder.pmx, DFM_WEIGHTS_NORMALIZED, true);
    int64_t first;
    ck_assert_uint_eq(warned("weights-clamped", &first), 4);
    ck_assert_int_eq(first, 3);
    ck_assert_uint_eq(bind->warnings.count, 1);
    ck_assert_ptr_nonnull(strstr(bind->warnings.items[0].message, "clamped"));
}
END_TEST

/* --- SDEF ------------------------------------------------------------------------------------- */

static void bind_sdef(const float sdef[3][3], float w0, bool on) {
    struct builder builder = begin(2, BONE_COUNT);
    build_vertex vertex = {.type = DFM_WEIGHT_SDEF, .bone = {0, 1}, .weight = {w0}};
    const float other[3][3] = {{5, 5, 5}, {6, 6, 6}, {7, 7, 7}};
    memcpy(vertex.sdef, other, sizeof vertex.sdef);
    build_add_vertex(&builder, &vertex); /* so that vertex 1 has row 1 of the SDEF data */
    memcpy(vertex.sdef, sdef, sizeof vertex.sdef);
    vertex.bone[1] = 2;
    build_add_vertex(&builder, &vertex);
    bind_document(&builder.pmx, DFM_WEIGHTS_NORMALIZED, on);
}

START_TEST(sdef_halves_are_corrected_by_the_weighted_middle) {
    const float sdef[3][3] = {{1, 2, 3}, {3, 0, 0}, {0, 4, 8}};
    bind_sdef(sdef, .25f, true);
    ck_assert_uint_eq(block_of(1)->kind, DFM_KIND_SDEF);
    ck_assert(bind->has_sdef);
    ck_assert(!bind->has_qdef);
    for (uint32_t k = 0; k < 3; k++) {
        float c = sdef[0][k], r0 = sdef[1][k], r1 = sdef[2][k], middle = .25f * r0 + .75f * r1;
        ck_assert_float_eq_tol(number_of(1, 7 + k), c, 1e-6f);
        ck_assert_float_eq_tol(number_of(1, 10 + k), (c + (c + r0 - middle)) / 2, 1e-6f);
        ck_assert_float_eq_tol(number_of(1, 13 + k), (c + (c + r1 - middle)) / 2, 1e-6f);
    }
    ck_assert_uint_eq(bind->warnings.count, 0);
}
END_TEST

START_TEST(sdef_off_makes_bdef2_and_no_warning) {
    bind_sdef((const float[3][3]){{NAN, 2, 3}, {3, 0, 0}, {0, 4, 8}}, .25f, false);
    ck_assert_uint_eq(block_of(1)->kind, DFM_KIND_BDEF2);
    ck_assert(!bind->has_sdef);
    ck_assert_uint_eq(bind->warnings.count, 0);
}
END_TEST

START_TEST(sdef_on_the_mirror_plane_stays_sdef_and_is_counted) {
    int64_t first;
    bind_sdef((const float[3][3]){{0}}, .25f, true);
    ck_assert_uint_eq(block_of(1)->kind, DFM_KIND_SDEF);
    ck_assert_uint_eq(warned("sdef-zero-centre", &first), 1);
    ck_assert_int_eq(first, 1);
}
END_TEST

START_TEST(sdef_with_equal_r0_and_r1_is_fine) {
    bind_sdef((const float[3][3]){{0, 1, 0}, {0, 2, 0}, {0, 2, 0}}, .25f, true);
    ck_assert_uint_eq(block_of(1)->kind, DFM_KIND_SDEF);
    ck_assert_uint_eq(bind->warnings.count, 0);
    ck_assert_float_eq_tol(number_of(1, 11), 1, 1e-6f);
}
END_TEST

START_TEST(sdef_that_is_not_finite_is_bdef2_and_counted) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, NAN, NAN, INFINITY, NAN, NAN, NAN};
    float sdef[3][3] = {{1, 2, 3}, {3, 0, 0}, {0, 4, 8}};
    int64_t first;
    sdef[_i / 3][_i % 3] = odd[_i];
    bind_sdef((const float(*)[3])sdef, .25f, true);
    ck_assert_uint_eq(block_of(1)->kind, DFM_KIND_BDEF2);
    ck_assert_float_eq(number_of(1, 6), .25f);
    ck_assert_uint_eq(block_of(0)->kind, DFM_KIND_SDEF);
    ck_assert_uint_eq(warned("sdef-not-finite", &first), 1);
    ck_assert_int_eq(first, 1);
}
END_TEST

START_TEST(sdef_whose_halves_leave_single_precision_is_bdef2) {
    int64_t first;
    bind_sdef((const float[3][3]){{3e38f, 0, 0}, {3e38f, 0, 0}, {-3e38f, 0, 0}}, .25f, true);
    ck_assert_uint_eq(block_of(1)->kind, DFM_KIND_BDEF2);
    ck_assert_uint_eq(warned("sdef-not-finite", &first), 1);
}
END_TEST

/* --- normals ---------------------------------------------------------------------------------- */

START_TEST(normals_are_of_unit_length_or_nothing) {
    static const struct {
        float normal[3], expected[3];
    } cases[] = {
        {{0, 3, 4}, {0, .6f, .8f}},
        {{0, 0, 0}, {0, 0, 0}},
        {{0, NAN, 1}, {0, 0, 0}},
        {{INFINITY, 0, 0}, {0, 0, 0}},
        {{3e38f, 0, -3e38f}, {.70710678f, 0, -.70710678f}},
        {{0, 1e-38f, 0}, {0, 1, 0}},
    };
    struct builder builder = begin(6, 1);
    for (int i = 0; i < 6; i++) {
        build_vertex vertex = {.type = DFM_WEIGHT_BDEF1};
        memcpy(vertex.normal, cases[i].normal, sizeof vertex.normal);
        build_add_vertex(&builder, &vertex);
    }
    bind_document(&builder.pmx, DFM_WEIGHTS_NORMALIZED, true);
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t k = 0; k < 3; k++)
            ck_assert_float_eq_tol(number_of(i, 3 + k), cases[i].expected[k], 1e-6f);
    }
}
END_TEST

/* --- blocks ----------------------------------------------------------------------------------- */

static void check_lane(uint32_t index, uint32_t lane) {
    static const uint32_t row_counts[DFM_KIND_COUNT] = {6, 6, 7, 10, 16, 10};
    const dfm_skin_block *block = &bind->blocks[index];
    uint32_t vertex = bind->vertex[index * DFM_LANES + lane];
    ck_assert_uint_lt(vertex, bind->vertex_count);
    if (lane >= block->lane_count) { /* a spare one: the last once more, in all rows */
        uint32_t last = block->lane_count - 1;
        ck_assert_uint_eq(vertex, bind->vertex[index * DFM_LANES + last]);
        for (uint32_t row = 0; row < row_counts[block->kind]; row++)
            ck_assert_float_eq(number_at(block, row, lane), number_at(block, row, last));
        return;
    }
    ck_assert_uint_eq(bind->slot[vertex], index * DFM_LANES + lane);
    for (uint32_t k = 0; k < 3; k++)
        ck_assert_float_eq(number_at(block, k, lane), model.pmx.vertices.position[vertex][k]);
}

/* Every vertex has one lane, rows lie without gaps, and only the last block of a run of equal kind
 * and bones has spare lanes. */
static void check_blocks(void) {
    static const uint32_t row_counts[DFM_KIND_COUNT] = {6, 6, 7, 10, 16, 10};
    size_t row = 0, vertices = 0;
    for (uint32_t i = 0; i < bind->block_count; i++) {
        const dfm_skin_block *block = &bind->blocks[i], *next = block + 1;
        ck_assert_uint_lt(block->kind, DFM_KIND_COUNT);
        ck_assert_uint_ge(block->lane_count, 1);
        ck_assert_uint_le(block->lane_count, DFM_LANES);
        ck_assert_uint_eq(block->reserved, 0);
        ck_assert_uint_eq(block->row, row);
        if (i + 1 < bind->block_count && block->lane_count < DFM_LANES)
            ck_assert(block->kind != next->kind ||
                      memcmp(block->bone, next->bone, sizeof block->bone) != 0);
        for (uint32_t k = 0; k < 4; k++)
            ck_assert(block->bone[k] < bind->bone_count || block->bone[k] == 0);
        for (uint32_t lane = 0; lane < DFM_LANES; lane++)
            check_lane(i, lane);
        row += row_counts[block->kind];
        vertices += block->lane_count;
    }
    ck_assert_uint_eq(row, bind->row_count);
    ck_assert_uint_eq(vertices, bind->vertex_count);
    ck_assert_uint_eq((uintptr_t)bind->data % 64, 0);
}

START_TEST(blocks_hold_every_vertex_once) {
    dfm_pmx documents[3] = {model_figure(&arena), model_odd(&arena, 2.1f, DFM_TEXT_UTF8)};
    grid_options options = grid_default_options(2003, 60);
    options.bdef4 = options.sdef = options.qdef = 20;
    options.shuffled = true;
    documents[2] = model_grid(&arena, &options);
    for (int i = 0; i < 12; i++) {
        bind_document(&documents[i % 3], i / 3 % 2 ? DFM_WEIGHTS_RAW : DFM_WEIGHTS_NORMALIZED,
                      i / 6);
        check_blocks();
        ck_assert_uint_gt(bind->block_count, bind->vertex_count / DFM_LANES);
        ck_assert_uint_gt(dfm_skin_bind_resident_bytes(bind),
                          bind->row_count * DFM_LANES * sizeof(float));
    }
}
END_TEST

START_TEST(vertices_of_equal_bones_share_blocks_in_file_order) {
    struct builder builder = begin(MAX_VERTICES, BONE_COUNT);
    for (int i = 0; i < 50; i++)
        add_case(&builder, &clean_cases[i % 2]); /* BDEF1 on 2, BDEF2 on 1 and 2, by turns */
    bind_document(&builder.pmx, DFM_WEIGHTS_NORMALIZED, true);
    check_blocks();
    ck_assert_uint_eq(bind->block_count, 8); /* 25 and 25, in eights */
    for (uint32_t i = 0; i < 25; i++) {
        uint32_t block = i / DFM_LANES;
        ck_assert_uint_eq(bind->vertex[block * DFM_LANES + i % DFM_LANES], 2 * i);
        ck_assert_uint_eq(bind->vertex[(4 + block) * DFM_LANES + i % DFM_LANES], 2 * i + 1);
    }
    ck_assert_uint_eq(bind->blocks[3].lane_count, 1);
}
END_TEST

/* More bones than one digit of the sort holds. */
START_TEST(models_of_many_bones_are_sorted_by_the_whole_index) {
    enum { BONES = 5000 };
    struct builder builder = begin(4, BONES);
    static const int32_t bones[4] = {4999, 2951, 903, 2951}; /* equal in the low 11 bits */
    for (int i = 0; i < 4; i++)
        build_add_vertex(&builder, &(build_vertex){.type = DFM_WEIGHT_BDEF1, .bone = {bones[i]}});
    bind_document(&builder.pmx, DFM_WEIGHTS_NORMALIZED, true);
    check_blocks();
    ck_assert_uint_eq(bind->block_count, 3);
    ck_assert_uint_eq(bind->blocks[0].bone[0], 903);
    ck_assert_uint_eq(bind->blocks[1].bone[0], 2951);
    ck_assert_uint_eq(bind->blocks[1].lane_count, 2);
    ck_assert_uint_eq(bind->blocks[2].bone[0], 4999);
}
END_TEST

START_TEST(a_model_without_vertices_has_no_blocks) {
    struct builder builder = begin(0, 140);
    bind_document(&builder.pmx, DFM_WEIGHTS_NORMALIZED, true);
    ck_assert_uint_eq(bind->vertex_count, 0);
    ck_assert_uint_eq(bind->block_count, 0);
    ck_assert_uint_eq(bind->bone_count, 140);
    ck_assert_uint_eq(bind->warnings.count, 0);
}
END_TEST

START_TEST(a_model_without_bones_stays_at_rest) {
    int64_t first;
    struct builder builder = begin(9, 0);
    for (int i = 0; i < 9; i++)
        add_case(&builder, &clean_cases[i]);
    bind_document(&builder.pmx, DFM_WEIGHTS_NORMALIZED, true);
    check_blocks();
    ck_assert_uint_eq(bind->block_count, 2);
    ck_assert_uint_eq(bind->blocks[0].kind, DFM_KIND_REST);
    ck_assert_uint_eq(warned("vertex-at-rest", &first), 9);
    ck_assert_int_eq(first, 0);
}
END_TEST

/* --- morphs ----------------------------------------------------------------------------------- */

START_TEST(morph_offsets_without_a_vertex_are_reported_with_their_morph) {
    int64_t first;
    struct builder builder = begin(2, 1);
    for (int i = 0; i < 2; i++)
        add_case(&builder, &clean_cases[1]);
    dfm_pmx_morph *good = build_add_morph(&builder, "good", "", 1, DFM_MORPH_VERTEX, 1);
    good->offsets.vertices[0].vertex = 1;
    dfm_pmx_morph *bad = build_add_morph(&builder, "bad", "", 1, DFM_MORPH_VERTEX, 2);
    bad->offsets.vertices[0].vertex = 2;
    bad->offsets.vertices[1].vertex = 0xffffffff;
    dfm_pmx_morph *uvs = build_add_morph(&builder, "uvs", "", 1, DFM_MORPH_UV4, 1);
    uvs->offsets.uvs[0].vertex = 2;
    bind_document(&builder.pmx, DFM_WEIGHTS_NORMALIZED, true);
    ck_assert_uint_eq(warned("morph-offset-invalid", &first), 3);
    ck_assert_int_eq(first, 1);
    for (uint32_t i = 0; i < bind->warnings.count; i++)
        if (strcmp(bind->warnings.items[i].code, "morph-offset-invalid") == 0)
            ck_assert_ptr_nonnull(strstr(bind->warnings.items[i].message, "bad"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("skin_bind");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, clean_weights_become_the_cheapest_kind_that_says_the_same);
    tcase_add_test(tests, clean_weights_are_the_same_when_raw);
    tcase_add_test(tests, unclean_weights_are_normalized_and_reported);
    tcase_add_test(tests, raw_weights_are_kept_and_never_read_a_bone_that_is_not_there);
    tcase_add_test(tests, a_warning_counts_its_vertices_and_names_the_first);
    tcase_add_test(tests, sdef_halves_are_corrected_by_the_weighted_middle);
    tcase_add_test(tests, sdef_off_makes_bdef2_and_no_warning);
    tcase_add_test(tests, sdef_on_the_mirror_plane_stays_sdef_and_is_counted);
    tcase_add_test(tests, sdef_with_equal_r0_and_r1_is_fine);
    tcase_add_loop_test(tests, sdef_that_is_not_finite_is_bdef2_and_counted, 0, 9);
    tcase_add_test(tests, sdef_whose_halves_leave_single_precision_is_bdef2);
    tcase_add_test(tests, normals_are_of_unit_length_or_nothing);
    tcase_add_test(tests, blocks_hold_every_vertex_once);
    tcase_add_test(tests, vertices_of_equal_bones_share_blocks_in_file_order);
    tcase_add_test(tests, models_of_many_bones_are_sorted_by_the_whole_index);
    tcase_add_test(tests, a_model_without_vertices_has_no_blocks);
    tcase_add_test(tests, a_model_without_bones_stays_at_rest);
    tcase_add_test(tests, morph_offsets_without_a_vertex_are_reported_with_their_morph);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
