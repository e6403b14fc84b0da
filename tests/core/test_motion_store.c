/* The motion store: what stays, what leaves, what happens to motions in use. */
#include "core/motion_store.h"
#include "tests/support_vmd.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 6 };

static dfm_motion_store *store;
static dfm_error error;
static vmd_writer files[FILES]; /* of one size, different ids */
static dfm_id ids[FILES];

static void setup(void) {
    static const float still[3], no_turn[4] = {0, 0, 0, 1};
    dfm_error_clear(&error);
    for (int i = 0; i < FILES; i++) {
        uint8_t digest[DFM_DIGEST_BYTES];
        vmd_begin(&files[i]);
        vmd_section(&files[i]);
        for (uint32_t frame = 0; frame < 100; frame++)
            vmd_bone(&files[i], "bone", frame + (uint32_t)i, still, no_turn, NULL);
        dfm_digest(files[i].bytes, files[i].size, digest, &ids[i]);
    }
    ck_assert_int_eq(dfm_motion_store_create(1 << 30, &store, &error), DFM_OK);
}

static void teardown(void) {
    dfm_motion_store_free(store);
}

static dfm_status put(int i, dfm_stored_motion **stored) {
    bool created;
    dfm_error_clear(&error);
    return dfm_motion_store_put(store, files[i].bytes, files[i].size, stored, &created, &error);
}

static dfm_stored_motion *hold(int i) {
    dfm_stored_motion *stored;
    ck_assert_msg(put(i, &stored) == DFM_OK, "%s", error.info);
    return stored;
}

static void keep(int i) {
    dfm_stored_motion_release(hold(i));
}

static dfm_status look(int i) {
    dfm_stored_motion *stored;
    dfm_error_clear(&error);
    dfm_status status = dfm_motion_store_get(store, ids[i].text, &stored, &error);
    dfm_stored_motion_release(stored);
    return status;
}

/* Room for `count` motions and a half. */
static void reopen_for(size_t count) {
    dfm_stored_motion *stored = hold(0);
    size_t bytes = stored->resident_bytes;
    dfm_stored_motion_release(stored);
    dfm_motion_store_free(store);
    ck_assert_int_eq(dfm_motion_store_create(count * bytes + bytes / 2, &store, &error), DFM_OK);
}

START_TEST(what_is_put_is_found_by_its_id) {
    bool created;
    dfm_stored_motion *first, *again;
    ck_assert_int_eq(look(0), DFM_ERROR_NOT_FOUND);
    ck_assert_int_eq(
        dfm_motion_store_put(store, files[0].bytes, files[0].size, &first, &created, &error),
        DFM_OK);
    ck_assert(created);
    ck_assert_str_eq(first->id.text, ids[0].text);
    ck_assert_uint_eq(first->file_bytes, files[0].size);
    ck_assert_uint_gt(first->resident_bytes, 0);
    ck_assert_uint_eq(first->motion->vmd.bone_key_count, 100);
    ck_assert_int_eq(
        dfm_motion_store_put(store, files[0].bytes, files[0].size, &again, &created, &error),
        DFM_OK);
    ck_assert(!created);
    ck_assert_ptr_eq(first, again);
    dfm_stored_motion_release(first);
    dfm_stored_motion_release(again);
    ck_assert_uint_eq(dfm_motion_store_get_stats(store).loads, 1);
    ck_assert_uint_eq(dfm_motion_store_get_stats(store).motions, 1);
}
END_TEST

START_TEST(a_broken_file_leaves_nothing_behind) {
    bool created;
    dfm_stored_motion *stored = (dfm_stored_motion *)1;
    ck_assert_int_eq(
        dfm_motion_store_put(store, files[0].bytes, files[0].size - 1, &stored, &created, &error),
        DFM_ERROR_TRUNCATED);
    ck_assert_ptr_null(stored);
    ck_assert_uint_eq(dfm_motion_store_get_stats(store).resident_bytes, 0);
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
    ck_assert_ptr_nonnull(strstr(error.info, "motion "));
    ck_assert_int_eq(look(0), DFM_OK);
    keep(1); /* and is no longer one that left */
    ck_assert_int_eq(look(1), DFM_OK);
    ck_assert_int_eq(dfm_motion_store_delete(store, ids[1].text, &error), DFM_OK);
    ck_assert_int_eq(look(1), DFM_ERROR_NOT_FOUND);
    ck_assert_uint_le(dfm_motion_store_get_stats(store).resident_bytes,
                      dfm_motion_store_get_stats(store).budget_bytes);
}
END_TEST

START_TEST(motions_in_use_stay_and_count) {
    reopen_for(1);
    dfm_stored_motion *a = hold(0), *b;
    ck_assert_int_eq(put(1, &b), DFM_ERROR_NO_ROOM);
    ck_assert_ptr_null(b);
    ck_assert_int_eq(dfm_motion_store_delete(store, ids[0].text, &error), DFM_OK);
    ck_assert_int_eq(put(1, &b), DFM_ERROR_NO_ROOM);
    ck_assert_uint_eq(a->motion->vmd.last_frame, 99); /* alive: address sanitizer */
    dfm_stored_motion_release(a);
    keep(1);
    ck_assert_int_eq(dfm_motion_store_delete(store, ids[0].text, &error), DFM_ERROR_NOT_FOUND);
}
END_TEST

START_TEST(lists_are_sorted_and_paged) {
    dfm_stored_motion *page[FILES];
    char after[DFM_ID_DIGITS + 1] = "";
    bool more = true;
    size_t seen = 0;
    for (int i = 0; i < FILES; i++)
        keep(i);
    while (more) {
        size_t count = dfm_motion_store_list(store, seen ? after : NULL, 4, page, &more);
        for (size_t i = 0; i < count; i++, seen++) {
            ck_assert_int_gt(strcmp(page[i]->id.text, after), 0);
            strcpy(after, page[i]->id.text);
            dfm_stored_motion_release(page[i]);
        }
    }
    ck_assert_uint_eq(seen, FILES);
}
END_TEST

static void *work(void *seed) {
    uint64_t state = (uint64_t)(uintptr_t)seed;
    for (int round = 0; round < 200; round++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int i = (int)(state >> 33) % FILES;
        dfm_stored_motion *stored = NULL;
        bool created;
        if (state >> 61 & 1)
            dfm_motion_store_put(store, files[i].bytes, files[i].size, &stored, &created, NULL);
        else if (state >> 62 & 1)
            dfm_motion_store_get(store, ids[i].text, &stored, NULL);
        else if (round % 5 == 0)
            dfm_motion_store_delete(store, ids[i].text, NULL);
        if (stored && stored->motion->vmd.bone_key_count != 100)
            abort();
        dfm_stored_motion_release(stored);
    }
    return NULL;
}

START_TEST(threads_that_put_and_delete_leave_the_books_in_order) {
    enum { THREADS = 4 };
    reopen_for(3);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    dfm_stored_motion *all[FILES];
    bool more;
    size_t sum = 0, count = dfm_motion_store_list(store, NULL, FILES, all, &more);
    for (size_t i = 0; i < count; i++) {
        sum += all[i]->resident_bytes;
        dfm_stored_motion_release(all[i]);
    }
    ck_assert_uint_eq(dfm_motion_store_get_stats(store).resident_bytes, sum);
    ck_assert_uint_gt(dfm_motion_store_get_stats(store).loads, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("motion store");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_is_put_is_found_by_its_id);
    tcase_add_test(tests, a_broken_file_leaves_nothing_behind);
    tcase_add_test(tests, the_least_recently_used_leaves_first);
    tcase_add_test(tests, motions_in_use_stay_and_count);
    tcase_add_test(tests, lists_are_sorted_and_paged);
    tcase_add_test(tests, threads_that_put_and_delete_leave_the_books_in_order);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
