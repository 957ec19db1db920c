#include "st_stai.h"
#include "stai_events.h"

#include <string.h>

#define ST_CONTEXT_MAGIC 0x57A1C0DEU

/* Start of the memory of a context; behind it the pointers of inputs and outputs, then an instance of the network. */
typedef struct {
    const st_stai_info *info;
    void *instance; /* NULL: no activations */
    stai_ptr activations;
    stai_ptr weights;
    stai_event_cb callback;
    void *cookie;
    st_hook hook;
    uint32_t magic;
    stai_return_code error; /* the first one since init */
    uint32_t running;
    uint32_t unused;
} st_context;

/* Fails to compile when the generator's context size, 18 + 3 * tensors pointers, is too small. */
typedef char st_context_fits[((sizeof(st_context) + sizeof(void *) * (5U + ST_INSTANCE_POINTERS(5U))) <=
                              ((18U + 3U * 5U) * sizeof(void *)))
                                 ? 1
                                 : -1];

static uint32_t st_count(const st_stai_info *info)
{
    return (uint32_t)info->n_inputs + info->n_outputs;
}

static stai_ptr *st_pointers(st_context *context)
{
    return (stai_ptr *)(void *)(context + 1);
}

/* What is wrong with the context itself. */
static stai_return_code st_check_context(const st_stai_info *info, const stai_network *network)
{
    const st_context *const context = (const st_context *)(const void *)network;

    if (network == NULL) {
        return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
    }
    if (((uintptr_t)network % STAI_CONTEXT_ALIGNMENT) != 0U) {
        return STAI_ERROR_NETWORK_INVALID_CONTEXT_ALIGNMENT;
    }
    if ((context->magic != ST_CONTEXT_MAGIC) || (context->info != info)) {
        return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
    }
    return STAI_SUCCESS;
}

stai_return_code st_stai_check(const st_stai_info *info, stai_network *network)
{
    const stai_return_code code = st_check_context(info, network);

    return (code != STAI_SUCCESS) ? code : ((const st_context *)(void *)network)->error;
}

/* Keeps the first error until the next init. */
static stai_return_code st_fail(stai_network *network, stai_return_code code)
{
    st_context *const context = (st_context *)(void *)network;

    if (context->error == STAI_SUCCESS) {
        context->error = code;
    }
    return code;
}

static stai_ptr st_address(const void *address)
{
    return (stai_ptr)(uintptr_t)address;
}

stai_return_code st_stai_init(const st_stai_info *info, stai_network *network)
{
    st_context *const context = (st_context *)(void *)network;

    if (network == NULL) {
        return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
    }
    if (((uintptr_t)network % STAI_CONTEXT_ALIGNMENT) != 0U) {
        return STAI_ERROR_NETWORK_INVALID_CONTEXT_ALIGNMENT;
    }
    (void)memset(network, 0, info->context_size);
    context->info = info;
    context->weights = st_address(info->weights);
    context->error = STAI_SUCCESS;
    context->magic = ST_CONTEXT_MAGIC;
    return STAI_SUCCESS;
}

stai_return_code st_stai_deinit(const st_stai_info *info, stai_network *network)
{
    st_context *const context = (st_context *)(void *)network;
    const stai_return_code code = st_check_context(info, network);

    if (code != STAI_SUCCESS) {
        return code;
    }
    if (context->instance != NULL) {
        st_close(context->instance);
    }
    context->magic = 0U;
    return STAI_SUCCESS;
}

stai_return_code st_stai_get_error(const st_stai_info *info, stai_network *network)
{
    return st_stai_check(info, network);
}

static void st_event(void *cookie, uint32_t index, int stop)
{
    const st_context *const context = (const st_context *)cookie;
    stai_event_node_start_stop payload;

    if (context->callback == NULL) {
        return;
    }
    payload.node_id = (int32_t)index;
    payload.buffers.size = 0U;
    payload.buffers.data = NULL;
    context->callback(context->cookie, (stop != 0) ? STAI_EVENT_NODE_STOP : STAI_EVENT_NODE_START, &payload);
}

static void st_connect(st_context *context)
{
    if (context->instance != NULL) {
        context->hook.call = st_event;
        context->hook.cookie = context;
        (void)st_observe(context->instance, (context->callback != NULL) ? &context->hook : NULL);
    }
}

stai_return_code st_stai_set_callback(const st_stai_info *info, stai_network *network, stai_event_cb callback,
                                      void *cookie)
{
    st_context *const context = (st_context *)(void *)network;
    const stai_return_code code = st_stai_check(info, network);
    const char *name = NULL;
    const char *type = NULL;

    if (code != STAI_SUCCESS) {
        return code;
    }
    if ((callback != NULL) && (st_get_node(info->model, 0U, &name, &type) == 0)) {
        return STAI_ERROR_NETWORK_INVALID_CALLBACK; /* not kept: the network runs */
    }
    context->callback = callback;
    context->cookie = cookie;
    st_connect(context);
    return STAI_SUCCESS;
}

/* The checks of set_*: a list of `expected` pointers. `number` is the error for another count. */
static stai_return_code st_check_list(stai_network *network, const stai_ptr *pointers, stai_size count,
                                      stai_size expected, stai_return_code number)
{
    if (pointers == NULL) {
        return st_fail(network, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    }
    return (count != expected) ? st_fail(network, number) : STAI_SUCCESS;
}

/* An instance on the activations. There is none while weights outside of the image are missing; run tells. */
static void st_reopen(const st_stai_info *info, stai_network *network)
{
    st_context *const context = (st_context *)(void *)network;
    const stai_size header = (stai_size)(sizeof(st_context) + st_count(info) * sizeof(stai_ptr));

    if (context->instance != NULL) {
        st_close(context->instance);
    }
    context->instance = st_open(info->model, network + header, info->context_size - header,
                                st_align(info->model, context->activations));
    st_connect(context);
}

stai_return_code st_stai_set_activations(const st_stai_info *info, stai_network *network, const stai_ptr *pointers,
                                         const stai_size count)
{
    st_context *const context = (st_context *)(void *)network;
    stai_return_code code = st_stai_check(info, network);
    uint32_t i;

    if (code == STAI_SUCCESS) {
        code = st_check_list(network, pointers, count, 1U, STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_NUM);
    }
    if (code != STAI_SUCCESS) {
        return code;
    }
    if (pointers[0] == NULL) {
        return st_fail(network, STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_PTR);
    }
    if (((uintptr_t)pointers[0] % ST_STAI_ALIGNMENT) != 0U) {
        return st_fail(network, STAI_ERROR_INVALID_BUFFER_ALIGNMENT);
    }
    context->activations = pointers[0];
    st_reopen(info, network);
    for (i = 0U; i < st_count(info); i++) {
        void *const home = st_home_in(info->model, st_align(info->model, context->activations), i);

        if (home != NULL) {
            st_pointers(context)[i] = (stai_ptr)home;
        }
    }
    return STAI_SUCCESS;
}

stai_return_code st_stai_set_weights(const st_stai_info *info, stai_network *network, const stai_ptr *pointers,
                                     const stai_size count)
{
    st_context *const context = (st_context *)(void *)network;
    stai_return_code code = st_stai_check(info, network);

    if (code == STAI_SUCCESS) {
        code = st_check_list(network, pointers, count, 1U, STAI_ERROR_NETWORK_INVALID_WEIGHTS_NUM);
    }
    if (code != STAI_SUCCESS) {
        return code;
    }
    if (pointers[0] == NULL) {
        return st_fail(network, STAI_ERROR_NETWORK_INVALID_WEIGHTS_PTR);
    }
    if (((uintptr_t)pointers[0] % 8U) != 0U) {
        return st_fail(network, STAI_ERROR_INVALID_BUFFER_ALIGNMENT);
    }
    /* Weights are where the linker put them, or where the application says when they are no part of the image. */
    if ((pointers[0] != info->weights) && (pointers[0] != (const void *)st_weights(info->model)) &&
        (st_set_weights(info->model, pointers[0]) != 0)) {
        return st_fail(network, STAI_ERROR_NETWORK_INVALID_WEIGHTS_PTR);
    }
    context->weights = pointers[0];
    if ((context->activations != NULL) && (context->instance == NULL)) {
        st_reopen(info, network);
    }
    return STAI_SUCCESS;
}

static stai_return_code st_set_tensors(const st_stai_info *info, stai_network *network, const stai_ptr *pointers,
                                       stai_size count, uint32_t first, stai_return_code null_error)
{
    st_context *const context = (st_context *)(void *)network;
    uint32_t i;

    for (i = 0U; i < count; i++) {
        const st_placement placement = st_check(info->model, first + i, pointers[i]);

        if (placement != ST_PLACED) {
            return st_fail(network, (placement == ST_NULL) ? null_error : STAI_ERROR_INVALID_BUFFER_ALIGNMENT);
        }
    }
    for (i = 0U; i < count; i++) {
        st_pointers(context)[first + i] = pointers[i];
    }
    return STAI_SUCCESS;
}

stai_return_code st_stai_set_inputs(const st_stai_info *info, stai_network *network, const stai_ptr *pointers,
                                    const stai_size count)
{
    stai_return_code code = st_stai_check(info, network);

    if (code == STAI_SUCCESS) {
        code = st_check_list(network, pointers, count, info->n_inputs, STAI_ERROR_NETWORK_INVALID_IN_NUM);
    }
    return (code != STAI_SUCCESS)
               ? code
               : st_set_tensors(info, network, pointers, count, 0U, STAI_ERROR_NETWORK_INVALID_IN_PTR);
}

stai_return_code st_stai_set_outputs(const st_stai_info *info, stai_network *network, const stai_ptr *pointers,
                                     const stai_size count)
{
    stai_return_code code = st_stai_check(info, network);

    if (code == STAI_SUCCESS) {
        code = st_check_list(network, pointers, count, info->n_outputs, STAI_ERROR_NETWORK_INVALID_OUT_NUM);
    }
    return (code != STAI_SUCCESS)
               ? code
               : st_set_tensors(info, network, pointers, count, info->n_inputs, STAI_ERROR_NETWORK_INVALID_OUT_PTR);
}

/* Variables of a network live in its activations: there are no buffers of states. */
stai_return_code st_stai_set_states(const st_stai_info *info, stai_network *network, const stai_ptr *pointers,
                                    const stai_size count)
{
    (void)pointers;
    (void)count;
    return st_stai_check(info, network);
}

static stai_return_code st_list(stai_network *network, const stai_ptr *from, stai_size n, stai_ptr *pointers,
                                stai_size *count)
{
    stai_size i;

    if (count == NULL) {
        return st_fail(network, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
    }
    *count = n;
    for (i = 0U; (pointers != NULL) && (i < n); i++) {
        pointers[i] = from[i];
    }
    return STAI_SUCCESS;
}

stai_return_code st_stai_get_activations(const st_stai_info *info, stai_network *network, stai_ptr *pointers,
                                         stai_size *count)
{
    const stai_return_code code = st_stai_check(info, network);

    return (code != STAI_SUCCESS)
               ? code
               : st_list(network, &((st_context *)(void *)network)->activations, 1U, pointers, count);
}

stai_return_code st_stai_get_weights(const st_stai_info *info, stai_network *network, stai_ptr *pointers,
                                     stai_size *count)
{
    const stai_return_code code = st_stai_check(info, network);

    return (code != STAI_SUCCESS) ? code
                                  : st_list(network, &((st_context *)(void *)network)->weights, 1U, pointers, count);
}

stai_return_code st_stai_get_inputs(const st_stai_info *info, stai_network *network, stai_ptr *pointers,
                                    stai_size *count)
{
    const stai_return_code code = st_stai_check(info, network);

    return (code != STAI_SUCCESS)
               ? code
               : st_list(network, st_pointers((st_context *)(void *)network), info->n_inputs, pointers, count);
}

stai_return_code st_stai_get_outputs(const st_stai_info *info, stai_network *network, stai_ptr *pointers,
                                     stai_size *count)
{
    const stai_return_code code = st_stai_check(info, network);

    return (code != STAI_SUCCESS) ? code
                                  : st_list(network, st_pointers((st_context *)(void *)network) + info->n_inputs,
                                            info->n_outputs, pointers, count);
}

stai_return_code st_stai_get_states(const st_stai_info *info, stai_network *network, stai_ptr *pointers,
                                    stai_size *count)
{
    const stai_return_code code = st_stai_check(info, network);

    return (code != STAI_SUCCESS) ? code : st_list(network, NULL, 0U, pointers, count);
}

/* Whether each of `n` inputs or outputs has memory. */
static int st_is_placed(st_context *context, uint32_t first, uint32_t n)
{
    uint32_t i;

    for (i = first; i < first + n; i++) {
        if (st_pointers(context)[i] == NULL) {
            return 0;
        }
    }
    return 1;
}

stai_return_code st_stai_run(const st_stai_info *info, stai_network *network)
{
    st_context *const context = (st_context *)(void *)network;
    const stai_return_code code = st_stai_check(info, network);
    int failed;
    uint32_t i;

    if (code != STAI_SUCCESS) {
        return code;
    }
    if (context->running != 0U) {
        return STAI_ERROR_NETWORK_STILL_RUNNING; /* not kept: the other run goes on */
    }
    if (context->activations == NULL) {
        return st_fail(network, STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_PTR);
    }
    if (st_is_placed(context, 0U, info->n_inputs) == 0) {
        return st_fail(network, STAI_ERROR_NETWORK_INVALID_IN_PTR);
    }
    if (st_is_placed(context, info->n_inputs, info->n_outputs) == 0) {
        return st_fail(network, STAI_ERROR_NETWORK_INVALID_OUT_PTR);
    }
    if (context->instance == NULL) {
        return st_fail(network, STAI_ERROR_NETWORK_INVALID_WEIGHTS_PTR);
    }
    for (i = 0U; i < st_count(info); i++) {
        (void)st_place(context->instance, i, st_pointers(context)[i]);
    }
    context->running = 1U;
    failed = st_run(context->instance);
    context->running = 0U;
    if (failed != 0) {
        return st_fail(network, STAI_ERROR_NETWORK_INVALID_RUN);
    }
    for (i = info->n_inputs; i < st_count(info); i++) {
        st_collect(context->instance, i, st_pointers(context)[i]);
    }
    return STAI_SUCCESS;
}

static stai_version st_version(uint32_t major, uint32_t minor, uint32_t micro)
{
    stai_version version;

    version.major = (uint8_t)major;
    version.minor = (uint8_t)minor;
    version.micro = (uint8_t)micro;
    version.reserved = 0U;
    return version;
}

static stai_version st_runtime(void)
{
    const uint32_t version = st_runtime_version();

    return st_version((version >> 16) & 0xFFU, (version >> 8) & 0xFFU, version & 0xFFU);
}

stai_return_code st_stai_get_info(const st_stai_info *info, stai_network *network, stai_network_info *out)
{
    const stai_return_code code = st_stai_check(info, network);
    st_facts facts;

    if (code != STAI_SUCCESS) {
        return code;
    }
    if (out == NULL) {
        return st_fail(network, STAI_ERROR_NETWORK_INVALID_INFO);
    }
    st_get_facts(info->model, &facts);
    (void)memset(out, 0, sizeof(*out));
    out->model_signature = facts.signature;
    out->c_compile_datetime = "";
    out->c_model_name = info->name;
    out->c_model_datetime = "";
    out->c_model_signature = info->signature;
    out->runtime_version = st_runtime();
    out->tool_version = info->tool_version;
    out->api_version = st_version(STAI_API_VERSION_MAJOR, STAI_API_VERSION_MINOR, STAI_API_VERSION_MICRO);
    out->n_macc = info->n_macc;
    out->n_nodes = facts.n_nodes;
    out->flags = info->flags;
    out->n_inputs = info->n_inputs;
    out->n_outputs = info->n_outputs;
    out->n_activations = 1U;
    out->n_weights = 1U;
    out->n_states = 0U;
    out->inputs = info->inputs;
    out->outputs = info->outputs;
    out->activations = info->activations_tensor;
    out->weights = info->weights_tensor;
    out->states = NULL;
    return STAI_SUCCESS;
}

stai_return_code stai_runtime_init(void)
{
    return STAI_SUCCESS;
}

stai_return_code stai_runtime_deinit(void)
{
    return STAI_SUCCESS;
}

stai_return_code stai_runtime_set_callback(stai_event_cb callback, void *cookie)
{
    (void)callback;
    (void)cookie;
    return STAI_SUCCESS;
}

stai_return_code stai_runtime_get_info(stai_runtime_info *info)
{
    if (info == NULL) {
        return STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS;
    }
    info->api_version = st_version(STAI_API_VERSION_MAJOR, STAI_API_VERSION_MINOR, STAI_API_VERSION_MICRO);
    info->runtime_version = st_runtime();
    info->tools_version = st_version(STAI_TOOLS_VERSION_MAJOR, STAI_TOOLS_VERSION_MINOR, STAI_TOOLS_VERSION_MICRO);
    info->runtime_build = 0U;
#if defined(__ICCARM__)
    info->compiler_id = STAI_COMPILER_ID_IAR;
    info->compiler_desc = "IAR";
#elif defined(__ARMCC_VERSION)
    info->compiler_id = STAI_COMPILER_ID_KEIL_AC6;
    info->compiler_desc = "AC6";
#elif defined(__GNUC__)
    info->compiler_id = STAI_COMPILER_ID_GCC;
    info->compiler_desc = "GCC";
#else
    info->compiler_id = STAI_COMPILER_ID_NONE;
    info->compiler_desc = "";
#endif
    return STAI_SUCCESS;
}

stai_format stai_init_format(stai_format_type type, int8_t sign, int32_t bits, int32_t fbits)
{
    const uint32_t word = (((uint32_t)type & 0xFU) << 17) | (((uint32_t)sign & 0x1U) << 23) |
                          (((uint32_t)bits & 0x7FU) << 7) | ((uint32_t)(fbits + 64) & 0x7FU);

    return (stai_format)word;
}

typedef struct {
    uint32_t value;
    const char *name;
} st_named;

static const char *st_name_of(const st_named *names, uint32_t count, uint32_t value, const char *other)
{
    uint32_t i;

    for (i = 0U; i < count; i++) {
        if (names[i].value == value) {
            return names[i].name;
        }
    }
    return other;
}

#define ST_NAMED(name)                                                                                                 \
    {                                                                                                                  \
        (uint32_t)(name), #name                                                                                        \
    }
#define ST_NAME_OF(names, value, other)                                                                                \
    st_name_of((names), (uint32_t)(sizeof(names) / sizeof((names)[0])), (uint32_t)(value), (other))

const char *stai_get_return_code_name(stai_return_code code)
{
    static const st_named names[] = {
        ST_NAMED(STAI_SUCCESS),
        ST_NAMED(STAI_RUNNING_NO_WFE),
        ST_NAMED(STAI_RUNNING_WFE),
        ST_NAMED(STAI_DONE),
        ST_NAMED(STAI_ERROR_GENERIC),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_CONTEXT_SIZE),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_CONTEXT_ALIGNMENT),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_INFO),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_RUN),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_RUNTIME),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_PTR),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_NUM),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_IN_PTR),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_IN_NUM),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_OUT_PTR),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_OUT_NUM),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_STATES_PTR),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_STATES_NUM),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_WEIGHTS_PTR),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_WEIGHTS_NUM),
        ST_NAMED(STAI_ERROR_NETWORK_INVALID_CALLBACK),
        ST_NAMED(STAI_ERROR_NOT_IMPLEMENTED),
        ST_NAMED(STAI_ERROR_INVALID_BUFFER_ALIGNMENT),
        ST_NAMED(STAI_ERROR_NETWORK_STILL_RUNNING),
        ST_NAMED(STAI_ERROR_STAI_INIT_FAILED),
        ST_NAMED(STAI_ERROR_STAI_DEINIT_FAILED),
    };

    return ST_NAME_OF(names, code, "STAI_ERROR_UNKNOWN");
}

const char *stai_get_format_type_name(stai_format_type type)
{
    static const st_named names[] = {
        ST_NAMED(STAI_FORMAT_TYPE_NONE),
        ST_NAMED(STAI_FORMAT_TYPE_FLOAT),
        ST_NAMED(STAI_FORMAT_TYPE_Q),
        ST_NAMED(STAI_FORMAT_TYPE_BOOL),
    };

    return ST_NAME_OF(names, type, "STAI_FORMAT_TYPE_UNKNOWN");
}

const char *stai_get_format_name(stai_format format)
{
    static const st_named names[] = {
        ST_NAMED(STAI_FORMAT_NONE), ST_NAMED(STAI_FORMAT_FLOAT32), ST_NAMED(STAI_FORMAT_FLOAT64),
        ST_NAMED(STAI_FORMAT_U1),   ST_NAMED(STAI_FORMAT_U8),      ST_NAMED(STAI_FORMAT_U16),
        ST_NAMED(STAI_FORMAT_U32),  ST_NAMED(STAI_FORMAT_U64),     ST_NAMED(STAI_FORMAT_S1),
        ST_NAMED(STAI_FORMAT_S8),   ST_NAMED(STAI_FORMAT_S16),     ST_NAMED(STAI_FORMAT_S32),
        ST_NAMED(STAI_FORMAT_S64),  ST_NAMED(STAI_FORMAT_Q),       ST_NAMED(STAI_FORMAT_Q7),
        ST_NAMED(STAI_FORMAT_Q15),  ST_NAMED(STAI_FORMAT_UQ),      ST_NAMED(STAI_FORMAT_UQ7),
        ST_NAMED(STAI_FORMAT_UQ15), ST_NAMED(STAI_FORMAT_BOOL),
    };

    return ST_NAME_OF(names, format, "STAI_FORMAT_UNKNOWN");
}
