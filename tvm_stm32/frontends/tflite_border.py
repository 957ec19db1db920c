"""QUANTIZE and DEQUANTIZE: between floats and codes, and between quantizations (spec 2.11)."""

from __future__ import annotations

from tvm import relax

from ..graph import dialect
from ..numerics import tables
from .tflite_site import Operand, Rule, Site
from .tflite_unary import requantized, table


def _quantize(site: Site) -> relax.Expr:
    data, out = site.data(0), site.output
    site.require_quantized(out)
    if data.dtype == "float32":
        return _from_float(site, data, out)
    site.require_quantized(data)
    if (data.dtype, out.dtype) == ("int8", "int8"):
        entries = tables.requantize((data.scale, out.scale), (data.zero_point, out.zero_point))
        return table(site, entries, "requantize")
    limits = (-(1 << 31), (1 << 31) - 1) if out.dtype == "int32" else out.limits
    return requantized(site, data, out, *limits)


def _from_float(site: Site, data: Operand, out: Operand) -> relax.Expr:
    if out.dtype not in ("int8", "int16"):
        raise site.refused(f"float32 to {out.dtype} has no reference kernel")
    return dialect.call(
        "q.quantize",
        [data.codes, relax.const(out.scale, "float32")],
        data.shape,
        out.dtype,
        zero_point=out.zero_point,
        clamp_min=out.limits[0],
        clamp_max=out.limits[1],
    )


def _dequantize(site: Site) -> relax.Expr:
    data = site.data(0)
    site.require_quantized(data)
    steps = site.math.cast(site.math.offset(data.codes, data.zero_point), "float32")
    return relax.op.multiply(steps, relax.const(data.scale, "float32"))


_INTEGERS = ("int8", "uint8", "int16", "int32")

RULES = {
    "QUANTIZE": Rule(
        _quantize,
        {"float32": "kernel", "int8": "table", "uint8": "TIR", "int16": "TIR", "int32": "TIR"},
        remark="floats beyond 2**20 steps saturate on their own side; x86 turns those beyond 2**31 into one code",
    ),
    "DEQUANTIZE": Rule(_dequantize, dict.fromkeys(_INTEGERS[:3], "float"), remark="one float32 multiply"),
}
