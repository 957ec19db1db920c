"""Matrix times vector on halfwords for cores with the DSP extension: one row of inputs by six channels.

Inputs and weight words are those of :mod:`.product`. Channels come in groups of six, a last one of up to five (an odd
last channel has a partner of zeros); the weights are a record of words for each group::

    biases, words * (one of each pair of channels), multipliers[, shifts (a byte each, filled up to words)]

Without a requantizer the block stores sums, and records end with the weights.
"""

from __future__ import annotations

import numpy as np

from .product import packed_words
from .program import POINTER_IN, POINTER_OUT, Block, Variable, chunked
from .requantize import Requantizer, Scaling
from .requantize_wide import WideRequantizer

GROUP = 6


def product_vector_block(
    steps: int, channels: int, stage: Requantizer | WideRequantizer | None, unrolled: int, *, bits: int = 8
) -> Block:
    """``NAME(tile, weights, output)``: ``channels`` codes; ``steps`` is half the depth.

    At most ``unrolled`` rows of words are written out in one piece. Without ``stage`` the output is int32 sums.
    """
    tile, weights = Variable("tile", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([tile, weights, output])
    block.park(tile)
    block.park(output)
    maker = _Vector(block, steps, bits, unrolled)
    if isinstance(stage, Requantizer) and stage.common:
        stage.keep_common(block, maker.scaling, weights)
    maker.input_sum(tile)
    if channels >= GROUP:
        with block.loop("groups", channels // GROUP, parked=True):
            maker.group(tile, weights, output, GROUP, stage)
    if channels % GROUP:
        maker.group(tile, weights, output, channels % GROUP, stage)
    return block


class _Vector:
    def __init__(self, block: Block, steps: int, bits: int, unrolled: int) -> None:
        self.block, self.steps, self.bits, self.unrolled = block, steps, bits, unrolled
        self.in_word = 8 // bits
        self.sums = [block.variable(f"sum_{channel}") for channel in range(GROUP)]
        # A multiple load fills registers in ascending order.
        self.words = [block.variable(f"w{pair}", register=f"r{3 + pair}") for pair in range(GROUP // 2)]
        self.x, self.low = block.variable("x"), block.variable("low")
        self.mask, self.excess = block.variable("mask"), block.variable("excess")
        self.scaling = Scaling(block)

    def _chunks(self, count: int) -> list[tuple[int, int]]:
        """``count`` as (length, times) of loops."""
        length, chunks, rest = chunked(count, self.unrolled)
        return [(n, times) for n, times in ((length, chunks), (rest, 1)) if n]

    def input_sum(self, tile: Variable) -> None:
        """What weights that are ``2**(bits - 1)`` too large add to each sum, onto the stack."""
        if self.bits == 8:
            return
        block = self.block
        ones = block.set(self.low, 0x00010001)
        block.set(self.excess, 0)
        for count, times in self._chunks(self.steps):
            with block.loop("inputs", times):
                with block.repeat(count) as k:
                    block.emit("load", self.x, tile, constant=k(0, 4))
                    block.emit("smlad", self.excess, self.x, ones, self.excess)
                block.emit("advance", tile, constant=4 * count)
        block.emit("shift_left", self.excess, self.excess, constant=self.bits - 1)
        block.park(self.excess)

    def group(
        self,
        tile: Variable,
        weights: Variable,
        output: Variable,
        channels: int,
        stage: Requantizer | WideRequantizer | None,
    ) -> None:
        """``channels`` sums of all depths, then their codes."""
        block, pairs = self.block, (channels + 1) // 2
        block.unpark(tile)
        if self.bits < 8:
            block.unpark(self.excess)
        for channel in range(2 * pairs):
            block.emit("load", self.sums[channel], weights, constant=4 * channel)
            if self.bits < 8:
                block.emit("subtract", self.sums[channel], self.sums[channel], self.excess)
        if self.bits < 8:
            block.set(self.mask, 0x00010001 * ((1 << self.bits) - 1))
        block.emit("advance", weights, constant=8 * pairs)
        words, rest = divmod(self.steps, self.in_word)
        for count, times in self._chunks(words):
            with block.loop("chunks", times, parked=True):
                with block.repeat(count) as k:
                    block.emit(f"take_{pairs}", (*self.words[:pairs], weights), weights)
                    for step in range(self.in_word):
                        block.emit("load", self.x, tile, constant=k(4 * step, 4 * self.in_word))
                        self._step(step, pairs)
                block.emit("advance", tile, constant=4 * self.in_word * count)
        if rest:
            block.emit(f"take_{pairs}", (*self.words[:pairs], weights), weights)
            for step in range(rest):
                block.emit("load", self.x, tile, constant=4 * step)
                self._step(step, pairs)
        self._finish(weights, output, channels, pairs, stage)

    def _step(self, step: int, pairs: int) -> None:
        block = self.block
        for pair in range(pairs):
            even, odd, word = self.sums[2 * pair], self.sums[2 * pair + 1], self.words[pair]
            if self.bits == 8:
                block.emit("sxtb16", self.low, word)
                block.emit("sxtb16_odd", word, word)
                block.emit("smlad", even, self.x, self.low, even)
                block.emit("smlad", odd, self.x, word, odd)
                continue
            for channel, total in enumerate((even, odd)):
                place = self.bits * (2 * step + channel)
                if place:
                    block.emit("and_shifted_right", self.low, self.mask, word, constant=place)
                else:
                    block.emit("and", self.low, self.mask, word)
                block.emit("smlad", total, self.x, self.low, total)

    def _finish(
        self,
        weights: Variable,
        output: Variable,
        channels: int,
        pairs: int,
        stage: Requantizer | WideRequantizer | None,
    ) -> None:
        block = self.block
        block.unpark(output)
        size = 4 if stage is None else stage.size
        if isinstance(stage, Requantizer) and stage.common:
            stage.recall_common(block, self.scaling)
        for channel in range(channels):
            total = self.sums[channel]
            if stage is None:
                block.emit("store", None, output, total, constant=4 * channel)
                continue
            if not stage.common:
                stage.begin(block, self.scaling, weights, 4 * channel, 8 * pairs + channel)
            stage.code(block, total, self.scaling)
            block.emit(stage.store, None, output, total, constant=size * channel)
        if stage is not None and not stage.common:
            shifts = 4 * (-(-2 * pairs // 4)) if isinstance(stage, Requantizer) else 0
            block.emit("advance", weights, constant=8 * pairs + shifts)
        block.emit("advance", output, constant=size * channels)
        block.park(output)


def product_vector_records(
    rows: np.ndarray,
    biases: np.ndarray,
    multipliers: np.ndarray | None,
    shifts: np.ndarray | None = None,
    *,
    bits: int = 8,
) -> np.ndarray:
    """Weights and parameters for :func:`product_vector_block` as int32 words; see :func:`.product.product_records`."""
    odd = len(rows) % 2
    biases, words = np.pad(biases, (0, odd)), packed_words(rows, bits)
    parts = []
    for start in range(0, len(biases), GROUP):
        channels = slice(start, min(start + GROUP, len(biases)))
        parts += [biases[channels], words[start // 2 : channels.stop // 2].T.reshape(-1)]
        if multipliers is not None:
            parts.append(np.pad(multipliers, (0, odd))[channels])
        if shifts is not None:
            mine = np.pad(shifts.astype(np.int8), (0, odd))[channels]
            parts.append(np.pad(mine, (0, -len(mine) % 4)).view("<i4"))
    return np.concatenate(parts).astype(np.int32)
