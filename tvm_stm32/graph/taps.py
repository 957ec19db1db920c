"""What a ``q.conv2d`` and a ``q.dense`` have in common: sums over taps and input channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from . import dialect
from .ssa import constant, shape_of


@dataclass(frozen=True)
class Linear:
    """The sums of one operator: ``weight`` [O, taps, I] and ``bias`` [O], int64.

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
        weight.reshape(channels, -1, group_in).astype(np.int64),
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
    ends = [(end - linear.zero_point)[linear.sources][:, None, :] for end in (low, high)]
    products = linear.weight * ends[0], linear.weight * ends[1]
    smallest, largest = np.minimum(*products), np.maximum(*products)
    border, nowhere = (~linear.inside)[:, None], linear.outside[:, None]
    smallest = np.where(nowhere, 0, np.where(border, np.minimum(smallest, 0), smallest))
    largest = np.where(nowhere, 0, np.where(border, np.maximum(largest, 0), largest))
    return linear.bias + smallest.sum(axis=(1, 2)), linear.bias + largest.sum(axis=(1, 2))
