#include "core/pmx.h"

#include <string.h>

enum { SLOTS = 4 };

/* Puts an influence among the largest so far, in descending order, behind its equals. */
static void insert(dfm_influence largest[SLOTS], size_t held, dfm_influence influence) {
    size_t at = held < SLOTS ? held : SLOTS;
    while (at > 0 && largest[at - 1].weight < influence.weight)
        at--;
    if (at == SLOTS)
        return;
    size_t last = held < SLOTS ? held : SLOTS - 1;
    memmove(&largest[at + 1], &largest[at], (last - at) * sizeof *largest);
    largest[at] = influence;
}

/* Five or more influences: the four largest, the last of them taking what the others leave. */
static void keep_largest(const dfm_influence *influences, size_t count, int32_t bone[4],
                         float weight[4]) {
    dfm_influence largest[SLOTS];
    size_t held = 0;
    for (size_t i = 0; i < count; i++) {
        if (influences[i].weight != 0)
            insert(largest, held++, influences[i]);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        bone[i] = largest[i].bone;
        weight[i] = largest[i].weight;
    }
    weight[3] = 1 - (weight[0] + weight[1] + weight[2]);
    if (weight[3] < 0)
        weight[3] = 0;
}

dfm_weight_type dfm_pmx_author_weights(const dfm_influence *influences, size_t count, bool sdef,
                                       int32_t bone[4], float weight[4]) {
    size_t used = 0; /* influences that weigh something */
    for (size_t i = 0; i < SLOTS; i++) {
        bone[i] = -1;
        weight[i] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (influences[i].weight == 0)
            continue;
        if (used < SLOTS) {
            bone[used] = influences[i].bone;
            weight[used] = influences[i].weight;
        }
        used++;
    }
    switch (used) {
    case 0:
        bone[0] = 0;
        weight[0] = 1;
        return DFM_WEIGHT_BDEF1;
    case 1:
        weight[0] = 1;
        return DFM_WEIGHT_BDEF1;
    case 2:
        weight[1] = 1 - weight[0];
        return sdef ? DFM_WEIGHT_SDEF : DFM_WEIGHT_BDEF2;
    case 3:
    case 4:
        return DFM_WEIGHT_BDEF4;
    default:
        keep_largest(influences, count, bone, weight);
        return DFM_WEIGHT_BDEF4;
    }
}
