/*
 * Clocks of STM32N6: whatever the boot ROM left, core and buses go back to the 64 MHz of the HSI, undivided.
 *
 * No PLL: more needs the core's supply to be set to it. Source: RM0486, RCC registers, at their secure addresses.
 */
#include "port_registers.h"

#define RCC_CR 0x56028000U
#define RCC_SR 0x56028004U
#define RCC_CFGR1 0x56028020U
#define RCC_CFGR2 0x56028024U
#define RCC_HSICFGR 0x56028048U
#define RCC_CCIPR13 0x56028174U
#define RCC_BUSENR 0x56028244U

#define CR_HSION (1UL << 3)
#define SR_HSIRDY (1UL << 3)
#define HSICFGR_HSIDIV_MASK (3UL << 7)
#define CFGR1_SW_MASK ((3UL << 24) | (3UL << 16)) /* SYSSW, CPUSW */
#define CFGR1_SWS_MASK ((3UL << 28) | (3UL << 20))
#define CFGR2_MASK 0x00777077UL /* HPRE, PPRE5, PPRE4, PPRE2, PPRE1 */
#define CCIPR13_USART1SEL_MASK 7UL
#define BUSENR_CONSOLE ((1UL << 9) | (1UL << 6)) /* APB2 of the UART, AHB4 of the pins */

int port_clock_start(void)
{
    reg_change(RCC_BUSENR, BUSENR_CONSOLE, BUSENR_CONSOLE);
    reg_change(RCC_CR, CR_HSION, CR_HSION);
    if (reg_wait(RCC_SR, SR_HSIRDY, SR_HSIRDY) != 0) {
        return -1;
    }
    reg_change(RCC_HSICFGR, HSICFGR_HSIDIV_MASK, 0U);
    reg_change(RCC_CFGR1, CFGR1_SW_MASK, 0U);
    if (reg_wait(RCC_CFGR1, CFGR1_SWS_MASK, 0U) != 0) {
        return -1;
    }
    reg_change(RCC_CFGR2, CFGR2_MASK, 0U);
    /* USART1 from its bus. */
    reg_change(RCC_CCIPR13, CCIPR13_USART1SEL_MASK, 0U);
    return 0;
}
