"""Depthwise convolution of any kernel for cores with the DSP extension: one pixel, four channels at a time.

Codes and taps of four channels are a word each; SXTB16 splits both into channels 0 and 2, and 1 and 3. For each four
channels the weights are a record of words: biases, taps (bytes), multipliers, shifts less one (bytes). Without a
requantizer the block stores sums, and records end with the taps.
"""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .program import POINTER_IN, POINTER_OUT, Block, Variable
from .requantize import Requantizer, Scaling
from .requantize_mve import folded_biases

# Taps that are written out; a larger kernel loops over its rows.
_UNROLLED = 32


def depthwise_any_block(
    channels: int, kernel: tuple[int, int], row_step: int, column_step: int, stage: Requantizer | None
) -> Block:
    """``NAME(input, weights, output)``: ``channels`` (in fours) of a pixel, taps those steps of bytes apart."""
    source, weights = Variable("input", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([source, weights, output])
    sums = [block.variable(f"sum{channel}") for channel in range(4)]
    row, step = block.variable("row", POINTER_IN), block.variable("step")
    with block.loop("quads", channels // 4, parked=True):
        for channel, total in enumerate(sums):
            block.emit("load", total, weights, constant=4 * channel)
        block.emit("advance", weights, constant=16)
        block.emit("copy_pointer", row, source)
        if kernel[0] * kernel[1] <= _UNROLLED:
            for ky in range(kernel[0]):
                _taps(block, row, weights, kernel[1], column_step, sums)
                if ky + 1 < kernel[0]:
                    block.move(row, row_step, step)
        else:
            with block.loop("rows", kernel[0], parked=True):
                _taps(block, row, weights, kernel[1], column_step, sums)
                block.move(row, row_step, step)
        _finish(block, weights, output, sums, stage)
        block.emit("advance", source, constant=4)
    return block


def _taps(block: Block, row: Variable, weights: Variable, count: int, column_step: int, sums: list[Variable]) -> None:
    """A row of taps; ``row`` stays where it is, ``weights`` goes on."""
    x, x_odd, w, w_odd = (block.variable(name) for name in ("x", "x_odd", "w", "w_odd"))
    near = (count - 1) * column_step < 4092
    for tap in range(count):
        block.emit("load", x, row, constant=tap * column_step if near else 0)
        block.emit("load", w, weights, constant=4 * tap)
        for odd, word in ((x_odd, x), (w_odd, w)):
            block.emit("sxtb16_odd", odd, word)
            block.emit("sxtb16", word, word)
        block.emit("smlabb", sums[0], x, w, sums[0])
        block.emit("smlatt", sums[2], x, w, sums[2])
        block.emit("smlabb", sums[1], x_odd, w_odd, sums[1])
        block.emit("smlatt", sums[3], x_odd, w_odd, sums[3])
        if not near:
            block.move(row, column_step if tap + 1 < count else -tap * column_step, x)
    block.emit("advance", weights, constant=4 * count)


def _finish(block: Block, weights: Variable, output: Variable, sums: list[Variable], stage: Requantizer | None) -> None:
    if stage is None:
        for channel, total in enumerate(sums):
            block.emit("store", None, output, total, constant=4 * channel)
        block.emit("advance", output, constant=16)
        return
    scaling = Scaling(block)
    for channel, total in enumerate(sums):
        stage.begin(block, scaling, weights, 4 * channel, 16 + channel)
        block.emit("add", total, total, total)
        stage.code(block, total, scaling)
        block.emit("store_8", None, output, total, constant=channel)
    block.emit("advance", weights, constant=20)
    block.emit("advance", output, constant=4)


def depthwise_any_records(
    weight: np.ndarray, stage: OutputStage, zero_point: int, *, finished: bool = True
) -> np.ndarray:
    """Weights [channels (in fours), kernel_h, kernel_w] and parameters as int32 words."""
    biases = folded_biases(weight, stage, zero_point)
    taps = weight.reshape(len(weight), -1).astype(np.int8)
    parts = []
    for start in range(0, len(weight), 4):
        quad = slice(start, start + 4)
        parts += [biases[quad].tobytes(), np.ascontiguousarray(taps[quad].T).tobytes()]
        if finished:
            parts += [stage.params[quad, 1].astype(np.int32).tobytes()]
            parts += [(stage.shifts[quad].astype(np.int16) - 1).astype(np.int8).tobytes()]
    return np.frombuffer(b"".join(parts), "<i4").astype(np.int32)
