/* Versions of the runtime and the observer of a network, for applications of the embedded client API. */
#ifndef AI_PLATFORM_INTERFACE_H
#define AI_PLATFORM_INTERFACE_H

#include "ai_platform.h"
#include "ai_datatypes_defines.h"

AI_API_DECLARE_BEGIN

ai_platform_version ai_platform_runtime_get_version(void);
const char *ai_platform_runtime_get_revision(void);
ai_platform_version ai_platform_api_get_version(void);
ai_platform_version ai_platform_interface_api_get_version(void);

/* Name of an observed operator's type. */
const char *ai_layer_type_name(const int type);

#define AI_OBSERVER_NONE_EVT 0U
#define AI_OBSERVER_INIT_EVT (1U << 0)
#define AI_OBSERVER_PRE_EVT (1U << 1)
#define AI_OBSERVER_POST_EVT (1U << 2)
#define AI_OBSERVER_FIRST_EVT (1U << 8)
#define AI_OBSERVER_LAST_EVT (1U << 9)
#define AI_OBSERVER_REGISTERED (1U << 24)
#define AI_OBSERVER_MASK_EVT 0xFFU

/* Tensors of operators are not described. */
typedef struct ai_tensor_chain_ ai_tensor_chain;

typedef struct ai_observer_node_ {
    ai_u16 c_idx; /* position in the order of execution */
    ai_u16 type;
    ai_u16 id;
    ai_u16 unused;
    const ai_tensor_chain *inner_tensors; /* NULL */
    const ai_tensor_chain *tensors;       /* NULL */
} ai_observer_node;

typedef ai_u32 (*ai_observer_node_cb)(const ai_handle cookie, const ai_u32 flags, const ai_observer_node *node);

typedef struct ai_observer_exec_ctx_ {
    ai_observer_node_cb on_node;
    ai_handle cookie;
    ai_u32 flags;
    ai_u16 c_idx;
    ai_u16 n_nodes;
    ai_observer_node cur;
} ai_observer_exec_ctx;

/*
 * After init: call `cb` in run before (AI_OBSERVER_PRE_EVT of `flags`) and after (AI_OBSERVER_POST_EVT) each operator.
 * One observer a network. False for a network that was compiled without AI_OBSERVER=1.
 */
ai_bool ai_platform_observer_register(ai_handle network, ai_observer_node_cb cb, ai_handle cookie, ai_u32 flags);
ai_bool ai_platform_observer_unregister(ai_handle network, ai_observer_node_cb cb, ai_handle cookie);
ai_bool ai_platform_observer_register_s(ai_handle network, ai_observer_exec_ctx *ctx);
ai_bool ai_platform_observer_unregister_s(ai_handle network, ai_observer_exec_ctx *ctx);

/* The operator of index node->c_idx; false when there is none. */
ai_bool ai_platform_observer_node_info(ai_handle network, ai_observer_node *node);

AI_API_DECLARE_END

#endif /* AI_PLATFORM_INTERFACE_H */
