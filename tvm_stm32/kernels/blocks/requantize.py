"""Requantization in a block: two to four instructions from an accumulator to a code, exact.

An accumulator here holds twice the sum (inputs are doubled), so that TFLM's first rounding,
floor((2 x m + 2^31) / 2^32), is one SMMLAR; its second, and the zero point, are a constant added in the same
instruction: 2^(e-1) + (zero point << e), less 1 for negative sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..stage import OutputStage
from .program import Block, Variable


@dataclass(frozen=True)
class Requantizer:
    """How sums become codes: constants of the operator. ``sign`` is whether the rounding looks at a sum's sign."""

    zero_point: int
    clamp_min: int
    clamp_max: int
    rounded: bool
    sign: bool
    # Bytes of a code, and the operation that stores one.
    size: ClassVar[int] = 1
    store: ClassVar[str] = "store_8"

    @classmethod
    def of(cls, stage: OutputStage) -> Requantizer:
        """From an output stage whose ``fast`` holds."""
        rounded = stage.rounding == "tflm"
        # Ties below zero end at the zero point either way when that is where int8 begins and codes are clamped.
        relu = stage.zero_point == -128 and stage.clamp_min == -128
        return cls(stage.zero_point, stage.clamp_min, stage.clamp_max, rounded, rounded and not relu)

    def offset(self, block: Block, shift: Variable, target: Variable) -> Variable:
        """(2 zero point + 1) << (e - 1); ``shift`` holds e - 1."""
        block.set(target, 2 * self.zero_point + 1)
        return block.emit("shift_left_by", target, target, shift)

    def code(
        self, block: Block, total: Variable, multiplier: Variable, offset: Variable, shift: Variable, scratch: Variable
    ) -> Variable:
        """Turn ``total`` (twice a sum) into its code, in place."""
        addend = offset
        if self.sign:
            addend = block.emit("add_sign", scratch, offset, total)
        block.emit("smmlar" if self.rounded else "smmla", total, total, multiplier, addend)
        block.emit("shift_right_by", total, total, shift)
        block.emit("half_saturate_8", total, total)
        if self.clamp_min > -128:
            block.emit("at_least", total, constant=self.clamp_min)
        if self.clamp_max < 127:
            block.emit("at_most", total, constant=self.clamp_max)
        return total
