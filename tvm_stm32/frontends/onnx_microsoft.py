"""Operators of onnxruntime's quantizer (domain ``com.microsoft``) as dequantize, operator, quantize."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .onnx_graph import OPSET, Graph, Rewriter, attribute

_POOL = frozenset({"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"})


def _scalar(graph: Graph, name: str) -> str:
    return graph.emit("Reshape", name, np.zeros(0, np.int64)) if graph.shape(name) == [1] else name


def _zero(graph: Graph, name: str, data: str) -> str:
    """A zero point; one that was left out is 0 in the type of the data."""
    if name:
        return _scalar(graph, name)
    return graph.number(np.zeros((), helper.tensor_dtype_to_np_dtype(graph.element(data))))


def _real(graph: Graph, operands: Sequence[str], axis: int = 1) -> str:
    data, scale, zero = operands
    return graph.emit("DequantizeLinear", data, _scalar(graph, scale), _zero(graph, zero, data), axis=axis)


def _codes(graph: Graph, node: onnx.NodeProto, value: str, scale: str, zero: str, data: str) -> bool:
    graph.emit_to([node.output[0]], "QuantizeLinear", value, _scalar(graph, scale), _zero(graph, zero, data))
    return True


def _inputs(node: onnx.NodeProto, count: int) -> list[str]:
    return [*node.input, *[""] * count][:count]


def _binary(operator: str) -> Rewriter:
    def rewrite(graph: Graph, node: onnx.NodeProto) -> bool:
        given = _inputs(node, 8)
        value = graph.emit(operator, _real(graph, given[:3]), _real(graph, given[3:6]))
        return _codes(graph, node, value, given[6], given[7], given[0])

    return rewrite


def _unary(build: Callable[[Graph, onnx.NodeProto, str], str | None]) -> Rewriter:
    def rewrite(graph: Graph, node: onnx.NodeProto) -> bool:
        given = _inputs(node, 5)
        value = build(graph, node, _real(graph, given[:3]))
        return value is not None and _codes(graph, node, value, given[3], given[4], given[0])

    return rewrite


def _options(node: onnx.NodeProto, names: frozenset[str]) -> dict[str, Any]:
    return {item.name: helper.get_attribute_value(item) for item in node.attribute if item.name in names}


def _average(graph: Graph, node: onnx.NodeProto, value: str) -> str | None:
    if attribute(node, "channels_last", 0):
        return None
    return graph.emit("AveragePool", value, **_options(node, _POOL))


def _global_average(graph: Graph, node: onnx.NodeProto, value: str) -> str | None:
    return None if attribute(node, "channels_last", 0) else graph.emit("GlobalAveragePool", value)


def _leaky(graph: Graph, node: onnx.NodeProto, value: str) -> str:
    return graph.emit("LeakyRelu", value, alpha=attribute(node, "alpha", 0.01))


def _softmax(graph: Graph, node: onnx.NodeProto, value: str) -> str | None:
    axis, shape = attribute(node, "axis", -1), graph.shape(value)
    if attribute(node, "opset", 13) < 13 and (shape is None or axis % len(shape) != len(shape) - 1):
        return None
    return graph.emit("Softmax", value, axis=axis)


def _concat(graph: Graph, node: onnx.NodeProto) -> bool:
    scale, zero, *parts = node.input
    values = [_real(graph, parts[at : at + 3]) for at in range(0, len(parts), 3)]
    value = graph.emit("Concat", *values, axis=attribute(node, "axis", 0))
    return _codes(graph, node, value, scale, zero, parts[0])


def _gemm(graph: Graph, node: onnx.NodeProto) -> bool:
    a, a_scale, a_zero, b, b_scale, b_zero, bias, scale, zero = _inputs(node, 9)
    across = attribute(node, "transB", 0)
    inputs = [_real(graph, [a, a_scale, a_zero]), _real(graph, [b, b_scale, b_zero], axis=0 if across else 1)]
    if bias:
        steps = graph.emit("Mul", graph.emit("Reshape", a_scale, [-1]), graph.emit("Reshape", b_scale, [-1]))
        none = graph.number(np.zeros(graph.shape(steps) or [1], np.int32))
        inputs.append(_real(graph, [bias, steps, none], axis=0))
    options = {
        item.name: helper.get_attribute_value(item) for item in node.attribute if item.name not in (OPSET, "beta")
    }
    value = graph.emit("Gemm", *inputs, **options)
    if not scale:
        graph.emit_to([node.output[0]], "Identity", value)
        return True
    return _codes(graph, node, value, scale, zero, a)


MICROSOFT: dict[str, Rewriter] = {
    "QGemm": _gemm,
    "QLinearAdd": _binary("Add"),
    "QLinearAveragePool": _unary(_average),
    "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": _unary(_global_average),
    "QLinearLeakyRelu": _unary(_leaky),
    "QLinearMul": _binary("Mul"),
    "QLinearSigmoid": _unary(lambda graph, _node, value: graph.emit("Sigmoid", value)),
    "QLinearSoftmax": _unary(_softmax),
}
"""Rewriters by operator of the domain."""
