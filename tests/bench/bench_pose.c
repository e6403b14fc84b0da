/* Time from the bytes of a body to a pose: 300 bones with rotation and translation, as JSON with
 * short numbers (six digits) and full doubles, bones in the model's order and in a random one; and
 * as a binary pose. cJSON, with nothing done to what it parses, for comparison. */
#include "api/pose_binary.h"
#include "api/pose_json.h"
#include "core/workspace.h"
#include "tests/bench/timing.h"
#include "tests/data/models.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BONES = 300, SAMPLES_MAX = 20000 };

static void stop(const char *why) {
    fprintf(stderr, "bench_pose: %s\n", why);
    exit(1);
}

/* A character of BONES bones, named in Japanese as models are: "左ひじ123". */
static dfm_model *make_model(void) {
    dfm_arena arena = {0};
    grid_options options = grid_default_options(1000, BONES);
    dfm_pmx pmx = model_grid(&arena, &options);
    static char names[BONES][32];
    for (uint32_t i = 0; i < BONES; i++) {
        snprintf(names[i], sizeof names[i], "左ひじ%u", i);
        pmx.bones[i].name = model_text(names[i]);
    }
    size_t size;
    uint8_t *bytes = model_bytes(&pmx, NULL, &size);
    dfm_model *model;
    if (dfm_model_load(bytes, size, &dfm_pmx_default_limits, &model, NULL) != DFM_OK)
        stop("the model does not load");
    free(bytes);
    dfm_arena_free(&arena);
    return model;
}

/* Quaternion and translation of a bone. */
static void bone_numbers(uint32_t bone, double numbers[7]) {
    double a = 0.001 + 0.003 * bone;
    numbers[0] = sin(a) * 0.6;
    numbers[1] = sin(a) * 0.48;
    numbers[2] = sin(a) * 0.64;
    numbers[3] = cos(a);
    for (int k = 0; k < 3; k++)
        numbers[4 + k] = sin(bone + k) / 3;
}

static char *make_json(const dfm_model *model, const uint32_t order[BONES], int digits,
                       size_t *size) {
    size_t capacity = 1 << 20, at = 0;
    char *text = malloc(capacity);
    if (!text)
        stop("no memory");
    at += (size_t)sprintf(text + at, "{\"bones\":{");
    for (uint32_t i = 0; i < BONES; i++) {
        double v[7];
        bone_numbers(order[i], v);
        at += (size_t)sprintf(text + at, "%s\"%s\":{\"rotation\":[", i ? "," : "",
                              model->pmx.bones[order[i]].name.data);
        for (int k = 0; k < 7; k++)
            at += (size_t)sprintf(text + at, "%.*g%s", digits, v[k],
                                  k == 3 ? "],\"translation\":[" : (k == 6 ? "]}" : ","));
    }
    at += (size_t)sprintf(text + at, "}}");
    *size = at;
    return text;
}

static uint8_t *make_binary(const dfm_model *model, size_t *size) {
    *size = dfm_pose_binary_frame_bytes(model, DFM_POSE_FORMAT_LOCAL);
    float *floats = calloc(1, *size);
    if (!floats)
        stop("no memory");
    for (uint32_t i = 0; i < BONES; i++) {
        double v[7];
        bone_numbers(i, v);
        for (int k = 0; k < 7; k++)
            floats[7 * i + (uint32_t)k] = (float)v[k];
    }
    return (uint8_t *)floats;
}

/* The model's order, or one that has nothing to do with it. */
static void make_order(uint32_t order[BONES], bool shuffled) {
    uint32_t random = 1;
    for (uint32_t i = 0; i < BONES; i++)
        order[i] = i;
    for (uint32_t i = BONES - 1; shuffled && i > 0; i--) {
        random = random * 1664525 + 1013904223;
        uint32_t other = (random >> 16) % (i + 1), moved = order[i];
        order[i] = order[other];
        order[other] = moved;
    }
}

static double ours[SAMPLES_MAX], theirs[SAMPLES_MAX];

static bool more_samples(size_t samples, double end) {
    return samples < SAMPLES_MAX && (samples < 3 || now_us() < end);
}

static void measure_json(const dfm_model *model, dfm_pose *pose, int digits, bool shuffled) {
    size_t size, samples = 0;
    uint32_t order[BONES];
    make_order(order, shuffled);
    char *text = make_json(model, order, digits, &size);
    dfm_pose_scratch scratch = {0};
    for (double end = now_us() + 1e6 * bench_seconds(); more_samples(samples, end); samples++) {
        dfm_problem problem;
        dfm_pose_reader reader;
        dfm_pose_list list;
        double start = now_us();
        dfm_pose_reset(pose);
        if (!dfm_pose_json_begin(&reader, model, false, &scratch, text, size, &problem) ||
            !dfm_pose_json_read_body(&reader, pose, &list))
            stop(problem.detail);
        ours[samples] = now_us() - start;
        start = now_us();
        cJSON_Delete(cJSON_ParseWithLength(text, size));
        theirs[samples] = now_us() - start;
    }
    double us = median(ours, samples), cjson_us = median(theirs, samples);
    printf("| JSON, %2d digits a number, %s order | %4.1f KB | %6.1f us | %6.1f us | %4.1fx |\n",
           digits, shuffled ? "random" : "model's", (double)size / 1000, us, cjson_us,
           cjson_us / us);
    dfm_pose_scratch_free(&scratch);
    free(text);
}

static void measure_binary(const dfm_model *model, dfm_pose *pose) {
    size_t size, samples = 0;
    uint8_t *bytes = make_binary(model, &size);
    for (double end = now_us() + 1e6 * bench_seconds(); more_samples(samples, end); samples++) {
        dfm_problem problem;
        double start = now_us();
        dfm_pose_reset(pose);
        if (!dfm_pose_binary_read(model, DFM_POSE_FORMAT_LOCAL, bytes, 0, pose, &problem))
            stop(problem.detail);
        ours[samples] = now_us() - start;
    }
    printf("| binary pose | %4.1f KB | %6.1f us | | |\n", (double)size / 1000,
           median(ours, samples));
    free(bytes);
}

int main(void) {
    dfm_model *model = make_model();
    dfm_skin_bind *bind;
    dfm_workspace workspace = {0};
    if (dfm_skin_bind_create(model, DFM_WEIGHTS_NORMALIZED, true, &bind, NULL) != DFM_OK ||
        dfm_workspace_reserve(&workspace, bind, NULL) != DFM_OK)
        stop("no memory");
    printf("| body to pose, %d bones, one core | size | deformd | cJSON, parsing only | ratio |\n"
           "| --- | --- | --- | --- | --- |\n",
           BONES);
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        measure_json(model, &workspace.pose, 6, shuffled);
        measure_json(model, &workspace.pose, 17, shuffled);
    }
    measure_binary(model, &workspace.pose);
    dfm_workspace_free(&workspace);
    dfm_skin_bind_free(bind);
    dfm_model_release(model);
    return 0;
}
