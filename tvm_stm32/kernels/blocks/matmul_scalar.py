"""Matrix product for cores without the DSP extension: one 32-bit product does half again as many, exactly.

The codes a, b, c of three pixels become two words, a + 2^21 b and c + 2^10 b (modulo 2^32). Both times a weight, summed
modulo 2^32, give S1 = A + 2^21 B and S2 = C + 2^10 B, where A, B, C are the pixels' sums. When -2^20 <= A, B, C < 2^20,
which the weights bound, these two words hold all three: the low 21 bits of S1 are A; what remains of S1 are the low 11
bits b of B; S2 - 2^10 b is C in 21 bits below the rest of B in 11. So two MLA do three products, with no loss.

A tile holds, for each depth, the two words of each triple of pixels. For each group of channels the weights are a
record::

    S1 and S2 to begin from of each channel; depth * (a code of each channel), filled to words; scaling of each channel

Longer sums are made of ``segments`` of the depth, each of which keeps to the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..stage import OutputStage
from .program import POINTER_IN, POINTER_OUT, Block, Variable, chunked
from .requantize_scalar import SCALING_BYTES, ScalarRequantizer, ScalarScaling

PIXELS = 6
TRIPLE_BYTES = 8
ROW_BYTES = 2 * TRIPLE_BYTES
# Sums of earlier segments lie in front of the tile: those of all pixels and channels of a group.
PARTIAL_BYTES = 4 * PIXELS * 2
LIMIT = 1 << 20
# The two words of a number that all three pixels have.
TRIPLE_FACTORS = (1 + (1 << 21), 1 + (1 << 10))


@dataclass(frozen=True)
class TripleLayout:
    """``depth`` in ``segments`` of equal length (the last may be shorter), ``together`` channels a group."""

    depth: int
    together: int
    segment: int

    @property
    def lengths(self) -> list[int]:
        """Depths of each segment."""
        return [min(self.segment, self.depth - start) for start in range(0, self.depth, self.segment)]

    @property
    def weight_bytes(self) -> int:
        """Bytes of a group's codes of weights."""
        return -(-self.depth * self.together // 4) * 4


def segment_of(rows: np.ndarray, bias: np.ndarray, zero_point: int) -> int:
    """The longest equal segments of the depth whose sums keep to :data:`LIMIT`; 0 when none of at least 16 do."""
    depth = rows.shape[1]
    wide = rows.astype(np.int64)
    start = start_of(wide, bias, zero_point)
    high = np.maximum(127 * wide, -128 * wide).cumsum(axis=1)
    low = np.minimum(127 * wide, -128 * wide).cumsum(axis=1)
    for count in range(1, max(2, depth // 16 + 1)):
        length = -(-depth // count)
        ends = np.minimum(np.arange(length, depth + length, length), depth) - 1
        tops = np.diff(high[:, ends], axis=1, prepend=0)
        bottoms = np.diff(low[:, ends], axis=1, prepend=0)
        tops[:, 0] += start
        bottoms[:, 0] += start
        if bool((tops < LIMIT).all() and (bottoms >= -LIMIT).all()):
            return int(length)
    return 0


def start_of(rows: np.ndarray, bias: np.ndarray, zero_point: int) -> np.ndarray:
    """What a channel's sum begins from when its inputs are codes with their zero point."""
    return np.asarray(bias.astype(np.int64) - zero_point * rows.astype(np.int64).sum(axis=1))


def triple_block(
    pixels: int, layout: TripleLayout, channels: int, stride: int, stage: ScalarRequantizer, unrolled: int
) -> Block:
    """``NAME(tile, weights, output)``: ``channels`` codes of each of ``pixels`` pixels ``stride`` bytes apart.

    ``tile`` is where partial sums lie (:data:`PARTIAL_BYTES`), the tile follows.
    """
    tile, weights = Variable("tile", POINTER_OUT), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([tile, weights, output])
    scaling = ScalarScaling(block)
    block.park(tile)
    block.park(output)
    groups, rest = divmod(channels, layout.together)
    for count, times in ((layout.together, groups), (rest, 1)):
        if count == 0 or times == 0:
            continue
        product = _Product(block, pixels, count, layout, stride, stage, scaling)
        with block.loop("groups", times, parked=True):
            product.group(tile, weights, output, unrolled)
    return block


class _Product:
    """A group of channels of all pixels."""

    def __init__(
        self,
        block: Block,
        pixels: int,
        count: int,
        layout: TripleLayout,
        stride: int,
        stage: ScalarRequantizer,
        scaling: ScalarScaling,
    ) -> None:
        self.block, self.pixels, self.count, self.layout = block, pixels, count, layout
        self.stride, self.stage, self.scaling = stride, stage, scaling
        self.triples = -(-pixels // 3)
        self.sums = [
            [(block.variable(f"first_{t}{c}"), block.variable(f"second_{t}{c}")) for t in range(self.triples)]
            for c in range(count)
        ]
        self.codes = [block.variable(f"w{c}") for c in range(count)]
        self.inputs = block.variable("x0"), block.variable("x1")
        self.fields = [block.variable(name) for name in ("a", "b", "c")]

    def group(self, tile: Variable, weights: Variable, output: Variable, unrolled: int) -> None:
        """All segments, then the codes; ``weights`` and ``output`` go on to the next group."""
        block, lengths = self.block, self.layout.lengths
        # The bytes of weights that are not whole words are behind the last depth.
        together = self.layout.together
        for number, length in enumerate(lengths):
            block.unpark(tile)
            self._begin(weights, first=number == 0)
            if number == 0:
                block.emit("advance", weights, constant=8 * together)
            passed = sum(lengths[:number])
            block.move(tile, PARTIAL_BYTES + ROW_BYTES * passed, self.inputs[0])
            self._steps(tile, weights, length, unrolled)
            if number + 1 < len(lengths):
                block.unpark(tile)
                self._keep(tile, add=number > 0)
        block.move(weights, self.layout.weight_bytes - together * self.layout.depth, self.inputs[0])
        self._finish(weights, output, len(lengths) > 1)

    def _begin(self, weights: Variable, *, first: bool) -> None:
        block = self.block
        for channel, triples in enumerate(self.sums):
            for number, word in enumerate(triples[0]):
                if first:
                    block.emit("load_word", word, weights, constant=8 * channel + 4 * number)
                else:
                    block.set(word, 0)
                for other in triples[1:]:
                    block.emit("move", other[number], word)

    def _steps(self, tile: Variable, weights: Variable, count: int, unrolled: int) -> None:
        """``count`` depths; both pointers pass them."""
        length, chunks, rest = chunked(count, min(unrolled, 63))
        for times, steps in ((chunks, length), (1, rest)):
            if steps == 0:
                continue
            with self.block.loop("chunks", times, parked=True):
                with self.block.repeat(steps) as k:
                    self._step(tile, weights, k)
                self.block.emit("advance", tile, constant=ROW_BYTES * steps)
                self.block.emit("advance", weights, constant=self.layout.together * steps)

    def _step(self, tile: Variable, weights: Variable, k: object) -> None:
        block, together = self.block, self.layout.together
        assert callable(k)
        for channel, code in enumerate(self.codes):
            block.emit("load_s8", code, weights, constant=k(channel, together))
        for triple in range(self.triples):
            if triple == 0:
                # These follow the loads of the weights without a pause; a double load would not.
                for number, x in enumerate(self.inputs):
                    block.emit("load_word", x, tile, constant=k(4 * number, ROW_BYTES))
            else:
                block.emit("load_2", self.inputs, tile, constant=k(TRIPLE_BYTES * triple, ROW_BYTES))
            for channel, code in enumerate(self.codes):
                for word, x in zip(self.sums[channel][triple], self.inputs, strict=True):
                    block.emit("multiply_add", word, x, code, word)

    def _split(self, first: Variable, second: Variable, count: int) -> list[Variable]:
        """The first ``count`` of the three sums of a triple; its words are used up."""
        block = self.block
        a, b, c = self.fields
        block.emit("low_field_21", a, first)
        if count == 1:
            return [a]
        block.emit("subtract", first, first, a)
        block.emit("subtract_shifted_right_11", second, second, first)
        block.emit("low_field_21", c, second)
        block.emit("subtract", second, second, c)
        block.emit("shift_right", second, second, constant=10)
        block.emit("add_shifted_right_21", b, second, first)
        return [a, b, c][:count]

    def _places(self) -> list[tuple[int, int, list[int]]]:
        """(channel, triple, numbers of its pixels)."""
        return [
            (channel, triple, list(range(3 * triple, min(3 * triple + 3, self.pixels))))
            for channel in range(self.count)
            for triple in range(self.triples)
        ]

    def _keep(self, partial: Variable, *, add: bool) -> None:
        """The sums of a segment go to memory, onto those of the segments before."""
        block, old = self.block, self.inputs[0]
        for channel, triple, pixels in self._places():
            for total, pixel in zip(self._split(*self.sums[channel][triple], len(pixels)), pixels, strict=True):
                at = 4 * (PIXELS * channel + pixel)
                if add:
                    block.emit("load_word", old, partial, constant=at)
                    block.emit("add", total, total, old)
                block.emit("store_word", None, partial, total, constant=at)

    def _finish(self, weights: Variable, output: Variable, partial: bool) -> None:
        """Codes of all pixels; sums of later channels wait on the stack for their registers."""
        block, stage, scaling, stride = self.block, self.stage, self.scaling, self.stride
        for triples in self.sums[1:]:
            for words in triples:
                for word in words:
                    block.park(word)
        block.unpark(output)
        near = stride * (self.pixels - 1) + self.count < 4096
        for channel, triple, pixels in self._places():
            words = self.sums[0][triple]
            if triple == 0:
                stage.begin(block, scaling, weights, SCALING_BYTES * channel)
            if channel:
                for word, kept in zip(words, self.sums[channel][triple], strict=True):
                    block.unpark(kept, word)
            totals = self._split(*words, len(pixels))
            if partial:
                old = words[1]
                block.unpark(self.block.parameters[0])
                for total, pixel in zip(totals, pixels, strict=True):
                    block.emit("load_word", old, self.block.parameters[0], constant=4 * (PIXELS * channel + pixel))
                    block.emit("add", total, total, old)
            for total, pixel in zip(totals, pixels, strict=True):
                code = stage.code(block, total, scaling)
                block.emit("store_8", None, output, code, constant=channel + (pixel * stride if near else 0))
                if not near:
                    block.move(output, stride if pixel + 1 < self.pixels else -pixel * stride, scaling.low)
        block.emit("advance", weights, constant=SCALING_BYTES * self.layout.together)
        block.emit("advance", output, constant=self.count)
        block.park(output)


def triple_records(
    rows: np.ndarray, stage: OutputStage, zero_point: int, layout: TripleLayout, requantizer: ScalarRequantizer
) -> np.ndarray:
    """Words of the records for ``rows`` [channels, depth]; a last group is filled with channels of zeros."""
    channels, depth = rows.shape
    together = layout.together
    start = start_of(rows, stage.params[:, 0], zero_point)
    scaling = requantizer.records(stage)
    words: list[np.ndarray] = []
    for first in range(0, channels, together):
        part = slice(first, first + together)
        missing = first + together - min(channels, first + together)
        begins = np.outer(start[part], TRIPLE_FACTORS)
        codes = np.pad(rows[part], ((0, missing), (0, 0))).T.astype(np.int8).reshape(-1)
        codes = np.pad(codes, (0, layout.weight_bytes - together * depth))
        words.append(wrapped_words(np.pad(begins, ((0, missing), (0, 0)))))
        words.append(codes.view("<i4"))
        words.append(wrapped_words(np.pad(scaling[part], ((0, missing), (0, 0)))))
    return np.concatenate(words)


def wrapped_words(values: np.ndarray) -> np.ndarray:
    """Integers modulo 2^32 as int32."""
    return (values.reshape(-1) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def pack_block(count: int, unrolled: int) -> Block:
    """``NAME(a, b, c, tile)``: ``count`` codes of three pixels into the words of a triple."""
    pixels = [Variable(name, POINTER_IN) for name in ("a", "b", "c")]
    tile = Variable("tile", POINTER_OUT)
    block = Block([*pixels, tile])
    codes = [block.variable(f"x{name}") for name in ("a", "b", "c")]
    length, chunks, rest = chunked(count, unrolled)
    for times, steps in ((chunks, length), (1, rest)):
        if steps == 0:
            continue
        with block.loop("chunks", times):
            with block.repeat(steps) as k:
                for code, pixel in zip(codes, pixels, strict=True):
                    block.emit("load_s8", code, pixel, constant=k(0, 1))
                a, b, c = codes
                block.emit("add_shifted_left_21", a, a, b)
                block.emit("add_shifted_left_10", c, c, b)
                block.emit("store_word", None, tile, a, constant=k(0, ROW_BYTES))
                block.emit("store_word", None, tile, c, constant=k(4, ROW_BYTES))
            if times > 1 or rest:
                for pixel in pixels:
                    block.emit("advance", pixel, constant=steps)
                block.emit("advance", tile, constant=ROW_BYTES * steps)
    return block
