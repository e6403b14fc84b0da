#include "core/pmx.h"
#include "core/rig/solve.h"

#include <stdlib.h>

void dfm_forest_cut(int32_t *above, uint32_t count, uint32_t *seen,
                    void (*cut)(void *context, uint32_t node, uint32_t above), void *context) {
    for (uint32_t start = 0; start < count; start++) {
        uint32_t at = start;
        while (!seen[at]) { /* by an earlier walk: no cycle can be reached from there any more */
            seen[at] = start + 1;
            if (above[at] < 0)
                break;
            uint32_t next = (uint32_t)above[at];
            if (seen[next] == start + 1) {
                above[at] = -1;
                cut(context, at, next);
                break;
            }
            at = next;
        }
    }
}

/* Pre-order, by parents and siblings: a chain of 30,000 bones must not take as many stack frames.
 */
void dfm_forest_walk(const int32_t *above, uint32_t count, int32_t *links, uint32_t *order) {
    int32_t *first_under = links, *next_sibling = links + count;
    for (uint32_t i = 0; i < count; i++)
        first_under[i] = next_sibling[i] = -1;
    for (uint32_t i = count; i-- > 0;) {
        if (above[i] >= 0) {
            next_sibling[i] = first_under[above[i]];
            first_under[above[i]] = (int32_t)i;
        }
    }
    uint32_t done = 0;
    for (uint32_t root = 0; root < count; root++) {
        int32_t at = above[root] < 0 ? (int32_t)root : -1;
        while (at >= 0) {
            order[done++] = (uint32_t)at;
            if (first_under[at] >= 0) {
                at = first_under[at];
                continue;
            }
            while (at >= 0 && next_sibling[at] < 0)
                at = above[at];
            if (at >= 0)
                at = next_sibling[at];
        }
    }
}

typedef struct parents {
    const dfm_pmx *pmx;
    dfm_warnings *warnings;
    int32_t *above;
} parents;

/* Bones with a parent that the model lacks get none. */
static void take_parents(const parents *p) {
    uint32_t count = p->pmx->bone_count;
    for (uint32_t i = 0; i < count; i++) {
        int32_t parent = p->pmx->bones[i].parent;
        bool valid = parent >= 0 && (uint32_t)parent < count;
        if (!valid && parent != -1)
            dfm_warn(p->warnings, "parent-invalid", i,
                     "bone %u names bone %d as its parent, and the model has %u; it has none now "
                     "(%s)",
                     i, parent, count, p->pmx->bones[i].name.data);
        p->above[i] = valid ? parent : -1;
    }
}

static void warn_cycle(void *context, uint32_t bone, uint32_t parent) {
    const parents *p = context;
    dfm_warn(p->warnings, "parent-cycle", bone,
             "bone %u is its own ancestor through bone %u; it has no parent now (%s)", bone, parent,
             p->pmx->bones[bone].name.data);
}

static void measure_subtrees(dfm_rig *rig) {
    for (uint32_t i = 0; i < rig->bone_count; i++) {
        rig->position[rig->parent_first[i]] = i;
        rig->subtree_size[i] = 1;
    }
    for (uint32_t i = rig->bone_count; i-- > 0;) {
        uint32_t bone = rig->parent_first[i];
        if (rig->bones[bone].parent >= 0)
            rig->subtree_size[rig->bones[bone].parent] += rig->subtree_size[bone];
    }
}

static int compare_bones(const void *a, const void *b, void *context) {
    const dfm_pmx_bone *bones = context;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    int late_i = (bones[i].flags & DFM_BONE_AFTER_PHYSICS) != 0;
    int late_k = (bones[k].flags & DFM_BONE_AFTER_PHYSICS) != 0;
    if (late_i != late_k)
        return late_i - late_k;
    if (bones[i].layer != bones[k].layer)
        return bones[i].layer < bones[k].layer ? -1 : 1;
    return i < k ? -1 : i > k;
}

dfm_status dfm_rig_sort(dfm_rig *rig, const dfm_pmx *pmx, dfm_arena *arena, dfm_warnings *warnings,
                        dfm_error *error) {
    uint32_t count = rig->bone_count;
    rig->order = dfm_arena_alloc(arena, count, sizeof *rig->order);
    rig->parent_first = dfm_arena_alloc(arena, count, sizeof *rig->parent_first);
    rig->position = dfm_arena_alloc(arena, count, sizeof *rig->position);
    rig->subtree_size = dfm_arena_alloc(arena, count, sizeof *rig->subtree_size);
    int32_t *scratch = calloc(3 * (size_t)count + 1, sizeof *scratch);
    if (!rig->order || !rig->parent_first || !rig->position || !rig->subtree_size || !scratch) {
        free(scratch);
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, "bones", -1, -1, "no memory for %u bones",
                        count);
    }
    parents p = {pmx, warnings, scratch};
    take_parents(&p);
    dfm_forest_cut(p.above, count, (uint32_t *)scratch + count, warn_cycle, &p);
    dfm_forest_walk(p.above, count, scratch + count, rig->parent_first);
    for (uint32_t i = 0; i < count; i++) {
        rig->bones[i].parent = p.above[i];
        rig->order[i] = i;
    }
    free(scratch);
    measure_subtrees(rig);
    if (count > 0)
        qsort_r(rig->order, count, sizeof *rig->order, compare_bones, pmx->bones);
    return DFM_OK;
}
