"""Integer operators from Relay's ``qnn`` calls.

Roots are ``qnn.requantize`` (convolution and dense with bias) and ``qnn.quantize`` of a softmax; elementwise operators
map one to one. What does not match stays a ``qnn`` call and is decomposed by :mod:`.legalize_qnn`.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..numerics import MULTIPLY
from . import dialect, operators
from .affine import dequantized, quantize_parameters
from .operators import Requantization
from .qdq import Emit
from .softmax import real_softmax
from .ssa import Function, constant, dtype_of, shape_of


class QnnRewriter:
    """Rewrites the roots of one function; ``emit`` binds an extra value before the root's binding."""

    def __init__(self, view: Function, emit: Emit) -> None:
        self.view = view
        self.emit = emit

    def rewrite(self, value: relax.Expr) -> relax.Expr | None:
        """The integer call that replaces a binding's value, or None to leave it."""
        name = dialect.name_of(value)
        if not name.startswith("qnn.") or dtype_of(value) != "int8":
            return None
        if name == "qnn.requantize":
            return self._requantize(value)
        if name == "qnn.quantize":
            return self._softmax(value)
        return None

    def _requantize(self, value: relax.Call) -> relax.Expr | None:
        attrs = dialect.attributes(value)
        multiplier, shift = (constant(argument) for argument in value.args[1:3])
        if multiplier is None or shift is None or attrs["rounding"] not in ("upward", "tonearest"):
            return None
        requantization = Requantization(multiplier, shift, int(attrs["output_zero_point"]), str(attrs["rounding"]))
        data = value.args[0]
        last_axis = len(shape_of(data)) - 1
        if multiplier.size > 1 and int(attrs["axis"]) != last_axis:
            return None
        if int(attrs["input_zero_point"]) != 0:
            return self._elementwise(value, requantization, int(attrs["input_zero_point"]))
        accumulators, bias = self._biased(data)
        call = self.view.match(accumulators, "qnn.conv2d", "qnn.dense")
        if call is None:
            return self._elementwise(value, requantization, 0)
        return self._linear(call, bias, requantization)

    def _biased(self, expr: relax.Expr) -> tuple[relax.Expr, np.ndarray | None]:
        call = self.view.match(expr, "relax.add")
        if call is None:
            return expr, None
        bias = constant(self.view.value(call.args[1]))
        width = shape_of(call)[-1]
        if bias is None or bias.dtype != np.int32 or bias.size != width or bias.shape[-1:] != (width,):
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
        if str(attrs["data_layout"]) != "NHWC" or sorted(layout) != list("HIOW"):
            return None
        if groups > 1 and layout == "HWOI":
            # Relay's depthwise weight is (H, W, C, multiplier); output channel = c * multiplier + m.
            weight = weight.reshape(*weight.shape[:2], -1, 1)
        values = weight.transpose([layout.index(axis) for axis in "OHWI"])
        if values.shape[3] * groups != shape_of(data)[3]:
            return None
        return operators.conv2d(
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

    def _elementwise(
        self, value: relax.Call, requantization: Requantization, input_zero_point: int
    ) -> relax.Expr | None:
        """A per-tensor requantize of int8 codes is a table."""
        if dtype_of(value.args[0]) != "int8" or requantization.multiplier.size != 1:
            return None
        codes = operators.identity_codes() - input_zero_point
        scaled = MULTIPLY[requantization.rounding](codes, requantization.multiplier, requantization.shift)
        return operators.table(value.args[0], np.clip(scaled + requantization.zero_point, -128, 127), "requantize")

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
