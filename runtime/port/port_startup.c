/*
 * Start-up and faults of any Cortex-M, without vendor code: vector table, memory, floating-point unit, fault report.
 *
 * The linker script (image.ld.j2) gives the addresses. Only the 16 vectors of the core are there, unless PORT_VECTORS
 * says that port_vectors.h has those of the device.
 */
#include "port.h"

#define SCB_ICSR (*(volatile uint32_t *)0xE000ED04U)
#define SCB_VTOR (*(volatile uint32_t *)0xE000ED08U)
#define SCB_CCR (*(volatile uint32_t *)0xE000ED14U)
#define SCB_CFSR (*(volatile uint32_t *)0xE000ED28U)
#define SCB_HFSR (*(volatile uint32_t *)0xE000ED2CU)
#define SCB_MMFAR (*(volatile uint32_t *)0xE000ED34U)
#define SCB_BFAR (*(volatile uint32_t *)0xE000ED38U)
#define SCB_CPACR (*(volatile uint32_t *)0xE000ED88U)

#define CFSR_MMARVALID (1UL << 7)
#define CFSR_BFARVALID (1UL << 15)
#define CCR_LOW_OVERHEAD_BRANCH (1UL << 19)
#define CPACR_FPU_FULL_ACCESS (0xFUL << 20)

/* Exit code after a fault; 1 is the application's. */
#define FAULT_EXIT_CODE 3

extern uint32_t __data_load__[];
extern uint32_t __data_start__[];
extern uint32_t __data_end__[];
extern uint32_t __bss_start__[];
extern uint32_t __bss_end__[];
extern uint32_t __stack_top[];
extern uint32_t __stack_limit[];
extern uint32_t __fault_stack_top[];

/* In port_system.c: what comes when variables have their values. */
void port_program_start(void) __attribute__((noreturn));
void Reset_Handler(void) __attribute__((noreturn));
void port_fault_entry(void) __attribute__((noreturn));
void port_fault_report(const uint32_t *frame) __attribute__((noreturn));
void SysTick_Handler(void);

#if defined(PORT_VECTORS)
/*
 * The device's interrupts by their CMSIS names. A handler of the application takes the place of the fault report; so do
 * those of the core that an operating system brings.
 */
#include "port_vectors.h"

#define PORT_DECLARE(handler) void handler(void) __attribute__((weak, noreturn, alias("port_fault_entry")));
#define PORT_NONE(number)
#define PORT_VECTOR(handler_) {.handler = handler_},
#define PORT_EMPTY(number) {.handler = port_fault_entry},

PORT_DECLARE(NMI_Handler)
PORT_DECLARE(HardFault_Handler)
PORT_DECLARE(MemManage_Handler)
PORT_DECLARE(BusFault_Handler)
PORT_DECLARE(UsageFault_Handler)
PORT_DECLARE(SecureFault_Handler)
PORT_DECLARE(SVC_Handler)
PORT_DECLARE(DebugMon_Handler)
PORT_DECLARE(PendSV_Handler)
PORT_INTERRUPTS(PORT_DECLARE, PORT_NONE)

/* Of the device's pack or the application: called before variables have their values. */
void SystemInit(void) __attribute__((weak));
#endif

typedef union {
    uint32_t *stack;
    void (*handler)(void);
} port_vector;

#if defined(PORT_VECTORS)
__attribute__((used, section(".isr_vector")))
const port_vector port_vectors[] = {{.stack = __stack_top},
                                    {.handler = Reset_Handler},
                                    {.handler = NMI_Handler},
                                    {.handler = HardFault_Handler},
                                    {.handler = MemManage_Handler},
                                    {.handler = BusFault_Handler},
                                    {.handler = UsageFault_Handler},
                                    {.handler = SecureFault_Handler},
                                    {.handler = port_fault_entry},
                                    {.handler = port_fault_entry},
                                    {.handler = port_fault_entry},
                                    {.handler = SVC_Handler},
                                    {.handler = DebugMon_Handler},
                                    {.handler = port_fault_entry},
                                    {.handler = PendSV_Handler},
                                    {.handler = SysTick_Handler},
                                    PORT_INTERRUPTS(PORT_VECTOR, PORT_EMPTY)};
#else
__attribute__((used, section(".isr_vector"))) const port_vector port_vectors[16] = {
    {.stack = __stack_top},        {.handler = Reset_Handler},    {.handler = port_fault_entry},
    {.handler = port_fault_entry}, {.handler = port_fault_entry}, {.handler = port_fault_entry},
    {.handler = port_fault_entry}, {.handler = port_fault_entry}, {.handler = port_fault_entry},
    {.handler = port_fault_entry}, {.handler = port_fault_entry}, {.handler = port_fault_entry},
    {.handler = port_fault_entry}, {.handler = port_fault_entry}, {.handler = port_fault_entry},
    {.handler = SysTick_Handler},
};
#endif

/* Before any other C code: floating-point registers may be used by the compiler anywhere. */
static void enable_features(void)
{
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    SCB_CPACR |= CPACR_FPU_FULL_ACCESS;
#endif
#if defined(__ARM_FEATURE_MVE)
    SCB_CCR |= CCR_LOW_OVERHEAD_BRANCH;
#endif
#if !defined(__ARM_ARCH_6M__)
    SCB_VTOR = (uint32_t)(uintptr_t)port_vectors;
#endif
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
    __asm__ volatile("msr msplim, %0" : : "r"(__stack_limit));
#endif
    __asm__ volatile("dsb\n\tisb" : : : "memory");
}

void Reset_Handler(void)
{
    /* volatile: GCC would call memcpy and memset, 500 bytes of libc for two loops. */
    const volatile uint32_t *from = __data_load__;
    volatile uint32_t *to;

    enable_features();
#if defined(PORT_VECTORS)
    if (SystemInit != NULL) {
        SystemInit();
    }
#endif
    for (to = __data_start__; to < __data_end__; to++) {
        *to = *from;
        from++;
    }
    for (to = __bss_start__; to < __bss_end__; to++) {
        *to = 0U;
    }
    port_program_start();
}

/*
 * Every exception but SysTick. The stack may be the reason of the fault, so the report runs on a small one of its own;
 * the frame of the interrupted code goes along in r0. Instructions of ARMv6-M only.
 */
__attribute__((naked)) void port_fault_entry(void)
{
    __asm__ volatile(".syntax unified\n\t"
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
                     "movs r0, #0\n\t"
                     "msr msplim, r0\n\t"
#endif
                     "mrs r0, msp\n\t"
                     "mov r1, lr\n\t"
                     "lsls r1, r1, #29\n\t"
                     "bpl 1f\n\t"
                     "mrs r0, psp\n"
                     "1:\n\t"
                     "ldr r1, =__fault_stack_top\n\t"
                     "mov sp, r1\n\t"
                     "ldr r1, =port_fault_report\n\t"
                     "bx r1\n\t"
                     ".ltorg");
}

static void print_field(const char *name, uint32_t value)
{
    port_print(name);
    port_print_hex(value);
}

__attribute__((used)) void port_fault_report(const uint32_t *frame)
{
    static const char *const names[16] = {
        "thread",   "reset",    "nmi",      "hardfault", "memmanage", "busfault", "usagefault", "securefault",
        "reserved", "reserved", "reserved", "svcall",    "debug",     "reserved", "pendsv",     "systick",
    };
    const uint32_t exception = SCB_ICSR & 0x1FFU;

    port_print("\nfault exception=");
    port_print((exception < 16U) ? names[exception] : "interrupt");
    /* A frame outside the stack was never written: the stack pointer itself was bad. */
    if ((frame >= __fault_stack_top) && (frame + 8 <= __stack_top)) {
        print_field(" pc=", frame[6]);
        print_field(" lr=", frame[5]);
    }
    print_field(" sp=", (uint32_t)(uintptr_t)frame);
#if !defined(__ARM_ARCH_6M__)
    print_field(" cfsr=", SCB_CFSR);
    print_field(" hfsr=", SCB_HFSR);
    if ((SCB_CFSR & CFSR_BFARVALID) != 0U) {
        print_field(" address=", SCB_BFAR);
    } else if ((SCB_CFSR & CFSR_MMARVALID) != 0U) {
        print_field(" address=", SCB_MMFAR);
    }
#endif
    port_print("\nstatus=error fault\n");
    port_exit(FAULT_EXIT_CODE);
}
