"""Depthwise convolution of int16 codes for Helium: one pixel, eight channels at a time.

For each eight channels the weights are a record: biases of channels 0, 2, 4, 6 and of 1, 3, 5, 7 (the order in which
VMULLB and VMULLT give products), taps (bytes), multipliers in the same order.
"""

from __future__ import annotations

import numpy as np

from .depthwise_taps import kernel_rows, row_taps
from .program import HALVES, POINTER_IN, POINTER_OUT, WORDS, Block, Variable
from .requantize_wide import WideRequantizer, WideScales

LANES = 8
# Bytes a vector load reaches.
_REACH = 508


def depthwise_wide_mve_block(
    channels: int, kernel: tuple[int, int], row_step: int, column_step: int, stage: WideRequantizer
) -> Block:
    """``NAME(input, weights, output)``: ``channels`` (in eights) of a pixel, taps those steps of bytes apart."""
    source, weights = Variable("input", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([source, weights, output])
    maker = _Depthwise(block, kernel[1], column_step)
    row, step = block.variable("row", POINTER_IN), block.variable("step")
    codes, limit = block.variable("codes", HALVES), block.variable("limit", HALVES)
    with block.loop("eights", channels // LANES, parked=True):
        for total in maker.sums:
            block.emit("vtake_words", (total, weights), weights)
        block.emit("copy_pointer", row, source)
        for _ in kernel_rows(block, kernel, row, row_step, step):
            maker.taps(row, weights, step)
        for total, narrow in zip(maker.sums, ("vnarrow_even", "vnarrow_odd"), strict=True):
            block.emit("vtake_words", (maker.products[0], weights), weights)
            block.emit("vrmulh", total, total, maker.products[0])
            block.emit(narrow, codes, total)
        for name, bound, idle in (
            ("vmax_16", stage.clamp_min, -(1 << 15)),
            ("vmin_16", stage.clamp_max, (1 << 15) - 1),
        ):
            if bound != idle:
                block.emit("vspread_16", limit, block.set(step, bound))
                block.emit(name, codes, codes, limit)
        block.emit("vput_half_codes", (output,), output, codes)
        block.emit("advance", source, constant=2 * LANES)
    return block


class _Depthwise:
    def __init__(self, block: Block, width: int, column_step: int) -> None:
        self.block, self.width, self.column_step = block, width, column_step
        self.sums = [block.variable(name, WORDS) for name in ("even", "odd")]
        self.products = [block.variable(name, WORDS) for name in ("product", "product_odd")]
        self.x, self.w = block.variable("x", HALVES), block.variable("w", HALVES)

    def taps(self, row: Variable, weights: Variable, step: Variable) -> None:
        """A row of taps; ``row`` stays where it is, ``weights`` goes on."""
        block = self.block
        for _, place in row_taps(block, row, self.width, self.column_step, _REACH, step):
            block.emit("vload_halves", self.x, row, constant=place)
            block.emit("vtake_widened_halves", (self.w, weights), weights)
            for product, how in zip(self.products, ("vmull_even_16", "vmull_odd_16"), strict=True):
                block.emit(how, product, self.x, self.w)
            for total, product in zip(self.sums, self.products, strict=True):
                block.emit("vadd", total, total, product)


def depthwise_wide_mve_records(scales: WideScales) -> np.ndarray:
    """Weights [channels (in eights), kernel_h, kernel_w, 1] and parameters as int32 words."""
    taps = scales.weight.reshape(len(scales.weight), -1).astype(np.int8)
    parts = []
    for start in range(0, len(taps), LANES):
        biases, multipliers = (table[start : start + LANES] for table in (scales.bias, scales.multiplier))
        parts += [biases[0::2].tobytes(), biases[1::2].tobytes()]
        parts.append(np.ascontiguousarray(taps[start : start + LANES].T).tobytes())
        parts += [multipliers[0::2].tobytes(), multipliers[1::2].tobytes()]
    return np.frombuffer(b"".join(parts), "<i4").astype(np.int32)
