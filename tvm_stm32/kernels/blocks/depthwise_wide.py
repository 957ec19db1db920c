"""Depthwise 3x3 of int16 codes for cores with the DSP extension: what :mod:`.depthwise` needs for them.

The words of two rows are made by :func:`pairs_wide_block`; records lack the rounding constant and the shift.
"""

from __future__ import annotations

import numpy as np

from .depthwise import plane_quads
from .program import POINTER_IN, POINTER_OUT, Block, Variable
from .requantize_wide import WideScales


def pairs_wide_block(channels: int, columns: int, count: int) -> Block:
    """``NAME(upper, lower, plane)``: words of ``count`` pixels of two rows, channels (in fours) ``columns`` apart."""
    upper, lower = Variable("upper", POINTER_IN), Variable("lower", POINTER_IN)
    plane = Variable("plane", POINTER_OUT)
    block = Block([upper, lower, plane])
    uppers, lowers = ([block.variable(f"{name}{n}") for n in range(2)] for name in ("a", "b"))
    words = [block.variable(f"word{n}") for n in range(2)]
    for quad in plane_quads(block, channels, columns, count, 2):
        for source, values in ((upper, uppers), (lower, lowers)):
            for number, value in enumerate(values):
                block.emit("load", value, source, constant=8 * quad + 4 * number)
        for word, a, b in zip(words, uppers, lowers, strict=True):
            block.emit("pack_low", word, a, b)
            block.emit("pack_high", a, b, a)
        for number, word in enumerate((words[0], uppers[0], words[1], uppers[1])):
            block.emit("store", None, plane, word, constant=4 * columns * (4 * quad + number))
    return block


def depthwise_wide_records(scales: WideScales, *, small: bool) -> np.ndarray:
    """Weights [channels, 3, 3, 1] and parameters for :func:`.depthwise.depthwise_block` as int32 words."""
    columns = scales.weight[..., 0][:, [0, 1, 1, 2], :].transpose(0, 2, 1).astype(np.int8 if small else "<i2")
    taps = np.ascontiguousarray(columns).reshape(len(columns), 12).view("<i4")
    unused = np.zeros(len(columns))
    parts = [scales.bias, taps, *([] if small else [unused]), scales.multiplier, unused]
    shaped = [part.reshape(len(columns), -1) for part in parts]
    return np.ascontiguousarray(np.concatenate(shaped, axis=1).astype(np.int32)).reshape(-1)
