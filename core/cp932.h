/* CP932 (Windows' Shift_JIS), the code page of VMD and VPD files, by the system's iconv.
 *
 * Thread safety: a converter belongs to one thread. Opening one costs microseconds and allocates.
 */
#ifndef DFM_CORE_CP932_H
#define DFM_CORE_CP932_H

#include "core/status.h"

typedef struct dfm_cp932 {
    void *encoder, *decoder; /* iconv_t */
} dfm_cp932;

/* Failure: DFM_ERROR_UNAVAILABLE, this machine's iconv has no CP932. Nothing is left open then. */
dfm_status dfm_cp932_open(dfm_cp932 *cp932, dfm_error *error);
void dfm_cp932_close(dfm_cp932 *cp932);

/* Encodes UTF-8 into at most `capacity` bytes and returns how many: what is longer is cut there,
 * inside a character where it falls so, as fixed fields of VMD files cut names. A character that
 * CP932 lacks becomes '?'. */
size_t dfm_cp932_encode(const dfm_cp932 *cp932, const char *text, size_t length, uint8_t *out,
                        size_t capacity);

/* Decodes into UTF-8 at `out`, at most 3 x size bytes, and returns its length. A byte that begins
 * no character becomes U+FFFD. NUL is a character like others. */
size_t dfm_cp932_decode(const dfm_cp932 *cp932, const uint8_t *bytes, size_t size, char *out);

#endif
