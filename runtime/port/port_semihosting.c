/*
 * Console, files, command line and exit through Arm semihosting (a debugger or an emulator answers).
 *
 * Source: Arm "Semihosting for AArch32 and AArch64", release 2.0.
 */
#include "port.h"

enum {
    SYS_OPEN = 0x01,
    SYS_CLOSE = 0x02,
    SYS_WRITE0 = 0x04,
    SYS_WRITE = 0x05,
    SYS_READ = 0x06,
    SYS_FLEN = 0x0C,
    SYS_GET_CMDLINE = 0x15,
    SYS_EXIT_EXTENDED = 0x20
};

#define ADP_STOPPED_APPLICATION_EXIT 0x20026U
#define OPEN_READ_BINARY 1U
#define OPEN_WRITE_BINARY 5U

static int32_t semihost(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;

    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory", "cc");
    return (int32_t)r0;
}

static uint32_t address_of(const void *data)
{
    return (uint32_t)(uintptr_t)data;
}

/* volatile: GCC would call strlen, which is larger than this file. */
static size_t text_length(const volatile char *text)
{
    size_t length = 0U;

    while (text[length] != '\0') {
        length++;
    }
    return length;
}

void port_print(const char *text)
{
    (void)semihost(SYS_WRITE0, text);
}

void port_exit(int code)
{
    const uint32_t block[2] = {ADP_STOPPED_APPLICATION_EXIT, (uint32_t)code};

    for (;;) {
        (void)semihost(SYS_EXIT_EXTENDED, block);
    }
}

int port_arguments(char *buffer, size_t size, char *argv[PORT_ARGUMENTS_MAX])
{
    uint32_t block[2];
    char *place = buffer;
    int count = 0;

    block[0] = address_of(buffer);
    block[1] = (uint32_t)size;
    if (semihost(SYS_GET_CMDLINE, block) != 0) {
        return 0;
    }
    while (count < PORT_ARGUMENTS_MAX) {
        while (*place == ' ') {
            place++;
        }
        if (*place == '\0') {
            break;
        }
        argv[count] = place;
        count++;
        while ((*place != ' ') && (*place != '\0')) {
            place++;
        }
        if (*place == ' ') {
            *place = '\0';
            place++;
        }
    }
    return count;
}

int32_t port_open(const char *name, port_mode mode)
{
    uint32_t block[3];

    block[0] = address_of(name);
    block[1] = (mode == PORT_READ) ? OPEN_READ_BINARY : OPEN_WRITE_BINARY;
    block[2] = (uint32_t)text_length(name);
    return semihost(SYS_OPEN, block);
}

/* SYS_READ and SYS_WRITE return the number of bytes they did not transfer. */
static int transfer(uint32_t operation, int32_t file, const void *data, size_t size)
{
    uint32_t block[3];

    block[0] = (uint32_t)file;
    block[1] = address_of(data);
    block[2] = (uint32_t)size;
    return (semihost(operation, block) == 0) ? 0 : -1;
}

int port_read(int32_t file, void *data, size_t size)
{
    return transfer(SYS_READ, file, data, size);
}

int port_write(int32_t file, const void *data, size_t size)
{
    return transfer(SYS_WRITE, file, data, size);
}

int port_length(int32_t file, uint32_t *bytes)
{
    const uint32_t block[1] = {(uint32_t)file};
    const int32_t length = semihost(SYS_FLEN, block);

    if (length < 0) {
        return -1;
    }
    *bytes = (uint32_t)length;
    return 0;
}

int port_close(int32_t file)
{
    const uint32_t block[1] = {(uint32_t)file};

    return (semihost(SYS_CLOSE, block) == 0) ? 0 : -1;
}
