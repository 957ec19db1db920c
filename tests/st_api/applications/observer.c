/* Case 7: an observer of the operators. */
#include <string.h>

#include "ai_datatypes_defines.h"
#include "ai_platform_interface.h"
#include "application.h"
#include "net_2_digits.h"
#include "net_2_digits_data.h"

AI_ALIGNED(32) static ai_u8 pool[AI_NET_2_DIGITS_DATA_ACTIVATION_1_SIZE];
static ai_handle network = AI_HANDLE_NULL;
static struct {
    int calls;
    int firsts;
    int lasts;
    int wrong;
    int id;
} seen;

const unsigned application_input_bytes = AI_NET_2_DIGITS_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_NET_2_DIGITS_OUT_1_SIZE_BYTES;

static ai_u32 on_node(const ai_handle cookie, const ai_u32 flags, const ai_observer_node *node)
{
    if (cookie != &seen || node->c_idx != seen.calls / 2 || node->id != node->c_idx) {
        seen.wrong++;
    }
    if ((flags & AI_OBSERVER_PRE_EVT) != ((seen.calls % 2 == 0) ? AI_OBSERVER_PRE_EVT : 0)) {
        seen.wrong++;
    }
    if (((flags & AI_OBSERVER_POST_EVT) == 0) == ((flags & AI_OBSERVER_PRE_EVT) == 0)) {
        seen.wrong++;
    }
    seen.firsts += (flags & AI_OBSERVER_FIRST_EVT) ? 1 : 0;
    seen.lasts += (flags & AI_OBSERVER_LAST_EVT) ? 1 : 0;
    seen.id = node->id;
    app_log("%d %d %s\n", node->id, node->type & 0x7FFF, ai_layer_type_name(node->type & 0x7FFF));
    seen.calls++;
    return 0;
}

int application(const unsigned char *input, unsigned char *output)
{
    const ai_handle acts[] = {pool};
    ai_observer_node node = {.c_idx = 1};
    ai_observer_exec_ctx ctx = {.on_node = on_node, .cookie = &seen, .flags = AI_OBSERVER_POST_EVT};
    ai_buffer *ins;
    ai_buffer *outs;

    if (network == AI_HANDLE_NULL) {
        CHECK(ai_net_2_digits_create_and_init(&network, acts, NULL).type == AI_ERROR_NONE);
    }
    memset(&seen, 0, sizeof(seen));
    CHECK(ai_platform_observer_register(network, on_node, &seen, AI_OBSERVER_PRE_EVT | AI_OBSERVER_POST_EVT));
    CHECK(!ai_platform_observer_register_s(network, &ctx));
    CHECK(ai_net_2_digits_get_error(network).code == AI_ERROR_CODE_IN_USE);
    CHECK(ai_platform_observer_node_info(network, &node) && node.id == 1);
    CHECK(strcmp(ai_layer_type_name(node.type), "depthwise_conv2d") == 0);
    node.c_idx = AI_NET_2_DIGITS_N_NODES;
    CHECK(!ai_platform_observer_node_info(network, &node));
    ins = ai_net_2_digits_inputs_get(network, NULL);
    outs = ai_net_2_digits_outputs_get(network, NULL);
    memcpy(ins[0].data, input, AI_NET_2_DIGITS_IN_1_SIZE_BYTES);
    CHECK(ai_net_2_digits_run(network, ins, outs) == 1);
    CHECK(seen.calls == 2 * AI_NET_2_DIGITS_N_NODES && seen.wrong == 0);
    CHECK(seen.firsts == 2 && seen.lasts == 2 && seen.id == AI_NET_2_DIGITS_N_NODES - 1);
    memcpy(output, outs[0].data, AI_NET_2_DIGITS_OUT_1_SIZE_BYTES);
    CHECK(!ai_platform_observer_unregister(network, on_node, NULL));
    CHECK(ai_platform_observer_unregister(network, on_node, &seen));
    CHECK(ai_platform_observer_register_s(network, &ctx) && ctx.n_nodes == AI_NET_2_DIGITS_N_NODES);
    CHECK(ai_platform_observer_unregister_s(network, &ctx));
    memcpy(ins[0].data, input, AI_NET_2_DIGITS_IN_1_SIZE_BYTES);
    CHECK(ai_net_2_digits_run(network, ins, outs) == 1);
    CHECK(seen.calls == 2 * AI_NET_2_DIGITS_N_NODES);
    return 0;
}
