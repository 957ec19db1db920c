"""The benchmark scripts measure, model and print what their tables promise."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest
from click.testing import CliRunner
from support import MLPERF_TINY, ROOT, need_board, shared

sys.path.insert(0, str(ROOT / "benchmarks"))

import mlperf_tiny


def script(name: str):
    """A script of ``benchmarks/``: a folder of the tests bears the name of one."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


kernels = script("kernels")
build_cost = script("build_cost")


def run(command, arguments):
    need_board("mps2-an386")
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_kernel_is_measured_next_to_its_floor(tmp_path):
    figures = tmp_path / "figures.json"
    output = run(kernels.main, ["dense_64", "--cpu", "cortex-m4", "--listing", "--json", str(figures)])
    row = json.loads(figures.read_text())["dense_64_10"]["cortex-m4"]
    assert row["work"] == 640
    assert row["floor"] == [0.5, 0.5]
    assert row["instructions"] < row["cycles_model"] < 2 * row["instructions"]
    assert row["cycles_model_per_unit"] == pytest.approx(row["cycles_model"] / 640, abs=1e-3)
    assert row["equal"] is not False
    assert "smlad" in output
    assert "dense_64_10_dense" in output


def test_m0plus_code_runs_on_the_emulated_m3():
    output = run(kernels.main, ["softmax", "--cpu", "cortex-m0plus"])
    assert "cortex-m0plus" in output


def test_every_figure_of_others_belongs_to_an_operator():
    peers = json.loads(kernels.PEERS.read_text())["figures"]
    assert set(peers) <= {case.name for case in kernels.CASES}
    assert len({case.name for case in kernels.CASES}) == len(kernels.CASES)


def test_a_model_has_modelled_cycles_and_a_profile(tmp_path):
    shared(MLPERF_TINY / "ad01_int8.tflite")
    figures = tmp_path / "figures.json"
    output = run(mlperf_tiny.main, ["ad", "--cpu", "cortex-m4", "--profile", "--json", str(figures)])
    row = json.loads(figures.read_text())["cortex-m4"]["ad"]
    assert row["count_method"] == "trace"
    assert sum(cost["instructions"] for cost in row["functions"]) == row["instructions"]
    assert sum(cost["cycles"] for cost in row["functions"]) == row["cycles_model"]
    assert row["cycles_model_per_mac"] == pytest.approx(row["cycles_model"] / 264_192, abs=1e-3)
    assert row["functions"][0]["symbol"] in output


def test_builds_are_measured_and_held_against_their_aims(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_STM32_RESIDENT_DIR", str(tmp_path))  # costs() sets it; so it is set back
    found = build_cost.costs(1, 2, ["ninja"], tmp_path)
    assert {kind: "".join(rows) for kind, rows in found.items()} == {"old": "a", "ninja": "bcdef"}
    assert all(cost.cpu_s >= 0 and cost.wall_s > 0 for rows in found.values() for cost in rows.values())


def test_aims_that_a_build_misses_are_named():
    def rows(a, others):
        return {
            "old": {"a": build_cost.Cost(a, a)},
            "ninja": {letter: build_cost.Cost(cpu, 1.0) for letter, cpu in zip("bcdef", others, strict=True)},
        }

    assert build_cost.missed_aims({1: rows(4.0, (4, 0.2, 0.2, 0.2, 0.2)), 100: rows(400.0, (100, 9, 9, 9, 0.9))}) == []
    assert build_cost.missed_aims({1: rows(4.0, (4, 0.21, 0.2, 0.2, 0.3)), 100: rows(400.0, (101, 9, 9, 9, 1.0))}) == [
        "(b) at 100 with ninja",
        "(c) at 1 with ninja",
        "(f) at 1 with ninja",
        "(f) at 100 with ninja",
    ]
