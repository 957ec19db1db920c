"""The int8 network as Relay text, version 0.0.5, in the form that a TFLite import prints.

The weights, biases and per-channel scales are in the metadata section, as the JSON graph and the base64 NDArray blobs
that TVM writes.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from reference import INT8_MAX, INT8_MIN, Conv2d, Dense, Flatten, Layer, Linear, MaxPool2d, Quantization, Softmax

TVM_VERSION = "0.16.0"
NDARRAY_MAGIC = 0xDD5E40F096B4A13F
DTYPE_CODES = {"int8": (0, 8), "int32": (0, 32), "float32": (2, 32)}

Shape = tuple[int, ...]


def write(path: Path, layers: Sequence[Layer], image_shape: Shape) -> None:
    """Write the module; ``image_shape`` is (H, W, C)."""
    shape = (1, *image_shape)
    printer = _Printer()
    value = "%image"
    parameter = f"%image: {_type(shape, 'int8')} /* ty={_type(shape, 'int8')} span=image:0:0 */"
    for layer in layers:
        printer.span = f"{layer.name}:0:0"
        match layer:
            case Conv2d():
                value, shape = _conv2d(printer, layer, value, shape)
            case Dense():
                value, shape = _dense(printer, layer, value, shape)
            case MaxPool2d():
                n, h, w, c = shape
                shape = (n, h // layer.size, w // layer.size, c)
                window = f"pool_size=[{layer.size}, {layer.size}], strides=[{layer.size}, {layer.size}]"
                value = printer.call(
                    "nn.max_pool2d", [value], f'{window}, padding=[0, 0, 0, 0], layout="NHWC"', shape, "int8"
                )
            case Flatten():
                shape = (shape[0], int(np.prod(shape[1:])))
                value = printer.call("reshape", [value], f"newshape=[-1, {shape[1]}]", shape, "int8")
            case Softmax():
                value = _softmax(printer, layer, value, shape)
    *bindings, result = printer.lines
    lines = [
        '#[version = "0.0.5"]',
        f'def @main({parameter}, output_tensor_names=["scores"]) -> {_type(shape, "int8")} {{',
        *(f"  {line};" for line in bindings),
        # The printer leaves the result of a function unnamed.
        f"  {result.partition(' = ')[2]}",
        "}",
        "",
        "#[metadata]",
        _metadata(printer.constants),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


class _Printer:
    """Graph bindings and constants in the order in which they are printed."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: list[np.ndarray] = []
        self.span = ""

    def call(self, operator: str, arguments: Sequence[str], attributes: str, shape: Shape, dtype: str) -> str:
        """Bind a call and return the name of its value."""
        name = f"%{len(self.lines)}"
        inside = ", ".join([*arguments, attributes] if attributes else arguments)
        self.lines.append(f"{name} = {operator}({inside}) /* ty={_type(shape, dtype)} span={self.span} */")
        return name

    def integer(self, value: int) -> str:
        return f"{value} /* ty=int32 span={self.span} */"

    def real(self, value: np.float32) -> str:
        """A float32 scalar; raises :class:`ValueError` when 6 significant digits do not hold it."""
        text = f"{float(value):g}"
        if np.float32(text) != value:
            raise ValueError(f"scale {value!r} is not the float32 of {text}")
        return f"{text}f /* ty=float32 span={self.span} */"

    def tensor(self, values: np.ndarray) -> str:
        self.constants.append(np.ascontiguousarray(values))
        index = len(self.constants) - 1
        return f"meta[relay.Constant][{index}] /* ty={_type(values.shape, values.dtype.name)} span={self.span} */"


def _conv2d(printer: _Printer, layer: Conv2d, data: str, shape: Shape) -> tuple[str, Shape]:
    channels, kernel_h, kernel_w, _ = layer.weight.shape
    pad = layer.padding
    shape = (shape[0], shape[1] + 2 * pad - kernel_h + 1, shape[2] + 2 * pad - kernel_w + 1, channels)
    # Depthwise weights are (H, W, C, multiplier), which TVM names HWOI.
    layout, axes = ("HWOI", (1, 2, 0, 3)) if layer.depthwise else ("HWIO", (1, 2, 3, 0))
    groups = f"groups={channels}, " if layer.depthwise else ""
    attributes = (
        f"padding=[{pad}, {pad}, {pad}, {pad}], {groups}channels={channels}, kernel_size=[{kernel_h}, {kernel_w}], "
        f'data_layout="NHWC", kernel_layout="{layout}", out_dtype="int32"'
    )
    return _linear(printer, "qnn.conv2d", layer, data, layer.weight.transpose(axes), attributes, shape), shape


def _dense(printer: _Printer, layer: Dense, data: str, shape: Shape) -> tuple[str, Shape]:
    units = layer.weight.shape[0]
    attributes = f'units={units}, out_dtype="int32"'
    return _linear(printer, "qnn.dense", layer, data, layer.weight, attributes, (shape[0], units)), (shape[0], units)


def _linear(
    printer: _Printer, operator: str, layer: Linear, data: str, weight: np.ndarray, attributes: str, shape: Shape
) -> str:
    """The accumulating operator, its bias, the requantization of each channel and the clamp of a ReLU."""
    axis = len(shape) - 1
    arguments = [
        data,
        printer.tensor(weight),
        printer.integer(layer.input.zero_point),
        printer.integer(0),
        printer.real(layer.input.scale),
        printer.tensor(layer.weight_scale),
    ]
    value = printer.call(operator, arguments, attributes, shape, "int32")
    # 1 is the default axis, which the printer omits.
    bias_axis = "" if axis == 1 else f"axis={axis}"
    value = printer.call("nn.bias_add", [value, printer.tensor(layer.bias)], bias_axis, shape, "int32")
    arguments = [
        value,
        printer.tensor(layer.accumulator_scale),
        printer.integer(0),
        *_quantization(printer, layer.output),
    ]
    value = printer.call("qnn.requantize", arguments, f'axis={axis}, out_dtype="int8"', shape, "int8")
    if layer.relu:
        low = max(INT8_MIN, layer.output.zero_point)
        value = printer.call("clip", [value], f"a_min={low}f, a_max={INT8_MAX}f", shape, "int8")
    return value


def _softmax(printer: _Printer, layer: Softmax, data: str, shape: Shape) -> str:
    arguments = [data, *_quantization(printer, layer.input)]
    value = printer.call("qnn.dequantize", arguments, 'out_dtype="float32"', shape, "float32")
    value = printer.call("nn.softmax", [value], "", shape, "float32")
    return printer.call(
        "qnn.quantize", [value, *_quantization(printer, layer.output)], 'out_dtype="int8"', shape, "int8"
    )


def _quantization(printer: _Printer, quantization: Quantization) -> list[str]:
    return [printer.real(quantization.scale), printer.integer(quantization.zero_point)]


def _type(shape: Shape, dtype: str) -> str:
    return f"Tensor[({', '.join(map(str, shape))}), {dtype}]"


def _metadata(constants: Sequence[np.ndarray]) -> str:
    """The JSON graph ``{"relay.Constant": [constants]}``; node 0 is the null object."""
    nodes: list[dict[str, object]] = [
        {"type_key": ""},
        {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]},
        {"type_key": "Array"},
        {
            "type_key": "VirtualDevice",
            "attrs": {"device_type_int": "-1", "memory_scope": "4", "target": "0", "virtual_device_id": "-1"},
        },
        {"type_key": "runtime.String"},
    ]

    def add(node: dict[str, object]) -> int:
        nodes.append(node)
        return len(nodes) - 1

    indices = []
    for index, values in enumerate(constants):
        extents = [
            add({"type_key": "IntImm", "attrs": {"dtype": "int32", "span": "0", "value": str(extent)}})
            for extent in values.shape
        ]
        shape = add({"type_key": "Array", "data": extents})
        tensor_type = add(
            {
                "type_key": "relay.TensorType",
                "attrs": {"dtype": values.dtype.name, "shape": str(shape), "span": "0"},
            }
        )
        attributes = {"_checked_type_": str(tensor_type), "data": str(index), "span": "0", "virtual_device_": "3"}
        indices.append(add({"type_key": "relay.Constant", "attrs": attributes}))
    nodes[2]["data"] = indices
    document = {
        "root": 1,
        "nodes": nodes,
        "b64ndarrays": [base64.b64encode(_ndarray(values)).decode("ascii") for values in constants],
        "attrs": {"tvm_version": TVM_VERSION},
    }
    return json.dumps(document, indent=1)


def _ndarray(values: np.ndarray) -> bytes:
    """TVM's NDArray blob: magic, reserved, device (CPU 0), rank, dtype, shape, size in bytes, elements."""
    code, bits = DTYPE_CODES[values.dtype.name]
    header = struct.pack("<QQiiiBBH", NDARRAY_MAGIC, 0, 1, 0, values.ndim, code, bits, 1)
    shape = struct.pack(f"<{values.ndim}qq", *values.shape, values.nbytes)
    return header + shape + values.astype(values.dtype.newbyteorder("<")).tobytes()
