"""Depthwise convolutions on int16 activations for cores with the DSP extension or Helium: generated blocks."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import dialect
from .block_call import block_function, block_headers
from .blocks.depthwise_any import depthwise_any_block, depthwise_any_wide_records
from .blocks.depthwise_wide import depthwise_wide_records, pairs_wide_block
from .blocks.depthwise_wide_mve import LANES, depthwise_wide_mve_block, depthwise_wide_mve_records
from .blocks.program import Block
from .blocks.requantize_wide import WideRequantizer, WideScales
from .choice import lower_best
from .context import KernelContext
from .depthwise_block import MAX_COLUMNS, RowPairs, columns_of
from .overlap import row_distance
from .wide_block import WideOperator, add_wide_call
from .window import detail_text, geometry_of


def lower_wide_depthwise(
    ctx: KernelContext, operator: WideOperator, node: str, data: str, output: str, form: str
) -> bool:
    """A depthwise ``q.conv2d16`` whose channels are in fours; False where blocks do not hold."""
    weight, scales = operator.weight, operator.scales()
    channels = len(weight)
    if scales is None or channels % 4 or int(dialect.attributes(operator.call)["groups"]) != channels:
        return False
    geometry = geometry_of(operator.call, weight)
    window = (geometry["kernel_h"], geometry["kernel_w"], geometry["dilation_h"], geometry["dilation_w"])
    strides = (geometry["stride_h"], geometry["stride_w"])
    names = ("depthwise_conv2d", node, data, output)
    if form == "mve" and channels % LANES == 0:
        lower_best(ctx, node, {"pixel": lambda trial: _lower_any(trial, operator, scales, names, "mve")})
        return True
    pairs = window == (3, 3, 1, 1) and strides in ((1, 1), (2, 2)) and columns_of(geometry) <= MAX_COLUMNS
    if pairs:
        lower_best(ctx, node, {"pairs": lambda trial: _lower_pairs(trial, operator, scales, names)})
    else:
        lower_best(ctx, node, {"pixel": lambda trial: _lower_any(trial, operator, scales, names, "dsp")})
    return True


def _lower_pairs(
    ctx: KernelContext, operator: WideOperator, scales: WideScales, names: tuple[str, str, str, str]
) -> None:
    geometry = geometry_of(operator.call, operator.weight)
    pairs = RowPairs(ctx, geometry, geometry["channels"])
    block = pairs_wide_block(pairs.channels, pairs.columns, pairs.inside)
    filler = block_function(ctx, block, f"pairs16_{pairs.inside}_{pairs.channels}", "dsp", pairs.lines + 1)
    texts = pairs.blocks("depthwise16_3x3", WideRequantizer(*operator.bounds))
    source = ctx.render("depthwise16_block.c.j2", **geometry, **texts, **pairs.values(), pairs=filler)
    workspace, distance = 2 * pairs.plane_bytes, row_distance(geometry, pairs.rows, 4)
    headers = block_headers(ctx, "dsp")
    kernel = ctx.kernel(f"depthwise16_3x3_{pairs.channels}", source, workspace=workspace, headers=headers)
    add_wide_call(
        ctx,
        kernel.name,
        names,
        {"weights": depthwise_wide_records(scales, small=ctx.level != "time")},
        macs=geometry["batch"] * geometry["out_h"] * geometry["out_w"] * operator.weight.size,
        workspace=workspace,
        detail=f"{detail_text(geometry, operator.weight, 1, 'int16')} dsp",
        distance=None if distance is None else 2 * distance,
    )


def _lower_any(
    ctx: KernelContext, operator: WideOperator, scales: WideScales, names: tuple[str, str, str, str], form: str
) -> None:
    geometry = geometry_of(operator.call, operator.weight)
    channels, kernel_h, kernel_w = operator.weight.shape[:3]
    stage, pixel_bytes = WideRequantizer(*operator.bounds), 2 * channels
    row_step = geometry["dilation_h"] * geometry["width"] * pixel_bytes
    make: Callable[..., Block] = depthwise_any_block
    records = depthwise_any_wide_records
    if form == "mve":
        make, records = depthwise_wide_mve_block, depthwise_wide_mve_records
    inside = make(channels, (kernel_h, kernel_w), row_step, geometry["dilation_w"] * pixel_bytes, stage)
    pixels = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
    stem = f"taps16_{kernel_h}x{kernel_w}_{channels}"
    texts, workspace = {"inside": block_function(ctx, inside, stem, form, pixels), "border": ""}, 0
    if geometry["padded"]:
        workspace = kernel_h * kernel_w * pixel_bytes
        border = make(channels, (kernel_h, kernel_w), kernel_w * pixel_bytes, pixel_bytes, stage)
        texts["border"] = block_function(ctx, border, stem, form, 0)
    source = ctx.render("depthwise16_any.c.j2", **geometry, **texts, at_once="eight" if form == "mve" else "four")
    kernel = ctx.kernel(
        f"depthwise16_{kernel_h}x{kernel_w}_{channels}",
        source,
        workspace=workspace,
        headers=block_headers(ctx, form),
    )
    add_wide_call(
        ctx,
        kernel.name,
        names,
        {"weights": records(scales)},
        macs=geometry["batch"] * geometry["out_h"] * geometry["out_w"] * operator.weight.size,
        workspace=workspace,
        detail=f"{detail_text(geometry, operator.weight, 1, 'int16')} {form}",
    )
