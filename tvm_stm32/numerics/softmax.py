"""Constants and tables of TFLM's fixed-point softmax and log softmax (spec 2.8)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import ModelError
from .fixed_point import quantize_multiplier
from .gemmlowp import exp_on_negative_values, high_multiply, wrap32


@dataclass(frozen=True)
class SoftmaxParameters:
    """Constants of TFLM's fixed-point int8 softmax (26 bits of scaled difference, 5 integer bits)."""

    multiplier: int
    shift: int
    diff_min: int


def softmax_parameters(input_scale: float, beta: float = 1.0) -> SoftmaxParameters:
    """Parameters of TFLM's int8 softmax from the input scale."""
    real = min(float(beta) * float(input_scale) * (1 << 26), (1 << 31) - 1.0)
    multiplier, shift = quantize_multiplier(real)
    if shift < 0:
        raise ModelError(
            f"the input scale of a softmax is {input_scale:g}",
            why="below 2**-26 the fixed-point exponential has no bits left",
            hint="quantize the model again, with representative data",
        )
    return SoftmaxParameters(multiplier, shift, -math.floor(31.0 * (1 << 26) / (1 << shift)))


def softmax_exponentials(parameters: SoftmaxParameters) -> np.ndarray:
    """exp of each difference 0..-255 to the maximum, Q0 int32 (0 where TFLM treats the element as zero).

    The difference of two int8 codes has 256 values, so the fixed-point exponential becomes a table of constants.
    """
    table = np.zeros(256, np.int32)
    for difference in range(256):
        if -difference < parameters.diff_min:
            break
        scaled = high_multiply(wrap32(-difference << parameters.shift), parameters.multiplier)
        table[difference] = exp_on_negative_values(scaled, 5)
    return table


def log_softmax_reverse(parameters: SoftmaxParameters) -> tuple[int, int]:
    """``(multiplier, shift)`` that bring the logarithm of the sum back to input codes."""
    multiplier, shift = quantize_multiplier(2.0 ** (31 - parameters.shift) / parameters.multiplier)
    return multiplier, shift
