"""Convolution that reads its input rows in place: from a buffer of as many rows as the kernel has, borders included.

No patch of a pixel is gathered: a pixel's depths of one kernel row lie one behind the other in the buffer. Where the
kernel moves down, the rows that serve again are moved within the buffer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .block_call import UNROLLED, UNROLLED_MVE, add_block_call, block_function, block_headers, doubles, packs_lanes
from .blocks.matmul import Layout, copy_block, matmul_block, matmul_records, row_block
from .blocks.matmul_mve import VectorLayout, matmul_mve_block, matmul_mve_records
from .blocks.requantize import Requantizer
from .context import KernelContext
from .overlap import row_distance
from .window import Site, detail_text


def fits_rows(weight: np.ndarray, geometry: dict[str, Any], groups: int, form: str) -> bool:
    """Larger than 1x1, no dilation or groups, at least a block of pixels a row and few of them done twice."""
    pixels = _pixels(form)
    out_w, step = geometry["out_w"], geometry["stride_w"] * geometry["channels_in"]
    twice = -out_w % pixels
    aligned = form == "mve" or (step % 2 == 0 and geometry["width"] * geometry["channels_in"] % 4 == 0)
    return bool(
        weight.shape[1] * weight.shape[2] > 1
        and (groups, geometry["dilation_h"], geometry["dilation_w"]) == (1, 1, 1)
        and out_w >= pixels
        and twice * 8 <= out_w
        and aligned
        and 3 * weight.shape[0] < 4094
        and _covers_rows(geometry)
    )


def _pixels(form: str) -> int:
    return 2 if form == "mve" else 4


def _covers_rows(geometry: dict[str, Any]) -> bool:
    """Whether all of an input row is read: then rows are widened as a whole."""
    columns = (geometry["out_w"] - 1) * geometry["stride_w"] + geometry["kernel_w"]
    return bool(columns >= geometry["pad_left"] + geometry["width"])


def lower_convolution_rows(
    ctx: KernelContext,
    site: Site,
    requantizer: Requantizer,
    form: str,
) -> None:
    """A ``q.conv2d`` for which :func:`fits_rows` holds."""
    weight, stage, geometry = site.weight, site.stage, site.geometry
    channels, kernel_h, kernel_w, channels_in = weight.shape
    pixels = _pixels(form)
    zero_point = geometry["input_zero_point"]
    columns = (geometry["out_w"] - 1) * geometry["stride_w"] + kernel_w
    run = kernel_w * channels_in
    rows = weight.reshape(channels, kernel_h, run)
    lines, blocks = geometry["batch"] * geometry["out_h"], -(-geometry["out_w"] // pixels)
    loaded = lines * min(kernel_h, geometry["stride_h"]) + kernel_h
    if form == "mve":
        size, steps = 1, -(-run // 16)
        filled = np.pad(rows, ((0, 0), (0, 0), (0, 16 * steps - run)))
        row_bytes = columns * channels_in
        # A pixel's last vector may reach beyond its run.
        slack = 16 * steps - run
        layout = VectorLayout(steps, geometry["stride_w"] * channels_in, kernel_h, row_bytes)
        block = matmul_mve_block(
            pixels, layout, channels, channels, requantizer, UNROLLED_MVE[ctx.level], wide=8 // pixels
        )
        matrix = filled.reshape(channels, -1)
        records = matmul_mve_records(matrix, stage, zero_point, 8 // pixels, requantizer)
        widen = ""
    else:
        size, steps = 2, -(-run // 2)
        filled = np.pad(rows, ((0, 0), (0, 0), (0, 2 * steps - run)))
        row_bytes = -(-columns * channels_in * 2 // 4) * 4
        slack = 4
        matrix = filled.reshape(channels, -1)
        packed = kernel_h * steps > 8 and packs_lanes(matrix, stage.params[:, 0])
        dsp_layout = Layout(steps, 4, geometry["stride_w"] * channels_in * 2, kernel_h, row_bytes)
        block = matmul_block(
            pixels, dsp_layout, channels, channels, packed, requantizer, UNROLLED[ctx.level], doubles=doubles(ctx)
        )
        records = matmul_records(matrix, stage, zero_point, packed, requantizer)
        count = geometry["width"] * channels_in
        widen = block_function(ctx, row_block(count), f"widen_{count}", form, loaded)

    def fill(target: str, count: int) -> str:
        if form == "mve":
            return f"ai_fill_vectors({target}, {zero_point}, {count})"
        return f"ai_spread_code({target}, 4, {zero_point}, {count // 4}, 2)"

    kept = max(0, kernel_h - geometry["stride_h"])
    move = ""
    if form == "dsp" and kept:
        move = block_function(ctx, copy_block(kept * row_bytes), f"move_{kept * row_bytes}", form, lines)
    inside = geometry["width"] * channels_in
    place = f"row + {geometry['pad_left'] * channels_in * size}" if geometry["pad_left"] else "row"
    start = f"input + y * {inside}"
    load = f"{widen}({start}, {place});" if form == "dsp" else f"(void)ai_copy_vectors({place}, {start}, {inside});"
    out_h, stride_h = geometry["out_h"], geometry["stride_h"]
    copied = loaded * row_bytes + lines * kept * row_bytes if form == "mve" else 0
    ctx.usage.add(lines * 60 + copied * 0.19)
    buffer_bytes = kernel_h * row_bytes + -(-slack // 4) * 4
    source = ctx.render(
        "conv2d_rows.c.j2",
        **geometry,
        block=block_function(ctx, block, f"matmul_{pixels}px_{kernel_h}x{run}_{channels}", form, lines * blocks),
        load=load,
        fill=fill,
        move=move,
        pixels=pixels,
        row_bytes=row_bytes,
        buffer_bytes=buffer_bytes,
        pixel_bytes=geometry["stride_w"] * channels_in * size,
        kept=kept,
        beyond=(out_h - 1) * stride_h - geometry["pad_top"] + kernel_h > geometry["height"],
    )
    stem = f"conv2d_{kernel_h}x{kernel_w}_{channels_in}_{channels}"
    kernel = ctx.kernel(stem, source, workspace=buffer_bytes, headers=block_headers(ctx, form))
    add_block_call(
        ctx,
        kernel,
        "conv2d",
        *site.names,
        records,
        macs=geometry["batch"] * out_h * geometry["out_w"] * weight.size,
        detail=detail_text(geometry, weight, 1, f"{form} rows"),
        distance=row_distance(geometry),
    )
