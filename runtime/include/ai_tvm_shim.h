/*
 * What kernels out of a Model Library Format archive need of the runtime they were generated for: its tensor and value
 * types, and scratch memory. Written for this project; no part of that runtime is used.
 *
 * Scratch memory is a stack over memory of the network's arena. A request that does not fit returns NULL, upon which a
 * kernel returns an error; nothing is ever taken from a heap.
 *
 * Only generated files include this, each for itself: all of it is static. They define AI_TVM_STACK, the
 * ai_tvm_stack * in use where a kernel asks for memory.
 */
#ifndef AI_TVM_SHIM_H
#define AI_TVM_SHIM_H

#include <stddef.h>
#include <stdint.h>

#define TVM_DLL

typedef enum { kDLCPU = 1 } DLDeviceType;

typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLOpaqueHandle = 3, kDLBfloat = 4 } DLDataTypeCode;

typedef enum {
    kTVMArgInt = 0,
    kTVMArgFloat = 2,
    kTVMOpaqueHandle = 3,
    kTVMNullptr = 4,
    kTVMDataType = 5,
    kTVMDLTensorHandle = 7,
    kTVMNDArrayHandle = 13
} TVMArgTypeCode;

/* What helpers of kernels return; only whether it is 0 counts. */
typedef enum { kTvmErrorNoError = 0, kTvmErrorFunctionCallInvalidArg = 1 } tvm_crt_error_t;

typedef struct {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;

typedef struct {
    uint8_t code; /* DLDataTypeCode */
    uint8_t bits;
    uint16_t lanes;
} DLDataType;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* NULL: compact */
    uint64_t byte_offset;
} DLTensor;

typedef DLTensor TVMArray;

typedef union {
    int64_t v_int64;
    double v_float64;
    void *v_handle;
    const char *v_str;
    DLDataType v_type;
    DLDevice v_device;
} TVMValue;

/* Every request is rounded up to this, and starts on it when the memory does. */
#define AI_TVM_ALIGNMENT 8U

/* Scratch memory of the operator that runs. */
typedef struct {
    uint8_t *memory;
    uint32_t size; /* bytes */
    uint32_t used; /* bytes */
} ai_tvm_stack;

static inline void *ai_tvm_alloc(ai_tvm_stack *stack, uint64_t bytes)
{
    const uint32_t start = stack->used;
    const uint64_t size = (bytes + (AI_TVM_ALIGNMENT - 1U)) & ~(uint64_t)(AI_TVM_ALIGNMENT - 1U);

    if ((size < bytes) || (size > (uint64_t)(stack->size - start))) {
        return NULL;
    }
    stack->used = start + (uint32_t)size;
    return (void *)&stack->memory[start];
}

/* What was taken last is given back first. 0, or -1 for memory that is not in use. */
static inline int32_t ai_tvm_free(ai_tvm_stack *stack, const void *memory)
{
    const uintptr_t start = (uintptr_t)stack->memory;
    const uintptr_t place = (uintptr_t)memory;

    if ((place < start) || ((place - start) > (uintptr_t)stack->used)) {
        return -1;
    }
    stack->used = (uint32_t)(place - start);
    return 0;
}

/* The names kernels use. The device is always this one, and an element type is only a hint. */
#define TVMBackendAllocWorkspace(type, id, bytes, code, bits)                                                          \
    ((void)(type), (void)(id), (void)(code), (void)(bits), ai_tvm_alloc(AI_TVM_STACK, (bytes)))
#define TVMBackendFreeWorkspace(type, id, memory) ((void)(type), (void)(id), ai_tvm_free(AI_TVM_STACK, (memory)))
/* The status says that a kernel failed; its text would only take flash. */
#define TVMAPISetLastError(text) ((void)0)

/* Argument `index` of a packed call: a compact tensor over memory kernels may only read when it was const. */
static inline void ai_tvm_argument(DLTensor *tensors, TVMValue *values, int32_t *codes, uint32_t index,
                                   const void *data, const int64_t *shape, int32_t ndim, uint8_t code, uint8_t bits)
{
    DLTensor *const tensor = &tensors[index];

    tensor->data = (void *)(uintptr_t)data;
    tensor->device.device_type = kDLCPU;
    tensor->device.device_id = 0;
    tensor->ndim = ndim;
    tensor->dtype.code = code;
    tensor->dtype.bits = bits;
    tensor->dtype.lanes = 1U;
    tensor->shape = (int64_t *)(uintptr_t)shape;
    tensor->strides = NULL;
    tensor->byte_offset = 0U;
    values[index].v_handle = (void *)tensor;
    codes[index] = (int32_t)kTVMDLTensorHandle;
}

#endif /* AI_TVM_SHIM_H */
