/* Ids of uploaded files: the first half of the SHA-256 of their bytes, so that every server gives a
 * file the same one. Thread safety: no state. */
#ifndef DFM_CORE_ID_H
#define DFM_CORE_ID_H

#include <stddef.h>
#include <stdint.h>

enum { DFM_ID_DIGITS = 32, DFM_DIGEST_BYTES = 32 };

typedef struct dfm_id {
    char text[DFM_ID_DIGITS + 1]; /* lower-case hex: first half of the digest, NUL-terminated */
} dfm_id;

/* SHA-256 (nettle) and the id made of it. */
void dfm_digest(const uint8_t *bytes, size_t size, uint8_t digest[DFM_DIGEST_BYTES], dfm_id *id);

/* Writes `count` bytes as lower-case hex: 2 x count digits and a NUL. */
void dfm_hex(char *out, const uint8_t *bytes, size_t count);

#endif
