"""Element-wise operators: arithmetic, comparisons, unary functions, casts, clip."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from .operator import OPERATORS, Application, operator
from .values import Tensor, Value, constant_expr

_BINARY: dict[str, Callable[[relax.Expr, relax.Expr], relax.Expr]] = {
    "add": relax.op.add,
    "subtract": relax.op.subtract,
    "multiply": relax.op.multiply,
    "divide": relax.op.divide,
    "floor_divide": relax.op.floor_divide,
    "mod": relax.op.mod,
    "floor_mod": relax.op.floor_mod,
    "power": relax.op.power,
    "maximum": relax.op.maximum,
    "minimum": relax.op.minimum,
    "equal": relax.op.equal,
    "not_equal": relax.op.not_equal,
    "less": relax.op.less,
    "less_equal": relax.op.less_equal,
    "greater": relax.op.greater,
    "greater_equal": relax.op.greater_equal,
    "logical_and": relax.op.logical_and,
    "logical_or": relax.op.logical_or,
    "logical_xor": relax.op.logical_xor,
    "bitwise_and": relax.op.bitwise_and,
    "bitwise_or": relax.op.bitwise_or,
    "bitwise_xor": relax.op.bitwise_xor,
    "left_shift": relax.op.left_shift,
    "right_shift": relax.op.right_shift,
}

# fast_* are polynomial approximations within 1e-6; the functions they approximate are at least as good.
_UNARY: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "logical_not": relax.op.logical_not,
    "bitwise_not": relax.op.bitwise_not,
    "negative": relax.op.negative,
    "abs": relax.op.abs,
    "exp": relax.op.exp,
    "fast_exp": relax.op.exp,
    "log": relax.op.log,
    "sqrt": relax.op.sqrt,
    "rsqrt": relax.op.rsqrt,
    "sigmoid": relax.op.sigmoid,
    "tanh": relax.op.tanh,
    "fast_tanh": relax.op.tanh,
    "erf": relax.op.erf,
    "fast_erf": relax.op.erf,
    "sin": relax.op.sin,
    "cos": relax.op.cos,
    "tan": relax.op.tan,
    "asin": relax.op.asin,
    "acos": relax.op.acos,
    "atan": relax.op.atan,
    "sinh": relax.op.sinh,
    "cosh": relax.op.cosh,
    "sign": relax.op.sign,
    "floor": relax.op.floor,
    "ceil": relax.op.ceil,
    "trunc": relax.op.trunc,
    "isnan": relax.op.isnan,
    "isinf": relax.op.isinf,
    "isfinite": relax.op.isfinite,
    "nn.relu": relax.op.nn.relu,
}


def _binary(function: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Callable[[Application], Value]:
    def translate(app: Application) -> Value:
        app.expect_args(2)
        return app.emit(function(app.expr(0), app.expr(1)))

    return translate


def _unary(function: Callable[[relax.Expr], relax.Expr]) -> Callable[[Application], Value]:
    def translate(app: Application) -> Value:
        app.expect_args(1)
        return app.emit(function(app.expr(0)))

    return translate


OPERATORS.update({name: _binary(function) for name, function in _BINARY.items()})
OPERATORS.update({name: _unary(function) for name, function in _UNARY.items()})


@operator(
    "copy",
    "annotation.stop_fusion",
    "annotation.compiler_begin",
    "annotation.compiler_end",
    "on_device",
    "device_copy",
    "stop_gradient",
)
def identity(app: Application) -> Value:
    """Operators that say where or how, not what."""
    app.expect_args(1)
    return app.args[0]


@operator("log2")
def log2(app: Application) -> Value:
    """log(x) / log(2)."""
    app.expect_args(1)
    data = app.tensor(0)
    natural = app.emit(relax.op.log(data.expr))
    return app.emit(relax.op.divide(natural.expr, constant_expr(np.log(2.0).astype(data.dtype))))


@operator("round")
def round_(app: Application) -> Value:
    """C's round, ties away from zero (Relax rounds ties to even)."""
    app.expect_args(1)
    data = app.tensor(0)
    if not data.dtype.startswith("float"):
        return data
    return app.emit(round_half_away(data.expr, data.dtype))


def round_half_away(expr: relax.Expr, dtype: str) -> relax.Expr:
    """Nearest integer, ties away from zero: exact, since x - trunc(x) is."""
    whole = relax.op.trunc(expr)
    fraction = relax.op.abs(relax.op.subtract(expr, whole))
    away = relax.op.greater_equal(fraction, constant_expr(np.array(0.5, dtype)))
    return relax.op.where(away, relax.op.add(whole, relax.op.sign(expr)), whole)


def clip_bounds(low: float, high: float, dtype: str) -> tuple[int | float, int | float]:
    """Clip bounds as numbers of ``dtype``: truncated for integers and kept in its range."""
    if dtype.startswith("float"):
        return low, high
    limits = np.iinfo(dtype)
    return int(max(low, limits.min)), int(min(high, limits.max))


@operator("clip")
def clip(app: Application) -> Value:
    """Bounds are doubles, the result has the dtype of the data."""
    app.expect_args(1)
    data = app.tensor(0)
    if data.dtype == "bool":
        raise app.fail("clip of bool")
    low, high = clip_bounds(app.attrs.real("a_min"), app.attrs.real("a_max"), data.dtype)
    result = app.emit(relax.op.clip(data.expr, low, high))
    result.quantization = getattr(data, "quantization", None)
    return result


@operator("cast")
def cast(app: Application) -> Value:
    """C's cast: real to integer truncates."""
    app.expect_args(1)
    return _cast(app, app.dtype("dtype", ""))


@operator("cast_like")
def cast_like(app: Application) -> Value:
    """Cast to the dtype of the second argument."""
    app.expect_args(2)
    app.half = app.tensor(1).half
    return _cast(app, app.tensor(1).dtype)


def _cast(app: Application, dtype: str) -> Value:
    data = app.tensor(0)
    if data.dtype != dtype:
        return app.emit(relax.op.astype(data.expr, dtype))
    if dtype != "float32" or data.half == app.half:
        return data
    return app.rounded_to_half(data) if app.half else Tensor(data.expr, data.shape, dtype)


@operator("where")
def where(app: Application) -> Value:
    """Broadcasting selection."""
    app.expect_args(3)
    return app.emit(relax.op.where(app.expr(0), app.expr(1), app.expr(2)))


@operator("nn.leaky_relu")
def leaky_relu(app: Application) -> Value:
    """x > 0 ? x : alpha * x."""
    app.expect_args(1)
    return app.emit(relax.op.nn.leakyrelu(app.expr(0), app.attrs.real("alpha", 0.25)))


@operator("nn.prelu")
def prelu(app: Application) -> Value:
    """Leaky relu with one alpha a channel."""
    app.expect_args(2)
    axis = app.axis(app.attrs.integer("axis", 1), len(app.tensor(0).shape))
    return app.emit(relax.op.nn.prelu(app.expr(0), app.parameter(1).expr, axis))


@operator("nn.dropout")
def dropout(app: Application) -> Value:
    """Inference: the data, and a mask of ones nobody reads."""
    app.expect_args(1)
    return (app.tensor(0), app.emit(relax.op.ones_like(app.expr(0))))
