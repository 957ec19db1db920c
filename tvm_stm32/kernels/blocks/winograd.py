"""Exact integer Winograd F(2x2, 3x3) for cores with the DSP extension: four tiles of 2x2 pixels by two channels.

Input patches d (4x4) become V = B' d B, weights g become U = (2 G) g (2 G)' = 4 G g G', and A' (U . V) A is four times
the 3x3 convolution, all of it in integers. V needs 11 bits (|d| <= 128, sums of four), U 12 (row sums of 2 G are 2, 3,
3, 2), so both fit halfwords and SMLAD takes two channels of the input at once; sums may wrap on the way, only the
result has to fit. 16 multiplications do the work of 36.

The weights are a record of words for each pair of output channels: for each of the 16 points, and each two input
channels, a word of either output channel; then 4 * bias 0, 4 * bias 1, multipliers, shifts (two bytes).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..stage import OutputStage
from .matmul import ROW_BYTES, wrapped
from .program import POINTER_IN, POINTER_OUT, Block, Index, Variable, chunked
from .requantize import Requantizer, Scaling

POINTS = 16
TILES = 4
# Pixels a block of tiles reads from a row, and its rows.
PATCH_W, PATCH_H = 2 * TILES + 2, 4
# int32 sums of all points, tiles and both channels.
SUMS_BYTES = 4 * POINTS * TILES * 2
_TAIL_WORDS = 5


def values_bytes(channels_in: int) -> int:
    """Bytes of V for a block of tiles."""
    return POINTS * (channels_in // 2) * ROW_BYTES


def transform_block(channels_in: int) -> Block:
    """``NAME(patch, values)``: V of one tile; rows of the patch are ``PATCH_W`` pixels of a multiple of 4 codes."""
    patch, values = Variable("patch", POINTER_IN), Variable("values", POINTER_OUT)
    block = Block([patch, values])
    x = [block.variable(f"x{column}") for column in range(4)]
    middle = [[block.variable(f"h{row}{column}") for column in range(4)] for row in (1, 2)]
    with block.loop("quads", channels_in // 4, parked=True):
        for how in ("sxtb16", "sxtb16_odd"):
            writer = _Values(block, values, channels_in)
            for row in (1, 2):
                _columns(block, patch, row, channels_in, how, x, middle[row - 1])
            for column in range(4):
                one, two = middle[0][column], middle[1][column]
                writer.store(1, column, block.emit("sadd16", x[0], one, two))
                writer.store(2, column, block.emit("ssub16", x[1], two, one))
            _columns(block, patch, 0, channels_in, how, x, x)
            for column in range(4):
                writer.store(0, column, block.emit("ssub16", x[column], x[column], middle[1][column]))
            _columns(block, patch, 3, channels_in, how, x, x)
            for column in range(4):
                writer.store(3, column, block.emit("ssub16", x[column], middle[0][column], x[column]))
            writer.leave(ROW_BYTES)
        block.emit("advance", patch, constant=4)
    return block


def _columns(
    block: Block,
    patch: Variable,
    row: int,
    channels_in: int,
    how: str,
    x: list[Variable],
    target: list[Variable],
) -> None:
    """(x0 - x2, x1 + x2, x2 - x1, x1 - x3) of a row; ``target`` may be ``x``."""
    for column in range(4):
        block.emit("load", x[column], patch, constant=(row * PATCH_W + column) * channels_in)
    for column in range(4):
        block.emit(how, x[column], x[column])
    block.emit("ssub16", target[0], x[0], x[2])
    block.emit("ssub16", target[3], x[1], x[3])
    if target is x:
        # x1 + x2 = (x2 - x1) + 2 x1: the difference first, in place.
        block.emit("ssub16", target[2], x[2], x[1])
        block.emit("sadd16", target[1], x[1], x[1])
        block.emit("sadd16", target[1], target[1], target[2])
    else:
        block.emit("sadd16", target[1], x[1], x[2])
        block.emit("ssub16", target[2], x[2], x[1])


class _Values:
    """Stores into V, whose points lie further apart than a store's offset reaches."""

    def __init__(self, block: Block, pointer: Variable, channels_in: int) -> None:
        self.block, self.pointer = block, pointer
        self.point_bytes = channels_in // 2 * ROW_BYTES
        self.moved = 0

    def store(self, row: int, column: int, value: Variable) -> None:
        place = (4 * row + column) * self.point_bytes
        if not 0 <= place - self.moved <= 4092:
            self._move(place)
        self.block.emit("store", None, self.pointer, value, constant=place - self.moved)

    def leave(self, place: int) -> None:
        """The pointer goes to ``place`` from where it began."""
        self._move(place)

    def _move(self, place: int) -> None:
        distance, self.moved = place - self.moved, place
        while distance:
            step = max(-4080, min(4080, distance))
            self.block.emit("advance" if step > 0 else "retreat", self.pointer, constant=abs(step))
            distance -= step


def winograd_block(
    channels_in: int, channels: int, out_w: int, stride: int, stage: Requantizer, unrolled: int, *, doubles: bool
) -> Block:
    """``NAME(values, weights, output, sums)``: 2 x 8 pixels of ``channels`` (even) codes ``stride`` bytes apart.

    ``doubles``: two words are one LDRD, whose offset reaches 1020 bytes.
    """
    unrolled = min(unrolled, 60) if doubles else unrolled
    values, weights = Variable("values", POINTER_IN), Variable("weights", POINTER_IN)
    output, sums = Variable("output", POINTER_OUT), Variable("sums", POINTER_OUT)
    block = Block([values, weights, output, sums])
    for parameter in (values, output, sums):
        block.park(parameter)
    lanes = [block.variable(f"m{lane}", register=f"r{4 + lane}") for lane in range(2 * TILES)]
    w, x = [block.variable("w0"), block.variable("w1")], [block.variable("x0"), block.variable("x1")]
    target = block.variable("target", POINTER_OUT)
    with block.loop("pairs", channels // 2, parked=True):
        block.unpark(values)
        block.unpark(sums, target)
        block.park(target)
        with block.loop("points", POINTS, parked=True):
            _point(block, values, weights, channels_in // 2, unrolled, lanes, w, x, doubles)
            block.unpark(target)
            block.emit("put_8", (target,), *lanes, target)
            block.park(target)
        _outputs(block, weights, output, sums, out_w, stride, stage)
        block.emit("advance", weights, constant=4 * _TAIL_WORDS)
        block.unpark(output)
        block.emit("advance", output, constant=2)
        block.park(output)
    return block


def _point(
    block: Block,
    values: Variable,
    weights: Variable,
    steps: int,
    unrolled: int,
    lanes: list[Variable],
    w: list[Variable],
    x: list[Variable],
    doubles: bool,
) -> None:
    """Products of one point over all input channels; lane 2 t + c is tile t, channel c."""

    def pair(targets: list[Variable], base: Variable, offsets: Sequence[int | Index]) -> None:
        if doubles:
            block.emit("load_2", tuple(targets), base, constant=offsets[0])
        else:
            for target, offset in zip(targets, offsets, strict=True):
                block.emit("load", target, base, constant=offset)

    def step(weight_offsets: Sequence[int | Index], tile_offsets: Sequence[int | Index], first: bool) -> None:
        pair(w, weights, weight_offsets)
        for start in (0, 2):
            pair(x, values, tile_offsets[start : start + 2])
            for number in range(2):
                for channel in range(2):
                    lane = lanes[2 * (start + number) + channel]
                    if first:
                        block.emit("smuad", lane, x[number], w[channel])
                    else:
                        block.emit("smlad", lane, x[number], w[channel], lane)

    step((0, 4), [4 * tile for tile in range(TILES)], True)
    length, chunks, rest = chunked(steps - 1, unrolled)
    block.emit("advance", weights, constant=8)
    block.emit("advance", values, constant=ROW_BYTES)
    for count, times in ((length, chunks), (rest, 1)):
        if not count:
            continue
        with block.loop("chunks", times, parked=True):
            with block.repeat(count) as k:
                step((k(0, 8), k(4, 8)), [k(4 * tile, ROW_BYTES) for tile in range(TILES)], False)
            block.emit("advance", weights, constant=8 * count)
            block.emit("advance", values, constant=ROW_BYTES * count)


def _outputs(
    block: Block, weights: Variable, output: Variable, sums: Variable, out_w: int, stride: int, stage: Requantizer
) -> None:
    """A' M A of each tile and channel, its codes at the tile's four pixels."""
    m = [block.variable(name) for name in ("ma", "mb", "mc", "md")]
    y = [[block.variable(f"y{row}{column}") for column in range(2)] for row in range(2)]
    scaling = Scaling(block)
    # Products are in registers no longer when codes are made.
    scaling.scratch = m[0]
    bias, source = block.variable("bias"), block.variable("source", POINTER_IN)
    place = block.variable("place", POINTER_OUT)
    row_bytes = out_w * stride
    for channel in range(2):
        block.emit("load", bias, weights, constant=4 * channel)
        stage.begin(block, scaling, weights, 8 + 4 * channel, 16 + channel)
        if channel == 0:
            block.park(weights)
        block.unpark(sums, source)
        block.unpark(output, place)
        if channel:
            block.emit("advance", place, constant=1)
        with block.loop("tiles", TILES, parked=True):
            for column in range(4):
                for row in range(4):
                    block.emit("load", m[row], source, constant=(4 * row + column) * 8 * TILES + 4 * channel)
                a, b, c, d = m
                if column == 1:
                    # Added to this point, the bias reaches all four pixels.
                    block.emit("add", b, b, bias)
                block.emit("add", a, a, b)
                block.emit("add", a, a, c)
                block.emit("subtract", b, b, c)
                block.emit("subtract", b, b, d)
                for row, t in ((0, a), (1, b)):
                    if column == 0:
                        block.emit("move", y[row][0], t)
                    elif column == 1:
                        block.emit("add", y[row][0], y[row][0], t)
                        block.emit("move", y[row][1], t)
                    elif column == 2:
                        block.emit("add", y[row][0], y[row][0], t)
                        block.emit("subtract", y[row][1], y[row][1], t)
                    else:
                        block.emit("subtract", y[row][1], y[row][1], t)
            for row in range(2):
                for column in range(2):
                    total = y[row][column]
                    block.emit("shift_right", total, total, constant=1)
                    stage.code(block, total, scaling)
                    block.emit("store_8", None, place, total, constant=row * row_bytes + column * stride)
            block.emit("advance", source, constant=8)
            block.emit("advance", place, constant=2 * stride)
        block.unpark(weights)


def winograd_records(weight: np.ndarray, stage: OutputStage, zero_point: int) -> np.ndarray:
    """Weights [channels, 3, 3, channels_in] and parameters for :func:`winograd_block` as int32 words."""
    doubled = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int64)
    wide = weight.astype(np.int64)
    points = np.einsum("iy,oyxc,jx->oijc", doubled, wide, doubled).reshape(len(weight), POINTS, -1)
    assert np.abs(points).max(initial=0) < 1 << 15
    # [pair, point, two input channels, output channel of the pair]: sxtb16 takes channels 0 and 2, then 1 and 3.
    order = [base + offset for base in range(0, points.shape[2], 4) for offset in (0, 2, 1, 3)]
    halves = np.ascontiguousarray(points[:, :, order].astype("<i2")).view("<i4")
    words = halves.reshape(len(weight) // 2, 2, POINTS, -1).transpose(0, 2, 3, 1).reshape(len(weight) // 2, -1)
    biases = wrapped(4 * (stage.params[:, 0].astype(np.int64) - zero_point * wide.sum(axis=(1, 2, 3))))
    shifts = stage.shifts.astype(np.int64) - 1
    columns = [words, biases.reshape(-1, 2), stage.params[:, 1].reshape(-1, 2)]
    columns.append((shifts[0::2] + (shifts[1::2] << 8)).astype(np.int32).reshape(-1, 1))
    return np.ascontiguousarray(np.concatenate(columns, axis=1).astype(np.int32)).reshape(-1)
