"""Operators on two tensors of codes, each with its own scale, and sums of several (spec 2.4, 2.5)."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from ..graph import dialect, fixed_point, operators
from ..numerics import quantize_multiplier, tables
from .tflite_site import Operand, Rule, Site

op = relax.op

_HEADROOM = {"int8": 20, "int16": 15}
_ADDITIVE = {"ADD": ("q.add", "Add"), "SUB": ("q.sub", "Sub")}


def _sides(site: Site) -> tuple[Operand, Operand]:
    left, right = site.data(0), site.data(1)
    site.require_quantized(left, right, site.output)
    if left.dtype != right.dtype:
        raise site.refused(f"its inputs have types {left.dtype} and {right.dtype}")
    return left, right


def _common(site: Site, left: Operand, right: Operand, activation: int) -> dict[str, int | str]:
    low, high = site.clamp(activation)
    return {
        "lhs_zero_point": left.zero_point,
        "rhs_zero_point": right.zero_point,
        "output_zero_point": site.output.zero_point,
        "clamp_min": low,
        "clamp_max": max(low, high),
        "rounding": "tflm",
    }


def _additive(site: Site) -> relax.Expr:
    left, right = _sides(site)
    name, table = _ADDITIVE[site.code]
    out, bits = site.output, _HEADROOM[left.dtype]
    twice = 2.0 * max(left.scale, right.scale)
    ratio = twice / ((1 << bits) * out.scale)
    if ratio >= 1.0:
        raise site.refused(
            f"its output scale {out.scale:g} is less than 2**-{bits - 1} of its largest input scale",
            "quantize the model again, with representative data",
        )
    (lhs_m, lhs_s), (rhs_m, rhs_s), (out_m, out_s) = (
        quantize_multiplier(real) for real in (left.scale / twice, right.scale / twice, ratio)
    )
    return dialect.call(
        name,
        [left.codes, right.codes],
        out.shape,
        out.dtype,
        left_shift=bits,
        lhs_multiplier=lhs_m,
        lhs_shift=lhs_s,
        rhs_multiplier=rhs_m,
        rhs_shift=rhs_s,
        multiplier=out_m,
        shift=out_s,
        **_common(site, left, right, site.options(table).FusedActivationFunction()),
    )


def _product(site: Site) -> relax.Expr:
    left, right = _sides(site)
    multiplier, shift = quantize_multiplier(left.scale * right.scale / site.output.scale)
    return dialect.call(
        "q.mul",
        [left.codes, right.codes],
        site.output.shape,
        site.output.dtype,
        multiplier=multiplier,
        shift=shift,
        **_common(site, left, right, site.options("Mul").FusedActivationFunction()),
    )


# Fewest places a quotient of codes moves to the right, whatever the divisor: the headroom of 9 bits.
_LEAST_HEADROOM = 23


def _quotient(site: Site) -> relax.Expr:
    """Reciprocals of all 256 divisors are known now; the divisor 0, which TFLM leaves undefined, counts as 1."""
    left, right = _sides(site)
    multiplier, shift = quantize_multiplier(left.scale / (right.scale * site.output.scale))
    if shift > _LEAST_HEADROOM:
        raise site.refused(f"its output scale {site.output.scale:g} is too small for quotients of its inputs")
    inverses, exponents = tables.reciprocals(right.zero_point)
    return dialect.call(
        "q.div",
        [left.codes, right.codes, operators.const(inverses, "int32"), operators.const(exponents, "int8")],
        site.output.shape,
        site.output.dtype,
        multiplier=multiplier,
        shift=shift,
        **_common(site, left, right, site.options("Div").FusedActivationFunction()),
    )


def _scaled(site: Site, operand: Operand, bits: int, real: float) -> relax.Expr:
    """An operand's codes, ``bits`` to the left, times ``real``."""
    steps = site.math.offset(operand.codes, operand.zero_point)
    shifted = site.emit(op.multiply(steps, relax.const(1 << bits, "int32"))) if bits else steps
    return site.math.multiply(shifted, *quantize_multiplier(real))


def _squared_difference(site: Site) -> relax.Expr:
    left, right = _sides(site)
    out, bits = site.output, 7 if left.dtype == "int8" else 0
    twice = 2.0 * max(left.scale, right.scale)
    first, second = (_scaled(site, side, bits, side.scale / twice) for side in (left, right))
    difference = site.math.cast(op.subtract(first, second), "int64")
    square = site.math.cast(op.multiply(difference, difference), "int32")
    result = site.math.multiply(square, *quantize_multiplier(twice * twice / ((1 << 2 * bits) * out.scale)))
    return site.math.finish(result, out.zero_point, *out.limits, out.dtype)


def _extremum(operator: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Callable[[Site], relax.Expr]:
    def convert(site: Site) -> relax.Expr:
        return operator(site.data(0).codes, site.data(1).codes)

    return convert


def _comparison(operator: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Callable[[Site], relax.Expr]:
    def convert(site: Site) -> relax.Expr:
        left, right = site.data(0), site.data(1)
        site.require_quantized(left, right)
        if max(left.scale, right.scale) >= 1.0:
            raise site.refused("an input scale is 1 or more, where the reference kernel stops")
        return operator(*(_scaled(site, side, 8, side.scale) for side in (left, right)))

    return convert


def _sum_of_all(site: Site) -> relax.Expr:
    """ADD_N: int32 sums of codes times 2**19; TFLM starts at -zero point, not at 0."""
    out = site.output
    parts = [site.data(position) for position in range(len(site.inputs))]
    site.require_quantized(out, *parts)
    first = parts[0]
    if not all(part.same_quantization(first) for part in parts):
        raise site.refused("its inputs are quantized differently, which the reference kernel refuses")
    total = site.math.offset(first.codes, 2 * first.zero_point, "int64")
    for part in parts[1:]:
        total = site.emit(op.add(total, site.math.offset(part.codes, part.zero_point, "int64")))
    scaled = site.math.cast(op.multiply(total, fixed_point.const(1 << 19, "int64")), "int32")
    real = 2.0 * first.scale / ((1 << 20) * out.scale)
    return site.math.finish(
        site.math.multiply(scaled, *quantize_multiplier(real)), out.zero_point, *out.limits, out.dtype
    )


_BOTH = {"int8": "kernel", "int16": "kernel"}

RULES = {
    "ADD": Rule(_additive, _BOTH),
    "SUB": Rule(_additive, _BOTH),
    "MUL": Rule(_product, _BOTH),
    "DIV": Rule(
        _quotient,
        {"int8": "kernel"},
        remark="quotients that tflite-micro shifts by more than 31 bits, which C++ leaves undefined, are 0",
    ),
    "SQUARED_DIFFERENCE": Rule(_squared_difference, {"int8": "TIR", "int16": "TIR"}),
    "MAXIMUM": Rule(_extremum(op.maximum), {"int8": "TIR", "int16": "TIR"}),
    "MINIMUM": Rule(_extremum(op.minimum), {"int8": "TIR", "int16": "TIR"}),
    "EQUAL": Rule(_comparison(op.equal), {"int8": "TIR"}),
    "NOT_EQUAL": Rule(_comparison(op.not_equal), {"int8": "TIR"}),
    "GREATER": Rule(_comparison(op.greater), {"int8": "TIR"}, remark="tflite-micro answers no to all int16"),
    "GREATER_EQUAL": Rule(_comparison(op.greater_equal), {"int8": "TIR"}),
    "LESS": Rule(_comparison(op.less), {"int8": "TIR"}),
    "LESS_EQUAL": Rule(_comparison(op.less_equal), {"int8": "TIR"}),
    "ADD_N": Rule(_sum_of_all, {"int8": "TIR"}),
}
