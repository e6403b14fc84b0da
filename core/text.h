/* Text as model files hold it, to and from UTF-8.
 *
 * Decoding is lenient: what is not text becomes U+FFFD, one for each maximal part that cannot be a
 * character (the practice of the Unicode standard, chapter 3), and is counted; it never fails. NUL
 * is a character like others. Thread safety: no state. */
#ifndef DFM_CORE_TEXT_H
#define DFM_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decode `size` bytes into UTF-8 at `out` and return its length in bytes, without a NUL. With `out`
 * NULL they only measure. At most 3 x size bytes come out (UTF-16: 3 x size / 2, and 3 for an odd
 * byte at the end). *replaced is set to the number of U+FFFD put in; NULL is allowed. */
size_t dfm_text_decode_utf16le(const uint8_t *bytes, size_t size, char *out, size_t *replaced);
size_t dfm_text_decode_utf8(const uint8_t *bytes, size_t size, char *out, size_t *replaced);

/* Whether these bytes are UTF-8: shortest forms only, no surrogates, nothing above U+10FFFF. */
bool dfm_text_is_utf8(const char *text, size_t length);

/* Encodes UTF-8 as UTF-16LE at `out` (NULL: only measures) and returns the size in bytes, at most
 * 2 x length. `text` is UTF-8 (dfm_text_is_utf8). */
size_t dfm_text_encode_utf16le(const char *text, size_t length, uint8_t *out);

#endif
