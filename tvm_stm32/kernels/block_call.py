"""What operators made of generated blocks have in common: their text, and calls (input, weights, output, scratch)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..library import Kernel
from .blocks.assembly import assembly_text
from .blocks.cost import block_cost
from .blocks.ctext import c_text
from .blocks.program import Block
from .blocks.requantize import Requantizer
from .context import KernelContext, constant_argument, tensor_argument
from .stage import OutputStage, accumulator_bound

# Instructions of C to call a block.
_CALL = 8
# Steps of an inner loop that are written out.
UNROLLED = {"time": 64, "balanced": 16, "ram": 16, "size": 4}
# Helium: sixteen depths a step.
UNROLLED_MVE = {"time": 16, "balanced": 4, "ram": 4, "size": 1}


def block_headers(ctx: KernelContext, form: str) -> tuple[str, ...]:
    """Runtime headers of a kernel made of blocks; the one for a core's instructions also checks the compiler's core.

    Blocks of the DSP extension in C are portable.
    """
    extra = {"mve": ("ai_kernels_mve.h",), "dsp": ("ai_kernels_dsp.h",) if ctx.assembly else ()}
    return ("ai_blocks.h", *extra[form])


def doubles(ctx: KernelContext) -> bool:
    """Whether two neighbouring words are best loaded by LDRD.

    On M4 and M33 it takes the time of two LDRs in a row and is one instruction less; M7 pairs a LDR with a product.
    """
    return ctx.target.cpu != "cortex-m7"


def block_function(
    ctx: KernelContext,
    block: Block,
    stem: str,
    form: str,
    calls: float,
    times: dict[str, int] | None = None,
) -> str:
    """A block in the form this build asks for: the name of its function, which all operators share that need it.

    The operator at hand calls it ``calls`` times; ``times``: see :func:`.cost.block_cost`.
    """
    wide = ctx.level == "time" and ctx.target.cpu in ("cortex-m3", "cortex-m4")
    cost = block_cost(block, ctx.target.cpu, wide=wide, times=times)
    # Calls differ where the data say how often loops go round.
    counted = f"{round(cost.instructions):,} instructions a call" if times is None else "any number of channels"
    title = f"Block {stem}: {counted}."
    text = title
    if not ctx.sketch:
        text = assembly_text(block, title, wide=wide) if ctx.assembly else c_text(block, title)
    known = len(ctx.library.kernels)
    name = ctx.kernel(stem, text, headers=block_headers(ctx, form)).name
    code = cost.code if len(ctx.library.kernels) > known else 0.0
    ctx.usage.add(calls * (cost.instructions + _CALL), calls * (cost.cycles + 2 * _CALL), code)
    return name


def requantizer_of(ctx: KernelContext, stage: OutputStage, weight: np.ndarray, form: str) -> Requantizer | None:
    """How a block turns sums into codes; None when C has to, since a rule or a bound is not that of the fast form.

    The DSP form doubles sums, which must still fit 32 bits.
    """
    doubled = 2 * accumulator_bound(weight, stage.params[:, 0]) < (1 << 31)
    if not stage.fast or not (form == "mve" or doubled.all()):
        return None
    return Requantizer.of(stage, compact=ctx.level != "time")


def finish_values(stage: OutputStage, requantizer: Requantizer | None) -> dict[str, Any]:
    """Template values for requantization in C: none when the block does it."""
    return {"sums": requantizer is None, **stage.values}


def packs_lanes(weight: np.ndarray, bias: np.ndarray, group_out: int = 0) -> bool:
    """Whether two channels may share halfwords as 256 * w1 + w0: |w1| <= 127, twice an odd channel's sum < 2^23.

    Pairs begin anew in each group of ``group_out`` channels.
    """
    channels = np.arange(len(weight))
    partners = channels[(channels % (group_out or len(weight))) % 2 == 1]
    odd = weight.reshape(len(weight), -1)[partners].astype(np.int64)
    reach = 255 * np.maximum(np.maximum(odd, 0).sum(axis=1), np.maximum(-odd, 0).sum(axis=1))
    return bool((odd > -128).all() and (2 * (reach + np.abs(bias[partners].astype(np.int64))) < (1 << 23)).all())


def part_of(stage: OutputStage, start: int, count: int) -> OutputStage:
    """The stage of ``count`` channels from ``start``."""
    part = slice(start, start + count)
    return replace(stage, params=stage.params[part], shifts=stage.shifts[part])


def add_block_call(
    ctx: KernelContext,
    kernel: Kernel,
    operator: str,
    node: str,
    data: str,
    output: str,
    records: np.ndarray,
    *,
    macs: int,
    detail: str,
    distance: int | None = None,
    same_place: bool = False,
    finish: OutputStage | None = None,
) -> None:
    """Add a call of ``kernel`` with its weights and parameters ``records`` (int32 words).

    ``finish`` are the tables of a kernel that requantizes in C; ``distance`` and ``same_place``: see
    :meth:`.KernelContext.add_kernel_call`.
    """
    stem = f"{operator}_{len(ctx.library.calls)}"
    name = ctx.constant(f"{stem}_weights", records)
    arguments = [tensor_argument(data, "int8"), constant_argument(name, "int32")]
    if finish is not None:
        arguments.append(constant_argument(ctx.constant(f"{stem}_params", finish.params), "int32"))
        arguments.append(constant_argument(ctx.constant(f"{stem}_shifts", finish.shifts), "int8"))
    arguments.append(tensor_argument(output, "int8"))
    ctx.add_kernel_call(
        operator,
        node,
        kernel,
        arguments,
        data,
        output,
        macs=macs,
        detail=detail,
        workspace=kernel.workspace,
        distance=distance,
        same_place=same_place,
    )
