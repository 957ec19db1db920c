/* What images that run on a board have beside port.h: the clocks that were reached. */
#ifndef PORT_BOARD_H
#define PORT_BOARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The core's clock in Hz: the board file's, or that of the reset when the PLL did not start. */
extern uint32_t port_core_hz;

/* Called by the start-up before constructors and main: clocks, caches, console. */
void port_board_start(void);

/* Called by port_board_start: the console, whose peripheral clock is `hz`. */
void port_console_start(uint32_t hz);

#ifdef __cplusplus
}
#endif

#endif /* PORT_BOARD_H */
