"""Relay models through the whole pipeline: C on the host and on an emulated Cortex-M4."""

from __future__ import annotations

import numpy as np
import pytest
from support import ROOT, SHARED, build_and_run, shared

from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.project.samples import unpack

FIXTURES = SHARED / "fixtures" / "relay"
INT8 = ("tfl_kws_int8", "tfl_kws_int8_spans", "tfl_ad_int8", "tfl_vww_int8", "q_conv_per_channel", "q_ops_binary")
FLOAT = ("f32_mlp", "f32_lenet_params", "f32_dscnn_nhwc", "f32_mobilenet_block", "f32_lstm_unrolled")
BOARDS = ("host", "mps2-an386")


def run_fixture(name, board, folder):
    """Outputs of a fixture's text module on ``board``, and its oracle's."""
    path = shared(FIXTURES / f"{name}.relay")
    params = FIXTURES / f"{name}.params"
    library = compile_model(path, CompileOptions(load_board(board).target), params if params.exists() else None)
    with np.load(FIXTURES / f"{name}.npz") as arrays:
        sample = b"".join(np.ascontiguousarray(arrays[f"in:{info.name}"]).tobytes() for info in library.inputs)
        expected = [arrays[f"txt:{index}"] for index in range(len(library.outputs))]
    results, _ = build_and_run(library, board, [sample], folder)
    return library, [column[0] for column in unpack(library.outputs, results)], expected


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", INT8)
def test_int8_fixture_equals_its_oracle(name, board, tmp_path):
    library, outputs, expected = run_fixture(name, board, tmp_path)
    for got, want in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(got, want)
    if name.startswith("tfl_"):
        assert not library.float_operators


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", FLOAT)
def test_float_fixture_is_close_to_its_oracle(name, board, tmp_path):
    _, outputs, expected = run_fixture(name, board, tmp_path)
    for got, want in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)


@pytest.mark.parametrize("board", ["host", "stm32f405"])
def test_digits_demo_equals_its_reference_on_every_image(board, tmp_path):
    digits = ROOT / "examples" / "digits"
    library = compile_model(digits / "digits_int8.relay", CompileOptions(load_board(board).target))
    with np.load(digits / "digits_test.npz") as arrays:
        samples = [image.tobytes() for image in arrays["image"]]
        expected, labels = arrays["expected"], arrays["labels"]
    results, _ = build_and_run(library, board, samples, tmp_path)
    scores = np.frombuffer(b"".join(results), np.int8).reshape(expected.shape)
    np.testing.assert_array_equal(scores, expected)
    assert (scores.argmax(axis=1) == labels).mean() >= 0.97
