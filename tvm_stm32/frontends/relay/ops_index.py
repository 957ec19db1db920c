"""Operators that pick or repeat elements: take, gather, tile, padding."""

from __future__ import annotations

import numpy as np
from tvm import relax

from .operator import Application, operator
from .values import MAX_ELEMENTS, Constant, Tensor, Value, constant_expr, elements

_MAX_EXTENT = 1 << 20
"""Extent an axis may have after padding by index: the indices become a constant in flash."""


@operator("take")
def take(app: Application) -> Value:
    """Elements by index along an axis; without one, of the flattened tensor."""
    app.expect_args(2)
    mode = app.attrs.text("mode", "clip")
    if mode not in ("clip", "wrap", "fast"):
        raise app.fail(f"mode {mode!r}")
    if app.attrs.integer("batch_dims", 0):
        return _batched_take(app, mode)
    axis = app.attrs.optional_integer("axis")
    data, indices = app.tensor(0), app.tensor(1)
    source = data.expr
    if axis is None:
        source = app.emit(relax.op.reshape(source, (elements(data.shape),))).expr
    axis = 0 if axis is None else app.axis(axis, len(data.shape))
    if isinstance(indices, Constant) and np.issubdtype(indices.array.dtype, np.integer):
        # Constant indices are put in range here, and the operator needs no checks.
        extent = data.shape[axis] if len(data.shape) else 1
        array = indices.array % extent if mode == "wrap" else np.clip(indices.array, 0, max(extent - 1, 0))
        return app.emit(relax.op.take(source, constant_expr(array.astype(indices.dtype)), axis, "fast"))
    return app.emit(relax.op.take(source, indices.expr, axis, mode))


def _batched_take(app: Application, mode: str) -> Value:
    data, indices = app.tensor(0), app.tensor(1)
    batch = app.axis(app.attrs.integer("batch_dims"), len(indices.shape) + 1)
    axis = app.axis(app.attrs.integer("axis"), len(data.shape))
    if batch > axis or data.shape[:batch] != indices.shape[:batch]:
        raise app.fail(f"batch_dims {batch} of data {data.shape} and indices {indices.shape}, axis {axis}")
    shape = data.shape[:axis] + indices.shape[batch:] + data.shape[axis + 1 :]
    options = {"batch_dims": batch, "axis": axis, "mode": mode}
    return app.dialect("relay.take", [data.expr, indices.expr], shape, data.dtype, **options)


@operator("gather")
def gather(app: Application) -> Value:
    """One element for each index, along an axis."""
    app.expect_args(2)
    axis = app.axis(app.attrs.integer("axis"), len(app.tensor(0).shape))
    _check_indices(app, app.tensor(0).shape[axis])
    return app.emit(relax.op.gather_elements(app.expr(0), app.expr(1), axis))


def _check_indices(app: Application, *extents: int, from_end: bool = False) -> None:
    """Refuse constant indices outside of the tensor: the network would read or write beside it.

    With ``from_end`` negative ones count from the end. Several ``extents`` are for the index tuples along axis 0.
    """
    indices = app.tensor(1)
    if not isinstance(indices, Constant):
        return
    parts = [indices.array] if len(extents) == 1 else list(indices.array)
    for part, extent in zip(parts, extents, strict=False):
        outside = part[(part < (-extent if from_end else 0)) | (part >= extent)]
        if outside.size:
            raise app.fail(f"index {outside.flat[0]} is outside of {extent} elements")


@operator("gather_nd")
def gather_nd(app: Application) -> Value:
    """Elements by index tuples, which Relay keeps along axis 0 of the indices and Relax along the last."""
    app.expect_args(2)
    rank = len(app.tensor(1).shape)
    batch = app.attrs.integer("batch_dims", 0)
    width = app.tensor(1).shape[0] if rank else 0
    extents = app.tensor(0).shape[max(batch, 0) :][:width]
    if width > 1:
        _check_indices(app, *extents)
    elif extents:
        _check_indices(app, extents[0])
    indices = app.emit(relax.op.permute_dims(app.expr(1), [*range(1, rank), 0]))
    return app.emit(relax.op.gather_nd(app.expr(0), indices.expr, batch))


@operator("tile")
def tile(app: Application) -> Value:
    """Repeats the whole tensor."""
    app.expect_args(1)
    reps = app.attrs.integers("reps")
    if not reps or min(reps) < 1 or elements((*reps, *app.tensor(0).shape)) > MAX_ELEMENTS:
        raise app.fail(f"reps={reps}")
    return app.emit(relax.op.tile(app.expr(0), reps))


@operator("repeat")
def repeat(app: Application) -> Value:
    """Repeats each element along an axis; without one, of the flattened tensor."""
    app.expect_args(1)
    shape = app.tensor(0).shape
    repeats = app.attrs.integer("repeats")
    axis = app.attrs.optional_integer("axis")
    if repeats < 1 or repeats * elements(shape) > MAX_ELEMENTS:
        raise app.fail(f"repeats={repeats}")
    return app.emit(relax.op.repeat(app.expr(0), repeats, None if axis is None else app.axis(axis, len(shape))))


@operator("reverse")
def reverse(app: Application) -> Value:
    """Flips one axis."""
    app.expect_args(1)
    axis = app.attrs.optional_integer("axis")
    return app.emit(relax.op.flip(app.expr(0), app.axis(axis or 0, len(app.tensor(0).shape))))


@operator("broadcast_to", "broadcast_to_like")
def broadcast_to(app: Application) -> Value:
    """Repeats along new dimensions and those of extent 1."""
    app.expect_args(1, 2)
    shape = app.tensor(1).shape if len(app.args) == 2 else tuple(app.attrs.integers("shape"))
    return app.emit(relax.op.broadcast_to(app.expr(0), shape))


@operator("nn.pad")
def pad(app: Application) -> Value:
    """Padding with a constant scalar, the edge or a reflection."""
    app.expect_args(1, 2)
    data = app.tensor(0)
    widths = _widths(app, len(data.shape))
    mode = app.attrs.text("pad_mode", "constant")
    if mode != "constant":
        return _padded_by_index(app, widths, mode)
    value = app.scalar(1) if len(app.args) == 2 else app.attrs.real("pad_value", 0.0)
    if not any(before or after for before, after in widths):
        return data
    result = app.emit(relax.op.nn.pad(data.expr, [width for pair in widths for width in pair], "constant", value))
    result.quantization = getattr(data, "quantization", None)
    return result


def _widths(app: Application, rank: int) -> list[tuple[int, int]]:
    widths = app.attrs.pairs("pad_width")
    if len(widths) != rank or any(min(pair) < 0 or max(pair) > MAX_ELEMENTS for pair in widths):
        raise app.fail(f"pad_width={widths} for {rank} dimensions")
    return widths


@operator("nn.mirror_pad")
def mirror_pad(app: Application) -> Value:
    """Padding with a mirror image, with (SYMMETRIC) or without (REFLECT) the edge."""
    app.expect_args(1)
    mode = app.attrs.text("mode", "SYMMETRIC").lower()
    return _padded_by_index(app, _widths(app, len(app.tensor(0).shape)), mode)


def _padded_by_index(app: Application, widths: list[tuple[int, int]], mode: str) -> Value:
    if mode not in ("edge", "reflect", "symmetric"):
        raise app.fail(f"mode {mode!r}")
    value: Tensor | Constant = app.tensor(0)
    for axis, (before, after) in enumerate(widths):
        extent = value.shape[axis]
        if not before and not after:
            continue
        if extent + before + after > _MAX_EXTENT or (
            mode != "edge" and max(before, after) > extent - (mode == "reflect")
        ):
            raise app.fail(f"pad_width {(before, after)} of {extent} elements")
        app.emitter.reserve(app.at, extent + before + after)
        # numpy's types want a literal; ``mode`` is one of three that were checked.
        indices = np.pad(np.arange(extent, dtype=np.int32), (before, after), mode=mode)  # type: ignore[call-overload]
        value = app.emit(relax.op.take(value.expr, constant_expr(indices), axis, "fast"))
    return value


@operator("scatter_elements")
def scatter_elements(app: Application) -> Value:
    """Replaces (or adds to) elements by index along an axis."""
    app.expect_args(3)
    axis = app.axis(app.attrs.integer("axis", 0), len(app.tensor(0).shape))
    reduction = app.attrs.text("reduction", "update")
    if reduction not in ("update", "add", "mul", "min", "max", "mean"):
        raise app.unsupported(f"reduction {reduction} is not supported")
    _check_indices(app, app.tensor(0).shape[axis], from_end=True)
    return app.emit(relax.op.scatter_elements(app.expr(0), app.expr(1), app.expr(2), axis, reduction))


@operator("argsort")
def argsort(app: Application) -> Value:
    """The order that sorts along an axis."""
    app.expect_args(1)
    axis = app.axis(app.attrs.integer("axis", -1), len(app.tensor(0).shape))
    descending = not app.attrs.flag("is_ascend", True)
    return app.emit(relax.op.argsort(app.expr(0), axis, descending, app.dtype("dtype", "int32")))


@operator("topk")
def topk(app: Application) -> Value:
    """The k largest (or smallest) elements and their indices."""
    app.expect_args(1)
    shape = app.tensor(0).shape
    axis = app.axis(app.attrs.integer("axis", -1), len(shape))
    count, kind = app.attrs.integer("k"), app.attrs.text("ret_type", "both")
    if not 1 <= count <= shape[axis] or kind not in ("both", "values", "indices"):
        raise app.fail(f"k={count}, ret_type={kind}")
    largest = not app.attrs.flag("is_ascend", False)
    return app.emit_any(relax.op.topk(app.expr(0), count, axis, kind, largest, app.dtype("dtype", "int32")))
