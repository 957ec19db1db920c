"""Real multipliers as int32 with a shift, and the rounding rules they are applied with; activation bounds.

Sources: the TensorFlow Lite Micro reference kernels and Relay's ``qnn`` lowering.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import ModelError

INT8_MIN, INT8_MAX = -128, 127


def quantize_multiplier(real: float) -> tuple[int, int]:
    """``(multiplier, shift)`` with real = multiplier * 2**(shift - 31), multiplier in [2**30, 2**31) or 0.

    ``frexp`` and round half away from zero, in double; results below 2**-32 flush to ``(0, 0)``. TFLM's
    QuantizeMultiplier and Relay's fixed-point requantize agree on it. A negative ``real`` gives a negative multiplier.
    Raises :class:`ModelError` beyond 2**31.
    """
    if real == 0.0:
        return 0, 0
    if not math.isfinite(real) or abs(real) > 2.0**31:
        raise ModelError(
            f"the quantization scales of an operator are too far apart: codes would be multiplied by {real:g}",
            why="a multiplier has 31 bits before the point",
            hint="quantize the model again, with representative data",
        )
    mantissa, exponent = math.frexp(real)
    multiplier = round_half_away(mantissa * 2.0**31)
    if abs(multiplier) == 1 << 31:
        multiplier //= 2
        exponent += 1
    if exponent < -31:
        return 0, 0
    return multiplier, exponent


def quantize_multipliers(real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """:func:`quantize_multiplier` of each element: two int32 arrays."""
    pairs = [quantize_multiplier(float(value)) for value in np.atleast_1d(real)]
    return np.array([m for m, _ in pairs], np.int32), np.array([s for _, s in pairs], np.int32)


def round_half_away(value: float) -> int:
    """Nearest integer, ties away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def multiply_tflm(x: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """``MultiplyByQuantizedMultiplier`` with double rounding: int32 in, int32 out.

    The left shift wraps modulo 2**32; the high multiply rounds half up; the right shift rounds half away from zero.
    """
    x64 = np.asarray(x, np.int64)
    left = np.maximum(shift, 0)
    right = np.maximum(-np.asarray(shift, np.int64), 0)
    shifted = _wrap32(x64 << left)
    high = (shifted * np.asarray(multiplier, np.int64) + (1 << 30)) >> 31
    half = np.where(right > 0, np.left_shift(np.int64(1), np.maximum(right - 1, 0)), 0)
    rounded = high + half - np.where((right > 0) & (high < 0), 1, 0)
    return _wrap32(rounded >> right)


def multiply_upward(x: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """Relay's UPWARD fixed-point multiply: one 64-bit rounding shift, ties towards plus infinity."""
    return _single_rounding(x, multiplier, shift, ties_away=False)


def multiply_tonearest(x: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """Relay's TONEAREST fixed-point multiply: one 64-bit rounding shift, ties away from zero."""
    return _single_rounding(x, multiplier, shift, ties_away=True)


def multiply_even(x: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """One 64-bit rounding shift, ties to even: ONNX's QuantizeLinear."""
    product, half, total = _product(x, multiplier, shift)
    tie = (product & ((half << 1) - 1)) == half
    result = (product + half) >> total
    return _wrap32(np.where(tie, result & ~1, result))


def _single_rounding(
    x: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int, *, ties_away: bool
) -> np.ndarray:
    product, half, total = _product(x, multiplier, shift)
    if ties_away:
        half = half - (product < 0)
    return _wrap32((product + half) >> total)


def _product(
    x: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``(x * multiplier, half of the divisor, log2 of the divisor)`` in int64."""
    left = np.maximum(shift, 0)
    total = 31 + np.maximum(-np.asarray(shift, np.int64), 0)
    product = (np.asarray(x, np.int64) << left) * np.asarray(multiplier, np.int64)
    return product, np.left_shift(np.int64(1), total - 1), total


MULTIPLY = {
    "tflm": multiply_tflm,
    "upward": multiply_upward,
    "tonearest": multiply_tonearest,
    "even": multiply_even,
}


def _wrap32(x: np.ndarray) -> np.ndarray:
    return ((x + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def quantize_activation(bound: float, scale: float, zero_point: int) -> int:
    """An activation bound in the output's codes, computed in float32 as TFLM does."""
    with np.errstate(over="ignore"):
        quotient = float(np.float32(bound) / np.float32(scale))
    return zero_point + round_half_away(min(max(quotient, -(2.0**31)), 2.0**31))
