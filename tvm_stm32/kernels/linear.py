"""Linear kernels whose tables of bias, multiplier and shift are arrays of their own, and the form a target gets.

* scalar: portable C, two pixels by two channels on an int16 tile; M0+ and M3 have blocks too (:mod:`.scalar_block`);
* dsp, mve: generated blocks (:mod:`.block_call`); depthwise kernels whose channels are not in fours stay scalar.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .context import KernelContext, constant_argument, tensor_argument
from .stage import OutputStage

HEADERS = ("ai_kernels.h",)


def form_of(ctx: KernelContext) -> str:
    """scalar, dsp or mve for this target."""
    if ctx.target.mve:
        return "mve"
    return "dsp" if ctx.target.dsp else "scalar"


@dataclass(frozen=True)
class LinearKernel:
    """A chosen kernel: its C source under the stem of its name, its weights and tables, its scratch memory in bytes."""

    stem: str
    source: str
    weights: np.ndarray
    stage: OutputStage
    workspace: int


def add_linear_call(
    ctx: KernelContext, operator: str, node: str, data: str, output: str, chosen: LinearKernel, macs: int, detail: str
) -> None:
    """Add a kernel's constants and its call: (input, weights, params, shifts, output[, tile])."""
    kernel = ctx.kernel(chosen.stem, chosen.source, workspace=chosen.workspace, headers=HEADERS)
    stem = f"{operator}_{len(ctx.library.calls)}"
    arguments = [
        tensor_argument(data, "int8"),
        constant_argument(ctx.constant(f"{stem}_weights", chosen.weights.astype(np.int8)), "int8"),
        constant_argument(ctx.constant(f"{stem}_params", chosen.stage.params), "int32"),
        constant_argument(ctx.constant(f"{stem}_shifts", chosen.stage.shifts), "int8"),
        tensor_argument(output, "int8"),
    ]
    ctx.add_kernel_call(
        operator,
        node,
        kernel,
        arguments,
        data,
        output,
        macs=macs,
        detail=detail,
        workspace=chosen.workspace,
        workspace_ctype="int16_t",
    )
