"""Loops for operators that TVM has none for, or only a packed function: sorting, scans, powers, resampling.

``relax.*`` entries serve every front end. ``te.*`` operators are made by front ends with :func:`dialect.call`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax, te, tirx, topi

from . import dialect

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def scan(function: Callable[..., te.Tensor]) -> Rule:
    """``relax.cumsum`` and ``relax.cumprod`` by one of TOPI's scans."""

    def rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        attrs = call.attrs
        axis = None if attrs.axis is None else int(attrs.axis)
        return builder.call_te(function, call.args[0], axis, str(call.ty.dtype), bool(attrs.exclusive))

    return rule


def _at(indices: tuple[Any, ...], axis: int, index: Any) -> tuple[Any, ...]:
    return (*indices[:axis], index, *indices[axis + 1 :])


def _order(data: te.Tensor, axis: int, count: int, descending: bool) -> te.Tensor:
    """Positions along ``axis`` of the first ``count`` elements in sorted order; equal ones keep their order.

    An element's rank is the number of elements that come before it: n * n comparisons, and no memory but the ranks.
    """
    extent = int(data.shape[axis])

    def rank(*at: Any) -> Any:
        other = te.reduce_axis((0, extent), "other")
        mine, theirs = data(*at), data(*_at(at, axis, other))
        ahead = theirs > mine if descending else theirs < mine
        before = tirx.any(ahead, tirx.all(theirs == mine, other < at[axis]))
        return te.sum(before.astype("int32"), axis=other)

    ranks = te.compute(data.shape, rank, "rank")
    shape = _at(tuple(data.shape), axis, count)

    def position(*at: Any) -> Any:
        other = te.reduce_axis((0, extent), "position")
        found = ranks(*_at(at, axis, other)) == at[axis].astype("int32")
        return te.sum(tirx.Select(found, other.astype("int32"), tirx.const(0, "int32")), axis=other)

    return te.compute(shape, position, "order")


def _sorted(data: te.Tensor, order: te.Tensor, axis: int) -> te.Tensor:
    return te.compute(order.shape, lambda *at: data(*_at(at, axis, order(*at))), "values")


def _top_k(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """``te.top_k``: the first elements in sorted order (``what`` is ``values``), or their positions (``indices``)."""
    attrs = dialect.attributes(call)
    axis, dtype = attrs["axis"], str(call.ty.dtype)

    def build(data: te.Tensor) -> te.Tensor:
        order = _order(data, axis, int(call.ty.shape[axis]), bool(attrs["largest"]))
        return _sorted(data, order, axis) if attrs["what"] == "values" else topi.cast(order, dtype)

    return builder.call_te(build, call.args[0])


def _sort(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    attrs = call.attrs

    def build(data: te.Tensor) -> te.Tensor:
        axis = int(attrs.axis) % len(data.shape)
        order = _order(data, axis, int(data.shape[axis]), bool(attrs.descending))
        if dialect.name_of(call) == "relax.argsort":
            return topi.cast(order, str(attrs.dtype))
        return _sorted(data, order, axis)

    return builder.call_te(build, call.args[0])


def _integer_power(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Integers to the power of integers, by squaring, modulo the width of the type. Negative exponents give 0."""
    shape = [int(extent) for extent in call.ty.shape]
    dtype = str(call.ty.dtype)
    width = int("".join(filter(str.isdigit, dtype)))
    wide = f"uint{max(width, 32)}"

    def build(base: te.Tensor, exponent: te.Tensor) -> te.Tensor:
        base, exponent = topi.broadcast_to(base, shape), topi.broadcast_to(exponent, shape)

        def element(*at: Any) -> Any:
            times = exponent(*at)
            square = base(*at).astype(wide)
            result = tirx.const(1, wide)
            for bit in range(max(1, min(width, 63).bit_length())):
                chosen = tirx.bitwise_and(times, tirx.const(1 << bit, times.ty.dtype)) != 0
                result = result * tirx.Select(chosen, square, tirx.const(1, wide))
                square = square * square
            return result.astype(dtype)

        return te.compute(shape, element, "power")

    return builder.call_te(build, *call.args)


def _bit_cast(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    dtype = str(call.ty.dtype)
    return builder.call_te(
        lambda data: te.compute(data.shape, lambda *at: tirx.reinterpret(dtype, data(*at)), "bits"), call.args[0]
    )


def _cast(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """``relax.astype``; between signed and unsigned integers the bits are kept.

    TVM's analysis takes every cast for one that keeps the value: 200 as int8 would be "between 0 and 127".
    """
    source, target = (np.dtype(str(expr.ty.dtype)) for expr in (call.args[0], call))
    if {source.kind, target.kind} != {"i", "u"} or (source.kind == "u" and target.itemsize > source.itemsize):
        return builder.call_te(topi.cast, call.args[0], target.name)
    width = 8 * max(source.itemsize, target.itemsize)
    bits = f"{'int' if target.kind == 'i' else 'uint'}{width}"

    def cast(data: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            wide = data(*at).astype(f"{'int' if source.kind == 'i' else 'uint'}{width}")
            return tirx.reinterpret(bits, wide).astype(target.name)

        return te.compute(data.shape, element, "cast")

    return builder.call_te(cast, call.args[0])


def _resample(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """``te.resample``(data, index [n, taps], weight [n, taps]): n weighted sums of elements along an axis."""
    axis = int(call.attrs["axis"])

    def build(data: te.Tensor, index: te.Tensor, weight: te.Tensor) -> te.Tensor:
        shape = _at(tuple(data.shape), axis, index.shape[0])

        def element(*at: Any) -> Any:
            tap = te.reduce_axis((0, index.shape[1]), "tap")
            value = data(*_at(at, axis, index(at[axis], tap)))
            return te.sum(value * weight(at[axis], tap), axis=tap)

        return te.compute(shape, element, "resample")

    return builder.call_te(build, *call.args)


def _float_mod(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Remainder with the sign of the divisor, as Python's ``%``."""
    shape = [int(extent) for extent in call.ty.shape]

    def build(left: te.Tensor, right: te.Tensor) -> te.Tensor:
        left, right = topi.broadcast_to(left, shape), topi.broadcast_to(right, shape)

        def element(*at: Any) -> Any:
            rest = tirx.fmod(left(*at), right(*at))
            zero = tirx.const(0, rest.ty.dtype)
            crossed = tirx.all(rest != zero, (rest < zero).astype("int32") != (right(*at) < zero).astype("int32"))
            return tirx.Select(crossed, rest + right(*at), tirx.Select(rest == zero, zero * right(*at), rest))

        return te.compute(shape, element, "floor_mod")

    return builder.call_te(build, *call.args)


def _truncated_mod(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    shape = [int(extent) for extent in call.ty.shape]

    def build(left: te.Tensor, right: te.Tensor) -> te.Tensor:
        left, right = topi.broadcast_to(left, shape), topi.broadcast_to(right, shape)
        return te.compute(shape, lambda *at: tirx.fmod(left(*at), right(*at)), "fmod")

    return builder.call_te(build, *call.args)


RULES: dict[str, Rule] = {
    "relax.argsort": _sort,
    "relax.astype": _cast,
    "relax.cumprod": scan(topi.cumprod),
    "relax.cumsum": scan(topi.cumsum),
    "relax.sort": _sort,
    "te.bit_cast": _bit_cast,
    "te.float_mod": _float_mod,
    "te.integer_power": _integer_power,
    "te.resample": _resample,
    "te.top_k": _top_k,
    "te.truncated_mod": _truncated_mod,
}
