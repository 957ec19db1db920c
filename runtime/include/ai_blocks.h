/*
 * Operations of generated inner kernels ("blocks"). The same kernels come as GNU assembly or as C (`--kernels`); the C
 * form uses the functions below, which are one instruction each with the DSP extension and portable C without it.
 *
 * Right shifts of negative integers are arithmetic, as in ai_kernels.h.
 */
#ifndef AI_BLOCKS_H
#define AI_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ai_kernels.h"

#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && !defined(AI_KERNELS_PORTABLE)
#include <arm_acle.h>
#define AI_BLOCKS_DSP 1
#else
#define AI_BLOCKS_DSP 0
#endif

/* A function that is nothing but its assembly, which keeps to the procedure call standard itself. */
#define AI_NAKED static __attribute__((naked, noinline, unused, aligned(4)))
#define AI_UNUSED __attribute__((unused))

/* A word at any address. */
AI_INLINE int32_t ai_load(const int8_t *address)
{
    int32_t word;
    memcpy(&word, address, sizeof(word));
    return word;
}

AI_INLINE void ai_store(int8_t *address, int32_t word)
{
    memcpy(address, &word, sizeof(word));
}

AI_INLINE void ai_store_half(int8_t *address, int32_t word)
{
    const uint16_t half = (uint16_t)((uint32_t)word & 0xFFFFU);
    memcpy(address, &half, sizeof(half));
}

/* A word at a multiple of four: cores without access to others need not put it together from bytes. */
AI_INLINE int32_t ai_load_word(const int8_t *address)
{
#if defined(__GNUC__)
    int32_t word;
    memcpy(&word, __builtin_assume_aligned(address, 4), sizeof(word));
    return word;
#else
    return ai_load(address);
#endif
}

AI_INLINE void ai_store_word(int8_t *address, int32_t word)
{
#if defined(__GNUC__)
    memcpy(__builtin_assume_aligned(address, 4), &word, sizeof(word));
#else
    ai_store(address, word);
#endif
}

/* Integers wrap. */
AI_INLINE int32_t ai_add(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

AI_INLINE int32_t ai_subtract(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

AI_INLINE int32_t ai_shift_left(int32_t a, int32_t n)
{
    return (int32_t)((uint32_t)a << n);
}

AI_INLINE int32_t ai_shift_right_unsigned(int32_t a, int32_t n)
{
    return (int32_t)((uint32_t)a >> n);
}

AI_INLINE int32_t ai_multiply_add(int32_t a, int32_t b, int32_t c)
{
    return (int32_t)((uint32_t)a * (uint32_t)b + (uint32_t)c);
}

/* (high, low) += a * b */
AI_INLINE void ai_multiply_add_long(int32_t *low, int32_t *high, int32_t a, int32_t b)
{
    const uint64_t sum = ((uint64_t)(uint32_t)*high << 32) + (uint32_t)*low + (uint64_t)((int64_t)a * b);

    *low = (int32_t)(uint32_t)(sum & 0xFFFFFFFFU);
    *high = (int32_t)(uint32_t)(sum >> 32);
}

/*
 * floor((a * b + half) / 2^31), half being 2^30 (`rounded`) or 0, without a long product: b in parts, each product in
 * 32 bits. -2^20 <= a < 2^20, 0 <= b < 2^31.
 */
AI_INLINE int32_t ai_scale_parts(int32_t a, int32_t b, int32_t rounded)
{
    const int32_t low = (a * (b & 0x3FF)) >> 10;
    const int32_t middle = (a * ((b >> 10) & 0x3FF) + low) >> 10;

    return (int32_t)((uint32_t)(a * (b >> 20)) + (uint32_t)middle + ((rounded != 0) ? 1U << 10 : 0U)) >> 11;
}

/* As ai_scale_parts, -2^23 <= a < 2^23. */
AI_INLINE int32_t ai_scale_parts_wide(int32_t a, int32_t b, int32_t rounded)
{
    int32_t sum = (a * (b & 0xFF)) >> 8;

    sum = (a * ((b >> 8) & 0xFF) + sum) >> 8;
    sum = (a * ((b >> 16) & 0xFF) + sum) >> 8;
    return (a * (b >> 24) + sum + ((rounded != 0) ? 1 << 6 : 0)) >> 7;
}

/* The code of a sum where ai_requantize_fast holds; |sum| is less than 2^20, or 2^23 when `wide`. */
AI_INLINE int8_t ai_finish_parts(const ai_output_stage *stage, int32_t sum, int32_t multiplier, int32_t shift,
                                 int32_t wide)
{
    const int32_t rounded = (stage->rounding == AI_ROUNDING_TFLM) ? 1 : 0;
    const int32_t high =
        (wide != 0) ? ai_scale_parts_wide(sum, multiplier, rounded) : ai_scale_parts(sum, multiplier, rounded);
    const int32_t offset = ai_shift_left(2 * stage->zero_point + 1, shift - 1);
    /* Ties below zero end at the zero point either way when that is the lowest code and codes are clamped. */
    const int32_t sign =
        ((rounded != 0) && ((stage->zero_point != INT8_MIN) || (stage->clamp_min != INT8_MIN))) ? sum >> 31 : 0;

    return (int8_t)ai_clamp((high + (offset + sign)) >> shift, stage->clamp_min, stage->clamp_max);
}

/* What two words of a triple hold (matmul_scalar.py): A + 2^21 B, C + 2^10 B. Adds A, B, C to `sums`. */
AI_INLINE void ai_add_triple(const int8_t *words, int32_t sums[3])
{
    const int32_t first = ai_load_word(words);
    const int32_t a = ai_shift_left(first, 11) >> 11;
    const uint32_t b = (uint32_t)ai_subtract(first, a) >> 21;
    const int32_t second = ai_subtract(ai_load_word(words + 4), (int32_t)(b << 10));
    const int32_t c = ai_shift_left(second, 11) >> 11;

    sums[0] += a;
    sums[1] += (ai_subtract(second, c) >> 10) + (int32_t)b;
    sums[2] += c;
}

/* What three words hold (vector_scalar.py), 128 times the sum of the inputs taken off. */
AI_INLINE void ai_split_quad(const int8_t *words, int32_t input_sum, int32_t sums[4])
{
    const uint32_t given = (uint32_t)input_sum;
    const uint32_t upper = (uint32_t)ai_load_word(words + 4) - 0x8080U * given;
    const uint32_t odd = (uint32_t)ai_load_word(words + 8) - 0x00800080U * given;
    const uint32_t lower = (uint32_t)ai_load_word(words) - 0x80808080U * given - (upper << 16);
    uint32_t part;

    sums[0] = (int32_t)((lower - (odd << 8)) << 8) >> 8;
    sums[1] = (int32_t)(lower - (uint32_t)sums[0]) >> 8;
    part = (odd - (uint32_t)sums[1]) >> 16;
    sums[2] = (int32_t)((upper - (part << 8)) << 8) >> 8;
    sums[3] = ((int32_t)(upper - (part << 8) - (uint32_t)sums[2]) >> 8) + (int32_t)part;
}

AI_INLINE int32_t ai_saturate_8(int32_t a)
{
    return (a < INT8_MIN) ? INT8_MIN : ((a > INT8_MAX) ? INT8_MAX : a);
}

/* Halfwords as numbers, and two of them in a word. */
AI_INLINE int32_t ai_low_half(int32_t a)
{
    return (int16_t)((uint32_t)a & 0xFFFFU);
}

AI_INLINE int32_t ai_high_half(int32_t a)
{
    return a >> 16;
}

AI_INLINE int32_t ai_halves(int32_t low, int32_t high)
{
    return (int32_t)(((uint32_t)low & 0xFFFFU) | ((uint32_t)high << 16));
}

AI_INLINE int32_t ai_pack_low(int32_t a, int32_t b)
{
    return ai_halves(a, b);
}

AI_INLINE int32_t ai_pack_high(int32_t a, int32_t b)
{
    return ai_halves(ai_high_half(b), ai_high_half(a));
}

/* Sign-extended bytes 0 and 2 of a word turned right by n (0 or 8) bits. */
AI_INLINE int32_t ai_sxtb16(int32_t a, int32_t n)
{
#if AI_BLOCKS_DSP
    int32_t result;
    if (n == 0) {
        __asm__("sxtb16 %0, %1" : "=r"(result) : "r"(a));
    } else {
        __asm__("sxtb16 %0, %1, ror #8" : "=r"(result) : "r"(a));
    }
    return result;
#else
    const uint32_t word = (uint32_t)a >> n;
    return ai_halves((int8_t)(word & 0xFFU), (int8_t)((word >> 16) & 0xFFU));
#endif
}

/* Sums and differences of halfwords. */
AI_INLINE int32_t ai_sadd16(int32_t a, int32_t b)
{
#if AI_BLOCKS_DSP
    return (int32_t)__sadd16((int16x2_t)a, (int16x2_t)b);
#else
    return ai_halves(ai_low_half(a) + ai_low_half(b), ai_high_half(a) + ai_high_half(b));
#endif
}

AI_INLINE int32_t ai_ssub16(int32_t a, int32_t b)
{
#if AI_BLOCKS_DSP
    return (int32_t)__ssub16((int16x2_t)a, (int16x2_t)b);
#else
    return ai_halves(ai_low_half(a) - ai_low_half(b), ai_high_half(a) - ai_high_half(b));
#endif
}

/* Halfwords of a and sign-extended bytes 0 and 2 of b turned right by n (0 or 8) bits, added. */
AI_INLINE int32_t ai_sxtab16(int32_t a, int32_t b, int32_t n)
{
#if AI_BLOCKS_DSP
    int32_t result;
    if (n == 0) {
        __asm__("sxtab16 %0, %1, %2" : "=r"(result) : "r"(a), "r"(b));
    } else {
        __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(result) : "r"(a), "r"(b));
    }
    return result;
#else
    return ai_sadd16(a, ai_sxtb16(b, n));
#endif
}

/* The larger, or smaller, of each pair of codes of two words. */
AI_INLINE int32_t ai_max_bytes(int32_t a, int32_t b)
{
#if AI_BLOCKS_DSP
    int32_t result;
    __asm__("ssub8 %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(result) : "r"(a), "r"(b) : "cc");
    return result;
#else
    uint32_t result = 0;
    int32_t shift;
    for (shift = 0; shift < 32; shift += 8) {
        const int8_t x = (int8_t)(((uint32_t)a >> shift) & 0xFFU);
        const int8_t y = (int8_t)(((uint32_t)b >> shift) & 0xFFU);
        result |= ((uint32_t)((x > y) ? x : y) & 0xFFU) << shift;
    }
    return (int32_t)result;
#endif
}

AI_INLINE int32_t ai_min_bytes(int32_t a, int32_t b)
{
    /* ~x is -1 - x: the order of codes turns round. */
    return ~ai_max_bytes(~a, ~b);
}

AI_INLINE int32_t ai_smulbb(int32_t a, int32_t b)
{
    return ai_low_half(a) * ai_low_half(b);
}

AI_INLINE int32_t ai_smulbt(int32_t a, int32_t b)
{
    return ai_low_half(a) * ai_high_half(b);
}

AI_INLINE int32_t ai_smultb(int32_t a, int32_t b)
{
    return ai_high_half(a) * ai_low_half(b);
}

AI_INLINE int32_t ai_smultt(int32_t a, int32_t b)
{
    return ai_high_half(a) * ai_high_half(b);
}

AI_INLINE int32_t ai_smlabb(int32_t a, int32_t b, int32_t c)
{
    return ai_add(ai_smulbb(a, b), c);
}

AI_INLINE int32_t ai_smlabt(int32_t a, int32_t b, int32_t c)
{
    return ai_add(ai_smulbt(a, b), c);
}

AI_INLINE int32_t ai_smlatb(int32_t a, int32_t b, int32_t c)
{
    return ai_add(ai_smultb(a, b), c);
}

AI_INLINE int32_t ai_smlatt(int32_t a, int32_t b, int32_t c)
{
    return ai_add(ai_smultt(a, b), c);
}

AI_INLINE int32_t ai_smuad(int32_t a, int32_t b)
{
    return ai_add(ai_smulbb(a, b), ai_smultt(a, b));
}

AI_INLINE int32_t ai_smlad(int32_t a, int32_t b, int32_t c)
{
#if AI_BLOCKS_DSP
    return __smlad((int16x2_t)a, (int16x2_t)b, c);
#else
    return ai_add(ai_smuad(a, b), c);
#endif
}

/* c + a * b / 2^16, b being a halfword; rounded down. */
AI_INLINE int32_t ai_smlawb(int32_t a, int32_t b, int32_t c)
{
#if AI_BLOCKS_DSP
    int32_t result;
    __asm__("smlawb %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
#else
    return ai_add((int32_t)(((int64_t)a * ai_low_half(b)) >> 16), c);
#endif
}

AI_INLINE int32_t ai_smlawt(int32_t a, int32_t b, int32_t c)
{
#if AI_BLOCKS_DSP
    int32_t result;
    __asm__("smlawt %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
#else
    return ai_add((int32_t)(((int64_t)a * ai_high_half(b)) >> 16), c);
#endif
}

/* c + a * b / 2^32, rounded down or to nearest. */
AI_INLINE int32_t ai_smmla(int32_t a, int32_t b, int32_t c)
{
#if AI_BLOCKS_DSP
    int32_t result;
    __asm__("smmla %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
#else
    return ai_add((int32_t)(((int64_t)a * b) >> 32), c);
#endif
}

AI_INLINE int32_t ai_smmlar(int32_t a, int32_t b, int32_t c)
{
#if AI_BLOCKS_DSP
    int32_t result;
    __asm__("smmlar %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
#else
    return ai_add((int32_t)(((int64_t)a * b + ((int64_t)1 << 31)) >> 32), c);
#endif
}

/* Copy `count` codes forwards, words where both addresses allow. */
AI_INLINE void ai_copy_codes(int8_t *target, const int8_t *source, int32_t count)
{
    int32_t left = count;

    if ((((uintptr_t)target | (uintptr_t)source) & 3U) == 0U) {
        for (; left >= 16; left -= 16) {
            const int32_t first = ai_load_word(source);
            const int32_t second = ai_load_word(source + 4);
            const int32_t third = ai_load_word(source + 8);
            const int32_t fourth = ai_load_word(source + 12);
            ai_store_word(target, first);
            ai_store_word(target + 4, second);
            ai_store_word(target + 8, third);
            ai_store_word(target + 12, fourth);
            source += 16;
            target += 16;
        }
    }
    for (; left > 0; left--) {
        *target = *source;
        source++;
        target++;
    }
}

/* The sum of `count` codes. */
AI_INLINE int32_t ai_sum_codes(const int8_t *codes, int32_t count)
{
    const int8_t *const end = codes + count;
    int32_t sum = 0;

    while (codes != end) {
        sum += *codes;
        codes++;
    }
    return sum;
}

/* Copy, or fill with one code, `count` bytes (a multiple of four), a word at a time. */
AI_INLINE int8_t *ai_copy_words(int8_t *target, const int8_t *source, int32_t count)
{
    const int8_t *const end = source + count;

    while (source != end) {
        ai_store(target, ai_load(source));
        source += 4;
        target += 4;
    }
    return target;
}

AI_INLINE int8_t *ai_fill_words(int8_t *target, int32_t code, int32_t count)
{
    const int32_t word = (int32_t)(((uint32_t)code & 0xFFU) * 0x01010101U);
    const int8_t *const end = target + count;

    while (target != end) {
        ai_store(target, word);
        target += 4;
    }
    return target;
}

/*
 * A tile holds, for each pair of depths, one word a pixel whose halfwords are `scale` (1 or 2) times the code plus 128.
 * These write a pixel's column; `tile` is where it begins, `row` the bytes from pair to pair. They return where the
 * next pair goes.
 */
AI_INLINE int8_t *ai_spread(int8_t *tile, int32_t row, const int8_t *input, int32_t count, int32_t scale)
{
    const int8_t *const end = input + (count - count % 4);
    const uint32_t mask = 0x00FF00FFU * (uint32_t)scale;

    while (input != end) {
        const uint32_t word = (uint32_t)ai_load(input) ^ 0x80808080U;
        ai_store(tile, (int32_t)((word << (scale - 1)) & mask));
        ai_store(tile + row, (int32_t)((word >> (9 - scale)) & mask));
        input += 4;
        tile += (ptrdiff_t)2 * row;
    }
    if (count % 4 != 0) {
        ai_store(tile, ai_halves(scale * (input[0] + 128), (count % 4 > 1) ? scale * (input[1] + 128) : 0));
        tile += row;
    }
    if (count % 4 > 2) {
        ai_store(tile, ai_halves(scale * (input[2] + 128), 0));
        tile += row;
    }
    return tile;
}

/* `count` pairs of depths of code `code`. */
AI_INLINE int8_t *ai_spread_code(int8_t *tile, int32_t row, int32_t code, int32_t count, int32_t scale)
{
    const int32_t word = ai_halves(scale * (code + 128), scale * (code + 128));
    int32_t k;

    for (k = 0; k < count; k++) {
        ai_store(tile, word);
        tile += row;
    }
    return tile;
}

/* The same of int16 codes, as they are: `count` of them, an odd last one beside a zero; `count` words of zeros. */
AI_INLINE int8_t *ai_spread16(int8_t *tile, int32_t row, const int8_t *input, int32_t count)
{
    const int8_t *const end = input + (ptrdiff_t)8 * (count / 4);

    while (input != end) {
        const int32_t first = ai_load(input);
        const int32_t second = ai_load(input + 4);
        ai_store(tile, first);
        ai_store(tile + row, second);
        input += 8;
        tile += (ptrdiff_t)2 * row;
    }
    if (count % 4 > 1) {
        ai_store(tile, ai_load(input));
        input += 4;
        tile += row;
    }
    if (count % 2 != 0) {
        uint16_t half;
        memcpy(&half, input, sizeof(half));
        ai_store(tile, (int32_t)half);
        tile += row;
    }
    return tile;
}

AI_INLINE int8_t *ai_blank16(int8_t *tile, int32_t row, int32_t count)
{
    int32_t k;

    for (k = 0; k < count; k++) {
        ai_store(tile, 0);
        tile += row;
    }
    return tile;
}

/* `count` int16 codes as numbers `first` and further of a pixel's column. */
AI_INLINE void ai_put16(int8_t *tile, int32_t row, int32_t first, const int16_t *input, int32_t count)
{
    int32_t k;

    for (k = 0; k < count; k++) {
        const int32_t place = first + k;
        ai_store_half(tile + (ptrdiff_t)(place / 2) * row + (ptrdiff_t)2 * (place % 2), input[k]);
    }
}

/* Codes of int16 from sums in `parts` parts, `stride` bytes apart; an int64 accumulator if `wide`, else an int32. */
AI_INLINE void ai_finish_wide(const int8_t *sums, int32_t parts, int32_t stride, int32_t channels, const int64_t *bias,
                              const int32_t *scales, int32_t wide, int32_t low, int32_t high, int16_t *output)
{
    int32_t c;
    int32_t part;

    for (c = 0; c < channels; c++) {
        int64_t sum = bias[c];
        int32_t code;
        for (part = 0; part < parts; part++) {
            sum += ai_load(sums + (ptrdiff_t)part * stride + (ptrdiff_t)4 * c);
        }
        if (wide != 0) {
            code = ai_multiply_wide(sum, scales[2 * c], scales[2 * c + 1]);
        } else {
            code =
                ai_multiply((int32_t)((uint64_t)sum & 0xFFFFFFFFU), scales[2 * c], scales[2 * c + 1], AI_ROUNDING_TFLM);
        }
        output[c] = (int16_t)ai_clamp(code, low, high);
    }
}

/* Two halfwords `value` at `count` places `step` bytes apart. */
AI_INLINE void ai_fill_column(int8_t *words, int32_t step, int32_t value, int32_t count)
{
    const int32_t word = ai_halves(value, value);
    int32_t i;

    for (i = 0; i < count; i++) {
        ai_store(words, word);
        words += step;
    }
}

/* `value` into one halfword of each of `count` words; `halves` is the first such halfword. */
AI_INLINE void ai_put_halves(int8_t *halves, int32_t value, int32_t count)
{
    int32_t i;

    for (i = 0; i < count; i++) {
        ai_store_half(halves + (ptrdiff_t)4 * i, value);
    }
}

/* Requantize the sums of a pixel where the fast form does not hold. */
AI_INLINE void ai_finish_sums(const ai_output_stage *stage, const int8_t *sums, int32_t channels, int8_t *output)
{
    int32_t c;

    for (c = 0; c < channels; c++) {
        const int32_t sum = ai_load(sums + (ptrdiff_t)4 * c);
        output[c] = ai_finish(stage, sum, stage->params[2 * c + 1], stage->shifts[c]);
    }
}

#endif /* AI_BLOCKS_H */
