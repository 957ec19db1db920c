"""int8 depthwise convolution."""

from __future__ import annotations

from functools import partial

import numpy as np
from tvm import relax

from .choice import Lower, lower_best
from .context import KernelContext
from .depthwise_block import (
    chunk_sizes,
    fits_pairs,
    fits_ring,
    lower_depthwise_any,
    lower_depthwise_block,
    lower_depthwise_ring,
)
from .linear import LinearKernel, add_linear_call
from .scalar_block import has_scalar_blocks, lower_depthwise_rows
from .stage import OutputStage
from .window import Site, detail_text, geometry_of


def lower_depthwise(
    ctx: KernelContext,
    call: relax.Call,
    node: str,
    data: str,
    output: str,
    weight: np.ndarray,
    stage: OutputStage,
) -> None:
    """``q.conv2d`` whose groups have one input channel each."""
    geometry = geometry_of(call, weight)
    site = Site((node, data, output), weight, stage, geometry)
    multiplier = weight.shape[0] // geometry["channels_in"]
    channels = weight.shape[0]
    candidates: dict[str, Lower] = {}
    if multiplier == 1 and ctx.target.mve and fits_ring(stage, geometry):
        candidates["ring"] = lambda trial: lower_depthwise_ring(trial, site)
    elif multiplier == 1 and channels % 4 == 0 and ctx.target.dsp:
        if fits_pairs(ctx, stage, weight, geometry):
            candidates["pairs"] = partial(lower_depthwise_block, site=site, at_once=channels)
            for size in chunk_sizes(channels):
                candidates[f"chunks-{size}"] = partial(lower_depthwise_block, site=site, at_once=size)
        candidates["pixel"] = lambda trial: lower_depthwise_any(trial, site)
    if candidates:
        lower_best(ctx, node, candidates)
        return
    if has_scalar_blocks(ctx) and lower_depthwise_rows(ctx, site):
        return
    weights = np.ascontiguousarray(weight[..., 0].transpose(1, 2, 0))  # taps by channels
    source = ctx.render("depthwise.c.j2", **geometry, multiplier=multiplier, **stage.values)
    stem = f"depthwise_{weight.shape[1]}x{weight.shape[2]}_{channels}"
    chosen = LinearKernel(stem, source, weights, stage, 0)
    macs = geometry["batch"] * geometry["out_h"] * geometry["out_w"] * weights.size
    detail = detail_text(geometry, weight, 1, "scalar")
    add_linear_call(ctx, "depthwise_conv2d", node, data, output, chosen, macs, detail)
