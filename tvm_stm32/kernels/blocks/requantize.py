"""Requantization in a block: two to four instructions from an accumulator to a code, exact.

An accumulator here holds twice the sum (inputs are doubled), so that TFLM's first rounding,
floor((2 x m + 2^31) / 2^32), is one SMMLAR; its second, and the zero point, are a constant added in the same
instruction: 2^(e-1) + (zero point << e), less 1 for negative sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..stage import OutputStage
from .program import Block, Variable


@dataclass(frozen=True)
class Requantizer:
    """How sums become codes: constants of the operator. ``sign`` is whether the rounding looks at a sum's sign.

    ``common`` is whether all channels have the same multiplier and shift. Blocks of matrix products have these once, at
    the head of their records: multiplier, rounding constant, right shift less one. ``compact`` records lack rounding
    constants of channels, which then are made from the shifts.
    """

    zero_point: int
    clamp_min: int
    clamp_max: int
    rounded: bool
    sign: bool
    common: bool = False
    compact: bool = False
    # Bytes of a code, the operation that stores one, and whether sums are to come doubled.
    size: ClassVar[int] = 1
    store: ClassVar[str] = "store_8"
    doubled: ClassVar[bool] = True

    @classmethod
    def of(cls, stage: OutputStage, *, compact: bool = False) -> Requantizer:
        """From an output stage whose ``fast`` holds."""
        rounded = stage.rounding == "tflm"
        # Ties below zero end at the zero point either way when that is where int8 begins and codes are clamped.
        relu = stage.zero_point == -128 and stage.clamp_min == -128
        same = (stage.params[:, 1] == stage.params[0, 1]).all() and (stage.shifts == stage.shifts[0]).all()
        return cls(
            stage.zero_point, stage.clamp_min, stage.clamp_max, rounded, rounded and not relu, bool(same), compact
        )

    def keep_common(self, block: Block, registers: Scaling, weights: Variable) -> None:
        """Before the loops: what all channels share goes from the head of the records onto the stack."""
        for number, register in enumerate((registers.multiplier, registers.offset, registers.shift)):
            block.emit("load", register, weights, constant=4 * number)
            block.park(register)
        block.emit("advance", weights, constant=12)

    def offsets(self, stage: OutputStage) -> np.ndarray:
        """Rounding constants of all channels: (2 zero point + 1) << (e - 1)."""
        return ((2 * self.zero_point + 1) << (stage.shifts.astype(np.int64) - 1)).astype(np.int32)

    def common_head(self, stage: OutputStage) -> np.ndarray:
        """Words for :meth:`keep_common`; none when channels differ."""
        if not self.common:
            return np.zeros(0, np.int32)
        return np.array([stage.params[0, 1], self.offsets(stage)[0], stage.shifts[0] - 1], np.int64).astype(np.int32)

    def recall_common(self, block: Block, registers: Scaling) -> None:
        """After :meth:`keep_common`, wherever codes are made."""
        for register in (registers.multiplier, registers.offset, registers.shift):
            block.unpark(register)

    def begin(
        self,
        block: Block,
        registers: Scaling,
        weights: Variable,
        multiplier_at: int,
        shift_at: int,
        *,
        offset_at: int | None = None,
    ) -> None:
        """A channel's multiplier, shift and (unless it is not there) rounding constant from its record."""
        block.emit("load", registers.multiplier, weights, constant=multiplier_at)
        if offset_at is not None:
            block.emit("load", registers.offset, weights, constant=offset_at)
            block.emit("load_u8", registers.shift, weights, constant=shift_at)
            return
        block.emit("load_u8", registers.shift, weights, constant=shift_at)
        # (2 zero point + 1) << (e - 1); the record holds e - 1.
        block.set(registers.offset, 2 * self.zero_point + 1)
        block.emit("shift_left_by", registers.offset, registers.offset, registers.shift)

    def code(self, block: Block, total: Variable, registers: Scaling) -> Variable:
        """Turn ``total`` (twice a sum) into its code, in place."""
        addend = registers.offset
        if self.sign:
            addend = block.emit("add_sign", registers.scratch, registers.offset, total)
        block.emit("smmlar" if self.rounded else "smmla", total, total, registers.multiplier, addend)
        block.emit("shift_right_by", total, total, registers.shift)
        block.emit("half_saturate_8", total, total)
        if self.clamp_min > -128:
            block.emit("at_least", total, constant=self.clamp_min)
        if self.clamp_max < 127:
            block.emit("at_most", total, constant=self.clamp_max)
        return total


class Scaling:
    """Registers of a requantization."""

    def __init__(self, block: Block) -> None:
        self.multiplier, self.shift = block.variable("multiplier"), block.variable("shift")
        self.offset, self.scratch = block.variable("offset"), block.variable("scratch")
