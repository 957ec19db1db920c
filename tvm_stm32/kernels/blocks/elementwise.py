"""Sums and products of two int8 tensors walked alike, four codes a word, for cores with the DSP extension.

A sum: the codes in the upper bytes of halfwords, two masks a word, so that SMLAWB and SMLAWT multiply each by a factor
of 31 bits and add; the second's sum is shifted and saturated by one SSAT (:mod:`.affine` finds the factors). A product:
SXTAB16 takes the zero points off two codes, SMMLAR rounds twice the product of two as TFLM does first, SSAT shifts and
saturates; the second rounding and the zero point are added on the way (:mod:`.requantize`). Where a sum has no such
factors, what one operand contributes comes from a table and the other's is a shift: the rest is as in a product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .affine import Affine
from .program import POINTER_IN, POINTER_OUT, Block, Index, Variable, chunked

# Codes are in the upper bytes of halfwords and SMLAWB drops 16 bits of a product.
FRACTION = 8
_UPPER_BYTES = 0xFF00FF00


@dataclass(frozen=True)
class Rounding:
    """code = clamp((round(v multiplier / 2^32) + offset - (v < 0)) >> shift) of a doubled value v.

    ``rounded``: half up, else down; ``sign`` is whether the 1 is subtracted at all.
    """

    multiplier: int
    offset: int
    shift: int
    rounded: bool
    sign: bool
    low: int
    high: int

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Of the doubled ``values``, which fit 32 bits."""
        sums = (values * self.multiplier + ((1 << 31) if self.rounded else 0)) >> 32
        sums += self.offset - ((values < 0) if self.sign else 0)
        return np.asarray(np.clip(sums >> self.shift, self.low, self.high))

    def emit(self, block: Block, totals: Sequence[Variable], registers: _Scaling) -> None:
        """Turn ``totals`` (one or two) into their codes, in place and side by side."""
        addends = [registers.offset] * len(totals)
        if self.sign:
            pairs = zip(registers.scratch, totals, strict=False)
            addends = [block.emit("add_sign", scratch, registers.offset, total) for scratch, total in pairs]
        for total, addend in zip(totals, addends, strict=True):
            block.emit("smmlar" if self.rounded else "smmla", total, total, registers.multiplier, addend)
        _saturate(block, totals, self.shift, self.low, self.high)

    def begin(self, block: Block) -> _Scaling:
        """Constants in registers."""
        multiplier = block.set(block.variable("multiplier"), self.multiplier)
        offset = block.set(block.variable("offset"), self.offset)
        return _Scaling(multiplier, offset, [block.variable(f"scratch{n}") for n in range(2)])


@dataclass(frozen=True)
class _Scaling:
    """Registers of a :class:`Rounding`."""

    multiplier: Variable
    offset: Variable
    scratch: list[Variable]


def fit_rounding(wanted: np.ndarray, values: np.ndarray, attrs: Mapping[str, Any]) -> Rounding | None:
    """The rounding that makes ``wanted`` of all doubled ``values``, if there is one; attributes of the operator."""
    right, zero_point = -attrs["shift"], attrs["output_zero_point"]
    if not 0 <= right <= 22 or attrs["multiplier"] <= 0 or np.abs(values).max() >= 1 << 31:
        return None
    offset = ((2 * zero_point + 1) << right) >> 1 if right else zero_point
    for rounded in (True, False):
        for sign in (False, True):
            limits = attrs["clamp_min"], attrs["clamp_max"]
            found = Rounding(attrs["multiplier"], offset, right, rounded, sign, *limits)
            if np.array_equal(found.codes(values), wanted):
                return found
    return None


@dataclass(frozen=True)
class TableSum:
    """A doubled sum is the direct operand's code times 2^shift, and the other's ``entries`` [256] (int32)."""

    direct: int
    shift: int
    entries: tuple[int, ...]
    rounding: Rounding


def fit_table(wanted: np.ndarray, parts: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> TableSum | None:
    """``parts`` [2][256] are what the operands contribute to the sum (already negative where they are subtracted)."""
    for direct, part in enumerate(parts):
        step = int(part[1] - part[0])
        if step <= 0 or step & (step - 1) or not (np.diff(part) == step).all():
            continue
        entries = 2 * (parts[1 - direct] + part[0] + 128 * step)
        doubled = 2 * (parts[0][:, None] + parts[1][None, :])
        rounding = fit_rounding(wanted, doubled, attrs)
        if rounding is not None and np.abs(entries).max() < 1 << 31:
            return TableSum(direct, step.bit_length(), tuple(map(int, entries)), rounding)
    return None


def sum_block(count: int, rule: Affine, low: int, high: int, unrolled: int) -> Block:
    """``NAME(lhs, rhs, output)``: ``count`` sums, ``unrolled`` words a turn. ``rule`` is one of :data:`FRACTION`."""
    assert rule.fraction == FRACTION
    block, (lhs, rhs, output) = _begin()
    factors = [block.set(block.variable(name), value) for name, value in (("a", rule.lhs), ("b", rule.rhs))]
    offset = block.set(block.variable("offset"), rule.offset)
    mask = block.variable("mask")
    words = [block.variable("x"), block.variable("y")]
    parts = [block.variable("xs"), block.variable("ys")]
    sums = [block.variable("sum0"), block.variable("sum1")]

    def quad(places: list[int | Index]) -> None:
        for word, pointer in zip(words, (lhs, rhs), strict=True):
            block.emit("take_any_1", (word, pointer), pointer)
        for odd in (1, 0):
            for part, word in zip(parts, words, strict=True):
                if odd:
                    block.emit("and", part, word, mask)
                else:
                    block.emit("and_shifted_left", part, mask, word, constant=8)
            for operation, total in zip(("smlawb", "smlawt"), sums, strict=True):
                block.emit(operation, total, factors[0], parts[0], offset)
            for operation, total in zip(("smlawb", "smlawt"), sums, strict=True):
                block.emit(operation, total, factors[1], parts[1], total)
            _saturate(block, sums, rule.shift, low, high)
            _store(block, output, sums, places[odd::2])

    def single(place: int) -> None:
        for part, pointer in zip(parts, (lhs, rhs), strict=True):
            block.emit("load_s8", part, pointer, constant=place)
            block.emit("shift_left", part, part, constant=8)
        block.emit("smlawb", sums[0], factors[0], parts[0], offset)
        block.emit("smlawb", sums[0], factors[1], parts[1], sums[0])
        _saturate(block, sums[:1], rule.shift, low, high)
        _store(block, output, sums[:1], [place])

    if count >= 4:
        block.set(mask, _UPPER_BYTES)
    _walk(block, [output], count, unrolled, quad, single)
    return block


def product_block(count: int, zero_points: tuple[int, int], rule: Rounding, unrolled: int) -> Block:
    """``NAME(lhs, rhs, output)``: ``count`` products of codes less their zero points, ``unrolled`` words a turn."""
    block, (lhs, rhs, output) = _begin()
    scaling = rule.begin(block)
    # Zero points of two codes, taken off by adding; of equal ones a register.
    zeros: list[Variable | None] = []
    for name, zero_point in zip(("zero_x", "zero_y"), zero_points, strict=True):
        if zero_point == 0:
            zeros.append(None)
        elif zeros and zero_points[0] == zero_point:
            zeros.append(zeros[0])
        else:
            zeros.append(block.set(block.variable(name), _twice(-zero_point)))
    words = [block.variable("x"), block.variable("y")]
    parts = [block.variable("xs"), block.variable("ys")]
    products = [block.variable("p0"), block.variable("p1")]

    def less_zero(target: Variable, word: Variable, zero: Variable | None, ending: str) -> None:
        if zero is None:
            block.emit(f"sxtb16{ending}", target, word)
        else:
            block.emit(f"sxtab16{ending}", target, zero, word)

    def quad(places: list[int | Index]) -> None:
        for word, pointer in zip(words, (lhs, rhs), strict=True):
            block.emit("take_any_1", (word, pointer), pointer)
        for odd, ending in ((0, ""), (1, "_odd")):
            for part, word, zero in zip(parts, words, zeros, strict=True):
                less_zero(part, word, zero, ending)
            block.emit("sadd16", parts[0], parts[0], parts[0])
            for operation, total in zip(("smulbb", "smultt"), products, strict=True):
                block.emit(operation, total, *parts)
            rule.emit(block, products, scaling)
            _store(block, output, products, places[odd::2])

    def single(place: int) -> None:
        for part, pointer, zero in zip(parts, (lhs, rhs), zeros, strict=True):
            block.emit("load_s8", part, pointer, constant=place)
            less_zero(part, part, zero, "")
        block.emit("sadd16", parts[0], parts[0], parts[0])
        block.emit("smulbb", products[0], *parts)
        rule.emit(block, products[:1], scaling)
        _store(block, output, products[:1], [place])

    _walk(block, [output], count, unrolled, quad, single)
    return block


def table_block(count: int, rule: TableSum, unrolled: int) -> Block:
    """``NAME(direct, other, table, output)``: ``count`` sums; ``table`` is the middle of the entries' array."""
    direct, other = Variable("direct", POINTER_IN), Variable("other", POINTER_IN)
    table, output = Variable("table", POINTER_IN), Variable("output", POINTER_OUT)
    block = Block([direct, other, table, output])
    scaling = rule.rounding.begin(block)
    xs, ys = ([block.variable(f"{name}{n}") for n in range(2)] for name in "xy")

    def few(places: Sequence[int | Index]) -> None:
        count = len(places)
        for codes, pointer in ((ys, other), (xs, direct)):
            for code, place in zip(codes, places, strict=False):
                block.emit("load_s8", code, pointer, constant=place)
        for y in ys[:count]:
            block.emit("load_entry", y, table, y)
        for x, y in zip(xs[:count], ys, strict=False):
            block.emit("add_shifted", x, y, x, constant=rule.shift)
        rule.rounding.emit(block, xs[:count], scaling)
        _store(block, output, xs[:count], places)

    def quad(places: list[int | Index]) -> None:
        few(places[:2])
        few(places[2:])

    def single(place: int) -> None:
        few([place])

    _walk(block, [direct, other, output], count, unrolled, quad, single)
    return block


def _twice(half: int) -> int:
    """A word of two equal halfwords, as an int32."""
    return (half << 16) + (half & 0xFFFF)


def _begin() -> tuple[Block, list[Variable]]:
    parameters = [Variable("lhs", POINTER_IN), Variable("rhs", POINTER_IN), Variable("output", POINTER_OUT)]
    return Block(parameters), parameters


def _walk(
    block: Block,
    pointers: Sequence[Variable],
    count: int,
    unrolled: int,
    quad: Callable[[list[int | Index]], None],
    single: Callable[[int], None],
) -> None:
    """``quad`` for each word, with the places of its codes, and ``single`` for each code that is left.

    ``pointers`` are those that ``quad`` does not move.
    """
    length, chunks, rest = chunked(count // 4, unrolled)
    for steps, times in ((length, chunks), (rest, 1)):
        if steps == 0:
            continue
        with block.loop("turns", times):
            with block.repeat(steps) as k:
                quad([k(lane, 4) for lane in range(4)])
            for pointer in pointers:
                block.emit("advance", pointer, constant=4 * steps)
    for place in range(count % 4):
        single(place)


def _saturate(block: Block, totals: Sequence[Variable], shift: int, low: int, high: int) -> None:
    for total in totals:
        if shift:
            block.emit("saturate_8_shifted", total, total, constant=shift)
        else:
            block.emit("saturate_8", total, total)
    for total in totals:
        if low > -128:
            block.emit("at_least", total, constant=low)
        if high < 127:
            block.emit("at_most", total, constant=high)


def _store(block: Block, output: Variable, codes: Sequence[Variable], places: Sequence[int | Index]) -> None:
    for code, place in zip(codes, places, strict=True):
        block.emit("store_8", None, output, code, constant=place)
