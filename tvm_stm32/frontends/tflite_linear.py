"""Convolutions and matrix products on int8 and int16 activations with int8 weights (spec 2.1 to 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tflite
from tvm import relax

from ..graph import dialect, fixed_point, operators
from ..graph.operators import Requantization
from ..graph.ssa import shape_of
from ..numerics import check_wide_shift, quantize_multipliers
from .tflite_moves import slices
from .tflite_site import Operand, Rule, Site

op = relax.op


@dataclass(frozen=True)
class Parameters:
    """Constants of a linear operator: biases (int32, or int64 for int64 accumulators) and the requantization."""

    bias: np.ndarray
    requantization: Requantization


def _parameters(
    site: Site, data: Operand, weight: Operand, bias: Operand | None, channels: int, activation: int
) -> Parameters:
    """Biases and requantization; TFLM never reads the scale of a bias."""
    site.require_quantized(data, site.output)
    if weight.scales.size not in (1, channels):
        raise site.refused(f"'{weight.name}' has {weight.scales.size} scales for {channels} channels")
    product = data.scale * weight.scales
    if site.unsigned:
        product = product.astype(np.float32).astype(np.float64)  # LiteRT's uint8 kernels round it
    real = np.broadcast_to(product, (channels,)) / site.output.scale
    multiplier, shift = quantize_multipliers(real)
    low, high = site.clamp(activation)
    requantization = Requantization(multiplier, shift, site.output.zero_point, "tflm", low, max(low, high))
    if bias is None:
        values = np.zeros(channels, np.int64 if data.dtype == "int16" else np.int32)
    elif bias.value is None:
        raise site.refused(f"its bias '{bias.name}' is computed while the model runs", "make it a constant")
    else:
        values = bias.value.reshape(-1)
    wanted = ("int32",) if data.dtype == "int8" else ("int32", "int64")
    if values.dtype.name not in wanted or values.size != channels:
        raise site.refused(f"its bias has {values.size} elements of {values.dtype}; wanted {channels} of {wanted[-1]}")
    if data.dtype == "int16" and values.dtype == np.int64:
        check_wide_shift(shift)
    return Parameters(values, requantization)


def _same_padding(extent: int, out: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Rows before and after (spec 1.5); the odd one goes after."""
    total = max(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - extent)
    return total // 2, total - total // 2


def window_padding(
    padding: int,
    extents: Sequence[int],
    outs: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """Top, left, bottom, right."""
    if padding != tflite.Padding.SAME:
        return [0, 0, 0, 0]
    sides = [_same_padding(*numbers) for numbers in zip(extents, outs, kernel, strides, dilation, strict=True)]
    return [sides[0][0], sides[1][0], sides[0][1], sides[1][1]]


@dataclass(frozen=True)
class Window:
    """How a kernel moves over its input: rows and columns; padding is top, left, bottom, right."""

    strides: Sequence[int] = (1, 1)
    padding: Sequence[int] = (0, 0, 0, 0)
    dilation: Sequence[int] = (1, 1)
    groups: int = 1


def convolution(
    site: Site, data: Operand, codes: relax.Expr, weight: np.ndarray, parameters: Parameters, window: Window
) -> relax.Expr:
    """A convolution of ``codes`` (NHWC, quantized as ``data``) with ``weight`` OHWI, its zero point removed."""
    if weight.min(initial=0) < -128 or weight.max(initial=0) > 127:
        return _nine_bits(site, data, codes, weight, parameters, window)
    weight = weight.astype(np.int8)
    call = operators.conv2d(
        codes,
        weight,
        parameters.bias,
        parameters.requantization,
        strides=window.strides,
        padding=window.padding,
        dilation=window.dilation,
        groups=window.groups,
        input_zero_point=data.zero_point,
    )
    return call if data.dtype == "int8" else _widened(call, weight, parameters)


def _widened(call: relax.Call, weight: np.ndarray, parameters: Parameters) -> relax.Expr:
    """The int16 form of a convolution: no zero points, an accumulator of the bias' type."""
    attrs = dialect.attributes(call)
    shape = attrs.pop("out_shape")
    attrs.pop("out_dtype")
    dtype = parameters.bias.dtype.name
    arguments = [
        call.args[0],
        operators.const(weight, "int8"),
        fixed_point.const(parameters.bias, dtype),
        *call.args[3:],
    ]
    return dialect.call("q.conv2d16", arguments, shape, "int16", accumulator=dtype, **attrs)


def _conv2d(site: Site) -> relax.Expr:
    options, data, weight = site.options("Conv2D"), site.data(0), site.data(1)
    values = site.constant(1)
    groups = data.shape[3] // values.shape[3]
    return _windowed(site, options, data, weight, values, groups)


def _without_zero_point(weight: Operand, values: np.ndarray) -> np.ndarray:
    """Constant weights as steps; those of legacy uint8 models have a zero point, and may need 9 bits."""
    return values.astype(np.int16) - weight.zero_point if weight.scales.size == 1 else values


def _nine_bits(
    site: Site, data: Operand, codes: relax.Expr, weight: np.ndarray, parameters: Parameters, window: Window
) -> relax.Expr:
    """A convolution in plain operators."""
    steps, (top, left, bottom, right) = site.math.offset(codes, data.zero_point, "int16"), window.padding
    if any(window.padding):
        steps = site.emit(op.nn.pad(steps, [0, 0, top, bottom, left, right, 0, 0], "constant", 0.0))
    sums = op.nn.conv2d(
        steps,
        relax.const(np.ascontiguousarray(weight.astype(np.int16))),
        strides=list(window.strides),
        dilation=list(window.dilation),
        groups=window.groups,
        data_layout="NHWC",
        kernel_layout="OHWI",
        out_dtype="int32",
    )
    total = site.emit(op.add(site.emit(sums), fixed_point.const(parameters.bias, "int32")))
    return _requantized(site, total, parameters)


def _depthwise(site: Site) -> relax.Expr:
    options, data, weight = site.options("DepthwiseConv2D"), site.data(0), site.data(1)
    values = site.constant(1).transpose(3, 1, 2, 0)
    return _windowed(site, options, data, weight, values, data.shape[3])


def _windowed(
    site: Site, options: tflite.Conv2DOptions, data: Operand, weight: Operand, values: np.ndarray, groups: int
) -> relax.Expr:
    if values.dtype != np.int8 or (data.dtype == "int16" and weight.zero_points.any()):
        raise site.refused(f"its weights have type {values.dtype}", "quantize the model again: weights are int8")
    parameters = _parameters(site, data, weight, site.optional(2), values.shape[0], options.FusedActivationFunction())
    values = _without_zero_point(weight, values)
    strides = [options.StrideH(), options.StrideW()]
    dilation = [max(1, options.DilationHFactor()), max(1, options.DilationWFactor())]
    padding = window_padding(
        options.Padding(), data.shape[1:3], site.output.shape[1:3], values.shape[1:3], strides, dilation
    )
    return convolution(site, data, data.codes, values, parameters, Window(strides, padding, dilation, groups))


def _transpose_conv(site: Site) -> relax.Expr:
    """One ordinary convolution for each phase of the stride, interleaved: no multiplication with stuffed zeros."""
    options, data, weight = site.options("TransposeConv"), site.data(2), site.data(1)
    values, out = _without_zero_point(weight, site.constant(1)), site.output
    parameters = _parameters(site, data, weight, site.optional(3), values.shape[0], options.FusedActivationFunction())
    strides, kernel = [options.StrideH(), options.StrideW()], values.shape[1:3]
    # The transposed convolution of the output's size: padding is that of the forward one.
    padding = window_padding(options.Padding(), out.shape[1:3], data.shape[1:3], kernel, strides, [1, 1])[:2]
    steps = [-(-(o + p) // s) for o, p, s in zip(out.shape[1:3], padding, strides, strict=True)]
    codes = slices(
        site,
        data.codes,
        [range(min(e, limit)) for e, limit in zip(data.shape, [data.shape[0], *steps, data.shape[3]], strict=True)],
    )
    codes = site.emit(codes)
    rows = []
    for phase_y in range(strides[0]):
        phases = []
        for phase_x in range(strides[1]):
            taps = values[:, phase_y :: strides[0], phase_x :: strides[1]][:, ::-1, ::-1]
            if not taps.size:
                taps = np.zeros((values.shape[0], 1, 1, values.shape[3]), values.dtype)
            before = [taps.shape[1] - 1, taps.shape[2] - 1]
            after = [limit - extent for limit, extent in zip(steps, shape_of(codes)[1:3], strict=True)]
            window = Window(padding=[*before, *after])
            phase = convolution(site, data, codes, taps, parameters, window)
            phases.append(site.emit(phase))
        rows.append(_interleaved(site, phases, 2))
    whole = _interleaved(site, rows, 1)
    ranges = [range(p, p + o) for p, o in zip(padding, out.shape[1:3], strict=True)]
    return slices(site, whole, [range(out.shape[0]), *ranges, range(out.shape[3])])


def _interleaved(site: Site, parts: list[relax.Expr], axis: int) -> relax.Expr:
    """Index i of part p at index i * len(parts) + p of ``axis``."""
    if len(parts) == 1:
        return parts[0]
    shape = shape_of(parts[0])
    apart = [site.emit(op.reshape(part, [*shape[: axis + 1], 1, *shape[axis + 1 :]])) for part in parts]
    joined = site.emit(op.concat(apart, axis + 1))
    return site.emit(op.reshape(joined, [*shape[:axis], shape[axis] * len(parts), *shape[axis + 1 :]]))


def _fully_connected(site: Site) -> relax.Expr:
    options, data, weight = site.options("FullyConnected"), site.data(0), site.data(1)
    units, depth = weight.shape
    zero_point = weight.zero_point if weight.scales.size == 1 else 0
    rows = site.emit(op.reshape(data.codes, [-1, depth])) if data.shape[-1] != depth or data.rank == 1 else data.codes
    parameters = _parameters(site, data, weight, site.optional(2), units, options.FusedActivationFunction())
    shifted = None if weight.value is None else weight.value.astype(np.int64) - zero_point
    fits = shifted is not None and np.abs(shifted).max(initial=0) <= 127
    if data.dtype == "int16" and shifted is not None and fits:
        batch = int(np.prod(shape_of(rows))) // depth
        pixels = site.emit(op.reshape(rows, [batch, 1, 1, depth]))
        taps = shifted.astype(np.int8).reshape(units, 1, 1, depth)
        call = convolution(site, data, pixels, taps, parameters, Window())
        return site.shaped(call)
    if data.dtype == "int8" and shifted is not None and shifted.min() >= -128 and shifted.max() <= 127:
        call = operators.dense(
            rows,
            shifted.astype(np.int8),
            parameters.bias,
            parameters.requantization,
            input_zero_point=data.zero_point,
            out_shape=[*shape_of(rows)[:-1], units],
        )
        return site.shaped(call)
    columns = op.permute_dims(site.emit(site.math.offset(weight.codes, zero_point, "int16")), [1, 0])
    return site.shaped(_matrix_product(site, rows, columns, parameters))


def _matrix_product(site: Site, rows: relax.Expr, columns: relax.Expr, parameters: Parameters) -> relax.Expr:
    """Rows times columns in plain operators: weights with a zero point, or computed while the model runs."""
    data = site.data(0)
    wide = data.dtype == "int16"
    accumulator = parameters.bias.dtype.name
    narrow = "int32" if wide else "int16"
    left = site.math.offset(rows, data.zero_point, narrow)
    product = op.matmul(left, site.math.cast(site.emit(columns), narrow), out_dtype=accumulator)
    total = site.emit(op.add(site.emit(product), fixed_point.const(parameters.bias, accumulator)))
    return _requantized(site, total, parameters)


def _requantized(site: Site, total: relax.Expr, parameters: Parameters) -> relax.Expr:
    """Sums as codes of the output."""
    requantization = parameters.requantization
    scale = site.math.multiply_wide if parameters.bias.dtype == np.int64 else site.math.multiply
    scaled = scale(total, requantization.multiplier, requantization.shift)
    limits = requantization.clamp_min, requantization.clamp_max
    return site.math.finish(scaled, requantization.zero_point, *limits, site.output.dtype)


def _flips(left: Operand, right: Operand, options: tflite.BatchMatMulOptions) -> tuple[tuple[Operand, bool], ...]:
    return (left, bool(options.AdjX())), (right, bool(options.AdjY()))


def _adjoint(site: Site, matrices: relax.Expr, flip: bool) -> relax.Expr:
    """``matrices``, the last two dimensions exchanged if asked to."""
    rank = len(shape_of(matrices))
    return site.emit(op.permute_dims(matrices, [*range(rank - 2), rank - 1, rank - 2])) if flip else matrices


def _batch_matmul(site: Site) -> relax.Expr:
    options, left, right, out = site.options("BatchMatMul"), site.data(0), site.data(1), site.output
    if left.dtype == "float32":
        return op.matmul(*(_adjoint(site, side.codes, flip) for side, flip in _flips(left, right, options)))
    site.require_quantized(left, right, out)
    wide = left.dtype == "int16"
    if wide and (left.zero_point or right.zero_point or out.zero_point):
        raise site.refused("on int16 all zero points are 0")
    sides = []
    for side, flip in _flips(left, right, options):
        steps = site.math.offset(side.codes, side.zero_point, "int32" if wide else "int16")
        sides.append(_adjoint(site, steps, flip))
    product = site.emit(op.matmul(sides[0], sides[1], out_dtype="int64" if wide else "int32"))
    multiplier, shift = quantize_multipliers(np.array([left.scale * right.scale / out.scale]))
    if wide:
        check_wide_shift(shift)
    scale = site.math.multiply_wide if wide else site.math.multiply
    return site.math.finish(scale(product, int(multiplier[0]), int(shift[0])), out.zero_point, *out.limits, out.dtype)


_BOTH = {"int8": "kernel", "int16": "kernel"}

RULES = {
    "CONV_2D": Rule(_conv2d, _BOTH),
    "DEPTHWISE_CONV_2D": Rule(_depthwise, _BOTH),
    "TRANSPOSE_CONV": Rule(_transpose_conv, _BOTH, subject=2),
    "FULLY_CONNECTED": Rule(_fully_connected, _BOTH, remark="weights that are not constant, or need 9 bits: TIR"),
    "BATCH_MATMUL": Rule(_batch_matmul, {"int8": "TIR", "int16": "TIR", "float32": "float"}),
}
