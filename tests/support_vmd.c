#include "tests/support_vmd.h"

#include <stdlib.h>
#include <string.h>

static void put(vmd_writer *w, const void *bytes, size_t size) {
    if (size > sizeof w->bytes - w->size)
        abort();
    memcpy(w->bytes + w->size, bytes, size);
    w->size += size;
}

static void put_u32(vmd_writer *w, uint32_t value) {
    put(w, &value, 4);
}

static void put_name(vmd_writer *w, const char *name, size_t capacity) {
    uint8_t field[64];
    memset(field, 0xfd, sizeof field);
    size_t length = strlen(name);
    memcpy(field, name, length < capacity ? length + 1 : capacity);
    put(w, field, capacity);
}

static void count_up(vmd_writer *w) {
    uint32_t count;
    memcpy(&count, w->bytes + w->count_at, 4);
    count++;
    memcpy(w->bytes + w->count_at, &count, 4);
}

void vmd_begin(vmd_writer *w) {
    memset(w, 0, sizeof *w);
    char signature[30] = "Vocaloid Motion Data 0002";
    put(w, signature, sizeof signature);
    put_name(w, "\x83\x82\x83\x66\x83\x8b", 20); /* モデル */
}

void vmd_section(vmd_writer *w) {
    w->count_at = w->size;
    put_u32(w, 0);
}

void vmd_bone(vmd_writer *w, const char *name, uint32_t frame, const float translation[3],
              const float rotation[4], const uint8_t curves[4][4]) {
    static const uint8_t linear[4][4] = {
        {20, 20, 107, 107}, {20, 20, 107, 107}, {20, 20, 107, 107}, {20, 20, 107, 107}};
    if (!curves)
        curves = linear;
    /* The 16 points, x1 of all four curves first; then shifted by 1, 2 and 3. */
    uint8_t points[16], block[64] = {0};
    for (int point = 0; point < 4; point++) {
        for (int curve = 0; curve < 4; curve++)
            points[4 * point + curve] = curves[curve][point];
    }
    for (int shift = 0; shift < 4; shift++)
        memcpy(block + 16 * shift, points + shift, 16 - (size_t)shift);
    block[2] = 99; /* the physics toggle */
    block[3] = 15;
    count_up(w);
    put_name(w, name, 15);
    put_u32(w, frame);
    put(w, translation, 12);
    put(w, rotation, 16);
    put(w, block, 64);
}

void vmd_morph(vmd_writer *w, const char *name, uint32_t frame, float weight) {
    count_up(w);
    put_name(w, name, 15);
    put_u32(w, frame);
    put(w, &weight, 4);
}

void vmd_property(vmd_writer *w, uint32_t frame, const char *const *names, const uint8_t *enabled,
                  uint32_t count) {
    uint8_t show = 1;
    count_up(w);
    put_u32(w, frame);
    put(w, &show, 1);
    put_u32(w, count);
    for (uint32_t i = 0; i < count; i++) {
        put_name(w, names[i], 20);
        put(w, &enabled[i], 1);
    }
}

void vmd_filler(vmd_writer *w, size_t size) {
    uint8_t filler[64] = {0};
    count_up(w);
    put(w, filler, size);
}
