#include "ai_runtime.h"

#include <string.h>

/* The core's cycle counter; the application starts it (DWT->CTRL). Cores without one count nothing. */
#ifndef AI_CYCLES
#if defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__) || defined(__ARM_ARCH_8M_MAIN__) ||                          \
    defined(__ARM_ARCH_8_1M_MAIN__)
#define AI_CYCLES() (*(volatile const uint32_t *)0xE0001004U)
#else
#define AI_CYCLES() 0U
#endif
#endif

static const char ai_error_none[] = "";
static const char *ai_create_error = ai_error_none;

/* The instance that is being created, else NULL. */
static ai_network *ai_created = NULL;

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
    tensor->data = (info->offset != AI_NO_OFFSET) ? (void *)(activations + info->offset) : NULL;
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
    if ((model->params != NULL) && (model->params() == NULL)) {
        return ai_fail_create("The weights are missing, damaged or those of another network", handle);
    }
    network->activations = arena;
    network->error = ai_error_none;
    network->observer = NULL;
    network->cookie = NULL;
    for (i = 0U; i < model->n_inputs; i++) {
        ai_bind(&network->tensors[i], &model->inputs[i], arena);
    }
    for (i = 0U; i < model->n_outputs; i++) {
        ai_bind(&network->tensors[model->n_inputs + i], &model->outputs[i], arena);
    }
    if (model->reset != NULL) {
        ai_created = network;
        model->reset(arena);
        ai_created = NULL;
    }
    network->model = model;
    *handle = network;
    return AI_STATUS_OK;
}

void ai_place(uint32_t index, void *data)
{
    if (ai_created != NULL) {
        ai_created->tensors[index].data = data;
    }
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

ai_handle ai_static_instance(const ai_model_info *model)
{
    return (model != NULL) ? model->instance : NULL;
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
    handle->observer = NULL;
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

/* NULL when the tensor's memory can be used, else what is wrong with it. */
static const char *ai_check_tensor(const ai_network *network, const ai_tensor *tensor, int output)
{
    const ai_tensor_info *const info = tensor->info;

    if (tensor->data == NULL) {
        return (output != 0) ? "Network output NULL" : "Network input NULL";
    }
    if (((uintptr_t)tensor->data % info->alignment) != 0U) {
        return (output != 0) ? "Network output is not aligned" : "Network input is not aligned";
    }
    if (((info->flags & AI_TENSOR_FIXED) != 0U) && (tensor->data != (void *)(network->activations + info->offset))) {
        return "This network's inputs and outputs stay in its arena";
    }
    return NULL;
}

ai_status ai_run(ai_handle handle)
{
    ai_status status;
    uint32_t i;

    if (ai_model_of(handle) == NULL) {
        return AI_STATUS_ERROR;
    }
    for (i = 0U; i < (uint32_t)handle->model->n_inputs + handle->model->n_outputs; i++) {
        const char *const problem =
            ai_check_tensor(handle, &handle->tensors[i], (i >= handle->model->n_inputs) ? 1 : 0);
        if (problem != NULL) {
            handle->error = problem;
            return AI_STATUS_ERROR;
        }
    }
    status = handle->model->run(handle);
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

uint32_t ai_get_tensor_elements(const ai_tensor *tensor)
{
    uint32_t elements = 1U;
    uint32_t i;

    if (tensor == NULL) {
        return 0U;
    }
    for (i = 0U; i < tensor->info->ndim; i++) {
        elements *= (uint32_t)tensor->info->shape[i];
    }
    return elements;
}

uint32_t ai_get_tensor_size(const ai_tensor *tensor)
{
    return (tensor != NULL) ? tensor->info->size : 0U;
}

/* Elements that follow each other with the same scale: those of the dimensions behind the quantized one. */
static uint32_t ai_run_length(const ai_tensor_info *info)
{
    uint32_t length = 1U;
    int32_t i;

    for (i = info->quant->dim + 1; (info->quant->dim >= 0) && (i < (int32_t)info->ndim); i++) {
        length *= (uint32_t)info->shape[i];
    }
    return length;
}

/* Nearest integer within the limits; NaN becomes the least. */
static int32_t ai_nearest(float value, int32_t low, int32_t high, uint32_t rounding)
{
    int32_t whole;
    float rest;

    if (!(value > (float)low)) {
        return low;
    }
    if (value >= (float)high) {
        return high;
    }
    whole = (int32_t)value;
    rest = value - (float)whole;
    if (rest < 0.0f) {
        rest = -rest;
    }
    if ((rest > 0.5f) || ((rest >= 0.5f) && ((rounding == AI_ROUND_AWAY) || ((whole & 1) != 0)))) {
        whole += (value < 0.0f) ? -1 : 1;
    }
    return whole;
}

static int32_t ai_load(const ai_tensor *tensor, uint32_t i)
{
    int32_t code = 0;

    switch (tensor->info->dtype) {
    case AI_DTYPE_INT8:
        code = ((const int8_t *)tensor->data)[i];
        break;
    case AI_DTYPE_UINT8:
        code = ((const uint8_t *)tensor->data)[i];
        break;
    case AI_DTYPE_INT16:
        code = ((const int16_t *)tensor->data)[i];
        break;
    case AI_DTYPE_UINT16:
        code = ((const uint16_t *)tensor->data)[i];
        break;
    default:
        code = ((const int32_t *)tensor->data)[i];
        break;
    }
    return code;
}

static void ai_store(const ai_tensor *tensor, uint32_t i, int32_t code)
{
    switch (tensor->info->dtype) {
    case AI_DTYPE_INT8:
        ((int8_t *)tensor->data)[i] = (int8_t)code;
        break;
    case AI_DTYPE_UINT8:
        ((uint8_t *)tensor->data)[i] = (uint8_t)code;
        break;
    case AI_DTYPE_INT16:
        ((int16_t *)tensor->data)[i] = (int16_t)code;
        break;
    case AI_DTYPE_UINT16:
        ((uint16_t *)tensor->data)[i] = (uint16_t)code;
        break;
    default:
        ((int32_t *)tensor->data)[i] = code;
        break;
    }
}

/* Least and largest code of a quantized element type; 0 for others. */
static int ai_limits(uint8_t dtype, int32_t *low, int32_t *high)
{
    static const struct {
        uint8_t dtype;
        int32_t low;
        int32_t high;
    } limits[5] = {{AI_DTYPE_INT8, INT8_MIN, INT8_MAX},
                   {AI_DTYPE_UINT8, 0, UINT8_MAX},
                   {AI_DTYPE_INT16, INT16_MIN, INT16_MAX},
                   {AI_DTYPE_UINT16, 0, UINT16_MAX},
                   {AI_DTYPE_INT32, INT32_MIN, INT32_MAX}};
    uint32_t i;

    for (i = 0U; i < 5U; i++) {
        if (limits[i].dtype == dtype) {
            *low = limits[i].low;
            *high = limits[i].high;
            return 1;
        }
    }
    return 0;
}

/* Writes the tensor from floats, or reads it as floats: one of both pointers is NULL. */
static ai_status ai_convert(ai_handle handle, const ai_tensor *tensor, const float *from, float *to)
{
    const ai_quantization_info *quant;
    int32_t low = 0;
    int32_t high = 0;
    uint32_t elements;
    uint32_t run;
    uint32_t i;

    if (tensor == NULL) {
        return AI_STATUS_ERROR; /* with an error text already, when there is a handle */
    }
    if (((from == NULL) && (to == NULL)) || (tensor->data == NULL)) {
        handle->error = "Values or tensor data NULL";
        return AI_STATUS_ERROR;
    }
    if (((uintptr_t)tensor->data % tensor->info->alignment) != 0U) {
        handle->error = "Tensor data is not aligned";
        return AI_STATUS_ERROR;
    }
    if (tensor->info->dtype == (uint8_t)AI_DTYPE_FLOAT32) {
        if (from != NULL) {
            (void)memcpy(tensor->data, from, tensor->info->size);
        } else if (to != NULL) {
            (void)memcpy(to, tensor->data, tensor->info->size);
        }
        return AI_STATUS_OK;
    }
    quant = tensor->info->quant;
    if ((quant == NULL) || (ai_limits(tensor->info->dtype, &low, &high) == 0)) {
        handle->error = "The tensor is not quantized";
        return AI_STATUS_ERROR;
    }
    elements = ai_get_tensor_elements(tensor);
    run = ai_run_length(tensor->info);
    for (i = 0U; i < elements; i++) {
        const uint32_t channel = (quant->size > 1U) ? (i / run) % quant->size : 0U;
        const float scale = quant->scale[channel];
        const int32_t zero_point = quant->zero_point[channel];

        if (from != NULL) {
            /* int32 has no zero point in use, and no room for one in its limits. */
            const int32_t moved = (low == INT32_MIN) ? 0 : zero_point;
            ai_store(tensor, i,
                     ai_nearest(from[i] / scale, low - moved, high - moved, handle->model->rounding) + moved);
        } else {
            to[i] = (float)(ai_load(tensor, i) - zero_point) * scale;
        }
    }
    return AI_STATUS_OK;
}

ai_status ai_quantize_input(ai_handle handle, uint32_t index, const float *values)
{
    return ai_convert(handle, ai_get_input(handle, index), values, NULL);
}

ai_status ai_dequantize_output(ai_handle handle, uint32_t index, float *values)
{
    return ai_convert(handle, ai_get_output(handle, index), NULL, values);
}

ai_status ai_set_observer(ai_handle handle, ai_observer observer, void *cookie)
{
    if (ai_model_of(handle) == NULL) {
        return AI_STATUS_ERROR;
    }
    if (handle->model->nodes == NULL) {
        handle->error = "The network was compiled without AI_OBSERVER";
        return AI_STATUS_ERROR;
    }
    handle->observer = observer;
    handle->cookie = cookie;
    return AI_STATUS_OK;
}

void ai_observe(const ai_network *network, uint32_t index, ai_node_phase phase)
{
    ai_node_event event;

    event.node = &network->model->nodes[index];
    event.index = index;
    event.phase = phase;
    event.cycles = AI_CYCLES();
    network->observer(network->cookie, &event);
}

ai_status ai_get_report(ai_handle handle, ai_report *report)
{
    const ai_model_info *const model = ai_model_of(handle);

    if ((model == NULL) || (report == NULL)) {
        return AI_STATUS_ERROR;
    }
    report->name = model->name;
    report->tool_version = model->tool_version;
    report->api_version = AI_RUNTIME_API_VERSION;
    report->revision = model->revision;
    report->model_file = model->model_file;
    report->signature = model->model_sha256;
    report->macs = model->macs;
    report->activations_size = model->activations_size;
    report->params_size = model->params_size;
    report->instance_size = (uint32_t)AI_INSTANCE_SIZE(model->n_inputs, model->n_outputs);
    report->n_nodes = model->n_nodes;
    report->n_inputs = model->n_inputs;
    report->n_outputs = model->n_outputs;
    report->nodes = model->nodes;
    return AI_STATUS_OK;
}

#if defined(__ELF__) && !defined(AI_NO_REGISTRY)
/* Made by the linker when a network is linked; NULL otherwise. */
extern const ai_model_info *const __start_ai_models[] __attribute__((weak));
extern const ai_model_info *const __stop_ai_models[] __attribute__((weak));

ai_model_iterator ai_model_iterator_begin(void)
{
    return __start_ai_models;
}

ai_model_iterator ai_model_iterator_end(void)
{
    return __stop_ai_models;
}
#else
ai_model_iterator ai_model_iterator_begin(void)
{
    return NULL;
}

ai_model_iterator ai_model_iterator_end(void)
{
    return NULL;
}
#endif

ai_model_iterator ai_model_iterator_next(ai_model_iterator it)
{
    return it + 1;
}

const ai_model_info *ai_model_iterator_value(ai_model_iterator it)
{
    return (it != ai_model_iterator_end()) ? *it : NULL;
}

const char *ai_get_name(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? handle->model->name : NULL;
}

const char *ai_get_datetime(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? ai_error_none : NULL;
}

const char *ai_get_revision(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? handle->model->revision : NULL;
}

const char *ai_get_api_version(ai_handle handle)
{
    return (ai_model_of(handle) != NULL) ? AI_RUNTIME_API_VERSION : NULL;
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

const uint8_t *ai_get_params(ai_handle handle)
{
    return ((ai_model_of(handle) != NULL) && (handle->model->params != NULL)) ? handle->model->params() : NULL;
}

static uint32_t ai_word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | ((uint32_t)bytes[1] << 8) | ((uint32_t)bytes[2] << 16) | ((uint32_t)bytes[3] << 24);
}

/* CRC-32 (IEEE 802.3), four bits at a time. */
static uint32_t ai_crc32(const uint8_t *bytes, uint32_t size)
{
    static const uint32_t table[16] = {0x00000000U, 0x1DB71064U, 0x3B6E20C8U, 0x26D930ACU, 0x76DC4190U, 0x6B6B51F4U,
                                       0x4DB26158U, 0x5005713CU, 0xEDB88320U, 0xF00F9344U, 0xD6D6A3E8U, 0xCB61B38CU,
                                       0x9B64C2B0U, 0x86D3D2D4U, 0xA00AE278U, 0xBDBDF21CU};
    uint32_t crc = 0xFFFFFFFFU;
    uint32_t i;

    for (i = 0U; i < size; i++) {
        crc ^= bytes[i];
        crc = (crc >> 4) ^ table[crc & 15U];
        crc = (crc >> 4) ^ table[crc & 15U];
    }
    return ~crc;
}

const uint8_t *ai_check_weights(const void *file, uint32_t signature, uint32_t size)
{
    const uint8_t *const header = (const uint8_t *)file;
    const uint8_t *const payload = (header != NULL) ? header + 32 : NULL;

    if ((header == NULL) || (((uintptr_t)header % 16U) != 0U)) {
        return NULL;
    }
    if ((ai_word(header) != 0x574E4941U) || (ai_word(header + 4) != 1U)) {
        return NULL;
    }
    if ((ai_word(header + 8) != signature) || (ai_word(header + 12) != size)) {
        return NULL;
    }
    return (ai_crc32(payload, size) == ai_word(header + 16)) ? payload : NULL;
}
