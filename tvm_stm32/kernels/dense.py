"""int8 dense layers."""

from __future__ import annotations

from functools import partial

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, shape_of
from .block_call import (
    UNROLLED_MVE,
    add_block_call,
    block_function,
    block_headers,
    finish_values,
    packs_lanes,
    requantizer_of,
)
from .blocks.matmul_mve import VectorLayout, matmul_mve_block, matmul_mve_records
from .blocks.nibbles_mve import nibbles_mve_block, nibbles_mve_records
from .blocks.product_vector import product_vector_block
from .blocks.vector import GROUP, code_rows, vector_block, vector_records
from .choice import lower_best
from .context import KernelContext
from .convolution_block import tile_rows
from .linear import LinearKernel, add_linear_call, form_of
from .nibbles import bits_text, nibble_records, weight_bits
from .scalar_block import has_scalar_blocks, lower_quads
from .stage import OutputStage, output_stage
from .window import removed_text


def lower_dense(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.dense``: one row of the input at a time, widened once."""
    weight, bias = constant(call.args[1]), constant(call.args[2])
    assert weight is not None and bias is not None
    stage, weight = output_stage(call, weight, bias)
    form = form_of(ctx)
    if form == "scalar":
        if not has_scalar_blocks(ctx) or not lower_quads(ctx, call, node, data, output, weight, stage):
            _lower_scalar(ctx, call, node, data, output, weight, stage)
    else:
        widths = {"vector": 8}
        if form == "dsp":
            widths["codes"] = 8
        bits = weight_bits(ctx, weight, stage)
        if bits < 8:
            widths = (
                {"narrow": bits} if ctx.level != "time" and not ctx.wanted_form(node) else {**widths, "narrow": bits}
            )
        lower_best(
            ctx,
            node,
            {
                name: partial(
                    _lower_block,
                    call=call,
                    node=node,
                    data=data,
                    output=output,
                    weight=weight,
                    stage=stage,
                    form=form,
                    bits=width,
                    codes=name == "codes",
                )
                for name, width in widths.items()
            },
        )
    ctx.library.calls[-1].detail += removed_text(call)


def _lower_scalar(
    ctx: KernelContext, call: relax.Call, node: str, data: str, output: str, weight: np.ndarray, stage: OutputStage
) -> None:
    units, depth = weight.shape
    batch = int(np.prod(shape_of(call))) // units
    zero_point = dialect.attributes(call)["input_zero_point"]
    source = ctx.render(
        "dense.c.j2", batch=batch, units=units, depth=depth, input_zero_point=zero_point, **stage.values
    )
    chosen = LinearKernel(f"dense_{depth}_{units}", source, weight.reshape(-1), stage, depth * 2)
    add_linear_call(ctx, "dense", node, data, output, chosen, batch * units * depth, "scalar")


_UNROLLED = {"time": 16, "balanced": 4, "ram": 4, "size": 2}
# Instructions to widen a code, or with Helium to copy it.
_SPREAD, _COPIED = 2.6, 0.3


def _lower_block(
    ctx: KernelContext,
    call: relax.Call,
    node: str,
    data: str,
    output: str,
    weight: np.ndarray,
    stage: OutputStage,
    form: str,
    bits: int,
    codes: bool,
) -> None:
    """A generated block: six channels at a time with the DSP extension, eight with Helium; ``bits`` of a weight.

    ``codes``: the block reads the input itself; without, a tile that holds it widened (Helium: filled up to vectors).
    """
    zero_point = int(dialect.attributes(call)["input_zero_point"])
    units, depth = weight.shape
    batch = int(np.prod(shape_of(call))) // units
    requantizer = requantizer_of(ctx, stage, weight, form)
    finished = requantizer is not None
    if form == "mve":
        steps = -(-depth // 16)
        make, table = (matmul_mve_block, matmul_mve_records) if bits == 8 else (nibbles_mve_block, nibbles_mve_records)
        block = make(1, VectorLayout(steps, 16 * steps), units, units, requantizer, UNROLLED_MVE[ctx.level], wide=8)
        records = table(weight, stage, zero_point, 8, requantizer)
        tile_bytes, fill, at_once = 16 * steps, 16 * steps - depth, 8
        codes = depth % 16 == 0
        ctx.usage.add(0 if codes else batch * depth * _COPIED)
    elif codes:
        packed = packs_lanes(weight, stage.params[:, 0])
        block = vector_block(depth, units, packed, requantizer, _UNROLLED[ctx.level], codes=True)
        records = vector_records(code_rows(weight), stage, zero_point, packed, requantizer, codes=True)
        tile_bytes, fill, at_once = 0, 0, GROUP
    else:
        rows = tile_rows(weight, depth)
        rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 4)))
        steps, packed = rows.shape[1] // 2, packs_lanes(weight, stage.params[:, 0])
        if bits < 8:
            block = product_vector_block(steps, units, requantizer, _UNROLLED[ctx.level], bits=bits)
            records = nibble_records(rows, stage, zero_point, bits, requantizer, vector=True)
        else:
            block = vector_block(depth, units, packed, requantizer, _UNROLLED[ctx.level])
            records = vector_records(rows, stage, zero_point, packed, requantizer)
        tile_bytes, fill, at_once = 4 * steps, steps - -(-depth // 2), GROUP
        ctx.usage.add(batch * depth * _SPREAD)
    workspace = (0 if codes else tile_bytes) + (0 if finished else 4 * units)
    source = ctx.render(
        "dense_block.c.j2",
        **finish_values(stage, requantizer),
        block=block_function(ctx, block, f"matmul_1px_{depth}_{units}", form, batch),
        mve=form == "mve",
        batch=batch,
        units=units,
        depth=depth,
        fill=fill,
        at_once=at_once,
        tile_bytes=0 if codes else tile_bytes,
        workspace=workspace,
    )
    kernel = ctx.kernel(f"dense_{depth}_{units}", source, workspace=workspace, headers=block_headers(ctx, form))
    add_block_call(
        ctx,
        kernel,
        "dense",
        node,
        data,
        output,
        records,
        macs=batch * weight.size,
        detail=form + bits_text(bits),
        finish=None if finished else stage,
    )
