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
from itertools import pairwise

import numpy as np

from ..stage import OutputStage
from .matmul import wrapped
from .program import POINTER_IN, POINTER_OUT, Block, Variable
from .requantize import Requantizer, Scaling
from .requantize_mve import folded_biases
from .requantize_wide import WideRequantizer

# Most sums of a segment that wait on the stack for their requantization.
MOST_WAITING = 16


def pairs_block(channels: int, columns: int, count: int, others: int = 0) -> Block:
    """``NAME(upper, lower, plane)``: words of ``count`` pixels of two rows, channels (in fours) ``columns`` apart.

    ``others`` are channels between a pixel's and the next one's that are left out.
    """
    upper, lower = Variable("upper", POINTER_IN), Variable("lower", POINTER_IN)
    plane = Variable("plane", POINTER_OUT)
    block = Block([upper, lower, plane])
    a, b = block.variable("a"), block.variable("b")
    words = [block.variable("word0"), block.variable("word1")]
    for quad in plane_quads(block, channels, columns, count, 1, others):
        block.emit("load", a, upper, constant=4 * quad)
        block.emit("load", b, lower, constant=4 * quad)
        for number, word in enumerate(paired_codes(block, a, b, words)):
            block.emit("store", None, plane, word, constant=4 * columns * (4 * quad + number))
    return block


def plane_quads(block: Block, channels: int, columns: int, count: int, size: int, others: int = 0) -> Iterator[int]:
    """Describe four channels of a pixel in each round, whose number says how many fours the pointers are behind.

    The parameters of ``block`` are two rows, with codes of ``size`` bytes, and a plane; ``columns`` words of it are a
    channel, and ``others`` codes behind those of a pixel are passed over.
    """
    upper, lower, plane = block.parameters
    step, quads = block.variable("step"), channels // 4
    unrolled = next(n for n in (4, 3, 2, 1) if (quads % n == 0 and 16 * columns * n < 4096) or n == 1)
    with block.loop("pixels", count):
        with block.loop("quads", quads // unrolled):
            yield from range(unrolled)
            passed = 4 * size * unrolled + (size * others if unrolled == quads else 0)
            for pointer in (upper, lower):
                block.move(pointer, passed, step)
            if unrolled < quads:
                block.move(plane, 16 * columns * unrolled, step)
        if unrolled < quads:
            for pointer in (upper, lower):
                block.move(pointer, size * others, step)
        block.move(plane, 4 - (16 * columns * quads if unrolled < quads else 0), step)


def paired_codes(block: Block, a: Variable, b: Variable, words: list[Variable]) -> tuple[Variable, ...]:
    """Words of four channels, of a word of codes of the upper and one of the lower row, which are used up."""
    # Bytes 0 and 1 of both, bytes 2 and 3 of both.
    block.emit("pack_low", words[0], a, b)
    block.emit("pack_high", a, b, a)
    for odd, word in ((words[1], words[0]), (b, a)):
        block.emit("sxtb16_odd", odd, word)
        block.emit("sxtb16", word, word)
    return words[0], words[1], a, b


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
    others: int = 0,
) -> Block:
    """``NAME(first, second, weights, output)``: ``rows`` (1 or 2) rows of ``out_w`` pixels from two planes.

    Up to ``waiting`` sums are requantized together. ``others`` are channels of the output that are left out.
    """
    first, second = Variable("first", POINTER_IN), Variable("second", POINTER_IN)
    weights, output = Variable("weights", POINTER_IN), Variable("output", POINTER_OUT)
    block = Block([first, second, weights, output])
    pixel_bytes = (channels + others) * stage.size
    width = segment_width(pixel_bytes, out_w, min(waiting, MOST_WAITING) // rows)
    segments, rest = divmod(out_w, width)
    maker = _Depthwise(block, pixel_bytes, out_w, rows, stride, stage, small)
    # Planes that several segments walk along have to come back to where a channel begins.
    moves = segments > 1 or rest > 0
    for parameter in (first, second, weights, output) if moves else (weights, output):
        block.park(parameter)
    with block.loop("channels", channels, parked=True):
        maker.begin_channel(weights, width, only=not moves)
        if moves:
            for pointer in (first, second):
                block.unpark(pointer)
        with block.loop("segments", segments, parked=True):
            onwards = width * pixel_bytes if moves else stage.size
            maker.segment(first, second, weights, output, width, onwards, advance=moves, only=not moves)
        if rest:
            maker.segment(first, second, weights, output, rest, rest * pixel_bytes, advance=False, only=False)
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
        self.codes = [block.variable(f"code{number}") for number in range(4)]
        self.step = block.variable("step")

    def begin_channel(self, weights: Variable, width: int, *, only: bool) -> None:
        """Taps into registers, bias onto the stack; that of an ``only`` segment stays where its first sums begin."""
        block, groups = self.block, self._groups(width)
        block.unpark(weights)
        bias = self.accumulators[self.rows * groups[0][1] - 1]
        block.emit("load", bias, weights, constant=0)
        if not only or len(groups) > 1:
            block.park(bias, self.bias)
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
        only: bool,
    ) -> None:
        """``width`` columns: sums four at a time, then all codes; ``target`` goes ``onwards`` by so many bytes.

        Behind the ``only`` segment of a channel the registers of taps are free: its last sums, as many as there can be,
        need not wait on the stack.
        """
        held: dict[tuple[int, int], Variable] = {}
        for start, end in self._groups(width):
            sums = self._sums(first, second, list(range(start, end)), recall=start > 0 or not only)
            if only and end == width:
                held = sums
                continue
            for (row, column), total in sums.items():
                self.block.park(total, self.sums[row * width + column])
        if advance:
            for pointer in (first, second):
                self.block.emit("advance", pointer, constant=4 * self.stride * width)
        self._codes(weights, target, width, onwards, held)

    def _groups(self, width: int) -> list[tuple[int, int]]:
        """Columns whose sums are made together, up to four sums; the last ones are as many as there can be."""
        at_once = 4 // self.rows
        return list(pairwise([0, *range(width % at_once or at_once, width, at_once), width]))

    def _sums(
        self, first: Variable, second: Variable, outputs: list[int], *, recall: bool
    ) -> dict[tuple[int, int], Variable]:
        """Sums of some columns by row and column; the bias is on the stack (``recall``), or in the last one's place."""
        block = self.block
        places = [(row, column) for column in outputs for row in range(self.rows)]
        sums = dict(zip(places, self.accumulators, strict=False))
        begun: set[tuple[int, int]] = set()
        bias = sums[places[-1]]
        if recall:
            block.unpark(self.bias, bias)
        for column in range(outputs[0] * self.stride, outputs[-1] * self.stride + 3):
            for word, plane in zip(self.words, (first, second), strict=True):
                block.emit("load", word, plane, constant=4 * column)
            for place in places:
                tap = column - place[1] * self.stride
                if not 0 <= tap < 3:
                    continue
                total = sums[place]
                start = total if place in begun else bias
                begun.add(place)
                if place[0] == 0:
                    block.emit("smlad", total, self.words[0], self.upper[tap], start)
                    block.emit("smlabt", total, self.words[1], self.lower[tap], total)
                else:
                    block.emit("smlatb", total, self.words[0], self.upper[tap], start)
                    block.emit("smlad", total, self.words[1], self.lower[tap], total)
        return sums

    def _codes(
        self,
        weights: Variable,
        target: Variable,
        width: int,
        onwards: int,
        held: dict[tuple[int, int], Variable],
    ) -> None:
        """Codes of all sums: ``held`` ones, and the others from the stack."""
        block, stage = self.block, self.stage
        block.unpark(weights)
        block.unpark(target)
        stage.begin(block, self.scaling, weights, -8, -4, offset_at=None if self.small else -12)
        line = self.out_w * self.pixel_bytes
        near = (self.rows - 1) * line + (width - 1) * self.pixel_bytes < 4096
        for row in range(self.rows):
            waiting = [column for column in range(width) if (row, column) not in held]
            # Neighbouring loads and stores overlap; the sign takes a register, and so do taps that are still needed.
            at_once = (4 if held else 2) - stage.sign
            at = row * line if near else 0
            for start in range(0, len(waiting), at_once):
                columns = waiting[start : start + at_once]
                codes = dict(zip(columns, self.codes, strict=False))
                for column, code in codes.items():
                    block.unpark(self.sums[row * width + column], code)
                self._store(target, at, codes)
            self._store(target, at, {column: total for (r, column), total in held.items() if r == row})
            if not near and row + 1 < self.rows:
                block.move(target, line, self.step)
        block.move(target, onwards - (0 if near else (self.rows - 1) * line), self.step)
        block.park(target)

    def _store(self, target: Variable, at: int, sums: dict[int, Variable]) -> None:
        """Codes of columns of a row that begins ``at`` bytes behind ``target``."""
        for total in sums.values():
            self.stage.code(self.block, total, self.scaling)
        for column, code in sums.items():
            self.block.emit(self.stage.store, None, target, code, constant=at + column * self.pixel_bytes)


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
