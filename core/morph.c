#include "core/morph.h"
#include "core/pmx.h"

#include <math.h>
#include <stdlib.h>

/* Weights stay within this: sums of what groups hand on must not become infinite, since infinity
 * times an offset of 0 is no number. */
static const double MAX_WEIGHT = 1e30;

enum mark { LEAF, UNSEEN, OPEN, DONE };

/* What sorting works on; arrays of morph_count. */
typedef struct sorter {
    const dfm_pmx *pmx;
    dfm_warnings *warnings;
    dfm_morph_edge **edges; /* of each group and flip morph */
    uint32_t *next;         /* of each open morph: the reference to look at next */
    uint32_t *stack;        /* open morphs, each reached from the one before */
    uint8_t *mark;
} sorter;

static bool hands_on(const dfm_pmx_morph *morph) {
    return morph->type == DFM_MORPH_GROUP || morph->type == DFM_MORPH_FLIP;
}

static dfm_morph_edge take_reference(const sorter *s, uint32_t morph, uint32_t index) {
    const dfm_pmx_morph *source = &s->pmx->morphs[morph];
    const dfm_pmx_child_morph *child = &source->offsets.children[index];
    bool valid = child->morph >= 0 && (uint32_t)child->morph < s->pmx->morph_count;
    if (!valid || !isfinite(child->weight)) {
        dfm_warn(s->warnings, "morph-offset-invalid", morph,
                 "morph %u, offset %u: no morph %d, or a weight that is not finite; dropped (%s)",
                 morph, index, child->morph, source->name.data);
        return (dfm_morph_edge){.morph = DFM_MORPH_NONE};
    }
    if (s->mark[child->morph] == OPEN) {
        dfm_warn(s->warnings, "morph-cycle", morph,
                 "morph %u hands its weight on to itself through morph %d; cut there (%s)", morph,
                 child->morph, source->name.data);
        return (dfm_morph_edge){.morph = DFM_MORPH_NONE};
    }
    return (dfm_morph_edge){.morph = child->morph, .weight = child->weight};
}

/* Depth first from `root`, without recursion: a file may nest groups as deep as it likes. A morph
 * that is done goes in front of all that were done before, its children among them. */
static void visit(sorter *s, dfm_morph_graph *graph, uint32_t *free_parents, uint32_t root) {
    uint32_t depth = 0;
    s->stack[depth++] = root;
    s->mark[root] = OPEN;
    while (depth > 0) {
        uint32_t at = s->stack[depth - 1];
        const dfm_pmx_morph *source = &s->pmx->morphs[at];
        if (s->next[at] == source->count) {
            s->mark[at] = DONE;
            graph->parents[--*free_parents] =
                (dfm_morph_parent){at, source->type == DFM_MORPH_FLIP, source->count, s->edges[at]};
            depth--;
            continue;
        }
        uint32_t index = s->next[at]++;
        dfm_morph_edge edge = s->edges[at][index] = take_reference(s, at, index);
        if (edge.morph != DFM_MORPH_NONE && s->mark[edge.morph] == UNSEEN) {
            s->mark[edge.morph] = OPEN;
            s->stack[depth++] = (uint32_t)edge.morph;
        }
    }
}

static bool allocate(sorter *s, dfm_morph_graph *graph, dfm_arena *arena) {
    size_t count = (size_t)graph->morph_count + 1;
    s->edges = calloc(count, sizeof *s->edges);
    s->next = calloc(count, sizeof *s->next);
    s->stack = calloc(count, sizeof *s->stack);
    s->mark = calloc(count, sizeof *s->mark);
    graph->parents = dfm_arena_alloc(arena, graph->parent_count, sizeof *graph->parents);
    bool good = s->edges && s->next && s->stack && s->mark && graph->parents;
    for (uint32_t i = 0; good && i < graph->morph_count; i++) {
        const dfm_pmx_morph *morph = &s->pmx->morphs[i];
        if (!hands_on(morph))
            continue;
        s->mark[i] = UNSEEN;
        s->edges[i] = dfm_arena_alloc(arena, morph->count, sizeof *s->edges[i]);
        good = s->edges[i];
    }
    return good;
}

dfm_status dfm_morph_graph_build(dfm_morph_graph *graph, const dfm_pmx *pmx, dfm_arena *arena,
                                 dfm_warnings *warnings, dfm_error *error) {
    *graph = (dfm_morph_graph){.morph_count = pmx->morph_count};
    for (uint32_t i = 0; i < pmx->morph_count; i++)
        graph->parent_count += hands_on(&pmx->morphs[i]);
    if (graph->parent_count == 0)
        return DFM_OK;
    sorter s = {.pmx = pmx, .warnings = warnings};
    bool good = allocate(&s, graph, arena);
    uint32_t free_parents = graph->parent_count;
    for (uint32_t i = 0; good && i < pmx->morph_count; i++) {
        if (s.mark[i] == UNSEEN)
            visit(&s, graph, &free_parents, i);
    }
    free(s.edges);
    free(s.next);
    free(s.stack);
    free(s.mark);
    return good ? DFM_OK
                : dfm_fail(error, DFM_ERROR_NO_MEMORY, "morphs", -1, -1,
                           "no memory for the graph of %u morphs", pmx->morph_count);
}

static void hand_on(const dfm_morph_edge *edge, double weight, double *weights) {
    if (edge->morph == DFM_MORPH_NONE)
        return;
    double sum = weights[edge->morph] + weight * edge->weight;
    weights[edge->morph] = fmin(fmax(sum, -MAX_WEIGHT), MAX_WEIGHT);
}

void dfm_morph_expand(const dfm_morph_graph *graph, const struct dfm_pmx *pmx, double *weights) {
    (void)pmx;
    for (uint32_t i = 0; i < graph->parent_count; i++) {
        const dfm_morph_parent *parent = &graph->parents[i];
        double weight = weights[parent->morph];
        weights[parent->morph] = 0;
        if (weight == 0)
            continue;
        if (parent->flip) {
            int64_t choice = dfm_morph_flip_choice(weight, parent->count);
            if (choice >= 0)
                hand_on(&parent->edges[choice], 1, weights);
            continue;
        }
        for (uint32_t k = 0; k < parent->count; k++)
            hand_on(&parent->edges[k], fmin(fmax(weight, -MAX_WEIGHT), MAX_WEIGHT), weights);
    }
}

int64_t dfm_morph_flip_choice(double weight, uint32_t child_count) {
    if (!(weight > 0) || child_count == 0)
        return -1;
    double last = child_count - 1.0;
    double choice = floor((child_count + 1.0) * weight) - 1; /* may be infinite */
    return (int64_t)fmin(fmax(choice, 0), last);
}
