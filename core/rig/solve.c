#include "core/rig/solve.h"
#include "core/rig/math.h"

/* A bone morph adds w x its translation, and turns by its rotation scaled to w of its angle, on the
 * right of what is there (SEMANTICS 4). */
static void add_morph(const dfm_rig_morph *morph, double weight, dfm_rig_local *locals) {
    for (uint32_t i = 0; i < morph->count; i++) {
        const dfm_rig_morph_offset *offset = &morph->offsets[i];
        dfm_rig_local *local = &locals[offset->bone];
        for (int k = 0; k < 3; k++)
            local->own_move[k] += weight * offset->translation[k];
        double turn[4];
        quat_scale_angle(turn, offset->rotation, weight);
        quat_mul(local->own, local->own, turn);
    }
}

/* Only the turn about the fixed axis is left, with the whole turn's angle (SEMANTICS 5). */
static void project_on_axis(double q[4], const double axis[3]) {
    double along = vec3_dot(q, axis);
    double length = copysign(sqrt(vec3_dot(q, q)), along);
    for (int k = 0; k < 3; k++)
        q[k] = length * axis[k];
}

static void take_pose(const dfm_rig *rig, const dfm_pose *pose, const double *morph_weights,
                      dfm_rig_local *locals) {
    for (uint32_t i = 0; i < rig->bone_count; i++) {
        dfm_rig_local *local = &locals[i];
        memcpy(local->own, pose->bones[i].rotation, sizeof local->own);
        memcpy(local->own_move, pose->bones[i].translation, sizeof local->own_move);
        quat_normalize(local->own);
        local->has_ik = local->has_append = false;
    }
    for (uint32_t i = 0; i < rig->fixed_axis_count; i++)
        project_on_axis(locals[rig->fixed_axes[i].bone].own, rig->fixed_axes[i].axis);
    for (uint32_t i = 0; i < rig->morph_count; i++) {
        double weight = morph_weights[rig->morphs[i].morph];
        if (weight != 0)
            add_morph(&rig->morphs[i], weight, locals);
    }
}

/* R = ik * own * append. */
static void local_rotation(double out[4], const dfm_rig_local *local) {
    if (local->has_ik)
        quat_mul(out, local->ik, local->own);
    else
        memcpy(out, local->own, sizeof local->own);
    if (local->has_append)
        quat_mul(out, out, local->append);
}

/* G = G_parent * T(rest offset + own move + append move) * R. */
static void update_global(const dfm_rig *rig, uint32_t bone, dfm_rig_state *state) {
    const dfm_rig_bone *fixed = &rig->bones[bone];
    const dfm_rig_local *local = &state->local[bone];
    double *global = state->global[bone], *rotation = state->rotation[bone];
    double position[3];
    for (int k = 0; k < 3; k++)
        position[k] = fixed->rest_offset[k] + local->own_move[k];
    for (int k = 0; local->has_append && k < 3; k++)
        position[k] += local->append_move[k];
    local_rotation(rotation, local);
    if (fixed->parent >= 0) {
        const double *above = state->global[fixed->parent];
        quat_mul(rotation, state->rotation[fixed->parent], rotation);
        mat34_turn(position, above, position);
        for (int k = 0; k < 3; k++)
            position[k] += above[4 * k + 3];
    }
    quat_normalize(rotation);
    quat_to_rows(global, 4, rotation);
    for (int k = 0; k < 3; k++)
        global[4 * k + 3] = position[k];
}

/* A range of parent_first. */
typedef struct range {
    uint32_t first, end;
} range;

static void mark(const dfm_rig *rig, uint32_t bone, uint32_t stamp, dfm_rig_state *state,
                 range *changed) {
    uint32_t position = rig->position[bone];
    state->stamps[bone] = stamp;
    if (changed->first > position)
        changed->first = position;
    if (changed->end < position + rig->subtree_size[bone])
        changed->end = position + rig->subtree_size[bone];
}

int64_t dfm_rig_refresh(const dfm_rig *rig, const dfm_rig_ik *ik, dfm_rig_state *state,
                        uint32_t stamp) {
    range changed = {rig->bone_count, 0};
    for (uint32_t i = 0; i < ik->link_count; i++)
        mark(rig, ik->links[i].bone, stamp, state, &changed);
    for (uint32_t i = 0; i < rig->append_count; i++) {
        const dfm_rig_append *append = &rig->appends[i];
        if (!append->rotation || state->stamps[append->source] != stamp)
            continue;
        dfm_rig_append_apply(append, state->local);
        mark(rig, append->bone, stamp, state, &changed);
    }
    for (uint32_t i = changed.first; i < changed.end; i++) {
        uint32_t bone = rig->parent_first[i];
        int32_t parent = rig->bones[bone].parent;
        if (state->stamps[bone] != stamp && (parent < 0 || state->stamps[parent] != stamp))
            continue;
        state->stamps[bone] = stamp;
        update_global(rig, bone, state);
    }
    return (int64_t)rig->append_count + changed.end - changed.first;
}

/* A solver begins with its links as authored, whatever an earlier one made of them. Returns what
 * that cost. */
static int64_t forget_earlier_solver(const dfm_rig *rig, const dfm_rig_ik *ik, dfm_rig_state *state,
                                     uint32_t stamp) {
    bool turned = false;
    for (uint32_t i = 0; i < ik->link_count; i++) {
        dfm_rig_local *local = &state->local[ik->links[i].bone];
        turned = turned || local->has_ik;
        local->has_ik = false;
    }
    return turned ? dfm_rig_refresh(rig, ik, state, stamp) : 0;
}

static void solve_ik(const dfm_rig *rig, const dfm_pose *pose, dfm_rig_state *state) {
    int64_t budget = DFM_RIG_IK_BUDGET;
    if (rig->solver_count > 0)
        memset(state->stamps, 0, rig->bone_count * sizeof *state->stamps);
    for (uint32_t i = 0; i < rig->solver_count && budget > 0; i++) {
        const dfm_rig_ik *ik = &rig->solvers[i];
        if (pose->ik_off[ik->bone])
            continue;
        budget -= forget_earlier_solver(rig, ik, state, 2 * i + 1);
        if (dfm_rig_ik_solve(rig, ik, state, &budget))
            budget -= dfm_rig_refresh(rig, ik, state, 2 * i + 2);
    }
}

static void column(double out[3], const double matrix[12], int index) {
    for (int k = 0; k < 3; k++)
        out[k] = matrix[4 * k + index];
}

/* The rotation of a 3x3 by Gram-Schmidt, x axis first; the identity where the axes span no space.
 */
static void rotation_of_matrix(double q[4], const double matrix[12]) {
    double x[3], y[3], z[3];
    column(x, matrix, 0);
    column(y, matrix, 1);
    quat_identity(q);
    if (!vec3_unit(x) || !vec3_unit(y))
        return;
    double along = vec3_dot(x, y);
    for (int k = 0; k < 3; k++)
        y[k] -= along * x[k];
    if (!vec3_unit(y))
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
    bool good = true;
    for (size_t i = 0; i < (size_t)rig->bone_count * 12; i++)
        good &= fabs(numbers[i]) <= DFM_RIG_MAX_NUMBER; /* false for a NaN */
    return good;
}

bool dfm_rig_solve(const dfm_rig *rig, const struct dfm_pmx *pmx, const dfm_pose *pose,
                   const double *morph_weights, dfm_rig_state *state) {
    (void)pmx;
    if (pose->has_matrices) {
        take_matrices(rig, pose, state);
        return in_range(rig, state);
    }
    take_pose(rig, pose, morph_weights, state->local);
    for (uint32_t i = 0; i < rig->append_count; i++)
        dfm_rig_append_apply(&rig->appends[i], state->local);
    for (uint32_t i = 0; i < rig->bone_count; i++)
        update_global(rig, rig->parent_first[i], state);
    solve_ik(rig, pose, state);
    return in_range(rig, state);
}
