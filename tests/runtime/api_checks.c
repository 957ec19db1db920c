/* Checks of the ai_* API; prints the line of each that fails, and status=ok when none did. */
#include "fake.h"
#include "port.h"

#define CHECK(condition) check((condition) ? 1 : 0, __LINE__)

static uint32_t failures;

/* One arena too many bytes long, to have a misaligned one. */
static union {
    uint64_t align;
    uint8_t bytes[FAKE_ARENA_SIZE + FAKE_ARENA_ALIGNMENT];
} arenas[2];

static union {
    void *align;
    uint8_t bytes[AI_INSTANCE_SIZE(1, 1) + sizeof(void *)];
} memories[2];

static void check(int holds, int line)
{
    if (holds == 0) {
        failures++;
        port_print("failed at line ");
        port_print_unsigned((uint64_t)line);
        port_print("\n");
    }
}

static int same(const char *a, const char *b)
{
    while ((*a == *b) && (*a != '\0')) {
        a++;
        b++;
    }
    return *a == *b;
}

static void set_input(ai_handle handle, uint8_t first)
{
    uint8_t *const data = (uint8_t *)ai_get_input(handle, 0U)->data;
    uint32_t i;

    for (i = 0U; i < FAKE_SIZE; i++) {
        data[i] = (uint8_t)(first + i);
    }
}

static int output_follows(ai_handle handle, uint8_t first)
{
    const uint8_t *const data = (const uint8_t *)ai_get_output(handle, 0U)->data;
    uint32_t i;

    for (i = 0U; i < FAKE_SIZE; i++) {
        if (data[i] != (uint8_t)(first + i + 1U)) {
            return 0;
        }
    }
    return 1;
}

static void null_handles(void)
{
    CHECK(ai_run(NULL) == AI_STATUS_ERROR);
    CHECK(ai_destroy(NULL) == AI_STATUS_ERROR);
    CHECK(ai_get_input_size(NULL) == 0U);
    CHECK(ai_get_output_size(NULL) == 0U);
    CHECK(ai_get_input(NULL, 0U) == NULL);
    CHECK(ai_get_output(NULL, 0U) == NULL);
    CHECK(ai_get_quantization(NULL) == NULL);
    CHECK(ai_get_name(NULL) == NULL);
    CHECK(ai_get_tool_version(NULL) == NULL);
    CHECK(ai_get_node_size(NULL) == 0U);
    CHECK(ai_get_activations_size(NULL) == 0U);
    CHECK(ai_get_params_size(NULL) == 0U);
    CHECK(ai_get_activations(NULL) == NULL);
    CHECK(ai_get_params(NULL) == NULL);
    CHECK(ai_static_instance(NULL) == NULL);
    CHECK(ai_static_instance(&ai_fake_network) == ai_fake_network.instance);
    CHECK(ai_get_revision(NULL) == NULL);
    CHECK(ai_get_datetime(NULL) == NULL);
    CHECK(ai_get_api_version(NULL) == NULL);
    CHECK(ai_get_tensor_size(NULL) == 0U);
    CHECK(ai_get_tensor_elements(NULL) == 0U);
    CHECK(ai_quantize_input(NULL, 0U, NULL) == AI_STATUS_ERROR);
    CHECK(ai_dequantize_output(NULL, 0U, NULL) == AI_STATUS_ERROR);
    CHECK(ai_set_observer(NULL, NULL, NULL) == AI_STATUS_ERROR);
    CHECK(ai_get_report(NULL, NULL) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(NULL), ""));
}

static void getters(ai_handle handle)
{
    const ai_quantization_info *quant;

    CHECK(same(ai_get_name(handle), "fake"));
    CHECK(same(ai_get_tool_version(handle), "tvm-stm32 test"));
    CHECK(ai_get_node_size(handle) == 1U);
    CHECK(ai_get_activations_size(handle) == FAKE_ARENA_SIZE);
    CHECK(ai_get_params_size(handle) == FAKE_SIZE);
    CHECK(ai_get_params(handle) == fake_weights);
    CHECK(same(ai_get_revision(handle), "by hand"));
    CHECK(same(ai_get_datetime(handle), ""));
    CHECK(same(ai_get_api_version(handle), AI_RUNTIME_API_VERSION));
    CHECK(ai_get_tensor_size(ai_get_input(handle, 0U)) == FAKE_SIZE);
    CHECK(ai_get_tensor_elements(ai_get_input(handle, 0U)) == 16U);
    CHECK(ai_get_activations(handle) == ai_fake_network.activations);
    CHECK(ai_get_input_size(handle) == 1U);
    CHECK(ai_get_output_size(handle) == 1U);
    CHECK(same(ai_get_input(handle, 0U)->info->name, "in"));
    CHECK(same(ai_get_output(handle, 0U)->info->name, "out"));
    CHECK(ai_get_input(handle, 0U)->info->dtype == (uint8_t)AI_DTYPE_INT8);
    CHECK(ai_get_input(handle, 0U)->info->ndim == 2U);
    CHECK(ai_get_input(handle, 0U)->info->shape[1] == 16);
    CHECK(ai_get_output(handle, 0U)->data == (void *)(ai_fake_network.activations + FAKE_SIZE));
    quant = ai_get_quantization(ai_get_input(handle, 0U));
    CHECK((quant != NULL) && (quant->scale[0] >= 0.5F) && (quant->scale[0] <= 0.5F));
    CHECK((quant != NULL) && (quant->zero_point[0] == -1) && (quant->dim == -1) && (quant->size == 1U));
    CHECK(ai_get_quantization(ai_get_output(handle, 0U)) == NULL);
}

static void error_texts(ai_handle handle)
{
    CHECK(same(ai_get_error(handle), ""));
    CHECK(ai_get_input(handle, 1U) == NULL);
    CHECK(same(ai_get_error(handle), "Input index out of range"));
    CHECK(same(ai_get_error(handle), ""));
    CHECK(ai_get_output(handle, 0xFFFFFFFFU) == NULL);
    CHECK(same(ai_get_error(handle), "Output index out of range"));
    fake_fails = 1;
    CHECK(ai_run(handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(handle), "The network's run function failed"));
    CHECK(ai_run(handle) == AI_STATUS_OK);
    CHECK(same(ai_get_error(handle), ""));
}

static void report(ai_handle handle)
{
    ai_report facts;

    CHECK(ai_get_report(handle, NULL) == AI_STATUS_ERROR);
    CHECK(ai_get_report(handle, &facts) == AI_STATUS_OK);
    CHECK(same(facts.name, "fake") && same(facts.signature, "00") && same(facts.model_file, "fake.onnx"));
    CHECK((facts.macs == 16U) && (facts.n_nodes == 1U) && (facts.n_inputs == 1U) && (facts.n_outputs == 1U));
    CHECK((facts.activations_size == FAKE_ARENA_SIZE) && (facts.params_size == FAKE_SIZE));
    CHECK(facts.instance_size == AI_INSTANCE_SIZE(1, 1));
}

static void moved_tensors(ai_handle handle)
{
    static uint8_t input[FAKE_SIZE];
    static uint8_t output[FAKE_SIZE];
    ai_tensor *const in = ai_get_input(handle, 0U);
    ai_tensor *const out = ai_get_output(handle, 0U);
    void *const places[2] = {in->data, out->data};

    in->data = input;
    out->data = output;
    set_input(handle, 5U);
    CHECK(ai_run(handle) == AI_STATUS_OK);
    CHECK(output[3] == 9U);
    in->data = NULL;
    CHECK(ai_run(handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(handle), "Network input NULL"));
    in->data = places[0];
    out->data = NULL;
    CHECK(ai_run(handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(handle), "Network output NULL"));
    out->data = places[1];
    CHECK(ai_run(handle) == AI_STATUS_OK);
}

static void conversion(ai_handle handle)
{
    static const float values[FAKE_SIZE] = {0.0F,  0.25F, -0.25F, 0.74F,  0.76F, 1e9F, -1e9F, 63.5F,
                                            64.0F, 64.5F, -63.0F, -64.0F, 1.25F, 3.0F, -3.0F, 0.2F};
    static const int8_t codes[FAKE_SIZE] = {-1, 0, -2, 0, 1, 127, -128, 126, 127, 127, -127, -128, 2, 5, -7, -1};
    const int8_t *const data = (const int8_t *)ai_get_input(handle, 0U)->data;
    float nan = values[0];
    float column[FAKE_SIZE];
    uint32_t i;

    CHECK(ai_quantize_input(handle, 0U, values) == AI_STATUS_OK);
    for (i = 0U; i < FAKE_SIZE; i++) {
        CHECK(data[i] == codes[i]);
        column[i] = values[i];
    }
    nan = nan / nan;
    column[0] = nan;
    CHECK(ai_quantize_input(handle, 0U, column) == AI_STATUS_OK);
    CHECK(data[0] == -128);
    CHECK(ai_quantize_input(handle, 0U, NULL) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(handle), "Values or tensor data NULL"));
    CHECK(ai_quantize_input(handle, 1U, values) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(handle), "Input index out of range"));
    CHECK(ai_dequantize_output(handle, 0U, column) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(handle), "The tensor is not quantized"));
}

/* The input of this network is the application's, its output stays, each row has a scale, halves go to even codes. */
static void external_input(void)
{
    static union {
        int32_t align;
        uint8_t bytes[FAKE_SIZE + 2U];
    } input;
    static const float values[8] = {0.25F, 0.75F, 0.125F, -1.0F, 2.5F, -3.5F, 1e9F, -1e9F};
    static const int16_t codes[8] = {0, 2, 10, 6, 2, -4, INT16_MAX, INT16_MIN};
    int16_t code;
    float column[8];
    ai_handle handle = NULL;
    uint32_t i;

    CHECK(ai_create(&ai_fake_bare_network, arenas[0].bytes, &handle) == AI_STATUS_OK);
    if (handle == NULL) {
        return;
    }
    CHECK(ai_get_params(handle) == NULL);
    CHECK(ai_get_input(handle, 0U)->data == NULL);
    CHECK(ai_run(handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(handle), "Network input NULL"));
    ai_get_input(handle, 0U)->data = &input.bytes[1];
    CHECK(ai_run(handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(handle), "Network input is not aligned"));
    CHECK(ai_quantize_input(handle, 0U, values) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(handle), "Tensor data is not aligned"));
    ai_get_input(handle, 0U)->data = input.bytes;
    CHECK(ai_quantize_input(handle, 0U, values) == AI_STATUS_OK);
    for (i = 0U; i < 8U; i++) {
        code = (int16_t)(uint16_t)(input.bytes[2U * i] | (uint16_t)(input.bytes[2U * i + 1U] << 8));
        CHECK(code == codes[i]);
    }
    CHECK(ai_run(handle) == AI_STATUS_OK);
    CHECK(ai_dequantize_output(handle, 0U, column) == AI_STATUS_OK);
    /* The bytes' increments make code 0 to 257 in row 0, and 4 scales of other rows likewise. */
    CHECK((column[0] >= 128.5F) && (column[0] <= 128.5F));
    CHECK((column[2] >= 0.25F * 257.0F) && (column[2] <= 0.25F * 257.0F));
    ai_get_output(handle, 0U)->data = input.bytes;
    CHECK(ai_run(handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(handle), "This network's inputs and outputs stay in its arena"));
    CHECK(ai_destroy(handle) == AI_STATUS_OK);
}

static uint32_t events[2];

static void count_event(void *cookie, const ai_node_event *event)
{
    CHECK(cookie == (void *)events);
    CHECK((event->index == 0U) && same(event->node->type, "increment") && same(event->node->name, "out"));
    events[(event->phase == AI_NODE_STOP) ? 1 : 0]++;
}

static void observer(ai_handle handle)
{
#if AI_OBSERVER
    CHECK(ai_set_observer(handle, count_event, events) == AI_STATUS_OK);
    CHECK(ai_run(handle) == AI_STATUS_OK);
    CHECK((events[0] == 1U) && (events[1] == 1U));
    CHECK(ai_set_observer(handle, NULL, NULL) == AI_STATUS_OK);
    CHECK(ai_run(handle) == AI_STATUS_OK);
    CHECK((events[0] == 1U) && (events[1] == 1U));
#else
    CHECK(ai_set_observer(handle, count_event, events) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(handle), "The network was compiled without AI_OBSERVER"));
#endif
}

static void registry(void)
{
    ai_model_iterator it;
    uint32_t found = 0U;

    for (it = ai_model_iterator_begin(); it != ai_model_iterator_end(); it = ai_model_iterator_next(it)) {
        const ai_model_info *const model = ai_model_iterator_value(it);
        found += (model == &ai_fake_network) ? 1U : 0U;
        found += (model == &ai_fake_bare_network) ? 16U : 0U;
    }
    CHECK(found == 17U);
    CHECK(ai_model_iterator_value(ai_model_iterator_end()) == NULL);
}

static void failing_creates(void)
{
    ai_handle handle = NULL;
    ai_handle first = NULL;

    CHECK(ai_create(NULL, NULL, &handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(NULL), "Model or handle pointer is NULL"));
    CHECK(same(ai_get_error(NULL), ""));
    CHECK(ai_create(&ai_fake_network, NULL, NULL) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(NULL), "Model or handle pointer is NULL"));
    CHECK(ai_create(&ai_fake_network, &arenas[0].bytes[1], &handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(NULL), "Activations arena is not aligned"));
    CHECK(handle == NULL);
    CHECK(ai_create(&ai_fake_bare_network, NULL, &handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(NULL), "No activations arena: the static one is left out of this build"));
    CHECK(ai_create(&ai_fake_network, NULL, &first) == AI_STATUS_OK);
    CHECK(ai_create(&ai_fake_network, NULL, &handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(NULL), "The model's static instance is in use"));
    fake_weights_missing = 1;
    CHECK(ai_create_in(&ai_fake_network, memories[0].bytes, sizeof(memories[0]), arenas[0].bytes, &handle) ==
          AI_STATUS_ERROR);
    CHECK(same(ai_get_error(NULL), "The weights are missing, damaged or those of another network"));
    fake_weights_missing = 0;
    CHECK(ai_destroy(first) == AI_STATUS_OK);
    CHECK(ai_create_in(&ai_fake_network, memories[0].bytes, AI_INSTANCE_SIZE(1, 1) - 1U, arenas[0].bytes, &handle) ==
          AI_STATUS_ERROR);
    CHECK(same(ai_get_error(NULL), "Instance memory is too small"));
    CHECK(ai_create_in(&ai_fake_network, &memories[0].bytes[1], AI_INSTANCE_SIZE(1, 1), arenas[0].bytes, &handle) ==
          AI_STATUS_ERROR);
    CHECK(same(ai_get_error(NULL), "Instance memory is not pointer-aligned"));
    CHECK(ai_create_in(&ai_fake_network, NULL, 1000U, NULL, &handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(NULL), "Model, memory, arena or handle pointer is NULL"));
    /* The static arena belongs to the static instance. */
    CHECK(ai_create_in(&ai_fake_network, memories[0].bytes, sizeof(memories[0]), NULL, &handle) == AI_STATUS_ERROR);
    CHECK(same(ai_get_error(NULL), "Model, memory, arena or handle pointer is NULL"));
}

static void two_instances(void)
{
    ai_handle a = NULL;
    ai_handle b = NULL;
    uint32_t i;

    CHECK(ai_create_in(&ai_fake_network, memories[0].bytes, AI_INSTANCE_SIZE(1, 1), arenas[0].bytes, &a) ==
          AI_STATUS_OK);
    CHECK(ai_create_in(&ai_fake_network, memories[1].bytes, AI_INSTANCE_SIZE(1, 1), arenas[1].bytes, &b) ==
          AI_STATUS_OK);
    if ((a == NULL) || (b == NULL)) {
        return;
    }
    for (i = 0U; i < 10U; i++) {
        set_input(a, (uint8_t)(3U * i));
        set_input(b, (uint8_t)(100U + i));
        CHECK(ai_run(a) == AI_STATUS_OK);
        CHECK(ai_run(b) == AI_STATUS_OK);
        CHECK(output_follows(a, (uint8_t)(3U * i)));
        CHECK(output_follows(b, (uint8_t)(100U + i)));
    }
    /* An error of one handle is not the other's. */
    CHECK(ai_get_input(a, 9U) == NULL);
    CHECK(same(ai_get_error(b), ""));
    CHECK(same(ai_get_error(a), "Input index out of range"));
    CHECK(ai_destroy(a) == AI_STATUS_OK);
    CHECK(ai_run(b) == AI_STATUS_OK);
    CHECK(ai_destroy(b) == AI_STATUS_OK);
}

static void after_destroy(ai_handle handle)
{
    CHECK(ai_destroy(handle) == AI_STATUS_OK);
    CHECK(ai_destroy(handle) == AI_STATUS_ERROR);
    CHECK(ai_run(handle) == AI_STATUS_ERROR);
    CHECK(ai_get_input_size(handle) == 0U);
    CHECK(ai_get_input(handle, 0U) == NULL);
    CHECK(ai_get_output(handle, 0U) == NULL);
    CHECK(ai_get_name(handle) == NULL);
    CHECK(ai_get_activations(handle) == NULL);
}

int main(int argc, char **argv)
{
    ai_handle handle = NULL;

    (void)argc;
    (void)argv;
    null_handles();
    failing_creates();
    CHECK(ai_create(&ai_fake_network, NULL, &handle) == AI_STATUS_OK);
    if (handle != NULL) {
        getters(handle);
        report(handle);
        conversion(handle);
        observer(handle);
        moved_tensors(handle);
        error_texts(handle);
        after_destroy(handle);
    }
    two_instances();
    external_input();
    registry();
    if (failures != 0U) {
        port_print("status=error checks failed\n");
        return 1;
    }
    port_print("status=ok\n");
    return 0;
}
