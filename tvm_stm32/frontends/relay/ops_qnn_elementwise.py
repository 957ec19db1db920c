"""Quantized element-wise operators, tables, concatenation and pooling -> the integer dialect.

The rules are those of Relay's ``qnn`` lowering, the attributes those listed in :mod:`.translate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tvm import relax

from ...numerics import multiply_upward, quantize_multiplier
from .operator import OPERATORS, Application, operator
from .ops_pool import layout, padding, spatial
from .ops_qnn import emit_requantize
from .qnn_arguments import (
    INTEGERS,
    integer_tensor,
    multipliers_of,
    note_input,
    quantization_of,
    quantized,
    scale_of,
    scales_of,
    zero_point_of,
    zero_points_of,
)
from .values import Constant, Tensor, Value, constant_expr

_EIGHT_BIT = ("int8", "uint8")


def _binary_operands(app: Application) -> tuple[Tensor | Constant, Tensor | Constant, tuple[int, ...]]:
    app.expect_args(8)
    left, right = integer_tensor(app, 0), integer_tensor(app, 1)
    if left.dtype != right.dtype:
        raise app.fail(f"operands of {left.dtype} and {right.dtype}")
    for index in range(2):
        note_input(app, index, scales_of(app, 2 + 2 * index), zero_points_of(app, 3 + 2 * index))
    return left, right, np.broadcast_shapes(left.shape, right.shape)


def _sum(name: str) -> Callable[[Application], Value]:
    def translate(app: Application) -> Value:
        left, right, shape = _binary_operands(app)
        scale, zero_point = scale_of(app, 6), zero_point_of(app, 7)
        if scales_of(app, 2).size > 1 or scales_of(app, 4).size > 1:
            return _sum_of_channels(app, left, right, scale, zero_point)
        options: dict[str, object] = {}
        for index, side in enumerate(("lhs", "rhs")):
            own_scale, own_zero_point = scale_of(app, 2 + 2 * index), zero_point_of(app, 3 + 2 * index)
            multiplier, shift = multipliers_of(app, np.array([float(own_scale) / float(scale)]))
            options[f"{side}_multiplier"], options[f"{side}_shift"] = int(multiplier[0]), int(shift[0])
            options[f"{side}_zero_point"] = own_zero_point
            options[f"{side}_identity"] = bool(own_scale == scale and own_zero_point == zero_point)
        options["output_zero_point"] = zero_point
        result = app.dialect(name, [left.expr, right.expr], shape, left.dtype, **options)
        result.quantization = quantization_of(np.array([scale]), [zero_point])
        return result

    return translate


OPERATORS["qnn.add"] = _sum("qnn.add")
OPERATORS["qnn.subtract"] = _sum("qnn.subtract")


def _sum_of_channels(
    app: Application, left: Tensor | Constant, right: Tensor | Constant, scale: np.float32, zero_point: int
) -> Tensor:
    """A sum in which operands have a scale for each index of an axis: in plain integer operators."""
    sides = []
    for index, (side, key) in enumerate(((left, "lhs_axis"), (right, "rhs_axis"))):
        source = scales_of(app, 2 + 2 * index)
        axis = _channels(app, side, key, source.size)
        zero_points = (zero_point_of(app, 3 + 2 * index), zero_point)
        sides.append(
            emit_requantize(app, side, source, scale, zero_points, axis=axis, rounding="upward", dtype="int32").expr
        )
    offset = constant_expr(np.array(zero_point, np.int32))
    if app.name == "qnn.add":
        total = app.emit(relax.op.subtract(relax.op.add(*sides), offset))
    else:
        total = app.emit(relax.op.add(relax.op.subtract(*sides), offset))
    return _narrowed(app, total, left.dtype, scale, zero_point)


def _channels(app: Application, side: Tensor | Constant, key: str, count: int) -> int:
    axis = app.axis(app.attrs.integer(key, -1), len(side.shape)) if side.shape else 0
    if count not in (1, side.shape[axis] if side.shape else 1):
        raise app.fail(f"{count} scales for axis {axis} of {tuple(side.shape)}")
    return axis


def _narrowed(app: Application, total: Tensor, dtype: str, scale: np.float32, zero_point: int) -> Tensor:
    limits = np.iinfo(dtype)
    clipped = relax.op.clip(total.expr, int(limits.min), int(limits.max))
    result = app.emit(relax.op.astype(clipped, dtype)) if dtype != "int32" else total
    result.quantization = quantization_of(np.array([scale]), [zero_point])
    return result


def _product_of_channels(app: Application, left: Tensor | Constant, right: Tensor | Constant) -> Tensor:
    """A product with a scale for each index of an axis, which must be the same of both operands."""
    axes = [app.attrs.integer(key, -1) for key in ("lhs_axis", "rhs_axis")]
    if axes[0] != axes[1]:
        raise app.fail(f"lhs_axis {axes[0]} and rhs_axis {axes[1]} of scales a channel differ")
    sides = [
        relax.op.subtract(
            relax.op.astype(side.expr, "int32"), constant_expr(np.array(zero_point_of(app, 3 + 2 * index), np.int32))
        )
        for index, side in enumerate((left, right))
    ]
    product = app.emit(relax.op.multiply(*sides))
    source = scales_of(app, 2) * scales_of(app, 4)
    scale, zero_point = scale_of(app, 6), zero_point_of(app, 7)
    axis = _channels(app, product, "lhs_axis", source.size)
    result = emit_requantize(
        app, product, source, scale, (0, zero_point), axis=axis, rounding="upward", dtype=left.dtype
    )
    result.quantization = quantization_of(np.array([scale]), [zero_point])
    return result


@operator("qnn.mul")
def multiply(app: Application) -> Value:
    """Element-wise product."""
    left, right, shape = _binary_operands(app)
    if scales_of(app, 2).size > 1 or scales_of(app, 4).size > 1:
        return _product_of_channels(app, left, right)
    scale, zero_point = scale_of(app, 6), zero_point_of(app, 7)
    # Relay multiplies the two scales in float32.
    multiplier, shift = multipliers_of(app, np.array([float(scale_of(app, 2) * scale_of(app, 4)) / float(scale)]))
    result = app.dialect(
        "qnn.mul",
        [left.expr, right.expr],
        shape,
        left.dtype,
        lhs_zero_point=zero_point_of(app, 3),
        rhs_zero_point=zero_point_of(app, 5),
        multiplier=int(multiplier[0]),
        shift=int(shift[0]),
        output_zero_point=zero_point,
    )
    result.quantization = quantization_of(np.array([scale]), [zero_point])
    return result


def _constants(app: Application, index: int) -> list[np.ndarray]:
    arrays = [part.array for part in app.tensors(index) if isinstance(part, Constant) and part.array.size == 1]
    if len(arrays) != len(app.tensors(index)):
        raise app.fail(f"argument {index + 1} is not a tuple of constant scalars")
    return arrays


@operator("qnn.concatenate")
def concatenate(app: Application) -> Value:
    """Concatenation of tensors that are requantized first where their parameters differ from the output's."""
    app.expect_args(5)
    parts = app.tensors(0)
    scales = [np.float32(array.reshape(-1)[0]) for array in _constants(app, 1)]
    zero_points = [int(array.reshape(-1)[0]) for array in _constants(app, 2)]
    scale, zero_point = scale_of(app, 3), zero_point_of(app, 4)
    if not len(parts) == len(scales) == len(zero_points) or any(not 0 < value < np.inf for value in scales):
        raise app.fail("tensors, scales and zero points do not go together")
    axis = app.axis(app.attrs.integer("axis", 0), len(parts[0].shape))
    dtype, rest = parts[0].dtype, _without(parts[0].shape, axis)
    if any(part.dtype != dtype or _without(part.shape, axis) != rest for part in parts) or dtype not in INTEGERS:
        raise app.fail("the tensors differ in more than one extent, or in dtype")
    multiplier, shift = multipliers_of(app, np.array([float(value) / float(scale) for value in scales]))
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    for part, own, zero in zip(parts, scales, zero_points, strict=True):
        if isinstance(part, Tensor) and part.origin:
            app.emitter.input_quantization.setdefault(part.origin, quantization_of(np.array([own]), [zero]))
    result = app.dialect(
        "qnn.concatenate",
        [part.expr for part in parts],
        shape,
        dtype,
        axis=axis,
        multipliers=[int(value) for value in multiplier],
        shifts=[int(value) for value in shift],
        zero_points=zero_points,
        identities=[bool(pair == (scale, zero_point)) for pair in zip(scales, zero_points, strict=True)],
        output_zero_point=zero_point,
    )
    result.quantization = quantization_of(np.array([scale]), [zero_point])
    return result


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :] if len(shape) > axis else (-1,)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(float(value)) for value in x], np.float32)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)


def _hardswish(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.clip(x + np.float32(3), 0, 6) / np.float32(6), np.float32)


_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "qnn.tanh": np.tanh,
    "qnn.sigmoid": _sigmoid,
    "qnn.exp": np.exp,
    "qnn.sqrt": np.sqrt,
    "qnn.rsqrt": lambda x: np.asarray(1 / np.sqrt(x), np.float32),
    "qnn.erf": _erf,
    "qnn.log": np.log,
    "qnn.abs": np.abs,
    "qnn.hardswish": _hardswish,
}


def _codes(dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1).astype(np.int32)


def _table(app: Application, table: np.ndarray) -> Tensor:
    data = app.tensor(0)
    label = app.name.removeprefix("qnn.")
    return app.dialect("qnn.table", [data.expr, constant_expr(table)], data.shape, data.dtype, label=label)


def _unary(app: Application) -> Value:
    app.expect_args(5)
    data = integer_tensor(app, 0, _EIGHT_BIT)
    source, target = (scale_of(app, 1), zero_point_of(app, 2)), (scale_of(app, 3), zero_point_of(app, 4))
    note_input(app, 0, np.array([source[0]]), [source[1]])
    with np.errstate(all="ignore"):
        real = (_codes(data.dtype) - np.int32(source[1])).astype(np.float32) * source[0]
        table = quantized(_FUNCTIONS[app.name](real), target[0], np.float32(target[1]), data.dtype)
    result = _table(app, table)
    result.quantization = quantization_of(np.array([target[0]]), [target[1]])
    return result


OPERATORS.update(dict.fromkeys(_FUNCTIONS, _unary))


@operator("qnn.leaky_relu")
def leaky_relu(app: Application) -> Value:
    """Leaky relu in fixed point; without output parameters (before 0.12) they are the input's."""
    app.expect_args(3, 5)
    data = integer_tensor(app, 0, _EIGHT_BIT)
    scale, zero_point = scale_of(app, 1), zero_point_of(app, 2)
    target, target_zero = (scale_of(app, 3), zero_point_of(app, 4)) if len(app.args) == 5 else (scale, zero_point)
    note_input(app, 0, np.array([scale]), [zero_point])
    alpha = app.attrs.real("alpha", 0.25)
    if not 0 < alpha < 1:
        raise app.unsupported(f"alpha={alpha} is not between 0 and 1")
    codes = _codes(data.dtype)
    moved = multiply_upward(codes - zero_point, *quantize_multiplier(float(scale) / float(target))) + target_zero
    sloped = multiply_upward(moved, *quantize_multiplier(alpha))
    offset = multiply_upward(np.array([target_zero], np.int32), *quantize_multiplier(1 - alpha))
    limits = np.iinfo(data.dtype)
    table = np.clip(np.where(codes < zero_point, sloped + offset, moved), limits.min, limits.max)
    result = _table(app, table.astype(data.dtype))
    result.quantization = quantization_of(np.array([target]), [target_zero])
    return result


@operator("qnn.avg_pool2d")
def avg_pool2d(app: Application) -> Value:
    """Requantize to int32, average with a division that truncates, clip."""
    app.expect_args(5)
    data = integer_tensor(app, 0, _EIGHT_BIT)
    name = layout(app, "layout", 2)
    source, target = scales_of(app, 1), scale_of(app, 3)
    zero_points = (zero_point_of(app, 2), zero_point_of(app, 4))
    note_input(app, 0, source, [zero_points[0]])
    if source.size != 1:
        raise app.unsupported("only one scale a tensor is supported")
    wide: Tensor = (
        app.emit(relax.op.astype(data.expr, "int32"))
        if source[0] == target and zero_points[0] == zero_points[1]
        else emit_requantize(app, data, source, target, zero_points, axis=0, rounding="upward", dtype="int32")
    )
    pooled = app.emit(
        relax.op.nn.avg_pool2d(
            wide.expr,
            spatial(app, "pool_size", 2),
            spatial(app, "strides", 2, [1]),
            padding(app, 2),
            spatial(app, "dilation", 2, [1]),
            app.attrs.flag("ceil_mode", False),
            app.attrs.flag("count_include_pad", False),
            name,
        )
    )
    app.emitter.integer = True
    limits = np.iinfo(data.dtype)
    clipped = app.emit(relax.op.clip(pooled.expr, int(limits.min), int(limits.max)))
    result = app.emit(relax.op.astype(clipped.expr, data.dtype))
    result.quantization = quantization_of(np.array([target]), [zero_points[1]])
    return result


_SOFTMAX_BITS = 30
_SOFTMAX_RANGE = 20


@operator("qnn.softmax")
def softmax(app: Application) -> Value:
    """The integer softmax of Relay 0.16 (arXiv:2207.01405, algorithm 1): powers of two by shifts, one division."""
    app.expect_args(5)
    data = integer_tensor(app, 0, ("int8",))
    rank = len(data.shape)
    axis = app.axis(app.attrs.integer("axis", -1), rank)
    scale, zero_point = scale_of(app, 1), zero_point_of(app, 2)
    target, target_zero = scale_of(app, 3), zero_point_of(app, 4)
    note_input(app, 0, np.array([scale]), [zero_point])
    one = int(np.float32(1) / scale + np.float32(0.5))
    if not 1 <= one < 1 << 20:
        raise app.unsupported(f"an input scale of {scale} is not supported")

    def step(expr: relax.Expr) -> relax.Expr:
        return app.emit(expr).expr

    def number(value: int) -> relax.Expr:
        return constant_expr(np.array(value, np.int32))

    op = relax.op
    offset = step(op.subtract(op.astype(data.expr, "int32"), number(zero_point)))
    x = step(op.subtract(offset, op.max(offset, [axis], True)))
    power = step(op.subtract(op.add(x, op.right_shift(x, number(1))), op.right_shift(x, number(4))))
    quotient = step(op.clip(op.divide(power, number(-one)), 0, _SOFTMAX_RANGE))
    rest = step(op.subtract(power, op.multiply(quotient, number(-one))))
    mantissa = step(op.add(op.right_shift(rest, number(1)), number(one)))
    shift = step(op.subtract(op.max(quotient, [axis], True), quotient))
    exponential = step(op.left_shift(mantissa, shift))
    total = step(op.sum(exponential, [axis], True))
    scaled = step(op.multiply(op.divide(number(1 << _SOFTMAX_BITS), total), exponential))
    share = app.emit(op.right_shift(scaled, number(_SOFTMAX_BITS - 7)))
    unit = np.array([1 / 128], np.float32)
    result = emit_requantize(app, share, unit, target, (0, target_zero), axis=0, rounding="upward", dtype="int8")
    result.quantization = quantization_of(np.array([target]), [target_zero])
    return result
