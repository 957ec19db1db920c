/* Two networks of the embedded client API in one image, side by side. */
#include <string.h>

#include "application.h"
#include "first.h"
#include "first_data.h"
#include "second.h"
#include "second_data.h"

AI_ALIGNED(4) static ai_u8 first_pool[AI_FIRST_DATA_ACTIVATIONS_SIZE];
AI_ALIGNED(4) static ai_u8 second_pool[AI_SECOND_DATA_ACTIVATIONS_SIZE];

const unsigned application_input_bytes = AI_FIRST_IN_1_SIZE_BYTES + AI_SECOND_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_FIRST_OUT_1_SIZE_BYTES + AI_SECOND_OUT_1_SIZE_BYTES;

int application(const unsigned char *input, unsigned char *output)
{
    const ai_handle first_acts[] = {first_pool};
    const ai_handle second_acts[] = {second_pool};
    ai_handle first;
    ai_handle second;

    CHECK(ai_first_create_and_init(&first, first_acts, NULL).type == AI_ERROR_NONE);
    CHECK(ai_second_create_and_init(&second, second_acts, NULL).type == AI_ERROR_NONE);
    CHECK(ai_first_run(second, AI_FIRST_IN, AI_FIRST_OUT) < 0);
    CHECK(ai_first_get_error(second).type == AI_ERROR_INVALID_HANDLE);
    memcpy(AI_FIRST_IN[0].data, input, AI_FIRST_IN_1_SIZE_BYTES);
    memcpy(AI_SECOND_IN[0].data, input + AI_FIRST_IN_1_SIZE_BYTES, AI_SECOND_IN_1_SIZE_BYTES);
    CHECK(ai_first_run(first, AI_FIRST_IN, AI_FIRST_OUT) == 1);
    CHECK(ai_second_forward(second, AI_SECOND_IN) == 1);
    memcpy(output, AI_FIRST_OUT[0].data, AI_FIRST_OUT_1_SIZE_BYTES);
    memcpy(output + AI_FIRST_OUT_1_SIZE_BYTES, AI_SECOND_OUT[0].data, AI_SECOND_OUT_1_SIZE_BYTES);
    CHECK(ai_first_destroy(first) == AI_HANDLE_NULL && ai_second_destroy(second) == AI_HANDLE_NULL);
    return 0;
}
