"""Reductions and the operators built on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from .operator import OPERATORS, Application, operator
from .values import Tensor, Value, constant_expr, elements


def _axes(app: Application, rank: int) -> list[int]:
    axes = [app.axis(axis, rank) for axis in app.attrs.optional_integers("axis") or []]
    if app.attrs.flag("exclude", False):
        return [axis for axis in range(rank) if axis not in axes]
    return sorted(set(axes)) or list(range(rank))


def _reduction(function: Callable[[relax.Expr, list[int], bool], relax.Expr]) -> Callable[[Application], Value]:
    def translate(app: Application) -> Value:
        app.expect_args(1)
        data = app.tensor(0)
        axes = _axes(app, len(data.shape))
        if not axes:
            return data
        return app.emit(function(data.expr, axes, app.attrs.flag("keepdims", False)))

    return translate


OPERATORS.update(
    {
        "sum": _reduction(relax.op.sum),
        "max": _reduction(relax.op.max),
        "min": _reduction(relax.op.min),
        "prod": _reduction(relax.op.prod),
    }
)


@operator("mean")
def mean(app: Application) -> Value:
    """The mean; of integers with a division that truncates."""
    app.expect_args(1)
    data = app.tensor(0)
    axes = _axes(app, len(data.shape))
    keepdims = app.attrs.flag("keepdims", False)
    if not axes:
        return data
    if data.dtype.startswith("float"):
        return app.emit(relax.op.mean(data.expr, axes, keepdims))
    total = app.emit(relax.op.sum(data.expr, axes, keepdims))
    return _divided(app, total, elements(tuple(data.shape[axis] for axis in axes)))


def _divided(app: Application, total: Tensor, count: int) -> Tensor:
    return app.emit(relax.op.divide(total.expr, constant_expr(np.array(count).astype(total.dtype))))


@operator("variance")
def variance(app: Application) -> Value:
    """Mean square distance to the second argument, a mean with kept dimensions."""
    app.expect_args(2)
    data = app.tensor(0)
    axes = _axes(app, len(data.shape))
    distance = app.emit(relax.op.subtract(data.expr, app.expr(1)))
    square = app.emit(relax.op.multiply(distance.expr, distance.expr))
    total = app.emit(relax.op.sum(square.expr, axes, app.attrs.flag("keepdims", False)))
    count = elements(tuple(data.shape[axis] for axis in axes)) - int(app.attrs.flag("unbiased", False))
    if count < 1:
        raise app.fail("variance of nothing")
    return _divided(app, total, count)


def _logical(function: Callable[[relax.Expr, list[int], bool], relax.Expr]) -> Callable[[Application], Value]:
    def translate(app: Application) -> Value:
        app.expect_args(1)
        data = app.tensor(0)
        axes = _axes(app, len(data.shape))
        if data.dtype != "bool":
            raise app.fail(f"{app.name} of {data.dtype}")
        if not axes:
            return data
        number = app.emit(relax.op.astype(data.expr, "int8"))
        found = app.emit(function(number.expr, axes, app.attrs.flag("keepdims", False)))
        return app.emit(relax.op.astype(found.expr, "bool"))

    return translate


OPERATORS["all"] = _logical(relax.op.min)
OPERATORS["any"] = _logical(relax.op.max)


def _arg_reduction(function: Callable[..., relax.Expr]) -> Callable[[Application], Value]:
    def translate(app: Application) -> Value:
        app.expect_args(1)
        data = app.tensor(0)
        rank = len(data.shape)
        axes = _axes(app, rank)
        if not axes:
            raise app.fail("no axis to reduce")
        kept = [axis for axis in range(rank) if axis not in axes]
        shape = [data.shape[axis] for axis in kept]
        # The reduced axes become one, whose index is the result.
        expr = data.expr
        if kept + axes != list(range(rank)):
            expr = app.emit(relax.op.permute_dims(expr, kept + axes)).expr
        count = elements(tuple(data.shape[axis] for axis in axes))
        if len(axes) > 1:
            expr = app.emit(relax.op.reshape(expr, [*shape, count])).expr
        last = app.attrs.flag("select_last_index", False)
        if last:
            expr = app.emit(relax.op.flip(expr, len(shape))).expr
        index = app.emit(relax.op.astype(function(expr, len(shape), False), "int32"))
        if last:
            index = app.emit(relax.op.subtract(constant_expr(np.array(count - 1, np.int32)), index.expr))
        if app.attrs.flag("keepdims", False):
            shape = [1 if axis in axes else extent for axis, extent in enumerate(data.shape)]
            index = app.emit(relax.op.reshape(index.expr, shape))
        return index

    return translate


OPERATORS["argmax"] = _arg_reduction(relax.op.argmax)
OPERATORS["argmin"] = _arg_reduction(relax.op.argmin)


@operator("nn.softmax", "nn.fast_softmax")
def softmax(app: Application) -> Value:
    """Normalized exponentials along an axis."""
    app.expect_args(1)
    axis = app.axis(app.attrs.integer("axis", -1), len(app.tensor(0).shape))
    return app.emit(relax.op.nn.softmax(app.expr(0), axis))


@operator("nn.log_softmax")
def log_softmax(app: Application) -> Value:
    """Logarithm of softmax."""
    app.expect_args(1)
    axis = app.axis(app.attrs.integer("axis", -1), len(app.tensor(0).shape))
    return app.emit(relax.op.nn.log_softmax(app.expr(0), axis))


@operator("nn.l2_normalize")
def l2_normalize(app: Application) -> Value:
    """x / sqrt(max(sum(x * x), eps))."""
    app.expect_args(1)
    data = app.tensor(0)
    axes = _axes(app, len(data.shape))
    square = app.emit(relax.op.multiply(data.expr, data.expr))
    total = app.emit(relax.op.sum(square.expr, axes, True))
    least = constant_expr(np.array(app.attrs.real("eps")).astype(data.dtype))
    length = app.emit(relax.op.sqrt(relax.op.maximum(total.expr, least)))
    return app.emit(relax.op.divide(data.expr, length.expr))


@operator("cumsum")
def cumsum(app: Application) -> Value:
    """Running sums along an axis; without one, of the flattened tensor."""
    app.expect_args(1)
    dtype = app.dtype("dtype", app.tensor(0).dtype)
    exclusive = app.attrs.flag("exclusive", False)
    return app.emit(relax.op.cumsum(app.expr(0), app.attrs.optional_integer("axis"), dtype, exclusive))
