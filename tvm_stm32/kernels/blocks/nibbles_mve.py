"""Matrix product for Helium with weights of 4 bits: :mod:`.matmul_mve` on vectors that hold two.

A vector of weights is 32 depths of a channel: the low halves of its bytes the first 16, the high halves the others (a
row's last vector may have no others). Each is brought to the high half of its byte, where it is 16 times the weight
with its sign, and sums are divided by 16 when they are whole.
"""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .matmul_mve import Matmul, VectorLayout, matmul_mve_records, product_of
from .program import CODES, Block, chunked
from .requantize import Requantizer


def nibbles_mve_block(
    pixels: int,
    layout: VectorLayout,
    channels: int,
    stride: int,
    stage: Requantizer | None,
    unrolled: int,
    *,
    wide: int,
) -> Block:
    """:func:`.matmul_mve.matmul_mve_block` for a tile of one row."""
    return product_of(lambda block: _Nibbles(block, pixels, layout, stage, unrolled), channels, stride, wide)


class _Nibbles(Matmul):
    def begin(self) -> None:
        super().begin()
        self.high = self.block.variable("high", CODES)
        if self.layout.steps > 1:
            self.block.emit("vspread_8", self.high, self.block.set(self.scalar, -16))

    def products(self, count: int) -> None:
        pairs, rest = divmod(self.layout.steps, 2)
        if pairs:
            self._pair(count, first=True)
            for _ in self.repeated(chunked(pairs - 1, max(1, self.unrolled // 2))):
                self._pair(count, first=False)
        if rest:
            self._low(count, first=pairs == 0)
            self.block.emit("advance", self.w, constant=16 * count)

    def finish(self) -> None:
        self.block.emit("vshift_right", self.totals, self.totals, constant=4)
        super().finish()

    def _inputs(self) -> None:
        for codes, pointer in zip(self.codes, self.inputs, strict=True):
            self.block.emit("vtake_bytes", (codes, pointer), pointer)

    def _pair(self, count: int, *, first: bool) -> None:
        self._low(count, first=first)
        self._inputs()
        for channel in range(count):
            self.block.emit("vtake", (self.row, self.w), self.w)
            self.block.emit("vand", self.row, self.row, self.high)
            for pixel, codes in enumerate(self.codes):
                self.block.emit("vdot_add", self.sums[pixel * count + channel], codes, self.row)

    def _low(self, count: int, *, first: bool) -> None:
        """Sixteen depths of low halves; the weights stay where they are."""
        self._inputs()
        for channel in range(count):
            self.block.emit("vload", self.row, self.w, constant=16 * channel)
            self.block.emit("vshift_left_8", self.row, self.row, constant=4)
            for pixel, codes in enumerate(self.codes):
                total = self.sums[pixel * count + channel]
                self.block.emit("vdot" if first else "vdot_add", total, codes, self.row)


def nibbles_mve_records(
    rows: np.ndarray, stage: OutputStage, zero_point: int, wide: int, requantizer: Requantizer | None
) -> np.ndarray:
    """Weights and parameters for :func:`nibbles_mve_block` as int32 words; ``rows`` [channels, depth]."""
    padded = np.pad(rows.astype(np.int64), ((0, 0), (0, -rows.shape[1] % 32))).reshape(len(rows), -1, 2, 16)
    both = (padded[:, :, 0] & 15) | ((padded[:, :, 1] & 15) << 4)
    packed = both.astype(np.uint8).view(np.int8).reshape(len(rows), -1)
    return matmul_mve_records(packed, stage, zero_point, wide, requantizer, sums=rows)
