"""Requantization of four sums at a time with Helium: VQRDMULH is TFLM's first rounding, VRSHL half up its second."""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .program import WORDS, Block, Variable
from .requantize import Requantizer


class VectorRequantizer:
    """Constants of an operator in registers: call it once in a block, before the loops."""

    def __init__(self, block: Block, stage: Requantizer, zero_point: Variable) -> None:
        self.block, self.stage, self.zero_point = block, stage, zero_point
        self.low, self.high = block.variable("low", WORDS), block.variable("high", WORDS)
        self.scratch = block.variable("sign", WORDS)
        for vector, bound in ((self.low, stage.clamp_min), (self.high, stage.clamp_max)):
            block.emit("vspread", vector, block.set(zero_point, bound))

    def begin(self) -> None:
        """Before :meth:`codes`, wherever the register of the zero point may have been used for something else."""
        if self.stage.zero_point:
            self.block.set(self.zero_point, self.stage.zero_point)

    def codes(self, sums: Variable, multiplier: Variable, shift: Variable, *, clamp: bool = True) -> Variable:
        """Turn ``sums`` (biases included) into codes, in place; ``shift`` is negative."""
        block = self.block
        if self.stage.sign:
            block.emit("vsign", self.scratch, sums)
        block.emit("vqrdmulh" if self.stage.rounded else "vqdmulh", sums, sums, multiplier)
        if self.stage.sign:
            block.emit("vadd", sums, sums, self.scratch)
        block.emit("vrshl", sums, sums, shift)
        if self.stage.zero_point:
            block.emit("vadd_scalar", sums, sums, self.zero_point)
        if clamp:
            block.emit("vmax", sums, sums, self.low)
            block.emit("vmin", sums, sums, self.high)
        return sums


def folded_biases(rows: np.ndarray, stage: OutputStage, zero_point: int) -> np.ndarray:
    """Biases for products of raw codes: sum w (x - z) = sum w x - z sum w, modulo 2^32; rows [channels, depth]."""
    sums = rows.reshape(len(rows), -1).astype(np.int64).sum(axis=1)
    values = stage.params[:, 0].astype(np.int64) - zero_point * sums
    return np.asarray((values & 0xFFFFFFFF).astype(np.uint32).view(np.int32))
