/* Weights that are no part of the network's code (--weights external), given by address to create_and_init. */
#include <string.h>

#include "application.h"
#include "network.h"
#include "network_data.h"

extern const ai_u8 weights_file[];

AI_ALIGNED(4) static ai_u8 activations[AI_NETWORK_DATA_ACTIVATIONS_SIZE];

const unsigned application_input_bytes = AI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_NETWORK_OUT_1_SIZE_BYTES;

int application(const unsigned char *input, unsigned char *output)
{
    static int tried;
    const ai_handle acts[] = {activations};
    const ai_handle weights[] = {AI_HANDLE_PTR(weights_file)};
    const ai_handle wrong[] = {activations};
    ai_handle network;

    if (!tried) {
        CHECK(ai_network_create_and_init(&network, acts, NULL).code == AI_ERROR_CODE_NETWORK_WEIGHTS);
        CHECK(ai_network_create_and_init(&network, acts, wrong).code == AI_ERROR_CODE_NETWORK_WEIGHTS);
        tried = 1;
    }
    CHECK(ai_network_create_and_init(&network, acts, weights).type == AI_ERROR_NONE);
    memcpy(AI_NETWORK_IN[0].data, input, AI_NETWORK_IN_1_SIZE_BYTES);
    CHECK(ai_network_run(network, AI_NETWORK_IN, AI_NETWORK_OUT) == 1);
    memcpy(output, AI_NETWORK_OUT[0].data, AI_NETWORK_OUT_1_SIZE_BYTES);
    return 0;
}
