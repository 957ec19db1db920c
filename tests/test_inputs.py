"""--input-shape and --input-layout: dynamic dimensions fixed, NCHW inputs taken as NHWC."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support import ROOT, build_and_run
from tflite_builder import relu

from tvm_stm32.commands import Choice, inspect_model
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.errors import Error, ModelError
from tvm_stm32.target import Target

HOST = Target.for_cpu("host")


def dynamic_model(path, shape):
    """y = relu(x) with symbolic dimensions where ``shape`` has names."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x:0", "y"))
    graph = helper.make_graph([helper.make_node("Relu", ["x:0"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_free_batch_is_one_and_noted(tmp_path):
    library = compile_model(dynamic_model(tmp_path / "m.onnx", ["batch", 3]), CompileOptions(HOST))
    assert library.inputs[0].shape == (1, 3)
    assert "free batch dimension is 1" in library.notes[0]


def test_other_free_dimensions_ask_for_a_shape(tmp_path):
    path = dynamic_model(tmp_path / "m.onnx", [1, "length"])
    with pytest.raises(ModelError, match="dynamic shape") as caught:
        compile_model(path, CompileOptions(HOST))
    assert "--input-shape x:0:1" in caught.value.hint


def test_a_given_shape_is_used_and_shown(tmp_path):
    path = dynamic_model(tmp_path / "m.onnx", [1, "length"])
    text, _ = inspect_model(Choice(path, cpu="host", input_shapes=("x:0:1,7",)))
    assert "input   x:0  1x7 float32" in text
    library = compile_model(path, CompileOptions(HOST, input_shapes={"x:0": (1, 7)}))
    assert library.settings["input-shape:x:0"] == "1,7"
    sample = np.linspace(-1, 1, 7, dtype=np.float32)
    results, _ = build_and_run(library, "host", [sample.tobytes()], tmp_path / "build")
    np.testing.assert_array_equal(np.frombuffer(results[0], np.float32), np.maximum(sample, 0))


@pytest.mark.parametrize("text", ["x", "x:", "x:1,a", ":1,2", "x:0,1", "x:-1"])
def test_shapes_that_are_none(text, tmp_path):
    path = dynamic_model(tmp_path / "m.onnx", [1, 3])
    with pytest.raises(Error, match="--input-shape"):
        inspect_model(Choice(path, input_shapes=(text,)))


def test_shapes_of_unknown_inputs_and_other_ranks(tmp_path):
    path = dynamic_model(tmp_path / "m.onnx", [1, "n"])
    with pytest.raises(ModelError, match="has no input 'z'"):
        compile_model(path, CompileOptions(HOST, input_shapes={"z": (1, 2)}))
    with pytest.raises(ModelError, match="2 dimensions, not 3"):
        compile_model(path, CompileOptions(HOST, input_shapes={"x:0": (1, 2, 3)}))
    with pytest.raises(ModelError, match="cannot have shape"):
        compile_model(path, CompileOptions(HOST, input_shapes={"x:0": (2, 3)}))
    with pytest.raises(Error, match="twice for one input"):
        inspect_model(Choice(path, input_shapes=("x:0:1,2", "x:0:1,3")))


@pytest.mark.parametrize("kind", ["int8", "float"])
def test_nhwc_input_gives_the_same_outputs_without_a_transpose(kind, tmp_path):
    model = ROOT / "examples" / "digits" / f"digits_{kind}.onnx"
    libraries = {layout: compile_model(model, CompileOptions(HOST, input_layout=layout)) for layout in ("file", "nhwc")}
    assert libraries["nhwc"].inputs[0].shape == (1, 8, 8, 1)
    dtype = np.dtype(libraries["file"].inputs[0].dtype)
    sample = np.random.default_rng(1).integers(-128, 128, 64).astype(dtype).tobytes()
    outputs = [build_and_run(library, "host", [sample], tmp_path / layout)[0] for layout, library in libraries.items()]
    assert outputs[0] == outputs[1]


def test_nhwc_needs_an_input_of_four_dimensions(tmp_path):
    path = dynamic_model(tmp_path / "m.onnx", [1, 3])
    with pytest.raises(ModelError, match="no input has four dimensions"):
        compile_model(path, CompileOptions(HOST, input_layout="nhwc"))


def test_nhwc_is_refused_where_inputs_are_nhwc(tmp_path):
    path = tmp_path / "net.tflite"
    path.write_bytes(relu().build())
    with pytest.raises(ModelError, match="NHWC"):
        compile_model(path, CompileOptions(HOST, input_layout="nhwc"))


def test_a_file_name_keeps_what_stands_between_its_dots(tmp_path):
    path = tmp_path / "model-v1.2.tflite"
    path.write_bytes(relu().build())
    assert compile_model(path, CompileOptions(HOST)).name == "model_v1_2"


def test_an_alignment_no_memory_has_is_refused(tmp_path):
    path = tmp_path / "net.tflite"
    path.write_bytes(relu().build())
    with pytest.raises(Error, match="alignment 24"):
        compile_model(path, CompileOptions(HOST, alignment=24))
