"""Models written by a real Relay compiler give the outputs that compiler computed."""

from __future__ import annotations

import numpy as np
import pytest
from relay_support import fixture, load_fixture, run

from tvm_stm32.errors import ModelError
from tvm_stm32.frontends import relay
from tvm_stm32.graph.dialect import name_of
from tvm_stm32.model import Model, Quantization

WITH_OUTPUTS = [
    "f32_mlp",
    "f32_lenet_params",
    "f32_dscnn_nhwc",
    "f32_mobilenet_block",
    "f32_ops_elemwise",
    "f32_ops_shape",
    "f32_ops_nn",
    "f32_lstm_unrolled",
    "ctl_let_if",
    "lit_dtypes",
    "q_conv_per_channel",
    "q_ops_binary",
    "q_ops_unary",
    "q_dense_uint8_params",
    "var_fused",
    "tfl_kws_int8",
    "tfl_kws_int8_spans",
    "tfl_vww_int8",
    "tfl_ad_int8",
]


@pytest.mark.parametrize("name", WITH_OUTPUTS)
def test_outputs_are_those_of_relay(name: str) -> None:
    model = load_fixture(name)
    arrays = np.load(fixture(name).with_suffix(".npz"))
    results = run(model, *[arrays[f"in:{info.name}"] for info in model.inputs])
    assert [(info.shape, info.dtype) for info in model.outputs] == [(r.shape, str(r.dtype)) for r in results]
    for index, result in enumerate(results):
        if f"txt:{index}" not in arrays:
            continue
        expected = arrays[f"txt:{index}"]
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(result, expected)


def operators(model: Model) -> list[tuple[str, tuple[int, ...]]]:
    bindings = [binding for block in model.module["main"].body.blocks for binding in block.bindings]
    return [(name_of(binding.value), tuple(map(int, binding.var.ty.shape))) for binding in bindings]


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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ctl_adt_match", r"ctl_adt_match.relay:8:8: constructor MyNil cannot be compiled"),
        ("ctl_ref", r"ctl_ref.relay:3:96: ref cannot be compiled"),
        ("dyn_batch", r"dyn_batch.relay:2:15: input %x has a dynamic shape"),
    ],
)
def test_what_has_no_static_form_is_refused_with_its_place(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_fixture(name)
