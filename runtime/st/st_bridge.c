#include "st_bridge.h"

#include "ai_runtime.h"

#include <string.h>

/* Fails to compile when an instance outgrows what st_bridge.h says of it. */
typedef char st_instance_fits[(AI_INSTANCE_SIZE(3U, 2U) <= ST_INSTANCE_POINTERS(5U) * sizeof(void *)) ? 1 : -1];

static const ai_model_info *st_info(const st_model *model)
{
    return (const ai_model_info *)model->info;
}

static const ai_tensor_info *st_tensor_info(const st_model *model, uint32_t tensor)
{
    const ai_model_info *const info = st_info(model);

    return (tensor < info->n_inputs) ? &info->inputs[tensor] : &info->outputs[tensor - info->n_inputs];
}

static ai_tensor *st_tensor(void *instance, uint32_t tensor)
{
    return &((ai_handle)instance)->tensors[tensor];
}

void st_get_facts(const st_model *model, st_facts *facts)
{
    const ai_model_info *const info = st_info(model);

    facts->signature = info->model_sha256;
    facts->tool_version = info->tool_version;
    facts->revision = info->revision;
    facts->weights_size = info->params_size;
    facts->activations_size = info->activations_size;
    facts->macs = info->macs;
    facts->n_nodes = info->n_nodes;
    facts->n_inputs = info->n_inputs;
    facts->n_outputs = info->n_outputs;
}

const uint8_t *st_weights(const st_model *model)
{
    return (st_info(model)->params != NULL) ? st_info(model)->params() : NULL;
}

int st_weights_missing(const st_model *model)
{
    return ((st_info(model)->params != NULL) && (st_weights(model) == NULL)) ? 1 : 0;
}

int st_set_weights(const st_model *model, const void *file)
{
    if (model->weights_set == NULL) {
        return -1;
    }
    model->weights_set(file);
    return (st_weights(model) != NULL) ? 0 : -1;
}

uint32_t st_runtime_version(void)
{
    return ((uint32_t)AI_RUNTIME_VERSION_MAJOR << 16U) | ((uint32_t)AI_RUNTIME_VERSION_MINOR << 8U);
}

const char *st_runtime_revision(void)
{
    return AI_RUNTIME_API_VERSION;
}

uint32_t st_signature(const st_model *model)
{
    const char *const digits = st_info(model)->model_sha256;
    uint32_t value = 0U;
    uint32_t i;

    for (i = 0U; (i < 8U) && (digits[i] != '\0'); i++) {
        const uint32_t digit = (uint32_t)(unsigned char)digits[i];
        value = (value << 4U) | ((digit > (uint32_t)'9') ? (digit - (uint32_t)'a' + 10U) : (digit - (uint32_t)'0'));
    }
    return value;
}

int st_get_node(const st_model *model, uint32_t index, const char **name, const char **type)
{
    const ai_model_info *const info = st_info(model);

    if ((info->nodes == NULL) || (index >= info->n_nodes)) {
        return 0;
    }
    *name = info->nodes[index].name;
    *type = info->nodes[index].type;
    return 1;
}

void *st_open(const st_model *model, void *memory, size_t size, uint8_t *arena)
{
    ai_handle handle = NULL;

    if (arena == NULL) {
        return NULL;
    }
    if (memory == NULL) {
        (void)ai_create(st_info(model), arena, &handle);
    } else {
        (void)ai_create_in(st_info(model), memory, size, arena, &handle);
    }
    return handle;
}

void st_close(void *instance)
{
    (void)ai_destroy((ai_handle)instance);
}

void st_reset(void *instance)
{
    (void)ai_reset((ai_handle)instance);
}

uint8_t *st_align(const st_model *model, void *memory)
{
    const uint32_t alignment = st_info(model)->activations_align;
    const uint32_t misalignment = (uint32_t)((uintptr_t)memory % alignment);

    return (uint8_t *)memory + ((misalignment != 0U) ? (alignment - misalignment) : 0U);
}

int st_has_home(const st_model *model, uint32_t tensor)
{
    return (st_tensor_info(model, tensor)->offset != AI_NO_OFFSET) ? 1 : 0;
}

static void *st_at(const ai_tensor_info *info, uint8_t *arena)
{
    return (info->offset != AI_NO_OFFSET) ? (void *)(arena + info->offset) : NULL;
}

void *st_home_in(const st_model *model, uint8_t *arena, uint32_t tensor)
{
    return st_at(st_tensor_info(model, tensor), arena);
}

void *st_home(void *instance, uint32_t tensor)
{
    return st_at(st_tensor(instance, tensor)->info, ((ai_handle)instance)->activations);
}

uint32_t st_size(const st_model *model, uint32_t tensor)
{
    return st_tensor_info(model, tensor)->size;
}

static st_placement st_check_against(const ai_tensor_info *info, const void *data)
{
    if (data == NULL) {
        return ST_NULL;
    }
    return (((uintptr_t)data % info->alignment) != 0U) ? ST_MISALIGNED : ST_PLACED;
}

st_placement st_check(const st_model *model, uint32_t tensor, const void *data)
{
    return st_check_against(st_tensor_info(model, tensor), data);
}

/* Whether the tensor cannot move, and `data` is another place than its own. */
static int st_is_copied(void *instance, uint32_t tensor, const void *data)
{
    return ((st_tensor(instance, tensor)->info->flags & AI_TENSOR_FIXED) != 0U) && (data != st_home(instance, tensor));
}

st_placement st_place(void *instance, uint32_t tensor, void *data)
{
    const st_placement placement = st_check_against(st_tensor(instance, tensor)->info, data);

    if (placement != ST_PLACED) {
        return placement;
    }
    if (st_is_copied(instance, tensor, data) == 0) {
        st_tensor(instance, tensor)->data = data;
        return ST_PLACED;
    }
    st_tensor(instance, tensor)->data = st_home(instance, tensor);
    if (tensor < ((ai_handle)instance)->model->n_inputs) {
        (void)memcpy(st_home(instance, tensor), data, st_tensor(instance, tensor)->info->size);
    }
    return ST_PLACED;
}

int st_run(void *instance)
{
    return (ai_run((ai_handle)instance) == AI_STATUS_OK) ? 0 : -1;
}

void st_collect(void *instance, uint32_t tensor, void *data)
{
    if (st_is_copied(instance, tensor, data) != 0) {
        (void)memcpy(data, st_home(instance, tensor), st_tensor(instance, tensor)->info->size);
    }
}

static void st_forward_event(void *cookie, const ai_node_event *event)
{
    const st_hook *const hook = (const st_hook *)cookie;

    hook->call(hook->cookie, event->index, (event->phase == AI_NODE_STOP) ? 1 : 0);
}

int st_observe(void *instance, st_hook *hook)
{
    return (ai_set_observer((ai_handle)instance, (hook != NULL) ? st_forward_event : NULL, hook) == AI_STATUS_OK) ? 0
                                                                                                                  : -1;
}
