#include "core/rig/math.h"
#include "core/rig/rig.h"

/* M = G * inverse(T(rest)): the turn is G's, the move is g - turn * rest. */
static void skinning_matrix(float out[12], const double global[12], const double rest[3]) {
    double pivot[3];
    mat34_turn(pivot, global, rest);
    for (int row = 0; row < 3; row++) {
        for (int k = 0; k < 3; k++)
            out[4 * row + k] = (float)global[4 * row + k];
        out[4 * row + 3] = (float)(global[4 * row + 3] - pivot[row]);
    }
}

/* The dual part of a rigid motion: half the move, as a pure quaternion, times the rotation (Kavan
 * et al. 2007). */
static void dual_part(float out[4], const double global[12], const double rest[3],
                      const double rotation[4]) {
    double rows[12], move[4] = {0}, dual[4];
    quat_to_rows(rows, 4, rotation);
    mat34_turn(move, rows, rest);
    for (int k = 0; k < 3; k++)
        move[k] = (global[4 * k + 3] - move[k]) * 0.5;
    quat_mul(dual, move, rotation);
    for (int k = 0; k < 4; k++)
        out[k] = (float)dual[k];
}

void dfm_rig_palette(const dfm_rig *rig, const dfm_rig_state *state, float *palette,
                     float *rotations, float *duals) {
    for (uint32_t i = 0; i < rig->bone_count; i++) {
        skinning_matrix(palette + 12 * (size_t)i, state->global[i], rig->bones[i].rest);
        for (int k = 0; k < 4; k++)
            rotations[4 * (size_t)i + (size_t)k] = (float)state->rotation[i][k];
        if (duals)
            dual_part(duals + 4 * (size_t)i, state->global[i], rig->bones[i].rest,
                      state->rotation[i]);
    }
}
