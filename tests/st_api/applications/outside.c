/* Inputs and outputs without a place in the activations (--external-io all): the branches of the template without them.
 */
#include <string.h>

#include "application.h"
#include "network.h"
#include "network_data.h"

#if defined(AI_NETWORK_INPUTS_IN_ACTIVATIONS) || defined(AI_NETWORK_OUTPUTS_IN_ACTIVATIONS)
#error "they are in the activations"
#endif

AI_ALIGNED(4) static ai_u8 activations[AI_NETWORK_DATA_ACTIVATIONS_SIZE];
AI_ALIGNED(4) static ai_u8 in_data[AI_NETWORK_IN_1_SIZE_BYTES];
AI_ALIGNED(4) static ai_u8 out_data[AI_NETWORK_OUT_1_SIZE_BYTES];

const unsigned application_input_bytes = AI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_NETWORK_OUT_1_SIZE_BYTES;

int application(const unsigned char *input, unsigned char *output)
{
    static int ready;
    const ai_handle acts[] = {activations};
    ai_handle network;
    ai_buffer *in;
    ai_buffer *out;

    CHECK(ai_network_create_and_init(&network, acts, NULL).type == AI_ERROR_NONE);
    in = ai_network_inputs_get(network, NULL);
    out = ai_network_outputs_get(network, NULL);
    memcpy(in_data, input, sizeof(in_data));
    if (!ready) {
        CHECK(in[0].data == NULL && out[0].data == NULL);
        in[0].data = AI_HANDLE_PTR(in_data);
        CHECK(ai_network_forward(network, in) <= 0);
        CHECK(ai_network_get_error(network).type == AI_ERROR_INVALID_OUTPUT);
        out[0].data = AI_HANDLE_PTR(out_data);
        ready = 1;
    }
    /* They stay when the network is created anew. */
    CHECK(ai_network_run(network, in, out) == 1);
    memcpy(output, out_data, sizeof(out_data));
    return 0;
}
