"""Inputs and outputs of ``@main``: their names, shapes, element types and quantization."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tvm import relax

from ...model import Quantization, TensorInfo
from . import ast
from .operator import DTYPES
from .source import Source
from .values import MAX_ELEMENTS, Cell, Constant, Data, Tensor, Value, computed_dtype, describe, elements

_MAX_OUTPUTS = 1024

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of inputs by name, given by the user for those that the file leaves open."""


def input_tensor(source: Source, parameter: ast.Parameter, shapes: Shapes, notes: list[str]) -> Tensor:
    """The variable of an input; raises ``ModelError`` when it is no tensor of known extents."""
    type_ = parameter.type
    if not isinstance(type_, ast.TensorType):
        what = "no type" if type_ is None else "a tuple type" if isinstance(type_, ast.TupleType) else type_.what
        raise source.error(parameter.at, f"input %{parameter.name} has {what}", why="inputs are tensors")
    shape = _static_shape(source, parameter, type_, shapes, notes)
    if type_.dtype not in DTYPES:
        raise source.error(type_.at, f"input %{parameter.name} has unsupported dtype {type_.dtype}")
    if elements(shape) > MAX_ELEMENTS:
        raise source.error(type_.at, f"input %{parameter.name} has more than {MAX_ELEMENTS} elements")
    dtype = computed_dtype(type_.dtype)
    if dtype != type_.dtype:
        notes.append(f"input %{parameter.name} is {type_.dtype} in the model and given as {dtype}")
    name = re.sub(r"[^A-Za-z0-9_]", "_", parameter.name)
    variable = relax.Var(name if name[:1].isalpha() else f"v_{name}", relax.TensorType(shape, dtype))
    return Tensor(variable, shape, dtype, origin=parameter.name, half=type_.dtype == "float16")


def _static_shape(
    source: Source, parameter: ast.Parameter, type_: ast.TensorType, shapes: Shapes, notes: list[str]
) -> tuple[int, ...]:
    given = shapes.get(parameter.name)
    declared = [extent if isinstance(extent, int) else None for extent in type_.shape]
    text = ", ".join("?" if extent is None else str(extent) for extent in declared)
    if given is not None:
        fits = len(given) == len(declared) and all(
            extent > 0 and wanted in (None, extent) for extent, wanted in zip(given, declared, strict=True)
        )
        if not fits:
            raise source.error(
                type_.at,
                f"input %{parameter.name} cannot have shape {tuple(given)}",
                why=f"the file declares ({text})",
            )
        return tuple(given)
    open_axes = [axis for axis, extent in enumerate(declared) if extent is None]
    if open_axes == [0]:
        notes.append(
            f"{source.where(type_.at)}: the batch of input %{parameter.name} ({text}) is open and taken as 1;"
            f" --input-shape {parameter.name}:N,... sets another"
        )
        declared[0] = 1
    elif open_axes:
        raise source.error(
            type_.at,
            f"input %{parameter.name} has a dynamic shape ({text})",
            why="memory is planned when code is generated, so every extent must be known",
            hint=f"give its shape with --input-shape {parameter.name}:N,..., one number a dimension",
        )
    return tuple(extent for extent in declared if extent is not None)


def check_shapes(source: Source, parameters: Sequence[ast.Parameter], shapes: Shapes) -> None:
    """Raise ``ModelError`` for a shape given to an input that is not there."""
    known = [parameter.name for parameter in parameters]
    for name in shapes:
        if name not in known:
            raise source.error(
                0, f"a shape is given for input %{name}", why="the inputs are " + ", ".join(f"%{n}" for n in known[:12])
            )


def input_info(parameter: ast.Parameter, tensor: Tensor, quantization: Quantization | None) -> TensorInfo:
    """The model's description of an input."""
    return TensorInfo(parameter.name, tensor.shape, tensor.dtype, quantization)


def output_infos(main: ast.Function, results: list[Tensor | Constant]) -> list[TensorInfo]:
    """The model's description of the outputs, named by ``output_tensor_names`` where the file has them."""
    names = main.attrs.get("output_tensor_names")
    given = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    if len(given) != len(results) or len(set(given)) != len(given):
        given = [f"output_{index}" for index in range(len(results))]
    return [
        TensorInfo(name, result.shape, result.dtype, result.quantization if isinstance(result, Tensor) else None)
        for name, result in zip(given, results, strict=True)
    ]


def flatten(source: Source, value: Value, at: int) -> list[Tensor | Constant]:
    """Outputs in order. Tuples are shared, so nested ones can stand for far more fields than the text has."""
    results: list[Tensor | Constant] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Tensor | Constant):
            results.append(item)
        elif isinstance(item, tuple) and item:
            pending.extend(reversed(item))
        else:
            hint = "read the cell with ref_read" if isinstance(item, Cell) else ""
            why = "a value of a data type has no place in memory" if isinstance(item, Data) else "outputs are tensors"
            raise source.error(at, f"the function returns {describe(item)}", why=why, hint=hint)
        if len(results) + len(pending) > _MAX_OUTPUTS:
            raise source.error(at, f"the function returns more than {_MAX_OUTPUTS} tensors")
    return results
