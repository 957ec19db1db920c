"""Matrix product for Helium: two pixels by four channels, or one pixel by eight, sixteen depths at a time.

A pixel's row of the tile is its codes, padded to a multiple of 16. Channels come in blocks (``wide`` channels, a last
one of four); the weights are a record for each block: for each 16 depths 16 codes of each channel, then for each four
channels biases and multipliers (words) and negative shifts (bytes).
"""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .program import CODES, POINTER_IN, POINTER_OUT, WORDS, Block, Variable
from .requantize import Requantizer
from .requantize_mve import VectorRequantizer, folded_biases

# VMLADAV accumulates into even registers; narrowing stores and widening loads take r0 to r7 as their base.
_SUMS = ("r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr")


def matmul_mve_block(
    pixels: int, steps: int, channels: int, stride: int, stage: Requantizer, unrolled: int, *, wide: int
) -> Block:
    """``NAME(tile, weights, output)``: ``channels`` (a multiple of 4) codes of pixels ``stride`` bytes apart.

    ``steps`` is depth / 16, rounded up; rows of the tile are 16 times as long. ``wide``, the channels of a block: 4, or
    8 for one pixel.
    """
    tile, weights = Variable("tile", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([tile, weights, output])
    for parameter in block.parameters:
        block.park(parameter)
    maker = _Matmul(block, pixels, steps, stage, unrolled)
    block.unpark(weights, maker.w)
    for pixel, target in enumerate(maker.targets):
        block.unpark(output, target)
        if pixel:
            maker.move(target, stride)
    row = 16 * steps
    if channels >= wide:
        with block.loop("blocks", channels // wide, parked=True):
            maker.channels(tile, row, wide)
    if channels % wide:
        maker.channels(tile, row, channels % wide)
    return block


class _Matmul:
    def __init__(self, block: Block, pixels: int, steps: int, stage: Requantizer, unrolled: int) -> None:
        self.block, self.steps, self.unrolled = block, steps, unrolled
        self.inputs = [block.variable("x", POINTER_IN, "r9"), block.variable("y", POINTER_IN, "r11")][:pixels]
        self.w = block.variable("w", POINTER_IN, "r5")
        self.targets = [block.variable("out", POINTER_OUT, "r7"), block.variable("out_y", POINTER_OUT, "r3")][:pixels]
        self.scalar = block.variable("constant", register="r1")
        self.sums = [block.variable(f"sum{number}", register=name) for number, name in enumerate(_SUMS)]
        self.codes = [block.variable(f"codes_{name}", CODES) for name in ("x", "y")][:pixels]
        self.row = block.variable("row", CODES)
        self.stage = VectorRequantizer(block, stage, self.scalar)
        self.vectors = {name: block.variable(name, WORDS) for name in ("totals", "bias", "multiplier", "shift")}

    def move(self, pointer: Variable, distance: int) -> None:
        """``pointer += distance``."""
        if distance < 4096:
            self.block.emit("advance", pointer, constant=distance)
        else:
            step = self.block.variable("step")
            self.block.set(step, distance)
            self.block.emit("advance_by", pointer, step)

    def channels(self, tile: Variable, row_bytes: int, count: int) -> None:
        """``count`` channels (4 or 8) of all pixels."""
        block = self.block
        for pixel, pointer in enumerate(self.inputs):
            block.unpark(tile, pointer)
            if pixel:
                self.move(pointer, row_bytes)
        self._step(count, first=True)
        rest = self.steps - 1
        chunks = -(-rest // self.unrolled)
        length = rest // chunks if chunks else 0
        for repeat, times in ((length, chunks), (rest - length * chunks, 1)):
            if repeat:
                with block.loop("chunks", times, parked=True), block.repeat(repeat):
                    self._step(count, first=False)
        totals, bias = self.vectors["totals"], self.vectors["bias"]
        multiplier, shift = self.vectors["multiplier"], self.vectors["shift"]
        self.stage.begin()
        for quad in range(count // 4):
            block.emit("vtake_words", (bias, self.w), self.w)
            block.emit("vtake_words", (multiplier, self.w), self.w)
            block.emit("vtake_widened", (shift, self.w), self.w)
            for pixel, target in enumerate(self.targets):
                first = pixel * count + 4 * quad
                block.emit("vlanes", totals, *self.sums[first : first + 4])
                block.emit("vadd", totals, totals, bias)
                self.stage.clamp(self.stage.codes(totals, multiplier, shift))
                block.emit("vput_narrowed", (target,), target, totals)

    def _step(self, count: int, *, first: bool) -> None:
        """Sixteen depths: loads and products alternate, so that their beats overlap."""
        block = self.block
        for codes, pointer in zip(self.codes, self.inputs, strict=True):
            block.emit("vtake", (codes, pointer), pointer)
        for channel in range(count):
            block.emit("vtake", (self.row, self.w), self.w)
            for pixel, codes in enumerate(self.codes):
                block.emit("vdot" if first else "vdot_add", self.sums[pixel * count + channel], codes, self.row)


def matmul_mve_records(rows: np.ndarray, stage: OutputStage, zero_point: int, wide: int) -> np.ndarray:
    """Weights and parameters for :func:`matmul_mve_block` as bytes; ``rows`` [channels (in fours), depth]."""
    biases = folded_biases(rows, stage, zero_point)
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 16))).astype(np.int8)
    parts = []
    for start in range(0, len(rows), wide):
        channels = padded[start : start + wide]
        parts.append(channels.reshape(len(channels), -1, 16).transpose(1, 0, 2).tobytes())
        for quad in range(start, start + len(channels), 4):
            parts.append(biases[quad : quad + 4].tobytes())
            parts.append(stage.params[quad : quad + 4, 1].astype(np.int32).tobytes())
            parts.append((-stage.shifts[quad : quad + 4].astype(np.int16)).astype(np.int8).tobytes())
    return np.frombuffer(b"".join(parts), "<i4").astype(np.int32)
