"""Legacy uint8 models: every operator on uint8 codes against LiteRT's reference kernels (tflite-micro has none)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tflite
from support import build_and_run
from test_tflite_float import litert
from tflite_builder import Network, Operator, Tensor
from tflite_cases import GROUPS, LITERT_ONLY, Battery, Op, binary, pool

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.errors import ModelError
from tvm_stm32.library import Library
from tvm_stm32.target import Target

# LiteRT has no uint8 form of these, or (without bias) wants what converters always write.
_NOT_IN_LITERT = {
    "elu", "abs", "abs_same", "rsqrt", "broadcast_to", "cumsum", "squared_difference", "add_n", "conv2d_without_bias",
    "batch_matmul", "int32_to_int8", "div",
}  # fmt: skip
# The most codes by which results differ: here the arithmetic of the int8 kernels is followed.
_APART = {"l2_normalization": 1, "resize_bilinear": 2, "dense": 1, "dense_rank3": 1}

CASES: dict[str, Callable[[Battery], None]] = {
    **{
        name: case
        for group, cases in GROUPS.items()
        for name, case in cases.items()
        if group not in ("int16", "int4", "recurrent") and "16" not in name and name not in _NOT_IN_LITERT
    },
    **LITERT_ONLY,
    "add": binary(Op.ADD, "Add"),
    "sub": binary(Op.SUB, "Sub"),
    "mul": binary(Op.MUL, "Mul"),
    "average_pool": pool(Op.AVERAGE_POOL_2D),
}


def unsigned(made: Battery) -> None:
    """The battery's int8 tensors as uint8 ones of the same real values; weights with one scale, as such models have."""
    for tensor in made.tensors:
        tensor.scale, tensor.zero_point = tensor.scale[:1], tensor.zero_point[:1]
        if tensor.type == tflite.TensorType.INT8 and tensor.scale:
            tensor.type, tensor.zero_point = tflite.TensorType.UINT8, [tensor.zero_point[0] + 128]
            if isinstance(tensor.data, np.ndarray):
                tensor.data = tensor.data.view(np.uint8) ^ np.uint8(128)


def fed(data: np.ndarray) -> np.ndarray:
    return data.view(np.uint8) ^ np.uint8(128) if data.dtype == np.int8 else data


def run(made: Battery, samples: int, cpu: str, board: str, folder: Path) -> tuple[list[list[np.ndarray]], Library]:
    """For each sample the distance of each output from LiteRT's."""
    path = folder / "model.tflite"
    path.write_bytes(made.finish(made.inputs, made.outputs))
    inputs = [[fed(feed()) for feed in made.feeds] for _ in range(samples)]
    expected = litert(path, inputs)
    library = compile_model(path, CompileOptions(Target.for_cpu(cpu)))
    packed = [b"".join(data.tobytes() for data in sample) for sample in inputs]
    results, _ = build_and_run(library, board, packed, folder / "build")
    distances = []
    for result, wanted in zip(results, expected, strict=True):
        offset, row = 0, []
        for part in wanted:
            got = np.frombuffer(result[offset : offset + part.nbytes], part.dtype).reshape(part.shape)
            row.append(np.abs(got.astype(np.float64) - part))
            offset += part.nbytes
        distances.append(row)
    return distances, library


@pytest.mark.parametrize(("cpu", "board", "repeats"), [("host", "host", 3), ("cortex-m4", "mps2-an386", 1)])
def test_operators_equal_litert(cpu, board, repeats, tmp_path):
    made = Battery(random=np.random.default_rng(11))
    for _ in range(repeats):
        for name, case in CASES.items():
            made.label = name
            case(made)
    unsigned(made)
    distances, library = run(made, 2, cpu, board, tmp_path)
    for row in distances:
        for label, distance in zip(made.labels, row, strict=True):
            assert distance.max(initial=0) <= _APART.get(label, 0), label
    floats = [entry for entry in library.float_operators if "float" not in entry and "embedding" not in entry]
    assert not floats, floats


def test_inputs_and_outputs_stay_unsigned(tmp_path):
    made = Battery(random=np.random.default_rng(2))
    CASES["conv2d"](made)
    unsigned(made)
    _, library = run(made, 1, "host", "host", tmp_path)
    assert [info.dtype for info in (*library.inputs, *library.outputs)] == ["uint8", "uint8"]
    quantization = library.inputs[0].quantization
    assert quantization is not None
    assert quantization.zero_point == tuple(made.tensors[made.inputs[0]].zero_point)
    assert "conv2d" in [call.operator for call in library.calls]


def test_bytes_shared_with_another_type_are_refused(tmp_path):
    """One buffer as uint8 codes and as int8 ones could not be read both ways."""
    codes = np.arange(8, dtype=np.uint8)
    network = Network(
        [
            Tensor("x", [8], tflite.TensorType.UINT8, scale=[0.1], zero_point=[128]),
            Tensor("y", [8], tflite.TensorType.UINT8, scale=[0.1], zero_point=[128]),
            Tensor("c", [8], tflite.TensorType.UINT8, codes, scale=[0.1], zero_point=[128]),
            Tensor("d", [8], tflite.TensorType.INT8, scale=[0.1], zero_point=[0], buffer=1),
        ],
        [Operator(Op.MAXIMUM, [0, 2], [1])],
    )
    path = tmp_path / "m.tflite"
    path.write_bytes(network.build())
    with pytest.raises(ModelError, match="shares its codes"):
        compile_model(path, CompileOptions(Target.for_cpu("host")))
