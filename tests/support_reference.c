#include "tests/support_reference.h"

#include <check.h>
#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bones that no IK moves agree between all solvers to this (README of the reference). */
static const double STILL_TOLERANCE = 2e-5;

static uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, *size, file), *size);
    bytes[*size] = 0;
    fclose(file);
    return bytes;
}

static uint8_t *read_named(const char *folder, const char *name, size_t *size) {
    char path[1280];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    uint8_t *bytes = read_file(path, size);
    if (!bytes)
        ck_abort_msg("no file %s", path);
    return bytes;
}

static const char *text_of(const reference_case *c, const char *key) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c->json, key));
    if (!text)
        ck_abort_msg("%s: case.json has no %s", c->name, key);
    return text;
}

static double number_of(const reference_case *c, const char *key) {
    cJSON *item = cJSON_GetObjectItemCaseSensitive(c->json, key);
    if (!cJSON_IsNumber(item))
        ck_abort_msg("%s: case.json has no %s", c->name, key);
    return item->valuedouble;
}

float *reference_floats(const reference_case *c, const char *key, size_t *count) {
    uint8_t *bytes = read_named(c->folder, text_of(c, key), count);
    *count /= sizeof(float);
    return (float *)(void *)bytes;
}

uint8_t *reference_model_file(const reference_case *c, const char *key, size_t *size) {
    return read_named(c->models, text_of(c, key), size);
}

/* Links, what takes over their rotation, and all that hangs on either. Worked out here without the
 * rig's own lists: until nothing is added any more. */
static void find_moved(reference_case *c) {
    const dfm_pmx_bone *bones = c->pmx.bones;
    for (uint32_t i = 0; i < c->bone_count; i++) {
        for (uint32_t k = 0; k < bones[i].ik_link_count; k++) {
            if (bones[i].ik_links[k].bone >= 0)
                c->moved_by_ik[bones[i].ik_links[k].bone] = 1;
        }
    }
    for (bool added = true; added;) {
        added = false;
        for (uint32_t i = 0; i < c->bone_count; i++) {
            bool parent = bones[i].parent >= 0 && c->moved_by_ik[bones[i].parent];
            bool source = (bones[i].flags & DFM_BONE_APPEND_ROTATION) &&
                          bones[i].append_source >= 0 && c->moved_by_ik[bones[i].append_source];
            if (!c->moved_by_ik[i] && (parent || source))
                c->moved_by_ik[i] = added = 1;
        }
    }
}

static void load_model(reference_case *c) {
    size_t size;
    uint8_t *bytes = reference_model_file(c, "model", &size);
    dfm_error error = {0};
    if (dfm_pmx_read(bytes, size, &dfm_pmx_default_limits, &c->arena, &c->warnings, &c->pmx,
                     &error) != DFM_OK)
        ck_abort_msg("%s: %s", c->name, error.info);
    free(bytes);
    ck_assert_int_eq(dfm_rig_build(&c->rig, &c->pmx, &c->arena, &c->warnings, NULL), DFM_OK);
    c->bone_count = c->pmx.bone_count;
    ck_assert_uint_eq(c->bone_count, (uint32_t)number_of(c, "bone_count"));
    size_t count = c->bone_count;
    dfm_rig_state_place(&c->state, &c->rig,
                        dfm_arena_alloc(&c->arena, 1, dfm_rig_state_bytes(&c->rig)));
    c->pose =
        (dfm_pose){.bone_count = c->bone_count,
                   .morph_count = c->pmx.morph_count,
                   .bones = dfm_arena_alloc(&c->arena, count, sizeof *c->pose.bones),
                   .morph_weights = dfm_arena_alloc(&c->arena, c->pmx.morph_count, sizeof(double)),
                   .ik_off = dfm_arena_alloc(&c->arena, count, 1)};
    dfm_pose_reset(&c->pose);
    c->weights = dfm_arena_alloc(&c->arena, c->pmx.morph_count, sizeof *c->weights);
    c->moved_by_ik = dfm_arena_alloc(&c->arena, count, 1);
    c->skipped = dfm_arena_alloc(&c->arena, count, 1);
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c->json, "ik")))
        find_moved(c);
    else
        memset(c->pose.ik_off, 1, count);
    cJSON *bone;
    cJSON_ArrayForEach(bone, cJSON_GetObjectItemCaseSensitive(c->json, "skip_bones")) {
        c->skipped[bone->valueint] = 1;
    }
}

static void load_expected(reference_case *c) {
    c->position_tolerance = number_of(c, "position_tolerance");
    c->degree_tolerance = number_of(c, "degree_tolerance");
    c->frame_count =
        (uint32_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(c->json, "frames"));
    cJSON *file;
    cJSON_ArrayForEach(file, cJSON_GetObjectItemCaseSensitive(c->json, "expected")) {
        size_t size;
        ck_assert_uint_lt(c->expected_count, 2);
        c->expected[c->expected_count++] =
            (float *)(void *)read_named(c->folder, file->valuestring, &size);
        ck_assert_uint_eq(size, (size_t)c->frame_count * c->bone_count * 12 * sizeof(float));
    }
    ck_assert_uint_gt(c->expected_count, 0);
}

/* Distance of the positions, and the angle between the rotations: of a rotation matrix R = A^T B,
 * |R - R^T| / sqrt(8) is the sine and (trace - 1) / 2 the cosine. */
static void differ(const double got[12], const float expected[12], double *position,
                   double *degrees) {
    double way2 = 0, turn[3][3] = {{0}};
    for (int r = 0; r < 3; r++) {
        way2 += pow(got[4 * r + 3] - (double)expected[4 * r + 3], 2);
        for (int a = 0; a < 3; a++) {
            for (int b = 0; b < 3; b++)
                turn[a][b] += got[4 * r + a] * (double)expected[4 * r + b];
        }
    }
    double sine = sqrt(pow(turn[0][1] - turn[1][0], 2) + pow(turn[0][2] - turn[2][0], 2) +
                       pow(turn[1][2] - turn[2][1], 2)) /
                  2;
    *position = sqrt(way2);
    *degrees = atan2(sine, (turn[0][0] + turn[1][1] + turn[2][2] - 1) / 2) * (180 / M_PI);
}

void reference_compare(reference_case *c, uint32_t frame) {
    ck_assert(dfm_rig_solve(&c->rig, &c->pmx, &c->pose, c->weights, &c->state));
    bool solves_ik = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c->json, "ik"));
    for (uint32_t bone = 0; bone < c->bone_count; bone++) {
        bool still = solves_ik && !c->moved_by_ik[bone];
        double best_position = INFINITY, best_degree = INFINITY, best = INFINITY;
        for (uint32_t i = 0; i < c->expected_count; i++) {
            double position, degrees;
            differ(c->state.global[bone],
                   c->expected[i] + ((size_t)frame * c->bone_count + bone) * 12, &position,
                   &degrees);
            double far = fmax(position / c->position_tolerance, degrees / c->degree_tolerance);
            if (!(far < best))
                continue;
            best = far;
            best_position = position;
            best_degree = degrees;
        }
        if (c->skipped[bone])
            continue;
        c->worst_position = fmax(c->worst_position, best_position);
        c->worst_degree = fmax(c->worst_degree, best_degree);
        if (still)
            c->worst_still = fmax(c->worst_still, best_position);
        if (!(best <= 1) || (still && !(best_position <= STILL_TOLERANCE))) {
            c->failures++;
            printf("    %s frame %u bone %u %s: %.3g units, %.3g degrees off%s\n", c->name, frame,
                   bone, c->pmx.bones[bone].name.data, best_position, best_degree,
                   still ? ", which no IK moves" : "");
        }
    }
}

static bool run_case(const char *root, const char *name, const char *kind,
                     void (*run)(reference_case *c)) {
    reference_case c = {.name = name};
    char path[1024];
    size_t size;
    snprintf(c.folder, sizeof c.folder, "%.400s/reference/%.100s", root, name);
    snprintf(c.models, sizeof c.models, "%.400s/models", root);
    snprintf(path, sizeof path, "%s/case.json", c.folder);
    uint8_t *bytes = read_file(path, &size);
    if (!bytes)
        return true;
    c.json = cJSON_Parse((char *)bytes);
    free(bytes);
    ck_assert_ptr_nonnull(c.json);
    if (strcmp(text_of(&c, "kind"), kind) == 0) {
        load_model(&c);
        load_expected(&c);
        run(&c);
        printf("cases: %-26s %2u frames, worst %.2g of %.2g units, %.2g of %.2g degrees, "
               "without IK %.2g units\n",
               name, c.frame_count, c.worst_position, c.position_tolerance, c.worst_degree,
               c.degree_tolerance, c.worst_still);
    }
    cJSON_Delete(c.json);
    free(c.expected[0]);
    free(c.expected[1]);
    dfm_arena_free(&c.arena);
    return c.failures == 0;
}

void reference_run(const char *kind, void (*run)(reference_case *c)) {
    const char *root = getenv("DEFORMD_TEST_DATA");
    char path[512];
    if (!root)
        root = "../shared";
    snprintf(path, sizeof path, "%.400s/reference", root);
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) {
        printf("SKIPPED: the reference cases of kind %s (no %s)\n", kind, path);
        return;
    }
    int failed = 0;
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.')
            failed += !run_case(root, entries[i]->d_name, kind, run);
        free(entries[i]);
    }
    free(entries);
    fflush(stdout);
    ck_assert_msg(failed == 0, "%d cases are out of tolerance", failed);
}
