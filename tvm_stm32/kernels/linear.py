"""Linear kernels whose tables of bias, multiplier and shift are arrays of their own, and the form a target gets.

* scalar: portable C, two pixels by two channels on an int16 tile;
* dsp, mve: generated blocks (:mod:`.block_call`); depthwise kernels of odd shapes are C with the DSP extension.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..library import Call
from .context import KernelContext, constant_argument, tensor_argument, workspace_argument
from .stage import OutputStage

HEADERS = {"scalar": ("ai_kernels.h",), "dsp": ("ai_kernels_dsp.h",)}


def form_of(ctx: KernelContext) -> str:
    """scalar, dsp or mve for this target."""
    if ctx.target.mve:
        return "mve"
    return "dsp" if ctx.target.dsp else "scalar"


@dataclass(frozen=True)
class LinearKernel:
    """A chosen kernel: its C source under the stem of its name, its weights and tables, its scratch memory in bytes.

    ``tile_ctype`` is the element type the kernel sees its scratch memory as.
    """

    stem: str
    source: str
    weights: np.ndarray
    stage: OutputStage
    workspace: int
    tile_ctype: str = "int16_t"
    form: str = "scalar"


def add_linear_call(
    ctx: KernelContext, operator: str, node: str, data: str, output: str, chosen: LinearKernel, macs: int, detail: str
) -> None:
    """Add a kernel's constants and its call: (input, weights, params, shifts, output[, tile])."""
    kernel = ctx.kernel(chosen.stem, chosen.source, workspace=chosen.workspace, headers=HEADERS[chosen.form])
    stem = f"{operator}_{len(ctx.library.calls)}"
    # The DSP blocks read the parameters of channel pairs: an odd last channel gets an unused partner.
    params = np.pad(chosen.stage.params, ((0, len(chosen.stage.params) % 2), (0, 0)))
    arguments = [
        tensor_argument(data, "int8"),
        constant_argument(ctx.constant(f"{stem}_weights", chosen.weights.astype(np.int8)), "int8"),
        constant_argument(ctx.constant(f"{stem}_params", params), "int32"),
        constant_argument(ctx.constant(f"{stem}_shifts", chosen.stage.shifts), "int8"),
        tensor_argument(output, "int8"),
    ]
    if chosen.workspace:
        arguments.append(workspace_argument(chosen.tile_ctype))
    ctx.add_call(
        Call(
            operator,
            node,
            kernel.name,
            tuple(arguments),
            (data,),
            (output,),
            macs=macs,
            workspace=chosen.workspace,
            detail=detail,
        )
    )
