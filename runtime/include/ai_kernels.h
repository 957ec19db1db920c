/*
 * Building blocks of generated int8 kernels, portable C. Generated code passes constants, so everything here is
 * inlined and specialised; the DSP and MVE forms in ai_kernels_dsp.h and ai_kernels_mve.h give the same bytes.
 *
 * Right shifts of negative integers are arithmetic (GCC, Clang, IAR, Arm Compiler all guarantee it).
 */
#ifndef AI_KERNELS_H
#define AI_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define AI_INLINE static inline __attribute__((always_inline, unused))
#else
#define AI_INLINE static inline
#endif

#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && !defined(AI_KERNELS_PORTABLE)
#define AI_HAS_SMMLA 1
#else
#define AI_HAS_SMMLA 0
#endif

#if defined(__ARM_FEATURE_SAT) && defined(__GNUC__) && !defined(AI_KERNELS_PORTABLE)
#define AI_HAS_SSAT 1
#else
#define AI_HAS_SSAT 0
#endif

/* Rounding rules of requantization; generated code passes them as constants. */
#define AI_ROUNDING_TFLM 0      /* double rounding of the TensorFlow Lite Micro reference kernels */
#define AI_ROUNDING_UPWARD 1    /* Relay: one rounding, ties to plus infinity */
#define AI_ROUNDING_TONEAREST 2 /* Relay: one rounding, ties away from zero */
#define AI_ROUNDING_EVEN 3      /* ONNX: one rounding, ties to even */

/* floor((a * b + 2^30) / 2^31): the saturating rounding doubling high multiply, 2^30 <= b < 2^31. */
AI_INLINE int32_t ai_high_multiply_rounded(int32_t a, int32_t b)
{
#if AI_HAS_SMMLA
    /* a * (2b - 2^32) / 2^32 + a, rounded: one instruction. */
    int32_t result;
    __asm__("smmlar %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"((int32_t)((uint32_t)b << 1)), "r"(a));
    return result;
#else
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
#endif
}

/* floor(a * b / 2^31), 2^30 <= b < 2^31 */
AI_INLINE int32_t ai_high_multiply(int32_t a, int32_t b)
{
#if AI_HAS_SMMLA
    int32_t result;
    __asm__("smmla %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"((int32_t)((uint32_t)b << 1)), "r"(a));
    return result;
#else
    return (int32_t)(((int64_t)a * b) >> 31);
#endif
}

/* x / 2^n rounded half away from zero, 0 <= n <= 31 */
AI_INLINE int32_t ai_rounding_divide_by_pot(int32_t x, int32_t n)
{
    const int32_t mask = (int32_t)(((uint32_t)1 << n) - 1U);
    const int32_t threshold = (mask >> 1) + ((x < 0) ? 1 : 0);
    return (x >> n) + (((x & mask) > threshold) ? 1 : 0);
}

/* x * multiplier * 2^(shift - 31) by any rounding rule, any shift in -31..30. */
AI_INLINE int32_t ai_multiply(int32_t x, int32_t multiplier, int32_t shift, int32_t rounding)
{
    const int32_t left = (shift > 0) ? shift : 0;
    const int32_t right = (shift > 0) ? 0 : -shift;
    int64_t product;
    int64_t half;

    if (rounding == AI_ROUNDING_TFLM) {
        const int32_t shifted = (int32_t)((uint32_t)x << left);
        const int32_t high = (multiplier >= 0x40000000)
                                 ? ai_high_multiply_rounded(shifted, multiplier)
                                 : (int32_t)(((int64_t)shifted * multiplier + ((int64_t)1 << 30)) >> 31);
        return ai_rounding_divide_by_pot(high, right);
    }
    product = (int64_t)((uint64_t)(int64_t)x << left) * multiplier;
    half = (int64_t)1 << (30 + right);
    if ((rounding == AI_ROUNDING_TONEAREST) && (product < 0)) {
        half--;
    }
    if ((rounding == AI_ROUNDING_EVEN) && ((product & (2 * half - 1)) == half)) {
        return (int32_t)((product + half) >> (31 + right)) & ~1;
    }
    return (int32_t)((product + half) >> (31 + right));
}

/* ai_multiply by TFLM's rounding for 2^30 <= multiplier and a shift of 0 or to the right, both constants. */
AI_INLINE int32_t ai_multiply_down(int32_t x, int32_t multiplier, int32_t right)
{
    const int32_t high = ai_high_multiply_rounded(x, multiplier);

    if (right == 0) {
        return high;
    }
    /* Half away from zero: half of the divisor, less one below zero. */
    return (high + ((int32_t)((uint32_t)1 << (right - 1)) + (high >> 31))) >> right;
}

/*
 * Requantize with the output zero point folded in: the generator has checked that 1 <= right shift and that
 * (zero_point << right) + the accumulator fits 32 bits. Two or three instructions with the DSP extension.
 */
AI_INLINE int32_t ai_requantize_fast(int32_t x, int32_t multiplier, int32_t right, int32_t zero_point, int32_t rounding)
{
    /* 2^(right - 1) + (zero_point << right) */
    const int32_t offset = (int32_t)((uint32_t)(2 * zero_point + 1) << (right - 1));

    if (rounding == AI_ROUNDING_TFLM) {
        return (ai_high_multiply_rounded(x, multiplier) + (offset + (x >> 31))) >> right;
    }
    return (ai_high_multiply(x, multiplier) + offset) >> right;
}

/* TFLM's scaling of an int64 accumulator: 16 bits of multiplier, one rounding, shift in -31..7. */
AI_INLINE int32_t ai_multiply_wide(int64_t x, int32_t multiplier, int32_t shift)
{
    return (int32_t)((x * multiplier + ((int64_t)1 << (14 - shift))) >> (15 - shift));
}

/* floor((a * b + 2^30) / 2^31) for any operands but INT32_MIN times itself */
AI_INLINE int32_t ai_fixed_multiply(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

/* Redundant sign bits of x: how far it may be shifted to the left; 31 of 0. */
AI_INLINE int32_t ai_headroom(int32_t x)
{
    uint32_t magnitude = (x < 0) ? ~(uint32_t)x : (uint32_t)x;
    int32_t bits = 31;

    while (magnitude != 0U) {
        magnitude >>= 1;
        bits--;
    }
    return bits;
}

/* numerator / d * multiplier, rounded as TFLM does; `inverse` and `exponent` stand for 1 / d and the scales. */
AI_INLINE int32_t ai_quotient(int32_t numerator, int32_t inverse, int32_t multiplier, int32_t exponent)
{
    const int32_t headroom = ai_headroom(numerator);
    const int32_t shifted = (int32_t)((uint32_t)numerator << headroom);
    const int32_t product = ai_fixed_multiply(ai_fixed_multiply(shifted, inverse), multiplier);
    const int32_t right = exponent + headroom;

    return (right > 31) ? 0 : ai_rounding_divide_by_pot(product, right);
}

/* x * 2^n, saturating */
AI_INLINE int32_t ai_shift_saturating(int32_t x, int32_t n)
{
    const int32_t limit = (int32_t)(((uint32_t)1 << (31 - n)) - 1U);
    if (x > limit) {
        return INT32_MAX;
    }
    return (x < -limit) ? INT32_MIN : (int32_t)((uint32_t)x << n);
}

/* TFLM's sigmoid of int16, Q15: x in steps of 1/12288, interpolated in the table of 256 entries. */
AI_INLINE int32_t ai_sigmoid16(int32_t x, const uint16_t *table)
{
    const int32_t magnitude = (x < 0) ? -x : x;
    const int32_t index = magnitude >> 9;
    int32_t value = 0x7FFF << 10;
    if (index < 255) {
        value = ((int32_t)table[index] << 9) + (magnitude & 511) * ((int32_t)table[index + 1] - table[index]);
    }
    return ((x < 0) ? (1 << 25) - value + 511 : value + 512) >> 10;
}

/* TFLM's hyperbolic tangent of int16, Q15, from the sigmoid's table. */
AI_INLINE int32_t ai_tanh16(int32_t x, const uint16_t *table)
{
    const int32_t magnitude = (x < 0) ? -x : x;
    const int32_t index = magnitude >> 8;
    int32_t value = 0xFFFF << 8;
    if (index < 255) {
        value = ((int32_t)table[index] << 8) + (magnitude & 255) * ((int32_t)table[index + 1] - table[index]);
    }
    value -= 1 << 23;
    return ((x < 0) ? 127 - value : value + 128) >> 8;
}

AI_INLINE int32_t ai_clamp(int32_t x, int32_t low, int32_t high)
{
#if AI_HAS_SSAT
    if ((low == INT8_MIN) && (high == INT8_MAX)) {
        int32_t code;
        __asm__("ssat %0, #8, %1" : "=r"(code) : "r"(x));
        return code;
    }
#endif
    const int32_t raised = (x < low) ? low : x;
    return (raised > high) ? high : raised;
}

/*
 * How a linear operator ends: from int32 accumulators to int8 codes. `params` holds (bias, multiplier) of each
 * channel, `shifts` the right shift (or, when `fast` is 0, the signed shift). All but the pointers are constants.
 */
typedef struct {
    const int32_t *params;
    const int8_t *shifts;
    int32_t zero_point;
    int32_t clamp_min;
    int32_t clamp_max;
    int32_t rounding;
    int32_t fast;
} ai_output_stage;

AI_INLINE int8_t ai_finish(const ai_output_stage *stage, int32_t accumulator, int32_t multiplier, int32_t shift)
{
    int32_t code;

    if (stage->fast != 0) {
        code = ai_requantize_fast(accumulator, multiplier, shift, stage->zero_point, stage->rounding);
    } else {
        code = ai_multiply(accumulator, multiplier, shift, stage->rounding) + stage->zero_point;
    }
    return (int8_t)ai_clamp(code, stage->clamp_min, stage->clamp_max);
}

/* Copy `count` codes into the tile as int16 with the zero point removed. */
AI_INLINE void ai_widen(int16_t *tile, const int8_t *input, int32_t count, int32_t zero_point)
{
    int32_t i;

    for (i = 0; i < count; i++) {
        tile[i] = (int16_t)(input[i] - zero_point);
    }
}

AI_INLINE void ai_zero(int16_t *tile, int32_t count)
{
    int32_t i;

    for (i = 0; i < count; i++) {
        tile[i] = 0;
    }
}

/* Two pixels by two channels of a matrix product; rows of the tile and of the weights are `depth` long. */
AI_INLINE void ai_gemm_2px(const int16_t *tile, int32_t depth, const int8_t *weights, int32_t channels,
                           const ai_output_stage *stage, int8_t *output, int32_t output_stride)
{
    const int32_t blocks = channels - channels % 2;
    int32_t c;
    int32_t k;

    for (c = 0; c < blocks; c += 2) {
        const int16_t *x = tile;
        const int8_t *w = weights + (ptrdiff_t)c * depth;
        const int32_t *const params = stage->params + (ptrdiff_t)c * 2;
        int32_t a00 = params[0];
        int32_t a10 = a00;
        int32_t a01 = params[2];
        int32_t a11 = a01;
        for (k = 0; k < depth; k++) {
            const int32_t x0 = x[0];
            const int32_t x1 = x[depth];
            const int32_t w0 = w[0];
            const int32_t w1 = w[depth];
            a00 += w0 * x0;
            a01 += w1 * x0;
            a10 += w0 * x1;
            a11 += w1 * x1;
            x++;
            w++;
        }
        output[c] = ai_finish(stage, a00, params[1], stage->shifts[c]);
        output[c + 1] = ai_finish(stage, a01, params[3], stage->shifts[c + 1]);
        output[output_stride + c] = ai_finish(stage, a10, params[1], stage->shifts[c]);
        output[output_stride + c + 1] = ai_finish(stage, a11, params[3], stage->shifts[c + 1]);
    }
    for (c = blocks; c < channels; c++) {
        const int8_t *const w = weights + (ptrdiff_t)c * depth;
        const int32_t *const params = stage->params + (ptrdiff_t)c * 2;
        int32_t a0 = params[0];
        int32_t a1 = a0;
        for (k = 0; k < depth; k++) {
            a0 += w[k] * tile[k];
            a1 += w[k] * tile[depth + k];
        }
        output[c] = ai_finish(stage, a0, params[1], stage->shifts[c]);
        output[output_stride + c] = ai_finish(stage, a1, params[1], stage->shifts[c]);
    }
}

/* One pixel by two channels. */
AI_INLINE void ai_gemm_1px(const int16_t *tile, int32_t depth, const int8_t *weights, int32_t channels,
                           const ai_output_stage *stage, int8_t *output)
{
    const int32_t blocks = channels - channels % 2;
    int32_t c;
    int32_t k;

    for (c = 0; c < blocks; c += 2) {
        const int8_t *const w = weights + (ptrdiff_t)c * depth;
        const int32_t *const params = stage->params + (ptrdiff_t)c * 2;
        int32_t a0 = params[0];
        int32_t a1 = params[2];
        for (k = 0; k < depth; k++) {
            const int32_t x = tile[k];
            a0 += w[k] * x;
            a1 += w[depth + k] * x;
        }
        output[c] = ai_finish(stage, a0, params[1], stage->shifts[c]);
        output[c + 1] = ai_finish(stage, a1, params[3], stage->shifts[c + 1]);
    }
    for (c = blocks; c < channels; c++) {
        const int8_t *const w = weights + (ptrdiff_t)c * depth;
        const int32_t *const params = stage->params + (ptrdiff_t)c * 2;
        int32_t a0 = params[0];
        for (k = 0; k < depth; k++) {
            a0 += w[k] * tile[k];
        }
        output[c] = ai_finish(stage, a0, params[1], stage->shifts[c]);
    }
}

/* Nearest integer, halves away from zero, of a value of at most 2^20; what is no number counts as the least. */
AI_INLINE int32_t ai_round(float value)
{
    const float low = (value > -1048576.0f) ? value : -1048576.0f;
    const float bounded = (low < 1048576.0f) ? low : 1048576.0f;
    const int32_t whole = (int32_t)bounded;
    const float rest = bounded - (float)whole;

    return whole + ((rest >= 0.5f) ? 1 : 0) - ((rest <= -0.5f) ? 1 : 0);
}

/*
 * Floats to int8 codes with a scale found from their own range, as LiteRT's hybrid kernels do; the codes come with
 * the zero point removed. Symmetric codes are -127..127, others -128..127. Returns the scale.
 */
AI_INLINE float ai_quantize_by_range(const float *input, int32_t count, int32_t symmetric, int16_t *codes)
{
    float low = 0.0f;
    float high = 0.0f;
    float scale;
    float inverse;
    int32_t zero_point = 0;
    int32_t i;

    for (i = 0; i < count; i++) {
        low = (input[i] < low) ? input[i] : low;
        high = (input[i] > high) ? input[i] : high;
    }
    if (!(high - low > 0.0f)) {
        ai_zero(codes, count);
        return 1.0f;
    }
    if (symmetric != 0) {
        high = (high > -low) ? high : -low;
        scale = high / 127.0f;
        inverse = 127.0f / high;
    } else {
        scale = (high - low) / 255.0f;
        inverse = 1.0f / scale;
        /* From the end of the range that rounds less. */
        low = low / scale;
        high = high / scale;
        zero_point = ai_round((128.0f - low < 127.0f + high) ? -128.0f - low : 127.0f - high);
        zero_point = ai_clamp(zero_point, -128, 127);
    }
    for (i = 0; i < count; i++) {
        const int32_t code = ai_round((float)zero_point + input[i] * inverse);
        codes[i] = (int16_t)(ai_clamp(code, (symmetric != 0) ? -127 : -128, 127) - zero_point);
    }
    return scale;
}

/* First kernel tap at or after the start of an axis, for a window that starts at `start`. */
AI_INLINE int32_t ai_taps_before(int32_t start, int32_t dilation, int32_t taps)
{
    const int32_t first = (start < 0) ? (-start + dilation - 1) / dilation : 0;
    return (first < taps) ? first : taps;
}

/* One past the last kernel tap before the end of an axis. */
AI_INLINE int32_t ai_taps_inside(int32_t start, int32_t dilation, int32_t taps, int32_t extent)
{
    const int32_t last = (extent - start + dilation - 1) / dilation;
    return (last < 0) ? 0 : ((last < taps) ? last : taps);
}

/* Average of codes rounded half away from code zero, as TFLM's average pool does. */
AI_INLINE int32_t ai_average_rounded(int32_t sum, int32_t count)
{
    return (sum > 0) ? (sum + count / 2) / count : (sum - count / 2) / count;
}

/* Average of int8 codes rounded half up, as kernels on uint8 codes do. */
AI_INLINE int32_t ai_average_upward(int32_t sum, int32_t count)
{
    return (sum + 128 * count + count / 2) / count - 128;
}

/* Reciprocal of 1 + a for a in [0, 1), both Q0: gemmlowp's one_over_one_plus_x_for_x_in_0_1. */
AI_INLINE int32_t ai_one_over_one_plus(int32_t a)
{
    const int64_t sum = (int64_t)a + 0x7FFFFFFF;
    const int32_t half = (int32_t)((sum + ((sum >= 0) ? 1 : -1)) / 2);
    int32_t x = 1515870810 + (int32_t)(((int64_t)half * -1010580540 + ((int64_t)1 << 30)) >> 31);
    int32_t i;

    for (i = 0; i < 3; i++) {
        const int32_t product = (int32_t)(((int64_t)half * x + ((int64_t)1 << 30)) >> 31);
        const int32_t correction = (int32_t)(((int64_t)x * ((int32_t)0x20000000 - product) + ((int64_t)1 << 30)) >> 31);
        int32_t scaled;
        if (correction > 0x1FFFFFFF) {
            scaled = INT32_MAX;
        } else if (correction < -0x1FFFFFFF) {
            scaled = INT32_MIN;
        } else {
            scaled = (int32_t)((uint32_t)correction << 2);
        }
        x = (int32_t)((uint32_t)x + (uint32_t)scaled);
    }
    /* one more integer bit to Q0, saturating */
    if (x > 0x3FFFFFFF) {
        return INT32_MAX;
    }
    if (x < -0x3FFFFFFF) {
        return INT32_MIN;
    }
    return (int32_t)((uint32_t)x << 1);
}

/* Leading zero bits of a non-zero word. */
AI_INLINE int32_t ai_clz(uint32_t x)
{
#if defined(__GNUC__) || defined(__clang__)
    return (int32_t)__builtin_clz(x);
#else
    int32_t n = 0;
    while ((x & 0x80000000U) == 0U) {
        x <<= 1;
        n++;
    }
    return n;
#endif
}

/* One row of TFLM's int8 softmax; `table` holds exp of each difference to the maximum (Q0). */
AI_INLINE void ai_softmax_tflm(const int8_t *input, int32_t length, const int32_t *table, int8_t *output)
{
    int32_t maximum = INT8_MIN;
    int32_t sum = 0;
    int32_t headroom;
    int32_t scale;
    int32_t i;

    for (i = 0; i < length; i++) {
        maximum = (input[i] > maximum) ? input[i] : maximum;
    }
    for (i = 0; i < length; i++) {
        sum += ai_rounding_divide_by_pot(table[maximum - input[i]], 12);
    }
    headroom = ai_clz((uint32_t)sum);
    scale = ai_one_over_one_plus((int32_t)(((uint32_t)sum << headroom) - 0x80000000U));
    for (i = 0; i < length; i++) {
        const int32_t exponential = table[maximum - input[i]];
        const int32_t product = (int32_t)(((int64_t)scale * exponential + ((int64_t)1 << 30)) >> 31);
        const int32_t code = ((headroom > 3) ? ai_rounding_divide_by_pot(product, 35 - headroom) : 0) + INT8_MIN;
        output[i] = (exponential == 0) ? (int8_t)INT8_MIN : (int8_t)ai_clamp(code, INT8_MIN, INT8_MAX);
    }
}

/* One row of softmax rounded from the real quotient; exp as Q31 in `table`, `factor` / 2^bits = 1 / output scale. */
AI_INLINE void ai_softmax_real(const int8_t *input, int32_t length, const int32_t *table, int64_t factor, int32_t bits,
                               int32_t zero_point, int8_t *output)
{
    int32_t maximum = INT8_MIN;
    int64_t sum = 0;
    int32_t i;

    for (i = 0; i < length; i++) {
        maximum = (input[i] > maximum) ? input[i] : maximum;
    }
    for (i = 0; i < length; i++) {
        sum += table[maximum - input[i]];
    }
    sum = (int64_t)((uint64_t)sum << bits);
    for (i = 0; i < length; i++) {
        const int64_t code = (table[maximum - input[i]] * factor + sum / 2) / sum + zero_point;
        output[i] = (int8_t)((code > INT8_MAX) ? INT8_MAX : ((code < INT8_MIN) ? INT8_MIN : code));
    }
}

#endif /* AI_KERNELS_H */
