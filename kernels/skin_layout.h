/* The layout that the C kernels and skin.cl share. Included by both: C types and static asserts on
 * one side, OpenCL C on the other; nothing here may differ between the two.
 *
 * Bind data lies in blocks of DFM_LANES vertices that have the same kind and the same bones, so
 * that a kernel loads a bone once a block and everything else as rows of DFM_LANES floats. A block
 * that is not full repeats its last vertex in the lanes that are left (writing it twice is
 * harmless: both writes are the same and belong to one block).
 *
 * Rows of a block, DFM_LANES floats each, from row `row` of the data array:
 *   0..2 position x y z   3..5 normal x y z (zero where the file's is zero or not finite)
 *   BDEF2      6 w0 (w1 = 1 - w0)
 *   BDEF4,QDEF 6..9 w0 w1 w2 w3
 *   SDEF       6 w0   7..9 C   10..12 (C + R0') / 2   13..15 (C + R1') / 2 */
#ifndef DFM_KERNELS_SKIN_LAYOUT_H
#define DFM_KERNELS_SKIN_LAYOUT_H

#ifdef __OPENCL_C_VERSION__
typedef uint dfm_u32;
#else
#include <stddef.h>
#include <stdint.h>
typedef uint32_t dfm_u32;
#endif

#define DFM_LANES 8

/* Block kinds. */
#define DFM_KIND_REST 0  /* no bone: stays at rest */
#define DFM_KIND_BDEF1 1 /* bone[0] */
#define DFM_KIND_BDEF2 2 /* bone[0..1] */
#define DFM_KIND_BDEF4 3 /* bone[0..3], weights as given: also whatever odd sum `raw` keeps */
#define DFM_KIND_SDEF 4  /* bone[0..1] */
#define DFM_KIND_QDEF 5  /* bone[0..3]; unused slots have weight 0 */
#define DFM_KIND_COUNT 6

/* Spherical interpolation turns into a normalised linear one from this |dot| on (SEMANTICS 2). */
#define DFM_SLERP_LINEAR_DOT 0.9995f
/* A blended dual quaternion shorter than this falls back to linear blending. */
#define DFM_QDEF_MIN_LENGTH 1e-6f
/* A vector with a squared length at or under this is no normal: the output is 0, 0, 0. */
#define DFM_NORMAL_MIN_LENGTH2 1e-30f

typedef struct dfm_skin_block {
    dfm_u32 kind;       /* DFM_KIND_* */
    dfm_u32 lane_count; /* 1..DFM_LANES vertices; the other lanes repeat the last */
    dfm_u32 row;        /* first row in the data array */
    dfm_u32 reserved;   /* 0 */
    dfm_u32 bone[4];    /* always valid where the kind uses them; else 0 */
} dfm_skin_block;

/* One launch of skin.cl: what it covers, and where the poses of its frames lie in the parameter
 * buffer, in words of 4 bytes. Frame f begins at word f * frame_words with its palette (bone_count
 * x 12); the offsets below count from there, but for `deltas`. */
typedef struct dfm_skin_launch {
    dfm_u32 block_count;
    dfm_u32 frame_words;
    dfm_u32 rotations; /* bone_count x 4 */
    dfm_u32 duals;     /* bone_count x 4; not there when the bind data has no QDEF */
    dfm_u32 morphed;   /* 0: no frame has an active morph, and the two below mean nothing */
    dfm_u32 slots;     /* block_count words: the block's place in deltas, or DFM_NO_SLOT */
    dfm_u32 deltas; /* from the buffer's beginning, for all frames: 3 x DFM_LANES floats a slot */
    /* Where results go, in elements of 4 bytes (f32), or of 2 where `halves` is set (f16): frame f
     * begins at f * pitch, vertex v of it v strides on from `position` and from `normal`. */
    dfm_u32 halves, pitch;
    dfm_u32 position, position_stride; /* stride 0: not wanted */
    dfm_u32 normal, normal_stride;
} dfm_skin_launch;
#define DFM_NO_SLOT 0xffffffffu

#ifndef __OPENCL_C_VERSION__
_Static_assert(sizeof(dfm_skin_block) == 32, "skin.cl reads 32-byte blocks");
_Static_assert(offsetof(dfm_skin_block, row) == 8, "row");
_Static_assert(offsetof(dfm_skin_block, bone) == 16, "bone");
_Static_assert(sizeof(dfm_skin_launch) == 52, "skin.cl takes thirteen words");
_Static_assert(offsetof(dfm_skin_launch, morphed) == 16, "morphed");
_Static_assert(offsetof(dfm_skin_launch, normal_stride) == 48, "normal_stride");
#endif

#endif
