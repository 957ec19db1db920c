/*
 * Matrix-product blocks for cores with Helium (Cortex-M55): VMLADAVA on 16 codes at a time.
 *
 * Rows of weights and tile are padded to 16 bytes; the input zero point is folded into the biases, padding of the
 * input holds the zero point. Requantization is the fast form of ai_kernels.h on four lanes.
 */
#ifndef AI_KERNELS_MVE_H
#define AI_KERNELS_MVE_H

#include "ai_kernels.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#include <string.h>

/*
 * Whole vectors where the count is a constant; else memcpy and memset, not predicated vector stores: GCC 12 takes a
 * predicated store for a whole one and drops an earlier store to the same place.
 */
AI_INLINE void ai_copy(int8_t *target, const int8_t *source, int32_t count)
{
    int32_t i;

    if (__builtin_constant_p(count) && (count % 16 == 0) && (count <= 128)) {
#pragma GCC unroll 8
        for (i = 0; i < count; i += 16) {
            vst1q_s8(target + i, vld1q_s8(source + i));
        }
    } else {
        (void)memcpy(target, source, (size_t)count);
    }
}

AI_INLINE void ai_fill(int8_t *target, int8_t value, int32_t count)
{
    (void)memset(target, value, (size_t)count);
}

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

/* Keeps the compiler from loading ahead: eight vector registers are soon full, and spilling costs more than it hides.
 */
#define AI_LOAD_BARRIER() __asm__ volatile("" ::: "memory")

/* Four lanes from four scalars. */
AI_INLINE int32x4_t ai_lanes(int32_t a, int32_t b, int32_t c, int32_t d)
{
    int32x4_t lanes;
    __asm__("vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4"
            : "=&w"(lanes)
            : "r"(a), "r"(b), "r"(c), "r"(d));
    return lanes;
}

/* Codes (one a 32-bit lane) from accumulators that hold their biases. `shift` is negative: to the right. */
AI_INLINE int32x4_t ai_finish_mve(const ai_output_stage *stage, int32x4_t sums, int32x4_t multiplier, int32x4_t shift)
{
    int32x4_t codes;

    if (stage->rounding == AI_ROUNDING_TFLM) {
        codes = vqrdmulhq_s32(sums, multiplier);
        codes = vaddq_s32(codes, vshrq_n_s32(sums, 31));
    } else {
        codes = vqdmulhq_s32(sums, multiplier);
    }
    codes = vaddq_n_s32(vrshlq_s32(codes, shift), stage->zero_point);
    if (stage->clamp_min > INT8_MIN) {
        codes = vmaxq_s32(codes, vdupq_n_s32(stage->clamp_min));
    }
    if (stage->clamp_max < INT8_MAX) {
        codes = vminq_s32(codes, vdupq_n_s32(stage->clamp_max));
    }
    return codes;
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

/* Store the codes of up to four channels. */
AI_INLINE void ai_store_mve(int8_t *output, int32x4_t codes, int32_t channels)
{
    const int16x8_t half = vqmovnbq_s32(vdupq_n_s16(0), codes);
    const int8x16_t bytes = vqmovnbq_s16(vdupq_n_s8(0), half);
    const int32x4_t words = vreinterpretq_s32_s8(bytes);

    if (channels >= 4) {
        vstrbq_s32(output, words);
    } else {
        /* Scalar stores: see ai_copy. */
        output[0] = (int8_t)vgetq_lane_s32(words, 0);
        if (channels > 1) {
            output[1] = (int8_t)vgetq_lane_s32(words, 1);
        }
        if (channels > 2) {
            output[2] = (int8_t)vgetq_lane_s32(words, 2);
        }
    }
}

/*
 * Two pixels by four channels. `depth` is a multiple of 16; weights hold 16 codes of each of four channels in turn.
 * Parameters of four channels: four biases, four multipliers; `shifts` are negative.
 */
AI_INLINE void ai_gemm_2px_mve(const int8_t *tile, int32_t depth, const int8_t *weights, int32_t channels,
                               const ai_output_stage *stage, int8_t *output, int32_t output_stride)
{
    const int32_t *params = stage->params;
    int32_t c;

    for (c = 0; c < channels; c += 4) {
        const int8_t *x = tile;
        const int8_t *y = tile + depth;
        const int8_t *w = weights + (ptrdiff_t)c * depth;
        const int8_t *const end = tile + depth;
        int32_t a0 = 0;
        int32_t a1 = 0;
        int32_t a2 = 0;
        int32_t a3 = 0;
        int32_t b0 = 0;
        int32_t b1 = 0;
        int32_t b2 = 0;
        int32_t b3 = 0;
        /* Unrelated for all the compiler knows, so that each is a pointer that walks on by itself. */
        __asm__("" : "+r"(y));
        do {
            const int8x16_t xa = vld1q_s8(x);
            const int8x16_t xb = vld1q_s8(y);
            int8x16_t row = vld1q_s8(w);
            a0 = vmladavaq_s8(a0, xa, row);
            b0 = vmladavaq_s8(b0, xb, row);
            row = vld1q_s8(w + 16);
            a1 = vmladavaq_s8(a1, xa, row);
            b1 = vmladavaq_s8(b1, xb, row);
            row = vld1q_s8(w + 32);
            a2 = vmladavaq_s8(a2, xa, row);
            b2 = vmladavaq_s8(b2, xb, row);
            row = vld1q_s8(w + 48);
            a3 = vmladavaq_s8(a3, xa, row);
            b3 = vmladavaq_s8(b3, xb, row);
            x += 16;
            y += 16;
            w += 64;
        } while (x != end);
        {
            const int32x4_t bias = vldrwq_s32(params);
            const int32x4_t multiplier = vldrwq_s32(params + 4);
            const int32x4_t shift = vldrbq_s32(stage->shifts + c);
            const int32x4_t pixel_a = vaddq_s32(ai_lanes(a0, a1, a2, a3), bias);
            const int32x4_t pixel_b = vaddq_s32(ai_lanes(b0, b1, b2, b3), bias);
            ai_store_mve(output + c, ai_finish_mve(stage, pixel_a, multiplier, shift), channels - c);
            ai_store_mve(output + output_stride + c, ai_finish_mve(stage, pixel_b, multiplier, shift), channels - c);
        }
        params += 8;
    }
}

/* One pixel by four channels. */
AI_INLINE void ai_gemm_1px_mve(const int8_t *tile, int32_t depth, const int8_t *weights, int32_t channels,
                               const ai_output_stage *stage, int8_t *output)
{
    const int32_t *params = stage->params;
    int32_t c;

    for (c = 0; c < channels; c += 4) {
        const int8_t *x = tile;
        const int8_t *w = weights + (ptrdiff_t)c * depth;
        const int8_t *const end = tile + depth;
        int32_t a0 = 0;
        int32_t a1 = 0;
        int32_t a2 = 0;
        int32_t a3 = 0;
        do {
            const int8x16_t xa = vld1q_s8(x);
            a0 = vmladavaq_s8(a0, xa, vld1q_s8(w));
            a1 = vmladavaq_s8(a1, xa, vld1q_s8(w + 16));
            a2 = vmladavaq_s8(a2, xa, vld1q_s8(w + 32));
            a3 = vmladavaq_s8(a3, xa, vld1q_s8(w + 48));
            x += 16;
            w += 64;
        } while (x != end);
        {
            const int32x4_t sums = vaddq_s32(ai_lanes(a0, a1, a2, a3), vldrwq_s32(params));
            const int32x4_t codes = ai_finish_mve(stage, sums, vldrwq_s32(params + 4), vldrbq_s32(stage->shifts + c));
            ai_store_mve(output + c, codes, channels - c);
        }
        params += 8;
    }
}

/*
 * One pixel of a depthwise convolution, sixteen channels. Products of int8 are summed in pairs of taps in int16 lanes
 * (the generator checks |w| <= 127, so 2 * 128 * 127 fits), then in int32. Even and odd lanes part twice on the way
 * up and join in the same way on the way down, so tables hold channels in the order 0 4 8 12, 2 6 10 14, 1 5 9 13,
 * 3 7 11 15. `row_step` and `column_step` lead from tap to tap of the input, `tap_step` of the weights.
 */
AI_INLINE void ai_depthwise_16ch_mve(const int8_t *x, int32_t row_step, int32_t column_step, const int8_t *weights,
                                     int32_t tap_step, int32_t kernel_h, int32_t kernel_w, const int32_t *params,
                                     const int8_t *shifts, const ai_output_stage *stage, int8_t *output)
{
    int32x4_t s0 = vldrwq_s32(params);
    int32x4_t s1 = vldrwq_s32(params + 4);
    int32x4_t s2 = vldrwq_s32(params + 8);
    int32x4_t s3 = vldrwq_s32(params + 12);
    const int32_t taps = kernel_h * kernel_w;
    int32_t t;
    int16x8_t even;
    int16x8_t odd;

#pragma GCC unroll 32
    for (t = 0; t < taps; t += 2) {
        int8x16_t codes = vld1q_s8(x + (t / kernel_w) * row_step + (t % kernel_w) * column_step);
        int8x16_t taps16 = vld1q_s8(weights + t * tap_step);
        even = vmullbq_int_s8(codes, taps16);
        odd = vmulltq_int_s8(codes, taps16);
        if (t + 1 < taps) {
            codes = vld1q_s8(x + ((t + 1) / kernel_w) * row_step + ((t + 1) % kernel_w) * column_step);
            taps16 = vld1q_s8(weights + (t + 1) * tap_step);
            even = vaddq_s16(even, vmullbq_int_s8(codes, taps16));
            odd = vaddq_s16(odd, vmulltq_int_s8(codes, taps16));
        }
        s0 = vaddq_s32(s0, vmovlbq_s16(even));
        s1 = vaddq_s32(s1, vmovltq_s16(even));
        s2 = vaddq_s32(s2, vmovlbq_s16(odd));
        s3 = vaddq_s32(s3, vmovltq_s16(odd));
        AI_LOAD_BARRIER();
    }
    s0 = ai_finish_mve(stage, s0, vldrwq_s32(params + 16), vldrbq_s32(shifts));
    s1 = ai_finish_mve(stage, s1, vldrwq_s32(params + 20), vldrbq_s32(shifts + 4));
    s2 = ai_finish_mve(stage, s2, vldrwq_s32(params + 24), vldrbq_s32(shifts + 8));
    s3 = ai_finish_mve(stage, s3, vldrwq_s32(params + 28), vldrbq_s32(shifts + 12));
    even = vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), s0), s1);
    odd = vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), s2), s3);
    vst1q_s8(output, vqmovntq_s16(vqmovnbq_s16(vdupq_n_s8(0), even), odd));
}

/* The same for eight channels, whose tables are in the order 0 2 4 6, 1 3 5 7. */
AI_INLINE void ai_depthwise_8ch_mve(const int8_t *x, int32_t row_step, int32_t column_step, const int8_t *weights,
                                    int32_t tap_step, int32_t kernel_h, int32_t kernel_w, const int32_t *params,
                                    const int8_t *shifts, const ai_output_stage *stage, int8_t *output)
{
    int32x4_t s0 = vldrwq_s32(params);
    int32x4_t s1 = vldrwq_s32(params + 4);
    const int32_t taps = kernel_h * kernel_w;
    int32_t t;
    int16x8_t sums;

#pragma GCC unroll 32
    for (t = 0; t < taps; t += 2) {
        sums = vmulq_s16(vldrbq_s16(x + (t / kernel_w) * row_step + (t % kernel_w) * column_step),
                         vldrbq_s16(weights + t * tap_step));
        if (t + 1 < taps) {
            const int8_t *const next = x + ((t + 1) / kernel_w) * row_step + ((t + 1) % kernel_w) * column_step;
            sums = vaddq_s16(sums, vmulq_s16(vldrbq_s16(next), vldrbq_s16(weights + (t + 1) * tap_step)));
        }
        s0 = vaddq_s32(s0, vmovlbq_s16(sums));
        s1 = vaddq_s32(s1, vmovltq_s16(sums));
        AI_LOAD_BARRIER();
    }
    s0 = ai_finish_mve(stage, s0, vldrwq_s32(params + 8), vldrbq_s32(shifts));
    s1 = ai_finish_mve(stage, s1, vldrwq_s32(params + 12), vldrbq_s32(shifts + 4));
    sums = vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), s0), s1);
    vstrbq_s16(output, vmovlbq_s8(vqmovnbq_s16(vdupq_n_s8(0), sums)));
}

#endif /* __ARM_FEATURE_MVE */
#endif /* AI_KERNELS_MVE_H */
