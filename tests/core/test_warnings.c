/* Warnings: counted by code, and their sentences stay UTF-8 where they are cut. */
#include "core/text.h"
#include "core/warnings.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dfm_warnings warnings;

static void setup(void) {
    memset(&warnings, 0, sizeof warnings);
}

START_TEST(places_of_one_code_are_counted_and_the_first_is_kept) {
    dfm_warn(&warnings, "odd", 7, "bone %d", 7);
    dfm_warn(&warnings, "other", -1, "all of it");
    dfm_warn(&warnings, "odd", 9, "bone %d", 9);
    ck_assert_uint_eq(warnings.count, 2);
    ck_assert_uint_eq(warnings.items[0].count, 2);
    ck_assert_int_eq(warnings.items[0].first, 7);
    ck_assert_str_eq(warnings.items[0].message, "bone 7");
    ck_assert_str_eq(warnings.items[1].code, "other");
}
END_TEST

START_TEST(more_codes_than_there_is_room_for_are_counted_in_the_last) {
    static char codes[DFM_MAX_WARNINGS + 5][16];
    for (int i = 0; i < DFM_MAX_WARNINGS + 5; i++) {
        snprintf(codes[i], sizeof codes[i], "c%d", i);
        dfm_warn(&warnings, codes[i], i, "%s", codes[i]);
    }
    ck_assert_uint_eq(warnings.count, DFM_MAX_WARNINGS);
    ck_assert_uint_eq(warnings.items[DFM_MAX_WARNINGS - 1].count, 6);
    ck_assert_str_eq(warnings.items[DFM_MAX_WARNINGS - 1].code, codes[DFM_MAX_WARNINGS - 1]);
}
END_TEST

/* Names of characters of 1 to 4 bytes, which the end of the room meets at every byte of them. */
START_TEST(a_sentence_that_is_cut_stays_utf8) {
    static const char *const characters[] = {"a", "\xC3\xA9", "\xE3\x81\x82", "\xF0\x9F\x98\x80"};
    enum { COUNT = 300 };
    size_t width = strlen(characters[_i]);
    for (size_t before = 0; before < 8; before++) {
        char name[COUNT * 4 + 8 + 1];
        setup();
        memset(name, '.', before);
        for (size_t i = 0; i < COUNT; i++)
            memcpy(name + before + i * width, characters[_i], width);
        name[before + COUNT * width] = 0;
        dfm_warn(&warnings, "long", 0, "%s", name);
        const char *message = warnings.items[0].message;
        size_t length = strlen(message), room = sizeof warnings.items[0].message;
        ck_assert(dfm_text_is_utf8(message, length));
        ck_assert_uint_ge(length + 1 + width, room);
        ck_assert_int_eq(memcmp(message, name, length), 0);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("warnings");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, places_of_one_code_are_counted_and_the_first_is_kept);
    tcase_add_test(tests, more_codes_than_there_is_room_for_are_counted_in_the_last);
    tcase_add_loop_test(tests, a_sentence_that_is_cut_stays_utf8, 0, 4);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
