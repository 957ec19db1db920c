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

AI_INLINE int32_t ai_smlad(uint32_t x, uint32_t y, int32_t accumulator)
{
    return __smlad((int16x2_t)x, (int16x2_t)y, accumulator);
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

/* Four pixels by two channels, packed lanes. `depth` is even; rows of the tile are `depth` int16 apart. */
AI_INLINE void ai_gemm_4px_dsp(const int16_t *tile, int32_t depth, const int8_t *weights, int32_t channels,
                               int32_t packed, const ai_output_stage *stage, int8_t *output, int32_t output_stride)
{
    const int8_t *w = weights;
    int32_t c;

    for (c = 0; c < channels; c += 2) {
        const int16_t *x = tile;
        const int16_t *const end = tile + depth;
        const int32_t *const params = stage->params + (ptrdiff_t)c * 2;
        const int32_t bias0 = params[0];
        const int32_t bias1 = (packed != 0) ? (int32_t)(((uint32_t)params[2] << 8) + (uint32_t)bias0) : params[2];
        int32_t a0 = bias0;
        int32_t b0 = bias0;
        int32_t c0 = bias0;
        int32_t d0 = bias0;
        int32_t a1 = bias1;
        int32_t b1 = bias1;
        int32_t c1 = bias1;
        int32_t d1 = bias1;
#pragma GCC unroll 4
        do {
            uint32_t pair = ai_load_word(w);
            const uint32_t xa = ai_load_word(x);
            const uint32_t xb = ai_load_word(x + depth);
            const uint32_t xc = ai_load_word(x + 2 * depth);
            const uint32_t xd = ai_load_word(x + 3 * depth);
            const uint32_t odd = (packed != 0) ? pair : ai_odd_bytes(pair);
            a1 = ai_smlad(xa, odd, a1);
            b1 = ai_smlad(xb, odd, b1);
            c1 = ai_smlad(xc, odd, c1);
            d1 = ai_smlad(xd, odd, d1);
            pair = ai_even_bytes(pair);
            a0 = ai_smlad(xa, pair, a0);
            b0 = ai_smlad(xb, pair, b0);
            c0 = ai_smlad(xc, pair, c0);
            d0 = ai_smlad(xd, pair, d0);
            w += 4;
            x += 2;
        } while (x != end);
        if (packed != 0) {
            a1 = (int32_t)((uint32_t)a1 - (uint32_t)a0) >> 8;
            b1 = (int32_t)((uint32_t)b1 - (uint32_t)b0) >> 8;
            c1 = (int32_t)((uint32_t)c1 - (uint32_t)c0) >> 8;
            d1 = (int32_t)((uint32_t)d1 - (uint32_t)d0) >> 8;
        }
        {
            const int32_t multiplier = params[1];
            const int32_t shift = stage->shifts[c];
            output[c] = ai_finish(stage, a0, multiplier, shift);
            output[output_stride + c] = ai_finish(stage, b0, multiplier, shift);
            output[2 * output_stride + c] = ai_finish(stage, c0, multiplier, shift);
            output[3 * output_stride + c] = ai_finish(stage, d0, multiplier, shift);
        }
        if (c + 1 < channels) {
            const int32_t multiplier = params[3];
            const int32_t shift = stage->shifts[c + 1];
            output[c + 1] = ai_finish(stage, a1, multiplier, shift);
            output[output_stride + c + 1] = ai_finish(stage, b1, multiplier, shift);
            output[2 * output_stride + c + 1] = ai_finish(stage, c1, multiplier, shift);
            output[3 * output_stride + c + 1] = ai_finish(stage, d1, multiplier, shift);
        }
    }
}

/* One pixel by two channels. */
AI_INLINE void ai_gemm_1px_dsp(const int16_t *tile, int32_t depth, const int8_t *weights, int32_t channels,
                               int32_t packed, const ai_output_stage *stage, int8_t *output)
{
    const int8_t *w = weights;
    int32_t c;

    for (c = 0; c < channels; c += 2) {
        const int16_t *x = tile;
        const int16_t *const end = tile + depth;
        const int32_t *const params = stage->params + (ptrdiff_t)c * 2;
        int32_t a0 = params[0];
        int32_t a1 = (packed != 0) ? (int32_t)(((uint32_t)params[2] << 8) + (uint32_t)a0) : params[2];
#pragma GCC unroll 4
        do {
            const uint32_t pair = ai_load_word(w);
            const uint32_t xa = ai_load_word(x);
            a1 = ai_smlad(xa, (packed != 0) ? pair : ai_odd_bytes(pair), a1);
            a0 = ai_smlad(xa, ai_even_bytes(pair), a0);
            w += 4;
            x += 2;
        } while (x != end);
        if (packed != 0) {
            a1 = (int32_t)((uint32_t)a1 - (uint32_t)a0) >> 8;
        }
        output[c] = ai_finish(stage, a0, params[1], stage->shifts[c]);
        if (c + 1 < channels) {
            output[c + 1] = ai_finish(stage, a1, params[3], stage->shifts[c + 1]);
        }
    }
}

/* One pixel by eight channels of a dense layer: each input pair is loaded once for four weight words. */
AI_INLINE void ai_dense_dsp(const int16_t *tile, int32_t depth, const int8_t *weights, int32_t channels, int32_t packed,
                            const ai_output_stage *stage, int8_t *output)
{
    const ptrdiff_t row = (ptrdiff_t)depth * 2;
    const int32_t blocks = channels - channels % 8;
    int32_t c;

    for (c = 0; c < blocks; c += 8) {
        const int16_t *x = tile;
        const int16_t *const end = tile + depth;
        const int8_t *w = weights + (ptrdiff_t)c * depth;
        const int32_t *const params = stage->params + (ptrdiff_t)c * 2;
        int32_t acc[8];
        int32_t i;
        acc[0] = params[0];
        acc[1] = params[2];
        acc[2] = params[4];
        acc[3] = params[6];
        acc[4] = params[8];
        acc[5] = params[10];
        acc[6] = params[12];
        acc[7] = params[14];
        if (packed != 0) {
            acc[1] = (int32_t)(((uint32_t)acc[1] << 8) + (uint32_t)acc[0]);
            acc[3] = (int32_t)(((uint32_t)acc[3] << 8) + (uint32_t)acc[2]);
            acc[5] = (int32_t)(((uint32_t)acc[5] << 8) + (uint32_t)acc[4]);
            acc[7] = (int32_t)(((uint32_t)acc[7] << 8) + (uint32_t)acc[6]);
        }
#pragma GCC unroll 2
        do {
            const uint32_t xa = ai_load_word(x);
            uint32_t pair = ai_load_word(w);
            acc[1] = ai_smlad(xa, (packed != 0) ? pair : ai_odd_bytes(pair), acc[1]);
            acc[0] = ai_smlad(xa, ai_even_bytes(pair), acc[0]);
            pair = ai_load_word(w + row);
            acc[3] = ai_smlad(xa, (packed != 0) ? pair : ai_odd_bytes(pair), acc[3]);
            acc[2] = ai_smlad(xa, ai_even_bytes(pair), acc[2]);
            pair = ai_load_word(w + 2 * row);
            acc[5] = ai_smlad(xa, (packed != 0) ? pair : ai_odd_bytes(pair), acc[5]);
            acc[4] = ai_smlad(xa, ai_even_bytes(pair), acc[4]);
            pair = ai_load_word(w + 3 * row);
            acc[7] = ai_smlad(xa, (packed != 0) ? pair : ai_odd_bytes(pair), acc[7]);
            acc[6] = ai_smlad(xa, ai_even_bytes(pair), acc[6]);
            w += 4;
            x += 2;
        } while (x != end);
        if (packed != 0) {
            acc[1] = (int32_t)((uint32_t)acc[1] - (uint32_t)acc[0]) >> 8;
            acc[3] = (int32_t)((uint32_t)acc[3] - (uint32_t)acc[2]) >> 8;
            acc[5] = (int32_t)((uint32_t)acc[5] - (uint32_t)acc[4]) >> 8;
            acc[7] = (int32_t)((uint32_t)acc[7] - (uint32_t)acc[6]) >> 8;
        }
#pragma GCC unroll 8
        for (i = 0; i < 8; i++) {
            output[c + i] = ai_finish(stage, acc[i], params[2 * i + 1], stage->shifts[c + i]);
        }
    }
    if (blocks < channels) {
        const ai_output_stage rest = {stage->params + (ptrdiff_t)c * 2,
                                      stage->shifts + c,
                                      stage->zero_point,
                                      stage->clamp_min,
                                      stage->clamp_max,
                                      stage->rounding,
                                      stage->fast};
        ai_gemm_1px_dsp(tile, depth, weights + (ptrdiff_t)c * depth, channels - c, packed, &rest, output + c);
    }
}

#endif /* __ARM_FEATURE_DSP */
#endif /* AI_KERNELS_DSP_H */
