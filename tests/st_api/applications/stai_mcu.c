/* Case 8: a context with an attribute of its own, from runtime_init to set_outputs; names of the legacy interface are
 * free. */
#include <string.h>

#include "application.h"
#include "network.h"
#include "network_data.h"
#include "stai.h"

enum { AI_ERROR_NONE, AI_ERROR_INIT, AI_ERROR_RUN };

STAI_ALIGNED(STAI_NETWORK_CONTEXT_ALIGNMENT)
static stai_network context[STAI_NETWORK_CONTEXT_SIZE];
STAI_ALIGNED(32)
static uint8_t activations[STAI_NETWORK_ACTIVATIONS_SIZE_BYTES];
STAI_ALIGNED(4)
static uint8_t in_data[STAI_NETWORK_IN_1_SIZE_BYTES];
STAI_ALIGNED(4)
static uint8_t out_data[STAI_NETWORK_OUT_1_SIZE_BYTES];
static int ready;

const unsigned application_input_bytes = STAI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = STAI_NETWORK_OUT_1_SIZE_BYTES;

int ai_network_init(void);

int ai_network_init(void)
{
    const stai_ptr acts[] = {activations};
    const stai_ptr weights[] = {(stai_ptr)g_network_weights_array};
    const stai_ptr inputs[] = {in_data};
    const stai_ptr outputs[] = {out_data};

    if (stai_runtime_init() != STAI_SUCCESS || stai_network_init(context) != STAI_SUCCESS) {
        return AI_ERROR_INIT;
    }
    if (stai_network_set_activations(context, acts, STAI_NETWORK_ACTIVATIONS_NUM) != STAI_SUCCESS) {
        return AI_ERROR_INIT;
    }
    if (stai_network_set_weights(context, weights, STAI_NETWORK_WEIGHTS_NUM) != STAI_SUCCESS) {
        return AI_ERROR_INIT;
    }
    if (stai_network_set_inputs(context, inputs, STAI_NETWORK_IN_NUM) != STAI_SUCCESS) {
        return AI_ERROR_INIT;
    }
    if (stai_network_set_outputs(context, outputs, STAI_NETWORK_OUT_NUM) != STAI_SUCCESS) {
        return AI_ERROR_INIT;
    }
    return AI_ERROR_NONE;
}

int application(const unsigned char *input, unsigned char *output)
{
    stai_return_code code;

    if (!ready) {
        CHECK(ai_network_init() == AI_ERROR_NONE);
        ready = 1;
    }
    memcpy(in_data, input, sizeof(in_data));
    code = stai_network_run(context, STAI_MODE_SYNC);
    if (code != STAI_SUCCESS) {
        app_log("%s\n", stai_get_return_code_name(code));
        return AI_ERROR_RUN;
    }
    memcpy(output, out_data, sizeof(out_data));
    return 0;
}
