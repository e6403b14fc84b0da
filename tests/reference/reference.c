#include "tests/reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- vectors, quaternions x y z w, matrices 3x4 row-major ------------------------------------ */

typedef struct vec {
    double x, y, z;
} vec;
typedef struct quat {
    double x, y, z, w;
} quat;

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (!memory) {
        fprintf(stderr, "reference: out of memory\n");
        exit(1);
    }
    return memory;
}

static vec vec_of(const float *f) {
    return (vec){(double)f[0], (double)f[1], (double)f[2]};
}

static vec plus(vec a, vec b) {
    return (vec){a.x + b.x, a.y + b.y, a.z + b.z};
}

static vec minus(vec a, vec b) {
    return (vec){a.x - b.x, a.y - b.y, a.z - b.z};
}

static vec times(double s, vec a) {
    return (vec){s * a.x, s * a.y, s * a.z};
}

static double length(vec a) {
    return sqrt(a.x * a.x + a.y * a.y + a.z * a.z);
}

static quat qplus(quat a, quat b) {
    return (quat){a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

static quat qtimes(double s, quat a) {
    return (quat){s * a.x, s * a.y, s * a.z, s * a.w};
}

static double qdot(quat a, quat b) {
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

static quat qunit(quat a) {
    double norm = sqrt(qdot(a, a));
    return norm > 0 ? qtimes(1 / norm, a) : (quat){0, 0, 0, 1};
}

static quat qmul(quat a, quat b) {
    return (quat){a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
                  a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
                  a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
                  a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z};
}

static quat conjugate(quat a) {
    return (quat){-a.x, -a.y, -a.z, a.w};
}

/* q v q* */
static vec turn(quat q, vec v) {
    quat r = qmul(qmul(q, (quat){v.x, v.y, v.z, 0}), conjugate(q));
    return (vec){r.x, r.y, r.z};
}

static vec transform(const double m[12], vec p) {
    return (vec){m[0] * p.x + m[1] * p.y + m[2] * p.z + m[3],
                 m[4] * p.x + m[5] * p.y + m[6] * p.z + m[7],
                 m[8] * p.x + m[9] * p.y + m[10] * p.z + m[11]};
}

static vec transform_direction(const double m[12], vec n) {
    return minus(transform(m, n), (vec){m[3], m[7], m[11]});
}

/* The rotation of a matrix: its axes made square, x first, then the largest of the four ways to
 * read a quaternion off. */
static quat rotation_of(const double m[12]) {
    vec x = {m[0], m[4], m[8]}, y = {m[1], m[5], m[9]};
    x = times(1 / length(x), x);
    y = minus(y, times(x.x * y.x + x.y * y.y + x.z * y.z, x));
    y = times(1 / length(y), y);
    vec z = {x.y * y.z - x.z * y.y, x.z * y.x - x.x * y.z, x.x * y.y - x.y * y.x};
    quat candidates[4] = {
        {1 + x.x - y.y - z.z, x.y + y.x, x.z + z.x, y.z - z.y},
        {x.y + y.x, 1 - x.x + y.y - z.z, y.z + z.y, z.x - x.z},
        {x.z + z.x, y.z + z.y, 1 - x.x - y.y + z.z, x.y - y.x},
        {y.z - z.y, z.x - x.z, x.y - y.x, 1 + x.x + y.y + z.z},
    };
    int best = 0;
    for (int i = 1; i < 4; i++) {
        if (qdot(candidates[i], candidates[i]) > qdot(candidates[best], candidates[best]))
            best = i;
    }
    return qunit(candidates[best]);
}

/* Short way; the nearly equal by a normalised lerp (SEMANTICS 2). */
static quat slerp(quat a, quat b, double t, bool *undecided) {
    double dot = qdot(a, b);
    *undecided = *undecided || fabs(dot) < 1e-3;
    if (dot < 0) {
        b = qtimes(-1, b);
        dot = -dot;
    }
    if (dot > 0.9995)
        return qunit(qplus(qtimes(1 - t, a), qtimes(t, b)));
    double angle = acos(dot);
    return qplus(qtimes(sin((1 - t) * angle) / sin(angle), a),
                 qtimes(sin(t * angle) / sin(angle), b));
}

/* --- morphs ---------------------------------------------------------------------------------- */

enum { MAX_DEPTH = 16 };

static uint32_t child_count(const dfm_pmx *pmx, uint32_t morph) {
    return pmx->morphs[morph].type == DFM_MORPH_GROUP ? pmx->morphs[morph].count : 0;
}

static bool expands(const dfm_pmx *pmx, uint32_t morph, uint32_t depth) {
    bool good = depth < MAX_DEPTH && pmx->morphs[morph].type != DFM_MORPH_FLIP;
    for (uint32_t i = 0; good && i < child_count(pmx, morph); i++) {
        int32_t child = pmx->morphs[morph].offsets.children[i].morph;
        if (child >= 0 && (uint32_t)child < pmx->morph_count)
            good = expands(pmx, (uint32_t)child, depth + 1);
    }
    return good;
}

bool reference_expands(const dfm_pmx *pmx) {
    bool good = true;
    for (uint32_t i = 0; i < pmx->morph_count; i++)
        good = good && expands(pmx, i, 0);
    return good;
}

static void hand_on(const dfm_pmx *pmx, uint32_t morph, double weight, uint32_t depth,
                    double *sum) {
    if (pmx->morphs[morph].type != DFM_MORPH_GROUP) {
        sum[morph] += weight;
        return;
    }
    for (uint32_t i = 0; depth < MAX_DEPTH && i < pmx->morphs[morph].count; i++) {
        const dfm_pmx_child_morph *child = &pmx->morphs[morph].offsets.children[i];
        if (child->morph >= 0 && (uint32_t)child->morph < pmx->morph_count)
            hand_on(pmx, (uint32_t)child->morph, weight * (double)child->weight, depth + 1, sum);
    }
}

double *reference_weights(const dfm_pmx *pmx, const dfm_pose *pose) {
    double *sum = allocate(pmx->morph_count, sizeof *sum);
    for (uint32_t i = 0; i < pmx->morph_count; i++)
        hand_on(pmx, i, pose->morph_weights[i], 0, sum);
    return sum;
}

double (*reference_morphed(const dfm_pmx *pmx, const double *weights))[3] {
    double(*p)[3] = allocate(pmx->vertices.count, sizeof *p);
    for (uint32_t v = 0; v < pmx->vertices.count; v++) {
        for (int k = 0; k < 3; k++)
            p[v][k] = (double)pmx->vertices.position[v][k];
    }
    for (uint32_t m = 0; m < pmx->morph_count; m++) {
        const dfm_pmx_morph *morph = &pmx->morphs[m];
        for (uint32_t i = 0; morph->type == DFM_MORPH_VERTEX && i < morph->count; i++) {
            const dfm_pmx_vertex_offset *offset = &morph->offsets.vertices[i];
            for (int k = 0; offset->vertex < pmx->vertices.count && k < 3; k++)
                p[offset->vertex][k] += weights[m] * (double)offset->offset[k];
        }
    }
    return p;
}

double (*reference_uvs(const dfm_pmx *pmx, const double *weights, uint32_t set))[4] {
    double(*uv)[4] = allocate(pmx->vertices.count, sizeof *uv);
    for (uint32_t v = 0; v < pmx->vertices.count; v++) {
        const float *bind = set ? pmx->vertices.additional_uv[set - 1][v] : pmx->vertices.uv[v];
        for (int k = 0; k < (set ? 4 : 2); k++)
            uv[v][k] = (double)bind[k];
    }
    for (uint32_t m = 0; m < pmx->morph_count; m++) {
        const dfm_pmx_morph *morph = &pmx->morphs[m];
        for (uint32_t i = 0; morph->type == DFM_MORPH_UV + set && i < morph->count; i++) {
            const dfm_pmx_uv_offset *offset = &morph->offsets.uvs[i];
            for (int k = 0; offset->vertex < pmx->vertices.count && k < 4; k++)
                uv[offset->vertex][k] += weights[m] * (double)offset->offset[k];
        }
    }
    return uv;
}

/* --- bones ----------------------------------------------------------------------------------- */

/* The angle of the rotation, the short way, scaled by w. */
static quat scaled_rotation(const float r[4], double w) {
    quat q = qunit((quat){(double)r[0], (double)r[1], (double)r[2], (double)r[3]});
    if (q.w < 0)
        q = qtimes(-1, q);
    double sine = length((vec){q.x, q.y, q.z}), half = atan2(sine, q.w) * w;
    double scale = sine > 0 ? sin(half) / sine : 0;
    return (quat){q.x * scale, q.y * scale, q.z * scale, cos(half)};
}

typedef struct solver {
    const dfm_pmx *pmx;
    const dfm_pose *pose;
    const double *weights;
    quat *turns; /* global */
    vec *places;
    bool *solved;
} solver;

static void local_of(const solver *s, uint32_t bone, quat *rotation, vec *offset) {
    const dfm_bone_pose *pose = &s->pose->bones[bone];
    *rotation = (quat){pose->rotation[0], pose->rotation[1], pose->rotation[2], pose->rotation[3]};
    *offset = (vec){pose->translation[0], pose->translation[1], pose->translation[2]};
    for (uint32_t m = 0; m < s->pmx->morph_count; m++) {
        const dfm_pmx_morph *morph = &s->pmx->morphs[m];
        for (uint32_t i = 0; morph->type == DFM_MORPH_BONE && i < morph->count; i++) {
            const dfm_pmx_bone_offset *moved = &morph->offsets.bones[i];
            if (moved->bone != (int32_t)bone)
                continue;
            *offset = plus(*offset, times(s->weights[m], vec_of(moved->translation)));
            *rotation = qmul(*rotation, scaled_rotation(moved->rotation, s->weights[m]));
        }
    }
}

/* Parents may come after their children: each bone asks for its parent first. */
static void solve(solver *s, uint32_t bone) {
    if (s->solved[bone])
        return;
    s->solved[bone] = true;
    const dfm_pmx_bone *b = &s->pmx->bones[bone];
    quat rotation;
    vec offset, rest = vec_of(b->position);
    local_of(s, bone, &rotation, &offset);
    if (b->parent < 0 || (uint32_t)b->parent >= s->pmx->bone_count) {
        s->turns[bone] = rotation;
        s->places[bone] = plus(rest, offset);
        return;
    }
    uint32_t parent = (uint32_t)b->parent;
    solve(s, parent);
    vec arm = plus(minus(rest, vec_of(s->pmx->bones[parent].position)), offset);
    s->turns[bone] = qmul(s->turns[parent], rotation);
    s->places[bone] = plus(s->places[parent], turn(s->turns[parent], arm));
}

static void matrix_of(double m[12], quat q, vec place) {
    const vec columns[4] = {turn(q, (vec){1, 0, 0}), turn(q, (vec){0, 1, 0}),
                            turn(q, (vec){0, 0, 1}), place};
    for (int c = 0; c < 4; c++) {
        m[c] = columns[c].x;
        m[4 + c] = columns[c].y;
        m[8 + c] = columns[c].z;
    }
}

double (*reference_globals(const dfm_pmx *pmx, const dfm_pose *pose, const double *weights))[12] {
    uint32_t count = pmx->bone_count;
    double(*globals)[12] = allocate(count, sizeof *globals);
    if (pose->has_matrices) {
        memcpy(globals, pose->matrices, count * sizeof *globals);
        return globals;
    }
    solver s = {.pmx = pmx,
                .pose = pose,
                .weights = weights,
                .turns = allocate(count, sizeof *s.turns),
                .places = allocate(count, sizeof *s.places),
                .solved = allocate(count, sizeof *s.solved)};
    for (uint32_t i = 0; i < count; i++) {
        solve(&s, i);
        matrix_of(globals[i], s.turns[i], s.places[i]);
    }
    free(s.turns);
    free(s.places);
    free(s.solved);
    return globals;
}

bool reference_solves(const dfm_pmx *pmx) {
    uint32_t others = DFM_BONE_APPEND_ROTATION | DFM_BONE_APPEND_TRANSLATION | DFM_BONE_FIXED_AXIS;
    for (uint32_t i = 0; i < pmx->bone_count; i++) {
        uint32_t above = i, steps = 0;
        while (pmx->bones[above].parent >= 0 &&
               (uint32_t)pmx->bones[above].parent < pmx->bone_count && steps++ < pmx->bone_count)
            above = (uint32_t)pmx->bones[above].parent;
        if ((pmx->bones[i].flags & others) || steps > pmx->bone_count)
            return false;
    }
    return true;
}

/* --- weights --------------------------------------------------------------------------------- */

typedef struct slot {
    uint32_t bone;
    double weight;
} slot;

typedef struct slots {
    bool rest; /* no bone that exists */
    int count;
    slot at[4];
} slots;

static bool exists(const dfm_pmx *pmx, int32_t bone) {
    return bone >= 0 && (uint32_t)bone < pmx->bone_count;
}

static int stored_slots(uint8_t type) {
    static const int counts[] = {1, 2, 4, 2, 4};
    return counts[type];
}

static double stored_weight(const dfm_pmx *pmx, uint32_t vertex, int i, bool raw) {
    uint8_t type = pmx->vertices.weight_type[vertex];
    const float *weight = pmx->vertices.weight[vertex];
    if (type == DFM_WEIGHT_BDEF1)
        return 1;
    if (type == DFM_WEIGHT_BDEF4 || type == DFM_WEIGHT_QDEF)
        return (double)weight[i];
    double w0 = (double)weight[0];
    if (!raw && isfinite(w0))
        w0 = w0 < 0 ? 0 : w0 > 1 ? 1 : w0;
    return i == 0 ? w0 : 1 - w0;
}

static void add(slots *s, uint32_t bone, double weight) {
    for (int i = 0; i < s->count; i++) {
        if (s->at[i].bone == bone) {
            s->at[i].weight += weight;
            return;
        }
    }
    s->at[s->count++] = (slot){bone, weight};
}

static slots clean_weights(const dfm_pmx *pmx, uint32_t vertex, bool raw) {
    slots s = {.rest = true};
    uint32_t first = 0;
    double sum = 0;
    for (int i = 0; i < stored_slots(pmx->vertices.weight_type[vertex]); i++) {
        int32_t bone = pmx->vertices.bone[vertex][i];
        double weight = stored_weight(pmx, vertex, i, raw);
        if (!exists(pmx, bone))
            continue;
        if (s.rest)
            first = (uint32_t)bone;
        s.rest = false;
        if (isfinite(weight) && weight != 0)
            add(&s, (uint32_t)bone, weight);
        sum += weight;
    }
    if (raw || s.rest)
        return s;
    if (!isfinite(sum) || sum <= 1e-6)
        return (slots){.count = 1, .at = {{first, 1}}};
    for (int i = 0; i < s.count; i++)
        s.at[i].weight /= sum;
    return s;
}

/* --- deform ---------------------------------------------------------------------------------- */

/* M = G * inverse(T(rest)). */
static void skinning_matrix(double m[12], const dfm_pmx *pmx, const double (*globals)[12],
                            uint32_t bone) {
    memcpy(m, globals[bone], 12 * sizeof *m);
    vec move = transform(m, times(-1, vec_of(pmx->bones[bone].position)));
    m[3] = move.x;
    m[7] = move.y;
    m[11] = move.z;
}

typedef struct deformed {
    vec position, normal; /* the normal of any length */
} deformed;

static deformed linear(const dfm_pmx *pmx, const double (*globals)[12], const slots *s, vec p,
                       vec n) {
    deformed sum = {{0, 0, 0}, {0, 0, 0}};
    for (int i = 0; i < s->count; i++) {
        double m[12];
        skinning_matrix(m, pmx, globals, s->at[i].bone);
        sum.position = plus(sum.position, times(s->at[i].weight, transform(m, p)));
        sum.normal = plus(sum.normal, times(s->at[i].weight, transform_direction(m, n)));
    }
    return sum;
}

/* The published community formula, its two halves apart. */
static deformed spherical(const dfm_pmx *pmx, const double (*globals)[12], const slots *s,
                          const float (*sdef)[3], vec p, vec n, bool *undecided) {
    double m0[12], m1[12], w0 = s->at[0].weight, w1 = 1 - w0;
    skinning_matrix(m0, pmx, globals, s->at[0].bone);
    skinning_matrix(m1, pmx, globals, s->at[1].bone);
    vec c = vec_of(sdef[0]), r0 = vec_of(sdef[1]), r1 = vec_of(sdef[2]);
    vec middle = plus(times(w0, r0), times(w1, r1));
    r0 = minus(plus(c, r0), middle);
    r1 = minus(plus(c, r1), middle);
    vec moved =
        plus(c, plus(times(w0, minus(transform(m0, c), c)), times(w1, minus(transform(m1, c), c))));
    vec turned = plus(times(w0, transform(m0, r0)), times(w1, transform(m1, r1)));
    vec pivot = times(0.5, plus(moved, turned));
    quat q = slerp(rotation_of(m0), rotation_of(m1), w1, undecided);
    return (deformed){plus(turn(q, minus(p, c)), pivot), turn(q, n)};
}

static deformed by_dual_quaternions(const dfm_pmx *pmx, const double (*globals)[12], const slots *s,
                                    vec p, vec n, bool *undecided) {
    int largest = 0;
    for (int i = 1; i < s->count; i++) {
        if (s->at[i].weight > s->at[largest].weight)
            largest = i;
    }
    quat reference = rotation_of(globals[s->at[largest].bone]);
    quat real = {0, 0, 0, 0}, dual = {0, 0, 0, 0};
    for (int i = 0; i < s->count; i++) {
        const double *g = globals[s->at[i].bone];
        quat q = rotation_of(g);
        vec rest = vec_of(pmx->bones[s->at[i].bone].position);
        vec move = minus((vec){g[3], g[7], g[11]}, turn(q, rest));
        quat d = qtimes(0.5, qmul((quat){move.x, move.y, move.z, 0}, q));
        double side = qdot(q, reference) < 0 ? -1 : 1;
        *undecided = *undecided || fabs(qdot(q, reference)) < 1e-3;
        real = qplus(real, qtimes(side * s->at[i].weight, q));
        dual = qplus(dual, qtimes(side * s->at[i].weight, d));
    }
    double norm = sqrt(qdot(real, real));
    *undecided = *undecided || norm < 1e-2;
    if (norm < 1e-6)
        return linear(pmx, globals, s, p, n);
    real = qtimes(1 / norm, real);
    dual = qtimes(2 / norm, dual);
    quat move = qmul(dual, conjugate(real));
    return (deformed){plus(turn(real, p), (vec){move.x, move.y, move.z}), turn(real, n)};
}

static bool all_finite(const float (*sdef)[3]) {
    double sum = 0;
    for (int i = 0; i < 9; i++)
        sum += 0 * (double)sdef[i / 3][i % 3];
    return sum == 0;
}

static vec bind_normal(const float *normal) {
    vec n = vec_of(normal);
    double size = length(n);
    return isfinite(size) && size > 0 ? times(1 / size, n) : (vec){0, 0, 0};
}

static reference_vertex finish(deformed d, bool undecided) {
    double size = length(d.normal);
    vec n = size > 0 ? times(1 / size, d.normal) : (vec){0, 0, 0};
    return (reference_vertex){.position = {d.position.x, d.position.y, d.position.z},
                              .normal = {n.x, n.y, n.z},
                              .undecided = undecided,
                              .normal_undecided = size > 0 && size < 1e-2};
}

reference_vertex *reference_deform(const dfm_pmx *pmx, const double (*globals)[12],
                                   const double *weights, reference_settings settings) {
    const dfm_pmx_vertices *vertices = &pmx->vertices;
    reference_vertex *result = allocate(vertices->count, sizeof *result);
    double(*morphed)[3] = reference_morphed(pmx, weights);
    uint32_t sdef_row = 0;
    for (uint32_t v = 0; v < vertices->count; v++) {
        uint8_t type = vertices->weight_type[v];
        const float(*sdef)[3] = NULL;
        if (type == DFM_WEIGHT_SDEF)
            sdef = (const float(*)[3])vertices->sdef[sdef_row++];
        vec p = {morphed[v][0], morphed[v][1], morphed[v][2]};
        vec n = bind_normal(vertices->normal[v]);
        slots s = clean_weights(pmx, v, settings.raw);
        bool undecided = false;
        deformed d = {p, n};
        if (s.rest)
            ;
        else if (type == DFM_WEIGHT_QDEF && s.count > 0)
            d = by_dual_quaternions(pmx, globals, &s, p, n, &undecided);
        else if (sdef && !settings.sdef_off && s.count == 2 && all_finite(sdef))
            d = spherical(pmx, globals, &s, sdef, p, n, &undecided);
        else
            d = linear(pmx, globals, &s, p, n);
        result[v] = finish(d, undecided);
    }
    free(morphed);
    return result;
}
