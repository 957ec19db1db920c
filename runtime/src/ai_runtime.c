#include "ai_runtime.h"

static const char ai_error_none[] = "";
static const char *ai_create_error = ai_error_none;

static ai_status ai_fail_create(const char *text, ai_handle *handle)
{
    ai_create_error = text;
    if (handle != NULL) {
        *handle = NULL;
    }
    return AI_STATUS_ERROR;
}

static void ai_bind(ai_tensor *tensor, const ai_tensor_info *info, ai_ptr activations)
{
    tensor->info = info;
    tensor->data = (void *)(activations + info->offset);
}

static ai_status ai_setup(const ai_model_info *model, ai_network *network, ai_ptr activations, ai_handle *handle)
{
    const ai_ptr arena = (activations != NULL) ? activations : model->activations;
    uint32_t i;

    if (arena == NULL) {
        return ai_fail_create("No activations arena: the static one is left out of this build", handle);
    }
    if (((uintptr_t)arena % model->activations_align) != 0U) {
        return ai_fail_create("Activations arena is not aligned", handle);
    }
    network->activations = arena;
    network->error = ai_error_none;
    for (i = 0U; i < model->n_inputs; i++) {
        ai_bind(&network->tensors[i], &model->inputs[i], arena);
    }
    for (i = 0U; i < model->n_outputs; i++) {
        ai_bind(&network->tensors[model->n_inputs + i], &model->outputs[i], arena);
    }
    if (model->reset != NULL) {
        model->reset(arena);
    }
    network->model = model;
    *handle = network;
    return AI_STATUS_OK;
}

ai_status ai_create(const ai_model_info *model, ai_ptr activations, ai_handle *handle)
{
    if ((model == NULL) || (handle == NULL)) {
        return ai_fail_create("Model or handle pointer is NULL", handle);
    }
    if (model->instance->model != NULL) {
        return ai_fail_create("The model's static instance is in use", handle);
    }
    return ai_setup(model, model->instance, activations, handle);
}

ai_status ai_create_in(const ai_model_info *model, void *memory, size_t memory_size, ai_ptr activations,
                       ai_handle *handle)
{
    ai_network *const network = (ai_network *)memory;

    if ((model == NULL) || (handle == NULL) || (memory == NULL) || (activations == NULL)) {
        return ai_fail_create("Model, memory, arena or handle pointer is NULL", handle);
    }
    if (((uintptr_t)memory % sizeof(void *)) != 0U) {
        return ai_fail_create("Instance memory is not pointer-aligned", handle);
    }
    if (memory_size < AI_INSTANCE_SIZE(model->n_inputs, model->n_outputs)) {
        return ai_fail_create("Instance memory is too small", handle);
    }
    network->tensors = (ai_tensor *)(void *)(network + 1);
    return ai_setup(model, network, activations, handle);
}

/* NULL for a handle that is NULL or was destroyed. */
static const ai_model_info *ai_model_of(ai_handle handle)
{
    return (handle != NULL) ? handle->model : NULL;
}

ai_status ai_destroy(ai_handle handle)
{
    if (ai_model_of(handle) == NULL) {
        return AI_STATUS_ERROR;
    }
    handle->model = NULL;
    return AI_STATUS_OK;
}

ai_status ai_reset(ai_handle handle)
{
    if ((handle == NULL) || (handle->model == NULL)) {
        return AI_STATUS_ERROR;
    }
    if (handle->model->reset != NULL) {
        handle->model->reset(handle->activations);
    }
    return AI_STATUS_OK;
}

ai_status ai_run(ai_handle handle)
{
    ai_status status;

    if (ai_model_of(handle) == NULL) {
        return AI_STATUS_ERROR;
    }
    status = handle->model->run(handle->activations);
    if (status != AI_STATUS_OK) {
        handle->error = "The network's run function failed";
    }
    return status;
}

const char *ai_get_error(ai_handle handle)
{
    const char *text;

    if (handle == NULL) {
        text = ai_create_error;
        ai_create_error = ai_error_none;
    } else {
        text = handle->error;
        handle->error = ai_error_none;
    }
    return text;
}

uint32_t ai_get_input_size(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? handle->model->n_inputs : 0U;
}

uint32_t ai_get_output_size(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? handle->model->n_outputs : 0U;
}

ai_tensor *ai_get_input(ai_handle handle, uint32_t index)
{
    if (ai_model_of(handle) == NULL) {
        return NULL;
    }
    if (index >= handle->model->n_inputs) {
        handle->error = "Input index out of range";
        return NULL;
    }
    return &handle->tensors[index];
}

ai_tensor *ai_get_output(ai_handle handle, uint32_t index)
{
    if (ai_model_of(handle) == NULL) {
        return NULL;
    }
    if (index >= handle->model->n_outputs) {
        handle->error = "Output index out of range";
        return NULL;
    }
    return &handle->tensors[handle->model->n_inputs + index];
}

const ai_quantization_info *ai_get_quantization(const ai_tensor *tensor)
{
    return (tensor != NULL) ? tensor->info->quant : NULL;
}

const char *ai_get_name(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? handle->model->name : NULL;
}

const char *ai_get_tool_version(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? handle->model->tool_version : NULL;
}

uint32_t ai_get_node_size(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? handle->model->n_nodes : 0U;
}

uint32_t ai_get_activations_size(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? handle->model->activations_size : 0U;
}

uint32_t ai_get_params_size(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? handle->model->params_size : 0U;
}

ai_ptr ai_get_activations(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? handle->activations : NULL;
}
