#include "api/json_reader.h"

#include <endian.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Eight bytes at once; the first is the lowest. */
static inline uint64_t load_word(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return le64toh(word);
}

static inline uint64_t every_byte(unsigned char byte) {
    return 0x0101010101010101u * byte;
}

static const uint64_t HIGH_BITS = 0x8080808080808080u;

static bool fail_at(dfm_json_reader *reader, const char *at, const char *error) {
    if (!reader->error) {
        reader->error = error;
        reader->error_offset = (size_t)(at - reader->begin);
    }
    reader->at = reader->end;
    return false;
}

static bool fail_limit(dfm_json_reader *reader, uint64_t limit, const char *error) {
    if (!reader->error)
        reader->limit = limit;
    return fail_at(reader, reader->at, error);
}

static void skip_space(dfm_json_reader *reader) {
    const char *at = reader->at;
    while (at < reader->end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    reader->at = at;
}

/* The next byte that is not white space, or 0 at the end (a NUL is no JSON either). */
static inline char look(dfm_json_reader *reader) {
    if (reader->at < reader->end && (unsigned char)*reader->at > ' ')
        return *reader->at;
    skip_space(reader);
    return reader->at < reader->end ? *reader->at : 0;
}

static bool is_digit(const dfm_json_reader *reader, const char *at) {
    return at < reader->end && *at >= '0' && *at <= '9';
}

void dfm_json_begin(dfm_json_reader *reader, const void *bytes, size_t size) {
    *reader = (dfm_json_reader){.begin = bytes,
                                .at = bytes,
                                .end = (const char *)bytes + size,
                                .limits = {DFM_JSON_MAX_DEPTH, UINT64_MAX}};
}

void dfm_json_limit(dfm_json_reader *reader, const dfm_json_limits *limits) {
    if (limits->depth > 0 && limits->depth < DFM_JSON_MAX_DEPTH)
        reader->limits.depth = limits->depth;
    if (limits->items > 0)
        reader->limits.items = limits->items;
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
    if (reader->depth == reader->limits.depth)
        return fail_limit(reader, reader->limits.depth, "nested deeper than --max-json-depth");
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
static inline bool next_member(dfm_json_reader *reader, char bracket, const char *expected) {
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
    return reader->items++ < reader->limits.items ||
           fail_limit(reader, reader->limits.items,
                      "more members and elements than --max-json-items");
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

/* The first byte that is no plain one of a string: '"', '\\', below ' ' or above 0x7F. Of the marks
 * in a word the lowest is right; a borrow may have set others above it. */
static inline const char *skip_plain(const char *at, const char *end) {
    for (; end - at >= 8; at += 8) {
        uint64_t word = load_word(at);
        uint64_t marks = word | (word - every_byte(' ')) |
                         ((word ^ every_byte('"')) - every_byte(1)) |
                         ((word ^ every_byte('\\')) - every_byte(1));
        if (marks & HIGH_BITS)
            return at + __builtin_ctzll(marks & HIGH_BITS) / 8;
    }
    while (at < end && (unsigned char)(*at - ' ') < 0x80 - ' ' && *at != '"' && *at != '\\')
        at++;
    return at;
}

/* Past characters of three bytes, as kana and kanji are, but for those that begin with E0 or ED:
 * not every second byte will do behind them. */
static inline const char *skip_triples(const char *at, const char *end) {
    for (; end - at >= 8; at += 3) {
        uint32_t triple = (uint32_t)load_word(at) & 0xFFFFFF;
        if ((triple & 0xC0C0F0) != 0x8080E0 || (triple & 0xFF) == 0xE0 || (triple & 0xFF) == 0xED)
            break;
    }
    return at;
}

/* Consumes a string whose opening quote is next. */
static bool read_string(dfm_json_reader *reader, dfm_json_string *string) {
    const char *at = reader->at + 1, *end = reader->end;
    *string = (dfm_json_string){.data = at};
    for (;;) {
        at = skip_plain(skip_triples(at, end), end);
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

bool dfm_json_escaped_is(const dfm_json_string *string, const char *text) {
    size_t length = strlen(text);
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
static inline bool fast_number(uint64_t mantissa, int64_t exponent, double *number) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (mantissa > (uint64_t)1 << 53 || exponent < -22 || exponent > 22)
        return false;
    *number =
        exponent < 0 ? (double)mantissa / powers[-exponent] : (double)mantissa * powers[exponent];
    return true;
}

/* A divisor with its highest bit set: 5^n * 2^up; and floor((2^128 - 1) / value) - 2^64. */
struct divisor {
    uint64_t value, reciprocal;
    int up;
};

/* high * 2^64 + low, high < value, divided to 64 bits by two multiplications (Moller, Granlund,
 * "Improved division by invariant integers", 2011). */
static inline uint64_t divide(uint64_t high, uint64_t low, const struct divisor *by, bool *exact) {
    unsigned __int128 estimate =
        (unsigned __int128)by->reciprocal * high + ((unsigned __int128)high << 64 | low);
    uint64_t quotient = (uint64_t)(estimate >> 64) + 1;
    uint64_t rest = low - quotient * by->value;
    if (rest > (uint64_t)estimate) {
        quotient--;
        rest += by->value;
    }
    if (rest >= by->value) {
        quotient++;
        rest -= by->value;
    }
    *exact = rest == 0;
    return quotient;
}

/* 2^power, within the normal range of a double. */
static inline double power_of_two(int power) {
    uint64_t bits = (uint64_t)(DBL_MAX_EXP - 1 + power) << (DBL_MANT_DIG - 1);
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* mantissa / 10^power for numbers with more digits than a double holds, which is what most JSON
 * writers print. 10^power = 5^power * 2^power, and 5^27 fits 64 bits: the quotient of the two
 * integers, to 64 bits with a remainder, decides the rounding exactly. */
static inline bool divided_number(uint64_t mantissa, int64_t exponent, double *number) {
    enum { POWER_MAX = 27, LOW_BITS = 64 - DBL_MANT_DIG };
    static const struct divisor fives[POWER_MAX + 1] = {
        {0x8000000000000000, 0xffffffffffffffff, 63}, {0xa000000000000000, 0x9999999999999999, 61},
        {0xc800000000000000, 0x47ae147ae147ae14, 59}, {0xfa00000000000000, 0x0624dd2f1a9fbe76, 57},
        {0x9c40000000000000, 0xa36e2eb1c432ca57, 54}, {0xc350000000000000, 0x4f8b588e368f0846, 52},
        {0xf424000000000000, 0x0c6f7a0b5ed8d36b, 50}, {0x9896800000000000, 0xad7f29abcaf48578, 47},
        {0xbebc200000000000, 0x5798ee2308c39df9, 45}, {0xee6b280000000000, 0x12e0be826d694b2e, 43},
        {0x9502f90000000000, 0xb7cdfd9d7bdbab7d, 40}, {0xba43b74000000000, 0x5fd7fe17964955fd, 38},
        {0xe8d4a51000000000, 0x19799812dea11197, 36}, {0x9184e72a00000000, 0xc25c268497681c26, 33},
        {0xb5e620f480000000, 0x6849b86a12b9b01e, 31}, {0xe35fa931a0000000, 0x203af9ee756159b2, 29},
        {0x8e1bc9bf04000000, 0xcd2b297d889bc2b6, 26}, {0xb1a2bc2ec5000000, 0x70ef54646d496892, 24},
        {0xde0b6b3a76400000, 0x2725dd1d243aba0e, 22}, {0x8ac7230489e80000, 0xd83c94fb6d2ac34a, 19},
        {0xad78ebc5ac620000, 0x79ca10c9242235d5, 17}, {0xd8d726b7177a8000, 0x2e3b40a0e9b4f7dd, 15},
        {0x878678326eac9000, 0xe392010175ee5962, 12}, {0xa968163f0a57b400, 0x82db34012b25144e, 10},
        {0xd3c21bcecceda100, 0x357c299a88ea76a5, 8},  {0x84595161401484a0, 0xef2d0f5da7dd8aa2, 5},
        {0xa56fa5b99019a5c8, 0x8c240c4aecb13bb5, 3},  {0xcecb8f27f4200f3a, 0x3ce9a36f23c0fc90, 1},
    };
    if (mantissa == 0 || exponent >= 0 || exponent < -POWER_MAX)
        return false;
    int power = (int)-exponent, up = __builtin_clzll(mantissa);
    const struct divisor *five = &fives[power];
    uint64_t dividend = mantissa << up;
    int shift = dividend < five->value ? 64 : 63; /* so that the quotient has 64 bits */
    bool exact;
    uint64_t quotient = divide(shift == 64 ? dividend : dividend >> 1,
                               shift == 64 ? 0 : dividend << 63, five, &exact);
    uint64_t kept = quotient >> LOW_BITS, low = quotient & (((uint64_t)1 << LOW_BITS) - 1);
    uint64_t half = (uint64_t)1 << (LOW_BITS - 1);
    kept += low > half || (low == half && (!exact || kept % 2 == 1));
    *number = (double)kept * power_of_two(LOW_BITS + five->up - up - shift - power);
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

/* How many of the eight bytes at `at` are digits, from the first on, and what they are worth. */
static inline unsigned take_digits(const char *at, uint64_t *value) {
    uint64_t word = load_word(at) ^ every_byte('0');
    uint64_t others = (word | (word + every_byte(0x80 - 10))) & HIGH_BITS; /* the lowest is right */
    unsigned count = others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
    word = count ? word << (64 - 8 * count) : 0; /* as many zeros in front */
    word = word * 10 + (word >> 8);              /* pairs */
    *value = ((word & 0x000000FF000000FF) * (100 + (1000000ull << 32)) +
              (word >> 16 & 0x000000FF000000FF) * (1 + (10000ull << 32))) >>
             32;
    return count;
}

/* Puts the digits behind those of the mantissa; false: it would have more than 19. */
static inline bool append_digits(uint64_t *mantissa, unsigned count, uint64_t value) {
    static const uint64_t powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                      1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};
    if (*mantissa >= powers[19 - count])
        return false;
    *mantissa = *mantissa * powers[count] + value;
    return true;
}

/* The digits behind a point, 24 at most. NULL: none, or too many. */
static inline const char *plain_fraction(const char *at, uint64_t *mantissa, int64_t *places) {
    uint64_t value;
    for (int i = 0; i < 3; i++) {
        unsigned count = take_digits(at, &value);
        if (!append_digits(mantissa, count, value))
            return NULL;
        at += count;
        *places += count;
        if (count < 8)
            return *places ? at : NULL;
    }
    return NULL;
}

/* The number as most are written: no exponent, less than 8 digits before the point, at most 19 that
 * count. Returns its end; NULL: look closer. PLAIN_BYTES are there to read, and not all are
 * consumed. */
enum { PLAIN_BYTES = 40 };
static inline const char *plain_number(const char *at, double *number) {
    static const double signs[] = {1, -1};
    bool negative = *at == '-';
    uint64_t mantissa;
    int64_t places = 0;
    at += negative;
    unsigned digits = 1;
    if (at[1] == '.' && *at >= '0' && *at <= '9') /* known without counting */
        mantissa = (uint64_t)(*at - '0');
    else
        digits = take_digits(at, &mantissa);
    if (digits == 0 || digits == 8 || (digits > 1 && *at == '0'))
        return NULL;
    at += digits;
    if (*at == '.' && !(at = plain_fraction(at + 1, &mantissa, &places)))
        return NULL;
    if (*at == 'e' || *at == 'E' ||
        (!fast_number(mantissa, -places, number) && !divided_number(mantissa, -places, number)))
        return NULL;
    *number *= signs[negative];
    return at;
}

size_t dfm_json_numbers(dfm_json_reader *reader, double *numbers, size_t count) {
    const char *at = reader->at;
    size_t received = 0;
    for (; received < count; received++) {
        const char *item = at;
        if (received > 0) {
            if (*item++ != ',')
                break;
            item += *item == ' ';
        }
        if (reader->end - item < PLAIN_BYTES || !(item = plain_number(item, &numbers[received])))
            break;
        at = item;
    }
    reader->at = at;
    reader->fresh = reader->fresh && received == 0;
    return received;
}

bool dfm_json_number(dfm_json_reader *reader, double *number) {
    char next = look(reader);
    if (reader->end - reader->at >= PLAIN_BYTES) {
        const char *end = plain_number(reader->at, number);
        if (end) {
            reader->at = end;
            return true;
        }
    }
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
