"""Operators that make constants: zeros, full, arange, shapes, one-hot vectors."""

from __future__ import annotations

import numpy as np
from tvm import relax

from .operator import Application, operator
from .values import Constant, Value, constant_expr, elements

_MAX_MADE = 1 << 20
"""Elements of a tensor made out of nothing (zeros, arange): it becomes a constant in flash."""


def _filled(app: Application, value: float | int, shape: tuple[int, ...], dtype: str) -> Constant:
    if any(extent < 0 for extent in shape) or elements(shape) > _MAX_MADE:
        raise app.fail(f"shape {shape}", why=f"a constant has at most {_MAX_MADE} elements")
    app.emitter.reserve(app.at, elements(shape))
    with np.errstate(all="ignore"):
        return Constant(np.full(shape, np.array(value).astype(dtype), dtype))


@operator("zeros", "ones")
def zeros(app: Application) -> Value:
    """A constant of zeros or ones."""
    app.expect_args(0, 1)
    shape = tuple(app.attrs.integers("shape"))
    return _filled(app, int(app.name == "ones"), shape, app.dtype("dtype", "float32"))


@operator("zeros_like", "ones_like")
def zeros_like(app: Application) -> Value:
    """A constant of zeros or ones in the shape of the argument."""
    app.expect_args(1)
    like = app.tensor(0)
    return _filled(app, int(app.name == "ones_like"), like.shape, like.dtype)


@operator("full", "full_like")
def full(app: Application) -> Value:
    """A constant filled with a constant scalar."""
    if app.name == "full_like":
        app.expect_args(2)
        like = app.tensor(0)
        return _filled(app, app.scalar(1), like.shape, like.dtype)
    app.expect_args(1, 2)
    dtype = app.dtype("dtype", app.tensor(0).dtype)
    return _filled(app, app.scalar(0), tuple(app.attrs.integers("shape")), dtype)


@operator("arange")
def arange(app: Application) -> Value:
    """A constant range; the attributes of the same names repeat the arguments."""
    app.expect_args(3)
    start, stop, step = (app.scalar(index) for index in range(3))
    dtype = app.dtype("dtype", app.tensor(0).dtype)
    if step == 0 or not np.isfinite([start, stop, step]).all() or abs((stop - start) / step) > _MAX_MADE:
        raise app.fail(f"range from {start} to {stop} by {step}")
    count = max(0, int(np.ceil((stop - start) / step)))
    app.emitter.reserve(app.at, count)
    return Constant((np.array(start) + np.arange(count) * np.array(step)).astype(dtype))


@operator("shape_of")
def shape_of(app: Application) -> Value:
    """The shape as a constant."""
    app.expect_args(1)
    return Constant(np.array(app.tensor(0).shape, app.dtype("dtype", "int32")))


@operator("one_hot")
def one_hot(app: Application) -> Value:
    """Index to a vector that is ``on`` there and ``off`` elsewhere."""
    app.expect_args(3)
    indices = app.tensor(0)
    depth, dtype = app.attrs.integer("depth", 1), app.dtype("dtype", app.tensor(1).dtype)
    if not 1 <= depth <= _MAX_MADE:
        raise app.fail(f"depth={depth}")
    app.emitter.reserve(app.at, depth)
    rank = len(indices.shape)
    axis = app.axis(app.attrs.integer("axis", -1), rank + 1)
    grown = app.emit(relax.op.expand_dims(indices.expr, axis))
    classes = np.arange(depth).astype(indices.dtype).reshape((depth,) + (1,) * (rank - axis))
    hit = app.emit(relax.op.equal(grown.expr, constant_expr(classes)))
    on, off = (constant_expr(np.array(app.scalar(index)).astype(dtype)) for index in (1, 2))
    return app.emit(relax.op.where(hit.expr, on, off))
