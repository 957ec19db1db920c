/*
 * Runs every network of the table `networks` once: `runner INPUT OUTPUT`. INPUT holds the bytes of all inputs of the
 * first network, then of the second, and so on; OUTPUT gets their outputs the same way.
 */
#include "ai_runtime.h"
#include "port.h"

#include "networks.h"

#define COMMAND_LINE_SIZE 256U

static int fail(const char *what, const char *name)
{
    port_print("\nstatus=error ");
    port_print(what);
    port_print(name);
    port_print("\n");
    return 1;
}

static int run(const ai_model_info *model, int32_t input, int32_t output)
{
    ai_handle network = NULL;
    uint32_t i;

    if (ai_create(model, NULL, &network) != AI_STATUS_OK) {
        return fail("create ", model->name);
    }
    for (i = 0U; i < ai_get_input_size(network); i++) {
        const ai_tensor *const tensor = ai_get_input(network, i);

        if ((tensor->info->size != 0U) && (port_read(input, tensor->data, tensor->info->size) != 0)) {
            return fail("input of ", model->name);
        }
    }
    if (ai_run(network) != AI_STATUS_OK) {
        return fail("run ", model->name);
    }
    for (i = 0U; i < ai_get_output_size(network); i++) {
        const ai_tensor *const tensor = ai_get_output(network, i);

        if (port_write(output, tensor->data, tensor->info->size) != 0) {
            return fail("output of ", model->name);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    char line[COMMAND_LINE_SIZE];
    char *words[PORT_ARGUMENTS_MAX];
    int32_t input;
    int32_t output;
    size_t i;

    if (argc == 0) {
        argc = port_arguments(line, sizeof(line), words);
        argv = words;
    }
    if (argc < 3) {
        return fail("expected the arguments INPUT OUTPUT", "");
    }
    input = port_open(argv[1], PORT_READ);
    output = port_open(argv[2], PORT_WRITE);
    if ((input == PORT_NO_FILE) || (output == PORT_NO_FILE)) {
        return fail("cannot open a file", "");
    }
    for (i = 0U; i < sizeof(networks) / sizeof(networks[0]); i++) {
        if (run(networks[i], input, output) != 0) {
            return 1;
        }
    }
    if (port_close(output) != 0) {
        return fail("cannot write the output", "");
    }
    port_print("status=ok\n");
    return 0;
}
