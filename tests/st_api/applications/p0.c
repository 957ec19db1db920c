/* Case 11: the oldest layout, buffers by value in the report and a table of constants. */
#include <string.h>

#include "ai_datatypes_defines.h"
#include "ai_platform.h"
#include "application.h"
#include "network.h"
#include "network_data.h"

AI_ALIGNED(4) static ai_u8 activations[AI_NETWORK_DATA_ACTIVATIONS_SIZE];

static const ai_network_params table[] = {{AI_NETWORK_DATA_WEIGHTS(0), AI_NETWORK_DATA_ACTIVATIONS(0)}};
static ai_buffer in[AI_NETWORK_IN_NUM] = {AI_NETWORK_IN_1};
static ai_buffer out[AI_NETWORK_OUT_NUM] = {AI_NETWORK_OUT_1};
static ai_handle network = AI_HANDLE_NULL;
AI_ALIGNED(4) static ai_u8 in_data[AI_NETWORK_IN_1_SIZE_BYTES];
AI_ALIGNED(4) static ai_u8 out_data[AI_NETWORK_OUT_1_SIZE_BYTES];

const unsigned application_input_bytes = AI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_NETWORK_OUT_1_SIZE_BYTES;

static int start(void)
{
    ai_network_params params = table[0];
    ai_network_report report;
    ai_error err = ai_network_create(&network, (const ai_buffer *)AI_NETWORK_DATA_CONFIG);

    CHECK(err.type == AI_ERROR_NONE);
    params.params.data = ai_network_data_weights_get();
    params.activations.data = AI_HANDLE_PTR(activations);
    CHECK(ai_network_init(network, &params));
    CHECK(ai_network_get_info(network, &report));
    app_log("%s: %d x %d x %d -> %d\n", report.model_name, (int)report.inputs.height, (int)report.inputs.width,
            (int)report.inputs.channels, (int)report.outputs.channels);
    CHECK(report.inputs.height == 8 && report.inputs.width == 8 && report.inputs.channels == 1);
    CHECK(report.outputs.channels == 10 && report.n_inputs == 1);
    CHECK(report.weights.channels == AI_NETWORK_DATA_WEIGHTS_SIZE && report.activations.data == activations);
    return 0;
}

int application(const unsigned char *input, unsigned char *output)
{
    if (network == AI_HANDLE_NULL) {
        CHECK(start() == 0);
    }
    memcpy(in_data, input, sizeof(in_data));
    in[0].n_batches = 1;
    in[0].data = AI_HANDLE_PTR(in_data);
    out[0].n_batches = 1;
    out[0].data = AI_HANDLE_PTR(out_data);
    CHECK(ai_network_run(network, &in[0], &out[0]) == 1);
    memcpy(output, out_data, sizeof(out_data));
    return 0;
}
