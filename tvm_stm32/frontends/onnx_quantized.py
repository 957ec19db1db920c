"""Integer operators of ONNX as dequantize, operator, quantize: what the graph stage turns back into integers."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import helper

from .onnx_graph import Graph, Rewriter, attribute

_INT32 = onnx.TensorProto.INT32


def _dequantized(graph: Graph, data: str, scale: str, zero_point: str, axis: int = 1) -> str:
    return graph.emit("DequantizeLinear", data, scale, zero_point, axis=axis)


def _columns(graph: Graph, name: str) -> str:
    """A scale or zero point of one element, or of one an index of the last axis."""
    shape = graph.shape(name)
    return graph.emit("Reshape", name, np.zeros(0, np.int64)) if shape == [1] else name


def _qlinear_matmul(graph: Graph, node: onnx.NodeProto) -> bool:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    shapes = [graph.shape(name) for name in (a, b, a_scale, b_scale)]
    if any(shape is None for shape in shapes):
        return False
    if any(math.prod(shape or []) != 1 for shape in shapes[2:]):
        return False
    left = _dequantized(graph, a, _columns(graph, a_scale), _columns(graph, a_zero))
    right = _dequantized(graph, b, _columns(graph, b_scale), _columns(graph, b_zero))
    product = graph.emit("MatMul", left, right)
    graph.emit_to([node.output[0]], "QuantizeLinear", product, _columns(graph, y_scale), _columns(graph, y_zero))
    return True


def _qlinear_conv(graph: Graph, node: onnx.NodeProto) -> bool:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = node.input
    data = _dequantized(graph, x, _columns(graph, x_scale), _columns(graph, x_zero))
    weight = _dequantized(graph, w, _columns(graph, w_scale), _columns(graph, w_zero), axis=0)
    inputs = [data, weight]
    if bias and bias[0]:
        scale = graph.emit("Mul", graph.emit("Reshape", x_scale, [-1]), graph.emit("Reshape", w_scale, [-1]))
        shape = graph.shape(scale) or [1]
        zero = graph.number(np.zeros(shape, np.int32))
        inputs.append(_dequantized(graph, bias[0], _columns(graph, scale), _columns(graph, zero), axis=0))
    options = {item.name: helper.get_attribute_value(item) for item in node.attribute if item.name in _CONV}
    product = graph.emit("Conv", *inputs, **options)
    graph.emit_to([node.output[0]], "QuantizeLinear", product, _columns(graph, y_scale), _columns(graph, y_zero))
    return True


_CONV = frozenset({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"})


def _conv_integer(graph: Graph, node: onnx.NodeProto) -> bool:
    x, w, x_zero, w_zero = [*node.input, "", ""][:4]

    def centred(data: str, zero: str, by_row: bool) -> str:
        wide = graph.emit("Cast", data, to=_INT32)
        if not zero:
            return wide
        offset = graph.emit("Cast", zero, to=_INT32)
        shape, rank = graph.shape(zero), graph.shape(data)
        if by_row and shape and shape != [1] and rank:
            offset = graph.emit("Reshape", offset, [shape[0], *[1] * (len(rank) - 1)])
        return graph.emit("Sub", wide, offset)

    options = {item.name: helper.get_attribute_value(item) for item in node.attribute if item.name in _CONV}
    graph.emit_to([node.output[0]], "Conv", centred(x, x_zero, False), centred(w, w_zero, True), **options)
    return True


def _block_size(graph: Graph, node: onnx.NodeProto) -> int:
    """Elements of the axis a scale is for; 0 when the node does not quantize by blocks."""
    data, scale = graph.shape(node.input[0]), graph.shape(node.input[1])
    size = int(attribute(node, "block_size", 0))
    if not size and data and scale and len(scale) == len(data) and len(data) > 1:
        axis = attribute(node, "axis", 1) % len(data)
        size = -(-data[axis] // scale[axis])
    return size


def _repeated(graph: Graph, name: str, axis: int, block: int, extent: int) -> str:
    """Each element of a scale or zero point ``block`` times along an axis."""
    shape = graph.shape(name) or []
    axis %= len(shape)
    places = np.arange(extent, dtype=np.int64) // block
    return graph.emit("Gather", name, places, axis=axis)


def _blocked(graph: Graph, node: onnx.NodeProto) -> tuple[str, str] | None:
    block = _block_size(graph, node)
    shape = graph.shape(node.input[0])
    if not block or shape is None:
        return None
    axis = attribute(node, "axis", 1) % len(shape)
    names = [node.input[1], node.input[2] if len(node.input) > 2 else ""]
    scale, zero = (_repeated(graph, name, axis, block, shape[axis]) if name else "" for name in names)
    return scale, zero


def _blocked_dequantize(graph: Graph, node: onnx.NodeProto) -> bool:
    found = _blocked(graph, node)
    if found is None:
        return False
    scale, zero = found
    kind = graph.element(scale)
    value = graph.emit("Cast", node.input[0], to=kind)
    if zero:
        value = graph.emit("Sub", value, graph.emit("Cast", zero, to=kind))
    graph.emit_to([node.output[0]], "Mul", value, scale)
    return True


def _blocked_quantize(graph: Graph, node: onnx.NodeProto) -> bool:
    found = _blocked(graph, node)
    if found is None:
        return False
    scale, zero = found
    kind = graph.element(zero) or int(attribute(node, "output_dtype", 0)) or onnx.TensorProto.UINT8
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if dtype.kind not in "iu" or dtype.itemsize > 2:
        return False
    value = graph.emit("Round", graph.emit("Div", node.input[0], scale))
    if zero:
        value = graph.emit("Add", value, graph.emit("Cast", zero, to=graph.element(scale)))
    limits = np.iinfo(dtype)
    value = graph.emit("Clip", value, np.asarray(limits.min, np.float32), np.asarray(limits.max, np.float32))
    graph.emit_to([node.output[0]], "Cast", value, to=kind)
    return True


QUANTIZED: dict[str, Rewriter] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _blocked_dequantize,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _blocked_quantize,
}
