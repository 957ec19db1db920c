"""Matrix product of int16 codes for Helium: two pixels by four channels, or one pixel by eight, eight depths at a time.

As :mod:`.matmul_mve`, with weights widened while they are loaded: a pixel's row of the tile is its codes, padded to a
multiple of 16 bytes; the weights are a record for each block of channels, for each eight depths eight codes of each
channel, then for each four channels biases and multipliers (words). Without a requantizer the block stores sums, and
records have biases only.
"""

from __future__ import annotations

import numpy as np

from .matmul_mve import VectorLayout, VectorProduct, product_of, product_words
from .program import HALVES, WORDS, Block, Variable
from .requantize_wide import WideRequantizer

DEPTHS = 8


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

    ``steps`` is depth / 8, rounded up; pixels of the tile are ``row_bytes`` apart. ``wide``, the channels of a block,
    is 4, or 8 for one pixel.
    """
    layout = VectorLayout(steps, row_bytes)
    return product_of(lambda block: _Product(block, pixels, layout, stage, unrolled), channels, stride, wide)


class _Product(VectorProduct):
    def __init__(
        self, block: Block, pixels: int, layout: VectorLayout, stage: WideRequantizer | None, unrolled: int
    ) -> None:
        super().__init__(block, pixels, layout, unrolled, HALVES)
        self.stage = stage
        self.limits: dict[str, Variable] = {}
        if stage is not None:
            for name, bound in (("vmax", stage.clamp_min), ("vmin", stage.clamp_max)):
                self.limits[name] = block.variable(f"{name[1:]}imum", WORDS)
                block.emit("vspread", self.limits[name], block.set(self.scalar, bound))

    def begin(self) -> None:
        """All parameters are of single channels."""

    def products(self, count: int) -> None:
        self._step(count, first=True)
        rest = self.layout.steps - 1
        chunks = -(-rest // self.unrolled)
        length = rest // chunks if chunks else 0
        for _ in self.repeated((length, chunks, rest - length * chunks)):
            self._step(count, first=False)

    def parameters(self, _quad: int) -> None:
        self.block.emit("vtake_words", (self.bias, self.w), self.w)
        if self.stage is not None:
            self.block.emit("vtake_words", (self.multiplier, self.w), self.w)

    def finish(self) -> None:
        block, totals = self.block, self.totals
        block.emit("vadd", totals, totals, self.bias)
        if self.stage is not None:
            block.emit("vrmulh", totals, totals, self.multiplier)
        for name, limit in self.limits.items():
            block.emit(name, totals, totals, limit)

    @property
    def stored(self) -> tuple[str, str, int]:
        return ("vput_words", "store", 4) if self.stage is None else ("vput_halves", "store_16", 2)

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
    tables = [table.astype(np.int32) for table in (biases, multipliers) if table is not None]
    return product_words(rows, tables, DEPTHS, wide)
