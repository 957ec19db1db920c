"""What a ``q.conv2d`` and a ``q.dense`` have in common: sums over taps and input channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from ..numerics import MULTIPLY
from . import dialect
from .ssa import constant, shape_of

# Magnitudes below this meet no wrap-around on their way through a multiplier.
SAFE = 1 << 30
# Weights looked at together: a limit of memory.
_PRODUCTS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Linear:
    """The sums of one operator: ``weight`` [O, taps, I] in int8 and ``bias`` [O] in int64.

    ``sources`` [O, I] names the input channel of each weight. A tap is ``inside`` when no output position finds it in
    the padding, ``outside`` when every one does.
    """

    weight: np.ndarray
    bias: np.ndarray
    sources: np.ndarray
    inside: np.ndarray
    outside: np.ndarray
    zero_point: int
    groups: int

    @property
    def depthwise(self) -> bool:
        """Whether every group has one input channel (and there is more than one group)."""
        return self.groups > 1 and self.weight.shape[2] == 1


def linear_of(value: relax.Expr) -> Linear | None:
    """The sums of a ``q.conv2d`` or ``q.dense`` call, None for anything else."""
    name = dialect.name_of(value)
    if name not in ("q.conv2d", "q.dense"):
        return None
    weight, bias = constant(value.args[1]), constant(value.args[2])
    if weight is None or bias is None:
        return None
    attrs = dialect.attributes(value)
    groups = int(attrs.get("groups", 1))
    channels, group_in = weight.shape[0], weight.shape[-1]
    group = np.arange(channels) // (channels // groups)
    sources = group[:, None] * group_in + np.arange(group_in)
    inside, outside = _taps(value, weight.shape) if name == "q.conv2d" else (np.array([True]), np.array([False]))
    return Linear(
        weight.reshape(channels, -1, group_in),
        bias.astype(np.int64),
        sources,
        inside,
        outside,
        int(attrs["input_zero_point"]),
        groups,
    )


def _taps(value: relax.Call, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    attrs = dialect.attributes(value)
    out, data = shape_of(value), shape_of(value.args[0])
    sometimes, always = [], []
    for axis in (0, 1):
        places = np.arange(out[axis + 1]) * attrs["strides"][axis] - attrs["padding"][axis]
        rows = places[:, None] + np.arange(shape[axis + 1]) * attrs["dilation"][axis]
        beyond = (rows < 0) | (rows >= data[axis + 1])
        sometimes.append(beyond.any(axis=0))
        always.append(beyond.all(axis=0))
    return (
        ~(sometimes[0][:, None] | sometimes[1]).reshape(-1),
        (always[0][:, None] | always[1]).reshape(-1),
    )


def accumulator_range(linear: Linear, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest sum of each output channel, input channel c being between ``low[c]`` and ``high[c]``.

    A tap in the padding counts as the zero point.
    """
    rows = len(linear.bias)
    step = max(1, _PRODUCTS_AT_ONCE * rows // max(1, linear.weight.size))
    parts = [_sums(linear, slice(row, row + step), low, high) for row in range(0, rows, step)]
    smallest, largest = (np.concatenate(ends) for ends in zip(*parts, strict=True))
    return linear.bias + smallest, linear.bias + largest


def _sums(linear: Linear, rows: slice, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    weight = linear.weight[rows].astype(np.int64)
    ends = [(end - linear.zero_point)[linear.sources[rows]][:, None, :] for end in (low, high)]
    products = weight * ends[0], weight * ends[1]
    smallest, largest = np.minimum(*products), np.maximum(*products)
    smallest[:, ~linear.inside] = np.minimum(smallest[:, ~linear.inside], 0)
    largest[:, ~linear.inside] = np.maximum(largest[:, ~linear.inside], 0)
    smallest[:, linear.outside], largest[:, linear.outside] = 0, 0
    return smallest.sum(axis=(1, 2)), largest.sum(axis=(1, 2))


def linear_codes(value: relax.Call, linear: Linear, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest code of each output channel, input channel c being between ``low[c]`` and ``high[c]``.

    A known sum has a known code even where the reference's shift to the left wraps; a range must not meet that.
    """
    attrs = dialect.attributes(value)
    low, high = accumulator_range(linear, low, high)
    multiplier, shift = (np.asarray(constant(argument), np.int64) for argument in value.args[3:5])
    largest = np.maximum(np.abs(low), np.abs(high))
    safe = (largest < SAFE >> np.clip(shift, 0, 31)) & (shift <= 31)
    if attrs["rounding"] == "tflm":
        safe |= (low == high) & (largest < 1 << 31) & (shift <= 31)
    scaled = [MULTIPLY[attrs["rounding"]](np.where(safe, end, 0), multiplier, shift) for end in (low, high)]
    codes = [end + int(attrs["output_zero_point"]) for end in scaled]
    safe &= (np.abs(codes[0]) < 1 << 31) & (np.abs(codes[1]) < 1 << 31)
    limits = int(attrs["clamp_min"]), int(attrs["clamp_max"])
    return (
        np.where(safe, np.minimum(*codes).clip(*limits), limits[0]),
        np.where(safe, np.maximum(*codes).clip(*limits), limits[1]),
    )
