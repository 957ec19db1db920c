"""TFLite's unary operators: on int8 a table of 256 entries, computed as the reference kernels do (spec 2.9, 2.10)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from ..graph import dialect, operators
from ..numerics import quantize_multiplier, sigmoid_table, tables, wide_input_scaling
from .tflite_site import Operand, Rule, Site

Entries = Callable[[Site, Operand, Operand], np.ndarray]


def table(site: Site, entries: np.ndarray, label: str) -> relax.Expr:
    """A look-up of input 0; a table that only clamps becomes a clamp, which may join the operator before."""
    data = site.data(0)
    low, high = int(entries.min()), int(entries.max())
    if low < high and np.array_equal(entries, np.clip(tables.CODES, low, high)):
        return relax.op.clip(data.codes, low, high)
    return operators.table(data.codes, entries, label)


def _scales(data: Operand, out: Operand) -> tuple[tuple[float, float], tuple[int, int]]:
    return (data.scale, out.scale), (data.zero_point, out.zero_point)


def _tabled(label: str, entries: Entries) -> Callable[[Site], relax.Expr]:
    def convert(site: Site) -> relax.Expr:
        site.require_quantized(site.data(0), site.output)
        return table(site, entries(site, site.data(0), site.output), label)

    return convert


def _logistic(site: Site, data: Operand, out: Operand) -> np.ndarray:
    if out.zero_point != -128:
        raise site.refused(f"its output has zero point {out.zero_point}; the reference kernel takes -128 only")
    return tables.logistic_table(data.scale, data.zero_point)


def _relu(_site: Site, data: Operand, out: Operand) -> np.ndarray:
    return tables.requantize(*_scales(data, out), low=max(-128, out.zero_point))


def _leaky_relu(site: Site, data: Operand, out: Operand) -> np.ndarray:
    return tables.leaky_relu(*_scales(data, out), float(site.options("LeakyRelu").Alpha()))


def requantized(site: Site, data: Operand, out: Operand, low: int, high: int) -> relax.Expr:
    """Codes of one quantization in another, for any pair of integer types."""
    multiplier, shift = quantize_multiplier(data.scale / out.scale)
    scaled = site.math.multiply(site.math.offset(data.codes, data.zero_point), multiplier, shift)
    return site.math.finish(scaled, out.zero_point, low, high, out.dtype)


def _wide_relu(site: Site) -> relax.Expr:
    data, out = site.data(0), site.output
    site.require_quantized(data, out)
    return requantized(site, data, out, max(out.limits[0], out.zero_point), out.limits[1])


def _relu_any(site: Site) -> relax.Expr:
    return _wide_relu(site) if site.data(0).dtype == "int16" else _tabled("relu", _relu)(site)


def _two_slopes(
    site: Site, alpha: relax.Expr | None, slope: float, limits: tuple[int, int], out: Operand
) -> relax.Expr:
    """``x`` where it is not negative, else ``x`` (times ``alpha``) requantized with ``slope`` (codes to codes)."""
    data = site.data(0)
    difference = site.math.offset(data.codes, data.zero_point)
    positive = site.math.multiply(difference, *quantize_multiplier(data.scale / out.scale))
    below = difference if alpha is None else site.emit(relax.op.multiply(difference, alpha))
    negative = site.math.multiply(below, *quantize_multiplier(slope))
    condition = relax.op.greater_equal(difference, relax.const(0, "int32"))
    chosen = site.emit(relax.op.where(condition, positive, negative))
    return site.math.finish(chosen, out.zero_point, *limits, out.dtype)


def _leaky_relu_any(site: Site) -> relax.Expr:
    data, out = site.data(0), site.output
    if data.dtype == "int8":
        return _tabled("leaky_relu", _leaky_relu)(site)
    site.require_quantized(data, out)
    slope = data.scale * float(site.options("LeakyRelu").Alpha()) / out.scale
    return _two_slopes(site, None, slope, out.limits, out)


def _prelu(site: Site) -> relax.Expr:
    data, alpha, out = site.data(0), site.data(1), site.output
    site.require_quantized(data, alpha, out)
    if data.dtype == "int8" and alpha.value is not None and np.unique(alpha.value).size == 1:
        code = int(alpha.value.flat[0]) - alpha.zero_point
        return table(site, tables.prelu(*_scales(data, out), alpha.scale, code), "prelu")
    steps = site.math.offset(alpha.codes, alpha.zero_point)
    return _two_slopes(site, steps, data.scale * alpha.scale / out.scale, out.limits, out)


def _absolute_any(site: Site) -> relax.Expr:
    data, out = site.data(0), site.output
    if data.dtype == "int8":
        return _tabled("abs", lambda _site, x, y: tables.absolute(*_scales(x, y)))(site)
    site.require_quantized(data, out)
    magnitude = site.emit(relax.op.abs(site.math.offset(data.codes, data.zero_point)))
    if data.scale != out.scale:
        magnitude = site.math.multiply(magnitude, *quantize_multiplier(data.scale / out.scale))
    return site.math.finish(magnitude, out.zero_point, *out.limits, out.dtype)


def _sigmoid_like(tanh: bool) -> Callable[[Site], relax.Expr]:
    label = "tanh" if tanh else "logistic"
    entries: Entries = (lambda _site, x, _y: tables.tanh_table(x.scale, x.zero_point)) if tanh else _logistic

    def convert(site: Site) -> relax.Expr:
        data, out = site.data(0), site.output
        if data.dtype == "int8":
            return _tabled(label, entries)(site)
        site.require_quantized(data, out)
        if data.zero_point or out.zero_point or abs(np.log2(out.scale) + 15.0) > 1e-3:
            raise site.refused("on int16 both zero points are 0 and the output scale is 2**-15")
        multiplier, shift = wide_input_scaling(data.scale, tanh=tanh)
        return dialect.call(
            "q.sigmoid16",
            [data.codes, operators.const(sigmoid_table(), "uint16")],
            data.shape,
            "int16",
            tanh=tanh,
            multiplier=multiplier,
            shift=shift,
        )

    return convert


RULES = {
    "LOGISTIC": Rule(_sigmoid_like(False), {"int8": "table", "int16": "kernel"}),
    "TANH": Rule(_sigmoid_like(True), {"int8": "table", "int16": "kernel"}),
    "HARD_SWISH": Rule(_tabled("hard_swish", lambda _s, x, y: tables.hard_swish(*_scales(x, y))), {"int8": "table"}),
    "LEAKY_RELU": Rule(_leaky_relu_any, {"int8": "table", "int16": "TIR"}),
    "PRELU": Rule(_prelu, {"int8": "TIR", "int16": "TIR"}, remark="one slope for all channels on int8: a table"),
    "ELU": Rule(_tabled("elu", lambda _s, x, y: tables.elu(*_scales(x, y))), {"int8": "table"}),
    "ABS": Rule(_absolute_any, {"int8": "table", "int16": "TIR"}),
    "RSQRT": Rule(
        _tabled("rsqrt", lambda _s, x, y: tables.rsqrt(*_scales(x, y))),
        {"int8": "table"},
        remark="tflite-micro stops at a negative input; here it gives the largest code, as zero does",
    ),
    "RELU": Rule(_relu_any, {"int8": "table", "int16": "TIR"}),
    "RELU6": Rule(_tabled("relu6", lambda _s, x, _y: tables.relu6(x.scale, x.zero_point)), {"int8": "table"}),
}
