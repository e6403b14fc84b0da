/* Baseline x86-64. */
#if defined(__x86_64__)
#define SKIN_KERNEL dfm_skin_sse2
#define SKIN_WIDTH 4
#include "kernels/skin_vector.h"
#endif
