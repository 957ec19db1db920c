"""Strides, padding and layouts of a convolution; one over a row is one over an image of height 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from . import dialect
from .ssa import shape_of

CONVOLUTIONS = ("relax.nn.conv2d", "relax.nn.conv1d")


@dataclass(frozen=True)
class Geometry:
    """A two-dimensional convolution. ``row`` is where a one-dimensional one got its height of 1 (data, kernel)."""

    data_layout: str
    kernel_layout: str
    strides: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int
    row: tuple[int, int] | None = None

    def data(self, codes: relax.Expr) -> relax.Expr:
        """The operand with a height."""
        if self.row is None:
            return codes
        shape = list(shape_of(codes))
        shape.insert(self.row[0], 1)
        return relax.op.reshape(codes, shape)

    def kernel(self, array: np.ndarray) -> np.ndarray:
        """Weights, or what has their shape, with a height."""
        return array if self.row is None else np.expand_dims(array, self.row[1])


def geometry(call: relax.Call) -> Geometry | None:
    """The geometry of a call of :data:`CONVOLUTIONS` over NHWC or NCHW data, None for other layouts."""
    attrs = call.attrs
    strides, padding, dilation = ([int(n) for n in values] for values in (attrs.strides, attrs.padding, attrs.dilation))
    data_layout, kernel_layout = str(attrs.data_layout), str(attrs.kernel_layout)
    row = None
    if dialect.name_of(call) == "relax.nn.conv1d":
        row = data_layout.index("W"), kernel_layout.index("W")
        data_layout, kernel_layout = (layout.replace("W", "HW") for layout in (data_layout, kernel_layout))
        strides, padding, dilation = [1, *strides], [0, padding[0], 0, padding[-1]], [1, *dilation]
    if data_layout not in ("NHWC", "NCHW") or sorted(kernel_layout) != list("HIOW"):
        return None
    return Geometry(data_layout, kernel_layout, strides, padding, dilation, int(attrs.groups), row)
