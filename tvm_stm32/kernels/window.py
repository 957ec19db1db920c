"""The sliding window of a convolution: template values and the words of the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import shape_of
from .stage import OutputStage


@dataclass(frozen=True)
class Site:
    """A convolution to be lowered: node, input and output tensor, folded weights (OHWI), output stage, window."""

    names: tuple[str, str, str]
    weight: np.ndarray
    stage: OutputStage
    geometry: dict[str, Any]


def geometry_of(call: relax.Call, weight: np.ndarray) -> dict[str, Any]:
    """Extents, strides, dilation and padding of a ``q.conv2d`` or ``f.conv2d`` as template values."""
    attrs = dialect.attributes(call)
    batch, height, width, channels_in = shape_of(call.args[0])
    _, out_h, out_w, channels = shape_of(call)
    top, left, bottom, right = attrs["padding"]
    return {
        "batch": batch,
        "height": height,
        "width": width,
        "channels_in": channels_in,
        "out_h": out_h,
        "out_w": out_w,
        "channels": channels,
        "kernel_h": weight.shape[1],
        "kernel_w": weight.shape[2],
        "stride_h": attrs["strides"][0],
        "stride_w": attrs["strides"][1],
        "dilation_h": attrs["dilation"][0],
        "dilation_w": attrs["dilation"][1],
        "pad_top": top,
        "pad_left": left,
        "padded": any((top, left, bottom, right)),
        "input_zero_point": attrs.get("input_zero_point", 0),
    }


def removed_text(call: relax.Call) -> str:
    """How many channels a call has left of those in the model; nothing when it has all."""
    had = dialect.attributes(call).get("source_channels")
    if had is None:
        return ""
    now = shape_of(call.args[0])[-1], shape_of(call)[-1]
    return f", {now[0]} of {had[0]} channels in, {now[1]} of {had[1]} out"


def detail_text(geometry: dict[str, Any], weight: np.ndarray, groups: int, form: str) -> str:
    """Kernel size, stride, groups and form for the report."""
    text = f"{weight.shape[1]}x{weight.shape[2]} stride {geometry['stride_h']}x{geometry['stride_w']}"
    return text + (f" groups {groups}" if groups > 1 else "") + f", {form}"
