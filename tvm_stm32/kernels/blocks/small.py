"""The packed products of :mod:`.matmul_scalar` and :mod:`.vector_scalar` for Armv6-M: sums only, C makes the codes.

Products are of low registers and destroy an operand; sums live in high registers, to which low ones can be added.
Weights are records of words, one for each channel (or four): what the sums begin from, then the codes.
"""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .matmul_scalar import TRIPLE_FACTORS, start_of, wrapped_words
from .program import POINTER_IN, POINTER_OUT, Block, Variable, chunked
from .vector_scalar import QUAD, quad_words

# Words of sums: of a channel for two triples of pixels, of four channels of a pixel.
TRIPLE_WORDS, QUAD_WORDS = 4, 3


def small_triple_block(depth: int, channels: int, unrolled: int) -> Block:
    """``NAME(tile, weights, sums)``: four words of sums a channel; ``depth`` is a multiple of 4."""
    tile, weights, sums = Variable("tile", POINTER_IN), Variable("weights", POINTER_IN), Variable("sums", POINTER_OUT)
    block = Block([tile, weights, sums])
    x = [block.variable(f"x{n}", register=f"r{2 + n}") for n in range(4)]
    four, code = block.variable("four", register="r6"), block.variable("code", register="r7")
    total = [block.variable(f"total{n}", register=f"r{8 + n}") for n in range(4)]
    place = block.variable("place", POINTER_OUT, register="r6")
    block.park(tile)
    block.emit("copy_pointer", place, sums)
    block.park(place)
    with block.loop("channels", channels, register="lr"):
        block.emit("take_words_2", (x[0], x[1]), weights)
        for n, word in enumerate(total):
            block.emit("move", word, x[n % 2])
        block.unpark(tile)
        length, chunks, rest = chunked(depth // 4, unrolled)
        for times, steps in ((chunks, length), (1, rest)):
            if steps == 0:
                continue
            with block.loop("chunks", times, register="r12"), block.repeat(steps):
                block.emit("take_1", four, weights)
                for n in range(4):
                    if n:
                        block.emit("shift_right", four, four, constant=8)
                    factor = four if n == 3 else block.emit("sign_byte", code, four)
                    block.emit("take_words_4", tuple(x), tile)
                    for word in x:
                        block.emit("multiply_by", word, factor)
                    for word, product in zip(total, x, strict=True):
                        block.emit("add_to", word, product)
        for word, result in zip(x, total, strict=True):
            block.emit("move", word, result)
        block.unpark(place)
        block.emit("put_words_4", (place,), *x)
        block.park(place)
    return block


def small_triple_records(rows: np.ndarray, stage: OutputStage, zero_point: int, segment: int) -> np.ndarray:
    """Words of ``rows`` [channels, depth]: all channels of a segment of the depth, then those of the next."""
    parts: list[np.ndarray] = []
    start = start_of(rows, stage.params[:, 0], zero_point)
    for first in range(0, rows.shape[1], segment):
        codes = np.pad(rows[:, first : first + segment], ((0, 0), (0, -segment % 4))).astype(np.int8)
        for channel, row in enumerate(codes):
            begin = start[channel] if first == 0 else 0
            parts.append(wrapped_words(np.array([begin * factor for factor in TRIPLE_FACTORS])))
            parts.append(np.ascontiguousarray(row).view("<i4"))
    return np.concatenate(parts)


def small_quad_block(depth: int, fours: int, unrolled: int) -> Block:
    """``NAME(tile, weights, sums)``: three words of sums for each four channels; the tile holds codes as words.

    ``depth`` is a multiple of 2.
    """
    tile, weights, sums = Variable("tile", POINTER_IN), Variable("weights", POINTER_IN), Variable("sums", POINTER_OUT)
    block = Block([tile, weights, sums])
    x = [block.variable(f"x{n}", register=f"r{2 + n}") for n in range(2)]
    words = [block.variable(f"word{n}", register=f"r{4 + n}") for n in range(2)]
    mask, part = block.variable("mask", register="r6"), block.variable("part", register="r7")
    total = [block.variable(f"total{n}", register=f"r{8 + n}") for n in range(3)]
    place = block.variable("place", POINTER_OUT, register="r6")
    results = [*x, words[0]]
    block.park(tile)
    block.emit("copy_pointer", place, sums)
    block.park(place)
    with block.loop("fours", fours, register="lr"):
        block.emit("take_words_2", tuple(x), weights)
        block.emit("take_1", words[0], weights)
        for word, begin in zip(total, results, strict=True):
            block.emit("move", word, begin)
        block.set(mask, 0x00FF00FF)
        block.unpark(tile)
        length, chunks, rest = chunked(depth // 2, unrolled)
        for times, steps in ((chunks, length), (1, rest)):
            if steps == 0:
                continue
            with block.loop("chunks", times, register="r12"), block.repeat(steps):
                block.emit("take_words_2", tuple(x), tile)
                block.emit("take_words_2", tuple(words), weights)
                for code, word in zip(x, words, strict=True):
                    block.emit("shift_right_unsigned", part, word, constant=16)
                    block.emit("multiply_by", part, code)
                    block.emit("add_to", total[1], part)
                    block.emit("shift_right_unsigned", part, word, constant=8)
                    block.emit("and_with", part, mask)
                    block.emit("multiply_by", part, code)
                    block.emit("add_to", total[2], part)
                    block.emit("multiply_by", word, code)
                    block.emit("add_to", total[0], word)
        for word, result in zip(results, total, strict=True):
            block.emit("move", word, result)
        block.unpark(place)
        block.emit("put_words_3", (place,), *results)
        block.park(place)
    return block


def small_quad_records(rows: np.ndarray, stage: OutputStage, zero_point: int) -> np.ndarray:
    """Words of ``rows`` [units, depth], filled to fours and to an even depth."""
    units, depth = rows.shape
    parts: list[np.ndarray] = []
    start = start_of(rows, stage.params[:, 0], zero_point)
    for first in range(0, units, QUAD):
        part = slice(first, first + QUAD)
        begin, codes = quad_words(rows[part], start[part])
        parts += [begin.reshape(-1), np.pad(codes, (0, depth % 2))]
    return np.concatenate(parts)
