"""Converters from ONNX operators to Relax where TVM's are absent, wrong, or leave shapes to run time.

A converter is a class with a static ``convert(builder, inputs, attributes)``; shapes are fixed and inputs are Relax
expressions or None. ``get_converter`` is what the importer asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from tvm import ir, relax, runtime
from tvm.relax.frontend.onnx import onnx_frontend as importer

from ..graph import dialect

op = relax.op
Inputs = Any
Attributes = dict[str, Any]


class Converter:
    """The importer's interface around a function that serves every opset."""

    def __init__(self, function: Callable[[relax.BlockBuilder, Inputs, Attributes], relax.Expr]) -> None:
        self._function = function

    def get_converter(self, _opset: int) -> Callable[..., relax.Expr]:
        """The function that converts a node of any opset."""
        return lambda builder, inputs, attributes, _params: self._function(builder, inputs, attributes)


@cache
def converters() -> dict[str, Any]:
    """The importer's converters by operator, some replaced."""
    own = {name: Converter(function) for name, function in _OWN.items()}
    return {**importer._get_convert_map(), **own}


def _shape(expr: relax.Expr) -> list[int]:
    return [int(extent) for extent in expr.ty.shape]


def _dtype(expr: relax.Expr) -> str:
    return str(expr.ty.dtype)


def _array(expr: relax.Expr | None) -> np.ndarray | None:
    return np.asarray(expr.value.numpy()) if isinstance(expr, ir.GenericConst) else None


def _const(value: Any, dtype: str) -> relax.Expr:
    return relax.const(runtime.tensor(np.asarray(value, dtype)))


def _text(attributes: Attributes, name: str, default: str) -> str:
    value = attributes.get(name, default)
    return value.decode() if isinstance(value, bytes) else str(value)


def _clip(builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    data, dtype = inputs[0], _dtype(inputs[0])
    low, high = (_array(inputs[position]) for position in (1, 2))
    if low is not None and high is not None and low.size == high.size == 1 and dtype == "float32":
        limits = float(low.reshape(-1)[0]), float(high.reshape(-1)[0])
        if limits[0] <= limits[1]:
            return op.clip(data, *limits)  # which the integer rewrites fuse
    for name, position, combine in (("min", 1, op.maximum), ("max", 2, op.minimum)):
        bound = inputs[position]
        if bound is None and name in attributes:
            bound = _const(attributes[name], dtype)
        array = _array(bound)
        if bound is None or (array is not None and array.dtype.kind == "f" and np.isnan(array).all()):
            continue
        data = builder.normalize(combine(data, bound))
    return data


def _pad(builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    data = inputs[0]
    shape = _shape(data)
    pads = (
        _array(inputs[1]) if inputs[1] is not None else np.asarray(attributes.get("pads", attributes.get("paddings")))
    )
    chosen = np.arange(len(shape)) if inputs[3] is None else _array(inputs[3])
    if pads is None or chosen is None:
        raise ValueError("the pads are not known when the model is compiled")
    axes = [int(axis) for axis in chosen.reshape(-1)]
    widths = np.zeros((len(shape), 2), np.int64)
    for position, axis in enumerate(axes):
        widths[axis] = pads.reshape(2, -1)[:, position]
    cut = np.maximum(-widths, 0)
    if cut.any():
        ends = [extent - int(after) for extent, after in zip(shape, cut[:, 1], strict=True)]
        begins = [int(before) for before in cut[:, 0]]
        data = builder.normalize(op.strided_slice(data, list(range(len(shape))), begins, ends))
    widths = np.maximum(widths, 0)
    modes = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}
    mode = modes[_text(attributes, "mode", "constant")]
    flat = [int(width) for width in widths.reshape(-1)]
    value = inputs[2] if inputs[2] is not None else _const(attributes.get("value", 0), _dtype(data))
    if not any(flat):
        return data
    if mode != "constant":
        return op.nn.pad(data, flat, mode)
    fill = _array(value)
    if fill is not None and _is_exact(number := fill.reshape(-1)[0].item()):
        return op.nn.pad(data, flat, "constant", number)
    padded = builder.normalize(op.nn.pad(data, flat, "constant", 0))
    inside = np.pad(np.ones(_shape(data), bool), widths)
    return op.where(_const(inside, "bool"), padded, value)


def _is_exact(number: float | int) -> bool:
    """Whether the attribute of a pad, which is a double, holds it."""
    return isinstance(number, float) or abs(number) <= 1 << 53


def _tile(_builder: relax.BlockBuilder, inputs: Inputs, _attributes: Attributes) -> relax.Expr:
    repeats = _array(inputs[1])
    if repeats is None:
        raise ValueError("the repeats are not known when the model is compiled")
    return op.tile(inputs[0], [int(count) for count in repeats])


def _positive(builder: relax.BlockBuilder, indices: relax.Expr, extents: Any) -> relax.Expr:
    """Indices with negative ones counted from the end; ``extents`` broadcast against them.

    Raises :class:`ValueError` for a constant one outside: the network would read or write outside its tensor.
    """
    dtype = _dtype(indices)
    array = _array(indices)
    limit = np.asarray(extents, dtype)
    if array is not None:
        outside = array[(array >= limit) | ((array < 0) & (array + limit < 0))]
        if outside.size:
            raise ValueError(f"index {outside.flat[0]} is outside of {np.atleast_1d(extents).tolist()} elements")
    if dtype.startswith("uint"):
        return indices
    if array is not None:
        return _const(np.where(array < 0, array + limit, array), dtype)
    shifted = builder.normalize(op.add(indices, _const(limit, dtype)))
    return builder.normalize(op.where(op.less(indices, _const(0, dtype)), shifted, indices))


def _gather(builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    data, indices = inputs[0], inputs[1]
    shape = _shape(data)
    axis = int(attributes.get("axis", 0)) % len(shape)
    return op.take(data, _positive(builder, indices, shape[axis]), axis)


def _gather_elements(builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    shape = _shape(inputs[0])
    axis = int(attributes.get("axis", 0)) % len(shape)
    return op.gather_elements(inputs[0], _positive(builder, inputs[1], shape[axis]), axis)


def _gather_nd(builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    batch = int(attributes.get("batch_dims", 0))
    width = _shape(inputs[1])[-1]
    extents = _shape(inputs[0])[batch : batch + width]
    return op.gather_nd(inputs[0], _positive(builder, inputs[1], extents), batch)


def _scatter_elements(builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    shape = _shape(inputs[0])
    axis = int(attributes.get("axis", 0)) % len(shape)
    indices = _positive(builder, inputs[1], shape[axis])
    return op.scatter_elements(inputs[0], indices, inputs[2], axis, _reduction(attributes))


def _scatter_nd(builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    extents = _shape(inputs[0])[: _shape(inputs[1])[-1]]
    return op.scatter_nd(inputs[0], _positive(builder, inputs[1], extents), inputs[2], _reduction(attributes))


def _reduction(attributes: Attributes) -> str:
    name = _text(attributes, "reduction", "none")
    return {"none": "update"}.get(name, name)


def _power(_builder: relax.BlockBuilder, inputs: Inputs, _attributes: Attributes) -> relax.Expr:
    base, exponent = inputs[0], inputs[1]
    kinds = [_dtype(base), _dtype(exponent)]
    if kinds[0].startswith("float"):
        return op.power(base, exponent if kinds[1] == kinds[0] else op.astype(exponent, kinds[0]))
    if kinds[1].startswith("float"):
        return op.astype(op.power(op.astype(base, kinds[1]), exponent), kinds[0])
    shape = list(np.broadcast_shapes(_shape(base), _shape(exponent)))
    return dialect.call("te.integer_power", [base, exponent], shape, kinds[0])


def _mod(_builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    left, right = inputs[0], inputs[1]
    shape = list(np.broadcast_shapes(_shape(left), _shape(right)))
    truncated = bool(attributes.get("fmod", 0))
    if _dtype(left).startswith("float"):
        return dialect.call("te.truncated_mod" if truncated else "te.float_mod", [left, right], shape, _dtype(left))
    return op.mod(left, right) if truncated else op.floor_mod(left, right)


def _is_inf(_builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    data = inputs[0]
    signs = [attributes.get("detect_negative", 1), attributes.get("detect_positive", 1)]
    if all(signs):
        return op.isinf(data)
    if not any(signs):
        return _const(np.zeros(_shape(data), bool), "bool")
    return op.equal(data, _const(np.inf if signs[1] else -np.inf, _dtype(data)))


def _bit_shift(builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Shifts by the width or more, or by negative counts, shift everything out."""
    data, count = inputs[0], inputs[1]
    dtype = _dtype(data)
    width = int("".join(filter(str.isdigit, dtype)))
    left = _text(attributes, "direction", "LEFT") == "LEFT"
    inside = op.less(count, _const(width, dtype))
    if not dtype.startswith("u"):
        inside = op.logical_and(inside, op.greater_equal(count, _const(0, dtype)))
    inside = builder.normalize(inside)
    count = builder.normalize(op.where(inside, count, _const(0, dtype)))
    shifted = builder.normalize((op.left_shift if left else op.right_shift)(data, count))
    outside = _const(0, dtype)
    if not left and not dtype.startswith("u"):
        outside = op.where(op.less(data, _const(0, dtype)), _const(-1, dtype), outside)
    return op.where(inside, shifted, outside)


def _bit_cast(_builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    dtype = importer.get_type(attributes["to"])
    return dialect.call("te.bit_cast", [inputs[0]], _shape(inputs[0]), dtype)


def _cumulative(function: Callable[..., relax.Expr]) -> Callable[..., relax.Expr]:
    def convert(builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
        data, axes = inputs[0], _array(inputs[1])
        if axes is None:
            raise ValueError("the axis is not known when the model is compiled")
        axis = int(axes.reshape(-1)[0]) % len(_shape(data))
        backwards = bool(attributes.get("reverse", 0))
        data = builder.normalize(op.flip(data, axis)) if backwards else data
        result = function(data, axis, _dtype(data), bool(attributes.get("exclusive", 0)))
        return op.flip(builder.normalize(result), axis) if backwards else result

    return convert


def _einsum(_builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    return op.einsum(tuple(inputs), _text(attributes, "equation", "").replace(" ", ""))


def _resample(_builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    data, index = inputs[0], _array(inputs[1])
    if index is None:
        raise ValueError("the positions are not known when the model is compiled")
    axis = int(attributes["axis"])
    shape = _shape(data)
    shape[axis] = index.shape[0]
    return dialect.call("te.resample", list(inputs)[:3], shape, _dtype(data), axis=axis)


def _reverse_sequence(_builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    return op.reverse_sequence(inputs[0], inputs[1], attributes.get("time_axis", 0), attributes.get("batch_axis", 1))


def _top_k(builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    data, count = inputs[0], _array(inputs[1]) if inputs[1] is not None else np.asarray(attributes.get("k", 0))
    if count is None:
        raise ValueError("the number of elements is not known when the model is compiled")
    shape = _shape(data)
    axis = int(attributes.get("axis", -1)) % len(shape)
    shape[axis] = int(count.reshape(-1)[0])
    options = {"axis": axis, "largest": int(attributes.get("largest", 1))}
    results = [
        dialect.call("te.top_k", [data], shape, dtype, what=what, **options)
        for what, dtype in (("values", _dtype(data)), ("indices", "int64"))
    ]
    return relax.Tuple([builder.emit(result) for result in results])


RESAMPLE = "tvm_stm32.Resample"
"""Made by the rewrites: weighted sums of elements along an axis, ``te.resample``."""

_OWN: dict[str, Callable[..., relax.Expr]] = {
    "BitCast": _bit_cast,
    "BitShift": _bit_shift,
    "Clip": _clip,
    "CumProd": _cumulative(op.cumprod),
    "CumSum": _cumulative(op.cumsum),
    "Einsum": _einsum,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "IsInf": _is_inf,
    "Mod": _mod,
    "Pad": _pad,
    "Pow": _power,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "ReverseSequence": _reverse_sequence,
    "Tile": _tile,
    "TopK": _top_k,
    RESAMPLE: _resample,
}
