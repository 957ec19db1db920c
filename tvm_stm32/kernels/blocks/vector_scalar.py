"""Dense layer for cores without the DSP extension: four channels by three multiplications, weights as they are stored.

A word of weights holds a code (plus 128) of four channels; x is a code of the input. Summed modulo 2^32, x times the
word, x times its upper half and x times its odd bytes give

    R = A0 + 2^8 A1 + 2^16 A2 + 2^24 A3,   H = A2 + 2^8 A3,   O = A1 + 2^16 A3

where the A are the channels' sums. When those fit 24 bits, sign included, the three words hold all four: R - 2^16 H -
2^8 O is A0 in 24 bits below a part of A3, then R - 2^16 H - A0 is 2^8 A1, O - A1 is the low half of A3, and H less that
half is A2 below the rest of A3. The 128 times the sum of the inputs comes off R, H and O first.

For each group of eight channels (the last has as many as are left, in fours) the weights are a record::

    (R, H, O) to begin from of each four; depth * (a word of each four); scaling of each channel
"""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .matmul_scalar import start_of, wrapped_words
from .program import POINTER_IN, POINTER_OUT, Block, Variable, chunked
from .requantize_scalar import SCALING_BYTES, ScalarRequantizer, ScalarScaling

QUAD = 4
LIMIT = 1 << 23
# What 128 of each channel adds to R, H and O for a sum of inputs of 1.
_LANES = (0x80808080, 0x8080, 0x00800080)
_HEAD = 12


def fits_quads(rows: np.ndarray, bias: np.ndarray) -> bool:
    """Whether the sums of all channels keep to 24 bits for any input."""
    wide = rows.astype(np.int64)
    reach = 255 * np.maximum(np.maximum(wide, 0).sum(axis=1), np.maximum(-wide, 0).sum(axis=1))
    return bool((reach + np.abs(bias.astype(np.int64)) < LIMIT).all())


def quad_block(depth: int, units: int, quads: int, stage: ScalarRequantizer, unrolled: int) -> Block:
    """``NAME(input, weights, output, sum)``: ``units`` codes, ``quads`` fours at a time; ``sum`` is the input's."""
    source, weights = Variable("input", POINTER_IN), Variable("weights", POINTER_IN)
    output, total = Variable("output", POINTER_OUT), Variable("sum")
    block = Block([source, weights, output, total])
    scaling = ScalarScaling(block)
    lanes = [block.variable(name) for name in ("all", "upper", "odd")]
    block.park(source)
    block.park(output)
    for lane, factor in zip(lanes, _LANES, strict=True):
        block.emit("multiply", lane, total, block.set(scaling.high, -factor))
        block.park(lane)
    at_once = QUAD * quads
    product = _Quads(block, scaling, lanes)
    whole, rest = divmod(units, at_once)
    if whole:
        with block.loop("groups", whole, parked=True):
            product.group(depth, quads, at_once, stage, unrolled)
    if rest:
        product.group(depth, -(-rest // QUAD), rest, stage, unrolled)
    return block


class _Quads:
    def __init__(self, block: Block, scaling: ScalarScaling, lanes: list[Variable]) -> None:
        self.block, self.scaling, self.lanes = block, scaling, lanes
        self.sums = [[block.variable(f"{name}{q}") for name in ("r", "h", "o")] for q in range(2)]
        self.words = [block.variable(f"w{q}") for q in range(2)]
        self.x, self.part, self.mask = block.variable("x"), block.variable("part"), block.variable("mask")
        self.totals = [block.variable(f"total{n}") for n in range(QUAD)]

    def group(self, depth: int, quads: int, count: int, stage: ScalarRequantizer, unrolled: int) -> None:
        """``count`` channels of the next ``quads`` fours; all pointers but the input's go on."""
        block = self.block
        source, weights, output, _ = block.parameters
        sums, words = self.sums[:quads], self.words[:quads]
        for number, lane in enumerate(self.lanes):
            block.unpark(lane)
            for quad, three in enumerate(sums):
                block.emit("load_word", three[number], weights, constant=_HEAD * quad + 4 * number)
                block.emit("add", three[number], three[number], lane)
        block.emit("advance", weights, constant=_HEAD * quads)
        block.unpark(source)
        block.set(self.mask, 0x00FF00FF)
        length, chunks, rest = chunked(depth, unrolled)
        for times, steps in ((chunks, length), (1, rest)):
            if steps == 0:
                continue
            with block.loop("chunks", times, parked=True):
                with block.repeat(steps) as k:
                    block.emit("load_s8", self.x, source, constant=k(0, 1))
                    for quad, word in enumerate(words):
                        block.emit("load_word", word, weights, constant=k(4 * quad, 4 * quads))
                    for word, (every, upper, odd) in zip(words, sums, strict=True):
                        block.emit("multiply_add", every, self.x, word, every)
                        block.emit("shift_right_unsigned", self.part, word, constant=16)
                        block.emit("multiply_add", upper, self.x, self.part, upper)
                        block.emit("and_shifted_right_8", self.part, self.mask, word)
                        block.emit("multiply_add", odd, self.x, self.part, odd)
                block.emit("advance", source, constant=steps)
                block.emit("advance", weights, constant=4 * quads * steps)
        self._finish(quads, count, stage, weights, output)

    def _finish(self, quads: int, count: int, stage: ScalarRequantizer, weights: Variable, output: Variable) -> None:
        block, first = self.block, self.sums[0]
        for three in self.sums[1:quads]:
            for word in three:
                block.park(word)
        block.unpark(output)
        for quad in range(quads):
            if quad:
                for word, kept in zip(first, self.sums[quad], strict=True):
                    block.unpark(kept, word)
            self._split(first, count - QUAD * quad)
            for number, total in enumerate(self.totals[: count - QUAD * quad]):
                channel = QUAD * quad + number
                stage.begin(block, self.scaling, weights, SCALING_BYTES * channel)
                block.emit("store_8", None, output, stage.code(block, total, self.scaling), constant=channel)
        block.emit("advance", weights, constant=SCALING_BYTES * count)
        block.emit("advance", output, constant=count)
        block.park(output)

    def _split(self, words: list[Variable], count: int) -> None:
        """The first ``count`` of the four sums; the three words are used up."""
        block = self.block
        every, upper, odd = words
        a0, a1, a2, a3 = self.totals
        block.emit("subtract_shifted_left_16", every, every, upper)
        block.emit("subtract_shifted_left_8", a0, every, odd)
        block.emit("low_field_24", a0, a0)
        if count == 1:
            return
        block.emit("subtract", every, every, a0)
        block.emit("shift_right", a1, every, constant=8)
        if count == 2:
            return
        block.emit("subtract", odd, odd, a1)
        block.emit("subtract_shifted_right_8", upper, upper, odd)
        block.emit("low_field_24", a2, upper)
        if count == 3:
            return
        block.emit("subtract", upper, upper, a2)
        block.emit("shift_right", upper, upper, constant=8)
        block.emit("add_shifted_right_16", a3, upper, odd)


def quad_records(
    rows: np.ndarray, stage: OutputStage, zero_point: int, quads: int, requantizer: ScalarRequantizer
) -> np.ndarray:
    """Words of the records for ``rows`` [units, depth]."""
    units = len(rows)
    start = start_of(rows, stage.params[:, 0], zero_point)
    scaling = requantizer.records(stage)
    parts: list[np.ndarray] = []
    for first in range(0, units, QUAD * quads):
        count = min(QUAD * quads, units - first)
        part = slice(first, first + count)
        begin, codes = zip(
            *(
                quad_words(rows[at : min(at + QUAD, first + count)], start[at : min(at + QUAD, first + count)])
                for at in range(first, first + count, QUAD)
            ),
            strict=True,
        )
        parts += [*begin, np.stack(codes, axis=1).reshape(-1)]
        parts.append(wrapped_words(scaling[part]))
    return np.concatenate(parts)


def quad_words(rows: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(R, H, O) to begin from and a word for each depth of up to four ``rows``."""
    fill = QUAD - len(rows)
    begin = np.pad(start, (0, fill)) @ np.array(
        [[1, 0, 0], [1 << 8, 0, 1], [1 << 16, 1, 0], [1 << 24, 1 << 8, 1 << 16]]
    )
    codes = (np.pad(rows.astype(np.int64), ((0, fill), (0, 0))) + 128).astype(np.uint8)
    return wrapped_words(begin), np.ascontiguousarray(codes.T).reshape(-1).view("<i4")
