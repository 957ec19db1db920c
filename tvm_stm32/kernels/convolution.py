"""int8 convolution: a tiled matrix product, or depthwise when every group has one input channel."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, shape_of
from .context import KernelContext
from .convolution_block import lower_convolution_block
from .depthwise import lower_depthwise
from .linear import LinearKernel, add_linear_call, form_of
from .scalar_block import has_scalar_blocks, lower_triples
from .stage import OutputStage, output_stage
from .window import detail_text, geometry_of, removed_text


def lower_conv2d(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.conv2d``: depthwise when every group has one input channel, else a tiled matrix product a group."""
    attrs = dialect.attributes(call)
    weight, bias = constant(call.args[1]), constant(call.args[2])
    assert weight is not None and bias is not None
    groups, channels_in = int(attrs["groups"]), shape_of(call.args[0])[3]
    stage, weight = output_stage(call, weight, bias)
    form = form_of(ctx)
    if groups == channels_in and groups > 1:
        lower_depthwise(ctx, call, node, data, output, weight, stage)
    elif form == "scalar":
        if not has_scalar_blocks(ctx) or not lower_triples(ctx, call, node, data, output, weight, stage):
            _lower_scalar(ctx, call, node, data, output, weight, stage)
    else:
        lower_convolution_block(ctx, call, node, data, output, weight, stage, form)
    ctx.library.calls[-1].detail += removed_text(call)


def _lower_scalar(
    ctx: KernelContext, call: relax.Call, node: str, data: str, output: str, weight: np.ndarray, stage: OutputStage
) -> None:
    geometry = geometry_of(call, weight)
    groups = int(dialect.attributes(call)["groups"])
    group_in, group_out = weight.shape[3], weight.shape[0] // groups
    # A run of codes that lies contiguously in the input: a kernel row, unless dilation or groups break it up.
    contiguous = groups == 1 and geometry["dilation_w"] == 1
    run = weight.shape[2] * group_in if contiguous else group_in
    depth = weight.shape[1] * weight.shape[2] * group_in
    total = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
    source = ctx.render(
        "conv2d.c.j2",
        **geometry,
        groups=groups,
        group_in=group_in,
        group_out=group_out,
        run=run,
        contiguous=contiguous,
        depth=depth,
        pixels=2,
        total_pixels=total,
        **stage.values,
    )
    shape = f"{weight.shape[1]}x{weight.shape[2]}_{group_in}_{weight.shape[0]}"
    chosen = LinearKernel(f"conv2d_{shape}", source, weight.reshape(-1), stage, 4 * depth)
    detail = detail_text(geometry, weight, groups, "scalar")
    add_linear_call(ctx, "conv2d", node, data, output, chosen, total * weight.shape[0] * depth, detail)
