/*
 * The ai_* API: run a generated network on bare metal.
 *
 * No heap: a model brings one static instance; more instances live in memory the application gives.
 * Tensors have element type, shape and quantization (real = scale * (q - zero_point)).
 */
#ifndef AI_RUNTIME_H
#define AI_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Generated files check these: a network is compiled against the runtime it was generated for. */
#define AI_RUNTIME_VERSION_MAJOR 2
#define AI_RUNTIME_VERSION_MINOR 1
#define AI_RUNTIME_API_VERSION "2.1.0"

/* 1: networks hold the names of their operators and call observers; 0: neither costs anything. */
#ifndef AI_OBSERVER
#define AI_OBSERVER 0
#endif

typedef uint8_t *ai_ptr;

typedef enum { AI_STATUS_OK = 0, AI_STATUS_ERROR = 1, AI_STATUS_DELEGATE_ERROR = 2 } ai_status;

typedef enum {
    AI_DTYPE_INT8 = 0,
    AI_DTYPE_UINT8 = 1,
    AI_DTYPE_INT16 = 2,
    AI_DTYPE_UINT16 = 3,
    AI_DTYPE_INT32 = 4,
    AI_DTYPE_UINT32 = 5,
    AI_DTYPE_INT64 = 6,
    AI_DTYPE_UINT64 = 7,
    AI_DTYPE_FLOAT16 = 8,
    AI_DTYPE_FLOAT32 = 9,
    AI_DTYPE_FLOAT64 = 10,
    AI_DTYPE_BOOL = 11
} ai_dtype;

/* Quantization of a tensor: `size` scales and zero points along axis `dim` (-1: one for the whole tensor). */
typedef struct {
    const float *scale;
    const int32_t *zero_point;
    int32_t dim;
    uint32_t size;
} ai_quantization_info;

/* `offset` of a tensor that has no place in the arena: the application supplies its memory. */
#define AI_NO_OFFSET 0xFFFFFFFFU

/* `flags` of a tensor. */
#define AI_TENSOR_FIXED 1U /* stays at its place in the arena: `data` may not be set */

/* The fixed part of a network input or output; lives in flash. */
typedef struct {
    const char *name;                  /* the model's own name of the tensor */
    const int32_t *shape;              /* `ndim` extents */
    const ai_quantization_info *quant; /* NULL: not quantized */
    uint32_t size;                     /* bytes */
    uint32_t offset;                   /* bytes from the start of the arena, or AI_NO_OFFSET */
    uint8_t ndim;
    uint8_t dtype;     /* ai_dtype */
    uint8_t alignment; /* bytes, of `data` */
    uint8_t flags;     /* AI_TENSOR_* */
} ai_tensor_info;

/*
 * A network input or output of one instance. `data` points into the instance's arena, or is NULL when the tensor has no
 * place there. The application may set it to memory of its own, `size` bytes aligned to `alignment`: nothing is copied.
 */
typedef struct {
    const ai_tensor_info *info;
    void *data;
} ai_tensor;

/* One instance of a network; defined below. */
typedef struct ai_network_s ai_network;
typedef ai_network *ai_handle;

/* An operator, in the order of execution. */
typedef struct {
    const char *name; /* the model's own name of what it makes */
    const char *type; /* conv2d, softmax, .. */
    uint32_t macs;
} ai_node_info;

typedef enum { AI_NODE_START = 0, AI_NODE_STOP = 1 } ai_node_phase;

typedef struct {
    const ai_node_info *node;
    uint32_t index;
    ai_node_phase phase;
    uint32_t cycles; /* the core's cycle counter, AI_CYCLES() of ai_runtime.c */
} ai_node_event;

/* Called before and after each operator of ai_run. */
typedef void (*ai_observer)(void *cookie, const ai_node_event *event);

/* Rounding of ai_quantize_input: that of the model's reference. */
#define AI_ROUND_AWAY 0U /* halves away from zero */
#define AI_ROUND_EVEN 1U /* halves to the even code */

/* What the generator knows about a model; one constant per network, named ai_<name>_network. */
typedef struct {
    const char *name;
    const char *tool_version;   /* "tvm-stm32 x.y.z" */
    const char *model_file;     /* file name, no path */
    const char *model_sha256;   /* of the model file */
    const char *revision;       /* settings it was compiled with */
    uint32_t activations_size;  /* bytes of the arena, inputs and outputs included */
    uint32_t activations_align; /* bytes */
    uint32_t params_size;       /* bytes of weights and tables in flash */
    uint32_t macs;              /* multiply-accumulates of one inference (saturates at 2^32-1) */
    uint16_t n_nodes;
    uint8_t n_inputs;
    uint8_t n_outputs;
    const ai_tensor_info *inputs;
    const ai_tensor_info *outputs;
    ai_status (*run)(const ai_network *network);
    ai_handle instance;             /* static instance; its tensors follow it in memory */
    ai_ptr activations;             /* static arena, NULL when left out */
    void (*reset)(ai_ptr arena);    /* variables to their initial values; NULL: the network keeps no state */
    const uint8_t *(*params)(void); /* where the weights lie; fails with NULL while they are not there */
    const ai_node_info *nodes;      /* NULL: compiled without AI_OBSERVER */
    uint8_t rounding;               /* AI_ROUND_* */
} ai_model_info;

/* One instance of a network. Applications treat it as opaque. */
struct ai_network_s {
    const ai_model_info *model; /* NULL: not created */
    ai_ptr activations;
    const char *error;
    ai_tensor *tensors; /* inputs, then outputs */
    ai_observer observer;
    void *cookie;
};

/* Bytes of memory for one more instance of a network with that many inputs and outputs. */
#define AI_INSTANCE_SIZE(n_inputs, n_outputs)                                                                          \
    (sizeof(ai_network) + ((size_t)(n_inputs) + (size_t)(n_outputs)) * sizeof(ai_tensor))

/*
 * Create the model's static instance. `activations`: arena of at least model->activations_size bytes aligned to
 * model->activations_align, or NULL for the static one. Fails when the instance is in use.
 */
ai_status ai_create(const ai_model_info *model, ai_ptr activations, ai_handle *handle);

/* The static instance of a model, created or not. */
ai_handle ai_static_instance(const ai_model_info *model);

/*
 * Create an instance in `memory` (pointer-aligned, AI_INSTANCE_SIZE bytes) with its own arena, which must not be NULL:
 * the static one belongs to the static instance.
 */
ai_status ai_create_in(const ai_model_info *model, void *memory, size_t memory_size, ai_ptr activations,
                       ai_handle *handle);

/* Release an instance and its observer; its memory may be used again. NULL or an instance not created: AI_STATUS_ERROR.
 */
ai_status ai_destroy(ai_handle handle);

/*
 * One inference: reads the inputs' data, writes the outputs' data. The arena's memory of an input serves other tensors
 * once it has been read, so inputs are written anew before every run; outputs stay until the next one. Fails when the
 * data of an input or output is NULL or not aligned.
 */
ai_status ai_run(ai_handle handle);

/* Variables that are kept from run to run, such as the history of a streaming model, back to where create put them. */
ai_status ai_reset(ai_handle handle);

/* Text of the last error of this handle, "" when there was none; reading clears it. NULL: of the last create. */
const char *ai_get_error(ai_handle handle);

uint32_t ai_get_input_size(ai_handle handle);  /* number of inputs, 0 for NULL */
uint32_t ai_get_output_size(ai_handle handle); /* number of outputs, 0 for NULL */

/* Tensor by index; NULL (and an error text) when the index is out of range. */
ai_tensor *ai_get_input(ai_handle handle, uint32_t index);
ai_tensor *ai_get_output(ai_handle handle, uint32_t index);

/* NULL when the tensor is not quantized. */
const ai_quantization_info *ai_get_quantization(const ai_tensor *tensor);

/* Number of elements and bytes of a tensor; 0 for NULL. */
uint32_t ai_get_tensor_elements(const ai_tensor *tensor);
uint32_t ai_get_tensor_size(const ai_tensor *tensor);

/*
 * Write an input from floats, or read an output as floats, by the tensor's own scale, zero point and axis. Codes
 * saturate and round as the model's reference does; what is no number becomes the smallest code. Float tensors are
 * copied. Fails for integers without quantization.
 */
ai_status ai_quantize_input(ai_handle handle, uint32_t index, const float *values);
ai_status ai_dequantize_output(ai_handle handle, uint32_t index, float *values);

/*
 * Call `observer` (NULL: no longer) before and after each operator. Fails for a network compiled without AI_OBSERVER=1.
 * Cycles are those of the core's counter when the application has started it, else 0.
 */
ai_status ai_set_observer(ai_handle handle, ai_observer observer, void *cookie);

/* What a network is and takes. */
typedef struct {
    const char *name;
    const char *tool_version;
    const char *api_version;
    const char *revision;
    const char *model_file;
    const char *signature; /* sha256 of the model file */
    uint32_t macs;
    uint32_t activations_size; /* bytes */
    uint32_t params_size;      /* bytes */
    uint32_t instance_size;    /* bytes of RAM for one instance, beside the arena */
    uint16_t n_nodes;
    uint8_t n_inputs;
    uint8_t n_outputs;
    const ai_node_info *nodes; /* NULL: compiled without AI_OBSERVER */
} ai_report;

ai_status ai_get_report(ai_handle handle, ai_report *report);

/*
 * The networks of the image: for (i = begin; i != end; i = next(i)) ai_create(value(i), ..). Networks register
 * themselves in section ai_models where object files are ELF; with AI_NO_REGISTRY none does.
 */
typedef const ai_model_info *const *ai_model_iterator;

ai_model_iterator ai_model_iterator_begin(void);
ai_model_iterator ai_model_iterator_next(ai_model_iterator it);
ai_model_iterator ai_model_iterator_end(void);
const ai_model_info *ai_model_iterator_value(ai_model_iterator it);

const char *ai_get_name(ai_handle handle);
const char *ai_get_datetime(ai_handle handle); /* always "": generated files are the same whenever they are made */
const char *ai_get_revision(ai_handle handle); /* settings the network was compiled with */
const char *ai_get_tool_version(ai_handle handle);
const char *ai_get_api_version(ai_handle handle);
uint32_t ai_get_node_size(ai_handle handle);        /* operators */
uint32_t ai_get_activations_size(ai_handle handle); /* bytes */
uint32_t ai_get_params_size(ai_handle handle);      /* bytes */
ai_ptr ai_get_activations(ai_handle handle);
const uint8_t *ai_get_params(ai_handle handle); /* start of the weights */

/* Used by generated code. */

/*
 * Start of the constants in a file of weights, or NULL: no file at that address, misaligned, made for other code, or
 * its checksum is wrong. `signature` and `size` are those the code was generated with.
 */
const uint8_t *ai_check_weights(const void *file, uint32_t signature, uint32_t size);

/*
 * Memory of an input or output (`index` counts inputs, then outputs) that does not lie in the arena: called by a
 * model's `reset` while an instance is created. At any other time it does nothing, so what the application has set
 * stays.
 */
void ai_place(uint32_t index, void *data);
void ai_observe(const ai_network *network, uint32_t index, ai_node_phase phase);
#if AI_OBSERVER
#define AI_NODE_EVENT(network, index, phase)                                                                           \
    do {                                                                                                               \
        if ((network)->observer != NULL) {                                                                             \
            ai_observe((network), (index), (phase));                                                                   \
        }                                                                                                              \
    } while (0)
#else
#define AI_NODE_EVENT(network, index, phase) ((void)0)
#endif

#ifdef __cplusplus
}
#endif

#endif /* AI_RUNTIME_H */
