#include "server/inflate.h"

#include <zlib.h>

enum { PIECE_BYTES = 64 * 1024, GZIP_WINDOW = 15 + 16 };

static const char damaged[] = "the gzip body is damaged", cut_off[] = "the gzip body is cut off",
                  behind[] = "something that is not gzip follows the gzip body";

/* One piece of output; true: there is more to come. */
static bool inflate_piece(z_stream *z, dfm_body *out, uint64_t *inflated_bytes, const char **why) {
    static _Thread_local unsigned char piece[PIECE_BYTES];
    z->next_out = piece;
    z->avail_out = PIECE_BYTES;
    int result = inflate(z, Z_NO_FLUSH);
    *inflated_bytes += PIECE_BYTES - z->avail_out;
    if (dfm_body_append(out, piece, PIECE_BYTES - z->avail_out) != DFM_BODY_OK)
        return false;
    if (result == Z_STREAM_END) {
        if (z->avail_in == 0)
            return false;
        bool another = z->avail_in > 1 && z->next_in[0] == 0x1f && z->next_in[1] == 0x8b;
        if (!another)
            *why = behind;
        return another && inflateReset(z) == Z_OK;
    }
    if (result == Z_OK && (z->avail_in > 0 || z->avail_out == 0))
        return true;
    *why = result == Z_OK || result == Z_BUF_ERROR ? cut_off : damaged;
    return false;
}

bool dfm_inflate_body(dfm_body *body, uint64_t *inflated_bytes, const char **why) {
    z_stream z = {.next_in = body->buffer ? body->buffer->data : NULL,
                  .avail_in = body->buffer ? (unsigned)body->buffer->size : 0};
    dfm_body out;
    *inflated_bytes = 0;
    *why = NULL;
    dfm_body_begin(&out, body->pool, body->limit_bytes, -1);
    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK) {
        body->state = DFM_BODY_NO_ROOM;
        return false;
    }
    while (inflate_piece(&z, &out, inflated_bytes, why))
        continue;
    inflateEnd(&z);
    bool good = !*why && out.state == DFM_BODY_OK;
    if (!good) {
        body->state = *why ? DFM_BODY_OK : out.state;
        dfm_body_free(&out);
        return false;
    }
    dfm_body_free(body);
    *body = out;
    return true;
}
