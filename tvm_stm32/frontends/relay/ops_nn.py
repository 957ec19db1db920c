"""Convolutions, products and normalizations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from .operator import OPERATORS, Application, operator
from .ops_pool import layout, padding, spatial
from .ops_shape import permuted, reshaped
from .values import Constant, Tensor, Value, constant_expr


def _is_depthwise(app: Application, name: str, groups: int) -> bool:
    return app.tensor(0).shape[name.index("C")] == groups > 1


def _convolution(function: Callable[..., relax.Expr], rank: int, kernel: str) -> Callable[[Application], Value]:
    def translate(app: Application) -> Value:
        app.expect_args(2)
        data, weight = app.tensor(0), app.parameter(1)
        name = layout(app, "data_layout", rank)
        kernel_layout = app.attrs.text("kernel_layout", kernel)
        if sorted(kernel_layout) != sorted(kernel):
            raise app.unsupported(f"kernel_layout {kernel_layout} is not supported")
        if len(data.shape) != rank + 2 or len(weight.shape) != rank + 2:
            raise app.fail(f"data of {len(data.shape)} and weight of {len(weight.shape)} dimensions")
        groups = app.attrs.integer("groups", 1)
        options = {"data_layout": name, "kernel_layout": kernel_layout, "groups": groups}
        options |= {"strides": spatial(app, "strides", rank, [1]), "padding": padding(app, rank)}
        options |= {"dilation": spatial(app, "dilation", rank, [1]), "out_dtype": app.dtype("out_dtype", data.dtype)}
        return app.emit(function(data.expr, depthwise_weight(app, weight, kernel_layout, groups, name), **options))

    return translate


def depthwise_weight(
    app: Application, weight: Tensor | Constant, kernel_layout: str, groups: int, data_layout: str
) -> relax.Expr:
    """The weight as Relax reads it: Relay's depthwise HWOI is (H, W, C, multiplier), Relax's (H, W, outputs, 1)."""
    if kernel_layout != "HWOI" or not _is_depthwise(app, data_layout, groups) or weight.shape[3] == 1:
        return weight.expr
    height, width, channels, multiplier = weight.shape
    shape = (height, width, channels * multiplier, 1)
    if isinstance(weight, Constant):
        return constant_expr(weight.array.reshape(shape))
    return app.emit(relax.op.reshape(weight.expr, shape)).expr


OPERATORS.update(
    {
        "nn.conv1d": _convolution(relax.op.nn.conv1d, 1, "OIW"),
        "nn.conv2d": _convolution(relax.op.nn.conv2d, 2, "OIHW"),
        "nn.conv3d": _convolution(relax.op.nn.conv3d, 3, "OIDHW"),
    }
)


@operator("nn.conv2d_transpose")
def conv2d_transpose(app: Application) -> Value:
    """Transposed convolution, weight IOHW."""
    app.expect_args(2)
    kernel_layout = app.attrs.text("kernel_layout", "IOHW")
    if sorted(kernel_layout) != sorted("IOHW") or len(app.tensor(1).shape) != 4:
        raise app.unsupported(f"kernel_layout {kernel_layout} is not supported")
    name = layout(app, "data_layout", 2)
    output_padding = app.attrs.integers("output_padding", [0, 0])
    if len(output_padding) != 2:
        raise app.fail(f"output_padding={output_padding}")
    weight = permuted(app.changed([app.parameter(1)]), [kernel_layout.index(letter) for letter in "IOHW"])
    data = app.tensor(0)
    if name == "NHWC":
        data = app.emit(relax.op.permute_dims(data.expr, [0, 3, 1, 2]))
    result = app.emit(
        relax.op.nn.conv2d_transpose(
            data.expr,
            app.changed([weight]).expr(0),
            strides=spatial(app, "strides", 2, [1]),
            padding=padding(app, 2),
            output_padding=output_padding,
            dilation=spatial(app, "dilation", 2, [1]),
            groups=app.attrs.integer("groups", 1),
            out_dtype=app.dtype("out_dtype", data.dtype),
        )
    )
    return app.emit(relax.op.permute_dims(result.expr, [0, 2, 3, 1])) if name == "NHWC" else result


@operator("nn.dense")
def dense(app: Application) -> Value:
    """data (.., K) times weight (units, K) transposed."""
    app.expect_args(2)
    data, weight = app.tensor(0), app.parameter(1)
    if len(weight.shape) != 2 or not data.shape:
        raise app.fail(f"data of {len(data.shape)} and weight of {len(weight.shape)} dimensions")
    flipped = app.emit(relax.op.permute_dims(weight.expr, [1, 0]))
    return app.emit(relax.op.matmul(data.expr, flipped.expr, app.dtype("out_dtype", data.dtype)))


def _swapped(app: Application, index: int, *, swap: bool) -> relax.Expr:
    value = app.tensor(index)
    rank = len(value.shape)
    if not swap:
        return value.expr
    if rank < 2:
        raise app.fail(f"argument {index + 1} has {rank} dimensions")
    return app.emit(relax.op.permute_dims(value.expr, [*range(rank - 2), rank - 1, rank - 2])).expr


@operator("nn.contrib_dense_pack")
def dense_pack(app: Application) -> Value:
    """``nn.dense`` with its weight packed as (units / n, K, n)."""
    app.expect_args(2)
    packed = app.parameter(1)
    if len(packed.shape) != 3:
        raise app.fail(f"packed weight of {len(packed.shape)} dimensions")
    blocks, inner, lanes = packed.shape
    weight = permuted(app.changed([packed]), [0, 2, 1])
    weight = reshaped(app.changed([weight]), (blocks * lanes, inner))
    return dense(app.changed([app.args[0], weight]))


@operator("nn.matmul", "nn.batch_matmul")
def matmul(app: Application) -> Value:
    """Matrix products, either side transposed; a batch of one broadcasts."""
    app.expect_args(2)
    left = _swapped(app, 0, swap=app.attrs.flag("transpose_a", False))
    right = _swapped(app, 1, swap=app.attrs.flag("transpose_b", False))
    return app.emit(relax.op.matmul(left, right, app.dtype("out_dtype", app.tensor(0).dtype)))


@operator("nn.bias_add")
def bias_add(app: Application) -> Value:
    """Adds a vector along an axis."""
    app.expect_args(2)
    data, bias = app.tensor(0), app.parameter(1)
    axis = app.axis(app.attrs.integer("axis", 1), len(data.shape))
    return app.emit(relax.op.add(data.expr, along(app, bias, axis, len(data.shape))))


def along(app: Application, vector: Tensor | Constant, axis: int, rank: int) -> relax.Expr:
    """``vector`` shaped to broadcast along ``axis`` of a tensor of ``rank``; the last axis needs no change."""
    if len(vector.shape) != 1:
        raise app.fail(f"a tensor of {len(vector.shape)} dimensions where a vector should be")
    shape = (vector.shape[0],) + (1,) * (rank - 1 - axis)
    if len(shape) == 1:
        return vector.expr
    if isinstance(vector, Constant):
        return constant_expr(vector.array.reshape(shape))
    return app.emit(relax.op.reshape(vector.expr, shape)).expr


@operator("nn.batch_norm")
def batch_norm(app: Application) -> Value:
    """One multiply and one add, as by Relay's SimplifyInference; mean and variance pass through."""
    app.expect_args(5)
    data = app.tensor(0)
    rank = len(data.shape)
    axis = app.axis(app.attrs.integer("axis", 1), rank)
    gamma, beta, mean, variance = (app.constant(index) for index in range(1, 5))
    if any(vector.shape != (data.shape[axis],) for vector in (gamma, beta, mean, variance)):
        raise app.fail(f"parameters do not have the {data.shape[axis]} elements of axis {axis}")
    epsilon = np.array(app.attrs.real("epsilon", 1e-5)).astype(data.dtype)
    with np.errstate(all="ignore"):
        scale = np.reciprocal(np.sqrt(variance + epsilon))
        scale = scale * gamma if app.attrs.flag("scale", True) else scale
        shift = -mean * scale
        shift = shift + beta if app.attrs.flag("center", True) else shift
    scaled = app.emit(relax.op.multiply(data.expr, along(app, Constant(scale), axis, rank)))
    result = app.emit(relax.op.add(scaled.expr, along(app, Constant(shift), axis, rank)))
    return (result, app.tensor(3), app.tensor(4))


def _normalization_options(app: Application) -> dict[str, object]:
    return {
        "epsilon": app.attrs.real("epsilon", 1e-5),
        "center": app.attrs.flag("center", True),
        "scale": app.attrs.flag("scale", True),
    }


@operator("nn.layer_norm")
def layer_norm(app: Application) -> Value:
    """Normalization along one axis."""
    app.expect_args(3)
    axis = app.axis(app.attrs.integer("axis", -1), len(app.tensor(0).shape))
    gamma, beta = app.parameter(1).expr, app.parameter(2).expr
    return app.emit(relax.op.nn.layer_norm(app.expr(0), gamma, beta, [axis], **_normalization_options(app)))


@operator("nn.instance_norm")
def instance_norm(app: Application) -> Value:
    """Normalization over all axes but the batch and ``axis``."""
    app.expect_args(3)
    rank = len(app.tensor(0).shape)
    axis = app.axis(app.attrs.integer("axis", 1), rank)
    gamma, beta = app.parameter(1).expr, app.parameter(2).expr
    axes = [other for other in range(1, rank) if other != axis]
    return app.emit(relax.op.nn.instance_norm(app.expr(0), gamma, beta, axis, axes, **_normalization_options(app)))


@operator("nn.group_norm")
def group_norm(app: Application) -> Value:
    """Normalization over groups of channels."""
    app.expect_args(3)
    rank = len(app.tensor(0).shape)
    axis = app.axis(app.attrs.integer("axis", 1), rank)
    groups = app.attrs.integer("num_groups", 0)
    if groups < 1 or app.tensor(0).shape[axis] % groups:
        raise app.fail(f"num_groups={groups} does not divide {app.tensor(0).shape[axis]} channels")
    gamma, beta = app.parameter(1).expr, app.parameter(2).expr
    axes = [other for other in range(1, rank) if other != axis]
    return app.emit(relax.op.nn.group_norm(app.expr(0), gamma, beta, groups, axis, axes, **_normalization_options(app)))


@operator("nn.lrn")
def lrn(app: Application) -> Value:
    """x / (bias + alpha / size * window sum of x * x) ** beta, the window running over channels."""
    app.expect_args(1)
    data = app.tensor(0)
    rank = len(data.shape)
    axis, size = app.axis(app.attrs.integer("axis", 1), rank), app.attrs.integer("size", 5)
    if not 1 <= size <= 64 or size % 2 == 0:
        raise app.fail(f"size={size} is not an odd number up to 64")
    widths = [0] * (2 * rank)
    widths[2 * axis] = widths[2 * axis + 1] = size // 2
    square = app.emit(relax.op.multiply(data.expr, data.expr))
    padded = app.emit(relax.op.nn.pad(square.expr, widths))
    window = [
        app.emit(relax.op.strided_slice(padded.expr, [axis], [start], [start + data.shape[axis]])).expr
        for start in range(size)
    ]
    total = window[0]
    for term in window[1:]:
        total = app.emit(relax.op.add(total, term)).expr
    factor = constant_expr(np.array(app.attrs.real("alpha", 1e-4) / size).astype(data.dtype))
    bias = constant_expr(np.array(app.attrs.real("bias", 2.0)).astype(data.dtype))
    exponent = constant_expr(np.array(app.attrs.real("beta", 0.75)).astype(data.dtype))
    base = app.emit(relax.op.add(relax.op.multiply(total, factor), bias))
    return app.emit(relax.op.divide(data.expr, relax.op.power(base.expr, exponent)))
