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
#define AI_RUNTIME_VERSION_MAJOR 1
#define AI_RUNTIME_VERSION_MINOR 1

typedef uint8_t *ai_ptr;

typedef enum { AI_STATUS_OK = 0, AI_STATUS_ERROR = 1 } ai_status;

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

/* The fixed part of a network input or output; lives in flash. */
typedef struct {
    const char *name;                  /* the model's own name of the tensor */
    const int32_t *shape;              /* `ndim` extents */
    const ai_quantization_info *quant; /* NULL: not quantized */
    uint32_t size;                     /* bytes */
    uint32_t offset;                   /* bytes from the start of the arena */
    uint8_t ndim;
    uint8_t dtype; /* ai_dtype */
} ai_tensor_info;

/* A network input or output of one instance. `data` points into the instance's arena. */
typedef struct {
    const ai_tensor_info *info;
    void *data;
} ai_tensor;

struct ai_network_s;

/* What the generator knows about a model; one constant per network, named ai_<name>_network. */
typedef struct {
    const char *name;
    const char *tool_version;   /* "tvm-stm32 x.y.z" */
    const char *model_file;     /* file name, no path */
    const char *model_sha256;   /* of the model file */
    uint32_t activations_size;  /* bytes of the arena, inputs and outputs included */
    uint32_t activations_align; /* bytes */
    uint32_t params_size;       /* bytes of weights and tables in flash */
    uint32_t macs;              /* multiply-accumulates of one inference (saturates at 2^32-1) */
    uint16_t n_nodes;
    uint8_t n_inputs;
    uint8_t n_outputs;
    const ai_tensor_info *inputs;
    const ai_tensor_info *outputs;
    ai_status (*run)(ai_ptr activations);
    struct ai_network_s *instance; /* static instance; its tensors follow it in memory */
    ai_ptr activations;            /* static arena, NULL when left out */
    void (*reset)(ai_ptr arena);   /* variables to their initial values; NULL: the network keeps no state */
} ai_model_info;

/* One instance of a network. Applications treat it as opaque. */
typedef struct ai_network_s {
    const ai_model_info *model; /* NULL: not created */
    ai_ptr activations;
    const char *error;
    ai_tensor *tensors; /* inputs, then outputs */
} ai_network;

typedef ai_network *ai_handle;

/* Bytes of memory for one more instance of a network with that many inputs and outputs. */
#define AI_INSTANCE_SIZE(n_inputs, n_outputs)                                                                          \
    (sizeof(ai_network) + ((size_t)(n_inputs) + (size_t)(n_outputs)) * sizeof(ai_tensor))

/*
 * Create the model's static instance. `activations`: arena of at least model->activations_size bytes aligned to
 * model->activations_align, or NULL for the static one. Fails when the instance is in use.
 */
ai_status ai_create(const ai_model_info *model, ai_ptr activations, ai_handle *handle);

/*
 * Create an instance in `memory` (pointer-aligned, AI_INSTANCE_SIZE bytes) with its own arena, which must not be NULL:
 * the static one belongs to the static instance.
 */
ai_status ai_create_in(const ai_model_info *model, void *memory, size_t memory_size, ai_ptr activations,
                       ai_handle *handle);

/* Release an instance; its memory may be used again. NULL or an instance not created: AI_STATUS_ERROR. */
ai_status ai_destroy(ai_handle handle);

/*
 * One inference: reads the inputs' data, writes the outputs' data. The memory of an input serves other tensors once it
 * has been read, so inputs are written anew before every run; outputs stay until the next one.
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

const char *ai_get_name(ai_handle handle);
const char *ai_get_tool_version(ai_handle handle);
uint32_t ai_get_node_size(ai_handle handle);        /* operators */
uint32_t ai_get_activations_size(ai_handle handle); /* bytes */
uint32_t ai_get_params_size(ai_handle handle);      /* bytes */
ai_ptr ai_get_activations(ai_handle handle);

#ifdef __cplusplus
}
#endif

#endif /* AI_RUNTIME_H */
