/*
 * Console on a UART of an STM32, for images that run on a board: what is printed goes out, nothing comes in.
 *
 * There are no files and no command line, and the end of the program is a loop. Source: the USART, LPUART and GPIO
 * chapters of RM0090 (kind 1), RM0351 (kind 2) and RM0041 (pins of the STM32F1).
 */
#include "port.h"
#include "port_board.h"

#include "families/port_registers.h"

#if PORT_UART_KIND == 1
#define UART_STATUS (PORT_UART + 0x00UL)
#define UART_SEND (PORT_UART + 0x04UL)
#define UART_BRR (PORT_UART + 0x08UL)
#define UART_CR1 (PORT_UART + 0x0CUL)
#define CR1_ENABLE ((1UL << 13) | (1UL << 3) | (1UL << 2)) /* UE, TE, RE */
#else
#define UART_CR1 (PORT_UART + 0x00UL)
#define UART_BRR (PORT_UART + 0x0CUL)
#define UART_STATUS (PORT_UART + 0x1CUL)
#define UART_SEND (PORT_UART + 0x28UL)
#define CR1_ENABLE ((1UL << 3) | (1UL << 2) | (1UL << 0)) /* TE, RE, UE */
#endif

#define STATUS_TRANSMIT_EMPTY (1UL << 7)
#define STATUS_TRANSMITTED (1UL << 6)

static int console_running;

#if PORT_GPIO_KIND == 1

/* Four bits a pin: 0xB an output of the peripheral, 0x4 an input. */
static void start_pin(uint32_t port, uint32_t pin, uint32_t mode)
{
    const uint32_t shift = 4U * (pin & 7U);

    reg_change(port + ((pin < 8U) ? 0U : 4U), 0xFUL << shift, mode << shift);
}

static void start_pins(void)
{
    start_pin(PORT_TX_PORT, PORT_TX_PIN, 0xBU);
    start_pin(PORT_RX_PORT, PORT_RX_PIN, 0x4U);
}

#else

/* Alternate function, high speed, pulled up: an open input would be noise. */
static void start_pin(uint32_t port, uint32_t pin)
{
    const uint32_t shift = 4U * (pin & 7U);

    reg_change(port + ((pin < 8U) ? 0x20U : 0x24U), 0xFUL << shift, PORT_PIN_FUNCTION << shift);
    reg_change(port + 0x08U, 3UL << (2U * pin), 2UL << (2U * pin));
    reg_change(port + 0x0CU, 3UL << (2U * pin), 1UL << (2U * pin));
    reg_change(port + 0x00U, 3UL << (2U * pin), 2UL << (2U * pin));
}

static void start_pins(void)
{
    start_pin(PORT_TX_PORT, PORT_TX_PIN);
    start_pin(PORT_RX_PORT, PORT_RX_PIN);
}

#endif

/* The low-power UART counts in 256ths of its clock; in two steps, for 32 bits. */
static uint32_t rate(uint32_t hz)
{
#if PORT_UART_LOW_POWER
    const uint32_t whole = hz / PORT_UART_BAUD;
    const uint32_t rest = hz % PORT_UART_BAUD;

    return 256U * whole + (256U * rest + PORT_UART_BAUD / 2U) / PORT_UART_BAUD;
#else
    return (hz + PORT_UART_BAUD / 2U) / PORT_UART_BAUD;
#endif
}

void port_console_start(uint32_t hz)
{
    reg_change(PORT_PINS_ENABLE, PORT_PINS_ENABLE_BITS, PORT_PINS_ENABLE_BITS);
    reg_change(PORT_UART_ENABLE, 1UL << PORT_UART_ENABLE_BIT, 1UL << PORT_UART_ENABLE_BIT);
    (void)reg_read(PORT_UART_ENABLE);
    start_pins();
    reg_write(UART_BRR, rate(hz));
    reg_write(UART_CR1, CR1_ENABLE);
    console_running = 1;
}

static void send(char character)
{
    if (reg_wait(UART_STATUS, STATUS_TRANSMIT_EMPTY, STATUS_TRANSMIT_EMPTY) == 0) {
        reg_write(UART_SEND, (uint32_t)(unsigned char)character);
    }
}

/* Terminals want both characters at the end of a line. */
void port_print(const char *text)
{
    if (console_running == 0) {
        return;
    }
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            send('\r');
        }
        send(*text);
    }
}

void port_exit(int code)
{
    (void)code;
    if (console_running != 0) {
        (void)reg_wait(UART_STATUS, STATUS_TRANSMITTED, STATUS_TRANSMITTED);
    }
    for (;;) {
#if !defined(PORT_MOCK)
        __asm__ volatile("wfi");
#endif
    }
}

int port_arguments(char *buffer, size_t size, char *argv[PORT_ARGUMENTS_MAX])
{
    (void)buffer;
    (void)size;
    (void)argv;
    return 0;
}

int32_t port_open(const char *name, port_mode mode)
{
    (void)name;
    (void)mode;
    return PORT_NO_FILE;
}

int port_read(int32_t file, void *data, size_t size)
{
    (void)file;
    (void)data;
    (void)size;
    return -1;
}

int port_write(int32_t file, const void *data, size_t size)
{
    (void)file;
    (void)data;
    (void)size;
    return -1;
}

int port_length(int32_t file, uint32_t *bytes)
{
    (void)file;
    (void)bytes;
    return -1;
}

int port_close(int32_t file)
{
    (void)file;
    return -1;
}
