/* What the stai interface answers to misuse; ends with an inference that works, on one of two contexts of a network. */
#include <string.h>

#include "application.h"
#include "network.h"
#include "network_data.h"
#include "stai_events.h"

STAI_NETWORK_CONTEXT_DECLARE(context, STAI_NETWORK_CONTEXT_SIZE)
STAI_NETWORK_CONTEXT_DECLARE(second, STAI_NETWORK_CONTEXT_SIZE)
STAI_ALIGNED(8) static uint8_t pool[STAI_NETWORK_ACTIVATIONS_SIZE_BYTES + 8];
STAI_ALIGNED(8) static uint8_t second_pool[STAI_NETWORK_ACTIVATIONS_SIZE_BYTES];
STAI_ALIGNED(8) static uint8_t in_data[STAI_NETWORK_IN_1_SIZE_BYTES + 8];
STAI_ALIGNED(8) static uint8_t out_data[STAI_NETWORK_OUT_1_SIZE_BYTES + 8];

const unsigned application_input_bytes = STAI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = STAI_NETWORK_OUT_1_SIZE_BYTES;

/* The call's answer, which all further calls repeat until the context is started anew. */
#define CHECK_STICKY(call_, code_)                                                                                     \
    do {                                                                                                               \
        stai_size n_ = 0;                                                                                              \
        CHECK(stai_network_init(context) == STAI_SUCCESS);                                                             \
        CHECK((call_) == (code_));                                                                                     \
        CHECK(stai_network_get_error(context) == (code_));                                                             \
        CHECK(stai_network_get_inputs(context, NULL, &n_) == (code_));                                                 \
        CHECK(stai_network_set_inputs(context, NULL, 0) == (code_));                                                   \
        CHECK(stai_network_get_error(context) == (code_));                                                             \
    } while (0)

static int check_lists(void)
{
    const stai_ptr null[] = {NULL};
    const stai_ptr odd[] = {pool + 1};
    const stai_ptr acts[] = {pool};
    stai_network_info *const no_info = NULL;

    CHECK_STICKY(stai_network_get_inputs(context, NULL, NULL), STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    CHECK_STICKY(stai_network_get_info(context, no_info), STAI_ERROR_NETWORK_INVALID_INFO);
    CHECK_STICKY(stai_network_set_activations(context, NULL, 1), STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    CHECK_STICKY(stai_network_set_activations(context, acts, 2), STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_NUM);
    CHECK_STICKY(stai_network_set_activations(context, null, 1), STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_PTR);
    CHECK_STICKY(stai_network_set_activations(context, odd, 1), STAI_ERROR_INVALID_BUFFER_ALIGNMENT);
    CHECK_STICKY(stai_network_set_weights(context, NULL, 1), STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    CHECK_STICKY(stai_network_set_weights(context, acts, 0), STAI_ERROR_NETWORK_INVALID_WEIGHTS_NUM);
    CHECK_STICKY(stai_network_set_weights(context, null, 1), STAI_ERROR_NETWORK_INVALID_WEIGHTS_PTR);
    CHECK_STICKY(stai_network_set_weights(context, acts, 1), STAI_ERROR_NETWORK_INVALID_WEIGHTS_PTR);
    CHECK_STICKY(stai_network_set_weights(context, odd, 1), STAI_ERROR_INVALID_BUFFER_ALIGNMENT);
    CHECK_STICKY(stai_network_set_inputs(context, acts, 2), STAI_ERROR_NETWORK_INVALID_IN_NUM);
    CHECK_STICKY(stai_network_set_inputs(context, null, 1), STAI_ERROR_NETWORK_INVALID_IN_PTR);
    CHECK_STICKY(stai_network_set_outputs(context, acts, 0), STAI_ERROR_NETWORK_INVALID_OUT_NUM);
    CHECK_STICKY(stai_network_set_outputs(context, null, 1), STAI_ERROR_NETWORK_INVALID_OUT_PTR);
    if (STAI_NETWORK_IN_1_SIZE_BYTES != STAI_NETWORK_IN_1_SIZE) {
        CHECK_STICKY(stai_network_set_inputs(context, odd, 1), STAI_ERROR_INVALID_BUFFER_ALIGNMENT);
        CHECK_STICKY(stai_network_set_outputs(context, odd, 1), STAI_ERROR_INVALID_BUFFER_ALIGNMENT);
    }
    CHECK_STICKY(stai_network_run(context, STAI_MODE_SYNC), STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_PTR);
    return 0;
}

static int check_context(void)
{
    STAI_ALIGNED(8) static stai_network unknown[STAI_NETWORK_CONTEXT_SIZE + 8];
    stai_size n;

    CHECK(stai_network_init(NULL) == STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
    CHECK(stai_network_init(unknown + 4) == STAI_ERROR_NETWORK_INVALID_CONTEXT_ALIGNMENT);
    CHECK(stai_network_run(NULL, STAI_MODE_SYNC) == STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
    CHECK(stai_network_run(unknown + 4, STAI_MODE_SYNC) == STAI_ERROR_NETWORK_INVALID_CONTEXT_ALIGNMENT);
    CHECK(stai_network_run(unknown, STAI_MODE_SYNC) == STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
    CHECK(stai_network_get_error(unknown) == STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
    CHECK(stai_network_get_outputs(NULL, NULL, &n) == STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
    CHECK(stai_network_deinit(unknown) == STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
    /* init does not ask for a cleared buffer. */
    memset(unknown, 0xA5, sizeof(unknown));
    CHECK(stai_network_init(unknown) == STAI_SUCCESS && stai_network_get_error(unknown) == STAI_SUCCESS);
    CHECK(stai_network_deinit(unknown) == STAI_SUCCESS);
    CHECK(stai_network_get_error(unknown) == STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
    CHECK(stai_runtime_get_info(NULL) == STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    CHECK(stai_runtime_deinit() == STAI_SUCCESS);
    return 0;
}

static int check_names(void)
{
    CHECK(strcmp(stai_get_return_code_name(STAI_ERROR_NETWORK_INVALID_IN_PTR), "STAI_ERROR_NETWORK_INVALID_IN_PTR") ==
          0);
    CHECK(strcmp(stai_get_format_name(STAI_FORMAT_S8), "STAI_FORMAT_S8") == 0);
    CHECK(strcmp(stai_get_format_type_name(STAI_FORMAT_TYPE_Q), "STAI_FORMAT_TYPE_Q") == 0);
    CHECK(stai_init_format(STAI_FORMAT_TYPE_Q, 1, 8, 0) == STAI_FORMAT_S8);
    CHECK(stai_init_format(STAI_FORMAT_TYPE_FLOAT, 1, 32, 0) == STAI_FORMAT_FLOAT32);
    CHECK(stai_init_format(STAI_FORMAT_TYPE_Q, 1, 16, 15) == STAI_FORMAT_Q15);
    return 0;
}

static stai_return_code run_in_run;

static void on_event(void *cookie, const stai_event_type event, const void *payload)
{
    (void)event;
    (void)payload;
    run_in_run = stai_network_run((stai_network *)cookie, STAI_MODE_SYNC);
}

int application(const unsigned char *input, unsigned char *output)
{
    const stai_ptr acts[] = {pool + 4};
    const stai_ptr second_acts[] = {second_pool};
    const stai_ptr ins[] = {in_data};
    const stai_ptr outs[] = {out_data};
    stai_ptr in[STAI_NETWORK_IN_NUM];
    stai_ptr out[STAI_NETWORK_OUT_NUM];
    stai_size n;

    CHECK(check_context() == 0 && check_lists() == 0 && check_names() == 0);
    CHECK(stai_network_init(context) == STAI_SUCCESS && stai_network_init(second) == STAI_SUCCESS);
    CHECK(stai_network_get_inputs(context, in, &n) == STAI_SUCCESS && in[0] == NULL);
    CHECK(stai_network_set_activations(context, acts, 1) == STAI_SUCCESS);
    CHECK(stai_network_set_activations(second, second_acts, 1) == STAI_SUCCESS);
    CHECK(stai_network_set_callback(context, on_event, context) == STAI_SUCCESS);
    CHECK(stai_network_get_inputs(second, in, &n) == STAI_SUCCESS && n == 1);
    CHECK(stai_network_get_outputs(second, out, &n) == STAI_SUCCESS && n == 1);
    CHECK(stai_network_set_inputs(context, ins, 1) == STAI_SUCCESS);
    CHECK(stai_network_set_outputs(context, outs, 1) == STAI_SUCCESS);
    memset(in_data, 0, sizeof(in_data));
    memcpy(in[0], input, STAI_NETWORK_IN_1_SIZE_BYTES);
    CHECK(stai_network_run(context, STAI_MODE_SYNC) == STAI_SUCCESS);
    CHECK(run_in_run == STAI_ERROR_NETWORK_STILL_RUNNING && stai_network_get_error(context) == STAI_SUCCESS);
    CHECK(stai_network_run(second, STAI_MODE_ASYNC) == STAI_SUCCESS);
    memcpy(output, out[0], STAI_NETWORK_OUT_1_SIZE_BYTES);
    CHECK(memcmp(output, out_data, STAI_NETWORK_OUT_1_SIZE_BYTES) != 0);
    CHECK(stai_network_deinit(context) == STAI_SUCCESS && stai_network_deinit(second) == STAI_SUCCESS);
    return 0;
}
