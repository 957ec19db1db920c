/*
 * Clocks of STM32L4, L4+, G4 and WB: one PLL whose output R is the core's clock.
 *
 * Source: RM0351, RM0432, RM0440, RM0434: RCC, PWR and embedded flash memory registers. All run in voltage range 1.
 */
#include "port_registers.h"

#define RCC_CR (PORT_RCC + 0x00U)
#define RCC_CFGR (PORT_RCC + 0x08U)
#define RCC_PLLCFGR (PORT_RCC + 0x0CU)
#define RCC_APB1ENR1 (PORT_RCC + 0x58U)
#define RCC_EXTCFGR (PORT_RCC + 0x108U) /* WB */
#define PWR_CR2 (PORT_PWR + 0x04U)
#define PWR_CR5 (PORT_PWR + 0x80U) /* L4+, G4 */
#define FLASH_ACR PORT_FLASH_ACR

#define CR_HSION (1UL << 8)
#define CR_HSIRDY (1UL << 10)
#define CR_HSEON (1UL << 16)
#define CR_HSERDY (1UL << 17)
#define CR_HSEBYP (1UL << 18)
#define CR_PLLON (1UL << 24)
#define CR_PLLRDY (1UL << 25)
#define PLLCFGR_SOURCE_HSI 2UL
#define PLLCFGR_SOURCE_HSE 3UL
#define CFGR_SW_MASK 3UL
#define CFGR_SW_PLL 3UL
#define CFGR_SWS_MASK (3UL << 2)
#define CFGR_SWS_PLL (3UL << 2)
#define CFGR_HPRE_MASK (0xFUL << 4)
#define CFGR_HPRE_HALF (8UL << 4)
#define CFGR_PPRE_MASK (0x3FUL << 8)
#define APB1ENR1_PWREN (1UL << 28)
#define CR2_IOSV (1UL << 9)
#define CR5_R1MODE (1UL << 8)
#define EXTCFGR_MASK 0xFFUL
#define EXTCFGR_CORE2_HALF (8UL << 4)

/* Reads that take the microsecond a core above 80 MHz stays at half its clock: they are of a slower bus. */
#define HALF_CLOCK_READS 100U

#include "port_oscillator.h"

static int start_pll(void)
{
    reg_change(RCC_CR, CR_PLLON, 0U);
    if (reg_wait(RCC_CR, CR_PLLRDY, 0U) != 0) {
        return -1;
    }
    reg_write(RCC_PLLCFGR, PORT_PLL_OUTPUT | (PORT_PLL_N << 8) | ((PORT_PLL_M - 1U) << 4) |
                               (PORT_USE_HSE ? PLLCFGR_SOURCE_HSE : PLLCFGR_SOURCE_HSI));
    reg_change(RCC_CR, CR_PLLON, CR_PLLON);
    return reg_wait(RCC_CR, CR_PLLRDY, CR_PLLRDY);
}

static int switch_to_pll(void)
{
    reg_change(RCC_CFGR, CFGR_PPRE_MASK | CFGR_HPRE_MASK | CFGR_SW_MASK,
               (PORT_PPRE2 << 11) | (PORT_PPRE1 << 8) | (PORT_HALF_CLOCK ? CFGR_HPRE_HALF : 0U) | CFGR_SW_PLL);
    if (reg_wait(RCC_CFGR, CFGR_SWS_MASK, CFGR_SWS_PLL) != 0) {
        return -1;
    }
#if PORT_HALF_CLOCK
    {
        uint32_t reads;

        for (reads = 0U; reads < HALF_CLOCK_READS; reads++) {
            (void)reg_read(RCC_CFGR);
        }
    }
    reg_change(RCC_CFGR, CFGR_HPRE_MASK, 0U);
#endif
    return 0;
}

int port_clock_start(void)
{
#if PORT_HAS_PWREN
    reg_change(RCC_APB1ENR1, APB1ENR1_PWREN, APB1ENR1_PWREN);
    (void)reg_read(RCC_APB1ENR1);
#endif
#if PORT_VDDIO2
    /* Pins of port G have a supply of their own, whose isolation goes when it is said to be there. */
    reg_change(PWR_CR2, CR2_IOSV, CR2_IOSV);
#endif
#if PORT_BOOST
    reg_change(PWR_CR5, CR5_R1MODE, 0U);
#endif
    if ((start_source() != 0) || (start_pll() != 0)) {
        return -1;
    }
#if PORT_CORE2
    /* The radio's processor may have half of what this one has. */
    reg_change(RCC_EXTCFGR, EXTCFGR_MASK, EXTCFGR_CORE2_HALF);
#endif
    reg_change(FLASH_ACR, 0x70FU, PORT_FLASH_FEATURES | PORT_WAIT_STATES);
    if (reg_wait(FLASH_ACR, 0xFU, PORT_WAIT_STATES) != 0) {
        return -1;
    }
    if (switch_to_pll() != 0) {
        reg_change(RCC_CFGR, CFGR_PPRE_MASK | CFGR_HPRE_MASK | CFGR_SW_MASK, PORT_SW_RESET);
        return -1;
    }
    return 0;
}
