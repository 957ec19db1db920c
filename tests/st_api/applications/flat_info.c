/* Case 2, variant: inputs and outputs of get_info. */
#include <string.h>

#include "ai_datatypes_defines.h"
#include "application.h"
#include "network.h"
#include "network_data.h"

AI_ALIGNED(4) static ai_u8 activations[AI_NETWORK_DATA_ACTIVATIONS_SIZE];
static ai_handle network = AI_HANDLE_NULL;
static ai_network_report report;
static ai_buffer *in;
static ai_buffer *out;

const unsigned application_input_bytes = AI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_NETWORK_OUT_1_SIZE_BYTES;

static int start(void)
{
    ai_error err;
    ai_network_params params = {AI_NETWORK_DATA_WEIGHTS(ai_network_data_weights_get()),
                                AI_NETWORK_DATA_ACTIVATIONS(activations)};

    err = ai_network_create(&network, AI_NETWORK_DATA_CONFIG);
    CHECK(err.type == AI_ERROR_NONE);
    CHECK(ai_network_init(network, &params));
    CHECK(ai_network_get_info(network, &report));
    app_log("%s %s %s\n", report.model_name, report.model_signature, report.tool_revision);
    CHECK(report.n_inputs == AI_NETWORK_IN_NUM && report.n_outputs == AI_NETWORK_OUT_NUM);
    CHECK(report.activations.channels == AI_NETWORK_DATA_ACTIVATIONS_SIZE);
    CHECK(report.params.channels == AI_NETWORK_DATA_WEIGHTS_SIZE);
    in = report.inputs;
    out = report.outputs;
    in[0].n_batches = 1;
    return 0;
}

int application(const unsigned char *input, unsigned char *output)
{
    if (network == AI_HANDLE_NULL) {
        CHECK(start() == 0);
    }
#ifdef AI_NETWORK_INPUTS_IN_ACTIVATIONS
    memcpy(in[0].data, input, AI_NETWORK_IN_1_SIZE_BYTES);
#endif
    CHECK(ai_network_run(network, in, out) == 1);
    memcpy(output, out[0].data, AI_NETWORK_OUT_1_SIZE_BYTES);
    return 0;
}
