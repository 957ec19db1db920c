/* The parts of the port that are the same on every machine. */
#include "port.h"

/* value / 10 in place, 16 bits at a time: a 64-bit division would link 700 bytes of libgcc. Returns the remainder. */
static uint32_t divide_by_ten(uint32_t *high, uint32_t *low)
{
    uint32_t part = *high;
    uint32_t quotient = part / 10U;
    uint32_t middle;

    *high = quotient;
    part = ((part - quotient * 10U) << 16) | (*low >> 16);
    middle = part / 10U;
    part = ((part - middle * 10U) << 16) | (*low & 0xFFFFU);
    quotient = part / 10U;
    *low = (middle << 16) | quotient;
    return part - quotient * 10U;
}

void port_print_unsigned(uint64_t value)
{
    uint32_t high = (uint32_t)(value >> 32);
    uint32_t low = (uint32_t)value;
    char text[21];
    char *place = &text[20];

    *place = '\0';
    do {
        place--;
        *place = (char)('0' + (int)divide_by_ten(&high, &low));
    } while ((high | low) != 0U);
    port_print(place);
}

void port_print_hex(uint32_t value)
{
    static const char digits[] = "0123456789abcdef";
    char text[11] = "0x";
    uint32_t i;

    for (i = 0U; i < 8U; i++) {
        text[2U + i] = digits[(value >> (28U - 4U * i)) & 0xFU];
    }
    text[10] = '\0';
    port_print(text);
}

/* The operands differ so that the compiler does not fold the two functions into one. */
__attribute__((noinline)) void bench_begin(void)
{
    __asm__ volatile("" : : "i"(1) : "memory");
}

__attribute__((noinline)) void bench_end(void)
{
    __asm__ volatile("" : : "i"(2) : "memory");
}
