"""Models written by a real Relay compiler: text and JSON mean the same; test_relay_pipeline.py compares outputs."""

from __future__ import annotations

import numpy as np
import pytest
from relay_support import FIXTURES, fixture, load_fixture

from tvm_stm32.errors import ModelError
from tvm_stm32.frontends import relay
from tvm_stm32.graph.dialect import name_of
from tvm_stm32.model import Model, Quantization

NAMES = sorted(path.stem for path in FIXTURES.glob("*.relay")) or ["none"]


@pytest.mark.parametrize("name", NAMES)
def test_text_and_json_give_the_same_operators(name: str) -> None:
    text, graph = (load_fixture(name, suffix) for suffix in ("relay", "json"))
    assert sorted(operators(text)) == sorted(operators(graph))
    assert [(i.name, i.shape, i.dtype) for i in text.outputs] == [(i.name, i.shape, i.dtype) for i in graph.outputs]
    # The printer puts a v before names that start with no letter.
    names = [[info.name.removeprefix("v_") for info in model.inputs] for model in (text, graph)]
    assert names[0] == [name.removeprefix("_") for name in names[1]]


def operators(model: Model) -> list[tuple[str, str]]:
    """Operator and result type of every call."""
    bindings = [binding for block in model.module["main"].body.blocks for binding in block.bindings]
    return [(name_of(binding.value), str(binding.var.ty)) for binding in bindings if name_of(binding.value)]


def test_partitioned_module_is_inlined() -> None:
    assert operators(load_fixture("var_cmsisnn_byoc")) == operators(load_fixture("q_conv_per_channel"))


def test_quantization_and_names_of_a_tflite_import() -> None:
    model = load_fixture("tfl_kws_int8")
    (data,), (scores,) = model.inputs, model.outputs
    assert (data.name, data.quantization) == ("input_1", Quantization((float(np.float32(0.584703)),), (83,)))
    assert (scores.name, scores.quantization) == ("Identity", Quantization((0.00390625,), (-128,)))
    assert model.numerics == "relay"
    assert (model.provenance.file_name, model.provenance.source_format) == ("tfl_kws_int8.relay", "relay")


def test_variables_are_named_after_spans() -> None:
    blocks = load_fixture("tfl_kws_int8_spans").module["main"].body.blocks
    names = [binding.var.name for block in blocks for binding in block.bindings]
    assert "functional_1/activation_1/Relu" in names


def test_weights_without_a_parameter_file_are_listed() -> None:
    with pytest.raises(ModelError, match=r"(?s)%conv1_weight, %conv1_bias.*--params"):
        relay.load(fixture("f32_lenet_params"))


@pytest.mark.parametrize("suffix", ["relay", "json"])
def test_constructs_that_fold_leave_only_arithmetic(suffix: str) -> None:
    """ctl_adt_match adds the elements of a list of two, ctl_ref doubles what is in a cell."""
    assert [name for name, _ in operators(load_fixture("ctl_adt_match", suffix))] == ["relax.add", "relax.add"]
    assert [name for name, _ in operators(load_fixture("ctl_ref", suffix))] == ["relax.add"]


@pytest.mark.parametrize("suffix", ["relay", "json"])
def test_open_batch_is_one_unless_a_shape_is_given(suffix: str) -> None:
    path = fixture("dyn_batch", suffix)
    model = relay.load(path)
    assert model.inputs[0].shape == (1, 6)
    assert any("--input-shape x:" in note for note in model.notes)
    model = relay.load(path, input_shapes={"x": (3, 6)})
    assert (model.inputs[0].shape, model.outputs[0].shape, model.notes) == ((3, 6), (6, 2), [])
    with pytest.raises(ModelError, match=r"input %x cannot have shape \(3, 7\)"):
        relay.load(path, input_shapes={"x": (3, 7)})
    with pytest.raises(ModelError, match="a shape is given for input %y"):
        relay.load(path, input_shapes={"y": (3, 6)})
