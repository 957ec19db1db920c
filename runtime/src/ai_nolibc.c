/*
 * For firmware that is linked without a C library (-nostdlib): the four functions that compilers call on their own
 * account, and that generated code uses. Weak, so a C library's forms win where there is one.
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
