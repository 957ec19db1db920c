"""The report as one self-contained HTML page: who needs RAM and when, addresses over time, the graph and its costs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import jinja2

from ..library import Library
from .memory_map import peak_text
from .report import removed_text, report, shape_text

_ROW = 46
_STAGE = 26
_ARC = 18
# Of the drawings of memory: their size in pixels, and the margin of the scale on the left.
_WIDTH, _LEFT, _TIMELINE, _MAP = 1100, 70, 130, 340
_LETTER = 6.2


@dataclass(frozen=True)
class Edge:
    """A tensor from the row that makes it to one that uses it; ``lane`` counts arcs outwards, 0 is a straight line."""

    source: int
    target: int
    lane: int


@dataclass(frozen=True)
class Box:
    """A rectangle of a drawing: place and size in pixels, what it is, what pointing at it says, and what is on it."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str
    label: str = ""


def html_page(library: Library) -> str:
    """The page of a planned library."""
    facts = report(library)
    rows = _rows(facts)
    tops = [0, *accumulate(_ROW + _STAGE * len(row.get("stages", ())) for row in rows)]
    edges = _edges(library)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tvm_stm32.emit"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(shape=shape_text, grouped=_grouped, removed=removed_text)
    return environment.get_template("report.html.j2").render(
        facts=facts,
        rows=rows,
        tops=tops,
        edges=[_path(edge, tops) for edge in edges],
        gutter=_ARC * (1 + max((edge.lane for edge in edges), default=0)) + 12,
        row_height=_ROW,
        stage_height=_STAGE,
        peak=peak_text(facts),
        width=_WIDTH,
        left=_LEFT,
        timeline=_timeline(facts),
        timeline_height=_TIMELINE,
        maps=[_map(facts, pool) for pool in facts["memory"]["pools"]],
        map_height=_MAP,
        ticks=_ticks(len(facts["operators"])),
        most_macs=max((row["macs"] for row in facts["operators"]), default=0) or 1,
    )


def _rows(facts: dict[str, Any]) -> list[dict[str, Any]]:
    first = {"index": -1, "operator": "inputs", "detail": "", "node": ", ".join(t["name"] for t in facts["inputs"])}
    last = {"index": len(facts["operators"]), "operator": "outputs", "detail": ""}
    last["node"] = ", ".join(t["name"] for t in facts["outputs"])
    return [first, *facts["operators"], last]


def _edges(library: Library) -> list[Edge]:
    made = {library.root(name): -1 for name in library.input_tensors}
    spans: list[tuple[int, int]] = []
    for step, call in enumerate(library.calls):
        spans += [(made[library.root(name)], step) for name in call.inputs if library.root(name) in made]
        made.update({library.root(name): step for name in call.outputs})
    spans += [(made[library.root(name)], len(library.calls)) for name in library.output_tensors]
    edges: list[Edge] = []
    taken: list[list[tuple[int, int]]] = []
    for source, target in sorted(set(spans), key=lambda span: span[1] - span[0]):
        if target - source == 1:
            edges.append(Edge(source, target, 0))
            continue
        lane = next((n for n, lane in enumerate(taken) if all(target <= a or b <= source for a, b in lane)), len(taken))
        if lane == len(taken):
            taken.append([])
        taken[lane].append((source, target))
        edges.append(Edge(source, target, lane + 1))
    return edges


def _path(edge: Edge, tops: list[int]) -> str:
    """SVG path on the left of the rows; row -1 (the inputs) is the first."""
    top, bottom = tops[edge.source + 1] + _ROW // 2, tops[edge.target + 1] + _ROW // 2
    if edge.lane == 0:
        return f"M 0 {top + 12} L 0 {bottom - 12}"
    reach = -_ARC * edge.lane
    return f"M -6 {top} C {reach} {top}, {reach} {bottom}, -6 {bottom}"


def _column(steps: int) -> float:
    """Pixels of an operator."""
    return (_WIDTH - _LEFT) / max(steps, 1)


def _ticks(steps: int) -> list[tuple[float, int]]:
    """Places and numbers of operators below a drawing, as many as can be read."""
    column = _column(steps)
    every = next((n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500) if n * column >= 26), 1000)
    return [(round(_LEFT + (step + 0.5) * column, 1), step) for step in range(0, steps, every)]


def _timeline(facts: dict[str, Any]) -> list[Box]:
    """A bar an operator: its workspace on top of the other bytes in use; the peak is marked."""
    rows, peak = facts["operators"], facts["memory"]["peak"]
    column, most = _column(len(rows)), max(1, facts["peak_live_bytes"])
    boxes = []
    for row in rows:
        x, width = _LEFT + row["index"] * column + column * 0.06, column * 0.88
        title = (
            f"{row['index']} {row['operator']}: {row['live_bytes']:,} bytes, {row['workspace_bytes']:,} of workspace"
        )
        tall = _TIMELINE * row["live_bytes"] / most
        scratch = min(tall, _TIMELINE * row["workspace_bytes"] / most)
        kind = "peak" if row["index"] == peak["step"] else "tensors"
        boxes.append(_box(x, _TIMELINE - tall + scratch, width, tall - scratch, kind, title))
        if scratch:
            boxes.append(_box(x, _TIMELINE - tall, width, scratch, f"{kind} scratch", title))
    return boxes


def _map(facts: dict[str, Any], pool: dict[str, Any]) -> dict[str, Any]:
    """A pool's drawing: a rectangle a buffer, and one for what each shares with those it lies over."""
    buffers = [buffer for buffer in facts["memory"]["buffers"] if buffer["pool"] == pool["name"]]
    by_name = {buffer["name"]: buffer for buffer in buffers}
    steps = len(facts["operators"])
    column, scale = _column(steps), _MAP / max(1, pool["bytes"])
    boxes, shared = [], []
    for buffer in buffers:
        first, last = max(0, buffer["first"]), min(steps - 1, buffer["last"])
        title = (
            f"{buffer['name']}: {buffer['kind']}, {buffer['bytes']:,} bytes at {buffer['offset']:,}, "
            f"operators {first} to {max(first, last)}"
        )
        width, height = (max(first, last) - first + 1) * column, max(1.0, buffer["bytes"] * scale)
        label = f"{buffer['bytes']:,}"
        if len(label) * _LETTER > width - 4 or height < 13:
            label = ""
        boxes.append(
            _box(_LEFT + first * column, buffer["offset"] * scale, width, height, buffer["kind"], title, label)
        )
        for under in buffer["over"]:
            other = by_name[under["name"]]
            start = max(buffer["offset"], other["offset"])
            text = f"{buffer['name']} lies over {under['bytes']:,} bytes of {under['name']}"
            x, y, height = _LEFT + first * column, start * scale, max(1.0, under["bytes"] * scale)
            # The input's colour in the first half of the operator, the result's in the second.
            shared.append(_box(x, y, column / 2, height, f"block {other['kind']}", text))
            shared.append(_box(x, y, column, height, "over", text))
    lines = [(round(_MAP * part / 4, 1), f"{pool['bytes'] * part // 4:,}") for part in range(5)]
    return {"pool": pool, "boxes": boxes, "shared": shared, "lines": lines, "buffers": buffers}


def _box(x: float, y: float, width: float, height: float, kind: str, title: str, label: str = "") -> Box:
    return Box(round(x, 2), round(y, 2), round(width, 2), round(height, 2), kind, title, label)


def _grouped(number: int) -> str:
    return f"{number:,}"
