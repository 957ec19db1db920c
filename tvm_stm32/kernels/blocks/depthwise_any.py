"""Depthwise convolution of any kernel for cores with the DSP extension: one pixel, four channels at a time.

Codes of four channels are a word (int16 codes: two), their taps a word of bytes. SXTB16 splits bytes into channels 0
and 2, and 1 and 3; taps of int16 codes therefore lie in the order 0, 2, 1, 3. For each four channels the weights are a
record of words: biases, taps, multipliers, and of int8 codes shifts less one (bytes). Without a requantizer the block
stores sums of int8 codes, and records end with the taps.
"""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .depthwise_taps import kernel_rows, row_taps
from .program import POINTER_IN, POINTER_OUT, Block, Variable
from .requantize import Requantizer, Scaling
from .requantize_mve import folded_biases
from .requantize_wide import WideRequantizer, WideScales


def depthwise_any_block(
    channels: int,
    kernel: tuple[int, int],
    row_step: int,
    column_step: int,
    stage: Requantizer | WideRequantizer | None,
) -> Block:
    """``NAME(input, weights, output)``: ``channels`` (in fours) of a pixel, taps those steps of bytes apart."""
    source, weights = Variable("input", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([source, weights, output])
    sums = [block.variable(f"sum{channel}") for channel in range(4)]
    row, step = block.variable("row", POINTER_IN), block.variable("step")
    scaling, size = Scaling(block), stage.size if stage else 1
    with block.loop("quads", channels // 4, parked=True):
        for channel, total in enumerate(sums):
            block.emit("load", total, weights, constant=4 * channel)
        block.emit("advance", weights, constant=16)
        block.emit("copy_pointer", row, source)
        for _ in kernel_rows(block, kernel, row, row_step, step):
            if size == 1:
                _taps(block, row, weights, kernel[1], column_step, sums)
            else:
                _wide_taps(block, row, weights, kernel[1], column_step, sums)
        _finish(block, weights, output, sums, stage, scaling)
        block.emit("advance", source, constant=4 * size)
    return block


def _taps(block: Block, row: Variable, weights: Variable, count: int, column_step: int, sums: list[Variable]) -> None:
    """A row of taps; ``row`` stays where it is, ``weights`` goes on."""
    x, x_odd, w, w_odd = (block.variable(name) for name in ("x", "x_odd", "w", "w_odd"))
    for tap, place in row_taps(block, row, count, column_step, 4091, x):
        block.emit("load", x, row, constant=place)
        block.emit("load", w, weights, constant=4 * tap)
        for odd, word in ((x_odd, x), (w_odd, w)):
            block.emit("sxtb16_odd", odd, word)
            block.emit("sxtb16", word, word)
        _products(block, x, w, (sums[0], sums[2]))
        _products(block, x_odd, w_odd, (sums[1], sums[3]))
    block.emit("advance", weights, constant=4 * count)


def _wide_taps(
    block: Block, row: Variable, weights: Variable, count: int, column_step: int, sums: list[Variable]
) -> None:
    """As :func:`_taps` for int16 codes."""
    x, x_high, w, w_high = (block.variable(name) for name in ("x", "x_high", "w", "w_high"))
    for tap, place in row_taps(block, row, count, column_step, 4087, x):
        block.emit("load", x, row, constant=place)
        block.emit("load", x_high, row, constant=place + 4)
        block.emit("load", w, weights, constant=4 * tap)
        block.emit("sxtb16_odd", w_high, w)
        block.emit("sxtb16", w, w)
        _products(block, x, w, (sums[0], sums[1]))
        _products(block, x_high, w_high, (sums[2], sums[3]))
    block.emit("advance", weights, constant=4 * count)


def _products(block: Block, codes: Variable, taps: Variable, sums: tuple[Variable, Variable]) -> None:
    """Two channels: those of the low and of the high halfwords."""
    for operation, total in zip(("smlabb", "smlatt"), sums, strict=True):
        block.emit(operation, total, codes, taps, total)


def _finish(
    block: Block,
    weights: Variable,
    output: Variable,
    sums: list[Variable],
    stage: Requantizer | WideRequantizer | None,
    scaling: Scaling,
) -> None:
    if stage is None:
        for channel, total in enumerate(sums):
            block.emit("store", None, output, total, constant=4 * channel)
        block.emit("advance", output, constant=16)
        return
    for channel, total in enumerate(sums):
        stage.begin(block, scaling, weights, 4 * channel, 16 + channel)
        if stage.doubled:
            block.emit("add", total, total, total)
        stage.code(block, total, scaling)
        block.emit(stage.store, None, output, total, constant=stage.size * channel)
    block.emit("advance", weights, constant=16 if isinstance(stage, WideRequantizer) else 20)
    block.emit("advance", output, constant=4 * stage.size)


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


def depthwise_any_wide_records(scales: WideScales) -> np.ndarray:
    """Weights [channels (in fours), kernel_h, kernel_w, 1] and parameters as int32 words."""
    taps = scales.weight.reshape(len(scales.weight), -1).astype(np.int8)
    parts = []
    for start in range(0, len(taps), 4):
        quad = slice(start, start + 4)
        parts += [scales.bias[quad].tobytes(), np.ascontiguousarray(taps[quad][[0, 2, 1, 3]].T).tobytes()]
        parts.append(scales.multiplier[quad].tobytes())
    return np.frombuffer(b"".join(parts), "<i4").astype(np.int32)
