/* gzip bodies: whole, cut off anywhere, damaged, in members, and without end. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "server/inflate.h"

enum { LIMIT = 1 << 20, PLAIN = 200000 };

static dfm_buffer_pool *pool;
static uint8_t plain[PLAIN], packed[2 * PLAIN];

static void set_up(void) {
    pool = dfm_buffer_pool_create(16 << 20);
    uint32_t random = 1;
    for (size_t i = 0; i < PLAIN; i++) {
        random = random * 1664525 + 1013904223;
        plain[i] = (uint8_t)(random >> 29); /* compresses somewhat */
    }
}

static void tear_down(void) {
    ck_assert_uint_eq(dfm_buffer_pool_stats(pool).used_bytes, 0);
    dfm_buffer_pool_free(pool);
}

static size_t pack(const uint8_t *bytes, size_t size, uint8_t *out, size_t room) {
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)bytes,
                  .avail_in = (unsigned)size,
                  .next_out = out,
                  .avail_out = (unsigned)room};
    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

typedef struct result {
    bool good;
    dfm_body body;
    uint64_t bytes;
    const char *why;
} result;

static result inflate_bytes(const uint8_t *bytes, size_t size, size_t limit) {
    result r;
    dfm_body_begin(&r.body, pool, limit, -1);
    ck_assert_int_eq(dfm_body_append(&r.body, bytes, size), DFM_BODY_OK);
    r.good = dfm_inflate_body(&r.body, &r.bytes, &r.why);
    return r;
}

START_TEST(a_body_comes_out_as_it_went_in) {
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, PLAIN};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        result r = inflate_bytes(packed, pack(plain, sizes[i], packed, sizeof packed), LIMIT);
        ck_assert(r.good);
        ck_assert_uint_eq(r.bytes, sizes[i]);
        ck_assert_uint_eq(r.body.buffer ? r.body.buffer->size : 0, sizes[i]);
        if (sizes[i] > 0)
            ck_assert_mem_eq(r.body.buffer->data, plain, sizes[i]);
        dfm_body_free(&r.body);
    }
}
END_TEST

START_TEST(members_follow_each_other) {
    size_t first = pack(plain, 1000, packed, sizeof packed);
    size_t second = pack(plain + 1000, 2000, packed + first, sizeof packed - first);
    result r = inflate_bytes(packed, first + second, LIMIT);
    ck_assert(r.good);
    ck_assert_uint_eq(r.body.buffer->size, 3000);
    ck_assert_mem_eq(r.body.buffer->data, plain, 3000);
    dfm_body_free(&r.body);
    packed[first] = 'x'; /* no second member, but something */
    r = inflate_bytes(packed, first + second, LIMIT);
    ck_assert(!r.good);
    ck_assert_ptr_nonnull(strstr(r.why, "follows"));
    dfm_body_free(&r.body);
}
END_TEST

START_TEST(every_truncation_is_told) {
    size_t size = pack(plain, 3000, packed, sizeof packed);
    for (size_t length = 1; length < size; length++) {
        result r = inflate_bytes(packed, length, LIMIT);
        ck_assert_msg(!r.good && r.why, "%zu of %zu bytes", length, size);
        dfm_body_free(&r.body);
    }
}
END_TEST

START_TEST(damage_is_told) {
    size_t size = pack(plain, 3000, packed, sizeof packed);
    packed[size / 2] ^= 0x10;
    result r = inflate_bytes(packed, size, LIMIT);
    ck_assert(!r.good && r.why);
    dfm_body_free(&r.body);
    r = inflate_bytes((const uint8_t *)"Pmx no gzip at all", 18, LIMIT);
    ck_assert(!r.good && r.why);
    dfm_body_free(&r.body);
}
END_TEST

START_TEST(a_bomb_stops_at_the_limit) {
    enum { BOMB = 64 << 20 };
    uint8_t *zeros = calloc(BOMB, 1);
    size_t size = pack(zeros, BOMB, packed, sizeof packed);
    free(zeros);
    ck_assert_uint_lt(size, PLAIN);
    result r = inflate_bytes(packed, size, LIMIT);
    ck_assert(!r.good && !r.why);
    ck_assert_int_eq(r.body.state, DFM_BODY_TOO_LARGE);
    ck_assert_uint_gt(r.bytes, LIMIT);
    ck_assert_uint_le(r.bytes, LIMIT + 65536);
    dfm_body_free(&r.body);
    r = inflate_bytes(packed, size, (size_t)1 << 30); /* over what all bodies have */
    ck_assert(!r.good && !r.why);
    ck_assert_int_eq(r.body.state, DFM_BODY_NO_ROOM);
    dfm_body_free(&r.body);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("inflate");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_body_comes_out_as_it_went_in);
    tcase_add_test(tests, members_follow_each_other);
    tcase_add_test(tests, every_truncation_is_told);
    tcase_add_test(tests, damage_is_told);
    tcase_add_test(tests, a_bomb_stops_at_the_limit);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
