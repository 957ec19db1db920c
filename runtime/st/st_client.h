/*
 * The embedded client API of one network, for the file that is generated for it; applications include NAME.h.
 *
 * ai_platform.c keeps the rules of the interface; generated files hold facts and hand each call over.
 */
#ifndef ST_CLIENT_H
#define ST_CLIENT_H

#include "ai_platform.h"
#include "ai_platform_interface.h"
#include "st_bridge.h"

AI_API_DECLARE_BEGIN

/* Applications align activations to this many bytes at least; what the arena needs more is in its size. */
#define ST_CLIENT_ALIGNMENT 4U

/* Frames an array of buffer addresses, in every layout. */
#define ST_CLIENT_MARKER ((ai_handle)(ai_uptr)0xA1FACADEU)

/* What is known of a network; in flash. */
typedef struct {
    const st_model *model;
    const char *name;
    ai_buffer *inputs; /* descriptors of the application: their data is set by init */
    ai_buffer *outputs;
    ai_handle *weights_table; /* marker, address, marker */
    ai_handle *activations_table;
    const void *weights; /* stands for the weights, wherever the linker put them */
#if AI_PLATFORM_LAYOUT == 2
    ai_buffer *weights_map;
    ai_buffer *activations_map;
#endif
    ai_u32 weights_size;
    ai_u32 activations_size;
    ai_macc n_macc;
    ai_u16 n_inputs;
    ai_u16 n_outputs;
    ai_platform_version tool_version;
} st_client_info;

/* The one instance of a network; its address is the handle. */
typedef struct {
    const st_client_info *info;
    void *instance; /* NULL: not initialised */
    ai_handle weights;
    ai_handle activations;
    ai_error error; /* the first one since it was last asked for */
    ai_u32 created; /* the marker, or 0 */
    ai_u32 running;
    st_hook hook;
    ai_observer_exec_ctx *observer;
    ai_observer_exec_ctx own_observer;
} st_client;

/* A descriptor of an input or output; `shape` is an array of batch, channels, width, height. */
#if AI_PLATFORM_LAYOUT == 2
#define ST_CLIENT_TENSOR(fmt, h, w, c, elements, shape, meta)                                                          \
    {                                                                                                                  \
        (fmt) | AI_BUFFER_FMT_FLAG_IS_IO, NULL, (meta), AI_FLAG_NONE, (elements),                                      \
        {                                                                                                              \
            AI_SHAPE_BCWH, 4, (shape)                                                                                  \
        }                                                                                                              \
    }
#elif AI_PLATFORM_LAYOUT == 1
#define ST_CLIENT_TENSOR(fmt, h, w, c, elements, shape, meta)                                                          \
    {                                                                                                                  \
        (fmt) | AI_BUFFER_FMT_FLAG_IS_IO, 1, (h), (w), (c), NULL, (meta)                                               \
    }
#else
#define ST_CLIENT_TENSOR(fmt, h, w, c, elements, shape, meta)                                                          \
    {                                                                                                                  \
        (fmt), 1, (h), (w), (c), NULL                                                                                  \
    }
#endif

/* Files compiled for different layouts do not link. */
#if AI_PLATFORM_LAYOUT == 1
#define st_client_create st_client_create_layout_1
#elif AI_PLATFORM_LAYOUT == 0
#define st_client_create st_client_create_layout_0
#endif

/* Facts in flash behind the pointers of ai_buffer, which are not const. */
#define ST_CLIENT_FLASH(type, address) ((type *)(ai_uptr)(address))

ai_error st_client_create(st_client *client, ai_handle *network);
ai_handle st_client_destroy(st_client *client, ai_handle network);
ai_error st_client_get_error(st_client *client, ai_handle network);
ai_bool st_client_init(st_client *client, ai_handle network, const ai_network_params *params);
ai_bool st_client_get_report(st_client *client, ai_handle network, ai_network_report *report);
ai_buffer *st_client_inputs_get(st_client *client, ai_handle network, ai_u16 *n_buffer);
ai_buffer *st_client_outputs_get(st_client *client, ai_handle network, ai_u16 *n_buffer);
ai_i32 st_client_run(st_client *client, ai_handle network, const ai_buffer *input, ai_buffer *output);
ai_handle st_client_weights(const st_client_info *info);
#if AI_PLATFORM_LAYOUT == 2
ai_bool st_client_data_params_get(const st_client_info *info, ai_network_params *params);
ai_error st_client_create_and_init(st_client *client, ai_handle *network, const ai_handle activations[],
                                   const ai_handle weights[]);
#endif

AI_API_DECLARE_END

#endif /* ST_CLIENT_H */
