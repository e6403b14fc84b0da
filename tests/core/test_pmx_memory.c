/* Loading and writing when memory runs out, and how much memory hostile files can make it take. */
#include "core/model.h"
#include "tests/data/models.h"
#include "tests/data/mutate.h"
#include "tests/data/real.h"
#include "tests/wrap_allocator.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static dfm_arena arena;
static dfm_error error;

static void setup(void) {
    dfm_error_clear(&error);
}

static void teardown(void) {
    dfm_arena_free(&arena);
}

/* --- the Nth allocation fails ------------------------------------------------------------- */

/* Loads with the Nth allocation failing. Returns whether there was an Nth. Check's own macros
 * allocate: they come when all counting is done. */
static bool load_failing_at(const uint8_t *bytes, size_t size, size_t n) {
    dfm_model *model = (dfm_model *)1;
    size_t live = wrap.live_count;
    dfm_error_clear(&error);
    wrap_reset(n);
    dfm_status status = dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, &error);
    bool reached = wrap.calls >= n, given = model != NULL;
    dfm_model_release(model);
    size_t leaked = wrap.live_count - live;
    wrap_reset(0);
    ck_assert_uint_eq(leaked, 0);
    ck_assert_int_eq(status, reached ? DFM_ERROR_NO_MEMORY : DFM_OK);
    ck_assert_int_eq(error.status, status);
    ck_assert_int_eq(given, !reached);
    return reached;
}

static void load_failing_everywhere(const dfm_pmx *pmx, size_t at_least) {
    size_t size, n = 1;
    uint8_t *bytes = model_bytes(pmx, NULL, &size);
    while (load_failing_at(bytes, size, n))
        n++;
    ck_assert_uint_ge(n, at_least);
    free(bytes);
}

START_TEST(each_failing_allocation_of_a_load_is_an_error_and_no_leak) {
    dfm_pmx odd = model_odd(&arena, 2.1f, DFM_TEXT_UTF16LE);
    dfm_pmx legs = model_legs440(&arena);
    load_failing_everywhere(&odd, 3);
    load_failing_everywhere(&legs, 10);
}
END_TEST

START_TEST(each_failing_allocation_of_a_write_is_an_error_and_no_leak) {
    dfm_pmx legs = model_legs440(&arena);
    size_t n = 0;
    dfm_status status;
    do {
        uint8_t *bytes = (uint8_t *)1;
        size_t size, live = wrap.live_count;
        dfm_error_clear(&error);
        wrap_reset(++n);
        status = dfm_pmx_write(&legs, NULL, &bytes, &size, &error);
        wrap_reset(0);
        bool given = bytes != NULL;
        free(bytes);
        size_t leaked = wrap.live_count - live;
        ck_assert_uint_eq(leaked, 0);
        ck_assert(status == DFM_OK || status == DFM_ERROR_NO_MEMORY);
        ck_assert_int_eq(error.status, status);
        ck_assert_int_eq(given, status == DFM_OK);
    } while (status != DFM_OK);
    ck_assert_uint_gt(n, 5);
}
END_TEST

/* --- hostile files stay cheap ------------------------------------------------------------- */

/* What a model takes whatever its file: its struct with the room for warnings, and the arena's
 * first chunk. */
enum { FIXED_BYTES = 64 * 1024, BYTES_PER_FILE_BYTE = 64 };

struct tally {
    size_t visited, loaded, failed;
};

static void load_cheaply(const mutation *made, void *context) {
    struct tally *tally = context;
    dfm_model *model;
    size_t before = wrap.live_bytes, live = wrap.live_count;
    dfm_error_clear(&error);
    wrap_reset(0);
    dfm_status status =
        dfm_model_load(made->bytes, made->size, &dfm_pmx_default_limits, &model, &error);
    size_t taken = wrap.peak_bytes - before;
    if (taken > FIXED_BYTES + BYTES_PER_FILE_BYTE * made->size)
        ck_abort_msg("%s: %zu bytes taken for a file of %zu", made->text, taken, made->size);
    dfm_model_release(model);
    if (wrap.live_count != live)
        ck_abort_msg("%s: a leak", made->text);
    tally->visited++;
    tally->loaded += status == DFM_OK;
    tally->failed += status != DFM_OK;
}

START_TEST(lying_counts_never_take_64_times_the_file) {
    struct tally tally = {0};
    for (int i = 0; i < 4; i++) {
        dfm_pmx odd =
            model_odd(&arena, i % 2 ? 2.1f : 2.0f, i / 2 ? DFM_TEXT_UTF8 : DFM_TEXT_UTF16LE);
        size_t size;
        uint8_t *bytes = model_bytes(&odd, NULL, &size);
        mutate_counts(bytes, size, load_cheaply, &tally);
        free(bytes);
    }
    ck_assert_uint_gt(tally.visited, 1000);
    ck_assert_uint_gt(tally.failed, tally.visited / 2);
    ck_assert_uint_gt(tally.loaded, 0);
}
END_TEST

START_TEST(real_models_with_lying_counts_never_take_64_times_the_file) {
    struct tally tally = {0};
    real_models models = real_models_find("real models with lying counts");
    for (size_t i = 0; i < models.count; i++) {
        if (real_is(models.paths[i], "joint_orient_test.pmx"))
            continue;
        size_t size;
        uint8_t *bytes = real_read_file(models.paths[i], &size);
        if (size < 100000)
            mutate_counts(bytes, size, load_cheaply, &tally);
        free(bytes);
    }
    real_models_free(&models);
}
END_TEST

/* The dearest a byte can be: files of nothing but the smallest records of one kind. */
static void expect_cheap(const dfm_pmx *pmx) {
    struct tally tally = {0};
    size_t size;
    uint8_t *bytes = model_bytes(pmx, NULL, &size);
    const mutation whole = {.bytes = bytes, .size = size, .text = "smallest records"};
    load_cheaply(&whole, &tally);
    ck_assert_uint_eq(tally.loaded, 1);
    free(bytes);
}

START_TEST(the_smallest_records_never_take_64_times_the_file) {
    enum { COUNT = 16384 };
    dfm_pmx base = {.version = 2.1f, .encoding = DFM_TEXT_UTF8};
    base.name = base.name_en = base.comment = base.comment_en = model_text("");
    dfm_text *texts = dfm_arena_alloc(&arena, COUNT, sizeof *texts);
    dfm_pmx_bone *bones = dfm_arena_alloc(&arena, COUNT, sizeof *bones);
    dfm_pmx_morph *morphs = dfm_arena_alloc(&arena, COUNT, sizeof *morphs);
    static dfm_pmx_ik_link link = {.bone = -1};
    static dfm_pmx_child_morph child;
    for (int i = 0; i < COUNT; i++) {
        texts[i] = model_text(i % 2 ? "a" : "");
        bones[i] = (dfm_pmx_bone){.name = texts[i],
                                  .name_en = texts[i],
                                  .parent = -1,
                                  .flags = DFM_BONE_IK | DFM_BONE_TAIL_IS_BONE,
                                  .ik_link_count = 1,
                                  .ik_links = &link};
        morphs[i] = (dfm_pmx_morph){.name = texts[i],
                                    .name_en = texts[i],
                                    .type = DFM_MORPH_GROUP,
                                    .count = 1,
                                    .offsets.children = &child};
    }
    dfm_pmx pmx = base;
    pmx.textures = texts;
    pmx.texture_count = COUNT;
    expect_cheap(&pmx);
    pmx = base;
    pmx.bones = bones;
    pmx.bone_count = 100; /* and with one-byte indices */
    expect_cheap(&pmx);
    pmx.bone_count = COUNT;
    expect_cheap(&pmx);
    pmx = base;
    pmx.morphs = morphs;
    pmx.morph_count = COUNT;
    expect_cheap(&pmx);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pmx_memory");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, each_failing_allocation_of_a_load_is_an_error_and_no_leak);
    tcase_add_test(tests, each_failing_allocation_of_a_write_is_an_error_and_no_leak);
    tcase_add_test(tests, lying_counts_never_take_64_times_the_file);
    tcase_add_test(tests, real_models_with_lying_counts_never_take_64_times_the_file);
    tcase_add_test(tests, the_smallest_records_never_take_64_times_the_file);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
