/* Hostile models that still load, and numbers at the end of their range: what comes out is finite,
 * on every backend. */
#include "tests/data/build.h"
#include "tests/data/models.h"
#include "tests/data/mutate.h"
#include "tests/support_skin.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dfm_skinner *skinner;
static dfm_arena arena;

static void setup(void) {
    skinner = NULL;
    arena = (dfm_arena){0};
}

static void teardown(void) {
    dfm_skinner_close(skinner);
    dfm_arena_free(&arena);
}

static bool is_finite(const dfm_layout *layout, const void *frame) {
    size_t size = layout->component == DFM_COMPONENT_F32 ? 4 : 2, bad = 0;
    for (size_t i = 0; i < layout->frame_bytes; i += size) {
        uint32_t bits = 0, exponent = size == 4 ? 0x7f800000 : 0x7c00;
        memcpy(&bits, (const char *)frame + i, size);
        bad += (bits & exponent) == exponent;
    }
    return bad == 0;
}

static uint64_t deformed, refused; /* poses */

/* Every attribute that the model has, as f32 and as f16. A pose that is refused is good too. */
static bool deforms_to_finite_numbers(const dfm_deform_target *target, dfm_workspace *workspace) {
    uint32_t uvs = target->model->pmx.vertices.additional_uv_count;
    bool good = true;
    for (int component = 0; component < 2; component++) {
        dfm_layout layout = {.component = (dfm_component)component};
        for (int a = 0; a < DFM_ATTRIBUTE_COUNT; a++) {
            bool missing = a >= DFM_ATTRIBUTE_UV1 && a <= DFM_ATTRIBUTE_UV4 &&
                           a - DFM_ATTRIBUTE_UV1 >= (int)uvs;
            if (!missing)
                layout.attributes[layout.attribute_count++] = (dfm_attribute)a;
        }
        dfm_layout_finish(&layout, target->bind->vertex_count);
        void *frame = malloc(layout.frame_bytes + 1);
        memset(frame, 0xff, layout.frame_bytes);
        dfm_deform_times times = {0};
        dfm_status status = dfm_deform(target, workspace, 0, &layout, frame, &times, NULL);
        if (status == DFM_OK)
            good = good && is_finite(&layout, frame);
        else
            good = good && status == DFM_ERROR_ARGUMENT;
        deformed += status == DFM_OK;
        refused += status != DFM_OK;
        free(frame);
    }
    return good;
}

/* Wild weights but of morphs that reach bones: those poses would be refused. */
static void pose_wildly(dfm_pose *pose, const dfm_pmx *pmx, uint64_t seed) {
    static const double scales[] = {1, 1e10, 1e18, 1e30};
    skin_pose_random(pose, seed, 360, true);
    for (uint32_t i = 0; i < pose->morph_count; i++) {
        uint8_t type = pmx->morphs[i].type;
        bool moves_vertices = type >= DFM_MORPH_VERTEX && type <= DFM_MORPH_UV4;
        if (moves_vertices && type != DFM_MORPH_BONE)
            pose->morph_weights[i] *= scales[seed % 4];
    }
    memset(pose->ik_off, (int)(seed / 4 % 2), pose->bone_count);
}

/* Binds a loaded model both ways and deforms it in a few poses. */
static bool model_is_safe(const dfm_model *model, uint64_t seed) {
    bool good = true;
    for (int mode = 0; mode < 4; mode++) {
        dfm_deform_target target = {.model = model, .skinner = skinner};
        dfm_skin_bind *bind;
        ck_assert_int_eq(
            dfm_skin_bind_create(model, (dfm_weights_mode)(mode & 1), mode & 2, &bind, NULL),
            DFM_OK);
        target.bind = bind;
        ck_assert_int_eq(dfm_skinner_bind(skinner, bind, &target.binding, NULL), DFM_OK);
        dfm_workspace workspace = {0};
        ck_assert_int_eq(dfm_workspace_reserve(&workspace, bind, NULL), DFM_OK);
        for (int i = 0; i < 2; i++) {
            good = good && deforms_to_finite_numbers(&target, &workspace);
            pose_wildly(&workspace.pose, &model->pmx, seed + (uint64_t)mode);
        }
        good = good && deforms_to_finite_numbers(&target, &workspace);
        dfm_workspace_free(&workspace);
        dfm_skinner_unbind(skinner, target.binding);
        dfm_skin_bind_free(bind);
    }
    return good;
}

static void report_poses(const char *what) {
    printf("cases: %s on %s: %llu poses deform, %llu are refused\n", what,
           skin_backend_name(skinner), (unsigned long long)deformed, (unsigned long long)refused);
    fflush(stdout);
    ck_assert_uint_gt(deformed, refused);
}

/* --- counts that lie ------------------------------------------------------------------------- */

typedef struct mutated {
    uint32_t made, loaded, every;
} mutated;

static void visit_mutation(const mutation *made, void *context) {
    mutated *m = context;
    dfm_model *model;
    m->made++;
    if (dfm_model_load(made->bytes, made->size, &dfm_pmx_default_limits, &model, NULL) != DFM_OK)
        return;
    if (m->loaded++ % m->every == 0 && !model_is_safe(model, m->loaded))
        ck_abort_msg("%s: not finite", made->text);
    dfm_model_release(model);
}

START_TEST(models_with_counts_that_lie_deform_to_finite_numbers) {
    skinner = skin_open_backend(_i, "models with counts that lie");
    if (!skinner)
        return;
    mutated m = {.every = skinner->backend == &dfm_skinner_cpu ? 1 : 8};
    for (int i = 0; i < 2; i++) {
        dfm_pmx odd = model_odd(&arena, i ? 2.1f : 2.0f, i ? DFM_TEXT_UTF8 : DFM_TEXT_UTF16LE);
        size_t size;
        uint8_t *bytes = model_bytes(&odd, NULL, &size);
        mutate_counts(bytes, size, visit_mutation, &m);
        free(bytes);
    }
    printf("cases: %u files with one count that lies, of which %u load, deformed on %s\n", m.made,
           m.loaded, skin_backend_name(skinner));
    fflush(stdout);
    report_poses("counts that lie");
    ck_assert_uint_gt(m.loaded, 50);
}
END_TEST

/* --- bytes that lie -------------------------------------------------------------------------- */

/* Four bytes that are an invalid index, NaN, infinite, huge, tiny or nothing, anywhere. */
static void spoil(uint8_t *bytes, size_t size, uint64_t *random) {
    static const uint32_t patterns[] = {0xffffffff, 0x7f800000, 0x7f7fffff, 0xff7fffff,
                                        0x00000000, 0x80000000, 0x00000001, 0x5cbebc20};
    const uint32_t pattern = patterns[random_next(random) % 8];
    memcpy(bytes + random_next(random) % (size - 4), &pattern, 4);
}

START_TEST(models_with_spoiled_bytes_deform_to_finite_numbers) {
    enum { FILES = 800 };
    skinner = skin_open_backend(_i, "models with spoiled bytes");
    if (!skinner)
        return;
    mutated m = {.every = skinner->backend == &dfm_skinner_cpu ? 1 : 8};
    uint64_t random = 1;
    size_t size;
    dfm_pmx odd = model_odd(&arena, 2.1f, DFM_TEXT_UTF8);
    uint8_t *bytes = model_bytes(&odd, NULL, &size), *copy = malloc(size);
    for (int i = 0; i < FILES; i++) {
        mutation made = {.bytes = copy, .size = size};
        memcpy(copy, bytes, size);
        for (int k = 0; k <= i % 4; k++)
            spoil(copy, size, &random);
        snprintf(made.text, sizeof made.text, "spoiled file %d", i);
        visit_mutation(&made, &m);
    }
    free(copy);
    free(bytes);
    printf("cases: %u spoiled files, of which %u load, deformed on %s\n", m.made, m.loaded,
           skin_backend_name(skinner));
    fflush(stdout);
    report_poses("spoiled bytes");
    ck_assert_uint_gt(m.loaded, FILES / 3);
}
END_TEST

/* --- numbers at the end of their range ------------------------------------------------------- */

static float wild_number(uint64_t *state) {
    static const float numbers[] = {0,      -0.0f, 1,      -1,    1e-45f, 1e-30f,   1e10f,
                                    -1e10f, 1e18f, -1e18f, 9e17f, NAN,    INFINITY, -INFINITY};
    float unit = random_unit(state);
    return unit < 0.3f ? 2 * random_unit(state) - 1
                       : numbers[random_next(state) % (sizeof numbers / sizeof *numbers)];
}

static float tame_number(uint64_t *state) {
    return 20 * random_unit(state) - 10;
}

static float wild_finite(uint64_t *state) {
    float x = wild_number(state);
    return isfinite(x) ? x : 0;
}

static void wild_numbers(uint64_t *state, float *numbers, int count,
                         float (*number)(uint64_t *state)) {
    for (int i = 0; i < count; i++)
        numbers[i] = number(state);
}

static dfm_pmx wild_document(uint64_t seed) {
    enum { VERTICES = 200, BONES = 6, MORPHS = 8 };
    builder_capacity capacity = {.vertices = VERTICES,
                                 .sdef_vertices = VERTICES,
                                 .bones = BONES,
                                 .morphs = MORPHS,
                                 .additional_uvs = 1};
    struct builder builder = build_begin(&arena, 2.1f, DFM_TEXT_UTF8, &capacity);
    bool wild_bones = seed % 4 == 0; /* of which most poses are refused */
    for (int32_t i = 0; i < BONES; i++) {
        float position[3];
        wild_numbers(&seed, position, 3, wild_bones ? wild_finite : tame_number);
        build_add_bone(&builder, "bone", "bone", position, i - 1);
    }
    for (uint32_t i = 0; i < VERTICES; i++) {
        build_vertex vertex = {.type = (dfm_weight_type)(i % DFM_WEIGHT_TYPE_COUNT)};
        wild_numbers(&seed, vertex.position, 3, wild_finite);
        wild_numbers(&seed, vertex.normal, 3, wild_number);
        wild_numbers(&seed, vertex.weight, 4, wild_number);
        wild_numbers(&seed, vertex.sdef[0], 9, wild_number);
        wild_numbers(&seed, vertex.uv, 2, wild_number);
        vertex.edge_scale = wild_number(&seed);
        for (int k = 0; k < 4; k++)
            vertex.bone[k] = (int32_t)(random_next(&seed) % (BONES + 2)) - 1;
        build_add_vertex(&builder, &vertex);
    }
    for (uint32_t i = 0; i < MORPHS; i++) {
        dfm_morph_type type = i % 2 ? DFM_MORPH_VERTEX : (dfm_morph_type)(DFM_MORPH_UV + i % 4 / 2);
        dfm_pmx_morph *morph = build_add_morph(&builder, "morph", "morph", 4, type, VERTICES);
        for (uint32_t k = 0; k < VERTICES; k++) {
            uint32_t vertex = (uint32_t)(random_next(&seed) % (VERTICES + 9));
            if (type == DFM_MORPH_VERTEX) {
                morph->offsets.vertices[k].vertex = vertex;
                wild_numbers(&seed, morph->offsets.vertices[k].offset, 3, wild_number);
            } else {
                morph->offsets.uvs[k].vertex = vertex;
                wild_numbers(&seed, morph->offsets.uvs[k].offset, 4, wild_number);
            }
        }
    }
    return builder.pmx;
}

START_TEST(numbers_at_the_end_of_their_range_deform_to_finite_numbers) {
    skinner = skin_open_backend(_i, "numbers at the end of their range");
    for (uint64_t seed = 1; skinner && seed <= 12; seed++) {
        dfm_pmx pmx = wild_document(seed);
        size_t size;
        uint8_t *bytes = model_bytes(&pmx, NULL, &size);
        dfm_model *model;
        dfm_error error = {0};
        dfm_status status = dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, &error);
        free(bytes);
        ck_assert_msg(status == DFM_OK, "%s", error.info);
        ck_assert_msg(model_is_safe(model, seed), "seed %d", (int)seed);
        dfm_model_release(model);
    }
    if (skinner)
        report_poses("numbers at the end of their range");
}
END_TEST

START_TEST(matrices_at_the_end_of_their_range_deform_to_finite_numbers) {
    skinner = skin_open_backend(_i, "matrices at the end of their range");
    if (!skinner)
        return;
    dfm_pmx pmx = model_odd(&arena, 2.1f, DFM_TEXT_UTF8);
    skin_model m;
    skin_model_open(&m, skinner, &pmx, DFM_WEIGHTS_NORMALIZED, true);
    dfm_deform_target target = {m.model, m.bind, skinner, m.binding};
    static const double numbers[] = {0, 1, -1, 1e-30, 1e18, -1e18, 1e9, 5e17};
    uint64_t state = 5;
    m.workspace.pose.has_matrices = true;
    for (int round = 0; round < 30; round++) {
        for (uint32_t i = 0; i < m.workspace.pose.bone_count * 12; i++)
            m.workspace.pose.matrices[i / 12][i % 12] =
                numbers[random_next(&state) % (round < 10 ? 3 : 8)];
        ck_assert_msg(deforms_to_finite_numbers(&target, &m.workspace), "round %d", round);
    }
    report_poses("matrices at the end of their range");
    skin_model_close(&m);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("skin hostile");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, models_with_counts_that_lie_deform_to_finite_numbers, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, models_with_spoiled_bytes_deform_to_finite_numbers, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, numbers_at_the_end_of_their_range_deform_to_finite_numbers, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, matrices_at_the_end_of_their_range_deform_to_finite_numbers, 0,
                        skin_backend_count());
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
