"""Depthwise convolution for Helium: one row of pixels, sixteen channels at a time.

Input rows lie in a ring of ``kernel_h`` rows, their borders filled with the zero point, each pixel padded to a multiple
of 16 channels. Products are summed in int16 lanes as long as the weights allow it, then in int32. Even and odd lanes
part twice on the way up and join on the way down, so tables hold channels in the order 0 4 8 12, 2 6 10 14, 1 5 9 13,
3 7 11 15.

The weights are a record of bytes for each 16 channels: negative shifts (bytes), biases, multipliers (words), taps of
2 kernel_h - 1 rows (each kernel_w vectors). The ring does not move; the taps do: a kernel whose first row lies in slot
s begins to read its taps at row (kernel_h - s) mod kernel_h, since rows come round again.
"""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .program import CODES, HALVES, POINTER_IN, POINTER_OUT, WORDS, Block, Variable
from .requantize import Requantizer
from .requantize_mve import VectorRequantizer, folded_biases

LANES = 16
_ORDER = [0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15]
TABLES_BYTES = LANES + 4 * LANES + 4 * LANES


def record_bytes(kernel_h: int, kernel_w: int) -> int:
    """Bytes of a record."""
    return (2 * kernel_h - 1) * kernel_w * LANES + TABLES_BYTES


def depthwise_mve_block(
    channels: int,
    kernel: tuple[int, int],
    row_bytes: int,
    pixel_bytes: int,
    count: int,
    step: int,
    stage: Requantizer,
    taps_at_once: int,
) -> Block:
    """``NAME(ring, taps, tables, output)``: ``count`` times ``channels`` codes of a row, inputs ``step`` bytes apart.

    Rows of the ring are ``row_bytes`` long, taps of a kernel row ``pixel_bytes`` apart. ``taps`` is where the first
    record's taps begin for this row, ``tables`` where its tables do; ``taps_at_once`` products fit 16 bits.
    Several pixels of few channels may pass for one of sixteen.
    """
    ring, taps = Variable("ring", POINTER_IN), Variable("taps", POINTER_IN)
    tables, output = Variable("tables", POINTER_IN), Variable("output", POINTER_OUT)
    block = Block([ring, taps, tables, output])
    for parameter in block.parameters:
        block.park(parameter)
    maker = _Row(block, kernel, row_bytes, pixel_bytes, stage, taps_at_once)
    record = record_bytes(*kernel)
    with block.loop("pixels", count, parked=True):
        block.unpark(ring, maker.x)
        block.unpark(taps, maker.w)
        block.unpark(tables, maker.tables)
        block.unpark(output, maker.target)
        if channels >= LANES:
            with block.loop("blocks", channels // LANES, parked=True):
                maker.sixteen(record, LANES)
        if channels % LANES:
            maker.sixteen(record, channels % LANES)
        for pointer, distance in ((ring, step), (output, channels)):
            block.unpark(pointer)
            block.move(pointer, distance, maker.step)
            block.park(pointer)
    return block


class _Row:
    def __init__(
        self, block: Block, kernel: tuple[int, int], row_bytes: int, pixel_bytes: int, stage: Requantizer, at_once: int
    ) -> None:
        self.block, self.kernel, self.row_bytes, self.pixel_bytes = block, kernel, row_bytes, pixel_bytes
        self.at_once = at_once
        self.x, self.w = block.variable("x", POINTER_IN), block.variable("w", POINTER_IN)
        self.tables = block.variable("table", POINTER_IN, "r2")
        self.target = block.variable("target", POINTER_OUT)
        self.row = block.variable("row", POINTER_IN)
        self.constant, self.step = block.variable("constant"), block.variable("step")
        self.stage = VectorRequantizer(block, stage, self.constant, CODES)
        self.sums = [block.variable(f"sum{number}", WORDS) for number in range(4)]
        self.codes, self.taps = block.variable("codes", CODES), block.variable("tap", CODES)
        self.even, self.odd = block.variable("even", HALVES), block.variable("odd", HALVES)
        self.multiplier, self.shift = block.variable("multiplier", WORDS), block.variable("shift", WORDS)
        self.wide = block.variable("wide", WORDS)
        self.product = block.variable("product", HALVES)

    def sixteen(self, record: int, count: int) -> None:
        """Sixteen channels of one pixel, of which ``count`` are stored."""
        block, (kernel_h, kernel_w) = self.block, self.kernel
        for number, total in enumerate(self.sums):
            block.emit("vload_words", total, self.tables, constant=LANES + 16 * number)
        waiting, last = 0, kernel_h * kernel_w - 1
        block.emit("copy_pointer", self.row, self.x)
        for ky in range(kernel_h):
            moved = 0
            for kx in range(kernel_w):
                place = kx * self.pixel_bytes
                if place - moved > 508:
                    block.move(self.row, place - moved, self.step)
                    moved = place
                self._product(place - moved, first=waiting == 0)
                waiting += 1
                if waiting == self.at_once or ky * kernel_w + kx == last:
                    self._widen()
                    waiting = 0
            if ky + 1 < kernel_h:
                block.move(self.row, self.row_bytes - moved, self.step)
        self._finish(count)
        block.move(self.w, record - kernel_h * kernel_w * LANES, self.step)
        block.move(self.tables, record, self.step)
        block.emit("advance", self.x, constant=LANES)
        block.move(self.target, count, self.step)

    def _product(self, place: int, *, first: bool) -> None:
        """One tap; when it is added, its codes are loaded twice, as eight vector registers hold no more."""
        block = self.block
        block.emit("vload", self.codes, self.row, constant=place)
        block.emit("vtake", (self.taps, self.w), self.w)
        if first:
            block.emit("vmull_even", self.even, self.codes, self.taps)
            block.emit("vmull_odd", self.odd, self.codes, self.taps)
            return
        block.emit("vmull_even", self.product, self.codes, self.taps)
        block.emit("vadd_halves", self.even, self.even, self.product)
        block.emit("vload", self.codes, self.row, constant=place)
        block.emit("vmull_odd", self.product, self.codes, self.taps)
        block.emit("vadd_halves", self.odd, self.odd, self.product)

    def _widen(self) -> None:
        block, wide = self.block, self.wide
        for number, half in ((0, self.even), (2, self.odd)):
            for offset, name in ((0, "vwiden_even"), (1, "vwiden_odd")):
                block.emit(name, wide, half)
                block.emit("vadd", self.sums[number + offset], self.sums[number + offset], wide)

    def _finish(self, count: int) -> None:
        block, sums = self.block, self.sums
        self.stage.begin()
        for number, total in enumerate(sums):
            block.emit("vload_words", self.multiplier, self.tables, constant=5 * LANES + 16 * number)
            block.emit("vload_widened", self.shift, self.tables, constant=4 * number)
            self.stage.codes(total, self.multiplier, self.shift)
        # Saturating narrowing joins the lanes again: 32 bits to 16, then 16 to 8.
        for half, first in ((self.even, 0), (self.odd, 2)):
            block.emit("vnarrow_even", half, sums[first])
            block.emit("vnarrow_odd", half, sums[first + 1])
        block.emit("vnarrow_even_8", self.codes, self.even)
        block.emit("vnarrow_odd_8", self.codes, self.odd)
        self.stage.clamp(self.codes)
        if count == LANES:
            block.emit("vstore", None, self.target, self.codes, constant=0)
        else:
            block.emit("vstore_first", None, self.target, self.codes, block.set(self.constant, count), constant=0)


def depthwise_mve_records(weight: np.ndarray, stage: OutputStage, zero_point: int) -> np.ndarray:
    """Weights [channels, kernel_h, kernel_w] and parameters for :func:`depthwise_mve_block` as int32 words."""
    channels, kernel_h, _ = weight.shape
    extra = -channels % LANES
    biases = np.pad(folded_biases(weight, stage, zero_point), (0, extra))
    multipliers = np.pad(stage.params[:, 1].astype(np.int32), (0, extra))
    shifts = np.pad((-stage.shifts.astype(np.int16)).astype(np.int8), (0, extra))
    taps = np.pad(weight.astype(np.int8), ((0, extra), (0, 0), (0, 0)))
    parts = []
    for start in range(0, channels, LANES):
        order = np.array(_ORDER) + start
        rows = taps[start : start + LANES].transpose(1, 2, 0)
        parts += [shifts[order].tobytes(), biases[order].tobytes(), multipliers[order].tobytes()]
        parts += [rows.tobytes(), rows[: kernel_h - 1].tobytes()]
    return np.frombuffer(b"".join(parts), "<i4").astype(np.int32)


def products_at_once(weight: np.ndarray) -> int:
    """How many neighbouring taps' products sum up within 16 bits for every channel; weights [channels, kh, kw]."""
    taps = np.abs(weight.reshape(len(weight), -1).astype(np.int64)) * 128
    for count in range(taps.shape[1], 1, -1):
        groups = np.add.reduceat(taps, np.arange(0, taps.shape[1], count), axis=1)
        if groups.max() < 1 << 15:
            return count
    return 1
