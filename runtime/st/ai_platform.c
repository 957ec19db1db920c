#include "st_client.h"

#include <string.h>

#define ST_CREATED 0xA1FACADEU

/* Keeps the first error until the application asks for it. Returns false for callers that hand it on. */
static ai_bool st_fail(st_client *client, ai_error_type type, ai_error_code code)
{
    if (client->error.type == (ai_u32)AI_ERROR_NONE) {
        client->error.type = (ai_u32)type & 0xFFU;
        client->error.code = (ai_u32)code & 0xFFFFFFU;
    }
    return false;
}

static ai_error st_error(ai_error_type type, ai_error_code code)
{
    ai_error error;

    error.type = (ai_u32)type & 0xFFU;
    error.code = (ai_u32)code & 0xFFFFFFU;
    return error;
}

/* Whether `network` is this network's handle, created and not destroyed. */
static ai_bool st_is_handle(const st_client *client, const void *network)
{
    return (network == (const void *)client) && (client->created == ST_CREATED);
}

/*
 * Descriptors of inputs and outputs point to where these lie in the activations, NULL before init. The others keep what
 * the application has set.
 */
static void st_bind(st_client *client)
{
    const st_client_info *const info = client->info;
    ai_u32 i;

    for (i = 0U; i < (ai_u32)info->n_inputs + info->n_outputs; i++) {
        ai_buffer *const buffer = (i < info->n_inputs) ? &info->inputs[i] : &info->outputs[i - info->n_inputs];

        if (st_has_home(info->model, i) != 0) {
            buffer->data = (client->instance != NULL) ? st_home(client->instance, i) : NULL;
        }
    }
}

static void st_release(st_client *client)
{
    if (client->instance != NULL) {
        st_close(client->instance);
    }
    client->instance = NULL;
    client->weights = NULL;
    client->activations = NULL;
    client->observer = NULL;
    st_bind(client);
}

ai_error st_client_create(st_client *client, ai_handle *network)
{
    if (network == NULL) {
        return st_error(AI_ERROR_INVALID_HANDLE, AI_ERROR_CODE_INVALID_PTR);
    }
    if (client->running != 0U) {
        *network = NULL;
        return st_error(AI_ERROR_CREATE_FAILED, AI_ERROR_CODE_IN_USE);
    }
    st_release(client);
    client->error = st_error(AI_ERROR_NONE, AI_ERROR_CODE_NONE);
    client->created = ST_CREATED;
    *network = (ai_handle)client;
    return client->error;
}

ai_handle st_client_destroy(st_client *client, ai_handle network)
{
    if (!st_is_handle(client, network)) {
        return network;
    }
    if (client->running != 0U) {
        (void)st_fail(client, AI_ERROR_DEALLOCATION_FAILED, AI_ERROR_CODE_IN_USE);
        return network;
    }
    st_release(client);
    client->created = 0U;
    return NULL;
}

ai_error st_client_get_error(st_client *client, ai_handle network)
{
    ai_error error;

    if (!st_is_handle(client, network)) {
        return st_error(AI_ERROR_INVALID_HANDLE, AI_ERROR_CODE_NETWORK);
    }
    error = client->error;
    client->error = st_error(AI_ERROR_NONE, AI_ERROR_CODE_NONE);
    return error;
}

/* Elements of a buffer of bytes. */
static ai_u32 st_bytes(const ai_buffer *buffer)
{
    return (ai_u32)(AI_BUFFER_SIZE(buffer) * AI_BUFFER_N_BATCHES(buffer));
}

/* The buffers of weights and activations that `params` holds, NULL where there is none. */
static void st_read_params(const ai_network_params *params, const ai_buffer **weights, const ai_buffer **activations)
{
#if AI_PLATFORM_LAYOUT == 2
    if (params->map_signature == AI_MAGIC_SIGNATURE) {
        *weights = AI_BUFFER_ARRAY_ITEM(&params->map_weights, 0);
        *activations = AI_BUFFER_ARRAY_ITEM(&params->map_activations, 0);
        return;
    }
#endif
    *weights = &params->params;
    *activations = &params->activations;
}

/* The address of a buffer, which may be that of this network's table of addresses. */
static ai_handle st_address(const ai_buffer *buffer, const ai_handle *table)
{
    if (buffer == NULL) {
        return NULL;
    }
    return (buffer->data == (const void *)table) ? table[1] : buffer->data;
}

/* Weights are where the linker put them, or where the application says when they are no part of the image. */
static ai_bool st_bind_weights(const st_client *client)
{
    const st_client_info *const info = client->info;

    if (client->weights == NULL) {
        return false;
    }
    return (client->weights == info->weights) || (client->weights == (const void *)st_weights(info->model)) ||
           (st_set_weights(info->model, client->weights) == 0);
}

ai_bool st_client_init(st_client *client, ai_handle network, const ai_network_params *params)
{
    const st_client_info *const info = client->info;
    const ai_buffer *weights = NULL;
    const ai_buffer *activations = NULL;

    if (!st_is_handle(client, network)) {
        return false;
    }
    if (client->running != 0U) {
        return st_fail(client, AI_ERROR_INIT_FAILED, AI_ERROR_CODE_IN_USE);
    }
    if (params == NULL) {
        return st_fail(client, AI_ERROR_INVALID_PARAM, AI_ERROR_CODE_NETWORK_PARAMS);
    }
    st_release(client);
    st_read_params(params, &weights, &activations);
    client->weights = st_address(weights, info->weights_table);
    client->activations = st_address(activations, info->activations_table);
    if (!st_bind_weights(client)) {
        return st_fail(client, AI_ERROR_INIT_FAILED, AI_ERROR_CODE_NETWORK_WEIGHTS);
    }
    if ((client->activations == NULL) || (((ai_uptr)client->activations % ST_CLIENT_ALIGNMENT) != 0U)) {
        return st_fail(client, AI_ERROR_INIT_FAILED, AI_ERROR_CODE_NETWORK_ACTIVATIONS);
    }
    if (st_bytes(activations) < info->activations_size) {
        return st_fail(client, AI_ERROR_INIT_FAILED, AI_ERROR_CODE_INVALID_SIZE);
    }
    client->instance = st_open(info->model, NULL, 0U, st_align(info->model, client->activations));
    if (client->instance == NULL) {
        return st_fail(client, AI_ERROR_INIT_FAILED,
                       (st_weights_missing(info->model) != 0) ? AI_ERROR_CODE_NETWORK_WEIGHTS : AI_ERROR_CODE_IN_USE);
    }
    st_bind(client);
    return true;
}

ai_handle st_client_weights(const st_client_info *info)
{
    const uint8_t *const weights = st_weights(info->model);

    return (weights != NULL) ? ST_CLIENT_FLASH(void, weights) : ST_CLIENT_FLASH(void, info->weights);
}

#if AI_PLATFORM_LAYOUT == 2
/* The maps of `params` or of a report are the network's own buffers. */
#define ST_SET_MAPS(info, target)                                                                                      \
    do {                                                                                                               \
        (target)->map_signature = AI_MAGIC_SIGNATURE;                                                                  \
        (target)->map_weights.flags = AI_FLAG_NONE;                                                                    \
        (target)->map_weights.size = 1U;                                                                               \
        (target)->map_weights.buffer = (info)->weights_map;                                                            \
        (target)->map_activations.flags = AI_FLAG_NONE;                                                                \
        (target)->map_activations.size = 1U;                                                                           \
        (target)->map_activations.buffer = (info)->activations_map;                                                    \
    } while (0)

ai_bool st_client_data_params_get(const st_client_info *info, ai_network_params *params)
{
    if (params == NULL) {
        return false;
    }
    info->weights_map->data = info->weights_table[1];
    info->activations_map->data = info->activations_table[1];
    ST_SET_MAPS(info, params);
    return true;
}

ai_error st_client_create_and_init(st_client *client, ai_handle *network, const ai_handle activations[],
                                   const ai_handle weights[])
{
    const ai_error error = st_client_create(client, network);
    ai_network_params params;

    if (error.type != (ai_u32)AI_ERROR_NONE) {
        return error;
    }
    (void)st_client_data_params_get(client->info, &params);
    if ((activations != NULL) && (activations[0] != NULL)) {
        (void)AI_BUFFER_ARRAY_ITEM_SET_ADDRESS(&params.map_activations, 0U, activations[0]);
    }
    if ((weights != NULL) && (weights[0] != NULL)) {
        (void)AI_BUFFER_ARRAY_ITEM_SET_ADDRESS(&params.map_weights, 0U, weights[0]);
    }
    (void)st_client_init(client, *network, &params);
    return st_client_get_error(client, *network);
}
#endif

static ai_buffer *st_buffers(const st_client *client, ai_handle network, ai_buffer *buffers, ai_u16 count,
                             ai_u16 *n_buffer)
{
    const ai_bool known = (network == NULL) || st_is_handle(client, network);

    if (n_buffer != NULL) {
        *n_buffer = known ? count : 0U;
    }
    return known ? buffers : NULL;
}

ai_buffer *st_client_inputs_get(st_client *client, ai_handle network, ai_u16 *n_buffer)
{
    return st_buffers(client, network, client->info->inputs, client->info->n_inputs, n_buffer);
}

ai_buffer *st_client_outputs_get(st_client *client, ai_handle network, ai_u16 *n_buffer)
{
    return st_buffers(client, network, client->info->outputs, client->info->n_outputs, n_buffer);
}

/*
 * Batches of the inputs, 0 after an error. More than one: consecutive samples in memory of the application; the
 * activations have room for one.
 */
static ai_u32 st_batches(st_client *client, const ai_buffer *buffers, ai_u32 first, ai_u32 count, ai_u32 batches,
                         ai_error_type type)
{
    ai_u32 i;

    for (i = 0U; i < count; i++) {
        const ai_u32 own = (ai_u32)AI_BUFFER_N_BATCHES(&buffers[i]);

        if (st_check(client->info->model, first + i, buffers[i].data) != ST_PLACED) {
            (void)st_fail(client, type, AI_ERROR_CODE_INVALID_PTR);
            return 0U;
        }
        if (batches == 0U) {
            batches = own;
        }
        if ((own == 0U) || (own != batches) ||
            ((own > 1U) && (buffers[i].data == st_home(client->instance, first + i)))) {
            (void)st_fail(client, type, AI_ERROR_CODE_INVALID_BATCH);
            return 0U;
        }
    }
    return batches;
}

/* Data of a buffer in one of its batches. */
static void *st_sample(const st_client *client, const ai_buffer *buffer, ai_u32 tensor, ai_u32 batch)
{
    return (void *)((uint8_t *)buffer->data + (size_t)batch * st_size(client->info->model, tensor));
}

/* One inference; false when it failed. Everything is checked already. */
static ai_bool st_infer(st_client *client, const ai_buffer *input, const ai_buffer *output, ai_u32 batch)
{
    const ai_u32 first = client->info->n_inputs;
    int failed;
    ai_u32 i;

    for (i = 0U; i < first; i++) {
        (void)st_place(client->instance, i, st_sample(client, &input[i], i, batch));
    }
    for (i = 0U; i < client->info->n_outputs; i++) {
        void *const place =
            (output != NULL) ? st_sample(client, &output[i], first + i, batch) : st_home(client->instance, first + i);
        if (st_place(client->instance, first + i, place) != ST_PLACED) {
            return st_fail(client, AI_ERROR_INVALID_OUTPUT, AI_ERROR_CODE_INVALID_PTR);
        }
    }
    client->running = 1U;
    failed = st_run(client->instance);
    client->running = 0U;
    if (failed != 0) {
        return st_fail(client, AI_ERROR_INVALID_STATE, AI_ERROR_CODE_NETWORK);
    }
    for (i = 0U; (output != NULL) && (i < client->info->n_outputs); i++) {
        st_collect(client->instance, first + i, st_sample(client, &output[i], first + i, batch));
    }
    return true;
}

ai_i32 st_client_run(st_client *client, ai_handle network, const ai_buffer *input, ai_buffer *output)
{
    const st_client_info *const info = client->info;
    ai_u32 batches = 0U;
    ai_u32 done = 0U;

    if (!st_is_handle(client, network)) {
        return -1;
    }
    if ((client->instance == NULL) || (client->running != 0U)) {
        (void)st_fail(client, AI_ERROR_INVALID_STATE,
                      (client->running != 0U) ? AI_ERROR_CODE_IN_USE : AI_ERROR_CODE_MISSED_INIT);
        return -1;
    }
    if ((input == NULL) && (info->n_inputs != 0U)) {
        (void)st_fail(client, AI_ERROR_INVALID_INPUT, AI_ERROR_CODE_INVALID_PTR);
        return -1;
    }
    if (info->n_inputs == 0U) {
        batches = 1U;
    } else {
        batches = st_batches(client, input, 0U, info->n_inputs, 0U, AI_ERROR_INVALID_INPUT);
    }
    if ((batches != 0U) && (output != NULL)) {
        batches = st_batches(client, output, info->n_inputs, info->n_outputs, batches, AI_ERROR_INVALID_OUTPUT);
    }
    while ((done < batches) && st_infer(client, input, output, done)) {
        done++;
    }
    return ((batches != 0U) && (done == batches)) ? (ai_i32)done : -1;
}

static ai_platform_version st_version(ai_u32 major, ai_u32 minor, ai_u32 micro)
{
    ai_platform_version version;

    version.major = (ai_u8)major;
    version.minor = (ai_u8)minor;
    version.micro = (ai_u8)micro;
    version.reserved = 0U;
    return version;
}

ai_platform_version ai_platform_runtime_get_version(void)
{
    const ai_u32 version = st_runtime_version();

    return st_version((version >> 16) & 0xFFU, (version >> 8) & 0xFFU, version & 0xFFU);
}

const char *ai_platform_runtime_get_revision(void)
{
    return st_runtime_revision();
}

ai_platform_version ai_platform_api_get_version(void)
{
    return st_version(AI_PLATFORM_API_MAJOR, AI_PLATFORM_API_MINOR, AI_PLATFORM_API_MICRO);
}

ai_platform_version ai_platform_interface_api_get_version(void)
{
    return ai_platform_api_get_version();
}

/* Weights or activations as one buffer of bytes, with the address in use. */
#if AI_PLATFORM_LAYOUT != 2
static ai_buffer st_byte_buffer(ai_u32 size, ai_handle data)
{
    ai_buffer buffer;

    (void)memset(&buffer, 0, sizeof(buffer));
    buffer.format = AI_BUFFER_FORMAT_U8;
    buffer.n_batches = 1U;
    buffer.height = 1U;
    buffer.width = 1U;
    buffer.channels = size;
    buffer.data = data;
    return buffer;
}
#endif

ai_bool st_client_get_report(st_client *client, ai_handle network, ai_network_report *report)
{
    const st_client_info *const info = client->info;
    st_facts facts;

    if (!st_is_handle(client, network)) {
        return false;
    }
    if (report == NULL) {
        return st_fail(client, AI_ERROR_INVALID_PARAM, AI_ERROR_CODE_INVALID_PTR);
    }
    st_get_facts(info->model, &facts);
    (void)memset(report, 0, sizeof(*report));
    report->model_name = info->name;
    report->model_signature = facts.signature;
    report->model_datetime = "";
    report->compile_datetime = "";
    report->runtime_revision = st_runtime_revision();
    report->runtime_version = ai_platform_runtime_get_version();
    report->tool_revision = facts.tool_version;
    report->tool_version = info->tool_version;
    report->tool_api_version =
        st_version(AI_TOOLS_API_VERSION_MAJOR, AI_TOOLS_API_VERSION_MINOR, AI_TOOLS_API_VERSION_MICRO);
    report->api_version = ai_platform_api_get_version();
    report->interface_api_version = ai_platform_interface_api_get_version();
    report->n_macc = info->n_macc;
    report->n_inputs = info->n_inputs;
    report->n_outputs = info->n_outputs;
#if AI_PLATFORM_LAYOUT == 0
    report->inputs = info->inputs[0];
    report->outputs = info->outputs[0];
    report->weights = st_byte_buffer(info->weights_size, client->weights);
    report->activations = st_byte_buffer(info->activations_size, client->activations);
#else
    report->inputs = info->inputs;
    report->outputs = info->outputs;
#endif
#if AI_PLATFORM_LAYOUT == 2
    if (client->instance != NULL) {
        info->weights_map->data = client->weights;
        info->activations_map->data = client->activations;
    }
    ST_SET_MAPS(info, report);
#elif AI_PLATFORM_LAYOUT == 1
    report->params = st_byte_buffer(info->weights_size, client->weights);
    report->activations = st_byte_buffer(info->activations_size, client->activations);
#endif
    report->n_nodes = facts.n_nodes;
    report->signature = st_signature(info->model);
    return true;
}

/* Types of operators: the first whose name an operator's own begins with, fused ones included. */
static const char *const st_types[] = {
    "operator",   "conv2d",     "depthwise_conv2d",
    "conv1d",     "dense",      "matmul",
    "max_pool2d", "avg_pool2d", "mean",
    "softmax",    "add",        "multiply",
    "reshape",    "concat",     "pad",
    "transpose",  "resize",     "lstm",
    "gru",        "relu",       "clip",
    "sigmoid",    "tanh",       "copy",
    "quantize",   "dequantize", "requantize",
};

static ai_u16 st_type_of(const char *name)
{
    ai_u16 i;

    for (i = 1U; i < (ai_u16)(sizeof(st_types) / sizeof(st_types[0])); i++) {
        if (strncmp(name, st_types[i], strlen(st_types[i])) == 0) {
            return i;
        }
    }
    return 0U;
}

const char *ai_layer_type_name(const int type)
{
    const int known = (int)(sizeof(st_types) / sizeof(st_types[0]));
    const int index = type & 0x7FFF;

    return st_types[(index < known) ? index : 0];
}

/* The network of a handle that may be any network's, created. */
static st_client *st_client_of(ai_handle network)
{
    st_client *const client = (st_client *)network;

    if ((network == NULL) || (((ai_uptr)network % sizeof(void *)) != 0U) || (client->created != ST_CREATED)) {
        return NULL;
    }
    return client;
}

static ai_bool st_describe(const st_client *client, ai_u32 index, ai_observer_node *node)
{
    const char *name = NULL;
    const char *type = NULL;

    if (st_get_node(client->info->model, index, &name, &type) == 0) {
        return false;
    }
    (void)memset(node, 0, sizeof(*node));
    node->c_idx = (ai_u16)index;
    node->id = (ai_u16)index;
    node->type = st_type_of(type);
    return true;
}

ai_bool ai_platform_observer_node_info(ai_handle network, ai_observer_node *node)
{
    st_client *const client = st_client_of(network);

    if (client == NULL) {
        return false;
    }
    if (node == NULL) {
        return st_fail(client, AI_ERROR_INVALID_PARAM, AI_ERROR_CODE_INVALID_PTR);
    }
    return st_describe(client, node->c_idx, node);
}

static void st_event(void *cookie, uint32_t index, int stop)
{
    st_client *const client = (st_client *)cookie;
    ai_observer_exec_ctx *const ctx = client->observer;
    ai_u32 event = (stop != 0) ? AI_OBSERVER_POST_EVT : AI_OBSERVER_PRE_EVT;

    if ((ctx == NULL) || ((ctx->flags & event) == 0U)) {
        return;
    }
    ctx->c_idx = (ai_u16)index;
    (void)st_describe(client, index, &ctx->cur);
    if (index == 0U) {
        event |= AI_OBSERVER_FIRST_EVT;
    }
    if (index + 1U == (uint32_t)ctx->n_nodes) {
        event |= AI_OBSERVER_LAST_EVT;
    }
    (void)ctx->on_node(ctx->cookie, event, &ctx->cur);
}

ai_bool ai_platform_observer_register_s(ai_handle network, ai_observer_exec_ctx *ctx)
{
    st_client *const client = st_client_of(network);
    st_facts facts;

    if (client == NULL) {
        return false;
    }
    if ((ctx == NULL) || (ctx->on_node == NULL)) {
        return st_fail(client, AI_ERROR_INVALID_PARAM, AI_ERROR_CODE_INVALID_PTR);
    }
    if ((client->instance == NULL) || (client->observer != NULL)) {
        return st_fail(client, AI_ERROR_INVALID_STATE,
                       (client->observer != NULL) ? AI_ERROR_CODE_IN_USE : AI_ERROR_CODE_MISSED_INIT);
    }
    client->hook.call = st_event;
    client->hook.cookie = client;
    if (st_observe(client->instance, &client->hook) != 0) {
        return st_fail(client, AI_ERROR_INVALID_STATE, AI_ERROR_CODE_NETWORK);
    }
    st_get_facts(client->info->model, &facts);
    ctx->flags |= AI_OBSERVER_REGISTERED;
    ctx->c_idx = 0U;
    ctx->n_nodes = facts.n_nodes;
    client->observer = ctx;
    return true;
}

ai_bool ai_platform_observer_register(ai_handle network, ai_observer_node_cb cb, ai_handle cookie, ai_u32 flags)
{
    st_client *const client = st_client_of(network);

    if (client == NULL) {
        return false;
    }
    if (client->observer != NULL) {
        return st_fail(client, AI_ERROR_INVALID_STATE, AI_ERROR_CODE_IN_USE);
    }
    client->own_observer.on_node = cb;
    client->own_observer.cookie = cookie;
    client->own_observer.flags = flags;
    return ai_platform_observer_register_s(network, &client->own_observer);
}

ai_bool ai_platform_observer_unregister_s(ai_handle network, ai_observer_exec_ctx *ctx)
{
    st_client *const client = st_client_of(network);

    if ((client == NULL) || (ctx == NULL) || (client->observer != ctx)) {
        return false;
    }
    (void)st_observe(client->instance, NULL);
    ctx->flags &= ~AI_OBSERVER_REGISTERED;
    client->observer = NULL;
    return true;
}

ai_bool ai_platform_observer_unregister(ai_handle network, ai_observer_node_cb cb, ai_handle cookie)
{
    st_client *const client = st_client_of(network);

    if ((client == NULL) || (client->observer == NULL) || (client->observer->on_node != cb) ||
        (client->observer->cookie != cookie)) {
        return false;
    }
    return ai_platform_observer_unregister_s(network, client->observer);
}

#if AI_PLATFORM_LAYOUT == 2

ai_size ai_buffer_get_size(const ai_buffer *buffer, const ai_bool with_padding)
{
    ai_size size = 1U;
    ai_u32 i;

    if ((buffer == NULL) || (buffer->shape.data == NULL)) {
        return 0U;
    }
    for (i = 0U; i < (ai_u32)buffer->shape.size; i++) {
        ai_size extent = buffer->shape.data[i];

        if (i == AI_SHAPE_BATCH) {
            continue;
        }
        if (with_padding && (i == AI_SHAPE_CHANNEL)) {
            extent = (ai_size)AI_PAD_CHANNELS(buffer->format, extent);
        }
        size *= extent;
    }
    return size;
}

ai_size ai_buffer_get_byte_size(const ai_size count, const ai_buffer_format format)
{
    return (ai_size)(((ai_u64)count * (ai_u64)(ai_u32)AI_BUFFER_FMT_GET_BITS(format) + 7U) >> 3);
}

ai_bool ai_buffer_array_is_empty(const ai_buffer_array *array)
{
    return (array == NULL) || (array->size == 0U) || (array->buffer == NULL);
}

ai_bool ai_buffer_array_is_valid(const ai_buffer_array *array)
{
    return !ai_buffer_array_is_empty(array);
}

ai_bool ai_buffer_array_sane(const ai_buffer_array *array)
{
    return ai_buffer_array_is_valid(array);
}

ai_size ai_buffer_array_get_byte_size(const ai_buffer_array *array)
{
    ai_size bytes = 0U;
    ai_u32 i;

    for (i = 0U; ai_buffer_array_sane(array) && (i < array->size); i++) {
        bytes += ai_buffer_get_byte_size(AI_BUFFER_SIZE(&array->buffer[i]), array->buffer[i].format);
    }
    return bytes;
}

ai_bool ai_buffer_array_item_set_address(ai_buffer_array *array, const ai_u32 index, ai_handle address)
{
    if (!ai_buffer_array_sane(array) || (index >= array->size)) {
        return false;
    }
    array->buffer[index].data = address;
    return true;
}

#endif
