/*
 * Clocks of STM32F2, F4 and F7.
 *
 * Source: RM0033, RM0090, RM0368, RM0390, RM0402, RM0385: RCC, PWR and embedded flash memory registers.
 */
#include "port_registers.h"

#define RCC_CR 0x40023800U
#define RCC_PLLCFGR 0x40023804U
#define RCC_CFGR 0x40023808U
#define RCC_APB1ENR 0x40023840U
#define PWR_CR 0x40007000U
#define PWR_CSR 0x40007004U
#define FLASH_ACR 0x40023C00U

#define CR_HSION (1UL << 0)
#define CR_HSIRDY (1UL << 1)
#define CR_HSEON (1UL << 16)
#define CR_HSERDY (1UL << 17)
#define CR_HSEBYP (1UL << 18)
#define CR_PLLON (1UL << 24)
#define CR_PLLRDY (1UL << 25)
/* M, N, P and the source; Q and R keep their reset values. */
#define PLLCFGR_MASK 0x00437FFFUL
#define PLLCFGR_SOURCE_HSE (1UL << 22)
#define CFGR_SW_PLL 2UL
#define CFGR_SWS_MASK (3UL << 2)
#define CFGR_SWS_PLL (2UL << 2)
#define CFGR_CLOCKS_MASK 0x0000FCF3UL /* SW, HPRE, PPRE1, PPRE2 */
#define APB1ENR_PWREN (1UL << 28)
#define CSR_VOSRDY (1UL << 14)
#define OVERDRIVE (1UL << 16) /* ODEN in CR, ODRDY in CSR */
#define OVERDRIVE_SWITCH (1UL << 17)

#include "port_oscillator.h"

static int start_pll(void)
{
    /* The voltage scale is taken over when the PLL starts. */
    reg_change(RCC_APB1ENR, APB1ENR_PWREN, APB1ENR_PWREN);
    (void)reg_read(RCC_APB1ENR);
#if PORT_VOLTAGE_MASK
    reg_change(PWR_CR, PORT_VOLTAGE_MASK, PORT_VOLTAGE);
#endif
    reg_change(RCC_PLLCFGR, PLLCFGR_MASK,
               (PORT_USE_HSE ? PLLCFGR_SOURCE_HSE : 0U) | ((PORT_PLL_DIVIDE / 2U - 1U) << 16) | (PORT_PLL_N << 6) |
                   PORT_PLL_M);
    reg_change(RCC_CR, CR_PLLON, CR_PLLON);
#if PORT_OVERDRIVE
    reg_change(PWR_CR, OVERDRIVE, OVERDRIVE);
    if (reg_wait(PWR_CSR, OVERDRIVE, OVERDRIVE) != 0) {
        return -1;
    }
    reg_change(PWR_CR, OVERDRIVE_SWITCH, OVERDRIVE_SWITCH);
    if (reg_wait(PWR_CSR, OVERDRIVE_SWITCH, OVERDRIVE_SWITCH) != 0) {
        return -1;
    }
#endif
#if PORT_VOLTAGE_MASK
    if (reg_wait(PWR_CSR, CSR_VOSRDY, CSR_VOSRDY) != 0) {
        return -1;
    }
#endif
    return reg_wait(RCC_CR, CR_PLLRDY, CR_PLLRDY);
}

int port_clock_start(void)
{
    if ((start_source() != 0) || (start_pll() != 0)) {
        return -1;
    }
    /* Wait states, prefetch and the caches of the flash, before the clock that needs them. */
    reg_write(FLASH_ACR, PORT_FLASH_FEATURES | PORT_WAIT_STATES);
    if (reg_wait(FLASH_ACR, 0xFU, PORT_WAIT_STATES) != 0) {
        return -1;
    }
    reg_change(RCC_CFGR, CFGR_CLOCKS_MASK, (PORT_PPRE2 << 13) | (PORT_PPRE1 << 10) | (PORT_HPRE << 4) | CFGR_SW_PLL);
    if (reg_wait(RCC_CFGR, CFGR_SWS_MASK, CFGR_SWS_PLL) != 0) {
        reg_change(RCC_CFGR, CFGR_CLOCKS_MASK, 0U);
        return -1;
    }
    return 0;
}
