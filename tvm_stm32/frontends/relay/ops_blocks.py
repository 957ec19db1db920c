"""Operators that trade pixels for channels or batches."""

from __future__ import annotations

import math

from tvm import relax

from .operator import Application, operator
from .values import Tensor, Value


def _blocks(app: Application) -> tuple[int, bool, str]:
    app.expect_args(1)
    size, name = app.attrs.integer("block_size", 1), app.attrs.text("layout", "NCHW")
    mode = app.attrs.text("mode", "DCR") or "DCR"
    if size < 1 or name not in ("NCHW", "NHWC") or mode not in ("DCR", "CRD") or len(app.tensor(0).shape) != 4:
        raise app.unsupported(f"block_size={size}, layout={name}, mode={mode} is not supported")
    return size, name == "NHWC", mode


def _rearranged(app: Application, split_shape: list[int], axes: list[int], shape: list[int]) -> Value:
    parts = app.emit(relax.op.reshape(app.expr(0), split_shape))
    moved = app.emit(relax.op.permute_dims(parts.expr, axes))
    return app.emit(relax.op.reshape(moved.expr, shape))


@operator("nn.depth_to_space")
def depth_to_space(app: Application) -> Value:
    """Channels become blocks of pixels."""
    size, last, mode = _blocks(app)
    shape = app.tensor(0).shape
    batch, height, width, channels = (shape[i] for i in ((0, 1, 2, 3) if last else (0, 2, 3, 1)))
    depth = channels // (size * size)
    if depth * size * size != channels:
        raise app.fail(f"{channels} channels do not make blocks of {size} x {size}")
    if last:
        inner = [size, size, depth] if mode == "DCR" else [depth, size, size]
        axes = [0, 1, 3, 2, 4, 5] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
        return _rearranged(app, [batch, height, width, *inner], axes, [batch, height * size, width * size, depth])
    inner = [size, size, depth] if mode == "DCR" else [depth, size, size]
    axes = [0, 3, 4, 1, 5, 2] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
    return _rearranged(app, [batch, *inner, height, width], axes, [batch, depth, height * size, width * size])


@operator("nn.space_to_depth")
def space_to_depth(app: Application) -> Value:
    """Blocks of pixels become channels."""
    size, last, _ = _blocks(app)
    shape = app.tensor(0).shape
    batch, height, width, channels = (shape[i] for i in ((0, 1, 2, 3) if last else (0, 2, 3, 1)))
    if height % size or width % size:
        raise app.fail(f"{height} x {width} pixels do not make blocks of {size} x {size}")
    rows, columns, depth = height // size, width // size, channels * size * size
    if last:
        parts = [batch, rows, size, columns, size, channels]
        return _rearranged(app, parts, [0, 1, 3, 2, 4, 5], [batch, rows, columns, depth])
    parts = [batch, channels, rows, size, columns, size]
    return _rearranged(app, parts, [0, 3, 5, 1, 2, 4], [batch, depth, rows, columns])


def _batch_blocks(app: Application, key: str) -> tuple[list[int], list[tuple[int, int]]]:
    app.expect_args(1)
    blocks = app.attrs.integers("block_shape", [1, 1])
    margins = app.attrs.pairs(key)
    rank = len(app.tensor(0).shape)
    if not 1 <= len(blocks) < rank or len(margins) != len(blocks) or min(blocks) < 1 or min(map(min, margins)) < 0:
        raise app.fail(f"block_shape={blocks}, {key}={margins} for {rank} dimensions")
    return blocks, margins


@operator("nn.space_to_batch_nd")
def space_to_batch_nd(app: Application) -> Value:
    """Pads, then moves the pixels of each block into the batch, as TensorFlow does."""
    blocks, paddings = _batch_blocks(app, "paddings")
    shape, count = list(app.tensor(0).shape), len(blocks)
    data: Tensor = app.emit(
        relax.op.nn.pad(
            app.expr(0),
            [0, 0, *(width for pair in paddings for width in pair), *([0, 0] * (len(shape) - 1 - count))],
            "constant",
            app.attrs.real("pad_value", 0.0),
        )
    )
    if any(extent % block for extent, block in zip(data.shape[1:], blocks, strict=False)):
        raise app.fail(f"padded shape {data.shape} does not divide into blocks {blocks}")
    parts = [data.shape[0]]
    for extent, block in zip(data.shape[1:], blocks, strict=False):
        parts += [extent // block, block]
    rest = list(data.shape[1 + count :])
    axes = [2 * index + 2 for index in range(count)] + [0] + [2 * index + 1 for index in range(count)]
    axes += [1 + 2 * count + index for index in range(len(rest))]
    inner = [extent // block for extent, block in zip(data.shape[1:], blocks, strict=False)]
    split = app.emit(relax.op.reshape(data.expr, parts + rest))
    moved = app.emit(relax.op.permute_dims(split.expr, axes))
    return app.emit(relax.op.reshape(moved.expr, [data.shape[0] * math.prod(blocks), *inner, *rest]))


@operator("nn.batch_to_space_nd")
def batch_to_space_nd(app: Application) -> Value:
    """The inverse: moves parts of the batch into blocks of pixels, then crops."""
    blocks, crops = _batch_blocks(app, "crops")
    shape, count = list(app.tensor(0).shape), len(blocks)
    if shape[0] % math.prod(blocks):
        raise app.fail(f"a batch of {shape[0]} does not divide into blocks {blocks}")
    rest = shape[1 + count :]
    batch = shape[0] // math.prod(blocks)
    axes = [count]
    for index in range(count):
        axes += [count + 1 + index, index]
    axes += [1 + 2 * count + index for index in range(len(rest))]
    inner = [extent * block for extent, block in zip(shape[1:], blocks, strict=False)]
    split = app.emit(relax.op.reshape(app.expr(0), [*blocks, batch, *shape[1:]]))
    moved = app.emit(relax.op.permute_dims(split.expr, axes))
    data = app.emit(relax.op.reshape(moved.expr, [batch, *inner, *rest]))
    stops = [extent - after for extent, (_, after) in zip(inner, crops, strict=True)]
    if any(stop <= before for stop, (before, _) in zip(stops, crops, strict=True)):
        raise app.fail(f"crops {crops} leave nothing of {inner}")
    starts = [before for before, _ in crops]
    return app.emit(relax.op.strided_slice(data.expr, list(range(1, count + 1)), starts, stops))
