/*
 * The start-up of an image that runs on a board: clocks (families/), caches of the core, console.
 *
 * Source: Arm v7-M and v8-M architecture reference manuals, cache maintenance.
 */
#include "port_board.h"

#include "families/port_registers.h"

#define SCB_CCR 0xE000ED14U
#define SCB_CLIDR 0xE000ED78U
#define SCB_CCSIDR 0xE000ED80U
#define SCB_CSSELR 0xE000ED84U
#define SCB_ICIALLU 0xE000EF50U
#define SCB_DCISW 0xE000EF60U
#define CCR_DC (1UL << 16)
#define CCR_IC (1UL << 17)
#define CLIDR_LEVEL1_INSTRUCTIONS 1UL
#define CLIDR_LEVEL1_DATA 2UL

uint32_t port_core_hz = PORT_RESET_HZ;

#if !defined(__ARM_ARCH_6M__)

static void barrier(void)
{
#if !defined(PORT_MOCK)
    __asm__ volatile("dsb\n\tisb" : : : "memory");
#endif
}

/* Lines are invalid after a reset only by chance. */
static void invalidate_data_cache(void)
{
    uint32_t sizes;
    uint32_t set_shift;
    uint32_t way_shift;
    uint32_t set;
    uint32_t way;
    uint32_t ways;

    reg_write(SCB_CSSELR, 0U);
    barrier();
    sizes = reg_read(SCB_CCSIDR);
    set_shift = (sizes & 7U) + 4U;
    ways = (sizes >> 3) & 0x3FFU;
    way_shift = (ways != 0U) ? (uint32_t)__builtin_clz(ways) : 0U;
    set = (sizes >> 13) & 0x7FFFU;
    for (;;) {
        for (way = 0U; way <= ways; way++) {
            reg_write(SCB_DCISW, (way << way_shift) | (set << set_shift));
        }
        if (set == 0U) {
            break;
        }
        set--;
    }
    barrier();
}

/* Cores without caches (and the chip's own, of another kind) say so. */
static void start_caches(void)
{
    const uint32_t levels = reg_read(SCB_CLIDR);

    if ((levels & CLIDR_LEVEL1_INSTRUCTIONS) != 0U) {
        barrier();
        reg_write(SCB_ICIALLU, 0U);
        barrier();
        reg_change(SCB_CCR, CCR_IC, CCR_IC);
        barrier();
    }
    if (((levels & CLIDR_LEVEL1_DATA) != 0U) && ((reg_read(SCB_CCR) & CCR_DC) == 0U)) {
        invalidate_data_cache();
        reg_change(SCB_CCR, CCR_DC, CCR_DC);
        barrier();
    }
}

#else

static void start_caches(void)
{
}

#endif

void port_board_start(void)
{
    int fast = 0;

#if PORT_HAS_CLOCK
    fast = (port_clock_start() == 0);
    port_core_hz = fast ? PORT_CORE_HZ : PORT_RESET_HZ;
#endif
    start_caches();
#if PORT_HAS_UART
    port_console_start(fast ? PORT_UART_HZ : PORT_UART_RESET_HZ);
#else
    (void)fast;
#endif
}
