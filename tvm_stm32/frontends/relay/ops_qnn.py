"""Quantize, requantize, convolutions and products -> the integer dialect.

The rules are those of Relay's ``qnn`` lowering, the attributes those listed in :mod:`.translate`.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from .operator import Application, operator
from .ops_pool import layout, padding, spatial
from .ops_shape import permuted, reshaped
from .qnn_arguments import (
    INTEGERS,
    along_axis,
    channel_axis,
    float_list,
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
from .requantize_real import real_requantize
from .values import Constant, Tensor, Value, constant_expr


@operator("qnn.quantize")
def quantize(app: Application) -> Value:
    """Real to integer."""
    app.expect_args(3)
    data, scale, zero_point = app.tensor(0), scales_of(app, 1), zero_points_of(app, 2)
    dtype = app.dtype("out_dtype", "int8")
    if data.dtype != "float32" or dtype not in INTEGERS:
        raise app.unsupported(f"{data.dtype} to {dtype} is not supported")
    axis = channel_axis(app, data, scale.size, len(zero_point))
    if isinstance(data, Constant):
        app.emitter.reserve(app.at, data.array.size)
        with np.errstate(all="ignore"):
            offset = along_axis(np.array(zero_point, np.float32), axis, len(data.shape))
            return Constant(quantized(data.array, along_axis(scale, axis, len(data.shape)), offset, dtype))
    options = {"scale": float_list(scale), "zero_point": zero_point, "axis": axis}
    result = app.dialect("qnn.quantize", [data.expr], data.shape, dtype, **options)
    result.quantization = quantization_of(scale, zero_point, axis)
    return result


@operator("qnn.dequantize")
def dequantize(app: Application) -> Value:
    """Integer to real."""
    app.expect_args(3)
    data, scale, zero_point = integer_tensor(app, 0), scales_of(app, 1), zero_points_of(app, 2)
    if app.dtype("out_dtype", "float32") != "float32":
        raise app.unsupported("only out_dtype float32 is supported")
    axis = channel_axis(app, data, scale.size, len(zero_point))
    note_input(app, 0, scale, zero_point, axis)
    if isinstance(data, Constant):
        app.emitter.reserve(app.at, data.array.size)
        rank = len(data.shape)
        offset = data.array.astype(np.int32) - along_axis(np.array(zero_point, np.int32), axis, rank)
        return Constant(np.asarray(offset.astype(np.float32) * along_axis(scale, axis, rank), np.float32))
    options = {"scale": float_list(scale), "zero_point": zero_point, "axis": axis}
    return app.dialect("qnn.dequantize", [data.expr], data.shape, "float32", **options)


@operator("qnn.requantize")
def requantize(app: Application) -> Value:
    """Integer to integer of another scale."""
    app.expect_args(5)
    data = integer_tensor(app, 0)
    dtype = app.dtype("out_dtype", data.dtype)
    rounding, compute = app.attrs.text("rounding", "None"), app.attrs.text("compute_dtype", "None")
    if dtype not in INTEGERS or rounding not in ("None", "UPWARD", "TONEAREST"):
        raise app.unsupported(f"out_dtype={dtype}, rounding={rounding} is not supported")
    source, target = scales_of(app, 1), scale_of(app, 3)
    axis = channel_axis(app, data, source.size)
    zero_points = (zero_point_of(app, 2), zero_point_of(app, 4))
    note_input(app, 0, source, [zero_points[0]], axis)
    if compute in ("float32", "float64"):
        ratio = source / np.float64(target)
        result = real_requantize(app, data, ratio, zero_points, axis, rounding=rounding, dtype=dtype, compute=compute)
    elif compute in ("None", "int64"):
        kind = "tonearest" if rounding == "TONEAREST" else "upward"
        result = emit_requantize(app, data, source, target, zero_points, axis=axis, rounding=kind, dtype=dtype)
    else:
        raise app.unsupported(f"compute_dtype={compute} is not supported")
    result.quantization = quantization_of(np.array([target]), [zero_points[1]])
    return result


def emit_requantize(
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
    multiplier, shift = multipliers_of(app, source.astype(np.float64) / np.float64(target))
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


@operator("qnn.conv2d")
def conv2d(app: Application) -> Value:
    """Integer convolution; the padding is the input zero point."""
    app.expect_args(6)
    data, weight = integer_tensor(app, 0), app.parameter(1)
    name = layout(app, "data_layout", 2)
    kernel_layout = app.attrs.text("kernel_layout", "OIHW")
    if kernel_layout not in ("OIHW", "HWIO", "HWOI", "OHWI"):
        raise app.unsupported(f"kernel_layout {kernel_layout} is not supported")
    _check_accumulator(app, weight)
    if len(data.shape) != 4 or len(weight.shape) != 4:
        raise app.fail(f"data of {len(data.shape)} and weight of {len(weight.shape)} dimensions")
    zero_points = (zero_point_of(app, 2), zero_point_of(app, 3))
    input_scale, kernel_scale = scale_of(app, 4), scales_of(app, 5)
    note_input(app, 0, np.array([input_scale]), [zero_points[0]])
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
        kernel_scale=float_list(kernel_scale),
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
    data, weight = integer_tensor(app, 0), app.parameter(1)
    _check_accumulator(app, weight)
    if len(weight.shape) != 2 or not data.shape or data.shape[-1] != weight.shape[1]:
        raise app.fail(f"data {tuple(data.shape)} and weight {tuple(weight.shape)} do not fit")
    zero_points = (zero_point_of(app, 2), zero_point_of(app, 3))
    input_scale, kernel_scale = scale_of(app, 4), scales_of(app, 5)
    note_input(app, 0, np.array([input_scale]), [zero_points[0]])
    return app.dialect(
        "qnn.dense",
        [data.expr, weight.expr],
        (*data.shape[:-1], weight.shape[0]),
        "int32",
        input_zero_point=zero_points[0],
        kernel_zero_point=zero_points[1],
        input_scale=float(input_scale),
        kernel_scale=float_list(kernel_scale),
    )


@operator("qnn.batch_matmul")
def batch_matmul(app: Application) -> Value:
    """Integer matrix products."""
    app.expect_args(6)
    left, right = integer_tensor(app, 0), integer_tensor(app, 1)
    if len(left.shape) != 3 or len(right.shape) != 3:
        raise app.fail(f"operands of {len(left.shape)} and {len(right.shape)} dimensions")
    flip_left, flip_right = app.attrs.flag("transpose_a", False), app.attrs.flag("transpose_b", False)
    rows, inner = left.shape[1:][:: -1 if flip_left else 1]
    depth, columns = right.shape[1:][:: -1 if flip_right else 1]
    batch = max(left.shape[0], right.shape[0])
    if inner != depth or {left.shape[0], right.shape[0]} - {1, batch}:
        raise app.fail(f"operands {tuple(left.shape)} and {tuple(right.shape)} do not fit")
    zero_points = (zero_point_of(app, 2), zero_point_of(app, 3))
    for index in range(2):
        note_input(app, index, scales_of(app, 4 + index), [zero_points[index]])
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


@operator("qnn.conv2d_transpose")
def conv2d_transpose(app: Application) -> Value:
    """Integer transposed convolution as plain operators; inserted zeros are real zeros, so offsets come off first."""
    app.expect_args(6)
    data, weight = integer_tensor(app, 0, ("int8", "uint8")), app.constant(1)
    name, kernel_layout = layout(app, "data_layout", 2), app.attrs.text("kernel_layout", "IOHW")
    zero_points = (zero_point_of(app, 2), zero_point_of(app, 3))
    if sorted(kernel_layout) != sorted("IOHW") or max(map(abs, zero_points)) > 255 or weight.dtype.itemsize != 1:
        raise app.unsupported(f"kernel_layout={kernel_layout}, zero points {zero_points} is not supported")
    output_padding = app.attrs.integers("output_padding", [0, 0])
    if len(output_padding) != 2 or weight.ndim != 4:
        raise app.fail(f"output_padding={output_padding}, weight of {weight.ndim} dimensions")
    note_input(app, 0, scales_of(app, 4), [zero_points[0]])
    app.emitter.integer = True
    offset = app.emit(
        relax.op.subtract(relax.op.astype(data.expr, "int16"), constant_expr(np.array(zero_points[0], np.int16)))
    )
    kernel = (weight.astype(np.int16) - np.int16(zero_points[1])).astype(np.int16)
    kernel = kernel.transpose([kernel_layout.index(letter) for letter in "IOHW"])
    if name == "NHWC":
        offset = app.emit(relax.op.permute_dims(offset.expr, [0, 3, 1, 2]))
    result = app.emit(
        relax.op.nn.conv2d_transpose(
            offset.expr,
            constant_expr(kernel),
            strides=spatial(app, "strides", 2, [1]),
            padding=padding(app, 2),
            output_padding=output_padding,
            dilation=spatial(app, "dilation", 2, [1]),
            groups=app.attrs.integer("groups", 1),
            out_dtype="int32",
        )
    )
    return app.emit(relax.op.permute_dims(result.expr, [0, 2, 3, 1])) if name == "NHWC" else result


@operator("qnn.contrib_dense_pack")
def dense_pack(app: Application) -> Value:
    """``qnn.dense`` with its weight packed as (units / n, K, n), or plain in layout NC."""
    app.expect_args(6)
    packed = app.parameter(1)
    if len(packed.shape) == 2 and app.attrs.text("weight_layout", "NC") == "NC":
        return dense(app)
    if len(packed.shape) != 3:
        raise app.fail(f"packed weight of {len(packed.shape)} dimensions")
    blocks, inner, lanes = packed.shape
    weight = permuted(app.changed([packed]), [0, 2, 1])
    weight = reshaped(app.changed([weight]), (blocks * lanes, inner))
    return dense(app.changed([app.args[0], weight, *app.args[2:]]))


@operator("fixed_point_multiply_per_axis")
def fixed_point_multiply_per_axis(app: Application) -> Value:
    """``fixed_point_multiply`` with a multiplier and shifts for each index of an axis."""
    app.expect_args(4)
    data = integer_tensor(app, 0, ("int32",))
    multiplier, left, right = (app.constant(index).astype(np.int64).reshape(-1) for index in (1, 2, 3))
    axes = app.attrs.integers("axes")
    if len(axes) != 1:
        raise app.unsupported(f"axes={axes}: one axis is supported")
    axis = app.axis(axes[0], len(data.shape))
    shift = np.zeros(1, np.int64)
    for values, key, sign in ((left, "is_lshift_required", 1), (right, "is_rshift_required", -1)):
        if app.attrs.flag(key, False):
            shift = shift + sign * values
    shift = np.broadcast_to(shift, multiplier.shape) if shift.size == 1 else shift
    if any(values.size not in (1, data.shape[axis]) for values in (multiplier, shift)) or (abs(shift) > 30).any():
        raise app.fail(f"{multiplier.size} multipliers and {shift.size} shifts for {data.shape[axis]} elements")
    return app.dialect(
        "qnn.requantize",
        [data.expr, constant_expr(multiplier.astype(np.int32)), constant_expr(shift.astype(np.int32))],
        data.shape,
        "int32",
        axis=axis,
        input_zero_point=0,
        output_zero_point=0,
        rounding="upward",
        input_scale=1.0,
        output_scale=1.0,
    )


@operator("fixed_point_multiply")
def fixed_point_multiply(app: Application) -> Value:
    """int32 times multiplier * 2**(shift - 31), ties upward: a requantize without scales."""
    app.expect_args(1)
    data = integer_tensor(app, 0, ("int32",))
    multiplier, shift = app.attrs.integer("multiplier"), app.attrs.integer("shift")
    if not -31 <= shift <= 30:
        raise app.fail(f"shift={shift}")
    return app.dialect(
        "qnn.requantize",
        [data.expr, constant_expr(np.array([multiplier], np.int32)), constant_expr(np.array([shift], np.int32))],
        data.shape,
        "int32",
        axis=max(len(data.shape) - 1, 0),
        input_zero_point=0,
        output_zero_point=0,
        rounding="upward",
        input_scale=1.0,
        output_scale=1.0,
    )
