/*
 * Runs any generated network on samples from a file and writes its outputs to another.
 *
 *     runner INPUT OUTPUT [ticks]
 *
 * INPUT holds samples without anything between them; a sample is the bytes of all inputs in order. OUTPUT gets the
 * bytes of all outputs in order after each sample. `ticks` starts the tick counter (its interrupt disturbs exact
 * instruction counts). The console gets key=value lines and, last, status=ok; anything that goes wrong ends in
 * `status=error TEXT` and exit code 1.
 *
 * Build with -DAI_RUNNER_NETWORK=ai_<name>_network and -DAI_RUNNER_HEADER="<name>.h".
 */
#include "ai_runtime.h"
#include "port.h"

#include AI_RUNNER_HEADER

#define COMMAND_LINE_SIZE 256U

typedef struct {
    ai_handle network;
    int32_t input;
    int32_t output;
    uint32_t stack; /* bytes, the most of any inference */
    uint64_t ticks; /* of the last inference */
} runner;

static int same_text(const char *a, const char *b)
{
    while ((*a == *b) && (*a != '\0')) {
        a++;
        b++;
    }
    return *a == *b;
}

static int fail(const char *what, const char *name)
{
    port_print("\nstatus=error ");
    port_print(what);
    port_print(name);
    port_print("\n");
    return 1;
}

static void report(const char *key, uint64_t value)
{
    port_print(key);
    port_print_unsigned(value);
    port_print("\n");
}

static uint32_t sample_size(ai_handle network)
{
    uint32_t bytes = 0U;
    uint32_t i;

    for (i = 0U; i < ai_get_input_size(network); i++) {
        bytes += ai_get_input(network, i)->info->size;
    }
    return bytes;
}

static int run_sample(runner *self)
{
    ai_status status;
    uint64_t start;
    uint32_t stack;
    uint32_t i;

    for (i = 0U; i < ai_get_input_size(self->network); i++) {
        const ai_tensor *const tensor = ai_get_input(self->network, i);

        if (port_read(self->input, tensor->data, tensor->info->size) != 0) {
            return fail("cannot read input ", tensor->info->name);
        }
    }
    port_stack_paint();
    start = port_ticks();
    bench_begin();
    status = ai_run(self->network);
    bench_end();
    self->ticks = port_ticks() - start;
    stack = port_stack_used();
    if (status != AI_STATUS_OK) {
        return fail("inference: ", ai_get_error(self->network));
    }
    if (port_stack_size() != 0U && port_stack_peak() >= port_stack_size()) {
        return fail("the stack overflowed", "");
    }
    self->stack = (stack > self->stack) ? stack : self->stack;
    for (i = 0U; i < ai_get_output_size(self->network); i++) {
        const ai_tensor *const tensor = ai_get_output(self->network, i);

        if (port_write(self->output, tensor->data, tensor->info->size) != 0) {
            return fail("cannot write output ", tensor->info->name);
        }
    }
    return 0;
}

static int run_all(runner *self)
{
    const uint32_t size = sample_size(self->network);
    uint32_t length = 0U;
    uint32_t samples = 1U;
    uint32_t i;

    if (port_length(self->input, &length) != 0) {
        return fail("cannot get the length of the input file", "");
    }
    if (size != 0U) {
        samples = length / size;
        if ((samples == 0U) || (samples * size != length)) {
            report("sample_bytes=", size);
            report("input_bytes=", length);
            return fail("the input file does not hold whole samples", "");
        }
    }
    for (i = 0U; i < samples; i++) {
        if (run_sample(self) != 0) {
            return 1;
        }
    }
    report("samples=", samples);
    return 0;
}

int main(int argc, char **argv)
{
    runner self = {NULL, PORT_NO_FILE, PORT_NO_FILE, 0U, 0U};
    char line[COMMAND_LINE_SIZE];
    char *words[PORT_ARGUMENTS_MAX];

    if (argc == 0) {
        argc = port_arguments(line, sizeof(line), words);
        argv = words;
    }
    if (argc < 3) {
        return fail("expected the arguments INPUT OUTPUT", "");
    }
    if (ai_create(&AI_RUNNER_NETWORK, NULL, &self.network) != AI_STATUS_OK) {
        return fail("create: ", ai_get_error(NULL));
    }
    self.input = port_open(argv[1], PORT_READ);
    if (self.input == PORT_NO_FILE) {
        return fail("cannot open input file ", argv[1]);
    }
    self.output = port_open(argv[2], PORT_WRITE);
    if (self.output == PORT_NO_FILE) {
        return fail("cannot open output file ", argv[2]);
    }
    if ((argc > 3) && same_text(argv[3], "ticks")) {
        port_ticks_start();
    }
    if (run_all(&self) != 0) {
        return 1;
    }
    if (port_close(self.output) != 0) {
        return fail("cannot write output file ", argv[2]);
    }
    port_print("network=");
    port_print(ai_get_name(self.network));
    port_print("\n");
    report("nodes=", ai_get_node_size(self.network));
    report("macs=", self.network->model->macs);
    report("arena=", ai_get_activations_size(self.network));
    report("params=", ai_get_params_size(self.network));
    report("stack=", self.stack);
    report("stack_peak=", port_stack_peak());
    report("stack_size=", port_stack_size());
    report("ticks=", self.ticks);
    port_print("status=ok\n");
    return 0;
}
