/* Point caches: the positions of a mesh over time, as files that animation programs import.
 *
 * PC2: "POINTCACHE2\0", int32 version 1, int32 points, float32 start, float32 sample rate, int32
 * samples, then x y z as float32; all little-endian.
 * MDD: int32 frames, int32 points, float32 seconds of each frame, then x y z as float32; all
 * big-endian. (Both after Blender's exporters and Mesh Cache modifier, which read and write them.)
 * Thread safety: no state. */
#ifndef DFM_API_POINT_CACHE_H
#define DFM_API_POINT_CACHE_H

#include <stdint.h>

/* Frames and points are counted by an int32. */
#define DFM_POINT_CACHE_MAX_FRAMES ((uint64_t)INT32_MAX)

enum { DFM_PC2_HEAD_BYTES = 32 };
uint64_t dfm_mdd_head_bytes(uint64_t frame_count);

/* `start` and `step` in frames; the step is what PC2 calls the sample rate: frames a sample. */
void dfm_pc2_write_head(uint8_t *out, uint32_t point_count, double start, double step,
                        uint32_t frame_count);

/* The first part of the head, up to the times ... */
enum { DFM_MDD_COUNTS_BYTES = 8 };
void dfm_mdd_write_counts(uint8_t *out, uint32_t frame_count, uint32_t point_count);

/* ... and the time of frame `index`, given as a frame of 30 a second. */
void dfm_mdd_write_time(uint8_t *out, uint64_t index, double frame);

/* Multiply `count` floats in place; what leaves single precision becomes the largest finite. With a
 * scale of 1 they stay as they are. */
void dfm_point_cache_scale(float *values, uint64_t count, double scale);

/* Turns `count` floats in place to big-endian. */
void dfm_point_cache_swap(uint8_t *values, uint64_t count);

#endif
