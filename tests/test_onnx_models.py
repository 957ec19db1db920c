"""ONNX models a user may have: control flow of known course, functions, recurrent layers, quantizer's operators.

Compiled for this computer, run, and compared with onnxruntime.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import ROOT, need_board

sys.path.insert(0, str(ROOT / "benchmarks"))

from onnx_batch import Batch, generate
from onnx_cases import NodeTest

from tvm_stm32.errors import ModelError
from tvm_stm32.frontends.onnx import load

onnxruntime = pytest.importorskip("onnxruntime")

GENERATOR = np.random.default_rng(1)
X = GENERATOR.standard_normal((1, 8)).astype(np.float32)


def value(name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, constants=None, x=None, y=None, functions=(), domains=()) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(data), name) for name, data in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", [x or value("x", [1, 8])], [y or value("y", [1, 8])], tensors)
    opsets = [helper.make_opsetid("", 17), *[helper.make_opsetid(domain, 1) for domain in domains]]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))


def outputs(built: onnx.ModelProto, folder: Path, x: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What the generated C and what onnxruntime computes."""
    need_board("host")
    expected = onnxruntime.InferenceSession(built.SerializeToString()).run(None, {"x": x})
    test = NodeTest("model", "", built, [x], expected, 1e-5, 1e-6)
    library = generate(test, folder)
    return Batch([library], folder, "batch").run(library, test), expected


def agree(built: onnx.ModelProto, folder: Path, x: np.ndarray = X) -> None:
    for got, expected in zip(*outputs(built, folder, x), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_loop_with_a_fixed_number_of_steps(tmp_path):
    state = [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("s", [1, 8])]
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["step"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["s", "half"], ["h"]),
            helper.make_node("Add", ["h", "step"], ["t"]),
            helper.make_node("Identity", ["go"], ["still"]),
        ],
        "body",
        state,
        [value("still", [], TensorProto.BOOL), value("t", [1, 8])],
    )
    loop = helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)
    agree(model([loop], {"trips": np.int64(5), "half": np.float32(0.5)}), tmp_path)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("axes", [{"keepdims": 0}, {"keepdims": 1}])
def test_branch_that_depends_on_values(sign, axes, tmp_path):
    branches = {
        name: helper.make_graph([helper.make_node(operator, ["x"], [name])], name, [], [value(name, [1, 8])])
        for name, operator in (("then_branch", "Abs"), ("else_branch", "Exp"))
    }
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], **axes),
        helper.make_node("Greater", ["top", "zero"], ["condition"]),
        helper.make_node("If", ["condition"], ["y"], **branches),
    ]
    agree(model(nodes, {"zero": np.float32(0)}), tmp_path, sign * np.abs(X))


def test_branch_chosen_by_the_rank_of_another_branch(tmp_path):
    """As exported by PyTorch for ``squeeze``: each If asks what the one before it has left."""

    def choice(condition: str, source: str, operator: str, output: str) -> onnx.NodeProto:
        changed = helper.make_node(operator, [source, "axis"], [f"{output}_changed"])
        same = helper.make_node("Identity", [source], [f"{output}_same"])
        then_branch = helper.make_graph([changed], "then", [], [onnx.ValueInfoProto(name=f"{output}_changed")])
        else_branch = helper.make_graph([same], "else", [], [onnx.ValueInfoProto(name=f"{output}_same")])
        return helper.make_node("If", [condition], [output], then_branch=then_branch, else_branch=else_branch)

    nodes = [
        helper.make_node("Shape", ["x"], ["extents"]),
        helper.make_node("Size", ["extents"], ["rank"]),
        helper.make_node("Equal", ["rank", "two"], ["flat"]),
        choice("flat", "x", "Unsqueeze", "raised"),
        helper.make_node("Shape", ["raised"], ["raised_extents"]),
        helper.make_node("Size", ["raised_extents"], ["raised_rank"]),
        helper.make_node("Equal", ["raised_rank", "two"], ["still_flat"]),
        helper.make_node("Not", ["still_flat"], ["has_risen"]),
        choice("has_risen", "raised", "Squeeze", "lowered"),
        helper.make_node("Relu", ["lowered"], ["y"]),
    ]
    agree(model(nodes, {"two": np.int64(2), "axis": np.array([0], np.int64)}), tmp_path)


def test_branch_that_is_known(tmp_path):
    branches = {
        name: helper.make_graph([helper.make_node(operator, ["x"], [name])], name, [], [value(name, [1, 8])])
        for name, operator in (("yes", "Tanh"), ("no", "Relu"))
    }
    shape = helper.make_node("Size", ["x"], ["n"])
    test = helper.make_node("Equal", ["n", "eight"], ["c"])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branches["yes"], else_branch=branches["no"])
    agree(model([shape, test, choice], {"eight": np.int64(8)}), tmp_path)


def test_function_of_the_model(tmp_path):
    function = helper.make_function(
        "mine",
        "Scaled",
        ["a"],
        ["b"],
        [helper.make_node("Tanh", ["a"], ["t"]), helper.make_node("Add", ["t", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    calls = [helper.make_node("Scaled", [a], [b], domain="mine") for a, b in (("x", "m"), ("m", "y"))]
    agree(model(calls, functions=[function], domains=["mine"]), tmp_path)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrent_layer(kind, direction, tmp_path):
    gates, directions = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], 2 if direction == "bidirectional" else 1
    shapes = {"w": (directions, gates * 5, 3), "r": (directions, gates * 5, 5), "b": (directions, 2 * gates * 5)}
    constants = {name: GENERATOR.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    options = {"linear_before_reset": 1} if kind == "GRU" else {}
    node = helper.make_node(kind, ["x", "w", "r", "b"], ["y"], hidden_size=5, direction=direction, **options)
    built = model([node], constants, value("x", [6, 2, 3]), value("y", [6, directions, 2, 5]))
    agree(built, tmp_path, GENERATOR.standard_normal((6, 2, 3)).astype(np.float32))


SCALES = {"sx": np.float32(0.02), "sy": np.float32(0.03), "zx": np.int8(3), "zy": np.int8(-5), "one": np.float32(1)}


@pytest.mark.parametrize(
    ("operator", "inputs", "options"),
    [
        ("QLinearAdd", ["q", "sx", "zx", "q", "sx", "zx", "sy", "zy"], {}),
        ("QLinearMul", ["q", "sx", "zx", "q", "sx", "zx", "sy", "zy"], {}),
        ("QLinearSigmoid", ["q", "sx", "zx", "sy", "zy"], {}),
        ("QLinearLeakyRelu", ["q", "sx", "zx", "sy", "zy"], {"alpha": 0.2}),
        ("QLinearSoftmax", ["q", "sx", "zx", "sy", "zy"], {"axis": -1, "opset": 17}),
    ],
)
def test_operator_of_the_quantizer(operator, inputs, options, tmp_path):
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["q"]),
        helper.make_node(operator, inputs, ["y"], domain="com.microsoft", **options),
    ]
    built = model(nodes, SCALES, y=value("y", [1, 8], TensorProto.INT8), domains=["com.microsoft"])
    got, expected = outputs(built, tmp_path, X)
    assert np.abs(got[0].astype(int) - expected[0].astype(int)).max() <= 1


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_network_from_onnxruntimes_quantizer(form, tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization")
    samples = [GENERATOR.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in range(4)]

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = list(samples)

        def get_next(self):
            return {"x": self.rest.pop()} if self.rest else None

    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["c", "low", "high"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "d"], ["y"]),
    ]
    constants = {
        "w": GENERATOR.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "b": np.ones(8, np.float32),
        "low": np.float32(0),
        "high": np.float32(6),
        "d": GENERATOR.standard_normal((8, 10)).astype(np.float32),
    }
    onnx.save(model(nodes, constants, value("x", [1, 3, 8, 8]), value("y", [1, 10])), tmp_path / "float.onnx")
    options = {"activation_type": quantization.QuantType.QInt8, "weight_type": quantization.QuantType.QInt8}
    files = str(tmp_path / "float.onnx"), str(tmp_path / "int8.onnx")
    quantization.quantize_static(*files, Reader(), quant_format=quantization.QuantFormat[form], **options)
    got, expected = outputs(onnx.load(tmp_path / "int8.onnx"), tmp_path, samples[0])
    step = np.diff(np.unique(expected[0])).min()
    assert np.abs(got[0] - expected[0]).max() <= 1.01 * step


def with_data(folder: Path, location: str, **options: int) -> Path:
    """A model whose weights are in another file."""
    built = model([helper.make_node("Add", ["x", "w"], ["y"])], {"w": np.arange(8, dtype=np.float32)})
    tensor = built.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": location, **{name: str(number) for name, number in options.items()}}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, text
    path = folder / "m.onnx"
    path.write_bytes(built.SerializeToString())
    return path


def test_weights_beside_the_model_are_read(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(bytes(4) + np.arange(8, dtype=np.float32).tobytes())
    loaded = load(with_data(tmp_path, "data/w.bin", offset=4, length=32))
    assert loaded.outputs[0].shape == (1, 8)


@pytest.mark.parametrize(
    ("location", "options", "text"),
    [
        ("../w.bin", {}, "not one inside of the model's folder"),
        ("/etc/hostname", {}, "not one inside of the model's folder"),
        ("C:\\w.bin", {}, "not one inside of the model's folder"),
        ("link.bin", {}, "leads out of the model's folder"),
        ("absent.bin", {}, "that file is absent"),
        (".", {}, "it is no plain file"),
        ("w.bin", {"offset": 8}, "needs 32 bytes of 'w.bin', which has 32"),
        ("w.bin", {"offset": -4}, "needs 32 bytes of 'w.bin'"),
        ("w.bin", {"length": 16}, "needs 32 bytes of 'w.bin'"),
    ],
)
def test_weights_elsewhere_are_refused(location, options, text, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for place in (tmp_path / "w.bin", folder / "w.bin"):
        place.write_bytes(bytes(32))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelError) as refused:
        load(with_data(folder, location, **options))
    assert text in str(refused.value)
