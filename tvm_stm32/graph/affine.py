"""Affine-quantized values in a Relax graph: who dequantizes what, and quantized constants in their final layout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from .dialect import attributes, name_of
from .ssa import Function, constant, dtype_of, shape_of


@dataclass(frozen=True)
class Quantized:
    """An integer tensor with per-tensor quantization: real = scale * (data - zero_point)."""

    data: relax.Expr
    scale: float
    zero_point: int

    @property
    def dtype(self) -> str:
        """Element type of the integer tensor."""
        return dtype_of(self.data)

    def same_parameters(self, other: Quantized) -> bool:
        """Whether both tensors map codes to reals alike."""
        return self.scale == other.scale and self.zero_point == other.zero_point


@dataclass(frozen=True)
class QuantizedConstant:
    """A constant of integers; ``scale`` and ``zero_point`` have the shape of ``values``."""

    values: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray

    def channel_scales(self, axis: int) -> np.ndarray | None:
        """One scale for each index of ``axis``, or None when the scale varies along another axis."""
        flat = np.moveaxis(self.scale, axis, 0).reshape(self.scale.shape[axis], -1)
        return np.asarray(flat[:, 0]) if (flat == flat[:, :1]).all() else None


def dequantized(view: Function, expr: relax.Expr) -> Quantized | None:
    """The integer tensor ``expr`` is the real value of, when it is quantized per tensor."""
    call = view.match(expr, "relax.dequantize", "qnn.dequantize")
    if call is None:
        return None
    parameters = _parameters(call)
    if parameters is None or parameters[0].size != 1 or parameters[1].size != 1:
        return None
    return Quantized(call.args[0], float(parameters[0].item()), int(parameters[1].item()))


def quantize_parameters(call: relax.Call) -> tuple[float, int] | None:
    """(scale, zero point) of a per-tensor quantize call."""
    parameters = _parameters(call)
    if parameters is None or parameters[0].size != 1 or parameters[1].size != 1:
        return None
    return float(parameters[0].item()), int(parameters[1].item())


def _parameters(call: relax.Call) -> tuple[np.ndarray, np.ndarray] | None:
    """(scales, zero points) of a quantize or dequantize call of either dialect."""
    if name_of(call).startswith("qnn."):
        attrs = attributes(call)
        return np.atleast_1d(np.float32(attrs["scale"])), np.atleast_1d(np.int64(attrs["zero_point"]))
    scale, zero_point = constant(call.args[1]), constant(call.args[2])
    if scale is None or zero_point is None:
        return None
    return scale, zero_point


def quantized_constant(view: Function, expr: relax.Expr) -> QuantizedConstant | None:
    """The integers behind a real constant: dequantize of a constant, through reshapes and transposes on either side."""
    call = view.match(expr, "relax.dequantize", "qnn.dequantize", "relax.reshape", "relax.permute_dims")
    if call is None:
        return None
    if name_of(call).endswith("dequantize"):
        values = moved_constant(view, call.args[0])
        parameters = _parameters(call)
        if values is None or parameters is None:
            return None
        return _expand(call, values, *parameters)
    inner = quantized_constant(view, call.args[0])
    if inner is None:
        return None
    return QuantizedConstant(*(_move(call, array) for array in (inner.values, inner.scale, inner.zero_point)))


def _expand(call: relax.Call, values: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> QuantizedConstant:
    axis = int(attributes(call)["axis"]) if name_of(call).startswith("qnn.") else int(call.attrs.axis)
    shape = [1] * values.ndim
    if scale.size > 1 and values.ndim:
        shape[axis] = scale.size
    zero_shape = shape if zero_point.size > 1 else [1] * values.ndim
    return QuantizedConstant(
        values,
        np.broadcast_to(np.asarray(scale, np.float32).reshape(shape), values.shape),
        np.broadcast_to(np.asarray(zero_point, np.int32).reshape(zero_shape), values.shape),
    )


def moved_constant(view: Function, expr: relax.Expr) -> np.ndarray | None:
    """The array of a constant, through reshapes and transposes, or None."""
    value = view.value(expr)
    direct = constant(value)
    if direct is not None:
        return direct
    call = view.match(value, "relax.reshape", "relax.permute_dims")
    if call is None:
        return None
    inner = moved_constant(view, call.args[0])
    return None if inner is None else _move(call, inner)


def _move(call: relax.Call, array: np.ndarray) -> np.ndarray:
    if name_of(call) == "relax.reshape":
        return array.reshape(shape_of(call))
    axes = call.attrs.axes
    return array.transpose(None if axes is None else [int(axis) for axis in axes])
