"""Legacy uint8 models read as int8 ones: every code and zero point 128 lower, so that one set of kernels serves both.

The file's bytes are rewritten before the importer reads them: element types, zero points and constants have the same
size in both forms. Inputs and outputs of the model stay uint8; the borders move the codes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tflite
import tvm
from tvm import relax

from ..errors import ModelError, quoted
from ..graph.ssa import dtype_of, normalized, shape_of
from ..model import TensorInfo

_SHIFT = 128
# Slots of the schema's tables, as offsets into a vtable.
_TYPE, _ZERO_POINT = 6, 10
_ITEM = {"zero points": 8, "codes": 1}


def has_unsigned_codes(model: Any) -> bool:
    """Whether a tensor of the model holds uint8 codes."""
    return any(_is_unsigned(tensor) for tensor in _tensors(model))


def signed_codes(file: str, data: bytes, model: Any) -> bytes:
    """``data``, an opened and checked ``model``, with int8 codes where it has uint8 ones.

    Raises :class:`ModelError` when bytes serve a tensor of codes and another one, which no converter writes.
    """
    shifted = bytearray(data)
    kept: set[int] = set()
    moved: dict[int, tuple[str, int, str]] = {}
    for tensor in _tensors(model):
        vectors = _vectors(model, tensor)
        if not _is_unsigned(tensor):
            kept.update(start for start, _, _ in vectors)
            continue
        table = tensor._tab
        shifted[table.Pos + table.Offset(_TYPE)] = tflite.TensorType.INT8
        for start, count, kind in vectors:
            moved[start] = (kind, count, tensor.unique_name)
    for start, (kind, count, name) in moved.items():
        if start in kept:
            raise ModelError(
                f"{file}: tensor {quoted(name)} holds uint8 codes and shares its {kind} with a tensor of another type",
                hint="convert the model again",
            )
        end = start + count * _ITEM[kind]
        if kind == "codes":
            shifted[start:end] = (np.frombuffer(data[start:end], np.uint8) ^ _SHIFT).tobytes()
        else:
            shifted[start:end] = (np.frombuffer(data[start:end], "<i8") - _SHIFT).tobytes()
    return bytes(shifted)


def _tensors(model: Any) -> list[Any]:
    graphs = [model.Subgraphs(index) for index in range(model.SubgraphsLength())]
    return [graph.Tensors(index) for graph in graphs for index in range(graph.TensorsLength())]


def _is_unsigned(tensor: Any) -> bool:
    parameters = tensor.Quantization()
    return tensor.Type() == tflite.TensorType.UINT8 and parameters is not None and parameters.ScaleLength() > 0


def _vectors(model: Any, tensor: Any) -> list[tuple[int, int, str]]:
    """Where the tensor's zero points and constant codes begin in the file, how many there are, what they are."""
    found = []
    parameters, buffer = tensor.Quantization(), model.Buffers(tensor.Buffer())
    if parameters is not None and parameters.ZeroPointLength():
        table = parameters._tab
        found.append((table.Vector(table.Offset(_ZERO_POINT)), parameters.ZeroPointLength(), "zero points"))
    if buffer.DataLength():
        found.append((buffer._tab.Vector(buffer._tab.Offset(4)), buffer.DataLength(), "codes"))
    return found


def with_unsigned_border(module: tvm.IRModule, inputs: list[TensorInfo], outputs: list[TensorInfo]) -> tvm.IRModule:
    """``main`` taking and giving uint8 where ``inputs`` and ``outputs`` say so and it has int8."""
    function = module["main"]
    kept, parameters = [], list(function.params)
    for position, info in enumerate(inputs):
        inner = function.params[position]
        if info.dtype == dtype_of(inner):
            continue
        outer = relax.Var(inner.name, relax.TensorType(shape_of(inner), info.dtype))
        kept += _moved(outer, inner, "int8")
        parameters[position] = outer
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    result = function.body.body
    values = {binding.var: binding.value for binding in bindings}
    value = values.get(result, result)
    fields = list(value.fields) if isinstance(value, relax.Tuple) else [result]
    kept += [binding for binding in bindings if binding.var is not result or fields == [result]]
    for position, info in enumerate(outputs):
        inner = normalized(fields[position])
        if info.dtype == dtype_of(inner):
            continue
        outer = relax.DataflowVar(f"{info.name}_codes", relax.TensorType(shape_of(inner), info.dtype))
        kept += _moved(inner, outer, "uint8")
        fields[position] = outer
    whole = normalized(relax.Tuple(fields) if isinstance(value, relax.Tuple) or len(fields) > 1 else fields[0])
    out = relax.Var("results", whole.ty)
    body = relax.SeqExpr([relax.DataflowBlock([*kept, relax.VarBinding(out, whole)])], out)
    return tvm.IRModule({"main": relax.Function(parameters, body, whole.ty, attrs=function.attrs)})


def _moved(source: relax.Expr, target: relax.Var, dtype: str) -> list[relax.VarBinding]:
    """Bindings that make ``target``: the codes of ``source`` in the other type, 128 lower or higher."""
    bindings: list[relax.VarBinding] = []

    def bind(value: relax.Expr, name: str) -> relax.Var:
        call = normalized(value)
        bindings.append(relax.VarBinding(relax.DataflowVar(name, call.ty), call))
        return bindings[-1].var

    # In int16: TVM takes a cast for one that keeps the value.
    wide = bind(relax.op.astype(source, "int16"), f"{target.name}_wide")
    step = relax.const(-_SHIFT if dtype == "int8" else _SHIFT, "int16")
    moved = bind(relax.op.add(wide, step), f"{target.name}_moved")
    bindings.append(relax.VarBinding(target, normalized(relax.op.astype(moved, dtype))))
    return bindings
