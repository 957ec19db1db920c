/* Case 6: the glue for several networks, a table of functions, and a printer of all there is to know. */
#include <string.h>

#include "ai_datatypes_defines.h"
#include "ai_platform_interface.h"
#include "application.h"
#include "network.h"
#include "network_data.h"

#define AI_MNETWORK_NUM (1)

typedef struct {
    const char *name;
    ai_error (*ai_create)(ai_handle *network, const ai_buffer *network_config);
    ai_error (*ai_create_and_init)(ai_handle *network, const ai_handle activations[], const ai_handle weights[]);
    ai_handle (*ai_destroy)(ai_handle network);
    ai_error (*ai_get_error)(ai_handle network);
    ai_bool (*ai_init)(ai_handle network, const ai_network_params *params);
    ai_i32 (*ai_run)(ai_handle network, const ai_buffer *input, ai_buffer *output);
    ai_i32 (*ai_forward)(ai_handle network, const ai_buffer *input);
    ai_bool (*ai_get_report)(ai_handle network, ai_network_report *report);
    ai_buffer *(*ai_inputs_get)(ai_handle network, ai_u16 *n_buffer);
    ai_buffer *(*ai_outputs_get)(ai_handle network, ai_u16 *n_buffer);
    ai_bool (*ai_data_params_get)(ai_network_params *params);
    ai_handle activations;
} ai_network_entry_t;

AI_ALIGNED(32)
AI_STATIC ai_u8 activations[AI_NETWORK_DATA_ACTIVATIONS_SIZE];

AI_STATIC const ai_network_entry_t networks[AI_MNETWORK_NUM] = {{
    .name = AI_NETWORK_MODEL_NAME,
    .ai_create = ai_network_create,
    .ai_create_and_init = ai_network_create_and_init,
    .ai_destroy = ai_network_destroy,
    .ai_get_error = ai_network_get_error,
    .ai_init = ai_network_init,
    .ai_run = ai_network_run,
    .ai_forward = ai_network_forward,
    .ai_get_report = ai_network_get_report,
    .ai_inputs_get = ai_network_inputs_get,
    .ai_outputs_get = ai_network_outputs_get,
    .ai_data_params_get = ai_network_data_params_get,
    .activations = activations,
}};

AI_STATIC ai_handle handle = AI_HANDLE_NULL;

const unsigned application_input_bytes = AI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_NETWORK_OUT_1_SIZE_BYTES;

AI_DECLARE_STATIC const ai_network_entry_t *find(const char *name)
{
    for (int i = 0; i < AI_MNETWORK_NUM; i++) {
        if (strcmp(name, networks[i].name) == 0) {
            return &networks[i];
        }
    }
    return NULL;
}

AI_API_ENTRY
ai_bool ai_mnetwork_start(const ai_network_entry_t *entry, ai_handle *network)
{
    ai_network_params params;
    ai_error err = entry->ai_create(network, NULL);

    if (err.type != AI_ERROR_NONE || !entry->ai_data_params_get(&params)) {
        return false;
    }
    for (int i = 0; i < params.map_activations.size; i++) {
        AI_BUFFER_ARRAY_ITEM_SET_ADDRESS(&params.map_activations, i, entry->activations);
    }
    return entry->ai_init(*network, &params);
}

static ai_u32 print_buffer(const ai_buffer *buffer)
{
    const ai_buffer_format fmt = AI_BUFFER_FORMAT(buffer);
    const ai_u32 bytes = (ai_u32)AI_BUFFER_BYTE_SIZE(AI_BUFFER_SIZE(buffer), fmt);

    for (int i = 0; i < (int)AI_BUFFER_SHAPE_SIZE(buffer); i++) {
        app_log("%d ", (int)AI_BUFFER_SHAPE_ELEM(buffer, i));
    }
    if (AI_BUFFER_META_INFO_INTQ(buffer->meta_info)) {
        for (int i = 0; i < (int)AI_BUFFER_META_INFO_INTQ_GET_SIZE(buffer->meta_info); i++) {
            app_log("%f %d ", (double)AI_BUFFER_META_INFO_INTQ_GET_SCALE(buffer->meta_info, i),
                    (int)AI_BUFFER_META_INFO_INTQ_GET_ZEROPOINT(buffer->meta_info, i));
        }
    }
    app_log("type=%d bits=%d bytes=" AIU32_FMT "\n", (int)AI_BUFFER_FMT_GET_TYPE(fmt), (int)AI_BUFFER_FMT_GET_BITS(fmt),
            bytes);
    return bytes;
}

static int print_report(ai_handle network)
{
    const ai_platform_version version = ai_platform_runtime_get_version();
    ai_network_report report;

    CHECK(networks[0].ai_get_report(network, &report));
    app_log("%s %d.%d.%d\n", ai_platform_runtime_get_revision(), version.major, version.minor, version.micro);
    app_log("%s %s %s %s\n", report.model_name, report.model_datetime, report.compile_datetime,
            report.runtime_revision);
    CHECK(report.map_activations.size == AI_NETWORK_DATA_ACTIVATIONS_COUNT);
    CHECK(report.map_weights.size == AI_NETWORK_DATA_WEIGHTS_COUNT);
    for (int i = 0; i < report.map_weights.size; i++) {
        const ai_buffer *item = AI_BUFFER_ARRAY_ITEM(&report.map_weights, i);
        CHECK(AI_BUFFER_SIZE(item) == AI_NETWORK_DATA_WEIGHTS_SIZE && item->data != NULL);
    }
    CHECK(AI_BUFFER_SIZE(AI_BUFFER_ARRAY_ITEM(&report.map_activations, 0)) == AI_NETWORK_DATA_ACTIVATIONS_SIZE);
    CHECK(AI_BUFFER_ARRAY_ITEM(&report.map_activations, 0)->data == activations);
    for (int i = 0; i < report.n_inputs; i++) {
        CHECK(print_buffer(&report.inputs[i]) == AI_NETWORK_IN_1_SIZE_BYTES);
    }
    CHECK(print_buffer(&report.outputs[0]) == AI_NETWORK_OUT_1_SIZE_BYTES);
    CHECK(AI_BUFFER_SHAPE_SIZE(&report.inputs[0]) == 4);
    return 0;
}

int application(const unsigned char *input, unsigned char *output)
{
    const ai_network_entry_t *const entry = find("network");
    ai_buffer *ins;
    ai_buffer *outs;
    ai_u16 n_ins = 0;

    CHECK(entry != NULL);
    if (handle == AI_HANDLE_NULL) {
        CHECK(ai_mnetwork_start(entry, &handle));
        CHECK(print_report(handle) == 0);
    }
    ins = entry->ai_inputs_get(handle, &n_ins);
    outs = entry->ai_outputs_get(handle, NULL);
    CHECK(n_ins == 1);
    memcpy(AI_BUFFER_DATA(&ins[0], ai_u8), input, AI_NETWORK_IN_1_SIZE_BYTES);
    CHECK(entry->ai_run(handle, ins, outs) == 1);
    memcpy(output, AI_BUFFER_DATA(&outs[0], ai_u8), AI_NETWORK_OUT_1_SIZE_BYTES);
    return 0;
}
