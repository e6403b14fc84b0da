#include "tests/support_scene.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* xorshift32: the same numbers everywhere. */
static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static float between(uint32_t *state, float low, float high) {
    return low + (high - low) * (float)(next_random(state) >> 8) / 16777216.0f;
}

static void *array_of(size_t count, size_t size) {
    void *array = aligned_alloc(64, (count * size + 64) / 64 * 64);
    ck_assert_ptr_nonnull(array);
    memset(array, 0, count * size);
    return array;
}

static const uint32_t rows_of_kind[DFM_KIND_COUNT] = {
    [DFM_KIND_REST] = 6,   [DFM_KIND_BDEF1] = 6, [DFM_KIND_BDEF2] = 7,
    [DFM_KIND_BDEF4] = 10, [DFM_KIND_SDEF] = 16, [DFM_KIND_QDEF] = 10};

/* --- bind data -------------------------------------------------------------------------------- */

static void choose_bones(dfm_skin_block *block, uint32_t bone_count, uint32_t *seed) {
    static const uint32_t used[DFM_KIND_COUNT] = {0, 1, 2, 4, 2, 4};
    for (uint32_t slot = 0; slot < used[block->kind]; slot++)
        block->bone[slot] = next_random(seed) % bone_count;
}

/* Blocks of the kinds asked for, in runs of a few, as sorting would leave them. */
static void make_blocks(dfm_skin_bind *bind, const scene_options *options, uint32_t *seed) {
    uint32_t kinds = options->kinds ? options->kinds : (1u << DFM_KIND_COUNT) - 1;
    if (options->bone_count == 0)
        kinds = 1u << DFM_KIND_REST;
    uint32_t row = 0, kind = 0;
    for (uint32_t b = 0; b < bind->block_count; b++) {
        if (b % 3 == 0) {
            do
                kind = (kind + 1) % DFM_KIND_COUNT;
            while (!(kinds >> kind & 1));
        }
        dfm_skin_block *block = &bind->blocks[b];
        block->kind = kind;
        block->lane_count = b % 4 == 1 ? 1 + next_random(seed) % DFM_LANES : DFM_LANES;
        block->row = row;
        choose_bones(block, options->bone_count, seed);
        row += rows_of_kind[kind];
        bind->vertex_count += block->lane_count;
        bind->has_sdef |= kind == DFM_KIND_SDEF;
        bind->has_qdef |= kind == DFM_KIND_QDEF;
    }
    bind->row_count = row;
}

/* Lanes stand at scattered places of the file; spare lanes repeat the last one. */
static void scatter_vertices(dfm_skin_bind *bind, uint32_t *seed) {
    uint32_t *order = array_of(bind->vertex_count, sizeof *order);
    for (uint32_t v = 0; v < bind->vertex_count; v++) {
        uint32_t other = next_random(seed) % (v + 1);
        order[v] = order[other];
        order[other] = v;
    }
    uint32_t taken = 0;
    for (uint32_t b = 0; b < bind->block_count; b++) {
        uint32_t lanes = bind->blocks[b].lane_count;
        for (uint32_t lane = 0; lane < DFM_LANES; lane++) {
            uint32_t used = lane < lanes ? lane : lanes - 1, vertex = order[taken + used];
            bind->vertex[b * DFM_LANES + lane] = vertex;
            bind->slot[vertex] = b * DFM_LANES + used;
        }
        taken += lanes;
    }
    free(order);
}

/* Weights of a lane; one block in 16 has raw ones, that leave [0, 1] and sum to anything. */
static void make_weights(float *rows, uint32_t kind, uint32_t b, uint32_t lane, uint32_t *seed) {
    bool raw = b % 16 == 15;
    bool four = kind == DFM_KIND_BDEF4 || kind == DFM_KIND_QDEF;
    float rest = 1;
    for (uint32_t slot = 0; slot < (four ? 4u : 1u); slot++) {
        float w = raw ? between(seed, -2, 3) : between(seed, 0, rest);
        if (lane == 2 && !four)
            w = (float)(b % 2); /* all on one bone */
        if (four && slot == 3 && !raw)
            w = rest;
        rows[(6 + slot) * DFM_LANES + lane] = w;
        rest -= w;
    }
}

static void make_lane(float *rows, uint32_t kind, uint32_t b, uint32_t lane, uint32_t *seed) {
    for (int k = 0; k < 3; k++) {
        rows[k * DFM_LANES + (int)lane] = between(seed, -10, 10);
        /* A few vertices have no normal. */
        rows[(3 + k) * DFM_LANES + (int)lane] = lane == 5 && b % 8 == 0 ? 0 : between(seed, -1, 1);
    }
    if (kind >= DFM_KIND_BDEF2)
        make_weights(rows, kind, b, lane, seed);
    for (int k = 7; kind == DFM_KIND_SDEF && k < 16; k++)
        rows[k * DFM_LANES + (int)lane] = between(seed, -10, 10);
}

static void repeat_last_lane(float *rows, uint32_t row_count, uint32_t lanes) {
    for (uint32_t r = 0; r < row_count; r++) {
        for (uint32_t lane = lanes; lane < DFM_LANES; lane++)
            rows[r * DFM_LANES + lane] = rows[r * DFM_LANES + lanes - 1];
    }
}

dfm_skin_bind *scene_create(const scene_options *options) {
    uint32_t seed = options->seed * 2654435761u + 1;
    dfm_skin_bind *bind = array_of(1, sizeof *bind);
    bind->block_count = options->block_count;
    bind->bone_count = options->bone_count;
    bind->blocks = array_of(bind->block_count, sizeof *bind->blocks);
    make_blocks(bind, options, &seed);
    bind->data = array_of(bind->row_count, DFM_LANES * sizeof *bind->data);
    bind->vertex = array_of(bind->block_count, DFM_LANES * sizeof *bind->vertex);
    bind->slot = array_of(bind->vertex_count, sizeof *bind->slot);
    scatter_vertices(bind, &seed);
    for (uint32_t b = 0; b < bind->block_count; b++) {
        const dfm_skin_block *block = &bind->blocks[b];
        float *rows = bind->data + (size_t)block->row * DFM_LANES;
        for (uint32_t lane = 0; lane < block->lane_count; lane++)
            make_lane(rows, block->kind, b, lane, &seed);
        repeat_last_lane(rows, rows_of_kind[block->kind], block->lane_count);
    }
    return bind;
}

void scene_free(dfm_skin_bind *bind) {
    free(bind->blocks);
    free(bind->data);
    free(bind->vertex);
    free(bind->slot);
    free(bind);
}

/* --- poses ------------------------------------------------------------------------------------ */

static void random_rotation(float q[4], uint32_t *seed) {
    float length = 0;
    while (length < 0.1f) {
        length = 0;
        for (int k = 0; k < 4; k++) {
            q[k] = between(seed, -1, 1);
            length += q[k] * q[k];
        }
    }
    for (int k = 0; k < 4; k++)
        q[k] /= sqrtf(length);
}

static void matrix_of(float m[12], const float q[4], const float move[3]) {
    float x = q[0], y = q[1], z = q[2], w = q[3];
    const float turn[9] = {
        1 - 2 * (y * y + z * z), 2 * (x * y - z * w),     2 * (x * z + y * w),
        2 * (x * y + z * w),     1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
        2 * (x * z - y * w),     2 * (y * z + x * w),     1 - 2 * (x * x + y * y)};
    for (int row = 0; row < 3; row++) {
        for (int k = 0; k < 3; k++)
            m[4 * row + k] = turn[3 * row + k];
        m[4 * row + 3] = move[row];
    }
}

/* Half of move x q, quaternion product with a pure move. */
static void dual_of(float d[4], const float q[4], const float t[3]) {
    d[0] = 0.5f * (t[0] * q[3] + t[1] * q[2] - t[2] * q[1]);
    d[1] = 0.5f * (t[1] * q[3] + t[2] * q[0] - t[0] * q[2]);
    d[2] = 0.5f * (t[2] * q[3] + t[0] * q[1] - t[1] * q[0]);
    d[3] = -0.5f * (t[0] * q[0] + t[1] * q[1] + t[2] * q[2]);
}

/* Whether this bone stands about at a right angle, in quaternion space, to one before it: there
 * rounding decides the side of a slerp or a blend, and two skinners may differ by anything. */
static bool is_undecided(const float *rotations, uint32_t bone) {
    const float *a = rotations + 4 * (size_t)bone;
    for (const float *b = rotations; b < a; b += 4) {
        if (fabsf(a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]) < 1e-3f)
            return true;
    }
    return false;
}

/* The turn of the bone before, with the other sign or a little off. */
static void similar_rotation(float q[4], uint32_t bone) {
    for (int k = 0; k < 4; k++)
        q[k] = (bone % 2 ? -1.0f : 1.0f) * q[k - 4];
    if (bone % 6 != 5)
        return;
    q[0] += 0.01f;
    float length = sqrtf(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int k = 0; k < 4; k++)
        q[k] /= length;
}

/* Every third bone turns about as the one before it. */
static void make_bones(const dfm_skin_bind *bind, scene_pose *pose, uint32_t *seed) {
    for (uint32_t i = 0; i < bind->bone_count; i++) {
        float *q = pose->rotations + 4 * (size_t)i;
        if (i % 3 == 2)
            similar_rotation(q, i);
        else
            do
                random_rotation(q, seed);
            while (is_undecided(pose->rotations, i));
        float move[3];
        for (int k = 0; k < 3; k++)
            move[k] = between(seed, -5, 5);
        matrix_of(pose->palette + 12 * (size_t)i, q, move);
        dual_of(pose->duals + 4 * (size_t)i, q, move);
    }
}

static void make_deltas(const dfm_skin_bind *bind, scene_pose *pose, uint32_t every,
                        uint32_t *seed) {
    pose->generation = 7;
    for (uint32_t b = 0; b < bind->block_count; b++) {
        float *rows = pose->deltas + 3 * DFM_LANES * (size_t)b;
        for (int i = 0; i < 3 * DFM_LANES; i++) /* untouched blocks hold old deltas */
            rows[i] = between(seed, -3, 3);
        repeat_last_lane(rows, 3, bind->blocks[b].lane_count);
        if (every == 0 || b % every != 0)
            continue;
        pose->stamps[b] = pose->generation;
        pose->touched[pose->touched_count++] = b;
    }
}

scene_pose *scene_pose_create(const dfm_skin_bind *bind, uint32_t seed, uint32_t morph_every) {
    uint32_t state = seed * 2654435761u + 99;
    scene_pose *pose = array_of(1, sizeof *pose);
    pose->palette = array_of(bind->bone_count, 12 * sizeof(float));
    pose->rotations = array_of(bind->bone_count, 4 * sizeof(float));
    pose->duals = array_of(bind->bone_count, 4 * sizeof(float));
    pose->deltas = array_of(bind->block_count, 3 * DFM_LANES * sizeof(float));
    pose->stamps = array_of(bind->block_count, sizeof *pose->stamps);
    pose->touched = array_of(bind->block_count, sizeof *pose->touched);
    make_bones(bind, pose, &state);
    make_deltas(bind, pose, morph_every, &state);
    return pose;
}

void scene_pose_free(scene_pose *pose) {
    free(pose->palette);
    free(pose->rotations);
    free(pose->duals);
    free(pose->deltas);
    free(pose->stamps);
    free(pose->touched);
    free(pose);
}

/* --- frames ----------------------------------------------------------------------------------- */

dfm_skin_job scene_job(const scene_pose *pose, float *frame) {
    return (dfm_skin_job){.palette = pose->palette,
                          .rotations = pose->rotations,
                          .duals = pose->duals,
                          .deltas = {.deltas = pose->deltas,
                                     .stamps = pose->stamps,
                                     .generation = pose->generation,
                                     .touched = pose->touched,
                                     .touched_count = pose->touched_count},
                          .component = DFM_COMPONENT_F32,
                          .position = {frame, 24},
                          .normal = {frame + 3, 24}};
}

size_t scene_frame_floats(const dfm_skin_bind *bind) {
    return (size_t)bind->vertex_count * 6;
}

float *scene_expected(const dfm_skin_bind *bind, const scene_pose *pose) {
    float *frame = array_of(scene_frame_floats(bind), sizeof *frame);
    bool morphed = pose->touched_count > 0;
    dfm_skin_scalar(&(dfm_skin_args){.blocks = bind->blocks,
                                     .data = bind->data,
                                     .vertex = bind->vertex,
                                     .block_count = bind->block_count,
                                     .palette = pose->palette,
                                     .rotations = pose->rotations,
                                     .duals = pose->duals,
                                     .deltas = morphed ? pose->deltas : NULL,
                                     .delta_stamps = pose->stamps,
                                     .generation = pose->generation,
                                     .component = DFM_COMPONENT_F32,
                                     .position = {frame, 24},
                                     .normal = {frame + 3, 24}});
    return frame;
}

static float distance(const float *a, const float *b) {
    return sqrtf((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) +
                 (a[2] - b[2]) * (a[2] - b[2]));
}

/* Check writes a message for every assertion: look first, assert only what is wrong. */
void scene_compare(const float *frame, const float *expected, uint32_t vertex_count) {
    static const float origin[3];
    for (size_t v = 0; v < vertex_count; v++) {
        const float *is = frame + 6 * v, *should = expected + 6 * v;
        float dp = distance(is, should), dn = distance(is + 3, should + 3);
        float scale = fmaxf(1, distance(should, origin));
        if (!(dp <= 1e-5f * scale) || !(dn <= 1e-4f)) /* a NaN too */
            ck_abort_msg("vertex %zu: position off by %g of %g, normal by %g", v, (double)dp,
                         (double)scale, (double)dn);
    }
}
