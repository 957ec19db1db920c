/* Case 10: two models of an STM32N6 application, buffers set for each frame, asynchronous runs. */
#include <string.h>

#include "application.h"
#include "stai_od.h"
#include "stai_reid.h"

typedef stai_return_code (*run_function)(stai_network *network, const stai_run_mode mode);
typedef stai_return_code (*next_function)(stai_network *network);

STAI_NETWORK_CONTEXT_DECLARE(od_context, STAI_OD_CONTEXT_SIZE)
STAI_NETWORK_CONTEXT_DECLARE(reid_context, STAI_REID_CONTEXT_SIZE)

STAI_ALIGNED(STAI_CACHE_USER_BUFFER_ALIGNMENT) static uint8_t frame[STAI_OD_IN_1_SIZE_BYTES];
STAI_ALIGNED(STAI_CACHE_USER_BUFFER_ALIGNMENT) static uint8_t boxes[STAI_OD_OUT_1_SIZE_BYTES];
static int ready;

const unsigned application_input_bytes = STAI_OD_IN_1_SIZE_BYTES + STAI_REID_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = STAI_OD_OUT_1_SIZE_BYTES + STAI_REID_OUT_1_SIZE_BYTES;

static int infer(stai_network *context, run_function run, next_function next)
{
    stai_return_code code;

    do {
        code = run(context, STAI_MODE_ASYNC);
        if (code == STAI_RUNNING_WFE) {
            LL_ATON_OSAL_WFE();
        }
    } while (code == STAI_RUNNING_WFE || code == STAI_RUNNING_NO_WFE);
    CHECK(code == STAI_DONE);
    CHECK(next(context) == STAI_SUCCESS);
    return 0;
}

static int start(void)
{
    stai_network_info info;
    stai_ptr pointers[STAI_REID_IN_NUM];

    CHECK(stai_runtime_init() == STAI_SUCCESS);
    CHECK(stai_od_init(od_context) == STAI_SUCCESS);
    CHECK(stai_od_init(od_context) == STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE);
    CHECK(stai_reid_init(reid_context) == STAI_SUCCESS);
    CHECK(stai_reid_get_info(reid_context, &info) == STAI_SUCCESS && (info.flags & STAI_FLAG_ACTIVATIONS));
    CHECK(stai_reid_get_inputs(reid_context, pointers, (stai_size *)&info.n_inputs) == STAI_SUCCESS);
    CHECK(info.n_inputs == STAI_REID_IN_NUM && info.outputs[0].size_bytes == STAI_REID_OUT_1_SIZE_BYTES);
    CHECK(stai_od_train(od_context) == STAI_ERROR_NOT_IMPLEMENTED);
    return 0;
}

int application(const unsigned char *input, unsigned char *output)
{
    const stai_ptr in[] = {frame};
    const stai_ptr out[] = {boxes};
    stai_ptr crop;
    stai_ptr embedding;
    stai_size n;

    if (!ready) {
        CHECK(start() == 0);
        ready = 1;
    }
    memcpy(frame, input, sizeof(frame));
    stai_cache_mcu_clean_range((uintptr_t)frame, sizeof(frame));
    CHECK(stai_od_set_inputs(od_context, in, 1) == STAI_SUCCESS);
    CHECK(stai_od_set_outputs(od_context, out, 1) == STAI_SUCCESS);
    CHECK(infer(od_context, stai_od_run, stai_ext_od_new_inference) == 0);
    stai_cache_mcu_invalidate_range((uintptr_t)boxes, sizeof(boxes));
    CHECK(stai_reid_get_inputs(reid_context, &crop, &n) == STAI_SUCCESS);
    CHECK(stai_reid_get_outputs(reid_context, &embedding, &n) == STAI_SUCCESS);
    memcpy(crop, input + sizeof(frame), STAI_REID_IN_1_SIZE_BYTES);
    CHECK(infer(reid_context, stai_reid_run, stai_ext_reid_new_inference) == 0);
    memcpy(output, boxes, sizeof(boxes));
    memcpy(output + sizeof(boxes), embedding, STAI_REID_OUT_1_SIZE_BYTES);
    return 0;
}
