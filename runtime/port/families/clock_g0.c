/*
 * Clocks of STM32G0.
 *
 * Source: RM0444: RCC and FLASH registers. The chip is in voltage range 1 after a reset.
 */
#include "port_registers.h"

#define RCC_CR 0x40021000U
#define RCC_CFGR 0x40021008U
#define RCC_PLLCFGR 0x4002100CU
#define FLASH_ACR 0x40022000U

#define CR_HSION (1UL << 8)
#define CR_HSIRDY (1UL << 10)
#define CR_HSEON (1UL << 16)
#define CR_HSERDY (1UL << 17)
#define CR_HSEBYP (1UL << 18)
#define CR_PLLON (1UL << 24)
#define CR_PLLRDY (1UL << 25)
#define PLLCFGR_SOURCE_HSI 2UL
#define PLLCFGR_SOURCE_HSE 3UL
#define PLLCFGR_REN (1UL << 28)
#define CFGR_SW_MASK 7UL
#define CFGR_SW_PLL 2UL
#define CFGR_SWS_MASK (7UL << 3)
#define CFGR_SWS_PLL (2UL << 3)
#define CFGR_PRE_MASK 0x7F00UL /* HPRE, PPRE */

#include "port_oscillator.h"

static int start_pll(void)
{
    reg_change(RCC_CR, CR_PLLON, 0U);
    if (reg_wait(RCC_CR, CR_PLLRDY, 0U) != 0) {
        return -1;
    }
    reg_write(RCC_PLLCFGR, ((PORT_PLL_DIVIDE - 1U) << 29) | PLLCFGR_REN | (PORT_PLL_N << 8) | ((PORT_PLL_M - 1U) << 4) |
                               (PORT_USE_HSE ? PLLCFGR_SOURCE_HSE : PLLCFGR_SOURCE_HSI));
    reg_change(RCC_CR, CR_PLLON, CR_PLLON);
    return reg_wait(RCC_CR, CR_PLLRDY, CR_PLLRDY);
}

int port_clock_start(void)
{
    if ((start_source() != 0) || (start_pll() != 0)) {
        return -1;
    }
    reg_change(FLASH_ACR, 0x307U, PORT_FLASH_FEATURES | PORT_WAIT_STATES);
    if (reg_wait(FLASH_ACR, 7U, PORT_WAIT_STATES) != 0) {
        return -1;
    }
    reg_change(RCC_CFGR, CFGR_PRE_MASK | CFGR_SW_MASK, (PORT_PPRE1 << 12) | CFGR_SW_PLL);
    if (reg_wait(RCC_CFGR, CFGR_SWS_MASK, CFGR_SWS_PLL) != 0) {
        reg_change(RCC_CFGR, CFGR_PRE_MASK | CFGR_SW_MASK, 0U);
        return -1;
    }
    return 0;
}
