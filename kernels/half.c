#include "kernels/skin.h"

#include <string.h>

enum { HALF_MAX = 0x7bff, F32_EXPONENT_BIAS = 127, F16_EXPONENT_BIAS = 15 };

uint16_t dfm_half_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) /* not a number */
        return 0;
    if (magnitude >= 0x477fefffu + 1u) /* 65519.996 and above would round past the largest */
        return (uint16_t)(sign | HALF_MAX);
    if (magnitude < 0x38800000u) {   /* under 2^-14: subnormal or zero */
        if (magnitude < 0x33000000u) /* under 2^-25: half of the smallest, a tie goes to even, 0 */
            return sign;
        uint32_t exponent = magnitude >> 23;
        uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        uint32_t shift = 126u - exponent; /* to units of 2^-24 */
        uint32_t half = mantissa >> shift, rest = mantissa & ((1u << shift) - 1u);
        uint32_t tie = 1u << (shift - 1u);
        half += rest > tie || (rest == tie && (half & 1u));
        return (uint16_t)(sign | half);
    }
    uint32_t rebased = magnitude - ((uint32_t)(F32_EXPONENT_BIAS - F16_EXPONENT_BIAS) << 23);
    uint32_t half = rebased >> 13, rest = rebased & 0x1fffu;
    half += rest > 0x1000u || (rest == 0x1000u && (half & 1u));
    return (uint16_t)(sign | half);
}

void dfm_half_from_floats(uint16_t *dst, const float *src, size_t count) {
    for (size_t i = 0; i < count; i++)
        dst[i] = dfm_half_from_float(src[i]);
}
