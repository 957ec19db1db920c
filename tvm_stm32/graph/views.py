"""Slices, splits, concatenations and pads that need no copy: their parts lie one behind the other in memory.

That is so along the first axis longer than one. ``v.slice``(data; offset) is a tensor some bytes into another,
``v.concat``(parts) one whose parts are written where they belong; a pad is a concatenation with ``v.fill``(; value).
Parts that would not be aligned like any other tensor stay plain operators, which copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from . import dialect
from .moves import pad_value
from .ssa import Function, constant, dtype_of, operands, shape_of

# Bytes to which every tensor is aligned.
_ALIGNMENT = 8
# Operators whose results are the bytes of what they read, and those that write their operands side by side.
_SAME = ("relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.flatten", "v.slice")
_JOINED = ("relax.concat", "relax.nn.pad", "v.concat")


class Views:
    """A rewriter of a function's bindings."""

    def __init__(self, view: Function, emit: Callable[[relax.Expr], relax.Var]) -> None:
        self.view, self.emit = view, emit
        result = view.value(view.function.body.body)
        self.results = list(result.fields) if isinstance(result, relax.Tuple) else [view.function.body.body]

    def rewrite(self, value: relax.Expr) -> relax.Expr | None:
        """The view that stands for ``value``; None where there is none."""
        if isinstance(value, relax.TupleGetItem):
            whole = self.view.match(value.tuple_value, "relax.split")
            return self._part(whole, value.index) if whole is not None else None
        name = dialect.name_of(value)
        if name == "relax.concat":
            return self._concatenation(value)
        if name == "relax.strided_slice":
            return self._slice(value)
        return self._pad(value) if name == "relax.nn.pad" else None

    def _concatenation(self, call: relax.Call) -> relax.Expr | None:
        parts, shape = operands(call)[: _fields(call)], _static_shape(call)
        axis = int(call.attrs.axis) if call.attrs.axis is not None else 0
        if shape is None or not _is_outermost(shape, axis % max(1, len(shape))):
            return None
        if not all(isinstance(part, relax.Var) and constant(self.view.value(part)) is None for part in parts):
            return None
        if any(_static_shape(part) is None or 0 in shape_of(part) for part in parts):
            return None
        return dialect.call("v.concat", parts, shape, dtype_of(call))

    def _pad(self, call: relax.Call) -> relax.Expr | None:
        """The data between parts that are filled, where it can be made at its place in the result."""
        data, shape, fill = call.args[0], _static_shape(call), pad_value(call)
        before, after = (np.array([int(width) for width in call.attrs.pad_width[side::2]]) for side in (0, 1))
        padded = np.flatnonzero(before + after)
        if shape is None or fill is None or not math.isfinite(fill) or min(*before, *after) < 0 or 0 in shape_of(data):
            return None
        if len(padded) != 1 or not _is_outermost(shape, padded[0]) or not self._made_for(data, call):
            return None
        axis, dtype = int(padded[0]), dtype_of(call)
        if int(before[axis]) * _bytes(shape[axis + 1 :], dtype) % _ALIGNMENT:
            return None

        def filled(extent: int) -> list[relax.Expr]:
            part = (*shape[:axis], extent, *shape[axis + 1 :])
            return [self.emit(dialect.call("v.fill", [], part, dtype, value=fill))] if extent else []

        return dialect.call("v.concat", [*filled(int(before[axis])), data, *filled(int(after[axis]))], shape, dtype)

    def _made_for(self, data: relax.Expr, reader: relax.Call) -> bool:
        """Whether an operator makes ``data`` in a buffer of its own that is part of no other tensor."""
        made = self.view.value(data)
        if (
            not isinstance(made, relax.Call)
            or dialect.name_of(made) in (*_SAME, *_JOINED)
            or _is_one_of(data, self.results)
        ):
            return False
        others = (
            b.value for b in self.view.bindings if not b.value.same_as(reader) and _is_one_of(data, operands(b.value))
        )
        return not any(dialect.name_of(other) in (*_SAME, *_JOINED) for other in others)

    def _slice(self, call: relax.Call) -> relax.Expr | None:
        data, shape = call.args[0], _static_shape(call)
        given = [_numbers(argument) for argument in call.args[1:]]
        if shape is None or _static_shape(data) is None or len(given) < 3 or None in given:
            return None
        axes, begin, end, *strides = (numbers for numbers in given if numbers is not None)
        whole = shape_of(data)
        if strides and any(stride != 1 for stride in strides[0]):
            return None
        cut = [(axis % len(whole), first) for axis, first, _ in zip(axes, begin, end, strict=True)]
        cut = [(axis, first) for axis, first in cut if shape[axis] != whole[axis]]
        if len(cut) != 1 or not _is_outermost(whole, cut[0][0]):
            return None
        axis, first = cut[0]
        first = max(0, first + whole[axis] if first < 0 else first)
        return _view(data, first * int(np.prod(whole[axis + 1 :], dtype=np.int64)), shape)

    def _part(self, call: relax.Call, index: int) -> relax.Expr | None:
        data = call.args[0]
        kind = call.ty.fields[index]
        whole = _static_shape(data)
        shapes = [tuple(int(n) for n in field.shape) for field in call.ty.fields]
        axis = int(call.attrs.axis) % len(whole) if whole else 0
        if whole is None or not _is_outermost(whole, axis) or str(kind.dtype) != dtype_of(data):
            return None
        return _view(data, sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes[:index]), shapes[index])


def _is_one_of(data: relax.Expr, exprs: list[relax.Expr]) -> bool:
    # Numbers among operands make expressions of a comparison.
    return any(isinstance(expr, relax.Var) and data.same_as(expr) for expr in exprs)


def _view(data: relax.Expr, elements: int, shape: tuple[int, ...]) -> relax.Expr | None:
    dtype = dtype_of(data)
    offset = elements * _bytes((), dtype)
    if not isinstance(data, relax.Var) or offset % _ALIGNMENT or 0 in shape:
        return None
    return dialect.call("v.slice", [data], shape, dtype, offset=offset)


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    return math.prod(shape) * int(np.dtype("int8" if dtype == "bool" else dtype).itemsize)


def _is_outermost(shape: tuple[int, ...], axis: int) -> bool:
    return all(extent == 1 for extent in shape[:axis])


def _static_shape(expr: relax.Expr) -> tuple[int, ...] | None:
    try:
        return shape_of(expr)
    except (AttributeError, TypeError, ValueError):
        return None


def _fields(call: relax.Call) -> int:
    tuple_ = call.args[0]
    return len(tuple_.fields) if isinstance(tuple_, relax.Tuple) else 0


def _numbers(expr: Any) -> list[int] | None:
    """Numbers written out as an argument; None for anything else."""
    try:
        return [int(field.value) for field in expr.fields]
    except (AttributeError, TypeError, ValueError):
        return None
