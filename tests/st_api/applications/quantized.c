/* Case 4: scale and zero point of the input, element types by arithmetic on the format. */
#include <string.h>

#include "ai_platform.h"
#include "application.h"
#include "network.h"
#include "network_data.h"

AI_ALIGNED(32) static uint8_t pool[AI_NETWORK_DATA_ACTIVATIONS_SIZE];
static ai_handle network;

const unsigned application_input_bytes = AI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_NETWORK_OUT_1_SIZE_BYTES;

int application(const unsigned char *input, unsigned char *output)
{
    const ai_handle acts[] = {pool};
    ai_buffer *in;
    ai_buffer *out;
    float scale;
    int32_t zero_point;
    int32_t fmt;

    if (network == NULL) {
        CHECK(ai_network_create_and_init(&network, acts, NULL).type == AI_ERROR_NONE);
    }
    in = ai_network_inputs_get(network, NULL);
    out = ai_network_outputs_get(network, NULL);
    scale = AI_BUFFER_META_INFO_INTQ_GET_SCALE(in[0].meta_info, 0);
    zero_point = AI_BUFFER_META_INFO_INTQ_GET_ZEROPOINT(in[0].meta_info, 0);
    fmt = AI_BUFFER_FORMAT(&in[0]);
    if (AI_BUFFER_META_INFO_INTQ(in[0].meta_info)) {
        CHECK(scale > 0.00392f && scale < 0.00393f && zero_point == -128);
        CHECK(AI_BUFFER_META_INFO_INTQ_GET_SIZE(in[0].meta_info) == 1);
        CHECK(AI_BUFFER_FMT_GET_TYPE(fmt) == AI_BUFFER_FMT_TYPE_Q && AI_BUFFER_FMT_GET_SIGN(fmt) == 1);
        CHECK(AI_BUFFER_FMT_GET_BITS(fmt) - AI_BUFFER_FMT_GET_SIGN(fmt) - AI_BUFFER_FMT_GET_FBITS(fmt) == 7);
    } else {
        CHECK(scale == 0.0f && zero_point == 0);
        CHECK(AI_BUFFER_FMT_GET_TYPE(fmt) == AI_BUFFER_FMT_TYPE_FLOAT);
    }
    memcpy(in[0].data, input, AI_NETWORK_IN_1_SIZE_BYTES);
    CHECK(ai_network_run(network, in, out) == 1);
    memcpy(output, out[0].data, AI_NETWORK_OUT_1_SIZE_BYTES);
    return 0;
}
