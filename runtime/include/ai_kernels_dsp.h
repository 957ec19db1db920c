/*
 * Building blocks of depthwise kernels in C for cores with the DSP extension (Cortex-M4, M7, M33): SMLAD on int16
 * pairs.
 */
#ifndef AI_KERNELS_DSP_H
#define AI_KERNELS_DSP_H

#include "ai_kernels.h"

#if defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>
#include <string.h>

/*
 * Makes a pointer's value unknown to the compiler, so that accesses near it use one register and immediate offsets
 * instead of a pointer each, which a core with 13 free registers would have to spill.
 */
#define AI_OPAQUE(pointer) __asm__("" : "+r"(pointer))

/* Has four sums finished together: computed one after the other, their operands would have to be kept and spilled. */
#define AI_TOGETHER(a, b, c, d) __asm__("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d))

/* Four bytes at any address: one LDR. */
AI_INLINE uint32_t ai_load_word(const void *address)
{
    uint32_t word;
    memcpy(&word, address, sizeof(word));
    return word;
}

/* Sign-extend bytes 0 and 2 (or 1 and 3) into a pair of halfwords. */
AI_INLINE uint32_t ai_even_bytes(uint32_t word)
{
    uint32_t pair;
    __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(word));
    return pair;
}

AI_INLINE uint32_t ai_odd_bytes(uint32_t word)
{
    uint32_t pair;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
    return pair;
}

AI_INLINE uint32_t ai_even_bytes_plus(uint32_t base, uint32_t word)
{
    uint32_t pair;
    __asm__("sxtab16 %0, %1, %2" : "=r"(pair) : "r"(base), "r"(word));
    return pair;
}

AI_INLINE uint32_t ai_odd_bytes_plus(uint32_t base, uint32_t word)
{
    uint32_t pair;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(pair) : "r"(base), "r"(word));
    return pair;
}

/*
 * ai_finish for tables whose multipliers are doubled (modulo 2^32), as the multiply instructions want them: a tenth of
 * a depthwise kernel. Without the fast form tables hold plain multipliers.
 */
AI_INLINE int8_t ai_finish_dsp(const ai_output_stage *stage, int32_t accumulator, int32_t multiplier, int32_t shift)
{
#if AI_HAS_SMMLA
    if (stage->fast != 0) {
        const int32_t offset = (int32_t)((uint32_t)(2 * stage->zero_point + 1) << (shift - 1));
        int32_t code;
        if (stage->rounding == AI_ROUNDING_TFLM) {
            __asm__("smmlar %0, %1, %2, %1" : "=r"(code) : "r"(accumulator), "r"(multiplier));
            code += offset + (accumulator >> 31);
        } else {
            __asm__("smmla %0, %1, %2, %1" : "=r"(code) : "r"(accumulator), "r"(multiplier));
            code += offset;
        }
        return (int8_t)ai_clamp(code >> shift, stage->clamp_min, stage->clamp_max);
    }
    return ai_finish(stage, accumulator, multiplier, shift);
#else
    return ai_finish(stage, accumulator, (stage->fast != 0) ? (int32_t)((uint32_t)multiplier >> 1) : multiplier, shift);
#endif
}

/* The negated zero point in both halfwords. */
AI_INLINE uint32_t ai_minus_pair(int32_t zero_point)
{
    return ((uint32_t)-zero_point & 0xFFFFU) | ((uint32_t)-zero_point << 16);
}

#endif /* __ARM_FEATURE_DSP */
#endif /* AI_KERNELS_DSP_H */
