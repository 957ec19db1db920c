"""Operators along the last axis: SOFTMAX, LOG_SOFTMAX, L2_NORMALIZATION (spec 2.8, 2.10)."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect, operators
from ..numerics import (
    exponential_table,
    log_softmax_reverse,
    quantize_multiplier,
    reciprocal_table,
    softmax_exponentials,
    softmax_parameters,
)
from .tflite_site import Operand, Rule, Site


def _softmax(site: Site) -> relax.Expr:
    data, out = site.data(0), site.output
    site.require_quantized(data, out)
    beta = float(site.options("Softmax").Beta())
    if data.dtype == "int16":
        return _softmax16(site, data, out, beta)
    narrow = out.dtype == "int8"
    steps = 256.0 if narrow else 65536.0
    tolerance = 0.0 if narrow else 1e-3
    if out.zero_point != out.limits[0] or abs(out.scale * steps - 1.0) > tolerance:
        raise site.refused(
            f"its output has scale {out.scale:g} and zero point {out.zero_point}; "
            f"the reference kernel takes 1/{steps:.0f} and {out.limits[0]}"
        )
    table = softmax_exponentials(softmax_parameters(data.scale, beta))
    return dialect.call(
        "q.softmax" if narrow else "q.softmax8to16",
        [data.codes, operators.const(table, "int32")],
        data.shape,
        out.dtype,
        mode="tflm",
        factor=0,
        factor_bits=0,
        output_zero_point=out.zero_point,
    )


def _softmax16(site: Site, data: Operand, out: Operand, beta: float) -> relax.Expr:
    if out.dtype != "int16" or data.zero_point or out.zero_point or abs(out.scale * 32768.0 - 1.0) > 1e-3:
        raise site.refused("on int16 both zero points are 0 and the output scale is 2**-15")
    multiplier, shift = quantize_multiplier(data.scale * beta / (10.0 / 65535.0))
    tables = np.concatenate([exponential_table(), reciprocal_table()])
    return dialect.call(
        "q.softmax16",
        [data.codes, operators.const(tables, "int16")],
        data.shape,
        "int16",
        multiplier=multiplier,
        shift=shift,
    )


def _log_softmax(site: Site) -> relax.Expr:
    data, out = site.data(0), site.output
    site.require_quantized(data, out)
    if out.scale != 1.0 / 16.0 or out.zero_point != 127:
        raise site.refused(f"its output has scale {out.scale:g} and zero point {out.zero_point}, not 1/16 and 127")
    parameters = softmax_parameters(data.scale)
    reverse_multiplier, reverse_shift = log_softmax_reverse(parameters)
    return dialect.call(
        "q.log_softmax",
        [data.codes, operators.const(softmax_exponentials(parameters), "int32")],
        data.shape,
        "int8",
        multiplier=parameters.multiplier,
        shift=parameters.shift,
        diff_min=parameters.diff_min,
        reverse_multiplier=reverse_multiplier,
        reverse_shift=reverse_shift,
    )


def _l2_normalization(site: Site) -> relax.Expr:
    data = site.data(0)
    site.require_quantized(data)
    return dialect.call("q.l2_normalize", [data.codes], data.shape, "int8", input_zero_point=data.zero_point)


RULES = {
    "SOFTMAX": Rule(_softmax, {"int8": "kernel", "int16": "kernel"}),
    "LOG_SOFTMAX": Rule(_log_softmax, {"int8": "kernel"}),
    "L2_NORMALIZATION": Rule(_l2_normalization, {"int8": "kernel"}),
}
