/* The CPU skinning kernels: plain arrays in, plain arrays out; no allocation, no errno, no file.
 *
 * dfm_skin_scalar is always built and defines the right result; every other variant shares its
 * signature and is compared with it and with a double-precision reference. Thread safety: kernels
 * are re-entrant; two calls may run at once as long as their block ranges do not overlap.
 * Formulas: SEMANTICS 2 (README, "How it deforms"); linear blend, SDEF after the published
 * community formula, QDEF after Kavan et al., "Skinning with Dual Quaternions" (2007). */
#ifndef DFM_KERNELS_SKIN_H
#define DFM_KERNELS_SKIN_H

#include "kernels/skin_layout.h"

#include <float.h>
#include <stdbool.h>

typedef enum dfm_component { DFM_COMPONENT_F32, DFM_COMPONENT_F16 } dfm_component;

/* One three-component output, one element a vertex in file order. */
typedef struct dfm_skin_output {
    void *data;          /* vertex v at data + v * stride_bytes; NULL = not wanted */
    size_t stride_bytes; /* >= 12 (f32) or 6 (f16); any alignment */
} dfm_skin_output;

typedef struct dfm_skin_args {
    const dfm_skin_block *blocks; /* blocks[block_first .. block_first + block_count) are done */
    const float *data;            /* rows of DFM_LANES floats, 64-byte aligned */
    const dfm_u32 *vertex;        /* block_total x DFM_LANES: file index of each lane */
    size_t block_first, block_count;
    const float *palette;   /* bone_count x 12: M, 3x4 row-major, bind to posed model space */
    const float *rotations; /* bone_count x 4: x y z w, unit length */
    const float
        *duals; /* bone_count x 4: dual part of (rotation, M's rigid motion); read by QDEF only */
    /* Morphed positions: block_total x 3 x DFM_LANES floats are added to rows 0..2 of the blocks
     * whose stamp equals `generation`. NULL: no morph is active. */
    const float *deltas;
    const dfm_u32 *delta_stamps; /* block_total */
    dfm_u32 generation;
    dfm_component component;
    dfm_skin_output position, normal;
} dfm_skin_args;

typedef void dfm_skin_kernel(const dfm_skin_args *args);

dfm_skin_kernel dfm_skin_scalar;
dfm_skin_kernel dfm_skin_avx2, dfm_skin_sse2; /* x86-64 */
dfm_skin_kernel dfm_skin_neon;                /* 64-bit ARM */

/* The kernels that this build has, the fastest first, the scalar one last. */
typedef struct dfm_skin_variant {
    const char *name; /* "avx2" */
    dfm_skin_kernel *kernel;
    bool (*supported)(void); /* by the processor that this runs on */
} dfm_skin_variant;

extern const dfm_skin_variant dfm_skin_variants[];
extern const size_t dfm_skin_variant_count;

/* Nothing that is sent is not finite: infinities become the largest finite of their sign, what is
 * not a number -FLT_MAX. */
static inline float dfm_finite(float x) {
    x = x > -FLT_MAX ? x : -FLT_MAX;
    return x < FLT_MAX ? x : FLT_MAX;
}

/* The f16 of a float: round to nearest even, clamp to the largest finite, NaN becomes 0. */
uint16_t dfm_half_from_float(float value);

/* Converts count floats; dst and src may not overlap. */
void dfm_half_from_floats(uint16_t *dst, const float *src, size_t count);

#endif
