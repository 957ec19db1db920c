"""TFLite front end: TVM's Relax importer, with checked input and the model's own names."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import tflite
import tvm
from tvm.relax.frontend.tflite import from_tflite
from tvm.relax.frontend.tflite import tflite_frontend as importer

from ..errors import ModelError, UnsupportedOperatorError
from ..model import Model, Quantization, TensorInfo
from . import provenance
from .binding import bind

_DTYPES = {
    tflite.TensorType.FLOAT32: "float32",
    tflite.TensorType.INT8: "int8",
    tflite.TensorType.UINT8: "uint8",
    tflite.TensorType.INT16: "int16",
    tflite.TensorType.INT32: "int32",
    tflite.TensorType.INT64: "int64",
    tflite.TensorType.BOOL: "bool",
}


def load(path: Path) -> Model:
    """Read a TFLite file. Raises :class:`ModelError` with the file, operator and tensor concerned."""
    data = path.read_bytes()
    graph, subgraph = _open(path, data)
    inputs = [_tensor_info(path, subgraph, int(i)) for i in _indices(subgraph.InputsAsNumpy())]
    outputs = [_tensor_info(path, subgraph, int(i)) for i in _indices(subgraph.OutputsAsNumpy())]
    module = _import(path, graph)
    quantized = any(
        subgraph.Tensors(i).Type() in (tflite.TensorType.INT8, tflite.TensorType.INT16)
        and subgraph.Tensors(i).Quantization() is not None
        for i in range(subgraph.TensorsLength())
    )
    return Model(module, inputs, outputs, "tflm" if quantized else "float", provenance(path, data, "tflite"))


class _NamingConverter(importer.OperatorConverter):  # type: ignore[misc]  # TVM is not typed
    """The importer's converter, binding each operator's output under its tensor's name."""

    def convert_op_to_relax(self) -> None:
        for index in range(self.subgraph.OperatorsLength()):
            op = self.subgraph.Operators(index)
            code = self.get_op_code_str(op)
            outputs = self.get_output_tensors(op)
            name = _tensor_name(self.subgraph, outputs[0].tensor_idx) if outputs else f"operator {index}"
            try:
                result = self.convert_map[code](op=op)
                if result is None:
                    continue
                result = self.bb.normalize(result)
                if len(outputs) == 1:
                    if isinstance(result, tvm.relax.Call):
                        result = bind(self.bb, result, name)
                    self.exp_tab.set_expr(name, result)
                else:
                    for position, tensor in enumerate(outputs):
                        self.exp_tab.set_expr(_tensor_name(self.subgraph, tensor.tensor_idx), result[position])
            except ModelError:
                raise
            except Exception as error:  # the importer raises whatever a malformed attribute leads to
                raise UnsupportedOperatorError(
                    f"operator {code} that makes '{name}' (operator {index} of the model) cannot be imported",
                    why=_first_line(error),
                ) from error


def _import(path: Path, graph: Any) -> tvm.IRModule:
    try:
        module = from_tflite(graph, op_converter=_NamingConverter)
    except ModelError as error:
        raise type(error)(f"{path.name}: {error.message}", why=error.why, hint=error.hint) from error
    except Exception as error:
        if "NotImplemented" in type(error).__name__:
            raise UnsupportedOperatorError(
                f"{path.name}: the TFLite importer cannot read it", why=_first_line(error)
            ) from error
        raise ModelError(f"{path.name}: malformed TFLite model", why=_first_line(error)) from error
    return tvm.IRModule({"main": module["main"].without_attr("params").without_attr("num_input")})


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def _open(path: Path, data: bytes) -> tuple[Any, Any]:
    """The FlatBuffer's root and its first subgraph, once every table and vector of it lies inside the file."""
    if len(data) < 8 or data[4:8] != b"TFL3":
        raise ModelError(
            f"'{path.name}' is not a TFLite model",
            why="the identifier 'TFL3' is missing at byte 4",
            hint="check that the file is complete (Git LFS pointers and interrupted downloads look like this)",
        )
    try:
        graph = tflite.Model.GetRootAsModel(data, 0)
        if graph.SubgraphsLength() < 1:
            raise ModelError(f"{path.name}: the model has no subgraph")
        _check_structure(path, graph, len(data))
        return graph, graph.Subgraphs(0)
    except (struct.error, IndexError, ValueError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ModelError(
            f"{path.name}: truncated or corrupt TFLite model",
            why=f"an offset leads outside the file's {len(data)} bytes ({_first_line(error)})",
            hint="export or download the file again",
        ) from error


def _check_structure(path: Path, graph: Any, size: int) -> None:
    buffers = graph.BuffersLength()
    if buffers * 4 > size or graph.OperatorCodesLength() * 4 > size:
        raise ValueError("a vector longer than the file")
    for index in range(buffers):
        length = graph.Buffers(index).DataLength()
        if length > size or (length and len(graph.Buffers(index).DataAsNumpy()) != length):
            raise ValueError(f"buffer {index} claims {length} bytes")
    for position in range(graph.SubgraphsLength()):
        subgraph = graph.Subgraphs(position)
        tensors = subgraph.TensorsLength()
        if max(tensors, subgraph.OperatorsLength()) * 4 > size:
            raise ValueError("a vector longer than the file")
        for index in range(tensors):
            _check_tensor(path, graph, subgraph, index)
        for index in range(subgraph.OperatorsLength()):
            op = subgraph.Operators(index)
            if op.OpcodeIndex() >= graph.OperatorCodesLength():
                raise ValueError(f"operator {index} has no operator code")
            for tensor in [*_indices(op.InputsAsNumpy()), *_indices(op.OutputsAsNumpy())]:
                if tensor >= tensors:
                    raise ValueError(f"operator {index} uses tensor {tensor} of {tensors}")
        for tensor in [*_indices(subgraph.InputsAsNumpy()), *_indices(subgraph.OutputsAsNumpy())]:
            if not 0 <= tensor < tensors:
                raise ValueError(f"model input or output {tensor} of {tensors} tensors")


def _check_tensor(path: Path, graph: Any, subgraph: Any, index: int) -> None:
    tensor = subgraph.Tensors(index)
    name = _tensor_name(subgraph, index)
    if tensor.Buffer() >= graph.BuffersLength():
        raise ValueError(f"tensor '{name}' has no buffer")
    shape = _indices(tensor.ShapeAsNumpy())
    signature = _indices(tensor.ShapeSignatureAsNumpy())
    if any(extent < 0 for extent in shape):
        raise ModelError(
            f"{path.name}: tensor '{name}' has a dynamic shape {tuple(shape)}",
            why="static memory is planned from fixed shapes",
            hint="export the model with fixed input shapes",
        )
    if any(extent < 0 for extent in signature[1:]) and tensor.Buffer() == 0:
        raise ModelError(
            f"{path.name}: tensor '{name}' has a dynamic shape (signature {tuple(signature)})",
            why="static memory is planned from fixed shapes",
            hint="export the model with fixed input shapes",
        )
    length = graph.Buffers(tensor.Buffer()).DataLength()
    dtype = _DTYPES.get(tensor.Type())
    if length and dtype is not None:
        needed = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize if shape else np.dtype(dtype).itemsize
        if length < needed:
            raise ValueError(f"tensor '{name}' needs {needed} bytes and its buffer has {length}")


def _indices(vector: Any) -> list[int]:
    """A FlatBuffer integer vector as a list; an absent vector reads as 0."""
    return [int(value) for value in vector] if isinstance(vector, np.ndarray) else []


def _tensor_name(subgraph: Any, index: int) -> str:
    return str(importer.get_tensor_name(subgraph, index))


def _tensor_info(path: Path, subgraph: Any, index: int) -> TensorInfo:
    tensor = subgraph.Tensors(index)
    name = _tensor_name(subgraph, index)
    dtype = _DTYPES.get(tensor.Type())
    if dtype is None:
        kinds = {value: key for key, value in vars(tflite.TensorType).items() if isinstance(value, int)}
        raise ModelError(
            f"{path.name}: tensor '{name}' has element type {kinds.get(tensor.Type(), tensor.Type())}",
            why="inputs and outputs are " + ", ".join(_DTYPES.values()),
        )
    return TensorInfo(name, tuple(_indices(tensor.ShapeAsNumpy())), dtype, _quantization(tensor))


def _quantization(tensor: Any) -> Quantization | None:
    parameters = tensor.Quantization()
    scales = parameters.ScaleAsNumpy() if parameters is not None else None
    if not isinstance(scales, np.ndarray):
        return None
    zero_points = _indices(parameters.ZeroPointAsNumpy()) or [0] * len(scales)
    axis = parameters.QuantizedDimension() if len(scales) > 1 else -1
    return Quantization(tuple(float(s) for s in scales), tuple(zero_points), axis)
