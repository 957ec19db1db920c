/* Two inputs, and outputs one of which is an input; descriptors of the application's own in layouts 0 and 1. */
#include <string.h>

#include "application.h"
#include "pair.h"
#include "pair_data.h"

AI_ALIGNED(4) static ai_u8 activations[AI_PAIR_DATA_ACTIVATIONS_SIZE];
AI_ALIGNED(4) static ai_u8 in_1[AI_PAIR_IN_1_SIZE_BYTES];
AI_ALIGNED(4) static ai_u8 in_2[AI_PAIR_IN_2_SIZE_BYTES];
AI_ALIGNED(4) static ai_u8 out_1[AI_PAIR_OUT_1_SIZE_BYTES];
AI_ALIGNED(4) static ai_u8 out_2[AI_PAIR_OUT_2_SIZE_BYTES];

const unsigned application_input_bytes = AI_PAIR_IN_1_SIZE_BYTES + AI_PAIR_IN_2_SIZE_BYTES;
const unsigned application_output_bytes = AI_PAIR_OUT_1_SIZE_BYTES + AI_PAIR_OUT_2_SIZE_BYTES;

static int start(ai_handle *pair)
{
#if AI_PLATFORM_LAYOUT == 2
    ai_network_params params =
        AI_NETWORK_PARAMS_INIT(AI_PAIR_DATA_WEIGHTS(ai_pair_data_weights_get()), AI_PAIR_DATA_ACTIVATIONS(activations));
#else
    ai_network_params params = {AI_PAIR_DATA_WEIGHTS(ai_pair_data_weights_get()),
                                AI_PAIR_DATA_ACTIVATIONS(activations)};
#endif

    CHECK(ai_pair_create(pair, AI_PAIR_DATA_CONFIG).type == AI_ERROR_NONE);
    CHECK(ai_pair_init(*pair, &params));
    return 0;
}

int application(const unsigned char *input, unsigned char *output)
{
    ai_handle pair = AI_HANDLE_NULL;
#if AI_PLATFORM_LAYOUT == 2
    ai_buffer *const in = AI_PAIR_IN;
    ai_buffer *const out = AI_PAIR_OUT;
#else
    ai_buffer in[AI_PAIR_IN_NUM] = AI_PAIR_IN;
    ai_buffer out[AI_PAIR_OUT_NUM] = AI_PAIR_OUT;
#endif

    CHECK(start(&pair) == 0);
    memcpy(in_1, input, sizeof(in_1));
    memcpy(in_2, input + sizeof(in_1), sizeof(in_2));
    in[0].data = AI_HANDLE_PTR(in_1);
    in[1].data = AI_HANDLE_PTR(in_2);
    out[0].data = AI_HANDLE_PTR(out_1);
    out[1].data = AI_HANDLE_PTR(out_2);
    CHECK(ai_pair_run(pair, in, out) == 1);
    memcpy(output, out_1, sizeof(out_1));
    memcpy(output + sizeof(out_1), out_2, sizeof(out_2));
    return 0;
}
