/* Writes VMD files for tests, byte by byte as a program of the field would. */
#ifndef TESTS_SUPPORT_VMD_H
#define TESTS_SUPPORT_VMD_H

#include <stddef.h>
#include <stdint.h>

typedef struct vmd_writer {
    uint8_t bytes[1 << 16];
    size_t size;
    size_t count_at; /* of the section being written */
} vmd_writer;

/* Signature and the model's name. */
void vmd_begin(vmd_writer *w);

/* A section's count, which the writers of keys below count up. The order of a file is bones,
 * morphs, cameras, lights, shadows, properties. */
void vmd_section(vmd_writer *w);

/* `name`: CP932 bytes, NUL-terminated; the field is filled up with 0xFD, as MMD does. The curve's
 * points are x1 y1 x2 y2 for x, y, z and rotation; NULL = linear. Bytes 2 and 3 hold a toggle. */
void vmd_bone(vmd_writer *w, const char *name, uint32_t frame, const float translation[3],
              const float rotation[4], const uint8_t curves[4][4]);
void vmd_morph(vmd_writer *w, const char *name, uint32_t frame, float weight);

/* A property key with `count` switches. */
void vmd_property(vmd_writer *w, uint32_t frame, const char *const *names, const uint8_t *enabled,
                  uint32_t count);

/* A record of `size` bytes that nobody reads. */
void vmd_filler(vmd_writer *w, size_t size);

#endif
