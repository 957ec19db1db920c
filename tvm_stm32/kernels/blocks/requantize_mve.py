"""Requantization of four sums at a time with Helium: VQRDMULH is TFLM's first rounding, VRSHL half up its second."""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .program import CODES, WORDS, Block, Variable
from .requantize import Requantizer


class VectorRequantizer:
    """Make it once in a block, before the loops.

    With ``bounds`` of words the limits of codes stay in two vector registers; of bytes they are made when needed, as
    narrowing saturates by itself and leaves little to do. ``scalar`` is a register for constants.
    """

    def __init__(self, block: Block, stage: Requantizer, scalar: Variable, bounds: str = WORDS) -> None:
        self.block, self.stage, self.scalar, self.bounds = block, stage, scalar, bounds
        self.sign = block.variable("sign", WORDS)
        self.limit = block.variable("limit", CODES)
        self.limits: dict[str, Variable] = {}
        if bounds == WORDS:
            for name, bound in (("vmax", stage.clamp_min), ("vmin", stage.clamp_max)):
                self.limits[name] = block.variable(f"{name[1:]}imum", WORDS)
                block.emit("vspread", self.limits[name], block.set(scalar, bound))

    def begin(self) -> None:
        """Before :meth:`codes`, wherever ``scalar`` may have been used for something else."""
        if self.stage.zero_point:
            self.block.set(self.scalar, self.stage.zero_point)

    def codes(self, sums: Variable, multiplier: Variable, shift: Variable) -> Variable:
        """Turn four sums (biases included) into codes not yet clamped, in place; ``shift`` is negative."""
        block = self.block
        if self.stage.sign:
            block.emit("vsign", self.sign, sums)
        block.emit("vqrdmulh" if self.stage.rounded else "vqdmulh", sums, sums, multiplier)
        if self.stage.sign:
            block.emit("vadd", sums, sums, self.sign)
        block.emit("vrshl", sums, sums, shift)
        if self.stage.zero_point:
            block.emit("vadd_scalar", sums, sums, self.scalar)
        return sums

    def clamp(self, codes: Variable) -> Variable:
        """Codes within their bounds, in place."""
        block = self.block
        for name, limit in self.limits.items():
            block.emit(name, codes, codes, limit)
        if self.bounds == CODES:
            for name, bound, idle in (("vmax_8", self.stage.clamp_min, -128), ("vmin_8", self.stage.clamp_max, 127)):
                if bound != idle:
                    block.emit("vspread_8", self.limit, block.set(self.scalar, bound))
                    block.emit(name, codes, codes, self.limit)
        return codes


def folded_biases(rows: np.ndarray, stage: OutputStage, zero_point: int) -> np.ndarray:
    """Biases for products of raw codes: sum w (x - z) = sum w x - z sum w, modulo 2^32; rows [channels, depth]."""
    sums = rows.reshape(len(rows), -1).astype(np.int64).sum(axis=1)
    values = stage.params[:, 0].astype(np.int64) - zero_point * sums
    return np.asarray((values & 0xFFFFFFFF).astype(np.uint32).view(np.int32))
