// The embedded client API from C++, in every layout.
#include "ai_platform_interface.h"
#include "network.h"
#include "network_config.h"
#include "network_data.h"

AI_ALIGNED(32) static ai_u8 pool[AI_NETWORK_DATA_ACTIVATIONS_SIZE];

#if AI_PLATFORM_LAYOUT == 2
int main()
{
    const ai_handle acts[] = {pool};
    ai_handle network = AI_HANDLE_NULL;
    const ai_error error = ai_network_create_and_init(&network, acts, NULL);
    ai_buffer *const in = ai_network_inputs_get(network, NULL);
    ai_buffer *const out = ai_network_outputs_get(network, NULL);
    ai_network_report report;

    if (error.type != AI_ERROR_NONE || !ai_network_get_report(network, &report) || report.map_weights.size != 1) {
        return 1;
    }
    if (!(AI_BUFFER_META_INFO_INTQ_GET_SCALE(in[0].meta_info, 0) > 0.0f) || AI_BUFFER_HEIGHT(in) != 8) {
        return 2;
    }
    return ai_network_run(network, in, out) == 1 ? 0 : 3;
}
#else
static ai_u8 result[AI_NETWORK_OUT_1_SIZE_BYTES];

int main()
{
    const ai_network_params params = {AI_NETWORK_DATA_WEIGHTS(ai_network_data_weights_get()),
                                      AI_NETWORK_DATA_ACTIVATIONS(pool)};
    ai_buffer in[AI_NETWORK_IN_NUM] = AI_NETWORK_IN;
    ai_buffer out[AI_NETWORK_OUT_NUM] = AI_NETWORK_OUT;
    static ai_u8 image[AI_NETWORK_IN_1_SIZE_BYTES];
    ai_handle network = AI_HANDLE_NULL;

    if (ai_network_create(&network, AI_NETWORK_DATA_CONFIG).type != AI_ERROR_NONE) {
        return 1;
    }
    in[0].data = AI_HANDLE_PTR(image);
    out[0].data = AI_HANDLE_PTR(result);
    if (!ai_network_init(network, &params) || in[0].height != 8) {
        return 2;
    }
    return ai_network_run(network, in, out) == 1 ? 0 : 3;
}
#endif
