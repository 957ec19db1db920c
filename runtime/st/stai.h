/*
 * The types of the stai interface (stai_<name>_init, stai_<name>_run, ..) for networks generated with --c-api st-ai.
 * The interface is ST's, API version 1.0.0; this implementation of it is tvm-stm32's.
 */
#ifndef STAI_H
#define STAI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define STAI_API_DECLARE_BEGIN extern "C" {
#define STAI_API_DECLARE_END }
#else
#define STAI_API_DECLARE_BEGIN
#define STAI_API_DECLARE_END
#endif

#define STAI_API_VERSION_MAJOR 1
#define STAI_API_VERSION_MINOR 0
#define STAI_API_VERSION_MICRO 0

/* The tool is tvm-stm32. */
#define STAI_TOOLS_VERSION_MAJOR 0
#define STAI_TOOLS_VERSION_MINOR 1
#define STAI_TOOLS_VERSION_MICRO 0

#if defined(__ICCARM__)
#define STAI_PRAGMA_(text) _Pragma(#text)
#define STAI_ALIGNED_1 STAI_PRAGMA_(data_alignment = 1)
#define STAI_ALIGNED_2 STAI_PRAGMA_(data_alignment = 2)
#define STAI_ALIGNED_4 STAI_PRAGMA_(data_alignment = 4)
#define STAI_ALIGNED_8 STAI_PRAGMA_(data_alignment = 8)
#define STAI_ALIGNED_16 STAI_PRAGMA_(data_alignment = 16)
#define STAI_ALIGNED_32 STAI_PRAGMA_(data_alignment = 32)
#define STAI_ALIGNED_(x) STAI_ALIGNED_##x
#define STAI_ALIGNED(x) STAI_ALIGNED_(x)
#define STAI_PACK(...) __packed __VA_ARGS__
#elif defined(__GNUC__) || defined(__clang__) || defined(__CC_ARM)
#define STAI_ALIGNED(x) __attribute__((aligned(x)))
#define STAI_PACK(...) __VA_ARGS__ __attribute__((packed))
#else
#define STAI_ALIGNED(x)
#define STAI_PACK(...) __VA_ARGS__
#endif

#define STAI_API_ENTRY
#define STAI_UNUSED(x) (void)(x);

/* The memory of one instance of a network. */
#define STAI_CONTEXT_ALIGNMENT 8
#define STAI_NETWORK_CONTEXT_DECLARE(name_, size_) STAI_ALIGNED(STAI_CONTEXT_ALIGNMENT) stai_network name_[size_] = {0};

/* The number of a context's bytes when it is that of pointers, on this machine. */
#define STAI_CONTEXT_BYTES(pointers_) ((pointers_) * ((UINTPTR_MAX > 0xFFFFFFFFU) ? 8 : 4))

STAI_API_DECLARE_BEGIN

typedef uint8_t stai_network;
typedef uint8_t *stai_ptr;
typedef uint32_t stai_size;
typedef int32_t stai_flags;
typedef int32_t stai_pbits;
typedef int32_t stai_event_type;

/* clang-format off */
typedef struct { stai_size size; const stai_ptr *data; } stai_array_const_ptr;
typedef struct { stai_size size; stai_ptr *data; } stai_array_ptr;
typedef struct { stai_size size; const float *data; } stai_array_f32;
typedef struct { stai_size size; const int8_t *data; } stai_array_s8;
typedef struct { stai_size size; const uint8_t *data; } stai_array_u8;
typedef struct { stai_size size; const int16_t *data; } stai_array_s16;
typedef struct { stai_size size; const uint16_t *data; } stai_array_u16;
typedef struct { stai_size size; const int32_t *data; } stai_array_s32;
typedef struct { stai_size size; const uint32_t *data; } stai_array_u32;
/* clang-format on */
typedef stai_array_s32 stai_shape;

typedef struct {
    uint8_t major;
    uint8_t minor;
    uint8_t micro;
    uint8_t reserved;
} stai_version;

typedef struct {
    stai_size size;
    uintptr_t address;
    stai_flags flags;
} stai_buffer;

/* An error from STAI_ERROR_GENERIC on. */
typedef enum {
    STAI_SUCCESS = 0x000000,
    STAI_RUNNING_NO_WFE = 0x000010,
    STAI_RUNNING_WFE = 0x000011,
    STAI_DONE = 0x000012,
    STAI_ERROR_GENERIC = 0x020000,
    STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS = 0x020001,
    STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE = 0x030000,
    STAI_ERROR_NETWORK_INVALID_CONTEXT_SIZE = 0x030001,
    STAI_ERROR_NETWORK_INVALID_CONTEXT_ALIGNMENT = 0x030002,
    STAI_ERROR_NETWORK_INVALID_INFO = 0x030010,
    STAI_ERROR_NETWORK_INVALID_RUN = 0x030020,
    STAI_ERROR_NETWORK_INVALID_RUNTIME = 0x030030,
    STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_PTR = 0x040000,
    STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_NUM = 0x040001,
    STAI_ERROR_NETWORK_INVALID_IN_PTR = 0x040010,
    STAI_ERROR_NETWORK_INVALID_IN_NUM = 0x040011,
    STAI_ERROR_NETWORK_INVALID_OUT_PTR = 0x040020,
    STAI_ERROR_NETWORK_INVALID_OUT_NUM = 0x040021,
    STAI_ERROR_NETWORK_INVALID_STATES_PTR = 0x040030,
    STAI_ERROR_NETWORK_INVALID_STATES_NUM = 0x040031,
    STAI_ERROR_NETWORK_INVALID_WEIGHTS_PTR = 0x040040,
    STAI_ERROR_NETWORK_INVALID_WEIGHTS_NUM = 0x040041,
    STAI_ERROR_NETWORK_INVALID_CALLBACK = 0x040050,
    STAI_ERROR_NOT_IMPLEMENTED = 0x040060,
    STAI_ERROR_INVALID_BUFFER_ALIGNMENT = 0x040070,
    STAI_ERROR_NETWORK_STILL_RUNNING = 0x050000,
    STAI_ERROR_STAI_INIT_FAILED = 0x060000,
    STAI_ERROR_STAI_DEINIT_FAILED = 0x060001
} stai_return_code;

typedef enum {
    STAI_FORMAT_TYPE_NONE = 0,
    STAI_FORMAT_TYPE_FLOAT = 1,
    STAI_FORMAT_TYPE_Q = 2,
    STAI_FORMAT_TYPE_BOOL = 3
} stai_format_type;

typedef enum {
    STAI_FORMAT_NONE = 0x00000040,
    STAI_FORMAT_FLOAT32 = 0x00821040,
    STAI_FORMAT_FLOAT64 = 0x00822040,
    STAI_FORMAT_U1 = 0x000400C0,
    STAI_FORMAT_U8 = 0x00040440,
    STAI_FORMAT_U16 = 0x00040840,
    STAI_FORMAT_U32 = 0x00041040,
    STAI_FORMAT_U64 = 0x00042040,
    STAI_FORMAT_S1 = 0x008400C0,
    STAI_FORMAT_S8 = 0x00840440,
    STAI_FORMAT_S16 = 0x00840840,
    STAI_FORMAT_S32 = 0x00841040,
    STAI_FORMAT_S64 = 0x00842040,
    STAI_FORMAT_Q = 0x00840040,
    STAI_FORMAT_Q7 = 0x00840447,
    STAI_FORMAT_Q15 = 0x0084084F,
    STAI_FORMAT_UQ = 0x00040040,
    STAI_FORMAT_UQ7 = 0x00040447,
    STAI_FORMAT_UQ15 = 0x0004084F,
    STAI_FORMAT_BOOL = 0x00060440
} stai_format;

#define STAI_FORMAT_GET_TYPE(format_) (((int32_t)(format_) >> 17) & 0xF)
#define STAI_FORMAT_GET_SIGN(format_) (((int32_t)(format_) >> 23) & 0x1)
#define STAI_FORMAT_GET_BITS(format_) (((int32_t)(format_) >> 7) & 0x7F)
#define STAI_FORMAT_GET_FBITS(format_) (((int32_t)(format_)&0x7F) - 64)
#define STAI_FORMAT_GET_IBITS(format_)                                                                                 \
    (STAI_FORMAT_GET_BITS(format_) - STAI_FORMAT_GET_FBITS(format_) - STAI_FORMAT_GET_SIGN(format_))

typedef enum { STAI_MODE_SYNC = 1, STAI_MODE_ASYNC = 2 } stai_run_mode;

#define STAI_FLAG_NONE 0
#define STAI_FLAG_PREALLOCATED (1 << 0)
#define STAI_FLAG_INDIRECT (1 << 1)
#define STAI_FLAG_REPLACEABLE (1 << 2)
#define STAI_FLAG_OVERRIDE (1 << 3)
#define STAI_FLAG_CHANNEL_FIRST (1 << 6)
#define STAI_FLAG_CHANNEL_LAST (1 << 7)
#define STAI_FLAG_HAS_BATCH (1 << 8)
/* Of a network: allocated by the generated code. */
#define STAI_FLAG_ACTIVATIONS (1 << 26)
#define STAI_FLAG_INPUTS (1 << 27)
#define STAI_FLAG_OUTPUTS (1 << 28)
#define STAI_FLAG_STATES (1 << 29)
#define STAI_FLAG_WEIGHTS (1 << 30)

typedef enum {
    STAI_COMPILER_ID_NONE = 0x00,
    STAI_COMPILER_ID_GCC = 0x01,
    STAI_COMPILER_ID_GHS = 0x10,
    STAI_COMPILER_ID_HIGHTECH = 0x20,
    STAI_COMPILER_ID_IAR = 0x30,
    STAI_COMPILER_ID_KEIL = 0x40,
    STAI_COMPILER_ID_KEIL_AC6 = 0x50
} stai_compiler_id;

typedef struct {
    stai_size size_bytes;
    stai_flags flags;
    stai_format format;
    stai_shape shape;
    stai_array_f32 scale; /* real = scale * (code - zeropoint) */
    stai_array_s16 zeropoint;
    const char *name;
} stai_tensor;

/* n_inputs is at a multiple of 4 bytes and n_outputs behind it: applications read it as a stai_size. */
typedef struct {
    const char *model_signature;
    const char *c_compile_datetime;
    const char *c_model_name;
    const char *c_model_datetime;
    uint32_t c_model_signature;
    stai_version runtime_version;
    stai_version tool_version;
    stai_version api_version;
    uint64_t n_macc;
    uint32_t n_nodes;
    stai_flags flags;
    uint16_t n_inputs;
    uint16_t n_outputs;
    uint16_t n_activations;
    uint16_t n_weights;
    uint16_t n_states;
    const stai_tensor *inputs;
    const stai_tensor *outputs;
    const stai_tensor *activations;
    const stai_tensor *weights;
    const stai_tensor *states;
} stai_network_info;

typedef struct {
    int32_t id;
    int16_t type;
    stai_array_s32 input_tensors; /* indices of tensors */
    stai_array_s32 output_tensors;
} stai_node_details;

typedef struct {
    const stai_tensor *tensors;
    const stai_node_details *nodes;
    uint32_t n_nodes;
} stai_network_details;

typedef struct {
    stai_version api_version;
    stai_version runtime_version;
    stai_version tools_version;
    uint32_t runtime_build;
    stai_compiler_id compiler_id;
    const char *compiler_desc;
} stai_runtime_info;

typedef void (*stai_event_cb)(void *cookie, const stai_event_type event, const void *payload);

stai_return_code stai_runtime_init(void); /* networks run without it as well */
stai_return_code stai_runtime_deinit(void);
stai_return_code stai_runtime_get_info(stai_runtime_info *info);
stai_return_code stai_runtime_set_callback(stai_event_cb callback, void *cookie); /* never called */
stai_format stai_init_format(stai_format_type type, int8_t sign, int32_t bits, int32_t fbits);
const char *stai_get_return_code_name(stai_return_code code);
const char *stai_get_format_type_name(stai_format_type type);
const char *stai_get_format_name(stai_format format);

STAI_API_DECLARE_END

#endif /* STAI_H */
