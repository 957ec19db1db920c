"""Requantization in a block for cores without the DSP extension, exact.

TFLM's first rounding is floor((x m + 2^30) / 2^31) = x + floor((x (2 m - 2^32) + 2^31) / 2^32): one SMLAL onto x and a
half; its second, and the zero point, are a constant added to the high word: 2^(e-1) + (zero point << e), less 1 for
negative x. Cores without long products split the multiplier (``ai_scale_parts``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..stage import OutputStage
from .program import Block, Variable
from .requantize import Requantizer

# Words of a channel's record: multiplier, rounding constant, right shift.
SCALING_BYTES = 12


@dataclass(frozen=True)
class ScalarRequantizer:
    """How a sum becomes a code. ``long_products``: the core has SMLAL; ``bits``: those of the sums, sign included."""

    rule: Requantizer
    long_products: bool
    bits: int = 32

    def records(self, stage: OutputStage) -> np.ndarray:
        """Words [channels, 3] of the channels of ``stage``."""
        multiplier = stage.params[:, 1].astype(np.int64)
        if self.long_products:
            multiplier = 2 * multiplier - (1 << 32)
        shifts = stage.shifts.astype(np.int64)
        return np.stack([multiplier, self.rule.offsets(stage).astype(np.int64), shifts], axis=1)

    def begin(self, block: Block, registers: ScalarScaling, weights: Variable, at: int) -> None:
        """Load a channel's scaling, ``at`` bytes behind ``weights``."""
        for number, register in enumerate((registers.multiplier, registers.offset, registers.shift)):
            block.emit("load_word", register, weights, constant=at + 4 * number)

    def code(self, block: Block, total: Variable, registers: ScalarScaling) -> Variable:
        """The code of ``total``; returns the variable it is in."""
        high, rule = registers.high, self.rule
        if not self.long_products:
            parts = "scale_parts" if self.bits <= 21 else "scale_parts_wide"
            parts += "" if rule.rounded else "_down"
            block.emit(parts, high, total, registers.multiplier)
            block.emit("add", high, high, registers.offset)
        else:
            block.emit("add", high, registers.offset, total)
            block.set(registers.low, -(1 << 31) if rule.rounded else 0)
            block.emit("multiply_add_long", (registers.low, high), total, registers.multiplier)
        if rule.sign:
            block.emit("add_sign", high, high, total)
        block.emit("shift_right_by", high, high, registers.shift)
        block.emit("saturate_8", high, high)
        if rule.clamp_min > -128:
            block.emit("at_least", high, constant=rule.clamp_min)
        if rule.clamp_max < 127:
            block.emit("at_most", high, constant=rule.clamp_max)
        return high


class ScalarScaling:
    """Registers of a requantization."""

    def __init__(self, block: Block) -> None:
        self.multiplier, self.offset = block.variable("multiplier"), block.variable("offset")
        self.shift = block.variable("shift")
        self.low, self.high = block.variable("low"), block.variable("code")
