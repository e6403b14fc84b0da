/* Time from the bytes of a JSON pose to a pose: 300 bones with rotation and translation, as short
 * numbers (six digits) and as full doubles. cJSON, with nothing done to what it parses, for
 * comparison. */
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

static char *make_json(const dfm_model *model, int digits, size_t *size) {
    size_t capacity = 1 << 20, at = 0;
    char *text = malloc(capacity);
    if (!text)
        stop("no memory");
    at += (size_t)sprintf(text + at, "{\"bones\":{");
    for (uint32_t i = 0; i < BONES; i++) {
        double a = 0.001 + 0.003 * i, v[7] = {sin(a) * 0.6, sin(a) * 0.48, sin(a) * 0.64, cos(a)};
        for (int k = 0; k < 3; k++)
            v[4 + k] = sin(i + k) / 3;
        at += (size_t)sprintf(text + at, "%s\"%s\":{\"rotation\":[", i ? "," : "",
                              model->pmx.bones[i].name.data);
        for (int k = 0; k < 7; k++)
            at += (size_t)sprintf(text + at, "%.*g%s", digits, v[k],
                                  k == 3 ? "],\"translation\":[" : (k == 6 ? "]}" : ","));
    }
    at += (size_t)sprintf(text + at, "}}");
    *size = at;
    return text;
}

static void measure(const dfm_model *model, dfm_pose *pose, int digits) {
    static double ours[SAMPLES_MAX], theirs[SAMPLES_MAX];
    size_t size, samples = 0;
    char *text = make_json(model, digits, &size);
    dfm_pose_scratch scratch = {0};
    double end = now_us() + 1e6 * bench_seconds();
    while (samples < SAMPLES_MAX && (samples < 3 || now_us() < end)) {
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
        samples++;
    }
    double us = median(ours, samples);
    printf("| %d bones, %2d digits, %5.1f KB | %6.1f us | %6.1f us | %4.1fx |\n", BONES, digits,
           (double)size / 1000, us, median(theirs, samples), theirs[samples / 2] / us);
    dfm_pose_scratch_free(&scratch);
    free(text);
}

int main(void) {
    dfm_model *model = make_model();
    dfm_skin_bind *bind;
    dfm_workspace workspace = {0};
    if (dfm_skin_bind_create(model, DFM_WEIGHTS_NORMALIZED, true, &bind, NULL) != DFM_OK ||
        dfm_workspace_reserve(&workspace, bind, NULL) != DFM_OK)
        stop("no memory");
    printf("| JSON to pose, one core | deformd | cJSON, parsing only | ratio |\n"
           "| --- | --- | --- | --- |\n");
    measure(model, &workspace.pose, 6);
    measure(model, &workspace.pose, 17);
    dfm_workspace_free(&workspace);
    dfm_skin_bind_free(bind);
    dfm_model_release(model);
    return 0;
}
