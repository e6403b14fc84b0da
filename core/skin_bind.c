#include "core/skin_bind.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A sum of weights at or under this says nothing about who moves the vertex. */
#define MIN_WEIGHT_SUM 1e-6
/* Sums this near to 1 are what single precision makes of clean weights: no repair to report. */
#define CLEAN_WEIGHT_SUM 1e-5

/* What moves a vertex, after cleaning: a block kind, valid bones and weights. */
typedef struct influence_set {
    uint32_t kind;
    uint32_t bone[4];
    float weight[4];
} influence_set;

/* Slots of a vertex that count: valid bone, weight not 0. */
typedef struct slots {
    uint32_t count;
    uint32_t bone[4];
    double weight[4];
} slots;

/* All vertices of one kind with the same bones. */
typedef struct group {
    uint32_t kind, bone[4];
    uint32_t count;
    uint32_t next; /* while filling: where the group's next vertex goes */
} group;

/* Everything that binding needs and the result does not keep. */
typedef struct binder {
    const dfm_model *model;
    const dfm_pmx_vertices *vertices;
    dfm_weights_mode weights;
    bool sdef;
    dfm_skin_bind *bind;
    influence_set *sets; /* one a vertex */
    uint32_t *group_of;  /* one a vertex: index into groups */
    group *groups;       /* at most one a vertex */
    uint32_t group_count;
    uint32_t *table; /* hash of groups: index + 1, 0 = empty */
    uint32_t table_mask;
    uint32_t *rank;   /* group indices, sorted */
    uint32_t *sorted; /* vertices, group after group */
} binder;

static uint32_t slot_count(uint8_t weight_type) {
    switch (weight_type) {
    case DFM_WEIGHT_BDEF1:
        return 1;
    case DFM_WEIGHT_BDEF4:
    case DFM_WEIGHT_QDEF:
        return 4;
    default:
        return 2;
    }
}

static bool valid_bone(const binder *b, int32_t bone) {
    return bone >= 0 && (uint32_t)bone < b->model->pmx.bone_count;
}

/* --- cleaning weights (SEMANTICS 2) ----------------------------------------------------------- */

static void add_slot(slots *s, uint32_t bone, double weight, bool merge) {
    for (uint32_t i = 0; merge && i < s->count; i++) {
        if (s->bone[i] == bone) {
            s->weight[i] += weight;
            return;
        }
    }
    s->bone[s->count] = bone;
    s->weight[s->count++] = weight;
}

static slots gather(binder *b, uint32_t vertex, const double weight[4], bool merge) {
    slots s = {0};
    bool dropped = false;
    const int32_t *bone = b->vertices->bone[vertex];
    for (uint32_t i = 0; i < slot_count(b->vertices->weight_type[vertex]); i++) {
        if (weight[i] == 0)
            continue;
        if (valid_bone(b, bone[i]))
            add_slot(&s, (uint32_t)bone[i], weight[i], merge);
        else
            dropped = true;
    }
    if (dropped)
        dfm_warn(&b->bind->warnings, "weights-bone-invalid", vertex,
                 "vertices name bones that do not exist: those slots are dropped");
    return s;
}

/* BDEF2 and SDEF store one weight: it is clamped to [0, 1], and the other is what is left. */
static void clamp_pair(binder *b, uint32_t vertex, double weight[4]) {
    uint8_t type = b->vertices->weight_type[vertex];
    if (type != DFM_WEIGHT_BDEF2 && type != DFM_WEIGHT_SDEF)
        return;
    if (weight[0] < 0 || weight[0] > 1) {
        weight[0] = weight[0] < 0 ? 0 : 1;
        dfm_warn(&b->bind->warnings, "weights-clamped", vertex,
                 "BDEF2 or SDEF weights outside 0 to 1 are clamped");
    }
    weight[1] = 1 - weight[0];
}

/* The first valid bone takes the vertex; without one it stays at rest. */
static slots fall_back(binder *b, uint32_t vertex) {
    const int32_t *bone = b->vertices->bone[vertex];
    for (uint32_t i = 0; i < slot_count(b->vertices->weight_type[vertex]); i++) {
        if (!valid_bone(b, bone[i]))
            continue;
        dfm_warn(&b->bind->warnings, "weights-empty", vertex,
                 "vertices whose weights have no usable sum follow their first valid bone");
        return (slots){.count = 1, .bone = {(uint32_t)bone[i]}, .weight = {1}};
    }
    dfm_warn(&b->bind->warnings, "vertex-at-rest", vertex,
             "vertices without any valid bone stay at rest");
    return (slots){0};
}

/* Slots whose weights sum to 1, none of them 0; no slot: the vertex stays at rest. */
static slots normalized_slots(binder *b, uint32_t vertex) {
    double weight[4];
    for (int i = 0; i < 4; i++)
        weight[i] = (double)b->vertices->weight[vertex][i];
    clamp_pair(b, vertex, weight);
    slots s = gather(b, vertex, weight, true), kept = {0};
    double sum = 0;
    for (uint32_t i = 0; i < s.count; i++)
        sum += s.weight[i];
    if (!(isfinite(sum) && sum > MIN_WEIGHT_SUM))
        return fall_back(b, vertex);
    if (fabs(sum - 1) > CLEAN_WEIGHT_SUM)
        dfm_warn(&b->bind->warnings, "weights-normalized", vertex,
                 "vertices whose weights do not sum to 1 are normalized");
    for (uint32_t i = 0; i < s.count; i++)
        if (s.weight[i] != 0)
            add_slot(&kept, s.bone[i], s.weight[i] / sum, false);
    return kept;
}

static void put_slots(influence_set *set, uint32_t kind, const slots *s) {
    set->kind = kind;
    for (uint32_t i = 0; i < s->count; i++) {
        set->bone[i] = s->bone[i];
        set->weight[i] = (float)s->weight[i];
    }
}

static influence_set clean_normalized(binder *b, uint32_t vertex) {
    static const uint32_t kinds[5] = {DFM_KIND_REST, DFM_KIND_BDEF1, DFM_KIND_BDEF2, DFM_KIND_BDEF4,
                                      DFM_KIND_BDEF4};
    influence_set set = {0};
    uint8_t type = b->vertices->weight_type[vertex];
    slots s = normalized_slots(b, vertex);
    uint32_t kind = kinds[s.count];
    if (type == DFM_WEIGHT_QDEF && s.count > 0)
        kind = DFM_KIND_QDEF;
    if (type == DFM_WEIGHT_SDEF && s.count == 2)
        kind = DFM_KIND_SDEF;
    put_slots(&set, kind, &s);
    return set;
}

/* As stored; only what cannot be read is left out. */
static influence_set clean_raw(binder *b, uint32_t vertex) {
    influence_set set = {0};
    uint8_t type = b->vertices->weight_type[vertex];
    double weight[4];
    bool any_valid = false;
    for (int i = 0; i < 4; i++) {
        weight[i] = (double)b->vertices->weight[vertex][i];
        if (!isfinite(weight[i])) {
            weight[i] = 0;
            dfm_warn(&b->bind->warnings, "weights-not-finite", vertex,
                     "weights that are not finite count as 0");
        }
    }
    for (uint32_t i = 0; i < slot_count(type); i++)
        any_valid |= valid_bone(b, b->vertices->bone[vertex][i]);
    slots s = gather(b, vertex, weight, false);
    if (!any_valid) {
        dfm_warn(&b->bind->warnings, "vertex-at-rest", vertex,
                 "vertices without any valid bone stay at rest");
        return set;
    }
    uint32_t kind = DFM_KIND_BDEF4; /* any sum, zero included */
    if (type == DFM_WEIGHT_QDEF)
        kind = s.count > 0 ? DFM_KIND_QDEF : DFM_KIND_BDEF4;
    else if (s.count == 1 && s.weight[0] == 1)
        kind = DFM_KIND_BDEF1;
    else if (s.count == 2 && type == DFM_WEIGHT_BDEF2)
        kind = DFM_KIND_BDEF2;
    else if (s.count == 2 && type == DFM_WEIGHT_SDEF)
        kind = DFM_KIND_SDEF;
    put_slots(&set, kind, &s);
    return set;
}

/* --- SDEF ------------------------------------------------------------------------------------- */

/* An SDEF vertex goes on as BDEF2 where the model says so or its data cannot be used. */
static void settle_sdef(binder *b, uint32_t vertex, const float (*row)[3], influence_set *set) {
    bool finite = true, zero = true;
    for (int i = 0; i < 9; i++) {
        float x = row[i / 3][i % 3];
        finite &= isfinite(x) != 0;
        zero &= x == 0;
    }
    if (!finite)
        dfm_warn(&b->bind->warnings, "sdef-not-finite", vertex,
                 "SDEF vertices whose C, R0 or R1 is not finite are run as BDEF2");
    else if (zero)
        dfm_warn(&b->bind->warnings, "sdef-zero-centre", vertex,
                 "SDEF vertices whose C, R0 and R1 are all zero");
    if (set->kind == DFM_KIND_SDEF && (!finite || !b->sdef))
        set->kind = DFM_KIND_BDEF2;
}

static void clean_all(binder *b) {
    const float(*sdef_row)[3][3] = (const float(*)[3][3])b->vertices->sdef;
    for (uint32_t i = 0; i < b->vertices->count; i++) {
        b->sets[i] = b->weights == DFM_WEIGHTS_RAW ? clean_raw(b, i) : clean_normalized(b, i);
        if (b->vertices->weight_type[i] == DFM_WEIGHT_SDEF)
            settle_sdef(b, i, *sdef_row++, &b->sets[i]);
    }
}

/* --- sorting into blocks ---------------------------------------------------------------------- */

static uint32_t hash_set(const influence_set *set) {
    uint64_t h = set->kind;
    for (int i = 0; i < 4; i++)
        h = (h ^ set->bone[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

static bool same_group(const group *g, const influence_set *set) {
    return g->kind == set->kind && memcmp(g->bone, set->bone, sizeof g->bone) == 0;
}

static uint32_t find_group(binder *b, const influence_set *set) {
    uint32_t at = hash_set(set) & b->table_mask;
    for (; b->table[at] != 0; at = (at + 1) & b->table_mask)
        if (same_group(&b->groups[b->table[at] - 1], set))
            return b->table[at] - 1;
    group *added = &b->groups[b->group_count++];
    *added = (group){.kind = set->kind};
    memcpy(added->bone, set->bone, sizeof added->bone);
    return (b->table[at] = b->group_count) - 1;
}

static int compare_groups(const void *left, const void *right, void *groups) {
    const group *a = (const group *)groups + *(const uint32_t *)left;
    const group *b = (const group *)groups + *(const uint32_t *)right;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    for (int i = 0; i < 4; i++)
        if (a->bone[i] != b->bone[i])
            return a->bone[i] < b->bone[i] ? -1 : 1;
    return 0;
}

static void sort_vertices(binder *b) {
    uint32_t count = b->vertices->count;
    for (uint32_t i = 0; i < count; i++) {
        b->group_of[i] = find_group(b, &b->sets[i]);
        b->groups[b->group_of[i]].count++;
    }
    for (uint32_t i = 0; i < b->group_count; i++)
        b->rank[i] = i;
    qsort_r(b->rank, b->group_count, sizeof *b->rank, compare_groups, b->groups);
    uint32_t next = 0;
    for (uint32_t i = 0; i < b->group_count; i++) {
        group *g = &b->groups[b->rank[i]];
        g->next = next;
        next += g->count;
    }
    for (uint32_t i = 0; i < count; i++)
        b->sorted[b->groups[b->group_of[i]].next++] = i;
}

/* Rows of a block, kernels/skin_layout.h. */
static uint32_t row_count(uint32_t kind) {
    static const uint32_t rows[DFM_KIND_COUNT] = {
        [DFM_KIND_REST] = 6,   [DFM_KIND_BDEF1] = 6, [DFM_KIND_BDEF2] = 7,
        [DFM_KIND_BDEF4] = 10, [DFM_KIND_SDEF] = 16, [DFM_KIND_QDEF] = 10,
    };
    return rows[kind];
}

static bool allocate_blocks(binder *b) {
    dfm_skin_bind *bind = b->bind;
    uint64_t blocks = 0, rows = 0;
    for (uint32_t i = 0; i < b->group_count; i++) {
        uint64_t n = ((uint64_t)b->groups[i].count + DFM_LANES - 1) / DFM_LANES;
        blocks += n;
        rows += n * row_count(b->groups[i].kind);
    }
    if (rows > UINT32_MAX)
        return false;
    bind->block_count = (uint32_t)blocks;
    bind->row_count = (size_t)rows;
    bind->blocks = dfm_arena_alloc(&bind->arena, blocks, sizeof *bind->blocks);
    bind->data = dfm_arena_alloc(&bind->arena, rows, DFM_LANES * sizeof *bind->data);
    bind->vertex = dfm_arena_alloc(&bind->arena, blocks, DFM_LANES * sizeof *bind->vertex);
    bind->slot = dfm_arena_alloc(&bind->arena, b->vertices->count, sizeof *bind->slot);
    return bind->blocks && bind->data && bind->vertex && bind->slot;
}

/* --- filling blocks --------------------------------------------------------------------------- */

static void put3(float *row, const float v[3]) {
    for (int k = 0; k < 3; k++)
        row[k * DFM_LANES] = v[k];
}

/* Rows 6..15 of an SDEF lane. R0' = C + R0 - Rb, R1' = C + R1 - Rb, with Rb = w0 R0 + w1 R1, so
 * that w0 R0' + w1 R1' = C; what is kept are the half-points (C + R0') / 2 and (C + R1') / 2. */
static void put_sdef(float *row, float w0, const float sdef[3][3]) {
    const float *c = sdef[0], *r0 = sdef[1], *r1 = sdef[2];
    row[6 * DFM_LANES] = w0;
    put3(row + 7 * DFM_LANES, c);
    for (int k = 0; k < 3; k++) {
        double centre = (double)c[k], a = (double)r0[k], z = (double)r1[k];
        double blend = (double)w0 * a + (1 - (double)w0) * z;
        row[(10 + k) * DFM_LANES] = (float)(centre + (a - blend) / 2);
        row[(13 + k) * DFM_LANES] = (float)(centre + (z - blend) / 2);
    }
}

static void put_normal(float *row, const float normal[3]) {
    bool finite = isfinite(normal[0]) && isfinite(normal[1]) && isfinite(normal[2]);
    put3(row, finite ? normal : (const float[3]){0, 0, 0});
}

static void fill_lane(const binder *b, uint32_t vertex, uint32_t sdef_row, float *row) {
    const influence_set *set = &b->sets[vertex];
    put3(row, b->vertices->position[vertex]);
    put_normal(row + 3 * DFM_LANES, b->vertices->normal[vertex]);
    switch (set->kind) {
    case DFM_KIND_BDEF2:
        row[6 * DFM_LANES] = set->weight[0];
        break;
    case DFM_KIND_BDEF4:
    case DFM_KIND_QDEF:
        for (int i = 0; i < 4; i++)
            row[(6 + i) * DFM_LANES] = set->weight[i];
        break;
    case DFM_KIND_SDEF:
        put_sdef(row, set->weight[0], (const float(*)[3])b->vertices->sdef[sdef_row]);
        break;
    default:
        break;
    }
}

/* Where each SDEF vertex's row is: group_of has served its purpose and takes the answer. */
static void index_sdef_rows(binder *b) {
    uint32_t row = 0;
    for (uint32_t i = 0; i < b->vertices->count; i++)
        b->group_of[i] = b->vertices->weight_type[i] == DFM_WEIGHT_SDEF ? row++ : 0;
}

static void fill_blocks(binder *b) {
    dfm_skin_bind *bind = b->bind;
    const uint32_t *next = b->sorted;
    uint32_t block = 0, row = 0;
    for (uint32_t i = 0; i < b->group_count; i++) {
        const group *g = &b->groups[b->rank[i]];
        bind->has_sdef |= g->kind == DFM_KIND_SDEF;
        bind->has_qdef |= g->kind == DFM_KIND_QDEF;
        for (uint32_t done = 0; done < g->count; block++, row += row_count(g->kind)) {
            uint32_t lanes = g->count - done < DFM_LANES ? g->count - done : DFM_LANES;
            dfm_skin_block *to = &bind->blocks[block];
            *to = (dfm_skin_block){.kind = g->kind, .lane_count = lanes, .row = row};
            memcpy(to->bone, g->bone, sizeof to->bone);
            for (uint32_t lane = 0; lane < DFM_LANES; lane++) {
                uint32_t vertex = next[lane < lanes ? lane : lanes - 1];
                bind->vertex[block * DFM_LANES + lane] = vertex;
                fill_lane(b, vertex, b->group_of[vertex],
                          bind->data + DFM_LANES * (size_t)row + lane);
                if (lane < lanes)
                    bind->slot[vertex] = block * DFM_LANES + lane;
            }
            next += lanes;
            done += lanes;
        }
    }
}

/* --- life ------------------------------------------------------------------------------------- */

static bool allocate_scratch(binder *b) {
    size_t count = b->vertices->count;
    size_t table = 1;
    while (table < 2 * count)
        table *= 2;
    b->table_mask = (uint32_t)(table - 1);
    size_t least = count ? count : 1;
    b->sets = malloc(least * sizeof *b->sets);
    b->group_of = malloc(least * sizeof *b->group_of);
    b->groups = malloc(least * sizeof *b->groups);
    b->rank = malloc(least * sizeof *b->rank);
    b->sorted = malloc(least * sizeof *b->sorted);
    b->table = calloc(table, sizeof *b->table);
    return b->sets && b->group_of && b->groups && b->rank && b->sorted && b->table;
}

static void free_scratch(binder *b) {
    free(b->sets);
    free(b->group_of);
    free(b->groups);
    free(b->rank);
    free(b->sorted);
    free(b->table);
}

static bool fill(binder *b) {
    if (!allocate_scratch(b))
        return false;
    clean_all(b);
    sort_vertices(b);
    if (!allocate_blocks(b))
        return false;
    index_sdef_rows(b);
    fill_blocks(b);
    return true;
}

dfm_status dfm_skin_bind_create(const dfm_model *model, dfm_weights_mode weights, bool sdef,
                                dfm_skin_bind **bind, dfm_error *error) {
    *bind = NULL;
    dfm_skin_bind *made = calloc(1, sizeof *made);
    if (!made)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for bind data");
    made->model = model;
    made->vertex_count = model->pmx.vertices.count;
    made->bone_count = model->pmx.bone_count;
    binder b = {.model = model,
                .vertices = &model->pmx.vertices,
                .weights = weights,
                .sdef = sdef,
                .bind = made};
    bool filled = fill(&b);
    free_scratch(&b);
    if (!filled) {
        dfm_skin_bind_free(made);
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1,
                        "no memory for the bind data of %u vertices", model->pmx.vertices.count);
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
