/* The JSON reader against the grammar, against strtod, and against cJSON. */
#include "api/json_reader.h"
#include "core/text.h"
#include "tests/support_json.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stands behind a text decides which way the reader takes: by words, or byte by byte. */
enum { PADDING = 64 };

/* The text in memory of exactly its size, with white space behind it. */
static char *padded(const char *text, size_t size, size_t padding) {
    char *copy = malloc(size + padding ? size + padding : 1);
    memcpy(copy, text, size);
    memset(copy + size, ' ', padding);
    return copy;
}

static bool accepts_padded(const char *text, size_t size, size_t padding, dfm_json_reader *reader) {
    char *copy = padded(text, size, padding);
    dfm_json_begin(reader, copy, size + padding);
    bool good = dfm_json_skip(reader) && dfm_json_finish(reader);
    ck_assert_int_eq(good, reader->error == NULL);
    free(copy);
    return good;
}

/* Reads a whole document. */
static bool accepts(const char *text, size_t size, dfm_json_reader *reader) {
    bool good = accepts_padded(text, size, PADDING, reader);
    ck_assert_int_eq(accepts_padded(text, size, 0, reader), good);
    return good;
}

#define ACCEPTS(text) accepts((text), sizeof(text) - 1, &(dfm_json_reader){0})

START_TEST(documents_of_the_grammar_are_accepted) {
    ck_assert(ACCEPTS("{}"));
    ck_assert(ACCEPTS(" \t\r\n[ ] \n"));
    ck_assert(ACCEPTS("{\"a\":[1,-0,0.5,1e9,1E-9,-1.25e+3,true,false,null,\"\"]}"));
    ck_assert(ACCEPTS("\"\\u0000 \\\" \\\\ \\/ \\b\\f\\n\\r\\t \\ud83d\\ude00 \\uD83D\\uDE00\""));
    ck_assert(
        ACCEPTS("\"左ひじ \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf \xed\x9f\xbf \xee\x80\x80 \x7f\""));
    ck_assert(ACCEPTS("0"));
    ck_assert(ACCEPTS("1e999"));
    ck_assert(ACCEPTS("[[],{},[{}]]"));
}
END_TEST

START_TEST(anything_else_is_refused) {
    static const char *const wrong[] = {
        "",
        " ",
        "{",
        "}",
        "[",
        "[1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "[1}",
        "{\"a\":1]",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e1",
        "1e",
        "1e+",
        "-01",
        "0x10",
        "NaN",
        "Infinity",
        "-Infinity",
        "tru",
        "True",
        "truee",
        "nul",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800x\"",
        "\"\n\"",
        "\"\t\"",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\xc1\xbf\"",
        "\"\xe0\x80\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xf5\x80\x80\x80\"",
        "\"\x80\"",
        "\"\xe3\x81\"",
        "\"\xe3\x81",
        "{} {}",
        "[] x",
        "/**/{}",
        "{}//",
        "\xef\xbb\xbf{}",
        "\v1",
        "1\f",
        "{1:2}",
        "[\"a\":1]",
        "--1",
        "1e1.5",
        "\"a\"\"b\"",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!accepts(wrong[i], strlen(wrong[i]), &(dfm_json_reader){0}), "%s", wrong[i]);
    ck_assert(!ACCEPTS("\"a\0b\""));
    ck_assert(!ACCEPTS("{}\0"));
}
END_TEST

START_TEST(every_shorter_document_is_refused) {
    static const char text[] =
        "{\"bones\": {\"\\u5de6\xe3\x81\xb2\": {\"rotation\": [-1.5e-3, 0, true, null, false]}}}";
    ck_assert(ACCEPTS(text));
    for (size_t size = 0; size < sizeof text - 1; size++)
        ck_assert_msg(!accepts(text, size, &(dfm_json_reader){0}), "%.*s", (int)size, text);
}
END_TEST

START_TEST(depth_is_bounded) {
    char text[2 * (DFM_JSON_MAX_DEPTH + 1)];
    for (size_t depth = DFM_JSON_MAX_DEPTH; depth <= DFM_JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        ck_assert_int_eq(accepts(text, 2 * depth, &(dfm_json_reader){0}),
                         depth == DFM_JSON_MAX_DEPTH);
    }
    size_t many = 1 << 20;
    char *open = malloc(many);
    memset(open, '[', many);
    ck_assert(!accepts(open, many, &(dfm_json_reader){0}));
    free(open);
}
END_TEST

START_TEST(errors_have_line_and_column) {
    static const char text[] = "{\n  \"a\": 1,\n  \"b\": tru\n}";
    dfm_json_reader reader;
    size_t line, column;
    ck_assert(!accepts(text, sizeof text - 1, &reader));
    dfm_json_begin(&reader, text, sizeof text - 1);
    dfm_json_skip(&reader);
    ck_assert_uint_eq(reader.error_offset, 19);
    dfm_json_position(&reader, reader.error_offset, &line, &column);
    ck_assert_uint_eq(line, 3);
    ck_assert_uint_eq(column, 8);
}
END_TEST

static double number_of(const char *text, size_t padding) {
    size_t size = strlen(text);
    char *copy = padded(text, size, padding);
    dfm_json_reader reader;
    double number = NAN;
    dfm_json_begin(&reader, copy, size + padding);
    ck_assert_msg(dfm_json_number(&reader, &number), "%s", text);
    ck_assert(dfm_json_finish(&reader));
    free(copy);
    return number;
}

static void same_as_strtod(const char *text) {
    double theirs = strtod(text, NULL);
    for (size_t padding = 0; padding <= PADDING; padding += PADDING) {
        double ours = number_of(text, padding);
        ck_assert_msg(memcmp(&ours, &theirs, sizeof ours) == 0, "%s: %.17g, strtod %.17g", text,
                      ours, theirs);
    }
}

START_TEST(numbers_are_rounded_as_strtod_rounds_them) {
    static const char *const texts[] = {
        "0",
        "-0",
        "0.0",
        "-0e5",
        "1",
        "9007199254740992",
        "9007199254740993",
        "9007199254740995",
        "9007199254740993.000000000000000000000001",
        "123456789012345678",
        "1234567890123456789",
        "12345678901234567890",
        "99999999999999999999999999",
        "0.1",
        "0.38268343236508977",
        "0.00000000000000000000000000001234567",
        "1e22",
        "1e23",
        "1e-22",
        "1e-23",
        "8.5e22",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "4.9e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1e-400",
        "-1e-99999999999999999999",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "1e309",
        "1e99999999999999999999",
        "0e99999999999999999999",
        "6929495644600919.5",
        "3.0e-2",
        "1.0000000000000002220446049250313080847263336181640625",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203124",
        "1.00000000000000011102230246251565404236316680908203126",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        same_as_strtod(texts[i]);
}
END_TEST

/* What JSON writers print: 17 digits of any double; and the middle between two neighbours, cut at
 * 17 to 19 digits, where rounding is decided last. */
START_TEST(numbers_of_many_digits_are_rounded_as_strtod_rounds_them) {
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 300000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint64_t bits = (random & 0x000fffffffffffffu) | (1023 - (random >> 58)) << 52;
        double number, next;
        char text[64];
        memcpy(&number, &bits, sizeof number);
        bits++;
        memcpy(&next, &bits, sizeof next);
        snprintf(text, sizeof text, "%.17g", number);
        same_as_strtod(text);
        snprintf(text, sizeof text, "%.*Lg", 17 + i % 3, ((long double)number + next) / 2);
        same_as_strtod(text);
    }
}
END_TEST

/* Digits before and behind the point, with zeros in front of those that count. */
START_TEST(numbers_of_every_width_are_rounded_as_strtod_rounds_them) {
    static const char digits[] = "98765432109876543210987654321";
    static const char zeros[] = "0000000000000000000000000000";
    char text[128];
    for (int whole = 1; whole <= 21; whole++) {
        for (int places = 0; places <= 28; places++) {
            for (int empty = 0; empty <= places; empty++) {
                snprintf(text, sizeof text, "-%.*s%s%.*s%.*s", whole, digits, places ? "." : "",
                         empty, zeros, places - empty, digits);
                same_as_strtod(text);
                if (whole == 1) {
                    text[1] = '0';
                    same_as_strtod(text);
                    same_as_strtod(text + 1);
                }
            }
        }
    }
}
END_TEST

START_TEST(numbers_of_thousands_of_digits_are_rounded_correctly) {
    /* Halfway between two doubles, decided by a digit far behind. */
    char text[4096] = "1.00000000000000011102230246251565404236316680908203125";
    size_t length = strlen(text);
    memset(text + length, '0', 3000);
    text[length + 3000] = 0;
    same_as_strtod(text);
    text[length + 2999] = '1';
    same_as_strtod(text);
    memset(text, '9', 4000);
    text[300] = 'e';
    memcpy(text + 300, "e-200", 6);
    same_as_strtod(text);
    memset(text, '1', 4000);
    text[4000] = 0;
    same_as_strtod(text);
    memcpy(text + 3990, "e-3989", 7);
    same_as_strtod(text);
    strcpy(text, "0.");
    memset(text + 2, '0', 3000);
    strcpy(text + 3002, "123e3000");
    same_as_strtod(text);
}
END_TEST

/* Reads an array by runs of numbers, and what they leave one by one. */
static size_t run_of(const char *text, size_t count, double *numbers, bool *good) {
    dfm_json_reader reader;
    char *copy = padded(text, strlen(text), PADDING);
    dfm_json_begin(&reader, copy, strlen(text) + PADDING);
    ck_assert(dfm_json_enter_array(&reader));
    size_t received = dfm_json_numbers(&reader, numbers, count);
    while (dfm_json_next_item(&reader) && dfm_json_skip(&reader))
        ;
    *good = dfm_json_finish(&reader);
    free(copy);
    return received;
}

START_TEST(a_run_of_numbers_ends_before_what_is_none) {
    static const struct {
        const char *text;
        size_t received;
        bool good;
    } cases[] = {
        {"[]", 0, true},
        {"[1]", 1, true},
        {"[1,-2.5, 3]", 3, true},
        {"[1,2,3,4,5]", 4, true},
        {"[0.1, 0.2, 0.3, 0.4 ]", 4, true},
        {"[ 1,2]", 0, true},
        {"[1 ,2]", 1, true},
        {"[1,  2]", 1, true},
        {"[1,\n2]", 1, true},
        {"[1,2e3,4]", 1, true},
        {"[1,2.5E3,4]", 1, true},
        {"[123456789,1]", 0, true},
        {"[1,[2],3]", 1, true},
        {"[1,null]", 1, true},
        {"[1,]", 1, false},
        {"[1, ]", 1, false},
        {"[,1]", 0, false},
        {"[1,,2]", 1, false},
        {"[1,02]", 1, false},
        {"[1,2.]", 1, false},
        {"[1,.5]", 1, false},
        {"[1,-]", 1, false},
        {"[1,--1]", 1, false},
        {"[1,+1]", 1, false},
        {"[1,2x]", 2, false},
        {"[1,2.5.5]", 2, false},
        {"[1,2", 2, false},
        {"[1,2}", 2, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double numbers[5] = {0, 0, 0, 0, 12345};
        bool good;
        ck_assert_msg(run_of(cases[i].text, 4, numbers, &good) == cases[i].received, "%s",
                      cases[i].text);
        ck_assert_msg(good == cases[i].good, "%s", cases[i].text);
        ck_assert_double_eq(numbers[4], 12345);
    }
    double numbers[4];
    bool good;
    ck_assert_uint_eq(run_of("[1,-0.25, 3.5e1]", 4, numbers, &good), 2);
    ck_assert_double_eq(numbers[0], 1);
    ck_assert_double_eq(numbers[1], -0.25);
}
END_TEST

START_TEST(a_run_of_numbers_reads_no_byte_behind_the_document) {
    static const char text[] = "[0.12345678901234567,-0.12345678901234567,12345.678]";
    double numbers[3];
    for (size_t size = 1; size < sizeof text; size++) {
        dfm_json_reader reader;
        char *copy = padded(text, size, 0);
        dfm_json_begin(&reader, copy, size);
        ck_assert(dfm_json_enter_array(&reader));
        dfm_json_numbers(&reader, numbers, 3);
        while (dfm_json_next_item(&reader) && dfm_json_skip(&reader))
            ;
        ck_assert_int_eq(dfm_json_finish(&reader), size == sizeof text - 1);
        free(copy);
    }
}
END_TEST

/* A small generator; deterministic. */
static uint64_t random_state = 88172645463325252u;
static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

START_TEST(random_numbers_are_rounded_as_strtod_rounds_them) {
    static const char *const formats[] = {"%.6g",  "%.9g",  "%.15g", "%.16g",
                                          "%.17g", "%.20g", "%.6f",  "%.17e"};
    char text[512];
    for (int i = 0; i < 200000; i++) {
        double value;
        uint64_t bits = random_next();
        if (i % 2)
            value = ((double)(int64_t)bits) / 9.3e18; /* as poses have them */
        else
            memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        snprintf(text, sizeof text, formats[i % 8], value);
        same_as_strtod(text);
    }
}
END_TEST

/* Characters of every length and their broken neighbours, at every place in a word. */
START_TEST(strings_of_any_bytes_are_accepted_where_they_are_utf8) {
    static const char *const parts[] = {"a",
                                        "bcdefgh",
                                        "左",
                                        "ひじ",
                                        "é",
                                        "\xf0\x9f\x98\x80",
                                        "\x7f",
                                        " ",
                                        "\xe0\xa0\x80",
                                        "\xed\x9f\xbf",
                                        "\xee\x80\x80",
                                        "\xe0\x9f\xbf",
                                        "\xed\xa0\x80",
                                        "\xe3\x81",
                                        "\x1f",
                                        "\x80"};
    size_t accepted = 0;
    for (int i = 0; i < 100000; i++) {
        char text[128] = "\"";
        size_t size = 1;
        for (uint64_t n = random_next() % 8, of = i % 2 ? 11 : 16; n > 0; n--) {
            const char *part = parts[random_next() % of];
            memcpy(text + size, part, strlen(part));
            size += strlen(part);
        }
        bool good = dfm_text_is_utf8(text + 1, size - 1) && !memchr(text, 0x1f, size);
        text[size++] = '"';
        ck_assert_msg(accepts(text, size, &(dfm_json_reader){0}) == good, "%.*s", (int)size, text);
        accepted += good;
    }
    ck_assert_uint_gt(accepted, 50000);
}
END_TEST

START_TEST(strings_are_decoded) {
    static const struct {
        const char *text, *decoded;
        size_t length;
    } cases[] = {
        {"\"plain\"", "plain", 5},
        {"\"\"", "", 0},
        {"\"\\u5de6\\u3072\"", "左ひ", 6},
        {"\"a\\u0000b\"", "a\0b", 3},
        {"\"\\ud83d\\ude00!\"", "\xf0\x9f\x98\x80!", 5},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"\\u00e9\\u07ff\\u0800\\uffff\"", "\xc3\xa9\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dfm_json_reader reader;
        dfm_json_string string;
        char decoded[64];
        dfm_json_begin(&reader, cases[i].text, strlen(cases[i].text));
        ck_assert(dfm_json_text(&reader, &string));
        ck_assert_uint_eq(dfm_json_string_decode(&string, decoded), cases[i].length);
        ck_assert_mem_eq(decoded, cases[i].decoded, cases[i].length);
        ck_assert_int_eq(string.escaped, strchr(cases[i].text, '\\') != NULL);
    }
}
END_TEST

START_TEST(values_of_another_type_leave_the_reader_where_it_is) {
    static const char text[] = " [1]";
    dfm_json_reader reader;
    double number;
    bool value;
    dfm_json_string string;
    dfm_json_begin(&reader, text, sizeof text - 1);
    ck_assert(!dfm_json_number(&reader, &number));
    ck_assert(!dfm_json_bool(&reader, &value));
    ck_assert(!dfm_json_text(&reader, &string));
    ck_assert(!dfm_json_enter_object(&reader));
    ck_assert_ptr_null(reader.error);
    ck_assert_int_eq(dfm_json_peek(&reader), DFM_JSON_ARRAY);
    ck_assert(dfm_json_enter_array(&reader));
    ck_assert(dfm_json_next_item(&reader));
    ck_assert(dfm_json_number(&reader, &number));
    ck_assert(!dfm_json_next_item(&reader));
    ck_assert(dfm_json_finish(&reader));
}
END_TEST

/* --- cJSON as the oracle ---------------------------------------------------------------------- */

static size_t random_document(char *out, size_t at, int depth);

static size_t random_string(char *out, size_t at) {
    static const char *const parts[] = {"a", "左",   "\\n", "\\u5de6", "\\ud83d\\ude00",
                                        " ", "\\\\", "#1"};
    out[at++] = '"';
    for (uint64_t n = random_next() % 5; n > 0; n--)
        at += (size_t)sprintf(out + at, "%s", parts[random_next() % 8]);
    out[at++] = '"';
    return at;
}

static size_t random_members(char *out, size_t at, int depth, bool object) {
    static const char *const gaps[] = {"", " ", "\n", "\t\r "};
    for (uint64_t n = random_next() % 4, i = 0; i < n; i++) {
        at += (size_t)sprintf(out + at, "%s%s", i ? "," : "", gaps[random_next() % 4]);
        if (object) {
            at = random_string(out, at);
            at += (size_t)sprintf(out + at, "%s:", gaps[random_next() % 4]);
        }
        at = random_document(out, at, depth + 1);
    }
    return at;
}

static size_t random_document(char *out, size_t at, int depth) {
    static const char *const words[] = {"true", "false", "null"};
    switch (random_next() % (depth > 4 ? 4 : 6)) {
    case 0:
        return at + (size_t)sprintf(out + at, "%s", words[random_next() % 3]);
    case 1:
        return random_string(out, at);
    case 2:
        return at + (size_t)sprintf(out + at, "%lld", (long long)random_next() / 1000003);
    case 3:
        return at + (size_t)sprintf(out + at, "%.*g", (int)(random_next() % 17) + 1,
                                    (double)(int64_t)random_next() / 1e18);
    case 4:
        out[at++] = '{';
        at = random_members(out, at, depth, true);
        out[at++] = '}';
        return at;
    default:
        out[at++] = '[';
        at = random_members(out, at, depth, false);
        out[at++] = ']';
        return at;
    }
}

START_TEST(valid_documents_read_as_cjson_reads_them) {
    static char text[1 << 16];
    for (int i = 0; i < 20000; i++) {
        size_t size = random_document(text, 0, 0);
        cJSON *root = cJSON_ParseWithLengthOpts(text, size, NULL, false);
        ck_assert_msg(root != NULL, "%.*s", (int)size, text);
        dfm_json_reader reader;
        dfm_json_begin(&reader, text, size);
        ck_assert_msg(json_same_value(&reader, root) && dfm_json_finish(&reader), "%.*s", (int)size,
                      text);
        cJSON_Delete(root);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("json_reader");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, documents_of_the_grammar_are_accepted);
    tcase_add_test(tests, anything_else_is_refused);
    tcase_add_test(tests, every_shorter_document_is_refused);
    tcase_add_test(tests, depth_is_bounded);
    tcase_add_test(tests, errors_have_line_and_column);
    tcase_add_test(tests, numbers_are_rounded_as_strtod_rounds_them);
    tcase_add_test(tests, numbers_of_many_digits_are_rounded_as_strtod_rounds_them);
    tcase_add_test(tests, numbers_of_every_width_are_rounded_as_strtod_rounds_them);
    tcase_add_test(tests, numbers_of_thousands_of_digits_are_rounded_correctly);
    tcase_add_test(tests, random_numbers_are_rounded_as_strtod_rounds_them);
    tcase_add_test(tests, a_run_of_numbers_ends_before_what_is_none);
    tcase_add_test(tests, a_run_of_numbers_reads_no_byte_behind_the_document);
    tcase_add_test(tests, strings_of_any_bytes_are_accepted_where_they_are_utf8);
    tcase_add_test(tests, strings_are_decoded);
    tcase_add_test(tests, values_of_another_type_leave_the_reader_where_it_is);
    tcase_add_test(tests, valid_documents_read_as_cjson_reads_them);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
