"""Depthwise 3x3 for cores with the DSP extension: words of two rows, so that SMLAD takes two taps.

Two planes hold input rows in pairs (rows 0 and 1, rows 2 and 3): [channels][columns] words whose halfwords are the
codes of the upper and of the lower row. With a column's taps as words (t0, t1) and (t1, t2), an output in
the upper row is SMLAD(plane 0, t0 t1) + plane 1 low * t2, one in the lower row is plane 0 high * t0 +
SMLAD(plane 1, t1 t2). With stride 2 only the upper row exists.

The weights are a record of words a channel: bias, taps of three columns, multiplier, shift less one (before them the
rounding constant, where records are not ``small``). Taps are doubled,
so that sums are; a column is the two words of doubled taps, or (``small``) a word of bytes t0, t1, t1, t2 that is
widened and doubled whenever a row pair begins.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..stage import OutputStage
from .matmul import wrapped
from .program import POINTER_IN, POINTER_OUT, Block, Variable
from .requantize import Requantizer, Scaling
from .requantize_mve import folded_biases
from .requantize_wide import WideRequantizer

# Most sums of a segment that wait on the stack for their requantization.
MOST_WAITING = 16


def pairs_block(channels: int, columns: int, count: int) -> Block:
    """``NAME(upper, lower, plane)``: words of ``count`` pixels of two rows, channels (in fours) ``columns`` apart."""
    upper, lower = Variable("upper", POINTER_IN), Variable("lower", POINTER_IN)
    plane = Variable("plane", POINTER_OUT)
    block = Block([upper, lower, plane])
    a, b, low_a, low_b = (block.variable(name) for name in ("a", "b", "even_a", "even_b"))
    for quad in plane_quads(block, channels, columns, count, 1):
        block.emit("load", a, upper, constant=4 * quad)
        block.emit("load", b, lower, constant=4 * quad)
        words = [block.variable("word0"), block.variable("word1")]
        for number, word in enumerate(paired_codes(block, (a, b), (low_a, low_b), words)):
            block.emit("store", None, plane, word, constant=4 * columns * (4 * quad + number))
    return block


def plane_quads(block: Block, channels: int, columns: int, count: int, size: int) -> Iterator[int]:
    """Describe four channels of a pixel in each round, whose number says how many fours the pointers are behind.

    The parameters of ``block`` are two rows, with codes of ``size`` bytes, and a plane; ``columns`` words of it are a
    channel.
    """
    upper, lower, plane = block.parameters
    step, quads = block.variable("step"), channels // 4
    unrolled = next(n for n in (4, 3, 2, 1) if (quads % n == 0 and 16 * columns * n < 4096) or n == 1)
    with block.loop("pixels", count):
        with block.loop("quads", quads // unrolled):
            yield from range(unrolled)
            for pointer in (upper, lower):
                block.emit("advance", pointer, constant=4 * size * unrolled)
            if unrolled < quads:
                block.move(plane, 16 * columns * unrolled, step)
        block.move(plane, 4 - (16 * columns * quads if unrolled < quads else 0), step)


def paired_codes(
    block: Block, codes: tuple[Variable, Variable], low: tuple[Variable, Variable], words: list[Variable]
) -> tuple[Variable, ...]:
    """Words of four channels, of a word of codes of the upper and one of the lower row; all variables are used up."""
    for even, x in zip(low, codes, strict=True):
        block.emit("sxtb16", even, x)
        block.emit("sxtb16_odd", x, x)
    # The last use of a word may overwrite it: two words are made, then two more in place.
    block.emit("pack_low", words[0], *low)
    block.emit("pack_low", words[1], *codes)
    block.emit("pack_high", low[0], low[1], low[0])
    block.emit("pack_high", codes[0], codes[1], codes[0])
    return words[0], words[1], low[0], codes[0]


def record_bytes(small: bool) -> int:
    """Bytes of a channel's record."""
    return 24 if small else 40


def depthwise_block(
    channels: int,
    columns: int,
    out_w: int,
    rows: int,
    stride: int,
    stage: Requantizer | WideRequantizer,
    *,
    small: bool,
    waiting: int,
) -> Block:
    """``NAME(first, second, weights, output)``: ``rows`` (1 or 2) rows of ``out_w`` pixels from two planes.

    Up to ``waiting`` sums are requantized together.
    """
    first, second = Variable("first", POINTER_IN), Variable("second", POINTER_IN)
    weights, output = Variable("weights", POINTER_IN), Variable("output", POINTER_OUT)
    block = Block([first, second, weights, output])
    pixel_bytes = channels * stage.size
    width = segment_width(pixel_bytes, out_w, min(waiting, MOST_WAITING) // rows)
    segments, rest = divmod(out_w, width)
    maker = _Depthwise(block, pixel_bytes, out_w, rows, stride, stage, small)
    # Planes that several segments walk along have to come back to where a channel begins.
    moves = segments > 1 or rest > 0
    for parameter in (first, second, weights, output) if moves else (weights, output):
        block.park(parameter)
    with block.loop("channels", channels, parked=True):
        maker.begin_channel(weights)
        if moves:
            for pointer in (first, second):
                block.unpark(pointer)
        with block.loop("segments", segments, parked=True):
            onwards = width * pixel_bytes if moves else stage.size
            maker.segment(first, second, weights, output, width, onwards, advance=moves)
        if rest:
            maker.segment(first, second, weights, output, rest, rest * pixel_bytes, advance=False)
        if moves:
            block.unpark(output)
            block.move(output, stage.size - out_w * pixel_bytes, maker.step)
            block.park(output)
        for pointer in (first, second):
            if moves:
                block.unpark(pointer)
            block.emit("advance", pointer, constant=4 * columns)
            if moves:
                block.park(pointer)
    return block


def segment_width(pixel_bytes: int, out_w: int, most: int) -> int:
    """Columns, at most ``most``, done between two requantizations; their codes lie within an instruction's offset."""
    most = max(1, min(most, 4095 // pixel_bytes))
    return -(-out_w // -(-out_w // most))


class _Depthwise:
    def __init__(
        self,
        block: Block,
        pixel_bytes: int,
        out_w: int,
        rows: int,
        stride: int,
        stage: Requantizer | WideRequantizer,
        small: bool,
    ) -> None:
        self.block, self.pixel_bytes, self.out_w = block, pixel_bytes, out_w
        self.rows, self.stride, self.stage, self.small = rows, stride, stage, small
        self.upper = [block.variable(f"taps{column}_01") for column in range(3)]
        self.lower = [block.variable(f"taps{column}_12") for column in range(3)]
        self.bias = block.variable("bias")
        self.sums = [block.variable(f"sum{number}") for number in range(MOST_WAITING)]
        self.accumulators = [block.variable(f"acc{number}") for number in range(4)]
        self.words = [block.variable("p0"), block.variable("p1")]
        self.scaling = Scaling(block)
        self.codes = [block.variable("code0"), block.variable("code1")]
        self.step = block.variable("step")

    def begin_channel(self, weights: Variable) -> None:
        """Taps into registers, bias onto the stack."""
        block = self.block
        block.unpark(weights)
        block.emit("load", self.bias, weights, constant=0)
        block.park(self.bias)
        if self.small:
            for column in range(3):
                block.emit("load", self.lower[column], weights, constant=4 + 4 * column)
            for column in range(3):
                block.emit("sxtb16", self.upper[column], self.lower[column])
                block.emit("sxtb16_odd", self.lower[column], self.lower[column])
            for word in (*self.upper, *self.lower) if self.stage.doubled else ():
                block.emit("sadd16", word, word, word)
        else:
            for column in range(3):
                block.emit("load", self.upper[column], weights, constant=4 + 8 * column)
                block.emit("load", self.lower[column], weights, constant=8 + 8 * column)
        block.emit("advance", weights, constant=record_bytes(self.small))
        block.park(weights)

    def segment(
        self,
        first: Variable,
        second: Variable,
        weights: Variable,
        target: Variable,
        width: int,
        onwards: int,
        *,
        advance: bool,
    ) -> None:
        """``width`` columns: sums four at a time, then all codes; ``target`` goes ``onwards`` by so many bytes."""
        at_once = 4 // self.rows
        for start in range(0, width, at_once):
            self._sums(first, second, list(range(start, min(start + at_once, width))), width)
        if advance:
            for pointer in (first, second):
                self.block.emit("advance", pointer, constant=4 * self.stride * width)
        self._codes(weights, target, width, onwards)

    def _sums(self, first: Variable, second: Variable, outputs: list[int], width: int) -> None:
        block = self.block
        places = [(row, column) for column in outputs for row in range(self.rows)]
        sums = dict(zip(places, self.accumulators, strict=False))
        begun: set[tuple[int, int]] = set()
        block.unpark(self.bias)
        for column in range(outputs[0] * self.stride, outputs[-1] * self.stride + 3):
            for word, plane in zip(self.words, (first, second), strict=True):
                block.emit("load", word, plane, constant=4 * column)
            for place in places:
                tap = column - place[1] * self.stride
                if not 0 <= tap < 3:
                    continue
                total = sums[place]
                start = total if place in begun else self.bias
                begun.add(place)
                if place[0] == 0:
                    block.emit("smlad", total, self.words[0], self.upper[tap], start)
                    block.emit("smlabt", total, self.words[1], self.lower[tap], total)
                else:
                    block.emit("smlatb", total, self.words[0], self.upper[tap], start)
                    block.emit("smlad", total, self.words[1], self.lower[tap], total)
        for place in places:
            block.park(sums[place], self.sums[place[0] * width + place[1]])

    def _codes(self, weights: Variable, target: Variable, width: int, onwards: int) -> None:
        block, stage = self.block, self.stage
        block.unpark(weights)
        stage.begin(block, self.scaling, weights, -8, -4, offset_at=None if self.small else -12)
        block.unpark(target)
        for row in range(self.rows):
            # Neighbouring loads and stores overlap; with the sign there is no register for a second code.
            at_once = 1 if stage.sign else 2
            for start in range(0, width, at_once):
                columns = list(range(start, min(start + at_once, width)))
                for column, code in zip(columns, self.codes, strict=False):
                    block.unpark(self.sums[row * width + column], code)
                for code in self.codes[: len(columns)]:
                    stage.code(block, code, self.scaling)
                for column, code in zip(columns, self.codes, strict=False):
                    block.emit(stage.store, None, target, code, constant=column * self.pixel_bytes)
            block.move(target, self.out_w * self.pixel_bytes if row + 1 < self.rows else 0, self.step)
        block.move(target, onwards - (self.rows - 1) * self.out_w * self.pixel_bytes, self.step)
        block.park(target)


def depthwise_records(weight: np.ndarray, stage: OutputStage, zero_point: int, *, small: bool) -> np.ndarray:
    """Weights [channels, 3, 3] and parameters for :func:`depthwise_block` as int32 words."""
    biases = 2 * folded_biases(weight, stage, zero_point).astype(np.int64)
    columns = weight[:, [0, 1, 1, 2], :].transpose(0, 2, 1)
    if small:
        taps = np.ascontiguousarray(columns.astype(np.int8)).reshape(len(weight), 12).view("<i4")
    else:
        taps = np.ascontiguousarray(2 * columns.astype("<i2")).reshape(len(weight), 12).view("<i4")
    parts = [wrapped(biases).reshape(-1, 1), taps]
    if not small:
        parts.append(Requantizer.of(stage).offsets(stage).reshape(-1, 1))
    parts += [stage.params[:, 1].reshape(-1, 1), (stage.shifts.astype(np.int32) - 1).reshape(-1, 1)]
    return np.ascontiguousarray(np.concatenate(parts, axis=1).astype(np.int32)).reshape(-1)
