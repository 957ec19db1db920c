"""Operators that trade pixels for channels or batches."""

from __future__ import annotations

from tvm import relax

from .operator import Application, operator
from .values import Value


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
