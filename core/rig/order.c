#include "core/pmx.h"
#include "core/rig/solve.h"

#include <stdlib.h>

/* Bones without a parent that the model has get -1. */
static void take_parents(dfm_rig *rig, const dfm_pmx *pmx, dfm_warnings *warnings) {
    for (uint32_t i = 0; i < rig->bone_count; i++) {
        int32_t parent = pmx->bones[i].parent;
        bool valid = parent >= 0 && (uint32_t)parent < rig->bone_count;
        if (!valid && parent != -1)
            dfm_warn(warnings, "parent-invalid", i,
                     "bone %u names bone %d as its parent, and the model has %u; it has none now "
                     "(%s)",
                     i, parent, rig->bone_count, pmx->bones[i].name.data);
        rig->bones[i].parent = valid ? parent : -1;
    }
}

/* Walks up from every bone, each bone once: `walk[i]` is the number of the walk that met bone i,
 * and meeting a bone of the same walk again means a cycle. */
static void cut_cycles(dfm_rig *rig, const dfm_pmx *pmx, uint32_t *walk, dfm_warnings *warnings) {
    for (uint32_t start = 0; start < rig->bone_count; start++) {
        uint32_t at = start;
        while (!walk[at]) {
            walk[at] = start + 1;
            int32_t parent = rig->bones[at].parent;
            if (parent < 0)
                break;
            if (walk[parent] == start + 1) {
                dfm_warn(warnings, "parent-cycle", at,
                         "bone %u is its own ancestor through bone %d; it has no parent now (%s)",
                         at, parent, pmx->bones[at].name.data);
                rig->bones[at].parent = -1;
                break;
            }
            at = (uint32_t)parent;
        }
    }
}

/* Pre-order over the trees, roots and siblings by index: a bone's descendants follow it. Walks by
 * parents and siblings, since a chain of 30,000 bones must not take as many stack frames. */
static void fill_parent_first(dfm_rig *rig, int32_t *first_child, int32_t *next_sibling) {
    for (uint32_t i = 0; i < rig->bone_count; i++)
        first_child[i] = next_sibling[i] = -1;
    for (uint32_t i = rig->bone_count; i-- > 0;) {
        int32_t parent = rig->bones[i].parent;
        if (parent >= 0) {
            next_sibling[i] = first_child[parent];
            first_child[parent] = (int32_t)i;
        }
    }
    uint32_t count = 0;
    for (uint32_t root = 0; root < rig->bone_count; root++) {
        int32_t at = rig->bones[root].parent < 0 ? (int32_t)root : -1;
        while (at >= 0) {
            rig->parent_first[count++] = (uint32_t)at;
            if (first_child[at] >= 0) {
                at = first_child[at];
                continue;
            }
            while (at >= 0 && next_sibling[at] < 0)
                at = rig->bones[at].parent;
            if (at >= 0)
                at = next_sibling[at];
        }
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
    int32_t *links = calloc(2 * (size_t)count + 1, sizeof *links);
    if (!rig->order || !rig->parent_first || !links) {
        free(links);
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, "bones", -1, -1, "no memory for %u bones",
                        count);
    }
    take_parents(rig, pmx, warnings);
    cut_cycles(rig, pmx, (uint32_t *)links, warnings);
    fill_parent_first(rig, links, links + count);
    free(links);
    for (uint32_t i = 0; i < count; i++)
        rig->order[i] = i;
    qsort_r(rig->order, count, sizeof *rig->order, compare_bones, pmx->bones);
    return DFM_OK;
}
