/* The hash of names: first wins, none is missed, crafted names cost nothing. */
#include "core/names.h"
#include "core/pmx.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dfm_text text(const char *string) {
    return (dfm_text){.data = string, .length = (uint32_t)strlen(string)};
}

static int32_t find(const dfm_names *names, const char *name) {
    return dfm_names_find(names, name, (uint32_t)strlen(name));
}

START_TEST(first_of_equal_names_wins_and_the_others_are_counted) {
    const dfm_text texts[] = {text("頭"), text("首"), text("頭"), text(""), text("首"), text("")};
    dfm_arena arena = {0};
    dfm_names names;
    int64_t first_hidden;
    ck_assert_int_eq(dfm_names_build(&names, &arena, texts, 6, sizeof *texts, &first_hidden), 3);
    ck_assert_int_eq(first_hidden, 2);
    ck_assert_int_eq(find(&names, "頭"), 0);
    ck_assert_int_eq(find(&names, "首"), 1);
    ck_assert_int_eq(find(&names, ""), 3);
    ck_assert_int_eq(find(&names, "腕"), -1);
    dfm_arena_free(&arena);
}
END_TEST

START_TEST(names_are_compared_by_all_their_bytes) {
    const dfm_text texts[] = {{"a\0b", 3}, {"a", 1}, {"a\0c", 3}};
    dfm_arena arena = {0};
    dfm_names names;
    int64_t first_hidden;
    ck_assert_int_eq(dfm_names_build(&names, &arena, texts, 3, sizeof *texts, &first_hidden), 0);
    ck_assert_int_eq(first_hidden, -1);
    ck_assert_int_eq(dfm_names_find(&names, "a\0c", 3), 2);
    ck_assert_int_eq(dfm_names_find(&names, "a\0", 2), -1);
    ck_assert_int_eq(find(&names, "a"), 1);
    dfm_arena_free(&arena);
}
END_TEST

START_TEST(no_names_find_nothing) {
    dfm_arena arena = {0};
    dfm_names names;
    int64_t first_hidden;
    ck_assert_int_eq(dfm_names_build(&names, &arena, NULL, 0, 1, &first_hidden), 0);
    ck_assert_int_eq(find(&names, ""), -1);
    dfm_arena_free(&arena);
}
END_TEST

/* Whatever was found before, and whether or not names are hidden. */
START_TEST(the_next_name_is_found_as_any_other) {
    static const char *const hiding[] = {"頭", "首", "", "頭", "腕", "首"};
    static const char *const plain[] = {"頭", "首", "", "頭1", "腕", "首1"};
    static const char *const asked[] = {"頭", "首", "", "頭1", "腕", "首1", "足", "頭12345678"};
    for (int hides = 0; hides < 2; hides++) {
        dfm_text texts[6];
        dfm_arena arena = {0};
        dfm_names names;
        int64_t first_hidden;
        for (int i = 0; i < 6; i++)
            texts[i] = text(hides ? hiding[i] : plain[i]);
        ck_assert_int_eq(
            dfm_names_build(&names, &arena, texts, 6, sizeof *texts, &first_hidden) > 0, hides);
        for (int64_t previous = -2; previous < 8; previous++) {
            for (int i = 0; i < 8; i++)
                ck_assert_int_eq(
                    dfm_names_find_next(&names, asked[i], (uint32_t)strlen(asked[i]), previous),
                    find(&names, asked[i]));
        }
        dfm_arena_free(&arena);
    }
}
END_TEST

START_TEST(names_of_every_length_are_told_apart) {
    enum { COUNT = 100 };
    char letters[COUNT];
    dfm_text texts[COUNT];
    dfm_arena arena = {0};
    dfm_names names;
    int64_t first_hidden;
    memset(letters, 'a', sizeof letters);
    for (uint32_t i = 0; i < COUNT; i++)
        texts[i] = (dfm_text){.data = letters, .length = i};
    ck_assert_int_eq(dfm_names_build(&names, &arena, texts, COUNT, sizeof *texts, &first_hidden),
                     0);
    for (uint32_t i = 0; i < COUNT; i++) {
        char *exact = malloc(i ? i : 1); /* so that a sanitizer sees a read behind it */
        memset(exact, 'a', i);
        ck_assert_int_eq(dfm_names_find(&names, exact, i), (int32_t)i);
        if (i > 0) {
            exact[i - 1] = 'b';
            ck_assert_int_eq(dfm_names_find(&names, exact, i), -1);
        }
        free(exact);
    }
    dfm_arena_free(&arena);
}
END_TEST

START_TEST(names_in_an_array_of_structs_are_found_in_place) {
    enum { COUNT = 65536 };
    dfm_pmx_bone *bones = calloc(COUNT, sizeof *bones);
    char(*strings)[16] = calloc(COUNT, sizeof *strings);
    for (int i = 0; i < COUNT; i++) {
        snprintf(strings[i], sizeof strings[i], "bone%d", i);
        bones[i].name = text(strings[i]);
    }
    dfm_arena arena = {0};
    dfm_names names;
    int64_t first_hidden;
    ck_assert_int_eq(
        dfm_names_build(&names, &arena, &bones[0].name, COUNT, sizeof *bones, &first_hidden), 0);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(find(&names, strings[i]), i);
    ck_assert_int_eq(find(&names, "bone65536"), -1);
    ck_assert_uint_le(arena.bytes, 128u + 4u * 2 * COUNT);
    dfm_arena_free(&arena);
    free(strings);
    free(bones);
}
END_TEST

START_TEST(equal_names_in_great_number_are_built_in_no_time) {
    enum { COUNT = 65536, LENGTH = 4096 }; /* compared pairwise: 8 TB of bytes */
    char *name = calloc(1, LENGTH);
    dfm_text *texts = calloc(COUNT, sizeof *texts);
    for (int i = 0; i < COUNT; i++)
        texts[i] = (dfm_text){.data = name, .length = LENGTH};
    dfm_arena arena = {0};
    dfm_names names;
    int64_t first_hidden;
    ck_assert_int_eq(dfm_names_build(&names, &arena, texts, COUNT, sizeof *texts, &first_hidden),
                     COUNT - 1);
    ck_assert_int_eq(first_hidden, 1);
    dfm_arena_free(&arena);
    free(texts);
    free(name);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("names");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, first_of_equal_names_wins_and_the_others_are_counted);
    tcase_add_test(tests, names_are_compared_by_all_their_bytes);
    tcase_add_test(tests, no_names_find_nothing);
    tcase_add_test(tests, the_next_name_is_found_as_any_other);
    tcase_add_test(tests, names_of_every_length_are_told_apart);
    tcase_add_test(tests, names_in_an_array_of_structs_are_found_in_place);
    tcase_add_test(tests, equal_names_in_great_number_are_built_in_no_time);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
