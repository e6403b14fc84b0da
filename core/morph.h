/* Morphs: from the weights that a pose names to the weights that act.
 *
 * Group and flip morphs hand weights on to other morphs; the graph of who hands on to whom is
 * sorted once at load, references that close a cycle are cut there (warning `morph-cycle`), and a
 * pose costs one walk over its active edges, however deep groups are nested.
 * Source of the rules: SEMANTICS 4 (README, table of decisions). */
#ifndef DFM_CORE_MORPH_H
#define DFM_CORE_MORPH_H

#include "core/arena.h"
#include "core/status.h"
#include "core/warnings.h"

struct dfm_pmx;

enum { DFM_MORPH_NONE = -1 };

typedef struct dfm_morph_edge {
    int32_t morph; /* valid, or DFM_MORPH_NONE: invalid or cut; a flip's slots keep their places */
    double weight;
} dfm_morph_edge;

/* A group or flip morph. */
typedef struct dfm_morph_parent {
    uint32_t morph; /* index in the model */
    bool flip;
    uint32_t count;
    dfm_morph_edge *edges; /* count */
} dfm_morph_parent;

typedef struct dfm_morph_graph {
    uint32_t morph_count;
    uint32_t parent_count;
    dfm_morph_parent *parents; /* whoever hands on to another stands before it */
} dfm_morph_graph;

/* Builds the graph; warns about invalid references (`morph-offset-invalid`) and cycles.
 * Failure: DFM_ERROR_NO_MEMORY. */
dfm_status dfm_morph_graph_build(dfm_morph_graph *graph, const struct dfm_pmx *pmx,
                                 dfm_arena *arena, dfm_warnings *warnings, dfm_error *error);

/* Turns weights as posed into weights as they act, in place (`weights`: morph_count values): group
 * morphs add weight x factor to their children, flip morphs add the factor of the one child that
 * they choose; a group's or flip's own weight is 0 afterwards. Weights are not clamped, but stay
 * within 1e30. */
void dfm_morph_expand(const dfm_morph_graph *graph, const struct dfm_pmx *pmx, double *weights);

/* The child that a flip morph of `child_count` children shows at `weight`, or -1 for none:
 * clamp(int((n + 1) * w) - 1, 0, n - 1) for w > 0. */
int64_t dfm_morph_flip_choice(double weight, uint32_t child_count);

#endif
