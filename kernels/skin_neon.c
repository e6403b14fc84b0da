/* Baseline 64-bit ARM. */
#if defined(__aarch64__)
#define SKIN_KERNEL dfm_skin_neon
#define SKIN_WIDTH 4
#include "kernels/skin_vector.h"
#endif
