/* The model cache: what stays, what leaves, what a change does to those who hold the old one. */
#include "core/cache.h"
#include "tests/data/models.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 6 };

static dfm_skinners skinners;
static dfm_cache *cache;
static dfm_error error;
static uint8_t *files[FILES]; /* of about the same size, different ids */
static size_t sizes[FILES];
static dfm_id ids[FILES];
static const dfm_settings cpu = {.mode = DFM_MODE_CPU, .sdef = true};

static void open_cache(size_t budget_bytes) {
    dfm_cache_options options = {
        .budget_bytes = budget_bytes, .limits = dfm_pmx_default_limits, .skinners = &skinners};
    ck_assert_int_eq(dfm_cache_create(&options, &cache, &error), DFM_OK);
}

static void setup(void) {
    dfm_error_clear(&error);
    skinners = (dfm_skinners){.opencl_unavailable = "none here"};
    dfm_skinner_options options = {.worker_count = 1};
    ck_assert_int_eq(dfm_skinner_open(&dfm_skinner_cpu, &options, &skinners.cpu, &error), DFM_OK);
    for (int i = 0; i < FILES; i++) {
        dfm_arena arena = {0};
        grid_options grid = grid_default_options(400, 8 + (uint32_t)i);
        dfm_pmx pmx = model_grid(&arena, &grid);
        uint8_t digest[DFM_DIGEST_BYTES];
        files[i] = model_bytes(&pmx, NULL, &sizes[i]);
        dfm_digest(files[i], sizes[i], digest, &ids[i]);
        dfm_arena_free(&arena);
    }
    open_cache((size_t)1 << 30);
}

static void teardown(void) {
    dfm_cache_free(cache);
    dfm_skinner_close(skinners.cpu);
    for (int i = 0; i < FILES; i++)
        free(files[i]);
}

static dfm_status put(int i, dfm_resident **resident) {
    bool created;
    dfm_error_clear(&error);
    return dfm_cache_put(cache, files[i], sizes[i], &cpu, (dfm_settings_given){0}, resident,
                         &created, &error);
}

static dfm_resident *hold(int i) {
    dfm_resident *resident;
    ck_assert_msg(put(i, &resident) == DFM_OK, "%s", error.info);
    return resident;
}

static void keep(int i) {
    dfm_resident_release(hold(i));
}

static const char *id_of(int i) {
    return ids[i].text;
}

static dfm_status look(int i) {
    dfm_resident *resident;
    dfm_error_clear(&error);
    dfm_status status = dfm_cache_get(cache, id_of(i), &resident, &error);
    dfm_resident_release(resident);
    return status;
}

/* Room for `count` files and a little more, but not for one file more. */
static void reopen_for(size_t count) {
    size_t most = 0, sum = 0;
    for (int i = 0; i < FILES; i++) {
        dfm_resident *resident = hold(i);
        sum += resident->resident_bytes;
        most = resident->resident_bytes > most ? resident->resident_bytes : most;
        dfm_resident_release(resident);
    }
    ck_assert_uint_eq(dfm_cache_get_stats(cache).resident_bytes, sum);
    dfm_cache_free(cache);
    open_cache(count * most + most / 2);
}

START_TEST(the_digest_is_sha_256) {
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_id id;
    dfm_digest((const uint8_t *)"abc", 3, digest, &id);
    ck_assert_str_eq(id.text, "ba7816bf8f01cfea414140de5dae2223");
    ck_assert_int_eq(digest[31], 0xad);
}
END_TEST

START_TEST(what_is_put_is_found_by_its_id) {
    dfm_resident *resident = hold(0), *again;
    ck_assert_str_eq(resident->id.text, id_of(0));
    ck_assert_int_eq(resident->effective_mode, DFM_MODE_CPU);
    ck_assert_uint_eq(resident->file_bytes, sizes[0]);
    ck_assert_ptr_eq(resident->target.skinner, skinners.cpu);
    ck_assert_int_eq(dfm_cache_get(cache, id_of(0), &again, &error), DFM_OK);
    ck_assert_ptr_eq(again, resident);
    dfm_resident_release(again);
    dfm_resident_release(resident);
    ck_assert_int_eq(look(1), DFM_ERROR_NOT_FOUND);
    dfm_cache_stats stats = dfm_cache_get_stats(cache);
    ck_assert_uint_eq(stats.hits, 1);
    ck_assert_uint_eq(stats.misses, 1);
    ck_assert_uint_eq(stats.loads, 1);
    ck_assert_uint_eq(stats.models, 1);
}
END_TEST

START_TEST(the_same_bytes_are_loaded_once) {
    dfm_resident *first = hold(0), *second;
    bool created = true;
    ck_assert_int_eq(dfm_cache_put(cache, files[0], sizes[0], &cpu, (dfm_settings_given){0},
                                   &second, &created, &error),
                     DFM_OK);
    ck_assert(!created);
    ck_assert_ptr_eq(first, second);
    dfm_resident_release(first);
    dfm_resident_release(second);
    ck_assert_uint_eq(dfm_cache_get_stats(cache).loads, 1);
}
END_TEST

START_TEST(a_broken_file_leaves_nothing_behind) {
    dfm_resident *resident = (dfm_resident *)1;
    bool created;
    ck_assert_int_eq(dfm_cache_put(cache, files[0], sizes[0] / 2, &cpu, (dfm_settings_given){0},
                                   &resident, &created, &error),
                     DFM_ERROR_TRUNCATED);
    ck_assert_ptr_null(resident);
    ck_assert_uint_eq(dfm_cache_get_stats(cache).resident_bytes, 0);
}
END_TEST

START_TEST(the_least_recently_used_leaves_first) {
    reopen_for(3);
    keep(0);
    keep(1);
    keep(2);
    ck_assert_int_eq(look(0), DFM_OK); /* 1 is the oldest now */
    keep(3);
    ck_assert_int_eq(look(1), DFM_ERROR_EVICTED);
    ck_assert_int_eq(look(0), DFM_OK);
    ck_assert_int_eq(look(2), DFM_OK);
    keep(4);
    ck_assert_int_eq(look(3), DFM_ERROR_EVICTED);
    ck_assert_uint_eq(dfm_cache_get_stats(cache).evictions, 2);
    keep(1); /* and is no longer one that left */
    ck_assert_int_eq(look(1), DFM_OK);
    ck_assert_int_eq(dfm_cache_delete(cache, id_of(1), NULL, &error), DFM_OK);
    ck_assert_int_eq(look(1), DFM_ERROR_NOT_FOUND);
}
END_TEST

START_TEST(models_in_use_stay_and_count) {
    reopen_for(2);
    dfm_resident *a = hold(0), *b = hold(1), *c;
    ck_assert_int_eq(put(2, &c), DFM_ERROR_NO_ROOM);
    ck_assert_ptr_null(c);
    ck_assert_int_eq(look(0), DFM_OK);
    /* Deleted but still in use: its bytes are still taken. */
    ck_assert_int_eq(dfm_cache_delete(cache, id_of(0), NULL, &error), DFM_OK);
    ck_assert_int_eq(put(2, &c), DFM_ERROR_NO_ROOM);
    ck_assert_uint_gt(a->target.model->pmx.vertices.count, 0); /* alive: address sanitizer */
    dfm_resident_release(a);
    c = hold(2);
    dfm_resident_release(b);
    dfm_resident_release(c);
    ck_assert_uint_eq(dfm_cache_get_stats(cache).evictions, 0);
}
END_TEST

START_TEST(nothing_leaves_for_a_model_that_cannot_fit_anyway) {
    reopen_for(2);
    keep(0);
    keep(1);
    dfm_arena arena = {0};
    grid_options grid = grid_default_options(4000, 8);
    dfm_pmx pmx = model_grid(&arena, &grid);
    size_t size;
    uint8_t *large = model_bytes(&pmx, NULL, &size);
    dfm_resident *resident;
    bool created;
    ck_assert_int_eq(dfm_cache_put(cache, large, size, &cpu, (dfm_settings_given){0}, &resident,
                                   &created, &error),
                     DFM_ERROR_NO_ROOM);
    ck_assert_int_eq(look(0), DFM_OK);
    ck_assert_int_eq(look(1), DFM_OK);
    free(large);
    dfm_arena_free(&arena);
}
END_TEST

START_TEST(a_change_is_a_new_snapshot_and_the_old_one_lives_on) {
    dfm_resident *old = hold(0), *now;
    dfm_settings wanted = {.mode = DFM_MODE_GPU, .sdef = false, .weights = DFM_WEIGHTS_RAW};
    ck_assert_int_eq(dfm_cache_configure(cache, id_of(0), NULL, &wanted,
                                         (dfm_settings_given){.sdef = true}, &now, &error),
                     DFM_OK);
    ck_assert_ptr_ne(old, now);
    ck_assert(old->settings.sdef);
    ck_assert(!now->settings.sdef);
    ck_assert_int_eq(now->settings.mode, DFM_MODE_CPU);
    ck_assert_int_eq(now->settings.weights, DFM_WEIGHTS_NORMALIZED);
    ck_assert_str_ne(old->etag, now->etag);
    ck_assert_ptr_eq(old->target.model, now->target.model);
    size_t both = dfm_cache_get_stats(cache).resident_bytes;
    ck_assert_uint_gt(both, now->resident_bytes);
    dfm_resident_release(old);
    ck_assert_uint_eq(dfm_cache_get_stats(cache).resident_bytes, now->resident_bytes);
    dfm_resident_release(now);
    ck_assert_int_eq(dfm_cache_delete(cache, id_of(0), NULL, &error), DFM_OK);
    ck_assert_uint_eq(dfm_cache_get_stats(cache).resident_bytes, 0);
}
END_TEST

START_TEST(gpu_without_a_kernel_is_kept_as_set_and_runs_on_the_cpu) {
    dfm_settings wanted = {.mode = DFM_MODE_GPU};
    dfm_resident *old = hold(0), *now;
    ck_assert_int_eq(dfm_cache_configure(cache, id_of(0), NULL, &wanted,
                                         (dfm_settings_given){.mode = true}, &now, &error),
                     DFM_OK);
    ck_assert_int_eq(now->settings.mode, DFM_MODE_GPU);
    ck_assert_int_eq(now->effective_mode, DFM_MODE_CPU);
    ck_assert_ptr_eq(now->target.skinner, skinners.cpu);
    dfm_resident_release(old);
    dfm_resident_release(now);
}
END_TEST

START_TEST(changes_and_deletes_are_guarded_by_the_tag) {
    dfm_resident *old = hold(0), *now;
    dfm_settings wanted = {.mode = DFM_MODE_CPU, .sdef = false};
    dfm_settings_given given = {.sdef = true};
    ck_assert_int_eq(dfm_cache_configure(cache, id_of(0), old->etag, &wanted, given, &now, &error),
                     DFM_OK);
    dfm_resident *none;
    ck_assert_int_eq(dfm_cache_configure(cache, id_of(0), old->etag, &wanted, given, &none, &error),
                     DFM_ERROR_CONFLICT);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(dfm_cache_delete(cache, id_of(0), old->etag, &error), DFM_ERROR_CONFLICT);
    ck_assert_int_eq(dfm_cache_delete(cache, id_of(0), now->etag, &error), DFM_OK);
    dfm_error_clear(&error);
    ck_assert_int_eq(dfm_cache_configure(cache, id_of(0), NULL, &wanted, given, &none, &error),
                     DFM_ERROR_NOT_FOUND);
    dfm_resident_release(old);
    dfm_resident_release(now);
}
END_TEST

START_TEST(a_change_makes_room_but_never_at_its_own_cost) {
    reopen_for(2);
    keep(0);
    keep(1);
    dfm_resident *held = hold(1), *now;
    dfm_settings wanted = {.mode = DFM_MODE_CPU, .sdef = false};
    ck_assert_int_eq(dfm_cache_configure(cache, id_of(1), NULL, &wanted,
                                         (dfm_settings_given){.sdef = true}, &now, &error),
                     DFM_OK);
    dfm_resident_release(now);
    dfm_resident_release(held);
    ck_assert_int_eq(look(1), DFM_OK);
    ck_assert_uint_le(dfm_cache_get_stats(cache).resident_bytes,
                      dfm_cache_get_stats(cache).budget_bytes);
}
END_TEST

START_TEST(lists_are_sorted_and_paged) {
    dfm_resident *page[FILES];
    bool more;
    for (int i = 0; i < FILES; i++)
        keep(i);
    char after[DFM_ID_DIGITS + 1] = "";
    int seen = 0;
    do {
        size_t count = dfm_cache_list(cache, seen ? after : NULL, 4, page, &more);
        ck_assert_uint_eq(count, seen ? FILES - 4 : 4);
        for (size_t i = 0; i < count; i++, seen++) {
            ck_assert_int_gt(strcmp(page[i]->id.text, after), 0);
            strcpy(after, page[i]->id.text);
            dfm_resident_release(page[i]);
        }
    } while (more);
    ck_assert_int_eq(seen, FILES);
    ck_assert_uint_eq(dfm_cache_list(cache, "ffffffffffffffffffffffffffffffff", 4, page, &more), 0);
    ck_assert(!more);
    /* A cursor whose model has gone goes on behind it. */
    ck_assert_uint_eq(dfm_cache_list(cache, "00000000000000000000000000000000", 1, page, &more), 1);
    char first[DFM_ID_DIGITS + 1];
    strcpy(first, page[0]->id.text);
    dfm_resident_release(page[0]);
    ck_assert_int_eq(dfm_cache_delete(cache, first, NULL, &error), DFM_OK);
    ck_assert_uint_eq(dfm_cache_list(cache, first, FILES, page, &more), FILES - 1);
    for (int i = 0; i < FILES - 1; i++)
        dfm_resident_release(page[i]);
}
END_TEST

/* --- many threads ----------------------------------------------------------------------------- */

static void use(dfm_resident *resident) {
    ck_assert_ptr_nonnull(resident->target.binding);
    ck_assert_uint_eq(resident->target.bind->vertex_count,
                      resident->target.model->pmx.vertices.count);
}

static void *work(void *seed) {
    uint64_t state = (uint64_t)(uintptr_t)seed;
    for (int round = 0; round < 60; round++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int i = (int)(state >> 33) % FILES;
        dfm_settings wanted = {.mode = DFM_MODE_CPU, .sdef = state >> 40 & 1};
        dfm_settings_given given = {.sdef = true};
        dfm_resident *resident = NULL;
        bool created;
        switch (state >> 60 & 3) {
        case 0:
            dfm_cache_put(cache, files[i], sizes[i], &wanted, given, &resident, &created, NULL);
            break;
        case 1:
            dfm_cache_configure(cache, id_of(i), NULL, &wanted, given, &resident, NULL);
            break;
        case 2:
            dfm_cache_get(cache, id_of(i), &resident, NULL);
            break;
        default:
            if (round % 5 == 0)
                dfm_cache_delete(cache, id_of(i), NULL, NULL);
        }
        if (resident)
            use(resident);
        dfm_resident_release(resident);
    }
    return NULL;
}

START_TEST(threads_that_put_change_and_delete_leave_the_books_in_order) {
    enum { THREADS = 4 };
    reopen_for(3);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    dfm_resident *residents[FILES];
    bool more;
    size_t sum = 0, count = dfm_cache_list(cache, NULL, FILES, residents, &more);
    for (size_t i = 0; i < count; i++)
        sum += residents[i]->resident_bytes;
    dfm_cache_stats stats = dfm_cache_get_stats(cache);
    ck_assert_uint_eq(stats.resident_bytes, sum);
    ck_assert_uint_le(sum, stats.budget_bytes);
    ck_assert_uint_gt(stats.loads, 0);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(dfm_cache_delete(cache, residents[i]->id.text, NULL, &error), DFM_OK);
        dfm_resident_release(residents[i]);
    }
    ck_assert_uint_eq(dfm_cache_get_stats(cache).resident_bytes, 0);
}
END_TEST

/* Looks whether anybody else can see what it is asked about, and answers `answer`. */
typedef struct judge {
    dfm_status answer;
    int asked;
    bool others_see_it;
} judge;

static dfm_status judge_it(void *context, void *item, dfm_error *problem) {
    judge *j = context;
    dfm_resident *seen = NULL;
    j->asked++;
    dfm_cache_get(cache, ((dfm_resident *)item)->id.text, &seen, NULL);
    j->others_see_it |= seen == item;
    dfm_resident_release(seen);
    return j->answer == DFM_OK ? DFM_OK
                               : dfm_fail(problem, j->answer, NULL, -1, -1, "it was refused");
}

START_TEST(what_is_not_consented_to_is_never_seen) {
    judge j = {.answer = DFM_ERROR_STORE};
    const dfm_consent consent = {judge_it, &j};
    dfm_resident *resident = (dfm_resident *)1;
    ck_assert_int_eq(
        dfm_cache_restore(cache, files[0], sizes[0], 7, &cpu, &consent, &resident, &error),
        DFM_ERROR_STORE);
    ck_assert_str_eq(error.info, "it was refused");
    ck_assert_ptr_null(resident);
    ck_assert_int_eq(look(0), DFM_ERROR_NOT_FOUND);
    ck_assert_uint_eq(dfm_cache_get_stats(cache).resident_bytes, 0);
    j.answer = DFM_OK;
    dfm_error_clear(&error);
    ck_assert_int_eq(
        dfm_cache_restore(cache, files[0], sizes[0], 7, &cpu, &consent, &resident, &error), DFM_OK);
    ck_assert_int_eq((int)resident->created_unix_s, 7);
    ck_assert_int_eq(j.asked, 2);
    ck_assert(!j.others_see_it);
    dfm_resident_release(resident);
}
END_TEST

START_TEST(a_change_that_is_refused_leaves_things_as_they_were) {
    judge j = {.answer = DFM_ERROR_STORE};
    const dfm_consent consent = {judge_it, &j};
    dfm_resident *old = hold(0), *now = (dfm_resident *)1;
    dfm_settings raw = cpu;
    raw.weights = DFM_WEIGHTS_RAW;
    size_t before = dfm_cache_get_stats(cache).resident_bytes;
    ck_assert_int_eq(dfm_cache_configure_asking(cache, id_of(0), NULL, &raw,
                                                (dfm_settings_given){.weights = true}, &consent,
                                                &now, &error),
                     DFM_ERROR_STORE);
    ck_assert_ptr_null(now);
    ck_assert(!j.others_see_it);
    ck_assert_uint_eq(dfm_cache_get_stats(cache).resident_bytes, before);
    ck_assert_int_eq(dfm_cache_get(cache, id_of(0), &now, NULL), DFM_OK);
    ck_assert_ptr_eq(now, old);
    dfm_resident_release(now);
    /* Nothing changes: the one that is here is asked about. */
    dfm_error_clear(&error);
    ck_assert_int_eq(dfm_cache_restore(cache, files[0], sizes[0], 7, &cpu, &consent, &now, &error),
                     DFM_ERROR_STORE);
    ck_assert_ptr_null(now);
    ck_assert(j.others_see_it);
    ck_assert_int_eq(look(0), DFM_OK);
    dfm_resident_release(old);
}
END_TEST

START_TEST(what_has_no_room_is_not_even_asked_about) {
    judge j = {.answer = DFM_OK};
    const dfm_consent consent = {judge_it, &j};
    reopen_for(1);
    dfm_resident *held = hold(0), *resident;
    ck_assert_int_eq(
        dfm_cache_restore(cache, files[1], sizes[1], 7, &cpu, &consent, &resident, &error),
        DFM_ERROR_NO_ROOM);
    ck_assert_int_eq(j.asked, 0);
    dfm_resident_release(held);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_digest_is_sha_256);
    tcase_add_test(tests, what_is_not_consented_to_is_never_seen);
    tcase_add_test(tests, a_change_that_is_refused_leaves_things_as_they_were);
    tcase_add_test(tests, what_has_no_room_is_not_even_asked_about);
    tcase_add_test(tests, what_is_put_is_found_by_its_id);
    tcase_add_test(tests, the_same_bytes_are_loaded_once);
    tcase_add_test(tests, a_broken_file_leaves_nothing_behind);
    tcase_add_test(tests, the_least_recently_used_leaves_first);
    tcase_add_test(tests, models_in_use_stay_and_count);
    tcase_add_test(tests, nothing_leaves_for_a_model_that_cannot_fit_anyway);
    tcase_add_test(tests, a_change_is_a_new_snapshot_and_the_old_one_lives_on);
    tcase_add_test(tests, gpu_without_a_kernel_is_kept_as_set_and_runs_on_the_cpu);
    tcase_add_test(tests, changes_and_deletes_are_guarded_by_the_tag);
    tcase_add_test(tests, a_change_makes_room_but_never_at_its_own_cost);
    tcase_add_test(tests, lists_are_sorted_and_paged);
    tcase_add_test(tests, threads_that_put_change_and_delete_leave_the_books_in_order);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
