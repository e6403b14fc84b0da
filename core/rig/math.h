/* Vectors of 3 and quaternions x, y, z, w in double precision: what the rig needs and no more.
 *
 * Outputs may be the inputs. Nothing here makes a NaN of finite numbers up to 1e150. */
#ifndef DFM_CORE_RIG_MATH_H
#define DFM_CORE_RIG_MATH_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

static inline double vec3_dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline void vec3_cross(double out[3], const double a[3], const double b[3]) {
    double x = a[1] * b[2] - a[2] * b[1], y = a[2] * b[0] - a[0] * b[2],
           z = a[0] * b[1] - a[1] * b[0];
    out[0] = x, out[1] = y, out[2] = z;
}

static inline void vec3_sub(double out[3], const double a[3], const double b[3]) {
    for (int i = 0; i < 3; i++)
        out[i] = a[i] - b[i];
}

/* To unit length. Returns false, and leaves it as it is, where it has no direction. */
static inline bool vec3_unit(double v[3]) {
    double length2 = vec3_dot(v, v);
    if (!(length2 > 1e-200 && length2 < 1e300))
        return false;
    double scale = 1 / sqrt(length2);
    for (int k = 0; k < 3; k++)
        v[k] *= scale;
    return true;
}

static inline void quat_identity(double q[4]) {
    q[0] = q[1] = q[2] = 0, q[3] = 1;
}

/* Hamilton product: b turns first, then a. */
static inline void quat_mul(double out[4], const double a[4], const double b[4]) {
    double x = a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1];
    double y = a[3] * b[1] - a[0] * b[2] + a[1] * b[3] + a[2] * b[0];
    double z = a[3] * b[2] + a[0] * b[1] - a[1] * b[0] + a[2] * b[3];
    double w = a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2];
    out[0] = x, out[1] = y, out[2] = z, out[3] = w;
}

static inline void quat_conjugate(double out[4], const double q[4]) {
    out[0] = -q[0], out[1] = -q[1], out[2] = -q[2], out[3] = q[3];
}

/* To unit length; what has no direction becomes the identity. A quaternion that is of unit length
 * to 1e-12 stays as it is. */
static inline void quat_normalize(double q[4]) {
    double length2 = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    if (fabs(length2 - 1) <= 1e-12)
        return;
    if (!(length2 > 1e-200 && length2 < 1e300)) {
        quat_identity(q);
        return;
    }
    double scale = 1 / sqrt(length2);
    for (int i = 0; i < 4; i++)
        q[i] *= scale;
}

/* The rotation matrix of a unit quaternion, row-major, rows `stride` numbers apart. */
static inline void quat_to_rows(double *rows, int stride, const double q[4]) {
    double x2 = q[0] + q[0], y2 = q[1] + q[1], z2 = q[2] + q[2];
    double xx = q[0] * x2, yy = q[1] * y2, zz = q[2] * z2;
    double xy = q[0] * y2, xz = q[0] * z2, yz = q[1] * z2;
    double wx = q[3] * x2, wy = q[3] * y2, wz = q[3] * z2;
    double *r0 = rows, *r1 = rows + stride, *r2 = rows + 2 * stride;
    r0[0] = 1 - (yy + zz), r0[1] = xy - wz, r0[2] = xz + wy;
    r1[0] = xy + wz, r1[1] = 1 - (xx + zz), r1[2] = yz - wx;
    r2[0] = xz - wy, r2[1] = yz + wx, r2[2] = 1 - (xx + yy);
}

/* out = rotation part of a 3x4 row-major matrix * v. */
static inline void mat34_turn(double out[3], const double m[12], const double v[3]) {
    double x = m[0] * v[0] + m[1] * v[1] + m[2] * v[2];
    double y = m[4] * v[0] + m[5] * v[1] + m[6] * v[2];
    double z = m[8] * v[0] + m[9] * v[1] + m[10] * v[2];
    out[0] = x, out[1] = y, out[2] = z;
}

/* `q` with its angle, taken the short way (at most pi), scaled by any factor. */
static inline void quat_scale_angle(double out[4], const double q[4], double factor) {
    double sine = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2]);
    if (!(sine > 1e-150)) {
        quat_identity(out);
        return;
    }
    double half = atan2(sine, fabs(q[3])) * factor;
    double scale = sin(half) / (q[3] < 0 ? -sine : sine);
    out[0] = q[0] * scale, out[1] = q[1] * scale, out[2] = q[2] * scale, out[3] = cos(half);
}

#endif
