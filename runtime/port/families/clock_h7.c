/*
 * Clocks of STM32H7 (H742/H743/H753, H745/H747, H7A3/H7B3): PLL1's output P is the core's clock.
 *
 * Source: RM0433, RM0399, RM0455: RCC, PWR and embedded flash memory registers.
 */
#include "port_registers.h"

#define RCC_CR 0x58024400U
#define RCC_CFGR 0x58024410U
#define RCC_D1CFGR 0x58024418U
#define RCC_D2CFGR 0x5802441CU
#define RCC_D3CFGR 0x58024420U
#define RCC_PLLCKSELR 0x58024428U
#define RCC_PLLCFGR 0x5802442CU
#define RCC_PLL1DIVR 0x58024430U
#define PWR_CSR1 0x58024804U
#define PWR_CR3 0x5802480CU
#define PWR_D3CR 0x58024818U
#define FLASH_ACR 0x52002000U

#define CR_HSION (1UL << 0)
#define CR_HSIRDY (1UL << 2)
#define CR_CSION (1UL << 7)
#define CR_CSIRDY (1UL << 8)
#define CR_HSEON (1UL << 16)
#define CR_HSERDY (1UL << 17)
#define CR_HSEBYP (1UL << 18)
#define CR_PLL1ON (1UL << 24)
#define CR_PLL1RDY (1UL << 25)
#define CFGR_SW_MASK 7UL
#define CFGR_SW_PLL1 3UL
#define CFGR_SWS_MASK (7UL << 3)
#define CFGR_SWS_PLL1 (3UL << 3)
#define PLLCKSELR_MASK 0x3F3UL
#define PLLCFGR_PLL1_MASK 0x7000FUL
#define PLLCFGR_DIVP1EN (1UL << 16)
#define CR3_SUPPLY_MASK 7UL /* SMPS (or SCUEN), LDO, BYPASS */
#define CSR1_ACTVOSRDY (1UL << 13)
#define D3CR_VOSRDY (1UL << 13)
#define D3CR_VOS_MASK (3UL << 14)

/* Which oscillator, as PLLCKSELR has it. */
#define SOURCE (PORT_USE_HSE ? 2U : (PORT_USE_CSI ? 1U : 0U))

static int start_supply(void)
{
    /* Written once after power-on; the start-up repeats it with the same value. */
    reg_change(PWR_CR3, CR3_SUPPLY_MASK, PORT_SUPPLY);
    if (reg_wait(PWR_CSR1, CSR1_ACTVOSRDY, CSR1_ACTVOSRDY) != 0) {
        return -1;
    }
    reg_change(PWR_D3CR, D3CR_VOS_MASK, D3CR_VOS_MASK);
    return reg_wait(PWR_D3CR, D3CR_VOSRDY, D3CR_VOSRDY);
}

#include "port_oscillator.h"

static int start_pll(void)
{
    reg_change(RCC_CR, CR_PLL1ON, 0U);
    if (reg_wait(RCC_CR, CR_PLL1RDY, 0U) != 0) {
        return -1;
    }
    reg_change(RCC_PLLCKSELR, PLLCKSELR_MASK, (PORT_PLL_M << 4) | SOURCE);
    /* The wide range of the oscillator, no fraction, output P only. */
    reg_change(RCC_PLLCFGR, PLLCFGR_PLL1_MASK, PLLCFGR_DIVP1EN | (PORT_PLL_INPUT_RANGE << 2));
    reg_change(RCC_PLL1DIVR, 0xFFFFU, ((PORT_PLL_DIVIDE - 1U) << 9) | (PORT_PLL_N - 1U));
    reg_change(RCC_CR, CR_PLL1ON, CR_PLL1ON);
    return reg_wait(RCC_CR, CR_PLL1RDY, CR_PLL1RDY);
}

static void divide_buses(uint32_t hpre, uint32_t ppre1, uint32_t ppre2)
{
    reg_change(RCC_D1CFGR, 0xF7FU, (ppre1 << 4) | hpre);
    reg_change(RCC_D2CFGR, 0x770U, (ppre2 << 8) | (ppre1 << 4));
    reg_change(RCC_D3CFGR, 0x70U, ppre1 << 4);
}

int port_clock_start(void)
{
    /* RAM of the second domain is off after a reset; that of the third has a bit of its own on some chips only. */
    reg_change(PORT_RAM_ENABLE, PORT_RAM_CLOCKS, PORT_RAM_CLOCKS);
#if PORT_SRD_CLOCKS
    reg_change(PORT_SRD_ENABLE, PORT_SRD_CLOCKS, PORT_SRD_CLOCKS);
#endif
    if ((start_supply() != 0) || (start_source() != 0) || (start_pll() != 0)) {
        return -1;
    }
    reg_write(FLASH_ACR, (PORT_FLASH_DELAY << 4) | PORT_WAIT_STATES);
    if (reg_wait(FLASH_ACR, 0xFU, PORT_WAIT_STATES) != 0) {
        return -1;
    }
    divide_buses(PORT_HPRE, PORT_PPRE1, PORT_PPRE2);
    reg_change(RCC_CFGR, CFGR_SW_MASK, CFGR_SW_PLL1);
    if (reg_wait(RCC_CFGR, CFGR_SWS_MASK, CFGR_SWS_PLL1) != 0) {
        reg_change(RCC_CFGR, CFGR_SW_MASK, 0U);
        divide_buses(0U, 0U, 0U);
        return -1;
    }
    return 0;
}
