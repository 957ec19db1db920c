"""Requantization of int16 codes in a block: one multiplication and a saturation, exact.

TFLM scales an int64 accumulator x by 16 bits of multiplier and rounds once: (x m + 2^(t-1)) >> t with t = 15 - shift.
Where x fits 32 bits and 16 <= t <= 32 this is (x m' + 2^31) >> 32 with m' = m << (32 - t), one SMMULR (VRMULH).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...numerics import multiply_wide, reduce_multiplier
from .program import Block, Variable
from .requantize import Scaling


@dataclass(frozen=True)
class WideRequantizer:
    """The bounds of codes; used like :class:`.Requantizer`."""

    clamp_min: int
    clamp_max: int
    size: ClassVar[int] = 2
    store: ClassVar[str] = "store_16"
    doubled: ClassVar[bool] = False
    common: ClassVar[bool] = False

    @property
    def sign(self) -> bool:
        """Whether a code takes a second register: for a bound that no saturation has."""
        return self.clamp_min not in (0, -(1 << 15)) or self.clamp_max < (1 << 15) - 1

    def begin(
        self,
        block: Block,
        registers: Scaling,
        weights: Variable,
        multiplier_at: int,
        _shift_at: int,
        *,
        offset_at: int | None = None,  # noqa: ARG002 - there is no rounding constant
    ) -> None:
        """A channel's multiplier from its record; there is neither a shift nor a rounding constant."""
        block.emit("load", registers.multiplier, weights, constant=multiplier_at)

    def code(self, block: Block, total: Variable, registers: Scaling) -> Variable:
        """Turn ``total`` into its code, in place."""
        block.emit("smmulr", total, total, registers.multiplier)
        if self.clamp_min == 0:
            block.emit("saturate_u15", total, total)
        else:
            block.emit("saturate_16", total, total)
            if self.clamp_min > -(1 << 15):
                block.emit("at_least_of", total, block.set(registers.scratch, self.clamp_min))
        if self.clamp_max < (1 << 15) - 1:
            block.emit("at_most_of", total, block.set(registers.scratch, self.clamp_max))
        return total


@dataclass(frozen=True)
class WideScales:
    """Constants of each channel for the fast form."""

    weight: np.ndarray
    bias: np.ndarray
    multiplier: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray, bias: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> WideScales | None:
        """For weights [channels, ...], int64 biases and 32-bit multipliers; None when a bound does not hold.

        A channel whose code is the same for every input gets zero weights and parameters that give this code: with
        a multiplier of 2^30 a sum of 4 * code does.
        """
        low, high = wide_range(weight, bias)
        codes = [np.clip(multiply_wide(sums, multiplier, shift), -(1 << 15), (1 << 15) - 1) for sums in (low, high)]
        fixed = (codes[0] == codes[1]) & (np.maximum(-low, high) < (1 << 47))
        weight = np.where(fixed.reshape(-1, *[1] * (weight.ndim - 1)), 0, weight).astype(np.int8)
        bias = np.where(fixed, 4 * codes[0], bias)
        low, high = wide_range(weight, bias)
        right = 15 - np.asarray(shift, np.int64)
        narrow = (low >= -(1 << 31)) & (high < (1 << 31))
        if not (narrow & (fixed | ((right >= 16) & (right <= 32)))).all():
            return None
        reduced = np.array([reduce_multiplier(int(value)) for value in multiplier], np.int64)
        multipliers = np.where(fixed, 1 << 30, reduced << np.clip(32 - right, 0, 16))
        return cls(weight, bias.astype(np.int32), multipliers.astype(np.int32))


def wide_range(weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest sum of each channel over all int16 inputs (and zeros of padding)."""
    flat = weight.reshape(len(weight), -1).astype(np.int64)
    above, below = np.maximum(flat, 0).sum(axis=1), np.maximum(-flat, 0).sum(axis=1)
    wide = np.asarray(bias, np.int64)
    return wide - (above << 15) - below * ((1 << 15) - 1), wide + above * ((1 << 15) - 1) + (below << 15)
