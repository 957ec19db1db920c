"""Matrix product for Helium: two pixels by four channels, or one pixel by eight, sixteen depths at a time.

A pixel's row of the tile is its codes, padded to a multiple of 16. Channels come in blocks (``wide`` channels, a last
one of four); the weights are a record for each block: for each 16 depths 16 codes of each channel, then for each four
channels biases and multipliers (words) and negative shifts (bytes). Channels that are missing from a last four are
zeros and not stored. Without a requantizer the block stores sums, and records have biases only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..stage import OutputStage
from .program import CODES, POINTER_IN, POINTER_OUT, WORDS, Block, Variable, chunked
from .requantize import Requantizer
from .requantize_mve import VectorRequantizer, folded_biases

# VMLADAV accumulates into even registers; narrowing stores and widening loads take r0 to r7 as their base.
_SUMS = ("r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr")


@dataclass(frozen=True)
class VectorLayout:
    """Where the inputs of a block lie, in bytes: from pixel to pixel, from row to row; ``steps`` of 16 depths a row.

    A tile is one row; a block that reads a convolution's rows in place has one for each kernel row.
    """

    steps: int
    pixel_bytes: int
    rows: int = 1
    row_bytes: int = 0


def matmul_mve_block(
    pixels: int,
    layout: VectorLayout,
    channels: int,
    stride: int,
    stage: Requantizer | None,
    unrolled: int,
    *,
    wide: int,
) -> Block:
    """``NAME(tile, weights, output)``: ``channels`` codes (without ``stage``, sums) of pixels ``stride`` bytes apart.

    ``wide``, the channels of a block: 4, or 8 for one pixel.
    """
    return product_of(lambda block: Matmul(block, pixels, layout, stage, unrolled), channels, stride, wide)


def product_of(form: Callable[[Block], VectorProduct], channels: int, stride: int, wide: int) -> Block:
    """:func:`matmul_mve_block` with the products ``form`` makes in a block."""
    tile, weights = Variable("tile", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([tile, weights, output])
    for parameter in block.parameters:
        block.park(parameter)
    maker = form(block)
    block.unpark(weights, maker.w)
    maker.begin()
    for pixel, target in enumerate(maker.targets):
        block.unpark(output, target)
        block.move(target, pixel * stride, maker.scalar)
    if channels >= wide:
        with block.loop("blocks", channels // wide, parked=True):
            maker.channels(tile, wide)
    if channels % wide:
        maker.channels(tile, channels % wide)
    return block


class VectorProduct(ABC):
    """Registers of a block whose codes are vectors of ``lanes``, and what all its forms do."""

    def __init__(self, block: Block, pixels: int, layout: VectorLayout, unrolled: int, lanes: str) -> None:
        self.block, self.layout, self.unrolled = block, layout, unrolled
        self.inputs = [block.variable("x", POINTER_IN, "r9"), block.variable("y", POINTER_IN, "r11")][:pixels]
        self.w = block.variable("w", POINTER_IN, "r5")
        self.targets = [block.variable("out", POINTER_OUT, "r7"), block.variable("out_y", POINTER_OUT, "r3")][:pixels]
        self.scalar = block.variable("constant", register="r1")
        self.sums = [block.variable(f"sum{number}", register=name) for number, name in enumerate(_SUMS)]
        self.codes = [block.variable(f"codes_{name}", lanes) for name in ("x", "y")][:pixels]
        self.row = block.variable("row", lanes)
        self.totals, self.bias = block.variable("totals", WORDS), block.variable("bias", WORDS)
        self.multiplier = block.variable("multiplier", WORDS)

    @abstractmethod
    def begin(self) -> None:
        """Take what the head of the records holds for all channels."""

    @abstractmethod
    def products(self, count: int) -> None:
        """Sums of ``count`` channels of all pixels over all depths; the weights go on behind theirs."""

    @abstractmethod
    def parameters(self, quad: int) -> None:
        """Biases and scales of the four channels ``quad`` of those just summed; the weights go on behind them."""

    @abstractmethod
    def finish(self) -> None:
        """Four sums in ``totals`` become what is stored."""

    @property
    @abstractmethod
    def stored(self) -> tuple[str, str, int]:
        """Operations that store four outputs of ``totals`` and a single one, and bytes of one."""

    def channels(self, tile: Variable, count: int) -> None:
        """``count`` channels (at most 8) of all pixels."""
        block = self.block
        for pixel, pointer in enumerate(self.inputs):
            block.unpark(tile, pointer)
            block.move(pointer, pixel * self.layout.pixel_bytes, self.scalar)
        padded = -(-count // 4) * 4
        self.products(padded)
        for quad in range(padded // 4):
            self.parameters(quad)
            for pixel, target in enumerate(self.targets):
                first = pixel * padded + 4 * quad
                block.emit("vlanes", self.totals, *self.sums[first : first + 4])
                self.finish()
                self._store(target, min(4, count - 4 * quad), self.sums[first])

    def _store(self, target: Variable, count: int, scratch: Variable) -> None:
        block, (four, single, size) = self.block, self.stored
        if count == 4:
            block.emit(four, (target,), target, self.totals)
            return
        for lane in range(count):
            block.emit("vget", scratch, self.totals, constant=lane)
            block.emit(single, None, target, scratch, constant=size * lane)
        block.emit("advance", target, constant=size * count)

    def repeated(self, steps: tuple[int, int, int]) -> Iterator[None]:
        """Describe a step; it is done ``length`` times in a loop of ``times``, and ``rest`` times behind it."""
        length, times, rest = steps
        for count, turns in ((length, times), (rest, 1)):
            if count:
                with self.block.loop("chunks", turns, parked=True), self.block.repeat(count):
                    yield


class Matmul(VectorProduct):
    """Products of int8 codes."""

    def __init__(
        self, block: Block, pixels: int, layout: VectorLayout, stage: Requantizer | None, unrolled: int
    ) -> None:
        super().__init__(block, pixels, layout, unrolled, CODES)
        self.stage = VectorRequantizer(block, stage, self.scalar) if stage is not None else None
        self.common = stage is not None and stage.common
        self.shift = block.variable("shift", WORDS)

    def begin(self) -> None:
        block = self.block
        if self.common:
            for number, vector in enumerate((self.multiplier, self.shift)):
                block.emit("load", self.scalar, self.w, constant=4 * number)
                block.emit("vspread", vector, self.scalar)
            block.emit("advance", self.w, constant=8)

    def products(self, count: int) -> None:
        layout = self.layout
        self._step(count, first=True)
        self._steps(count, layout.steps - 1)
        if layout.rows * layout.steps <= self.unrolled:
            for _ in range(layout.rows - 1):
                self._next_row()
                self._steps(count, layout.steps)
        elif layout.rows > 1:
            with self.block.loop("rows", layout.rows - 1, parked=True):
                self._next_row()
                self._steps(count, layout.steps)

    def parameters(self, quad: int) -> None:
        block = self.block
        if self.stage is not None and quad == 0:
            self.stage.begin()
        block.emit("vtake_words", (self.bias, self.w), self.w)
        if self.stage is not None and not self.common:
            block.emit("vtake_words", (self.multiplier, self.w), self.w)
            block.emit("vtake_widened", (self.shift, self.w), self.w)

    def finish(self) -> None:
        self.block.emit("vadd", self.totals, self.totals, self.bias)
        if self.stage is not None:
            self.stage.clamp(self.stage.codes(self.totals, self.multiplier, self.shift))

    @property
    def stored(self) -> tuple[str, str, int]:
        return ("vput_words", "store", 4) if self.stage is None else ("vput_narrowed", "store_8", 1)

    def _steps(self, channels: int, steps: int) -> None:
        for _ in self.repeated(chunked(steps, self.unrolled)):
            self._step(channels, first=False)

    def _next_row(self) -> None:
        for pointer in self.inputs:
            self.block.move(pointer, self.layout.row_bytes - 16 * self.layout.steps, self.scalar)

    def _step(self, count: int, *, first: bool) -> None:
        """Sixteen depths: loads and products alternate, so that their beats overlap."""
        block = self.block
        for codes, pointer in zip(self.codes, self.inputs, strict=True):
            block.emit("vtake_bytes", (codes, pointer), pointer)
        for channel in range(count):
            block.emit("vtake", (self.row, self.w), self.w)
            for pixel, codes in enumerate(self.codes):
                block.emit("vdot" if first else "vdot_add", self.sums[pixel * count + channel], codes, self.row)


def matmul_mve_records(
    rows: np.ndarray,
    stage: OutputStage,
    zero_point: int,
    wide: int,
    requantizer: Requantizer | None,
    sums: np.ndarray | None = None,
) -> np.ndarray:
    """Weights and parameters for :func:`matmul_mve_block` as int32 words; ``rows`` [channels, depth].

    ``sums`` are the weights whose sums go into biases, where ``rows`` are not.
    """
    tables = [folded_biases(rows if sums is None else sums, stage, zero_point)]
    head = np.zeros(0, np.int32)
    if requantizer and requantizer.common:
        head = np.array([stage.params[0, 1], -int(stage.shifts[0])], np.int32)
    elif requantizer:
        tables += [stage.params[:, 1].astype(np.int32), (-stage.shifts.astype(np.int16)).astype(np.int8)]
    return np.concatenate([head, product_words(rows, tables, 16, wide)])


def product_words(rows: np.ndarray, tables: list[np.ndarray], depths: int, wide: int) -> np.ndarray:
    """Records of ``wide`` channels as int32 words: ``depths`` codes of each in turn, then of each four their tables."""
    extra = -len(rows) % 4
    tables = [np.pad(table, (0, extra)) for table in tables]
    padded = np.pad(rows, ((0, extra), (0, -rows.shape[1] % depths))).astype(np.int8)
    parts = []
    for start in range(0, len(padded), wide):
        channels = padded[start : start + wide]
        parts.append(channels.reshape(len(channels), -1, depths).transpose(1, 0, 2).tobytes())
        for first in range(start, start + len(channels), 4):
            parts += [table[first : first + 4].tobytes() for table in tables]
    return np.frombuffer(b"".join(parts), "<i4").astype(np.int32)
