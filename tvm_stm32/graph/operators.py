"""Builders of the fused operators: integer ones (``q.*``) and those on float32 (``f.*``), one for each kernel class.

Data is NHWC; convolution weights are OHWI (depthwise: O = channels, I = 1), dense weights [units, K]. Every builder of
integer operators takes int8 codes, multipliers and clamps; no scale is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from . import dialect
from .ssa import normalized, shape_of


@dataclass(frozen=True)
class Requantization:
    """From int32 accumulators to int8 codes: clamp(multiply(acc, multiplier, shift) + zero_point).

    One multiplier and shift, or one for each output channel. ``rounding`` names a rule of :mod:`tvm_stm32.numerics`.
    """

    multiplier: np.ndarray
    shift: np.ndarray
    zero_point: int
    rounding: str
    clamp_min: int = -128
    clamp_max: int = 127

    def per_channel(self, channels: int) -> tuple[np.ndarray, np.ndarray]:
        """Multipliers and shifts repeated to one for each channel."""
        return (
            np.broadcast_to(self.multiplier, (channels,)).astype(np.int32),
            np.broadcast_to(self.shift, (channels,)).astype(np.int32),
        )

    def attributes(self) -> dict[str, int | str]:
        """Scalar attributes of an operator that ends in this requantization."""
        return {
            "output_zero_point": self.zero_point,
            "rounding": self.rounding,
            "clamp_min": self.clamp_min,
            "clamp_max": self.clamp_max,
        }


def changed(call: relax.Call, arguments: Sequence[relax.Expr], **changes: object) -> relax.Call:
    """``call`` with other arguments, and attributes (``out_shape`` among them) as in ``changes``."""
    attrs = {**dialect.attributes(call), **changes}
    shape, dtype = attrs.pop("out_shape"), attrs.pop("out_dtype")
    return normalized(dialect.call(dialect.name_of(call), arguments, shape, dtype, **attrs))


def const(array: np.ndarray, dtype: str) -> relax.Expr:
    """A Relax constant holding ``array`` as ``dtype``."""
    return relax.const(np.ascontiguousarray(array.astype(dtype)), dtype)


def conv2d(
    data: relax.Expr,
    weight: np.ndarray,
    bias: np.ndarray,
    requantization: Requantization,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    input_zero_point: int,
) -> relax.Call:
    """``q.conv2d``(data NHWC, weight OHWI, bias, multiplier, shift); padding is top, left, bottom, right."""
    multiplier, shift = requantization.per_channel(weight.shape[0])
    return dialect.call(
        "q.conv2d",
        [data, const(weight, "int8"), const(bias, "int32"), const(multiplier, "int32"), const(shift, "int32")],
        _convolved(shape_of(data), weight.shape, strides, padding, dilation),
        "int8",
        strides=list(strides),
        padding=list(padding),
        dilation=list(dilation),
        groups=groups,
        input_zero_point=input_zero_point,
        **requantization.attributes(),
    )


def dense(
    data: relax.Expr,
    weight: np.ndarray,
    bias: np.ndarray,
    requantization: Requantization,
    *,
    input_zero_point: int,
    out_shape: Sequence[int],
) -> relax.Call:
    """``q.dense``(data [.., K], weight [units, K], bias, multiplier, shift)."""
    multiplier, shift = requantization.per_channel(weight.shape[0])
    return dialect.call(
        "q.dense",
        [data, const(weight, "int8"), const(bias, "int32"), const(multiplier, "int32"), const(shift, "int32")],
        out_shape,
        "int8",
        input_zero_point=input_zero_point,
        **requantization.attributes(),
    )


FLOAT_OPERATORS = ("f.conv2d", "f.dense")


def float_conv2d(
    data: relax.Expr,
    weight: np.ndarray,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> relax.Call:
    """``f.conv2d``(data NHWC, weight OHWI, bias): sums that start with a bias (0), then bounds (none)."""
    out_shape = _convolved(shape_of(data), weight.shape, strides, padding, dilation)
    return _float_call(
        "f.conv2d",
        data,
        weight,
        out_shape,
        strides=list(strides),
        padding=list(padding),
        dilation=list(dilation),
        groups=groups,
    )


def float_dense(data: relax.Expr, weight: np.ndarray, *, out_shape: Sequence[int]) -> relax.Call:
    """``f.dense``(data [.., K], weight [units, K], bias); bias and bounds as of :func:`float_conv2d`."""
    return _float_call("f.dense", data, weight, out_shape)


def _float_call(
    name: str, data: relax.Expr, weight: np.ndarray, out_shape: Sequence[int], **attributes: object
) -> relax.Call:
    bias = np.zeros(weight.shape[0], np.float32)
    arguments = [data, const(weight, "float32"), const(bias, "float32")]
    return dialect.call(name, arguments, out_shape, "float32", low=-math.inf, high=math.inf, **attributes)


def _convolved(
    data: Sequence[int], weight: Sequence[int], strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> tuple[int, int, int, int]:
    """Shape of a convolution's result: data NHWC, weight OHWI, padding top, left, bottom, right."""
    batch, height, width, _ = data
    channels, kernel_h, kernel_w, _ = weight
    top, left, bottom, right = padding
    out_h = (height + top + bottom - dilation[0] * (kernel_h - 1) - 1) // strides[0] + 1
    out_w = (width + left + right - dilation[1] * (kernel_w - 1) - 1) // strides[1] + 1
    return batch, out_h, out_w, channels


def table(data: relax.Expr, entries: np.ndarray, label: str) -> relax.Call:
    """``q.table``(data, entries): out = entries[code + 128], any int8 function of one element; ``label`` names it."""
    return dialect.call("q.table", [data, const(entries, "int8")], shape_of(data), "int8", label=label)


def identity_codes() -> np.ndarray:
    """The 256 int8 codes in the order of a table's entries."""
    return np.arange(-128, 128, dtype=np.int64)
