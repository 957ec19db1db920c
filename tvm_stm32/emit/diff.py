"""What differs between two reports: totals, settings, and operators matched by their nodes in the model.

Reports may come from strangers: a file is of bounded size and keeps the schema before anything in it is used.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from ..columns import aligned
from ..errors import Error
from .report import SCHEMA_FILE, short_node

LARGEST_FILE = 8 << 20
_LONGEST_CELL = 80
_TOTALS = {
    "ram_bytes": "RAM in all",
    "arena_bytes": "arena (RAM)",
    "peak_live_bytes": "peak in use (RAM)",
    "constants_bytes": "weights and tables (flash)",
    "macs": "multiply-accumulates",
    "instructions": "modelled instructions",
    "cycles_model": "modelled cycles",
    "extra_cycles": "cycles of slow memory",
    "operators": "operators",
}
# Of an operator: what is compared, and what its column is called.
_FIGURES = {
    "cycles_model": "modelled cycles",
    "workspace_bytes": "workspace",
    "live_bytes": "RAM in use",
    "constants_bytes": "weights",
    "macs": "MACs",
}
_COMPARED = ("operator", "form", "instructions", *_FIGURES)


def read_report(path: Path) -> dict[str, Any]:
    """The report in a file. Raises :class:`Error` for a file that is none, with the first thing that is wrong."""
    import jsonschema

    try:
        if path.exists() and not path.is_file():
            raise Error(f"'{path}' is no network report", why="it is no plain file")
        if path.stat().st_size > LARGEST_FILE:
            raise Error(f"'{path}' is no network report", why=f"it is larger than {LARGEST_FILE:,} bytes")
        facts = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except OSError as error:
        raise Error(f"cannot read report '{path}'", why=error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise Error(f"'{path}' is no network report", why=f"it is no JSON: {_shortened(str(error))}") from error
    hint = "NAME_report.json, which compile writes"
    if isinstance(facts, dict) and "schema" not in facts and "operators" in facts:
        raise Error(f"'{path}' is a report of an older tvm-stm32", hint="compile the model again")
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    problem = next(jsonschema.Draft202012Validator(schema).iter_errors(facts), None)
    if problem is not None:
        place = problem.json_path.removeprefix("$").lstrip(".") or "file"
        raise Error(
            f"'{path}' is no network report", why=f"{_shortened(place)}: {_shortened(problem.message)}", hint=hint
        )
    return dict(facts)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _shortened(text: str) -> str:
    """Messages quote values, which may be the whole file."""
    return re.sub(r"(?s)^(.{150}).{50,}(.{100})$", r"\1 ... \2", text)


def compare(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """What differs between two reports that keep the schema, as ``tvm-stm32 diff --json`` prints it.

    ``totals`` has each figure of both with the change in percent (None from 0), ``pools`` bytes by name where there are
    several, ``settings`` those that differ (None: not set), ``operators`` an entry for each that changed: ``change`` is
    changed, joined (several became one, which runs them in bands), split, regrouped, added or removed, and each side
    sums up its operators.
    """
    pooled = any(len(facts["memory"]["pools"]) > 1 for facts in (a, b))
    return {
        **{side: _identity(facts) for side, facts in (("a", a), ("b", b))},
        "same_model": a["model"]["sha256"] == b["model"]["sha256"],
        "settings": {
            key: {"a": a["settings"].get(key), "b": b["settings"].get(key)}
            for key in sorted({*a["settings"], *b["settings"]})
            if a["settings"].get(key) != b["settings"].get(key)
        },
        "totals": {
            key: {"a": one, "b": other, "percent": _percent(one, other)}
            for (key, one), other in zip(_totals(a, pooled).items(), _totals(b, pooled).values(), strict=True)
        },
        "pools": _pools(a, b),
        "operators": [entry for entry in _matched(a["operators"], b["operators"]) if entry is not None],
    }


def _identity(facts: dict[str, Any]) -> dict[str, Any]:
    return {"network": facts["network"], "tool": facts["tool"], "model": facts["model"]}


def _totals(facts: dict[str, Any], pooled: bool) -> dict[str, int]:
    forms = [row["kernel_form"] for row in facts["operators"] if "kernel_form" in row]
    summed = {key: sum(int(form[key]) for form in forms) for key in ("instructions", "cycles_model")}
    known = {key: int(facts[key]) for key in _TOTALS if key in facts and key != "operators"}
    return {
        **({"ram_bytes": sum(int(pool["bytes"]) for pool in facts["memory"]["pools"])} if pooled else {}),
        **known,
        **summed,
        **({"extra_cycles": int(facts["memory"].get("extra_cycles", {}).get("run", 0))} if pooled else {}),
        "operators": len(facts["operators"]),
    }


def _pools(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Bytes of the pools of which there is more than the arena in one of the reports; None: no such pool."""
    one, other = ({pool["name"]: int(pool["bytes"]) for pool in facts["memory"]["pools"]} for facts in (a, b))
    if len(one) < 2 and len(other) < 2:
        return {}
    return {name: {"a": one.get(name), "b": other.get(name)} for name in dict.fromkeys([*one, *other])}


def _percent(a: int | None, b: int | None) -> float | None:
    return round(100 * (b - a) / a, 2) if a and b is not None else None


def _matched(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> Iterable[dict[str, Any] | None]:
    """An entry for operators that have a node in common; None for those that are equal."""
    sides = [_nodes(a), _nodes(b)]
    owners: list[dict[tuple[str, int], int]] = [
        {node: index for index, nodes in enumerate(side) for node in nodes} for side in sides
    ]
    seen: set[tuple[int, int]] = set()
    for start in [*((0, index) for index in range(len(a))), *((1, index) for index in range(len(b)))]:
        if start in seen:
            continue
        group: tuple[set[int], set[int]] = (set(), set())
        waiting = [start]
        while waiting:
            side, index = waiting.pop()
            if (side, index) in seen:
                continue
            seen.add((side, index))
            group[side].add(index)
            other = owners[1 - side]
            waiting += [(1 - side, other[node]) for node in sides[side][index] if node in other]
        yield _entry([a[index] for index in sorted(group[0])], [b[index] for index in sorted(group[1])])


def _nodes(operators: list[dict[str, Any]]) -> list[list[tuple[str, int]]]:
    """The nodes each operator stands for, those of one name counted."""
    met: Counter[str] = Counter()
    found = []
    for row in operators:
        nodes = []
        for part in row.get("stages") or [row]:
            nodes.append((part["node"], met[part["node"]]))
            met[part["node"]] += 1
        found.append(nodes)
    return found


def _entry(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> dict[str, Any] | None:
    one, other = _side(a), _side(b)
    if one is None or other is None:
        change = "added" if one is None else "removed"
    elif len(a) == len(b) == 1:
        if all(one[key] == other[key] for key in _COMPARED):
            return None
        change = "changed"
    else:
        change = "joined" if len(b) == 1 else "split" if len(a) == 1 else "regrouped"
    return {"change": change, "node": (b or a)[-1]["node"], "a": one, "b": other}


def _side(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Operators of one report as one: costs are summed, of RAM the most counts; no cycles without all of them."""
    if not rows:
        return None
    forms = [row.get("kernel_form") for row in rows]

    def cost(key: str) -> int | None:
        known = [int(form[key]) for form in forms if form is not None]
        return sum(known) if len(known) == len(rows) else None

    return {
        "index": [int(row["index"]) for row in rows],
        "operator": ", ".join(row["operator"] for row in rows),
        "form": ", ".join(_form(row) for row in rows),
        "macs": sum(int(row["macs"]) for row in rows),
        "instructions": cost("instructions"),
        "cycles_model": cost("cycles_model"),
        "constants_bytes": sum(int(row["constants_bytes"]) for row in rows),
        "workspace_bytes": max(int(row["workspace_bytes"]) for row in rows),
        "live_bytes": max(int(row["live_bytes"]) for row in rows),
    }


def _form(row: dict[str, Any]) -> str:
    form = str(row["kernel_form"]["form"]) if "kernel_form" in row else "-"
    stages = ", ".join(stage["form"] for stage in row.get("stages", ()))
    return f"{form} ({stages})" if stages else form


def diff_text(found: dict[str, Any], names: tuple[str, str]) -> str:
    """:func:`compare` for people; ``names`` are the files'."""
    lines = []
    for side, name in zip("ab", names, strict=True):
        who = found[side]
        lines.append(
            f"{side}  {name}: {who['network']}, {who['model']['file']} ({who['model']['format']}), {who['tool']}"
        )
    if not found["same_model"]:
        digests = " and ".join(found[side]["model"]["sha256"][:16] for side in "ab")
        lines.append(f"the models differ: sha256 {digests}")
    if found["settings"]:
        rows = [["setting", "a", "b"]]
        rows += [[key, *(_text(pair[side]) for side in "ab")] for key, pair in found["settings"].items()]
        lines += ["", *aligned(rows, "lll", _LONGEST_CELL)]
    rows = [["", "a", "b", "change"]]
    rows += [
        [_TOTALS[key], _text(total["a"]), _text(total["b"]), _change(total["a"], total["b"])]
        for key, total in found["totals"].items()
    ]
    rows += [
        [f"pool {name}", _text(pair["a"]), _text(pair["b"]), _change(pair["a"] or 0, pair["b"] or 0)]
        for name, pair in found["pools"].items()
    ]
    lines += ["", *aligned(rows, "lrrr", _LONGEST_CELL)]
    lines += ["", *_operator_lines(found["operators"])]
    return "\n".join(lines) + "\n"


def _operator_lines(entries: list[dict[str, Any]]) -> list[str]:
    if not entries:
        return ["no operator differs"]
    rows = [["", "#", "operator", "form", *_FIGURES.values(), "node"]]
    for entry in entries:
        sides = [entry["a"], entry["b"]]
        rows.append(
            [
                entry["change"],
                _both(*(side and " ".join(str(index) for index in side["index"]) for side in sides)),
                *(_both(*(side and side[key] for side in sides)) for key in ("operator", "form")),
                *(_figures(*(side and side[key] for side in sides)) for key in _FIGURES),
                short_node(entry["node"]),
            ]
        )
    # A column in which nothing differs says nothing.
    shown = [n for n in range(len(rows[0])) if n in (0, 1, 2, 9) or any(" -> " in row[n] for row in rows[1:])]
    return aligned([[row[n] for n in shown] for row in rows], "l" * len(shown), _LONGEST_CELL)


def _both(a: str | None, b: str | None) -> str:
    if a is None or b is None:
        return (b if a is None else a) or ""
    return a if a == b else f"{a} -> {b}"


def _figures(a: int | None, b: int | None) -> str:
    if a == b or a is None or b is None:
        return _both(*(None if value is None else _text(value) for value in (a, b))) or "-"
    return f"{_text(a)} -> {_text(b)} ({_change(a, b)})"


def _change(a: int, b: int) -> str:
    if a == b:
        return "="
    percent = _percent(a, b)
    return "new" if percent is None else f"{percent:+,.1f} %"


def _text(value: int | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:,}"
