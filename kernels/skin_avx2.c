/* AVX2, FMA and F16C: compiled for them alone (Makefile), called only where the processor has all
 * three (skin_variants.c). */
#if defined(__x86_64__)
#define SKIN_KERNEL dfm_skin_avx2
#define SKIN_WIDTH 8
#include "kernels/skin_vector.h"
#endif
