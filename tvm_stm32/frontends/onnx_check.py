"""ONNX files before the importer sees them: texts, data kept elsewhere, sizes, operators, and ONNX's own checker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from ..errors import ModelError, UnsupportedOperatorError, quoted
from .limits import IO_DTYPES, check_dtype, check_shape
from .onnx_external import read_external
from .onnx_microsoft import MICROSOFT
from .onnx_narrow import widen
from .onnx_simplify import has_definition, importable
from .reasons import reason

_DOMAINS = ("", "ai.onnx", "com.microsoft")


def parse(file: str, data: bytes, folder: Path) -> onnx.ModelProto:
    """The model with all its data, once ONNX's checker accepts it. Raises :class:`ModelError`.

    Data of other files is read from ``folder``, the model's own.
    """
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        tensors = [message for message in messages(model) if isinstance(message, onnx.TensorProto)]
        for tensor in tensors:
            _check_tensor(file, tensor)
        read_external(file, folder, [tensor for tensor in tensors if _is_external(tensor)])
        if not model.graph.node and not model.graph.output:
            raise ModelError(f"'{file}' is not an ONNX model", why="it holds no graph with nodes")
        # First, for it names operator and node; the checker would only say that the operator is not registered.
        _check_operators(file, model)
        onnx.checker.check_model(model)
        widen(model.graph)
    except ModelError:
        raise
    except Exception as error:  # protobuf and checker have no common base class
        raise ModelError(
            f"{file}: truncated, corrupt or invalid ONNX model",
            why=reason(error),
            hint="export the model again, and check it with onnx.checker.check_model",
        ) from error
    return model


def messages(message: Any) -> Iterator[Any]:
    """``message`` and every message in it. Raises :class:`UnicodeDecodeError` for text that is no UTF-8."""
    open_ = [message]
    while open_:
        current = open_.pop()
        yield current
        for field, value in current.ListFields():
            if field.type == field.TYPE_MESSAGE:
                open_ += [value] if hasattr(value, "ListFields") else list(value)
            elif field.type == field.TYPE_STRING:
                for text in [value] if isinstance(value, str | bytes) else value:
                    # Some protobuf implementations hand out bytes instead of raising.
                    if isinstance(text, bytes):
                        text.decode("utf-8")


def _is_external(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data)


def _check_tensor(file: str, tensor: onnx.TensorProto) -> None:
    what = f"tensor {quoted(tensor.name)}"
    if any(extent < 0 for extent in tensor.dims):
        raise ModelError(f"{file}: {what} has the shape {list(tensor.dims)}", why="a dimension is negative")
    check_shape(file, what, [extent or 1 for extent in tensor.dims])


def fix_shapes(file: str, inputs: Sequence[onnx.ValueInfoProto], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write the user's shapes into the model. Raises :class:`ModelError` for names and ranks that do not fit."""
    by_name = {value.name: value for value in inputs}
    for name, shape in shapes.items():
        if name not in by_name:
            raise ModelError(
                f"{file} has no input {quoted(name)}", hint="its inputs are " + ", ".join(map(quoted, by_name))
            )
        kind = by_name[name].type.tensor_type
        if kind.HasField("shape") and len(kind.shape.dim) != len(shape):
            raise ModelError(f"{file}: input {quoted(name)} has {len(kind.shape.dim)} dimensions, not {len(shape)}")
        declared = [dim.dim_value if dim.dim_value > 0 else None for dim in kind.shape.dim]
        if any(own not in (None, extent) for own, extent in zip(declared, shape, strict=False)):
            raise ModelError(
                f"{file}: input {quoted(name)} cannot have shape {list(shape)}",
                why=f"the model declares [{', '.join('?' if own is None else str(own) for own in declared)}]",
                hint="--input-shape gives the dimensions that the model leaves open",
            )
        del kind.shape.dim[:]
        for extent in shape:
            kind.shape.dim.add().dim_value = extent


def input_shape(file: str, value: onnx.ValueInfoProto, notes: list[str]) -> list[int]:
    """Shape of a graph input; a free batch dimension is 1, noted in ``notes``. Raises :class:`ModelError`."""
    kind = value.type.tensor_type
    what = f"input {quoted(value.name)}"
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        raise ModelError(
            f"{file}: {what} has no shape" if value.type.HasField("tensor_type") else f"{file}: {what} is no tensor",
            why="static memory is planned from fixed shapes",
            hint="export the model with fixed input shapes",
        )
    shape: list[int] = []
    for position, dim in enumerate(kind.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            shape.append(dim.dim_value)
        elif position == 0 and (not dim.HasField("dim_value") or dim.dim_value == -1):
            notes.append(f"{what}: the free batch dimension is 1")
            shape.append(1)
        else:
            label = dim.dim_param or (dim.dim_value if dim.HasField("dim_value") else "?")
            raise ModelError(
                f"{file}: {what} has a dynamic shape (dimension {position} is '{label}')",
                why="static memory is planned from fixed shapes",
                hint=f"fix it: --input-shape {value.name}:1,... (or export the model with fixed input shapes)",
            )
    check_shape(file, what, shape)
    return shape


def element_type(file: str, value: onnx.ValueInfoProto) -> str:
    """Element type of a graph input as numpy spells it. Raises :class:`ModelError`."""
    number = value.type.tensor_type.elem_type
    names = {int(item): str(name).lower() for name, item in onnx.TensorProto.DataType.items()}
    try:
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(number))
    except KeyError:
        dtype = str(number)
    check_dtype(file, f"input {quoted(value.name)}", dtype if dtype in IO_DTYPES else names.get(number, dtype))
    return dtype


def _check_operators(file: str, model: onnx.ModelProto) -> None:
    """Every operator is one that may become importable: control flow and functions are written out later."""
    known = importable() | {"If", "Loop", "Scan", "MelWeightMatrix"}  # the last is a constant, once computed
    functions = {(function.domain, function.name) for function in model.functions}
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    for message in messages(model):
        if not isinstance(message, onnx.NodeProto) or (message.domain, message.op_type) in functions:
            continue
        if message.op_type in known and message.domain in _DOMAINS:
            continue
        if message.op_type in MICROSOFT and message.domain == "com.microsoft":
            continue
        if not has_definition(message, opsets.get(message.domain, onnx.defs.onnx_opset_version())):
            _refuse(file, message)


def check_simplified(file: str, graph: onnx.GraphProto) -> None:
    """Refuse what could not be written out, in the words of the user's model."""
    for node in graph.node:
        if node.op_type in ("If", "Loop", "Scan") and node.domain in _DOMAINS:
            raise UnsupportedOperatorError(
                f"{file}: operator {node.op_type} of node {quoted(label(node))} is not supported",
                why="its course depends on values, and memory and the order of operators are planned when the model is "
                "compiled",
                hint="export the model without control flow, or with a fixed number of steps",
            )
        if node.op_type not in importable() or node.domain not in _DOMAINS:
            _refuse(file, node)


def _refuse(file: str, node: onnx.NodeProto) -> None:
    domain = f"{node.domain}." if node.domain else ""
    raise UnsupportedOperatorError(
        f"{file}: operator {domain}{node.op_type} of node {quoted(label(node))} is not supported",
        why="the ONNX importer does not know it",
        hint="replace it in the model by operators of the ONNX standard",
    )


def label(node: onnx.NodeProto) -> str:
    """The name of a node, or what it makes when it has none."""
    return str(node.name) or ", ".join(node.output) or str(node.op_type)
