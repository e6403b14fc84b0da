/* The vector skinning kernel, once for every instruction set: a variant's .c file defines
 *
 *   SKIN_KERNEL  the function's name          SKIN_WIDTH  lanes of a vector, 4 or 8
 *
 * and includes this file, compiled with the flags of its instruction set (Makefile). GCC's and
 * clang's vector extensions do the rest; only square root, minimum and maximum, and half floats
 * need the instruction set's own names. A block of DFM_LANES vertices is done in DFM_LANES /
 * SKIN_WIDTH steps. Formulas and their source: kernels/skin.h; the scalar kernel says the same
 * slowly. Multiply and add may be fused here, so results differ between variants by rounding, and
 * never between two runs of one variant. */
#include "kernels/skin.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if DFM_LANES % SKIN_WIDTH != 0
#error a block is a whole number of vectors
#endif

/* A vertex stays in registers from bind pose to output; what is rare stays out of the way. */
#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))

typedef float vf __attribute__((vector_size(4 * SKIN_WIDTH)));
typedef int32_t vi __attribute__((vector_size(4 * SKIN_WIDTH)));
typedef float v4 __attribute__((vector_size(16)));
typedef double vd __attribute__((vector_size(4 * SKIN_WIDTH)));

/* --- what the vector extensions lack -------------------------------------------------------- */

#if SKIN_WIDTH == 8 && defined(__AVX__)
static inline vf vsqrt(vf a) {
    return (vf)_mm256_sqrt_ps((__m256)a);
}
/* b where a is not a number */
static inline vf vmax(vf a, vf b) {
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
}
static inline vf vmin(vf a, vf b) {
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
}
/* Whether any lane is all ones. */
static inline bool vany(vi a) {
    return _mm256_movemask_ps((__m256)a) != 0;
}
#elif SKIN_WIDTH == 4 && defined(__x86_64__)
static inline vf vsqrt(vf a) {
    return (vf)_mm_sqrt_ps((__m128)a);
}
static inline vf vmax(vf a, vf b) {
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
}
static inline vf vmin(vf a, vf b) {
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
}
static inline bool vany(vi a) {
    return _mm_movemask_ps((__m128)a) != 0;
}
#elif SKIN_WIDTH == 4 && defined(__aarch64__)
static inline vf vsqrt(vf a) {
    return (vf)vsqrtq_f32((float32x4_t)a);
}
static inline vf vmax(vf a, vf b) {
    return (vf)vmaxnmq_f32((float32x4_t)a, (float32x4_t)b);
}
static inline vf vmin(vf a, vf b) {
    return (vf)vminnmq_f32((float32x4_t)a, (float32x4_t)b);
}
static inline bool vany(vi a) {
    return vmaxvq_u32((uint32x4_t)a) != 0;
}
#else
#error no vector kernel for this width and instruction set
#endif

#if SKIN_WIDTH == 8
#define UNPACK_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define UNPACK_HIGH(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define PAIR_LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define PAIR_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#else
#define UNPACK_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define UNPACK_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define PAIR_LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define PAIR_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#endif

static inline vf splat(float x) {
    return x - (vf){0};
}
static inline vf load(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline vf choose(vi mask, vf yes, vf no) {
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}

/* --- three-vectors, matrices and quaternions of SKIN_WIDTH vertices ------------------------- */

typedef struct v3 {
    vf x, y, z;
} v3;
typedef struct m34 {
    vf m[12];
} m34;
typedef struct quat {
    vf x, y, z, w;
} quat;

static inline v3 load3(const float *rows) {
    return (v3){load(rows), load(rows + DFM_LANES), load(rows + 2 * DFM_LANES)};
}
static inline v3 add3(v3 a, v3 b) {
    return (v3){a.x + b.x, a.y + b.y, a.z + b.z};
}
static inline v3 sub3(v3 a, v3 b) {
    return (v3){a.x - b.x, a.y - b.y, a.z - b.z};
}
static inline v3 scale3(v3 a, vf s) {
    return (v3){a.x * s, a.y * s, a.z * s};
}
static inline v3 choose3(vi mask, v3 yes, v3 no) {
    return (v3){choose(mask, yes.x, no.x), choose(mask, yes.y, no.y), choose(mask, yes.z, no.z)};
}
static inline v3 cross(v3 a, v3 b) {
    return (v3){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

/* One bone's matrix for all lanes. */
static inline v3 point_of(const float *m, v3 p) {
    return (v3){m[0] * p.x + (m[1] * p.y + (m[2] * p.z + splat(m[3]))),
                m[4] * p.x + (m[5] * p.y + (m[6] * p.z + splat(m[7]))),
                m[8] * p.x + (m[9] * p.y + (m[10] * p.z + splat(m[11])))};
}
static inline v3 vector_of(const float *m, v3 p) {
    return (v3){m[0] * p.x + (m[1] * p.y + m[2] * p.z), m[4] * p.x + (m[5] * p.y + m[6] * p.z),
                m[8] * p.x + (m[9] * p.y + m[10] * p.z)};
}
/* A matrix of its own for each lane. */
static inline v3 blended_point(const m34 *m, v3 p) {
    return (v3){m->m[0] * p.x + (m->m[1] * p.y + (m->m[2] * p.z + m->m[3])),
                m->m[4] * p.x + (m->m[5] * p.y + (m->m[6] * p.z + m->m[7])),
                m->m[8] * p.x + (m->m[9] * p.y + (m->m[10] * p.z + m->m[11]))};
}
static inline v3 blended_vector(const m34 *m, v3 p) {
    return (v3){m->m[0] * p.x + (m->m[1] * p.y + m->m[2] * p.z),
                m->m[4] * p.x + (m->m[5] * p.y + m->m[6] * p.z),
                m->m[8] * p.x + (m->m[9] * p.y + m->m[10] * p.z)};
}
/* v + 2 w (r x v) + 2 r x (r x v) */
static inline v3 rotate(quat q, v3 v) {
    v3 r = {q.x, q.y, q.z}, c = cross(r, v), d = cross(r, c);
    vf w = q.w + q.w;
    return (v3){v.x + (w * c.x + (d.x + d.x)), v.y + (w * c.y + (d.y + d.y)),
                v.z + (w * c.z + (d.z + d.z))};
}

/* --- one kind each: a posed position, and a normal that is not normalised yet --------------- */

typedef struct posed {
    v3 position, normal;
} posed;

INLINE posed skin_bdef1(const dfm_skin_args *args, const dfm_skin_block *block, v3 p, v3 n) {
    const float *m = args->palette + 12 * (size_t)block->bone[0];
    return (posed){point_of(m, p), vector_of(m, n)};
}

INLINE posed skin_bdef2(const dfm_skin_args *args, const dfm_skin_block *block, const float *rows,
                        v3 p, v3 n) {
    const float *m0 = args->palette + 12 * (size_t)block->bone[0];
    const float *m1 = args->palette + 12 * (size_t)block->bone[1];
    vf w0 = load(rows + 6 * DFM_LANES), w1 = 1.0f - w0;
    m34 m;
    for (int i = 0; i < 12; i++)
        m.m[i] = m0[i] * w0 + m1[i] * w1;
    return (posed){blended_point(&m, p), blended_vector(&m, n)};
}

INLINE posed skin_bdef4(const dfm_skin_args *args, const dfm_skin_block *block, const float *rows,
                        v3 p, v3 n) {
    m34 m;
    const float *b = args->palette + 12 * (size_t)block->bone[0];
    vf w = load(rows + 6 * DFM_LANES);
    for (int i = 0; i < 12; i++)
        m.m[i] = b[i] * w;
    for (int slot = 1; slot < 4; slot++) {
        b = args->palette + 12 * (size_t)block->bone[slot];
        w = load(rows + (6 + slot) * DFM_LANES);
        for (int i = 0; i < 12; i++)
            m.m[i] = b[i] * w + m.m[i];
    }
    return (posed){blended_point(&m, p), blended_vector(&m, n)};
}

/* Sine and cosine on [-pi/2, pi/2]: Taylor to x^11 and x^12, errors under 6e-8 and 7e-9. */
static inline vf sine(vf x) {
    vf x2 = x * x;
    vf p = -2.5052108e-8f * x2 + 2.7557319e-6f;
    p = p * x2 - 1.9841270e-4f;
    p = p * x2 + 8.3333333e-3f;
    p = p * x2 - 1.6666667e-1f;
    return x + x * (x2 * p);
}
static inline vf cosine(vf x) {
    vf x2 = x * x;
    vf p = 2.0876757e-9f * x2 - 2.7557319e-7f;
    p = p * x2 + 2.4801587e-5f;
    p = p * x2 - 1.3888889e-3f;
    p = p * x2 + 4.1666667e-2f;
    p = p * x2 - 0.5f;
    return 1.0f + x2 * p;
}

/* What an SDEF block's two bones make of the pose: the same for all blocks of a run. Every rotation
 * between the two is the middle one after a turn by some angle about one axis, and so
 *   still + cos(angle) * across + sin(angle) * along
 * with three matrices of the pair (Rodrigues' formula, times the middle rotation). The angle goes
 * from -theta at the first bone to theta at the second. */
typedef struct sdef_pair {
    dfm_u32 bone[2];
    bool linear;                         /* so near that interpolation is linear */
    float theta;                         /* between the two, as quaternions */
    float tangent;                       /* of half of theta */
    float still[9], across[9], along[9]; /* 3x3 row-major */
} sdef_pair;

APART void sdef_pair_meet(sdef_pair *pair, const float *rotations, const dfm_skin_block *block) {
    const float *q0 = rotations + 4 * (size_t)block->bone[0];
    const float *q1 = rotations + 4 * (size_t)block->bone[1];
    float dot = q0[0] * q1[0] + q0[1] * q1[1] + q0[2] * q1[2] + q0[3] * q1[3];
    float side = dot < 0 ? -1.0f : 1.0f;
    float m[4], u[4], m2 = 0, u2 = 0; /* the middle, and the direction from first to second */
    for (int k = 0; k < 4; k++) {
        m[k] = side * q1[k] + q0[k];
        u[k] = side * q1[k] - q0[k];
        m2 += m[k] * m[k];
        u2 += u[k] * u[k];
    }
    float tangent = __builtin_sqrtf(u2 / m2);
    float to_unit = 1 / __builtin_sqrtf(m2 * u2 > 0 ? m2 * u2 : 1);
    /* The axis, conjugate(m) u: 0 where both are the same, and no angle needs it. */
    const float a[3] = {to_unit * (m[3] * u[0] - u[3] * m[0] - (m[1] * u[2] - m[2] * u[1])),
                        to_unit * (m[3] * u[1] - u[3] * m[1] - (m[2] * u[0] - m[0] * u[2])),
                        to_unit * (m[3] * u[2] - u[3] * m[2] - (m[0] * u[1] - m[1] * u[0]))};
    float x = m[0], y = m[1], z = m[2], w = m[3], s = 2 / m2;
    const float middle[9] = {
        1 - s * (y * y + z * z), s * (x * y - z * w),     s * (x * z + y * w),
        s * (x * y + z * w),     1 - s * (x * x + z * z), s * (y * z - x * w),
        s * (x * z - y * w),     s * (y * z + x * w),     1 - s * (x * x + y * y)};
    for (int r = 0; r < 9; r += 3) {
        const float *row = middle + r;
        float on_axis = row[0] * a[0] + row[1] * a[1] + row[2] * a[2];
        for (int k = 0; k < 3; k++) {
            pair->still[r + k] = on_axis * a[k];
            pair->across[r + k] = row[k] - on_axis * a[k];
            pair->along[r + k] =
                row[(k + 1) % 3] * a[(k + 2) % 3] - row[(k + 2) % 3] * a[(k + 1) % 3];
        }
    }
    pair->bone[0] = block->bone[0];
    pair->bone[1] = block->bone[1];
    pair->linear = dot * side > DFM_SLERP_LINEAR_DOT;
    pair->theta = 2 * __builtin_atanf(tangent);
    pair->tangent = tangent;
}

/* `raw` weights may lie outside [0, 1], where the polynomials' range ends. */
APART void turn_beyond(vf turn, vf *cos_turn, vf *sin_turn) {
    for (int i = 0; i < SKIN_WIDTH; i++) {
        (*cos_turn)[i] = __builtin_cosf(turn[i]);
        (*sin_turn)[i] = __builtin_sinf(turn[i]);
    }
}

/* Cosine and sine of the turn from the middle, of which `part` goes from -1 to 1. */
INLINE void sdef_turn(const sdef_pair *pair, vf part, vf *cos_turn, vf *sin_turn) {
    if (pair->linear) { /* normalised, a straight line's half angle has a linear tangent */
        vf t = part * pair->tangent, t2 = t * t, inverse = 1.0f / (1.0f + t2);
        *cos_turn = (1.0f - t2) * inverse;
        *sin_turn = (t + t) * inverse;
        return;
    }
    vf turn = part * pair->theta;
    *cos_turn = cosine(turn);
    *sin_turn = sine(turn);
    const float limit = 1.5707964f;
    vi outside = ~((turn >= -limit) & (turn <= limit));
    if (__builtin_expect(vany(outside), 0))
        turn_beyond(turn, cos_turn, sin_turn);
}

INLINE posed skin_sdef(const dfm_skin_args *args, const dfm_skin_block *block,
                       const sdef_pair *pair, const float *rows, v3 p, v3 n) {
    const float *m0 = args->palette + 12 * (size_t)block->bone[0];
    const float *m1 = args->palette + 12 * (size_t)block->bone[1];
    vf w0 = load(rows + 6 * DFM_LANES), w1 = 1.0f - w0, cos_turn, sin_turn;
    sdef_turn(pair, w1 - w0, &cos_turn, &sin_turn);
    vf m[9];
    for (int i = 0; i < 9; i++)
        m[i] = pair->still[i] + (pair->across[i] * cos_turn + pair->along[i] * sin_turn);
    v3 arm = sub3(p, load3(rows + 7 * DFM_LANES));
    v3 h0 = point_of(m0, load3(rows + 10 * DFM_LANES));
    v3 h1 = point_of(m1, load3(rows + 13 * DFM_LANES));
    v3 pivot = add3(scale3(h0, w0), scale3(h1, w1));
    return (posed){{m[0] * arm.x + (m[1] * arm.y + (m[2] * arm.z + pivot.x)),
                    m[3] * arm.x + (m[4] * arm.y + (m[5] * arm.z + pivot.y)),
                    m[6] * arm.x + (m[7] * arm.y + (m[8] * arm.z + pivot.z))},
                   {m[0] * n.x + (m[1] * n.y + m[2] * n.z), m[3] * n.x + (m[4] * n.y + m[5] * n.z),
                    m[6] * n.x + (m[7] * n.y + m[8] * n.z)}};
}

/* What a QDEF block's four bones make of the pose. */
typedef struct qdef_bones {
    dfm_u32 bone[4];
    bool one_side; /* no two of them lie on opposite sides: nothing to flip */
    float dots[4][4];
} qdef_bones;

APART void qdef_bones_meet(qdef_bones *bones, const float *rotations, const dfm_skin_block *block) {
    memcpy(bones->bone, block->bone, sizeof bones->bone);
    bones->one_side = true;
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4; k++) {
            const float *a = rotations + 4 * (size_t)block->bone[i];
            const float *b = rotations + 4 * (size_t)block->bone[k];
            bones->dots[i][k] = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
            bones->one_side &= bones->dots[i][k] >= 0;
        }
    }
}

/* Turns the weights of bones that lie opposite to each lane's reference bone, the one with the
 * largest weight, of equal ones the first. */
static inline void flip_weights(const qdef_bones *bones, vf w[4]) {
    vf best = w[0];
    vi reference = {0};
    for (int slot = 1; slot < 4; slot++) {
        vi larger = w[slot] > best;
        best = choose(larger, w[slot], best);
        reference = (larger & slot) | (~larger & reference);
    }
    for (int slot = 0; slot < 4; slot++) {
        vf dot = {0};
        for (int other = 0; other < 4; other++)
            dot = choose(reference == other, splat(bones->dots[slot][other]), dot);
        w[slot] = choose(dot < 0.0f, -w[slot], w[slot]);
    }
}

/* Where the blend of the dual quaternions is too thin, linear blending takes its place. */
APART void blend_thin(const dfm_skin_args *args, const dfm_skin_block *block, const float *rows,
                      const v3 bind[2], vi thin, posed *result) {
    posed flat = skin_bdef4(args, block, rows, bind[0], bind[1]);
    result->position = choose3(thin, flat.position, result->position);
    result->normal = choose3(thin, flat.normal, result->normal);
}

INLINE posed skin_qdef(const dfm_skin_args *args, const dfm_skin_block *block,
                       const qdef_bones *bones, const float *rows, v3 p, v3 n) {
    vf w[4];
    for (int slot = 0; slot < 4; slot++)
        w[slot] = load(rows + (6 + slot) * DFM_LANES);
    if (!bones->one_side)
        flip_weights(bones, w);
    quat real = {0}, dual = {0};
    for (int slot = 0; slot < 4; slot++) {
        const float *q = args->rotations + 4 * (size_t)block->bone[slot];
        const float *d = args->duals + 4 * (size_t)block->bone[slot];
        vf f = w[slot];
        real = (quat){real.x + f * q[0], real.y + f * q[1], real.z + f * q[2], real.w + f * q[3]};
        dual = (quat){dual.x + f * d[0], dual.y + f * d[1], dual.z + f * d[2], dual.w + f * d[3]};
    }
    vf length = vsqrt(real.x * real.x + real.y * real.y + real.z * real.z + real.w * real.w);
    vi thin = ~(length >= DFM_QDEF_MIN_LENGTH);
    vf inverse = 1.0f / choose(thin, splat(1.0f), length);
    real = (quat){real.x * inverse, real.y * inverse, real.z * inverse, real.w * inverse};
    dual = (quat){dual.x * inverse, dual.y * inverse, dual.z * inverse, dual.w * inverse};
    v3 r = {real.x, real.y, real.z}, d = {dual.x, dual.y, dual.z};
    v3 t = add3(sub3(scale3(d, real.w), scale3(r, dual.w)), cross(r, d));
    posed result = {add3(rotate(real, p), add3(t, t)), rotate(real, n)};
    if (__builtin_expect(vany(thin), 0)) {
        const v3 bind[2] = {p, n};
        blend_thin(args, block, rows, bind, thin, &result);
    }
    return result;
}

/* --- finishing and writing ------------------------------------------------------------------ */

/* Unit length; 0 where there is no direction or the length is beyond single precision. */
INLINE v3 normalize3(v3 n) {
    vf length2 = n.x * n.x + n.y * n.y + n.z * n.z;
    vi proper = (length2 > DFM_NORMAL_MIN_LENGTH2) & (length2 <= FLT_MAX);
    vf inverse = (vf)(proper & (vi)(1.0f / vsqrt(length2)));
    v3 unit = scale3(n, inverse);
    /* An infinite component times 0 is not a number: mask the product too. */
    return (v3){(vf)(proper & (vi)unit.x), (vf)(proper & (vi)unit.y), (vf)(proper & (vi)unit.z)};
}

/* What is not a number becomes -FLT_MAX: nothing that is sent is not finite. */
INLINE v3 clamp3(v3 p) {
    vf low = splat(-FLT_MAX), high = splat(FLT_MAX);
    return (v3){vmin(vmax(p.x, low), high), vmin(vmax(p.y, low), high), vmin(vmax(p.z, low), high)};
}

static inline void store4(uint8_t *to, vf v, int part) {
#if SKIN_WIDTH == 8
    v4 half = part ? __builtin_shufflevector(v, v, 4, 5, 6, 7)
                   : __builtin_shufflevector(v, v, 0, 1, 2, 3);
#else
    v4 half = v;
    (void)part;
#endif
    memcpy(to, &half, sizeof half);
}

/* Position and normal side by side in 24 bytes a vertex: the default layout. */
INLINE void store_interleaved(uint8_t *base, size_t stride, const dfm_u32 *vertex, v3 p, v3 n) {
    vf xy_low = UNPACK_LOW(p.x, p.y), xy_high = UNPACK_HIGH(p.x, p.y);
    vf zn_low = UNPACK_LOW(p.z, n.x), zn_high = UNPACK_HIGH(p.z, n.x);
    vf first[4] = {PAIR_LOW(xy_low, zn_low), PAIR_HIGH(xy_low, zn_low), PAIR_LOW(xy_high, zn_high),
                   PAIR_HIGH(xy_high, zn_high)};
    /* Pairs of floats as doubles: the compiler then stores halves without taking them apart. */
    vd rest[2] = {(vd)UNPACK_LOW(n.y, n.z), (vd)UNPACK_HIGH(n.y, n.z)};
    for (int part = 0; part < SKIN_WIDTH / 4; part++) {
        for (int i = 0; i < 4; i++) {
            uint8_t *to = base + vertex[4 * part + i] * stride;
            store4(to, first[i], part);
            double pair = rest[i / 2][2 * part + i % 2];
            memcpy(to + 16, &pair, sizeof pair);
        }
    }
}

/* Neither writes beyond a vertex's three components: what lies behind them is another's. */
INLINE void store_f32(const dfm_skin_output *output, const dfm_u32 *vertex, v3 v) {
    const vd xy[2] = {(vd)UNPACK_LOW(v.x, v.y), (vd)UNPACK_HIGH(v.x, v.y)};
    for (int i = 0; i < SKIN_WIDTH; i++) {
        uint8_t *to = (uint8_t *)output->data + vertex[i] * output->stride_bytes;
        double pair = xy[i / 2 % 2][i / 4 * 2 + i % 2];
        float z = v.z[i];
        memcpy(to, &pair, sizeof pair);
        memcpy(to + 8, &z, sizeof z);
    }
}

#if SKIN_WIDTH == 8 && defined(__F16C__)
static inline __m128i halves(vf v) {
    vf low = splat(-65504.0f), high = splat(65504.0f);
    return _mm256_cvtps_ph((__m256)vmin(vmax(v, low), high), _MM_FROUND_TO_NEAREST_INT);
}

INLINE void store_f16(const dfm_skin_output *output, const dfm_u32 *vertex, v3 v) {
    typedef uint32_t u4 __attribute__((vector_size(16)));
    typedef uint16_t h8 __attribute__((vector_size(16)));
    __m128i x = halves(v.x), y = halves(v.y);
    const u4 xy[2] = {(u4)_mm_unpacklo_epi16(x, y), (u4)_mm_unpackhi_epi16(x, y)};
    const h8 z = (h8)halves(v.z);
    for (int i = 0; i < SKIN_WIDTH; i++) {
        uint8_t *to = (uint8_t *)output->data + vertex[i] * output->stride_bytes;
        uint32_t pair = xy[i / 4][i % 4];
        uint16_t last = z[i];
        memcpy(to, &pair, sizeof pair);
        memcpy(to + 4, &last, sizeof last);
    }
}
#else
static inline void store_f16(const dfm_skin_output *output, const dfm_u32 *vertex, v3 v) {
    for (int i = 0; i < SKIN_WIDTH; i++) {
        uint16_t element[3] = {dfm_half_from_float(v.x[i]), dfm_half_from_float(v.y[i]),
                               dfm_half_from_float(v.z[i])};
        memcpy((uint8_t *)output->data + vertex[i] * output->stride_bytes, element, sizeof element);
    }
}
#endif

/* Any other layout: planar, one output alone, half floats. */
static inline void store_apart(const dfm_skin_args *args, const dfm_u32 *vertex, v3 p, v3 n) {
    if (args->component == DFM_COMPONENT_F32) {
        if (args->position.data)
            store_f32(&args->position, vertex, p);
        if (args->normal.data)
            store_f32(&args->normal, vertex, n);
    } else {
        if (args->position.data)
            store_f16(&args->position, vertex, p);
        if (args->normal.data)
            store_f16(&args->normal, vertex, n);
    }
}

/* Blocks of one kind, from `b` on, at most to `end`. Inlined once for each kind and way of
 * storing, so that a vertex stays in registers from bind pose to output. Returns the first block
 * that was not done. */
INLINE size_t skin_run(const dfm_skin_args *args, size_t b, size_t end, dfm_u32 kind,
                       bool side_by_side) {
    uint8_t *const out = args->position.data;
    const size_t stride = args->position.stride_bytes;
    const dfm_skin_block *const blocks = args->blocks;
    const float *const data = args->data;
    const dfm_u32 *vertex = args->vertex + DFM_LANES * b;
    sdef_pair pair = {.bone = {UINT32_MAX, UINT32_MAX}}; /* no bones met yet */
    qdef_bones bones = {.bone = {UINT32_MAX}};
    for (; b < end && blocks[b].kind == kind; b++) {
        const dfm_skin_block *block = &blocks[b];
        bool morphed = args->deltas && args->delta_stamps[b] == args->generation;
        if (kind == DFM_KIND_SDEF && memcmp(pair.bone, block->bone, sizeof pair.bone) != 0)
            sdef_pair_meet(&pair, args->rotations, block);
        else if (kind == DFM_KIND_QDEF && memcmp(bones.bone, block->bone, sizeof bones.bone) != 0)
            qdef_bones_meet(&bones, args->rotations, block);
        for (size_t lane = 0; lane < DFM_LANES; lane += SKIN_WIDTH, vertex += SKIN_WIDTH) {
            const float *rows = data + DFM_LANES * (size_t)block->row + lane;
            v3 p = load3(rows), n = load3(rows + 3 * DFM_LANES);
            if (__builtin_expect(morphed, 0))
                p = add3(p, load3(args->deltas + 3 * DFM_LANES * b + lane));
            posed result = {p, n};
            if (kind == DFM_KIND_BDEF1)
                result = skin_bdef1(args, block, p, n);
            else if (kind == DFM_KIND_BDEF2)
                result = skin_bdef2(args, block, rows, p, n);
            else if (kind == DFM_KIND_BDEF4)
                result = skin_bdef4(args, block, rows, p, n);
            else if (kind == DFM_KIND_SDEF)
                result = skin_sdef(args, block, &pair, rows, p, n);
            else if (kind == DFM_KIND_QDEF)
                result = skin_qdef(args, block, &bones, rows, p, n);
            v3 p_out = clamp3(result.position), n_out = normalize3(result.normal);
            if (side_by_side)
                store_interleaved(out, stride, vertex, p_out, n_out);
            else
                store_apart(args, vertex, p_out, n_out);
        }
    }
    return b;
}

INLINE void skin_all(const dfm_skin_args *args, bool side_by_side) {
    size_t end = args->block_first + args->block_count;
    for (size_t b = args->block_first; b < end;) {
        switch (args->blocks[b].kind) {
        case DFM_KIND_BDEF1:
            b = skin_run(args, b, end, DFM_KIND_BDEF1, side_by_side);
            break;
        case DFM_KIND_BDEF2:
            b = skin_run(args, b, end, DFM_KIND_BDEF2, side_by_side);
            break;
        case DFM_KIND_BDEF4:
            b = skin_run(args, b, end, DFM_KIND_BDEF4, side_by_side);
            break;
        case DFM_KIND_SDEF:
            b = skin_run(args, b, end, DFM_KIND_SDEF, side_by_side);
            break;
        case DFM_KIND_QDEF:
            b = skin_run(args, b, end, DFM_KIND_QDEF, side_by_side);
            break;
        default:
            b = skin_run(args, b, end, DFM_KIND_REST, side_by_side);
        }
    }
}

void SKIN_KERNEL(const dfm_skin_args *args) {
    const dfm_skin_output *position = &args->position, *normal = &args->normal;
    if (args->component == DFM_COMPONENT_F32 && position->data && normal->data &&
        (uint8_t *)normal->data == (uint8_t *)position->data + 12 &&
        normal->stride_bytes == position->stride_bytes)
        skin_all(args, true);
    else
        skin_all(args, false);
}
