"""Dynamic-range quantization: int8 weights, float activations rounded to int8 while the model runs.

LiteRT's hybrid kernels are followed (tflite-micro has none): one scale for each image or row, products and sums in
integers, one float multiply for each result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import tflite
from tvm import relax

from ..graph import dialect, operators
from .tflite_linear import window_padding
from .tflite_site import Operand, Site

# Products of 255 and 127 whose sum an int32 holds.
_MOST_PRODUCTS = (1 << 31) // (255 * 128)
_BOUNDS = {
    tflite.ActivationFunctionType.NONE: (-math.inf, math.inf),
    tflite.ActivationFunctionType.RELU: (0.0, math.inf),
    tflite.ActivationFunctionType.RELU_N1_TO_1: (-1.0, 1.0),
    tflite.ActivationFunctionType.RELU6: (0.0, 6.0),
}


def is_hybrid(code: str, inputs: Sequence[Operand | None]) -> bool:
    """Whether the operator takes floats and constant int8 weights in a form computed here."""
    if code not in HYBRID or len(inputs) < 2:
        return False
    data, weight, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
    if data is None or weight is None or weight.value is None or data.dtype != "float32":
        return False
    channels = weight.shape[3] if code == "DEPTHWISE_CONV_2D" else weight.shape[0] if weight.shape else 0
    return (
        weight.dtype == "int8"
        and weight.scales.size in (1, channels)
        and not weight.zero_points.any()
        and weight.value.size // max(1, channels) <= _MOST_PRODUCTS
        and (bias is None or (bias.value is not None and bias.dtype == "float32"))
    )


def _hybrid(
    site: Site,
    data: relax.Expr,
    weight: np.ndarray,
    activation: int,
    *,
    symmetric: bool,
    strides: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    groups: int = 1,
    out_shape: Sequence[int],
) -> relax.Expr:
    """``data`` (float32, NHWC) convolved with ``weight`` (int8, OHWI)."""
    if activation not in _BOUNDS:
        raise site.refused(f"fused activation {activation} has no hybrid form")
    bias = site.optional(2)
    channels = weight.shape[0]
    scales = np.broadcast_to(site.data(1).scales.astype(np.float32), (channels,))
    values = np.zeros(channels, np.float32) if bias is None or bias.value is None else bias.value.reshape(-1)
    if values.size != channels:
        raise site.refused(f"its bias has {values.size} elements for {channels} channels")
    low, high = _BOUNDS[activation]
    return dialect.call(
        "q.hybrid",
        [data, *(operators.const(a, a.dtype.name) for a in (weight, scales, values))],
        out_shape,
        "float32",
        strides=list(strides),
        padding=list(padding),
        dilation=list(dilation),
        groups=groups,
        input_zero_point=0,
        symmetric=symmetric,
        low=low,
        high=high,
    )


def _windowed(site: Site) -> relax.Expr:
    """CONV_2D and DEPTHWISE_CONV_2D; one scale for all weights means symmetric codes, as in LiteRT."""
    depthwise = site.code == "DEPTHWISE_CONV_2D"
    options = site.options("DepthwiseConv2D" if depthwise else "Conv2D")
    data, values, out = site.data(0), site.constant(1), site.output
    weight = values.transpose(3, 1, 2, 0) if depthwise else values
    strides = [options.StrideH(), options.StrideW()]
    dilation = [max(1, options.DilationHFactor()), max(1, options.DilationWFactor())]
    padding = window_padding(options.Padding(), data.shape[1:3], out.shape[1:3], weight.shape[1:3], strides, dilation)
    return _hybrid(
        site,
        data.codes,
        weight,
        options.FusedActivationFunction(),
        symmetric=not depthwise and site.data(1).scales.size == 1,
        strides=strides,
        dilation=dilation,
        padding=padding,
        groups=data.shape[3] // weight.shape[3],
        out_shape=out.shape,
    )


def _fully_connected(site: Site) -> relax.Expr:
    options, data, weight = site.options("FullyConnected"), site.data(0), site.constant(1)
    units, depth = weight.shape
    rows = math.prod(data.shape) // depth
    product = _hybrid(
        site,
        site.emit(relax.op.reshape(data.codes, [rows, 1, 1, depth])),
        weight.reshape(units, 1, 1, depth),
        options.FusedActivationFunction(),
        symmetric=not options.AsymmetricQuantizeInputs(),
        out_shape=[rows, 1, 1, units],
    )
    return site.shaped(product)


HYBRID: dict[str, Callable[[Site], relax.Expr]] = {
    "CONV_2D": _windowed,
    "DEPTHWISE_CONV_2D": _windowed,
    "FULLY_CONNECTED": _fully_connected,
}
