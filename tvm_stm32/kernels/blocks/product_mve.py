"""Matrix product of int16 codes for Helium: two pixels by four channels, or one pixel by eight, eight depths at a time.

As :mod:`.matmul_mve`, with weights widened while they are loaded: a pixel's row of the tile is its codes, padded to a
multiple of 16 bytes; the weights are a record for each block of channels, for each eight depths eight codes of each
channel, then for each four channels biases and multipliers (words). Without a requantizer the block stores sums, and
records have biases only.
"""

from __future__ import annotations

import numpy as np

from .program import HALVES, POINTER_IN, POINTER_OUT, WORDS, Block, Variable
from .requantize_wide import WideRequantizer

DEPTHS = 8
# VMLADAV accumulates into even registers; narrowing stores and widening loads take r0 to r7 as their base.
_SUMS = ("r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr")


def product_mve_block(
    pixels: int,
    steps: int,
    channels: int,
    row_bytes: int,
    stride: int,
    stage: WideRequantizer | None,
    unrolled: int,
    *,
    wide: int,
) -> Block:
    """``NAME(tile, weights, output)``: ``channels`` codes (without ``stage``, sums) of pixels ``stride`` bytes apart.

    ``steps`` is depth / 8, rounded up; rows of the tile are ``row_bytes`` apart. ``wide``, the channels of a block: 4,
    or 8 for one pixel.
    """
    tile, weights = Variable("tile", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([tile, weights, output])
    for parameter in block.parameters:
        block.park(parameter)
    maker = _Product(block, pixels, steps, row_bytes, stage, unrolled)
    block.unpark(weights, maker.w)
    for pixel, target in enumerate(maker.targets):
        block.unpark(output, target)
        block.move(target, pixel * stride, maker.scalar)
    if channels >= wide:
        with block.loop("blocks", channels // wide, parked=True):
            maker.channels(tile, wide)
    if channels % wide:
        maker.channels(tile, channels % wide)
    return block


class _Product:
    def __init__(
        self, block: Block, pixels: int, steps: int, row_bytes: int, stage: WideRequantizer | None, unrolled: int
    ) -> None:
        self.block, self.steps, self.row_bytes, self.stage, self.unrolled = block, steps, row_bytes, stage, unrolled
        self.inputs = [block.variable("x", POINTER_IN, "r9"), block.variable("y", POINTER_IN, "r11")][:pixels]
        self.w = block.variable("w", POINTER_IN, "r5")
        self.targets = [block.variable("out", POINTER_OUT, "r7"), block.variable("out_y", POINTER_OUT, "r3")][:pixels]
        self.scalar = block.variable("constant", register="r1")
        self.sums = [block.variable(f"sum{number}", register=name) for number, name in enumerate(_SUMS)]
        self.codes = [block.variable(f"codes_{name}", HALVES) for name in ("x", "y")][:pixels]
        self.row = block.variable("row", HALVES)
        self.totals, self.bias = block.variable("totals", WORDS), block.variable("bias", WORDS)
        self.multiplier = block.variable("multiplier", WORDS)
        self.limits: dict[str, Variable] = {}
        if stage is not None:
            for name, bound in (("vmax", stage.clamp_min), ("vmin", stage.clamp_max)):
                self.limits[name] = block.variable(f"{name[1:]}imum", WORDS)
                block.emit("vspread", self.limits[name], block.set(self.scalar, bound))

    def channels(self, tile: Variable, count: int) -> None:
        """``count`` channels (at most 8) of all pixels."""
        block = self.block
        for pixel, pointer in enumerate(self.inputs):
            block.unpark(tile, pointer)
            block.move(pointer, pixel * self.row_bytes, self.scalar)
        padded = -(-count // 4) * 4
        self._step(padded, first=True)
        rest = self.steps - 1
        chunks = -(-rest // self.unrolled)
        length = rest // chunks if chunks else 0
        for repeat, times in ((length, chunks), (rest - length * chunks, 1)):
            if repeat:
                with block.loop("chunks", times, parked=True), block.repeat(repeat):
                    self._step(padded, first=False)
        for quad in range(padded // 4):
            block.emit("vtake_words", (self.bias, self.w), self.w)
            if self.stage is not None:
                block.emit("vtake_words", (self.multiplier, self.w), self.w)
            for pixel, target in enumerate(self.targets):
                first = pixel * padded + 4 * quad
                block.emit("vlanes", self.totals, *self.sums[first : first + 4])
                block.emit("vadd", self.totals, self.totals, self.bias)
                if self.stage is not None:
                    block.emit("vrmulh", self.totals, self.totals, self.multiplier)
                for name, limit in self.limits.items():
                    block.emit(name, self.totals, self.totals, limit)
                self._store(target, min(4, count - 4 * quad), self.sums[first])

    def _store(self, target: Variable, count: int, scratch: Variable) -> None:
        block, size = self.block, 4 if self.stage is None else 2
        if count == 4:
            block.emit("vput_words" if self.stage is None else "vput_halves", (target,), target, self.totals)
            return
        for lane in range(count):
            block.emit("vget", scratch, self.totals, constant=lane)
            block.emit("store" if self.stage is None else "store_16", None, target, scratch, constant=size * lane)
        block.emit("advance", target, constant=size * count)

    def _step(self, count: int, *, first: bool) -> None:
        """Eight depths: loads and products alternate, so that their beats overlap."""
        block = self.block
        for codes, pointer in zip(self.codes, self.inputs, strict=True):
            block.emit("vtake_halves", (codes, pointer), pointer)
        for channel in range(count):
            block.emit("vtake_widened_halves", (self.row, self.w), self.w)
            for pixel, codes in enumerate(self.codes):
                total = self.sums[pixel * count + channel]
                block.emit("vdot_16" if first else "vdot_16_add", total, codes, self.row)


def product_mve_records(rows: np.ndarray, biases: np.ndarray, multipliers: np.ndarray | None, wide: int) -> np.ndarray:
    """Weights and parameters for :func:`product_mve_block` as int32 words; ``rows`` [channels, depth]."""
    extra = -len(rows) % 4
    tables = [np.pad(table.astype(np.int32), (0, extra)) for table in (biases, multipliers) if table is not None]
    padded = np.pad(rows, ((0, extra), (0, -rows.shape[1] % DEPTHS))).astype(np.int8)
    parts = []
    for start in range(0, len(padded), wide):
        channels = padded[start : start + wide]
        parts.append(channels.reshape(len(channels), -1, DEPTHS).transpose(1, 0, 2).tobytes())
        for first in range(start, start + len(channels), 4):
            parts += [table[first : first + 4].tobytes() for table in tables]
    return np.frombuffer(b"".join(parts), "<i4").astype(np.int32)
