"""Blocks that every pointwise convolution and gathered patch shares: what differs between layers is data.

They are :mod:`.matmul`'s, with the numbers of channels and depths at the head of the records (pairs of channels, chunks
of depths) and the distance of pixels in a register: a fifth slower on 32 channels, and in flash only once.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..stage import OutputStage
from .depthwise import paired_codes
from .matmul import ROW_BYTES, Layout, Sums, load_scaling, matmul_records, tail_bytes
from .program import POINTER_IN, POINTER_OUT, Block, Variable
from .requantize import Requantizer, Scaling

PIXELS = 4
# Pairs of depths written out; depths are filled up with zeros to whole chunks.
CHUNK = 4


def matmul_any_block(packed: bool, stage: Requantizer, *, doubles: bool) -> Block:
    """``NAME(tile, weights, output)``: codes of four pixels, as many channels as the records say."""
    tile, weights = Variable("tile", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([tile, weights, output])
    scaling = Scaling(block)
    pairs, chunks, stride = (block.variable(name) for name in ("pairs", "chunks", "stride"))
    block.emit("load", pairs, weights, constant=0)
    block.emit("load", chunks, weights, constant=4)
    block.emit("add", stride, pairs, pairs)
    block.emit("advance", weights, constant=8)
    for variable in (tile, output, pairs, chunks, stride):
        block.park(variable)
    if stage.common:
        stage.keep_common(block, scaling, weights)
    sums = Sums(block, PIXELS, packed, 2, doubles, Layout(CHUNK))
    turns = block.variable("turns")
    with block.counted(pairs):
        block.unpark(tile)
        sums.start(weights)
        block.unpark(chunks, turns)
        block.park(turns)
        with block.counted(turns):
            sums.chunk(tile, weights, CHUNK)
        _finish(block, sums, weights, output, stride, stage, scaling)
    return block


def _finish(
    block: Block,
    sums: Sums,
    weights: Variable,
    output: Variable,
    stride: Variable,
    stage: Requantizer,
    scaling: Scaling,
) -> None:
    if stage.common:
        stage.recall_common(block, scaling)
    for channel, totals in ((1, sums.odd), (0, sums.even)):
        if not stage.common:
            load_scaling(block, scaling, weights, 0, stage, channel)
        block.unpark(output)
        for pixel, total in enumerate(totals):
            if pixel:
                block.emit("advance_by", output, block.unpark(stride, scaling.scratch))
            if channel == 1 and sums.packed:
                block.emit("subtract", total, total, sums.even[pixel])
                block.emit("shift_right", total, total, constant=8)
            stage.code(block, total, scaling)
            block.emit("store_8", None, output, total, constant=channel)
    if not stage.common:
        block.emit("advance", weights, constant=tail_bytes(stage))
    block.unpark(output)
    block.emit("advance", output, constant=2)
    block.park(output)


def matmul_any_records(
    rows: np.ndarray, stage: OutputStage, zero_point: int, packed: bool, requantizer: Requantizer
) -> np.ndarray:
    """Weights and parameters for :func:`matmul_any_block`; ``rows`` [channels (even), depth] in the tile's order."""
    rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % (2 * CHUNK))))
    head = np.array([len(rows) // 2, rows.shape[1] // (2 * CHUNK)], np.int32)
    return np.concatenate([head, matmul_records(rows, stage, zero_point, packed, requantizer)])


def spread_any_block() -> Block:
    """``NAME(input, tile, words)``: four pixels of ``words`` words of codes, one behind the other, into the tile."""
    source, tile = Variable("input", POINTER_IN), Variable("tile", POINTER_OUT)
    words = Variable("words")
    block = Block([source, tile, words])
    mask = block.set(block.variable("mask"), 0x01FE01FE)
    pixels = [source, *(block.variable(f"pixel{number}", POINTER_IN) for number in range(1, PIXELS))]
    for before, pixel in pairwise(pixels):
        block.emit("after_words", pixel, before, words)
    x, even = block.variable("x"), block.variable("even")
    with block.counted(words, parked=False):
        for number, pixel in enumerate(pixels):
            block.emit("take_1", (x, pixel), pixel)
            block.emit("flip", x, x, constant=0x80808080)
            block.emit("and_shifted_left_1", even, mask, x)
            block.emit("and_shifted_right_7", x, mask, x)
            block.emit("store", None, tile, even, constant=4 * number)
            block.emit("store", None, tile, x, constant=ROW_BYTES + 4 * number)
        block.emit("advance", tile, constant=2 * ROW_BYTES)
    return block


def pairs_any_block(*, some: bool = False) -> Block:
    """``NAME(upper, lower, plane, shape)``: :func:`.depthwise.pairs_block` of any shape.

    ``shape`` are words: fours of channels, bytes from channel to channel of the plane, pixels; with ``some`` of the
    channels also the bytes of the others.
    """
    upper, lower = Variable("upper", POINTER_IN), Variable("lower", POINTER_IN)
    plane, shape = Variable("plane", POINTER_OUT), Variable("shape", POINTER_IN)
    block = Block([upper, lower, plane, shape])
    fours, step, pixels = (block.variable(name) for name in ("fours", "step", "pixels"))
    for number, variable in enumerate((fours, step, pixels)):
        block.emit("load", variable, shape, constant=4 * number)
    block.park(fours)
    block.park(pixels)
    others = block.variable("others")
    if some:
        block.park(block.emit("load", others, shape, constant=12))
    turns, target = block.variable("turns"), block.variable("target", POINTER_OUT)
    a, b = block.variable("a"), block.variable("b")
    words = [block.variable("word0"), block.variable("word1")]
    with block.counted(pixels):
        block.unpark(fours, turns)
        block.emit("copy_pointer", target, plane)
        with block.counted(turns, parked=False):
            block.emit("take_1", (a, upper), upper)
            block.emit("take_1", (b, lower), lower)
            for word in paired_codes(block, a, b, words):
                block.emit("store", None, target, word, constant=0)
                block.emit("advance_by", target, step)
        if some:
            block.unpark(others, a)
            for row in (upper, lower):
                block.emit("advance_by", row, a)
        block.emit("advance", plane, constant=4)
    return block
