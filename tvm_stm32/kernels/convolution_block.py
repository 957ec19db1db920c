"""Convolution on cores with the DSP extension: generated blocks of four pixels by two channels."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect
from .block_call import HEADERS, UNROLLED, add_block_call, block_text, packs_lanes
from .blocks.matmul import matmul_block, matmul_records
from .blocks.requantize import Requantizer
from .context import KernelContext
from .stage import OutputStage
from .window import detail_text, geometry_of
from .winograd import fits_winograd, lower_winograd


def lower_convolution_block(
    ctx: KernelContext,
    call: relax.Call,
    node: str,
    data: str,
    output: str,
    weight: np.ndarray,
    stage: OutputStage,
) -> None:
    """``q.conv2d`` for which :func:`fits_block` holds."""
    geometry = geometry_of(call, weight)
    groups = int(dialect.attributes(call)["groups"])
    if ctx.level == "time" and fits_winograd(weight, stage, geometry, groups):
        lower_winograd(ctx, node, data, output, weight, stage, geometry)
        return
    group_in, group_out = weight.shape[3], weight.shape[0] // groups
    contiguous = groups == 1 and geometry["dilation_w"] == 1
    run = weight.shape[2] * group_in if contiguous else group_in
    rows = tile_rows(weight.reshape(weight.shape[0], -1), run)
    steps = rows.shape[1] // 2
    packed = packs_lanes(weight, stage.params[:, 0])
    zero_point = geometry["input_zero_point"]
    requantizer = Requantizer.of(stage)
    total = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
    texts = {}
    for name, pixels in (("block", 4 if total >= 4 else 0), ("tail", total % 4)):
        texts[name] = ""
        if pixels:
            block = matmul_block(pixels, steps, group_out, weight.shape[0], packed, requantizer, UNROLLED[ctx.level])
            texts[name] = block_text(ctx, block, name)
    words = matmul_records(rows, stage, zero_point, packed)
    source = ctx.render(
        "conv2d_block.c.j2",
        **geometry,
        **texts,
        groups=groups,
        group_in=group_in,
        group_out=group_out,
        group_words=len(words) // groups,
        run=run,
        run_steps=_steps(run),
        contiguous=contiguous,
    )
    shape = f"{weight.shape[1]}x{weight.shape[2]}_{group_in}_{weight.shape[0]}"
    workspace = 16 * steps
    kernel = ctx.kernel(f"conv2d_{shape}", source, workspace=workspace, headers=HEADERS)
    add_block_call(
        ctx,
        kernel,
        "conv2d",
        node,
        data,
        output,
        words,
        macs=total * weight.size,
        detail=detail_text(geometry, weight, groups, "dsp"),
    )


def _steps(run: int) -> int:
    """Pairs of depths a run of codes takes in the tile."""
    return run // 4 * 2 + (run % 4 + 1) // 2


def tile_rows(rows: np.ndarray, run: int) -> np.ndarray:
    """Rows [channels, depth] in the order ``ai_spread`` gives each run: 0 2 1 3 of each four, a rest in pairs."""
    channels = len(rows)
    runs = rows.reshape(channels, -1, run)
    whole = run - run % 4
    order = [base + offset for base in range(0, whole, 4) for offset in (0, 2, 1, 3)] + list(range(whole, run))
    runs = np.pad(runs[:, :, order], ((0, 0), (0, 0), (0, 2 * _steps(run) - run)))
    return np.ascontiguousarray(runs.reshape(channels, -1))
