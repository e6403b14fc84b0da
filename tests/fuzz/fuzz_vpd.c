/* Fuzzes the VPD reader: what it accepts is finite, of unit length, and named. */
#include "core/text.h"
#include "core/vpd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "fuzz_vpd: %s\n", what);
        abort();
    }
}

static void check(const dfm_vpd *vpd) {
    for (uint32_t i = 0; i < vpd->bone_count; i++) {
        const dfm_vpd_bone *bone = &vpd->bones[i];
        double length2 = 0;
        for (int k = 0; k < 4; k++)
            length2 += bone->rotation[k] * bone->rotation[k];
        require(fabs(length2 - 1) < 1e-6, "a rotation is not of unit length");
        for (int k = 0; k < 3; k++)
            require(isfinite(bone->translation[k]), "a translation is not finite");
        require(bone->name.length > 0 && dfm_text_is_utf8(bone->name.data, bone->name.length),
                "a name is none");
    }
    for (uint32_t i = 0; i < vpd->morph_count; i++)
        require(isfinite(vpd->morphs[i].weight), "a weight is not finite");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dfm_arena arena = {0};
    dfm_vpd vpd;
    dfm_error error;
    dfm_error_clear(&error);
    dfm_status status = dfm_vpd_read(data, size, &arena, &vpd, &error);
    if (status == DFM_OK)
        check(&vpd);
    else
        require(error.status == status && error.section && error.offset >= 0,
                "error without place");
    dfm_arena_free(&arena);
    return 0;
}
