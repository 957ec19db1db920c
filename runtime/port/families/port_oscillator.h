/*
 * The PLL's source, started: the same in most families. A family's file defines RCC_CR and the bits CR_HSEBYP,
 * CR_HSEON, CR_HSERDY, CR_HSION and CR_HSIRDY of it (with PORT_USE_CSI CR_CSION and CR_CSIRDY), and then includes this
 * one.
 */
#ifndef PORT_OSCILLATOR_H
#define PORT_OSCILLATOR_H

#include "port_registers.h"

static int start_source(void)
{
#if PORT_USE_HSE
    reg_change(RCC_CR, CR_HSEBYP, PORT_HSE_BYPASS ? CR_HSEBYP : 0U);
    reg_change(RCC_CR, CR_HSEON, CR_HSEON);
    return reg_wait(RCC_CR, CR_HSERDY, CR_HSERDY);
#elif defined(PORT_USE_CSI) && PORT_USE_CSI
    reg_change(RCC_CR, CR_CSION, CR_CSION);
    return reg_wait(RCC_CR, CR_CSIRDY, CR_CSIRDY);
#else
    reg_change(RCC_CR, CR_HSION, CR_HSION);
    return reg_wait(RCC_CR, CR_HSIRDY, CR_HSIRDY);
#endif
}

#endif /* PORT_OSCILLATOR_H */
