#include "api/json_reader.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail_at(dfm_json_reader *reader, const char *at, const char *error) {
    if (!reader->error) {
        reader->error = error;
        reader->error_offset = (size_t)(at - reader->begin);
    }
    reader->at = reader->end;
    return false;
}

static void skip_space(dfm_json_reader *reader) {
    const char *at = reader->at;
    while (at < reader->end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    reader->at = at;
}

/* The next byte that is not white space, or 0 at the end (a NUL is no JSON either). */
static char look(dfm_json_reader *reader) {
    if (reader->at < reader->end && (unsigned char)*reader->at > ' ')
        return *reader->at;
    skip_space(reader);
    return reader->at < reader->end ? *reader->at : 0;
}

static bool is_digit(const dfm_json_reader *reader, const char *at) {
    return at < reader->end && *at >= '0' && *at <= '9';
}

void dfm_json_begin(dfm_json_reader *reader, const void *bytes, size_t size) {
    *reader = (dfm_json_reader){.begin = bytes, .at = bytes, .end = (const char *)bytes + size};
}

dfm_json_type dfm_json_peek(dfm_json_reader *reader) {
    switch (look(reader)) {
    case '{':
        return DFM_JSON_OBJECT;
    case '[':
        return DFM_JSON_ARRAY;
    case '"':
        return DFM_JSON_STRING;
    case 't':
    case 'f':
        return DFM_JSON_BOOL;
    case 'n':
        return DFM_JSON_NULL;
    case '-':
    case '0' ... '9':
        return DFM_JSON_NUMBER;
    default:
        return DFM_JSON_NOTHING;
    }
}

const char *dfm_json_type_name(dfm_json_type type) {
    static const char *const names[] = {"no value", "null",     "a boolean", "a number",
                                        "a string", "an array", "an object"};
    return names[type];
}

/* --- containers ----------------------------------------------------------------------------- */

static bool enter(dfm_json_reader *reader, char bracket) {
    if (look(reader) != bracket)
        return false;
    if (reader->depth == DFM_JSON_MAX_DEPTH)
        return fail_at(reader, reader->at, "nested too deeply");
    reader->at++;
    reader->depth++;
    reader->fresh = true;
    return true;
}

bool dfm_json_enter_object(dfm_json_reader *reader) {
    return enter(reader, '{');
}

bool dfm_json_enter_array(dfm_json_reader *reader) {
    return enter(reader, '[');
}

/* Over the comma that is due, if any, to the next member; over the bracket at the end (false). */
static bool next_member(dfm_json_reader *reader, char bracket, const char *expected) {
    char next = look(reader);
    bool fresh = reader->fresh;
    if (reader->error)
        return false;
    if (next == bracket) {
        reader->at++;
        reader->depth--;
        reader->fresh = false;
        return false;
    }
    if (!fresh && next != ',')
        return fail_at(reader, reader->at, expected);
    if (!fresh) {
        reader->at++;
        if (look(reader) == bracket)
            return fail_at(reader, reader->at, "a value expected behind the comma");
    }
    reader->fresh = false;
    return true;
}

bool dfm_json_next_item(dfm_json_reader *reader) {
    return next_member(reader, ']', "',' or ']' expected");
}

/* --- strings -------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `at` (lead byte >= 0x80), or 0: it is none. The ranges of the
 * second byte keep overlong forms, surrogates and what lies beyond U+10FFFF out. */
static size_t utf8_length(const char *at, const char *end) {
    const unsigned char *byte = (const unsigned char *)at;
    size_t left = (size_t)(end - at);
    unsigned char lead = byte[0];
    size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || left < length)
        return 0;
    unsigned char first = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char last = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte[1] < first || byte[1] > last)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if ((byte[i] & 0xC0) != 0x80)
            return 0;
    }
    return length;
}

/* Four hex digits at `at`, or -1. */
static int32_t hex4(const char *at, const char *end) {
    int32_t value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* The character that \u.... at `at` (behind the u) means, and how many bytes say so from there on:
 * 4, or 10 for a pair of surrogates. -1: none. */
static int32_t unicode_escape(const char *at, const char *end, size_t *bytes) {
    int32_t high = hex4(at, end);
    *bytes = 4;
    if (high < 0xD800 || high > 0xDFFF)
        return high;
    if (high > 0xDBFF || end - at < 10 || at[4] != '\\' || at[5] != 'u')
        return -1;
    int32_t low = hex4(at + 6, end);
    if (low < 0xDC00 || low > 0xDFFF)
        return -1;
    *bytes = 10;
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

/* Bytes of the escape at `at` (the backslash), or 0. */
static size_t escape_length(const char *at, const char *end) {
    size_t bytes;
    if (end - at < 2)
        return 0;
    if (at[1] == 'u')
        return unicode_escape(at + 2, end, &bytes) < 0 ? 0 : bytes + 2;
    return memchr("\"\\/bfnrt", at[1], 8) ? 2 : 0;
}

/* Consumes a string whose opening quote is next. */
static bool read_string(dfm_json_reader *reader, dfm_json_string *string) {
    const char *at = reader->at + 1, *end = reader->end;
    *string = (dfm_json_string){.data = at};
    for (;;) {
        while (at < end && (unsigned char)(*at - ' ') < 0x80 - ' ' && *at != '"' && *at != '\\')
            at++;
        if (at == end)
            return fail_at(reader, reader->at, "a string without an end");
        if (*at == '"')
            break;
        size_t length;
        if (*at == '\\') {
            string->escaped = true;
            if ((length = escape_length(at, end)) == 0)
                return fail_at(reader, at, "not an escape (or half a surrogate pair)");
        } else if ((unsigned char)*at < ' ') {
            return fail_at(reader, at, "a control character in a string");
        } else if ((length = utf8_length(at, end)) == 0) {
            return fail_at(reader, at, "not UTF-8");
        }
        at += length;
    }
    string->length = (size_t)(at - string->data);
    reader->at = at + 1;
    return true;
}

bool dfm_json_next_key(dfm_json_reader *reader, dfm_json_string *key) {
    if (!next_member(reader, '}', "',' or '}' expected"))
        return false;
    if (look(reader) != '"')
        return fail_at(reader, reader->at, "a key in quotes expected");
    if (!read_string(reader, key))
        return false;
    if (look(reader) != ':')
        return fail_at(reader, reader->at, "':' expected");
    reader->at++;
    return true;
}

bool dfm_json_text(dfm_json_reader *reader, dfm_json_string *string) {
    return look(reader) == '"' && read_string(reader, string);
}

static size_t put_utf8(char *out, uint32_t code) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)((0xF00 >> length) | code);
    return length;
}

/* Writes the character that the escape at *at means, and moves *at behind it. */
static size_t decode_escape(const char **at, const char *end, char *out) {
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    char kind = (*at)[1];
    *at += 2;
    if (kind == 'u') {
        size_t bytes;
        int32_t code = unicode_escape(*at, end, &bytes);
        *at += bytes;
        return put_utf8(out, (uint32_t)code);
    }
    const char *letter = strchr(letters, kind);
    *out = letter ? meanings[letter - letters] : kind;
    return 1;
}

size_t dfm_json_string_decode(const dfm_json_string *string, char *out) {
    const char *at = string->data, *end = at + string->length;
    size_t length = 0;
    if (!string->escaped) {
        memcpy(out, at, string->length);
        return string->length;
    }
    while (at < end) {
        if (*at == '\\')
            length += decode_escape(&at, end, out + length);
        else
            out[length++] = *at++;
    }
    return length;
}

bool dfm_json_string_is(const dfm_json_string *string, const char *text) {
    size_t length = strlen(text);
    if (!string->escaped)
        return string->length == length && memcmp(string->data, text, length) == 0;
    char decoded[256]; /* 6 bytes a character at most: enough for every word that is asked for */
    return string->length <= sizeof decoded && dfm_json_string_decode(string, decoded) == length &&
           memcmp(decoded, text, length) == 0;
}

/* --- numbers -------------------------------------------------------------------------------- */

/* The rare number, by strtod: its digits (`first` to `last`, a point among them) as an integer, so
 * that no locale matters, and the exponent that is left. 800 significant digits decide every
 * rounding; of those behind them it only matters whether all are zero. */
static double slow_number(const char *first, const char *last, int64_t exponent) {
    enum { DIGITS = 800, EXPONENT_ROOM = 32 };
    char text[DIGITS + EXPONENT_ROOM];
    size_t count = 0;
    bool fraction = false, more = false;
    for (const char *at = first; at < last; at++) {
        if (*at == '.') {
            fraction = true;
            continue;
        }
        exponent -= fraction;
        if (count == 0 && *at == '0')
            continue;
        if (count < DIGITS) {
            text[count++] = *at;
            continue;
        }
        exponent++;
        more = more || *at != '0';
    }
    if (count == 0)
        return 0;
    if (more) {
        text[count++] = '1';
        exponent--;
    }
    snprintf(text + count, sizeof text - count, "e%" PRId64, exponent);
    return strtod(text, NULL);
}

/* Mantissa and power of ten are both doubles without error, so that one operation rounds once
 * (Clinger, "How to read floating point numbers accurately", 1990). */
static bool fast_number(uint64_t mantissa, int64_t exponent, double *number) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (mantissa > (uint64_t)1 << 53 || exponent < -22 || exponent > 22)
        return false;
    *number =
        exponent < 0 ? (double)mantissa / powers[-exponent] : (double)mantissa * powers[exponent];
    return true;
}

/* mantissa / 10^power for numbers with more digits than a double holds, which is what most JSON
 * writers print. 10^power = 5^power * 2^power, and 5^27 fits 64 bits: the quotient of the two
 * integers, to 64 bits with a remainder, decides the rounding exactly. */
static bool divided_number(uint64_t mantissa, int64_t exponent, double *number) {
    enum { POWER_MAX = 27, LOW_BITS = 64 - DBL_MANT_DIG };
    static const uint64_t fives[POWER_MAX + 1] = {
        1,
        5,
        25,
        125,
        625,
        3125,
        15625,
        78125,
        390625,
        1953125,
        9765625,
        48828125,
        244140625,
        1220703125,
        6103515625,
        30517578125,
        152587890625,
        762939453125,
        3814697265625,
        19073486328125,
        95367431640625,
        476837158203125,
        2384185791015625,
        11920928955078125,
        59604644775390625,
        298023223876953125,
        1490116119384765625,
        7450580596923828125,
    };
    if (mantissa == 0 || exponent >= 0 || exponent < -POWER_MAX)
        return false;
    int power = (int)-exponent;
    int up = __builtin_clzll(mantissa), divisor_up = __builtin_clzll(fives[power]);
    uint64_t dividend = mantissa << up, divisor = fives[power] << divisor_up;
    int shift = dividend < divisor ? 64 : 63; /* so that the quotient has 64 bits */
    unsigned __int128 wide = (unsigned __int128)dividend << shift;
    uint64_t quotient = (uint64_t)(wide / divisor);
    bool exact = (uint64_t)wide == quotient * divisor; /* modulo 2^64: enough, it is < divisor */
    uint64_t kept = quotient >> LOW_BITS, low = quotient & (((uint64_t)1 << LOW_BITS) - 1);
    uint64_t half = (uint64_t)1 << (LOW_BITS - 1);
    kept += low > half || (low == half && (!exact || kept % 2 == 1));
    *number = ldexp((double)kept, LOW_BITS + divisor_up - up - shift - power);
    return true;
}

/* Leading zeros are no digits of a mantissa: 0.00123 has three. */
static bool fits_mantissa(const char *first, const char *last) {
    enum { DIGITS_MAX = 19 }; /* any number of 19 digits is less than 2^64 */
    while (first < last && (*first == '0' || *first == '.'))
        first++;
    return last - first - (memchr(first, '.', (size_t)(last - first)) != NULL) <= DIGITS_MAX;
}

/* The exponent behind an 'e'; beyond +-10^9 no number of digits that fits a body makes up for it.
 */
static const char *read_exponent(const dfm_json_reader *reader, const char *at, int64_t *exponent) {
    bool negative = at < reader->end && *at == '-';
    if (at < reader->end && (*at == '-' || *at == '+'))
        at++;
    if (!is_digit(reader, at))
        return NULL;
    for (; is_digit(reader, at); at++) {
        if (*exponent < 1000000000)
            *exponent = *exponent * 10 + (*at - '0');
    }
    if (negative)
        *exponent = -*exponent;
    return at;
}

bool dfm_json_number(dfm_json_reader *reader, double *number) {
    char next = look(reader);
    if (next != '-' && (next < '0' || next > '9'))
        return false;
    const char *first = reader->at + (next == '-'), *at = first;
    uint64_t mantissa = 0; /* right while it has no more than 19 digits */
    int64_t places = 0, exponent = 0;
    for (; is_digit(reader, at); at++)
        mantissa = mantissa * 10 + (uint64_t)(*at - '0');
    int64_t digits = at - first;
    if (digits == 0 || (digits > 1 && *first == '0'))
        return fail_at(reader, first, digits ? "a number with a leading zero" : "a digit expected");
    if (at < reader->end && *at == '.') {
        const char *point = at++;
        for (; is_digit(reader, at); at++)
            mantissa = mantissa * 10 + (uint64_t)(*at - '0');
        places = at - point - 1;
        if (places == 0)
            return fail_at(reader, at, "a digit expected behind the point");
    }
    const char *last = at;
    if (at < reader->end && (*at == 'e' || *at == 'E')) {
        at = read_exponent(reader, at + 1, &exponent);
        if (!at)
            return fail_at(reader, last, "a digit expected in the exponent");
    }
    bool whole = digits + places <= 19 || fits_mantissa(first, last);
    if (!whole || (!fast_number(mantissa, exponent - places, number) &&
                   !divided_number(mantissa, exponent - places, number)))
        *number = slow_number(first, last, exponent);
    if (next == '-')
        *number = -*number;
    reader->at = at;
    return true;
}

/* --- words, and values of any type ---------------------------------------------------------- */

static bool read_word(dfm_json_reader *reader, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0)
        return fail_at(reader, reader->at, "not a value");
    reader->at += length;
    return true;
}

bool dfm_json_bool(dfm_json_reader *reader, bool *value) {
    if (dfm_json_peek(reader) != DFM_JSON_BOOL)
        return false;
    *value = *reader->at == 't';
    return read_word(reader, *value ? "true" : "false");
}

/* Recursion is bounded by DFM_JSON_MAX_DEPTH. */
static bool skip_container(dfm_json_reader *reader, dfm_json_type type) {
    dfm_json_string key;
    if (type == DFM_JSON_OBJECT && dfm_json_enter_object(reader)) {
        while (dfm_json_next_key(reader, &key) && dfm_json_skip(reader))
            ;
    } else if (type == DFM_JSON_ARRAY && dfm_json_enter_array(reader)) {
        while (dfm_json_next_item(reader) && dfm_json_skip(reader))
            ;
    }
    return !reader->error;
}

bool dfm_json_skip(dfm_json_reader *reader) {
    dfm_json_type type = dfm_json_peek(reader);
    dfm_json_string string;
    double number;
    bool value;
    switch (type) {
    case DFM_JSON_OBJECT:
    case DFM_JSON_ARRAY:
        return skip_container(reader, type);
    case DFM_JSON_STRING:
        return dfm_json_text(reader, &string);
    case DFM_JSON_NUMBER:
        return dfm_json_number(reader, &number);
    case DFM_JSON_BOOL:
        return dfm_json_bool(reader, &value);
    case DFM_JSON_NULL:
        return read_word(reader, "null");
    default:
        return fail_at(reader, reader->at, "a value expected");
    }
}

bool dfm_json_finish(dfm_json_reader *reader) {
    if (reader->error)
        return false;
    skip_space(reader);
    return reader->at == reader->end || fail_at(reader, reader->at, "text behind the document");
}

void dfm_json_position(const dfm_json_reader *reader, size_t offset, size_t *line, size_t *column) {
    const char *line_begin = reader->begin;
    *line = 1;
    for (const char *at = reader->begin; at < reader->begin + offset; at++) {
        if (*at == '\n') {
            ++*line;
            line_begin = at + 1;
        }
    }
    *column = offset - (size_t)(line_begin - reader->begin) + 1;
}
