"""Softmax over int8 codes without a float operation on the target."""

from __future__ import annotations

import numpy as np
from tvm import relax

from .. import numerics
from ..errors import ModelError
from . import dialect, operators
from .affine import Quantized
from .ssa import shape_of


def real_softmax(call: relax.Call, data: Quantized, scale: float, zero_point: int) -> relax.Call:
    """Softmax that rounds the real result: exponentials as Q31 constants, the quotient in integers.

    exp(scale * -difference) has 256 values, so no float is left; the result equals rounding the exact softmax except
    within about 2**-28 of a tie.
    """
    exponentials = np.exp(-data.scale * np.arange(256, dtype=np.float64))
    table = np.minimum(np.floor(exponentials * 2.0**31 + 0.5), 2.0**31 - 1)
    length = shape_of(call)[-1]
    # out = round(e * (1 / scale) / sum): 1 / scale as a fixed-point factor that keeps both sides inside 63 bits.
    room = min(30 - int(np.ceil(np.log2(1.0 / scale))), 30 - int(np.ceil(np.log2(length))))
    if room < 0:
        raise ModelError(
            f"the output scale of a softmax is {scale:g}",
            why=f"1 / scale for {length} elements does not fit the fixed-point quotient",
            hint="quantize the model again, with representative data",
        )
    factor_bits = room
    factor = numerics.round_half_away((1.0 / scale) * (1 << factor_bits))
    while factor_bits > 0 and factor % 2 == 0:
        factor, factor_bits = factor // 2, factor_bits - 1
    return softmax_call(call, data.data, table, "real", factor, factor_bits, zero_point)


def softmax_call(
    call: relax.Call, data: relax.Expr, table: np.ndarray, mode: str, factor: int, factor_bits: int, zero_point: int
) -> relax.Call:
    """``q.softmax``(data, table of exponentials); ``mode`` is ``tflm`` or ``real``."""
    return dialect.call(
        "q.softmax",
        [data, operators.const(table, "int32")],
        shape_of(call),
        "int8",
        mode=mode,
        factor=factor,
        factor_bits=factor_bits,
        output_zero_point=zero_point,
    )
