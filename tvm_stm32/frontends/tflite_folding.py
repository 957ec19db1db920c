"""Constants known while a TFLite file is read: shape arithmetic, float16 weights, int8 weights of float operators.

Every function is numpy on the operands' values; the result takes the place of the operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .tflite_site import Site

Values = list[np.ndarray]
Fold = Callable[[Site, Values], "np.ndarray | Values | None"]

# Larger results are left to the compiled network: they would take flash without need.
_MOST_ELEMENTS = 1 << 16


def dequantized(values: np.ndarray, scales: np.ndarray, zero_points: np.ndarray, axis: int) -> np.ndarray:
    """The reals of constant codes, one scale or one for each index of ``axis``."""
    shape = [1] * values.ndim
    if scales.size > 1:
        shape[axis] = scales.size
    steps = values.astype(np.int32) - zero_points.astype(np.int32).reshape(shape if zero_points.size > 1 else [])
    return np.asarray(steps.astype(np.float32) * scales.astype(np.float32).reshape(shape if scales.size > 1 else []))


def _dequantize(site: Site, values: Values) -> np.ndarray:
    data = site.data(0)
    if data.scales.size:
        return dequantized(values[0], data.scales, data.zero_points, data.axis)
    return values[0].astype(np.float32)


def _strided_slice(site: Site, values: Values) -> np.ndarray:
    options, (data, begin, end, steps) = site.options("StridedSlice"), values
    picks: list[slice | int] = []
    for axis in range(begin.size):
        bit = 1 << axis
        if options.ShrinkAxisMask() & bit:
            picks.append(int(begin[axis]))
            continue
        first = None if options.BeginMask() & bit else int(begin[axis])
        last = None if options.EndMask() & bit else int(end[axis])
        picks.append(slice(first, last, int(steps[axis])))
    return np.asarray(data[tuple(picks)])


def _slice(_site: Site, values: Values) -> np.ndarray:
    data, begin, size = values
    ends = [b + s if s >= 0 else extent for b, s, extent in zip(begin, size, data.shape, strict=True)]
    return np.asarray(data[tuple(slice(int(b), int(e)) for b, e in zip(begin, ends, strict=True))])


def _divide(_site: Site, values: Values) -> np.ndarray | None:
    left, right = values[:2]
    if left.dtype.kind == "f":
        return np.asarray(left / right)
    return np.asarray(np.trunc(left / right).astype(left.dtype)) if right.all() else None


def _unpack(site: Site, values: Values) -> Values:
    axis = int(site.options("Unpack").Axis())
    return [np.asarray(part) for part in np.moveaxis(values[0], axis, 0)]


def _fill(site: Site, values: Values) -> np.ndarray:
    _check_extents(site, values[0].reshape(-1).tolist())
    return np.full(site.output.shape, values[1])


def _range(site: Site, values: Values) -> np.ndarray:
    start, limit, step = (value.item() for value in values)
    _check_extents(site, [max(0, math.ceil((limit - start) / step))])
    return np.arange(start, limit, step, dtype=values[0].dtype)


def _tile(site: Site, values: Values) -> np.ndarray:
    counts = [int(count) for count in values[1]]
    _check_extents(site, [count * extent for count, extent in zip(counts, values[0].shape, strict=True)])
    return np.tile(values[0], counts)


def _check_extents(site: Site, extents: list[int]) -> None:
    """Before anything is made: the file's declared shape is known to be of a sensible size."""
    if extents != list(site.output.shape):
        raise ValueError(f"it makes a tensor of shape {extents} and the file declares {list(site.output.shape)}")


def _binary(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Fold:
    return lambda _site, values: np.asarray(function(values[0], values[1]))


_FOLDS: dict[str, Fold] = {
    "DEQUANTIZE": _dequantize,
    "CAST": lambda site, values: values[0].astype(site.output.dtype),
    "RESHAPE": lambda site, values: values[0].reshape(site.output.shape),
    "SQUEEZE": lambda site, values: values[0].reshape(site.output.shape),
    "EXPAND_DIMS": lambda site, values: values[0].reshape(site.output.shape),
    "TRANSPOSE": lambda _site, values: values[0].transpose([int(axis) for axis in values[1]]),
    "PACK": lambda site, values: np.stack(values, int(site.options("Pack").Axis())),
    "CONCATENATION": lambda site, values: np.concatenate(values, int(site.options("Concatenation").Axis())),
    "UNPACK": _unpack,
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _slice,
    "GATHER": lambda site, values: np.take(values[0], values[1], int(site.options("Gather").Axis())),
    "FILL": _fill,
    "RANGE": _range,
    "TILE": _tile,
    "BROADCAST_TO": lambda site, values: np.broadcast_to(values[0], site.output.shape),
    "BROADCAST_ARGS": lambda _site, values: np.array(np.broadcast_shapes(*(tuple(v) for v in values))),
    "ZEROS_LIKE": lambda _site, values: np.zeros_like(values[0]),
    "ADD": _binary(np.add),
    "SUB": _binary(np.subtract),
    "MUL": _binary(np.multiply),
    "DIV": _divide,
    "FLOOR_DIV": _binary(np.floor_divide),
    "FLOOR_MOD": _binary(np.mod),
    "MAXIMUM": _binary(np.maximum),
    "MINIMUM": _binary(np.minimum),
    "LESS": _binary(np.less),
    "LESS_EQUAL": _binary(np.less_equal),
    "GREATER": _binary(np.greater),
    "GREATER_EQUAL": _binary(np.greater_equal),
    "EQUAL": _binary(np.equal),
    "NOT_EQUAL": _binary(np.not_equal),
    "LOGICAL_AND": _binary(np.logical_and),
    "LOGICAL_OR": _binary(np.logical_or),
    "LOGICAL_NOT": lambda _site, values: np.logical_not(values[0]),
    "NEG": lambda _site, values: np.negative(values[0]),
    "ABS": lambda _site, values: np.abs(values[0]),
    "REDUCE_PROD": lambda site, values: values[0].prod().reshape(site.output.shape),
    "REDUCE_MAX": lambda site, values: values[0].max().reshape(site.output.shape),
    "REDUCE_MIN": lambda site, values: values[0].min().reshape(site.output.shape),
}
# These reduce along all axes here; with one dimension that is what they are asked for.
_ONE_DIMENSION = {"REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"}
FOLDED = frozenset({*_FOLDS, "SHAPE", "RANK"})


def folded(site: Site) -> Values | None:
    """The values of the operator's outputs where they are known, else None. Quantized arithmetic is never folded."""
    inputs = [operand for operand in site.inputs if operand is not None]
    if site.code == "SHAPE":
        return [np.array(inputs[0].shape, site.output.dtype)]
    if site.code == "RANK":
        return [np.array(inputs[0].rank, np.int32)]
    fold = _FOLDS.get(site.code)
    if fold is None or not inputs or any(operand.value is None for operand in inputs):
        return None
    if site.code != "DEQUANTIZE" and (site.output.scales.size or np.prod(site.output.shape) > _MOST_ELEMENTS):
        return None
    if site.output.dtype == "bool" and any(operand.scales.size for operand in inputs):
        return None
    if site.code in _ONE_DIMENSION and inputs[0].rank != 1:
        return None
    result = fold(site, [operand.value for operand in inputs if operand.value is not None])
    if result is None:
        return None
    results = result if isinstance(result, list) else [result]
    return [np.array(value, out.dtype, order="C") for value, out in zip(results, site.outputs, strict=True)]
