"""Inputs of other shapes than the file declares: ``--input-shape`` of dynamic TFLite models.

The file keeps a shape for every tensor, and operators are converted by it. Extents are rewritten where they stand:
those of the inputs first, then, operator by operator, those of its results, from the operands' new shapes or from what
its conversion made. The number of dimensions never changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tflite

from ..errors import ModelError, quoted
from .limits import check_shape
from .tflite_check import indices
from .tflite_site import Site

_SHAPE = 4  # the slot of a tensor's shape, as offset into a vtable
Shape = Sequence[int]


def resize_inputs(file: str, data: bytearray, subgraph: Any, wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Write the shapes of inputs into ``data``, which ``subgraph`` lies in. Raises :class:`ModelError`."""
    inputs = {subgraph.names[index]: subgraph.Tensors(index) for index in indices(subgraph.InputsAsNumpy())}
    for name, shape in wanted.items():
        if name not in inputs:
            raise ModelError(
                f"--input-shape: {file} has no input {quoted(name)}",
                hint="its inputs: " + ", ".join(quoted(known) for known in inputs),
            )
        tensor = inputs[name]
        declared = indices(tensor.ShapeSignatureAsNumpy()) or indices(tensor.ShapeAsNumpy())
        fits = len(declared) == len(shape) and all(e > 0 and d in (-1, e) for d, e in zip(declared, shape, strict=True))
        if not fits:
            raise ModelError(
                f"--input-shape: input {quoted(name)} of {file} cannot have shape {list(shape)}",
                why=f"the file declares ({', '.join('?' if extent < 0 else str(extent) for extent in declared)})",
            )
        check_shape(file, f"input {quoted(name)}", shape)
        write_shape(data, tensor, shape)


def write_shape(data: bytearray, tensor: Any, shape: Shape) -> None:
    """Write a tensor's extents. Raises ``ValueError`` when it has another number of dimensions."""
    if list(shape) == indices(tensor.ShapeAsNumpy()):
        return
    if tensor.ShapeLength() != len(shape):
        raise ValueError(f"with the given input shapes it makes {list(shape)}, which has another number of dimensions")
    table = tensor._tab
    start = table.Vector(table.Offset(_SHAPE))
    data[start : start + 4 * len(shape)] = np.array(shape, "<i4").tobytes()


def shared_shapes(subgraph: Any) -> set[str]:
    """Names of tensors whose extents stand in one place with another tensor's: these cannot change."""
    places: dict[int, list[str]] = {}
    for index in range(subgraph.TensorsLength()):
        table = subgraph.Tensors(index)._tab
        if table.Offset(_SHAPE):
            places.setdefault(table.Vector(table.Offset(_SHAPE)), []).append(subgraph.names[index])
    return {name for names in places.values() if len(names) > 1 for name in names}


def result_shape(site: Site) -> Shape | None:
    """The shape of the first result, for operators whose conversion reads the declared one; None for others."""
    rule = _RULES.get(site.code)
    return None if rule is None else rule(site)


def _windowed(table: str) -> Callable[[Site], Shape]:
    def rule(site: Site) -> Shape:
        options, data = site.options(table), site.data(0)
        if table == "Pool2D":
            kernel, channels = [options.FilterHeight(), options.FilterWidth()], data.shape[3]
        else:
            weights = site.data(1).shape
            kernel, channels = list(weights[1:3]), weights[3 if table == "DepthwiseConv2D" else 0]
        factors = [1, 1] if table == "Pool2D" else [options.DilationHFactor(), options.DilationWFactor()]
        size = []
        for extent, taps, stride, dilation in zip(
            data.shape[1:3], kernel, (options.StrideH(), options.StrideW()), factors, strict=True
        ):
            span = extent if options.Padding() == tflite.Padding.SAME else extent - (taps - 1) * max(1, dilation)
            size.append(-(-span // stride))
        return [data.shape[0], *size, channels]

    return rule


def _broadcast(site: Site) -> Shape:
    return np.broadcast_shapes(site.data(0).shape, site.data(1).shape)


def _dense(site: Site) -> Shape:
    units, depth = site.data(1).shape
    if site.options("FullyConnected").KeepNumDims():
        return [*site.data(0).shape[:-1], units]
    return [math.prod(site.data(0).shape) // depth, units]


def _reshape(site: Site) -> Shape:
    target = site.optional(1)
    if target is not None and target.value is not None:
        shape = [int(extent) for extent in target.value.reshape(-1)]
    else:
        shape = indices(site.options("Reshape").NewShapeAsNumpy())
    count = math.prod(site.data(0).shape)
    if -1 in shape:
        rest = math.prod(extent for extent in shape if extent != -1)
        shape[shape.index(-1)] = count // max(1, rest)
    if math.prod(shape) != count:
        raise ValueError(f"{count} elements do not fit the shape {shape} it is to make with the given input shapes")
    return shape


def _squeeze(site: Site) -> Shape:
    shape = site.data(0).shape
    axes = {axis % len(shape) for axis in indices(site.options("Squeeze").SqueezeDimsAsNumpy())}
    axes = axes or {axis for axis, extent in enumerate(shape) if extent == 1}
    return [extent for axis, extent in enumerate(shape) if axis not in axes]


def _expand(site: Site) -> Shape:
    shape = list(site.data(0).shape)
    axis = site.integers(1)[0]
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 1)
    return shape


def _reduced(site: Site) -> Shape:
    shape, keep = site.data(0).shape, bool(site.options("Reducer").KeepDims())
    axes = {axis % len(shape) for axis in site.integers(1)}
    return [1 if axis in axes else extent for axis, extent in enumerate(shape) if keep or axis not in axes]


def _without_axis(site: Site) -> Shape:
    shape = list(site.data(0).shape)
    del shape[site.integers(1)[0] % len(shape)]
    return shape


def _packed(site: Site) -> Shape:
    shape = list(site.data(0).shape)
    shape.insert(int(site.options("Pack").Axis()) % (len(shape) + 1), len(site.inputs))
    return shape


def _strided_slice(site: Site) -> Shape:
    options, data = site.options("StridedSlice"), site.data(0)
    begin, end, steps = (site.integers(position) for position in (1, 2, 3))
    shape = []
    for axis, extent in enumerate(data.shape):
        bit = 1 << axis
        if axis < len(begin) and options.ShrinkAxisMask() & bit:
            continue
        whole = range(extent)
        if axis < len(begin):
            first = None if options.BeginMask() & bit else begin[axis]
            last = None if options.EndMask() & bit else end[axis]
            whole = whole[slice(first, last, steps[axis])]
        shape.append(len(whole))
    return shape


def _filled(site: Site) -> Shape:
    return site.integers(0)


_BROADCASTS = (
    "ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "EQUAL", "NOT_EQUAL", "GREATER",
    "GREATER_EQUAL", "LESS", "LESS_EQUAL",
)  # fmt: skip
_REDUCTIONS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")

_RULES: dict[str, Callable[[Site], Shape]] = {
    "CONV_2D": _windowed("Conv2D"),
    "DEPTHWISE_CONV_2D": _windowed("DepthwiseConv2D"),
    "AVERAGE_POOL_2D": _windowed("Pool2D"),
    "MAX_POOL_2D": _windowed("Pool2D"),
    "FULLY_CONNECTED": _dense,
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand,
    "PACK": _packed,
    "STRIDED_SLICE": _strided_slice,
    "FILL": _filled,
    "ARG_MAX": _without_axis,
    "ARG_MIN": _without_axis,
    **dict.fromkeys(_BROADCASTS, _broadcast),
    **dict.fromkeys(_REDUCTIONS, _reduced),
}
