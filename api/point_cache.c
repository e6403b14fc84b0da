#include "api/point_cache.h"

#include "core/vmd.h"

#include <float.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "heads are written as they lie");

uint64_t dfm_mdd_head_bytes(uint64_t frame_count) {
    return DFM_MDD_COUNTS_BYTES + sizeof(float) * frame_count;
}

void dfm_pc2_write_head(uint8_t *out, uint32_t point_count, double start, double step,
                        uint32_t frame_count) {
    const struct {
        char signature[12];
        uint32_t version, point_count;
        float start, step;
        uint32_t frame_count;
    } head = {"POINTCACHE2", 1, point_count, (float)start, (float)step, frame_count};
    _Static_assert(sizeof head == DFM_PC2_HEAD_BYTES, "the head has no gaps");
    memcpy(out, &head, sizeof head);
}

static void put_big_endian(uint8_t *out, uint32_t value) {
    value = __builtin_bswap32(value);
    memcpy(out, &value, sizeof value);
}

void dfm_mdd_write_counts(uint8_t *out, uint32_t frame_count, uint32_t point_count) {
    put_big_endian(out, frame_count);
    put_big_endian(out + 4, point_count);
}

void dfm_mdd_write_time(uint8_t *out, uint64_t index, double frame) {
    float seconds = (float)(frame / DFM_VMD_FRAMES_PER_SECOND);
    uint32_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    put_big_endian(out + DFM_MDD_COUNTS_BYTES + sizeof seconds * index, bits);
}

static float to_finite(double value) {
    return (float)(value > (double)FLT_MAX    ? (double)FLT_MAX
                   : value < -(double)FLT_MAX ? -(double)FLT_MAX
                                              : value);
}

void dfm_point_cache_scale(float *values, uint64_t count, double scale) {
    for (uint64_t i = 0; scale != 1 && i < count; i++)
        values[i] = to_finite((double)values[i] * scale);
}

void dfm_point_cache_swap(uint8_t *values, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + sizeof bits * i, sizeof bits);
        put_big_endian(values + sizeof bits * i, bits);
    }
}
