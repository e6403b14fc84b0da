/* Text decoding: lenient, exact about what is no character, and back again. */
#include "core/text.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

typedef size_t decode_function(const uint8_t *, size_t, char *, size_t *);

/* Decodes from a buffer of exactly this size and compares. */
static void expect(decode_function *decode, const char *bytes, size_t size, const char *text,
                   size_t replaced) {
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    size_t bad, length = decode(copy, size, NULL, &bad);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_uint_eq(bad, replaced);
    char *out = malloc(length ? length : 1);
    ck_assert_uint_eq(decode(copy, size, out, NULL), length);
    ck_assert_int_eq(memcmp(out, text, length), 0);
    free(out);
    free(copy);
}

#define UTF8(bytes, text, replaced)                                                                \
    expect(dfm_text_decode_utf8, bytes, sizeof bytes - 1, text, replaced)
#define UTF16(bytes, text, replaced)                                                               \
    expect(dfm_text_decode_utf16le, bytes, sizeof bytes - 1, text, replaced)
#define R "\xEF\xBF\xBD" /* U+FFFD */

START_TEST(good_text_is_kept) {
    UTF8("", "", 0);
    UTF8("abc", "abc", 0);
    UTF8("センター", "センター", 0);
    UTF8("😀", "😀", 0);
    UTF16("\x84\x76\x2B\x8A", "的訫", 0);
    UTF16("\x3D\xD8\x00\xDE", "😀", 0);
    UTF16("\xFD\xFF", R, 0); /* U+FFFD itself is a character */
}
END_TEST

START_TEST(what_is_no_utf8_is_replaced_part_by_part) {
    UTF8("\x80", R, 1);
    UTF8("a\xFFz", "a" R "z", 1);
    UTF8("\xC0\xAF", R R, 2);             /* overlong */
    UTF8("\xE0\x80\xAF", R R R, 3);       /* overlong */
    UTF8("\xF0\x8F\xBF\xBF", R R R R, 4); /* overlong */
    UTF8("\xED\xA0\x80", R R R, 3);       /* surrogate */
    UTF8("\xF4\x90\x80\x80", R R R R, 4); /* above U+10FFFF */
    UTF8("\xE3\x82", R, 1);               /* cut: one part */
    UTF8("\xE3\x82z", R "z", 1);
    UTF8("\xF0\x9F\x98\xF0\x9F\x98\x80", R "😀", 1);
}
END_TEST

START_TEST(what_is_no_utf16_is_replaced_part_by_part) {
    UTF16("\x3D\xD8", R, 1);        /* high surrogate at the end */
    UTF16("\x3D\xD8z\0", R "z", 1); /* and before a letter */
    UTF16("\x00\xDEz\0", R "z", 1); /* low surrogate alone */
    UTF16("\x3D\xD8\x3D\xD8\x00\xDE", R "😀", 1);
    UTF16("a\0z", "a" R, 1); /* odd byte */
    UTF16("\x3D\xD8\x00", R R, 2);
}
END_TEST

START_TEST(nul_is_a_character_like_others) {
    char out[8];
    ck_assert_uint_eq(dfm_text_decode_utf8((const uint8_t *)"a\0b", 3, out, NULL), 3);
    ck_assert_int_eq(memcmp(out, "a\0b", 3), 0);
    ck_assert_uint_eq(dfm_text_decode_utf16le((const uint8_t *)"\0\0", 2, out, NULL), 1);
    ck_assert_int_eq(out[0], 0);
}
END_TEST

/* U+FFFF and below as one unit, others as a pair. */
static size_t encode(uint32_t code, uint8_t units[4]) {
    uint32_t unit = code < 0x10000 ? code : 0xD800 + ((code - 0x10000) >> 10);
    uint32_t low = 0xDC00 + (code & 0x3FF);
    memcpy(units, &unit, 2);
    memcpy(units + 2, &low, 2);
    return code < 0x10000 ? 2 : 4;
}

static bool survives(uint32_t code) {
    uint8_t units[4], back[8];
    char text[6];
    size_t size = encode(code, units);
    size_t replaced, length = dfm_text_decode_utf16le(units, size, text, &replaced);
    size_t expected = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    return replaced == 0 && length == expected && dfm_text_is_utf8(text, length) &&
           dfm_text_encode_utf16le(text, length, NULL) == size &&
           dfm_text_encode_utf16le(text, length, back) == size && memcmp(back, units, size) == 0;
}

START_TEST(every_character_goes_to_utf16_and_back) {
    uint32_t lost = 0;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        if (code < 0xD800 || code > 0xDFFF)
            lost += !survives(code);
    }
    ck_assert_uint_eq(lost, 0);
    ck_assert(!survives(0xD800));
}
END_TEST

START_TEST(every_two_bytes_decode_to_utf8) {
    for (uint32_t pair = 0; pair <= 0xFFFF; pair++) {
        const uint8_t bytes[2] = {(uint8_t)pair, (uint8_t)(pair >> 8)};
        char text[6];
        size_t length = dfm_text_decode_utf8(bytes, 2, text, NULL);
        ck_assert_uint_le(length, sizeof text);
        ck_assert(dfm_text_is_utf8(text, length));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, good_text_is_kept);
    tcase_add_test(tests, what_is_no_utf8_is_replaced_part_by_part);
    tcase_add_test(tests, what_is_no_utf16_is_replaced_part_by_part);
    tcase_add_test(tests, nul_is_a_character_like_others);
    tcase_add_test(tests, every_character_goes_to_utf16_and_back);
    tcase_add_test(tests, every_two_bytes_decode_to_utf8);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
