"""Value ranges of integer and float expressions, to decide how wide index arithmetic must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tvm import ir, sym, tirx

from .text import intrinsic
from .walk import Expr

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1
_MONOTONE: dict[str, Callable[[float], float]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "nearbyint": round,
    "trunc": math.trunc,
}


class Interval(NamedTuple):
    """Closed range of values."""

    low: float
    high: float


_ANYTHING = Interval(-math.inf, math.inf)


class Bounds:
    """Ranges of expressions: TVM's bounds of integers, plus arithmetic through float coordinates (resize)."""

    def __init__(self) -> None:
        self.analyzer = sym.Analyzer()
        self._definitions: dict[ir.Var, Expr] = {}

    def define(self, variable: ir.Var, value: Expr) -> None:
        """Make the value of a bound variable known."""
        self._definitions[variable] = value
        if str(value.ty.dtype).startswith(("int", "uint")):
            self.analyzer.bind(variable, value)

    def fits_int32(self, expr: Expr) -> bool:
        """Whether every value of an expression is an int32 (after truncation, for floats)."""
        found = self.interval(expr)
        return found.low >= _INT32_MIN and found.high <= _INT32_MAX

    def interval(self, expr: Expr) -> Interval:
        """Range of an expression; infinite where nothing is known."""
        dtype = str(expr.ty.dtype)
        if dtype == "bool":
            return Interval(0, 1)
        if isinstance(expr, tirx.IntImm | tirx.FloatImm):
            return Interval(expr.value, expr.value)
        if dtype.startswith(("int", "uint")):
            bound = self.analyzer.const_int_bound(expr)
            if int(bound.min_value) >= _INT32_MIN and int(bound.max_value) <= _INT32_MAX:
                return Interval(int(bound.min_value), int(bound.max_value))
        if isinstance(expr, ir.Var) and expr in self._definitions:
            return self.interval(self._definitions[expr])
        if isinstance(expr, tirx.Cast):
            return self.interval(expr.value)
        if isinstance(expr, tirx.Select):
            return _union(self.interval(expr.true_value), self.interval(expr.false_value))
        if isinstance(expr, ir.Call):
            return self._call(expr)
        if isinstance(expr, tirx.Add | tirx.Sub | tirx.Mul | tirx.Min | tirx.Max):
            return _combine(expr, self.interval(expr.a), self.interval(expr.b))
        return _ANYTHING

    def _call(self, expr: ir.Call) -> Interval:
        name = intrinsic(expr)
        if name == "if_then_else":
            return _union(self.interval(expr.args[1]), self.interval(expr.args[2]))
        if name in _MONOTONE:
            low, high = self.interval(expr.args[0])
            if math.isfinite(low) and math.isfinite(high):
                # one step of slack: float arithmetic may have rounded across an integer
                return Interval(_MONOTONE[name](low) - 1, _MONOTONE[name](high) + 1)
        return _ANYTHING


def _union(first: Interval, second: Interval) -> Interval:
    return Interval(min(first.low, second.low), max(first.high, second.high))


def _combine(expr: Expr, a: Interval, b: Interval) -> Interval:
    if isinstance(expr, tirx.Add):
        return Interval(a.low + b.low, a.high + b.high)
    if isinstance(expr, tirx.Sub):
        return Interval(a.low - b.high, a.high - b.low)
    if isinstance(expr, tirx.Min):
        return Interval(min(a.low, b.low), min(a.high, b.high))
    if isinstance(expr, tirx.Max):
        return Interval(max(a.low, b.low), max(a.high, b.high))
    corners = [x * y for x in a for y in b]
    if any(math.isnan(corner) or math.isinf(corner) for corner in corners):
        return _ANYTHING
    return Interval(min(corners), max(corners))
