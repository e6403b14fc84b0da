/* Fuzzes the PMX reader, and the writer behind it: what loads is written and must read back the
 * same. */
#include "core/model.h"
#include "tests/data/compare.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    dfm_model_release(model);
    return 0;
}
