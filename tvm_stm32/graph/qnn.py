"""Integer operators from Relay's ``qnn`` calls.

Roots are ``qnn.requantize`` (convolution and dense with bias) and ``qnn.quantize`` of a softmax; elementwise operators
map one to one. Convolutions in NCHW are computed in NHWC between transposes, which :mod:`.peephole` cancels. What does
not match stays a ``qnn`` call and is decomposed by :mod:`.legalize_qnn`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from ..numerics import MULTIPLY
from . import dialect, operators
from .affine import dequantized, quantize_parameters
from .operators import Requantization
from .qdq import Emit
from .softmax import real_softmax
from .ssa import Function, constant, dtype_of, shape_of

_TO_NHWC, _TO_NCHW = [0, 2, 3, 1], [0, 3, 1, 2]
# Multiplier and shift that leave an integer as it is.
_IDENTITY = (1 << 30, 1)
# Zero points beyond this, which no 8-bit quantization has, could overflow a product of two operands.
_LARGEST_ZERO_POINT = 1 << 12


class QnnRewriter:
    """Rewrites the roots of one function; ``emit`` binds an extra value before the root's binding."""

    def __init__(self, view: Function, emit: Emit) -> None:
        self.view = view
        self.emit = emit
        self._rules: dict[str, Callable[[relax.Call], relax.Expr | None]] = {
            "qnn.requantize": self._requantize,
            "qnn.quantize": self._softmax,
            "qnn.table": self._table,
            "qnn.add": self._sum,
            "qnn.subtract": self._sum,
            "qnn.mul": self._product,
            "qnn.concatenate": self._concatenate,
            "relax.clip": self._clip,
        }

    def rewrite(self, value: relax.Expr) -> relax.Expr | None:
        """The integer call that replaces a binding's value, or None to leave it."""
        rule = self._rules.get(dialect.name_of(value))
        return None if rule is None or dtype_of(value) != "int8" else rule(value)

    def _clip(self, value: relax.Call) -> relax.Expr | None:
        """A clamp behind a transpose goes in front of it, to the operator it belongs to."""
        moved = self.view.match(value.args[0], "relax.permute_dims")
        if moved is None or moved.attrs.axes is None:
            return None
        clamped = self.emit(relax.Call(value.op, [moved.args[0], *value.args[1:]], value.attrs, value.ty_args))
        return relax.op.permute_dims(clamped, [int(axis) for axis in moved.attrs.axes])

    def _table(self, value: relax.Call) -> relax.Expr | None:
        entries = constant(value.args[1])
        if entries is None or dtype_of(value.args[0]) != "int8":
            return None
        return operators.table(value.args[0], entries, str(dialect.attributes(value).get("label", "table")))

    def _sum(self, value: relax.Call) -> relax.Expr | None:
        """Each operand is scaled to the output, then they are added: a second scaling that changes nothing."""
        attrs = dialect.attributes(value)
        options: dict[str, int] = {}
        for side in ("lhs", "rhs"):
            scaling = (int(attrs[f"{side}_multiplier"]), int(attrs[f"{side}_shift"]))
            zero_point = int(attrs[f"{side}_zero_point"])
            multiplier, shift = _IDENTITY if attrs[f"{side}_identity"] else scaling
            options |= {
                f"{side}_multiplier": multiplier,
                f"{side}_shift": shift,
                f"{side}_zero_point": zero_point,
            }
        name = "q.add" if dialect.name_of(value) == "qnn.add" else "q.sub"
        return self._binary(value, name, _IDENTITY, {"left_shift": 0, **options})

    def _product(self, value: relax.Call) -> relax.Expr | None:
        attrs = dialect.attributes(value)
        zero_points = {key: int(attrs[key]) for key in ("lhs_zero_point", "rhs_zero_point")}
        scaling = (int(attrs["multiplier"]), int(attrs["shift"]))
        return self._binary(value, "q.mul", scaling, zero_points)

    def _binary(
        self, value: relax.Call, name: str, scaling: tuple[int, int], options: dict[str, int]
    ) -> relax.Expr | None:
        if any(dtype_of(argument) != "int8" for argument in value.args):
            return None
        if max(abs(options["lhs_zero_point"]), abs(options["rhs_zero_point"])) > _LARGEST_ZERO_POINT:
            return None
        return dialect.call(
            name,
            list(value.args),
            shape_of(value),
            "int8",
            multiplier=scaling[0],
            shift=scaling[1],
            output_zero_point=int(dialect.attributes(value)["output_zero_point"]),
            rounding="upward",
            clamp_min=-128,
            clamp_max=127,
            **options,
        )

    def _concatenate(self, value: relax.Call) -> relax.Expr | None:
        attrs = dialect.attributes(value)
        parts = []
        for index, part in enumerate(value.args):
            if dtype_of(part) != "int8":
                return None
            if not attrs["identities"][index]:
                multiplier, shift = (np.array([attrs[key][index]]) for key in ("multipliers", "shifts"))
                rescale = Requantization(multiplier, shift, int(attrs["output_zero_point"]), "upward")
                entries = _rescaled(rescale, int(attrs["zero_points"][index]))
                part = self.emit(operators.table(part, entries, "requantize"))
            parts.append(part)
        return relax.op.concat(parts, int(attrs["axis"]))

    def _requantize(self, value: relax.Call) -> relax.Expr | None:
        attrs = dialect.attributes(value)
        multiplier, shift = (constant(argument) for argument in value.args[1:3])
        if multiplier is None or shift is None or attrs["rounding"] not in ("upward", "tonearest"):
            return None
        requantization = Requantization(multiplier, shift, int(attrs["output_zero_point"]), str(attrs["rounding"]))
        data = value.args[0]
        if int(attrs["input_zero_point"]) != 0:
            return self._elementwise(value, requantization, int(attrs["input_zero_point"]))
        accumulators, bias = self._biased(data)
        call = self.view.match(accumulators, "qnn.conv2d", "qnn.dense")
        if call is None:
            return self._elementwise(value, requantization, 0)
        if multiplier.size > 1 and int(attrs["axis"]) != _channel_axis(call):
            return None
        return self._linear(call, bias, requantization)

    def _biased(self, expr: relax.Expr) -> tuple[relax.Expr, np.ndarray | None]:
        call = self.view.match(expr, "relax.add")
        if call is None:
            return expr, None
        linear = self.view.match(call.args[0], "qnn.conv2d", "qnn.dense")
        bias = constant(self.view.value(call.args[1]))
        if linear is None or bias is None or bias.dtype != np.int32:
            return expr, None
        shape = [1] * len(shape_of(linear))
        shape[_channel_axis(linear)] = shape_of(linear)[_channel_axis(linear)]
        if [1] * (len(shape) - bias.ndim) + list(bias.shape) != shape:
            return expr, None
        return call.args[0], bias.reshape(-1)

    def _linear(self, call: relax.Call, bias: np.ndarray | None, requantization: Requantization) -> relax.Expr | None:
        attrs = dialect.attributes(call)
        data, weight = call.args[0], constant(self.view.value(call.args[1]))
        if weight is None or weight.dtype != np.int8 or dtype_of(data) != "int8":
            return None
        if int(np.max(np.abs(attrs["kernel_zero_point"]))) != 0:
            return None
        input_zero_point = int(attrs["input_zero_point"])
        if dialect.name_of(call) == "qnn.dense":
            biases = np.zeros(weight.shape[0], np.int32) if bias is None else bias
            return operators.dense(
                data,
                weight,
                biases,
                requantization,
                input_zero_point=input_zero_point,
                out_shape=shape_of(call),
            )
        layout = str(attrs["kernel_layout"])
        groups = int(attrs["groups"])
        nchw = str(attrs["data_layout"]) == "NCHW"
        if sorted(layout) != list("HIOW"):
            return None
        if groups > 1 and layout == "HWOI":
            # Relay's depthwise weight is (H, W, C, multiplier); output channel = c * multiplier + m.
            weight = weight.reshape(*weight.shape[:2], -1, 1)
        values = weight.transpose([layout.index(axis) for axis in "OHWI"])
        if values.shape[3] * groups != shape_of(data)[1 if nchw else 3]:
            return None
        if nchw:
            data = self.emit(relax.op.permute_dims(data, _TO_NHWC))
        result = operators.conv2d(
            data,
            values,
            np.zeros(values.shape[0], np.int32) if bias is None else bias,
            requantization,
            strides=attrs["strides"],
            padding=attrs["padding"],
            dilation=attrs["dilation"],
            groups=groups,
            input_zero_point=input_zero_point,
        )
        return relax.op.permute_dims(self.emit(result), _TO_NCHW) if nchw else result

    def _elementwise(
        self, value: relax.Call, requantization: Requantization, input_zero_point: int
    ) -> relax.Expr | None:
        """A per-tensor requantize of int8 codes is a table."""
        if dtype_of(value.args[0]) != "int8" or requantization.multiplier.size != 1:
            return None
        return operators.table(value.args[0], _rescaled(requantization, input_zero_point), "requantize")

    def _softmax(self, value: relax.Call) -> relax.Expr | None:
        parameters = quantize_parameters(value)
        call = self.view.match(value.args[0], "relax.nn.softmax")
        if parameters is None or call is None:
            return None
        data = dequantized(self.view, call.args[0])
        rank = len(shape_of(call))
        if data is None or data.dtype != "int8" or int(call.attrs.axis) % rank != rank - 1:
            return None
        return real_softmax(call, data, *parameters)


def _rescaled(requantization: Requantization, input_zero_point: int) -> np.ndarray:
    """The table of a per-tensor requantize."""
    codes = operators.identity_codes() - input_zero_point
    scaled = MULTIPLY[requantization.rounding](codes, requantization.multiplier, requantization.shift)
    return np.asarray(np.clip(scaled + requantization.zero_point, -128, 127))


def _channel_axis(call: relax.Call) -> int:
    """The axis of output channels of a ``qnn.conv2d`` or ``qnn.dense``."""
    nchw = str(dialect.attributes(call).get("data_layout", "")) == "NCHW"
    return 1 if nchw else len(shape_of(call)) - 1
