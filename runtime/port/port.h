/*
 * What an application needs from the machine it runs on: console, files, exit, stack and time.
 *
 * port_startup.c + port_semihosting.c + port_system.c implement it for Cortex-M under a debugger or an emulator,
 * port_host.c for a computer. No heap, no stdio on the target.
 */
#ifndef PORT_H
#define PORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PORT_NO_FILE (-1)

/* Largest number of words port_arguments() returns. */
#define PORT_ARGUMENTS_MAX 8

typedef enum { PORT_READ, PORT_WRITE } port_mode;

/*
 * The words of the command line, argv[0] included, split in place at blanks inside `buffer`. Returns their number, 0
 * when there is no command line or `buffer` (`size` bytes) is too small. On a host argc and argv come from main and
 * this returns 0.
 */
int port_arguments(char *buffer, size_t size, char *argv[PORT_ARGUMENTS_MAX]);

void port_print(const char *text);
void port_print_unsigned(uint64_t value); /* decimal */
void port_print_hex(uint32_t value);      /* 0x and 8 digits */

/* End the program. Only an exit code of 0 means success; codes are not larger than 255. */
void port_exit(int code) __attribute__((noreturn));

/* A file of the host: a handle, or PORT_NO_FILE. PORT_WRITE truncates. */
int32_t port_open(const char *name, port_mode mode);
int port_read(int32_t file, void *data, size_t size);        /* 0: all `size` bytes were read */
int port_write(int32_t file, const void *data, size_t size); /* 0: all `size` bytes were written */
int port_length(int32_t file, uint32_t *bytes);              /* 0: *bytes is the file's length */
int port_close(int32_t file);                                /* 0: closed, everything written */

/*
 * Stack depth. port_stack_paint() fills the unused part of the stack with a pattern; port_stack_used() is the number of
 * bytes used below the stack pointer of that moment since then. port_stack_peak() is the most that was ever in use,
 * from the top, and port_stack_size() the reserve. All are 0 on a host, where the stack is not measured.
 */
void port_stack_paint(void);
uint32_t port_stack_used(void);
uint32_t port_stack_peak(void);
uint32_t port_stack_size(void);

/*
 * Time: SysTick at the core clock on the target (its interrupt runs once every 2^24 ticks), nanoseconds on a host.
 * port_ticks() is 0 until port_ticks_start().
 */
void port_ticks_start(void);
uint64_t port_ticks(void);

/* Empty markers around the measured code: tools that count instructions stop at their addresses. */
void bench_begin(void);
void bench_end(void);

#ifdef __cplusplus
}
#endif

#endif /* PORT_H */
