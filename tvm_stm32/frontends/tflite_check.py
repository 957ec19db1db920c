"""TFLite files before the importer sees them: structure, tensors, quantization, order of the operators.

The FlatBuffers package reads any bytes as tables, so a damaged file is found here or not at all.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import tflite

from ..errors import ModelError, quoted
from .limits import check_shape

DTYPES = {
    tflite.TensorType.FLOAT32: "float32",
    tflite.TensorType.INT8: "int8",
    tflite.TensorType.UINT8: "uint8",
    tflite.TensorType.INT16: "int16",
    tflite.TensorType.UINT16: "uint16",
    tflite.TensorType.INT32: "int32",
    tflite.TensorType.UINT32: "uint32",
    tflite.TensorType.INT64: "int64",
    tflite.TensorType.UINT64: "uint64",
    tflite.TensorType.BOOL: "bool",
    tflite.TensorType.FLOAT16: "float16",
    tflite.TensorType.COMPLEX64: "complex64",
}
# Handles and texts that the importer resolves while it reads; they have no data of ours.
_OPAQUE = (tflite.TensorType.STRING, tflite.TensorType.RESOURCE)
_TYPE_NAMES = {value: key for key, value in vars(tflite.TensorType).items() if isinstance(value, int)}
# What reading a damaged table raises.
_DAMAGE = (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError)


class NamedTensor(tflite.Tensor):  # type: ignore[misc]  # not typed
    """A tensor under the name that is its own in the subgraph; a constant of INT4 reads as one of INT8."""

    __slots__ = ("unique_name", "unpacked")

    def Type(self) -> int:  # noqa: N802
        return int(tflite.TensorType.INT8 if self.unpacked else super().Type())

    def Name(self) -> bytes:  # noqa: N802 - the generated class's method
        return str(self.unique_name).encode()


class NamedSubGraph(tflite.SubGraph):  # type: ignore[misc]
    """A subgraph whose tensors all have a name, no two the same: the importer keeps values by name."""

    __slots__ = ("names", "unpacked")

    def Tensors(self, j: int) -> NamedTensor:  # noqa: N802
        plain = super().Tensors(j)
        tensor = NamedTensor()
        tensor.Init(plain._tab.Bytes, plain._tab.Pos)
        tensor.unique_name = self.names[j]
        tensor.unpacked = plain.Type() == tflite.TensorType.INT4 and plain.Buffer() in self.unpacked
        return tensor


class NamedModel(tflite.Model):  # type: ignore[misc]
    """A model of :class:`NamedSubGraph`; ``unsigned``: it was written with uint8 codes; ``resized``: its bytes,
    where shapes change while operators are converted; ``unpacked``: codes of INT4 constants by their buffer."""

    __slots__ = ("names", "resized", "unpacked", "unsigned")

    def Buffers(self, j: int) -> Any:  # noqa: N802
        plain = super().Buffers(j)
        return _UnpackedBuffer(plain, self.unpacked[j]) if j in self.unpacked else plain

    def Subgraphs(self, j: int) -> NamedSubGraph:  # noqa: N802
        plain = super().Subgraphs(j)
        subgraph = NamedSubGraph()
        subgraph.Init(plain._tab.Bytes, plain._tab.Pos)
        subgraph.names, subgraph.unpacked = self.names[j], self.unpacked
        return subgraph


class _UnpackedBuffer:
    """A buffer of INT4 codes as one of int8."""

    def __init__(self, plain: Any, codes: np.ndarray) -> None:
        self._tab, self._codes = plain._tab, codes

    def DataLength(self) -> int:  # noqa: N802 - the generated class's method
        return int(self._codes.size)

    def DataAsNumpy(self) -> np.ndarray:  # noqa: N802 - the same
        return self._codes.view(np.uint8)

    def Size(self) -> int:  # noqa: N802 - the same
        return 0

    Offset = Size


def open_model(file: str, data: bytes | bytearray, *, resized: bool = False) -> NamedModel:
    """The FlatBuffer's root, once everything the importer relies on is known to hold. Raises :class:`ModelError`.

    ``resized``: dynamic extents are fixed by the user, and tensors' shapes follow while operators are converted.
    """
    if len(data) < 8 or data[4:8] != b"TFL3":
        raise ModelError(
            f"'{file}' is not a TFLite model",
            why="the identifier 'TFL3' is missing at byte 4",
            hint="check that the file is complete (Git LFS pointers and interrupted downloads look like this)",
        )
    try:
        plain = tflite.Model.GetRootAsModel(data, 0)
        model = NamedModel()
        model.Init(data, plain._tab.Pos)
        model.unsigned, model.resized = False, None
        if not 1 <= plain.SubgraphsLength() <= len(data) // 4:
            raise corrupt(file, "it has no subgraph")
        model.names = [_names(file, plain.Subgraphs(i), len(data)) for i in range(plain.SubgraphsLength())]
        model.unpacked = {}
        _check_buffers(file, model, len(data))
        model.unpacked = _unpacked(file, plain)
        for position in range(model.SubgraphsLength()):
            _check_subgraph(file, model, model.Subgraphs(position), len(data), resized)
        if not indices(model.Subgraphs(0).OutputsAsNumpy()):
            raise ModelError(f"{file}: the model has no outputs", why="nothing it computes could be read")
        return model
    except _DAMAGE as error:
        raise corrupt(file, f"an offset leads outside its {len(data):,} bytes ({error})") from error


def corrupt(file: str, why: str) -> ModelError:
    """The error about a damaged file."""
    return ModelError(f"{file}: truncated or corrupt TFLite model", why=why, hint="export or download the file again")


def indices(vector: Any) -> list[int]:
    """A FlatBuffer integer vector as a list; an absent vector reads as 0."""
    return [int(value) for value in vector] if isinstance(vector, np.ndarray) else []


def _names(file: str, subgraph: Any, size: int) -> list[str]:
    """A unique name for each tensor: its own; inputs and outputs come first where a name is there twice."""
    count = subgraph.TensorsLength()
    if count * 4 > size:
        raise corrupt(file, f"{count:,} tensors in {size:,} bytes")
    own = [_own_name(file, subgraph, index) for index in range(count)]
    public = [i for i in [*indices(subgraph.InputsAsNumpy()), *indices(subgraph.OutputsAsNumpy())] if 0 <= i < count]
    names: dict[int, str] = {}
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    for index in [*public, *range(count)]:
        if index in names:
            continue
        name = own[index]
        while name in taken:
            numbers[own[index]] = numbers.get(own[index], 1) + 1
            name = f"{own[index]}#{numbers[own[index]]}"
        names[index] = name
        taken.add(name)
    return [names[index] for index in range(count)]


def _own_name(file: str, subgraph: Any, index: int) -> str:
    text = subgraph.Tensors(index).Name()
    try:
        return (text or b"").decode("utf-8") or f"tensor_{index}"
    except UnicodeDecodeError as error:
        raise corrupt(file, f"the name of tensor {index} is not UTF-8 text ({error.reason})") from error


def _check_buffers(file: str, model: Any, size: int) -> None:
    buffers = model.BuffersLength()
    if buffers * 4 > size or model.OperatorCodesLength() * 4 > size:
        raise corrupt(file, "it lists more buffers or operator codes than it has room for")
    for index in range(buffers):
        buffer = model.Buffers(index)
        if buffer.Size() or buffer.Offset() > 1:
            raise ModelError(
                f"{file}: buffer {index} lies outside the model's tables",
                why="files of more than 2 GB keep their weights so, which no microcontroller holds",
            )
        length = buffer.DataLength()
        if length > size or (length and len(buffer.DataAsNumpy()) != length):
            raise corrupt(file, f"buffer {index} claims {length:,} bytes of the file's {size:,}")


def _unpacked(file: str, model: Any) -> dict[int, np.ndarray]:
    """int8 codes of INT4 constants by their buffer: two in a byte, the first in its low bits."""
    codes: dict[int, np.ndarray] = {}
    for subgraph in (model.Subgraphs(position) for position in range(model.SubgraphsLength())):
        for tensor in (subgraph.Tensors(index) for index in range(subgraph.TensorsLength())):
            index = tensor.Buffer()
            if tensor.Type() != tflite.TensorType.INT4 or index >= model.BuffersLength():
                continue
            packed, count = model.Buffers(index).DataAsNumpy(), math.prod(indices(tensor.ShapeAsNumpy()))
            if not isinstance(packed, np.ndarray) or not packed.size:
                continue
            if packed.size != (count + 1) // 2:
                raise corrupt(file, f"a tensor of {count:,} numbers of 4 bits has {packed.size:,} bytes")
            both = np.stack([packed << 4, packed & 0xF0], axis=-1).reshape(-1)[:count]
            codes[index] = both.view(np.int8) >> 4
    return codes


def _check_subgraph(file: str, model: Any, subgraph: NamedSubGraph, size: int, resized: bool) -> None:
    tensors = subgraph.TensorsLength()
    if subgraph.OperatorsLength() * 4 > size:
        raise corrupt(file, f"{subgraph.OperatorsLength():,} operators in {size:,} bytes")
    for index in range(tensors):
        _check_tensor(file, model, subgraph.Tensors(index), resized)
    inputs, outputs = indices(subgraph.InputsAsNumpy()), indices(subgraph.OutputsAsNumpy())
    for tensor in [*inputs, *outputs]:
        if not 0 <= tensor < tensors:
            raise corrupt(file, f"tensor {tensor} is an input or output of the model, which has {tensors} tensors")
    if len(set(inputs)) != len(inputs):
        raise corrupt(file, "one tensor is two inputs of the model")
    known = {*inputs, *(i for i in range(tensors) if _has_value(model, subgraph.Tensors(i)))}
    for number in range(subgraph.OperatorsLength()):
        known |= _check_operator(file, model, subgraph, number, known)
    for tensor in outputs:
        if tensor not in known:
            raise ModelError(
                f"{file}: no operator makes output {quoted(subgraph.names[tensor])}", why="the graph is incomplete"
            )


def _check_operator(file: str, model: Any, subgraph: NamedSubGraph, number: int, known: set[int]) -> set[int]:
    """The tensors operator ``number`` makes."""
    op = subgraph.Operators(number)
    tensors = subgraph.TensorsLength()
    if op.OpcodeIndex() >= model.OperatorCodesLength():
        raise corrupt(file, f"operator {number} has operator code {op.OpcodeIndex()} of {model.OperatorCodesLength()}")
    inputs, outputs = indices(op.InputsAsNumpy()), indices(op.OutputsAsNumpy())
    for tensor in [*inputs, *outputs]:
        # -1 stands for an optional input that is not there.
        if tensor >= tensors or tensor < (-1 if tensor in inputs else 0):
            raise corrupt(file, f"operator {number} uses tensor {tensor} of {tensors}")
    for tensor in inputs:
        if tensor >= 0 and tensor not in known:
            raise ModelError(
                f"{file}: operator {number} uses tensor {quoted(subgraph.names[tensor])} before any operator makes it",
                why="operators must come in the order they run, without a cycle, and constants must have data",
                hint="export the model again",
            )
    for tensor in outputs:
        if tensor in known or outputs.count(tensor) > 1:
            raise ModelError(
                f"{file}: operator {number} makes tensor {quoted(subgraph.names[tensor])}, which has a value already",
                why="a tensor has one value in an inference",
                hint="export the model again",
            )
    return set(outputs)


def _has_value(model: Any, tensor: Any) -> bool:
    # The shape a scalar is reshaped to is a constant without elements, and so without data.
    empty = 0 in indices(tensor.ShapeAsNumpy())
    return bool(tensor.IsVariable()) or empty or model.Buffers(tensor.Buffer()).DataLength() > 0


def _check_tensor(file: str, model: Any, tensor: NamedTensor, resized: bool) -> None:
    what = f"tensor {quoted(tensor.unique_name)}"
    if tensor.Buffer() >= model.BuffersLength():
        raise corrupt(file, f"{what} has buffer {tensor.Buffer()} of {model.BuffersLength()}")
    if tensor.Type() in _OPAQUE:
        return
    dtype = DTYPES.get(tensor.Type())
    if dtype is None:
        raise ModelError(
            f"{file}: {what} has element type {_TYPE_NAMES.get(tensor.Type(), tensor.Type())}",
            why="supported element types: " + ", ".join(DTYPES.values()),
            hint="convert the model to float32, or quantize it to int8",
        )
    shape = indices(tensor.ShapeAsNumpy())
    signature = indices(tensor.ShapeSignatureAsNumpy())
    length = model.Buffers(tensor.Buffer()).DataLength()
    dynamic = not length and not resized and any(extent < 0 for extent in signature[1:])
    if any(extent < 0 for extent in shape) or dynamic:
        dimensions = shape if any(extent < 0 for extent in shape) else signature
        raise ModelError(
            f"{file}: {what} has a dynamic shape ({', '.join('?' if d < 0 else str(d) for d in dimensions[:20])})",
            why="static memory is planned from fixed shapes",
            hint="fix the inputs' shapes with --input-shape, or export the model with fixed ones",
        )
    item_size = np.dtype(dtype).itemsize
    check_shape(file, what, [extent or 1 for extent in shape], item_size)
    needed = math.prod(shape) * item_size
    if length and length != needed and tensor.Sparsity() is None:
        raise corrupt(file, f"{what} needs {needed:,} bytes and its buffer has {length:,}")
    for problem in _quantization_problems(tensor.Quantization(), shape, dtype):
        raise ModelError(
            f"{file}: {what} has bad quantization parameters",
            why=problem,
            hint="quantize the model again; if it came from a converter, the file is damaged",
        )


def _quantization_problems(parameters: Any, shape: list[int], dtype: str) -> Iterator[str]:
    scales = parameters.ScaleAsNumpy() if parameters is not None else None
    if not isinstance(scales, np.ndarray) or not scales.size:
        return
    zero_points = indices(parameters.ZeroPointAsNumpy())
    for scale in scales.tolist():
        if not (math.isfinite(scale) and scale > 0):
            yield f"scale {scale:g} is not a positive number"
    if len(zero_points) != scales.size:
        yield f"there are {scales.size} scales and {len(zero_points)} zero points"
    axis = parameters.QuantizedDimension()
    if scales.size > 1:
        if not 0 <= axis < len(shape):
            yield f"dimension {axis} is quantized and the tensor has {len(shape)}"
        elif shape[axis] != scales.size:
            yield f"there are {scales.size} scales for the {shape[axis]} indices of dimension {axis}"
        if any(zero_points):
            yield "a zero point of a tensor with several scales is not 0"
    low, high = _code_range(dtype)
    for zero_point in zero_points:
        if not low <= zero_point <= high:
            yield f"zero point {zero_point} is outside {low}..{high}, the codes of {dtype}"


def _code_range(dtype: str) -> tuple[int, int]:
    kind = np.dtype(dtype)
    if kind.kind not in "iu":
        return -(1 << 31), (1 << 31) - 1
    limits = np.iinfo(kind)
    return max(int(limits.min), -(1 << 31)), min(int(limits.max), (1 << 31) - 1)
