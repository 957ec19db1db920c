"""What operators made of generated blocks have in common: their text, and calls (input, weights, output, scratch)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..library import Call, Kernel
from .blocks.assembly import assembly_text
from .blocks.ctext import c_text
from .blocks.program import Block
from .context import KernelContext, constant_argument, tensor_argument, workspace_argument
from .stage import OutputStage, accumulator_bound

HEADERS = ("ai_blocks.h",)
# Steps of an inner loop that are written out.
UNROLLED = {"time": 64, "balanced": 16, "ram": 16, "size": 4}
EXTRA_HEADERS: dict[str, tuple[str, ...]] = {"dsp": (), "mve": ("ai_kernels_mve.h",)}
# Helium: sixteen depths a step.
UNROLLED_MVE = {"time": 16, "balanced": 4, "ram": 4, "size": 1}
# Offsets of a load or store reach 4095 bytes: four pixels of an output must lie within them.
_MAX_CHANNELS = 1365


def block_text(ctx: KernelContext, block: Block, name: str) -> str:
    """A block in the form this build asks for, as a function ``NAME_name``."""
    text = assembly_text(block) if ctx.assembly else c_text(block)
    return text.replace("void NAME(", f"void NAME_{name}(")


def fits_block(stage: OutputStage, weight: np.ndarray, channels: int, form: str = "dsp") -> bool:
    """Whether blocks are exact for ``weight`` [all channels, ...], and ``channels`` of a group come in twos or fours.

    The DSP form doubles sums, which must still fit 32 bits.
    """
    if form == "mve":
        return bool(stage.fast and channels % 4 == 0)
    doubled = 2 * accumulator_bound(weight, stage.params[:, 0]) < (1 << 31)
    return bool(stage.fast and doubled.all() and channels % 2 == 0 and weight.shape[0] <= _MAX_CHANNELS)


def packs_lanes(weight: np.ndarray, bias: np.ndarray) -> bool:
    """Whether two channels may share halfwords as 256 * w1 + w0: |w1| <= 127, twice an odd channel's sum < 2^23."""
    odd = weight[1::2].reshape(len(weight) // 2, -1).astype(np.int64)
    reach = 255 * np.maximum(np.maximum(odd, 0).sum(axis=1), np.maximum(-odd, 0).sum(axis=1))
    return bool((odd > -128).all() and (2 * (reach + np.abs(bias[1::2].astype(np.int64))) < (1 << 23)).all())


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
    in_place: bool = False,
) -> None:
    """Add a call of ``kernel`` with its weights and parameters ``records`` (int32 words)."""
    name = ctx.constant(f"{operator}_{len(ctx.library.calls)}_weights", records)
    arguments = [tensor_argument(data, "int8"), constant_argument(name, "int32"), tensor_argument(output, "int8")]
    if kernel.workspace:
        arguments.append(workspace_argument("int8_t"))
    ctx.add_call(
        Call(
            operator,
            node,
            kernel.name,
            tuple(arguments),
            (data,),
            (output,),
            macs=macs,
            workspace=kernel.workspace,
            in_place=data if in_place else "",
            detail=detail,
        )
    )
