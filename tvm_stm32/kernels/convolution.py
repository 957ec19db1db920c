"""int8 convolution: a tiled matrix product, or depthwise when every group has one input channel."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, shape_of
from .context import KernelContext
from .depthwise import lower_depthwise
from .linear import LinearKernel, add_linear_call, form_of
from .packing import can_pack_lanes, dsp_order, pack_dsp, pack_mve
from .stage import OutputStage, dsp_stage, mve_stage, output_stage
from .window import detail_text, geometry_of, removed_text


def lower_conv2d(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.conv2d``: depthwise when every group has one input channel, else a tiled matrix product a group."""
    attrs = dialect.attributes(call)
    weight, bias = constant(call.args[1]), constant(call.args[2])
    assert weight is not None and bias is not None
    groups, channels_in = int(attrs["groups"]), shape_of(call.args[0])[3]
    if groups == channels_in and groups > 1:
        lower_depthwise(ctx, call, node, data, output, weight, bias)
    else:
        _lower_convolution(ctx, call, node, data, output, weight, bias)


def _form(ctx: KernelContext, stage: OutputStage, groups: int, group_out: int) -> str:
    """Form of a convolution; Helium tables come in fours, so groups must too."""
    form = form_of(ctx, stage)
    return "dsp" if form == "mve" and groups > 1 and group_out % 4 else form


def _lower_convolution(
    ctx: KernelContext,
    call: relax.Call,
    node: str,
    data: str,
    output: str,
    weight: np.ndarray,
    bias: np.ndarray,
) -> None:
    geometry = geometry_of(call, weight)
    groups = int(dialect.attributes(call)["groups"])
    group_in, group_out = weight.shape[3], weight.shape[0] // groups
    stage, weight = output_stage(call, weight, bias)
    form = _form(ctx, stage, groups, group_out)
    # A run of codes that lies contiguously in the input: a kernel row, unless dilation or groups break it up.
    contiguous = groups == 1 and geometry["dilation_w"] == 1
    run = weight.shape[2] * group_in if contiguous else group_in
    depth = weight.shape[1] * weight.shape[2] * group_in
    rows = weight.reshape(weight.shape[0], -1)
    interleave = form == "dsp" and group_in % 4 == 0
    packed = False
    if form == "dsp":
        order = [base + k for base in range(0, depth, run) for k in dsp_order(run, interleave)]
        rows = rows[:, order]
        row_length = depth + depth % 2
        rows = np.pad(rows, ((0, 0), (0, row_length - depth)))
        packed = all(
            can_pack_lanes(
                weight[g * group_out : (g + 1) * group_out], stage.params[g * group_out : (g + 1) * group_out, 0]
            )
            for g in range(groups)
        )
        weights = np.concatenate([pack_dsp(rows[g * group_out : (g + 1) * group_out], packed) for g in range(groups)])
        stage = dsp_stage(stage)
        pixels, tile_bytes = 4, 4 * row_length * 2
    elif form == "mve":
        row_length = -(-depth // 16) * 16
        stage = mve_stage(stage, weight, geometry["input_zero_point"])
        weights, pixels, tile_bytes = pack_mve(rows), 2, 2 * row_length
    else:
        row_length, weights, pixels = depth, rows.reshape(-1), 2
        tile_bytes = pixels * row_length * 2
    total = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
    ones = (weight.shape[1], weight.shape[2], geometry["stride_h"], geometry["stride_w"], groups) == (1, 1, 1, 1, 1)
    # A pointwise convolution reads the input itself: a pixel is a row of the tile.
    direct = form == "mve" and ones and not geometry["padded"] and row_length == depth
    source = ctx.render(
        "conv2d.c.j2",
        **geometry,
        form=form,
        groups=groups,
        group_in=group_in,
        group_out=group_out,
        run=run,
        contiguous=contiguous,
        depth=depth,
        row_length=row_length,
        group_weight_bytes=len(weights) // groups,
        interleave=interleave,
        packed=int(packed),
        pixels=pixels,
        total_pixels=total,
        direct=direct,
        **stage.values,
    )
    shape = f"{weight.shape[1]}x{weight.shape[2]}_{group_in}_{weight.shape[0]}"
    workspace = 0 if direct else tile_bytes
    chosen = LinearKernel(
        f"conv2d_{shape}", source, form, weights, stage, workspace, "int8_t" if form == "mve" else "int16_t"
    )
    macs = total * weight.shape[0] * depth
    detail = detail_text(geometry, weight, groups, form) + removed_text(call)
    add_linear_call(ctx, "conv2d", node, data, output, chosen, macs, detail)
