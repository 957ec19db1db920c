"""Real archives of old TVM give their oracle's outputs, on the host and on an emulated Cortex-M4."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from support import SHARED, build_and_run, shared

from tvm_stm32.boards import load_board
from tvm_stm32.emit.emitter import render
from tvm_stm32.errors import ModelError
from tvm_stm32.library import Library
from tvm_stm32.mlf import MlfOptions, describe_operators, load_library
from tvm_stm32.model import Provenance
from tvm_stm32.project.samples import unpack
from tvm_stm32.target import Target

FIXTURES = SHARED / "fixtures"
# Archive -> the Relay fixture that holds inputs and outputs.
ORACLES = {
    "f32_dscnn_graph": "f32_dscnn_nhwc",
    "f32_lenet_aot_unpacked_c": "f32_lenet_params",
    "f32_lenet_graph": "f32_lenet_params",
    "f32_lenet_graph_relay_fused_off": "f32_lenet_params",
    "f32_lstm_graph": "f32_lstm_unrolled",
    "f32_mlp_aot_packed": "f32_mlp",
    "f32_mlp_aot_unpacked_c": "f32_mlp",
    "f32_mlp_aot_usmp_io": "f32_mlp",
    "f32_mlp_graph_linkparams": "f32_mlp",
    "q_conv_aot_pools": "q_conv_per_channel",
    "q_conv_aot_usmp": "q_conv_per_channel",
    "synthetic_v1_graph": "f32_lenet_params",
    "synthetic_v2_aot": "f32_mlp",
    "synthetic_v2_graph": "f32_lenet_params",
    "synthetic_v3_aot": "f32_mlp",
    "synthetic_v4_aot": "f32_mlp",
    "synthetic_v4_graph": "f32_lenet_params",
    "synthetic_v5_aot": "f32_mlp",
    "synthetic_v5_graph": "f32_lenet_params",
    "synthetic_v6_aot": "f32_mlp",
    "synthetic_v6_aotc": "f32_mlp",
    "synthetic_v6_graph": "f32_lenet_params",
    "tfl_ad_graph": "tfl_ad_int8",
    "tfl_kws_aot_plain_c": "tfl_kws_int8",
    "tfl_kws_graph_plain": "tfl_kws_int8",
}
# The two modules' weights are their own: outputs of the archive's C, compiled untouched, on the inputs of two fixtures.
TWO_MODULES = {
    "mod_a": ("f32_mlp", [0.12583065, 0.741714478, 0.0584531352, 0.0535528176, 0.0204489063]),
    "mod_b": ("q_dense_uint8_params", [-64, -64, -64, -64, 63.5, -5.5]),
}


def load(name: str, board: str, **options: str) -> Library:
    """The library of a fixture, with nothing in it that tells apart archives of the same C."""
    path = shared(FIXTURES / "mlf" / f"{name}.tar")
    library = load_library(path, MlfOptions(load_board(board).target, name="net", **options))
    return dataclasses.replace(library, provenance=Provenance("net.tar", "0" * 64, "mlf"))


@functools.cache
def outputs(text_digest: str, board: str, sample: bytes) -> list[bytes]:
    """What a network of that C puts out: archives of several versions hold the same C, which is built once."""
    library, folder = _built[text_digest]
    return build_and_run(library, board, [sample], folder)[0]


_built: dict[str, tuple[Library, Path]] = {}


def run(library: Library, board: str, oracle: str, folder: Path) -> list[np.ndarray]:
    """Outputs for the oracle's inputs."""
    texts = render(library)
    code = "".join(texts[suffix] for suffix in (".c", ".h", "_data.c", "_data.h"))
    digest = hashlib.sha256(code.encode()).hexdigest()
    _built[digest] = (library, folder)
    with np.load(shared(FIXTURES / "relay" / f"{oracle}.npz")) as arrays:
        sample = b"".join(np.ascontiguousarray(arrays[f"in:{info.name}"]).tobytes() for info in library.inputs)
    return [column[0] for column in unpack(library.outputs, outputs(digest, board, sample))]


@pytest.mark.parametrize("board", ["host", "mps2-an386"])
@pytest.mark.parametrize("name", ORACLES)
def test_archive_equals_its_oracle(name, board, tmp_path):
    library = load(name, board)
    with np.load(shared(FIXTURES / "relay" / f"{ORACLES[name]}.npz")) as arrays:
        expected = [arrays[f"out:{index}"] for index in range(len(library.outputs))]
    for got, want in zip(run(library, board, ORACLES[name], tmp_path), expected, strict=True):
        # Ahead-of-time modules do not say the shapes of outputs.
        assert got.dtype == want.dtype and got.size == want.size
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got.ravel(), want.ravel(), 1e-5, 1e-6)
        else:
            np.testing.assert_array_equal(got.ravel(), want.ravel())


def test_every_archive_with_an_oracle_is_tested():
    index = json.loads(shared(FIXTURES / "mlf" / "index.json").read_text())
    known = {Path(row["file"]).stem for row in index}
    assert known == {*ORACLES, "two_modules_aot", "operator_style"}


@pytest.mark.parametrize("board", ["host", "mps2-an386"])
@pytest.mark.parametrize("module", TWO_MODULES)
def test_each_module_of_an_archive_runs(module, board, tmp_path):
    oracle, expected = TWO_MODULES[module]
    library = load("two_modules_aot", board, module=module)
    (got,) = run(library, board, oracle, tmp_path)
    np.testing.assert_allclose(got.ravel(), expected, 1e-5, 1e-6)


def test_modules_are_named_when_none_is_chosen():
    with pytest.raises(ModelError, match=r"2 modules\n.*mod_a, mod_b\n.*--module"):
        load("two_modules_aot", "host")


def test_module_names_its_network():
    path = shared(FIXTURES / "mlf" / "two_modules_aot.tar")
    assert load_library(path, MlfOptions(Target("host"), module="mod_b")).name == "mod_b"


def test_operators_are_listed_and_not_run():
    path = shared(FIXTURES / "mlf" / "operator_style.tar")
    assert "muladd(float32 4x8, float32 4x8, float32 4x8)" in (describe_operators(path) or "")
    with pytest.raises(ModelError, match="single operators"):
        load_library(path, MlfOptions(Target("host")))


def test_our_plan_needs_less_than_the_archives_and_both_run(tmp_path):
    results = []
    for storage in ("planned", "archive"):
        library = load("f32_lenet_graph", "host", storage=storage)
        assert library.arena_choices == {"planned": 26048, "archive": 30920}
        assert library.arena_size == library.arena_choices[storage]
        results.append(run(library, "host", "f32_lenet_params", tmp_path / storage))
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("name", ["f32_dscnn_graph", "f32_lstm_graph", "tfl_kws_graph_plain", "tfl_ad_graph"])
def test_report_compares_the_plans(name):
    library = load(name, "host")
    assert library.arena_size == library.arena_choices["planned"] < library.arena_choices["archive"]
    text = render(library)["_report.txt"]
    assert f"archive             {library.arena_choices['archive']:,} bytes" in text


def test_inputs_and_outputs_stay_in_the_pools_that_hold_them():
    library = load("f32_mlp_aot_usmp_io", "host")
    places = {name: library.tensors[name].offset for name in (*library.input_tensors, *library.output_tensors)}
    assert places == {"x": 0, "output": 32}
    assert library.arena_size == 216
