/*
 * For firmware that is linked without a C library (-nostdlib): the four functions that compilers call on their own
 * account, and that generated code uses; on Arm also the quotients of 64 bits that softmax and the like take. Weak, so
 * functions the firmware has itself win.
 */
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && !defined(__clang__)
/* Or the compiler turns each loop into a call of the function it is the body of. */
#define AI_NOLIBC __attribute__((weak, optimize("no-tree-loop-distribute-patterns")))
#elif defined(__clang__)
#define AI_NOLIBC __attribute__((weak, no_builtin))
#else
#define AI_NOLIBC
#endif

void *memcpy(void *target, const void *source, size_t count);
void *memmove(void *target, const void *source, size_t count);
void *memset(void *target, int value, size_t count);
int memcmp(const void *left, const void *right, size_t count);

AI_NOLIBC void *memcpy(void *target, const void *source, size_t count)
{
    uint8_t *const to = (uint8_t *)target;
    const uint8_t *const from = (const uint8_t *)source;
    size_t i;

    for (i = 0U; i < count; i++) {
        to[i] = from[i];
    }
    return target;
}

AI_NOLIBC void *memmove(void *target, const void *source, size_t count)
{
    uint8_t *const to = (uint8_t *)target;
    const uint8_t *const from = (const uint8_t *)source;
    size_t i;

    if ((uintptr_t)to <= (uintptr_t)from) {
        for (i = 0U; i < count; i++) {
            to[i] = from[i];
        }
    } else {
        for (i = count; i > 0U; i--) {
            to[i - 1U] = from[i - 1U];
        }
    }
    return target;
}

AI_NOLIBC void *memset(void *target, int value, size_t count)
{
    uint8_t *const to = (uint8_t *)target;
    size_t i;

    for (i = 0U; i < count; i++) {
        to[i] = (uint8_t)value;
    }
    return target;
}

AI_NOLIBC int memcmp(const void *left, const void *right, size_t count)
{
    const uint8_t *const a = (const uint8_t *)left;
    const uint8_t *const b = (const uint8_t *)right;
    size_t i;

    for (i = 0U; i < count; i++) {
        if (a[i] != b[i]) {
            return (int)a[i] - (int)b[i];
        }
    }
    return 0;
}

#if defined(__arm__) && (defined(__GNUC__) || defined(__clang__))
/*
 * Run-time ABI for the Arm Architecture (IHI 0043), 4.2: the quotient comes back in r0 and r1, the remainder in r2 and
 * r3, which no C type does. These are for size: 64 steps of a bit each.
 */
uint64_t ai_nolibc_divide(uint64_t numerator, uint64_t denominator, uint64_t *rest);
int64_t ai_nolibc_divide_signed(int64_t numerator, int64_t denominator, int64_t *rest);
void __aeabi_uldivmod(void);
void __aeabi_ldivmod(void);

uint64_t ai_nolibc_divide(uint64_t numerator, uint64_t denominator, uint64_t *rest)
{
    uint64_t quotient = 0U;
    uint64_t left = 0U;
    uint32_t step;

    for (step = 0U; step < 64U; step++) {
        const uint32_t carry = (uint32_t)(left >> 63);

        left = (left << 1) | (numerator >> 63);
        numerator <<= 1;
        quotient <<= 1;
        if ((carry != 0U) || (left >= denominator)) {
            left -= denominator;
            quotient |= 1U;
        }
    }
    *rest = left;
    return quotient;
}

int64_t ai_nolibc_divide_signed(int64_t numerator, int64_t denominator, int64_t *rest)
{
    /* Two's complement, as all of these compilers have it; in unsigned numbers, or the least one overflows. */
    const uint64_t n = (numerator < 0) ? (0U - (uint64_t)numerator) : (uint64_t)numerator;
    const uint64_t d = (denominator < 0) ? (0U - (uint64_t)denominator) : (uint64_t)denominator;
    uint64_t left;
    const uint64_t quotient = ai_nolibc_divide(n, d, &left);

    *rest = (int64_t)((numerator < 0) ? (0U - left) : left);
    return (int64_t)(((numerator < 0) != (denominator < 0)) ? (0U - quotient) : quotient);
}

/* The remainder's address is the fifth word of arguments: on the stack, which stays aligned to 8 bytes. */
#define AI_NOLIBC_DIVISION(name, function)                                                                             \
    __attribute__((weak, naked)) void name(void)                                                                       \
    {                                                                                                                  \
        __asm__ volatile("push {r4, lr}\n\t"                                                                           \
                         "sub sp, #16\n\t"                                                                             \
                         "add r4, sp, #8\n\t"                                                                          \
                         "str r4, [sp]\n\t"                                                                            \
                         "bl " function "\n\t"                                                                         \
                         "ldr r2, [sp, #8]\n\t"                                                                        \
                         "ldr r3, [sp, #12]\n\t"                                                                       \
                         "add sp, #16\n\t"                                                                             \
                         "pop {r4, pc}");                                                                              \
    }

AI_NOLIBC_DIVISION(__aeabi_uldivmod, "ai_nolibc_divide")
AI_NOLIBC_DIVISION(__aeabi_ldivmod, "ai_nolibc_divide_signed")
#endif
