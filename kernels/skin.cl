/* The OpenCL skinning kernel: the formulas of kernels/skin.h, block by block or lane by lane.
 *
 * DFM_ITEM_LANES, given by the host when it builds the program, says how much a work-item does:
 *   8  one block of DFM_LANES vertices, rows as float8: for CPU devices, where a work-item is a
 *      turn of a loop and a row is a vector register
 *   1  one lane of a block, rows as float: for GPUs, where neighbouring work-items read
 *      neighbouring floats
 * Dimension 0 counts work-items of a frame (rounded up; what is over does nothing), dimension 1
 * frames. Every frame's result depends on its own pose alone, so a batch equals its frames one by
 * one, bit for bit. Written without fast-math: a NaN or an infinity is recognised where it comes
 * out, and never stored. Needs OpenCL C 1.2. */
#include "kernels/skin_layout.h"

#ifndef DFM_ITEM_LANES
#define DFM_ITEM_LANES 1
#endif

#if DFM_ITEM_LANES == DFM_LANES
typedef float8 vf;
typedef int8 vi;
typedef uint8 vu;
typedef ushort8 vh;
#define AS_UINT(x) as_uint8(x)
#define AS_FLOAT(x) as_float8(x)
#define TO_USHORT(x) convert_ushort8(x)
#define ITEM_LANE 0
#define SPLAT(x) ((vf)(x))
#define LOAD(row) vload8(0, (row))
#define ANY(condition) any(condition)
#elif DFM_ITEM_LANES == 1
typedef float vf;
typedef int vi;
typedef uint vu;
typedef ushort vh;
#define AS_UINT(x) as_uint(x)
#define AS_FLOAT(x) as_float(x)
#define TO_USHORT(x) ((ushort)(x))
#define ITEM_LANE (get_global_id(0) % DFM_LANES)
#define SPLAT(x) (x)
#define LOAD(row) (*(row))
#define ANY(condition) (condition)
#else
#error a work-item does one lane or one block
#endif

typedef struct v3 {
    vf x, y, z;
} v3;
typedef struct h3 {
    vh x, y, z;
} h3;
typedef struct m34 {
    vf m[12];
} m34;
typedef struct quat {
    vf x, y, z, w;
} quat;
/* A normal here is not normalised yet. */
typedef struct posed {
    v3 position, normal;
} posed;

/* What a work-item needs to know of its block and frame. */
typedef struct item {
    const global float *rows; /* the block's first row, at this item's lane */
    const global float *palette, *rotations, *duals;
    dfm_u32 kind, bone[4];
} item;

/* --- three-vectors, matrices, quaternions ---------------------------------------------------- */

static v3 load3(const global float *rows) {
    v3 v = {LOAD(rows), LOAD(rows + DFM_LANES), LOAD(rows + 2 * DFM_LANES)};
    return v;
}
static v3 add3(v3 a, v3 b) {
    v3 v = {a.x + b.x, a.y + b.y, a.z + b.z};
    return v;
}
static v3 sub3(v3 a, v3 b) {
    v3 v = {a.x - b.x, a.y - b.y, a.z - b.z};
    return v;
}
static v3 scale3(v3 a, vf s) {
    v3 v = {a.x * s, a.y * s, a.z * s};
    return v;
}
static v3 cross3(v3 a, v3 b) {
    v3 v = {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
    return v;
}
static v3 select3(v3 no, v3 yes, vi condition) {
    v3 v = {select(no.x, yes.x, condition), select(no.y, yes.y, condition),
            select(no.z, yes.z, condition)};
    return v;
}

/* One bone's matrix for every lane. */
static v3 point_of(const global float *m, v3 p) {
    v3 v = {m[0] * p.x + (m[1] * p.y + (m[2] * p.z + m[3])),
            m[4] * p.x + (m[5] * p.y + (m[6] * p.z + m[7])),
            m[8] * p.x + (m[9] * p.y + (m[10] * p.z + m[11]))};
    return v;
}
static v3 vector_of(const global float *m, v3 n) {
    v3 v = {m[0] * n.x + (m[1] * n.y + m[2] * n.z), m[4] * n.x + (m[5] * n.y + m[6] * n.z),
            m[8] * n.x + (m[9] * n.y + m[10] * n.z)};
    return v;
}
/* A matrix of its own for each lane. */
static posed apply(const m34 *b, v3 p, v3 n) {
    posed r = {{b->m[0] * p.x + (b->m[1] * p.y + (b->m[2] * p.z + b->m[3])),
                b->m[4] * p.x + (b->m[5] * p.y + (b->m[6] * p.z + b->m[7])),
                b->m[8] * p.x + (b->m[9] * p.y + (b->m[10] * p.z + b->m[11]))},
               {b->m[0] * n.x + (b->m[1] * n.y + b->m[2] * n.z),
                b->m[4] * n.x + (b->m[5] * n.y + b->m[6] * n.z),
                b->m[8] * n.x + (b->m[9] * n.y + b->m[10] * n.z)}};
    return r;
}
/* v + 2 w (r x v) + 2 r x (r x v) */
static v3 rotate3(quat q, v3 v) {
    v3 r = {q.x, q.y, q.z};
    v3 c = cross3(r, v);
    v3 d = cross3(r, c);
    vf w = q.w + q.w;
    v3 result = {v.x + (w * c.x + (d.x + d.x)), v.y + (w * c.y + (d.y + d.y)),
                 v.z + (w * c.z + (d.z + d.z))};
    return result;
}

static const global float *bone_matrix(const item *it, int slot) {
    return it->palette + 12 * (size_t)it->bone[slot];
}
static const global float *bone_rotation(const item *it, int slot) {
    return it->rotations + 4 * (size_t)it->bone[slot];
}
static float dot_of(const global float *a, const global float *b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
}

/* --- one kind each --------------------------------------------------------------------------- */

static posed skin_bdef1(const item *it, v3 p, v3 n) {
    const global float *m = bone_matrix(it, 0);
    posed r = {point_of(m, p), vector_of(m, n)};
    return r;
}

static posed skin_bdef2(const item *it, v3 p, v3 n) {
    const global float *m0 = bone_matrix(it, 0), *m1 = bone_matrix(it, 1);
    vf w0 = LOAD(it->rows + 6 * DFM_LANES), w1 = 1.0f - w0;
    m34 blend;
    for (int i = 0; i < 12; i++)
        blend.m[i] = m0[i] * w0 + m1[i] * w1;
    return apply(&blend, p, n);
}

static posed skin_bdef4(const item *it, v3 p, v3 n) {
    m34 blend;
    const global float *m = bone_matrix(it, 0);
    vf w = LOAD(it->rows + 6 * DFM_LANES);
    for (int i = 0; i < 12; i++)
        blend.m[i] = m[i] * w;
    for (int slot = 1; slot < 4; slot++) {
        m = bone_matrix(it, slot);
        w = LOAD(it->rows + (6 + slot) * DFM_LANES);
        for (int i = 0; i < 12; i++)
            blend.m[i] += m[i] * w;
    }
    return apply(&blend, p, n);
}

/* sin on [-pi/2, pi/2]: Taylor to x^11, error under 6e-8. The built-in one takes any argument, and
 * ten times as long. */
static vf sine(vf x) {
    vf x2 = x * x;
    vf p = -2.5052108e-8f * x2 + 2.7557319e-6f;
    p = p * x2 - 1.9841270e-4f;
    p = p * x2 + 8.3333333e-3f;
    p = p * x2 - 1.6666667e-1f;
    return x + x * (x2 * p);
}

/* sin(w * theta) / sin(theta), theta in (0, pi/2]; raw weights may lie outside [-1, 1]. */
static vf slerp_factor(vf w, float theta, float inverse_sine) {
    if (ANY(!(fabs(w) <= 1.0f)))
        return sin(w * theta) * inverse_sine;
    return sine(w * theta) * inverse_sine;
}

/* q = slerp(q0, q1, w1), pivot = w0 M0 (C + R0') / 2 + w1 M1 (C + R1') / 2. The bones are one pair
 * for the whole block: angle and side are found once, only the two factors differ by lane. */
static posed skin_sdef(const item *it, v3 p, v3 n) {
    const global float *q0 = bone_rotation(it, 0), *q1 = bone_rotation(it, 1);
    vf w0 = LOAD(it->rows + 6 * DFM_LANES), w1 = 1.0f - w0;
    float dot01 = dot_of(q0, q1);
    float side = dot01 < 0.0f ? -1.0f : 1.0f;
    dot01 *= side;
    int near = dot01 > DFM_SLERP_LINEAR_DOT;
    vf f0 = w0, f1 = w1;
    if (!near) {
        float theta = acos(dot01);
        float inverse_sine = 1.0f / sin(theta);
        f0 = slerp_factor(w0, theta, inverse_sine);
        f1 = slerp_factor(w1, theta, inverse_sine);
    }
    f1 *= side;
    quat q = {f0 * q0[0] + f1 * q1[0], f0 * q0[1] + f1 * q1[1], f0 * q0[2] + f1 * q1[2],
              f0 * q0[3] + f1 * q1[3]};
    if (near) {
        vf inverse = 1.0f / sqrt(q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w);
        q.x *= inverse;
        q.y *= inverse;
        q.z *= inverse;
        q.w *= inverse;
    }
    v3 c = load3(it->rows + 7 * DFM_LANES);
    v3 h0 = point_of(bone_matrix(it, 0), load3(it->rows + 10 * DFM_LANES));
    v3 h1 = point_of(bone_matrix(it, 1), load3(it->rows + 13 * DFM_LANES));
    v3 pivot = add3(scale3(h0, w0), scale3(h1, w1));
    posed r = {add3(rotate3(q, sub3(p, c)), pivot), rotate3(q, n)};
    return r;
}

/* Dual-quaternion blend; each bone's sign follows the slot with the largest weight of the lane. */
static posed skin_qdef(const item *it, v3 p, v3 n) {
    vf w[4], best = SPLAT(-FLT_MAX);
    vi reference = 0;
    for (int slot = 0; slot < 4; slot++) {
        w[slot] = LOAD(it->rows + (6 + slot) * DFM_LANES);
        vi larger = w[slot] > best;
        best = select(best, w[slot], larger);
        reference = select(reference, (vi)slot, larger);
    }
    quat real = {SPLAT(0.0f), SPLAT(0.0f), SPLAT(0.0f), SPLAT(0.0f)}, dual = real;
    for (int slot = 0; slot < 4; slot++) {
        const global float *q = bone_rotation(it, slot);
        const global float *d = it->duals + 4 * (size_t)it->bone[slot];
        vf against = SPLAT(0.0f);
        for (int other = 0; other < 4; other++)
            against = select(against, SPLAT(dot_of(q, bone_rotation(it, other))),
                             (vi)(reference == (vi)other));
        vf f = select(w[slot], -w[slot], (vi)(against < 0.0f));
        real.x += f * q[0];
        real.y += f * q[1];
        real.z += f * q[2];
        real.w += f * q[3];
        dual.x += f * d[0];
        dual.y += f * d[1];
        dual.z += f * d[2];
        dual.w += f * d[3];
    }
    vf length2 = real.x * real.x + real.y * real.y + real.z * real.z + real.w * real.w;
    vf len = sqrt(length2);
    vi thin = !(len >= DFM_QDEF_MIN_LENGTH); /* a NaN too */
    vf inverse = 1.0f / select(len, SPLAT(1.0f), thin);
    v3 r = scale3((v3){real.x, real.y, real.z}, inverse);
    v3 d = scale3((v3){dual.x, dual.y, dual.z}, inverse);
    quat q = {r.x, r.y, r.z, real.w * inverse};
    v3 t = add3(sub3(scale3(d, q.w), scale3(r, dual.w * inverse)), cross3(r, d));
    posed result = {add3(rotate3(q, p), add3(t, t)), rotate3(q, n)};
    if (ANY(thin)) {
        posed flat = skin_bdef4(it, p, n);
        result.position = select3(result.position, flat.position, thin);
        result.normal = select3(result.normal, flat.normal, thin);
    }
    return result;
}

static posed skin(const item *it, v3 p, v3 n) {
    switch (it->kind) {
    case DFM_KIND_BDEF1:
        return skin_bdef1(it, p, n);
    case DFM_KIND_BDEF2:
        return skin_bdef2(it, p, n);
    case DFM_KIND_BDEF4:
        return skin_bdef4(it, p, n);
    case DFM_KIND_SDEF:
        return skin_sdef(it, p, n);
    case DFM_KIND_QDEF:
        return skin_qdef(it, p, n);
    default: {
        posed rest = {p, n};
        return rest;
    }
    }
}

/* --- finishing and writing ------------------------------------------------------------------- */

/* Unit length; 0 where there is no direction or the length is beyond single precision. */
static v3 normalize3(v3 n) {
    vf length2 = n.x * n.x + n.y * n.y + n.z * n.z;
    vi proper = (length2 > DFM_NORMAL_MIN_LENGTH2) && (length2 <= FLT_MAX);
    vf inverse = 1.0f / sqrt(length2);
    v3 zero = {SPLAT(0.0f), SPLAT(0.0f), SPLAT(0.0f)};
    return select3(zero, scale3(n, inverse), proper);
}

/* fmax takes the number where the other is not one: a NaN becomes -FLT_MAX. */
static v3 clamp3(v3 p) {
    v3 v = {fmin(fmax(p.x, -FLT_MAX), FLT_MAX), fmin(fmax(p.y, -FLT_MAX), FLT_MAX),
            fmin(fmax(p.z, -FLT_MAX), FLT_MAX)};
    return v;
}

/* To the nearest half, of two the even; what is larger than the largest becomes that. The sum puts
 * the half's last place where a float has its own, so that it rounds there. */
static vh half_of(vf value) {
    vf magnitude = fmin(fabs(value), 65504.0f);
    vu exponent = max(AS_UINT(magnitude) & 0x7f800000u, (vu)(0x38800000u)); /* 2^-14 at least */
    vu sum = AS_UINT(4.0f * magnitude + AS_FLOAT(exponent + 0x07800000u));
    return TO_USHORT((AS_UINT(value) >> 16 & 0x8000u) + (sum >> 13 & 0x7c00u) + (sum & 0xfffu));
}
static h3 to_halves(v3 v) {
    h3 h = {half_of(v.x), half_of(v.y), half_of(v.z)};
    return h;
}

#if DFM_ITEM_LANES == 1
#define EACH_LANE(DO) DO(0, )
#else
#define EACH_LANE(DO)                                                                              \
    DO(0, .s0)                                                                                     \
    DO(1, .s1)                                                                                     \
    DO(2, .s2)                                                                                     \
    DO(3, .s3)                                                                                     \
    DO(4, .s4)                                                                                     \
    DO(5, .s5)                                                                                     \
    DO(6, .s6)                                                                                     \
    DO(7, .s7)
#endif

static void store_floats(global float *to, dfm_u32 stride, const global dfm_u32 *vertex, v3 v) {
#define STORE(i, lane)                                                                             \
    vstore3((float3)(v.x lane, v.y lane, v.z lane), 0, to + (size_t)stride * vertex[i]);
    EACH_LANE(STORE)
#undef STORE
}

static void store_halves(global ushort *to, dfm_u32 stride, const global dfm_u32 *vertex, h3 v) {
#define STORE(i, lane)                                                                             \
    vstore3((ushort3)(v.x lane, v.y lane, v.z lane), 0, to + (size_t)stride * vertex[i]);
    EACH_LANE(STORE)
#undef STORE
}

/* Position and normal side by side, 6 floats a vertex. */
static void store_pairs(global float *to, const global dfm_u32 *vertex, v3 p, v3 n) {
#define STORE(i, lane)                                                                             \
    vstore4((float4)(p.x lane, p.y lane, p.z lane, n.x lane), 0, to + 6 * (size_t)vertex[i]);      \
    vstore2((float2)(n.y lane, n.z lane), 2, to + 6 * (size_t)vertex[i]);
    EACH_LANE(STORE)
#undef STORE
}

static void store(global float *out, const dfm_skin_launch *launch, size_t frame,
                  const global dfm_u32 *vertex, v3 p, v3 n) {
    size_t begin = frame * launch->pitch;
    if (launch->halves) {
        global ushort *to = (global ushort *)out + begin;
        if (launch->position_stride)
            store_halves(to + launch->position, launch->position_stride, vertex, to_halves(p));
        if (launch->normal_stride)
            store_halves(to + launch->normal, launch->normal_stride, vertex, to_halves(n));
        return;
    }
    global float *to = out + begin;
    if (launch->position_stride == 6 && launch->normal_stride == 6 &&
        launch->normal == launch->position + 3) {
        store_pairs(to + launch->position, vertex, p, n);
        return;
    }
    if (launch->position_stride)
        store_floats(to + launch->position, launch->position_stride, vertex, p);
    if (launch->normal_stride)
        store_floats(to + launch->normal, launch->normal_stride, vertex, n);
}

/* blocks, data, vertex: as in dfm_skin_args. words, floats: the launch's parameter buffer, twice,
 * since it holds both. out: vertices in file order, as the launch says. */
kernel void dfm_skin(const global dfm_skin_block *blocks, const global float *data,
                     const global dfm_u32 *vertex, const global dfm_u32 *words,
                     const global float *floats, global float *out, const dfm_skin_launch launch) {
    size_t b = get_global_id(0) * DFM_ITEM_LANES / DFM_LANES, lane = ITEM_LANE;
    if (b >= launch.block_count || lane >= blocks[b].lane_count)
        return;
    size_t frame = get_global_id(1), frame_word = frame * launch.frame_words;
    item it;
    it.kind = blocks[b].kind;
    it.rows = data + DFM_LANES * (size_t)blocks[b].row + lane;
    it.palette = floats + frame_word;
    it.rotations = it.palette + launch.rotations;
    it.duals = it.palette + launch.duals;
    for (int slot = 0; slot < 4; slot++)
        it.bone[slot] = blocks[b].bone[slot];

    v3 p = load3(it.rows), n = load3(it.rows + 3 * DFM_LANES);
    if (launch.morphed) {
        dfm_u32 place = words[frame_word + launch.slots + b];
        if (place != DFM_NO_SLOT)
            p = add3(p, load3(floats + launch.deltas + 3 * DFM_LANES * (size_t)place + lane));
    }
    posed result = skin(&it, p, n);
    store(out, &launch, frame, vertex + DFM_LANES * b + lane, clamp3(result.position),
          normalize3(result.normal));
}
