"""Depthwise 3x3 for cores without the DSP extension: a row of output pixels, nine weights of a channel in registers.

Three input rows lie one behind the other, borders included. Each of their codes is loaded once and multiplied for up to
three output pixels; those sums wait in memory until there are registers to make codes of them. A channel's record is::

    nine codes of weights, three bytes unused; what its sums begin from; scaling
"""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .matmul_scalar import start_of, wrapped_words
from .program import POINTER_IN, POINTER_OUT, Block, Variable
from .requantize_scalar import SCALING_BYTES, ScalarRequantizer, ScalarScaling

TAPS = 3
_BIAS = 12
RECORD_BYTES = _BIAS + 4 + SCALING_BYTES
_REACH = 4095
# Output pixels that are written out; more are a loop.
_UNROLLED = 6
# Channels whose bytes share a word: their sums go to the same aligned place.
_TOGETHER = 4


def row_columns(out_w: int, stride: int) -> int:
    """Columns of the input rows."""
    return (out_w - 1) * stride + TAPS


def sums_bytes(out_w: int, stride: int, channels: int) -> int:
    """Bytes behind the input rows for sums."""
    return ((out_w - 1) * stride + 1) * channels + 4


def fits_rows(out_w: int, stride: int, channels: int, *, any_address: bool) -> bool:
    """Whether a pixel's rows and sums are in reach of one pointer, words at ``any_address`` if need be."""
    # Sums are as far apart as pixels.
    placed = channels >= 4 and (any_address or channels % _TOGETHER == 0)
    return placed and stride in (1, 2) and TAPS * row_columns(out_w, stride) * channels + 4 <= _REACH


def depthwise_rows_block(out_w: int, stride: int, channels: int, stage: ScalarRequantizer) -> Block:
    """``NAME(rows, weights, output)``: ``channels`` codes of each of ``out_w`` pixels."""
    rows, weights = Variable("rows", POINTER_OUT), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([rows, weights, output])
    row = _Row(block, out_w, stride, channels, stage)
    together = _TOGETHER if channels % _TOGETHER == 0 else 1
    block.park(rows)
    block.park(output)
    with block.loop("channels", channels // together, parked=True):
        for lane in range(together):
            row.channel(weights, lane)
    return block


class _Row:
    def __init__(self, block: Block, out_w: int, stride: int, channels: int, stage: ScalarRequantizer) -> None:
        self.block, self.out_w, self.stride, self.channels, self.stage = block, out_w, stride, channels, stage
        self.row_bytes = row_columns(out_w, stride) * channels
        self.scaling = ScalarScaling(block)
        self.taps = [[block.variable(f"w{y}{x}") for x in range(TAPS)] for y in range(TAPS)]
        self.sums = [block.variable(f"sum{n}") for n in range(TAPS)]
        self.code, self.bias = block.variable("x"), block.variable("bias")
        self.at = 0
        # Sums of channels that are not in fours lie anywhere.
        self.load, self.store = ("load", "store") if channels % _TOGETHER else ("load_word", "store_word")

    def channel(self, weights: Variable, lane: int) -> None:
        """Sums, then codes of a channel; pointers go on to the next."""
        block, source = self.block, self.block.parameters[0]
        keep = TAPS * self.row_bytes - lane
        block.park(weights)
        for y, line in enumerate(self.taps):
            for x, tap in enumerate(line):
                block.emit("load_s8", tap, weights, constant=TAPS * y + x)
        block.unpark(source)
        self._sums(source, keep)
        block.unpark(source)
        block.unpark(weights)
        self._codes(source, keep, weights)
        block.emit("advance", weights, constant=RECORD_BYTES)
        block.unpark(source)
        block.emit("advance", source, constant=1)
        block.park(source)

    def _sums(self, source: Variable, keep: int) -> None:
        """Input columns from left to right; ``keep`` is how far behind its first column an output's sum lies."""
        period = TAPS if self.stride == 1 else 2
        pixels, ahead = range(self.out_w), TAPS - self.stride
        self.at = 0
        for column in range(ahead):
            self._column(source, column, pixels, keep)
        times = self.out_w // period if self.out_w > _UNROLLED else 0
        if times:
            # Outputs a period apart have the same registers.
            with self.block.loop("columns", times, parked=True):
                for step in range(period * self.stride):
                    self._column(source, ahead + step, None, keep)
                self._move(source, period * self.stride)
            self.at = 0
        done = times * period
        for step in range((self.out_w - done) * self.stride):
            self._column(source, ahead + step, range(self.out_w - done), keep)

    def _column(self, source: Variable, column: int, pixels: range | None, keep: int) -> None:
        """One input column; of the outputs in ``pixels`` (None: all) whose windows it is in."""
        block, stride, channels = self.block, self.stride, self.channels
        if (column - self.at) * channels + keep > _REACH:
            self._move(source, column - self.at)
        used = [
            (x, (column - x) // stride)
            for x in range(TAPS - 1, -1, -1)
            if (column - x) % stride == 0 and (pixels is None or (column - x) // stride in pixels)
        ]
        for y in range(TAPS):
            block.emit("load_s8", self.code, source, constant=y * self.row_bytes + (column - self.at) * channels)
            for x, pixel in used:
                total = self.sums[pixel % (TAPS if stride == 1 else 2)]
                if x == 0 and y == 0:
                    block.emit("multiply", total, self.code, self.taps[y][x])
                else:
                    block.emit("multiply_add", total, self.code, self.taps[y][x], total)
        for x, pixel in used:
            if x == TAPS - 1:
                at = keep + (column - self.at - (TAPS - 1)) * channels
                total = self.sums[pixel % (TAPS if stride == 1 else 2)]
                block.emit(self.store, None, source, total, constant=at)

    def _move(self, source: Variable, columns: int) -> None:
        self.block.move(source, columns * self.channels, self.code)
        self.at += columns

    def _codes(self, source: Variable, keep: int, weights: Variable) -> None:
        block, channels, total = self.block, self.channels, self.sums[0]
        output = self.block.parameters[2]
        block.unpark(output)
        self.stage.begin(block, self.scaling, weights, _BIAS + 4)
        block.emit("load_word", self.bias, weights, constant=_BIAS)
        unrolled = next(
            n
            for n in range(min(self.out_w, 8), 0, -1)
            if self.out_w % n == 0 and keep + (n - 1) * self.stride * channels <= _REACH and n * channels <= _REACH
        )
        with block.loop("pixels", self.out_w // unrolled, parked=True):
            with block.repeat(unrolled) as k:
                block.emit(self.load, total, source, constant=k(keep, self.stride * channels))
                block.emit("add", total, total, self.bias)
                code = self.stage.code(block, total, self.scaling)
                block.emit("store_8", None, output, code, constant=k(0, channels))
            if unrolled < self.out_w:
                block.move(source, unrolled * self.stride * channels, total)
                block.move(output, unrolled * channels, total)
        block.unpark(output)
        block.emit("advance", output, constant=1)
        block.park(output)


def depthwise_rows_records(
    taps: np.ndarray, stage: OutputStage, zero_point: int, requantizer: ScalarRequantizer
) -> np.ndarray:
    """Words of the records for ``taps`` [channels, 9]."""
    codes = np.pad(taps, ((0, 0), (0, _BIAS - taps.shape[1]))).astype(np.int8)
    start = wrapped_words(start_of(taps, stage.params[:, 0], zero_point)).reshape(-1, 1)
    scaling = wrapped_words(requantizer.records(stage)).reshape(-1, 3)
    return np.concatenate([codes.view("<i4"), start, scaling], axis=1).reshape(-1)
