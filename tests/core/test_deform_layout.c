/* Frames in every layout hold the same numbers, where their layout says. */
#include "tests/data/models.h"
#include "tests/support_skin.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static dfm_skinner *skinner;
static dfm_arena arena;
static skin_model model;
static float *whole; /* all attributes, f32, interleaved */
static dfm_layout whole_layout;

static dfm_layout make_layout(const dfm_attribute *attributes, uint32_t count,
                              dfm_component component, bool planar) {
    dfm_layout layout = {.component = component, .planar = planar, .attribute_count = count};
    memcpy(layout.attributes, attributes, count * sizeof *attributes);
    dfm_layout_finish(&layout, model.bind->vertex_count);
    return layout;
}

static void deform(const dfm_layout *layout, void *frame) {
    dfm_deform_target target = {model.model, model.bind, skinner, model.binding};
    dfm_deform_times times = {0};
    ck_assert_int_eq(dfm_deform(&target, &model.workspace, 0, layout, frame, &times, NULL), DFM_OK);
}

static bool begin(int backend, const char *what) {
    arena = (dfm_arena){0};
    skinner = skin_open_backend(backend, what);
    if (!skinner)
        return false;
    dfm_pmx pmx = model_odd(&arena, 2.1f, DFM_TEXT_UTF8);
    skin_model_open(&model, skinner, &pmx, DFM_WEIGHTS_NORMALIZED, true);
    skin_pose_random(&model.workspace.pose, 7, 60, true);
    dfm_attribute all[DFM_ATTRIBUTE_COUNT];
    for (int i = 0; i < DFM_ATTRIBUTE_COUNT; i++)
        all[i] = (dfm_attribute)i;
    whole_layout = make_layout(all, DFM_ATTRIBUTE_COUNT, DFM_COMPONENT_F32, false);
    whole = malloc(whole_layout.frame_bytes);
    deform(&whole_layout, whole);
    return true;
}

static void end(void) {
    free(whole);
    skin_model_close(&model);
    dfm_skinner_close(skinner);
    dfm_arena_free(&arena);
}

START_TEST(names_and_components_are_the_contracts) {
    static const char *const names[] = {"position", "normal", "uv",  "uv1",
                                        "uv2",      "uv3",    "uv4", "edge_scale"};
    static const uint32_t components[] = {3, 3, 2, 4, 4, 4, 4, 1};
    for (int i = 0; i < DFM_ATTRIBUTE_COUNT; i++) {
        ck_assert_str_eq(dfm_attribute_name((dfm_attribute)i), names[i]);
        ck_assert_uint_eq(dfm_attribute_components((dfm_attribute)i), components[i]);
    }
}
END_TEST

START_TEST(offsets_follow_the_order_asked_for) {
    dfm_layout layout = {
        .component = DFM_COMPONENT_F32,
        .attribute_count = 3,
        .attributes = {DFM_ATTRIBUTE_UV, DFM_ATTRIBUTE_POSITION, DFM_ATTRIBUTE_EDGE_SCALE}};
    dfm_layout_finish(&layout, 100);
    ck_assert_uint_eq(layout.stride_bytes, 24);
    ck_assert_uint_eq(layout.frame_bytes, 2400);
    ck_assert_uint_eq(layout.offset_bytes[0], 0);
    ck_assert_uint_eq(layout.offset_bytes[1], 8);
    ck_assert_uint_eq(layout.offset_bytes[2], 20);
    layout.planar = true;
    layout.component = DFM_COMPONENT_F16;
    dfm_layout_finish(&layout, 100);
    ck_assert_uint_eq(layout.stride_bytes, 12);
    ck_assert_uint_eq(layout.frame_bytes, 1200);
    ck_assert_uint_eq(layout.offset_bytes[0], 0);
    ck_assert_uint_eq(layout.offset_bytes[1], 400);
    ck_assert_uint_eq(layout.offset_bytes[2], 1000);
}
END_TEST

START_TEST(frames_beyond_4_gigabytes_are_measured_right) {
    dfm_layout layout = {.component = DFM_COMPONENT_F32,
                         .planar = true,
                         .attribute_count = 2,
                         .attributes = {DFM_ATTRIBUTE_UV1, DFM_ATTRIBUTE_UV2}};
    dfm_layout_finish(&layout, 300000000);
    ck_assert(layout.frame_bytes == 9600000000u);
    ck_assert(layout.offset_bytes[1] == 4800000000u);
}
END_TEST

/* Element by element, where the layout says it lies, against the whole frame. */
static int count_differences(const dfm_layout *layout, const char *frame) {
    int wrong = 0;
    for (uint32_t i = 0; i < layout->attribute_count; i++) {
        dfm_attribute attribute = layout->attributes[i];
        uint32_t components = dfm_attribute_components(attribute);
        size_t size = layout->component == DFM_COMPONENT_F32 ? 4 : 2;
        size_t step = layout->planar ? components * size : layout->stride_bytes;
        for (uint32_t v = 0; v < model.bind->vertex_count; v++) {
            const char *got = frame + layout->offset_bytes[i] + v * step;
            const float *expected =
                whole + (v * whole_layout.stride_bytes + whole_layout.offset_bytes[attribute]) / 4;
            uint16_t halves[4];
            dfm_half_from_floats(halves, expected, components);
            wrong +=
                memcmp(got, size == 4 ? (const void *)expected : halves, components * size) != 0;
        }
    }
    return wrong;
}

START_TEST(every_layout_holds_the_same_numbers) {
    static const struct {
        uint32_t count;
        dfm_attribute attributes[DFM_ATTRIBUTE_COUNT];
    } orders[] = {
        {1, {DFM_ATTRIBUTE_POSITION}},
        {1, {DFM_ATTRIBUTE_NORMAL}},
        {1, {DFM_ATTRIBUTE_EDGE_SCALE}},
        {2, {DFM_ATTRIBUTE_POSITION, DFM_ATTRIBUTE_NORMAL}},
        {2, {DFM_ATTRIBUTE_NORMAL, DFM_ATTRIBUTE_POSITION}},
        {3, {DFM_ATTRIBUTE_EDGE_SCALE, DFM_ATTRIBUTE_POSITION, DFM_ATTRIBUTE_NORMAL}},
        {3, {DFM_ATTRIBUTE_POSITION, DFM_ATTRIBUTE_UV, DFM_ATTRIBUTE_NORMAL}},
        {8,
         {DFM_ATTRIBUTE_UV4, DFM_ATTRIBUTE_UV3, DFM_ATTRIBUTE_EDGE_SCALE, DFM_ATTRIBUTE_POSITION,
          DFM_ATTRIBUTE_UV1, DFM_ATTRIBUTE_UV, DFM_ATTRIBUTE_NORMAL, DFM_ATTRIBUTE_UV2}},
    };
    enum { GUARD = 64 };
    if (!begin(_i, "layouts"))
        return;
    for (size_t order = 0; order < sizeof orders / sizeof *orders; order++) {
        for (int form = 0; form < 4; form++) {
            dfm_layout layout = make_layout(orders[order].attributes, orders[order].count,
                                            (dfm_component)(form & 1), form & 2);
            /* Any alignment, and nothing in front or behind is written. */
            char *memory = malloc(layout.frame_bytes + 2 * GUARD + 1);
            char *frame = memory + GUARD + 1;
            memset(memory, 0x55, layout.frame_bytes + 2 * GUARD + 1);
            deform(&layout, frame);
            int wrong = count_differences(&layout, frame);
            for (int i = 0; i < GUARD; i++)
                wrong += memory[i] != 0x55 || frame[layout.frame_bytes + (size_t)i] != 0x55;
            ck_assert_msg(wrong == 0, "order %zu form %d: %d wrong", order, form, wrong);
            free(memory);
        }
    }
    end();
}
END_TEST

START_TEST(bind_attributes_are_the_files_with_finite_numbers) {
    if (!begin(0, "bind attributes"))
        return;
    const dfm_pmx_vertices *vertices = &model.model->pmx.vertices;
    int zeroed = 0;
    for (uint32_t i = 0; i < whole_layout.attribute_count; i++) {
        dfm_layout_write_bind(&whole_layout, i, vertices, whole);
        dfm_attribute attribute = whole_layout.attributes[i];
        uint32_t components = dfm_attribute_components(attribute);
        const float *source = dfm_layout_source(vertices, attribute);
        for (uint32_t v = 0; v < vertices->count; v++, source += components) {
            const float *got =
                whole + (v * whole_layout.stride_bytes + whole_layout.offset_bytes[i]) / 4;
            bool finite = true;
            for (uint32_t k = 0; k < components; k++)
                finite = finite && isfinite(source[k]);
            zeroed += !finite;
            for (uint32_t k = 0; k < components; k++)
                ck_assert_float_eq(got[k], finite ? source[k] : 0);
        }
    }
    ck_assert_int_gt(zeroed, 0);
    end();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("deform layout");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, names_and_components_are_the_contracts);
    tcase_add_test(tests, offsets_follow_the_order_asked_for);
    tcase_add_test(tests, frames_beyond_4_gigabytes_are_measured_right);
    tcase_add_loop_test(tests, every_layout_holds_the_same_numbers, 0, skin_backend_count());
    tcase_add_test(tests, bind_attributes_are_the_files_with_finite_numbers);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
