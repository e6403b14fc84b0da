/* Binding, reserving and deforming when memory runs out, and that a steady state takes none. */
#include "tests/data/models.h"
#include "tests/support_skin.h"
#include "tests/wrap_allocator.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static dfm_arena arena;
static dfm_model *model;
static dfm_error error;

static void setup(void) {
    dfm_pmx pmx = model_odd(&arena, 2.1f, DFM_TEXT_UTF8);
    size_t size;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    ck_assert_int_eq(dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, NULL), DFM_OK);
    free(bytes);
}

static void teardown(void) {
    dfm_model_release(model);
    dfm_arena_free(&arena);
}

/* Check's own macros allocate: they come when all counting is done. */
START_TEST(each_failing_allocation_of_a_bind_is_an_error_and_no_leak) {
    size_t n = 0;
    dfm_status status;
    do {
        dfm_skin_bind *bind = (dfm_skin_bind *)1;
        size_t live = wrap.live_count;
        dfm_error_clear(&error);
        wrap_reset(++n);
        status = dfm_skin_bind_create(model, DFM_WEIGHTS_NORMALIZED, true, &bind, &error);
        bool given = bind != NULL;
        dfm_skin_bind_free(bind);
        size_t leaked = wrap.live_count - live;
        wrap_reset(0);
        ck_assert_uint_eq(leaked, 0);
        ck_assert(status == DFM_OK || status == DFM_ERROR_NO_MEMORY);
        ck_assert_int_eq(error.status, status);
        ck_assert_int_eq(given, status == DFM_OK);
    } while (status != DFM_OK);
    ck_assert_uint_gt(n, 3);
}
END_TEST

static dfm_layout all_attributes(uint32_t vertex_count) {
    dfm_layout layout = {.component = DFM_COMPONENT_F32, .attribute_count = DFM_ATTRIBUTE_COUNT};
    for (int i = 0; i < DFM_ATTRIBUTE_COUNT; i++)
        layout.attributes[i] = (dfm_attribute)i;
    dfm_layout_finish(&layout, vertex_count);
    return layout;
}

typedef struct deforming {
    dfm_deform_target target;
    dfm_layout layout;
    dfm_workspace workspace;
    void *frame;
} deforming;

static dfm_status reserve_and_deform(deforming *d) {
    dfm_deform_times times = {0};
    dfm_status status = dfm_workspace_reserve(&d->workspace, d->target.bind, &error);
    if (status != DFM_OK)
        return status;
    skin_pose_random(&d->workspace.pose, 1, 60, true);
    return dfm_deform(&d->target, &d->workspace, 0, &d->layout, d->frame, &times, &error);
}

/* With the Nth allocation failing; then again with none failing, which must give the bytes
 * expected: the workspace stays usable. Returns whether there was an Nth. */
static bool deform_failing_at(deforming *d, size_t n, const void *expected) {
    dfm_error_clear(&error);
    size_t live = wrap.live_count;
    wrap_reset(n);
    dfm_status status = reserve_and_deform(d);
    bool reached = wrap.calls >= n;
    wrap_reset(0);
    dfm_error failure = error;
    dfm_status again = reserve_and_deform(d);
    dfm_workspace_free(&d->workspace);
    size_t leaked = wrap.live_count - live;
    ck_assert_uint_eq(leaked, 0);
    ck_assert_int_eq(status, reached ? DFM_ERROR_NO_MEMORY : DFM_OK);
    ck_assert_int_eq(failure.status, status);
    ck_assert_int_eq(again, DFM_OK);
    ck_assert_int_eq(memcmp(d->frame, expected, d->layout.frame_bytes), 0);
    return reached;
}

static deforming begin_deforming(void) {
    dfm_skinner_options options = {.worker_count = 1};
    dfm_skin_bind *bind;
    deforming d = {.target = {.model = model}};
    ck_assert_int_eq(dfm_skin_bind_create(model, DFM_WEIGHTS_NORMALIZED, true, &bind, NULL),
                     DFM_OK);
    d.target.bind = bind;
    ck_assert_int_eq(dfm_skinner_open(&dfm_skinner_cpu, &options, &d.target.skinner, NULL), DFM_OK);
    ck_assert_int_eq(dfm_skinner_bind(d.target.skinner, bind, &d.target.binding, NULL), DFM_OK);
    d.layout = all_attributes(bind->vertex_count);
    d.frame = malloc(d.layout.frame_bytes);
    return d;
}

static void end_deforming(deforming *d) {
    free(d->frame);
    dfm_workspace_free(&d->workspace);
    dfm_skinner_unbind(d->target.skinner, d->target.binding);
    dfm_skinner_close(d->target.skinner);
    dfm_skin_bind_free((dfm_skin_bind *)d->target.bind);
}

START_TEST(each_failing_allocation_of_a_deform_is_an_error_and_the_workspace_stays_usable) {
    deforming d = begin_deforming();
    ck_assert_int_eq(reserve_and_deform(&d), DFM_OK);
    dfm_workspace_free(&d.workspace);
    void *expected = malloc(d.layout.frame_bytes);
    memcpy(expected, d.frame, d.layout.frame_bytes);
    size_t n = 1;
    while (deform_failing_at(&d, n, expected))
        n++;
    ck_assert_uint_gt(n, 4);
    free(expected);
    end_deforming(&d);
}
END_TEST

START_TEST(a_warm_workspace_deforms_without_allocating) {
    deforming d = begin_deforming();
    ck_assert_int_eq(reserve_and_deform(&d), DFM_OK);
    wrap_reset(0);
    dfm_status status = reserve_and_deform(&d);
    size_t calls = wrap.calls;
    ck_assert_int_eq(status, DFM_OK);
    ck_assert_uint_eq(calls, 0);
    end_deforming(&d);
}
END_TEST

/* Opens, with the Nth allocation failing; *skinner is NULL then. Returns whether there was an Nth.
 */
static bool open_failing_at(int backend, size_t n, dfm_skinner **skinner) {
    dfm_skinner_options options;
    const dfm_skinner_backend *functions = skin_backend(backend, &options);
    size_t live = wrap.live_count;
    dfm_error_clear(&error);
    wrap_reset(n);
    dfm_status status = dfm_skinner_open(functions, &options, skinner, &error);
    bool reached = wrap.calls >= n;
    wrap_reset(0);
    size_t leaked = wrap.live_count - live;
    if (reached) {
        ck_assert_int_eq(status, DFM_ERROR_NO_MEMORY);
        ck_assert_ptr_null(*skinner);
        ck_assert_uint_eq(leaked, 0);
    } else {
        ck_assert_msg(status == DFM_OK, "%s", error.info);
    }
    return reached;
}

static bool bind_failing_at(dfm_skinner *skinner, const dfm_skin_bind *bind, size_t n) {
    dfm_skin_binding *binding;
    size_t live = wrap.live_count;
    wrap_reset(n);
    dfm_status status = dfm_skinner_bind(skinner, bind, &binding, NULL);
    bool reached = wrap.calls >= n, given = binding != NULL;
    wrap_reset(0);
    if (given)
        dfm_skinner_unbind(skinner, binding);
    size_t leaked = wrap.live_count - live;
    ck_assert_int_eq(status, reached ? DFM_ERROR_NO_MEMORY : DFM_OK);
    ck_assert_int_eq(given, !reached);
    ck_assert_uint_eq(leaked, 0);
    return reached;
}

START_TEST(each_failing_allocation_of_opening_and_binding_is_an_error_and_no_leak) {
    dfm_skinner *skinner = skin_open_backend(_i, "memory that runs out");
    dfm_skin_bind *bind;
    size_t n = 1;
    if (!skinner)
        return;
    dfm_skinner_close(skinner);
    while (open_failing_at(_i, n, &skinner))
        n++;
    ck_assert_uint_gt(n, 1);
    ck_assert_int_eq(dfm_skin_bind_create(model, DFM_WEIGHTS_RAW, true, &bind, NULL), DFM_OK);
    for (n = 1; bind_failing_at(skinner, bind, n);)
        n++;
    ck_assert_uint_gt(n, 1);
    dfm_skin_bind_free(bind);
    dfm_skinner_close(skinner);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("skin memory");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, each_failing_allocation_of_a_bind_is_an_error_and_no_leak);
    tcase_add_test(tests,
                   each_failing_allocation_of_a_deform_is_an_error_and_the_workspace_stays_usable);
    tcase_add_test(tests, a_warm_workspace_deforms_without_allocating);
    tcase_set_timeout(tests, 60); /* a driver may compile, on a busy machine */
    tcase_add_loop_test(tests,
                        each_failing_allocation_of_opening_and_binding_is_an_error_and_no_leak, 0,
                        skin_backend_count());
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
