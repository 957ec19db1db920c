"""The int8 network and its arithmetic in plain numpy: Relay's ``qnn`` lowering, exact to the byte.

Layouts: activations NHWC int8, convolution weights OHWI int8 (depthwise: I = 1), dense weights (units, inputs) int8.
A code q stands for the real value ``scale * (q - zero_point)``; weight zero points are 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

INT8_MIN, INT8_MAX = -128, 127


@dataclass(frozen=True)
class Quantization:
    """Per-tensor quantization of int8 codes."""

    scale: np.float32
    zero_point: int


@dataclass(frozen=True)
class Linear:
    """What convolutions and dense layers share: int8 weights with a scale per output channel, and an int32 bias."""

    name: str
    weight: np.ndarray
    weight_scale: np.ndarray
    bias: np.ndarray
    input: Quantization
    output: Quantization
    relu: bool

    @property
    def accumulator_scale(self) -> np.ndarray:
        """Scale of the int32 accumulators and of the bias, float32, one per output channel."""
        return self.input.scale * self.weight_scale


@dataclass(frozen=True)
class Conv2d(Linear):
    """Stride 1; ``padding`` pixels on every side; ``depthwise`` filters each channel on its own."""

    padding: int
    depthwise: bool


@dataclass(frozen=True)
class Dense(Linear):
    """``input @ weight.T + bias`` of a flat input."""


@dataclass(frozen=True)
class MaxPool2d:
    """Square windows that do not overlap; the quantization is that of the input."""

    name: str
    size: int


@dataclass(frozen=True)
class Flatten:
    """NHWC to (N, H * W * C)."""

    name: str


@dataclass(frozen=True)
class Softmax:
    """Softmax over the last axis, computed in float32 between a dequantize and a quantize."""

    name: str
    input: Quantization
    output: Quantization


Layer = Conv2d | Dense | MaxPool2d | Flatten | Softmax


def run(layers: Sequence[Layer], codes: np.ndarray) -> np.ndarray:
    """Output codes (N, units) int8 of the network for input codes (N, H, W, C) int8."""
    for layer in layers:
        codes = apply(layer, codes)
    return codes


def apply(layer: Layer, codes: np.ndarray) -> np.ndarray:
    """Output codes of one layer."""
    match layer:
        case Conv2d():
            return _activate(layer, _convolve(layer, codes))
        case Dense():
            centred = codes.astype(np.int64) - layer.input.zero_point
            return _activate(layer, centred @ layer.weight.astype(np.int64).T)
        case MaxPool2d():
            n, h, w, c = codes.shape
            size = layer.size
            return codes.reshape(n, h // size, size, w // size, size, c).max(axis=(2, 4))
        case Flatten():
            return codes.reshape(codes.shape[0], -1)
        case Softmax():
            return quantize(softmax(dequantize(codes, layer.input)), layer.output)


def _convolve(layer: Conv2d, codes: np.ndarray) -> np.ndarray:
    """Accumulators of a convolution; padding holds the input's zero point, so it adds nothing."""
    pad = layer.padding
    centred = np.pad(codes.astype(np.int64) - layer.input.zero_point, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(centred, layer.weight.shape[1:3], axis=(1, 2))
    weight = layer.weight.astype(np.int64)
    if layer.depthwise:
        return np.einsum("nhwcij,cij->nhwc", windows, weight[..., 0])
    return np.einsum("nhwcij,oijc->nhwo", windows, weight)


def _activate(layer: Linear, accumulators: np.ndarray) -> np.ndarray:
    """Add the bias, requantize each channel and apply the ReLU as a clamp of the codes."""
    codes = requantize(accumulators + layer.bias, layer.accumulator_scale, layer.output)
    return np.maximum(codes, layer.output.zero_point).astype(np.int8) if layer.relu else codes


def requantize(accumulators: np.ndarray, scales: np.ndarray, output: Quantization) -> np.ndarray:
    """``qnn.requantize`` along the last axis: one 64-bit rounding shift, ties towards plus infinity ("UPWARD")."""
    factors = [fixed_point(float(scale) / float(output.scale)) for scale in scales]
    multiplier = np.array([factor for factor, _ in factors], np.int64)
    exponent = np.array([shift for _, shift in factors], np.int64)
    total = 31 + np.maximum(-exponent, 0)
    product = (accumulators.astype(np.int64) << np.maximum(exponent, 0)) * multiplier
    rounded = (product + (np.int64(1) << (total - 1))) >> total
    return np.clip(rounded + output.zero_point, INT8_MIN, INT8_MAX).astype(np.int8)


def fixed_point(real: float) -> tuple[int, int]:
    """``(multiplier, shift)`` with real = multiplier * 2**(shift - 31) and multiplier in [2**30, 2**31)."""
    significand, exponent = math.frexp(real)
    multiplier = math.floor(significand * 2.0**31 + 0.5)
    if multiplier == 1 << 31:
        return multiplier // 2, exponent + 1
    return multiplier, exponent


def quantize(values: np.ndarray, quantization: Quantization) -> np.ndarray:
    """``qnn.quantize``: float32 throughout, halves rounded away from zero."""
    quotient = values.astype(np.float32) / quantization.scale
    # The float64 sum is exact, unlike float32 ``x + 0.5`` just below a tie.
    rounded = np.copysign(np.floor(np.abs(quotient).astype(np.float64) + 0.5), quotient)
    return np.clip(rounded + quantization.zero_point, INT8_MIN, INT8_MAX).astype(np.int8)


def dequantize(codes: np.ndarray, quantization: Quantization) -> np.ndarray:
    """``qnn.dequantize`` to float32."""
    return (codes.astype(np.int32) - quantization.zero_point).astype(np.float32) * quantization.scale


def softmax(values: np.ndarray) -> np.ndarray:
    """Softmax over the last axis in float32."""
    exponentials = np.exp(values - values.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)
