"""What every front end's result must keep to: fixed shapes, sizes a Cortex-M can address, element types of C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import tvm
from tvm import ir, relax

from ..errors import ModelError, quoted
from ..model import TensorInfo

LARGEST_TENSOR = 64 << 20
"""Bytes; beyond the memories a Cortex-M has, external ones included, and small enough to build."""

MOST_DIMENSIONS = 16

_QUANTIZERS = ("relax.quantize", "relax.dequantize")

MOST_STEPS = 4096
"""Steps of a recurrent operator, which the importers unroll."""

IO_DTYPES = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
"""Element types of inputs and outputs."""


def check_shape(file: str, what: str, shape: Sequence[int], item_size: int = 1) -> None:
    """Raise :class:`ModelError` about ``what`` when it is empty, too large or of too many dimensions."""
    text = "x".join(str(extent) for extent in shape)
    if len(shape) > MOST_DIMENSIONS:
        raise ModelError(f"{file}: {what} has {len(shape)} dimensions", why=f"at most {MOST_DIMENSIONS} are supported")
    if any(extent <= 0 for extent in shape):
        raise ModelError(
            f"{file}: {what} of shape {text} has no elements",
            why="a tensor without elements has no place in memory",
            hint="remove it from the model, or correct the shape",
        )
    size = item_size
    for extent in shape:
        size *= extent
    if size > LARGEST_TENSOR:
        raise ModelError(
            f"{file}: {what} of shape {text} needs {size:,} bytes",
            why=f"more than {LARGEST_TENSOR:,} bytes in one tensor are beyond any Cortex-M",
            hint="a smaller model; if the shape is not the model's, the file is damaged",
        )


def check_dtype(file: str, what: str, dtype: str) -> None:
    """Raise :class:`ModelError` when an input or output has an element type that is not of :data:`IO_DTYPES`."""
    if dtype not in IO_DTYPES:
        raise ModelError(
            f"{file}: {what} has element type {dtype}",
            why="inputs and outputs are " + ", ".join(IO_DTYPES),
            hint="convert the model to float32, or quantize it to int8",
        )


def check_module(file: str, module: tvm.IRModule, outputs: Sequence[TensorInfo]) -> None:
    """Raise :class:`ModelError` for a value of ``main`` without fixed or fitting size, or an output not as declared."""
    function = module["main"]
    for name, kind in _values(function):
        if not isinstance(kind, relax.TensorType):
            continue
        shape = static_shape(kind)
        if shape is None:
            raise ModelError(
                f"{file}: the result of {quoted(name)} has a dynamic shape",
                why="static memory is planned from fixed shapes",
                hint="export the model with fixed input shapes",
            )
        check_shape(file, f"the result of {quoted(name)}", shape, _item_size(str(kind.dtype)))
    for block in function.body.blocks:
        for binding in block.bindings:
            _check_scale(file, binding)
    result = function.ret_ty
    kinds = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    for info, kind in zip(outputs, kinds, strict=True):
        shape = static_shape(kind) if isinstance(kind, relax.TensorType) else None
        single = shape is not None and int(np.prod(shape)) == int(np.prod(info.shape)) == 1
        if shape is None or str(kind.dtype) != info.dtype or (shape != info.shape and not single):
            raise ModelError(
                f"{file}: output {quoted(info.name)} is declared as {_text(info.dtype, info.shape)}",
                why=f"the operators give {kind.dtype} {shape}" if shape is not None else "the operators give no tensor",
                hint="the file is damaged, or was changed by hand: export the model again",
            )


def _check_scale(file: str, binding: relax.Binding) -> None:
    call = binding.value if isinstance(binding, relax.VarBinding) else None
    if not isinstance(call, relax.Call) or not isinstance(call.op, ir.Op) or call.op.name not in _QUANTIZERS:
        return
    scale = call.args[1].value.numpy() if isinstance(call.args[1], ir.GenericConst) else np.ones(1)
    wrong = scale[~(np.isfinite(scale) & (scale > 0))]
    if wrong.size:
        raise ModelError(
            f"{file}: {call.op.name.split('.')[-1]} of {quoted(binding.var.name)} has the scale {wrong.flat[0]:g}",
            why="a scale is a positive number",
            hint="quantize the model again",
        )


def static_shape(kind: relax.TensorType) -> tuple[int, ...] | None:
    """The shape of a tensor type when it is fixed."""
    if not isinstance(kind.shape, relax.ShapeExpr):
        return None
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in kind.shape.values):
        return None
    return tuple(int(extent) for extent in kind.shape.values)


def _values(function: relax.Function) -> Iterator[tuple[str, relax.Type]]:
    for parameter in function.params:
        yield parameter.name, parameter.ty
    for block in function.body.blocks:
        for binding in block.bindings:
            kind = binding.var.ty
            for field in kind.fields if isinstance(kind, relax.TupleType) else [kind]:
                yield binding.var.name, field


def _item_size(dtype: str) -> int:
    try:
        return int(np.dtype(dtype).itemsize)
    except TypeError:
        return 1


def _text(dtype: str, shape: Sequence[int]) -> str:
    return f"{dtype} {tuple(shape)}"
