"""TFLM's integer arithmetic spelled out in plain Relax operators, for what has no kernel of its own.

Exact to the last bit: :mod:`tvm_stm32.numerics` has the rules. Multipliers and shifts are scalars, or arrays that
broadcast against the data from the last axis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax, runtime

from ..numerics import reduce_multiplier
from .ssa import dtype_of

op = relax.op


def const(value: Any, dtype: str) -> relax.Expr:
    """A constant; unlike ``relax.const`` it keeps 64-bit scalars."""
    return relax.const(runtime.tensor(np.array(value, dtype)))


@dataclass(frozen=True)
class FixedPoint:
    """Builds expressions; ``emit`` binds each intermediate value."""

    emit: Callable[[relax.Expr], relax.Expr]

    def cast(self, expr: relax.Expr, dtype: str) -> relax.Expr:
        """``expr`` as ``dtype``; integers wrap."""
        bound = self.emit(expr)
        return bound if dtype_of(bound) == dtype else self.emit(op.astype(bound, dtype))

    def offset(self, expr: relax.Expr, zero_point: int, dtype: str = "int32") -> relax.Expr:
        """``expr - zero_point``, computed in ``dtype``."""
        wide = self.cast(expr, dtype)
        return self.emit(op.subtract(wide, const(zero_point, dtype))) if zero_point else wide

    def multiply(self, expr: relax.Expr, multiplier: np.ndarray | int, shift: np.ndarray | int) -> relax.Expr:
        """:func:`tvm_stm32.numerics.multiply_tflm` of an int32 expression."""
        left, right = np.maximum(shift, 0), np.maximum(-np.asarray(shift, np.int64), 0)
        wide = self.cast(expr, "int64")
        if np.any(left):
            # A product: C leaves the left shift of a negative number undefined.
            scaled = self.emit(op.multiply(wide, const(np.left_shift(np.int64(1), left), "int64")))
            wide = self.cast(self.cast(scaled, "int32"), "int64")
        product = op.add(op.multiply(wide, const(multiplier, "int64")), const(1 << 30, "int64"))
        high = self.emit(op.right_shift(product, const(31, "int64")))
        if not np.any(right):
            return self.cast(high, "int32")
        # Half away from zero: half of the divisor, less one below zero. An element that is not shifted adds nothing.
        half = np.where(right > 0, np.left_shift(np.int64(1), np.maximum(right - 1, 0)), 0)
        sign = op.right_shift(high, const(63, "int64"))
        if np.ndim(right) and not np.all(right):
            sign = op.multiply(sign, const(right > 0, "int64"))
        nudged = op.add(op.add(high, const(half, "int64")), sign)
        return self.cast(op.right_shift(nudged, const(right, "int64")), "int32")

    def multiply_wide(self, expr: relax.Expr, multiplier: np.ndarray | int, shift: np.ndarray | int) -> relax.Expr:
        """:func:`tvm_stm32.numerics.multiply_wide` of an int64 expression."""
        reduced = np.vectorize(reduce_multiplier, otypes=[np.int64])(np.asarray(multiplier, np.int64))
        total = 15 - np.asarray(shift, np.int64)
        half = np.left_shift(np.int64(1), total - 1)
        rounded = op.add(op.multiply(expr, const(reduced, "int64")), const(half, "int64"))
        return self.cast(op.right_shift(rounded, const(total, "int64")), "int32")

    def finish(self, expr: relax.Expr, zero_point: int, low: int, high: int, dtype: str) -> relax.Expr:
        """int32 results as codes: the zero point added, clamped."""
        moved = op.add(expr, const(zero_point, "int32")) if zero_point else expr
        return self.cast(op.clip(moved, low, high), dtype)
