/* The scalar kernel: one vertex after another, as the formulas are written. It defines the right
 * result; every other kernel is compared with it. */
#include "kernels/skin.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct vec3 {
    float x, y, z;
} vec3;

typedef struct quat {
    float x, y, z, w;
} quat;

typedef struct posed {
    vec3 position, normal; /* the normal is not normalised yet */
} posed;

static vec3 add(vec3 a, vec3 b) {
    return (vec3){a.x + b.x, a.y + b.y, a.z + b.z};
}

static vec3 sub(vec3 a, vec3 b) {
    return (vec3){a.x - b.x, a.y - b.y, a.z - b.z};
}

static vec3 scale(vec3 a, float s) {
    return (vec3){a.x * s, a.y * s, a.z * s};
}

static vec3 cross(vec3 a, vec3 b) {
    return (vec3){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

static vec3 point_of(const float *m, vec3 p) {
    return (vec3){m[0] * p.x + m[1] * p.y + m[2] * p.z + m[3],
                  m[4] * p.x + m[5] * p.y + m[6] * p.z + m[7],
                  m[8] * p.x + m[9] * p.y + m[10] * p.z + m[11]};
}

static vec3 vector_of(const float *m, vec3 p) {
    return (vec3){m[0] * p.x + m[1] * p.y + m[2] * p.z, m[4] * p.x + m[5] * p.y + m[6] * p.z,
                  m[8] * p.x + m[9] * p.y + m[10] * p.z};
}

/* v + 2 w (r x v) + 2 r x (r x v), r the vector part */
static vec3 rotate(quat q, vec3 v) {
    vec3 r = {q.x, q.y, q.z}, c = cross(r, v), d = cross(r, c);
    return add(v, add(scale(c, 2 * q.w), scale(d, 2)));
}

static quat load_quat(const float *q) {
    return (quat){q[0], q[1], q[2], q[3]};
}

static float dot4(quat a, quat b) {
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

static quat mix(quat a, float wa, quat b, float wb) {
    return (quat){a.x * wa + b.x * wb, a.y * wa + b.y * wb, a.z * wa + b.z * wb,
                  a.w * wa + b.w * wb};
}

/* The short way; a normalised linear interpolation where the two lie close. */
static quat slerp(quat a, quat b, float t) {
    float dot = dot4(a, b), side = dot < 0 ? -1.0f : 1.0f;
    dot *= side;
    if (dot > DFM_SLERP_LINEAR_DOT) {
        quat q = mix(a, 1 - t, b, t * side);
        float inverse = 1 / sqrtf(dot4(q, q));
        return (quat){q.x * inverse, q.y * inverse, q.z * inverse, q.w * inverse};
    }
    float theta = acosf(dot), inverse = 1 / sinf(theta);
    return mix(a, sinf((1 - t) * theta) * inverse, b, sinf(t * theta) * inverse * side);
}

/* One lane of one block. */
typedef struct lane {
    const dfm_skin_args *args;
    const dfm_skin_block *block;
    const float *row; /* row 0 of the block, at this lane */
} lane;

static float at(const lane *l, int row) {
    return l->row[row * DFM_LANES];
}

static vec3 vec3_at(const lane *l, int row) {
    return (vec3){at(l, row), at(l, row + 1), at(l, row + 2)};
}

static const float *matrix(const lane *l, int slot) {
    return l->args->palette + 12 * (size_t)l->block->bone[slot];
}

static quat rotation(const lane *l, int slot) {
    return load_quat(l->args->rotations + 4 * (size_t)l->block->bone[slot]);
}

/* p' = sum w (M p), n' = sum w (rot(M) n) */
static posed blend(const lane *l, const float *weights, int slots, vec3 p, vec3 n) {
    posed result = {{0, 0, 0}, {0, 0, 0}};
    for (int i = 0; i < slots; i++) {
        result.position = add(result.position, scale(point_of(matrix(l, i), p), weights[i]));
        result.normal = add(result.normal, scale(vector_of(matrix(l, i), n), weights[i]));
    }
    return result;
}

static posed skin_sdef(const lane *l, vec3 p, vec3 n) {
    float w0 = at(l, 6), w1 = 1 - w0;
    quat q = slerp(rotation(l, 0), rotation(l, 1), w1);
    vec3 centre = vec3_at(l, 7);
    vec3 pivot = add(scale(point_of(matrix(l, 0), vec3_at(l, 10)), w0),
                     scale(point_of(matrix(l, 1), vec3_at(l, 13)), w1));
    return (posed){add(rotate(q, sub(p, centre)), pivot), rotate(q, n)};
}

static posed skin_qdef(const lane *l, const float weights[4], vec3 p, vec3 n) {
    int reference = 0;
    for (int i = 1; i < 4; i++)
        if (weights[i] > weights[reference])
            reference = i;
    quat real = {0, 0, 0, 0}, dual = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        float side = dot4(rotation(l, i), rotation(l, reference)) < 0 ? -1.0f : 1.0f;
        real = mix(real, 1, rotation(l, i), side * weights[i]);
        dual = mix(dual, 1, load_quat(l->args->duals + 4 * (size_t)l->block->bone[i]),
                   side * weights[i]);
    }
    float length = sqrtf(dot4(real, real));
    if (!(length >= DFM_QDEF_MIN_LENGTH))
        return blend(l, weights, 4, p, n);
    float inverse = 1 / length;
    real = mix(real, inverse, real, 0);
    dual = mix(dual, inverse, dual, 0);
    vec3 r = {real.x, real.y, real.z}, d = {dual.x, dual.y, dual.z};
    vec3 move = add(sub(scale(d, real.w), scale(r, dual.w)), cross(r, d));
    return (posed){add(rotate(real, p), scale(move, 2)), rotate(real, n)};
}

static posed skin(const lane *l, vec3 p, vec3 n) {
    switch (l->block->kind) {
    case DFM_KIND_BDEF1:
        return blend(l, (const float[]){1}, 1, p, n);
    case DFM_KIND_BDEF2:
        return blend(l, (const float[]){at(l, 6), 1 - at(l, 6)}, 2, p, n);
    case DFM_KIND_BDEF4:
        return blend(l, (const float[]){at(l, 6), at(l, 7), at(l, 8), at(l, 9)}, 4, p, n);
    case DFM_KIND_SDEF:
        return skin_sdef(l, p, n);
    case DFM_KIND_QDEF:
        return skin_qdef(l, (const float[]){at(l, 6), at(l, 7), at(l, 8), at(l, 9)}, p, n);
    default: /* DFM_KIND_REST */
        return (posed){p, n};
    }
}

/* Unit length; 0 where there is no direction, or the length is beyond single precision. */
static vec3 normalize(vec3 n) {
    float length2 = n.x * n.x + n.y * n.y + n.z * n.z;
    if (!(length2 > DFM_NORMAL_MIN_LENGTH2 && length2 <= FLT_MAX))
        return (vec3){0, 0, 0};
    return scale(n, 1 / sqrtf(length2));
}

static void store(const dfm_skin_output *output, dfm_component component, size_t vertex, vec3 v) {
    if (!output->data)
        return;
    char *to = (char *)output->data + vertex * output->stride_bytes;
    float element[3] = {v.x, v.y, v.z};
    if (component == DFM_COMPONENT_F32) {
        memcpy(to, element, sizeof element);
        return;
    }
    uint16_t half[3];
    dfm_half_from_floats(half, element, 3);
    memcpy(to, half, sizeof half);
}

void dfm_skin_scalar(const dfm_skin_args *args) {
    for (size_t b = args->block_first; b < args->block_first + args->block_count; b++) {
        const dfm_skin_block *block = &args->blocks[b];
        bool morphed = args->deltas && args->delta_stamps[b] == args->generation;
        for (size_t i = 0; i < block->lane_count; i++) {
            lane l = {args, block, args->data + DFM_LANES * (size_t)block->row + i};
            vec3 p = vec3_at(&l, 0);
            if (morphed) {
                lane delta = {args, block, args->deltas + 3 * DFM_LANES * b + i};
                p = add(p, vec3_at(&delta, 0));
            }
            posed result = skin(&l, p, vec3_at(&l, 3));
            size_t vertex = args->vertex[DFM_LANES * b + i];
            vec3 position = {dfm_finite(result.position.x), dfm_finite(result.position.y),
                             dfm_finite(result.position.z)};
            store(&args->position, args->component, vertex, position);
            store(&args->normal, args->component, vertex, normalize(result.normal));
        }
    }
}
