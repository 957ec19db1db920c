"""Tiny TFLite files, right or wrong in exactly the way a test asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

FLOAT32, INT8, INT32 = tflite.TensorType.FLOAT32, tflite.TensorType.INT8, tflite.TensorType.INT32
TYPES = {
    "float32": FLOAT32,
    "float16": tflite.TensorType.FLOAT16,
    "int8": INT8,
    "uint8": tflite.TensorType.UINT8,
    "int16": tflite.TensorType.INT16,
    "int32": INT32,
    "int64": tflite.TensorType.INT64,
    "bool": tflite.TensorType.BOOL,
    "resource": tflite.TensorType.RESOURCE,
}
ADD, RELU, FULLY_CONNECTED, TRANSPOSE = 0, 19, 9, 39  # tflite.BuiltinOperator


@dataclass
class Tensor:
    """A tensor; ``data`` makes it a constant, ``scale`` and ``zero_point`` quantize it."""

    name: str | bytes | None
    shape: Sequence[int]
    type: int = FLOAT32
    data: np.ndarray | bytes | None = None
    scale: Sequence[float] = ()
    zero_point: Sequence[int] = ()
    axis: int = 0
    signature: Sequence[int] = ()
    buffer: int | None = None
    variable: bool = False


@dataclass
class Operator:
    """An operator by its built-in code, or by ``custom`` name; ``options`` are (union type, float or int8 slots)."""

    code: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    custom: str = ""
    options: tuple[int, dict[int, tuple[str, Any]]] = (0, {})
    opcode_index: int | None = None


@dataclass
class Network:
    """One subgraph."""

    tensors: list[Tensor]
    operators: list[Operator]
    inputs: list[int] = field(default_factory=lambda: [0])
    outputs: list[int] = field(default_factory=lambda: [1])
    others: Sequence[Network] = ()

    def build(self) -> bytes:
        """The file; ``others`` are further subgraphs."""
        builder = flatbuffers.Builder(1024)
        buffers, codes = [b""], []
        subgraphs = [network._subgraph(builder, buffers, codes) for network in (self, *self.others)]
        datas = []
        for content in buffers:
            data = {0: ("table", builder.CreateNumpyVector(np.frombuffer(content, np.uint8)))} if content else {}
            datas.append(_table(builder, data))
        model = _table(
            builder,
            {
                0: ("Uint32", 3),
                1: ("table", _offsets(builder, codes)),
                2: ("table", _offsets(builder, subgraphs)),
                4: ("table", _offsets(builder, datas)),
            },
        )
        builder.Finish(model, file_identifier=b"TFL3")
        return bytes(builder.Output())

    def _subgraph(self, builder: flatbuffers.Builder, buffers: list[bytes], codes: list[int]) -> int:
        tensors = []
        for tensor in self.tensors:
            index = 0
            if tensor.data is not None:
                buffers.append(tensor.data if isinstance(tensor.data, bytes) else tensor.data.tobytes())
                index = len(buffers) - 1
            tensors.append(self._tensor(builder, tensor, index if tensor.buffer is None else tensor.buffer))
        first = len(codes)
        operators = [self._operator(builder, op, first + index) for index, op in enumerate(self.operators)]
        codes += [self._code(builder, operator) for operator in self.operators]
        return _table(
            builder,
            {
                0: ("table", _offsets(builder, tensors)),
                1: ("table", _vector(builder, self.inputs, np.int32)),
                2: ("table", _vector(builder, self.outputs, np.int32)),
                3: ("table", _offsets(builder, operators)),
            },
        )

    @staticmethod
    def _tensor(builder: flatbuffers.Builder, tensor: Tensor, buffer: int) -> int:
        fields: dict[int, tuple[str, Any]] = {
            0: ("table", _vector(builder, tensor.shape, np.int32)),
            1: ("Int8", tensor.type),
            2: ("Uint32", buffer),
        }
        if tensor.name is not None:
            fields[3] = ("table", builder.CreateString(tensor.name))
        if tensor.variable:
            fields[5] = ("Bool", True)
        if tensor.scale or tensor.zero_point:
            quantization: dict[int, tuple[str, Any]] = {6: ("Int32", tensor.axis)}
            if tensor.scale:
                quantization[2] = ("table", _vector(builder, tensor.scale, np.float32))
            if tensor.zero_point:
                quantization[3] = ("table", _vector(builder, tensor.zero_point, np.int64))
            fields[4] = ("table", _table(builder, quantization))
        if tensor.signature:
            fields[7] = ("table", _vector(builder, tensor.signature, np.int32))
        return _table(builder, fields)

    @staticmethod
    def _operator(builder: flatbuffers.Builder, operator: Operator, index: int) -> int:
        kind, options = operator.options
        fields: dict[int, tuple[str, Any]] = {
            0: ("Uint32", index if operator.opcode_index is None else operator.opcode_index),
            1: ("table", _vector(builder, operator.inputs, np.int32)),
            2: ("table", _vector(builder, operator.outputs, np.int32)),
        }
        if kind:
            fields[3] = ("Uint8", kind)
            for slot, (form, text) in options.items():
                if form == "text":
                    options = {**options, slot: ("table", builder.CreateString(text))}
            fields[4] = ("table", _table(builder, options))
        return _table(builder, fields)

    @staticmethod
    def _code(builder: flatbuffers.Builder, operator: Operator) -> int:
        fields: dict[int, tuple[str, Any]] = {0: ("Int8", min(operator.code, 127)), 3: ("Int32", operator.code)}
        if operator.custom:
            fields[1] = ("table", builder.CreateString(operator.custom))
        return _table(builder, fields)


def _table(builder: flatbuffers.Builder, fields: dict[int, tuple[str, Any]]) -> int:
    builder.StartObject(max(fields, default=-1) + 1)
    for slot, (kind, value) in fields.items():
        if kind == "table":
            builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        else:
            # None as the default: the value is written even when the schema's default is the same.
            getattr(builder, f"Prepend{kind}Slot")(slot, value, None)
    return int(builder.EndObject())


def _vector(builder: flatbuffers.Builder, values: Sequence[Any], dtype: Any) -> int:
    return int(builder.CreateNumpyVector(np.array(values, dtype)))


def _offsets(builder: flatbuffers.Builder, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def relu(**changes: Any) -> Network:
    """Float: ``y = relu(x)`` over 1x8 values; ``changes`` are attributes of the network."""
    network = Network([Tensor("x", [1, 8]), Tensor("y", [1, 8])], [Operator(RELU, [0], [1])])
    for key, value in changes.items():
        setattr(network, key, value)
    return network


def dense(seed: int = 0) -> Network:
    """int8: a fully connected layer, 8 inputs, 4 outputs, one scale for each row of the weights."""
    generator = np.random.default_rng(seed)
    weights = generator.integers(-127, 128, (4, 8)).astype(np.int8)
    bias = generator.integers(-500, 500, 4).astype(np.int32)
    scales = [0.01, 0.02, 0.015, 0.005]
    return Network(
        [
            Tensor("x", [1, 8], INT8, scale=[0.05], zero_point=[3]),
            Tensor("y", [1, 4], INT8, scale=[0.1], zero_point=[-4]),
            Tensor("weights", [4, 8], INT8, weights, scale=scales, zero_point=[0] * 4),
            Tensor("bias", [4], INT32, bias, scale=[0.05 * scale for scale in scales], zero_point=[0] * 4),
        ],
        [Operator(FULLY_CONNECTED, [0, 2, 3], [1], options=(8, {0: ("Int8", 1)}))],
    )


@dataclass
class ModelBuilder:
    """A network step by step: ``tensor`` and ``constant`` return the index that ``operator`` and ``finish`` take."""

    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)

    def tensor(
        self, name: str, shape: Sequence[int], *, scale: float | None, zero_point: int = 0, dtype: str = "int8"
    ) -> int:
        """Add an activation; without a scale it is not quantized."""
        scales, zeros = ([], []) if scale is None else ([scale], [zero_point])
        self.tensors.append(Tensor(name, shape, TYPES[dtype], scale=scales, zero_point=zeros))
        return len(self.tensors) - 1

    def constant(
        self, name: str, data: np.ndarray, scale: Sequence[float] = (), zero_point: int = 0, axis: int = 0
    ) -> int:
        """Add a constant."""
        kind = TYPES[data.dtype.name]
        zeros = [zero_point] * len(scale)
        self.tensors.append(Tensor(name, data.shape, kind, data, scale=scale, zero_point=zeros, axis=axis))
        return len(self.tensors) - 1

    def nibbles(self, name: str, data: np.ndarray, scale: Sequence[float] = (), axis: int = 0) -> int:
        """Add a constant of 4-bit codes: two in a byte, the first in its low bits."""
        index = self.constant(name, data, scale, axis=axis)
        codes = np.pad(data.reshape(-1), (0, data.size % 2)).view(np.uint8) & 15
        self.tensors[index].type = tflite.TensorType.INT4
        self.tensors[index].data = codes[0::2] | codes[1::2] << 4
        return index

    def operator(self, code: int, inputs: Sequence[int], outputs: Sequence[int], options: Any = (0, {})) -> None:
        """Add an operator."""
        self.operators.append(Operator(code, inputs, outputs, options=options))

    def finish(self, inputs: list[int], outputs: list[int]) -> bytes:
        """The file."""
        return Network(self.tensors, self.operators, inputs, outputs).build()


class _Slots:
    """Stands in for a FlatBuffers builder and notes which slot of a table a field goes to."""

    def __init__(self) -> None:
        self.fields: dict[int, tuple[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        kind = name.removeprefix("Prepend").removesuffix("Slot")
        return lambda slot, value, _default: self.fields.__setitem__(slot, (kind, value))


def options(name: str, **values: Any) -> tuple[int, dict[int, tuple[str, Any]]]:
    """Options by the table's name without ``Options`` (``Conv2D``) and its fields (``StrideW=1``)."""
    slots = _Slots()
    for key, value in values.items():
        getattr(tflite, f"{name}OptionsAdd{key}")(slots, value)
    return getattr(tflite.BuiltinOptions, f"{name}Options"), slots.fields
