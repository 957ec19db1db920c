"""TFLite files that are damaged, inconsistent, or hold what is not supported."""

from __future__ import annotations

import numpy as np
import pytest
import tflite
from support import MLPERF_TINY, shared
from tflite_builder import FLOAT32, INT8, INT32, Network, Operator, Tensor, dense, relu

TOPK, SPLIT, CUSTOM, DEQUANTIZE, FULLY_CONNECTED, BROADCAST_TO = 48, 49, 32, 6, 9, 130


def changed(tensor: int, **values: object) -> bytes:
    """The int8 dense layer with attributes of one tensor changed: 0 is x, 1 y, 2 weights, 3 bias."""
    network = dense()
    for key, value in values.items():
        setattr(network.tensors[tensor], key, value)
    return network.build()


def changed_operator(**values: object) -> bytes:
    """The int8 dense layer with attributes of its operator changed."""
    network = dense()
    for key, value in values.items():
        setattr(network.operators[0], key, value)
    return network.build()


@pytest.mark.parametrize("length", [1, 7, 8, 9, 100, 1000, 20000, 53000])
def test_file_cut_short(length, refused_model):
    data = shared(MLPERF_TINY / "kws_ref_model.tflite").read_bytes()
    message = refused_model("m.tflite", data[:length])
    assert "truncated or corrupt" in message or "not a TFLite model" in message


def test_every_cut_of_a_small_file_is_noticed(refused_model):
    data = dense().build()
    for length in range(8, len(data) - 4, 60):
        refused_model("m.tflite", data[:length])


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"data": b"abc"}, "'weights' needs 32 bytes and its buffer has 3"),
        ({"data": bytes(33)}, "'weights' needs 32 bytes and its buffer has 33"),
        ({"buffer": 99}, "'weights' has buffer 99 of 3"),
        ({"shape": [1 << 30, 1 << 30]}, "'weights' of shape 1073741824x1073741824 needs"),
        ({"shape": [8, 4]}, "4 scales for the 8 indices of dimension 0"),
        ({"shape": [32]}, "4 scales for the 32 indices of dimension 0"),
        ({"shape": [1] * 40}, "40 dimensions"),
        ({"scale": [0.1] * 3}, "3 scales and 4 zero points"),
        ({"scale": [0.1] * 3, "zero_point": [0] * 3}, "3 scales for the 4 indices of dimension 0"),
        ({"axis": 7}, "dimension 7 is quantized and the tensor has 2"),
        ({"zero_point": [0, 1, 0, 0]}, "a zero point of a tensor with several scales is not 0"),
        (
            {"scale": [], "zero_point": []},
            "'weights' of operator FULLY_CONNECTED (operator 0 of the model) has no quant",
        ),
    ],
)
def test_weights_that_do_not_fit_together(values, text, refused_model):
    assert text in refused_model("m.tflite", changed(2, **values))


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        ([0.0], "scale 0 is not"),
        ([-0.1], "scale -0.1 is not"),
        ([float("nan")], "scale nan is not"),
        ([float("inf")], "scale inf is not"),
        ([3e38], "too far apart"),
    ],
)
def test_input_scale_that_is_no_scale(scale, text, refused_model):
    assert text in refused_model("m.tflite", changed(0, scale=scale))


def test_softmax_scale_too_small_for_its_table(refused_model):
    tensors = [Tensor("x", [1, 8], INT8, scale=[1e-10], zero_point=[0])]
    tensors.append(Tensor("y", [1, 8], INT8, scale=[1 / 256], zero_point=[-128]))
    network = Network(tensors, [Operator(25, [0], [1], options=(9, {0: ("Float32", 1.0)}))])
    assert "input scale of a softmax is 1e-10" in refused_model("m.tflite", network.build())


@pytest.mark.parametrize("zero_point", [128, -129, 1 << 40])
def test_zero_point_outside_the_codes(zero_point, refused_model):
    message = refused_model("m.tflite", changed(0, zero_point=[zero_point]))
    assert f"'x' has bad quantization parameters\n  because: zero point {zero_point} is outside -128..127" in message


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"opcode_index": 5}, "operator code 5 of 1"),
        ({"inputs": [0, 2, 77]}, "uses tensor 77 of 4"),
        ({"inputs": [0, 2, -5]}, "uses tensor -5 of 4"),
        ({"outputs": [-1]}, "uses tensor -1 of 4"),
        ({"inputs": [1, 2, 3]}, "uses tensor 'y' before any operator makes it"),
        ({"outputs": [0]}, "makes tensor 'x', which has a value already"),
        ({"outputs": []}, "no operator makes output 'y'"),
        ({"inputs": []}, "FULLY_CONNECTED that makes 'y' (operator 0 of the model) cannot be imported"),
    ],
)
def test_operator_with_wrong_indices(values, text, refused_model):
    assert text in refused_model("m.tflite", changed_operator(**values))


@pytest.mark.parametrize(
    ("values", "text"),
    [({"inputs": [55]}, "tensor 55"), ({"outputs": []}, "no outputs"), ({"inputs": [0, 0]}, "two inputs")],
)
def test_model_with_wrong_inputs_or_outputs(values, text, refused_model):
    network = dense()
    for key, value in values.items():
        setattr(network, key, value)
    assert text in refused_model("m.tflite", network.build())


def test_output_declared_otherwise_than_computed(refused_model):
    message = refused_model("m.tflite", changed(1, shape=[1, 5]))
    assert "output 'y' is declared as int8 (1, 5)\n  because: the operators give int8 (1, 4)" in message


def test_operator_the_importer_lacks(refused_model):
    message = refused_model("m.tflite", changed_operator(code=9999))
    assert "operator number 9999 that makes 'y' (operator 0 of the model) is not supported" in message


def test_custom_operator(refused_model):
    message = refused_model("m.tflite", changed_operator(code=CUSTOM, custom="My\nOp"))
    assert "operator CUSTOM 'My\\nOp' that makes 'y'" in message


def test_operator_without_a_quantized_form(refused_model):
    code = tflite.BuiltinOperator.SEGMENT_SUM
    assert "SEGMENT_SUM that makes 'y'" in refused_model("m.tflite", changed_operator(code=code))


def test_operator_that_no_kernel_covers(refused_model):
    tensors = [Tensor("x", [1, 8]), Tensor("best", [1, 3]), Tensor("places", [1, 3], INT32)]
    tensors.append(Tensor("k", [], INT32, np.array(3, np.int32)))
    message = refused_model("m.tflite", Network(tensors, [Operator(TOPK, [0, 3], [1, 2])], outputs=[1, 2]).build())
    assert "operator 'topk' of 'best' cannot be compiled" in message


@pytest.mark.parametrize("values", [{"shape": [1, -8]}, {"signature": [-1, -1]}])
def test_dynamic_shape(values, refused_model):
    message = refused_model("m.tflite", changed(0, **values))
    assert "tensor 'x' has a dynamic shape (" in message and "?" in message


def test_tensor_without_elements(refused_model):
    assert "'x' of shape 0x8 has no elements" in refused_model("m.tflite", changed(0, shape=[0, 8]))


@pytest.mark.parametrize(
    ("kind", "name"), [(1, "float16"), (5, "string"), (8, "complex64"), (10, "FLOAT64"), (17, "INT4"), (99, "99")]
)
def test_element_type_without_a_c_form(kind, name, refused_model):
    tensors = [Tensor("x", [1, 8], kind), Tensor("y", [1, 8], kind)]
    assert f"tensor 'x' has element type {name}" in refused_model("m.tflite", relu(tensors=tensors).build())


def test_half_precision_weights_are_fine(command, tmp_path):
    tensors = [Tensor("x", [1, 4]), Tensor("y", [1, 2]), Tensor("w16", [2, 4], 1, np.ones((2, 4), np.float16))]
    operators = [Operator(DEQUANTIZE, [2], [3]), Operator(FULLY_CONNECTED, [0, 3], [1], options=(8, {}))]
    (tmp_path / "m.tflite").write_bytes(Network([*tensors, Tensor("w", [2, 4])], operators).build())
    assert command("inspect", tmp_path / "m.tflite").code == 0


def test_operator_that_would_fill_the_memory(refused_model):
    split = Operator(SPLIT, [2, 0], [1], options=(35, {0: ("Int32", 1 << 30)}))
    axis = Tensor("axis", [], INT32, np.array(0, np.int32))
    network = Network([Tensor("x", [8]), Tensor("y", [4]), axis], [split])
    assert "SPLIT that makes 'y' (operator 0 of the model) is to make 1073741824 parts" in refused_model(
        "m.tflite", network.build()
    )
    shape = Tensor("shape", [1], INT32, np.array([1 << 30], np.int32))
    network = Network([Tensor("x", [1]), Tensor("y", [1 << 20], FLOAT32), shape], [Operator(BROADCAST_TO, [0, 2], [1])])
    assert "the result of 'y' of shape 1073741824 needs" in refused_model("m.tflite", network.build())


def test_chain_too_long_for_one_kernel(refused_model):
    tensors = [Tensor(f"t{i}", [1, 8]) for i in range(1501)]
    network = Network(tensors, [Operator(66, [i], [i + 1]) for i in range(1500)], outputs=[1500])
    assert "chain of operators is too long" in refused_model("m.tflite", network.build())
