"""Matrix times vector for cores with the DSP extension: one row of inputs by six channels, weights in packed lanes.

The tile holds one word for each pair of depths (see :mod:`.matmul`). Channels come in groups of six, a last one of two
or four (an odd last channel has a partner of zeros); the weights are a record of words for each group::

    biases, steps * (a weight word of each pair of channels), multipliers, shifts (a byte each, filled up to words)

Without a requantizer the block stores sums, and records end with the weights.
"""

from __future__ import annotations

import numpy as np

from ..stage import OutputStage
from .matmul import weight_words, wrapped
from .program import POINTER_IN, POINTER_OUT, Block, Variable, chunked
from .requantize import Requantizer, Scaling

GROUP = 6


def vector_block(steps: int, channels: int, packed: bool, stage: Requantizer | None, unrolled: int) -> Block:
    """``NAME(tile, weights, output)``: ``channels`` codes; ``steps``, half the depth, is even.

    At most ``unrolled`` pairs of steps are written out. Without ``stage`` the output is int32 sums.
    """
    tile, weights = Variable("tile", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([tile, weights, output])
    scaling = Scaling(block)
    block.park(tile)
    block.park(output)
    if stage is not None and stage.common:
        stage.keep_common(block, scaling, weights)
    if channels >= GROUP:
        with block.loop("groups", channels // GROUP, parked=True):
            _group(block, tile, weights, output, GROUP, steps, packed, stage, scaling, unrolled)
    if channels % GROUP:
        _group(block, tile, weights, output, channels % GROUP, steps, packed, stage, scaling, unrolled)
    return block


def _group(
    block: Block,
    tile: Variable,
    weights: Variable,
    output: Variable,
    channels: int,
    steps: int,
    packed: bool,
    stage: Requantizer | None,
    scaling: Scaling,
    unrolled: int,
) -> None:
    pairs = (channels + 1) // 2
    even = [block.variable(f"even_{pair}") for pair in range(pairs)]
    odd = [block.variable(f"odd_{pair}") for pair in range(pairs)]
    # A multiple load fills registers in ascending order.
    words = tuple(block.variable(f"w{pair}", register=f"r{3 + pair}") for pair in range(pairs))
    inputs = block.variable("x0"), block.variable("x1")
    low = block.variable("low")
    block.unpark(tile)
    for pair in range(pairs):
        block.emit("load", even[pair], weights, constant=8 * pair)
        block.emit("load", odd[pair], weights, constant=8 * pair + 4)
        if packed:
            block.emit("add_shifted_8", odd[pair], even[pair], odd[pair])
    block.emit("advance", weights, constant=8 * pairs)
    # An offset of a double load reaches 1020 bytes.
    length, chunks, rest = chunked(steps // 2, min(unrolled, 127))
    for count, times in ((length, chunks), (rest, 1)):
        if not count:
            continue
        with block.loop("chunks", times, parked=True):
            with block.repeat(count) as k:
                block.emit("load_2", inputs, tile, constant=k(0, 8))
                for x in inputs:
                    block.emit(f"take_{pairs}", (*words, weights), weights)
                    for pair in range(pairs):
                        block.emit("sxtb16", low, words[pair])
                        if not packed:
                            block.emit("sxtb16_odd", words[pair], words[pair])
                        block.emit("smlad", odd[pair], x, words[pair], odd[pair])
                        block.emit("smlad", even[pair], x, low, even[pair])
            block.emit("advance", tile, constant=8 * count)
    block.unpark(output)
    if stage is not None and stage.common:
        stage.recall_common(block, scaling)
    size = 4 if stage is None else 1
    padded = 2 * pairs
    for channel in range(channels):
        pair, total = channel // 2, (odd if channel % 2 else even)[channel // 2]
        if channel % 2 == 0 and packed:
            block.emit("subtract", odd[pair], odd[pair], even[pair])
            block.emit("shift_right", odd[pair], odd[pair], constant=8)
        if stage is None:
            block.emit("store", None, output, total, constant=4 * channel)
            continue
        if not stage.common:
            stage.begin(block, scaling, weights, 4 * channel, 4 * padded + channel)
        stage.code(block, total, scaling)
        block.emit("store_8", None, output, total, constant=channel)
    if stage is not None and not stage.common:
        block.emit("advance", weights, constant=4 * padded + 4 * (-(-padded // 4)))
    block.emit("advance", output, constant=size * channels)
    block.park(output)


def vector_records(
    rows: np.ndarray, stage: OutputStage, zero_point: int, packed: bool, requantizer: Requantizer | None
) -> np.ndarray:
    """Weights and parameters for :func:`vector_block` as int32 words; see :func:`.matmul.matmul_records`."""
    odd = len(rows) % 2
    biases = stage.params[:, 0].astype(np.int64) - (zero_point + 128) * rows.astype(np.int64).sum(axis=1)
    biases = np.pad(wrapped(2 * biases if requantizer else biases), (0, odd))
    words = weight_words(np.pad(rows, ((0, odd), (0, 0))), packed)
    multipliers = np.pad(stage.params[:, 1], (0, odd))
    shifts = np.pad((stage.shifts.astype(np.int64) - 1).astype(np.int8), (0, odd))
    parts = [requantizer.common_head(stage)] if requantizer else []
    for start in range(0, len(biases), GROUP):
        channels = slice(start, min(start + GROUP, len(biases)))
        parts += [biases[channels], words[start // 2 : channels.stop // 2].T.reshape(-1)]
        if requantizer and not requantizer.common:
            parts += [multipliers[channels], np.pad(shifts[channels], (0, (start - channels.stop) % 4)).view("<i4")]
    return np.concatenate(parts).astype(np.int32)
