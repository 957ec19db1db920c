"""Quantized operators -> the integer dialect (attributes: see :mod:`.translate`), rules as in Relay's ``qnn`` lowering."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tvm import relax

from ...model import Quantization
from ...numerics import multiply_upward, quantize_multiplier, quantize_multipliers
from .operator import OPERATORS, Application, operator
from .ops_elementwise import round_half_away
from .ops_nn import along
from .ops_pool import layout, padding, spatial
from .values import Constant, Tensor, Value, constant_expr

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")
_EIGHT_BIT = ("int8", "uint8")
_MAX_SHIFT = 30


def _scales(app: Application, index: int) -> np.ndarray:
    """A scale argument as a vector of positive float32."""
    array = app.constant(index).astype(np.float32).reshape(-1)
    if not array.size or not np.isfinite(array).all() or (array <= 0).any():
        raise app.fail(f"argument {index + 1} has scales that are not positive and finite")
    return array


def _scale(app: Application, index: int) -> np.float32:
    array = _scales(app, index)
    if (array != array[0]).any():
        raise app.unsupported(f"argument {index + 1} has one scale a channel, only one a tensor is supported")
    return np.float32(array[0])


def _zero_points(app: Application, index: int) -> list[int]:
    array = app.constant(index)
    if array.dtype.kind not in "iu" or not array.size:
        raise app.fail(f"argument {index + 1} is no zero point but {array.dtype}")
    return [int(value) for value in array.reshape(-1)]


def _zero_point(app: Application, index: int) -> int:
    values = _zero_points(app, index)
    if len(set(values)) > 1:
        raise app.unsupported(f"argument {index + 1} has one zero point a channel, only one a tensor is supported")
    return values[0]


def _integer_tensor(app: Application, index: int, allowed: tuple[str, ...] = _INTEGERS) -> Tensor | Constant:
    value = app.tensor(index)
    if value.dtype not in allowed:
        raise app.fail(f"argument {index + 1} is {value.dtype}, not one of {', '.join(allowed)}")
    return value


def _note_input(app: Application, index: int, scale: np.ndarray, zero_point: list[int], axis: int = -1) -> None:
    value = app.tensor(index)
    if isinstance(value, Tensor) and value.origin:
        quantization = Quantization(tuple(float(item) for item in scale), tuple(zero_point), axis)
        app.emitter.input_quantization.setdefault(value.origin, quantization)


def _multipliers(app: Application, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    multiplier, shift = quantize_multipliers(np.asarray(real, np.float64))
    if (shift > _MAX_SHIFT).any():
        raise app.fail("the output scale is more than 2**30 times smaller than the input scale")
    return multiplier, shift


def _float_list(array: np.ndarray) -> list[float]:
    return [float(value) for value in array]


@operator("qnn.quantize")
def quantize(app: Application) -> Value:
    """Real to integer."""
    app.expect_args(3)
    data, scale, zero_point = app.tensor(0), _scales(app, 1), _zero_points(app, 2)
    dtype = app.dtype("out_dtype", "int8")
    if data.dtype != "float32" or dtype not in _INTEGERS:
        raise app.unsupported(f"{data.dtype} to {dtype} is not supported")
    axis = _channel_axis(app, data, scale.size, len(zero_point))
    options = {"scale": _float_list(scale), "zero_point": zero_point, "axis": axis}
    result = app.dialect("qnn.quantize", [data.expr], data.shape, dtype, **options)
    result.quantization = Quantization(tuple(_float_list(scale)), tuple(zero_point), axis)
    return result


@operator("qnn.dequantize")
def dequantize(app: Application) -> Value:
    """Integer to real."""
    app.expect_args(3)
    data, scale, zero_point = _integer_tensor(app, 0), _scales(app, 1), _zero_points(app, 2)
    if app.dtype("out_dtype", "float32") != "float32":
        raise app.unsupported("only out_dtype float32 is supported")
    axis = _channel_axis(app, data, scale.size, len(zero_point))
    _note_input(app, 0, scale, zero_point, axis)
    if isinstance(data, Constant):
        return Constant(_dequantized(data.array, scale, zero_point, axis))
    options = {"scale": _float_list(scale), "zero_point": zero_point, "axis": axis}
    return app.dialect("qnn.dequantize", [data.expr], data.shape, "float32", **options)


def _channel_axis(app: Application, data: Tensor | Constant, *sizes: int) -> int:
    """The axis of per-channel values, non-negative; a scalar tensor has none, and axis 0 stands for it."""
    rank = len(data.shape)
    axis = app.axis(app.attrs.integer("axis", -1), rank) if rank else 0
    if any(size not in (1, data.shape[axis] if rank else 1) for size in sizes):
        raise app.fail(f"scales and zero points do not have the {data.shape[axis] if rank else 1} elements of axis {axis}")
    return axis


def _dequantized(array: np.ndarray, scale: np.ndarray, zero_point: list[int], axis: int) -> np.ndarray:
    shape = [1] * array.ndim
    if array.ndim and max(scale.size, len(zero_point)) > 1:
        shape[axis] = -1
    offset = array.astype(np.int32) - np.array(zero_point, np.int32).reshape(shape if len(zero_point) > 1 else [])
    factor = scale.reshape(shape) if scale.size > 1 else scale[0]
    return np.asarray(offset.astype(np.float32) * factor, np.float32)


@operator("qnn.requantize")
def requantize(app: Application) -> Value:
    """Integer to integer of another scale."""
    app.expect_args(5)
    data = _integer_tensor(app, 0)
    dtype = app.dtype("out_dtype", data.dtype)
    rounding, compute = app.attrs.text("rounding", "None"), app.attrs.text("compute_dtype", "None")
    if dtype not in _INTEGERS or rounding not in ("None", "UPWARD", "TONEAREST"):
        raise app.unsupported(f"out_dtype={dtype}, rounding={rounding} is not supported")
    source, target = _scales(app, 1), _scale(app, 3)
    axis = _channel_axis(app, data, source.size)
    zero_points = (_zero_point(app, 2), _zero_point(app, 4))
    _note_input(app, 0, source, [zero_points[0]], axis)
    if compute in ("float32", "float64"):
        result = _requantize_real(app, data, source / np.float64(target), zero_points, axis, rounding, dtype, compute)
    elif compute in ("None", "int64"):
        kind = "tonearest" if rounding == "TONEAREST" else "upward"
        result = _requantize(app, data, source, target, zero_points, axis=axis, rounding=kind, dtype=dtype)
    else:
        raise app.unsupported(f"compute_dtype={compute} is not supported")
    result.quantization = Quantization((float(target),), (zero_points[1],))
    return result


def _requantize(
    app: Application,
    data: Tensor | Constant,
    source: np.ndarray,
    target: np.float32,
    zero_points: tuple[int, int],
    *,
    axis: int,
    rounding: str,
    dtype: str,
) -> Tensor:
    multiplier, shift = _multipliers(app, source.astype(np.float64) / np.float64(target))
    return app.dialect(
        "qnn.requantize",
        [data.expr, constant_expr(multiplier), constant_expr(shift)],
        data.shape,
        dtype,
        axis=axis,
        input_zero_point=zero_points[0],
        output_zero_point=zero_points[1],
        rounding=rounding,
        input_scale=float(source[0]),
        output_scale=float(target),
    )


def _requantize_real(
    app: Application,
    data: Tensor | Constant,
    ratio: np.ndarray,
    zero_points: tuple[int, int],
    axis: int,
    rounding: str,
    dtype: str,
    compute: str,
) -> Tensor:
    """The path that computes in float: it rounds after adding the output zero point."""
    app.emitter.integer = True
    app.emitter.notes.append(
        f"line {app.emitter.source.position(app.at)[0]}: requantize asks for {compute}, so it is not integer arithmetic"
    )
    factor = Constant(ratio.astype(compute))
    factors = along(app, factor, axis, len(data.shape)) if ratio.size > 1 else constant_expr(factor.array.reshape(()))
    offset = relax.op.subtract(relax.op.astype(data.expr, "int32"), constant_expr(np.array(zero_points[0], np.int32)))
    real = app.emit(relax.op.multiply(relax.op.astype(offset, compute), factors))
    moved = app.emit(relax.op.add(real.expr, constant_expr(np.array(zero_points[1], compute))))
    if rounding == "TONEAREST":
        whole = app.emit(round_half_away(moved.expr, compute))
    else:
        whole = app.emit(relax.op.floor(relax.op.add(moved.expr, constant_expr(np.array(0.5, compute)))))
    integer = app.emit(relax.op.astype(whole.expr, "int32"))
    limits = np.iinfo(dtype)
    if dtype == "int32":
        return integer
    return app.emit(relax.op.astype(relax.op.clip(integer.expr, int(limits.min), int(limits.max)), dtype))


@operator("qnn.conv2d")
def conv2d(app: Application) -> Value:
    """Integer convolution; the padding is the input zero point."""
    app.expect_args(6)
    data, weight = _integer_tensor(app, 0), app.parameter(1)
    name = layout(app, "data_layout", 2)
    kernel_layout = app.attrs.text("kernel_layout", "OIHW")
    if kernel_layout not in ("OIHW", "HWIO", "HWOI", "OHWI"):
        raise app.unsupported(f"kernel_layout {kernel_layout} is not supported")
    _check_accumulator(app, weight)
    if len(data.shape) != 4 or len(weight.shape) != 4:
        raise app.fail(f"data of {len(data.shape)} and weight of {len(weight.shape)} dimensions")
    zero_points = (_zero_point(app, 2), _zero_point(app, 3))
    input_scale, kernel_scale = _scale(app, 4), _scales(app, 5)
    _note_input(app, 0, np.array([input_scale]), [zero_points[0]])
    strides, pads = spatial(app, "strides", 2, [1]), padding(app, 2)
    dilation, groups = spatial(app, "dilation", 2, [1]), app.attrs.integer("groups", 1)
    shape = _conv_shape(app, name, kernel_layout, strides, pads, dilation, groups)
    return app.dialect(
        "qnn.conv2d",
        [data.expr, weight.expr],
        shape,
        "int32",
        strides=strides,
        padding=pads,
        dilation=dilation,
        groups=groups,
        data_layout=name,
        kernel_layout=kernel_layout,
        input_zero_point=zero_points[0],
        kernel_zero_point=zero_points[1],
        input_scale=float(input_scale),
        kernel_scale=_float_list(kernel_scale),
    )


def _check_accumulator(app: Application, weight: Tensor | Constant) -> None:
    if app.dtype("out_dtype", "int32") != "int32" or weight.dtype not in ("int8", "uint8", "int16"):
        raise app.unsupported(f"weight {weight.dtype}, out_dtype={app.attrs.text('out_dtype', '')} is not supported")


def _conv_shape(
    app: Application,
    name: str,
    kernel_layout: str,
    strides: list[int],
    pads: list[int],
    dilation: list[int],
    groups: int,
) -> list[int]:
    """The result's shape; raises when channels, groups and weight do not fit."""
    data = dict(zip(name, app.tensor(0).shape, strict=True))
    weight = dict(zip(kernel_layout, app.tensor(1).shape, strict=True))
    outputs, inputs = weight["O"], weight["I"]
    if kernel_layout == "HWOI" and groups == weight["O"] == data["C"]:
        outputs, inputs = weight["O"] * weight["I"], 1
    if groups < 1 or inputs * groups != data["C"] or outputs % groups:
        raise app.fail(f"weight {tuple(app.tensor(1).shape)} in {groups} groups does not fit {data['C']} channels")
    for axis, letter in enumerate("HW"):
        reach = dilation[axis] * (weight[letter] - 1) + 1
        data[letter] = (data[letter] + pads[axis] + pads[axis + 2] - reach) // strides[axis] + 1
        if data[letter] < 1:
            raise app.fail("the kernel is larger than the padded data")
    data["C"] = outputs
    return [data[letter] for letter in name]


@operator("qnn.dense")
def dense(app: Application) -> Value:
    """Integer matrix product with a transposed weight."""
    app.expect_args(6)
    data, weight = _integer_tensor(app, 0), app.parameter(1)
    _check_accumulator(app, weight)
    if len(weight.shape) != 2 or not data.shape or data.shape[-1] != weight.shape[1]:
        raise app.fail(f"data {tuple(data.shape)} and weight {tuple(weight.shape)} do not fit")
    zero_points = (_zero_point(app, 2), _zero_point(app, 3))
    input_scale, kernel_scale = _scale(app, 4), _scales(app, 5)
    _note_input(app, 0, np.array([input_scale]), [zero_points[0]])
    return app.dialect(
        "qnn.dense",
        [data.expr, weight.expr],
        (*data.shape[:-1], weight.shape[0]),
        "int32",
        input_zero_point=zero_points[0],
        kernel_zero_point=zero_points[1],
        input_scale=float(input_scale),
        kernel_scale=_float_list(kernel_scale),
    )


@operator("qnn.batch_matmul")
def batch_matmul(app: Application) -> Value:
    """Integer matrix products."""
    app.expect_args(6)
    left, right = _integer_tensor(app, 0), _integer_tensor(app, 1)
    if len(left.shape) != 3 or len(right.shape) != 3:
        raise app.fail(f"operands of {len(left.shape)} and {len(right.shape)} dimensions")
    flip_left, flip_right = app.attrs.flag("transpose_a", False), app.attrs.flag("transpose_b", False)
    rows, inner = left.shape[1:][:: -1 if flip_left else 1]
    depth, columns = right.shape[1:][:: -1 if flip_right else 1]
    batch = max(left.shape[0], right.shape[0])
    if inner != depth or {left.shape[0], right.shape[0]} - {1, batch}:
        raise app.fail(f"operands {tuple(left.shape)} and {tuple(right.shape)} do not fit")
    zero_points = (_zero_point(app, 2), _zero_point(app, 3))
    for index in range(2):
        _note_input(app, index, _scales(app, 4 + index), [zero_points[index]])
    return app.dialect(
        "qnn.batch_matmul",
        [left.expr, right.expr],
        (batch, rows, columns),
        "int32",
        lhs_zero_point=zero_points[0],
        rhs_zero_point=zero_points[1],
        transpose_a=flip_left,
        transpose_b=flip_right,
    )


def _binary_operands(app: Application) -> tuple[Tensor | Constant, Tensor | Constant, tuple[int, ...]]:
    app.expect_args(8)
    left, right = _integer_tensor(app, 0), _integer_tensor(app, 1)
    if left.dtype != right.dtype:
        raise app.fail(f"operands of {left.dtype} and {right.dtype}")
    for index in range(2):
        _note_input(app, index, _scales(app, 2 + 2 * index), _zero_points(app, 3 + 2 * index))
    return left, right, np.broadcast_shapes(left.shape, right.shape)


def _sum(name: str) -> Callable[[Application], Value]:
    def translate(app: Application) -> Value:
        left, right, shape = _binary_operands(app)
        scale, zero_point = _scale(app, 6), _zero_point(app, 7)
        options: dict[str, object] = {}
        for index, side in enumerate(("lhs", "rhs")):
            own_scale, own_zero_point = _scale(app, 2 + 2 * index), _zero_point(app, 3 + 2 * index)
            multiplier, shift = _multipliers(app, np.array([float(own_scale) / float(scale)]))
            options[f"{side}_multiplier"], options[f"{side}_shift"] = int(multiplier[0]), int(shift[0])
            options[f"{side}_zero_point"] = own_zero_point
            options[f"{side}_identity"] = bool(own_scale == scale and own_zero_point == zero_point)
        options["output_zero_point"] = zero_point
        result = app.dialect(name, [left.expr, right.expr], shape, left.dtype, **options)
        result.quantization = Quantization((float(scale),), (zero_point,))
        return result

    return translate


OPERATORS["qnn.add"] = _sum("qnn.add")
OPERATORS["qnn.subtract"] = _sum("qnn.subtract")


@operator("qnn.mul")
def multiply(app: Application) -> Value:
    """Element-wise product."""
    left, right, shape = _binary_operands(app)
    scale, zero_point = _scale(app, 6), _zero_point(app, 7)
    # Relay multiplies the two scales in float32.
    multiplier, shift = _multipliers(app, np.array([float(_scale(app, 2) * _scale(app, 4)) / float(scale)]))
    result = app.dialect(
        "qnn.mul",
        [left.expr, right.expr],
        shape,
        left.dtype,
        lhs_zero_point=_zero_point(app, 3),
        rhs_zero_point=_zero_point(app, 5),
        multiplier=int(multiplier[0]),
        shift=int(shift[0]),
        output_zero_point=zero_point,
    )
    result.quantization = Quantization((float(scale),), (zero_point,))
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
    scale, zero_point = _scale(app, 3), _zero_point(app, 4)
    if not len(parts) == len(scales) == len(zero_points) or any(not 0 < value < np.inf for value in scales):
        raise app.fail("tensors, scales and zero points do not go together")
    axis = app.axis(app.attrs.integer("axis", 0), len(parts[0].shape))
    dtype, rest = parts[0].dtype, _without(parts[0].shape, axis)
    if any(part.dtype != dtype or _without(part.shape, axis) != rest for part in parts) or dtype not in _INTEGERS:
        raise app.fail("the tensors differ in more than one extent, or in dtype")
    multiplier, shift = _multipliers(app, np.array([float(value) / float(scale) for value in scales]))
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    for part, own, zero in zip(parts, scales, zero_points, strict=True):
        if isinstance(part, Tensor) and part.origin:
            app.emitter.input_quantization.setdefault(part.origin, Quantization((float(own),), (zero,)))
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
    result.quantization = Quantization((float(scale),), (zero_point,))
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


def _quantized(real: np.ndarray, scale: np.float32, zero_point: int, dtype: str) -> np.ndarray:
    """Relay's quantize in float32; NaN, which is undefined there, becomes the zero point."""
    limits = np.iinfo(dtype)
    scaled = real.astype(np.float32) / scale
    whole = np.trunc(scaled)
    away = np.abs(scaled - whole) >= np.float32(0.5)
    rounded = np.where(away, whole + np.sign(scaled), whole) + np.float32(zero_point)
    clipped = np.clip(np.nan_to_num(rounded, nan=float(zero_point), posinf=3e38, neginf=-3e38), limits.min, limits.max)
    return clipped.astype(dtype)


def _table(app: Application, table: np.ndarray) -> Tensor:
    data = app.tensor(0)
    return app.dialect("qnn.table", [data.expr, constant_expr(table)], data.shape, data.dtype)


def _unary(app: Application) -> Value:
    app.expect_args(5)
    data = _integer_tensor(app, 0, _EIGHT_BIT)
    source, target = (_scale(app, 1), _zero_point(app, 2)), (_scale(app, 3), _zero_point(app, 4))
    _note_input(app, 0, np.array([source[0]]), [source[1]])
    with np.errstate(all="ignore"):
        real = (_codes(data.dtype) - np.int32(source[1])).astype(np.float32) * source[0]
        table = _quantized(_FUNCTIONS[app.name](real), *target, data.dtype)
    result = _table(app, table)
    result.quantization = Quantization((float(target[0]),), (target[1],))
    return result


OPERATORS.update(dict.fromkeys(_FUNCTIONS, _unary))


@operator("qnn.leaky_relu")
def leaky_relu(app: Application) -> Value:
    """Leaky relu in fixed point; without output parameters (before 0.12) they are the input's."""
    app.expect_args(3, 5)
    data = _integer_tensor(app, 0, _EIGHT_BIT)
    scale, zero_point = _scale(app, 1), _zero_point(app, 2)
    target, target_zero = (_scale(app, 3), _zero_point(app, 4)) if len(app.args) == 5 else (scale, zero_point)
    _note_input(app, 0, np.array([scale]), [zero_point])
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
    result.quantization = Quantization((float(target),), (target_zero,))
    return result


@operator("qnn.avg_pool2d")
def avg_pool2d(app: Application) -> Value:
    """Requantize to int32, average with a division that truncates, clip."""
    app.expect_args(5)
    data = _integer_tensor(app, 0, _EIGHT_BIT)
    name = layout(app, "layout", 2)
    source, target = _scales(app, 1), _scale(app, 3)
    zero_points = (_zero_point(app, 2), _zero_point(app, 4))
    _note_input(app, 0, source, [zero_points[0]])
    if source.size != 1:
        raise app.unsupported("only one scale a tensor is supported")
    wide: Tensor = (
        app.emit(relax.op.astype(data.expr, "int32"))
        if source[0] == target and zero_points[0] == zero_points[1]
        else _requantize(app, data, source, target, zero_points, axis=0, rounding="upward", dtype="int32")
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
    result.quantization = Quantization((float(target),), (zero_points[1],))
    return result
