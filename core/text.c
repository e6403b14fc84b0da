#include "core/text.h"

#include <string.h>

static const uint32_t replacement = 0xFFFD;

/* Writes a code point as UTF-8 at out + at, unless `out` is NULL, and returns its length. */
static size_t put_utf8(char *out, size_t at, uint32_t code) {
    uint8_t bytes[4];
    size_t length;
    if (code < 0x80) {
        bytes[0] = (uint8_t)code;
        length = 1;
    } else if (code < 0x800) {
        bytes[0] = (uint8_t)(0xC0 | code >> 6);
        length = 2;
    } else if (code < 0x10000) {
        bytes[0] = (uint8_t)(0xE0 | code >> 12);
        length = 3;
    } else {
        bytes[0] = (uint8_t)(0xF0 | code >> 18);
        length = 4;
    }
    for (size_t i = 1; i < length; i++)
        bytes[i] = (uint8_t)(0x80 | (code >> 6 * (length - 1 - i) & 0x3F));
    if (out)
        memcpy(out + at, bytes, length);
    return length;
}

/* One character of UTF-16LE: returns the bytes it takes, or, with *code = U+FFFD and *bad, those of
 * the part that is none. */
static size_t get_utf16le(const uint8_t *bytes, size_t size, uint32_t *code, bool *bad) {
    *bad = true;
    *code = replacement;
    if (size < 2)
        return 1;
    uint32_t unit = bytes[0] | (uint32_t)bytes[1] << 8;
    if (unit < 0xD800 || unit > 0xDFFF) {
        *bad = false;
        *code = unit;
        return 2;
    }
    if (unit > 0xDBFF || size < 4)
        return 2;
    uint32_t low = bytes[2] | (uint32_t)bytes[3] << 8;
    if (low < 0xDC00 || low > 0xDFFF)
        return 2;
    *bad = false;
    *code = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    return 4;
}

/* What may follow a lead byte of UTF-8: this closes the ways to overlong forms and surrogates. */
static void second_byte_range(uint8_t lead, uint8_t *first, uint8_t *last) {
    *first = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    *last = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
}

static size_t get_utf8(const uint8_t *bytes, size_t size, uint32_t *code, bool *bad) {
    uint8_t lead = bytes[0], first, last;
    *bad = false;
    *code = lead;
    if (lead < 0x80)
        return 1;
    *bad = true;
    *code = replacement;
    size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4)
        return 1;
    uint32_t value = lead & (0xFFu >> (length + 1));
    second_byte_range(lead, &first, &last);
    for (size_t i = 1; i < length; i++) {
        if (i >= size || bytes[i] < first || bytes[i] > last)
            return i;
        value = value << 6 | (bytes[i] & 0x3F);
        first = 0x80;
        last = 0xBF;
    }
    *bad = false;
    *code = value;
    return length;
}

typedef size_t get_character(const uint8_t *bytes, size_t size, uint32_t *code, bool *bad);

static size_t decode(get_character *get, const uint8_t *bytes, size_t size, char *out,
                     size_t *replaced) {
    size_t length = 0, bad_count = 0;
    for (size_t at = 0; at < size;) {
        uint32_t code;
        bool bad;
        at += get(bytes + at, size - at, &code, &bad);
        bad_count += bad;
        length += put_utf8(out, length, code);
    }
    if (replaced)
        *replaced = bad_count;
    return length;
}

size_t dfm_text_decode_utf16le(const uint8_t *bytes, size_t size, char *out, size_t *replaced) {
    return decode(get_utf16le, bytes, size, out, replaced);
}

size_t dfm_text_decode_utf8(const uint8_t *bytes, size_t size, char *out, size_t *replaced) {
    return decode(get_utf8, bytes, size, out, replaced);
}

bool dfm_text_is_utf8(const char *text, size_t length) {
    size_t replaced;
    dfm_text_decode_utf8((const uint8_t *)text, length, NULL, &replaced);
    return replaced == 0;
}

static size_t put_unit(uint8_t *out, size_t at, uint32_t unit) {
    if (out) {
        out[at] = (uint8_t)unit;
        out[at + 1] = (uint8_t)(unit >> 8);
    }
    return 2;
}

size_t dfm_text_encode_utf16le(const char *text, size_t length, uint8_t *out) {
    const uint8_t *bytes = (const uint8_t *)text;
    size_t size = 0;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        bool bad;
        at += get_utf8(bytes + at, length - at, &code, &bad);
        if (code < 0x10000) {
            size += put_unit(out, size, code);
        } else {
            size += put_unit(out, size, 0xD800 + ((code - 0x10000) >> 10));
            size += put_unit(out, size, 0xDC00 + ((code - 0x10000) & 0x3FF));
        }
    }
    return size;
}
