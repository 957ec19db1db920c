/* Weights that are no part of the network's code (--weights external), given by address to set_weights. */
#include <string.h>

#include "application.h"
#include "network.h"

extern const uint8_t weights_file[];

STAI_NETWORK_CONTEXT_DECLARE(context, STAI_NETWORK_CONTEXT_SIZE)
STAI_ALIGNED(4) static uint8_t pool[STAI_NETWORK_ACTIVATIONS_SIZE_BYTES];

const unsigned application_input_bytes = STAI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = STAI_NETWORK_OUT_1_SIZE_BYTES;

int application(const unsigned char *input, unsigned char *output)
{
    static int tried;
    const stai_ptr acts[] = {pool};
    const stai_ptr weights[] = {(stai_ptr)weights_file};
    stai_ptr in[1];
    stai_ptr out[1];
    stai_size n;

    CHECK(stai_network_init(context) == STAI_SUCCESS);
    CHECK(stai_network_set_activations(context, acts, 1) == STAI_SUCCESS);
    if (!tried) {
        CHECK(stai_network_run(context, STAI_MODE_SYNC) == STAI_ERROR_NETWORK_INVALID_WEIGHTS_PTR);
        CHECK(stai_network_init(context) == STAI_SUCCESS);
        CHECK(stai_network_set_activations(context, acts, 1) == STAI_SUCCESS);
        tried = 1;
    }
    CHECK(stai_network_set_weights(context, weights, 1) == STAI_SUCCESS);
    CHECK(stai_network_get_inputs(context, in, &n) == STAI_SUCCESS);
    CHECK(stai_network_get_outputs(context, out, &n) == STAI_SUCCESS);
    memcpy(in[0], input, STAI_NETWORK_IN_1_SIZE_BYTES);
    CHECK(stai_network_run(context, STAI_MODE_SYNC) == STAI_SUCCESS);
    memcpy(output, out[0], STAI_NETWORK_OUT_1_SIZE_BYTES);
    return 0;
}
