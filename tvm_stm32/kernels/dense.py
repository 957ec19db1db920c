"""int8 dense layers."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, shape_of
from .block_call import EXTRA_HEADERS, HEADERS, UNROLLED_MVE, add_block_call, block_text, fits_block, packs_lanes
from .blocks.matmul_mve import matmul_mve_block, matmul_mve_records
from .blocks.requantize import Requantizer
from .blocks.vector import GROUP, vector_block, vector_records
from .context import KernelContext
from .convolution_block import tile_rows
from .linear import LinearKernel, add_linear_call, form_of
from .packing import can_pack_lanes, dsp_order, pack_dsp, pack_mve
from .stage import OutputStage, dsp_stage, mve_stage, output_stage


def lower_dense(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.dense``: one row of the input at a time, widened once."""
    attrs = dialect.attributes(call)
    weight, bias = constant(call.args[1]), constant(call.args[2])
    assert weight is not None and bias is not None
    units, depth = weight.shape
    batch = int(np.prod(shape_of(call))) // units
    stage, weight = output_stage(call, weight, bias)
    form = form_of(ctx, stage)
    if form in ("dsp", "mve") and fits_block(stage, weight, units, form):
        _lower_block(ctx, call, node, data, output, weight, stage, form)
        return
    packed = False
    if form == "dsp":
        rows = weight[:, dsp_order(depth, True)]
        row_length = depth + depth % 2
        rows = np.pad(rows, ((0, 0), (0, row_length - depth)))
        packed = can_pack_lanes(weight, stage.params[:, 0])
        weights, workspace = pack_dsp(rows, packed), row_length * 2
        stage = dsp_stage(stage)
    elif form == "mve":
        row_length = -(-depth // 16) * 16
        weights = pack_mve(weight)
        stage = mve_stage(stage, weight, attrs["input_zero_point"])
        workspace = 0 if row_length == depth else row_length
    else:
        row_length, weights, workspace = depth, weight.reshape(-1), depth * 2
    source = ctx.render(
        "dense.c.j2",
        form=form,
        batch=batch,
        units=units,
        depth=depth,
        row_length=row_length,
        packed=int(packed),
        direct=workspace == 0,
        input_zero_point=attrs["input_zero_point"],
        **stage.values,
    )
    tile_ctype = "int8_t" if form == "mve" else "int16_t"
    chosen = LinearKernel(f"dense_{depth}_{units}", source, form, weights, stage, workspace, tile_ctype)
    add_linear_call(ctx, "dense", node, data, output, chosen, batch * units * depth, form)


_UNROLLED = {"time": 16, "balanced": 8, "ram": 8, "size": 2}


def _lower_block(
    ctx: KernelContext,
    call: relax.Call,
    node: str,
    data: str,
    output: str,
    weight: np.ndarray,
    stage: OutputStage,
    form: str,
) -> None:
    """A generated block: six channels at a time with the DSP extension, eight with Helium."""
    zero_point = int(dialect.attributes(call)["input_zero_point"])
    units, depth = weight.shape
    batch = int(np.prod(shape_of(call))) // units
    requantizer = Requantizer.of(stage)
    if form == "mve":
        steps = -(-depth // 16)
        block = matmul_mve_block(1, steps, units, units, requantizer, UNROLLED_MVE[ctx.level], wide=8)
        records = matmul_mve_records(weight, stage, zero_point, 8)
        workspace, fill, at_once = 16 * steps if depth % 16 else 0, 16 * steps - depth, 8
    else:
        rows = tile_rows(weight, depth)
        rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 4)))
        steps, packed = rows.shape[1] // 2, packs_lanes(weight, stage.params[:, 0])
        block = vector_block(steps, units, packed, requantizer, _UNROLLED[ctx.level])
        records = vector_records(rows, stage, zero_point, packed)
        workspace, fill, at_once = 4 * steps, steps - -(-depth // 2), GROUP
    source = ctx.render(
        "dense_block.c.j2",
        block=block_text(ctx, block, "block"),
        mve=form == "mve",
        batch=batch,
        units=units,
        depth=depth,
        fill=fill,
        at_once=at_once,
        direct=workspace == 0,
    )
    headers = (*HEADERS, *EXTRA_HEADERS[form])
    kernel = ctx.kernel(f"dense_{depth}_{units}", source, workspace=workspace, headers=headers)
    add_block_call(ctx, kernel, "dense", node, data, output, records, macs=batch * weight.size, detail=form)
