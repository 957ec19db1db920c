/* What the embedded client API answers to misuse; ends with an inference that works. Built for every layout. */
#include <string.h>

#include "ai_datatypes_defines.h"
#include "ai_platform_interface.h"
#include "application.h"
#include "network.h"
#include "network_data.h"

AI_ALIGNED(8) static ai_u8 pool[AI_NETWORK_DATA_ACTIVATIONS_SIZE + 8];
AI_ALIGNED(8) static ai_u8 in_data[2 * AI_NETWORK_IN_1_SIZE_BYTES + 8];
AI_ALIGNED(8) static ai_u8 out_data[2 * AI_NETWORK_OUT_1_SIZE_BYTES + 8];

const unsigned application_input_bytes = AI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_NETWORK_OUT_1_SIZE_BYTES;

#define CHECK_ERROR(error_, type_, code_)                                                                              \
    do {                                                                                                               \
        const ai_error found = (error_);                                                                               \
        CHECK(found.type == AI_ERROR_##type_);                                                                         \
        CHECK(found.code == AI_ERROR_CODE_##code_);                                                                    \
    } while (0)

static ai_network_params params_of(ai_handle weights, ai_handle activations)
{
#if AI_PLATFORM_LAYOUT == 2
    ai_network_params params =
        AI_NETWORK_PARAMS_INIT(AI_NETWORK_DATA_WEIGHTS(weights), AI_NETWORK_DATA_ACTIVATIONS(activations));
#else
    ai_network_params params = {AI_NETWORK_DATA_WEIGHTS(weights), AI_NETWORK_DATA_ACTIVATIONS(activations)};
#endif
    return params;
}

static int check_init(ai_handle network)
{
    ai_network_params params = params_of(NULL, pool);

    CHECK(!ai_network_init(network, NULL));
    CHECK_ERROR(ai_network_get_error(network), INVALID_PARAM, NETWORK_PARAMS);
    CHECK_ERROR(ai_network_get_error(network), NONE, NONE);
    CHECK(!ai_network_init(network, &params));
    CHECK_ERROR(ai_network_get_error(network), INIT_FAILED, NETWORK_WEIGHTS);
    params = params_of(in_data, pool);
    CHECK(!ai_network_init(network, &params));
    CHECK_ERROR(ai_network_get_error(network), INIT_FAILED, NETWORK_WEIGHTS);
    params = params_of(ai_network_data_weights_get(), NULL);
    CHECK(!ai_network_init(network, &params));
    CHECK_ERROR(ai_network_get_error(network), INIT_FAILED, NETWORK_ACTIVATIONS);
    params = params_of(ai_network_data_weights_get(), pool + 1);
    CHECK(!ai_network_init(network, &params));
    CHECK_ERROR(ai_network_get_error(network), INIT_FAILED, NETWORK_ACTIVATIONS);
#if AI_PLATFORM_LAYOUT == 2
    params.activations.data = pool;
    AI_BUFFER_SET_SHAPE_ELEM(&params.activations, AI_SHAPE_CHANNEL, 16);
    CHECK(!ai_network_init(network, &params));
    AI_BUFFER_SET_SHAPE_ELEM(&params.activations, AI_SHAPE_CHANNEL, AI_NETWORK_DATA_ACTIVATIONS_SIZE);
#else
    params.activations.data = pool;
    params.activations.channels = 16;
    CHECK(!ai_network_init(network, &params));
#endif
    CHECK_ERROR(ai_network_get_error(network), INIT_FAILED, INVALID_SIZE);
    return 0;
}

static int check_run(ai_handle network, ai_buffer *in, ai_buffer *out)
{
    in->data = NULL;
    out->data = out_data;
    CHECK(ai_network_run(network, NULL, out) <= 0);
    CHECK_ERROR(ai_network_get_error(network), INVALID_INPUT, INVALID_PTR);
    CHECK(ai_network_run(network, in, out) <= 0);
    in->data = in_data;
    out->data = NULL;
    CHECK(ai_network_run(network, in, out) <= 0);
    /* The first error stays until it is asked for. */
    CHECK_ERROR(ai_network_get_error(network), INVALID_INPUT, INVALID_PTR);
    CHECK(ai_network_run(network, in, out) <= 0);
    CHECK_ERROR(ai_network_get_error(network), INVALID_OUTPUT, INVALID_PTR);
    out->data = out_data;
    if (AI_NETWORK_IN_1_SIZE_BYTES != AI_NETWORK_IN_1_SIZE) {
        in->data = in_data + 1;
        CHECK(ai_network_run(network, in, out) <= 0);
        CHECK_ERROR(ai_network_get_error(network), INVALID_INPUT, INVALID_PTR);
        in->data = in_data;
    }
    return 0;
}

static void set_batches(ai_buffer *buffer, unsigned batches)
{
#if AI_PLATFORM_LAYOUT == 2
    AI_BUFFER_SET_SHAPE_ELEM(buffer, AI_SHAPE_BATCH, batches);
#else
    buffer->n_batches = (ai_u16)batches;
#endif
}

static ai_handle busy;
static int busy_line;

static int check_busy(void)
{
    ai_network_params params = params_of(ai_network_data_weights_get(), pool);
    ai_handle other = AI_HANDLE_NULL;

    CHECK_ERROR(ai_network_create(&other, AI_NETWORK_DATA_CONFIG), CREATE_FAILED, IN_USE);
    CHECK(other == AI_HANDLE_NULL);
    CHECK(!ai_network_init(busy, &params));
    CHECK_ERROR(ai_network_get_error(busy), INIT_FAILED, IN_USE);
    CHECK(ai_network_destroy(busy) == busy);
    CHECK_ERROR(ai_network_get_error(busy), DEALLOCATION_FAILED, IN_USE);
    return 0;
}

static ai_u32 while_running(const ai_handle cookie, const ai_u32 flags, const ai_observer_node *node)
{
    (void)cookie;
    (void)flags;
    (void)node;
    busy_line = (busy_line == 0) ? check_busy() : busy_line;
    return 0;
}

int application(const unsigned char *input, unsigned char *output)
{
    ai_handle network = AI_HANDLE_NULL;
    ai_network_params params;
    ai_network_report report;
    ai_buffer *in;
    ai_buffer *out;

    CHECK_ERROR(ai_network_create(NULL, NULL), INVALID_HANDLE, INVALID_PTR);
    CHECK(ai_network_run(NULL, NULL, NULL) <= 0);
    CHECK(!ai_network_init(NULL, NULL) && !ai_network_get_report(NULL, &report));
    CHECK_ERROR(ai_network_get_error(NULL), INVALID_HANDLE, NETWORK);
    CHECK_ERROR(ai_network_get_error(in_data), INVALID_HANDLE, NETWORK);
    CHECK(ai_network_destroy(in_data) == in_data);
    in = ai_network_inputs_get(AI_HANDLE_NULL, NULL);
    out = ai_network_outputs_get(AI_HANDLE_NULL, NULL);
    CHECK(in != NULL && out != NULL && in->data == NULL && ai_network_inputs_get(in_data, NULL) == NULL);

    CHECK_ERROR(ai_network_create(&network, AI_NETWORK_DATA_CONFIG), NONE, NONE);
    CHECK(ai_network_run(network, in, out) <= 0);
    CHECK_ERROR(ai_network_get_error(network), INVALID_STATE, MISSED_INIT);
    CHECK(!ai_network_get_report(network, NULL));
    CHECK_ERROR(ai_network_get_error(network), INVALID_PARAM, INVALID_PTR);
    CHECK(!ai_platform_observer_register(network, while_running, NULL, AI_OBSERVER_PRE_EVT));
    CHECK_ERROR(ai_network_get_error(network), INVALID_STATE, MISSED_INIT);
    CHECK(check_init(network) == 0);

    /* Activations at a multiple of 4 bytes only. */
    params = params_of(ai_network_data_weights_get(), pool + 4);
    CHECK(ai_network_init(network, &params));
    CHECK((ai_u8 *)in->data >= pool + 4 && (ai_u8 *)in->data < pool + sizeof(pool));
    CHECK(check_run(network, in, out) == 0);

    /* Two samples at once. */
    memcpy(in_data, input, AI_NETWORK_IN_1_SIZE_BYTES);
    memcpy(in_data + AI_NETWORK_IN_1_SIZE_BYTES, input, AI_NETWORK_IN_1_SIZE_BYTES);
    set_batches(in, 2);
    CHECK(ai_network_run(network, in, out) <= 0);
    CHECK_ERROR(ai_network_get_error(network), INVALID_OUTPUT, INVALID_BATCH);
    set_batches(out, 2);
    CHECK(ai_network_run(network, in, out) == 2);
    CHECK(memcmp(out_data, out_data + AI_NETWORK_OUT_1_SIZE_BYTES, AI_NETWORK_OUT_1_SIZE_BYTES) == 0);
    set_batches(in, 0);
    CHECK(ai_network_run(network, in, out) <= 0);
    CHECK_ERROR(ai_network_get_error(network), INVALID_INPUT, INVALID_BATCH);
    set_batches(in, 1);
    set_batches(out, 1);

    busy = network;
    CHECK(ai_platform_observer_register(network, while_running, NULL, AI_OBSERVER_PRE_EVT));
    CHECK(ai_network_run(network, in, out) == 1 && busy_line == 0);
    memcpy(output, out_data, AI_NETWORK_OUT_1_SIZE_BYTES);
    CHECK(ai_network_destroy(network) == AI_HANDLE_NULL);
    CHECK(ai_network_destroy(network) == network);
    CHECK_ERROR(ai_network_get_error(network), INVALID_HANDLE, NETWORK);
    CHECK(ai_network_run(network, in, out) <= 0);
    return 0;
}
