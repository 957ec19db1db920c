"""Pools and bilinear resizing of codes (spec 2.6, 2.12)."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect
from .tflite_linear import window_padding
from .tflite_site import Rule, Site

op = relax.op


def _pool(site: Site) -> relax.Expr:
    options, data, out = site.options("Pool2D"), site.data(0), site.output
    site.require_quantized(data, out)
    if abs(data.scale - out.scale) > 1e-6 or data.zero_point != out.zero_point:
        raise site.refused("its input and its output are quantized differently, which the reference kernel refuses")
    pool, strides = [options.FilterHeight(), options.FilterWidth()], [options.StrideH(), options.StrideW()]
    low, high = site.clamp(options.FusedActivationFunction())
    average = site.code == "AVERAGE_POOL_2D"
    return dialect.call(
        "q.avg_pool2d" if average else "q.max_pool2d",
        [data.codes],
        out.shape,
        out.dtype,
        pool=pool,
        strides=strides,
        padding=window_padding(options.Padding(), data.shape[1:3], out.shape[1:3], pool, strides, [1, 1]),
        clamp_min=low,
        clamp_max=max(low, high),
        **({"mode": "upward" if site.unsigned else "tflm"} if average else {}),
    )


def _resize_bilinear(site: Site) -> relax.Expr:
    """Weights of 10 bits on each axis: indices and weights are constants, the sum of four corners fits an int32."""
    options, data, out = site.options("ResizeBilinear"), site.data(0), site.output
    align, half = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    if align and half:
        raise site.refused("it has both aligned corners and half-pixel centres")
    rows = _interpolated(site, site.math.cast(data.codes, "int32"), 1, align, half)
    total = _interpolated(site, rows, 2, align, half)
    # Half away from zero: the sum plus or minus half, truncated.
    positive = op.greater(total, relax.const(0, "int32"))
    bias = op.where(positive, relax.const(1 << 19, "int32"), relax.const((1 << 19) - 1, "int32"))
    moved = site.emit(op.right_shift(site.emit(op.add(total, site.emit(bias))), relax.const(20, "int32")))
    return site.shaped(site.math.cast(moved, out.dtype))


def _interpolated(site: Site, expr: relax.Expr, axis: int, align: bool, half: bool) -> relax.Expr:
    extent, target = site.data(0).shape[axis], site.output.shape[axis]
    low, high, fraction = _places(extent, target, align, half)
    shape = [1, 1, 1, 1]
    shape[axis] = target
    corners = []
    for indices, weights in ((low, 1024 - fraction), (high, fraction)):
        taken = site.emit(op.take(site.emit(expr), relax.const(indices), axis, mode="fast"))
        corners.append(site.emit(op.multiply(taken, relax.const(weights.reshape(shape)))))
    return site.emit(op.add(corners[0], corners[1]))


def _places(extent: int, target: int, align: bool, half: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``(lower index, upper index, weight of the upper in 1/1024)`` of each target index."""
    if align and target > 1:
        scale = (1024 * (extent - 1) + (target - 1) // 2) // (target - 1)
    else:
        scale = (1024 * extent + target // 2) // target
    places = np.arange(target, dtype=np.int64) * scale + (scale // 2 - 512 if half else 0)
    low = np.maximum(np.trunc(places / 1024).astype(np.int64), 0)
    high = np.minimum(np.trunc((places + 1023) / 1024).astype(np.int64), extent - 1)
    low = np.minimum(low, extent - 1)
    return low.astype(np.int32), high.astype(np.int32), (places - 1024 * low).astype(np.int32)


RULES = {
    "AVERAGE_POOL_2D": Rule(_pool, {"int8": "kernel", "int16": "kernel"}),
    "MAX_POOL_2D": Rule(_pool, {"int8": "kernel", "int16": "kernel"}),
    "RESIZE_BILINEAR": Rule(_resize_bilinear, {"int8": "TIR"}),
}
