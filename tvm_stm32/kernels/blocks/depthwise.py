"""Depthwise 3x3 for cores with the DSP extension: words of two rows, so that SMLAD takes two taps.

Two planes hold input rows in pairs (rows 0 and 1, rows 2 and 3): [channels][columns] words whose halfwords are
2 * (code + 128) of the upper and of the lower row. With a column's taps as words (t0, t1) and (t1, t2), an output in
the upper row is SMLAD(plane 0, t0 t1) + plane 1 low * t2, one in the lower row is plane 0 high * t0 +
SMLAD(plane 1, t1 t2). With stride 2 only the upper row exists.

The weights are a record of six words a channel: bias, three columns of taps (bytes t0, t1, t1, t2), multiplier, shift
less one.
"""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .matmul import wrapped
from .program import POINTER_IN, POINTER_OUT, Block, Variable
from .requantize import Requantizer
from .requantize_wide import WideRequantizer

RECORD_BYTES = 24
# Sums of a segment wait on the stack for their requantization.
_WAITING = 16


def pairs_block(channels: int, columns: int) -> Block:
    """``NAME(upper, lower, plane)``: words of one pixel's channels (a multiple of four), ``columns`` words apart."""
    upper, lower = Variable("upper", POINTER_IN), Variable("lower", POINTER_IN)
    plane = Variable("plane", POINTER_OUT)
    block = Block([upper, lower, plane])
    mask = block.set(block.variable("mask"), 0x01FE01FE)
    a, b, low_a, low_b = (block.variable(name) for name in ("a", "b", "even_a", "even_b"))
    word = block.variable("word")
    quads = channels // 4
    unrolled = next(n for n in (4, 3, 2, 1) if quads % n == 0)
    with block.loop("quads", quads // unrolled):
        for quad in range(unrolled):
            block.emit("load", a, upper, constant=4 * quad)
            block.emit("load", b, lower, constant=4 * quad)
            for x in (a, b):
                block.emit("flip", x, x, constant=0x80808080)
            for low, x in ((low_a, a), (low_b, b)):
                block.emit("and_shifted_left_1", low, mask, x)
                block.emit("and_shifted_right_7", x, mask, x)
            for number, (first, second, how) in enumerate(
                [(low_a, low_b, "pack_low"), (a, b, "pack_low"), (low_b, low_a, "pack_high"), (b, a, "pack_high")]
            ):
                block.emit(how, word, first, second)
                block.emit("store", None, plane, word, constant=4 * columns * number)
            block.emit("advance", plane, constant=16 * columns)
        block.emit("advance", upper, constant=4 * unrolled)
        block.emit("advance", lower, constant=4 * unrolled)
    return block


def depthwise_block(
    channels: int, columns: int, out_w: int, rows: int, stride: int, stage: Requantizer | WideRequantizer
) -> Block:
    """``NAME(first, second, weights, output)``: ``rows`` (1 or 2) rows of ``out_w`` pixels from two planes."""
    first, second = Variable("first", POINTER_IN), Variable("second", POINTER_IN)
    weights, output = Variable("weights", POINTER_IN), Variable("output", POINTER_OUT)
    block = Block([first, second, weights, output])
    for parameter in block.parameters:
        block.park(parameter)
    width = segment_width(channels * stage.size, out_w, rows)
    segments, rest = divmod(out_w, width)
    maker = _Depthwise(block, channels, out_w, rows, stride, stage)
    moves = segments > 1 or rest > 0
    with block.loop("channels", channels, parked=True):
        maker.begin_channel(weights)
        for pointer in (first, second):
            block.unpark(pointer)
        block.unpark(output)
        target = block.variable("target", POINTER_OUT)
        block.emit("copy_pointer", target, output)
        block.park(target)
        block.emit("advance", output, constant=stage.size)
        block.park(output)
        with block.loop("segments", segments, parked=True):
            maker.segment(first, second, weights, target, width, advance=moves)
        if rest:
            maker.segment(first, second, weights, target, rest, advance=False)
        for pointer in (first, second):
            if moves:
                block.unpark(pointer)
            block.emit("advance", pointer, constant=4 * columns)
            block.park(pointer)
    return block


def segment_width(pixel_bytes: int, out_w: int, rows: int) -> int:
    """Columns done between two requantizations: their sums fit the stack, their codes an instruction's offset."""
    most = max(1, min(_WAITING // rows, 4095 // pixel_bytes))
    return -(-out_w // -(-out_w // most))


class _Depthwise:
    def __init__(
        self,
        block: Block,
        channels: int,
        out_w: int,
        rows: int,
        stride: int,
        stage: Requantizer | WideRequantizer,
    ) -> None:
        self.block, self.pixel_bytes, self.out_w = block, channels * stage.size, out_w
        self.rows, self.stride, self.stage = rows, stride, stage
        self.upper = [block.variable(f"taps{column}_01") for column in range(3)]
        self.lower = [block.variable(f"taps{column}_12") for column in range(3)]
        self.bias = block.variable("bias")
        self.sums = [block.variable(f"sum{number}") for number in range(_WAITING)]
        self.words = [block.variable("p0"), block.variable("p1")]
        self.registers = {name: block.variable(name) for name in ("multiplier", "shift", "offset", "scratch")}
        self.code = block.variable("code")
        self.step = block.variable("step")

    def begin_channel(self, weights: Variable) -> None:
        """Taps into registers, bias onto the stack."""
        block = self.block
        block.unpark(weights)
        block.emit("load", self.bias, weights, constant=0)
        block.park(self.bias)
        for column in range(3):
            block.emit("load", self.lower[column], weights, constant=4 + 4 * column)
        for column in range(3):
            block.emit("sxtb16", self.upper[column], self.lower[column])
            block.emit("sxtb16_odd", self.lower[column], self.lower[column])
        block.emit("advance", weights, constant=RECORD_BYTES)
        block.park(weights)

    def segment(
        self, first: Variable, second: Variable, weights: Variable, target: Variable, width: int, *, advance: bool
    ) -> None:
        """``width`` columns: sums four at a time, then all codes."""
        at_once = 4 // self.rows
        for start in range(0, width, at_once):
            self._sums(first, second, list(range(start, min(start + at_once, width))), width)
        if advance:
            for pointer in (first, second):
                self.block.emit("advance", pointer, constant=4 * self.stride * width)
        self._codes(weights, target, width)

    def _sums(self, first: Variable, second: Variable, outputs: list[int], width: int) -> None:
        block = self.block
        places = [(row, column) for column in outputs for row in range(self.rows)]
        sums = {place: self.sums[place[0] * width + place[1]] for place in places}
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
            block.park(sums[place])

    def _codes(self, weights: Variable, target: Variable, width: int) -> None:
        block, stage = self.block, self.stage
        multiplier, shift = self.registers["multiplier"], self.registers["shift"]
        offset, scratch = self.registers["offset"], self.registers["scratch"]
        block.unpark(weights)
        block.emit("load", multiplier, weights, constant=16 - RECORD_BYTES)
        if isinstance(stage, Requantizer):
            block.emit("load_u8", shift, weights, constant=20 - RECORD_BYTES)
            stage.offset(block, shift, offset)
        block.unpark(target)
        for row in range(self.rows):
            for column in range(width):
                total = block.unpark(self.sums[row * width + column], self.code)
                stage.code(block, total, multiplier, offset, shift, scratch)
                block.emit(stage.store, None, target, total, constant=column * self.pixel_bytes)
            block.move(target, self.out_w * self.pixel_bytes if row + 1 < self.rows else 0, self.step)
        back = width * self.pixel_bytes - (self.rows - 1) * self.out_w * self.pixel_bytes
        block.move(target, back, self.step)
        block.park(target)


def depthwise_records(weight: np.ndarray, stage: OutputStage, zero_point: int) -> np.ndarray:
    """Weights [channels, 3, 3] and parameters for :func:`depthwise_block` as int32 words."""
    wide = weight.astype(np.int64)
    biases = wrapped(2 * (stage.params[:, 0].astype(np.int64) - (zero_point + 128) * wide.sum(axis=(1, 2))))
    taps = np.ascontiguousarray(weight[:, [0, 1, 1, 2], :].transpose(0, 2, 1).astype(np.int8))
    columns = [biases.reshape(-1, 1), taps.reshape(len(weight), 12).view("<i4"), stage.params[:, 1].reshape(-1, 1)]
    columns.append((stage.shifts.astype(np.int32) - 1).reshape(-1, 1))
    return np.ascontiguousarray(np.concatenate(columns, axis=1).astype(np.int32)).reshape(-1)
