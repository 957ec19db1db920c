/*
 * Included by networks whose inner kernels are assembly for the DSP extension (Cortex-M4, M7, M33).
 */
#ifndef AI_KERNELS_DSP_H
#define AI_KERNELS_DSP_H

#include "ai_blocks.h"

#endif /* AI_KERNELS_DSP_H */
