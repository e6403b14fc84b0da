#include "kernels/skin.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static bool always(void) {
    return true;
}

#if defined(__x86_64__)
static bool has_avx2(void) {
    unsigned a, b, c, d;
    bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C); /* clang 14 cannot be asked */
    return has_f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

const dfm_skin_variant dfm_skin_variants[] = {
#if defined(__x86_64__)
    {"avx2", dfm_skin_avx2, has_avx2},
    {"sse2", dfm_skin_sse2, always}, /* every x86-64 processor */
#elif defined(__aarch64__)
    {"neon", dfm_skin_neon, always}, /* every 64-bit ARM processor */
#endif
    {"scalar", dfm_skin_scalar, always},
};
const size_t dfm_skin_variant_count = sizeof dfm_skin_variants / sizeof *dfm_skin_variants;
