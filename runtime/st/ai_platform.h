/*
 * The types of the embedded client API (ai_<name>_create, ai_buffer, ai_error, ..) for networks generated with
 * --c-api x-cube-ai. The interface is ST's; this implementation of it is tvm-stm32's.
 *
 * AI_PLATFORM_LAYOUT chooses the generation of ai_buffer and of the network's structures, for the whole build:
 *   0: platform API 1.0.0 (16-bit formats, buffers by value in the report)
 *   1: platform API 1.1.0 (n_batches, height, width, channels)
 *   2: platform API 1.2.0 (shapes, maps of several activation and weight buffers); the default
 */
#ifndef AI_PLATFORM_H
#define AI_PLATFORM_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef AI_PLATFORM_LAYOUT
#define AI_PLATFORM_LAYOUT 2
#endif
#if (AI_PLATFORM_LAYOUT < 0) || (AI_PLATFORM_LAYOUT > 2)
#error "AI_PLATFORM_LAYOUT is 0, 1 or 2"
#endif

#ifdef __cplusplus
#define AI_API_DECLARE_BEGIN extern "C" {
#define AI_API_DECLARE_END }
#else
#define AI_API_DECLARE_BEGIN
#define AI_API_DECLARE_END
#endif

/* Versions. */
#define AI_VERSION(major, minor, micro) (((major) << 24) | ((minor) << 16) | ((micro) << 8))

#define AI_PLATFORM_API_MAJOR 1
#define AI_PLATFORM_API_MINOR AI_PLATFORM_LAYOUT
#define AI_PLATFORM_API_MICRO 0

#define AI_TOOLS_API_VERSION_MAJOR 1
#if AI_PLATFORM_LAYOUT == 2
#define AI_TOOLS_API_VERSION_MINOR 5
#elif AI_PLATFORM_LAYOUT == 1
#define AI_TOOLS_API_VERSION_MINOR 4
#else
#define AI_TOOLS_API_VERSION_MINOR 1
#endif
#define AI_TOOLS_API_VERSION_MICRO 0

#if AI_PLATFORM_LAYOUT == 2
#define AI_PLATFORM_API_VERSION AI_VERSION(AI_PLATFORM_API_MAJOR, AI_PLATFORM_API_MINOR, AI_PLATFORM_API_MICRO)
#define AI_TOOLS_API_VERSION                                                                                           \
    AI_VERSION(AI_TOOLS_API_VERSION_MAJOR, AI_TOOLS_API_VERSION_MINOR, AI_TOOLS_API_VERSION_MICRO)
#define AI_TOOLS_API_VERSION_1_3 AI_VERSION(1, 3, 0)
#define AI_TOOLS_API_VERSION_1_4 AI_VERSION(1, 4, 0)
#define AI_TOOLS_API_VERSION_1_5 AI_VERSION(1, 5, 0)
#endif

/* The compiler. */
#if defined(__ICCARM__)
#define AI_PRAGMA_(text) _Pragma(#text)
#define AI_ALIGNED_1 AI_PRAGMA_(data_alignment = 1)
#define AI_ALIGNED_2 AI_PRAGMA_(data_alignment = 2)
#define AI_ALIGNED_4 AI_PRAGMA_(data_alignment = 4)
#define AI_ALIGNED_8 AI_PRAGMA_(data_alignment = 8)
#define AI_ALIGNED_16 AI_PRAGMA_(data_alignment = 16)
#define AI_ALIGNED_32 AI_PRAGMA_(data_alignment = 32)
#define AI_ALIGNED_(x) AI_ALIGNED_##x
#define AI_ALIGNED(x) AI_ALIGNED_(x)
#define AI_PACK(...) __packed __VA_ARGS__
#elif defined(__GNUC__) || defined(__clang__) || defined(__CC_ARM)
#define AI_ALIGNED(x) __attribute__((aligned(x)))
#define AI_PACK(...) __VA_ARGS__ __attribute__((packed))
#else
#define AI_ALIGNED(x)
#define AI_PACK(...) __VA_ARGS__
#endif

/* Unnamed structures and unions are no part of C99. */
#if defined(__GNUC__) || defined(__clang__)
#define AI_UNNAMED_ __extension__
#else
#define AI_UNNAMED_
#endif

#define AI_API_ENTRY
#define AI_DEPRECATED
#define AI_LEGACY
#if AI_PLATFORM_LAYOUT == 0
#define AI_UNUSED(x) (void)(x)
#else
#define AI_UNUSED(x) (void)(x);
#endif

#define AI_HANDLE_PTR(ptr) ((ai_handle)(ptr))
#define AI_HANDLE_NULL AI_HANDLE_PTR(NULL)
#define AI_HANDLE_FUNC_PTR(func) ((ai_handle_func)(func))

#define AI_STRUCT_INIT                                                                                                 \
    {                                                                                                                  \
        0                                                                                                              \
    }
#define AI_C_ARRAY_INIT                                                                                                \
    {                                                                                                                  \
        0                                                                                                              \
    }
#define AI_FLAG_NONE 0x0
#if AI_PLATFORM_LAYOUT == 2
#define AI_MAGIC_SIGNATURE 0xA1FACADE
#define AI_MAGIC_MARKER 0xA1FACADE
#endif

#define SSIZET_FMT "%" PRIu32
#define AII32_FMT "%" PRId32
#define AIU32_FMT "%" PRIu32
#if AI_PLATFORM_LAYOUT == 2
#define AII64_FMT "%" PRId64
#define AIU64_FMT "%" PRIu64
#endif

AI_API_DECLARE_BEGIN

/* Scalars. */
typedef void *ai_handle;
typedef void (*ai_handle_func)(void *);
typedef float ai_float;
typedef double ai_double;
typedef bool ai_bool;
typedef uint32_t ai_size;
typedef uintptr_t ai_uptr;
typedef unsigned int ai_uint;
typedef int ai_int;
typedef uint8_t ai_u8;
typedef uint16_t ai_u16;
typedef uint32_t ai_u32;
typedef uint64_t ai_u64;
typedef int8_t ai_i8;
typedef int16_t ai_i16;
typedef int32_t ai_i32;
typedef int64_t ai_i64;
typedef uint32_t ai_signature;
typedef uint8_t ai_custom_type_signature;
#if AI_PLATFORM_LAYOUT == 0
typedef uint16_t ai_buffer_format;
#else
typedef int32_t ai_buffer_format;
#endif
#if AI_PLATFORM_LAYOUT == 2
typedef const void *ai_handle_const;
typedef char ai_char;
typedef uint32_t ai_flags;
typedef uint32_t ai_shape_dimension;
typedef uint64_t ai_macc;
typedef int32_t ai_pbits;
#else
typedef uint32_t ai_macc;
#endif

/* Errors. */
typedef enum {
    AI_ERROR_NONE = 0x00,
#if AI_PLATFORM_LAYOUT == 2
    AI_ERROR_TOOL_PLATFORM_API_MISMATCH = 0x01,
#else
    AI_ERROR_TOOL_PLATFORM_MISMATCH = 0x01,
#endif
    AI_ERROR_TYPES_MISMATCH = 0x02,
    AI_ERROR_INVALID_HANDLE = 0x10,
    AI_ERROR_INVALID_STATE = 0x11,
    AI_ERROR_INVALID_INPUT = 0x12,
    AI_ERROR_INVALID_OUTPUT = 0x13,
    AI_ERROR_INVALID_PARAM = 0x14,
    AI_ERROR_INVALID_SIGNATURE = 0x15,
    AI_ERROR_INVALID_SIZE = 0x16,
    AI_ERROR_INVALID_VALUE = 0x17,
    AI_ERROR_INIT_FAILED = 0x30,
    AI_ERROR_ALLOCATION_FAILED = 0x31,
    AI_ERROR_DEALLOCATION_FAILED = 0x32,
    AI_ERROR_CREATE_FAILED = 0x33
} ai_error_type;

typedef enum {
    AI_ERROR_CODE_NONE = 0x0000,
    AI_ERROR_CODE_NETWORK = 0x0010,
    AI_ERROR_CODE_NETWORK_PARAMS = 0x0011,
    AI_ERROR_CODE_NETWORK_WEIGHTS = 0x0012,
    AI_ERROR_CODE_NETWORK_ACTIVATIONS = 0x0013,
    AI_ERROR_CODE_LAYER = 0x0014,
    AI_ERROR_CODE_TENSOR = 0x0015,
    AI_ERROR_CODE_ARRAY = 0x0016,
    AI_ERROR_CODE_INVALID_PTR = 0x0017,
    AI_ERROR_CODE_INVALID_SIZE = 0x0018,
    AI_ERROR_CODE_INVALID_FORMAT = 0x0019,
    AI_ERROR_CODE_OUT_OF_RANGE = 0x0020,
    AI_ERROR_CODE_INVALID_BATCH = 0x0021,
    AI_ERROR_CODE_MISSED_INIT = 0x0030,
    AI_ERROR_CODE_IN_USE = 0x0040,
    AI_ERROR_CODE_LOCK = 0x0041
} ai_error_code;

typedef struct ai_error_ {
    ai_u32 type : 8;  /* ai_error_type */
    ai_u32 code : 24; /* ai_error_code */
} ai_error;

#define AI_ERROR_INIT(type_, code_)                                                                                    \
    {                                                                                                                  \
        AI_ERROR_##type_, AI_ERROR_CODE_##code_                                                                        \
    }

/* Formats of elements. */
#if AI_PLATFORM_LAYOUT == 0

enum {
    AI_BUFFER_FORMAT_NONE = 0x00,
    AI_BUFFER_FORMAT_FLOAT = 0x01,
    AI_BUFFER_FORMAT_U8 = 0x10,
    AI_BUFFER_FORMAT_Q7 = 0x31,
    AI_BUFFER_FORMAT_Q15 = 0x32,
    /* What this generation has no name for. */
    AI_BUFFER_FORMAT_S8 = AI_BUFFER_FORMAT_Q7,
    AI_BUFFER_FORMAT_S16 = AI_BUFFER_FORMAT_Q15,
    AI_BUFFER_FORMAT_U16 = AI_BUFFER_FORMAT_NONE,
    AI_BUFFER_FORMAT_U32 = AI_BUFFER_FORMAT_NONE,
    AI_BUFFER_FORMAT_S32 = AI_BUFFER_FORMAT_NONE,
    AI_BUFFER_FORMAT_U64 = AI_BUFFER_FORMAT_NONE,
    AI_BUFFER_FORMAT_S64 = AI_BUFFER_FORMAT_NONE,
    AI_BUFFER_FORMAT_FLOAT64 = AI_BUFFER_FORMAT_NONE,
    AI_BUFFER_FORMAT_BOOL = AI_BUFFER_FORMAT_U8
};

#define AI_BUFFER_FMT_FLAG_CONST (0x1U << 15)
#define AI_BUFFER_FMT_FLAG_STATIC (0x1U << 14)
#define AI_BUFFER_FMT_FLAG_IS_IO 0x0U
#define AI_BUFFER_FMT_MASK 0x3FFF

#else

enum {
    AI_BUFFER_FMT_TYPE_NONE = 0,
    AI_BUFFER_FMT_TYPE_FLOAT = 1,
    AI_BUFFER_FMT_TYPE_Q = 2,
    AI_BUFFER_FMT_TYPE_BOOL = 3
};

enum {
    AI_BUFFER_FMT_FLAG_CONST = 0x1 << 30,
    AI_BUFFER_FMT_FLAG_STATIC = 0x1 << 29,
#if AI_PLATFORM_LAYOUT == 2
    AI_BUFFER_FMT_FLAG_PERSISTENT = 0x1 << 29,
#endif
    AI_BUFFER_FMT_FLAG_IS_IO = 0x1 << 27
};

enum {
    AI_BUFFER_FORMAT_NONE = 0x00000040,
#if AI_PLATFORM_LAYOUT == 2
    AI_BUFFER_FORMAT_FLOAT = 0x00821040,
    AI_BUFFER_FORMAT_FLOAT64 = 0x00822040,
#else
    AI_BUFFER_FORMAT_FLOAT = 0x01821040,
    AI_BUFFER_FORMAT_FLOAT64 = 0x01822040,
#endif
    AI_BUFFER_FORMAT_U1 = 0x000400C0,
    AI_BUFFER_FORMAT_U8 = 0x00040440,
    AI_BUFFER_FORMAT_U16 = 0x00040840,
    AI_BUFFER_FORMAT_U32 = 0x00041040,
    AI_BUFFER_FORMAT_U64 = 0x00042040,
    AI_BUFFER_FORMAT_S1 = 0x008400C0,
    AI_BUFFER_FORMAT_S8 = 0x00840440,
    AI_BUFFER_FORMAT_S16 = 0x00840840,
    AI_BUFFER_FORMAT_S32 = 0x00841040,
    AI_BUFFER_FORMAT_S64 = 0x00842040,
    AI_BUFFER_FORMAT_Q = 0x00840040,
    AI_BUFFER_FORMAT_Q7 = 0x00840447,
    AI_BUFFER_FORMAT_Q15 = 0x0084084F,
    AI_BUFFER_FORMAT_UQ = 0x00040040,
    AI_BUFFER_FORMAT_UQ7 = 0x00040447,
    AI_BUFFER_FORMAT_UQ15 = 0x0004084F,
    AI_BUFFER_FORMAT_BOOL = 0x00060440
};

#define AI_BUFFER_FMT_MASK 0x01FFFFFF
#define AI_BUFFER_FMT_PACK(value, mask, shift) (((value) & (mask)) << (shift))
#define AI_BUFFER_FMT_UNPACK(fmt, mask, shift) (((ai_buffer_format)(fmt) >> (shift)) & (mask))
#define AI_BUFFER_FMT_GET(fmt) ((fmt)&AI_BUFFER_FMT_MASK)
#define AI_BUFFER_FMT_SAME(a, b) (AI_BUFFER_FMT_GET(a) == AI_BUFFER_FMT_GET(b))
#define AI_BUFFER_FMT_GET_TYPE(fmt) AI_BUFFER_FMT_UNPACK(fmt, 0xF, 17)
#define AI_BUFFER_FMT_GET_SIGN(fmt) AI_BUFFER_FMT_UNPACK(fmt, 0x1, 23)
#define AI_BUFFER_FMT_GET_BITS(fmt) AI_BUFFER_FMT_UNPACK(fmt, 0x7F, 7)
#define AI_BUFFER_FMT_GET_FBITS(fmt) (AI_BUFFER_FMT_UNPACK(fmt, 0x7F, 0) - 64)
#define AI_BUFFER_FMT_SET_BITS(bits) AI_BUFFER_FMT_PACK(bits, 0x7F, 7)
#define AI_BUFFER_FMT_SET_FBITS(fbits) AI_BUFFER_FMT_PACK((fbits) + 64, 0x7F, 0)
#if AI_PLATFORM_LAYOUT == 2
#define AI_BUFFER_FMT_GET_FLOAT(fmt) (AI_BUFFER_FMT_GET_TYPE(fmt) == AI_BUFFER_FMT_TYPE_FLOAT)
#define AI_BUFFER_FMT_SET_FLOAT_(is_float) 0
#else
#define AI_BUFFER_FMT_GET_FLOAT(fmt) AI_BUFFER_FMT_UNPACK(fmt, 0x1, 24)
#define AI_BUFFER_FMT_SET_FLOAT_(is_float) AI_BUFFER_FMT_PACK(is_float, 0x1, 24)
#endif
#define AI_BUFFER_FMT_SET(type_, sign_, float_, bits_, fbits_)                                                         \
    (AI_BUFFER_FMT_PACK(type_, 0xF, 17) | AI_BUFFER_FMT_PACK(sign_, 0x1, 23) | AI_BUFFER_FMT_SET_FLOAT_(float_) |      \
     AI_BUFFER_FMT_SET_BITS(bits_) | AI_BUFFER_FMT_SET_FBITS(fbits_))

#endif

#define AI_BUFFER_FORMAT(buf) ((buf)->format & AI_BUFFER_FMT_MASK)
#define AI_BUFFER_DATA(buf, type_) ((type_ *)(buf)->data)

/* Quantization: real = scale * (code - zero point), once or for each channel. */
#if AI_PLATFORM_LAYOUT != 0

#define AI_BUFFER_META_HAS_INTQ_INFO (0x1U << 0)
#define AI_BUFFER_META_FLAG_SCALE_FLOAT (0x1U << 0)
#define AI_BUFFER_META_FLAG_ZEROPOINT_U8 (0x1U << 1)
#define AI_BUFFER_META_FLAG_ZEROPOINT_S8 (0x1U << 2)
#define AI_BUFFER_META_FLAG_ZEROPOINT_U16 (0x1U << 3)
#define AI_BUFFER_META_FLAG_ZEROPOINT_S16 (0x1U << 4)

typedef struct ai_intq_info_ {
    const ai_float *scale;
    const ai_handle zeropoint;
} ai_intq_info;

typedef struct ai_intq_info_list_ {
    ai_u16 flags; /* AI_BUFFER_META_FLAG_* */
    ai_u16 size;  /* more than 1: one entry for each channel */
    const ai_intq_info *info;
} ai_intq_info_list;

typedef struct ai_buffer_meta_info_ {
    ai_u32 flags; /* AI_BUFFER_META_HAS_INTQ_INFO */
    ai_intq_info_list *intq_info;
} ai_buffer_meta_info;

#define AI_BUFFER_META_INFO(buf) ((buf)->meta_info)
#define AI_BUFFER_META_INFO_INIT(flags_, intq_)                                                                        \
    {                                                                                                                  \
        (flags_), (intq_)                                                                                              \
    }
#define AI_INTQ_INFO_LIST_FLAGS(list) ((list)->flags)
#define AI_INTQ_INFO_LIST_SIZE(list) ((list)->size)
#define AI_HAS_INTQ_INFO_LIST(list) (((list)->info != NULL) && ((list)->size > 0))
#define AI_INTQ_INFO_LIST_SCALE(list, type_, index)                                                                    \
    ((((list)->info != NULL) && ((list)->info->scale != NULL) && ((index) < (list)->size))                             \
         ? ((const type_ *)(list)->info->scale)[index]                                                                 \
         : (type_)0)
#define AI_INTQ_INFO_LIST_ZEROPOINT(list, type_, index)                                                                \
    ((((list)->info != NULL) && ((list)->info->zeropoint != NULL) && ((index) < (list)->size))                         \
         ? ((const type_ *)(list)->info->zeropoint)[index]                                                             \
         : (type_)0)

static inline ai_intq_info_list *ai_meta_intq_(const ai_buffer_meta_info *meta)
{
    return ((meta != NULL) && ((meta->flags & AI_BUFFER_META_HAS_INTQ_INFO) != 0U)) ? meta->intq_info : NULL;
}

static inline ai_float ai_meta_scale_(const ai_buffer_meta_info *meta, ai_u32 index)
{
    const ai_intq_info_list *const list = ai_meta_intq_(meta);

    if (list == NULL) {
        return 0.0f;
    }
#if AI_PLATFORM_LAYOUT == 2
    if (index >= list->size) {
        return 1.0f;
    }
#endif
    return AI_INTQ_INFO_LIST_SCALE(list, ai_float, index);
}

static inline ai_int ai_meta_zeropoint_(const ai_buffer_meta_info *meta, ai_u32 index)
{
    const ai_intq_info_list *const list = ai_meta_intq_(meta);

    if (list == NULL) {
        return 0;
    }
    if ((list->flags & AI_BUFFER_META_FLAG_ZEROPOINT_U8) != 0U) {
        return AI_INTQ_INFO_LIST_ZEROPOINT(list, ai_u8, index);
    }
    if ((list->flags & AI_BUFFER_META_FLAG_ZEROPOINT_U16) != 0U) {
        return AI_INTQ_INFO_LIST_ZEROPOINT(list, ai_u16, index);
    }
    if ((list->flags & AI_BUFFER_META_FLAG_ZEROPOINT_S16) != 0U) {
        return AI_INTQ_INFO_LIST_ZEROPOINT(list, ai_i16, index);
    }
    return AI_INTQ_INFO_LIST_ZEROPOINT(list, ai_i8, index);
}

#define AI_BUFFER_META_INFO_INTQ(meta) ai_meta_intq_(meta)
#define AI_BUFFER_META_INFO_INTQ_GET_SIZE(meta)                                                                        \
    ((ai_meta_intq_(meta) != NULL) ? AI_INTQ_INFO_LIST_SIZE(ai_meta_intq_(meta)) : 0)
#define AI_BUFFER_META_INFO_INTQ_GET_SCALE(meta, index) ai_meta_scale_((meta), (ai_u32)(index))
#define AI_BUFFER_META_INFO_INTQ_GET_ZEROPOINT(meta, index) ai_meta_zeropoint_((meta), (ai_u32)(index))

#endif

/* Buffers: memory with a format and a shape. The payload's last dimension is the channels, unless documented else. */
#if AI_PLATFORM_LAYOUT == 2

#define AI_SHAPE_BATCH 0
#define AI_SHAPE_IN_CHANNEL 0
#define AI_SHAPE_TIME 0
#define AI_SHAPE_CHANNEL 1
#define AI_SHAPE_WIDTH 2
#define AI_SHAPE_HEIGHT 3
#define AI_SHAPE_DEPTH 4
#define AI_SHAPE_EXTENSION 5
#define AI_SHAPE_BCWH 1

typedef struct ai_buffer_shape_ {
    ai_u32 type : 8;  /* AI_SHAPE_BCWH */
    ai_u32 size : 24; /* number of dimensions */
    ai_shape_dimension *data;
} ai_buffer_shape;

typedef struct ai_buffer_ {
    ai_buffer_format format;
    ai_handle data;
    ai_buffer_meta_info *meta_info;
    ai_flags flags;
    ai_size size; /* elements */
    ai_buffer_shape shape;
} ai_buffer;

typedef struct ai_buffer_array_ {
    ai_u16 flags;
    ai_u16 size;
    ai_buffer *buffer;
} ai_buffer_array;

ai_size ai_buffer_get_size(const ai_buffer *buffer, const ai_bool with_padding); /* elements of one batch */
ai_size ai_buffer_get_byte_size(const ai_size count, const ai_buffer_format format);
ai_bool ai_buffer_array_is_empty(const ai_buffer_array *array);
ai_bool ai_buffer_array_is_valid(const ai_buffer_array *array);
ai_bool ai_buffer_array_sane(const ai_buffer_array *array);
ai_size ai_buffer_array_get_byte_size(const ai_buffer_array *array);
ai_bool ai_buffer_array_item_set_address(ai_buffer_array *array, const ai_u32 index, ai_handle address);

#define AI_BUFFER_SHAPE_TYPE(buf) ((buf)->shape.type)
#define AI_BUFFER_SHAPE_SIZE(buf) ((buf)->shape.size)
#define AI_BUFFER_SHAPE_ELEM(buf, index)                                                                               \
    (((ai_u32)(index) < (ai_u32)(buf)->shape.size) ? (buf)->shape.data[index] : (ai_shape_dimension)0)
#define AI_BUFFER_SET_SHAPE_ELEM(buf, index, value)                                                                    \
    do {                                                                                                               \
        if ((ai_u32)(index) < (ai_u32)(buf)->shape.size) {                                                             \
            (buf)->shape.data[index] = (value);                                                                        \
        }                                                                                                              \
    } while (0)
#define AI_BUFFER_WIDTH(buf) AI_BUFFER_SHAPE_ELEM(buf, AI_SHAPE_WIDTH)
#define AI_BUFFER_HEIGHT(buf) AI_BUFFER_SHAPE_ELEM(buf, AI_SHAPE_HEIGHT)
#define AI_BUFFER_CHANNELS(buf) AI_BUFFER_SHAPE_ELEM(buf, AI_SHAPE_CHANNEL)
#define AI_BUFFER_N_BATCHES(buf) AI_BUFFER_SHAPE_ELEM(buf, AI_SHAPE_BATCH)
#define AI_BUFFER_FLAGS(buf) ((buf)->flags)
#define AI_BUFFER_SIZE(buf) ai_buffer_get_size((buf), true)
#define AI_BUFFER_SIZE_UNPAD(buf) ai_buffer_get_size((buf), false)
#define AI_BUFFER_BYTE_SIZE(count, fmt) ai_buffer_get_byte_size((count), (fmt))

/* Channels of one bit fill words of 32. */
#define AI_PAD_CHANNELS(fmt, channels)                                                                                 \
    ((AI_BUFFER_FMT_GET_BITS(fmt) == 1) ? ((((channels) + 31) / 32) * 32) : (channels))

#define AI_BUFFER_SHAPE_INIT(type_, rank_, ...)                                                                        \
    {                                                                                                                  \
        (type_), (rank_), (ai_shape_dimension[])                                                                       \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define AI_BUFFER_SHAPE_INIT_FROM_ARRAY(type_, rank_, array_)                                                          \
    {                                                                                                                  \
        (type_), (rank_), (array_)                                                                                     \
    }
#define AI_BUFFER_INIT(flags_, fmt_, shape_, size_, meta_, data_)                                                      \
    {                                                                                                                  \
        (ai_buffer_format)(fmt_), AI_HANDLE_PTR(data_), (meta_), (flags_), (size_), shape_                             \
    }
#define AI_BUFFER_INIT_STATIC(type_, flags_, fmt_, shape_, size_, meta_, ...)                                          \
    {                                                                                                                  \
        (ai_buffer_format)(fmt_), AI_HANDLE_PTR(((type_[]){__VA_ARGS__})), (meta_), (flags_), (size_), shape_          \
    }
#define AI_BUFFER_OBJ_INIT(fmt_, h_, w_, c_, n_, data_)                                                                \
    AI_BUFFER_INIT(AI_FLAG_NONE, fmt_, AI_BUFFER_SHAPE_INIT(AI_SHAPE_BCWH, 4, (n_), (c_), (w_), (h_)),                 \
                   (h_) * (w_)*AI_PAD_CHANNELS(fmt_, c_), NULL, data_)
#define AI_BUFFER_OBJ_INIT_STATIC(type_, fmt_, h_, w_, c_, n_, ...)                                                    \
    AI_BUFFER_INIT_STATIC(type_, AI_FLAG_NONE, fmt_, AI_BUFFER_SHAPE_INIT(AI_SHAPE_BCWH, 4, (n_), (c_), (w_), (h_)),   \
                          (h_) * (w_)*AI_PAD_CHANNELS(fmt_, c_), NULL, __VA_ARGS__)
#define AI_BUFFER_ARRAY_OBJ_INIT(flags_, size_, buffers_)                                                              \
    {                                                                                                                  \
        (flags_), (size_), (buffers_)                                                                                  \
    }
#define AI_BUFFER_ARRAY_OBJ_INIT_STATIC(flags_, size_, ...)                                                            \
    {                                                                                                                  \
        (flags_), (size_), (ai_buffer[])                                                                               \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

#define AI_BUFFER_ARRAY_SANE(array) ai_buffer_array_sane(array)
#define AI_BUFFER_ARRAY_FLAGS(array) (AI_BUFFER_ARRAY_SANE(array) ? (array)->flags : AI_FLAG_NONE)
#define AI_BUFFER_ARRAY_SIZE(array) (AI_BUFFER_ARRAY_SANE(array) ? (array)->size : 0)
#define AI_BUFFER_ARRAY_ITEM(array, index) (AI_BUFFER_ARRAY_SANE(array) ? &(array)->buffer[index] : NULL)
#define AI_BUFFER_ARRAY_ITEM_SET_ADDRESS(array, index, address)                                                        \
    ai_buffer_array_item_set_address((array), (index), (address))

#else

typedef struct ai_buffer_ {
    ai_buffer_format format;
    ai_u16 n_batches;
    ai_u16 height;
    ai_u16 width;
    ai_u32 channels;
    ai_handle data;
#if AI_PLATFORM_LAYOUT == 1
    ai_buffer_meta_info *meta_info;
#endif
} ai_buffer;

#define AI_BUFFER_WIDTH(buf) ((buf)->width)
#define AI_BUFFER_HEIGHT(buf) ((buf)->height)
#define AI_BUFFER_CHANNELS(buf) ((buf)->channels)
#define AI_BUFFER_N_BATCHES(buf) ((buf)->n_batches)
#define AI_BUFFER_FLAGS(buf) ((buf)->format & ~AI_BUFFER_FMT_MASK)
#define AI_BUFFER_SIZE(buf) ((ai_u32)(buf)->height * (buf)->width * (buf)->channels)

#if AI_PLATFORM_LAYOUT == 1
#define AI_BUFFER_BYTE_SIZE(count, fmt) (((count) * (ai_u32)AI_BUFFER_FMT_GET_BITS(fmt) + 4U) >> 3)
#define AI_BUFFER_OBJ_INIT(fmt_, h_, w_, c_, n_, data_)                                                                \
    {                                                                                                                  \
        (ai_buffer_format)(fmt_), (n_), (h_), (w_), (c_), AI_HANDLE_PTR(data_), NULL                                   \
    }
#define AI_BUFFER_OBJ_INIT_STATIC(type_, fmt_, h_, w_, c_, n_, ...)                                                    \
    {                                                                                                                  \
        (ai_buffer_format)(fmt_), (n_), (h_), (w_), (c_), AI_HANDLE_PTR(((type_[]){__VA_ARGS__})), NULL                \
    }
#else
#define AI_BUFFER_OBJ_INIT(fmt_, h_, w_, c_, n_, data_)                                                                \
    {                                                                                                                  \
        (ai_buffer_format)(fmt_), (n_), (h_), (w_), (c_), AI_HANDLE_PTR(data_)                                         \
    }
#endif

#endif

/* Networks. */
typedef struct ai_platform_version_ {
    ai_u8 major;
    ai_u8 minor;
    ai_u8 micro;
    ai_u8 reserved;
} ai_platform_version;

#if AI_PLATFORM_LAYOUT == 2

/* Weights and activations: a buffer of each, or arrays of buffers marked with AI_MAGIC_SIGNATURE. */
#define AI_NETWORK_PARAMS_FIELDS_                                                                                      \
    AI_UNNAMED_ union {                                                                                                \
        AI_UNNAMED_ struct {                                                                                           \
            ai_buffer params;                                                                                          \
            ai_buffer activations;                                                                                     \
        };                                                                                                             \
        AI_UNNAMED_ struct {                                                                                           \
            ai_signature map_signature;                                                                                \
            ai_buffer_array map_weights;                                                                               \
            ai_buffer_array map_activations;                                                                           \
        };                                                                                                             \
    };

AI_UNNAMED_ typedef struct ai_network_params_ {
    AI_NETWORK_PARAMS_FIELDS_
} ai_network_params;

typedef struct ai_network_buffers_ {
    ai_signature map_signature;
    ai_buffer_array map_weights;
    ai_buffer_array map_activations;
} ai_network_buffers;

#define AI_NETWORK_PARAMS_INIT(weights_, activations_)                                                                 \
    {                                                                                                                  \
        {                                                                                                              \
            {                                                                                                          \
                weights_, activations_                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }
#define AI_NETWORK_BUFFERS_INIT(weights_, activations_)                                                                \
    {                                                                                                                  \
        AI_MAGIC_SIGNATURE, weights_, activations_                                                                     \
    }

#else

typedef struct ai_network_params_ {
    ai_buffer params; /* weights */
    ai_buffer activations;
} ai_network_params;

#define AI_NETWORK_PARAMS_INIT(weights_, activations_)                                                                 \
    {                                                                                                                  \
        weights_, activations_                                                                                         \
    }

#endif

typedef struct ai_network_report_ {
    const char *model_name;
    const char *model_signature;
    const char *model_datetime;
    const char *compile_datetime;
    const char *runtime_revision;
    ai_platform_version runtime_version;
    const char *tool_revision;
    ai_platform_version tool_version;
    ai_platform_version tool_api_version;
    ai_platform_version api_version;
    ai_platform_version interface_api_version;
    ai_macc n_macc;
    ai_u16 n_inputs;
    ai_u16 n_outputs;
#if AI_PLATFORM_LAYOUT == 2
    ai_buffer *inputs;
    ai_buffer *outputs;
    AI_NETWORK_PARAMS_FIELDS_
#elif AI_PLATFORM_LAYOUT == 1
    ai_buffer *inputs;
    ai_buffer *outputs;
    ai_buffer activations;
    ai_buffer params;
#else
    ai_buffer inputs; /* the first one */
    ai_buffer outputs;
    ai_buffer activations;
    ai_buffer weights;
#endif
    ai_u32 n_nodes;
    ai_signature signature;
} ai_network_report;

AI_API_DECLARE_END

#endif /* AI_PLATFORM_H */
