"""ONNX files of the network: float32, and int8 as QuantizeLinear/DequantizeLinear around standard operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from reference import Conv2d, Dense, Flatten, Layer, Linear, MaxPool2d, Quantization, Softmax

OPSET = 17
IR_VERSION = 8
IMAGE_SHAPE = (1, 1, 8, 8)
SCORES_SHAPE = (1, 10)


class _Graph:
    """Nodes and initializers in the order in which they are added."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, values: np.ndarray) -> str:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, operator: str, inputs: Sequence[str], output: str, **attributes: int | Sequence[int]) -> str:
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=output, **attributes))
        return output

    def write(self, path: Path, element_type: int) -> None:
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info("image", element_type, IMAGE_SHAPE)],
            [helper.make_tensor_value_info("scores", element_type, SCORES_SHAPE)],
            self.initializers,
        )
        model = helper.make_model(
            graph,
            producer_name="examples/digits",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        onnx.checker.check_model(model, full_check=True)
        path.write_bytes(model.SerializeToString(deterministic=True))


def write_float(path: Path, parameters: Mapping[str, np.ndarray]) -> None:
    """The float32 network, input ``image`` in [0, 1]; ``parameters`` as for :func:`quantize.quantize_network`."""
    graph = _Graph("digits_float")

    def operator(kind: str, key: str, data: str, **attributes: int | Sequence[int]) -> str:
        weight = graph.constant(f"{key}.weight", parameters[f"{key}.weight"])
        bias = graph.constant(f"{key}.bias", parameters[f"{key}.bias"])
        return graph.node(kind, [data, weight, bias], key, **attributes)

    def conv(key: str, data: str, padding: int, group: int = 1) -> str:
        kernel = parameters[f"{key}.weight"].shape[2:]
        out = operator("Conv", key, data, kernel_shape=kernel, pads=[padding] * 4, group=group)
        return graph.node("Relu", [out], f"{key}.relu")

    stem = conv("stem", "image", 1)
    depthwise = conv("depthwise", stem, 1, group=parameters["depthwise.weight"].shape[0])
    pointwise = conv("pointwise", depthwise, 0)
    pool = graph.node("MaxPool", [pointwise], "pool", kernel_shape=[2, 2], strides=[2, 2])
    flatten = graph.node("Flatten", [conv("head", pool, 0)], "flatten", axis=1)
    graph.node("Softmax", [operator("Gemm", "classifier", flatten, transB=1)], "scores", axis=-1)
    graph.write(path, TensorProto.FLOAT)


def write_int8(path: Path, layers: Sequence[Layer]) -> None:
    """The int8 network: int8 ``image`` (NCHW) and ``scores``, a QuantizeLinear after every layer."""
    graph = _Graph("digits_int8")
    codes = "image"
    current = next(layer.input for layer in layers if isinstance(layer, Linear))
    channels = 0
    for layer in layers:
        data = _convert(graph, "DequantizeLinear", codes, f"{layer.name}.dequantized", current)
        match layer:
            case Conv2d():
                out = _conv2d(graph, layer, data)
                channels = layer.weight.shape[0]
            case Dense():
                out = _dense(graph, layer, data, channels)
            case MaxPool2d():
                out = graph.node(
                    "MaxPool", [data], f"{layer.name}.max", kernel_shape=[layer.size] * 2, strides=[layer.size] * 2
                )
            case Flatten():
                out = graph.node("Flatten", [data], f"{layer.name}.flat", axis=1)
            case Softmax():
                out = graph.node("Softmax", [data], f"{layer.name}.softmax", axis=-1)
        current = getattr(layer, "output", current)
        codes = _convert(graph, "QuantizeLinear", out, layer.name, current)
    graph.write(path, TensorProto.INT8)


def _convert(graph: _Graph, operator: str, data: str, output: str, quantization: Quantization) -> str:
    scale = graph.constant(f"{output}.scale", np.array(quantization.scale, np.float32))
    zero_point = graph.constant(f"{output}.zero_point", np.array(quantization.zero_point, np.int8))
    return graph.node(operator, [data, scale, zero_point], output)


def _parameters(graph: _Graph, layer: Linear, weight: np.ndarray, axis: int) -> tuple[str, str]:
    """Dequantized weight and bias; ``axis`` is the weight's output channel."""
    constants = []
    for kind, values, scale, channel in (
        ("weight", weight, layer.weight_scale, axis),
        ("bias", layer.bias, layer.accumulator_scale, 0),
    ):
        name = f"{layer.name}.{kind}"
        codes = graph.constant(f"{name}.codes", values)
        scales = graph.constant(f"{name}.scale", scale)
        zero_point = graph.constant(f"{name}.zero_point", np.zeros(scale.shape, values.dtype))
        constants.append(graph.node("DequantizeLinear", [codes, scales, zero_point], name, axis=channel))
    return constants[0], constants[1]


def _conv2d(graph: _Graph, layer: Conv2d, data: str) -> str:
    weight, bias = _parameters(graph, layer, layer.weight.transpose(0, 3, 1, 2), 0)
    group = layer.weight.shape[0] if layer.depthwise else 1
    out = graph.node(
        "Conv",
        [data, weight, bias],
        f"{layer.name}.sum",
        kernel_shape=layer.weight.shape[1:3],
        pads=[layer.padding] * 4,
        group=group,
    )
    return graph.node("Relu", [out], f"{layer.name}.relu") if layer.relu else out


def _dense(graph: _Graph, layer: Dense, data: str, channels: int) -> str:
    """Gemm over a flattened NCHW tensor: the inputs of the weight are those of NHWC in another order."""
    units, inputs = layer.weight.shape
    weight = layer.weight.reshape(units, inputs // channels, channels).transpose(2, 1, 0).reshape(inputs, units)
    return graph.node("Gemm", [data, *_parameters(graph, layer, weight, 1)], f"{layer.name}.sum")
