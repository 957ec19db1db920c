/* Runs an application on the samples of a file, as runtime/app/runner.c does networks of our own interface. */
#include "application.h"
#include "port.h"

static unsigned char inputs[8192];
static unsigned char outputs[8192];

void app_log(const char *format, ...)
{
    (void)format;
}

static int fail(const char *what, int line)
{
    port_print("\nstatus=error ");
    port_print(what);
    port_print_unsigned((uint64_t)(unsigned)line);
    port_print("\n");
    return 1;
}

int main(int argc, char **argv)
{
    char text[256];
    char *words[PORT_ARGUMENTS_MAX];
    uint32_t length = 0U;
    uint32_t samples = 0U;
    int32_t input;
    int32_t output;

    if (argc == 0) {
        argc = port_arguments(text, sizeof(text), words);
        argv = words;
    }
    if ((argc < 3) || (application_input_bytes > sizeof(inputs)) || (application_output_bytes > sizeof(outputs))) {
        return fail("arguments or sizes, line ", __LINE__);
    }
    input = port_open(argv[1], PORT_READ);
    output = port_open(argv[2], PORT_WRITE);
    if ((input == PORT_NO_FILE) || (output == PORT_NO_FILE) || (port_length(input, &length) != 0)) {
        return fail("files, line ", __LINE__);
    }
    for (; (samples + 1U) * application_input_bytes <= length; samples++) {
        int line;

        if (port_read(input, inputs, application_input_bytes) != 0) {
            return fail("cannot read, line ", __LINE__);
        }
        line = application(inputs, outputs);
        if (line != 0) {
            return fail("the application failed at line ", line);
        }
        if (port_write(output, outputs, application_output_bytes) != 0) {
            return fail("cannot write, line ", __LINE__);
        }
    }
    (void)port_close(output);
    port_print("samples=");
    port_print_unsigned(samples);
    port_print("\nstatus=ok\n");
    return 0;
}
