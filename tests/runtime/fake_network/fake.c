#include "fake.h"

/* Bytes of stack one inference touches, so that its measurement can be checked. */
#ifndef FAKE_STACK
#define FAKE_STACK 16
#endif

volatile int fake_fails;

static ai_tensor fake_tensors[2];
static ai_tensor fake_bare_tensors[2];
static ai_network fake_instance = {NULL, NULL, NULL, fake_tensors};
static ai_network fake_bare_instance = {NULL, NULL, NULL, fake_bare_tensors};

__attribute__((aligned(FAKE_ARENA_ALIGNMENT), section(".nn_arena"))) static uint8_t fake_arena[FAKE_ARENA_SIZE];

static const int32_t fake_shape[2] = {1, 16};
static const float fake_scale[1] = {0.5F};
static const int32_t fake_zero_point[1] = {-1};
static const ai_quantization_info fake_quant = {fake_scale, fake_zero_point, -1, 1U};
static const ai_tensor_info fake_inputs[1] = {{"in", fake_shape, &fake_quant, FAKE_SIZE, 0U, 2U, AI_DTYPE_INT8}};
static const ai_tensor_info fake_outputs[1] = {{"out", fake_shape, NULL, FAKE_SIZE, FAKE_SIZE, 2U, AI_DTYPE_INT8}};

static ai_status fake_run(ai_ptr activations)
{
    volatile uint8_t scratch[FAKE_STACK];
    uint32_t i;

    for (i = 0U; i < (uint32_t)FAKE_STACK; i++) {
        scratch[i] = 0U;
    }
    for (i = 0U; i < FAKE_SIZE; i++) {
        activations[FAKE_SIZE + i] = (uint8_t)(activations[i] + fake_weights[i] + scratch[0]);
    }
    if (fake_fails != 0) {
        fake_fails = 0;
        return AI_STATUS_ERROR;
    }
    return AI_STATUS_OK;
}

const ai_model_info ai_fake_network = {
    .name = "fake",
    .tool_version = "tvm-stm32 test",
    .model_file = "fake.onnx",
    .model_sha256 = "00",
    .activations_size = FAKE_ARENA_SIZE,
    .activations_align = FAKE_ARENA_ALIGNMENT,
    .params_size = FAKE_SIZE,
    .macs = 16U,
    .n_nodes = 1U,
    .n_inputs = 1U,
    .n_outputs = 1U,
    .inputs = fake_inputs,
    .outputs = fake_outputs,
    .run = fake_run,
    .instance = &fake_instance,
    .activations = fake_arena,
};

const ai_model_info ai_fake_bare_network = {
    .name = "fake_bare",
    .tool_version = "tvm-stm32 test",
    .model_file = "fake.onnx",
    .model_sha256 = "00",
    .activations_size = FAKE_ARENA_SIZE,
    .activations_align = FAKE_ARENA_ALIGNMENT,
    .params_size = FAKE_SIZE,
    .macs = 16U,
    .n_nodes = 1U,
    .n_inputs = 1U,
    .n_outputs = 1U,
    .inputs = fake_inputs,
    .outputs = fake_outputs,
    .run = fake_run,
    .instance = &fake_bare_instance,
    .activations = NULL,
};
