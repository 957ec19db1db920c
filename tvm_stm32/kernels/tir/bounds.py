"""Value ranges of integer and float expressions, to decide how wide index arithmetic must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tvm import ir, sym, tirx

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


def fits_int32(expr: Expr, analyzer: sym.Analyzer) -> bool:
    """Whether every value of an expression is an int32."""
    found = interval(expr, analyzer)
    return found.low >= _INT32_MIN and found.high <= _INT32_MAX


def interval(expr: Expr, analyzer: sym.Analyzer) -> Interval:
    """Range of an expression: TVM's bound of integers, plus arithmetic through float coordinates (resize)."""
    if str(expr.ty.dtype).startswith(("int", "uint")) and not isinstance(expr, ir.Constant):
        bound = analyzer.const_int_bound(expr)
        if _INT32_MIN <= int(bound.min_value) and int(bound.max_value) <= _INT32_MAX:
            return Interval(int(bound.min_value), int(bound.max_value))
    if isinstance(expr, tirx.IntImm | tirx.FloatImm):
        return Interval(expr.value, expr.value)
    if isinstance(expr, tirx.Cast):
        return interval(expr.value, analyzer) if str(expr.value.ty.dtype) != "bool" else Interval(0, 1)
    if isinstance(expr, tirx.Select):
        return _union(interval(expr.true_value, analyzer), interval(expr.false_value, analyzer))
    if isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op):
        return _call(expr, analyzer)
    if isinstance(expr, tirx.Add | tirx.Sub | tirx.Mul | tirx.Min | tirx.Max):
        return _combine(expr, interval(expr.a, analyzer), interval(expr.b, analyzer))
    return _ANYTHING


def _call(expr: ir.Call, analyzer: sym.Analyzer) -> Interval:
    name = str(expr.op.name).rpartition(".")[2]
    if name == "if_then_else":
        return _union(interval(expr.args[1], analyzer), interval(expr.args[2], analyzer))
    if name in _MONOTONE:
        low, high = interval(expr.args[0], analyzer)
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
