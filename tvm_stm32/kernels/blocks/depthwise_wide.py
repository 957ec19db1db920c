"""Depthwise convolution of int16 codes for cores with the DSP extension.

3x3 kernels take the words of two rows of :mod:`.depthwise`, made by :func:`pairs_wide_block`; other kernels one pixel,
four channels at a time: for each four channels a record of words, biases, taps (bytes of channels 0, 2, 1, 3, so that
SXTB16 gives those of a word of codes), multipliers.
"""

from __future__ import annotations

import numpy as np

from .program import POINTER_IN, POINTER_OUT, Block, Variable
from .requantize import Scaling
from .requantize_wide import WideRequantizer, WideScales

# Taps that are written out; a larger kernel loops over its rows.
_UNROLLED = 32


def pairs_wide_block(channels: int, columns: int, count: int) -> Block:
    """``NAME(upper, lower, plane)``: words of ``count`` pixels of two rows, channels (in fours) ``columns`` apart."""
    upper, lower = Variable("upper", POINTER_IN), Variable("lower", POINTER_IN)
    plane = Variable("plane", POINTER_OUT)
    block = Block([upper, lower, plane])
    uppers, lowers = ([block.variable(f"{name}{n}") for n in range(2)] for name in ("a", "b"))
    words, step = [block.variable(f"word{n}") for n in range(2)], block.variable("step")
    quads = channels // 4
    unrolled = next(n for n in (4, 3, 2, 1) if (quads % n == 0 and 16 * columns * n < 4096) or n == 1)
    with block.loop("pixels", count):
        with block.loop("quads", quads // unrolled):
            for quad in range(unrolled):
                for source, values in ((upper, uppers), (lower, lowers)):
                    for number, value in enumerate(values):
                        block.emit("load", value, source, constant=8 * quad + 4 * number)
                for word, a, b in zip(words, uppers, lowers, strict=True):
                    block.emit("pack_low", word, a, b)
                    block.emit("pack_high", a, b, a)
                for number, word in enumerate((words[0], uppers[0], words[1], uppers[1])):
                    block.emit("store", None, plane, word, constant=4 * columns * (4 * quad + number))
            for pointer in (upper, lower):
                block.emit("advance", pointer, constant=8 * unrolled)
            if unrolled < quads:
                block.move(plane, 16 * columns * unrolled, step)
        block.move(plane, 4 - (16 * columns * quads if unrolled < quads else 0), step)
    return block


def depthwise_wide_records(scales: WideScales, *, small: bool) -> np.ndarray:
    """Weights [channels, 3, 3, 1] and parameters for :func:`.depthwise.depthwise_block` as int32 words."""
    columns = scales.weight[..., 0][:, [0, 1, 1, 2], :].transpose(0, 2, 1).astype(np.int8 if small else "<i2")
    taps = np.ascontiguousarray(columns).reshape(len(columns), 12).view("<i4")
    unused = np.zeros(len(columns))
    parts = [scales.bias, taps, *([] if small else [unused]), scales.multiplier, unused]
    shaped = [part.reshape(len(columns), -1) for part in parts]
    return np.ascontiguousarray(np.concatenate(shaped, axis=1).astype(np.int32)).reshape(-1)


def depthwise_any_wide_block(
    channels: int, kernel: tuple[int, int], row_step: int, column_step: int, stage: WideRequantizer
) -> Block:
    """``NAME(input, weights, output)``: ``channels`` (in fours) of a pixel, taps those steps of bytes apart."""
    source, weights = Variable("input", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([source, weights, output])
    sums = [block.variable(f"sum{channel}") for channel in range(4)]
    row, step, scaling = block.variable("row", POINTER_IN), block.variable("step"), Scaling(block)
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
        for channel, total in enumerate(sums):
            stage.begin(block, scaling, weights, 4 * channel, 0)
            stage.code(block, total, scaling)
            block.emit(stage.store, None, output, total, constant=stage.size * channel)
        block.emit("advance", weights, constant=16)
        block.emit("advance", output, constant=4 * stage.size)
        block.emit("advance", source, constant=8)
    return block


def _taps(block: Block, row: Variable, weights: Variable, count: int, column_step: int, sums: list[Variable]) -> None:
    """A row of taps; ``row`` stays where it is, ``weights`` goes on."""
    x, x_high, w, w_high = (block.variable(name) for name in ("x", "x_high", "w", "w_high"))
    near = (count - 1) * column_step < 4088
    for tap in range(count):
        place = tap * column_step if near else 0
        block.emit("load", x, row, constant=place)
        block.emit("load", x_high, row, constant=place + 4)
        block.emit("load", w, weights, constant=4 * tap)
        block.emit("sxtb16_odd", w_high, w)
        block.emit("sxtb16", w, w)
        for number, (codes, weight) in enumerate(((x, w), (x_high, w_high))):
            block.emit("smlabb", sums[2 * number], codes, weight, sums[2 * number])
            block.emit("smlatt", sums[2 * number + 1], codes, weight, sums[2 * number + 1])
        if not near:
            block.move(row, column_step if tap + 1 < count else -tap * column_step, x)
    block.emit("advance", weights, constant=4 * count)


def depthwise_any_wide_records(scales: WideScales) -> np.ndarray:
    """Weights [channels (in fours), kernel_h, kernel_w, 1] and parameters as int32 words."""
    taps = scales.weight.reshape(len(scales.weight), -1).astype(np.int8)
    parts = []
    for start in range(0, len(taps), 4):
        quad = slice(start, start + 4)
        parts += [scales.bias[quad].tobytes(), np.ascontiguousarray(taps[quad][[0, 2, 1, 3]].T).tobytes()]
        parts.append(scales.multiplier[quad].tobytes())
    return np.frombuffer(b"".join(parts), "<i4").astype(np.int32)
