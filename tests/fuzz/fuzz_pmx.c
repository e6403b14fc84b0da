/* Fuzzes the PMX reader, and what is behind it: what loads is written and must read back the same,
 * and is deformed by every CPU kernel and by OpenCL where it is to be had, with weights as stored
 * and cleaned, into finite numbers. */
#include "core/deform.h"
#include "tests/data/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argument_count, char ***arguments);

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "fuzz_pmx: %s\n", what);
        abort();
    }
}

static void read_back(const dfm_pmx *pmx) {
    /* Sizes that hold any index, the version that has everything, and room for replaced bytes. */
    const dfm_pmx_write_options sizes = {4, 4, 4, 4, 4, 4};
    dfm_pmx_limits limits = dfm_pmx_default_limits;
    limits.max_text_bytes *= 3;
    dfm_pmx written = *pmx, read;
    written.version = 2.1f;
    uint8_t *bytes;
    size_t size;
    dfm_error error;
    dfm_error_clear(&error);
    require(dfm_pmx_write(&written, &sizes, &bytes, &size, &error) == DFM_OK, error.info);
    dfm_arena arena = {0};
    dfm_warnings warnings = {0};
    require(dfm_pmx_read(bytes, size, &limits, &arena, &warnings, &read, &error) == DFM_OK,
            error.info);
    const char *difference = pmx_difference(&written, &read);
    require(!difference, difference);
    dfm_arena_free(&arena);
    free(bytes);
}

/* Some pose that depends on nothing but the model. */
static void make_pose(dfm_pose *pose) {
    for (uint32_t i = 0; i < pose->bone_count; i++) {
        double angle = 0.1 * (1 + i % 20);
        pose->bones[i].rotation[i % 3] = sin(angle);
        pose->bones[i].rotation[3] = cos(angle);
        pose->bones[i].translation[i % 3] = (double)(i % 7) - 3;
    }
    for (uint32_t i = 0; i < pose->morph_count; i++)
        pose->morph_weights[i] = i % 3 ? 0.5 : -1;
}

/* Every CPU kernel that runs here, and OpenCL; opened once: a kernel's compilation takes seconds.
 */
static dfm_skinner *skinners[8];
static size_t skinner_count;

static void open_skinner(const dfm_skinner_backend *backend, const char *variant) {
    const dfm_skinner_options options = {.worker_count = 1, .simd = variant};
    dfm_error error = {0};
    require(skinner_count < sizeof skinners / sizeof *skinners, "too many skinners");
    dfm_status status = dfm_skinner_open(backend, &options, &skinners[skinner_count], &error);
    require(status == DFM_OK || status == DFM_ERROR_UNAVAILABLE, error.info);
    skinner_count += status == DFM_OK;
}

int LLVMFuzzerInitialize(int *argument_count, char ***arguments) {
    (void)argument_count, (void)arguments;
    for (size_t i = 0; i < dfm_skin_variant_count; i++)
        if (dfm_skin_variants[i].supported())
            open_skinner(&dfm_skinner_cpu, dfm_skin_variants[i].name);
    open_skinner(&dfm_skinner_opencl, NULL);
    return 0;
}

static void deform_by(dfm_deform_target *target, dfm_workspace *workspace) {
    dfm_layout layout = {.attribute_count = 2,
                         .attributes = {DFM_ATTRIBUTE_POSITION, DFM_ATTRIBUTE_NORMAL}};
    dfm_deform_times times = {0};
    dfm_layout_finish(&layout, target->model->pmx.vertices.count);
    float *frame = malloc(layout.frame_bytes + 1);
    require(frame &&
                dfm_skinner_bind(target->skinner, target->bind, &target->binding, NULL) == DFM_OK,
            "no binding");
    /* A pose may leave single precision, which is an error, and no number. */
    dfm_status status = dfm_deform(target, workspace, 0, &layout, frame, &times, NULL);
    require(status == DFM_OK || status == DFM_ERROR_ARGUMENT, dfm_status_name(status));
    for (size_t i = 0; status == DFM_OK && i < layout.frame_bytes / sizeof *frame; i++)
        require(isfinite(frame[i]), target->skinner->description);
    dfm_skinner_unbind(target->skinner, target->binding);
    free(frame);
}

static void deform_with(const dfm_model *model, dfm_weights_mode weights) {
    dfm_skin_bind *bind;
    dfm_workspace workspace = {0};
    require(dfm_skin_bind_create(model, weights, true, &bind, NULL) == DFM_OK &&
                dfm_workspace_reserve(&workspace, bind, NULL) == DFM_OK,
            "no bind data");
    make_pose(&workspace.pose);
    dfm_deform_target target = {.model = model, .bind = bind};
    for (size_t i = 0; i < skinner_count; i++) {
        target.skinner = skinners[i];
        deform_by(&target, &workspace);
    }
    dfm_workspace_free(&workspace);
    dfm_skin_bind_free(bind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dfm_model *model;
    dfm_error error;
    dfm_error_clear(&error);
    dfm_status status = dfm_model_load(data, size, &dfm_pmx_default_limits, &model, &error);
    if (status != DFM_OK) {
        require(error.status == status && error.section && error.offset >= 0,
                "error without place");
        return 0;
    }
    read_back(&model->pmx);
    deform_with(model, DFM_WEIGHTS_NORMALIZED);
    deform_with(model, DFM_WEIGHTS_RAW);
    dfm_model_release(model);
    return 0;
}
