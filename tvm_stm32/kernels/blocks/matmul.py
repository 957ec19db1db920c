"""Matrix product for cores with the DSP extension: up to four pixels by two channels, weights in packed lanes.

The tile holds, for each pair of depths, one word a pixel (four pixels a row): twice the code plus 128, two depths in
the halfwords. For each pair of channels the weights are a record of words::

    bias 0, bias 1, steps * (weights of two depths and both channels), multiplier 0, rounding constant 0,
    multiplier 1, rounding constant 1, shifts

(see :class:`.Requantizer` for multipliers that all channels share).

A weight word has halfwords 256 * w1 + w0 (packed lanes), or bytes w0[a], w1[a], w0[b], w1[b]. ``shifts`` are two bytes,
each one less than the channel's right shift. An odd last channel has a partner of zeros. Without a requantizer the
block stores sums (of codes that are not doubled), and records end with the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..stage import OutputStage
from .pixel_sums import PixelSums
from .program import POINTER_IN, POINTER_OUT, Block, Index, Variable, chunked
from .requantize import Requantizer, Scaling

ROW_BYTES = 16
_HEAD = 8


@dataclass(frozen=True)
class Layout:
    """Where the inputs of a block lie, in bytes: from pair of depths to pair, from pixel to pixel, from row to row.

    A tile is one row of ``steps`` pairs; a block that reads a convolution's rows in place has one for each kernel row.
    """

    steps: int
    step_bytes: int = ROW_BYTES
    pixel_bytes: int = 4
    rows: int = 1
    row_bytes: int = 0

    @property
    def total(self) -> int:
        """Pairs of depths of all rows."""
        return self.rows * self.steps

    def reach(self, pixels: int) -> int:
        """The largest offset of an input word from the first."""
        return (self.rows - 1) * self.row_bytes + (self.steps - 1) * self.step_bytes + (pixels - 1) * self.pixel_bytes


def matmul_block(
    pixels: int,
    layout: Layout,
    channels: int,
    stride: int,
    packed: bool,
    stage: Requantizer | None,
    unrolled: int,
    *,
    doubles: bool,
) -> Block:
    """``NAME(tile, weights, output)``: ``channels`` codes of each of ``pixels`` pixels ``stride`` bytes apart.

    At most ``unrolled`` pairs of depths are written out (all of them when there are no more). Without ``stage`` the
    output is int32 sums. ``doubles``: words of two pixels that are neighbours are one LDRD, whose offset reaches 1020
    bytes.
    """
    doubles = doubles and layout.pixel_bytes == 4
    unrolled = min(unrolled, 60) if doubles else unrolled
    tile, weights = Variable("tile", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([tile, weights, output])
    scaling = Scaling(block)
    block.park(tile)
    block.park(output)
    if stage is not None and stage.common:
        stage.keep_common(block, scaling, weights)

    def channel_pair(count: int, first: int, following: int) -> None:
        sums = Sums(block, pixels, packed, count, doubles, layout)
        if not stays:
            block.unpark(tile)
        sums.first_step(tile, weights)
        block.emit("advance", weights, constant=_HEAD)
        behind = sums.all_steps(tile, weights, unrolled)
        load = partial(load_scaling, block, scaling, weights, behind)
        sums.store(output, count, stride, stage, scaling, load, first)
        if following:
            block.emit("advance", output, constant=(4 if stage is None else 1) * following)
            block.park(output)
        tail = tail_bytes(stage)
        if behind + tail:
            block.emit("advance", weights, constant=behind + tail)

    # Without a sign to look at, the tile's pointer has a register of its own throughout.
    unmoved = layout.total <= unrolled and layout.reach(pixels) < 4096
    stays = unmoved and stage is not None and not stage.sign and stride * pixels < 4090
    # Several pairs an iteration where their products are few.
    pairs = channels // 2
    together = next(n for n in (4, 2, 1) if pairs % n == 0 and (n == 1 or layout.total * n <= unrolled // 2))
    if pairs:
        with block.loop("pairs", pairs // together, parked=True):
            for number in range(together):
                channel_pair(2, 2 * number, 0 if number + 1 < together else 2 * together)
    if channels % 2:
        channel_pair(1, 0, 1)
    return block


def tail_bytes(stage: Requantizer | None) -> int:
    """Bytes of a record behind its weights."""
    if stage is None or stage.common:
        return 0
    return 12 if stage.compact else 20


def load_scaling(
    block: Block, scaling: Scaling, weights: Variable, behind: int, stage: Requantizer, channel: int
) -> None:
    """Multiplier, shift and rounding constant of a channel of the pair whose weights end ``behind`` ``weights``."""
    if stage.compact:
        stage.begin(block, scaling, weights, behind + 4 * channel, behind + 8 + channel)
    else:
        at = behind + 8 * channel
        stage.begin(block, scaling, weights, at, behind + 16 + channel, offset_at=at + 4)


def spread_block(depth: int) -> Block:
    """``NAME(input, tile)``: four pixels of ``depth`` (a multiple of 4) codes, one behind the other, into the tile."""
    source, tile = Variable("input", POINTER_IN), Variable("tile", POINTER_OUT)
    block = Block([source, tile])
    mask = block.set(block.variable("mask"), 0x01FE01FE)
    codes = [block.variable(f"x{pixel}") for pixel in range(4)]
    even = [block.variable(f"even_{pixel}") for pixel in range(4)]
    unrolled = next(n for n in (4, 3, 2, 1) if depth // 4 % n == 0)
    with block.loop("quads", depth // 4 // unrolled):
        with block.repeat(unrolled) as k:
            for pixel, x in enumerate(codes):
                block.emit("load", x, source, constant=k(pixel * depth, 4))
            for x in codes:
                block.emit("flip", x, x, constant=0x80808080)
            for low, x in zip(even, codes, strict=True):
                block.emit("and_shifted_left_1", low, mask, x)
                block.emit("and_shifted_right_7", x, mask, x)
            for pixel in range(4):
                block.emit("store", None, tile, even[pixel], constant=k(4 * pixel, 2 * ROW_BYTES))
            for pixel in range(4):
                block.emit("store", None, tile, codes[pixel], constant=k(ROW_BYTES + 4 * pixel, 2 * ROW_BYTES))
        block.emit("advance", source, constant=4 * unrolled)
        block.emit("advance", tile, constant=2 * ROW_BYTES * unrolled)
    return block


def row_block(count: int) -> Block:
    """``NAME(input, row)``: ``count`` (a multiple of 4) codes, widened as in the tile but in their own order."""
    source, row = Variable("input", POINTER_IN), Variable("row", POINTER_OUT)
    block = Block([source, row])
    mask = block.set(block.variable("mask"), 0x01FE01FE)
    codes, even = [block.variable(f"x{n}") for n in range(2)], [block.variable(f"even_{n}") for n in range(2)]
    low = block.variable("low")
    words = count // 4
    at_once = 2 if words % 2 == 0 else 1
    with block.loop("words", words // at_once):
        for number in range(at_once):
            block.emit("load", codes[number], source, constant=4 * number)
        for x, other in list(zip(codes, even, strict=True))[:at_once]:
            block.emit("flip", x, x, constant=0x80808080)
            block.emit("and_shifted_left_1", other, mask, x)
            block.emit("and_shifted_right_7", x, mask, x)
        for number, (x, other) in enumerate(list(zip(codes, even, strict=True))[:at_once]):
            block.emit("pack_low", low, other, x)
            block.emit("pack_high", x, x, other)
            block.emit("store", None, row, low, constant=8 * number)
            block.emit("store", None, row, x, constant=8 * number + 4)
        block.emit("advance", source, constant=4 * at_once)
        block.emit("advance", row, constant=8 * at_once)
    return block


def copy_block(count: int) -> Block:
    """``NAME(source, target)``: ``count`` bytes (a multiple of 4) forwards, eight registers at a time."""
    source, target = Variable("source", POINTER_IN), Variable("target", POINTER_OUT)
    block = Block([source, target])
    words = [block.variable(f"word{n}", register=f"r{3 + n}") for n in range(8)]
    eights, rest = divmod(count // 4, 8)
    if eights:
        with block.loop("eights", eights):
            block.emit("take_8", (*words, source), source)
            block.emit("put_8", (target,), *words, target)
    for number in range(rest):
        block.emit("load", words[number], source, constant=4 * number)
    for number in range(rest):
        block.emit("store", None, target, words[number], constant=4 * number)
    return block


class Sums(PixelSums):
    """Sums of codes as bytes, whose weights may be in packed lanes."""

    def __init__(self, block: Block, pixels: int, packed: bool, channels: int, doubles: bool, layout: Layout) -> None:
        super().__init__(block, pixels, layout.pixel_bytes, 8 if packed else 0, doubles=doubles)
        self.packed, self.channels, self.layout = packed, channels, layout

    def first_step(self, tile: Variable, weights: Variable) -> None:
        """The first pair of depths begins from the biases; the last pixel's sums hold them until it is its turn."""
        block = self.block
        even, odd = self.even[-1], self.odd[-1]
        block.emit("load", even, weights, constant=0)
        if self.channels == 2:
            block.emit("load", odd, weights, constant=4)
            if self.packed:
                block.emit("add_shifted_8", odd, even, odd)
        self._step(tile, weights, _HEAD, 0, (even, odd))

    def start(self, weights: Variable) -> None:
        """All sums begin from the biases at ``weights``, which moves on to the first weight."""
        block = self.block
        block.emit("load", self.even[0], weights, constant=0)
        block.emit("load", self.odd[0], weights, constant=4)
        if self.packed:
            block.emit("add_shifted_8", self.odd[0], self.even[0], self.odd[0])
        for pixel in range(1, self.pixels):
            block.emit("move", self.even[pixel], self.even[0])
            block.emit("move", self.odd[pixel], self.odd[0])
        block.emit("advance", weights, constant=_HEAD)

    def chunk(self, tile: Variable, weights: Variable, count: int) -> None:
        """``count`` pairs of depths, which both pointers pass."""
        with self.block.repeat(count) as k:
            self._step(tile, weights, k(0, 4), k(0, self.layout.step_bytes))
        self.block.emit("advance", tile, constant=self.layout.step_bytes * count)
        self.block.emit("advance", weights, constant=4 * count)

    def all_steps(self, tile: Variable, weights: Variable, unrolled: int) -> int:
        """The other pairs of depths; returns how many bytes behind ``weights`` the weights end."""
        block, layout = self.block, self.layout
        if layout.total <= unrolled and layout.reach(self.pixels) < 4096:
            for row in range(layout.rows):
                first = 0 if row else 1
                with block.repeat(layout.steps - first) as k:
                    at = row * layout.row_bytes + first * layout.step_bytes
                    weights_at = 4 * (row * layout.steps + first)
                    self._step(tile, weights, k(weights_at, 4), k(at, layout.step_bytes))
            return 4 * layout.total
        passed = self._row(tile, weights, 1, unrolled)
        if layout.rows == 1:
            return 4 * (layout.steps - passed)
        self._next_row(tile, weights, passed)
        with block.loop("rows", layout.rows - 1, parked=True):
            self._next_row(tile, weights, self._row(tile, weights, 0, unrolled))
        return 0

    def _row(self, tile: Variable, weights: Variable, first: int, unrolled: int) -> int:
        """Pairs from ``first`` on; returns how many of them both pointers have passed."""
        length, chunks, rest = chunked(self.layout.steps - first, unrolled)
        self._steps(tile, weights, first, length, chunks)
        # A loop leaves both pointers behind its chunks, a single chunk where they were.
        passed = length * chunks if chunks > 1 else 0
        self._steps(tile, weights, first if passed else first + length, rest, 1)
        return passed

    def _next_row(self, tile: Variable, weights: Variable, passed: int) -> None:
        """Both pointers, which have passed some pairs of a row, go to the start of the next."""
        self.block.move(tile, self.layout.row_bytes - passed * self.layout.step_bytes, self.both)
        self.block.move(weights, 4 * (self.layout.steps - passed), self.both)

    def _steps(self, tile: Variable, weights: Variable, first: int, count: int, chunks: int) -> None:
        block, step = self.block, self.layout.step_bytes
        if count == 0:
            return
        with block.loop("chunks", chunks, parked=True):
            with block.repeat(count) as k:
                self._step(tile, weights, k(4 * first, 4), k(step * first, step))
            if chunks > 1:
                block.emit("advance", tile, constant=step * count)
                block.emit("advance", weights, constant=4 * count)

    def _step(
        self,
        tile: Variable,
        weights: Variable,
        weight_offset: int | Index,
        tile_offset: int | Index,
        start: tuple[Variable, Variable] | None = None,
    ) -> None:
        self.block.emit("load", self.both, weights, constant=weight_offset)
        self.multiply(tile, tile_offset, self.channels, self._unpack, start)

    def _unpack(self) -> None:
        self.block.emit("sxtb16", self.low, self.both)
        if not self.packed and self.channels == 2:
            self.block.emit("sxtb16_odd", self.both, self.both)


def matmul_records(
    rows: np.ndarray, stage: OutputStage, zero_point: int, packed: bool, requantizer: Requantizer | None
) -> np.ndarray:
    """Weights and parameters for :func:`matmul_block` as int32 words.

    ``rows`` [channels, depth] int8 in the tile's order, the depth even. Biases are of the doubled sum and take up the
    zero point: 2 (b + sum w (x - z)) = 2 (b - (z + 128) sum w) + sum w 2 (x + 128), modulo 2^32; of the plain sum when
    the block does not requantize.
    """
    odd = len(rows) % 2
    wide = rows.astype(np.int64)
    biases = stage.params[:, 0].astype(np.int64) - (zero_point + 128) * wide.sum(axis=1)
    biases = np.pad(wrapped(2 * biases if requantizer else biases), (0, odd))
    columns = [biases.reshape(-1, 2), weight_words(np.pad(rows, ((0, odd), (0, 0))), packed)]
    if requantizer and not requantizer.common:
        shifts = np.pad(stage.shifts.astype(np.int64) - 1, (0, odd))
        parts = [stage.params[:, 1]] if requantizer.compact else [stage.params[:, 1], requantizer.offsets(stage)]
        columns.append(np.pad(np.stack(parts, axis=1), ((0, odd), (0, 0))).reshape(-1, 2 * len(parts)))
        columns.append((shifts[0::2] + (shifts[1::2] << 8)).astype(np.int32).reshape(-1, 1))
    records = np.concatenate(columns, axis=1).astype(np.int32).reshape(-1)
    return np.concatenate([requantizer.common_head(stage), records]) if requantizer else records


def weight_words(rows: np.ndarray, packed: bool) -> np.ndarray:
    """[channels / 2, depth / 2] words, each of two depths of two channels; see above."""
    low, high = rows[0::2], rows[1::2]
    if packed:
        return np.ascontiguousarray((256 * high.astype(np.int16) + low).astype("<i2")).view("<i4")
    lanes = np.ascontiguousarray(np.stack([low, high], axis=-1).astype(np.int8))
    return lanes.reshape(len(low), -1).view("<i4")


def wrapped(values: np.ndarray) -> np.ndarray:
    """int64 to int32, modulo 2^32."""
    return np.asarray((values & 0xFFFFFFFF).astype(np.uint32).view(np.int32))
