/* What must hold for every model, pose and backend (SEMANTICS 3), with normalized weights: each
 * test runs on all generated and all public models. */
#include "tests/data/build.h"
#include "tests/support_skin.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dfm_skinner *skinner;

static void setup(void) {
    skinner = NULL;
}

static void teardown(void) {
    dfm_skinner_close(skinner);
}

typedef struct tally {
    skin_difference sum;
    uint32_t models;
    uint64_t touched; /* vertices that the invariant is about */
    bool sdef;
} tally;

static void for_all_models(int backend, const char *what,
                           void (*visit)(const char *name, dfm_pmx *pmx, void *context), tally *t) {
    skinner = skin_open_backend(backend, what);
    if (!skinner)
        return;
    skin_each_document(what, visit, t);
    printf("cases: %s on %s: %u models, %llu vertices, |dp| %.2g, |dn| %.2g\n", what,
           skin_backend_name(skinner), t->models, (unsigned long long)t->touched, t->sum.position,
           t->sum.normal);
    fflush(stdout);
    ck_assert_uint_eq(t->sum.failures, 0);
    ck_assert_uint_gt(t->touched, 0);
}

static bool is_sdef(const dfm_pmx *pmx, uint32_t vertex) {
    return pmx->vertices.weight_type[vertex] == DFM_WEIGHT_SDEF;
}

/* --- the rest pose --------------------------------------------------------------------------- */

static void visit_rest(const char *name, dfm_pmx *pmx, void *context) {
    tally *t = context;
    skin_model m;
    skin_model_open(&m, skinner, pmx, DFM_WEIGHTS_NORMALIZED, t->sdef);
    skin_model_deform(&m);
    for (uint32_t i = 0; i < pmx->vertices.count; i++) {
        double p[3], n[3], length = 0;
        for (int k = 0; k < 3; k++) {
            p[k] = (double)pmx->vertices.position[i][k];
            n[k] = (double)pmx->vertices.normal[i][k];
            length += n[k] * n[k];
        }
        for (int k = 0; k < 3; k++)
            n[k] = isfinite(length) && length > 0 ? n[k] / sqrt(length) : 0;
        skin_compare(&t->sum, name, i, p, n, m.frame[i]);
    }
    t->touched += pmx->vertices.count;
    t->models++;
    skin_model_close(&m);
}

START_TEST(the_rest_pose_gives_the_bind_pose) {
    tally t = {.sdef = true};
    for_all_models(_i, "rest pose", visit_rest, &t);
}
END_TEST

START_TEST(the_rest_pose_without_sdef_gives_the_bind_pose) {
    tally t = {.sdef = false};
    for_all_models(_i, "rest pose without SDEF", visit_rest, &t);
}
END_TEST

/* --- one rigid motion ------------------------------------------------------------------------ */

static bool has_bone(const dfm_pmx *pmx, uint32_t vertex) {
    bool any = false;
    for (int i = 0; i < 4; i++) {
        int32_t bone = pmx->vertices.bone[vertex][i];
        any |= bone >= 0 && (uint32_t)bone < pmx->bone_count;
    }
    return any;
}

static void move(const double motion[12], const float v[3], double w, double out[3]) {
    for (int r = 0; r < 3; r++)
        out[r] = motion[4 * r] * (double)v[0] + motion[4 * r + 1] * (double)v[1] +
                 motion[4 * r + 2] * (double)v[2] + w * motion[4 * r + 3];
}

static void visit_rigid(const char *name, dfm_pmx *pmx, void *context) {
    tally *t = context;
    skin_model m;
    skin_model_open(&m, skinner, pmx, DFM_WEIGHTS_NORMALIZED, true);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        double motion[12];
        skin_pose_rigid(&m.workspace.pose, pmx, seed, motion);
        skin_model_deform(&m);
        for (uint32_t i = 0; i < pmx->vertices.count; i++) {
            double p[3], n[3], length;
            if (!has_bone(pmx, i))
                continue;
            move(motion, pmx->vertices.position[i], 1, p);
            move(motion, pmx->vertices.normal[i], 0, n);
            length = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
            for (int k = 0; k < 3; k++)
                n[k] /= length;
            skin_compare(&t->sum, name, i, p, length > 0 ? n : NULL, m.frame[i]);
            t->touched++;
        }
    }
    t->models++;
    skin_model_close(&m);
}

START_TEST(moving_every_bone_by_one_motion_moves_every_vertex_by_it) {
    tally t = {0};
    for_all_models(_i, "one rigid motion", visit_rigid, &t);
}
END_TEST

/* --- two documents that must come out alike -------------------------------------------------- */

/* Deforms the document, lets `change` rewrite it, deforms it again, and compares the vertices that
 * change said it is about. */
typedef bool change_vertex(dfm_pmx *pmx, uint32_t vertex, float (*sdef)[3]);

typedef struct pair_tally {
    tally t;
    change_vertex *before, *after;
    bool positions_only;
} pair_tally;

static void change_all(dfm_pmx *pmx, change_vertex *change, uint8_t *touched) {
    uint32_t row = 0;
    for (uint32_t i = 0; i < pmx->vertices.count; i++) {
        if (touched[i])
            touched[i] = change(pmx, i, pmx->vertices.sdef[row]);
        row += touched[i];
    }
}

static void visit_pair(const char *name, dfm_pmx *pmx, void *context) {
    pair_tally *pair = context;
    uint32_t count = pmx->vertices.count;
    uint8_t *touched = calloc(count + 1, 1);
    for (uint32_t i = 0; i < count; i++)
        touched[i] = is_sdef(pmx, i);
    change_all(pmx, pair->before, touched);
    skin_model a, b;
    skin_model_open(&a, skinner, pmx, DFM_WEIGHTS_NORMALIZED, true);
    change_all(pmx, pair->after, touched);
    skin_model_open(&b, skinner, pmx, DFM_WEIGHTS_NORMALIZED, true);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        skin_pose_random(&a.workspace.pose, seed, 100, false);
        skin_pose_random(&b.workspace.pose, seed, 100, false);
        skin_model_deform(&a);
        skin_model_deform(&b);
        for (uint32_t i = 0; i < count; i++) {
            double p[3], n[3];
            for (int k = 0; k < 3; k++) {
                p[k] = (double)a.frame[i][k];
                n[k] = (double)a.frame[i][3 + k];
            }
            if (!touched[i])
                continue;
            skin_compare(&pair->t.sum, name, i, p, pair->positions_only ? NULL : n, b.frame[i]);
            pair->t.touched++;
        }
    }
    pair->t.models++;
    skin_model_close(&a);
    skin_model_close(&b);
    free(touched);
}

static void for_all_pairs(int backend, const char *what, pair_tally *pair) {
    skinner = skin_open_backend(backend, what);
    if (!skinner)
        return;
    skin_each_document(what, visit_pair, pair);
    printf("cases: %s on %s: %u models, %llu SDEF vertices, |dp| %.2g, |dn| %.2g\n", what,
           skin_backend_name(skinner), pair->t.models, (unsigned long long)pair->t.touched,
           pair->t.sum.position, pair->t.sum.normal);
    fflush(stdout);
    ck_assert_uint_eq(pair->t.sum.failures, 0);
    ck_assert_uint_gt(pair->t.touched, 1000);
}

static bool keep(dfm_pmx *pmx, uint32_t vertex, float (*sdef)[3]) {
    (void)pmx;
    (void)vertex;
    (void)sdef;
    return true;
}

static void set_weight(dfm_pmx *pmx, uint32_t vertex, float w0) {
    pmx->vertices.weight[vertex][0] = w0;
    pmx->vertices.weight[vertex][1] = 1 - w0;
}

/* w0 is 0 or 1 by turns ... */
static bool weigh_one_bone(dfm_pmx *pmx, uint32_t vertex, float (*sdef)[3]) {
    (void)sdef;
    set_weight(pmx, vertex, (float)(vertex % 2));
    return true;
}

/* ... and so is all but the last bit of it: there the formula itself has to say the same. */
static bool weigh_nearly_one_bone(dfm_pmx *pmx, uint32_t vertex, float (*sdef)[3]) {
    (void)sdef;
    set_weight(pmx, vertex, vertex % 2 ? 1 - 0x1p-24f : 0x1p-24f);
    return isfinite(sdef[0][0]);
}

static bool become_bdef1(dfm_pmx *pmx, uint32_t vertex, float (*sdef)[3]) {
    (void)sdef;
    int32_t *bone = pmx->vertices.bone[vertex];
    bone[vertex % 2 ? 1 : 0] = bone[vertex % 2 ? 0 : 1];
    set_weight(pmx, vertex, 1);
    return true;
}

START_TEST(sdef_on_one_bone_is_bdef1) {
    pair_tally pair = {.before = weigh_one_bone, .after = become_bdef1};
    for_all_pairs(_i, "SDEF on one bone", &pair);
}
END_TEST

START_TEST(sdef_nearly_on_one_bone_is_nearly_bdef1) {
    pair_tally pair = {.before = weigh_nearly_one_bone, .after = become_bdef1};
    for_all_pairs(_i, "SDEF nearly on one bone", &pair);
}
END_TEST

static bool centre_on_vertex(dfm_pmx *pmx, uint32_t vertex, float (*sdef)[3]) {
    memcpy(sdef[0], pmx->vertices.position[vertex], sizeof sdef[0]);
    memcpy(sdef[2], sdef[1], sizeof sdef[2]);
    return isfinite(sdef[1][0] + sdef[1][1] + sdef[1][2]);
}

static bool become_bdef2(dfm_pmx *pmx, uint32_t vertex, float (*sdef)[3]) {
    (void)pmx;
    (void)vertex;
    sdef[0][0] = NAN; /* runs as BDEF2 */
    return true;
}

START_TEST(sdef_centred_on_the_vertex_has_the_position_of_bdef2) {
    pair_tally pair = {.before = centre_on_vertex, .after = become_bdef2, .positions_only = true};
    for_all_pairs(_i, "SDEF centred on the vertex", &pair);
}
END_TEST

static bool swap_bones(dfm_pmx *pmx, uint32_t vertex, float (*sdef)[3]) {
    int32_t *bone = pmx->vertices.bone[vertex], other = bone[0];
    bone[0] = bone[1];
    bone[1] = other;
    set_weight(pmx, vertex, 1 - pmx->vertices.weight[vertex][0]);
    float r0[3];
    memcpy(r0, sdef[1], sizeof r0);
    memcpy(sdef[1], sdef[2], sizeof r0);
    memcpy(sdef[2], r0, sizeof r0);
    return true;
}

START_TEST(swapping_the_bones_of_sdef_changes_nothing) {
    pair_tally pair = {.before = keep, .after = swap_bones};
    for_all_pairs(_i, "SDEF with its bones swapped", &pair);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("skin invariants");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, the_rest_pose_gives_the_bind_pose, 0, skin_backend_count());
    tcase_add_loop_test(tests, the_rest_pose_without_sdef_gives_the_bind_pose, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, moving_every_bone_by_one_motion_moves_every_vertex_by_it, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, sdef_on_one_bone_is_bdef1, 0, skin_backend_count());
    tcase_add_loop_test(tests, sdef_nearly_on_one_bone_is_nearly_bdef1, 0, skin_backend_count());
    tcase_add_loop_test(tests, sdef_centred_on_the_vertex_has_the_position_of_bdef2, 0,
                        skin_backend_count());
    tcase_add_loop_test(tests, swapping_the_bones_of_sdef_changes_nothing, 0, skin_backend_count());
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
