"""Makes small TFLite models for tests, through the schema's own builder functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import flatbuffers
import numpy as np
import tflite

_TYPES = {
    "int8": tflite.TensorType.INT8,
    "uint8": tflite.TensorType.UINT8,
    "int16": tflite.TensorType.INT16,
    "int32": tflite.TensorType.INT32,
    "int64": tflite.TensorType.INT64,
    "float32": tflite.TensorType.FLOAT32,
    "float16": tflite.TensorType.FLOAT16,
    "bool": tflite.TensorType.BOOL,
}

Options = Callable[[flatbuffers.Builder], int]


@dataclass
class _Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str
    data: np.ndarray | None
    scale: Sequence[float]
    zero_point: Sequence[int]
    axis: int
    signature: tuple[int, ...] | None


@dataclass
class _Operator:
    code: int
    inputs: list[int]
    outputs: list[int]
    options: tuple[int, Options] | None


@dataclass
class ModelBuilder:
    """A model of one subgraph; ``tensor`` and ``operator`` return and take tensor indices."""

    tensors: list[_Tensor] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "int8",
        data: np.ndarray | None = None,
        scale: float | Sequence[float] | None = None,
        zero_point: int | Sequence[int] = 0,
        axis: int = 0,
        signature: Sequence[int] | None = None,
    ) -> int:
        """Add a tensor; ``data`` makes it a constant."""
        scales = [] if scale is None else [scale] if isinstance(scale, float) else list(scale)
        zeros = [zero_point] * len(scales) if isinstance(zero_point, int) else list(zero_point)
        self.tensors.append(
            _Tensor(name, tuple(shape), dtype, data, scales, zeros, axis, tuple(signature) if signature else None)
        )
        return len(self.tensors) - 1

    def constant(self, name: str, data: np.ndarray, **quantization: object) -> int:
        """Add a constant tensor."""
        return self.tensor(name, data.shape, str(data.dtype), data, **quantization)  # type: ignore[arg-type]

    def operator(
        self, code: int, inputs: Sequence[int], outputs: Sequence[int], options: tuple[int, Options] | None = None
    ) -> None:
        """Add an operator; ``options`` are (union type, function that builds the table)."""
        self.operators.append(_Operator(code, list(inputs), list(outputs), options))

    def finish(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The model's bytes."""
        b = flatbuffers.Builder(1024)
        buffers = [_buffer(b, None)]
        indices = []
        for tensor in self.tensors:
            indices.append(0 if tensor.data is None else len(buffers))
            if tensor.data is not None:
                buffers.append(_buffer(b, tensor.data))
        tensors = [_tensor(b, tensor, index) for tensor, index in zip(self.tensors, indices, strict=True)]
        codes = sorted({operator.code for operator in self.operators})
        code_tables = [_code(b, code) for code in codes]
        operators = [_operator(b, operator, codes.index(operator.code)) for operator in self.operators]
        tensor_vector = _offsets(b, tensors)
        operator_vector = _offsets(b, operators)
        input_vector, output_vector = _ints(b, inputs), _ints(b, outputs)
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, tensor_vector)
        tflite.SubGraphAddInputs(b, input_vector)
        tflite.SubGraphAddOutputs(b, output_vector)
        tflite.SubGraphAddOperators(b, operator_vector)
        subgraphs = _offsets(b, [tflite.SubGraphEnd(b)])
        code_vector = _offsets(b, code_tables)
        buffer_vector = _offsets(b, buffers)
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, 3)
        tflite.ModelAddOperatorCodes(b, code_vector)
        tflite.ModelAddSubgraphs(b, subgraphs)
        tflite.ModelAddBuffers(b, buffer_vector)
        b.Finish(tflite.ModelEnd(b), file_identifier=b"TFL3")
        return bytes(b.Output())


def _offsets(b: flatbuffers.Builder, items: Sequence[int]) -> int:
    b.StartVector(4, len(items), 4)
    for item in reversed(items):
        b.PrependUOffsetTRelative(item)
    return b.EndVector()


def _ints(b: flatbuffers.Builder, values: Sequence[int]) -> int:
    b.StartVector(4, len(values), 4)
    for value in reversed(values):
        b.PrependInt32(value)
    return b.EndVector()


def _buffer(b: flatbuffers.Builder, data: np.ndarray | None) -> int:
    content = None
    if data is not None:
        content = b.CreateNumpyVector(np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8))
    tflite.BufferStart(b)
    if content is not None:
        tflite.BufferAddData(b, content)
    return tflite.BufferEnd(b)


def _tensor(b: flatbuffers.Builder, tensor: _Tensor, buffer: int) -> int:
    name, shape = b.CreateString(tensor.name), _ints(b, tensor.shape)
    signature = _ints(b, tensor.signature) if tensor.signature else None
    quantization = None
    if tensor.scale:
        scale = b.CreateNumpyVector(np.array(tensor.scale, np.float32))
        zero_point = b.CreateNumpyVector(np.array(tensor.zero_point, np.int64))
        tflite.QuantizationParametersStart(b)
        tflite.QuantizationParametersAddScale(b, scale)
        tflite.QuantizationParametersAddZeroPoint(b, zero_point)
        tflite.QuantizationParametersAddQuantizedDimension(b, tensor.axis)
        quantization = tflite.QuantizationParametersEnd(b)
    tflite.TensorStart(b)
    tflite.TensorAddShape(b, shape)
    tflite.TensorAddType(b, _TYPES[tensor.dtype])
    tflite.TensorAddBuffer(b, buffer)
    tflite.TensorAddName(b, name)
    if quantization is not None:
        tflite.TensorAddQuantization(b, quantization)
    if signature is not None:
        tflite.TensorAddShapeSignature(b, signature)
    return tflite.TensorEnd(b)


def _code(b: flatbuffers.Builder, code: int) -> int:
    tflite.OperatorCodeStart(b)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(code, 127))
    tflite.OperatorCodeAddBuiltinCode(b, code)
    tflite.OperatorCodeAddVersion(b, 1)
    return tflite.OperatorCodeEnd(b)


def _operator(b: flatbuffers.Builder, operator: _Operator, code_index: int) -> int:
    inputs, outputs = _ints(b, operator.inputs), _ints(b, operator.outputs)
    options = operator.options[1](b) if operator.options else None
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, code_index)
    tflite.OperatorAddInputs(b, inputs)
    tflite.OperatorAddOutputs(b, outputs)
    if operator.options is not None and options is not None:
        tflite.OperatorAddBuiltinOptionsType(b, operator.options[0])
        tflite.OperatorAddBuiltinOptions(b, options)
    return tflite.OperatorEnd(b)


def options(name: str, **values: int | float | bool) -> tuple[int, Options]:
    """Builtin options by the table's name without ``Options`` (``Conv2D``) and its scalar fields (``StrideW=1``)."""

    def build(b: flatbuffers.Builder) -> int:
        getattr(tflite, f"{name}OptionsStart")(b)
        for key, value in values.items():
            getattr(tflite, f"{name}OptionsAdd{key}")(b, value)
        return getattr(tflite, f"{name}OptionsEnd")(b)

    return getattr(tflite.BuiltinOptions, f"{name}Options"), build
