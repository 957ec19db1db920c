/* Case 9: the smallest template. No runtime_init, inputs and outputs inside of the activations. */
#include <string.h>

#include "application.h"
#include "network.h"

STAI_NETWORK_CONTEXT_DECLARE(network_context, STAI_NETWORK_CONTEXT_SIZE)

STAI_ALIGNED(STAI_NETWORK_ACTIVATION_1_ALIGNMENT)
static uint8_t activations_1[STAI_NETWORK_ACTIVATION_1_SIZE_BYTES];

static stai_ptr inputs[STAI_NETWORK_IN_NUM];
static stai_ptr outputs[STAI_NETWORK_OUT_NUM];

const unsigned application_input_bytes = STAI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = STAI_NETWORK_OUT_1_SIZE_BYTES;

int application(const unsigned char *input, unsigned char *output)
{
    const stai_ptr acts[STAI_NETWORK_ACTIVATIONS_NUM] = {activations_1};
    stai_size n = 0;

    CHECK(stai_network_init(network_context) == STAI_SUCCESS);
    CHECK(stai_network_set_activations(network_context, acts, STAI_NETWORK_ACTIVATIONS_NUM) == STAI_SUCCESS);
    CHECK(stai_network_get_inputs(network_context, inputs, &n) == STAI_SUCCESS && n == STAI_NETWORK_IN_NUM);
    CHECK(stai_network_get_outputs(network_context, outputs, &n) == STAI_SUCCESS && n == STAI_NETWORK_OUT_NUM);
    memcpy(inputs[0], input, STAI_NETWORK_IN_1_SIZE_BYTES);
    CHECK(stai_network_run(network_context, STAI_MODE_SYNC) == STAI_SUCCESS);
    memcpy(output, outputs[0], STAI_NETWORK_OUT_1_SIZE_BYTES);
    CHECK(stai_network_deinit(network_context) == STAI_SUCCESS);
    return 0;
}
