"""Matrix product on halfwords for cores with the DSP extension: up to four pixels by two channels.

The tile holds a word for each pair of depths of each pixel, two numbers of 16 bits: int16 codes as they are in memory,
or int8 codes doubled and moved up by 128 (:mod:`.matmul`). For each pair of channels the weights are a record of
words::

    bias 0, bias 1, weights, multiplier 0, multiplier 1[, shifts]

(see :class:`.Requantizer` for multipliers that all channels share).

A weight of ``bits`` (8, 4 or 2) takes as many bits of a word, so that a word holds ``8 // bits`` pairs of depths of
both channels: halfwords are the two depths, and in each the weights of a pair of depths are neighbours, the even
channel lower. Bytes are signed. Weights of 4 and 2 bits have ``2**(bits - 1)`` added; what this adds to a sum, as many
times the sum of a pixel's inputs, is found once for all channels and taken from the biases. Both channels of a pair are
then extracted at once as ``(odd << bits) + even``, which the odd channel's sum is multiplied with, and the even
channel's sum is taken from it at the end. An odd last channel has a partner of zeros. ``shifts`` are for int8. Without
a requantizer the block stores sums, and records end with the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from .pixel_sums import PixelSums
from .program import POINTER_IN, POINTER_OUT, Block, Index, Variable, chunked
from .requantize import Requantizer, Scaling
from .requantize_wide import WideRequantizer

_HEAD = 8
_ONES = 0x00010001


@dataclass(frozen=True)
class Tile:
    """Bytes from a pixel's word to the next pixel's, and from a pair of depths to the next."""

    pixel: int
    step: int


# Four pixels' words side by side.
COLUMNS = Tile(4, 16)


def product_block(
    pixels: int,
    steps: int,
    channels: int,
    stride: int,
    stage: Requantizer | WideRequantizer | None,
    unrolled: int,
    *,
    bits: int = 8,
    tile: Tile = COLUMNS,
    doubles: bool = False,
) -> Block:
    """``NAME(tile, weights, output)``: ``channels`` codes of each of ``pixels`` pixels ``stride`` bytes apart.

    ``steps`` is half the depth; at most ``unrolled`` words of weights are written out in one piece. Without ``stage``
    the output is int32 sums. ``doubles``: words of two pixels that are neighbours are one LDRD.
    """
    source, weights = Variable("tile", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([source, weights, output])
    block.park(source)
    block.park(output)
    doubles = doubles and tile == COLUMNS
    if doubles:
        # Its offset reaches 1020 bytes.
        unrolled = min(unrolled, 1008 // (tile.step * (8 // bits)) - 2)
    maker = _Product(block, pixels, steps, bits, tile, unrolled, doubles)
    if isinstance(stage, Requantizer) and stage.common:
        stage.keep_common(block, maker.scaling, weights)
    maker.input_sums(source)
    if channels >= 2:
        with block.loop("pairs", channels // 2, parked=True):
            maker.channel_pair(source, weights, output, 2, stride, stage)
    if channels % 2:
        maker.channel_pair(source, weights, output, 1, stride, stage)
    return block


class _Product(PixelSums):
    def __init__(
        self, block: Block, pixels: int, steps: int, bits: int, tile: Tile, unrolled: int, doubles: bool
    ) -> None:
        super().__init__(block, pixels, tile.pixel, bits if bits < 8 else 0, doubles=doubles)
        self.steps, self.bits = steps, bits
        self.tile, self.unrolled, self.in_word = tile, unrolled, 8 // bits
        self.excess = [block.variable(f"excess_{pixel}") for pixel in range(pixels)]
        self.scaling = Scaling(block)

    def input_sums(self, tile: Variable) -> None:
        """What weights that are ``2**(bits - 1)`` too large add to the sums of each pixel, onto the stack."""
        if self.bits == 8:
            return
        block = self.block
        ones, x = block.set(self.low, _ONES), self.inputs[0]
        length, chunks, rest = chunked(self.steps, self.unrolled)
        # One pixel after the other: GCC 12 for x86 vectorizes sums of four side by side in C, and wrongly.
        for pixel, total in enumerate(self.excess):
            block.unpark(tile)
            block.set(total, 0)
            for count, times in ((length, chunks), (rest, 1)):
                if count:
                    with block.loop("inputs", times):
                        with block.repeat(count) as k:
                            block.emit("load", x, tile, constant=k(self.tile.pixel * pixel, self.tile.step))
                            block.emit("smlad", total, x, ones, total)
                        block.emit("advance", tile, constant=self.tile.step * count)
            block.emit("shift_left", total, total, constant=self.bits - 1)
            block.park(total)

    def channel_pair(
        self,
        tile: Variable,
        weights: Variable,
        output: Variable,
        channels: int,
        stride: int,
        stage: Requantizer | WideRequantizer | None,
    ) -> None:
        """Two channels (or a last one) of all pixels."""
        block = self.block
        block.unpark(tile)
        # Words of weights that were used and are not yet behind the pointers.
        used = self._begin(tile, weights, channels)
        whole, last = divmod(self.steps, self.in_word)
        length, chunks, words = chunked(whole - used, self.unrolled)
        if chunks > 1:
            with block.loop("chunks", chunks, parked=True):
                self._words(tile, weights, used, length, channels)
                block.emit("advance", tile, constant=self.tile.step * self.in_word * length)
                block.emit("advance", weights, constant=4 * length)
        else:
            words += length
        self._words(tile, weights, used, words, channels)
        used += words
        if last:
            for step in range(last):
                place = self.tile.step * (used * self.in_word + step)
                self._step(tile, weights, 4 * used, place, step, channels)
            used += 1
        self._finish(weights, output, channels, 4 * used, stride, stage)

    def _begin(self, tile: Variable, weights: Variable, channels: int) -> int:
        """Biases become sums."""
        block, even, odd = self.block, self.even[-1], self.odd[-1]
        block.emit("load", even, weights, constant=0)
        if channels == 2:
            block.emit("load", odd, weights, constant=4)
        if self.bits == 8:
            # The last pixel's sums hold the biases until it is its turn.
            self._step(tile, weights, _HEAD, 0, 0, channels, (even, odd))
            block.emit("advance", weights, constant=_HEAD)
            return 1
        for pixel in range(self.pixels):
            excess = block.unpark(self.excess[pixel], self.low)
            if channels == 2:
                block.emit("subtract", self.odd[pixel], odd, excess)
            block.emit("subtract", self.even[pixel], even, excess)
            if channels == 2:
                block.emit("add_shifted", self.odd[pixel], self.even[pixel], self.odd[pixel], constant=self.bits)
        block.emit("advance", weights, constant=_HEAD)
        return 0

    def _words(self, tile: Variable, weights: Variable, first: int, count: int, channels: int) -> None:
        """All steps of ``count`` words of weights, the first being the word ``first``."""
        if count == 0:
            return
        with self.block.repeat(count) as k:
            for step in range(self.in_word):
                place = k(self.tile.step * (first * self.in_word + step), self.tile.step * self.in_word)
                self._step(tile, weights, k(4 * first, 4), place, step, channels)

    def _step(
        self,
        tile: Variable,
        weights: Variable,
        weight_offset: int | Index,
        tile_offset: int | Index,
        step: int,
        channels: int,
        start: tuple[Variable, Variable] | None = None,
    ) -> None:
        """A pair of depths, the one numbered ``step`` of its word; sums begin from ``start``."""
        self.block.emit("load", self.both, weights, constant=weight_offset)
        self.multiply(tile, tile_offset, channels, partial(self._unpack, step, channels), start)

    def _unpack(self, step: int, channels: int) -> None:
        """``low`` becomes the even channel's weights, ``both`` the odd channel's (with the even one's below)."""
        block, both, low = self.block, self.both, self.low
        if self.bits == 8:
            block.emit("sxtb16", low, both)
            if channels == 2:
                block.emit("sxtb16_odd", both, both)
            return
        if self.bits == 4:
            block.emit("uxtb16_odd" if step else "uxtb16", both, both)
        else:
            if step:
                block.emit("shift_right_unsigned", both, both, constant=4 * step)
            block.emit("and_constant", both, both, constant=0x000F000F)
        block.emit("and_constant", low, both, constant=_ONES * ((1 << self.bits) - 1))

    def _finish(
        self,
        weights: Variable,
        output: Variable,
        channels: int,
        behind: int,
        stride: int,
        stage: Requantizer | WideRequantizer | None,
    ) -> None:
        block, size = self.block, 4 if stage is None else stage.size

        def load(stage: Requantizer | WideRequantizer, channel: int) -> None:
            stage.begin(block, self.scaling, weights, behind + 4 * channel, behind + 8 + channel)

        self.store(output, channels, stride, stage, self.scaling, load)
        block.emit("advance", output, constant=size * channels)
        block.park(output)
        if behind + tail_bytes(stage):
            block.emit("advance", weights, constant=behind + tail_bytes(stage))


def tail_bytes(stage: Requantizer | WideRequantizer | None) -> int:
    """Bytes of a record behind its weights."""
    return 0 if stage is None or stage.common else 12 if isinstance(stage, Requantizer) else 8


def product_records(
    rows: np.ndarray,
    biases: np.ndarray,
    multipliers: np.ndarray | None,
    shifts: np.ndarray | None = None,
    *,
    bits: int = 8,
) -> np.ndarray:
    """Weights and parameters for :func:`product_block` as int32 words.

    ``rows`` [channels, depth] int8 in the tile's order, the depth even; the others are int32 of each channel: what the
    sums begin with, multipliers (None: there are none), right shifts less one (None: int16 codes).
    """
    columns = [paired(biases), packed_words(rows, bits)]
    if multipliers is not None:
        columns.append(paired(multipliers))
    if shifts is not None:
        both = paired(shifts)
        columns.append((both[:, :1] & 0xFF) + ((both[:, 1:] & 0xFF) << 8))
    return np.ascontiguousarray(np.concatenate(columns, axis=1).astype(np.int32)).reshape(-1)


def paired(values: np.ndarray) -> np.ndarray:
    """Values of channels as [pairs, 2]."""
    return np.pad(values, (0, len(values) % 2)).reshape(-1, 2)


def packed_words(rows: np.ndarray, bits: int) -> np.ndarray:
    """[pairs of channels, words] int32; the layout is above."""
    in_word = 8 // bits
    channels, depth = rows.shape
    rows = np.pad(rows.astype(np.int64), ((0, channels % 2), (0, -depth % (2 * in_word))))
    fields = (rows + (0 if bits == 8 else 1 << (bits - 1))) & ((1 << bits) - 1)
    # pair, channel, word, step, half -> the bit each one begins at
    fields = fields.reshape(len(rows) // 2, 2, -1, in_word, 2)
    channel, step, half = np.ogrid[:2, :in_word, :2]
    places = (16 * half + bits * (2 * step + channel)).reshape(1, 2, 1, in_word, 2)
    words = (fields << places).sum(axis=(1, 3, 4))
    return np.asarray((words & 0xFFFFFFFF).astype(np.uint32).view(np.int32)).reshape(len(rows) // 2, -1)
