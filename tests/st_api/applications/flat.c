/* Case 2: the flat sequence of tools up to 7.0, with descriptors and parameters of the application's own. */
#include <string.h>

#include "ai_datatypes_defines.h"
#include "ai_platform.h"
#include "application.h"
#include "mnist.h"
#include "mnist_data.h"

AI_ALIGNED(4) static ai_u8 activations[AI_MNIST_DATA_ACTIVATIONS_SIZE];
AI_ALIGNED(4) static ai_u8 in_data[AI_MNIST_IN_1_SIZE_BYTES];
AI_ALIGNED(4) static ai_u8 out_data[AI_MNIST_OUT_1_SIZE_BYTES];
static ai_handle mnist = AI_HANDLE_NULL;

const unsigned application_input_bytes = AI_MNIST_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_MNIST_OUT_1_SIZE_BYTES;

static int aiInit(void)
{
    ai_error err = ai_mnist_create(&mnist, (ai_buffer *)AI_MNIST_DATA_CONFIG);
    const ai_network_params params = {AI_MNIST_DATA_WEIGHTS(ai_mnist_data_weights_get()),
                                      AI_MNIST_DATA_ACTIVATIONS(activations)};

    CHECK(err.type == AI_ERROR_NONE);
    if (!ai_mnist_init(mnist, &params)) {
        err = ai_mnist_get_error(mnist);
        app_log("init error %d %d\n", err.type, err.code);
        return __LINE__;
    }
    return 0;
}

static int aiRun(const void *in, void *out)
{
    ai_buffer ai_input[AI_MNIST_IN_NUM] = AI_MNIST_IN;
    ai_buffer ai_output[AI_MNIST_OUT_NUM] = AI_MNIST_OUT;
    ai_i32 batches;

    ai_input[0].n_batches = 1;
    ai_input[0].data = AI_HANDLE_PTR(in);
    ai_output[0].n_batches = 1;
    ai_output[0].data = AI_HANDLE_PTR(out);
    CHECK(AI_BUFFER_WIDTH(&ai_input[0]) * AI_BUFFER_HEIGHT(&ai_input[0]) == AI_MNIST_IN_1_SIZE);
    if (AI_BUFFER_FMT_GET_TYPE(AI_BUFFER_FORMAT(&ai_input[0])) == AI_BUFFER_FMT_TYPE_FLOAT) {
        CHECK(AI_BUFFER_FMT_GET_BITS(AI_BUFFER_FORMAT(&ai_input[0])) == 32);
        CHECK(AI_BUFFER_FMT_GET_FLOAT(AI_BUFFER_FORMAT(&ai_input[0])) == 1);
    } else {
        CHECK(AI_BUFFER_FMT_GET_BITS(AI_BUFFER_FORMAT(&ai_input[0])) == 8);
        CHECK(AI_BUFFER_FMT_GET_SIGN(AI_BUFFER_FORMAT(&ai_input[0])) == 1);
        CHECK(AI_BUFFER_FMT_GET_FBITS(AI_BUFFER_FORMAT(&ai_input[0])) == 0);
    }
    batches = ai_mnist_run(mnist, &ai_input[0], &ai_output[0]);
    CHECK(batches == 1);
    return 0;
}

int application(const unsigned char *input, unsigned char *output)
{
    CHECK(aiInit() == 0);
    memcpy(in_data, input, sizeof(in_data));
    CHECK(aiRun(in_data, out_data) == 0);
    memcpy(output, out_data, sizeof(out_data));
    CHECK(ai_mnist_destroy(mnist) == AI_HANDLE_NULL);
    return 0;
}
