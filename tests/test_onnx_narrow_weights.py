"""ONNX weights of 4 bits are integer weights like others: the network has no floats and gives onnxruntime's codes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import build_and_run

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.target import Target

onnxruntime = pytest.importorskip("onnxruntime")


def narrow(name: str, values: np.ndarray, kind: int) -> onnx.TensorProto:
    """An initializer of ``kind``, two numbers in a byte."""
    return helper.make_tensor(name, kind, values.shape, values.reshape(-1).tolist())


def network(kind: int) -> onnx.ModelProto:
    """A convolution, a ReLU and a dense layer between Q and DQ nodes; weights of one scale a channel."""
    random = np.random.default_rng(3)
    low, high, zero = (-8, 8, 0) if kind == TensorProto.INT4 else (0, 16, 8)
    constants: list[onnx.TensorProto] = []

    def fixed(name: str, array: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(array, name))
        return name

    def weights(name: str, shape: tuple[int, ...], input_scale: float) -> tuple[list[onnx.NodeProto], list[str]]:
        channels = shape[0]
        scales = random.uniform(0.02, 0.06, channels).astype(np.float32)
        codes = random.integers(low, high, shape)
        constants.append(narrow(f"{name}_codes", codes, kind))
        constants.append(narrow(f"{name}_zero", np.full(channels, zero), kind))
        bias = random.integers(-500, 500, channels).astype(np.int32)
        made = [
            helper.make_node(
                "DequantizeLinear", [f"{name}_codes", fixed(f"{name}_scale", scales), f"{name}_zero"], [name], axis=0
            ),
            helper.make_node(
                "DequantizeLinear",
                [fixed(f"{name}_bias_codes", bias), fixed(f"{name}_bias_scale", scales * np.float32(input_scale))],
                [f"{name}_bias"],
                axis=0,
            ),
        ]
        return made, [name, f"{name}_bias"]

    def quantized(name: str, scale: float, zero_point: int) -> list[onnx.NodeProto]:
        parameters = [fixed(f"{name}_s", np.float32(scale)), fixed(f"{name}_z", np.int8(zero_point))]
        return [
            helper.make_node("QuantizeLinear", [name, *parameters], [f"{name}_q"]),
            helper.make_node("DequantizeLinear", [f"{name}_q", *parameters], [f"{name}_dq"]),
        ]

    conv, conv_inputs = weights("w1", (12, 6, 3, 3), 0.02)
    dense, dense_inputs = weights("w2", (10, 12 * 8 * 8), 0.05)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", fixed("x_s", np.float32(0.02)), fixed("x_z", np.int8(3))], ["x_dq"]),
        *conv,
        helper.make_node("Conv", ["x_dq", *conv_inputs], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        *quantized("r", 0.05, -128),
        helper.make_node("Flatten", ["r_dq"], ["f"]),
        *dense,
        helper.make_node("Gemm", ["f", *dense_inputs], ["g"], transB=1),
        helper.make_node("QuantizeLinear", ["g", fixed("g_s", np.float32(0.5)), fixed("g_z", np.int8(0))], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "narrow",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [1, 6, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [1, 10])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
def test_weights_of_four_bits(kind, tmp_path):
    built = network(kind)
    path = tmp_path / "narrow.onnx"
    path.write_bytes(built.SerializeToString())
    samples = [np.random.default_rng(n).integers(-128, 128, (1, 6, 8, 8)).astype(np.int8) for n in range(3)]
    session = onnxruntime.InferenceSession(built.SerializeToString())
    expected = [session.run(None, {"x": sample})[0] for sample in samples]
    library = compile_model(path, CompileOptions(Target.for_cpu("cortex-m4"), level="balanced"))
    assert not library.float_operators
    assert [call.operator for call in library.calls if call.macs] == ["conv2d", "dense"]
    # 768 * 10 weights of half a byte, and parameters.
    assert max(constant.data.nbytes for constant in library.constants.values()) < 4200
    results, _ = build_and_run(library, "mps2-an386", [sample.tobytes() for sample in samples], tmp_path / "build")
    for result, wanted in zip(results, expected, strict=True):
        steps = np.abs(np.frombuffer(result, np.int8).astype(int) - wanted.reshape(-1))
        assert steps.max() <= 1 and np.std(wanted) > 5
