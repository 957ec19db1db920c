/* Case 9: the glue of the validation, a table of all functions, with details and events. It takes ai_bool from
 * elsewhere. */
#include <string.h>

#include "ai_platform.h"
#include "application.h"
#include "network.h"
#include "network_data.h"
#include "network_details.h"
#include "stai.h"
#include "stai_debug.h"
#include "stai_events.h"

struct entry {
    const char *name;
    stai_return_code (*init)(stai_network *network);
    stai_return_code (*deinit)(stai_network *network);
    stai_return_code (*run)(stai_network *network, const stai_run_mode mode);
    stai_return_code (*get_info)(stai_network *network, stai_network_info *info);
    stai_return_code (*get_error)(stai_network *network);
    stai_size (*get_context_size)(void);
    stai_return_code (*get_inputs)(stai_network *network, stai_ptr *inputs, stai_size *n_inputs);
    stai_return_code (*get_outputs)(stai_network *network, stai_ptr *outputs, stai_size *n_outputs);
    stai_return_code (*get_activations)(stai_network *network, stai_ptr *activations, stai_size *n_activations);
    stai_return_code (*get_weights)(stai_network *network, stai_ptr *weights, stai_size *n_weights);
    stai_return_code (*get_states)(stai_network *network, stai_ptr *states, stai_size *n_states);
    stai_return_code (*set_inputs)(stai_network *network, const stai_ptr *inputs, const stai_size n_inputs);
    stai_return_code (*set_outputs)(stai_network *network, const stai_ptr *outputs, const stai_size n_outputs);
    stai_return_code (*set_activations)(stai_network *network, const stai_ptr *activations, const stai_size n);
    stai_return_code (*set_weights)(stai_network *network, const stai_ptr *weights, const stai_size n_weights);
    stai_return_code (*set_states)(stai_network *network, const stai_ptr *states, const stai_size n_states);
    stai_return_code (*set_callback)(stai_network *network, const stai_event_cb callback, void *cookie);
    stai_network *context;
    const stai_network_details *details;
    int n_inputs;
    int n_outputs;
};

STAI_NETWORK_CONTEXT_DECLARE(context, STAI_NETWORK_CONTEXT_SIZE)
STAI_ALIGNED(32) static uint8_t pool[STAI_NETWORK_ACTIVATIONS_SIZE_BYTES];

static const struct entry entries[] = {{
    STAI_NETWORK_MODEL_NAME,
    stai_network_init,
    stai_network_deinit,
    stai_network_run,
    stai_network_get_info,
    stai_network_get_error,
    stai_network_get_context_size,
    stai_network_get_inputs,
    stai_network_get_outputs,
    stai_network_get_activations,
    stai_network_get_weights,
    stai_network_get_states,
    stai_network_set_inputs,
    stai_network_set_outputs,
    stai_network_set_activations,
    stai_network_set_weights,
    stai_network_set_states,
    stai_network_set_callback,
    context,
    &g_network_details,
    STAI_NETWORK_IN_NUM,
    STAI_NETWORK_OUT_NUM,
}};

static struct {
    ai_bool is_running;
    int starts;
    int stops;
    int wrong;
} seen;

const unsigned application_input_bytes = STAI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = STAI_NETWORK_OUT_1_SIZE_BYTES;

static void on_event(void *cookie, const stai_event_type event, const void *payload)
{
    const stai_event_node_start_stop *const node = (const stai_event_node_start_stop *)payload;
    const struct entry *const entry = (const struct entry *)cookie;

    if (event == STAI_EVENT_NODE_START) {
        seen.wrong += seen.is_running || node->node_id != seen.starts;
        seen.is_running = true;
        seen.starts++;
    } else if (event == STAI_EVENT_NODE_STOP) {
        seen.wrong += !seen.is_running || entry->details->nodes[seen.stops].id != node->node_id;
        seen.is_running = false;
        seen.stops++;
    }
    for (stai_size i = 0; i < node->buffers.size; i++) {
        seen.wrong += node->buffers.data[i] == NULL;
    }
}

static int check_info(const struct entry *entry)
{
    stai_network_info info;
    stai_runtime_info runtime;
    stai_size total = 0;

    CHECK(stai_runtime_get_info(&runtime) == STAI_SUCCESS && runtime.compiler_id == STAI_COMPILER_ID_GCC);
    CHECK(runtime.tools_version.major == STAI_TOOLS_VERSION_MAJOR);
    CHECK(entry->get_info(entry->context, &info) == STAI_SUCCESS);
    app_log("%s %s %d.%d.%d\n", info.c_model_name, info.model_signature, info.tool_version.major,
            STAI_TOOLS_VERSION_MINOR, STAI_TOOLS_VERSION_MICRO);
    CHECK(info.c_model_signature == STAI_NETWORK_MODEL_SIGNATURE);
    CHECK(strcmp(info.model_signature, STAI_NETWORK_ORIGIN_MODEL_SIGNATURE) == 0);
    CHECK(info.n_macc == STAI_NETWORK_MACC_NUM && info.n_nodes == entry->details->n_nodes);
    CHECK(info.n_inputs == entry->n_inputs && info.n_outputs == entry->n_outputs);
    CHECK(info.flags == STAI_NETWORK_FLAGS && (info.flags & STAI_FLAG_INPUTS) && (info.flags & STAI_FLAG_WEIGHTS));
    CHECK(info.inputs[0].size_bytes == STAI_NETWORK_IN_1_SIZE_BYTES && info.inputs[0].shape.size == 4);
    CHECK(info.inputs[0].shape.data[3] == 8 && strcmp(info.inputs[0].name, STAI_NETWORK_IN_1_NAME) == 0);
    CHECK(info.inputs[0].format == STAI_NETWORK_IN_1_FORMAT && info.outputs[0].shape.data[1] == 10);
    if (STAI_FORMAT_GET_TYPE(info.inputs[0].format) == STAI_FORMAT_TYPE_Q) {
        CHECK(info.inputs[0].scale.size == 1 && info.inputs[0].zeropoint.data[0] == -128);
        CHECK(STAI_FORMAT_GET_IBITS(info.inputs[0].format) == 7);
    }
    CHECK(info.activations[0].size_bytes == STAI_NETWORK_ACTIVATIONS_SIZE && info.n_states == 0);
    CHECK(info.weights[0].size_bytes == STAI_NETWORK_WEIGHTS_SIZE_BYTES);
    for (uint32_t i = 0; i < entry->details->n_nodes; i++) {
        const stai_node_details *const node = &entry->details->nodes[i];
        for (stai_size j = 0; j < node->output_tensors.size; j++) {
            const stai_tensor *const tensor = &entry->details->tensors[node->output_tensors.data[j]];
            app_log("%d %d %s\n", (int)node->id, node->type, tensor->name);
            total += tensor->size_bytes;
        }
    }
    CHECK(total >= STAI_NETWORK_OUT_SIZE_BYTES);
    return 0;
}

int application(const unsigned char *input, unsigned char *output)
{
    const struct entry *const entry = &entries[0];
    const stai_ptr acts[] = {pool};
    stai_ptr in[STAI_NETWORK_IN_NUM];
    stai_ptr out[STAI_NETWORK_OUT_NUM];
    stai_ptr weights[STAI_NETWORK_WEIGHTS_NUM];
    stai_size n = 0;

    STAI_ASSERT(entry != NULL);
    CHECK(entry->get_context_size() == STAI_NETWORK_CONTEXT_SIZE);
    CHECK(entry->init(entry->context) == STAI_SUCCESS);
    CHECK(entry->set_callback(entry->context, on_event, (void *)(uintptr_t)entry) == STAI_SUCCESS);
    CHECK(entry->set_activations(entry->context, acts, 1) == STAI_SUCCESS);
    CHECK(entry->get_weights(entry->context, weights, &n) == STAI_SUCCESS && n == 1);
    CHECK(entry->set_weights(entry->context, weights, 1) == STAI_SUCCESS);
    CHECK(entry->get_states(entry->context, NULL, &n) == STAI_SUCCESS && n == STAI_NETWORK_STATES_NUM);
    CHECK(entry->set_states(entry->context, NULL, 0) == STAI_SUCCESS);
    CHECK(check_info(entry) == 0);
    CHECK(entry->get_inputs(entry->context, in, &n) == STAI_SUCCESS);
    CHECK(entry->get_outputs(entry->context, out, &n) == STAI_SUCCESS);
    memset(&seen, 0, sizeof(seen));
    memcpy(in[0], input, STAI_NETWORK_IN_1_SIZE_BYTES);
    CHECK(entry->run(entry->context, STAI_MODE_SYNC) == STAI_SUCCESS);
    CHECK(entry->get_error(entry->context) == STAI_SUCCESS);
    CHECK(seen.starts == STAI_NETWORK_NODES_NUM && seen.stops == STAI_NETWORK_NODES_NUM && seen.wrong == 0);
    memcpy(output, out[0], STAI_NETWORK_OUT_1_SIZE_BYTES);
    CHECK(entry->set_callback(entry->context, NULL, NULL) == STAI_SUCCESS);
    CHECK(entry->deinit(entry->context) == STAI_SUCCESS);
    return 0;
}
