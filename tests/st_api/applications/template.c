/* Case 1: the template of later tools. Activations in a pool, inputs and outputs inside of it or in arrays of the user.
 */
#include <string.h>

#include "ai_datatypes_defines.h"
#include "ai_platform.h"
#include "application.h"
#include "network.h"
#include "network_data.h"

AI_ALIGNED(32) static uint8_t pool0[AI_NETWORK_DATA_ACTIVATION_1_SIZE];

ai_handle data_activations0[] = {pool0};

#if !defined(AI_NETWORK_INPUTS_IN_ACTIVATIONS)
AI_ALIGNED(4) ai_i8 data_in_1[AI_NETWORK_IN_1_SIZE_BYTES];
ai_i8 *data_ins[AI_NETWORK_IN_NUM] = {data_in_1};
#else
ai_i8 *data_ins[AI_NETWORK_IN_NUM] = {NULL};
#endif

#if !defined(AI_NETWORK_OUTPUTS_IN_ACTIVATIONS)
AI_ALIGNED(4) ai_i8 data_out_1[AI_NETWORK_OUT_1_SIZE_BYTES];
ai_i8 *data_outs[AI_NETWORK_OUT_NUM] = {data_out_1};
#else
ai_i8 *data_outs[AI_NETWORK_OUT_NUM] = {NULL};
#endif

static ai_handle network = AI_HANDLE_NULL;
static ai_buffer *ai_input;
static ai_buffer *ai_output;

const unsigned application_input_bytes = AI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_NETWORK_OUT_1_SIZE_BYTES;

static int log_error(const ai_error err, const char *fct)
{
    app_log("%s: type=0x%02x code=0x%02x, %d %d\n", fct, err.type, err.code, err.type, err.code);
    return -1;
}

static int boot(ai_handle *act_addr)
{
    ai_error err = {AI_ERROR_INVALID_STATE, AI_ERROR_CODE_NETWORK};

    err = ai_network_create_and_init(&network, act_addr, NULL);
    if (err.type != AI_ERROR_NONE) {
        return log_error(err, "ai_network_create_and_init");
    }
    ai_input = ai_network_inputs_get(network, NULL);
    ai_output = ai_network_outputs_get(network, NULL);
#if defined(AI_NETWORK_INPUTS_IN_ACTIVATIONS)
    for (int idx = 0; idx < AI_NETWORK_IN_NUM; idx++) {
        data_ins[idx] = ai_input[idx].data;
    }
#else
    for (int idx = 0; idx < AI_NETWORK_IN_NUM; idx++) {
        ai_input[idx].data = data_ins[idx];
    }
#endif
#if defined(AI_NETWORK_OUTPUTS_IN_ACTIVATIONS)
    for (int idx = 0; idx < AI_NETWORK_OUT_NUM; idx++) {
        data_outs[idx] = ai_output[idx].data;
    }
#else
    for (int idx = 0; idx < AI_NETWORK_OUT_NUM; idx++) {
        ai_output[idx].data = data_outs[idx];
    }
#endif
    return 0;
}

static int run(void)
{
    ai_i32 batch = ai_network_run(network, ai_input, ai_output);

    if (batch != 1) {
        return log_error(ai_network_get_error(network), "ai_network_run");
    }
    return 0;
}

int application(const unsigned char *input, unsigned char *output)
{
    if (network == AI_HANDLE_NULL) {
        CHECK(boot(data_activations0) == 0);
    }
    memcpy(data_ins[0], input, AI_NETWORK_IN_1_SIZE_BYTES);
    CHECK(run() == 0);
    memcpy(output, data_outs[0], AI_NETWORK_OUT_1_SIZE_BYTES);
    return 0;
}
