"""Post-training quantization: per-channel symmetric int8 weights, per-tensor asymmetric int8 activations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from reference import INT8_MAX, INT8_MIN, Conv2d, Dense, Flatten, Layer, MaxPool2d, Quantization, Softmax

# Relay prints scalar floats with 6 significant digits, so every per-tensor scale is a number that needs no more.
SCALE_DIGITS = 6


def quantize_network(parameters: Mapping[str, np.ndarray], ranges: Mapping[str, tuple[float, float]]) -> list[Layer]:
    """The int8 network of float32 ``parameters`` whose activations lie in ``ranges``.

    ``parameters`` holds ``<layer>.weight`` (OIHW, or (units, inputs) with the inputs in NCHW order) and
    ``<layer>.bias``; ``ranges`` holds (min, max) of the input ``image`` and of each layer's output.
    """
    codes = {key: quantization_of(low, high) for key, (low, high) in ranges.items()}

    def conv2d(name: str, key: str, source: str, padding: int, depthwise: bool = False) -> Conv2d:
        weight = parameters[f"{key}.weight"].transpose(0, 2, 3, 1)
        quantized = _quantize_linear(weight, parameters[f"{key}.bias"], codes[source])
        return Conv2d(name, *quantized, codes[source], codes[key], relu=True, padding=padding, depthwise=depthwise)

    dense = _quantize_linear(_dense_weight(parameters), parameters["classifier.bias"], codes["head"])
    return [
        conv2d("stem/conv", "stem", "image", padding=1),
        conv2d("block/depthwise", "depthwise", "stem", padding=1, depthwise=True),
        conv2d("block/pointwise", "pointwise", "depthwise", padding=0),
        MaxPool2d("block/pool", 2),
        conv2d("head/conv", "head", "pointwise", padding=0),
        Flatten("head/flatten"),
        Dense("classifier/dense", *dense, codes["head"], codes["classifier"], relu=False),
        Softmax("scores", codes["classifier"], Quantization(np.float32(1 / 256), INT8_MIN)),
    ]


def quantization_of(low: float, high: float) -> Quantization:
    """Quantization of the range, widened to hold 0 exactly."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32(f"{(high - low) / (INT8_MAX - INT8_MIN):.{SCALE_DIGITS}g}")
    return Quantization(scale, round(INT8_MIN - low / float(scale)))


def _quantize_linear(
    weight: np.ndarray, bias: np.ndarray, source: Quantization
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``(int8 weight, float32 scale per output channel, int32 bias)``; the output channel is axis 0."""
    flat = weight.reshape(weight.shape[0], -1)
    # A channel of zeros would have scale 0.
    scale = np.maximum(np.abs(flat).max(axis=1), 1e-6).astype(np.float32) / np.float32(INT8_MAX)
    codes = np.clip(np.rint(flat / scale[:, None]), -INT8_MAX, INT8_MAX).astype(np.int8)
    return codes.reshape(weight.shape), scale, np.rint(bias / (source.scale * scale)).astype(np.int32)


def _dense_weight(parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """The classifier's weight with its inputs in the order of a flattened NHWC tensor."""
    weight, channels = parameters["classifier.weight"], parameters["head.weight"].shape[0]
    side = round((weight.shape[1] / channels) ** 0.5)
    return weight.reshape(-1, channels, side, side).transpose(0, 2, 3, 1).reshape(weight.shape)
