"""Convolution on cores with the DSP extension: generated blocks of four pixels by two channels."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect
from ..library import Call
from .blocks.assembly import assembly_text
from .blocks.ctext import c_text
from .blocks.matmul import matmul_block, matmul_records
from .blocks.program import Block
from .blocks.requantize import Requantizer
from .context import KernelContext, constant_argument, tensor_argument, workspace_argument
from .stage import OutputStage, accumulator_bound
from .window import detail_text, geometry_of

HEADERS = ("ai_blocks.h",)
# Offsets of a load or store reach 4095 bytes: four pixels of an output must lie within them.
_MAX_STRIDE = 1365
_UNROLLED = {"time": 64, "balanced": 16, "ram": 16, "size": 4}


def block_text(ctx: KernelContext, block: Block, name: str) -> str:
    """A block in the form this build asks for, as a function ``NAME_name``."""
    text = assembly_text(block) if ctx.assembly else c_text(block)
    return text.replace("void NAME(", f"void NAME_{name}(")


def fits_block(stage: OutputStage, weight: np.ndarray, channels: int) -> bool:
    """Whether the generated blocks are exact here: doubled sums must fit, channels come in pairs."""
    doubled = 2 * accumulator_bound(weight, stage.params[:, 0]) < (1 << 31)
    return bool(stage.fast and doubled.all() and channels % 2 == 0 and weight.shape[0] <= _MAX_STRIDE)


def packs_lanes(weight: np.ndarray, bias: np.ndarray) -> bool:
    """Whether two channels may share halfwords as 256 * w1 + w0: |w1| <= 127, twice an odd channel's sum < 2^23."""
    odd = weight[1::2].reshape(len(weight) // 2, -1).astype(np.int64)
    reach = 255 * np.maximum(np.maximum(odd, 0).sum(axis=1), np.maximum(-odd, 0).sum(axis=1))
    return bool((odd > -128).all() and (2 * (reach + np.abs(bias[1::2].astype(np.int64))) < (1 << 23)).all())


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
            block = matmul_block(
                pixels, steps, group_out, weight.shape[0], packed, requantizer, _UNROLLED[ctx.level]
            )
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
    name = ctx.constant(f"conv2d_{len(ctx.library.calls)}_weights", words)
    arguments = (
        tensor_argument(data, "int8"),
        constant_argument(name, "int32"),
        tensor_argument(output, "int8"),
        workspace_argument("int8_t"),
    )
    ctx.add_call(
        Call(
            "conv2d",
            node,
            kernel.name,
            arguments,
            (data,),
            (output,),
            macs=total * weight[0].size * weight.shape[0],
            workspace=workspace,
            detail=detail_text(geometry, weight, groups, "dsp"),
        )
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
