"""A fixed sample of the ONNX project's node tests: on this computer, and a hundred of them on an emulated Cortex-M4.

``python benchmarks/onnx_coverage.py --sample 120`` draws the sample; docs/onnx-coverage.md has all tests.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support import ROOT, need_board

sys.path.insert(0, str(ROOT / "benchmarks"))

from onnx_batch import Batch, generate
from onnx_cases import NodeTest, difference, node_tests

from tvm_stm32.boards import load_board
from tvm_stm32.library import Library
from tvm_stm32.project.emulator import run_image
from tvm_stm32.project.firmware import build_image

SAMPLE = (ROOT / "tests" / "onnx_node_sample.txt").read_text().split()
ON_TARGET = 100
PER_IMAGE = 25
BOARD = "mps2-an386"


@pytest.fixture(scope="module")
def tests() -> dict[str, NodeTest]:
    """The sample's tests by name."""
    every = {test.name: test for test in node_tests()}
    return {name: every[name] for name in SAMPLE}


@pytest.fixture(scope="module")
def on_host(tests, tmp_path_factory) -> dict[str, str]:
    """What is wrong with each test's outputs on this computer."""
    need_board("host")
    folder = tmp_path_factory.mktemp("nodes")
    libraries = {name: generate(test, folder) for name, test in tests.items()}
    batch = Batch(list(libraries.values()), folder, "sample")
    return {name: difference(test, batch.run(libraries[name], test)) for name, test in tests.items()}


@pytest.mark.parametrize("name", SAMPLE)
def test_node_on_this_computer(name, on_host):
    assert not on_host[name]


@pytest.mark.parametrize("start", range(0, ON_TARGET, PER_IMAGE))
def test_nodes_on_a_cortex_m4(start, tests, tmp_path):
    need_board(BOARD)
    chosen = [tests[name] for name in SAMPLE[start : start + PER_IMAGE]]
    libraries = [generate(test, tmp_path, BOARD) for test in chosen]
    outputs = _run(libraries, chosen, tmp_path)
    wrong = {test.name: difference(test, found) for test, found in zip(chosen, outputs, strict=True)}
    assert not {name: text for name, text in wrong.items() if text}


def _run(libraries: Sequence[Library], tests: Sequence[NodeTest], folder: Path) -> list[list[np.ndarray]]:
    """All networks in one image, run once each on the emulated board; their outputs."""
    board = load_board(BOARD)
    names = [library.name for library in libraries]
    table = "".join(f"    &ai_{name}_network,\n" for name in names)
    includes = "".join(f'#include "{name}.h"\n' for name in names)
    (folder / "networks.h").write_text(f"{includes}static const ai_model_info *const networks[] = {{\n{table}}};\n")
    source = folder / "networks.c"
    source.write_text("".join(f'#include "{name}.c"\n#include "{name}_data.c"\n' for name in names))
    runner = ROOT / "tests" / "onnx_node_runner.c"
    image = build_image([source, runner], [folder], board, folder, "nodes", optimize="-O1", warnings_as_errors=True)
    (folder / "in.bin").write_bytes(b"".join(array.tobytes() for test in tests for array in test.inputs))
    run_image(image, board, ["in.bin", "out.bin"], cwd=folder)
    data = (folder / "out.bin").read_bytes()
    results: list[list[np.ndarray]] = []
    at = 0
    for library in libraries:
        found = []
        for info in library.outputs:
            size = int(np.prod(info.shape, dtype=np.int64)) * np.dtype(info.dtype).itemsize
            found.append(np.frombuffer(data[at : at + size], info.dtype).reshape(info.shape))
            at += size
        results.append(found)
    assert at == len(data)
    return results
