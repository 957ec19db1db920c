/* Case 3: parameters in three braces, and the network created again and again without a destroy. */
#include <string.h>

#include "application.h"
#include "io_gate.h"
#include "io_gate_data.h"

AI_ALIGNED(4) static ai_u8 activations[AI_IO_GATE_DATA_ACTIVATIONS_SIZE];
AI_ALIGNED(4) static ai_u8 in_data[AI_IO_GATE_IN_1_SIZE_BYTES];
AI_ALIGNED(4) static ai_u8 out_data[AI_IO_GATE_OUT_1_SIZE_BYTES];

const unsigned application_input_bytes = AI_IO_GATE_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_IO_GATE_OUT_1_SIZE_BYTES;

int application(const unsigned char *input, unsigned char *output)
{
    ai_handle gate = AI_HANDLE_NULL;
    ai_error err = ai_io_gate_create(&gate, AI_IO_GATE_DATA_CONFIG);
    ai_network_params params = {
        {{AI_IO_GATE_DATA_WEIGHTS(ai_io_gate_data_weights_get()), AI_IO_GATE_DATA_ACTIVATIONS(activations)}}};
    ai_buffer *ins;
    ai_buffer *outs;

    CHECK(err.type == AI_ERROR_NONE);
    CHECK(ai_io_gate_init(gate, &params));
    ins = AI_IO_GATE_IN;
    outs = AI_IO_GATE_OUT;
    memcpy(in_data, input, sizeof(in_data));
    ins[0].data = AI_HANDLE_PTR(in_data);
    outs[0].data = AI_HANDLE_PTR(out_data);
    CHECK(ai_io_gate_run(gate, &ins[0], &outs[0]) == 1);
    memcpy(output, out_data, sizeof(out_data));
    return 0;
}
