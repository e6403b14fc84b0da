/* What a model's IK bones say, brought once into the form that ik.c works on (SEMANTICS 5). */
#include "core/pmx.h"
#include "core/rig/math.h"
#include "core/rig/solve.h"

#include <stdlib.h>

/* A file may ask for 2^31 - 1 loops; what 256 do not reach is not reached. */
static const uint32_t MAX_LOOPS = 256;

/* A fixed axis is the axis of a knee where the two are nearer than this (cosine). */
static const double SAME_AXIS_COSINE = 0.999;

static bool sort_limits(double min[3], double max[3], const dfm_pmx_ik_link *source) {
    bool finite = true;
    for (int k = 0; k < 3; k++) {
        double a = source->limit_min[k], b = source->limit_max[k];
        finite = finite && isfinite(a) && isfinite(b);
        min[k] = fmin(a, b);
        max[k] = fmax(a, b);
    }
    return finite;
}

/* The axis in the middle has its angle by an arc sine, within 90 degrees: take one whose limits lie
 * there. R = Ry * Rx * Rz unless x goes farther. */
static void choose_angle_order(dfm_rig_link *link) {
    static const uint8_t orders[3][3] = {{1, 0, 2}, {2, 1, 0}, {0, 2, 1}};
    int best = 0;
    for (int middle = 2; middle >= 0; middle--) {
        if (link->min_angles[middle] > -M_PI_2 && link->max_angles[middle] < M_PI_2)
            best = middle;
    }
    memcpy(link->angle_order, orders[best], sizeof link->angle_order);
}

static void take_limits(dfm_rig_link *link) {
    int free_axes = 0, axis = 0;
    for (int k = 0; k < 3; k++) {
        if (link->min_angles[k] != 0 || link->max_angles[k] != 0) {
            free_axes++;
            axis = k;
        }
    }
    if (free_axes == 0) {
        link->kind = DFM_LINK_LOCKED;
    } else if (free_axes == 1) {
        link->kind = DFM_LINK_PLANE;
        link->axis[axis] = 1;
        link->min_angle = link->min_angles[axis];
        link->max_angle = link->max_angles[axis];
    } else {
        link->kind = DFM_LINK_ANGLES;
        choose_angle_order(link);
    }
}

/* A link with a fixed axis turns about that axis only; a knee whose axis it is keeps its limits. */
static void take_fixed_axis(const dfm_rig *rig, dfm_rig_link *link) {
    for (uint32_t i = 0; i < rig->fixed_axis_count; i++) {
        const double *axis = rig->fixed_axes[i].axis;
        if (rig->fixed_axes[i].bone != link->bone || link->kind == DFM_LINK_LOCKED)
            continue;
        if (link->kind == DFM_LINK_PLANE && fabs(vec3_dot(link->axis, axis)) > SAME_AXIS_COSINE)
            continue;
        link->kind = DFM_LINK_AXIS;
        memcpy(link->axis, axis, sizeof link->axis);
    }
}

static bool hangs_on(const dfm_rig *rig, uint32_t bone, uint32_t ancestor) {
    uint32_t below = rig->position[bone] - rig->position[ancestor]; /* wraps when above */
    return below > 0 && below < rig->subtree_size[ancestor];
}

static bool take_link(const dfm_rig *rig, const dfm_rig_ik *ik, const dfm_pmx_ik_link *source,
                      dfm_rig_link *link) {
    *link = (dfm_rig_link){.bone = (uint32_t)source->bone};
    if (source->bone < 0 || link->bone >= rig->bone_count ||
        !hangs_on(rig, ik->effector, link->bone))
        return false;
    if (source->has_limits) {
        if (!sort_limits(link->min_angles, link->max_angles, source))
            return false;
        take_limits(link);
    }
    take_fixed_axis(rig, link);
    return true;
}

/* Upward: what stands later in parent_first is nearer to the effector. */
static int compare_links(const void *a, const void *b, void *context) {
    const dfm_rig *rig = context;
    uint32_t i = rig->position[((const dfm_rig_link *)a)->bone];
    uint32_t k = rig->position[((const dfm_rig_link *)b)->bone];
    return i > k ? -1 : i < k;
}

static void warn_link(dfm_warnings *warnings, const dfm_pmx *pmx, uint32_t bone, int32_t link) {
    dfm_warn(warnings, "ik-link-invalid", bone,
             "IK bone %u: link bone %d is none, named twice, not above the target, or has limits "
             "that are not finite; left out (%s)",
             bone, link, pmx->bones[bone].name.data);
}

static void take_links(const dfm_rig *rig, const dfm_pmx *pmx, dfm_rig_ik *ik,
                       dfm_warnings *warnings) {
    const dfm_pmx_bone *source = &pmx->bones[ik->bone];
    uint32_t taken = 0, kept = 0;
    for (uint32_t i = 0; i < source->ik_link_count; i++) {
        if (take_link(rig, ik, &source->ik_links[i], &ik->links[taken]))
            taken++;
        else
            warn_link(warnings, pmx, ik->bone, source->ik_links[i].bone);
    }
    if (taken > 1)
        qsort_r(ik->links, taken, sizeof *ik->links, compare_links, (void *)rig);
    for (uint32_t i = 0; i < taken; i++) {
        if (kept > 0 && ik->links[kept - 1].bone == ik->links[i].bone)
            warn_link(warnings, pmx, ik->bone, (int32_t)ik->links[i].bone);
        else
            ik->links[kept++] = ik->links[i];
    }
    ik->link_count = kept;
}

/* The target is a bone of the model, and none of the links. */
static bool target_is_valid(const dfm_rig *rig, const dfm_pmx_bone *bone) {
    if (bone->ik_target < 0 || (uint32_t)bone->ik_target >= rig->bone_count)
        return false;
    for (uint32_t i = 0; i < bone->ik_link_count; i++) {
        if (bone->ik_links[i].bone == bone->ik_target)
            return false;
    }
    return true;
}

/* Fills in a solver. Returns false where nothing can ever turn. */
static bool take_solver(const dfm_rig *rig, const dfm_pmx *pmx, uint32_t bone, dfm_arena *arena,
                        dfm_warnings *warnings, dfm_rig_ik *ik, bool *no_memory) {
    const dfm_pmx_bone *source = &pmx->bones[bone];
    if (!target_is_valid(rig, source)) {
        dfm_warn(warnings, "ik-target-invalid", bone,
                 "IK bone %u: target bone %d is none, or one of its links; not solved (%s)", bone,
                 source->ik_target, source->name.data);
        return false;
    }
    *ik = (dfm_rig_ik){
        .bone = bone, .effector = (uint32_t)source->ik_target, .limit_rad = source->ik_limit_rad};
    if (source->ik_loop_count > 0)
        ik->loop_count = (uint32_t)source->ik_loop_count;
    if (ik->loop_count > MAX_LOOPS)
        ik->loop_count = MAX_LOOPS;
    ik->links = dfm_arena_alloc(arena, source->ik_link_count, sizeof *ik->links);
    *no_memory = !ik->links;
    if (*no_memory)
        return false;
    take_links(rig, pmx, ik, warnings);
    return ik->link_count > 0 && ik->loop_count > 0 && ik->limit_rad > 0; /* false for a NaN */
}

/* What ik.c and dfm_rig_refresh may spend on this solver at most. */
static double worst_cost(const dfm_rig *rig, const dfm_rig_ik *ik) {
    double links = ik->link_count;
    return ik->loop_count * links * (links + 3) / 2 + 2.0 * (rig->bone_count + rig->append_count);
}

dfm_status dfm_rig_take_solvers(dfm_rig *rig, const dfm_pmx *pmx, dfm_arena *arena,
                                dfm_warnings *warnings, dfm_error *error) {
    rig->solvers = dfm_arena_alloc(arena, rig->ik_count, sizeof *rig->solvers);
    bool no_memory = !rig->solvers;
    double cost = 0;
    for (uint32_t i = 0; i < rig->bone_count && !no_memory; i++) {
        uint32_t bone = rig->order[i];
        dfm_rig_ik *ik = &rig->solvers[rig->solver_count];
        if (!(pmx->bones[bone].flags & DFM_BONE_IK) ||
            !take_solver(rig, pmx, bone, arena, warnings, ik, &no_memory))
            continue;
        rig->solver_count++;
        if (ik->link_count > rig->max_link_count)
            rig->max_link_count = ik->link_count;
        cost += worst_cost(rig, ik);
        if (cost > DFM_RIG_IK_BUDGET)
            dfm_warn(warnings, "ik-budget", bone,
                     "from IK bone %u on a pose may reach the limit of %d link updates; what is "
                     "then left is not solved (%s)",
                     bone, DFM_RIG_IK_BUDGET, pmx->bones[bone].name.data);
    }
    return no_memory ? dfm_fail(error, DFM_ERROR_NO_MEMORY, "bones", -1, -1,
                                "no memory for the model's IK")
                     : DFM_OK;
}
