/*
 * Helium (Cortex-M55): copies by vectors, operations of generated blocks in C, requantization of sums on four lanes.
 */
#ifndef AI_KERNELS_MVE_H
#define AI_KERNELS_MVE_H

#include "ai_kernels.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#include <string.h>

/* Copy or fill `count` bytes by whole vectors and a predicated last one; return where the next byte goes. */
AI_INLINE int8_t *ai_copy_vectors(int8_t *target, const int8_t *source, int32_t count)
{
    int8_t *const end = target + count;

    __asm__ volatile("wlstp.8 lr, %2, 2f\n"
                     "1:\n\t"
                     "vldrb.8 q0, [%1], #16\n\t"
                     "vstrb.8 q0, [%0], #16\n\t"
                     "letp lr, 1b\n"
                     "2:"
                     : "+r"(target), "+r"(source)
                     : "r"(count)
                     : "lr", "q0", "memory", "cc");
    return end;
}

AI_INLINE int8_t *ai_fill_vectors(int8_t *target, int32_t code, int32_t count)
{
    int8_t *const end = target + count;

    __asm__ volatile("vdup.8 q0, %1\n\t"
                     "wlstp.8 lr, %2, 2f\n"
                     "1:\n\t"
                     "vstrb.8 q0, [%0], #16\n\t"
                     "letp lr, 1b\n"
                     "2:"
                     : "+r"(target)
                     : "r"(code), "r"(count)
                     : "lr", "q0", "memory", "cc");
    return end;
}

/* For generated blocks: words at any multiple of four bytes, and the first `count` codes of a vector. */
AI_INLINE int32x4_t ai_vload_words(const int8_t *address)
{
    return vreinterpretq_s32_s8(vldrbq_s8(address));
}

AI_INLINE void ai_vstore_first(int8_t *target, int8x16_t codes, int32_t count)
{
    __asm__ volatile("vctp.8 %2\n\tvpst\n\tvstrbt.8 %q1, [%0]" : : "r"(target), "w"(codes), "r"(count) : "memory");
}

/* The low halves of four lanes. */
AI_INLINE void ai_vstore_halves(int8_t *target, int32x4_t words)
{
    __asm__ volatile("vstrh.32 %q1, [%0]" : : "l"(target), "w"(words) : "memory");
}

/* Four lanes from four scalars. */
AI_INLINE int32x4_t ai_lanes(int32_t a, int32_t b, int32_t c, int32_t d)
{
    int32x4_t lanes;
    __asm__("vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4"
            : "=&w"(lanes)
            : "r"(a), "r"(b), "r"(c), "r"(d));
    return lanes;
}

/* ai_multiply by TFLM's rounding on four lanes, 0 <= right: both numbers are constants. */
AI_INLINE int32x4_t ai_multiply_mve(int32x4_t x, int32_t multiplier, int32_t right)
{
    int32x4_t result = vqrdmulhq_n_s32(x, multiplier);

    if (right > 0) {
        result = vaddq_s32(result, vshrq_n_s32(result, 31));
        result = vrshlq_n_s32(result, -right);
    }
    return result;
}

/*
 * Sums of `count` codes divided by it, to nearest, halves away from zero: by a multiplication with `factor` / 2^(16 +
 * `right`), which gives the quotient of every sum there can be.
 */
AI_INLINE int16x8_t ai_average_mve(int16x8_t sum, int32_t count, int32_t factor, int32_t right)
{
    const uint16x8_t size = vaddq_n_u16(vreinterpretq_u16_s16(vabsq_s16(sum)), (uint16_t)(count / 2));
    const uint16x8_t high = vmulhq_u16(size, vdupq_n_u16((uint16_t)factor));
    const int16x8_t quotient = vreinterpretq_s16_u16(vshlq_r_u16(high, -right));

    return vnegq_m_s16(quotient, quotient, vcmpltq_n_s16(sum, 0));
}

/* One operand of a sum: codes without their zero point, `left` bits up, times 2^-right * multiplier / 2^31. */
AI_INLINE int32x4_t ai_operand_mve(const int8_t *codes, int32_t zero_point, int32_t left, int32_t multiplier,
                                   int32_t right)
{
    const int32x4_t steps = vsubq_n_s32(vldrbq_s32(codes), zero_point);

    if ((multiplier == 0x40000000) && (right == 0)) {
        return vshlq_r_s32(steps, left - 1);
    }
    return ai_multiply_mve(vshlq_r_s32(steps, left), multiplier, right);
}

#endif /* __ARM_FEATURE_MVE */
#endif /* AI_KERNELS_MVE_H */
