"""int8 dense layers."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, shape_of
from .block_call import HEADERS, add_block_call, block_text, fits_block, packs_lanes
from .blocks.requantize import Requantizer
from .blocks.vector import vector_block, vector_records
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
    if form == "dsp" and fits_block(stage, weight, units):
        _lower_block(ctx, call, node, data, output, weight, stage)
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
    ctx: KernelContext, call: relax.Call, node: str, data: str, output: str, weight: np.ndarray, stage: OutputStage
) -> None:
    """Cores with the DSP extension: a generated block of six channels."""
    zero_point = int(dialect.attributes(call)["input_zero_point"])
    units, depth = weight.shape
    batch = int(np.prod(shape_of(call))) // units
    rows = tile_rows(weight, depth)
    rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 4)))
    steps = rows.shape[1] // 2
    packed = packs_lanes(weight, stage.params[:, 0])
    block = vector_block(steps, units, packed, Requantizer.of(stage), _UNROLLED[ctx.level])
    source = ctx.render(
        "dense_block.c.j2",
        block=block_text(ctx, block, "block"),
        batch=batch,
        units=units,
        depth=depth,
        fill=steps - -(-depth // 2),
    )
    workspace = 4 * steps
    kernel = ctx.kernel(f"dense_{depth}_{units}", source, workspace=workspace, headers=HEADERS)
    words = vector_records(rows, stage, zero_point, packed)
    add_block_call(ctx, kernel, "dense", node, data, output, words, macs=batch * weight.size, detail="dsp")
