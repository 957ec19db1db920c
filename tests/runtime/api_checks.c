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
    CHECK(ai_create_in(&ai_fake_bare_network, memories[1].bytes, AI_INSTANCE_SIZE(1, 1), arenas[1].bytes, &b) ==
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
        error_texts(handle);
        after_destroy(handle);
    }
    two_instances();
    if (failures != 0U) {
        port_print("status=error checks failed\n");
        return 1;
    }
    port_print("status=ok\n");
    return 0;
}
