/* Case 1, variant: four outputs, descriptors fetched for each inference, data set although it lives in the activations.
 */
#include <string.h>

#include "ai_datatypes_defines.h"
#include "ai_platform.h"
#include "application.h"
#include "face.h"
#include "face_data.h"

AI_ALIGNED(32) static ai_u8 activations[AI_FACE_DATA_ACTIVATIONS_SIZE];
AI_ALIGNED(4) static ai_u8 image[AI_FACE_IN_1_WIDTH * AI_FACE_IN_1_HEIGHT * AI_FACE_IN_1_CHANNEL * 4];
AI_ALIGNED(4) static ai_u8 out_1[AI_FACE_OUT_1_SIZE_BYTES];
AI_ALIGNED(4) static ai_u8 out_2[AI_FACE_OUT_2_SIZE_BYTES];
AI_ALIGNED(4) static ai_u8 out_3[AI_FACE_OUT_3_SIZE_BYTES];
AI_ALIGNED(4) static ai_u8 out_4[AI_FACE_OUT_4_SIZE_BYTES];

static ai_handle face = AI_HANDLE_NULL;
static volatile ai_error last_error;

const unsigned application_input_bytes = AI_FACE_IN_1_SIZE_BYTES;
const unsigned application_output_bytes =
    AI_FACE_OUT_1_SIZE_BYTES + AI_FACE_OUT_2_SIZE_BYTES + AI_FACE_OUT_3_SIZE_BYTES + AI_FACE_OUT_4_SIZE_BYTES;

int application(const unsigned char *input, unsigned char *output)
{
    static const ai_u32 bytes[AI_FACE_OUT_NUM] = AI_FACE_OUT_SIZE_BYTES;
    ai_u8 *const places[AI_FACE_OUT_NUM] = {out_1, out_2, out_3, out_4};
    const ai_handle acts[] = {activations};
    ai_buffer *ins;
    ai_buffer *outs;
    ai_u16 count = 0;

    if (face == AI_HANDLE_NULL) {
        ai_error err = ai_face_create_and_init(&face, acts, NULL);
        last_error.type = err.type;
        last_error.code = err.code;
        CHECK(last_error.type == AI_ERROR_NONE);
    }
    memcpy(image, input, sizeof(image));
    ins = ai_face_inputs_get(face, NULL);
    outs = ai_face_outputs_get(face, &count);
    CHECK(count == AI_FACE_OUT_NUM);
    ins[0].data = AI_HANDLE_PTR(image);
    for (int i = 0; i < AI_FACE_OUT_NUM; i++) {
        outs[i].data = AI_HANDLE_PTR(places[i]);
    }
    CHECK(ai_face_run(face, ins, outs) == 1);
    for (int i = 0; i < AI_FACE_OUT_NUM; i++) {
        memcpy(output, places[i], bytes[i]);
        output += bytes[i];
    }
    return 0;
}
