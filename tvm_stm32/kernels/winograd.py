"""3x3 convolution with stride 1 by exact integer Winograd, on cores with the DSP extension."""

from __future__ import annotations

from typing import Any

import numpy as np

from .block_call import UNROLLED, add_block_call, block_function, block_headers, doubles
from .blocks.requantize import Requantizer
from .blocks.winograd import (
    PATCH_H,
    PATCH_W,
    SUMS_BYTES,
    transform_block,
    values_bytes,
    winograd_block,
    winograd_records,
)
from .context import KernelContext
from .overlap import patch_distance
from .stage import OutputStage, accumulator_bound
from .window import Site, detail_text


def fits_winograd(weight: np.ndarray, stage: OutputStage, geometry: dict[str, Any], groups: int) -> bool:
    """Shapes the block covers, and four times a sum within 32 bits."""
    window = (geometry["kernel_h"], geometry["kernel_w"], geometry["dilation_h"], geometry["dilation_w"])
    exact = 4 * accumulator_bound(weight, stage.params[:, 0]) < (1 << 31)
    return bool(
        window == (3, 3, 1, 1)
        and (geometry["stride_h"], geometry["stride_w"], groups) == (1, 1, 1)
        and weight.shape[3] % 4 == 0
        and weight.shape[3] >= 8
        and geometry["out_h"] >= 2
        and geometry["out_w"] >= 8
        and (geometry["out_w"] + 1) * geometry["channels"] < 4096
        and geometry["channels"] % 2 == 0
        and stage.fast
        and exact.all()
    )


def lower_winograd(
    ctx: KernelContext,
    site: Site,
) -> None:
    """A ``q.conv2d`` for which :func:`fits_winograd` holds."""
    weight, stage, geometry = site.weight, site.stage, site.geometry
    channels, _, _, channels_in = weight.shape
    out_w = geometry["out_w"]
    block = winograd_block(
        channels_in, channels, out_w, channels, Requantizer.of(stage), UNROLLED[ctx.level], doubles=doubles(ctx)
    )
    blocks = geometry["batch"] * -(-geometry["out_h"] // 2) * -(-out_w // 8)
    # Patches are copied word by word.
    ctx.usage.add(blocks * (PATCH_H * PATCH_W * channels_in / 4 * 4.2 + 90))
    source = ctx.render(
        "winograd.c.j2",
        **geometry,
        transform=block_function(ctx, transform_block(channels_in), f"transform_{channels_in}", "dsp", 4 * blocks),
        block=block_function(ctx, block, f"tiles_{out_w}_{channels_in}_{channels}", "dsp", blocks),
        values_bytes=values_bytes(channels_in),
        sums_bytes=SUMS_BYTES,
        patch_h=PATCH_H,
        patch_w=PATCH_W,
    )
    workspace = values_bytes(channels_in) + SUMS_BYTES + PATCH_H * PATCH_W * channels_in
    kernel = ctx.kernel(
        f"winograd_{channels_in}_{channels}", source, workspace=workspace, headers=block_headers(ctx, "dsp")
    )
    words = winograd_records(weight, stage, geometry["input_zero_point"])
    add_block_call(
        ctx,
        kernel,
        "conv2d",
        *site.names,
        words,
        macs=geometry["batch"] * geometry["out_h"] * out_w * weight.size,
        detail=detail_text(geometry, weight, 1, "winograd"),
        distance=patch_distance(geometry, 2, 8),
    )
