/* Case 5: the report and shapes, printed. */
#include <string.h>

#include "ai_platform.h"
#include "application.h"
#include "network.h"
#include "network_data.h"

AI_ALIGNED(4) static ai_u8 activations[AI_NETWORK_DATA_ACTIVATIONS_SIZE];
static ai_handle network = AI_HANDLE_NULL;

const unsigned application_input_bytes = AI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_NETWORK_OUT_1_SIZE_BYTES;

int application(const unsigned char *input, unsigned char *output)
{
    ai_network_report report;
    ai_buffer *in;
    ai_buffer *out;

    if (network == AI_HANDLE_NULL) {
        const ai_handle acts[] = {activations};
        CHECK(ai_network_create_and_init(&network, acts, NULL).type == AI_ERROR_NONE);
    }
    CHECK(ai_network_get_report(network, &report));
    app_log("model %s, %d inputs\n", report.model_name, report.n_inputs);
    in = &report.inputs[0];
    out = &report.outputs[0];
    app_log("%d x %d x %d\n", AI_BUFFER_SHAPE_ELEM(in, AI_SHAPE_HEIGHT), AI_BUFFER_SHAPE_ELEM(in, AI_SHAPE_WIDTH),
            AI_BUFFER_SHAPE_ELEM(in, AI_SHAPE_CHANNEL));
    CHECK(AI_BUFFER_SHAPE_ELEM(in, AI_SHAPE_HEIGHT) == 8 && AI_BUFFER_SHAPE_ELEM(in, AI_SHAPE_WIDTH) == 8);
    CHECK(AI_BUFFER_SHAPE_ELEM(in, AI_SHAPE_CHANNEL) == 1 && AI_BUFFER_SHAPE_ELEM(out, AI_SHAPE_CHANNEL) == 10);
    CHECK(strcmp(report.model_name, "network") == 0);
    CHECK(strlen(report.model_signature) == 64 && report.signature != 0);
    CHECK(report.n_macc == 61184 || report.n_macc > 0);
    CHECK(report.n_nodes == AI_NETWORK_N_NODES && report.api_version.minor == 2 && report.tool_api_version.minor == 5);
    memcpy(in->data, input, AI_NETWORK_IN_1_SIZE_BYTES);
    CHECK(ai_network_run(network, in, out) == 1);
    memcpy(output, out->data, AI_NETWORK_OUT_1_SIZE_BYTES);
    return 0;
}
