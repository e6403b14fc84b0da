/* A benchmark motion: every bone of a model moves all the time, along curves that are not straight.
 */
#include "core/vmd.h"
#include "tests/data/build.h"
#include "tests/data/models.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 54, RECORD_BYTES = 111 };

static void write_key(uint8_t *record, const dfm_text *name, uint32_t key, uint32_t bone) {
    static const uint8_t points[4] = {64, 10, 100, 120};
    const uint32_t frame = key * MOTION_KEY_STEP;
    const float numbers[7] = {(float)(key % 7) * 0.05f,
                              (float)(bone % 5) * 0.03f,
                              (float)(key % 3) * 0.1f,
                              (float)(key % 5) * 0.1f,
                              (float)(bone % 3) * 0.1f,
                              0.1f,
                              1};
    memcpy(record, name->data,
           name->length < DFM_VMD_NAME_BYTES ? name->length : DFM_VMD_NAME_BYTES);
    memcpy(record + 15, &frame, 4);
    memcpy(record + 19, numbers, sizeof numbers);
    for (int i = 0; i < 64; i++)
        record[47 + i] = points[i / 4 % 4];
}

uint8_t *motion_bytes(const dfm_pmx *pmx, uint32_t key_count, size_t *size) {
    if (key_count > 0 && pmx->bone_count > (uint32_t)INT32_MAX / key_count)
        build_fail("a motion has 2^31 - 1 keys at most");
    const uint32_t count = pmx->bone_count * key_count;
    *size = HEAD_BYTES + (size_t)count * RECORD_BYTES;
    uint8_t *bytes = calloc(*size, 1);
    if (!bytes)
        build_fail("out of memory");
    memcpy(bytes, "Vocaloid Motion Data 0002", 25);
    memcpy(bytes + 50, &count, 4);
    uint8_t *record = bytes + HEAD_BYTES;
    for (uint32_t bone = 0; bone < pmx->bone_count; bone++) {
        for (uint32_t key = 0; key < key_count; key++, record += RECORD_BYTES)
            write_key(record, &pmx->bones[bone].name, key, bone);
    }
    return bytes;
}
