"""Integer operators from q/dq graphs (TFLite and ONNX importers).

The importers write a quantized operator as float work between ``dequantize`` and ``quantize``. Each ``quantize`` is a
root: when what it quantizes matches an operator with an integer kernel, the root becomes one ``q.*`` call; otherwise it
stays float and the report lists it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import relax

from .. import numerics
from ..model import Numerics
from . import dialect, operators
from .activation import activation_bounds
from .affine import (
    Quantized,
    QuantizedConstant,
    dequantized,
    moved_constant,
    quantize_parameters,
    quantized_constant,
)
from .elementwise import real_function
from .geometry import CONVOLUTIONS, geometry
from .operators import Requantization
from .pooling import mean_call, mean_of_function, tflm_mean
from .softmax import real_softmax, softmax_call
from .ssa import Function, constant, dtype_of, normalized, shape_of

# Operators that only move codes: with equal quantization on both sides they work on int8 as they are.
_MOVEMENT = {
    "relax.reshape",
    "relax.permute_dims",
    "relax.squeeze",
    "relax.expand_dims",
    "relax.flatten",
    "relax.strided_slice",
    "relax.broadcast_to",
    "relax.repeat",
    "relax.tile",
    "relax.flip",
    "relax.concat",
    "relax.nn.max_pool2d",
}

# Of these, the ones an importer may leave between dequantize and the operator that uses the value.
_SHAPE_ONLY = ("relax.reshape", "relax.permute_dims", "relax.squeeze", "relax.expand_dims", "relax.flatten")

Emit = Callable[[relax.Expr], relax.Expr]


@dataclass(frozen=True)
class Root:
    """A quantize call: its argument without the activation, the output's parameters and the clamp in codes."""

    body: relax.Expr
    scale: float
    zero_point: int
    clamp_min: int
    clamp_max: int

    def requantization(self, real: np.ndarray | float, rounding: str) -> Requantization:
        """Requantization of accumulators, each worth ``real`` output codes.

        Ties to even cost more than ties upward, and only a power of two has ties to speak of.
        """
        multiplier, shift = numerics.quantize_multipliers(np.asarray(real, np.float64))
        if rounding == "even" and not (multiplier == 1 << 30).any():
            rounding = "upward"
        return Requantization(multiplier, shift, self.zero_point, rounding, self.clamp_min, self.clamp_max)


@dataclass(frozen=True)
class Linear:
    """A convolution or matrix product between dequantized data and weights; the bias as codes, reals or None."""

    call: relax.Call
    data: Quantized
    weight: QuantizedConstant
    bias: QuantizedConstant | np.ndarray | None


class QdqRewriter:
    """Rewrites the roots of one function; ``emit`` binds an extra value before the root's binding."""

    def __init__(self, view: Function, reference: Numerics, emit: Emit) -> None:
        self.view = view
        self.reference = reference
        self.rounding = "tflm" if reference == "tflm" else "even"
        self.emit = emit
        self.label = ""

    def rewrite(self, value: relax.Expr) -> relax.Expr | None:
        """The integer call that replaces a binding's value, or None to leave it.

        ``label`` is then the name of the operator between dequantize and quantize, "" when it has none.
        """
        self.label = ""
        if dialect.name_of(value) not in ("relax.quantize", "qnn.quantize") or dtype_of(value) != "int8":
            return None
        root = self._root(value)
        if root is None:
            return None
        if isinstance(root.body, relax.Var):
            self.label = root.body.name
        patterns = (self._convolution, self._dense, self._binary, self._softmax, self._pool, self._movement)
        for pattern in (*patterns, self._requantize, self._function):
            found = pattern(root)
            if found is not None:
                return found
        return None

    def _root(self, value: relax.Call) -> Root | None:
        parameters = quantize_parameters(value)
        if parameters is None:
            return None
        scale, zero_point = parameters
        body, low, high = value.args[0], numerics.INT8_MIN, numerics.INT8_MAX
        activation = self.view.match(body, "relax.nn.relu", "relax.nn.relu6", "relax.clip")
        if activation is not None:
            bounds = activation_bounds(activation)
            if bounds is None:
                return None
            low = max(low, min(high, numerics.quantize_activation(bounds[0], scale, zero_point)))
            if bounds[1] is not None:
                high = min(high, max(low, numerics.quantize_activation(bounds[1], scale, zero_point)))
            body = activation.args[0]
        return Root(body, scale, zero_point, low, high)

    def _dequantized(self, expr: relax.Expr) -> Quantized | None:
        """The codes behind a real value, through operators that only reshape it (which then work on the codes)."""
        direct = dequantized(self.view, expr)
        if direct is not None:
            return direct
        call = self.view.match(expr, *_SHAPE_ONLY)
        inner = self._dequantized(call.args[0]) if call is not None else None
        if call is None or inner is None:
            return None
        moved = relax.Call(call.op, [inner.data, *call.args[1:]], call.attrs, call.ty_args)
        return Quantized(self.emit(moved), inner.scale, inner.zero_point)

    def _biased(self, expr: relax.Expr) -> tuple[relax.Expr, QuantizedConstant | np.ndarray | None]:
        """``(linear operator, bias)`` of add(linear, constant); the bias is int32 codes, reals, or None."""
        call = self.view.match(expr, "relax.add")
        if call is None:
            return expr, None
        for linear, other in ((call.args[0], call.args[1]), (call.args[1], call.args[0])):
            codes = quantized_constant(self.view, other)
            if codes is not None and codes.values.dtype == np.int32:
                return linear, codes
            reals = moved_constant(self.view, other)
            if reals is not None and reals.dtype == np.float32:
                return linear, reals
        return expr, None

    def _bias_codes(self, bias: QuantizedConstant | np.ndarray | None, scale: np.ndarray) -> np.ndarray | None:
        """Biases in units of the accumulators (``scale`` of each channel), or None when the shape does not fit.

        TFLM takes the codes as they are, whatever their scale; elsewhere a bias of another scale is rounded.
        """
        channels = scale.size
        if bias is None:
            return np.zeros(channels, np.int32)
        if isinstance(bias, QuantizedConstant):
            if bias.values.size != channels:
                return None
            codes = bias.values.reshape(-1)
            scales = bias.scale.reshape(-1)
            if self.reference == "tflm" or np.allclose(scales, scale, rtol=1e-6, atol=0.0):
                return codes
            real = (codes.astype(np.float64) - bias.zero_point.reshape(-1)) * scales
        elif bias.size == channels:
            real = bias.reshape(-1).astype(np.float64)
        else:
            return None
        rounded = np.rint(real / scale)
        return rounded.astype(np.int32) if (np.abs(rounded) < 2**31).all() else None

    def _linear(self, root: Root, *names: str) -> Linear | None:
        """The parts of a root that is int8 data times constant int8 weights, plus a constant bias."""
        body, bias = self._biased(root.body)
        call = self.view.match(body, *names)
        if call is None:
            return None
        data, weight = self._dequantized(call.args[0]), quantized_constant(self.view, call.args[1])
        if data is None or weight is None or data.dtype != "int8" or weight.values.dtype != np.int8:
            return None
        self.label = body.name
        return Linear(call, data, weight, bias)

    def _convolution(self, root: Root) -> relax.Expr | None:
        linear = self._linear(root, *CONVOLUTIONS)
        shape = geometry(linear.call) if linear is not None else None
        if linear is None or shape is None:
            return None
        data, weight = linear.data, linear.weight
        axes = [shape.kernel_layout.index(axis) for axis in "OHWI"]
        values, scales, zero_points = (
            shape.kernel(array).transpose(axes) for array in (weight.values, weight.scale, weight.zero_point)
        )
        channel_scales = scales.reshape(scales.shape[0], -1)
        if zero_points.any() or not (channel_scales == channel_scales[:, :1]).all():
            return None
        source = shape.data(data.data)
        if shape.row is not None:
            source = self.emit(source)
        channels_in = shape_of(source)[shape.data_layout.index("C")]
        if shape.groups > 1 and values.shape[3] * shape.groups != channels_in:
            return None
        accumulator_scale = data.scale * channel_scales[:, 0].astype(np.float64)
        biases = self._bias_codes(linear.bias, accumulator_scale)
        if biases is None:
            return None
        real = accumulator_scale / root.scale
        if shape.data_layout == "NCHW":
            source = self.emit(relax.op.permute_dims(source, [0, 2, 3, 1]))
        result: relax.Expr = operators.conv2d(
            source,
            values,
            biases,
            root.requantization(real, self.rounding),
            strides=shape.strides,
            padding=shape.padding,
            dilation=shape.dilation,
            groups=shape.groups,
            input_zero_point=data.zero_point,
        )
        if shape.data_layout == "NCHW":
            result = relax.op.permute_dims(self.emit(result), [0, 3, 1, 2])
        return result if shape.row is None else relax.op.reshape(self.emit(result), shape_of(linear.call))

    def _dense(self, root: Root) -> relax.Expr | None:
        linear = self._linear(root, "relax.matmul")
        if linear is None:
            return None
        data, weight = linear.data, linear.weight
        if weight.values.ndim != 2 or weight.zero_point.any():
            return None
        scales = weight.channel_scales(1)
        if scales is None:
            return None
        accumulator_scale = data.scale * scales.astype(np.float64)
        biases = self._bias_codes(linear.bias, accumulator_scale)
        if biases is None:
            return None
        real = accumulator_scale / root.scale
        return operators.dense(
            data.data,
            weight.values.T,
            biases,
            root.requantization(real, self.rounding),
            input_zero_point=data.zero_point,
            out_shape=shape_of(linear.call),
        )

    def _binary(self, root: Root) -> relax.Expr | None:
        call = self.view.match(root.body, "relax.add", "relax.subtract", "relax.multiply")
        if call is None:
            return None
        left, right = (self._operand(argument) for argument in call.args)
        if left is None or right is None:
            return None
        name = dialect.name_of(call)
        common = {
            "lhs_zero_point": left.zero_point,
            "rhs_zero_point": right.zero_point,
            "output_zero_point": root.zero_point,
            "clamp_min": root.clamp_min,
            "clamp_max": root.clamp_max,
            "rounding": self.rounding,
        }
        if name == "relax.multiply":
            multiplier, shift = numerics.quantize_multiplier(left.scale * right.scale / root.scale)
            return dialect.call(
                "q.mul",
                [left.data, right.data],
                shape_of(call),
                "int8",
                multiplier=multiplier,
                shift=shift,
                **common,
            )
        bits = 20
        twice = 2.0 * max(left.scale, right.scale)
        out = twice / ((1 << bits) * root.scale)
        if out >= 1.0:
            return None
        (lhs_m, lhs_s), (rhs_m, rhs_s), (out_m, out_s) = (
            numerics.quantize_multiplier(real) for real in (left.scale / twice, right.scale / twice, out)
        )
        return dialect.call(
            "q.add" if name == "relax.add" else "q.sub",
            [left.data, right.data],
            shape_of(call),
            "int8",
            left_shift=bits,
            lhs_multiplier=lhs_m,
            lhs_shift=lhs_s,
            rhs_multiplier=rhs_m,
            rhs_shift=rhs_s,
            multiplier=out_m,
            shift=out_s,
            **common,
        )

    def _operand(self, expr: relax.Expr) -> Quantized | None:
        """An int8 operand of an elementwise operator: an activation or a quantized constant."""
        found = self._dequantized(expr)
        if found is not None and found.dtype == "int8":
            return found
        fixed = quantized_constant(self.view, expr)
        if fixed is None or fixed.values.dtype != np.int8 or not fixed.values.size:
            return None
        scale, zero_point = fixed.scale.flat[0], fixed.zero_point.flat[0]
        if not (fixed.scale == scale).all() or not (fixed.zero_point == zero_point).all():
            return None
        return Quantized(operators.const(fixed.values, "int8"), float(scale), int(zero_point))

    def _softmax(self, root: Root) -> relax.Expr | None:
        call = self.view.match(root.body, "relax.nn.softmax")
        if call is None:
            return None
        data = self._dequantized(call.args[0])
        rank = len(shape_of(call))
        if data is None or data.dtype != "int8" or int(call.attrs.axis) % rank != rank - 1:
            return None
        if self.reference == "tflm":
            if root.scale != 1.0 / 256.0 or root.zero_point != -128:
                return None
            table = numerics.softmax_exponentials(numerics.softmax_parameters(data.scale))
            return softmax_call(call, data.data, table, "tflm", 0, 0, -128)
        return real_softmax(call, data, root.scale, root.zero_point)

    def _pool(self, root: Root) -> relax.Expr | None:
        call = self.view.match(root.body, "relax.nn.avg_pool2d", "relax.mean")
        if call is None:
            return None
        data = self._dequantized(call.args[0])
        if data is None and dialect.name_of(call) == "relax.mean" and self.reference != "tflm":
            return self._mean_of_function(root, call)
        if data is None or data.dtype != "int8":
            return None
        if dialect.name_of(call) == "relax.mean":
            return self._mean(root, call, data)
        if any(int(p) for p in call.attrs.padding):
            return None
        pool = [int(extent) for extent in call.attrs.pool_size]
        if self.reference == "tflm":
            return None
        requantization = root.requantization(data.scale / (root.scale * pool[0] * pool[1]), self.rounding)
        source = data.data
        nchw = str(call.attrs.layout) == "NCHW"
        if nchw:
            source = self.emit(relax.op.permute_dims(source, [0, 2, 3, 1]))
        shape = shape_of(call)
        out_shape = (shape[0], shape[2], shape[3], shape[1]) if nchw else shape
        result = mean_call(
            source, pool, [int(s) for s in call.attrs.strides], out_shape, data.zero_point, requantization
        )
        return relax.op.permute_dims(self.emit(result), [0, 3, 1, 2]) if nchw else result

    def _mean(self, root: Root, call: relax.Call, data: Quantized) -> relax.Expr | None:
        shape = shape_of(data.data)
        axes = sorted(int(axis) % len(shape) for axis in (call.attrs.axis or range(len(shape))))
        if len(shape) != 4 or axes not in ([1, 2], [2, 3]):
            return None
        count = shape[axes[0]] * shape[axes[1]]
        requantization = root.requantization(data.scale / root.scale, self.rounding)
        if self.reference == "tflm":
            requantization = tflm_mean(requantization, count)
        else:
            requantization = root.requantization(data.scale / (root.scale * count), self.rounding)
        source = data.data
        if axes == [2, 3]:
            source = self.emit(relax.op.permute_dims(source, [0, 2, 3, 1]))
            shape = shape_of(source)
        pooled = mean_call(
            source, list(shape[1:3]), [1, 1], (shape[0], 1, 1, shape[3]), data.zero_point, requantization
        )
        return relax.op.reshape(self.emit(pooled), shape_of(call))

    def _mean_of_function(self, root: Root, call: relax.Call) -> relax.Expr | None:
        """An activation that the quantizer left real, averaged."""
        function = real_function(self.view, call.args[0])
        if function is None:
            return None
        rank = len(shape_of(call.args[0]))
        axes = sorted(int(axis) % rank for axis in (call.attrs.axis or range(rank)))
        output = root.requantization(1.0, self.rounding)
        return mean_of_function(function, axes, shape_of(call), output, root.scale, self.emit)

    def _movement(self, root: Root) -> relax.Expr | None:
        call = self.view.value(root.body)
        name = dialect.name_of(call)
        if name == "relax.nn.pad":
            return self._pad(root, call)
        if name not in _MOVEMENT:
            return None
        arguments = list(call.args)
        parts = arguments[0].fields if isinstance(arguments[0], relax.Tuple) else [arguments[0]]
        codes: list[relax.Expr] = []
        for part in parts:
            quantized = self._operand(part)
            moved_later = (
                self._codes_as(quantized, root) if quantized is not None else self._quantized_before(part, root)
            )
            if moved_later is None:
                return None
            codes.append(moved_later)
        arguments[0] = relax.Tuple(codes) if isinstance(arguments[0], relax.Tuple) else codes[0]
        moved = relax.Call(call.op, arguments, call.attrs, call.ty_args)
        return self._clamped(moved, root)

    def _quantized_before(self, part: relax.Expr, root: Root) -> relax.Expr | None:
        """A real operand of what only moves elements, quantized before they move: rounding keeps their order."""
        if self.reference == "tflm" or not shape_of(part):
            return None
        if self.view.uses.get(part, 0) > 1 and real_function(self.view, part) is None:
            return None  # others need it as a real number: it would be computed twice
        scale, zero_point = relax.const(root.scale, "float32"), relax.const(root.zero_point, "int32")
        codes = self.rewrite(normalized(relax.op.quantize(part, scale, zero_point, 0, "int8")))
        return None if codes is None else self.emit(codes)

    def _pad(self, root: Root, call: relax.Call) -> relax.Expr | None:
        data = self._dequantized(call.args[0])
        if data is None or data.dtype != "int8" or str(call.attrs.pad_mode) != "constant":
            return None
        value = call.args[1] if len(call.args) > 1 else None
        real = getattr(call.attrs, "pad_value", 0.0) if value is None else getattr(value, "value", None)
        if isinstance(real, float | int):
            number = float(real)
        else:
            array = constant(value) if value is not None else None
            if array is None:
                return None
            number = float(array)
        code = numerics.round_half_away(number / root.scale) + root.zero_point
        codes = self._codes_as(data, root)
        width = [int(w) for w in call.attrs.pad_width]
        fill = float(max(-128, min(127, code)))
        return self._clamped(relax.op.nn.pad(codes, width, "constant", fill), root)

    def _codes_as(self, quantized: Quantized, root: Root) -> relax.Expr:
        """The operand's codes in the output's quantization."""
        if quantized.scale == root.scale and quantized.zero_point == root.zero_point:
            return quantized.data
        return self.emit(operators.table(quantized.data, self._requantize_table(quantized, root), "requantize"))

    def _requantize_table(self, data: Quantized, root: Root) -> np.ndarray:
        multiplier, shift = numerics.quantize_multiplier(data.scale / root.scale)
        codes = operators.identity_codes() - data.zero_point
        scaled = numerics.MULTIPLY[self.rounding](codes, multiplier, shift) + root.zero_point
        return np.asarray(np.clip(scaled, root.clamp_min, root.clamp_max))

    def _clamped(self, call: relax.Expr, root: Root) -> relax.Expr:
        if (root.clamp_min, root.clamp_max) == (numerics.INT8_MIN, numerics.INT8_MAX):
            return call
        return relax.op.clip(self.emit(call), root.clamp_min, root.clamp_max)

    def _function(self, root: Root) -> relax.Expr | None:
        """A table for any function of one tensor's elements; TFLM's own functions have rules of their own."""
        found = real_function(self.view, root.body) if self.reference != "tflm" else None
        if found is None:
            return None
        codes = found.codes(root.scale, root.zero_point).clip(root.clamp_min, root.clamp_max)
        return operators.table(found.data.data, codes, dialect.name_of(self.view.value(root.body)).split(".")[-1])

    def _requantize(self, root: Root) -> relax.Expr | None:
        data = self._dequantized(root.body)
        if data is None or data.dtype != "int8":
            return None
        return operators.table(data.data, self._requantize_table(data, root), "requantize")
