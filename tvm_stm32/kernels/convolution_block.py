"""Convolution on cores with the DSP extension: generated blocks of four pixels by two channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from ..graph import dialect
from .block_call import EXTRA_HEADERS, HEADERS, UNROLLED, UNROLLED_MVE, add_block_call, block_text, packs_lanes, part_of
from .blocks.matmul import matmul_block, matmul_records
from .blocks.matmul_mve import matmul_mve_block, matmul_mve_records
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
    form: str,
) -> None:
    """``q.conv2d`` for which :func:`fits_block` holds (``form`` dsp or mve)."""
    geometry = geometry_of(call, weight)
    groups = int(dialect.attributes(call)["groups"])
    if form == "dsp" and ctx.level == "time" and fits_winograd(weight, stage, geometry, groups):
        lower_winograd(ctx, node, data, output, weight, stage, geometry)
        return
    group_in, group_out = weight.shape[3], weight.shape[0] // groups
    contiguous = groups == 1 and geometry["dilation_w"] == 1
    run = weight.shape[2] * group_in if contiguous else group_in
    total = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
    matrix = weight.reshape(weight.shape[0], -1)
    ones = (weight.shape[1], weight.shape[2], geometry["stride_h"], geometry["stride_w"], groups) == (1, 1, 1, 1, 1)
    chosen = (_mve if form == "mve" else _dsp)(ctx, matrix, run, group_out, total, stage, geometry["input_zero_point"])
    # A pointwise convolution reads the input itself: a pixel is a row of the tile.
    direct = form == "mve" and ones and not geometry["padded"] and group_in % 16 == 0
    source = ctx.render(
        "conv2d_block.c.j2",
        **geometry,
        block=chosen.block,
        tail=chosen.tail,
        mve=form == "mve",
        pixels=chosen.pixels,
        groups=groups,
        group_in=group_in,
        group_out=group_out,
        group_words=len(chosen.records) // groups,
        run=run,
        run_steps=_steps(run),
        row_length=chosen.row_length,
        fill=chosen.row_length - matrix.shape[1] if form == "mve" else 0,
        contiguous=contiguous,
        direct=direct,
        total=total,
    )
    shape = f"{weight.shape[1]}x{weight.shape[2]}_{group_in}_{weight.shape[0]}"
    workspace = 0 if direct else chosen.workspace
    kernel = ctx.kernel(f"conv2d_{shape}", source, workspace=workspace, headers=(*HEADERS, *EXTRA_HEADERS[form]))
    add_block_call(
        ctx,
        kernel,
        "conv2d",
        node,
        data,
        output,
        chosen.records,
        macs=total * weight.size,
        detail=detail_text(geometry, weight, groups, form),
    )


@dataclass(frozen=True)
class _Chosen:
    """Blocks for all pixels and for the last ones, their weights; bytes of a pixel's row (Helium) and of the tile."""

    block: str
    tail: str
    records: np.ndarray
    pixels: int
    row_length: int
    workspace: int


def _dsp(
    ctx: KernelContext,
    matrix: np.ndarray,
    run: int,
    group_out: int,
    total: int,
    stage: OutputStage,
    zero_point: int,
) -> _Chosen:
    rows = tile_rows(matrix, run)
    steps = rows.shape[1] // 2
    packed = packs_lanes(matrix, stage.params[:, 0])
    texts = {}
    for name, pixels in (("block", 4 if total >= 4 else 0), ("tail", total % 4)):
        block = (
            matmul_block(pixels, steps, group_out, len(matrix), packed, Requantizer.of(stage), UNROLLED[ctx.level])
            if pixels
            else None
        )
        texts[name] = block_text(ctx, block, name) if block else ""
    return _Chosen(
        **texts, records=matmul_records(rows, stage, zero_point, packed), pixels=4, row_length=0, workspace=16 * steps
    )


def _mve(
    ctx: KernelContext,
    matrix: np.ndarray,
    _run: int,
    group_out: int,
    total: int,
    stage: OutputStage,
    zero_point: int,
) -> _Chosen:
    steps = -(-matrix.shape[1] // 16)
    pixels = 2 if total >= 2 else 1
    texts = {"block": "", "tail": ""}
    for name, count in (("block", 2 if total >= 2 else 0), ("tail", total % 2)):
        if count:
            block = matmul_mve_block(
                count, steps, group_out, len(matrix), Requantizer.of(stage), UNROLLED_MVE[ctx.level], wide=8 // pixels
            )
            texts[name] = block_text(ctx, block, name)
    groups = [
        matmul_mve_records(matrix[start : start + group_out], part_of(stage, start, group_out), zero_point, 8 // pixels)
        for start in range(0, len(matrix), group_out)
    ]
    return _Chosen(**texts, records=np.concatenate(groups), pixels=2, row_length=16 * steps, workspace=32 * steps)


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
