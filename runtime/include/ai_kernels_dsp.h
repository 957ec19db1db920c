/*
 * Matrix-product blocks for cores with the DSP extension (Cortex-M4, M7, M33): SMLAD on int16 pairs.
 *
 * Weights of two channels share a word: for one pair of inputs (a, b) the halfwords hold 256 * w1 + w0 ("packed
 * lanes", |w1| <= 127) or, when the bounds do not allow it, bytes w0[a], w1[a], w0[b], w1[b].
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

AI_INLINE void ai_store_word(void *address, uint32_t word)
{
    memcpy(address, &word, sizeof(word));
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

AI_INLINE int32_t ai_smlad_pairs(uint32_t x, uint32_t y, int32_t accumulator)
{
    return __smlad((int16x2_t)x, (int16x2_t)y, accumulator);
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

/* Widen `count` codes (a multiple of 4) in the order 0, 2, 1, 3 of each four; weights are packed alike. */
AI_INLINE void ai_widen_dsp(int16_t *tile, const int8_t *input, int32_t count, int32_t zero_point)
{
    const uint32_t base = ai_minus_pair(zero_point);
    const int8_t *const end = input + count;

    while (input != end) {
        const uint32_t word = ai_load_word(input);
        ai_store_word(tile, ai_even_bytes_plus(base, word));
        ai_store_word(tile + 2, ai_odd_bytes_plus(base, word));
        input += 4;
        tile += 4;
    }
}

/* Accumulators of a pixel: even channel, and odd channel (with the even one in its low bits when lanes are packed). */
typedef struct {
    int32_t even;
    int32_t odd;
} ai_pair_sums;

AI_INLINE int32_t ai_odd_sum(ai_pair_sums sums, int32_t packed)
{
    return (packed != 0) ? (int32_t)((uint32_t)sums.odd - (uint32_t)sums.even) >> 8 : sums.odd;
}

AI_INLINE ai_pair_sums ai_pair_bias(const int32_t *params, int32_t packed)
{
    ai_pair_sums sums;
    sums.even = params[0];
    sums.odd = (packed != 0) ? (int32_t)(((uint32_t)params[2] << 8) + (uint32_t)params[0]) : params[2];
    return sums;
}

/* Step `k` (an input pair) of four pixels: one weight word, four input words, eight SMLAD. */
AI_INLINE void ai_step_4px(const int16_t *x, const int8_t *w, int32_t k, int32_t depth, int32_t packed, ai_pair_sums *a,
                           ai_pair_sums *b, ai_pair_sums *c, ai_pair_sums *d)
{
    const uint32_t word = ai_load_word(w + 4 * k);
    const uint32_t xa = ai_load_word(x + 2 * k);
    const uint32_t xb = ai_load_word(x + 2 * k + depth);
    const uint32_t xc = ai_load_word(x + 2 * k + 2 * depth);
    const uint32_t xd = ai_load_word(x + 2 * k + 3 * depth);
    const uint32_t odd = (packed != 0) ? word : ai_odd_bytes(word);
    uint32_t even;

    a->odd = ai_smlad_pairs(xa, odd, a->odd);
    b->odd = ai_smlad_pairs(xb, odd, b->odd);
    c->odd = ai_smlad_pairs(xc, odd, c->odd);
    d->odd = ai_smlad_pairs(xd, odd, d->odd);
    even = ai_even_bytes(word);
    a->even = ai_smlad_pairs(xa, even, a->even);
    b->even = ai_smlad_pairs(xb, even, b->even);
    c->even = ai_smlad_pairs(xc, even, c->even);
    d->even = ai_smlad_pairs(xd, even, d->even);
}

/* Codes of two channels of a pixel. */
AI_INLINE void ai_finish_pair(const ai_output_stage *stage, ai_pair_sums sums, int32_t packed, int32_t channel,
                              int32_t channels, int8_t *output)
{
    const int32_t *const params = stage->params + (ptrdiff_t)channel * 2;

    output[channel] = ai_finish_dsp(stage, sums.even, params[1], stage->shifts[channel]);
    if (channel + 1 < channels) {
        output[channel + 1] = ai_finish_dsp(stage, ai_odd_sum(sums, packed), params[3], stage->shifts[channel + 1]);
    }
}

/* Four pixels by two channels. `depth` is even; rows of the tile are `depth` int16 apart. */
AI_INLINE void ai_gemm_4px_dsp(const int16_t *tile, int32_t depth, const int8_t *weights, int32_t channels,
                               int32_t packed, const ai_output_stage *stage, int8_t *output, int32_t output_stride)
{
    const int32_t steps = depth / 2;
    const int8_t *w = weights;
    int32_t channel;

    for (channel = 0; channel < channels; channel += 2) {
        const int16_t *x = tile;
        ai_pair_sums a = ai_pair_bias(stage->params + (ptrdiff_t)channel * 2, packed);
        ai_pair_sums b = a;
        ai_pair_sums c = a;
        ai_pair_sums d = a;
        int32_t k;
        if (steps >= 4) {
            const int8_t *const end = w + (ptrdiff_t)(steps - steps % 4) * 4;
            do {
                ai_step_4px(x, w, 0, depth, packed, &a, &b, &c, &d);
                ai_step_4px(x, w, 1, depth, packed, &a, &b, &c, &d);
                ai_step_4px(x, w, 2, depth, packed, &a, &b, &c, &d);
                ai_step_4px(x, w, 3, depth, packed, &a, &b, &c, &d);
                x += 8;
                w += 16;
                AI_OPAQUE(x);
                AI_OPAQUE(w);
            } while (w != end);
        }
#pragma GCC unroll 4
        for (k = 0; k < steps % 4; k++) {
            ai_step_4px(x, w, k, depth, packed, &a, &b, &c, &d);
        }
        w += (ptrdiff_t)(steps % 4) * 4;
        ai_finish_pair(stage, a, packed, channel, channels, output);
        ai_finish_pair(stage, b, packed, channel, channels, output + output_stride);
        ai_finish_pair(stage, c, packed, channel, channels, output + (ptrdiff_t)2 * output_stride);
        ai_finish_pair(stage, d, packed, channel, channels, output + (ptrdiff_t)3 * output_stride);
    }
}

/* Step `k` of one pixel. */
AI_INLINE void ai_step_1px(uint32_t x, const int8_t *w, int32_t packed, ai_pair_sums *sums)
{
    const uint32_t word = ai_load_word(w);

    sums->odd = ai_smlad_pairs(x, (packed != 0) ? word : ai_odd_bytes(word), sums->odd);
    sums->even = ai_smlad_pairs(x, ai_even_bytes(word), sums->even);
}

/* One pixel by two channels. */
AI_INLINE void ai_gemm_1px_dsp(const int16_t *tile, int32_t depth, const int8_t *weights, int32_t channels,
                               int32_t packed, const ai_output_stage *stage, int8_t *output)
{
    const int32_t steps = depth / 2;
    const int8_t *w = weights;
    int32_t channel;

    for (channel = 0; channel < channels; channel += 2) {
        const int16_t *x = tile;
        ai_pair_sums sums = ai_pair_bias(stage->params + (ptrdiff_t)channel * 2, packed);
        int32_t k;
        if (steps >= 4) {
            const int8_t *const end = w + (ptrdiff_t)(steps - steps % 4) * 4;
            do {
                ai_step_1px(ai_load_word(x), w, packed, &sums);
                ai_step_1px(ai_load_word(x + 2), w + 4, packed, &sums);
                ai_step_1px(ai_load_word(x + 4), w + 8, packed, &sums);
                ai_step_1px(ai_load_word(x + 6), w + 12, packed, &sums);
                x += 8;
                w += 16;
                AI_OPAQUE(x);
                AI_OPAQUE(w);
            } while (w != end);
        }
#pragma GCC unroll 4
        for (k = 0; k < steps % 4; k++) {
            ai_step_1px(ai_load_word(x + 2 * k), w + 4 * k, packed, &sums);
        }
        w += (ptrdiff_t)(steps % 4) * 4;
        ai_finish_pair(stage, sums, packed, channel, channels, output);
    }
}

/* One pixel by six channels of a dense layer: each input pair is loaded once for three weight words. */
AI_INLINE void ai_dense_dsp(const int16_t *tile, int32_t depth, const int8_t *weights, int32_t channels, int32_t packed,
                            const ai_output_stage *stage, int8_t *output)
{
    const int32_t blocks = channels - channels % 6;
    const ptrdiff_t row = (ptrdiff_t)depth * 2;
    const int32_t steps = depth / 2;
    const int8_t *w = weights;
    int32_t channel;

    for (channel = 0; channel < blocks; channel += 6) {
        const int16_t *x = tile;
        const int8_t *w1 = w + row;
        const int8_t *w2 = w1 + row;
        ai_pair_sums a = ai_pair_bias(stage->params + (ptrdiff_t)channel * 2, packed);
        ai_pair_sums b = ai_pair_bias(stage->params + (ptrdiff_t)channel * 2 + 4, packed);
        ai_pair_sums c = ai_pair_bias(stage->params + (ptrdiff_t)channel * 2 + 8, packed);
        int32_t k;
        const int8_t *const end = w + (ptrdiff_t)(steps - steps % 4) * 4;
        while (w != end) {
#pragma GCC unroll 4
            for (k = 0; k < 4; k++) {
                const uint32_t codes = ai_load_word(x + 2 * k);
                ai_step_1px(codes, w + 4 * k, packed, &a);
                ai_step_1px(codes, w1 + 4 * k, packed, &b);
                ai_step_1px(codes, w2 + 4 * k, packed, &c);
            }
            x += 8;
            w += 16;
            w1 += 16;
            w2 += 16;
            AI_OPAQUE(x);
            AI_OPAQUE(w);
            AI_OPAQUE(w1);
            AI_OPAQUE(w2);
        }
#pragma GCC unroll 4
        for (k = 0; k < steps % 4; k++) {
            const uint32_t codes = ai_load_word(x + 2 * k);
            ai_step_1px(codes, w + 4 * k, packed, &a);
            ai_step_1px(codes, w1 + 4 * k, packed, &b);
            ai_step_1px(codes, w2 + 4 * k, packed, &c);
        }
        w = w2 + (ptrdiff_t)(steps % 4) * 4;
        ai_finish_pair(stage, a, packed, channel, channels, output);
        ai_finish_pair(stage, b, packed, channel + 2, channels, output);
        ai_finish_pair(stage, c, packed, channel + 4, channels, output);
    }
    if (blocks < channels) {
        const ai_output_stage rest = {stage->params + (ptrdiff_t)blocks * 2,
                                      stage->shifts + blocks,
                                      stage->zero_point,
                                      stage->clamp_min,
                                      stage->clamp_max,
                                      stage->rounding,
                                      stage->fast};
        ai_gemm_1px_dsp(tile, depth, w, channels - blocks, packed, &rest, output + blocks);
    }
}

#endif /* __ARM_FEATURE_DSP */
#endif /* AI_KERNELS_DSP_H */
