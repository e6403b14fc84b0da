#include "core/cp932.h"

#include <iconv.h>
#include <string.h>

enum { MAX_CHARACTER_BYTES = 4 };

static bool is_open(iconv_t converter) {
    return converter != (iconv_t)-1;
}

dfm_status dfm_cp932_open(dfm_cp932 *cp932, dfm_error *error) {
    iconv_t encoder = iconv_open("CP932", "UTF-8"), decoder = iconv_open("UTF-8", "CP932");
    *cp932 = (dfm_cp932){encoder, decoder};
    if (is_open(encoder) && is_open(decoder))
        return DFM_OK;
    dfm_cp932_close(cp932);
    return dfm_fail(error, DFM_ERROR_UNAVAILABLE, NULL, -1, -1,
                    "iconv of this machine does not know CP932");
}

void dfm_cp932_close(dfm_cp932 *cp932) {
    if (is_open(cp932->encoder))
        iconv_close(cp932->encoder);
    if (is_open(cp932->decoder))
        iconv_close(cp932->decoder);
}

static size_t utf8_character(const char *text, size_t length) {
    unsigned char lead = (unsigned char)text[0];
    size_t bytes = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    return bytes < length ? bytes : length;
}

size_t dfm_cp932_encode(const dfm_cp932 *cp932, const char *text, size_t length, uint8_t *out,
                        size_t capacity) {
    size_t done = 0;
    for (size_t at = 0; at < length && done < capacity;) {
        char character[MAX_CHARACTER_BYTES] = "?", *to = character;
        char *from = (char *)text + at;
        size_t from_left = utf8_character(from, length - at), to_left = sizeof character;
        at += from_left;
        size_t bytes = 1; /* of the '?' */
        if (iconv(cp932->encoder, &from, &from_left, &to, &to_left) != (size_t)-1)
            bytes = sizeof character - to_left;
        else
            iconv(cp932->encoder, NULL, NULL, NULL, NULL);
        if (bytes > capacity - done)
            bytes = capacity - done;
        memcpy(out + done, character, bytes);
        done += bytes;
    }
    return done;
}

size_t dfm_cp932_decode(const dfm_cp932 *cp932, const uint8_t *bytes, size_t size, char *out) {
    static const char replacement[] = "\xef\xbf\xbd";
    char *from = (char *)bytes, *to = out;
    size_t from_left = size, to_left = 3 * size;
    while (from_left > 0 && iconv(cp932->decoder, &from, &from_left, &to, &to_left) == (size_t)-1) {
        /* The bytes before stand in `to`; each byte of input has room for three of output. */
        memcpy(to, replacement, 3);
        to += 3;
        to_left -= 3;
        from++;
        from_left--;
        iconv(cp932->decoder, NULL, NULL, NULL, NULL);
    }
    return (size_t)(to - out);
}
