/* The port on a computer: stdio. */
#include "port.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FILES_MAX 8

static FILE *files[FILES_MAX];
static int ticks_running;

int port_arguments(char *buffer, size_t size, char *argv[PORT_ARGUMENTS_MAX])
{
    (void)buffer;
    (void)size;
    (void)argv;
    return 0;
}

void port_print(const char *text)
{
    (void)fputs(text, stdout);
}

void port_exit(int code)
{
    exit((fflush(stdout) == 0) ? code : EXIT_FAILURE);
}

int32_t port_open(const char *name, port_mode mode)
{
    int32_t i;

    for (i = 0; i < FILES_MAX; i++) {
        if (files[i] == NULL) {
            files[i] = fopen(name, (mode == PORT_READ) ? "rb" : "wb");
            return (files[i] != NULL) ? i : PORT_NO_FILE;
        }
    }
    return PORT_NO_FILE;
}

int port_read(int32_t file, void *data, size_t size)
{
    return (fread(data, 1U, size, files[file]) == size) ? 0 : -1;
}

int port_write(int32_t file, const void *data, size_t size)
{
    return (fwrite(data, 1U, size, files[file]) == size) ? 0 : -1;
}

int port_length(int32_t file, uint32_t *bytes)
{
    FILE *const stream = files[file];
    const long place = ftell(stream);
    long length;

    if ((place < 0) || (fseek(stream, 0L, SEEK_END) != 0)) {
        return -1;
    }
    length = ftell(stream);
    if ((length < 0) || ((unsigned long)length > UINT32_MAX) || (fseek(stream, place, SEEK_SET) != 0)) {
        return -1;
    }
    *bytes = (uint32_t)length;
    return 0;
}

int port_close(int32_t file)
{
    FILE *const stream = files[file];

    files[file] = NULL;
    return (fclose(stream) == 0) ? 0 : -1;
}

void port_stack_paint(void)
{
}

uint32_t port_stack_used(void)
{
    return 0U;
}

uint32_t port_stack_peak(void)
{
    return 0U;
}

uint32_t port_stack_size(void)
{
    return 0U;
}

void port_ticks_start(void)
{
    ticks_running = 1;
}

uint64_t port_ticks(void)
{
    return (ticks_running != 0) ? (uint64_t)clock() * (1000000000U / (uint64_t)CLOCKS_PER_SEC) : 0U;
}
