/* The worker pool: order, bound, indices, and an end that loses no job; the gate behind it. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>

#include "server/gate.h"
#include "server/pool.h"

typedef struct job {
    dfm_job job; /* first */
    uint32_t number, ran_on;
    atomic_int runs;
} job;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a gate that holds workers back */
static atomic_uint started, finished;
static uint32_t order[64];

static void run_gated(dfm_job *base, uint32_t thread) {
    job *j = (job *)base;
    j->ran_on = thread;
    atomic_fetch_add(&started, 1);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    order[atomic_fetch_add(&finished, 1)] = j->number;
    atomic_fetch_add(&j->runs, 1);
}

static void wait_until(atomic_uint *counter, uint32_t value) {
    while (atomic_load(counter) < value)
        sched_yield();
}

START_TEST(queue_is_bounded_by_waiting_jobs) {
    dfm_pool *pool = dfm_pool_create("test", 1, 2);
    job jobs[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    for (int i = 0; i < 3; i++)
        jobs[i].job.run = run_gated;
    pthread_mutex_lock(&lock);
    ck_assert(dfm_pool_reserve(pool));
    dfm_pool_submit(pool, &jobs[0].job);
    wait_until(&started, 1); /* the running job is not in the queue */
    ck_assert(dfm_pool_reserve(pool));
    ck_assert(dfm_pool_reserve(pool));
    ck_assert(dfm_pool_is_full(pool));
    ck_assert(!dfm_pool_reserve(pool));
    dfm_pool_submit(pool, &jobs[1].job);
    dfm_pool_submit(pool, &jobs[2].job);
    ck_assert(!dfm_pool_reserve(pool));
    pthread_mutex_unlock(&lock);
    wait_until(&finished, 3);
    ck_assert(!dfm_pool_is_full(pool));
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(order[i], i);
    dfm_pool_free(pool);
}
END_TEST

START_TEST(added_jobs_take_their_turn_and_no_place) {
    dfm_pool *pool = dfm_pool_create("test", 1, 1);
    job jobs[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    for (int i = 0; i < 4; i++)
        jobs[i].job.run = run_gated;
    pthread_mutex_lock(&lock);
    dfm_pool_add(pool, &jobs[0].job);
    wait_until(&started, 1);
    dfm_pool_add(pool, &jobs[1].job);
    ck_assert(!dfm_pool_is_full(pool));
    ck_assert(dfm_pool_reserve(pool));
    dfm_pool_submit(pool, &jobs[2].job);
    ck_assert(!dfm_pool_reserve(pool));
    dfm_pool_add(pool, &jobs[3].job); /* never refused */
    ck_assert(dfm_pool_is_full(pool));
    pthread_mutex_unlock(&lock);
    wait_until(&finished, 4);
    ck_assert(!dfm_pool_is_full(pool));
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(order[i], i);
    dfm_pool_free(pool);
}
END_TEST

START_TEST(every_thread_has_its_own_index) {
    enum { THREADS = 3 };
    dfm_pool *pool = dfm_pool_create("test", THREADS, 8);
    job jobs[THREADS] = {{.number = 0}};
    pthread_mutex_lock(&lock);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].job.run = run_gated;
        ck_assert(dfm_pool_reserve(pool));
        dfm_pool_submit(pool, &jobs[i].job);
    }
    wait_until(&started, THREADS); /* all at once, so each on a thread of its own */
    pthread_mutex_unlock(&lock);
    wait_until(&finished, THREADS);
    dfm_pool_free(pool);
    uint32_t seen = 0;
    for (int i = 0; i < THREADS; i++)
        seen |= 1u << jobs[i].ran_on;
    ck_assert_uint_eq(seen, 7);
}
END_TEST

START_TEST(free_runs_what_is_queued) {
    dfm_pool *pool = dfm_pool_create("test", 2, 64);
    static job jobs[64];
    for (int i = 0; i < 64; i++) {
        jobs[i].job.run = run_gated;
        ck_assert(dfm_pool_reserve(pool));
        dfm_pool_submit(pool, &jobs[i].job);
    }
    dfm_pool_free(pool);
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(atomic_load(&jobs[i].runs), 1);
    dfm_pool_free(NULL);
}
END_TEST

enum { ENTERING = 1000 }; /* bytes */
static dfm_gate gate;

static void *go_through(void *unused) {
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        dfm_gate_wait(&gate);
        dfm_gate_enter(&gate, ENTERING);
        atomic_fetch_add(&started, 1);
    }
    return NULL;
}

/* Two threads enter, one takes out what they put in: nobody waits for ever, and no more are inside
 * than the limit and the one that each thread passes with. */
/* --- sharing --- */

enum { PARTS = 1000 };
static atomic_uint visits[PARTS], helped;
static pthread_t owner;

static void visit(void *argument, size_t index) {
    ck_assert_ptr_eq(argument, visits);
    atomic_fetch_add(&visits[index], 1);
    if (!pthread_equal(pthread_self(), owner))
        atomic_fetch_add(&helped, 1);
    for (volatile int i = 0; i < 20000; i++)
        continue;
}

static void expect_each_part_once(dfm_pool *pool) {
    for (int i = 0; i < PARTS; i++)
        atomic_store(&visits[i], 0);
    atomic_store(&helped, 0);
    owner = pthread_self();
    dfm_pool_share(pool, visit, visits, PARTS);
    for (int i = 0; i < PARTS; i++)
        ck_assert_uint_eq(atomic_load(&visits[i]), 1);
}

START_TEST(shared_parts_are_done_once_and_by_idle_threads_too) {
    dfm_pool *pool = dfm_pool_create("test", 3, 4);
    for (int round = 0; round < 20; round++)
        expect_each_part_once(pool);
    unsigned tries = 0; /* threads may have begun to wait only after the first rounds */
    while (atomic_load(&helped) == 0 && ++tries < 100)
        expect_each_part_once(pool);
    ck_assert_uint_gt(atomic_load(&helped), 0);
    dfm_pool_free(pool);
}
END_TEST

START_TEST(busy_pool_leaves_all_parts_to_the_caller) {
    dfm_pool *pool = dfm_pool_create("test", 1, 4);
    job busy = {.job.run = run_gated};
    pthread_mutex_lock(&lock);
    ck_assert(dfm_pool_reserve(pool));
    dfm_pool_submit(pool, &busy.job);
    wait_until(&started, 1);
    expect_each_part_once(pool);
    ck_assert_uint_eq(atomic_load(&helped), 0);
    pthread_mutex_unlock(&lock);
    wait_until(&finished, 1);
    dfm_pool_free(pool);
}
END_TEST

/* Threads of the pool share with each other, all at once. */
static dfm_pool *shared_pool;
static atomic_uint sum;

static void add_one(void *argument, size_t index) {
    (void)index;
    atomic_fetch_add((atomic_uint *)argument, 1);
}

static void run_sharing(dfm_job *base, uint32_t thread) {
    (void)base, (void)thread;
    for (int i = 0; i < 200; i++)
        dfm_pool_share(shared_pool, add_one, &sum, 10);
    atomic_fetch_add(&finished, 1);
}

START_TEST(threads_of_a_pool_share_with_each_other) {
    shared_pool = dfm_pool_create("test", 3, 8);
    job jobs[6] = {0};
    for (int i = 0; i < 6; i++) {
        jobs[i].job.run = run_sharing;
        ck_assert(dfm_pool_reserve(shared_pool));
        dfm_pool_submit(shared_pool, &jobs[i].job);
    }
    wait_until(&finished, 6);
    ck_assert_uint_eq(atomic_load(&sum), 6 * 200 * 10);
    dfm_pool_free(shared_pool);
}
END_TEST

START_TEST(gate_holds_back_and_loses_no_wake_up) {
    dfm_gate_init(&gate, 3 * ENTERING - 1);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, go_through, NULL), 0);
    for (unsigned out = 0; out < 40000; out++) {
        wait_until(&started, out + 1);
        ck_assert_uint_le(atomic_load(&gate.inside), 4 * ENTERING);
        dfm_gate_leave(&gate, ENTERING);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(atomic_load(&gate.inside), 0);
    dfm_gate_destroy(&gate);
}
END_TEST

static void *go_through_once(void *unused) {
    (void)unused;
    dfm_gate_wait(&gate);
    atomic_fetch_add(&started, 1);
    return NULL;
}

START_TEST(gate_opens_for_all_when_one_large_answer_leaves) {
    dfm_gate_init(&gate, ENTERING);
    dfm_gate_enter(&gate, 10 * ENTERING);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, go_through_once, NULL), 0);
    wait_until(&gate.waiting, 3);
    ck_assert_uint_eq(atomic_load(&started), 0);
    dfm_gate_leave(&gate, 10 * ENTERING);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(atomic_load(&started), 3);
    dfm_gate_destroy(&gate);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pool");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, queue_is_bounded_by_waiting_jobs);
    tcase_add_test(tests, added_jobs_take_their_turn_and_no_place);
    tcase_add_test(tests, every_thread_has_its_own_index);
    tcase_add_test(tests, free_runs_what_is_queued);
    tcase_add_test(tests, shared_parts_are_done_once_and_by_idle_threads_too);
    tcase_add_test(tests, busy_pool_leaves_all_parts_to_the_caller);
    tcase_add_test(tests, threads_of_a_pool_share_with_each_other);
    tcase_add_test(tests, gate_holds_back_and_loses_no_wake_up);
    tcase_add_test(tests, gate_opens_for_all_when_one_large_answer_leaves);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
