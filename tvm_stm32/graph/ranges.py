"""Which int8 codes each element of the integer graph can take, whatever the inputs are: interval arithmetic.

A :class:`Range` has the rank of its tensor; an axis along which the bounds do not change has extent 1, so an activation
needs little more than one pair of bounds a channel. Every rule gives bounds that hold for certain and may be too wide;
an operator without a rule can give all codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from tvm import relax

from ..numerics import INT8_MAX, INT8_MIN, MULTIPLY
from . import dialect
from .activation import activation_bounds
from .moves import RESHAPES, pad_fill, permutation, windows_filled
from .ssa import Function, constant, dtype_of, operands, shape_of
from .taps import SAFE, Linear, linear_codes, linear_of

# Operators that pick, repeat or reorder elements of their first operand.
_MOVES = {"relax.strided_slice", "relax.broadcast_to", "relax.repeat", "relax.tile", "relax.flip"}
# Ranges with more elements become one pair of bounds.
_MOST_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Range:
    """Smallest and largest code of each element, broadcastable to the tensor's shape."""

    low: np.ndarray
    high: np.ndarray

    @staticmethod
    def of(low: np.ndarray, high: np.ndarray) -> Range:
        """Bounds without the axes' repetition."""
        low, high = np.broadcast_arrays(np.asarray(low, np.int64), np.asarray(high, np.int64))
        for axis in range(low.ndim):
            first = np.take(low, [0], axis), np.take(high, [0], axis)
            if (low == first[0]).all() and (high == first[1]).all():
                low, high = first
        return Range(low, high)

    @staticmethod
    def everything(rank: int, low: int = INT8_MIN, high: int = INT8_MAX) -> Range:
        """The same bounds for every element."""
        return Range(np.full((1,) * rank, low, np.int64), np.full((1,) * rank, high, np.int64))

    def along(self, axis: int, extent: int) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of each position of one axis, over the others."""
        others = tuple(other for other in range(self.low.ndim) if other != axis)
        return (
            np.broadcast_to(self.low.min(axis=others), (extent,)),
            np.broadcast_to(self.high.max(axis=others), (extent,)),
        )

    def hull(self) -> tuple[int, int]:
        """Bounds of all elements."""
        return int(self.low.min()), int(self.high.max())

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> Range:
        """Bounds after a function that moves elements or never decreases."""
        return Range.of(function(self.low), function(self.high))


class Ranges:
    """The ranges of one function's int8 values."""

    def __init__(self, view: Function) -> None:
        self.view = view
        self._known: dict[relax.Var, Range] = {}
        self._calls: dict[relax.Call, Range] = {}
        self._rules: dict[str, Callable[[relax.Call], Range | None]] = {
            "q.table": self._table,
            **dict.fromkeys(("q.add", "q.sub", "q.mul"), lambda value: self.binary(value, *map(self.of, value.args))),
            "q.avg_pool2d": self._pool,
            "q.max_pool2d": self._pool,
            "relax.permute_dims": self._transposed,
            "relax.clip": self._clipped,
            "relax.concat": self._concatenated,
            "relax.nn.pad": self._padded,
            **dict.fromkeys(_MOVES, self._moved),
            **dict.fromkeys(RESHAPES, self._reshaped),
        }
        for binding in view.bindings:
            if isinstance(binding.var.ty, relax.TensorType) and dtype_of(binding.var) == "int8":
                value = binding.value
                self._known[binding.var] = self.of_call(value) if isinstance(value, relax.Call) else self.of(value)

    def of(self, expr: relax.Expr) -> Range:
        """The range of an int8 value: a variable or a constant."""
        if isinstance(expr, relax.Var) and expr in self._known:
            return self._known[expr]
        array = constant(expr)
        if array is None or array.size == 0 or array.dtype != np.int8:
            return Range.everything(len(shape_of(expr)))
        return Range.of(array, array)

    def of_call(self, value: relax.Call) -> Range:
        """The range of the int8 result of a call."""
        if value not in self._calls:
            self._calls[value] = self._range(value)
        return self._calls[value]

    def _range(self, value: relax.Call) -> Range:
        widest = Range.everything(len(shape_of(value)))
        if 0 in shape_of(value) or any(0 in shape_of(o) for o in operands(value) if _is_tensor(o)):
            return widest
        linear = linear_of(value)
        if linear is not None and dtype_of(value.args[0]) == "int8":
            return self._linear(value, linear)
        rule = self._rules.get(dialect.name_of(value))
        found = rule(value) if rule is not None else None
        if found is None:
            return widest
        return found if found.low.size <= _MOST_ELEMENTS else Range.everything(len(shape_of(value)), *found.hull())

    def _linear(self, value: relax.Call, linear: Linear) -> Range:
        data = self.of(value.args[0])
        low, high = linear_codes(value, linear, *data.along(data.low.ndim - 1, shape_of(value.args[0])[-1]))
        shape = (1,) * (len(shape_of(value)) - 1) + (-1,)
        return Range.of(low.reshape(shape), high.reshape(shape))

    def _table(self, value: relax.Call) -> Range | None:
        entries = constant(value.args[1])
        if entries is None or dtype_of(value.args[0]) != "int8":
            return None
        data = self.of(value.args[0])
        low, high = np.empty_like(data.low), np.empty_like(data.high)
        pairs = np.stack([data.low.reshape(-1), data.high.reshape(-1)], axis=1)
        for first, last in np.unique(pairs, axis=0):
            part = entries[first + 128 : last + 129]
            where = (data.low == first) & (data.high == last)
            low[where], high[where] = part.min(), part.max()
        return Range.of(low, high)

    def binary(self, value: relax.Call, left: Range, right: Range) -> Range:
        """The range of a sum, difference or product of operands with these ranges."""
        return (self._product if dialect.name_of(value) == "q.mul" else self._sum)(value, left, right)

    def _sum(self, value: relax.Call, *operands_: Range) -> Range:
        attrs = dialect.attributes(value)
        sides = []
        for side, data in zip(("lhs", "rhs"), operands_, strict=True):
            zero_point = int(attrs[f"{side}_zero_point"])
            ends = [(end - zero_point) << int(attrs["left_shift"]) for end in (data.low, data.high)]
            scaled = _scaled(ends, attrs[f"{side}_multiplier"], attrs[f"{side}_shift"], attrs["rounding"])
            if scaled is None:
                return self._clamps(value)
            sides.append(scaled)
        (low, high), (low2, high2) = sides
        ends = [low + low2, high + high2] if dialect.name_of(value) == "q.add" else [low - high2, high - low2]
        return self._finished(value, ends)

    def _product(self, value: relax.Call, *operands_: Range) -> Range:
        attrs = dialect.attributes(value)
        left, right = (
            (data.low - int(attrs[f"{side}_zero_point"]), data.high - int(attrs[f"{side}_zero_point"]))
            for side, data in zip(("lhs", "rhs"), operands_, strict=True)
        )
        corners = [a * b for a, b in product(left, right)]
        low, high = corners[0], corners[0]
        for corner in corners[1:]:
            low, high = np.minimum(low, corner), np.maximum(high, corner)
        return self._finished(value, [low, high])

    def _pool(self, value: relax.Call) -> Range | None:
        attrs = dialect.attributes(value)
        (_, height, width, channels), (_, out_h, out_w, _) = shape_of(value.args[0]), shape_of(value)
        (top, left, _, _), (pool_h, pool_w), (stride_h, stride_w) = (attrs[k] for k in ("padding", "pool", "strides"))
        inside = not (top or left)
        inside = inside and (out_h - 1) * stride_h + pool_h <= height and (out_w - 1) * stride_w + pool_w <= width
        data = Range.of(*(end.reshape(1, 1, 1, -1) for end in self.of(value.args[0]).along(3, channels)))
        if attrs.get("mode") == "requantize":
            count, zero_point = pool_h * pool_w, int(attrs["input_zero_point"])
            ends = [count * (end - zero_point) for end in (data.low, data.high)]
            return self._finished(value, ends) if inside else self._clamps(value)
        if not windows_filled(value):
            return self._clamps(value)
        # The largest and the (rounded) average code of a window lie between its smallest and its largest.
        return data.mapped(lambda end: end.clip(attrs.get("clamp_min", -128), attrs.get("clamp_max", 127)))

    def _finished(self, value: relax.Call, ends: list[np.ndarray]) -> Range:
        attrs = dialect.attributes(value)
        scaled = _scaled(ends, attrs["multiplier"], attrs["shift"], attrs["rounding"])
        if scaled is None:
            return self._clamps(value)
        codes = [end + int(attrs["output_zero_point"]) for end in scaled]
        return Range.of(*(np.clip(end, attrs["clamp_min"], attrs["clamp_max"]) for end in codes))

    def _clamps(self, value: relax.Call) -> Range:
        attrs = dialect.attributes(value)
        low, high = int(attrs.get("clamp_min", INT8_MIN)), int(attrs.get("clamp_max", INT8_MAX))
        return Range.everything(len(shape_of(value)), low, high)

    def _transposed(self, value: relax.Call) -> Range:
        axes = permutation(value)
        return self.of(value.args[0]).mapped(lambda end: end.transpose(axes))

    def _reshaped(self, value: relax.Call) -> Range:
        shape, result = shape_of(value.args[0]), shape_of(value)
        data = self.of(value.args[0])
        if data.low.size == 1 or np.prod(shape) > _MOST_ELEMENTS:
            return Range.everything(len(result), *data.hull())
        return data.mapped(lambda end: np.broadcast_to(end, shape).reshape(result))

    def _moved(self, value: relax.Call) -> Range:
        return Range.everything(len(shape_of(value)), *self.of(value.args[0]).hull())

    def _clipped(self, value: relax.Call) -> Range | None:
        bounds = activation_bounds(value)
        if bounds is None or bounds[1] is None:
            return None
        low, high = (max(INT8_MIN, min(INT8_MAX, int(bound))) for bound in (bounds[0], bounds[1]))
        return self.of(value.args[0]).mapped(lambda end: np.minimum(np.maximum(end, low), high))

    def _concatenated(self, value: relax.Call) -> Range | None:
        whole = self.view.value(value.args[0])
        if not isinstance(whole, relax.Tuple) or value.attrs.axis is None:
            return None
        axis = int(value.attrs.axis) % len(shape_of(value))
        parts = [(self.of(field), shape_of(field)) for field in whole.fields]
        shape = [max(part.low.shape[k] for part, _ in parts) for k in range(len(shape_of(value)))]

        def joined(ends: list[np.ndarray]) -> np.ndarray:
            spread = [
                np.broadcast_to(end, [*shape[:axis], full[axis], *shape[axis + 1 :]])
                for end, (_, full) in zip(ends, parts, strict=True)
            ]
            return np.concatenate(spread, axis)

        return Range.of(joined([part.low for part, _ in parts]), joined([part.high for part, _ in parts]))

    def _padded(self, value: relax.Call) -> Range | None:
        fill = pad_fill(value)
        if fill is None:
            return None
        width = [int(w) for w in value.attrs.pad_width]
        shape, low, high = shape_of(value.args[0]), *_ends(self.of(value.args[0]))
        for axis, (before, after) in enumerate(zip(width[::2], width[1::2], strict=True)):
            if before or after:
                spread = [(0, 0)] * len(shape)
                spread[axis] = (before, after)
                full = [*low.shape[:axis], shape[axis], *low.shape[axis + 1 :]]
                low, high = (np.pad(np.broadcast_to(e, full), spread, constant_values=fill) for e in (low, high))
        return Range.of(low, high)


def _scaled(ends: list[np.ndarray], multiplier: int, shift: int, rounding: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Bounds times a fixed-point number, None where a sum could have wrapped."""
    largest = max(int(np.abs(end).max()) for end in ends)
    if largest << max(int(shift), 0) >= SAFE:
        return None
    scaled = [MULTIPLY[rounding](end, int(multiplier), int(shift)) for end in ends]
    return np.minimum(*scaled), np.maximum(*scaled)


def _ends(found: Range) -> tuple[np.ndarray, np.ndarray]:
    return found.low, found.high


def _is_tensor(expr: relax.Expr) -> bool:
    return isinstance(getattr(expr, "ty", None), relax.TensorType)
