"""Two reports compared: totals, settings, operators by node; files of strangers end in one clear error."""

from __future__ import annotations

import json
import re
from copy import deepcopy

import pytest
from click.testing import CliRunner
from support import MLPERF_TINY, ROOT, shared

from tvm_stm32 import cli
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit.diff import compare, diff_text, read_report
from tvm_stm32.emit.report import report
from tvm_stm32.errors import Error
from tvm_stm32.pool_files import load_pools
from tvm_stm32.target import Target

DIGITS = ROOT / "examples" / "digits" / "digits_int8.relay"


@pytest.fixture(scope="module")
def digits():
    return report(compile_model(DIGITS, CompileOptions(Target.for_cpu("cortex-m4"))))


def saved(folder, name, facts):
    path = folder / name
    path.write_text(facts if isinstance(facts, str) else json.dumps(facts))
    return path


def vww(level):
    path = shared(MLPERF_TINY / "vww_96_int8.tflite")
    return report(compile_model(path, CompileOptions(Target.for_cpu("cortex-m4"), level)))


def test_equal_reports_have_no_difference(digits):
    found = compare(digits, deepcopy(digits))
    assert found["same_model"]
    assert not found["settings"]
    assert not found["operators"]
    assert all(total["a"] == total["b"] for total in found["totals"].values())
    assert "no operator differs" in diff_text(found, ("a", "b"))


def test_a_chain_is_the_operators_it_runs():
    a, b = vww("time"), vww("ram")
    found = compare(a, b)
    assert found["settings"] == {"level": {"a": "time", "b": "ram"}}
    arena = found["totals"]["arena_bytes"]
    assert (arena["a"], arena["b"]) == (a["arena_bytes"], b["arena_bytes"])
    assert arena["percent"] == pytest.approx(100 * (b["arena_bytes"] / a["arena_bytes"] - 1), abs=0.01)
    joined = [entry for entry in found["operators"] if entry["change"] == "joined"]
    assert joined
    for entry in joined:
        assert entry["b"]["form"].startswith("bands-")
        assert len(entry["a"]["index"]) > 1
        assert entry["a"]["cycles_model"] > 0
    split = [entry for entry in compare(b, a)["operators"] if entry["change"] == "split"]
    assert [entry["a"] for entry in split] == [entry["b"] for entry in joined]
    text = diff_text(found, ("a.json", "b.json"))
    change = 100 * (b["arena_bytes"] / a["arena_bytes"] - 1)
    assert re.search(rf"arena \(RAM\) +{a['arena_bytes']:,} +{b['arena_bytes']:,} +{change:+.1f} %", text)
    assert re.search(r"joined +[\d ]+ -> \d+ +\w+, \w+.* -> \w+ \+ \w+", text)


def test_added_removed_and_changed_operators(digits):
    other = deepcopy(digits)
    other["model"]["sha256"] = "0" * 64
    other["settings"]["forms"] = "x"
    changed, renamed = other["operators"][0], other["operators"][1]
    changed["kernel_form"]["cycles_model"] *= 2
    changed["workspace_bytes"] += 100
    renamed["node"] = "another"
    found = compare(digits, other)
    assert [(entry["change"], entry["node"]) for entry in found["operators"]] == [
        ("changed", changed["node"]),
        ("removed", digits["operators"][1]["node"]),
        ("added", "another"),
    ]
    assert found["operators"][1]["b"] is None
    text = diff_text(found, ("a", "b"))
    assert "the models differ: sha256" in text
    assert re.search(r"forms +- +x", text)
    assert "(+100.0 %)" in text


def test_operators_of_one_name_are_matched_in_their_order(digits):
    a = deepcopy(digits)
    for row in a["operators"]:
        row["node"] = ""
    b = deepcopy(a)
    b["operators"][2]["workspace_bytes"] += 4
    (entry,) = compare(a, b)["operators"]
    assert entry["a"]["index"] == entry["b"]["index"] == [2]
    del b["operators"][-1]
    assert [entry["change"] for entry in compare(a, b)["operators"]] == ["changed", "removed"]


def test_nothing_becomes_something_without_a_percentage(digits):
    other = deepcopy(digits)
    other["macs"] = 0
    assert compare(other, digits)["totals"]["macs"]["percent"] is None
    assert re.search(r"multiply-accumulates +0 .* new", diff_text(compare(other, digits), ("a", "b")))


def test_the_command_prints_text_and_json(digits, tmp_path):
    a = saved(tmp_path, "a.json", digits)
    result = CliRunner().invoke(cli.cli, ["diff", str(a), str(a)])
    assert result.exit_code == 0
    assert "weights and tables (flash)" in result.output
    result = CliRunner().invoke(cli.cli, ["diff", str(a), str(a), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.output)["totals"]["operators"]["a"] == len(digits["operators"])


def with_value(path, value):
    def change(facts):
        *way, last = path
        for key in way:
            facts = facts[key]
        facts[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        with_value(["arena_bytes"], "many"),
        with_value(["arena_bytes"], -1),
        with_value(["arena_bytes"], 10**400),
        with_value(["arena_bytes"], float("nan")),
        with_value(["macs"], float("inf")),
        with_value(["macs"], 1.5),
        with_value(["macs"], True),
        with_value(["operators"], {}),
        with_value(["operators"], [None] * 300_000),
        with_value(["operators", 0], {"node": "x"}),
        with_value(["operators", 0, "kernel_form"], []),
        with_value(["operators", 0, "kernel_form", "cycles_model"], None),
        with_value(["operators", 0, "stages"], [{}]),
        with_value(["operators", 0, "node"], 7),
        with_value(["model"], "a.tflite"),
        with_value(["settings"], {"cpu": ["m4"]}),
        with_value(["settings"], {str(n): "" for n in range(2000)}),
        with_value(["memory", "buffers"], 3),
        with_value(["memory", "peak", "step"], "last"),
        with_value(["schema"], 99),
        lambda facts: facts.pop("schema"),
        lambda facts: facts.clear(),
    ],
)
def test_what_keeps_no_schema_is_no_report(change, digits, tmp_path):
    facts = deepcopy(digits)
    change(facts)
    path = saved(tmp_path, "x.json", facts)
    with pytest.raises(Error, match=r"x\.json' is ") as caught:
        read_report(path)
    assert len(str(caught.value)) < 900


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "7", '"x"', "{", "[" * 100_000, "1" * 5000, '{"schema": 1e999}', "\0\0", "NaN"]
)
def test_what_is_no_json_is_no_report(text, tmp_path):
    with pytest.raises(Error, match=r"x\.json' is no network report"):
        read_report(saved(tmp_path, "x.json", text))


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(Error, match="cannot read report"):
        read_report(tmp_path / "absent.json")
    with pytest.raises(Error, match="is no network report\n  because: it is no plain file"):
        read_report(tmp_path)
    (tmp_path / "x.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(Error, match="no network report"):
        read_report(tmp_path / "x.json")
    monkeypatch.setattr("tvm_stm32.emit.diff.LARGEST_FILE", 3)
    with pytest.raises(Error, match="larger than 3 bytes"):
        read_report(saved(tmp_path, "x.json", "[1, 2]"))


def test_lies_within_the_schema_are_printed_in_bounds(digits, tmp_path):
    facts = deepcopy(digits)
    row = deepcopy(facts["operators"][0])
    row |= {"operator": "x" * 50_000, "node": "\x1b[2J\ud800" * 1000, "macs": 9007199254740991.0}
    row["index"] = 9007199254740991
    facts["operators"] = [deepcopy(row) for _ in range(100)]
    facts["memory"]["peak"]["step"] = 12345
    facts["settings"] = {"a" * 99_000: "b" * 99_000}
    a, b = saved(tmp_path, "a.json", facts), saved(tmp_path, "b.json", digits)
    for names in ((a, b), (b, a)):
        result = CliRunner().invoke(cli.cli, ["diff", *map(str, names)])
        assert result.exit_code == 0
        assert "\x1b" not in result.output
        assert len(result.output) < 1_000_000


def test_a_bad_file_ends_the_command_with_one_error(tmp_path, monkeypatch, capsys):
    path = saved(tmp_path, "x.json", "{}")
    monkeypatch.setattr("sys.argv", ["tvm-stm32", "diff", str(path), str(path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.count("error: ") == 1


def test_pools_are_compared_one_by_one(tmp_path):
    def made(text: str) -> dict:
        path = tmp_path / "pools.yaml"
        path.write_text(text)
        pools = tuple(load_pools(str(path), None))
        return report(compile_model(DIGITS, CompileOptions(Target.for_cpu("cortex-m4"), pools=pools)))

    fast = "  - {name: FAST, section: .fast, size: 2K, holds: [activations, constants]}\n"
    a = made("pools:\n  - {name: MAIN, read: 1, write: 1, holds: [activations, io]}\n" + fast)
    b = made("pools:\n  - {name: MAIN, read: 5, write: 5, holds: [activations, io]}\n" + fast.replace("2K", "512"))
    found = compare(a, b)
    assert "MAIN@1/1" in found["settings"]["pools"]["a"] and "MAIN@5/5" in found["settings"]["pools"]["b"]
    assert {name: pair["a"] for name, pair in found["pools"].items()} == {
        pool["name"]: pool["bytes"] for pool in a["memory"]["pools"]
    }
    assert found["pools"]["FAST"]["b"] <= 512 < found["pools"]["FAST"]["a"]
    assert found["totals"]["ram_bytes"]["a"] == sum(p["bytes"] for p in a["memory"]["pools"])
    extra = found["totals"]["extra_cycles"]
    assert extra["b"] == b["memory"]["extra_cycles"]["run"] > extra["a"]
    text = diff_text(found, ("a", "b"))
    assert re.search(r"pool FAST +[\d,]+ +[\d,]+ +-", text) and "RAM in all" in text
    plain = report(compile_model(DIGITS, CompileOptions(Target.for_cpu("cortex-m4"))))
    assert not compare(plain, plain)["pools"] and "ram_bytes" not in compare(plain, plain)["totals"]
