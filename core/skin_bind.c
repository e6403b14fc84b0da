#include "core/skin_bind.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 4 };

/* A sum of weights at or under this is no sum to divide by. */
static const double MIN_WEIGHT_SUM = 1e-6;
/* Sums this near to 1 are rounding of the file's floats, and not reported. */
static const double WEIGHT_SUM_ROUNDING = 1e-5;

/* Rows of a block by kind, see kernels/skin_layout.h. */
static const uint8_t rows_of_kind[DFM_KIND_COUNT] = {6, 6, 7, 10, 16, 10};

/* The influences of a vertex while its weights are made clean. */
typedef struct influences {
    int count;
    uint32_t bone[MAX_SLOTS];
    double weight[MAX_SLOTS];
} influences;

/* A clean vertex; zero before it is filled in. Its key is what a block has in common: kind, then
 * bones. */
typedef struct bound_vertex {
    uint32_t key[1 + MAX_SLOTS];
    float weight[MAX_SLOTS];
    uint32_t sdef_row; /* of dfm_pmx_vertices.sdef */
} bound_vertex;

/* What one vertex is cleaned with. */
typedef struct cleaner {
    const dfm_pmx_vertices *vertices;
    uint32_t bone_count;
    bool normalized, sdef;
    dfm_warnings *warnings;
    uint32_t vertex;
    uint32_t sdef_row; /* of this vertex, or the next SDEF one */
} cleaner;

/* `code` is static. */
static void repaired(const cleaner *c, const char *code, const char *message) {
    dfm_warn(c->warnings, code, c->vertex, "%s", message);
}

/* --- weights (SEMANTICS 2, "Weights that are not clean") ------------------------------------- */

static bool has_pair(uint8_t type) {
    return type == DFM_WEIGHT_BDEF2 || type == DFM_WEIGHT_SDEF;
}

static int slot_count(uint8_t type) {
    return type == DFM_WEIGHT_BDEF1 ? 1 : has_pair(type) ? 2 : MAX_SLOTS;
}

/* The weights as the type reads them. What is not finite counts as 0 where weights are raw; where
 * they are normalized it spoils the sum, as it should. */
static void take_weights(const cleaner *c, uint8_t type, double weight[MAX_SLOTS]) {
    const float *stored = c->vertices->weight[c->vertex];
    bool finite = true;
    for (int i = 0; i < (has_pair(type) ? 1 : slot_count(type)); i++) {
        weight[i] = stored[i];
        finite &= isfinite(stored[i]);
    }
    if (has_pair(type) && c->normalized && finite && !(weight[0] >= 0 && weight[0] <= 1)) {
        repaired(c, "weights-clamped", "BDEF2 and SDEF weights outside 0 to 1 are clamped");
        weight[0] = weight[0] < 0 ? 0 : 1;
    }
    if (has_pair(type))
        weight[1] = 1 - weight[0];
    if (finite || c->normalized)
        return;
    repaired(c, "weights-not-finite", "weights that are not finite count as 0");
    for (int i = 0; i < slot_count(type); i++)
        weight[i] = isfinite(weight[i]) ? weight[i] : 0;
}

static void put_influence(influences *list, int at, uint32_t bone, double weight) {
    list->bone[at] = bone;
    list->weight[at] = weight;
}

/* Adds an influence, or its weight to the one that has this bone already. */
static void add_influence(influences *list, uint32_t bone, double weight) {
    for (int i = 0; i < list->count; i++) {
        if (list->bone[i] == bone) {
            list->weight[i] += weight;
            return;
        }
    }
    put_influence(list, list->count++, bone, weight);
}

/* Influences of valid bones with a weight. Returns the first valid bone, whatever it weighs, or -1.
 */
static int64_t take_influences(const cleaner *c, uint8_t type, influences *list) {
    double weight[MAX_SLOTS] = {0};
    take_weights(c, type, weight);
    const int32_t *bone = c->vertices->bone[c->vertex];
    bool invalid = false;
    int64_t first_valid = -1;
    list->count = 0;
    for (int i = 0; i < slot_count(type); i++) {
        bool valid = bone[i] >= 0 && (uint32_t)bone[i] < c->bone_count;
        if (valid && first_valid < 0)
            first_valid = bone[i];
        if (valid && weight[i] != 0)
            add_influence(list, (uint32_t)bone[i], weight[i]);
        invalid |= !valid && weight[i] != 0;
    }
    if (invalid)
        repaired(c, "weights-bone-invalid", "weights of bones that do not exist are dropped");
    return first_valid;
}

static void normalize_weights(const cleaner *c, influences *list, uint32_t first_valid) {
    double sum = 0;
    for (int i = 0; i < list->count; i++)
        sum += list->weight[i];
    if (!(sum > MIN_WEIGHT_SUM && isfinite(sum))) {
        repaired(c, "weights-empty", "weights without a sum: the first bone has weight 1");
        list->count = 1;
        put_influence(list, 0, first_valid, 1);
        return;
    }
    if (fabs(sum - 1) > WEIGHT_SUM_ROUNDING)
        repaired(c, "weights-normalized", "weights that do not sum to 1 are divided by their sum");
    for (int i = 0; i < list->count; i++)
        list->weight[i] /= sum;
}

/* --- from weights to a kind ------------------------------------------------------------------ */

/* Weights may cancel out, and be so small that a float does not hold them. */
static void drop_zero_weights(influences *list) {
    int kept = 0;
    for (int i = 0; i < list->count; i++) {
        if ((float)list->weight[i] != 0)
            put_influence(list, kept++, list->bone[i], list->weight[i]);
    }
    list->count = kept;
}

/* The linear sum does not depend on the order: one order for all makes fewer, fuller blocks. */
static void sort_by_bone(influences *list) {
    for (int i = 1; i < list->count; i++) {
        uint32_t bone = list->bone[i];
        double weight = list->weight[i];
        int at = i;
        for (; at > 0 && list->bone[at - 1] > bone; at--)
            put_influence(list, at, list->bone[at - 1], list->weight[at - 1]);
        put_influence(list, at, bone, weight);
    }
}

/* Slots that are left have weight 0 and the first bone, so that a kernel meets no other. */
static void set_explicit(bound_vertex *bound, uint32_t kind, const influences *list) {
    bound->key[0] = kind;
    for (int i = 0; i < MAX_SLOTS; i++) {
        bool used = i < list->count;
        bound->key[1 + i] = list->bone[used ? i : 0];
        bound->weight[i] = used ? (float)list->weight[i] : 0;
    }
}

static void set_pair(bound_vertex *bound, uint32_t kind, const influences *list) {
    bound->key[0] = kind;
    bound->key[1] = list->bone[0];
    bound->key[2] = list->bone[1];
    bound->weight[0] = (float)list->weight[0];
}

static void set_single(bound_vertex *bound, const influences *list) {
    bound->key[0] = DFM_KIND_BDEF1;
    bound->key[1] = list->bone[0];
}

/* The cheapest kind that says the same: BDEF1 and BDEF2 imply that weights sum to 1. */
static void set_linear(bound_vertex *bound, influences *list, uint32_t first_valid) {
    sort_by_bone(list);
    if (list->count == 1 && (float)list->weight[0] == 1) {
        set_single(bound, list);
    } else if (list->count == 2 && fabs(list->weight[0] + list->weight[1] - 1) <= 1e-7) {
        set_pair(bound, DFM_KIND_BDEF2, list);
    } else {
        if (list->count == 0) /* raw, all weights 0: the origin */
            list->bone[0] = first_valid;
        set_explicit(bound, DFM_KIND_BDEF4, list);
    }
}

/* Half-points (C + R0') / 2 and (C + R1') / 2 of an SDEF vertex, where w0 R0' + w1 R1' = C. */
static void half_points(float half[2][3], const float (*sdef)[3], double w0) {
    for (int k = 0; k < 3; k++) {
        double c = sdef[0][k], r0 = sdef[1][k], r1 = sdef[2][k];
        double middle = w0 * r0 + (1 - w0) * r1;
        half[0][k] = (float)((c + (c + r0 - middle)) * 0.5);
        half[1][k] = (float)((c + (c + r1 - middle)) * 0.5);
    }
}

static bool all_finite(const float *values, int count) {
    bool finite = true;
    for (int i = 0; i < count; i++)
        finite &= isfinite(values[i]);
    return finite;
}

/* Whether C, R0, R1 make an SDEF vertex. */
static bool is_spherical(const cleaner *c, double w0) {
    const float(*sdef)[3] = c->vertices->sdef[c->sdef_row];
    float half[2][3];
    half_points(half, sdef, w0);
    if (!all_finite(sdef[0], 9) || !all_finite(half[0], 6)) {
        repaired(c, "sdef-not-finite", "SDEF vertices whose C, R0, R1 are not finite are BDEF2");
        return false;
    }
    bool all_zero = true;
    for (int i = 0; i < 9; i++)
        all_zero &= sdef[i / 3][i % 3] == 0;
    if (all_zero)
        repaired(c, "sdef-zero-centre", "SDEF vertices whose C, R0, R1 are all zero (valid)");
    return true;
}

static void clean_vertex(const cleaner *c, uint8_t type, bound_vertex *bound) {
    influences list;
    int64_t first_valid = take_influences(c, type, &list);
    if (first_valid < 0) {
        repaired(c, "vertex-at-rest", "vertices without a bone that exists stay at rest");
        bound->key[0] = DFM_KIND_REST;
        return;
    }
    if (c->normalized)
        normalize_weights(c, &list, (uint32_t)first_valid);
    drop_zero_weights(&list);
    if (type == DFM_WEIGHT_QDEF && list.count > 0) {
        set_explicit(bound, DFM_KIND_QDEF, &list);
    } else if (type == DFM_WEIGHT_SDEF && c->sdef && list.count == 2 &&
               is_spherical(c, list.weight[0])) {
        /* Two bones are left only where both are valid and differ: the weights still sum to 1. */
        set_pair(bound, DFM_KIND_SDEF, &list);
        bound->sdef_row = c->sdef_row;
    } else {
        set_linear(bound, &list, (uint32_t)first_valid);
    }
}

static void clean_vertices(cleaner *c, bound_vertex *bound) {
    for (c->vertex = 0; c->vertex < c->vertices->count; c->vertex++) {
        uint8_t type = c->vertices->weight_type[c->vertex];
        clean_vertex(c, type, &bound[c->vertex]);
        c->sdef_row += type == DFM_WEIGHT_SDEF;
    }
}

/* --- sorting by key: stable, linear time ----------------------------------------------------- */

enum { DIGIT_BITS = 11, DIGIT_VALUES = 1 << DIGIT_BITS };

typedef struct sorter {
    const bound_vertex *bound;
    uint32_t count;
    uint32_t *order, *spare; /* vertices, `count` each; `order` is the result */
} sorter;

/* Sorts by one digit of one word of the key. */
static void sort_by_digit(sorter *s, int word, unsigned shift) {
    uint32_t next[DIGIT_VALUES] = {0};
    for (uint32_t i = 0; i < s->count; i++)
        next[s->bound[i].key[word] >> shift & (DIGIT_VALUES - 1)]++;
    uint32_t first = 0;
    for (int i = 0; i < DIGIT_VALUES; i++) {
        uint32_t here = next[i];
        next[i] = first;
        if (here == s->count) /* all alike */
            return;
        first += here;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t vertex = s->order[i];
        s->spare[next[s->bound[vertex].key[word] >> shift & (DIGIT_VALUES - 1)]++] = vertex;
    }
    uint32_t *sorted = s->spare;
    s->spare = s->order;
    s->order = sorted;
}

static void sort_by_key(sorter *s, uint32_t bone_count) {
    for (uint32_t i = 0; i < s->count; i++)
        s->order[i] = i;
    for (int word = MAX_SLOTS; word >= 0; word--) {
        uint32_t largest = word > 0 ? bone_count : DFM_KIND_COUNT;
        for (unsigned shift = 0; shift < 32 && largest >> shift > 0; shift += DIGIT_BITS)
            sort_by_digit(s, word, shift);
    }
}

/* --- blocks ---------------------------------------------------------------------------------- */

static bool same_key(const bound_vertex *a, const bound_vertex *b) {
    return memcmp(a->key, b->key, sizeof a->key) == 0;
}

/* How many vertices the block takes that begins at order[at]. */
static uint32_t block_lanes(const sorter *s, uint32_t at) {
    uint32_t lanes = 1;
    while (lanes < DFM_LANES && at + lanes < s->count &&
           same_key(&s->bound[s->order[at]], &s->bound[s->order[at + lanes]]))
        lanes++;
    return lanes;
}

static void put(float *rows, int row, uint32_t lane, const float *values, int count) {
    for (int k = 0; k < count; k++)
        rows[(size_t)(row + k) * DFM_LANES + lane] = values[k];
}

/* Unit length, so that the length in the file never matters; 0 where it has no direction. */
static void put_normal(float *rows, uint32_t lane, const float normal[3]) {
    double x = normal[0], y = normal[1], z = normal[2];
    double length = sqrt(x * x + y * y + z * z);
    bool proper = isfinite(length) && length > 0;
    float unit[3] = {0, 0, 0};
    for (int k = 0; proper && k < 3; k++)
        unit[k] = (float)(normal[k] / length);
    put(rows, 3, lane, unit, 3);
}

static void put_vertex(const dfm_pmx_vertices *vertices, uint32_t vertex, const bound_vertex *bound,
                       float *rows, uint32_t lane) {
    put(rows, 0, lane, vertices->position[vertex], 3);
    put_normal(rows, lane, vertices->normal[vertex]);
    uint32_t kind = bound->key[0];
    if (kind == DFM_KIND_BDEF4 || kind == DFM_KIND_QDEF)
        put(rows, 6, lane, bound->weight, MAX_SLOTS);
    if (kind == DFM_KIND_BDEF2 || kind == DFM_KIND_SDEF)
        put(rows, 6, lane, bound->weight, 1);
    if (kind == DFM_KIND_SDEF) {
        float half[2][3];
        const float(*sdef)[3] = vertices->sdef[bound->sdef_row];
        /* With the weight that the kernel sees, so that the rest pose stays the rest pose. */
        half_points(half, sdef, bound->weight[0]);
        put(rows, 7, lane, sdef[0], 3);
        put(rows, 10, lane, half[0], 6);
    }
}

/* Counts blocks and rows; false: more than their 32-bit numbers hold. */
static bool measure_blocks(dfm_skin_bind *bind, const sorter *s) {
    uint64_t blocks = 0, rows = 0;
    for (uint32_t at = 0; at < s->count; at += block_lanes(s, at)) {
        rows += rows_of_kind[s->bound[s->order[at]].key[0]];
        blocks++;
    }
    bind->block_count = (uint32_t)blocks;
    bind->row_count = rows;
    return rows <= UINT32_MAX && blocks <= UINT32_MAX / DFM_LANES;
}

static bool allocate_blocks(dfm_skin_bind *bind) {
    dfm_arena *arena = &bind->arena;
    bind->blocks = dfm_arena_alloc(arena, bind->block_count, sizeof *bind->blocks);
    bind->data = dfm_arena_alloc(arena, bind->row_count, DFM_LANES * sizeof *bind->data);
    bind->vertex = dfm_arena_alloc(arena, bind->block_count, DFM_LANES * sizeof *bind->vertex);
    bind->slot = dfm_arena_alloc(arena, bind->vertex_count, sizeof *bind->slot);
    return bind->blocks && bind->data && bind->vertex && bind->slot;
}

static void fill_block(dfm_skin_bind *bind, const sorter *s, uint32_t index, uint32_t at,
                       dfm_skin_block *block) {
    float *rows = bind->data + (size_t)block->row * DFM_LANES;
    for (uint32_t lane = 0; lane < DFM_LANES; lane++) {
        uint32_t used = lane < block->lane_count ? lane : block->lane_count - 1;
        uint32_t vertex = s->order[at + used];
        put_vertex(&bind->model->pmx.vertices, vertex, &s->bound[vertex], rows, lane);
        bind->vertex[index * DFM_LANES + lane] = vertex;
        bind->slot[vertex] = index * DFM_LANES + used;
    }
}

static void fill_blocks(dfm_skin_bind *bind, const sorter *s) {
    uint32_t at = 0, row = 0;
    for (uint32_t i = 0; i < bind->block_count; i++) {
        const uint32_t *key = s->bound[s->order[at]].key;
        dfm_skin_block *block = &bind->blocks[i];
        *block = (dfm_skin_block){
            .kind = key[0], .lane_count = block_lanes(s, at), .row = row, .bone = {0}};
        memcpy(block->bone, key + 1, sizeof block->bone);
        fill_block(bind, s, i, at, block);
        bind->has_sdef |= block->kind == DFM_KIND_SDEF;
        bind->has_qdef |= block->kind == DFM_KIND_QDEF;
        at += block->lane_count;
        row += rows_of_kind[block->kind];
    }
}

/* --- the whole ------------------------------------------------------------------------------- */

/* Morphs are folded in by slot at pose time; what names no vertex is left out there. */
static void report_invalid_offsets(const dfm_pmx *pmx, dfm_warnings *warnings) {
    for (uint32_t m = 0; m < pmx->morph_count; m++) {
        const dfm_pmx_morph *morph = &pmx->morphs[m];
        bool moves = morph->type == DFM_MORPH_VERTEX;
        if (!moves && !(morph->type >= DFM_MORPH_UV && morph->type <= DFM_MORPH_UV4))
            continue;
        for (uint32_t i = 0; i < morph->count; i++) {
            uint32_t vertex =
                moves ? morph->offsets.vertices[i].vertex : morph->offsets.uvs[i].vertex;
            if (vertex >= pmx->vertices.count)
                dfm_warn(warnings, "morph-offset-invalid", m,
                         "morph %u, offset %u: no vertex %u; dropped (%s)", m, i, vertex,
                         morph->name.data);
        }
    }
}

static bool fill(dfm_skin_bind *bind, cleaner *c, bound_vertex *bound, uint32_t *order) {
    clean_vertices(c, bound);
    sorter s = {.bound = bound,
                .count = bind->vertex_count,
                .order = order,
                .spare = order + bind->vertex_count};
    sort_by_key(&s, bind->bone_count);
    if (!measure_blocks(bind, &s) || !allocate_blocks(bind))
        return false;
    fill_blocks(bind, &s);
    return true;
}

dfm_status dfm_skin_bind_create(const dfm_model *model, dfm_weights_mode weights, bool sdef,
                                dfm_skin_bind **bind, dfm_error *error) {
    const dfm_pmx *pmx = &model->pmx;
    *bind = NULL;
    dfm_skin_bind *made = calloc(1, sizeof *made);
    bound_vertex *bound = calloc((size_t)pmx->vertices.count + 1, sizeof *bound);
    uint32_t *order = calloc((size_t)pmx->vertices.count + 1, 2 * sizeof *order);
    bool good = made && bound && order;
    if (good) {
        made->model = model;
        made->vertex_count = pmx->vertices.count;
        made->bone_count = pmx->bone_count;
        cleaner c = {.vertices = &pmx->vertices,
                     .bone_count = pmx->bone_count,
                     .normalized = weights == DFM_WEIGHTS_NORMALIZED,
                     .sdef = sdef,
                     .warnings = &made->warnings};
        report_invalid_offsets(pmx, &made->warnings);
        good = fill(made, &c, bound, order);
    }
    free(bound);
    free(order);
    if (!good) {
        dfm_skin_bind_free(made);
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, "vertices", -1, -1,
                        "no memory for the bind data of %u vertices", pmx->vertices.count);
    }
    *bind = made;
    return DFM_OK;
}

void dfm_skin_bind_free(dfm_skin_bind *bind) {
    if (!bind)
        return;
    dfm_arena_free(&bind->arena);
    free(bind);
}

size_t dfm_skin_bind_resident_bytes(const dfm_skin_bind *bind) {
    return sizeof *bind + bind->arena.bytes;
}
