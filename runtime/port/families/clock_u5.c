/*
 * Clocks of STM32U5 and H5, whose registers are alike: PLL1's output R (U5) or P (H5) is the core's clock.
 *
 * Source: RM0456, RM0481: RCC, PWR, FLASH and ICACHE registers, at the addresses of a chip whose TrustZone is off.
 */
#include "port_registers.h"

#define RCC_CR (PORT_RCC + 0x00U)
#define RCC_CFGR1 (PORT_RCC + 0x1CU)
#define RCC_CFGR2 (PORT_RCC + 0x20U)
#define RCC_PLL1CFGR (PORT_RCC + 0x28U)
#define RCC_PLL1DIVR (PORT_RCC + 0x34U)
#define RCC_AHB3ENR (PORT_RCC + 0x94U)
#define FLASH_ACR 0x40022000U
#define ICACHE_CR 0x40030400U

#define CR_HSEON (1UL << 16)
#define CR_HSERDY (1UL << 17)
#define CR_HSEBYP (1UL << 18)
#define CR_PLL1ON (1UL << 24)
#define CR_PLL1RDY (1UL << 25)
#define SW_MASK 3UL
#define SW_PLL1 3UL
#define CFGR2_MASK 0x77FUL /* PPRE2, PPRE1, HPRE */
#define ICACHE_EN 1UL

#if PORT_H5

/* The oscillators, and PWR: the voltage is asked for in one register and told in the next. */
#define CR_HSION (1UL << 0)
#define CR_HSIRDY (1UL << 1)
#define CR_HSIDIV_MASK (3UL << 3)
#define CR_HSIDIV_2 (1UL << 3)
#define CR_CSION (1UL << 8)
#define CR_CSIRDY (1UL << 9)
#define SWS_SHIFT 3U
#define PLL1CFGR_FIELDS (((PORT_PLL_M) << 8) | (1UL << 16) | (PORT_PLL_INPUT_RANGE << 2) | SOURCE)
#define PLL1DIVR_FIELDS (((PORT_PLL_DIVIDE - 1U) << 9) | (PORT_PLL_N - 1U))
#define PLL1DIVR_MASK 0xFFFFUL
#define SOURCE (PORT_USE_HSE ? 3UL : (PORT_USE_CSI ? 2UL : 1UL))
#define FLASH_FIELDS ((1UL << 8) | (PORT_FLASH_DELAY << 4) | PORT_WAIT_STATES)

static int start_supply(void)
{
    /* 32 MHz of the HSI's 64, whatever a boot loader left. */
    reg_change(RCC_CR, CR_HSIDIV_MASK, CR_HSIDIV_2);
    reg_change(0x44020810U, 3UL << 4, 3UL << 4); /* PWR_VOSCR: scale 0 */
    return reg_wait(0x44020814U, 1UL << 3, 1UL << 3);
}

#else

#define CR_HSION (1UL << 8)
#define CR_HSIRDY (1UL << 10)
#define SWS_SHIFT 2U
#define PLL1CFGR_FIELDS (((PORT_PLL_M - 1U) << 8) | (1UL << 18) | (PORT_PLL_INPUT_RANGE << 2) | SOURCE)
#define PLL1DIVR_FIELDS (((PORT_PLL_DIVIDE - 1U) << 24) | (PORT_PLL_N - 1U))
#define PLL1DIVR_MASK 0x7F0001FFUL
#define SOURCE (PORT_USE_HSE ? 3UL : 2UL)
#define FLASH_FIELDS ((1UL << 8) | PORT_WAIT_STATES)
#define AHB3ENR_PWREN (1UL << 2)
#define PWR_VOSR 0x4602080CU
#define VOSR_BOOSTRDY (1UL << 14)
#define VOSR_VOSRDY (1UL << 15)
#define VOSR_VOS_1 (3UL << 16)
#define VOSR_BOOSTEN (1UL << 18)

static int start_supply(void)
{
    reg_change(RCC_AHB3ENR, AHB3ENR_PWREN, AHB3ENR_PWREN);
    (void)reg_read(RCC_AHB3ENR);
    reg_change(PWR_VOSR, VOSR_VOS_1, VOSR_VOS_1);
    return reg_wait(PWR_VOSR, VOSR_VOSRDY, VOSR_VOSRDY);
}

#endif

#include "port_oscillator.h"

static int start_pll(void)
{
    reg_change(RCC_CR, CR_PLL1ON, 0U);
    if (reg_wait(RCC_CR, CR_PLL1RDY, 0U) != 0) {
        return -1;
    }
    reg_write(RCC_PLL1CFGR, PLL1CFGR_FIELDS);
    reg_change(RCC_PLL1DIVR, PLL1DIVR_MASK, PLL1DIVR_FIELDS);
#if !PORT_H5
    /* The booster takes the PLL's input, 4 to 16 MHz, and has to run before the core gets more than 55 MHz. */
    reg_change(PWR_VOSR, VOSR_BOOSTEN, VOSR_BOOSTEN);
#endif
    reg_change(RCC_CR, CR_PLL1ON, CR_PLL1ON);
    if (reg_wait(RCC_CR, CR_PLL1RDY, CR_PLL1RDY) != 0) {
        return -1;
    }
#if !PORT_H5
    return reg_wait(PWR_VOSR, VOSR_BOOSTRDY, VOSR_BOOSTRDY);
#else
    return 0;
#endif
}

int port_clock_start(void)
{
    if ((start_supply() != 0) || (start_source() != 0) || (start_pll() != 0)) {
        return -1;
    }
    reg_write(FLASH_ACR, FLASH_FIELDS);
    if (reg_wait(FLASH_ACR, 0xFU, PORT_WAIT_STATES) != 0) {
        return -1;
    }
    reg_change(ICACHE_CR, ICACHE_EN, ICACHE_EN);
    reg_change(RCC_CFGR2, CFGR2_MASK, (PORT_PPRE2 << 8) | (PORT_PPRE1 << 4));
    reg_change(RCC_CFGR1, SW_MASK, SW_PLL1);
    if (reg_wait(RCC_CFGR1, SW_MASK << SWS_SHIFT, SW_PLL1 << SWS_SHIFT) != 0) {
        reg_change(RCC_CFGR1, SW_MASK, 0U);
        reg_change(RCC_CFGR2, CFGR2_MASK, 0U);
        return -1;
    }
    return 0;
}
