"""int8 depthwise convolution."""

from __future__ import annotations

import numpy as np
from tvm import relax

from .context import KernelContext
from .linear import LinearKernel, add_linear_call, form_of
from .stage import dsp_stage, mve_depthwise_stage, output_stage
from .window import detail_text, geometry_of, removed_text


def lower_depthwise(
    ctx: KernelContext,
    call: relax.Call,
    node: str,
    data: str,
    output: str,
    weight: np.ndarray,
    bias: np.ndarray,
) -> None:
    """``q.conv2d`` whose groups have one input channel each; border pixels go through a gathered patch."""
    geometry = geometry_of(call, weight)
    stage, weight = output_stage(call, weight, bias)
    multiplier = weight.shape[0] // geometry["channels_in"]
    channels = weight.shape[0]
    form = "scalar"
    if multiplier == 1 and channels % 4 == 0:
        form = form_of(ctx, stage)
    if form == "mve" and (channels % 8 or weight.min() == -128):
        form = "dsp"
    weights = np.ascontiguousarray(weight[..., 0].transpose(1, 2, 0))  # taps by channels
    workspace = 0
    if form == "mve":
        stage = mve_depthwise_stage(stage, weight, geometry["input_zero_point"])
        workspace = 16 * weight.shape[1] * weight.shape[2] if geometry["padded"] else 0
    elif form == "dsp":
        stage = dsp_stage(stage)
        workspace = weights.size if geometry["padded"] else 0
    source = ctx.render("depthwise.c.j2", **geometry, multiplier=multiplier, form=form, **stage.values)
    stem = f"depthwise_{weight.shape[1]}x{weight.shape[2]}_{channels}"
    chosen = LinearKernel(stem, source, form, weights, stage, workspace, "int8_t")
    macs = geometry["batch"] * geometry["out_h"] * geometry["out_w"] * weights.size
    detail = detail_text(geometry, weight, 1, form) + removed_text(call)
    add_linear_call(ctx, "depthwise_conv2d", node, data, output, chosen, macs, detail)
