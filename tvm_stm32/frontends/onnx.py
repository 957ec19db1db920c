"""ONNX front end: TVM's Relax importer, with checked input and the model's own names."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend as importer

from ..errors import ModelError, UnsupportedOperatorError
from ..model import Model, Quantization, TensorInfo
from . import provenance
from .binding import bind

_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def load(path: Path) -> Model:
    """Read an ONNX file. Raises :class:`ModelError` with the file, node and tensor concerned."""
    data = path.read_bytes()
    graph_model = _parse(path, data)
    graph = graph_model.graph
    notes: list[str] = []
    constants = {tensor.name for tensor in graph.initializer}
    free = [value for value in graph.input if value.name not in constants]
    shapes = {value.name: _static_shape(path, value, notes) for value in free}
    module = _import(path, graph_model, shapes)
    quantizers = _quantizers(graph)
    inputs = [
        TensorInfo(value.name, tuple(shapes[value.name]), _dtype(path, value), quantizers.get(value.name))
        for value in free
    ]
    outputs = _outputs(path, graph, module, quantizers)
    quantized = any(node.op_type in (_QUANTIZE, _DEQUANTIZE) for node in graph.node)
    return Model(module, inputs, outputs, "onnx" if quantized else "float", provenance(path, data, "onnx"), notes)


class _NamingImporter(importer.ONNXGraphImporter):  # type: ignore[misc]  # TVM is not typed
    """The importer, binding each operator's result under its node's name and naming the node in errors."""

    def _convert_operator(self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> Any:
        name = attrs["tvm_custom"]["name"] or op_name
        try:
            result = super()._convert_operator(op_name, inputs, attrs, opset)
        except Exception as error:  # the importer raises whatever a malformed attribute leads to
            raise UnsupportedOperatorError(
                f"operator {op_name} of node '{name}' cannot be imported", why=_last_line(error)
            ) from error
        if isinstance(result, relax.Call):
            result = self.bb.normalize(result)
        if isinstance(result, relax.Var | relax.Call) and isinstance(result.ty, relax.TensorType):
            return bind(self.bb, result, name)
        return result


def _parse(path: Path, data: bytes) -> onnx.ModelProto:
    graph_model = onnx.ModelProto()
    try:
        graph_model.ParseFromString(data)
        external = [t.name for t in graph_model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
        if external:
            raise ModelError(
                f"{path.name}: tensor '{external[0]}' keeps its data in another file",
                why="external data is not read",
                hint="save the model with its weights inside: onnx.save(model, file, save_as_external_data=False)",
            )
        if not graph_model.graph.node:
            raise ModelError(f"'{path.name}' is not an ONNX model", why="it holds no graph with nodes")
        onnx.checker.check_model(graph_model)
    except ModelError:
        raise
    except Exception as error:  # protobuf and checker have no common base class
        raise ModelError(
            f"{path.name}: truncated, corrupt or invalid ONNX model",
            why=_last_line(error),
            hint="export the model again, and check it with onnx.checker.check_model",
        ) from error
    return graph_model


def _static_shape(path: Path, value: onnx.ValueInfoProto, notes: list[str]) -> list[int]:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        raise ModelError(
            f"{path.name}: input '{value.name}' has no shape",
            why="static memory is planned from fixed shapes",
            hint="export the model with fixed input shapes",
        )
    shape: list[int] = []
    for position, dim in enumerate(kind.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value > 0:
            shape.append(dim.dim_value)
        elif position == 0 and not dim.HasField("dim_value"):
            notes.append(f"input '{value.name}': the free batch dimension is 1")
            shape.append(1)
        else:
            label = dim.dim_param or "?"
            raise ModelError(
                f"{path.name}: input '{value.name}' has a dynamic shape (dimension {position} is '{label}')",
                why="static memory is planned from fixed shapes",
                hint="export the model with fixed input shapes",
            )
    return shape


def _dtype(path: Path, value: onnx.ValueInfoProto) -> str:
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    except KeyError:
        raise ModelError(f"{path.name}: tensor '{value.name}' has an element type without a C form") from None


def _import(path: Path, graph_model: onnx.ModelProto, shapes: dict[str, list[int]]) -> tvm.IRModule:
    opset = next((entry.version for entry in graph_model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    _check_operators(path, graph_model)
    for node in graph_model.graph.node:
        node.name = node.name or next(iter(node.output), "")
    dtypes = {value.name: _dtype(path, value) for value in graph_model.graph.input if value.name in shapes}
    try:
        # The importer prints a line of its own when an operator fails.
        with contextlib.redirect_stdout(io.StringIO()):
            module = _NamingImporter(shapes, dtypes, sanitize=False).from_onnx(graph_model.graph, opset)
    except ModelError as error:
        raise type(error)(f"{path.name}: {error.message}", why=error.why, hint=error.hint) from error
    except Exception as error:
        raise ModelError(f"{path.name}: the ONNX importer cannot read it", why=_last_line(error)) from error
    return tvm.IRModule({"main": module["main"].without_attr("num_input")})


def _check_operators(path: Path, graph_model: onnx.ModelProto) -> None:
    known = set(importer._get_convert_map()) | {"If"}
    for node in graph_model.graph.node:
        if node.op_type not in known or node.domain not in ("", "ai.onnx", "com.microsoft"):
            outputs = ", ".join(node.output)
            raise UnsupportedOperatorError(
                f"{path.name}: operator {node.domain + '.' if node.domain else ''}{node.op_type} "
                f"of node '{node.name or outputs}' is not supported",
                why="the ONNX importer does not know it",
            )


def _quantizers(graph: onnx.GraphProto) -> dict[str, Quantization]:
    """Per-tensor quantization of graph inputs and outputs, from the Q and DQ nodes they touch."""
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    found: dict[str, Quantization] = {}
    for node in graph.node:
        if node.op_type not in (_QUANTIZE, _DEQUANTIZE) or node.input[1] not in values:
            continue
        scale = values[node.input[1]]
        zero = values.get(node.input[2]) if len(node.input) > 2 else None
        if scale.size != 1:
            continue
        name = node.output[0] if node.op_type == _QUANTIZE else node.input[0]
        zero_point = int(zero.reshape(-1)[0]) if zero is not None else 0
        found[name] = Quantization((float(scale.reshape(-1)[0]),), (zero_point,))
    return found


def _outputs(
    path: Path, graph: onnx.GraphProto, module: tvm.IRModule, quantizers: dict[str, Quantization]
) -> list[TensorInfo]:
    result = module["main"].ret_ty
    kinds = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    outputs = []
    for value, kind in zip(graph.output, kinds, strict=True):
        try:
            shape = tuple(int(extent) for extent in kind.shape)
        except (TypeError, ValueError, AttributeError):
            raise ModelError(
                f"{path.name}: output '{value.name}' has a dynamic shape",
                why="static memory is planned from fixed shapes",
                hint="export the model with fixed input shapes",
            ) from None
        outputs.append(TensorInfo(value.name, shape, str(kind.dtype), quantizers.get(value.name)))
    return outputs


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
