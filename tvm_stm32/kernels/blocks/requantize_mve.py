"""Requantization of four sums at a time with Helium: VQRDMULH is TFLM's first rounding, VRSHL half up its second."""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .program import WORDS, Block, Variable
from .requantize import Requantizer


class VectorRequantizer:
    """Call it once in a block, before the loops: bounds of codes stay in registers, as lanes of type ``bounds``.

    ``scalar`` is a register for the output zero point, which :meth:`begin` fills.
    """

    def __init__(self, block: Block, stage: Requantizer, scalar: Variable, bounds: str = WORDS) -> None:
        self.block, self.stage, self.scalar, self.bounds = block, stage, scalar, bounds
        self.sign = block.variable("sign", WORDS)
        # Narrowing to bytes saturates by itself.
        self.limits: dict[str, Variable] = {}
        for name, bound, idle in (("vmax", stage.clamp_min, -128), ("vmin", stage.clamp_max, 127)):
            if bounds == WORDS or bound != idle:
                self.limits[name] = block.variable(f"{name[1:]}imum", bounds)
                operation = "vspread" if bounds == WORDS else "vspread_8"
                block.emit(operation, self.limits[name], block.set(scalar, bound))

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
        for name, limit in self.limits.items():
            self.block.emit(name if self.bounds == WORDS else f"{name}_8", codes, codes, limit)
        return codes


def folded_biases(rows: np.ndarray, stage: OutputStage, zero_point: int) -> np.ndarray:
    """Biases for products of raw codes: sum w (x - z) = sum w x - z sum w, modulo 2^32; rows [channels, depth]."""
    sums = rows.reshape(len(rows), -1).astype(np.int64).sum(axis=1)
    values = stage.params[:, 0].astype(np.int64) - zero_point * sums
    return np.asarray((values & 0xFFFFFFFF).astype(np.uint32).view(np.int32))
