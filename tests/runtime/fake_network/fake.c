#include "fake.h"

/* Bytes of stack one inference touches, so that its measurement can be checked. */
#ifndef FAKE_STACK
#define FAKE_STACK 16
#endif

volatile int fake_fails;
volatile int fake_weights_missing;

static ai_tensor fake_tensors[2];
static ai_tensor fake_bare_tensors[2];
static ai_network fake_instance = {NULL, NULL, NULL, fake_tensors, NULL, NULL};
static ai_network fake_bare_instance = {NULL, NULL, NULL, fake_bare_tensors, NULL, NULL};

__attribute__((aligned(FAKE_ARENA_ALIGNMENT), section(".nn_arena"))) static uint8_t fake_arena[FAKE_ARENA_SIZE];

static const int32_t fake_shape[2] = {1, 16};
static const float fake_scale[1] = {0.5F};
static const int32_t fake_zero_point[1] = {-1};
static const ai_quantization_info fake_quant = {fake_scale, fake_zero_point, -1, 1U};
static const ai_tensor_info fake_inputs[1] = {
    {"in", fake_shape, &fake_quant, FAKE_SIZE, 0U, 2U, AI_DTYPE_INT8, 1U, 0U}};
static const ai_tensor_info fake_outputs[1] = {
    {"out", fake_shape, NULL, FAKE_SIZE, FAKE_SIZE, 2U, AI_DTYPE_INT8, 1U, 0U}};

/* The bare network: its input has no place in the arena, its output stays there; shorts with a scale each. */
static const int32_t fake_bare_shape[2] = {4, 2};
static const float fake_bare_scale[4] = {0.5F, 0.25F, 1.0F, 2.0F};
static const int32_t fake_bare_zero_point[4] = {0, 10, 0, -20};
static const ai_quantization_info fake_bare_quant = {fake_bare_scale, fake_bare_zero_point, 0, 4U};
static const ai_tensor_info fake_bare_inputs[1] = {
    {"in", fake_bare_shape, &fake_bare_quant, FAKE_SIZE, AI_NO_OFFSET, 2U, AI_DTYPE_INT16, 2U, 0U}};
static const ai_tensor_info fake_bare_outputs[1] = {
    {"out", fake_bare_shape, &fake_bare_quant, FAKE_SIZE, FAKE_SIZE, 2U, AI_DTYPE_INT16, 2U, AI_TENSOR_FIXED}};

#if AI_OBSERVER
static const ai_node_info fake_nodes[1] = {{"out", "increment", 16U}};
#endif

static const uint8_t *fake_params(void)
{
    return (fake_weights_missing != 0) ? NULL : fake_weights;
}

static ai_status fake_run(const ai_network *network)
{
    const uint8_t *const input = (const uint8_t *)network->tensors[0].data;
    uint8_t *const output = (uint8_t *)network->tensors[1].data;
    volatile uint8_t scratch[FAKE_STACK];
    uint32_t i;

    AI_NODE_EVENT(network, 0U, AI_NODE_START);
    for (i = 0U; i < (uint32_t)FAKE_STACK; i++) {
        scratch[i] = 0U;
    }
    for (i = 0U; i < FAKE_SIZE; i++) {
        output[i] = (uint8_t)(input[i] + fake_weights[i] + scratch[0]);
    }
    AI_NODE_EVENT(network, 0U, AI_NODE_STOP);
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
    .revision = "by hand",
    .params = fake_params,
#if AI_OBSERVER
    .nodes = fake_nodes,
#endif
    .rounding = AI_ROUND_AWAY,
};

#if defined(__ELF__)
extern const ai_model_info *const ai_fake_entry;
__attribute__((used, section("ai_models"))) const ai_model_info *const ai_fake_entry = &ai_fake_network;
#endif

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
    .inputs = fake_bare_inputs,
    .outputs = fake_bare_outputs,
    .run = fake_run,
    .instance = &fake_bare_instance,
    .activations = NULL,
    .revision = "by hand",
    .rounding = AI_ROUND_EVEN,
};

#if defined(__ELF__)
extern const ai_model_info *const ai_fake_bare_entry;
__attribute__((used, section("ai_models"))) const ai_model_info *const ai_fake_bare_entry = &ai_fake_bare_network;
#endif
