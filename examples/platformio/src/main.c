/* Classifies one image again and again; look at `digit` with a debugger. */
#include "digits.h"

static volatile unsigned digit;

int main(void)
{
    ai_handle network;

    if (ai_create(&ai_digits_network, NULL, &network) != AI_STATUS_OK) {
        return 1;
    }
    for (;;) {
        int8_t *image = ai_get_input(network, 0)->data;
        const int8_t *scores = ai_get_output(network, 0)->data;
        unsigned best = 0;

        /* An eight by eight image; a real one comes from a camera or a touch screen. */
        for (unsigned pixel = 0; pixel < AI_DIGITS_IN_1_SIZE; pixel++) {
            image[pixel] = (pixel % 8U == 4U) ? 127 : -128;
        }
        if (ai_run(network) != AI_STATUS_OK) {
            return 1;
        }
        for (unsigned label = 1; label < AI_DIGITS_OUT_1_SIZE; label++) {
            best = (scores[label] > scores[best]) ? label : best;
        }
        digit = best;
    }
}
