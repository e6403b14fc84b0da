/* What is uploaded, read, bound and kept, each with the Nth allocation failing: an error, no leak,
 * and what had been kept before is whole. */
#include "core/cache.h"
#include "core/motion_store.h"
#include "core/vpd.h"
#include "tests/data/models.h"
#include "tests/support_vmd.h"
#include "tests/wrap_allocator.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Check's own macros allocate: they come when all counting is done. */

/* A file of a kind whose parts are too large for the memory that comes first. */
typedef struct file {
    uint8_t *bytes;
    size_t size;
} file;

static file figure, legs, small; /* models */
static vmd_writer bones, morphs, switches;
static dfm_model *model;
static dfm_skinners skinners;

static file file_of(dfm_pmx pmx) {
    file made;
    made.bytes = model_bytes(&pmx, NULL, &made.size);
    return made;
}

static void make_models(void) {
    dfm_arena arena = {0};
    grid_options options = grid_default_options(64, 4);
    figure = file_of(model_figure(&arena));
    legs = file_of(model_legs440(&arena));
    small = file_of(model_grid(&arena, &options));
    dfm_arena_free(&arena);
}

/* Tracks of many names. */
static void make_motions(void) {
    static const float still[3], no_turn[4] = {0, 0, 0, 1};
    char name[16];
    const char *names[] = {name};
    vmd_begin(&bones), vmd_section(&bones);
    vmd_begin(&morphs), vmd_section(&morphs), vmd_section(&morphs);
    vmd_begin(&switches);
    for (int i = 0; i < 6; i++)
        vmd_section(&switches);
    for (uint32_t i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "name%u", i);
        vmd_bone(&bones, name, i, still, no_turn, NULL);
        vmd_morph(&morphs, name, i, 1);
        vmd_property(&switches, i, names, &(uint8_t){1}, 1);
    }
}

static void setup(void) {
    const dfm_skinner_options options = {.worker_count = 1};
    make_models();
    make_motions();
    ck_assert_int_eq(dfm_skinner_open(&dfm_skinner_cpu, &options, &skinners.cpu, NULL), DFM_OK);
    ck_assert_int_eq(dfm_model_load(legs.bytes, legs.size, &dfm_pmx_default_limits, &model, NULL),
                     DFM_OK);
}

static void teardown(void) {
    dfm_model_release(model);
    dfm_skinner_close(skinners.cpu);
    free(figure.bytes);
    free(legs.bytes);
    free(small.bytes);
}

/* --- the Nth allocation fails ----------------------------------------------------------------- */

typedef dfm_status act(const void *what, dfm_error *error);

/* One act after another, each with one allocation more that goes well before one fails. It undoes
 * what it did. */
static void fails_everywhere(act *does, const void *what, size_t at_least) {
    size_t n = 0;
    dfm_status status;
    do {
        dfm_error error = {0};
        size_t live = wrap.live_count;
        wrap_reset(++n);
        status = does(what, &error);
        bool reached = wrap.calls >= n;
        wrap_reset(0);
        size_t leaked = wrap.live_count - live;
        ck_assert_msg(leaked == 0, "allocation %zu leaks", n);
        ck_assert_msg(status == (reached ? DFM_ERROR_NO_MEMORY : DFM_OK), "allocation %zu: %s", n,
                      dfm_status_name(status));
        ck_assert_int_eq(error.status, status);
    } while (status != DFM_OK);
    ck_assert_uint_ge(n, at_least);
}

/* --- motions and poses ------------------------------------------------------------------------ */

static dfm_status load_motion(const void *what, dfm_error *error) {
    const vmd_writer *vmd = what;
    dfm_motion *motion;
    dfm_status status = dfm_motion_load(vmd->bytes, vmd->size, &motion, error);
    dfm_motion_release(motion);
    return status;
}

START_TEST(each_failing_allocation_of_a_motion_is_an_error_and_no_leak) {
    const vmd_writer *const files[] = {&bones, &morphs, &switches};
    fails_everywhere(load_motion, files[_i], 5);
}
END_TEST

static dfm_status bind_motion(const void *what, dfm_error *error) {
    dfm_motion_binding *binding;
    dfm_status status = dfm_motion_bind((dfm_motion *)(uintptr_t)what, model, &binding, error);
    dfm_motion_binding_free(binding);
    return status;
}

START_TEST(each_failing_allocation_of_a_motions_binding_is_an_error_and_no_leak) {
    dfm_motion *motion;
    ck_assert_int_eq(dfm_motion_load(bones.bytes, bones.size, &motion, NULL), DFM_OK);
    fails_everywhere(bind_motion, motion, 5);
    dfm_motion_release(motion);
}
END_TEST

static dfm_status read_vpd(const void *what, dfm_error *error) {
    dfm_arena arena = {0};
    dfm_vpd vpd;
    dfm_status status = dfm_vpd_read(what, strlen(what), &arena, &vpd, error);
    dfm_arena_free(&arena);
    return status;
}

START_TEST(each_failing_allocation_of_a_vpd_is_an_error_and_no_leak) {
    enum { BLOCKS = 600 };
    char *text = malloc(BLOCKS * 64 + 64);
    char *at = text + sprintf(text, "Vocaloid Pose Data file\n");
    for (int i = 0; i < BLOCKS; i++)
        at += sprintf(
            at, i % 2 ? "Morph%d{\x8d\xaa%d\n1;\n}\n" : "Bone%d{\x8d\xaa%d\n0,1,0;0,0,0,1;}\n", i,
            i);
    fails_everywhere(read_vpd, text, 6);
    free(text);
}
END_TEST

/* --- what is kept ----------------------------------------------------------------------------- */

enum { PLENTY = 1 << 28 };

/* Creates the store of motions, puts two, looks one up, lists, deletes, and frees it. */
static dfm_status keep_motions(const void *what, dfm_error *error) {
    const vmd_writer *const *files = what;
    dfm_motion_store *store;
    dfm_status status = dfm_motion_store_create(PLENTY, &store, error);
    for (int i = 0; status == DFM_OK && i < 2; i++) {
        dfm_stored_motion *stored;
        bool created;
        status =
            dfm_motion_store_put(store, files[i]->bytes, files[i]->size, &stored, &created, error);
        /* What was kept before the failure is still had. */
        uint64_t kept = dfm_motion_store_get_stats(store).motions;
        if (kept != (uint64_t)i + (status == DFM_OK))
            abort();
        dfm_stored_motion_release(stored);
    }
    dfm_motion_store_free(store);
    return status;
}

START_TEST(each_failing_allocation_of_the_motion_store_is_an_error_and_no_leak) {
    const vmd_writer *const files[] = {&bones, &switches};
    fails_everywhere(keep_motions, files, 15);
}
END_TEST

/* Creates the cache, puts two models, changes one's settings, and frees it. */
static dfm_status keep_models(const void *what, dfm_error *error) {
    const file *const *files = what;
    const dfm_cache_options options = {
        .budget_bytes = PLENTY, .limits = dfm_pmx_default_limits, .skinners = &skinners};
    const dfm_settings cpu = {.mode = DFM_MODE_CPU, .sdef = true},
                       raw = {.weights = DFM_WEIGHTS_RAW};
    dfm_cache *cache;
    dfm_resident *resident = NULL;
    bool created;
    dfm_status status = dfm_cache_create(&options, &cache, error);
    for (int i = 0; status == DFM_OK && i < 2; i++) {
        dfm_resident_release(resident);
        status = dfm_cache_put(cache, files[i]->bytes, files[i]->size, &cpu,
                               (dfm_settings_given){.mode = true}, &resident, &created, error);
        uint64_t kept = dfm_cache_get_stats(cache).models;
        if (kept != (uint64_t)i + (status == DFM_OK))
            abort();
    }
    if (status == DFM_OK) {
        dfm_resident *next;
        status = dfm_cache_configure(cache, resident->id.text, NULL, &raw,
                                     (dfm_settings_given){.weights = true}, &next, error);
        dfm_resident *now = NULL;
        if (dfm_cache_get(cache, resident->id.text, &now, NULL) != DFM_OK ||
            (now->settings.weights == DFM_WEIGHTS_RAW) != (status == DFM_OK))
            abort();
        dfm_resident_release(now);
        dfm_resident_release(next);
    }
    dfm_resident_release(resident);
    dfm_cache_free(cache);
    return status;
}

START_TEST(each_failing_allocation_of_the_model_cache_is_an_error_and_no_leak) {
    const file *const files[] = {&figure, &small};
    fails_everywhere(keep_models, files, 40);
}
END_TEST

START_TEST(each_failing_allocation_of_a_rig_of_many_loops_is_an_error_and_no_leak) {
    const file *const files[] = {&legs, &small};
    fails_everywhere(keep_models, files, 40);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("uploads_memory");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, each_failing_allocation_of_a_motion_is_an_error_and_no_leak, 0, 3);
    tcase_add_test(tests, each_failing_allocation_of_a_motions_binding_is_an_error_and_no_leak);
    tcase_add_test(tests, each_failing_allocation_of_a_vpd_is_an_error_and_no_leak);
    tcase_add_test(tests, each_failing_allocation_of_the_motion_store_is_an_error_and_no_leak);
    tcase_add_test(tests, each_failing_allocation_of_the_model_cache_is_an_error_and_no_leak);
    tcase_add_test(tests, each_failing_allocation_of_a_rig_of_many_loops_is_an_error_and_no_leak);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
