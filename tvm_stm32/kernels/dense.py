"""int8 dense layers."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, shape_of
from .context import KernelContext
from .linear import LinearKernel, add_linear_call, form_of
from .packing import can_pack_lanes, dsp_order, pack_dsp, pack_mve
from .stage import dsp_stage, mve_stage, output_stage
from .window import removed_text


def lower_dense(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.dense``: one row of the input at a time, widened once."""
    attrs = dialect.attributes(call)
    weight, bias = constant(call.args[1]), constant(call.args[2])
    assert weight is not None and bias is not None
    units, depth = weight.shape
    batch = int(np.prod(shape_of(call))) // units
    stage, weight = output_stage(call, weight, bias)
    form = form_of(ctx, stage)
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
    add_linear_call(ctx, "dense", node, data, output, chosen, batch * units * depth, form + removed_text(call))
