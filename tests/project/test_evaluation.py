"""What a run is judged by: equality with the host, accuracy, samples of the right names and shapes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tvm_stm32.errors import Error
from tvm_stm32.model import TensorInfo
from tvm_stm32.project import evaluation
from tvm_stm32.project.emulator import RunResult
from tvm_stm32.project.samples import generated, read_samples, unpack, write_outputs

CODES = [TensorInfo("scores", (1, 3), "int8")]
REALS = [TensorInfo("scores", (1, 3), "float32")]


def test_every_integer_byte_counts():
    assert evaluation.compare(CODES, [b"\1\2\3"], [b"\1\2\3"])[1]
    text, same = evaluation.compare(CODES, [b"\1\2\3"], [b"\1\2\4"])
    assert not same
    assert "1 of 3" in text


def test_floats_may_differ_by_the_tolerance_only():
    want = np.array([1.0, -2.0, 0.0], np.float32)
    near, far = want * np.float32(1 + 5e-6), want * np.float32(1 + 5e-5)
    assert evaluation.compare(REALS, [near.tobytes()], [want.tobytes()])[1]
    assert not evaluation.compare(REALS, [far.tobytes()], [want.tobytes()])[1]


@pytest.mark.parametrize(("wanted", "passed"), [(0.5, True), (0.9, False)])
def test_accuracy_below_the_least_fails(wanted, passed, tmp_path, monkeypatch):
    tensor = {"shape": [1, 3], "dtype": "int8", "scale": None, "zero_point": None}
    facts = {
        "network": "net",
        "model": {"file": "net.relay"},
        "macs": 1,
        "inputs": [{"name": "x", **tensor}],
        "outputs": [{"name": "scores", **tensor}],
    }
    (tmp_path / "report.json").write_text(json.dumps(facts))
    samples = np.zeros((2, 1, 3), np.int8)
    np.savez(tmp_path / "in.npz", x=samples, labels=np.array([0, 2], np.uint8))
    outputs = [b"\5\1\1", b"\5\1\1"]
    monkeypatch.setattr(evaluation, "run_samples", lambda *_, **__: (outputs, RunResult("", 0)))
    result = evaluation.evaluate(
        tmp_path / "image", "host", tmp_path / "report.json", None, tmp_path / "in.npz", wanted, 1.0
    )
    assert result.passed is passed
    assert "50.00% (1 of 2)" in result.text


def test_a_difference_to_the_reference_fails(tmp_path, monkeypatch):
    tensor = {"shape": [1, 3], "dtype": "int8", "scale": None, "zero_point": None}
    facts = {"network": "net", "model": {"file": "f"}, "macs": 1}
    facts |= {"inputs": [{"name": "x", **tensor}], "outputs": [{"name": "scores", **tensor}]}
    (tmp_path / "report.json").write_text(json.dumps(facts))
    answers = iter([[b"\1\2\3"] * 4, [b"\1\2\3"] * 3 + [b"\1\2\0"]])
    monkeypatch.setattr(evaluation, "run_samples", lambda *_, **__: (next(answers), RunResult("", 0)))
    reference = tmp_path / "reference"
    result = evaluation.evaluate(tmp_path / "image", "host", tmp_path / "report.json", reference, None, 0.0, 1.0)
    assert not result.passed
    assert "FAILED" in result.text


def test_samples_by_name_in_the_models_order(tmp_path):
    infos = [TensorInfo("b", (1, 2), "int8"), TensorInfo("a", (1, 1), "int16")]
    np.savez(tmp_path / "in.npz", a=np.array([[[7]], [[8]]], np.int16), b=np.array([[[1, 2]], [[3, 4]]], np.int8))
    samples = read_samples(tmp_path / "in.npz", infos)
    assert samples.stacked
    assert samples.packed == [b"\1\2\7\0", b"\3\4\10\0"]


def test_one_sample_comes_back_without_a_sample_axis(tmp_path):
    infos = [TensorInfo("x", (1, 2), "int8")]
    np.savez(tmp_path / "in.npz", x=np.array([[1, 2]], np.int8))
    samples = read_samples(tmp_path / "in.npz", infos)
    assert not samples.stacked
    write_outputs(tmp_path / "out.npz", infos, samples.packed, samples.stacked)
    with np.load(tmp_path / "out.npz") as arrays:
        np.testing.assert_array_equal(arrays["x"], [[1, 2]])


def test_wrong_names_are_reported_with_the_right_ones(tmp_path):
    np.savez(tmp_path / "in.npz", y=np.zeros((1, 2), np.int8))
    with pytest.raises(Error, match="no array for input 'x'") as caught:
        read_samples(tmp_path / "in.npz", [TensorInfo("x", (1, 2), "int8")])
    assert "'y'" in caught.value.why


def test_generated_samples_follow_the_benchmark_generator():
    info = TensorInfo("x", (1, 4), "int8")
    state, expected = 1, []
    for _ in range(4):
        state = (state * 1664525 + 1013904223) % (1 << 32)
        expected.append(state >> 24)
    assert list(generated(info, 1)) == expected
    reals = unpack([TensorInfo("x", (1, 4), "float32")], [generated(TensorInfo("x", (1, 4), "float32"), 1)])[0]
    np.testing.assert_allclose(reals.ravel(), (np.array(expected) - 128) / 128)
