"""Sums of two scaled codes as one product an operand and one shift, equal to the reference for every pair of codes.

TFLM rounds an operand of a sum to 2^-20 of a step, then the sum twice. An affine function followed by a shift differs
from that only for sums next to a tie, and which of them do depends on the last bits of its factors: a few are tried,
and all 65,536 pairs decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

CODES = np.arange(-128, 128, dtype=np.int64)
# Pairs nearest to a tie, by which factors are tried first; factors tried at a time.
_NEAREST, _BATCH = 512, 256
# How far factors tried at random are from the real ones.
_SPREADS = (2.0**-24, 2.0**-23, 2.0**-22, 2.0**-21, 2.0**-20, 2.0**-19)
_NONE = 1 << 60


@dataclass(frozen=True)
class Affine:
    """code = clamp((floor(lhs x / 2^fraction) + floor(rhs y / 2^fraction) + offset) >> shift) of codes x and y.

    Everything fits 32 bits, but for what is added up on the way there, which may wrap.
    """

    lhs: int
    rhs: int
    offset: int
    shift: int
    fraction: int

    def sums(self) -> np.ndarray:
        """What is shifted, [256, 256]."""
        terms = [(factor * CODES) >> self.fraction for factor in (self.lhs, self.rhs)]
        return np.asarray(terms[0][:, None] + terms[1][None, :] + self.offset)


@dataclass(frozen=True)
class SumOfCodes:
    """A sum to be had: ``codes`` [256, 256] within ``low`` to ``high``, and its real scales and zero points."""

    codes: np.ndarray
    scales: tuple[float, float]
    zero_points: tuple[int, int]
    output_zero_point: int
    low: int
    high: int


def fit_affine(wanted: SumOfCodes, fraction: int) -> Affine | None:
    """The function that gives exactly ``wanted``; None when none was found. Deterministic."""
    real = wanted.output_zero_point + sum(
        scale * (CODES - zero_point).reshape(shape)
        for scale, zero_point, shape in zip(wanted.scales, wanted.zero_points, ((-1, 1), (1, -1)), strict=True)
    )
    largest = max(map(abs, wanted.scales))
    if not 0 < largest < 1 << 16:
        return None
    shift = math.floor(31 - math.log2(np.abs(real).max() + 2))
    shift = min(shift, math.floor(31 - fraction - math.log2(largest * 1.001)), 31)
    if shift < 1:
        return None
    inside = (wanted.codes > wanted.low) & (wanted.codes < wanted.high)
    # Those outside bound from one side only.
    distance = np.abs(real + 0.5 - np.round(real + 0.5)) + np.where(inside, 0, 0.001)
    nearest = np.argpartition(distance.ravel(), _NEAREST)[:_NEAREST]
    x, y = CODES[nearest // 256], CODES[nearest % 256]
    search = _Search(wanted, shift, fraction)
    for batch in _factors(wanted.scales, shift, fraction):
        terms = ((batch[0][:, None] * x) >> fraction) + ((batch[1][:, None] * y) >> fraction)
        lower, upper = search.bounds(wanted.codes.ravel()[nearest], terms)
        room = upper - lower
        for best in np.argsort(-room, kind="stable")[:4]:
            if room[best] <= 0:
                break
            found = search.complete(int(batch[0][best]), int(batch[1][best]))
            if found is not None:
                return found
    return None


def _factors(scales: tuple[float, float], shift: int, fraction: int) -> list[np.ndarray]:
    """Pairs of factors [2, n] in batches: the real ones, those with few bits around them, others around them."""
    exact = np.array([[math.ldexp(scale, shift + fraction)] for scale in scales])
    near = np.stack([steps.ravel() for steps in np.meshgrid(np.arange(-8, 9), np.arange(-8, 9))])
    few = (np.round(exact / (1 << fraction)).astype(np.int64) + near) << fraction
    generator = np.random.default_rng(0)
    batches = [np.round(exact).astype(np.int64), few]
    for spread in _SPREADS:
        # Both alike, which decides ties of equal operands, and a little apart.
        change = generator.uniform(-1, 1, (1, _BATCH)) + generator.uniform(-0.25, 0.25, (2, _BATCH))
        batches.append(np.round(exact * (1 + spread * change)).astype(np.int64))
    return batches


@dataclass(frozen=True)
class _Search:
    wanted: SumOfCodes
    shift: int
    fraction: int

    def bounds(self, codes: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Offsets with which all ``terms`` (last axis) give ``codes``: from the first on, below the second."""
        lower = np.where(codes > self.wanted.low, (codes << self.shift) - terms, -_NONE).max(axis=-1)
        upper = np.where(codes < self.wanted.high, ((codes + 1) << self.shift) - terms, _NONE).min(axis=-1)
        return lower, upper

    def complete(self, lhs: int, rhs: int) -> Affine | None:
        """With the offset in the middle of those that are right for all pairs, if there are any and sums fit."""
        wanted = self.wanted
        if max(abs(lhs), abs(rhs)) >= 1 << 31:
            return None
        plain = Affine(lhs, rhs, 0, self.shift, self.fraction)
        lower, upper = map(int, self.bounds(wanted.codes.ravel(), plain.sums().ravel()))
        if lower >= upper:
            return None
        middle = (lower + upper) // 2
        if -_NONE in (lower, -upper):
            scaled = [scale * zero for scale, zero in zip(wanted.scales, wanted.zero_points, strict=True)]
            middle = min(max(lower, round((wanted.output_zero_point + 0.5 - sum(scaled)) * 2.0**self.shift)), upper - 1)
        found = Affine(lhs, rhs, middle, self.shift, self.fraction)
        sums = found.sums()
        # Proved here, whatever was assumed on the way.
        fits = abs(middle) < 1 << 31 and np.abs(sums).max() < 1 << 31
        equal = np.array_equal(np.clip(sums >> self.shift, wanted.low, wanted.high), wanted.codes)
        return found if fits and equal else None
