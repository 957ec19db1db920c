"""Depthwise 3x3 convolution on cores with the DSP extension: generated blocks on words of two rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .block_call import add_block_call, block_function, block_headers, finish_values, requantizer_of
from .blocks.depthwise import depthwise_block, depthwise_records, pairs_block, record_bytes
from .blocks.depthwise_any import depthwise_any_block, depthwise_any_records
from .blocks.depthwise_mve import (
    LANES,
    TABLES_BYTES,
    depthwise_mve_block,
    depthwise_mve_records,
    products_at_once,
)
from .blocks.matmul_any import pairs_any_block
from .blocks.requantize import Requantizer
from .blocks.requantize_wide import WideRequantizer
from .context import KernelContext
from .overlap import pixel_distance, row_distance
from .stage import OutputStage
from .window import Site, detail_text

# Sums that wait for their requantization: more are faster, and more code.
WAITING = {"time": 16, "balanced": 8, "ram": 8, "size": 4}
# Offsets of four channels of a plane, and of a segment's columns, are those of a store: up to 4095 bytes.
MAX_COLUMNS = 340


def fits_pairs(ctx: KernelContext, stage: OutputStage, weight: np.ndarray, geometry: dict[str, Any]) -> bool:
    """3x3 without dilation, stride 1 or 2 both ways, channels in fours."""
    window = (geometry["kernel_h"], geometry["kernel_w"], geometry["dilation_h"], geometry["dilation_w"])
    strides = (geometry["stride_h"], geometry["stride_w"])
    return bool(
        window == (3, 3, 1, 1)
        and strides in ((1, 1), (2, 2))
        and weight.shape[0] % 4 == 0
        and columns_of(geometry) <= MAX_COLUMNS
        and requantizer_of(ctx, stage, weight, "dsp") is not None
    )


def chunk_sizes(channels: int) -> list[int]:
    """Channels that may be done at a time, a whole number of times: about half of them, about a quarter."""
    sizes = [size for size in range(4, channels, 4) if channels % size == 0]
    most = [max((size for size in sizes if parts * size <= channels), default=0) for parts in (2, 4)]
    return [size for size in dict.fromkeys(most) if size]


def columns_of(geometry: dict[str, Any]) -> int:
    """Words of a plane's row: all the columns outputs look at."""
    return int((geometry["out_w"] - 1) * geometry["stride_w"] + 3)


@dataclass
class RowPairs:
    """A 3x3 kernel on two planes of paired rows: its sizes, and the blocks that make outputs of them.

    The planes have ``channels`` channels: all, or those of one of several ``chunks``.
    """

    ctx: KernelContext
    geometry: dict[str, Any]
    channels: int

    def __post_init__(self) -> None:
        geometry = self.geometry
        self.columns = columns_of(geometry)
        # Rows of outputs a step makes, and input columns that are copied.
        self.rows = 2 if geometry["stride_w"] == 1 and geometry["out_h"] > 1 else 1
        self.inside = min(geometry["width"], self.columns - geometry["pad_left"])
        self.plane_bytes = 4 * self.channels * self.columns
        self.iterations = -(-geometry["out_h"] // self.rows)
        self.chunks = geometry["channels"] // self.channels
        self.others = geometry["channels"] - self.channels
        self.lines = self.chunks * geometry["batch"] * self.iterations

    def blocks(self, stem: str, stage: Requantizer | WideRequantizer) -> dict[str, str]:
        """Functions for a step (``block``), and for the last of an odd number of rows (``last``, or nothing)."""
        ctx, out_h, out_w = self.ctx, self.geometry["out_h"], self.geometry["out_w"]
        ctx.usage.add(self.lines * 40 + self.chunks * 6 * self.plane_bytes / 4)
        lonely = self.rows == 2 and out_h % 2 == 1
        texts = {"last": ""}
        for name, rows, calls in (
            ("block", self.rows, self.lines - lonely * self.chunks),
            ("last", int(lonely), self.chunks),
        ):
            if rows:
                block = depthwise_block(
                    self.channels,
                    self.columns,
                    out_w,
                    rows,
                    self.geometry["stride_w"],
                    stage,
                    small=ctx.level != "time",
                    waiting=WAITING[ctx.level],
                    others=self.others,
                )
                texts[name] = block_function(ctx, block, f"{stem}_{rows}x{out_w}_{self.channels}", "dsp", calls)
        return texts

    def values(self) -> dict[str, Any]:
        """What templates of both widths of codes need."""
        left = self.geometry["pad_left"]
        return {
            "rows": self.rows,
            "plane_bytes": self.plane_bytes,
            "columns": self.columns,
            "borders": [column for column in range(self.columns) if not 0 <= column - left < self.inside],
            "iterations": self.iterations,
        }


def lower_depthwise_block(
    ctx: KernelContext,
    site: Site,
    at_once: int,
) -> None:
    """A depthwise ``q.conv2d`` for which :func:`fits_pairs` holds, ``at_once`` channels over all rows at a time."""
    weight, stage, geometry = site.weight, site.stage, site.geometry
    channels, small = weight.shape[0], ctx.level != "time"
    pairs = RowPairs(ctx, geometry, at_once)
    fills = pairs.lines + pairs.chunks
    if small:
        times = {"turns": at_once // 4, "pixels": pairs.inside}
        some = pairs.chunks > 1
        stem = "pairs_of_some" if some else "pairs"
        filler = block_function(ctx, pairs_any_block(some=some), stem, "dsp", fills, times)
    else:
        block = pairs_block(at_once, pairs.columns, pairs.inside, pairs.others)
        filler = block_function(ctx, block, f"pairs_{pairs.inside}_{at_once}", "dsp", fills)
    source = ctx.render(
        "depthwise_block.c.j2",
        **geometry,
        **pairs.blocks("depthwise_3x3", Requantizer.of(stage)),
        **pairs.values(),
        pairs=filler,
        inside=pairs.inside,
        small=small,
        at_once=at_once,
        chunks=pairs.chunks,
        record_words=record_bytes(small) // 4,
    )
    distance = row_distance(geometry, pairs.rows, 4)
    workspace = 2 * pairs.plane_bytes
    kernel = ctx.kernel(f"depthwise_3x3_{channels}", source, workspace=workspace, headers=block_headers(ctx, "dsp"))
    words = depthwise_records(weight[..., 0], stage, geometry["input_zero_point"], small=small)
    add_block_call(
        ctx,
        kernel,
        "depthwise_conv2d",
        *site.names,
        words,
        macs=geometry["batch"] * geometry["out_h"] * geometry["out_w"] * weight.size,
        detail=detail_text(geometry, weight, 1, "dsp"),
        # A chunk writes no byte of the others, where the result starts with the input.
        distance=distance if pairs.chunks == 1 else None,
        same_place=distance == 0 and pairs.chunks > 1,
    )


def lower_depthwise_any(
    ctx: KernelContext,
    site: Site,
) -> None:
    """A depthwise ``q.conv2d`` with channels in fours; border pixels go through a gathered patch."""
    weight, stage, geometry = site.weight, site.stage, site.geometry
    channels, kernel_h, kernel_w = weight.shape[:3]
    requantizer = requantizer_of(ctx, stage, weight, "dsp")
    row_step = geometry["dilation_h"] * geometry["width"] * channels
    column_step = geometry["dilation_w"] * channels
    kernel_size = (kernel_h, kernel_w)
    inside = depthwise_any_block(channels, kernel_size, row_step, column_step, requantizer)
    pixels = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
    ctx.usage.add(pixels * 22)
    stem = f"taps_{kernel_h}x{kernel_w}_{channels}"
    texts = {"inside": block_function(ctx, inside, stem, "dsp", pixels), "border": ""}
    patch_bytes = 0
    if geometry["padded"]:
        patch_bytes = kernel_h * kernel_w * channels
        border = depthwise_any_block(channels, kernel_size, kernel_w * channels, channels, requantizer)
        texts["border"] = block_function(ctx, border, stem, "dsp", 0)
        # Pixels at the border gather their patch.
        inner = max(0, geometry["out_h"] - 2) * max(0, geometry["out_w"] - 2) * geometry["batch"]
        ctx.usage.add((pixels - inner) * patch_bytes * 1.6)
    source = ctx.render(
        "depthwise_any.c.j2", **geometry, **finish_values(stage, requantizer), **texts, patch_bytes=patch_bytes
    )
    stem = f"depthwise_{kernel_h}x{kernel_w}_{channels}"
    workspace = patch_bytes + (0 if requantizer else 4 * channels)
    kernel = ctx.kernel(stem, source, workspace=workspace, headers=block_headers(ctx, "dsp"))
    add_block_call(
        ctx,
        kernel,
        "depthwise_conv2d",
        *site.names,
        depthwise_any_records(weight[..., 0], stage, geometry["input_zero_point"], finished=requantizer is not None),
        macs=geometry["batch"] * geometry["out_h"] * geometry["out_w"] * weight.size,
        detail=detail_text(geometry, weight, 1, "dsp"),
        finish=None if requantizer else stage,
        distance=pixel_distance(geometry, 1, buffered=False),
    )


def fits_ring(stage: OutputStage, geometry: dict[str, Any]) -> bool:
    """Helium: any kernel and stride without dilation."""
    return bool(stage.fast and (geometry["dilation_h"], geometry["dilation_w"]) == (1, 1))


def lower_depthwise_ring(
    ctx: KernelContext,
    site: Site,
) -> None:
    """A depthwise ``q.conv2d`` for which :func:`fits_ring` holds, on a ring of padded input rows."""
    weight, stage, geometry = site.weight, site.stage, site.geometry
    channels, kernel_h, kernel_w = weight.shape[:3]
    stride_h, stride_w = geometry["stride_h"], geometry["stride_w"]
    out_h, out_w = geometry["out_h"], geometry["out_w"]
    columns = (out_w - 1) * stride_w + kernel_w
    taps, tables = weight[..., 0], stage
    # Neighbouring pixels of four or eight channels fill a vector.
    together = LANES // channels if channels in (4, 8) and stride_w == 1 else 1
    if together > 1 and out_w % together == 0:
        padded, lanes = channels, LANES
        taps = np.tile(taps, (together, 1, 1))
        tables = replace(stage, params=np.tile(stage.params, (together, 1)), shifts=np.tile(stage.shifts, together))
    else:
        padded, lanes, together = -(-channels // LANES) * LANES, channels, 1
    row_bytes = columns * padded
    block = depthwise_mve_block(
        lanes,
        (kernel_h, kernel_w),
        row_bytes,
        padded,
        out_w // together,
        together * stride_w * padded,
        Requantizer.of(stage),
        products_at_once(taps),
    )
    source = ctx.render(
        "depthwise_block_mve.c.j2",
        **geometry,
        block=block_function(ctx, block, f"taps_{kernel_h}x{kernel_w}_{channels}", "mve", geometry["batch"] * out_h),
        padded_channels=padded,
        row_bytes=row_bytes,
        inside=min(geometry["width"], columns - geometry["pad_left"]),
        beyond=(out_h - 1) * stride_h - geometry["pad_top"] + kernel_h > geometry["height"],
        tables_bytes=TABLES_BYTES,
    )
    stem = f"depthwise_{kernel_h}x{kernel_w}_{channels}"
    headers = block_headers(ctx, "mve")
    kernel = ctx.kernel(stem, source, workspace=kernel_h * row_bytes, headers=headers)
    add_block_call(
        ctx,
        kernel,
        "depthwise_conv2d",
        *site.names,
        depthwise_mve_records(taps, tables, geometry["input_zero_point"]),
        macs=geometry["batch"] * out_h * out_w * weight.size,
        detail=detail_text(geometry, weight, 1, "mve"),
        distance=row_distance(geometry),
    )
