"""Matrix times vector for cores with the DSP extension: one row of inputs by six channels, weights in packed lanes.

The tile holds one word for each pair of depths (see :mod:`.matmul`). A block that reads the codes themselves widens
four of them with three instructions for each group of channels; they are not doubled then, but the sums are. Channels
come in groups of six, a last one of two or four (an odd last channel has a partner of zeros); the weights are a record
of words for each group::

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


def vector_block(
    depth: int, channels: int, packed: bool, stage: Requantizer | None, unrolled: int, *, codes: bool = False
) -> Block:
    """``NAME(tile, weights, output)``: ``channels`` codes; a tile's ``depth`` is filled up to fours.

    At most ``unrolled`` fours of depths are written out. Without ``stage`` the output is int32 sums. ``codes``: the
    first parameter is ``depth`` int8 codes at any address, and no byte behind them is read.
    """
    tile, weights = Variable("codes" if codes else "tile", POINTER_IN), Variable("weights", POINTER_IN)
    output = Variable("output", POINTER_OUT)
    block = Block([tile, weights, output])
    scaling = Scaling(block)
    block.park(tile)
    block.park(output)
    if stage is not None and stage.common:
        stage.keep_common(block, scaling, weights)
    if channels >= GROUP:
        with block.loop("groups", channels // GROUP, parked=True):
            _group(block, tile, weights, output, GROUP, depth, packed, stage, scaling, unrolled, codes)
    if channels % GROUP:
        _group(block, tile, weights, output, channels % GROUP, depth, packed, stage, scaling, unrolled, codes)
    return block


def _group(
    block: Block,
    tile: Variable,
    weights: Variable,
    output: Variable,
    channels: int,
    depth: int,
    packed: bool,
    stage: Requantizer | None,
    scaling: Scaling,
    unrolled: int,
    codes: bool,
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

    def products(*values: Variable) -> None:
        for x in values:
            block.emit(f"take_{pairs}", (*words, weights), weights)
            for pair in range(pairs):
                block.emit("sxtb16", low, words[pair])
                if not packed:
                    block.emit("sxtb16_odd", words[pair], words[pair])
                block.emit("smlad", odd[pair], x, words[pair], odd[pair])
                block.emit("smlad", even[pair], x, low, even[pair])

    # An offset of a double load reaches 1020 bytes.
    length, chunks, rest = chunked(depth // 4 if codes else -(-depth // 4), min(unrolled, 127))
    for count, times in ((length, chunks), (rest, 1)):
        if not count:
            continue
        with block.loop("chunks", times, parked=True):
            with block.repeat(count) as k:
                if codes:
                    block.emit("load", inputs[1], tile, constant=k(0, 4))
                    _widen(block, inputs)
                else:
                    block.emit("load_2", inputs, tile, constant=k(0, 8))
                products(*inputs)
            block.emit("advance", tile, constant=(4 if codes else 8) * count)
    if codes and depth % 4:
        products(*_last_codes(block, tile, inputs, depth))
    block.unpark(output)
    if stage is not None and stage.common:
        stage.recall_common(block, scaling)
    size = 4 if stage is None else 1
    padded = 2 * pairs
    for channel in range(channels):
        pair, total = channel // 2, (odd if channel % 2 else even)[channel // 2]
        if channel % 2 == 0 and packed:
            block.emit("subtract", odd[pair], odd[pair], even[pair])
            block.emit("shift_right", odd[pair], odd[pair], constant=7 if codes and stage is not None else 8)
        if codes and stage is not None and not (packed and channel % 2):
            block.emit("add", total, total, total)
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


def _widen(block: Block, inputs: tuple[Variable, Variable]) -> None:
    """Four codes in the second variable become depths 0 and 2, and 1 and 3."""
    block.emit("sxtb16", inputs[0], inputs[1])
    block.emit("sxtb16_odd", inputs[1], inputs[1])


def _last_codes(
    block: Block, codes: Variable, inputs: tuple[Variable, Variable], depth: int
) -> tuple[Variable, Variable]:
    """The last one to three depths; their partners have weights of zero."""
    rest = depth % 4
    first, second = inputs
    if depth > 4:
        # The last four codes without those that are done.
        block.emit("load", second, codes, constant=rest - 4)
        block.emit("shift_right_unsigned", second, second, constant=8 * (4 - rest))
        _widen(block, inputs)
        return inputs
    block.emit("load_s8", first, codes, constant=0)
    if rest == 1:
        return first, first
    if rest == 3:
        block.emit("load_s8", second, codes, constant=2)
        block.emit("pack_low", first, first, second)
    block.emit("load_s8", second, codes, constant=1)
    return inputs


def code_rows(rows: np.ndarray) -> np.ndarray:
    """Rows [channels, depth] in the order in which a block widens codes: 0 2 1 3 of each four, filled up with zeros."""
    fours = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 4))).reshape(len(rows), -1, 4)
    return np.ascontiguousarray(fours[:, :, [0, 2, 1, 3]].reshape(len(rows), -1))


def vector_records(
    rows: np.ndarray,
    stage: OutputStage,
    zero_point: int,
    packed: bool,
    requantizer: Requantizer | None,
    *,
    codes: bool = False,
) -> np.ndarray:
    """Weights and parameters for :func:`vector_block` as int32 words; see :func:`.matmul.matmul_records`."""
    odd = len(rows) % 2
    # A tile's codes have 128 added and are doubled.
    biases = stage.params[:, 0] - (zero_point + (0 if codes else 128)) * rows.astype(np.int64).sum(axis=1)
    biases = np.pad(wrapped(2 * biases if requantizer and not codes else biases), (0, odd))
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
