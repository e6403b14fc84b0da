/* Inverse kinematics by cyclic coordinate descent (SEMANTICS 5).
 *
 * While a solver runs, a turn moves the effector and the links below by itself: a rigid turn about
 * the link's position. Bones in between, and all else that hangs on the links, follow at the end
 * (dfm_rig_refresh). So a turn costs as many updates as links lie below it. */
#include "core/rig/math.h"
#include "core/rig/solve.h"

/* Effector and goal this near (units) are together. */
static const double REACHED_DISTANCE = 1e-4;

/* With a sine under this the way to the goal has no axis: it goes straight on, or straight back. */
static const double MIN_SINE = 1e-9;

typedef struct chain {
    const dfm_rig_ik *ik;
    dfm_rig_link_state *links;
    double effector[3], goal[3];
} chain;

/* What a link would turn by if nothing held it: from the effector to the goal, as it sees them. */
typedef struct swing {
    double axis[3]; /* unit length, model space; zero where there is none */
    double angle;   /* 0..pi, within the link's limit */
} swing;

/* The farther from the effector, the more a link may turn at once. */
static double max_turn(const dfm_rig_ik *ik, uint32_t link) {
    return ik->limit_rad * (link + 1.0);
}

static swing swing_to_goal(const chain *c, uint32_t index) {
    double to_effector[3], to_goal[3];
    swing result = {0};
    vec3_sub(to_effector, c->effector, c->links[index].position);
    vec3_sub(to_goal, c->goal, c->links[index].position);
    vec3_cross(result.axis, to_effector, to_goal);
    double sine = sqrt(vec3_dot(result.axis, result.axis)); /* both times the two lengths */
    double cosine = vec3_dot(to_effector, to_goal);
    bool straight = !(sine > MIN_SINE * fabs(cosine));
    for (int k = 0; k < 3; k++)
        result.axis[k] = straight ? 0 : result.axis[k] / sine;
    result.angle = straight ? 0 : fmin(atan2(sine, cosine), max_turn(c->ik, index));
    return result;
}

static void from_axis_angle(double q[4], const double axis[3], double angle) {
    double sine = sin(angle / 2);
    q[0] = axis[0] * sine, q[1] = axis[1] * sine, q[2] = axis[2] * sine, q[3] = cos(angle / 2);
}

/* The swing's angle, signed, for a link that turns about `axis` (parent's frame) alone. */
static double angle_about(const double axis[3], const swing *way, const dfm_rig_link_state *link) {
    double rows[12], axis_now[3];
    quat_to_rows(rows, 4, link->parent_rotation);
    mat34_turn(axis_now, rows, axis);
    double along = vec3_dot(way->axis, axis_now);
    return along == 0 ? 0 : copysign(way->angle, along);
}

static void turn_free(dfm_rig_link_state *link, const swing *way) {
    double rows[12], back[4], axis[3], turn[4];
    quat_conjugate(back, link->parent_rotation);
    quat_to_rows(rows, 4, back);
    mat34_turn(axis, rows, way->axis);
    from_axis_angle(turn, axis, way->angle);
    quat_mul(link->turn, turn, link->turn);
}

static double clamp(double value, double min, double max) {
    return fmin(fmax(value, min), max);
}

/* The angles of R = R[a] * R[b] * R[c] about the axes that `order` names. */
static void angles_of(double angles[3], const double q[4], const uint8_t order[3]) {
    int a = order[0], b = order[1], c = order[2];
    double m[9], sign = (b - a + 3) % 3 == 1 ? 1 : -1; /* of the order: cyclic or not */
    quat_to_rows(m, 3, q);
    double sine = sign * m[3 * a + c];
    double cosine = hypot(m[3 * a + a], m[3 * a + b]);
    angles[b] = atan2(sine, cosine);
    if (cosine > 1e-9) {
        angles[a] = atan2(-sign * m[3 * b + c], m[3 * c + c]);
        angles[c] = atan2(-sign * m[3 * a + b], m[3 * a + a]);
    } else { /* a and c turn about one axis: let a do it all */
        angles[a] = atan2(sign * m[3 * c + b], m[3 * b + b]);
        angles[c] = 0;
    }
}

static void limit_angles(const dfm_rig_link *link, dfm_rig_link_state *state) {
    double angles[3];
    angles_of(angles, state->turn, link->angle_order);
    quat_identity(state->turn);
    for (int k = 0; k < 3; k++) {
        int axis = link->angle_order[k];
        double unit[3] = {0}, turn[4];
        unit[axis] = 1;
        from_axis_angle(turn, unit,
                        clamp(angles[axis], link->min_angles[axis], link->max_angles[axis]));
        quat_mul(state->turn, state->turn, turn);
    }
}

/* On the first iteration a knee that would leave its limits is tried the other way, by what it went
 * too far: a leg that stands straight cannot know which way it bends. */
static double reflect_at_limits(const dfm_rig_link *link, double angle) {
    double limit = angle < link->min_angle ? link->min_angle : link->max_angle;
    if (angle >= link->min_angle && angle <= link->max_angle)
        return angle;
    double reflected = 2 * limit - angle;
    bool within = reflected >= link->min_angle && reflected <= link->max_angle;
    return within ? reflected : limit;
}

static void turn_in_plane(const dfm_rig_link *link, dfm_rig_link_state *state, const swing *way,
                          bool first) {
    double angle = state->angle + angle_about(link->axis, way, state);
    state->angle =
        first ? reflect_at_limits(link, angle) : clamp(angle, link->min_angle, link->max_angle);
    from_axis_angle(state->turn, link->axis, state->angle);
}

static void turn_about_axis(const dfm_rig_link *link, dfm_rig_link_state *state, const swing *way) {
    double turn[4];
    from_axis_angle(turn, link->axis, angle_about(link->axis, way, state));
    quat_mul(state->turn, turn, state->turn);
}

static void turn_point(double point[3], const double pivot[3], const double rows[12]) {
    double arm[3];
    vec3_sub(arm, point, pivot);
    mat34_turn(arm, rows, arm);
    for (int k = 0; k < 3; k++)
        point[k] = pivot[k] + arm[k];
}

/* Moves what lies below link `index`, which turned from `before` to its turn of now. */
static void move_below(chain *c, uint32_t index, const double before[4]) {
    const dfm_rig_link_state *link = &c->links[index];
    double back[4], turn[4], rows[12];
    quat_conjugate(back, before);
    quat_mul(turn, link->turn, back);
    quat_mul(turn, link->parent_rotation, turn);
    quat_conjugate(back, link->parent_rotation);
    quat_mul(turn, turn, back);
    quat_normalize(turn);
    quat_to_rows(rows, 4, turn);
    turn_point(c->effector, link->position, rows);
    for (uint32_t i = 0; i < index; i++) {
        turn_point(c->links[i].position, link->position, rows);
        quat_mul(c->links[i].parent_rotation, turn, c->links[i].parent_rotation);
        quat_normalize(c->links[i].parent_rotation);
    }
}

static void turn_link(chain *c, uint32_t index, bool first) {
    const dfm_rig_link *link = &c->ik->links[index];
    dfm_rig_link_state *state = &c->links[index];
    double before[4];
    memcpy(before, state->turn, sizeof before);
    swing way = swing_to_goal(c, index);
    switch (link->kind) {
    case DFM_LINK_FREE:
        turn_free(state, &way);
        break;
    case DFM_LINK_ANGLES:
        turn_free(state, &way);
        limit_angles(link, state);
        break;
    case DFM_LINK_PLANE:
        turn_in_plane(link, state, &way, first);
        break;
    case DFM_LINK_AXIS:
        turn_about_axis(link, state, &way);
        break;
    case DFM_LINK_LOCKED:
        return;
    }
    quat_normalize(state->turn);
    move_below(c, index, before);
}

/* The links as authored: whatever an earlier solver made of them is forgotten. */
static void open_chain(chain *c, const dfm_rig *rig, const dfm_rig_ik *ik, dfm_rig_state *state) {
    *c = (chain){.ik = ik, .links = state->links};
    for (int k = 0; k < 3; k++) {
        c->effector[k] = state->global[ik->effector][4 * k + 3];
        c->goal[k] = state->global[ik->bone][4 * k + 3];
    }
    for (uint32_t i = 0; i < ik->link_count; i++) {
        uint32_t bone = ik->links[i].bone;
        int32_t parent = rig->bones[bone].parent;
        dfm_rig_link_state *link = &c->links[i];
        for (int k = 0; k < 3; k++)
            link->position[k] = state->global[bone][4 * k + 3];
        quat_identity(link->parent_rotation);
        if (parent >= 0)
            memcpy(link->parent_rotation, state->rotation[parent], sizeof link->parent_rotation);
        memcpy(link->turn, state->local[bone].own, sizeof link->turn);
        if (ik->links[i].kind == DFM_LINK_PLANE)
            link->angle = 2 * atan2(vec3_dot(link->turn, ik->links[i].axis), link->turn[3]);
    }
}

static double distance(const chain *c) {
    double way[3];
    vec3_sub(way, c->effector, c->goal);
    return sqrt(vec3_dot(way, way));
}

static void keep_best(chain *c) {
    for (uint32_t i = 0; i < c->ik->link_count; i++)
        memcpy(c->links[i].best, c->links[i].turn, sizeof c->links[i].best);
}

/* Returns how near the best iteration came. */
static double iterate(chain *c, int64_t *budget) {
    double best = INFINITY;
    for (uint32_t loop = 0; loop < c->ik->loop_count; loop++) {
        for (uint32_t i = 0; i<c->ik->link_count && * budget> 0; i++) {
            turn_link(c, i, loop == 0);
            *budget -= 1 + (int64_t)i + 1; /* itself, the links below, the effector */
        }
        double now = distance(c);
        if (!(now < best))
            break;
        best = now;
        keep_best(c);
        if (best <= REACHED_DISTANCE || *budget <= 0)
            break;
    }
    return best;
}

static void hand_back(const chain *c, dfm_rig_state *state) {
    for (uint32_t i = 0; i < c->ik->link_count; i++) {
        dfm_rig_local *local = &state->local[c->ik->links[i].bone];
        double back[4];
        quat_conjugate(back, local->own);
        quat_mul(local->ik, c->links[i].best, back);
        local->has_ik = true;
    }
}

bool dfm_rig_ik_solve(const dfm_rig *rig, const dfm_rig_ik *ik, dfm_rig_state *state,
                      int64_t *budget) {
    chain c;
    open_chain(&c, rig, ik, state);
    double authored = distance(&c);
    if (authored <= REACHED_DISTANCE)
        return false;
    double best = iterate(&c, budget);
    if (!(best < authored)) /* the pose as authored is the floor */
        return false;
    hand_back(&c, state);
    return true;
}
