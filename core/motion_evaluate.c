#include "core/motion.h"

#include <math.h>

/* The parameter of a curve is found to this; what it gives is then within 1e-6, also where the
 * curve is steep. */
static const double PARAMETER_TOLERANCE = 1e-9;

/* A turn smaller than this (cosine of the half angle) is interpolated along its chord: the two ways
 * agree to 1e-9 there. */
static const double CHORD_COSINE = 0.99999;

static double bezier(double a, double b, double s) {
    double r = 1 - s;
    return s * (3 * r * (a * r + b * s) + s * s);
}

static double bezier_slope(double a, double b, double s) {
    double r = 1 - s;
    return 3 * (a * r * r + 2 * (b - a) * r * s + (1 - b) * s * s);
}

/* x(s) = t by Newton's method; where a step leaves the bracket, or the curve stands still, by
 * halving. x never falls, since its control points lie in 0..1. */
static double solve_parameter(double x1, double x2, double t) {
    double low = 0, high = 1, s = t;
    while (high - low > PARAMETER_TOLERANCE) {
        double off = bezier(x1, x2, s) - t, slope = bezier_slope(x1, x2, s);
        if (off == 0)
            break;
        if (off < 0)
            low = s;
        else
            high = s;
        double next = s - off / slope; /* not finite where the slope is 0 */
        if (!(next > low && next < high))
            next = (low + high) / 2;
        double step = fabs(next - s);
        s = next;
        if (step <= PARAMETER_TOLERANCE)
            break;
    }
    return s;
}

double dfm_vmd_curve_at(dfm_vmd_curve curve, double t) {
    if (curve.x1 == curve.y1 && curve.x2 == curve.y2)
        return t;
    double s = solve_parameter(curve.x1 / 127.0, curve.x2 / 127.0, t);
    return bezier(curve.y1 / 127.0, curve.y2 / 127.0, s);
}

/* The short way. */
static void slerp(double out[4], const float a[4], const float b[4], double t) {
    double dot = 0;
    for (int k = 0; k < 4; k++)
        dot += (double)a[k] * (double)b[k];
    double sign = dot < 0 ? -1 : 1, cosine = fmin(fabs(dot), 1);
    double from = 1 - t, to = t;
    if (cosine < CHORD_COSINE) {
        double angle = acos(cosine), sine = sin(angle);
        from = sin(from * angle) / sine;
        to = sin(to * angle) / sine;
    }
    double length2 = 0;
    for (int k = 0; k < 4; k++) {
        out[k] = from * (double)a[k] + sign * to * (double)b[k];
        length2 += out[k] * out[k];
    }
    for (int k = 0; k < 4; k++)
        out[k] /= sqrt(length2);
}

/* The first key after `frame`, of `count` keys of `stride` bytes that begin with their frame. */
static uint32_t key_after(const void *keys, uint32_t count, size_t stride, double frame) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const uint32_t *key_frame = (const void *)((const char *)keys + middle * stride);
        if (*key_frame <= frame)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void hold_bone(const dfm_vmd_bone_key *key, dfm_bone_pose *pose) {
    for (int k = 0; k < 3; k++)
        pose->translation[k] = (double)key->translation[k];
    for (int k = 0; k < 4; k++)
        pose->rotation[k] = (double)key->rotation[k];
}

static void evaluate_bone(const dfm_vmd_bone_key *keys, uint32_t count, double frame,
                          dfm_bone_pose *pose) {
    uint32_t after = key_after(keys, count, sizeof *keys, frame);
    if (after == 0 || after == count) {
        hold_bone(&keys[after == 0 ? 0 : count - 1], pose);
        return;
    }
    const dfm_vmd_bone_key *a = &keys[after - 1], *b = &keys[after];
    double t = (frame - a->frame) / ((double)b->frame - a->frame);
    for (int k = 0; k < 3; k++) {
        double from = (double)a->translation[k], way = (double)b->translation[k] - from;
        pose->translation[k] = from;
        if (way != 0)
            pose->translation[k] += way * dfm_vmd_curve_at(b->translation_curves[k], t);
    }
    slerp(pose->rotation, a->rotation, b->rotation, dfm_vmd_curve_at(b->rotation_curve, t));
}

static double evaluate_morph(const dfm_vmd_morph_key *keys, uint32_t count, double frame) {
    uint32_t after = key_after(keys, count, sizeof *keys, frame);
    if (after == 0 || after == count)
        return (double)keys[after == 0 ? 0 : count - 1].weight;
    const dfm_vmd_morph_key *a = &keys[after - 1], *b = &keys[after];
    double t = (frame - a->frame) / ((double)b->frame - a->frame);
    return (double)a->weight + ((double)b->weight - (double)a->weight) * t;
}

static bool evaluate_ik(const dfm_vmd_ik_key *keys, uint32_t count, double frame) {
    uint32_t after = key_after(keys, count, sizeof *keys, frame);
    return keys[after == 0 ? 0 : after - 1].enabled;
}

void dfm_motion_evaluate(const dfm_motion_binding *binding, double frame, dfm_pose *pose) {
    const dfm_vmd *vmd = &binding->motion->vmd;
    dfm_pose_reset(pose);
    for (uint32_t i = 0; i < vmd->bone_track_count; i++) {
        const dfm_vmd_track *track = &vmd->bone_tracks[i];
        if (binding->bones.target[i] >= 0)
            evaluate_bone(vmd->bone_keys + track->first_key, track->key_count, frame,
                          &pose->bones[binding->bones.target[i]]);
    }
    for (uint32_t i = 0; i < vmd->morph_track_count; i++) {
        const dfm_vmd_track *track = &vmd->morph_tracks[i];
        if (binding->morphs.target[i] >= 0)
            pose->morph_weights[binding->morphs.target[i]] =
                evaluate_morph(vmd->morph_keys + track->first_key, track->key_count, frame);
    }
    for (uint32_t i = 0; i < vmd->ik_track_count; i++) {
        const dfm_vmd_track *track = &vmd->ik_tracks[i];
        if (binding->iks.target[i] >= 0)
            pose->ik_off[binding->iks.target[i]] =
                !evaluate_ik(vmd->ik_keys + track->first_key, track->key_count, frame);
    }
}
