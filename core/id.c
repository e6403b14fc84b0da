#include "core/id.h"

#include <nettle/sha2.h>

void dfm_hex(char *out, const uint8_t *bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * count] = 0;
}

void dfm_digest(const uint8_t *bytes, size_t size, uint8_t digest[DFM_DIGEST_BYTES], dfm_id *id) {
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, size, bytes);
    sha256_digest(&context, DFM_DIGEST_BYTES, digest);
    dfm_hex(id->text, digest, DFM_ID_DIGITS / 2);
}
