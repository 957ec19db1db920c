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
 * memcpy and memset, not predicated vector stores: GCC 12 takes a predicated store for a whole one and drops an earlier
 * store to the same place.
 */
AI_INLINE void ai_copy(int8_t *target, const int8_t *source, int32_t count)
{
    (void)memcpy(target, source, (size_t)count);
}

AI_INLINE void ai_fill(int8_t *target, int8_t value, int32_t count)
{
    (void)memset(target, value, (size_t)count);
}

/* Biases of four channels: every other word of the parameter table. */
AI_INLINE int32x4_t ai_load_bias(const ai_output_stage *stage, int32_t channel)
{
    return vldrwq_gather_shifted_offset_s32(stage->params + (ptrdiff_t)channel * 2, vmulq_n_u32(vidupq_n_u32(0, 1), 2));
}

/* Codes of four neighbouring channels from their accumulators. */
AI_INLINE int32x4_t ai_finish_mve(const ai_output_stage *stage, int32x4_t sums, int32_t channel)
{
    const int32x4_t multiplier = vldrwq_gather_shifted_offset_s32(stage->params + (ptrdiff_t)channel * 2 + 1,
                                                                  vmulq_n_u32(vidupq_n_u32(0, 1), 2));
    const int32x4_t shift = vnegq_s32(vldrbq_s32(stage->shifts + channel));
    int32x4_t codes;

    if (stage->rounding == AI_ROUNDING_TFLM) {
        codes = vqrdmulhq_s32(sums, multiplier);
        codes = vaddq_s32(codes, vshrq_n_s32(sums, 31));
    } else {
        codes = vqdmulhq_s32(sums, multiplier);
    }
    codes = vaddq_n_s32(vrshlq_s32(codes, shift), stage->zero_point);
    return vminq_s32(vmaxq_s32(codes, vdupq_n_s32(stage->clamp_min)), vdupq_n_s32(stage->clamp_max));
}

/* Two pixels by four channels; `depth` is a multiple of 16. */
AI_INLINE void ai_gemm_2px_mve(const int8_t *tile, int32_t depth, const int8_t *weights, int32_t channels,
                               const ai_output_stage *stage, int8_t *output, int32_t output_stride)
{
    const int32_t blocks = channels - channels % 4;
    int32_t c;

    for (c = 0; c < blocks; c += 4) {
        const int8_t *x = tile;
        const int8_t *w = weights + (ptrdiff_t)c * depth;
        const int8_t *const end = tile + depth;
        const int32_t *const params = stage->params + (ptrdiff_t)c * 2;
        int32_t a0 = params[0];
        int32_t a1 = params[2];
        int32_t a2 = params[4];
        int32_t a3 = params[6];
        int32_t b0 = a0;
        int32_t b1 = a1;
        int32_t b2 = a2;
        int32_t b3 = a3;
        do {
            const int8x16_t xa = vld1q_s8(x);
            const int8x16_t xb = vld1q_s8(x + depth);
            int8x16_t row = vld1q_s8(w);
            a0 = vmladavaq_s8(a0, xa, row);
            b0 = vmladavaq_s8(b0, xb, row);
            row = vld1q_s8(w + depth);
            a1 = vmladavaq_s8(a1, xa, row);
            b1 = vmladavaq_s8(b1, xb, row);
            row = vld1q_s8(w + 2 * depth);
            a2 = vmladavaq_s8(a2, xa, row);
            b2 = vmladavaq_s8(b2, xb, row);
            row = vld1q_s8(w + 3 * depth);
            a3 = vmladavaq_s8(a3, xa, row);
            b3 = vmladavaq_s8(b3, xb, row);
            x += 16;
            w += 16;
        } while (x != end);
        {
            const int32x4_t pixel_a = {a0, a1, a2, a3};
            const int32x4_t pixel_b = {b0, b1, b2, b3};
            vstrbq_s32(output + c, ai_finish_mve(stage, pixel_a, c));
            vstrbq_s32(output + output_stride + c, ai_finish_mve(stage, pixel_b, c));
        }
    }
    for (c = blocks; c < channels; c++) {
        const int8_t *const w = weights + (ptrdiff_t)c * depth;
        const int32_t *const params = stage->params + (ptrdiff_t)c * 2;
        int32_t a0 = params[0];
        int32_t b0 = a0;
        int32_t k;
        for (k = 0; k < depth; k += 16) {
            const int8x16_t row = vld1q_s8(w + k);
            a0 = vmladavaq_s8(a0, vld1q_s8(tile + k), row);
            b0 = vmladavaq_s8(b0, vld1q_s8(tile + depth + k), row);
        }
        output[c] = ai_finish(stage, a0, params[1], stage->shifts[c]);
        output[output_stride + c] = ai_finish(stage, b0, params[1], stage->shifts[c]);
    }
}

/* One pixel by four channels. */
AI_INLINE void ai_gemm_1px_mve(const int8_t *tile, int32_t depth, const int8_t *weights, int32_t channels,
                               const ai_output_stage *stage, int8_t *output)
{
    const int32_t blocks = channels - channels % 4;
    int32_t c;

    for (c = 0; c < blocks; c += 4) {
        const int8_t *x = tile;
        const int8_t *w = weights + (ptrdiff_t)c * depth;
        const int8_t *const end = tile + depth;
        const int32_t *const params = stage->params + (ptrdiff_t)c * 2;
        int32_t a0 = params[0];
        int32_t a1 = params[2];
        int32_t a2 = params[4];
        int32_t a3 = params[6];
        do {
            const int8x16_t xa = vld1q_s8(x);
            a0 = vmladavaq_s8(a0, xa, vld1q_s8(w));
            a1 = vmladavaq_s8(a1, xa, vld1q_s8(w + depth));
            a2 = vmladavaq_s8(a2, xa, vld1q_s8(w + 2 * depth));
            a3 = vmladavaq_s8(a3, xa, vld1q_s8(w + 3 * depth));
            x += 16;
            w += 16;
        } while (x != end);
        {
            const int32x4_t pixel = {a0, a1, a2, a3};
            vstrbq_s32(output + c, ai_finish_mve(stage, pixel, c));
        }
    }
    for (c = blocks; c < channels; c++) {
        const int8_t *const w = weights + (ptrdiff_t)c * depth;
        const int32_t *const params = stage->params + (ptrdiff_t)c * 2;
        int32_t a0 = params[0];
        int32_t k;
        for (k = 0; k < depth; k += 16) {
            a0 = vmladavaq_s8(a0, vld1q_s8(tile + k), vld1q_s8(w + k));
        }
        output[c] = ai_finish(stage, a0, params[1], stage->shifts[c]);
    }
}

#endif /* __ARM_FEATURE_MVE */
#endif /* AI_KERNELS_MVE_H */
