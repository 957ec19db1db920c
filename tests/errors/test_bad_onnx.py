"""ONNX files that are damaged, inconsistent, or hold what is not supported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import ROOT

INT8_DIGITS = ROOT / "examples" / "digits" / "digits_int8.onnx"


def value(name: str, shape: Sequence[Any], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    *nodes: onnx.NodeProto,
    x: onnx.ValueInfoProto | None = None,
    y: onnx.ValueInfoProto | None = None,
    constants: dict[str, Any] | None = None,
    domain: str = "",
) -> bytes:
    """A network of ``x`` and ``y``, 1x8 floats unless told otherwise."""
    tensors = [
        data if isinstance(data, onnx.TensorProto) else numpy_helper.from_array(np.asarray(data), name)
        for name, data in (constants or {}).items()
    ]
    graph = helper.make_graph(list(nodes), "g", [x or value("x", [1, 8])], [y or value("y", [1, 8])], tensors)
    opsets = [helper.make_opsetid("", 13), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def node(operator: str, inputs: Sequence[str] = ("x",), outputs: Sequence[str] = ("y",), **more: Any) -> onnx.NodeProto:
    return helper.make_node(operator, list(inputs), list(outputs), **more)


def external(name: str) -> onnx.TensorProto:
    tensor = numpy_helper.from_array(np.ones(8, np.float32), name)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../../../etc/passwd"
    return tensor


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_file_cut_short(share, refused_model):
    data = INT8_DIGITS.read_bytes()
    message = refused_model("m.onnx", data[: int(len(data) * share)])
    assert "ONNX model" in message


def test_constant_that_is_missing(refused_model):
    message = refused_model("m.onnx", model(node("Add", ["x", "w"])))
    assert "'w'" in message and "invalid ONNX model" in message


def test_nodes_in_a_circle(refused_model):
    nodes = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"])]
    assert "'b'" in refused_model("m.onnx", model(*nodes))


@pytest.mark.parametrize(
    ("dims", "text"),
    [([9], "'w'|tensor name: w"), ([1 << 40], "'w' of shape 1099511627776 needs"), ([-8, -1], r"'w' has the shape")],
)
def test_dimensions_that_are_not_those_of_the_data(dims, text, refused_model):
    tensor = numpy_helper.from_array(np.ones(8, np.float32), "w")
    del tensor.dims[:]
    tensor.dims.extend(dims)
    message = refused_model("m.onnx", model(node("Add", ["x", "w"]), constants={"w": tensor}))
    assert any(part in message for part in text.split("|"))


def test_data_in_another_file_is_never_read(refused_model):
    text = "tensor 'w' keeps its data in another file"
    assert text in refused_model("m.onnx", model(node("Add", ["x", "w"]), constants={"w": external("w")}))
    inside = node("Constant", [], ["w"], value=external("w"))
    assert text in refused_model("m.onnx", model(inside, node("Add", ["x", "w"])))


def test_text_that_is_not_utf8(refused_model):
    data = model(node("Relu", name="abcdefgh")).replace(b"abcdefgh", b"abc\xff\xfefgh")
    assert "utf-8" in refused_model("m.onnx", data)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scale_that_is_no_scale(scale, refused_model):
    data = model(
        node("QuantizeLinear", ["x", "s"], ["q"], name="coarse"),
        node("DequantizeLinear", ["q", "s"]),
        constants={"s": np.float32(scale)},
    )
    assert "quantize of 'coarse' has the scale" in refused_model("m.onnx", data)


@pytest.mark.parametrize(("operator", "domain"), [("Frobnicate", ""), ("Relu", "com.example")])
def test_operator_the_importer_lacks(operator, domain, refused_model):
    message = refused_model("m.onnx", model(node(operator, name="odd", domain=domain), domain=domain))
    assert f"{operator} of node 'odd' is not supported" in message
    assert domain in message


def test_operator_without_a_name_is_called_by_its_output(refused_model):
    assert "operator Frobnicate of node 'y'" in refused_model("m.onnx", model(node("Frobnicate")))


def test_control_flow(refused_model):
    branch = helper.make_graph([node("Relu", ["x"], ["a"])], "then", [], [value("a", [1, 8])])
    data = model(
        node("Greater", ["x", "x"], ["c"]), node("If", ["c"], name="choice", then_branch=branch, else_branch=branch)
    )
    assert "operator If of node 'choice' is not supported" in refused_model("m.onnx", data)


def test_operator_whose_results_are_as_many_as_values_say(refused_model):
    tensor = value("boxes", [1, 6, 4])
    nodes = [
        node("NonMaxSuppression", ["boxes", "scores", "most"], ["places"], name="best"),
        node("Cast", ["places"], ["y"], to=TensorProto.FLOAT),
    ]
    constants = {"scores": np.ones((1, 1, 6), np.float32), "most": np.array([3])}
    message = refused_model("m.onnx", model(*nodes, x=tensor, y=value("y", ["n", 3]), constants=constants))
    assert "only known while the model runs" in message


def test_wrong_attribute(refused_model):
    data = model(
        node("Conv", ["x", "w"], name="first", strides=[0, 0]),
        x=value("x", [1, 1, 8, 8]),
        y=value("y", [1, 1, 6, 6]),
        constants={"w": np.ones((1, 1, 3, 3), np.float32)},
    )
    assert "operator Conv of node 'first' cannot be imported" in refused_model("m.onnx", data)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ([1, "length"], "input 'x' has a dynamic shape (dimension 1 is 'length')"),
        ([1, None], "input 'x' has a dynamic shape (dimension 1 is '?')"),
        ([1, -5], "input 'x' has a dynamic shape"),
        ([1, 0], "input 'x' of shape 1x0 has no elements"),
        ([1 << 30, 1 << 30], "input 'x' of shape 1073741824x1073741824 needs"),
    ],
)
def test_input_without_a_usable_shape(shape, text, refused_model):
    assert text in refused_model("m.onnx", model(node("Relu"), x=value("x", shape), y=value("y", shape)))


def test_shape_that_depends_on_values(refused_model):
    data = model(node("NonZero", name="places"), y=value("y", [2, "n"], TensorProto.INT64))
    assert "output 'y' has a dynamic shape" in refused_model("m.onnx", data)


def test_free_batch_dimension_is_one(command, tmp_path):
    (tmp_path / "m.onnx").write_bytes(model(node("Relu"), x=value("x", ["N", 8]), y=value("y", ["N", 8])))
    done = command("inspect", tmp_path / "m.onnx")
    assert done.code == 0 and "the free batch dimension is 1" in done.out


@pytest.mark.parametrize("name", ["FLOAT16", "BFLOAT16", "DOUBLE", "STRING", "COMPLEX64", "INT4"])
def test_input_type_without_a_c_form(name, refused_model):
    kind = TensorProto.DataType.Value(name)
    data = model(node("Identity"), x=value("x", [1, 8], kind), y=value("y", [1, 8], kind))
    assert f"input 'x' has element type {name.lower()}" in refused_model("m.onnx", data)


def test_half_precision_inside(refused_model):
    data = model(
        node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        node("Relu", ["h"], ["r"], name="half"),
        node("Cast", ["r"], ["y"], to=TensorProto.FLOAT),
    )
    assert "element type float16" in refused_model("m.onnx", data)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("ConstantOfShape", ["n"], ["c"], name="big")],
        [node("Tile", ["x", "twice"], ["c"], name="big")],
        [node("Expand", ["x", "wide"], ["c"], name="big")],
        [node("Range", ["zero", "end", "one"], ["c"], name="big")],
    ],
    ids=lambda nodes: nodes[0].op_type,
)
def test_operator_that_would_fill_the_memory(nodes, refused_model):
    constants = {
        "n": np.array([1 << 40]),
        "twice": np.array([1 << 20, 1 << 20]),
        "wide": np.array([1 << 20, 1 << 20, 1, 8]),
        "zero": np.float32(0),
        "end": np.float32(1e12),
        "one": np.float32(1),
    }
    used = {name: constants[name] for name in nodes[0].input if name in constants}
    data = model(*nodes, node("ReduceSum", ["c"], keepdims=0), y=value("y", []), constants=used)
    assert "beyond any Cortex-M" in refused_model("m.onnx", data)


def added_to_x(*nodes: onnx.NodeProto, **constants: Any) -> bytes:
    """Nodes that make ``c`` of constants, whose sum is added to ``x``."""
    total = node("ReduceSum", ["c"], ["s"], keepdims=0)
    return model(*nodes, total, node("Add", ["x", "s"]), constants=constants)


@pytest.mark.parametrize("depth", [np.array(300_000_000), np.array([300_000_000])])
def test_one_hot_of_constants_too_deep_for_memory(depth, refused_model):
    data = added_to_x(
        node("OneHot", ["i", "d", "v"], ["c"], name="big"), i=np.arange(1000), d=depth, v=np.array([0, 1], np.float32)
    )
    assert "node 'big' makes a tensor of shape [1000, 300000000]" in refused_model("m.onnx", data)


def test_sparse_constant_that_claims_gigabytes(refused_model):
    data = numpy_helper.from_array(np.ones(1, np.float32), "v"), numpy_helper.from_array(np.array([3]), "i")
    sparse = helper.make_sparse_tensor(*data, [1 << 33])
    message = refused_model("m.onnx", added_to_x(node("Constant", [], ["c"], name="big", sparse_value=sparse)))
    assert "node 'big' makes a tensor of shape [8589934592]" in message


def test_constants_too_large_together(refused_model):
    nodes, last = [], "x"
    for at in range(60):
        nodes += [node("ConstantOfShape", ["n"], [f"c{at}"]), node("ReduceMax", [f"c{at}"], [f"m{at}"], keepdims=0)]
        nodes += [node("Add", [last, f"m{at}"], [f"a{at}"])]
        last = f"a{at}"
    data = model(*nodes, node("Relu", [last]), constants={"n": np.array([2_000_000])})
    assert "takes the constants computed from the model's own past 268,435,456 bytes" in refused_model("m.onnx", data)


def test_constant_that_grows_in_a_loop(refused_model):
    state = [value("i", [], TensorProto.INT64), value("on", [], TensorProto.BOOL), value("s", ["a", "b"])]
    results = [value("still", [], TensorProto.BOOL), value("t", ["a", "b"])]
    nodes = [node("Identity", ["on"], ["still"]), node("Concat", ["s", "s"], ["t"], axis=1)]
    loop = node("Loop", ["n", "go", "w"], ["c"], name="grow", body=helper.make_graph(nodes, "body", state, results))
    data = added_to_x(loop, n=np.array(60), go=np.array(True), w=np.ones((1, 8), np.float32))
    assert "node 'grow' makes a tensor of shape" in refused_model("m.onnx", data)


@pytest.mark.parametrize(
    "big",
    [
        node("MaxPool", ["w"], ["c"], name="big", kernel_shape=[1000, 1000], pads=[999] * 4),
        node("RoiAlign", ["w", "r", "k"], ["c"], name="big", output_height=9, output_width=9, sampling_ratio=100000),
        node("Conv", ["w", "f"], ["c"], name="big", pads=[1 << 20] * 4, strides=[1 << 20] * 2),
    ],
    ids=lambda big: big.op_type,
)
def test_windows_over_constants_that_take_for_ever(big, refused_model):
    image, window = np.ones((1, 1, 80, 80), np.float32), np.ones((1, 1, 2, 2), np.float32)
    data = added_to_x(big, w=image, f=window, r=np.ones((1, 4), np.float32), k=np.array([0]))
    assert "node 'big'" in refused_model("m.onnx", data)


@pytest.mark.parametrize(
    "big",
    [
        node("DFT", ["x", "n"], ["c"], name="big"),
        node("Col2Im", ["x", "n2", "two"], ["c"], name="big"),
        node("MaxPool", ["x"], ["d", "c"], name="big", kernel_shape=[200, 200], pads=[100] * 4),
        node("Resize", ["x", "", "", "wide"], ["c"], name="big", mode="cubic"),
        node("LSTM", ["x", "w", "w"], ["c"], name="big", hidden_size=1 << 40),
    ],
    ids=lambda big: big.op_type,
)
def test_table_too_large_to_make(big, refused_model):
    shape = {"DFT": [1, 8, 1], "LSTM": [4, 1, 4], "Col2Im": [1, 4, 8]}.get(big.op_type, [1, 1, 300, 300])
    constants = {"n": np.array(1 << 20), "n2": np.array([1 << 12, 1 << 12]), "two": np.array([2, 2])}
    constants |= {"wide": np.array([1, 1, 8, 2_000_000]), "w": np.ones((1, 16, 4), np.float32)}
    tensors = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()]
    kind = TensorProto.INT64 if big.op_type == "MaxPool" else TensorProto.FLOAT
    graph = helper.make_graph([big], "g", [value("x", shape)], [value("c", ["n"], kind)], tensors)
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()
    assert "node 'big'" in refused_model("m.onnx", data)


def test_functions_that_call_each_other_twice(refused_model):
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "F0", ["a"], ["b"], [node("Relu", ["a"], ["b"])], opsets)]
    for at in range(1, 30):
        calls = [node(f"F{at - 1}", ["a"], ["t"], domain="own"), node(f"F{at - 1}", ["t"], ["b"], domain="own")]
        functions.append(helper.make_function("own", f"F{at}", ["a"], ["b"], calls, opsets))
    call = node("F29", name="all", domain="own")
    graph = helper.make_graph([call], "g", [value("x", [1, 8])], [value("y", [1, 8])])
    data = helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=9).SerializeToString()
    assert "node 'all' takes the model past 20,000 operators" in refused_model("m.onnx", data)


@pytest.mark.parametrize("index", [8, -9, 1 << 40])
@pytest.mark.parametrize("constant", [False, True])
def test_constant_index_outside_of_a_tensor(index, constant, refused_model):
    data = model(
        node("Gather", ["w" if constant else "x", "i"], name="far", axis=1),
        y=value("y", [1, 1]),
        constants={"i": np.array([index]), "w": np.ones((1, 8), np.float32)},
    )
    assert f"index {index} is outside of [8] elements" in refused_model("m.onnx", data)
