"""Average pools and means over int8 codes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax

from .. import numerics
from ..model import Numerics
from . import dialect, operators
from .activation import activation_bounds
from .elementwise import RealFunction
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


def mean_of_function(
    function: RealFunction,
    axes: list[int],
    shape: Sequence[int],
    output: Requantization,
    scale: float,
    emit: Callable[[relax.Expr], relax.Expr],
) -> relax.Expr | None:
    """The mean over ``axes`` of a function of int8 codes, as codes of ``scale``, in plain integer operators.

    Each code stands for its share of the mean in fixed point, so the sum needs a shift and no multiplication. Of
    ``output`` zero point and clamp count. None when rounding the shares could be seen.
    """
    op = relax.op
    codes = function.data.data
    count = math.prod(shape_of(codes)[axis] for axis in axes)
    largest = max(1.0, float(np.abs(function.values).max()) / scale)
    bits = 29 - math.ceil(math.log2(largest))
    if bits < 16 or count > 1 << (bits - 8):
        return None
    shares = operators.const(np.rint(function.values / (scale * count) * 2.0**bits), "int32")
    index = emit(op.add(emit(op.astype(codes, "int32")), relax.const(128, "int32")))
    total = emit(op.sum(emit(op.take(shares, index, 0, "clip")), axes))
    rounded = emit(op.add(total, relax.const(1 << (bits - 1), "int32")))
    real = emit(op.right_shift(rounded, relax.const(bits, "int32")))
    moved = emit(op.add(real, relax.const(output.zero_point, "int32")))
    limited = emit(op.clip(moved, output.clamp_min, output.clamp_max))
    return op.reshape(emit(op.astype(limited, "int8")), shape)


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
