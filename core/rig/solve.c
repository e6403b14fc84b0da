#include "core/rig/solve.h"
#include "core/rig/math.h"

/* A bone morph adds w x its translation, and turns by its rotation scaled to w of its angle, on the
 * right of what is there (SEMANTICS 4). */
static void add_morph(const dfm_rig_morph *morph, double weight, dfm_rig_local *locals) {
    for (uint32_t i = 0; i < morph->count; i++) {
        const dfm_rig_morph_offset *offset = &morph->offsets[i];
        dfm_rig_local *local = &locals[offset->bone];
        for (int k = 0; k < 3; k++)
            local->translation[k] += weight * offset->translation[k];
        double turn[4];
        quat_scale_angle(turn, offset->rotation, weight);
        quat_mul(local->rotation, local->rotation, turn);
    }
}

static void take_pose(const dfm_rig *rig, const dfm_pose *pose, const double *morph_weights,
                      dfm_rig_local *locals) {
    for (uint32_t i = 0; i < rig->bone_count; i++) {
        memcpy(locals[i].rotation, pose->bones[i].rotation, sizeof locals[i].rotation);
        memcpy(locals[i].translation, pose->bones[i].translation, sizeof locals[i].translation);
        quat_normalize(locals[i].rotation);
    }
    for (uint32_t i = 0; i < rig->morph_count; i++) {
        double weight = morph_weights[rig->morphs[i].morph];
        if (weight != 0)
            add_morph(&rig->morphs[i], weight, locals);
    }
}

/* G = G_parent * T(rest offset + translation) * R. */
static void update_global(const dfm_rig *rig, uint32_t bone, dfm_rig_state *state) {
    const dfm_rig_bone *fixed = &rig->bones[bone];
    const dfm_rig_local *local = &state->local[bone];
    double *global = state->global[bone], *rotation = state->rotation[bone];
    double position[3];
    for (int k = 0; k < 3; k++)
        position[k] = fixed->rest_offset[k] + local->translation[k];
    if (fixed->parent < 0) {
        memcpy(rotation, local->rotation, sizeof local->rotation);
    } else {
        const double *above = state->global[fixed->parent];
        quat_mul(rotation, state->rotation[fixed->parent], local->rotation);
        mat34_turn(position, above, position);
        for (int k = 0; k < 3; k++)
            position[k] += above[4 * k + 3];
    }
    quat_normalize(rotation);
    quat_to_rows(global, 4, rotation);
    for (int k = 0; k < 3; k++)
        global[4 * k + 3] = position[k];
}

static void column(double out[3], const double matrix[12], int index) {
    for (int k = 0; k < 3; k++)
        out[k] = matrix[4 * k + index];
}

/* Whether `v` had a direction; it is of unit length then. */
static bool unit(double v[3]) {
    double length2 = vec3_dot(v, v);
    if (!(length2 > 1e-200 && length2 < 1e300))
        return false;
    double scale = 1 / sqrt(length2);
    for (int k = 0; k < 3; k++)
        v[k] *= scale;
    return true;
}

/* The rotation of a 3x3 by Gram-Schmidt, x axis first; the identity where the axes span no space.
 */
static void rotation_of_matrix(double q[4], const double matrix[12]) {
    double x[3], y[3], z[3];
    column(x, matrix, 0);
    column(y, matrix, 1);
    quat_identity(q);
    if (!unit(x) || !unit(y))
        return;
    double along = vec3_dot(x, y);
    for (int k = 0; k < 3; k++)
        y[k] -= along * x[k];
    if (!unit(y))
        return;
    vec3_cross(z, x, y);
    const double *axes[3] = {x, y, z}; /* axes[c][r]: row r, column c */
    double trace = x[0] + y[1] + z[2];
    if (trace > 0) {
        q[0] = y[2] - z[1], q[1] = z[0] - x[2], q[2] = x[1] - y[0], q[3] = 1 + trace;
    } else {
        int i = x[0] > y[1] ? (x[0] > z[2] ? 0 : 2) : (y[1] > z[2] ? 1 : 2);
        int j = (i + 1) % 3, k = (i + 2) % 3;
        q[i] = 1 + axes[i][i] - axes[j][j] - axes[k][k];
        q[j] = axes[i][j] + axes[j][i];
        q[k] = axes[i][k] + axes[k][i];
        q[3] = axes[j][k] - axes[k][j];
    }
    quat_normalize(q);
}

static void take_matrices(const dfm_rig *rig, const dfm_pose *pose, dfm_rig_state *state) {
    for (uint32_t i = 0; i < rig->bone_count; i++) {
        memcpy(state->global[i], pose->matrices[i], sizeof state->global[i]);
        rotation_of_matrix(state->rotation[i], state->global[i]);
    }
}

static bool in_range(const dfm_rig *rig, const dfm_rig_state *state) {
    const double *numbers = (const double *)state->global;
    double largest = 0;
    for (size_t i = 0; i < (size_t)rig->bone_count * 12; i++) {
        if (!(fabs(numbers[i]) <= largest)) /* true for a NaN, which then stays */
            largest = fabs(numbers[i]);
    }
    return largest <= DFM_RIG_MAX_NUMBER;
}

bool dfm_rig_solve(const dfm_rig *rig, const struct dfm_pmx *pmx, const dfm_pose *pose,
                   const double *morph_weights, dfm_rig_state *state) {
    (void)pmx;
    if (pose->has_matrices) {
        take_matrices(rig, pose, state);
        return in_range(rig, state);
    }
    take_pose(rig, pose, morph_weights, state->local);
    for (uint32_t i = 0; i < rig->bone_count; i++)
        update_global(rig, rig->parent_first[i], state);
    return in_range(rig, state);
}
