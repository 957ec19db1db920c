/* Two inputs, and outputs one of which is an input; once in the activations, once in buffers of the application. */
#include <string.h>

#include "application.h"
#include "pair.h"

STAI_NETWORK_CONTEXT_DECLARE(context, STAI_PAIR_CONTEXT_SIZE)
STAI_ALIGNED(4) static uint8_t pool[STAI_PAIR_ACTIVATIONS_SIZE_BYTES];
STAI_ALIGNED(4) static uint8_t in_1[STAI_PAIR_IN_1_SIZE_BYTES];
STAI_ALIGNED(4) static uint8_t in_2[STAI_PAIR_IN_2_SIZE_BYTES];
STAI_ALIGNED(4) static uint8_t out_1[STAI_PAIR_OUT_1_SIZE_BYTES];
STAI_ALIGNED(4) static uint8_t out_2[STAI_PAIR_OUT_2_SIZE_BYTES];

const unsigned application_input_bytes = STAI_PAIR_IN_SIZE_BYTES;
const unsigned application_output_bytes = STAI_PAIR_OUT_SIZE_BYTES;

static int infer(const stai_ptr *in, const stai_ptr *out, const unsigned char *input, unsigned char *output)
{
    memcpy(in[0], input, sizeof(in_1));
    memcpy(in[1], input + sizeof(in_1), sizeof(in_2));
    CHECK(stai_pair_run(context, STAI_MODE_SYNC) == STAI_SUCCESS);
    memcpy(output, out[0], sizeof(out_1));
    memcpy(output + sizeof(out_1), out[1], sizeof(out_2));
    return 0;
}

int application(const unsigned char *input, unsigned char *output)
{
    static const char *const names[STAI_PAIR_IN_NUM] = STAI_PAIR_IN_NAMES;
    static unsigned char first[STAI_PAIR_OUT_SIZE_BYTES];
    const stai_ptr acts[] = {pool};
    const stai_ptr own_in[] = {in_1, in_2};
    const stai_ptr own_out[] = {out_1, out_2};
    stai_ptr in[STAI_PAIR_IN_NUM];
    stai_ptr out[STAI_PAIR_OUT_NUM];
    stai_size n;

    CHECK(strcmp(names[1], "b") == 0);
    CHECK(stai_pair_init(context) == STAI_SUCCESS);
    CHECK(stai_pair_set_activations(context, acts, 1) == STAI_SUCCESS);
    CHECK(stai_pair_get_inputs(context, in, &n) == STAI_SUCCESS && n == 2);
    CHECK(stai_pair_get_outputs(context, out, &n) == STAI_SUCCESS && n == 2);
    CHECK(infer(in, out, input, first) == 0);
    CHECK(stai_pair_set_inputs(context, own_in, 2) == STAI_SUCCESS);
    CHECK(stai_pair_set_outputs(context, own_out, 2) == STAI_SUCCESS);
    CHECK(infer(own_in, own_out, input, output) == 0);
    CHECK(memcmp(first, output, sizeof(first)) == 0);
    return 0;
}
