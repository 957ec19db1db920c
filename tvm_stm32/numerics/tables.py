"""256-entry tables of TFLM's unary int8 operators (spec 2.9 to 2.11): entry ``code + 128``.

Every function takes the quantization of input and output and computes each entry as the reference kernel would.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import ModelError
from .fixed_point import INT8_MAX, INT8_MIN, multiply_tflm, quantize_activation, quantize_multiplier, round_half_away
from .gemmlowp import divide_by_pot, inverse_sqrt, logistic, reciprocal, tanh

CODES = np.arange(INT8_MIN, INT8_MAX + 1, dtype=np.int64)
"""The 256 codes in the order of a table's entries."""


def requantize(
    scales: tuple[float, float], zero_points: tuple[int, int], low: int = INT8_MIN, high: int = INT8_MAX
) -> np.ndarray:
    """Codes of one quantization in another (``scales`` and ``zero_points``: input, output), clamped."""
    multiplier, shift = quantize_multiplier(scales[0] / scales[1])
    scaled = multiply_tflm(CODES - zero_points[0], multiplier, shift) + zero_points[1]
    return np.asarray(np.clip(scaled, low, high))


def relu6(scale: float, zero_point: int) -> np.ndarray:
    """TFLM's RELU6: a clamp in the input's quantization, whatever the output's is."""
    high = min(INT8_MAX, quantize_activation(6.0, scale, zero_point))
    return np.asarray(np.minimum(np.maximum(CODES, zero_point), high))


def logistic_table(scale: float, zero_point: int) -> np.ndarray:
    """Sigmoid; the result always has scale 1/256 and zero point -128."""
    return _by_radius(scale, zero_point, lambda x: divide_by_pot(logistic(x, 4), 23) - 128)


def tanh_table(scale: float, zero_point: int) -> np.ndarray:
    """Hyperbolic tangent; the result always has scale 1/128 and zero point 0."""
    return _by_radius(scale, zero_point, lambda x: divide_by_pot(tanh(x, 4), 24))


def reciprocals(zero_point: int) -> tuple[np.ndarray, np.ndarray]:
    """Multiplier (int32) and right shift (int8) of 1 / |code - zero point|; of 1 where that is 0."""
    pairs = [reciprocal(max(1, abs(difference))) for difference in (CODES - zero_point).tolist()]
    return np.array([pair[0] for pair in pairs], np.int32), np.array([pair[1] for pair in pairs], np.int8)


def _by_radius(scale: float, zero_point: int, function: object) -> np.ndarray:
    """``function`` of Q4 inputs inside the radius, saturated outside."""
    assert callable(function)
    multiplier, shift = quantize_multiplier(scale * 2.0**27)
    radius = math.floor(15.0 * 2.0**27 / 2.0**shift)
    entries = []
    for difference in (CODES - zero_point).tolist():
        if abs(difference) >= radius:
            entries.append(INT8_MIN if difference <= -radius else INT8_MAX)
        else:
            entries.append(function(int(multiply_tflm(np.array(difference), multiplier, shift))))
    return _saturated(np.array(entries, np.int64))


def leaky_relu(scales: tuple[float, float], zero_points: tuple[int, int], alpha: float) -> np.ndarray:
    """``x`` where it is not negative, else ``alpha * x``."""
    return prelu(scales, zero_points, alpha, 1)


def prelu(scales: tuple[float, float], zero_points: tuple[int, int], alpha_scale: float, alpha_code: int) -> np.ndarray:
    """PRELU with one slope: ``alpha_code`` has its zero point removed."""
    difference = CODES - zero_points[0]
    positive = multiply_tflm(difference, *quantize_multiplier(scales[0] / scales[1]))
    negative = multiply_tflm(difference * alpha_code, *quantize_multiplier(scales[0] * alpha_scale / scales[1]))
    return _saturated(np.where(difference >= 0, positive, negative) + zero_points[1])


def elu(scales: tuple[float, float], zero_points: tuple[int, int]) -> np.ndarray:
    """exp(x) - 1 below zero, in float32 as TFLM fills its table."""
    inverse = np.float32(1.0) / np.float32(scales[1])
    entries = []
    for difference in (CODES - zero_points[0]).tolist():
        x = np.float32(scales[0]) * np.float32(difference)
        value = np.float32(np.float32(math.exp(x)) - np.float32(1.0)) if x < 0 else x
        entries.append(round_half_away(float(np.float32(value * inverse))) + zero_points[1])
    return _saturated(np.array(entries, np.int64))


def absolute(scales: tuple[float, float], zero_points: tuple[int, int]) -> np.ndarray:
    """The magnitude, requantized where the scales differ."""
    magnitude = np.abs(CODES - zero_points[0])
    if scales[0] != scales[1]:
        magnitude = multiply_tflm(magnitude, *quantize_multiplier(scales[0] / scales[1]))
    return _saturated(magnitude + zero_points[1])


def rsqrt(scales: tuple[float, float], zero_points: tuple[int, int]) -> np.ndarray:
    """1 / sqrt(x). TFLM stops at a negative input, which has no result; its entries are those of zero."""
    multiplier, shift = quantize_multiplier(1.0 / (math.sqrt(scales[0]) * scales[1]))
    if shift < -11:
        raise ModelError(
            f"the output scale of a reciprocal square root is {scales[1]:g}",
            why="every result would be rounded to zero",
            hint="quantize the model again, with representative data",
        )
    entries = []
    for difference in (CODES - zero_points[0]).tolist():
        if difference <= 0:
            entries.append(INT8_MAX)
            continue
        inverse, left = inverse_sqrt(difference)
        one = multiply_tflm(np.array(1), inverse, left + 20)
        entries.append(int(multiply_tflm(one, multiplier, shift - 20)) + zero_points[1])
    return _saturated(np.array(entries, np.int64))


def hard_swish(scales: tuple[float, float], zero_points: tuple[int, int]) -> np.ndarray:
    """x * relu6(x + 3) / 6 in 16-bit fixed point."""
    output, output_shift = quantize_multiplier(scales[0] / 128.0 / scales[1])
    relu, relu_shift = quantize_multiplier(scales[0] / 128.0 / (3.0 / 32768.0))
    if output_shift > 0:
        raise ModelError(
            f"a hard swish has input scale {scales[0]:g} and output scale {scales[1]:g}",
            why="the reference kernel refuses an output scale below 1/128 of the input's",
            hint="quantize the model again, with representative data",
        )
    output16, relu16 = _to_16_bits(output), _to_16_bits(relu)
    entries = []
    for difference in (CODES - zero_points[0]).tolist():
        x = _wrap16(difference * 128)
        product = _high_multiply16(x, output16)
        gate = x
        if relu_shift > 0:
            gate = _saturate16(gate << (relu_shift - 1))
        gate = _high_multiply16(gate, relu16)
        if relu_shift > 0:
            gate = _saturate16(gate << 1)
        elif relu_shift < 0:
            gate = divide_by_pot(gate, -relu_shift)
        gate = (gate + 32768) >> 1
        whole = gate * product
        truncated = whole >> 15 if whole >= 0 else -(-whole >> 15)
        entries.append(_wrap16(divide_by_pot(truncated, -output_shift) + zero_points[1]))
    return _saturated(np.array(entries, np.int64))


def _saturated(codes: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(codes, INT8_MIN, INT8_MAX))


def _to_16_bits(multiplier: int) -> int:
    return 32767 if multiplier >= (1 << 31) - 1 - (1 << 15) else (multiplier + (1 << 15)) >> 16


def _high_multiply16(a: int, b: int) -> int:
    return _saturate16((a * b + (1 << 14)) >> 15)


def _wrap16(x: int) -> int:
    return ((x + (1 << 15)) & 0xFFFF) - (1 << 15)


def _saturate16(x: int) -> int:
    return max(-(1 << 15), min((1 << 15) - 1, x))
