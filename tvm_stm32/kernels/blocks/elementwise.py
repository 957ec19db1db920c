"""Sums and products of two int8 tensors walked alike, four codes a word, for cores with the DSP extension.

A sum: the codes in the upper bytes of halfwords, two masks a word, so that SMLAWB and SMLAWT multiply each by a factor
of 31 bits and add; the second's sum is shifted and saturated by one SSAT (:mod:`.affine` finds the factors). A product:
SXTAB16 takes the zero points off two codes, SMMLAR rounds twice the product of two as TFLM does first, SSAT shifts and
saturates; the second rounding and the zero point are added on the way (:mod:`.requantize`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .affine import CODES, Affine
from .program import POINTER_IN, POINTER_OUT, Block, Index, Variable, chunked

# Codes are in the upper bytes of halfwords and SMLAWB drops 16 bits of a product.
FRACTION = 8
_UPPER_BYTES = 0xFF00FF00


@dataclass(frozen=True)
class Product:
    """code = clamp((round(2 p multiplier / 2^32) + offset - (p < 0)) >> shift), p a product of codes less zero points.

    ``rounded``: half up, else down; ``sign`` is whether the 1 is subtracted at all.
    """

    zero_points: tuple[int, int]
    multiplier: int
    offset: int
    shift: int
    rounded: bool
    sign: bool

    def codes(self, low: int, high: int) -> np.ndarray:
        """What it gives, [256, 256]."""
        products = np.outer(*(CODES - zero_point for zero_point in self.zero_points))
        sums = (2 * products * self.multiplier + ((1 << 31) if self.rounded else 0)) >> 32
        sums += self.offset - ((products < 0) if self.sign else 0)
        return np.asarray(np.clip(sums >> self.shift, low, high))


def fit_product(
    wanted: np.ndarray, zero_points: tuple[int, int], multiplier: int, shift: int, zero_point: int, low: int, high: int
) -> Product | None:
    """The product that gives ``wanted`` [256, 256] for all codes, if one does; TFLM's multiplier and shift."""
    right = -shift
    if not 0 <= right <= 22 or multiplier <= 0:
        return None
    offset = ((2 * zero_point + 1) << right) >> 1 if right else zero_point
    for rounded in (True, False):
        for sign in (False, True):
            found = Product(zero_points, multiplier, offset, right, rounded, sign)
            if np.array_equal(found.codes(low, high), wanted):
                return found
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

    def finish(total: Variable, place: int | Index) -> None:
        _saturate(block, total, rule.shift, low, high)
        block.emit("store_8", None, output, total, constant=place)

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
            for operation, total, place in zip(("smlawb", "smlawt"), sums, places[odd::2], strict=True):
                block.emit(operation, total, factors[1], parts[1], total)
                finish(total, place)

    def single(place: int) -> None:
        for part, pointer in zip(parts, (lhs, rhs), strict=True):
            block.emit("load_s8", part, pointer, constant=place)
            block.emit("shift_left", part, part, constant=8)
        block.emit("smlawb", sums[0], factors[0], parts[0], offset)
        block.emit("smlawb", sums[0], factors[1], parts[1], sums[0])
        finish(sums[0], place)

    if count >= 4:
        block.set(mask, _UPPER_BYTES)
    _walk(block, output, count, unrolled, quad, single)
    return block


def product_block(count: int, rule: Product, low: int, high: int, unrolled: int) -> Block:
    """``NAME(lhs, rhs, output)``: ``count`` products, ``unrolled`` words a turn."""
    block, (lhs, rhs, output) = _begin()
    multiplier = block.set(block.variable("multiplier"), rule.multiplier)
    offset = block.set(block.variable("offset"), rule.offset)
    # Zero points of two codes, taken off by adding; of equal ones a register.
    zeros: list[Variable | None] = []
    for name, zero_point in zip(("zero_x", "zero_y"), rule.zero_points, strict=True):
        value = (-zero_point & 0xFFFF) * 0x10001
        if zero_point == 0:
            zeros.append(None)
        elif zeros and rule.zero_points[0] == zero_point:
            zeros.append(zeros[0])
        else:
            zeros.append(block.set(block.variable(name), value))
    words = [block.variable("x"), block.variable("y")]
    parts = [block.variable("xs"), block.variable("ys")]
    products = [block.variable("p0"), block.variable("p1")]
    scratch = block.variable("scratch")

    def finish(total: Variable, place: int | Index) -> None:
        addend = block.emit("add_sign", scratch, offset, total) if rule.sign else offset
        block.emit("smmlar" if rule.rounded else "smmla", total, total, multiplier, addend)
        _saturate(block, total, rule.shift, low, high)
        block.emit("store_8", None, output, total, constant=place)

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
            for total, place in zip(products, places[odd::2], strict=True):
                finish(total, place)

    def single(place: int) -> None:
        for part, pointer, zero in zip(parts, (lhs, rhs), zeros, strict=True):
            block.emit("load_s8", part, pointer, constant=place)
            less_zero(part, part, zero, "")
        block.emit("sadd16", parts[0], parts[0], parts[0])
        block.emit("smulbb", products[0], *parts)
        finish(products[0], place)

    _walk(block, output, count, unrolled, quad, single)
    return block


def _begin() -> tuple[Block, list[Variable]]:
    parameters = [Variable("lhs", POINTER_IN), Variable("rhs", POINTER_IN), Variable("output", POINTER_OUT)]
    return Block(parameters), parameters


def _walk(
    block: Block,
    output: Variable,
    count: int,
    unrolled: int,
    quad: Callable[[list[int | Index]], None],
    single: Callable[[int], None],
) -> None:
    """``quad`` for each word, with the places of its codes, and ``single`` for each code that is left."""
    length, chunks, rest = chunked(count // 4, unrolled)
    for steps, times in ((length, chunks), (rest, 1)):
        if steps == 0:
            continue
        with block.loop("turns", times):
            with block.repeat(steps) as k:
                quad([k(lane, 4) for lane in range(4)])
            block.emit("advance", output, constant=4 * steps)
    for place in range(count % 4):
        single(place)


def _saturate(block: Block, total: Variable, shift: int, low: int, high: int) -> None:
    if shift:
        block.emit("saturate_8_shifted", total, total, constant=shift)
    else:
        block.emit("saturate_8", total, total)
    if low > -128:
        block.emit("at_least", total, constant=low)
    if high < 127:
        block.emit("at_most", total, constant=high)
