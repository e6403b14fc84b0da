/* Private to core/rig: what a rig is made of besides bones, and what a bone is during a solve. */
#ifndef DFM_CORE_RIG_SOLVE_H
#define DFM_CORE_RIG_SOLVE_H

#include "core/rig/rig.h"

/* The pose turns this bone about one axis only. */
typedef struct dfm_rig_fixed_axis {
    uint32_t bone;
    double axis[3]; /* unit length, model space */
} dfm_rig_fixed_axis;

/* What a bone takes over from another. */
typedef struct dfm_rig_append {
    uint32_t bone, source;
    double ratio; /* finite */
    bool rotation, translation;
    bool through_rotation, through_translation; /* the source's own append of that kind included */
} dfm_rig_append;

typedef enum dfm_rig_link_kind {
    DFM_LINK_FREE,   /* turns about any axis */
    DFM_LINK_ANGLES, /* as free, then limited about each of x, y and z */
    DFM_LINK_PLANE,  /* turns about `axis` from `min` to `max`, and not otherwise: a knee */
    DFM_LINK_AXIS,   /* turns about `axis`, any angle */
    DFM_LINK_LOCKED  /* does not turn */
} dfm_rig_link_kind;

typedef struct dfm_rig_link {
    uint32_t bone;
    dfm_rig_link_kind kind;
    double axis[3];                      /* PLANE, AXIS: unit length, in the parent's frame */
    double min_angle, max_angle;         /* PLANE, radians */
    double min_angles[3], max_angles[3]; /* ANGLES, radians */
    uint8_t angle_order[3];              /* ANGLES: R = R[0] * R[1] * R[2] about these axes */
} dfm_rig_link;

typedef struct dfm_rig_ik {
    uint32_t bone, effector;
    uint32_t loop_count;
    double limit_rad; /* of one turn of the link next to the effector; > 0 */
    uint32_t link_count;
    dfm_rig_link *links; /* from the one next to the effector upward: ancestors of the effector */
} dfm_rig_ik;

/* A bone's own values: R = ik * own * append, T = rest offset + own_move + append_move. */
typedef struct dfm_rig_local {
    double own[4]; /* pose * morphs */
    double own_move[3];
    bool has_ik, has_append; /* else ik, append and append_move are not set */
    double ik[4];
    double append[4];
    double append_move[3];
} dfm_rig_local;

/* A link while its solver runs; nothing below it is brought up to date before the end. */
typedef struct dfm_rig_link_state {
    double position[3];        /* model space */
    double parent_rotation[4]; /* model space */
    double turn[4], best[4];   /* ik * own */
    double angle;              /* PLANE: of the turn about its axis */
} dfm_rig_link_state;

/* order.c: fills rig->order, parent_first, position, subtree_size and the bones' parents; cuts
 * parent cycles. Failure: DFM_ERROR_NO_MEMORY. */
dfm_status dfm_rig_sort(dfm_rig *rig, const struct dfm_pmx *pmx, dfm_arena *arena,
                        dfm_warnings *warnings, dfm_error *error);

/* order.c: a forest given by each node's node above it (-1: none). Cutting makes a forest of any
 * graph: a walk up from each node in turn sets -1 where it meets itself, and `cut` is told of that
 * node. `seen`: count values of 0. Walking puts every node before those under it, siblings by
 * index; `links` takes 2 x count values. Neither recurses. */
void dfm_forest_cut(int32_t *above, uint32_t count, uint32_t *seen,
                    void (*cut)(void *context, uint32_t node, uint32_t above), void *context);
void dfm_forest_walk(const int32_t *above, uint32_t count, int32_t *links, uint32_t *order);

/* append.c: the appends of a model, sources first. Failure: DFM_ERROR_NO_MEMORY. */
dfm_status dfm_rig_take_appends(dfm_rig *rig, const struct dfm_pmx *pmx, dfm_arena *arena,
                                dfm_warnings *warnings, dfm_error *error);

/* append.c: what the source hands on, as it is now, into the bone's append and append_move. */
void dfm_rig_append_apply(const dfm_rig_append *append, dfm_rig_local *locals);

/* ik_load.c: the solvers of a model, in deform order. Failure: DFM_ERROR_NO_MEMORY. */
dfm_status dfm_rig_take_solvers(dfm_rig *rig, const struct dfm_pmx *pmx, dfm_arena *arena,
                                dfm_warnings *warnings, dfm_error *error);

/* ik.c: turns the links so that the effector comes near to the solver's bone, and takes what was
 * spent off the budget. Globals of links and of what hangs on them are stale until
 * dfm_rig_refresh; returns false where no link turned, and nothing is stale. */
bool dfm_rig_ik_solve(const dfm_rig *rig, const dfm_rig_ik *ik, dfm_rig_state *state,
                      int64_t *budget);

/* solve.c: brings the links' appends and all that hangs on either up to date. `stamp` is one that
 * no bone has. Returns how many bones were looked at. */
int64_t dfm_rig_refresh(const dfm_rig *rig, const dfm_rig_ik *ik, dfm_rig_state *state,
                        uint32_t stamp);

#endif
