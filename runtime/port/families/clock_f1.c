/*
 * Clocks of the STM32F100 value line.
 *
 * Source: RM0041: RCC registers. Its flash needs no wait states.
 */
#include "port_registers.h"

#define RCC_CR 0x40021000U
#define RCC_CFGR 0x40021004U
#define RCC_CFGR2 0x4002102CU

#define CR_HSEON (1UL << 16)
#define CR_HSERDY (1UL << 17)
#define CR_HSEBYP (1UL << 18)
#define CR_PLLON (1UL << 24)
#define CR_PLLRDY (1UL << 25)
/* PLLMUL, PLLSRC, PPRE2, PPRE1, HPRE, SW. Not PLLXTPRE, which is the lowest bit of CFGR2 once more. */
#define CFGR_MASK 0x003D3FF3UL
#define CFGR_SOURCE_HSE (1UL << 16)
#define CFGR_SW_PLL 2UL
#define CFGR_SWS_MASK (3UL << 2)
#define CFGR_SWS_PLL (2UL << 2)

int port_clock_start(void)
{
#if PORT_USE_HSE
    reg_change(RCC_CR, CR_HSEBYP, PORT_HSE_BYPASS ? CR_HSEBYP : 0U);
    reg_change(RCC_CR, CR_HSEON, CR_HSEON);
    if (reg_wait(RCC_CR, CR_HSERDY, CR_HSERDY) != 0) {
        return -1;
    }
    reg_change(RCC_CFGR2, 0xFU, PORT_PLL_M - 1U);
#endif
    reg_change(RCC_CFGR, CFGR_MASK,
               ((PORT_PLL_N - 2U) << 18) | (PORT_USE_HSE ? CFGR_SOURCE_HSE : 0U) | (PORT_PPRE2 << 11) |
                   (PORT_PPRE1 << 8));
    reg_change(RCC_CR, CR_PLLON, CR_PLLON);
    if (reg_wait(RCC_CR, CR_PLLRDY, CR_PLLRDY) == 0) {
        reg_change(RCC_CFGR, 3U, CFGR_SW_PLL);
        if (reg_wait(RCC_CFGR, CFGR_SWS_MASK, CFGR_SWS_PLL) == 0) {
            return 0;
        }
    }
    reg_change(RCC_CFGR, 0x3FF3UL, 0U);
    return -1;
}
