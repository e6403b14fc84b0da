/* Half floats: the conversion against a definition that knows nothing of bits. */
#include "kernels/skin.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { LARGEST = 0x7bff, HALVES = 0x7c00 };

/* The value of a finite, non-negative half. */
static double value_of(unsigned half) {
    unsigned exponent = half >> 10, mantissa = half & 0x3ff;
    return exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, (int)exponent - 25);
}

/* Conversions that are not `expected` of value and, with the sign bit, of -value. */
static int wrong(float value, unsigned expected) {
    return (dfm_half_from_float(value) != expected) +
           (dfm_half_from_float(-value) != (expected | 0x8000));
}

START_TEST(every_half_converts_to_itself) {
    int bad = 0;
    for (unsigned half = 0; half < HALVES; half++)
        bad += wrong((float)value_of(half), half);
    ck_assert_int_eq(bad, 0);
}
END_TEST

START_TEST(between_two_halves_the_nearer_wins_and_a_tie_goes_to_even) {
    int bad = 0;
    for (unsigned half = 0; half < LARGEST; half++) {
        float middle = (float)((value_of(half) + value_of(half + 1)) / 2); /* exact */
        bad += wrong(nextafterf(middle, 0), half);
        bad += wrong(middle, half & 1 ? half + 1 : half);
        bad += wrong(nextafterf(middle, INFINITY), half + 1);
    }
    ck_assert_int_eq(bad, 0);
}
END_TEST

START_TEST(what_is_too_large_becomes_the_largest_finite) {
    ck_assert_int_eq(wrong(65504.0f, LARGEST), 0);
    ck_assert_int_eq(wrong(65519.996f, LARGEST), 0);
    ck_assert_int_eq(wrong(65520.0f, LARGEST), 0);
    ck_assert_int_eq(wrong(1e10f, LARGEST), 0);
    ck_assert_int_eq(wrong(3.4e38f, LARGEST), 0);
    ck_assert_int_eq(wrong(INFINITY, LARGEST), 0);
}
END_TEST

START_TEST(what_is_too_small_becomes_zero_of_its_sign) {
    ck_assert_int_eq(wrong(0.0f, 0), 0);
    ck_assert_int_eq(wrong(1e-45f, 0), 0);
    ck_assert_int_eq(wrong(ldexpf(1, -25), 0), 0);
    ck_assert_int_eq(wrong(nextafterf(ldexpf(1, -25), 1), 1), 0);
}
END_TEST

START_TEST(what_is_not_a_number_becomes_zero) {
    ck_assert_uint_eq(dfm_half_from_float(NAN), 0);
    ck_assert_uint_eq(dfm_half_from_float(-NAN), 0);
}
END_TEST

START_TEST(an_array_converts_as_its_elements_do_and_nothing_behind_it_is_written) {
    const float values[5] = {1, -2.5f, 70000, NAN, 1e-7f};
    uint16_t halves[6];
    memset(halves, 0x55, sizeof halves);
    dfm_half_from_floats(halves, values, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(halves[i], dfm_half_from_float(values[i]));
    ck_assert_uint_eq(halves[5], 0x5555);
    ck_assert_uint_eq(halves[0], 0x3c00);
    ck_assert_uint_eq(halves[1], 0xc100);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("half");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, every_half_converts_to_itself);
    tcase_add_test(tests, between_two_halves_the_nearer_wins_and_a_tie_goes_to_even);
    tcase_add_test(tests, what_is_too_large_becomes_the_largest_finite);
    tcase_add_test(tests, what_is_too_small_becomes_zero_of_its_sign);
    tcase_add_test(tests, what_is_not_a_number_becomes_zero);
    tcase_add_test(tests, an_array_converts_as_its_elements_do_and_nothing_behind_it_is_written);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
