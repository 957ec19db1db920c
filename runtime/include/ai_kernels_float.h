/*
 * Building blocks of generated float32 kernels: sums of products by fused multiply-add, each product rounded once
 * together with its sum, always in the order kernel row, kernel column, input channel. A sum starts with the bias. So
 * every form gives the same bytes:
 *
 * - cores with an FPU: GNU assembly, four pixels by four channels in S0 to S15, VLDM for operands that lie in a row;
 * - Helium: four channels in the lanes of a vector. It takes numbers below 2^-126 for 0; the other forms do not;
 * - everything else: portable C, with the arithmetic of ai_fmaf.
 *
 * The functions are not inlined: one copy of each serves all layers of a network.
 */
#ifndef AI_KERNELS_FLOAT_H
#define AI_KERNELS_FLOAT_H

#include "ai_kernels.h"

#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define AI_FLOAT_FUNCTION static __attribute__((noinline, unused))
#else
#define AI_FLOAT_FUNCTION static
#endif

/* The blocks are GNU assembly, which __OPTIMIZE__ stands for; without optimisation too few registers would be free. */
#if !defined(__ARM_FEATURE_FMA) || !defined(__thumb2__) || !defined(__OPTIMIZE__) || defined(AI_KERNELS_PORTABLE)
#define AI_FLOAT_MVE 0
#define AI_FLOAT_VFP 0
#elif defined(__ARM_FEATURE_MVE) && ((__ARM_FEATURE_MVE & 2) != 0)
#define AI_FLOAT_MVE 1
#define AI_FLOAT_VFP 0
#include <arm_mve.h>
#else
#define AI_FLOAT_MVE 0
#define AI_FLOAT_VFP 1
#endif

/* Where the C library's fmaf is known to be exact and fast. */
#if (defined(__linux__) || defined(__APPLE__)) && (defined(__x86_64__) || defined(__aarch64__))
#define AI_FLOAT_LIBM 1
#include <math.h>
#else
#define AI_FLOAT_LIBM 0
#endif

/* What follows a sum. */
#define AI_FLOAT_LINEAR 0
#define AI_FLOAT_RELU 1    /* not below 0 */
#define AI_FLOAT_BOUNDED 2 /* neither below 0 nor above `high` >= 0 */
#define AI_FLOAT_CLIP 3    /* neither below `low` nor above `high` */

/*
 * Window of a convolution, and what follows its sums. At least one run of at least one value. Counts and distances are
 * in elements. The assembly reads the first fields by their place.
 */
typedef struct {
    int32_t rows;       /* runs of the window */
    int32_t run;        /* values of a run, contiguous in the input */
    int32_t x_skip;     /* from the end of a run to the start of the next in the input */
    int32_t w_skip;     /* the same in the weights of four channels */
    int32_t activation; /* AI_FLOAT_... */
    float high;
    float low;
    int32_t x_step;  /* from the window of a pixel to that of the next */
    int32_t y_step;  /* from an output pixel to the next */
    int32_t w_block; /* from the weights of four channels to those of the next four */
} ai_float_window;

/* The taps of a depthwise convolution that lie inside the input, and what follows its sums. */
typedef struct {
    int32_t rows;       /* taps inside the input: down */
    int32_t columns;    /* and across */
    int32_t activation; /* AI_FLOAT_... */
    float high;
    float low;
    int32_t first; /* the first of the taps in the kernel */
    int32_t width; /* taps of a row of the kernel */
    int32_t taps;  /* taps of the kernel */
    int32_t x_tap; /* elements from tap to tap in the input: across */
    int32_t x_row; /* and down */
} ai_float_taps;

AI_INLINE int32_t ai_float_bits(float value)
{
    int32_t bits;
    (void)memcpy(&bits, &value, sizeof(bits));
    return bits;
}

AI_INLINE float ai_float_of_bits(int32_t bits)
{
    float value;
    (void)memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Exponent of a finite number, not 0: significand * 2^(exponent - 158), the significand's highest bit being 1. */
AI_INLINE int32_t ai_float_split(uint32_t bits, uint32_t *significand)
{
    const int32_t exponent = (int32_t)((bits >> 23) & 0xFFU);
    int32_t shift;

    *significand = (bits << 8) | 0x80000000U;
    if (exponent == 0) {
        shift = ai_clz(bits << 1) + 1;
        *significand = bits << shift;
        return 9 - shift;
    }
    return exponent;
}

/* (high, low) / 2^n, 0 <= n, bits shifted out kept as a sticky last bit. */
AI_INLINE void ai_shift_sticky(uint32_t *high, uint32_t *low, int32_t n)
{
    uint32_t lost = 0U;

    if (n >= 32) {
        lost = *low;
        *low = *high;
        *high = 0U;
        n = (n < 63) ? n - 32 : 31;
    }
    if (n > 0) {
        lost |= *low << (32 - n);
        *low = (*low >> n) | (*high << (32 - n));
        *high >>= n;
    }
    *low |= (lost != 0U) ? 1U : 0U;
}

/*
 * A product plus c: significands with their highest bits set (that of c may be 0), `exponent` that of c, `distance`
 * from there to the product's; `sign` and `c_sign` have the signs of product and c in their highest bits.
 */
AI_INLINE float ai_fmaf_parts(uint32_t a_part, uint32_t b_part, uint32_t c_part, uint32_t sign, uint32_t c_sign,
                              int32_t distance, int32_t exponent)
{
    uint64_t sum;
    uint32_t high;
    uint32_t low;
    uint32_t c_low;

    /*
     * Both addends with 1 at bit 61, the smaller one shifted right. Where that loses bits, the sticky one stands for
     * them: the highest bit of the larger addend is far above, so none of them moves into the result.
     */
    sum = (uint64_t)(a_part >> 1) * b_part;
    high = (uint32_t)(sum >> 32);
    low = (uint32_t)sum;
    c_part >>= 2;
    c_low = 0U;

    if (distance < 0) {
        ai_shift_sticky(&high, &low, -distance);
        sum = ((uint64_t)high << 32) | low;
    } else {
        exponent += distance;
        if (distance < 32) {
            c_low = (c_part << 1) << (31 - distance);
            c_part >>= distance;
        } else {
            ai_shift_sticky(&c_part, &c_low, distance);
        }
    }
    if (((sign ^ c_sign) & 0x80000000U) == 0U) {
        sum += ((uint64_t)c_part << 32) | c_low;
    } else {
        sum -= ((uint64_t)c_part << 32) | c_low;
        if ((sum >> 63) != 0U) {
            sum = 0U - sum;
            sign = c_sign;
        }
    }
    sign &= 0x80000000U;
    high = (uint32_t)(sum >> 32);
    low = (uint32_t)sum;
    if (high == 0U) {
        if (low == 0U) {
            return 0.0f;
        }
        high = low;
        low = 0U;
        exponent -= 32;
    }
    /* The highest bit to bit 63: 24 bits of significand, then 40 that decide about rounding. */
    distance = ai_clz(high);
    exponent += 2 - distance;
    high = (high << distance) | ((low >> 1) >> (31 - distance));
    low <<= distance;
    if ((uint32_t)(exponent - 1) >= 254U) {
        if (exponent > 0) {
            return ai_float_of_bits((int32_t)(sign | 0x7F800000U));
        }
        ai_shift_sticky(&high, &low, 1 - exponent);
        exponent = 1;
    }
    /*
     * To nearest, ties to even: half, and a little more where the last bit is odd, carries into the significand, and
     * out of it into the exponent, just where it must.
     */
    low = (high << 24) | ((low != 0U) ? 1U : 0U);
    high = (high >> 8) + ((uint32_t)(exponent - 1) << 23);
    if (low + (high & 1U) > 0x80000000U) {
        high++;
    }
    return ai_float_of_bits((int32_t)(sign | high));
}

/* ai_fmaf_exact where a number is 0, subnormal, infinite or none. */
AI_FLOAT_FUNCTION float ai_fmaf_rare(float x, float y, float z)
{
    const uint32_t a = (uint32_t)ai_float_bits(x);
    const uint32_t b = (uint32_t)ai_float_bits(y);
    const uint32_t c = (uint32_t)ai_float_bits(z);
    uint32_t a_part;
    uint32_t b_part;
    uint32_t c_part = 0U;
    int32_t exponent;
    int32_t c_exponent;

    if (((a << 1) >= 0xFF000000U) || ((b << 1) >= 0xFF000000U)) {
        return x * y + z;
    }
    if ((c << 1) >= 0xFF000000U) {
        return z + z; /* whatever the product: it might overflow */
    }
    if (((a << 1) == 0U) || ((b << 1) == 0U)) {
        return ((c << 1) != 0U) ? z : ai_float_of_bits((int32_t)((a ^ b) & c & 0x80000000U));
    }
    exponent = ai_float_split(a, &a_part) + ai_float_split(b, &b_part) - 127;
    c_exponent = ((c << 1) != 0U) ? ai_float_split(c, &c_part) : exponent;
    return ai_fmaf_parts(a_part, b_part, c_part, a ^ b, c, exponent - c_exponent, c_exponent);
}

/* x * y + z rounded once, in integers: what fmaf of C99 gives, errno and exceptions apart. */
AI_FLOAT_FUNCTION float ai_fmaf_exact(float x, float y, float z)
{
    const uint32_t a = (uint32_t)ai_float_bits(x);
    const uint32_t b = (uint32_t)ai_float_bits(y);
    const uint32_t c = (uint32_t)ai_float_bits(z);
    const int32_t a_exponent = (int32_t)((a >> 23) & 0xFFU);
    const int32_t b_exponent = (int32_t)((b >> 23) & 0xFFU);
    const int32_t c_exponent = (int32_t)((c >> 23) & 0xFFU);

    if (((uint32_t)(a_exponent - 1) >= 254U) || ((uint32_t)(b_exponent - 1) >= 254U) ||
        ((uint32_t)(c_exponent - 1) >= 254U)) {
        return ai_fmaf_rare(x, y, z);
    }
    return ai_fmaf_parts((a << 8) | 0x80000000U, (b << 8) | 0x80000000U, (c << 8) | 0x80000000U, a ^ b, c,
                         a_exponent + b_exponent - 127 - c_exponent, c_exponent);
}

/* x * y + z, rounded once. */
AI_INLINE float ai_fmaf(float x, float y, float z)
{
#if defined(__ARM_FEATURE_FMA) && (defined(__GNUC__) || defined(__clang__))
    return __builtin_fmaf(x, y, z);
#elif AI_FLOAT_LIBM
    return fmaf(x, y, z);
#else
    return ai_fmaf_exact(x, y, z);
#endif
}

/* Bounds a number. Against 0 its bits are compared as integers: one instruction, and -0 becomes 0 in every form. */
AI_INLINE float ai_float_bounded(float value, int32_t activation, float low, float high)
{
    int32_t bits = ai_float_bits(value);

    if (activation == AI_FLOAT_LINEAR) {
        return value;
    }
    if (activation == AI_FLOAT_CLIP) {
        return (value < low) ? low : ((value > high) ? high : value);
    }
    bits &= ~(bits >> 31);
    if ((activation == AI_FLOAT_BOUNDED) && (bits > ai_float_bits(high))) {
        bits = ai_float_bits(high);
    }
    return ai_float_of_bits(bits);
}

/* What the blocks leave to do: bounds other than 0 from below. */
AI_INLINE void ai_float_clip(int32_t activation, float low, float high, int32_t count, float *output)
{
    int32_t i;

    if (activation == AI_FLOAT_CLIP) {
        for (i = 0; i < count; i++) {
            output[i] = ai_float_bounded(output[i], AI_FLOAT_CLIP, low, high);
        }
    }
}

AI_INLINE void ai_float_copy(float *target, const float *source, int32_t count)
{
    int32_t i;

    for (i = 0; i < count; i++) {
        target[i] = source[i];
    }
}

AI_INLINE void ai_float_zero(float *target, int32_t count)
{
    int32_t i;

    for (i = 0; i < count; i++) {
        target[i] = 0.0f;
    }
}

#if AI_FLOAT_VFP

#if defined(__clang__)
#pragma clang diagnostic push
/* Assembly is no string of a program: the length that C99 promises for those does not matter. */
#pragma clang diagnostic ignored "-Woverlength-strings"
#endif

/* One instruction a line. */
/* clang-format off */

#define AI_VFP_FMA(sum, w, x) "vfma.f32 s" #sum ", s" #w ", s" #x "\n\t"

/* Four sums from s<a0> on: weights of four channels times one value. */
#define AI_VFP_ROW(a0, a1, a2, a3, w0, w1, w2, w3, x)     \
    AI_VFP_FMA(a0, w0, x)                                 \
    AI_VFP_FMA(a1, w1, x)                                 \
    AI_VFP_FMA(a2, w2, x)                                 \
    AI_VFP_FMA(a3, w3, x)

#define AI_VFP_ROWS(w0, w1, w2, w3, x0, x1, x2, x3)       \
    AI_VFP_ROW(0, 1, 2, 3, w0, w1, w2, w3, x0)            \
    AI_VFP_ROW(4, 5, 6, 7, w0, w1, w2, w3, x1)            \
    AI_VFP_ROW(8, 9, 10, 11, w0, w1, w2, w3, x2)          \
    AI_VFP_ROW(12, 13, 14, 15, w0, w1, w2, w3, x3)

/* One and two values of each of four pixels: 5 loads for 16 and for 32 multiply-adds. */
#define AI_VFP_4PX_SINGLE                                 \
    "vldmia %[w]!, {s16-s19}\n\t"                         \
    "vldmia %[t0]!, {s24}\n\t"                            \
    "vldmia %[t1]!, {s26}\n\t"                            \
    "vldmia %[t2]!, {s28}\n\t"                            \
    "vldmia %[t3]!, {s30}\n\t"                            \
    AI_VFP_ROWS(16, 17, 18, 19, 24, 26, 28, 30)
#define AI_VFP_4PX_PAIR                                   \
    "vldmia %[w]!, {s16-s23}\n\t"                         \
    "vldmia %[t0]!, {s24-s25}\n\t"                        \
    "vldmia %[t1]!, {s26-s27}\n\t"                        \
    "vldmia %[t2]!, {s28-s29}\n\t"                        \
    "vldmia %[t3]!, {s30-s31}\n\t"                        \
    AI_VFP_ROWS(16, 17, 18, 19, 24, 26, 28, 30)           \
    AI_VFP_ROWS(20, 21, 22, 23, 25, 27, 29, 31)

/* One and four values of one pixel; the four lie in s<x0> to s<x3>. */
#define AI_VFP_1PX_SINGLE                                 \
    "vldmia %[x]!, {s4}\n\t"                              \
    "vldmia %[w]!, {s12-s15}\n\t"                         \
    AI_VFP_ROW(0, 1, 2, 3, 12, 13, 14, 15, 4)
#define AI_VFP_1PX_FOUR(x0, x1, x2, x3)                   \
    "vldmia %[w]!, {s12-s27}\n\t"                         \
    AI_VFP_ROW(0, 1, 2, 3, 12, 13, 14, 15, x0)            \
    AI_VFP_ROW(0, 1, 2, 3, 16, 17, 18, 19, x1)            \
    AI_VFP_ROW(0, 1, 2, 3, 20, 21, 22, 23, x2)            \
    AI_VFP_ROW(0, 1, 2, 3, 24, 25, 26, 27, x3)

/* One tap of eight channels, and of 16: input in s16 to s23, weights in s24 to s31. */
#define AI_VFP_TAP(a0, a1, a2, a3, a4, a5, a6, a7)        \
    "vldmia %[x]!, {s16-s23}\n\t"                         \
    "vldmia %[w]!, {s24-s31}\n\t"                         \
    AI_VFP_FMA(a0, 16, 24)                                \
    AI_VFP_FMA(a1, 17, 25)                                \
    AI_VFP_FMA(a2, 18, 26)                                \
    AI_VFP_FMA(a3, 19, 27)                                \
    AI_VFP_FMA(a4, 20, 28)                                \
    AI_VFP_FMA(a5, 21, 29)                                \
    AI_VFP_FMA(a6, 22, 30)                                \
    AI_VFP_FMA(a7, 23, 31)
#define AI_VFP_TAP_8                                      \
    AI_VFP_TAP(0, 1, 2, 3, 4, 5, 6, 7)                    \
    "add %[x], %[x_tap]\n\t"
#define AI_VFP_TAP_16                                     \
    AI_VFP_TAP(0, 1, 2, 3, 4, 5, 6, 7)                    \
    AI_VFP_TAP(8, 9, 10, 11, 12, 13, 14, 15)              \
    "add %[x], %[x_tap]\n\t"

/* Four sums into memory: as they are; not below 0 (copies of the sign clear the bits); also not above the bits in t4. */
#define AI_VFP_STORE(s0, s1, s2, s3) "vstmia %[y], {s" #s0 "-s" #s3 "}\n\t"
#define AI_VFP_TAKE(s0, s1, s2, s3)                       \
    "vmov %[t0], %[t1], s" #s0 ", s" #s1 "\n\t"           \
    "vmov %[t2], %[t3], s" #s2 ", s" #s3 "\n\t"           \
    "bic %[t0], %[t0], %[t0], asr #31\n\t"                \
    "bic %[t1], %[t1], %[t1], asr #31\n\t"                \
    "bic %[t2], %[t2], %[t2], asr #31\n\t"                \
    "bic %[t3], %[t3], %[t3], asr #31\n\t"
#define AI_VFP_AT_MOST(t)                                 \
    "cmp " t ", %[t4]\n\t"                                \
    "it gt\n\t"                                           \
    "movgt " t ", %[t4]\n\t"
#define AI_VFP_PUT                                        \
    "strd %[t0], %[t1], [%[y]]\n\t"                       \
    "strd %[t2], %[t3], [%[y], #8]\n\t"
#define AI_VFP_STORE_RELU(s0, s1, s2, s3)                 \
    AI_VFP_TAKE(s0, s1, s2, s3)                           \
    AI_VFP_PUT
#define AI_VFP_STORE_BOUNDED(s0, s1, s2, s3)              \
    AI_VFP_TAKE(s0, s1, s2, s3)                           \
    AI_VFP_AT_MOST("%[t0]")                               \
    AI_VFP_AT_MOST("%[t1]")                               \
    AI_VFP_AT_MOST("%[t2]")                               \
    AI_VFP_AT_MOST("%[t3]")                               \
    AI_VFP_PUT

/* Where the sums of a block go. */
#define AI_VFP_4(store)                                   \
    store(0, 1, 2, 3)
#define AI_VFP_8(store)                                   \
    store(0, 1, 2, 3)                                     \
    "adds %[y], #16\n\t"                                  \
    store(4, 5, 6, 7)
#define AI_VFP_16(store)                                  \
    AI_VFP_8(store)                                       \
    "adds %[y], #16\n\t"                                  \
    store(8, 9, 10, 11)                                   \
    "adds %[y], #16\n\t"                                  \
    store(12, 13, 14, 15)
#define AI_VFP_4PX(store)                                 \
    store(0, 1, 2, 3)                                     \
    "add %[y], %[y_step]\n\t"                             \
    store(4, 5, 6, 7)                                     \
    "add %[y], %[y_step]\n\t"                             \
    store(8, 9, 10, 11)                                   \
    "add %[y], %[y_step]\n\t"                             \
    store(12, 13, 14, 15)

/* The end of a block: `activation` and `high` lie at these offsets from the window. */
#define AI_VFP_FINISH(form, activation, high)             \
    "ldr %[t0], [%[window], #" #activation "]\n\t"        \
    "ldr %[t4], [%[window], #" #high "]\n\t"              \
    "cmp %[t0], #1\n\t"                                   \
    "beq 7f\n\t"                                          \
    "cmp %[t0], #2\n\t"                                   \
    "beq 8f\n\t"                                          \
    form(AI_VFP_STORE)                                    \
    "b 9f\n"                                              \
    "7:\n\t"                                              \
    form(AI_VFP_STORE_RELU)                               \
    "b 9f\n"                                              \
    "8:\n\t"                                              \
    form(AI_VFP_STORE_BOUNDED)                            \
    "9:\n\t"

/* All taps of one pixel: `rows` and `columns` are the window's first fields; then the end of the block. */
#define AI_VFP_TAPS(tap, form)                            \
    "ldr %[t4], [%[window]]\n\t"                          \
    "ldr %[t0], [%[window], #4]\n\t"                      \
    "cmp %[t0], #3\n\t"                                   \
    "beq 3f\n"                                            \
    "1:\n\t"                                              \
    "ldr %[t0], [%[window], #4]\n"                        \
    "2:\n\t"                                              \
    tap                                                   \
    "subs %[t0], #1\n\t"                                  \
    "bne 2b\n\t"                                          \
    "add %[x], %[t1]\n\t"                                 \
    "add %[w], %[t2]\n\t"                                 \
    "subs %[t4], #1\n\t"                                  \
    "bne 1b\n\t"                                          \
    "b 6f\n"                                              \
    "3:\n\t"                                              \
    tap                                                   \
    tap                                                   \
    tap                                                   \
    "add %[x], %[t1]\n\t"                                 \
    "add %[w], %[t2]\n\t"                                 \
    "subs %[t4], #1\n\t"                                  \
    "bne 3b\n"                                            \
    "6:\n\t"                                              \
    AI_VFP_FINISH(form, 8, 12)

#define AI_VFP_CLOBBERS                                   \
    "cc", "memory",                                       \
    "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7",       \
    "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15", \
    "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23", \
    "s24", "s25", "s26", "s27", "s28", "s29", "s30", "s31"

/* Four pixels by four channels; `y_step` in bytes. Pointers that have done their work hold results at the end. */
AI_INLINE void ai_float_block_4px(const ai_float_window *window, const float *x, const float *w, const float *bias,
                                  int32_t y_step, float *y)
{
    const float *x1 = x + window->x_step;
    const float *x2 = x1 + window->x_step;
    const float *x3 = x2 + window->x_step;
    int32_t t;

    __asm__ volatile(
        "vldmia %[t4], {s0-s3}\n\t"
        "vldmia %[t4], {s4-s7}\n\t"
        "vldmia %[t4], {s8-s11}\n\t"
        "vldmia %[t4], {s12-s15}\n\t"
        "ldr %[t4], [%[window]]\n" /* rows */
        "1:\n\t"
        "ldr %[t], [%[window], #4]\n\t" /* run: four values a turn; without carry, the first turn has two */
        "adds %[t], #2\n\t"
        "lsrs %[t], %[t], #2\n\t"
        "bcc 3f\n\t"
        "beq 4f\n"
        "2:\n\t"
        AI_VFP_4PX_PAIR
        "3:\n\t"
        AI_VFP_4PX_PAIR
        "subs %[t], #1\n\t"
        "bne 2b\n"
        "4:\n\t"
        "ldr %[t], [%[window], #4]\n\t"
        "lsls %[t], %[t], #31\n\t"
        "beq 5f\n\t"
        AI_VFP_4PX_SINGLE
        "5:\n\t"
        "subs %[t4], #1\n\t"
        "beq 6f\n\t"
        "ldr %[t], [%[window], #8]\n\t" /* x_skip */
        "add %[t0], %[t0], %[t], lsl #2\n\t"
        "add %[t1], %[t1], %[t], lsl #2\n\t"
        "add %[t2], %[t2], %[t], lsl #2\n\t"
        "add %[t3], %[t3], %[t], lsl #2\n\t"
        "ldr %[t], [%[window], #12]\n\t" /* w_skip */
        "add %[w], %[w], %[t], lsl #2\n\t"
        "b 1b\n"
        "6:\n\t"
        AI_VFP_FINISH(AI_VFP_4PX, 16, 20)
        : [t0] "+r"(x), [t1] "+r"(x1), [t2] "+r"(x2), [t3] "+r"(x3), [t4] "+r"(bias), [w] "+r"(w), [y] "+r"(y),
          [t] "=&r"(t)
        : [window] "r"(window), [y_step] "r"(y_step)
        : AI_VFP_CLOBBERS);
}

/* One pixel by four channels. */
AI_INLINE void ai_float_block_1px(const ai_float_window *window, const float *x, const float *w, const float *bias,
                                  float *y)
{
    int32_t t0;
    int32_t t1;
    int32_t t2;
    int32_t t3;

    __asm__ volatile(
        "vldmia %[t4], {s0-s3}\n\t"
        "ldr %[t4], [%[window]]\n" /* rows */
        "1:\n\t"
        "ldr %[t0], [%[window], #4]\n\t" /* run */
        "lsrs %[t1], %[t0], #3\n\t"
        "beq 3f\n"
        "2:\n\t"
        "vldmia %[x]!, {s4-s11}\n\t"
        AI_VFP_1PX_FOUR(4, 5, 6, 7)
        AI_VFP_1PX_FOUR(8, 9, 10, 11)
        "subs %[t1], #1\n\t"
        "bne 2b\n"
        "3:\n\t"
        "lsls %[t1], %[t0], #30\n\t" /* carry: four more values, the rest: singles */
        "bcc 4f\n\t"
        "vldmia %[x]!, {s4-s7}\n\t"
        AI_VFP_1PX_FOUR(4, 5, 6, 7)
        "4:\n\t"
        "ands %[t1], %[t0], #3\n\t"
        "beq 5f\n"
        "0:\n\t"
        AI_VFP_1PX_SINGLE
        "subs %[t1], #1\n\t"
        "bne 0b\n"
        "5:\n\t"
        "subs %[t4], #1\n\t"
        "beq 6f\n\t"
        "ldr %[t1], [%[window], #8]\n\t" /* x_skip */
        "add %[x], %[x], %[t1], lsl #2\n\t"
        "ldr %[t1], [%[window], #12]\n\t" /* w_skip */
        "add %[w], %[w], %[t1], lsl #2\n\t"
        "b 1b\n"
        "6:\n\t"
        AI_VFP_FINISH(AI_VFP_4, 16, 20)
        : [x] "+r"(x), [w] "+r"(w), [y] "+r"(y), [t4] "+r"(bias), [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2),
          [t3] "=&r"(t3)
        : [window] "r"(window)
        : AI_VFP_CLOBBERS);
}

/* One pixel of 16 or 8 channels (a constant) of a depthwise convolution. */
AI_INLINE void ai_float_block_taps(const ai_float_taps *window, const float *x, const float *w, const float *bias,
                                   int32_t channels, float *y)
{
    const int32_t x_tap = (window->x_tap - channels) * 4;
    int32_t x_skip = (window->x_row - window->columns * window->x_tap) * 4;
    int32_t w_skip = (window->width - window->columns) * channels * 4;
    int32_t t0;
    int32_t t3;

    if (channels == 16) {
        __asm__ volatile(
            "vldmia %[t4], {s0-s15}\n\t"
            AI_VFP_TAPS(AI_VFP_TAP_16, AI_VFP_16)
            : [x] "+r"(x), [w] "+r"(w), [y] "+r"(y), [t4] "+r"(bias), [t1] "+r"(x_skip), [t2] "+r"(w_skip),
              [t0] "=&r"(t0), [t3] "=&r"(t3)
            : [window] "r"(window), [x_tap] "r"(x_tap)
            : AI_VFP_CLOBBERS);
    } else {
        __asm__ volatile(
            "vldmia %[t4], {s0-s7}\n\t"
            AI_VFP_TAPS(AI_VFP_TAP_8, AI_VFP_8)
            : [x] "+r"(x), [w] "+r"(w), [y] "+r"(y), [t4] "+r"(bias), [t1] "+r"(x_skip), [t2] "+r"(w_skip),
              [t0] "=&r"(t0), [t3] "=&r"(t3)
            : [window] "r"(window), [x_tap] "r"(x_tap)
            : AI_VFP_CLOBBERS);
    }
}

/* clang-format on */

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

#elif AI_FLOAT_MVE

/* Bounds of four sums. */
AI_INLINE float32x4_t ai_float_bounded_mve(float32x4_t sums, int32_t activation, float high)
{
    int32x4_t bits = vreinterpretq_s32_f32(sums);

    if ((activation == AI_FLOAT_RELU) || (activation == AI_FLOAT_BOUNDED)) {
        bits = vmaxq_s32(bits, vdupq_n_s32(0));
    }
    if (activation == AI_FLOAT_BOUNDED) {
        bits = vminq_s32(bits, vdupq_n_s32(ai_float_bits(high)));
    }
    return vreinterpretq_f32_s32(bits);
}

/* `pairs` times two values of each of four pixels: 6 loads for 8 multiply-adds of vectors. */
AI_INLINE void ai_float_run_4px(float32x4_t *a, float32x4_t *b, float32x4_t *c, float32x4_t *d, const float **x0,
                                const float **x1, const float **x2, const float **x3, const float **w, int32_t pairs)
{
    float32x4_t taps0;
    float32x4_t taps1;
    int32_t t0;
    int32_t t1;
    int32_t t2;
    int32_t t3;

    if (pairs <= 0) {
        return;
    }
    __asm__ volatile("dls lr, %[pairs]\n"
                     "1:\n\t"
                     "ldrd %[t0], %[t1], [%[x0]], #8\n\t"
                     "vldrw.32 %q[taps0], [%[w]], #16\n\t"
                     "ldrd %[t2], %[t3], [%[x1]], #8\n\t"
                     "vfma.f32 %q[a], %q[taps0], %[t0]\n\t"
                     "vldrw.32 %q[taps1], [%[w]], #16\n\t"
                     "vfma.f32 %q[b], %q[taps0], %[t2]\n\t"
                     "vfma.f32 %q[a], %q[taps1], %[t1]\n\t"
                     "ldrd %[t0], %[t1], [%[x2]], #8\n\t"
                     "vfma.f32 %q[b], %q[taps1], %[t3]\n\t"
                     "ldrd %[t2], %[t3], [%[x3]], #8\n\t"
                     "vfma.f32 %q[c], %q[taps0], %[t0]\n\t"
                     "vfma.f32 %q[d], %q[taps0], %[t2]\n\t"
                     "vfma.f32 %q[c], %q[taps1], %[t1]\n\t"
                     "vfma.f32 %q[d], %q[taps1], %[t3]\n\t"
                     "le lr, 1b\n"
                     : [a] "+w"(*a), [b] "+w"(*b), [c] "+w"(*c), [d] "+w"(*d), [x0] "+r"(*x0), [x1] "+r"(*x1),
                       [x2] "+r"(*x2), [x3] "+r"(*x3), [w] "+r"(*w), [taps0] "=&w"(taps0), [taps1] "=&w"(taps1),
                       [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3)
                     : [pairs] "r"(pairs)
                     : "lr", "memory");
}

/* Four pixels by four channels; `y_step` in bytes. */
AI_INLINE void ai_float_block_4px(const ai_float_window *window, const float *x, const float *w, const float *bias,
                                  int32_t y_step, float *y)
{
    const ptrdiff_t y_floats = y_step / 4;
    const float *x0 = x;
    const float *x1 = x0 + window->x_step;
    const float *x2 = x1 + window->x_step;
    const float *x3 = x2 + window->x_step;
    float32x4_t a = vld1q_f32(bias);
    float32x4_t b = a;
    float32x4_t c = a;
    float32x4_t d = a;
    int32_t row;

    for (row = 0; row < window->rows; row++) {
        ai_float_run_4px(&a, &b, &c, &d, &x0, &x1, &x2, &x3, &w, window->run / 2);
        if (window->run % 2 != 0) {
            const float32x4_t taps = vld1q_f32(w);
            a = vfmaq_n_f32(a, taps, *x0++);
            b = vfmaq_n_f32(b, taps, *x1++);
            c = vfmaq_n_f32(c, taps, *x2++);
            d = vfmaq_n_f32(d, taps, *x3++);
            w += 4;
        }
        x0 += window->x_skip;
        x1 += window->x_skip;
        x2 += window->x_skip;
        x3 += window->x_skip;
        w += window->w_skip;
    }
    if (window->activation != AI_FLOAT_LINEAR) {
        a = ai_float_bounded_mve(a, window->activation, window->high);
        b = ai_float_bounded_mve(b, window->activation, window->high);
        c = ai_float_bounded_mve(c, window->activation, window->high);
        d = ai_float_bounded_mve(d, window->activation, window->high);
    }
    vst1q_f32(y, a);
    vst1q_f32(y + y_floats, b);
    vst1q_f32(y + 2 * y_floats, c);
    vst1q_f32(y + 3 * y_floats, d);
}

/* `fours` times four values of one pixel: 6 loads for 4 multiply-adds of vectors. */
AI_INLINE void ai_float_run_1px(float32x4_t *sums, const float **x, const float **w, int32_t fours)
{
    float32x4_t taps0;
    float32x4_t taps1;
    int32_t t0;
    int32_t t1;
    int32_t t2;
    int32_t t3;

    if (fours <= 0) {
        return;
    }
    __asm__ volatile("dls lr, %[fours]\n"
                     "1:\n\t"
                     "ldrd %[t0], %[t1], [%[x]], #8\n\t"
                     "vldrw.32 %q[taps0], [%[w]], #16\n\t"
                     "vfma.f32 %q[sums], %q[taps0], %[t0]\n\t"
                     "vldrw.32 %q[taps1], [%[w]], #16\n\t"
                     "vfma.f32 %q[sums], %q[taps1], %[t1]\n\t"
                     "ldrd %[t2], %[t3], [%[x]], #8\n\t"
                     "vldrw.32 %q[taps0], [%[w]], #16\n\t"
                     "vfma.f32 %q[sums], %q[taps0], %[t2]\n\t"
                     "vldrw.32 %q[taps1], [%[w]], #16\n\t"
                     "vfma.f32 %q[sums], %q[taps1], %[t3]\n\t"
                     "le lr, 1b\n"
                     : [sums] "+w"(*sums), [x] "+r"(*x), [w] "+r"(*w), [taps0] "=&w"(taps0), [taps1] "=&w"(taps1),
                       [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3)
                     : [fours] "r"(fours)
                     : "lr", "memory");
}

/* One pixel by four channels. */
AI_INLINE void ai_float_block_1px(const ai_float_window *window, const float *x, const float *w, const float *bias,
                                  float *y)
{
    float32x4_t sums = vld1q_f32(bias);
    int32_t row;
    int32_t k;

    for (row = 0; row < window->rows; row++) {
        ai_float_run_1px(&sums, &x, &w, window->run / 4);
        for (k = 0; k < window->run % 4; k++) {
            sums = vfmaq_n_f32(sums, vld1q_f32(w), *x++);
            w += 4;
        }
        x += window->x_skip;
        w += window->w_skip;
    }
    vst1q_f32(y, ai_float_bounded_mve(sums, window->activation, window->high));
}

/* `pairs` times two values of one pixel by four times four channels, whose weights lie `w_block` floats apart. */
AI_INLINE void ai_float_run_16ch(float32x4_t *a, float32x4_t *b, float32x4_t *c, float32x4_t *d, const float **x,
                                 const float *w, int32_t w_block, int32_t pairs)
{
    const float *w0 = w;
    const float *w1 = w0 + w_block;
    const float *w2 = w1 + w_block;
    const float *w3 = w2 + w_block;
    float32x4_t taps0;
    float32x4_t taps1;
    int32_t t0;
    int32_t t1;

    if (pairs <= 0) {
        return;
    }
    __asm__ volatile(
        "dls lr, %[pairs]\n"
        "1:\n\t"
        "ldrd %[t0], %[t1], [%[x]], #8\n\t"
        "vldrw.32 %q[taps0], [%[w0]], #16\n\t"
        "vfma.f32 %q[a], %q[taps0], %[t0]\n\t"
        "vldrw.32 %q[taps1], [%[w1]], #16\n\t"
        "vfma.f32 %q[b], %q[taps1], %[t0]\n\t"
        "vldrw.32 %q[taps0], [%[w2]], #16\n\t"
        "vfma.f32 %q[c], %q[taps0], %[t0]\n\t"
        "vldrw.32 %q[taps1], [%[w3]], #16\n\t"
        "vfma.f32 %q[d], %q[taps1], %[t0]\n\t"
        "vldrw.32 %q[taps0], [%[w0]], #16\n\t"
        "vfma.f32 %q[a], %q[taps0], %[t1]\n\t"
        "vldrw.32 %q[taps1], [%[w1]], #16\n\t"
        "vfma.f32 %q[b], %q[taps1], %[t1]\n\t"
        "vldrw.32 %q[taps0], [%[w2]], #16\n\t"
        "vfma.f32 %q[c], %q[taps0], %[t1]\n\t"
        "vldrw.32 %q[taps1], [%[w3]], #16\n\t"
        "vfma.f32 %q[d], %q[taps1], %[t1]\n\t"
        "le lr, 1b\n"
        : [a] "+w"(*a), [b] "+w"(*b), [c] "+w"(*c), [d] "+w"(*d), [x] "+r"(*x), [w0] "+r"(w0), [w1] "+r"(w1),
          [w2] "+r"(w2), [w3] "+r"(w3), [taps0] "=&w"(taps0), [taps1] "=&w"(taps1), [t0] "=&r"(t0), [t1] "=&r"(t1)
        : [pairs] "r"(pairs)
        : "lr", "memory");
}

/* One pixel by 16 channels, for the long rows of dense layers. */
AI_INLINE void ai_float_block_16ch(const ai_float_window *window, const float *x, const float *w, const float *bias,
                                   float *y)
{
    const int32_t w_block = window->w_block;
    float32x4_t a = vld1q_f32(bias);
    float32x4_t b = vld1q_f32(bias + 4);
    float32x4_t c = vld1q_f32(bias + 8);
    float32x4_t d = vld1q_f32(bias + 12);
    int32_t row;

    for (row = 0; row < window->rows; row++) {
        ai_float_run_16ch(&a, &b, &c, &d, &x, w, w_block, window->run / 2);
        w += window->run / 2 * 8;
        if (window->run % 2 != 0) {
            a = vfmaq_n_f32(a, vld1q_f32(w), *x);
            b = vfmaq_n_f32(b, vld1q_f32(w + w_block), *x);
            c = vfmaq_n_f32(c, vld1q_f32(w + 2 * w_block), *x);
            d = vfmaq_n_f32(d, vld1q_f32(w + 3 * w_block), *x++);
            w += 4;
        }
        x += window->x_skip;
        w += window->w_skip;
    }
    vst1q_f32(y, ai_float_bounded_mve(a, window->activation, window->high));
    vst1q_f32(y + 4, ai_float_bounded_mve(b, window->activation, window->high));
    vst1q_f32(y + 8, ai_float_bounded_mve(c, window->activation, window->high));
    vst1q_f32(y + 12, ai_float_bounded_mve(d, window->activation, window->high));
}

/* A row of taps of 16 channels, and of 8 (c and d unused). */
AI_INLINE void ai_float_run_taps(float32x4_t *a, float32x4_t *b, float32x4_t *c, float32x4_t *d, const float **x,
                                 const float **w, int32_t x_tap, int32_t columns, int32_t channels)
{
    float32x4_t x0;
    float32x4_t w0;
    float32x4_t x1;
    float32x4_t w1;

    if (columns <= 0) {
        return;
    }
    if (channels == 16) {
        __asm__ volatile("dls lr, %[columns]\n"
                         "1:\n\t"
                         "vldrw.32 %q[x0], [%[x]]\n\t"
                         "vldrw.32 %q[w0], [%[w]], #16\n\t"
                         "vldrw.32 %q[x1], [%[x], #16]\n\t"
                         "vfma.f32 %q[a], %q[x0], %q[w0]\n\t"
                         "vldrw.32 %q[w1], [%[w]], #16\n\t"
                         "vldrw.32 %q[x0], [%[x], #32]\n\t"
                         "vfma.f32 %q[b], %q[x1], %q[w1]\n\t"
                         "vldrw.32 %q[w0], [%[w]], #16\n\t"
                         "vldrw.32 %q[x1], [%[x], #48]\n\t"
                         "vfma.f32 %q[c], %q[x0], %q[w0]\n\t"
                         "vldrw.32 %q[w1], [%[w]], #16\n\t"
                         "add %[x], %[step]\n\t"
                         "vfma.f32 %q[d], %q[x1], %q[w1]\n\t"
                         "le lr, 1b\n"
                         : [a] "+w"(*a), [b] "+w"(*b), [c] "+w"(*c), [d] "+w"(*d), [x] "+r"(*x), [w] "+r"(*w),
                           [x0] "=&w"(x0), [w0] "=&w"(w0), [x1] "=&w"(x1), [w1] "=&w"(w1)
                         : [columns] "r"(columns), [step] "r"(x_tap * 4)
                         : "lr", "memory");
    } else {
        __asm__ volatile("dls lr, %[columns]\n"
                         "1:\n\t"
                         "vldrw.32 %q[x0], [%[x]]\n\t"
                         "vldrw.32 %q[w0], [%[w]], #16\n\t"
                         "vldrw.32 %q[x1], [%[x], #16]\n\t"
                         "vfma.f32 %q[a], %q[x0], %q[w0]\n\t"
                         "vldrw.32 %q[w1], [%[w]], #16\n\t"
                         "add %[x], %[step]\n\t"
                         "vfma.f32 %q[b], %q[x1], %q[w1]\n\t"
                         "le lr, 1b\n"
                         : [a] "+w"(*a), [b] "+w"(*b), [x] "+r"(*x), [w] "+r"(*w), [x0] "=&w"(x0), [w0] "=&w"(w0),
                           [x1] "=&w"(x1), [w1] "=&w"(w1)
                         : [columns] "r"(columns), [step] "r"(x_tap * 4)
                         : "lr", "memory");
    }
}

/* One pixel of 16 or 8 channels (a constant) of a depthwise convolution. */
AI_INLINE void ai_float_block_taps(const ai_float_taps *window, const float *x, const float *w, const float *bias,
                                   int32_t channels, float *y)
{
    const int32_t columns = window->columns;
    const int32_t x_tap = window->x_tap;
    const int32_t x_skip = window->x_row - columns * x_tap;
    const int32_t w_skip = (window->width - columns) * channels;
    const int32_t activation = window->activation;
    float32x4_t a = vld1q_f32(bias);
    float32x4_t b = vld1q_f32(bias + 4);
    float32x4_t c = a;
    float32x4_t d = a;
    int32_t row;

    if (channels == 16) {
        c = vld1q_f32(bias + 8);
        d = vld1q_f32(bias + 12);
    }
    for (row = window->rows; row > 0; row--) {
        ai_float_run_taps(&a, &b, &c, &d, &x, &w, x_tap, columns, channels);
        x += x_skip;
        w += w_skip;
    }
    if (activation != AI_FLOAT_LINEAR) {
        a = ai_float_bounded_mve(a, activation, window->high);
        b = ai_float_bounded_mve(b, activation, window->high);
        c = ai_float_bounded_mve(c, activation, window->high);
        d = ai_float_bounded_mve(d, activation, window->high);
    }
    vst1q_f32(y, a);
    vst1q_f32(y + 4, b);
    if (channels == 16) {
        vst1q_f32(y + 8, c);
        vst1q_f32(y + 12, d);
    }
}

#endif

#if AI_FLOAT_VFP || AI_FLOAT_MVE

/* All channels of four pixels; see ai_float_1px. */
AI_FLOAT_FUNCTION void ai_float_4px(const ai_float_window *window, const float *x, const float *w, const float *bias,
                                    int32_t channels, float *output)
{
    const int32_t y_step = window->y_step;
    int32_t c;
    int32_t pixel;

    for (c = 0; c + 4 <= channels; c += 4) {
        ai_float_block_4px(window, x, w, bias + c, y_step * 4, output + c);
        w += window->w_block;
    }
    if (c < channels) {
        float rest[16];
        ai_float_block_4px(window, x, w, bias + c, 16, rest);
        for (pixel = 0; pixel < 4; pixel++) {
            ai_float_copy(output + pixel * y_step + c, rest + 4 * pixel, channels - c);
        }
    }
    for (pixel = 0; pixel < 4; pixel++) {
        ai_float_clip(window->activation, window->low, window->high, channels, output + pixel * y_step);
    }
}

/*
 * All channels of one pixel, whose window begins at `x`. Weights: those of four channels for each value in turn, the
 * last four padded with zeros, as the biases are.
 */
AI_FLOAT_FUNCTION void ai_float_1px(const ai_float_window *window, const float *x, const float *w, const float *bias,
                                    int32_t channels, float *output)
{
    int32_t c = 0;

#if AI_FLOAT_MVE
    for (; c + 16 <= channels; c += 16) {
        ai_float_block_16ch(window, x, w, bias + c, output + c);
        w += (ptrdiff_t)4 * window->w_block;
    }
#endif
    for (; c + 4 <= channels; c += 4) {
        ai_float_block_1px(window, x, w, bias + c, output + c);
        w += window->w_block;
    }
    if (c < channels) {
        float rest[4];
        ai_float_block_1px(window, x, w, bias + c, rest);
        ai_float_copy(output + c, rest, channels - c);
    }
    ai_float_clip(window->activation, window->low, window->high, channels, output);
}

#else

/* All channels of one pixel: as above, one sum at a time. */
AI_FLOAT_FUNCTION void ai_float_1px(const ai_float_window *window, const float *x, const float *w, const float *bias,
                                    int32_t channels, float *output)
{
    int32_t c;
    int32_t row;
    int32_t k;

    for (c = 0; c < channels; c++) {
        const float *values = x;
        const float *taps = w + (ptrdiff_t)(c / 4) * window->w_block + c % 4;
        float sum = bias[c];
        for (row = 0; row < window->rows; row++) {
            for (k = 0; k < window->run; k++) {
                sum = ai_fmaf(*values++, *taps, sum);
                taps += 4;
            }
            values += window->x_skip;
            taps += window->w_skip;
        }
        output[c] = ai_float_bounded(sum, window->activation, window->low, window->high);
    }
}

AI_INLINE void ai_float_4px(const ai_float_window *window, const float *x, const float *w, const float *bias,
                            int32_t channels, float *output)
{
    int32_t pixel;

    for (pixel = 0; pixel < 4; pixel++) {
        ai_float_1px(window, x + pixel * window->x_step, w, bias, channels, output + pixel * window->y_step);
    }
}

#endif

/* `count` pixels in a row. */
AI_FLOAT_FUNCTION void ai_float_pixels(const ai_float_window *window, const float *x, const float *w, const float *bias,
                                       int32_t count, int32_t channels, float *output)
{
    for (; count >= 4; count -= 4) {
        ai_float_4px(window, x, w, bias, channels, output);
        x += 4 * window->x_step;
        output += 4 * window->y_step;
    }
    for (; count > 0; count--) {
        ai_float_1px(window, x, w, bias, channels, output);
        x += window->x_step;
        output += window->y_step;
    }
}

/*
 * One pixel of a depthwise convolution, whose first tap inside the input is at `x`. Weights: blocks of 16, 8 and 1
 * channels, each block all taps in turn.
 */
AI_FLOAT_FUNCTION void ai_float_depthwise(const ai_float_taps *window, const float *x, const float *w,
                                          const float *bias, int32_t channels, float *output)
{
    int32_t c = 0;

    while (c < channels) {
        const int32_t lanes = (channels - c >= 16) ? 16 : ((channels - c >= 8) ? 8 : 1);
        const float *const taps = w + (ptrdiff_t)c * window->taps + (ptrdiff_t)window->first * lanes;
#if AI_FLOAT_VFP || AI_FLOAT_MVE
        if (lanes == 16) {
            ai_float_block_taps(window, x + c, taps, bias + c, 16, output + c);
        } else if (lanes == 8) {
            ai_float_block_taps(window, x + c, taps, bias + c, 8, output + c);
        } else
#endif
        {
            int32_t lane;
            int32_t row;
            int32_t column;
            for (lane = 0; lane < lanes; lane++) {
                float sum = bias[c + lane];
                for (row = 0; row < window->rows; row++) {
                    for (column = 0; column < window->columns; column++) {
                        sum = ai_fmaf(x[row * window->x_row + column * window->x_tap + c + lane],
                                      taps[(row * window->width + column) * lanes + lane], sum);
                    }
                }
                output[c + lane] = ai_float_bounded(sum, window->activation, window->low, window->high);
            }
        }
        c += lanes;
    }
    ai_float_clip(window->activation, window->low, window->high, channels, output);
}

#endif
