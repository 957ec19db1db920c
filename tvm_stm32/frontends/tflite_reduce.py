"""Reductions over codes: MEAN, SUM, extrema, their positions, cumulative sums (spec 2.7)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tvm import relax

from ..graph import fixed_point
from ..graph.operators import Requantization
from ..graph.pooling import mean_call, tflm_mean
from ..numerics import quantize_multiplier
from .tflite_site import Operand, Rule, Site

op = relax.op


def _axes(site: Site) -> list[int]:
    rank = site.data(0).rank
    return sorted({axis % rank for axis in site.integers(1)})


def _requantization(site: Site, data: Operand) -> Requantization:
    multiplier, shift = quantize_multiplier(data.scale / site.output.scale)
    low, high = site.output.limits
    return Requantization(
        np.array([multiplier], np.int32), np.array([shift], np.int32), site.output.zero_point, "tflm", low, high
    )


def _mean(site: Site) -> relax.Expr:
    data, axes = site.data(0), _axes(site)
    site.require_quantized(data, site.output)
    count = math.prod(data.shape[axis] for axis in axes)
    requantization = tflm_mean(_requantization(site, data), count)
    if data.dtype == "int8" and data.rank == 4 and axes == [1, 2]:
        batch, height, width, channels = data.shape
        shape = (batch, 1, 1, channels)
        pooled = mean_call(data.codes, [height, width], [1, 1], shape, data.zero_point, requantization)
        return site.shaped(pooled)
    return _summed(site, axes, count, requantization)


def _sum(site: Site) -> relax.Expr:
    data, axes = site.data(0), _axes(site)
    site.require_quantized(data, site.output)
    count = math.prod(data.shape[axis] for axis in axes)
    return _summed(site, axes, count, _requantization(site, data))


def _summed(site: Site, axes: list[int], count: int, requantization: Requantization) -> relax.Expr:
    data = site.data(0)
    total = op.sum(site.math.cast(data.codes, "int32"), axes) if axes else site.math.cast(data.codes, "int32")
    real = site.math.offset(site.emit(total), data.zero_point * count)
    scaled = site.math.multiply(real, int(requantization.multiplier[0]), int(requantization.shift[0]))
    out = site.output
    codes = site.math.finish(scaled, out.zero_point, *out.limits, out.dtype)
    return site.shaped(codes)


def _extremum(operator: Callable[..., relax.Expr]) -> Callable[[Site], relax.Expr]:
    def convert(site: Site) -> relax.Expr:
        data = site.data(0)
        if not data.same_quantization(site.output):
            raise site.refused("its input and its output are quantized differently, which the reference kernel refuses")
        return site.shaped(operator(data.codes, _axes(site)))

    return convert


def _position(operator: Callable[..., relax.Expr]) -> Callable[[Site], relax.Expr]:
    def convert(site: Site) -> relax.Expr:
        axis = site.integers(1)[0] % site.data(0).rank
        found = site.emit(operator(site.data(0).codes, axis))
        return site.shaped(site.math.cast(found, site.output.dtype))

    return convert


def _cumulative_sum(site: Site) -> relax.Expr:
    """int32 sums of codes times 2**19, wrapping; TFLM starts each line at -zero point, not at 0."""
    options, data, out = site.options("Cumsum"), site.data(0), site.output
    site.require_quantized(data, out)
    axis = site.integers(1)[0] % data.rank
    steps = site.math.offset(data.codes, data.zero_point, "int64")
    if options.Reverse():
        steps = site.emit(op.flip(steps, axis))
    sums = site.emit(op.cumsum(site.emit(steps), axis, "int64", bool(options.Exclusive())))
    started = op.subtract(sums, fixed_point.const(data.zero_point, "int64"))
    scaled = site.emit(op.multiply(started, fixed_point.const(1 << 19, "int64")))
    real = 2.0 * data.scale / ((1 << 20) * out.scale)
    result = site.math.multiply(site.math.cast(scaled, "int32"), *quantize_multiplier(real))
    codes = site.math.finish(result, out.zero_point, *out.limits, out.dtype)
    return op.flip(site.emit(codes), axis) if options.Reverse() else codes


RULES = {
    "MEAN": Rule(_mean, {"int8": "TIR", "int16": "TIR"}, remark="height and width of int8 NHWC: a kernel"),
    "SUM": Rule(_sum, {"int8": "TIR", "int16": "TIR"}),
    "REDUCE_MAX": Rule(_extremum(op.max), {"int8": "TIR"}),
    "REDUCE_MIN": Rule(_extremum(op.min), {"int8": "TIR"}),
    "ARG_MAX": Rule(_position(op.argmax), {"int8": "TIR"}),
    "ARG_MIN": Rule(_position(op.argmin), {"int8": "TIR"}),
    "CUMSUM": Rule(_cumulative_sum, {"int8": "TIR"}),
}
