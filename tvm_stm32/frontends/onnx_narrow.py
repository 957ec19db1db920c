"""Constants of 4 and 2 bits in ONNX models, as constants of 8 bits with the same values."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
from onnx import numpy_helper

_KINDS = onnx.TensorProto
WIDENED = {
    _KINDS.INT4: np.dtype(np.int8),
    _KINDS.INT2: np.dtype(np.int8),
    _KINDS.UINT4: np.dtype(np.uint8),
    _KINDS.UINT2: np.dtype(np.uint8),
}
# To these operators a narrow type is no more than where values come from; QuantizeLinear would clip to it.
_READERS = frozenset({"Cast", "DequantizeLinear", "Identity", "Reshape", "Transpose", "Unsqueeze"})
# Half the range of an unsigned type.
_MIDDLE = {_KINDS.UINT4: 8, _KINDS.UINT2: 2}


def widen(graph: onnx.GraphProto) -> None:
    """Make narrow initializers and Constants int8 or uint8, in place, where their readers go by values alone."""
    tensors = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type in WIDENED}
    for node in graph.node:
        for item in node.attribute if node.op_type == "Constant" and not node.domain else ():
            if item.name == "value" and item.t.data_type in WIDENED:
                tensors[node.output[0]] = item.t
    moved = _signed(graph, {name for name, tensor in tensors.items() if tensor.data_type in _MIDDLE})
    readers = Counter(name for node in graph.node for name in node.input)
    known = Counter(name for node in graph.node if node.op_type in _READERS for name in node.input)
    widened: dict[str, int] = {}
    for name, tensor in tensors.items():
        if readers[name] == known[name]:
            codes = numpy_helper.to_array(tensor).astype(WIDENED[tensor.data_type])
            if name in moved:
                codes = codes.astype(np.int8) - np.int8(_MIDDLE[tensor.data_type])
            tensor.CopyFrom(numpy_helper.from_array(codes, tensor.name))
            widened[name] = tensor.data_type
    for value in (*graph.input, *graph.value_info):
        if value.name in widened:
            value.type.tensor_type.elem_type = widened[value.name]


def _signed(graph: onnx.GraphProto, names: set[str]) -> set[str]:
    """Those of ``names``, unsigned, that only ever meet as the codes and the zero point of a DequantizeLinear.

    Less half their range both are int8, and weights whose zero point is the middle have none.
    """
    while True:
        wrong = set()
        for node in graph.node:
            codes_and_zero = {*node.input[:1], *node.input[2:3]}
            together = node.op_type == "DequantizeLinear" and len(node.input) > 2 and codes_and_zero <= names
            wrong |= set() if together else names.intersection(node.input)
        if not wrong:
            return names
        names = names - wrong
