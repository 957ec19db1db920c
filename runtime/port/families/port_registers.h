/*
 * Registers of the chip for the start-up of images that run on a board: read, change, and wait with an end.
 *
 * board_config.h is generated from the board file. With PORT_MOCK the registers are functions of a test.
 */
#ifndef PORT_REGISTERS_H
#define PORT_REGISTERS_H

#include "board_config.h"

#include <stdint.h>

/* Reads of a register before a wait is given up: some 50 ms at a reset clock of 16 MHz, a crystal needs 2. */
#ifndef PORT_WAIT_LIMIT
#define PORT_WAIT_LIMIT 100000U
#endif

#ifdef PORT_MOCK
uint32_t reg_read(uint32_t address);
void reg_write(uint32_t address, uint32_t value);
#else
static inline uint32_t reg_read(uint32_t address)
{
    return *(volatile uint32_t *)(uintptr_t)address;
}

static inline void reg_write(uint32_t address, uint32_t value)
{
    *(volatile uint32_t *)(uintptr_t)address = value;
}
#endif

/* The bits of `mask` become those of `value`. */
static inline void reg_change(uint32_t address, uint32_t mask, uint32_t value)
{
    reg_write(address, (reg_read(address) & ~mask) | value);
}

/* 0 when the bits of `mask` are those of `value` in time, else -1. */
static inline int reg_wait(uint32_t address, uint32_t mask, uint32_t value)
{
    uint32_t reads;

    for (reads = 0U; reads < PORT_WAIT_LIMIT; reads++) {
        if ((reg_read(address) & mask) == value) {
            return 0;
        }
    }
    return -1;
}

/*
 * From the state of a reset to the clocks of the board file: 0, or -1 when an oscillator, the PLL or the supply did not
 * get ready in time; then the core runs from its reset clock again and the buses are not divided.
 */
int port_clock_start(void);

#endif /* PORT_REGISTERS_H */
