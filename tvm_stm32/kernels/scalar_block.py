"""Convolution and dense layers on Cortex-M0+ and M3: generated blocks of products packed into 32 bits.

``-O size`` keeps the portable kernels of ``ai_kernels.h``, as do operators whose sums are too wide for the packing or
whose requantization has no fast form.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import shape_of
from .block_call import add_block_call, part_of
from .blocks.assembly import assembly_text
from .blocks.assembly_small import small_assembly_text
from .blocks.ctext import c_text
from .blocks.depthwise_scalar import (
    depthwise_rows_block,
    depthwise_rows_records,
    fits_rows,
    row_columns,
    sums_bytes,
)
from .blocks.matmul_scalar import (
    LIMIT,
    PARTIAL_BYTES,
    PIXELS,
    ROW_BYTES,
    TRIPLE_BYTES,
    TripleLayout,
    pack_block,
    segment_of,
    triple_block,
    triple_records,
)
from .blocks.program import Block
from .blocks.requantize import Requantizer
from .blocks.requantize_scalar import ScalarRequantizer
from .blocks.small import (
    QUAD_WORDS,
    TRIPLE_WORDS,
    small_quad_block,
    small_quad_records,
    small_triple_block,
    small_triple_records,
)
from .blocks.vector_scalar import QUAD, fits_quads, quad_block, quad_records
from .context import KernelContext
from .overlap import pixel_distance, row_distance
from .stage import OutputStage, accumulator_bound
from .window import Site, detail_text, geometry_of

_HEADERS = ("ai_blocks.h",)
_UNROLLED = {"time": 16, "balanced": 16, "ram": 16}
_WIDE_LIMIT = 1 << 23


def has_scalar_blocks(ctx: KernelContext) -> bool:
    """Whether this target and level use them."""
    return ctx.target.cpu in ("cortex-m0", "cortex-m0plus", "cortex-m3") and ctx.level in _UNROLLED


def has_long_products(ctx: KernelContext) -> bool:
    """Whether the core multiplies to 64 bits (M3); others have no assembly form here either."""
    return ctx.target.cpu == "cortex-m3"


def scalar_function(ctx: KernelContext, block: Block, stem: str, *, small: bool = False) -> str:
    """The block's function, which all operators share that need it: assembly on M3 and, of ``small`` ones, on M0+."""
    title = f"Block {stem}."
    if ctx.sketch:
        text = title
    elif not ctx.assembly:
        text = c_text(block, title)
    elif has_long_products(ctx):
        text = assembly_text(block, title, wide=ctx.level == "time")
    else:
        text = small_assembly_text(block, title) if small else c_text(block, title)
    return ctx.kernel(stem, text, headers=_HEADERS).name


def scalar_requantizer(ctx: KernelContext, stage: OutputStage, weight: np.ndarray) -> ScalarRequantizer | None:
    """How blocks make codes of sums; None when they cannot."""
    if not stage.fast:
        return None
    bound = int(accumulator_bound(weight, stage.params[:, 0]).max(initial=0))
    if not has_long_products(ctx) and bound >= _WIDE_LIMIT:
        return None
    return ScalarRequantizer(Requantizer.of(stage), has_long_products(ctx), 21 if bound < LIMIT else 32)


def lower_triples(
    ctx: KernelContext, call: relax.Call, node: str, data: str, output: str, weight: np.ndarray, stage: OutputStage
) -> bool:
    """A ``q.conv2d``, six pixels at a time; False when it is not for this form."""
    requantizer = scalar_requantizer(ctx, stage, weight)
    matrix = weight.reshape(weight.shape[0], -1)
    geometry = geometry_of(call, weight)
    zero_point = geometry["input_zero_point"]
    segment = segment_of(matrix, stage.params[:, 0], zero_point)
    if requantizer is None or segment == 0:
        return False
    groups = int(dialect.attributes(call)["groups"])
    group_in, group_out = weight.shape[3], weight.shape[0] // groups
    contiguous = groups == 1 and geometry["dilation_w"] == 1
    run = weight.shape[2] * group_in if contiguous else group_in
    depth = matrix.shape[1]
    total = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
    ones = (weight.shape[1], weight.shape[2], geometry["stride_h"], geometry["stride_w"], groups) == (1, 1, 1, 1, 1)
    direct = ones and not geometry["padded"]
    unrolled = _UNROLLED[ctx.level]
    small = not has_long_products(ctx)
    # Code for more than three last pixels takes the time of that for six.
    again = not small and total > PIXELS and total % PIXELS > 3
    names, records = {}, []
    parts = [(matrix[at : at + group_out], part_of(stage, at, group_out)) for at in range(0, len(matrix), group_out)]
    partial_bytes, segments = PARTIAL_BYTES, -(-depth // segment)
    if small:
        if segments > 1 and (depth % segments or segment % 4):
            return False
        partial_bytes = 0
        product = small_triple_block(-(-segment // 4) * 4, group_out, unrolled // 4)
        names["block"] = scalar_function(ctx, product, f"matmul_6px_{segment}_{group_out}", small=True)
        records = [small_triple_records(rows, part, zero_point, segment) for rows, part in parts]
    else:
        layout = TripleLayout(depth, 2, segment)
        for name, pixels in (("block", PIXELS if total >= PIXELS else 0), ("tail", 0 if again else total % PIXELS)):
            block = triple_block(pixels, layout, group_out, weight.shape[0], requantizer, unrolled) if pixels else None
            names[name] = scalar_function(ctx, block, f"matmul_{pixels}px_{depth}_{group_out}") if block else ""
        records = [triple_records(rows, part, zero_point, layout, requantizer) for rows, part in parts]
    tile_bytes = partial_bytes + ROW_BYTES * (-(-depth // 4) * 4 if small else depth)
    source = ctx.render(
        "conv2d_triples.c.j2",
        **geometry,
        **names,
        **stage.values,
        small=small,
        again=again,
        wide=int(requantizer.bits > 21),
        segments=segments,
        segment_bytes=ROW_BYTES * segment,
        segment_weights=4 * len(records[0]) // segments,
        pack=scalar_function(ctx, pack_block(run, 16), f"pack_{run}"),
        total=total,
        pixels=PIXELS,
        partial_bytes=partial_bytes,
        triple_bytes=TRIPLE_BYTES,
        row_bytes=ROW_BYTES,
        tile_bytes=tile_bytes,
        groups=groups,
        group_in=group_in,
        group_out=group_out,
        group_words=len(records[0]),
        run=run,
        run_bytes=-(-run // 4) * 4,
        contiguous=contiguous,
        direct=direct,
    )
    shape = f"{weight.shape[1]}x{weight.shape[2]}_{group_in}_{weight.shape[0]}"
    runs = 0 if direct or not geometry["padded"] else 3 * (-(-run // 4) * 4)
    words = 4 * TRIPLE_WORDS * group_out * segments if small else 0
    kernel = ctx.kernel(f"conv2d_{shape}", source, workspace=tile_bytes + runs + words, headers=_HEADERS)
    add_block_call(
        ctx,
        kernel,
        "conv2d",
        node,
        data,
        output,
        np.concatenate(records),
        macs=total * weight.size,
        detail=detail_text(geometry, weight, groups, "triples"),
        finish=stage if small else None,
        distance=pixel_distance(geometry, PIXELS, again=again) if groups == 1 else None,
    )
    return True


def lower_quads(
    ctx: KernelContext, call: relax.Call, node: str, data: str, output: str, weight: np.ndarray, stage: OutputStage
) -> bool:
    """A ``q.dense``, eight or four channels at a time; False when it is not for this form."""
    requantizer = scalar_requantizer(ctx, stage, weight)
    if requantizer is None or not fits_quads(weight, stage.params[:, 0]):
        return False
    units, depth = weight.shape
    batch = int(np.prod(shape_of(call))) // units
    zero_point = int(dialect.attributes(call)["input_zero_point"])
    if not has_long_products(ctx):
        even, fours = depth + depth % 2, -(-units // QUAD)
        product = small_quad_block(even, fours, _UNROLLED[ctx.level] // 4)
        source = ctx.render(
            "dense_quads_small.c.j2",
            block=scalar_function(ctx, product, f"matmul_1px_{depth}_{units}", small=True),
            batch=batch,
            units=units,
            depth=depth,
            even=even,
            wide=int(requantizer.bits > 21),
            **stage.values,
        )
        workspace = 4 * even + 4 * QUAD_WORDS * fours
        kernel = ctx.kernel(f"dense_{depth}_{units}", source, workspace=workspace, headers=_HEADERS)
        records = small_quad_records(weight, stage, zero_point)
        macs = batch * weight.size
        add_block_call(ctx, kernel, "dense", node, data, output, records, macs=macs, detail="quads", finish=stage)
        return True
    quads = 2 if units > QUAD else 1
    block = quad_block(depth, units, quads, requantizer, _UNROLLED[ctx.level])
    name = scalar_function(ctx, block, f"matmul_1px_{depth}_{units}")
    source = ctx.render("dense_quads.c.j2", block=name, batch=batch, units=units, depth=depth)
    kernel = ctx.kernel(f"dense_{depth}_{units}", source, headers=_HEADERS)
    records = quad_records(weight, stage, zero_point, quads, requantizer)
    add_block_call(ctx, kernel, "dense", node, data, output, records, macs=batch * weight.size, detail="quads")
    return True


def lower_depthwise_rows(
    ctx: KernelContext,
    site: Site,
) -> bool:
    """A depthwise ``q.conv2d`` 3x3, one row of pixels at a time; False when it is not for this form."""
    weight, stage, geometry = site.weight, site.stage, site.geometry
    requantizer = scalar_requantizer(ctx, stage, weight)
    channels, kernel_h, kernel_w = weight.shape[:3]
    out_w, stride = geometry["out_w"], geometry["stride_w"]
    if (
        requantizer is None
        or channels != geometry["channels_in"]
        or (kernel_h, kernel_w) != (3, 3)
        or (geometry["dilation_h"], geometry["dilation_w"]) != (1, 1)
        or not fits_rows(out_w, stride, channels, any_address=has_long_products(ctx))
    ):
        return False
    taps = weight[..., 0].reshape(channels, -1)
    block = depthwise_rows_block(out_w, stride, channels, requantizer)
    columns = row_columns(out_w, stride)
    row_bytes = columns * channels
    last_row = (geometry["out_h"] - 1) * geometry["stride_h"] - geometry["pad_top"] + kernel_h
    source = ctx.render(
        "depthwise_rows.c.j2",
        **geometry,
        block=scalar_function(ctx, block, f"depthwise_row_{out_w}x{channels}"),
        row_bytes=row_bytes,
        inside=min(geometry["width"], columns - geometry["pad_left"]),
        kept=max(0, kernel_h - geometry["stride_h"]),
        beyond=geometry["pad_top"] > 0 or last_row > geometry["height"],
    )
    workspace = -(-(kernel_h * row_bytes + sums_bytes(out_w, stride, channels)) // 4) * 4
    kernel = ctx.kernel(f"depthwise_{kernel_h}x{kernel_w}_{channels}", source, workspace=workspace, headers=_HEADERS)
    add_block_call(
        ctx,
        kernel,
        "depthwise_conv2d",
        *site.names,
        depthwise_rows_records(taps, stage, geometry["input_zero_point"], requantizer),
        macs=geometry["batch"] * geometry["out_h"] * out_w * weight.size,
        detail=detail_text(geometry, weight, 1, "rows"),
        distance=row_distance(geometry),
    )
    return True
