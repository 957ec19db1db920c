"""Average pools and means over int8 codes."""

from __future__ import annotations

import numpy as np
from tvm import relax

from .. import numerics
from ..model import Numerics
from . import dialect
from .activation import activation_bounds
from .operators import Requantization
from .ssa import Function, dtype_of, normalized, shape_of


def mean_call(
    data: relax.Expr,
    pool: list[int],
    strides: list[int],
    out_shape: tuple[int, ...],
    input_zero_point: int,
    requantization: Requantization,
) -> relax.Call:
    """``q.avg_pool2d`` whose sum, without the zero point, is requantized (no padding)."""
    return dialect.call(
        "q.avg_pool2d",
        [data],
        out_shape,
        "int8",
        pool=pool,
        strides=strides,
        padding=[0, 0, 0, 0],
        mode="requantize",
        input_zero_point=input_zero_point,
        multiplier=int(requantization.multiplier[0]),
        shift=int(requantization.shift[0]),
        **requantization.attributes(),
    )


def tflm_mean(requantization: Requantization, count: int) -> Requantization:
    """TFLM folds the division by the element count into the multiplier (spec of MEAN, reference kernels)."""
    multiplier, shift = int(requantization.multiplier[0]), int(requantization.shift[0])
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    return Requantization(
        np.array([(multiplier << bits) // count], np.int32),
        np.array([shift - bits], np.int32),
        requantization.zero_point,
        requantization.rounding,
        requantization.clamp_min,
        requantization.clamp_max,
    )


def integer_pool(view: Function, value: relax.Expr, reference: Numerics) -> relax.Call | None:
    """``q.avg_pool2d`` from the importers' cast(int32) -> avg_pool2d -> cast(int8).

    TFLM rounds half away from code zero; Relay's int32 pool truncates.
    """
    cast = view.match(value, "relax.astype") if dialect.name_of(value) == "relax.astype" else None
    if cast is None or dtype_of(value) != "int8":
        return None
    low, high, inner = numerics.INT8_MIN, numerics.INT8_MAX, cast.args[0]
    clip = view.match(inner, "relax.clip")
    if clip is not None:
        bounds = activation_bounds(clip)
        if bounds is None or bounds[1] is None:
            return None
        low, high, inner = max(low, int(bounds[0])), min(high, int(bounds[1])), clip.args[0]
    pool = view.match(inner, "relax.nn.avg_pool2d")
    if pool is None:
        return None
    wide = view.match(pool.args[0], "relax.astype")
    if wide is None or dtype_of(wide.args[0]) != "int8" or dtype_of(wide) != "int32":
        return None
    if str(pool.attrs.layout) != "NHWC" or bool(pool.attrs.count_include_pad):
        return None
    if any(int(d) != 1 for d in pool.attrs.dilation):
        return None
    return normalized(
        dialect.call(
            "q.avg_pool2d",
            [wide.args[0]],
            shape_of(pool),
            "int8",
            pool=[int(extent) for extent in pool.attrs.pool_size],
            strides=[int(stride) for stride in pool.attrs.strides],
            padding=[int(p) for p in pool.attrs.padding],
            mode="tflm" if reference == "tflm" else "truncate",
            clamp_min=low,
            clamp_max=high,
        )
    )
