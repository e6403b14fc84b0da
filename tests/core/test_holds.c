/* Locks by name: one at a time, others undisturbed, and what a failure saves those who waited. */
#include "core/holds.h"

#include <check.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 500 };

static dfm_holds holds;
static int inside, most;

static void setup(void) {
    dfm_holds_init(&holds);
    inside = most = 0;
}

static void teardown(void) {
    ck_assert_ptr_null(holds.first);
    ck_assert_ptr_null(holds.waiting);
    dfm_holds_destroy(&holds);
}

START_TEST(what_is_held_is_not_had_by_another_name_is) {
    dfm_hold first = {.kind = 0, .id = "a"}, again = {.kind = 0, .id = "a"};
    dfm_hold kind = {.kind = 1, .id = "a"}, name = {.kind = 0, .id = "b"};
    dfm_hold_take(&holds, &first);
    ck_assert(!dfm_hold_try(&holds, &again));
    ck_assert(dfm_hold_try(&holds, &kind));
    dfm_hold_take(&holds, &name);
    dfm_hold_let_go(&holds, &first);
    ck_assert(dfm_hold_try(&holds, &again));
    dfm_hold_let_go(&holds, &kind);
    dfm_hold_let_go(&holds, &again);
    dfm_hold_let_go(&holds, &name);
}
END_TEST

static void *enter_and_leave(void *argument) {
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        dfm_hold own = {.kind = 0, .id = "a"};
        dfm_hold_take(&holds, &own);
        inside++; /* guarded by the hold alone: the thread sanitizer looks on */
        most = inside > most ? inside : most;
        inside--;
        dfm_hold_let_go(&holds, &own);
    }
    return NULL;
}

START_TEST(one_at_a_time) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, enter_and_leave, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(most, 1);
}
END_TEST

static void *take_and_tell(void *theirs) {
    dfm_hold own = {.kind = 0, .id = "a"};
    dfm_hold_take(&holds, &own);
    *(dfm_error *)theirs = own.theirs;
    dfm_hold_let_go(&holds, &own);
    return NULL;
}

static int count_waiting(void) {
    int count = 0;
    pthread_mutex_lock(&holds.lock);
    for (const dfm_hold *hold = holds.waiting; hold; hold = hold->next)
        count++;
    pthread_mutex_unlock(&holds.lock);
    return count;
}

START_TEST(a_failure_goes_to_all_who_waited_and_to_nobody_later) {
    pthread_t threads[THREADS];
    dfm_error theirs[THREADS];
    dfm_hold own = {.kind = 0, .id = "a"};
    dfm_hold_take(&holds, &own);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_tell, &theirs[i]), 0);
    while (count_waiting() < THREADS)
        usleep(1000);
    dfm_fail(&own.failure, DFM_ERROR_STORE, NULL, -1, -1, "the disk is gone");
    dfm_hold_let_go(&holds, &own);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(theirs[i].status, DFM_ERROR_STORE);
        ck_assert_str_eq(theirs[i].info, "the disk is gone");
    }
    take_and_tell(&theirs[0]);
    ck_assert_int_eq(theirs[0].status, DFM_OK);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("holds");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_is_held_is_not_had_by_another_name_is);
    tcase_add_test(tests, one_at_a_time);
    tcase_add_test(tests, a_failure_goes_to_all_who_waited_and_to_nobody_later);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
