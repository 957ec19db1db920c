/* Stack depth and time of any Cortex-M: a painted stack, SysTick, on boards the cycle counter of the debug unit. */
#include "port.h"
#if defined(PORT_BOARD)
#include "port_board.h"
#endif

#define SYST_CSR (*(volatile uint32_t *)0xE000E010U)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014U)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018U)
#define SCB_ICSR (*(volatile uint32_t *)0xE000ED04U)

#define SYST_RELOAD 0xFFFFFFU
#define SYST_ENABLE_INTERRUPT_CORE_CLOCK 7U
#define ICSR_PENDSTSET (1UL << 26)

/* Images for boards count cycles in the debug unit; ARMv6-M has no counter there, emulators none that counts. */
#if defined(PORT_BOARD) && !defined(__ARM_ARCH_6M__)
#define USE_CYCLE_COUNTER 1
#define SCB_DEMCR (*(volatile uint32_t *)0xE000EDFCU)
#define DWT_LAR (*(volatile uint32_t *)0xE0001FB0U)
/* Replaceable: a timer of the chip counts as well. */
#ifndef DWT_CTRL
#define DWT_CTRL (*(volatile uint32_t *)0xE0001000U)
#define DWT_CYCCNT (*(volatile uint32_t *)0xE0001004U)
#endif
#define DEMCR_TRCENA (1UL << 24)
#define DWT_CTRL_CYCCNTENA (1UL << 0)
#define DWT_CTRL_NOCYCCNT (1UL << 25)
#define DWT_LAR_KEY 0xC5ACCE55U
#else
#define USE_CYCLE_COUNTER 0
#endif

#define STACK_PATTERN 0xA5A55A5AU
#define STACK_PATTERN_TEXT "0xA5A55A5A"

/* Weak: the linker script of a pack has others; then no stack is painted or measured. */
extern uint32_t __stack_top[] __attribute__((weak));
extern uint32_t __stack_limit[] __attribute__((weak));

/* Constructors of C++ objects and functions marked so. */
typedef void (*port_constructor)(void);
extern port_constructor __init_array_start[];
extern port_constructor __init_array_end[];

/* The application; what it returns is the exit code. It may as well be main(void). */
int main(int argc, char **argv);

void port_program_start(void) __attribute__((noreturn));
void SysTick_Handler(void);
void port_stack_note_peak(void);

/* The stack pointer when the stack was painted; as all that assembly names, not static and kept by link-time
 * optimization. */
extern const uint32_t *volatile port_stack_painted_to;
__attribute__((used)) const uint32_t *volatile port_stack_painted_to;

static uint32_t stack_peak; /* bytes from the top before that */
static volatile uint32_t tick_wraps;
static uint32_t ticks_running;

static uint32_t bytes_between(const uint32_t *low, const uint32_t *high)
{
    return (uint32_t)((uintptr_t)high - (uintptr_t)low);
}

static const uint32_t *lowest_used(void)
{
    const uint32_t *word = (__stack_limit != NULL) ? __stack_limit : port_stack_painted_to;

    while ((word < port_stack_painted_to) && (*word == STACK_PATTERN)) {
        word++;
    }
    return word;
}

/* What was in use before the stack is painted again; called by port_stack_paint(). */
__attribute__((used)) void port_stack_note_peak(void)
{
    stack_peak = port_stack_peak();
}

/* Assembly, so that everything below the caller's frame is painted and counted, and no frame of this function's own. */
__attribute__((naked)) void port_stack_paint(void)
{
    __asm__ volatile(".syntax unified\n\t"
                     "push {r3, lr}\n\t"
                     "bl port_stack_note_peak\n\t"
                     "pop {r2, r3}\n\t"
                     "mov lr, r3\n\t"
                     "mov r0, sp\n\t"
                     "ldr r1, =port_stack_painted_to\n\t"
                     "str r0, [r1]\n\t"
                     "ldr r1, =__stack_limit\n\t"
                     "ldr r2, =" STACK_PATTERN_TEXT "\n\t"
                     "cmp r1, #0\n\t"
                     "beq 2f\n"
                     "1:\n\t"
                     "cmp r1, r0\n\t"
                     "bhs 2f\n\t"
                     "stmia r1!, {r2}\n\t"
                     "b 1b\n"
                     "2:\n\t"
                     "bx lr\n\t"
                     ".ltorg");
}

void port_program_start(void)
{
    port_constructor *constructor;

    port_stack_paint();
#if defined(PORT_BOARD)
    port_board_start();
#endif
    for (constructor = __init_array_start; constructor < __init_array_end; constructor++) {
        (*constructor)();
    }
    port_exit(main(0, NULL));
}

uint32_t port_stack_used(void)
{
    return bytes_between(lowest_used(), port_stack_painted_to);
}

uint32_t port_stack_peak(void)
{
    uint32_t peak = 0U;

    if ((port_stack_painted_to != NULL) && (__stack_limit != NULL)) {
        peak = bytes_between(lowest_used(), __stack_top);
    }
    return (peak > stack_peak) ? peak : stack_peak;
}

uint32_t port_stack_size(void)
{
    return bytes_between(__stack_limit, __stack_top);
}

/* Weak: an application that has its own gives up port_ticks(). */
__attribute__((weak)) void SysTick_Handler(void)
{
    tick_wraps++;
}

#if USE_CYCLE_COUNTER

static uint32_t counts_cycles;

/* Whether the cycle counter is there and counts, which only trying tells. */
static void start_cycle_counter(void)
{
    uint32_t first;

    SCB_DEMCR |= DEMCR_TRCENA;
    DWT_LAR = DWT_LAR_KEY; /* locked on the Cortex-M7 without a debugger */
    DWT_CYCCNT = 0U;
    DWT_CTRL |= DWT_CTRL_CYCCNTENA;
    first = DWT_CYCCNT;
    __asm__ volatile("nop\n\tnop\n\tnop\n\tnop");
    counts_cycles = ((DWT_CTRL & DWT_CTRL_NOCYCCNT) == 0U) && (DWT_CYCCNT != first);
}

#endif

void port_ticks_start(void)
{
    SYST_CSR = 0U;
    tick_wraps = 0U;
    SYST_RVR = SYST_RELOAD;
    SYST_CVR = 0U;
    SYST_CSR = SYST_ENABLE_INTERRUPT_CORE_CLOCK;
    /* The counter stays 0 until its first reload. */
    while (SYST_CVR == 0U) {
    }
#if USE_CYCLE_COUNTER
    start_cycle_counter();
#endif
    ticks_running = 1U;
}

static uint64_t systick_ticks(void)
{
    uint32_t wraps;
    uint32_t value;
    uint32_t pending;

    do {
        wraps = tick_wraps;
        value = SYST_CVR;
        pending = SCB_ICSR & ICSR_PENDSTSET;
    } while (wraps != tick_wraps);
    if ((pending != 0U) && (value > (SYST_RELOAD / 2U))) {
        wraps++; /* reloaded, its interrupt not yet taken */
    }
    return ((uint64_t)wraps << 24) + (SYST_RELOAD - value);
}

uint64_t port_ticks(void)
{
    uint64_t ticks;

    if (ticks_running == 0U) {
        return 0U;
    }
    ticks = systick_ticks();
#if USE_CYCLE_COUNTER
    if (counts_cycles != 0U) {
        /* Both count the core's clock: the 32 bits of one are the end of the other's, give or take what differs. */
        ticks += (uint64_t)(int64_t)(int32_t)(DWT_CYCCNT - (uint32_t)ticks);
    }
#endif
    return ticks;
}
