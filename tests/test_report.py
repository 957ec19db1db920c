"""The report as data: it keeps its schema, and its memory map is the plan."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
from support import MLPERF_TINY, ROOT, checked_report, shared

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit.memory_map import peak_text
from tvm_stm32.emit.report import SCHEMA_FILE
from tvm_stm32.memory.lifetimes import live_bytes, placed
from tvm_stm32.target import Target

DIGITS = ROOT / "examples" / "digits" / "digits_int8.relay"
MODELS = ["kws_ref_model", "vww_96_int8", "pretrainedResnet", "ad01_int8"]


def facts_of(path, cpu="cortex-m4", level="time", **options):
    library = compile_model(path, CompileOptions(Target.for_cpu(cpu), level, **options))
    return library, checked_report(library)


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def test_a_report_that_breaks_it_is_noticed():
    library, _ = facts_of(DIGITS)
    library.calls[0].operator = 7
    with pytest.raises(jsonschema.ValidationError):
        checked_report(library)


@pytest.mark.parametrize("level", ["time", "balanced", "ram", "size"])
def test_reports_keep_the_schema(level):
    facts_of(DIGITS, level=level)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cpu", ["cortex-m0plus", "cortex-m55"])
def test_reports_of_models_keep_the_schema(name, cpu):
    facts_of(shared(MLPERF_TINY / f"{name}.tflite"), cpu, "ram" if cpu == "cortex-m55" else "time")


@pytest.mark.parametrize("level", ["time", "ram"])
def test_the_memory_map_is_the_plan(level):
    library, facts = facts_of(shared(MLPERF_TINY / "vww_96_int8.tflite"), level=level)
    memory = facts["memory"]
    assert memory["pools"] == [{"name": "arena", "bytes": library.arena_size, "alignment": 8, "limit": 0}]
    live = live_bytes(placed(library), len(library.calls))
    for step, row in enumerate(facts["operators"]):
        covered = np.zeros(library.arena_size, bool)
        for buffer in memory["buffers"]:
            if buffer["first"] <= step <= buffer["last"]:
                covered[buffer["offset"] : buffer["offset"] + buffer["bytes"]] = True
        assert covered.sum() == row["live_bytes"] == live[step]
    kinds = [buffer["kind"] for buffer in memory["buffers"]]
    assert (kinds.count("input"), kinds.count("output")) == (1, 1)
    assert kinds.count("workspace") == sum(row["workspace_bytes"] > 0 for row in facts["operators"])


def test_only_results_over_dying_inputs_share_addresses():
    _, facts = facts_of(shared(MLPERF_TINY / "kws_ref_model.tflite"))
    buffers = facts["memory"]["buffers"]
    found = []
    for one in buffers:
        for other in buffers:
            shared_bytes = min(one["offset"] + one["bytes"], other["offset"] + other["bytes"]) - max(
                one["offset"], other["offset"]
            )
            if other["first"] < one["first"] <= other["last"] and shared_bytes > 0:
                assert other["last"] == one["first"]
                found.append((one["name"], other["name"], shared_bytes))
    assert found
    assert found == [(one["name"], under["name"], under["bytes"]) for one in buffers for under in one["over"]]


def test_who_makes_the_peak_adds_up():
    library, facts = facts_of(shared(MLPERF_TINY / "pretrainedResnet_quant.tflite"))
    peak = facts["memory"]["peak"]
    assert peak["bytes"] == facts["peak_live_bytes"] == sum(part["adds"] for part in peak["buffers"])
    assert peak["bytes"] == facts["operators"][peak["step"]]["live_bytes"]
    assert {part["name"] for part in peak["buffers"]} == {
        buffer.name for buffer in placed(library) if buffer.first <= peak["step"] <= buffer.last
    }
    text = peak_text(facts)
    assert text.startswith(f"operator {peak['step']}, ")
    assert f"needs {peak['bytes']:,} bytes: input " in text


def test_tensors_the_application_places_are_not_in_the_map():
    _, facts = facts_of(DIGITS, external_io=("all",))
    assert not {"input", "output"} & {buffer["kind"] for buffer in facts["memory"]["buffers"]}


def test_the_peak_in_words():
    parts = [("input", 27_648, 27_648), ("kept", 100, 100), ("result", 30_000, 2_352), ("workspace", 1_756, 1_756)]
    peak = {"step": 0, "bytes": 31_856}
    peak["buffers"] = [{"name": role, "role": role, "bytes": size, "adds": adds} for role, size, adds in parts]
    over = [{"name": "input", "bytes": 27_648}]
    memory = {"buffers": [{"name": "result", "kind": "activation", "over": over}], "peak": peak, "pools": [{}]}
    assert peak_text({"memory": memory, "operators": [{"index": 0, "operator": "conv2d"}]}) == (
        "operator 0, conv2d, needs 31,856 bytes: input 27,648, kept for later 100, result 30,000 over it (2,352 more), "
        "workspace 1,756"
    )
    assert peak_text({"memory": {"buffers": [], "peak": {"step": None}}, "operators": []}) == ""


def test_copies_of_weights_are_one_part_of_the_peak():
    names = [("a", "kept", 100), ("b", "kept", 200), ("c", "kept", 30), ("d", "result", 4)]
    peak = {"step": 0, "bytes": 334}
    peak["buffers"] = [{"name": name, "role": role, "bytes": size, "adds": size} for name, role, size in names]
    buffers = [{"name": name, "kind": "constant" if name in "ab" else "activation", "over": []} for name in "abcd"]
    memory = {"buffers": buffers, "peak": peak, "pools": [{}, {}]}
    assert peak_text({"memory": memory, "operators": [{"index": 0, "operator": "conv2d"}]}) == (
        "operator 0, conv2d, needs 334 bytes in all pools: copies of weights 300 (2 buffers), kept for later 30, "
        "result 4"
    )
