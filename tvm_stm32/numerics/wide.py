"""16-bit activations in TFLM: multiplying int64 accumulators, look-up tables, sigmoid (spec 1.2, 1.7)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..errors import ModelError
from .fixed_point import round_half_away

INT16_MIN, INT16_MAX = -(1 << 15), (1 << 15) - 1

# Entries of TFLM's sigmoid table that lie one above the correctly rounded value.
_SIGMOID_ABOVE = frozenset(
    (
        *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46),
        *(49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
    )
)


def reduce_multiplier(multiplier: int) -> int:
    """The 16 bits of a multiplier that an int64 accumulator is scaled with."""
    return (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF


def multiply_wide(x: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """``MultiplyByQuantizedMultiplier`` of an int64: 16 bits of multiplier, one rounding, ties upward; int32 out."""
    reduced = np.vectorize(reduce_multiplier, otypes=[np.int64])(np.asarray(multiplier, np.int64))
    total = 15 - np.asarray(shift, np.int64)
    product = np.asarray(x, np.int64) * reduced + np.left_shift(np.int64(1), total - 1)
    return np.asarray((((product >> total) + (1 << 31)) & 0xFFFFFFFF) - (1 << 31))


def check_wide_shift(shift: np.ndarray) -> None:
    """Raise :class:`ModelError` where :func:`multiply_wide` has no shift for the scales (exponents -31..7)."""
    if shift.size and not (int(shift.min()) >= -31 and int(shift.max()) <= 7):
        raise ModelError(
            "the quantization scales of an operator on int16 are too far apart",
            why=f"accumulators would be multiplied by 2**{int(shift.max())}; the reference kernels go to 2**7",
            hint="quantize the model again, with representative data",
        )


def sigmoid_table() -> np.ndarray:
    """TFLM's 256 uint16 entries of a sigmoid at steps of 1/24, which int16 LOGISTIC and TANH interpolate."""
    exact = [math.floor(65536.0 / (1.0 + math.exp(-index / 24.0)) + 0.5) for index in range(256)]
    return np.array([value + (index in _SIGMOID_ABOVE) for index, value in enumerate(exact)], np.uint16)


def wide_input_scaling(scale: float, *, tanh: bool) -> tuple[int, int]:
    """``(multiplier, right shift)`` that bring an int16 input of LOGISTIC or TANH to the table's steps."""
    logarithm = np.float32(np.log2(np.float32(scale)))
    exponent = round_half_away(float(logarithm))
    left = 12 + exponent
    if abs(float(logarithm) - exponent) <= 1e-3 and (left == 0 or (tanh and left == 1)):
        return 3 << left, 0
    real, shift = scale * 4096.0 * 3.0, 0
    while real <= 32767.0 / 2.0 and shift <= 30:
        shift += 1
        real *= 2.0
    return int(real), shift


def exponential_table() -> np.ndarray:
    """exp on [-10, 0] for int16 softmax, 513 entries."""
    return _lookup_table(math.exp, (-10.0, 0.0), (-1.0, 1.0))


def reciprocal_table() -> np.ndarray:
    """1 / (1 + x) on [0, 1] for int16 softmax, 513 entries."""
    return _lookup_table(lambda x: 1.0 / (1.0 + x), (0.0, 1.0), (-1.0, 1.0))


def _lookup_table(
    function: Callable[[float], float], domain: tuple[float, float], image: tuple[float, float]
) -> np.ndarray:
    """TFLM's table of a function in float32: each entry shifted by half the error in the middle of its interval."""
    single = np.float32
    step = single((single(domain[1]) - single(domain[0])) / single(512))
    inverse = single(single(65536) / (single(image[1]) - single(image[0])))

    def value(x: np.float32) -> np.float32:
        return single(single(function(float(x))) * inverse)

    entries = []
    for index in range(512):
        here = single(single(domain[0]) + single(single(index) * step))
        after = single(single(domain[0]) + single(single(index + 1) * step))
        sample = single(round_half_away(float(value(here))))
        middle = single(round_half_away(float(value(single(here + single(step / single(2)))))))
        interpolated = round_half_away(float(single(single(value(after) + sample) / single(2))))
        bias = round_half_away(float(single(single(interpolated - middle) / single(2))))
        entries.append(int(sample) - bias)
    entries.append(round_half_away(float(value(single(domain[1])))))
    return np.clip(np.array(entries, np.int64), INT16_MIN, INT16_MAX).astype(np.int16)
