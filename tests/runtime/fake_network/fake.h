/* A network written by hand: output = input + 1, for 16 bytes. */
#ifndef FAKE_H
#define FAKE_H

#include "ai_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FAKE_SIZE 16U
#define FAKE_ARENA_SIZE 32U
#define FAKE_ARENA_ALIGNMENT 8U

/* Makes the next inference fail. */
extern volatile int fake_fails;

/* The weights cannot be used. */
extern volatile int fake_weights_missing;

extern const uint8_t fake_weights[FAKE_SIZE];
extern const ai_model_info ai_fake_network;

/* The same model without a static arena. */
extern const ai_model_info ai_fake_bare_network;

#ifdef __cplusplus
}
#endif

#endif
