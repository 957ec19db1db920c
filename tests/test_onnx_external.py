"""Where ONNX models keep external data, read without onnx."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm_stm32.frontends.onnx_locations import external_locations


def external(name: str, location: str) -> onnx.TensorProto:
    tensor = numpy_helper.from_array(np.zeros(8, np.float32), name)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", "0"), ("length", "32")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, text
    return tensor


def model(*locations: str) -> onnx.ModelProto:
    """A tensor as an initializer, in a constant, in a branch of an If, in a function."""
    first, second, third, fourth = locations
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["b"], value=external("", third))], "inner", [], [value("b")]
    )
    function = helper.make_function(
        "local", "f", [], ["y"], [helper.make_node("Constant", [], ["y"], value=external("", fourth))], []
    )
    nodes = [
        helper.make_node("Constant", [], ["c"], value=external("", second)),
        helper.make_node("If", ["x"], ["d"], then_branch=inner, else_branch=inner),
    ]
    graph = helper.make_graph(nodes, "g", [value("x")], [value("d")], [external("a", first)])
    return helper.make_model(graph, functions=[function])


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [8])


def test_every_place_a_tensor_may_be_in(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(model("a.bin", "sub/b.bin", "c.bin", "a.bin").SerializeToString())
    assert external_locations(path) == ["a.bin", "c.bin", "sub/b.bin"]


@pytest.mark.parametrize("location", ["../x", "/etc/passwd", "C:\\x", "", "a\0b", "sub/../../x"])
def test_places_outside_are_left_out(location, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(model("a.bin", location, "a.bin", "a.bin").SerializeToString())
    assert external_locations(path) == ["a.bin"]


def test_damaged_files_have_none_or_some_but_never_fail(tmp_path):
    whole = model("a.bin", "b.bin", "c.bin", "d.bin").SerializeToString()
    path = tmp_path / "m.onnx"
    generator = np.random.default_rng(1)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert set(external_locations(path)) <= {"a.bin", "b.bin", "c.bin", "d.bin"}
        damaged = bytearray(whole)
        damaged[size] = generator.integers(256)
        path.write_bytes(damaged)
        external_locations(path)
    assert external_locations(tmp_path / "absent.onnx") == []
