/* Pooled buffers: reuse without the kernel, the budget, and bodies that grow in them. */
#include <check.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "server/body.h"

enum { MIB = 1 << 20 };

static long minor_faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

START_TEST(buffer_holds_what_was_asked_for_and_is_aligned) {
    dfm_buffer_pool *pool = dfm_buffer_pool_create((size_t)64 * MIB);
    static const size_t sizes[] = {0,     1,     4095,   4096,    4097,    5000,
                                   65536, 65537, 720000, 1 << 20, 5 * MIB, 64 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        dfm_buffer *buffer = dfm_buffer_acquire(pool, sizes[i]);
        ck_assert_ptr_nonnull(buffer);
        ck_assert_uint_ge(buffer->capacity, sizes[i]);
        ck_assert_uint_le(buffer->capacity, sizes[i] / 4 * 5 + 4096);
        ck_assert_uint_eq((uintptr_t)buffer->data % 64, 0);
        ck_assert_uint_eq(buffer->size, 0);
        memset(buffer->data, 0x5a, buffer->capacity);
        dfm_buffer_release(pool, buffer);
    }
    dfm_buffer_pool_free(pool);
}
END_TEST

START_TEST(reused_buffers_cost_no_page_fault) {
    dfm_buffer_pool *pool = dfm_buffer_pool_create((size_t)64 * MIB);
    dfm_buffer *held[8];
    long before = 0;
    uint64_t maps = 0;
    for (int round = 0; round < 200; round++) {
        if (round == 1) {
            before = minor_faults();
            maps = dfm_buffer_pool_stats(pool).maps;
        }
        for (int i = 0; i < 8; i++) {
            held[i] = dfm_buffer_acquire(pool, 720000);
            memset(held[i]->data, round, 720000);
        }
        for (int i = 0; i < 8; i++)
            dfm_buffer_release(pool, held[i]);
    }
    ck_assert_uint_eq(dfm_buffer_pool_stats(pool).maps, maps);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    ck_assert_int_le(minor_faults() - before, 2); /* of 280,000 pages written */
#else
    (void)before;
#endif
    dfm_buffer_pool_free(pool);
}
END_TEST

START_TEST(budget_refuses_and_recovers) {
    dfm_buffer_pool *pool = dfm_buffer_pool_create((size_t)8 * MIB);
    dfm_buffer *a = dfm_buffer_acquire(pool, 5 * MIB);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_null(dfm_buffer_acquire(pool, 4 * MIB));
    ck_assert_ptr_null(dfm_buffer_acquire(pool, SIZE_MAX));
    ck_assert_ptr_null(dfm_buffer_acquire(pool, SIZE_MAX / 2));
    dfm_buffer_release(pool, a);
    a = dfm_buffer_acquire(pool, 8 * MIB);
    ck_assert_ptr_nonnull(a);
    dfm_buffer_release(pool, a);
    ck_assert_uint_eq(dfm_buffer_pool_stats(pool).used_bytes, 0);
    dfm_buffer_pool_free(pool);
}
END_TEST

START_TEST(kept_memory_and_used_memory_stay_within_the_budget) {
    dfm_buffer_pool *pool = dfm_buffer_pool_create((size_t)16 * MIB);
    dfm_buffer *held[16];
    for (size_t size = 4096; size <= 2 * MIB; size *= 2) {
        int count = 0;
        while (count < 16 && (held[count] = dfm_buffer_acquire(pool, size)))
            count++;
        ck_assert_int_gt(count, 0);
        dfm_buffer_stats stats = dfm_buffer_pool_stats(pool);
        ck_assert_uint_le(stats.used_bytes + stats.kept_bytes, stats.budget_bytes);
        while (count > 0)
            dfm_buffer_release(pool, held[--count]);
        stats = dfm_buffer_pool_stats(pool);
        ck_assert_uint_le(stats.kept_bytes, stats.budget_bytes / 2);
    }
    dfm_buffer *huge = dfm_buffer_acquire(pool, 12 * MIB); /* takes the place of kept ones */
    ck_assert_ptr_nonnull(huge);
    dfm_buffer_release(pool, huge);
    dfm_buffer_pool_free(pool);
}
END_TEST

static void *churn(void *argument) {
    dfm_buffer_pool *pool = argument;
    uint8_t mark = (uint8_t)(uintptr_t)pthread_self();
    for (size_t i = 0; i < 2000; i++) {
        dfm_buffer *buffer = dfm_buffer_acquire(pool, 1 + i * 37 % 60000);
        if (!buffer)
            continue;
        memset(buffer->data, mark, 64);
        for (int k = 0; k < 64; k++)
            if (buffer->data[k] != mark)
                return argument;
        dfm_buffer_release(pool, buffer);
    }
    return NULL;
}

START_TEST(threads_never_share_a_buffer) {
    dfm_buffer_pool *pool = dfm_buffer_pool_create(MIB);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, pool), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_eq(dfm_buffer_pool_stats(pool).used_bytes, 0);
    dfm_buffer_pool_free(pool);
}
END_TEST

START_TEST(footprint_is_what_counts_against_the_budget) {
    dfm_buffer_pool *pool = dfm_buffer_pool_create((size_t)64 * MIB);
    dfm_buffers buffers = dfm_buffer_pool_interface(pool);
    ck_assert_uint_eq(buffers.footprint(pool, 0), 0);
    for (size_t capacity = 1; capacity < (size_t)64 * MIB; capacity += capacity / 3 + 1) {
        dfm_buffer *buffer = buffers.acquire(pool, capacity);
        ck_assert_ptr_nonnull(buffer);
        ck_assert_uint_eq(buffers.footprint(pool, capacity),
                          dfm_buffer_pool_stats(pool).used_bytes);
        buffers.release(pool, buffer);
    }
    dfm_buffer_pool_free(pool);
}
END_TEST

START_TEST(grown_buffer_keeps_its_bytes_and_counts_once) {
    dfm_buffer_pool *pool = dfm_buffer_pool_create((size_t)8 * MIB);
    for (int round = 0; round < 3; round++) { /* new pages, then kept ones */
        dfm_buffer *buffer = dfm_buffer_acquire(pool, 4096);
        memset(buffer->data, 7, buffer->size = 4096);
        for (size_t capacity = 8192; capacity <= 8 * MIB; capacity *= 2) {
            ck_assert(dfm_buffer_grow(pool, &buffer, capacity));
            ck_assert_uint_ge(buffer->capacity, capacity);
            ck_assert_uint_eq((uintptr_t)buffer->data % 64, 0);
            ck_assert_uint_eq(buffer->size, capacity / 2);
            memset(buffer->data + buffer->size, 7, buffer->capacity - buffer->size);
            buffer->size = capacity;
            for (size_t i = 0; i < capacity; i += 1000)
                ck_assert_uint_eq(buffer->data[i], 7);
            dfm_buffer_stats stats = dfm_buffer_pool_stats(pool);
            ck_assert_uint_eq(stats.used_bytes, buffer->capacity);
            ck_assert_uint_le(stats.used_bytes + stats.kept_bytes, stats.budget_bytes);
        }
        ck_assert(!dfm_buffer_grow(pool, &buffer, (size_t)9 * MIB)); /* and is as it was */
        ck_assert_uint_eq(buffer->size, 8 * MIB);
        ck_assert_uint_eq(buffer->data[8 * MIB - 1], 7);
        dfm_buffer_release(pool, buffer);
        ck_assert_uint_eq(dfm_buffer_pool_stats(pool).used_bytes, 0);
    }
    dfm_buffer_pool_free(pool);
}
END_TEST

START_TEST(declared_length_costs_nothing) {
    enum { BODIES = 64 };
    dfm_buffer_pool *pool = dfm_buffer_pool_create((size_t)8 * MIB);
    dfm_body bodies[BODIES];
    for (int i = 0; i < BODIES; i++) {
        ck_assert_int_eq(dfm_body_begin(&bodies[i], pool, 4 * MIB, 4 * MIB), DFM_BODY_OK);
        ck_assert_int_eq(dfm_body_append(&bodies[i], "x", 1), DFM_BODY_OK);
    }
    ck_assert_uint_le(dfm_buffer_pool_stats(pool).used_bytes, BODIES * 16 * 1024);
    for (int i = 0; i < BODIES; i++)
        dfm_body_free(&bodies[i]);
    dfm_buffer_pool_free(pool);
}
END_TEST

START_TEST(body_of_known_length_takes_that_much_at_most) {
    dfm_buffer_pool *pool = dfm_buffer_pool_create(MIB); /* no more than the body: no copy beside */
    dfm_body body;
    static uint8_t piece[MIB / 64];
    ck_assert_int_eq(dfm_body_begin(&body, pool, MIB, MIB), DFM_BODY_OK);
    for (int i = 0; i < 64; i++) {
        memset(piece, i, sizeof piece);
        ck_assert_int_eq(dfm_body_append(&body, piece, sizeof piece), DFM_BODY_OK);
    }
    ck_assert_uint_eq(body.buffer->size, MIB);
    for (size_t i = 0; i < MIB; i += 100)
        ck_assert_uint_eq(body.buffer->data[i], i / sizeof piece);
    ck_assert_int_eq(dfm_body_append(&body, "x", 1), DFM_BODY_TOO_LARGE);
    ck_assert_uint_eq(dfm_buffer_pool_stats(pool).used_bytes, 0); /* given back at once */
    dfm_body_free(&body);
    dfm_buffer_pool_free(pool);
}
END_TEST

/* Bodies of one size, over and over: all of their buffers are kept ones. */
START_TEST(bodies_in_steady_state_map_nothing) {
    dfm_buffer_pool *pool = dfm_buffer_pool_create((size_t)64 * MIB);
    uint64_t maps = 0;
    for (int round = 0; round < 20; round++) {
        dfm_body body;
        dfm_body_begin(&body, pool, MIB, 100000);
        for (int i = 0; i < 100; i++)
            dfm_body_append(&body, (char[1000]){0}, 1000);
        dfm_body_free(&body);
        if (round == 9)
            maps = dfm_buffer_pool_stats(pool).maps;
    }
    ck_assert_uint_eq(dfm_buffer_pool_stats(pool).maps, maps);
    dfm_buffer_pool_free(pool);
}
END_TEST

START_TEST(body_of_unknown_length_grows_and_keeps_its_bytes) {
    dfm_buffer_pool *pool = dfm_buffer_pool_create((size_t)4 * MIB);
    dfm_body body;
    ck_assert_int_eq(dfm_body_begin(&body, pool, 1000000, -1), DFM_BODY_OK);
    ck_assert_ptr_null(body.buffer);
    for (uint32_t i = 0; i < 250000; i++)
        ck_assert_int_eq(dfm_body_append(&body, &i, sizeof i), DFM_BODY_OK);
    ck_assert_uint_eq(body.buffer->size, 1000000);
    for (uint32_t i = 0; i < 250000; i++)
        ck_assert_uint_eq(((uint32_t *)body.buffer->data)[i], i);
    ck_assert_int_eq(dfm_body_append(&body, "x", 1), DFM_BODY_TOO_LARGE);
    dfm_body_free(&body);
    dfm_buffer_pool_free(pool);
}
END_TEST

START_TEST(body_over_limit_or_budget_says_which) {
    dfm_buffer_pool *pool = dfm_buffer_pool_create((size_t)64 * 1024);
    dfm_body body;
    ck_assert_int_eq(dfm_body_begin(&body, pool, 1000, 1001), DFM_BODY_TOO_LARGE);
    ck_assert_int_eq(dfm_body_begin(&body, pool, MIB, 100000), DFM_BODY_NO_ROOM);
    ck_assert_int_eq(dfm_body_begin(&body, pool, MIB, -1), DFM_BODY_OK);
    dfm_body_state state = DFM_BODY_OK;
    for (int i = 0; i < 100 && state == DFM_BODY_OK; i++)
        state = dfm_body_append(&body, (char[1024]){0}, 1024);
    ck_assert_int_eq(state, DFM_BODY_NO_ROOM);
    dfm_body_free(&body);
    ck_assert_uint_eq(dfm_buffer_pool_stats(pool).used_bytes, 0);
    dfm_buffer_pool_free(pool);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("buffers");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, buffer_holds_what_was_asked_for_and_is_aligned);
    tcase_add_test(tests, reused_buffers_cost_no_page_fault);
    tcase_add_test(tests, budget_refuses_and_recovers);
    tcase_add_test(tests, kept_memory_and_used_memory_stay_within_the_budget);
    tcase_add_test(tests, threads_never_share_a_buffer);
    tcase_add_test(tests, footprint_is_what_counts_against_the_budget);
    tcase_add_test(tests, grown_buffer_keeps_its_bytes_and_counts_once);
    tcase_add_test(tests, declared_length_costs_nothing);
    tcase_add_test(tests, body_of_known_length_takes_that_much_at_most);
    tcase_add_test(tests, bodies_in_steady_state_map_nothing);
    tcase_add_test(tests, body_of_unknown_length_grows_and_keeps_its_bytes);
    tcase_add_test(tests, body_over_limit_or_budget_says_which);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
