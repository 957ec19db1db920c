"""The report as one self-contained HTML page: the graph, what each operator costs, and the arena over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jinja2

from ..library import Library
from ..memory.lifetimes import Buffer, placed
from .report import removed_text, report, shape_text

_ROW = 46
_ARC = 18


@dataclass(frozen=True)
class Edge:
    """A tensor from the row that makes it to one that uses it; ``lane`` counts arcs outwards, 0 is a straight line."""

    source: int
    target: int
    lane: int


@dataclass(frozen=True)
class Block:
    """A buffer of the arena: steps ``first``..``last``, bytes ``offset``..``offset + size``."""

    name: str
    first: int
    last: int
    offset: int
    size: int
    kind: str


def html_page(library: Library) -> str:
    """The page of a planned library."""
    facts = report(library)
    steps = len(library.calls)
    edges = _edges(library)
    blocks = [_block(library, buffer, steps) for buffer in placed(library)]
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
        rows=_rows(facts),
        edges=[_path(edge) for edge in edges],
        gutter=_ARC * (1 + max((edge.lane for edge in edges), default=0)) + 12,
        row_height=_ROW,
        blocks=blocks,
        steps=steps,
        arena=max(1, library.arena_size),
        most=max((row["live_bytes"] for row in facts["operators"]), default=0) or 1,
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


def _path(edge: Edge) -> str:
    """SVG path on the left of the rows; row -1 (the inputs) is the first."""
    top, bottom = (edge.source + 1) * _ROW + _ROW // 2, (edge.target + 1) * _ROW + _ROW // 2
    if edge.lane == 0:
        return f"M 0 {top + 12} L 0 {bottom - 12}"
    reach = -_ARC * edge.lane
    return f"M -6 {top} C {reach} {top}, {reach} {bottom}, -6 {bottom}"


def _block(library: Library, buffer: Buffer, steps: int) -> Block:
    names = set(buffer.tensors)
    if not names:
        kind = "workspace"
    elif names & {library.root(name) for name in library.input_tensors}:
        kind = "input"
    elif names & {library.root(name) for name in library.output_tensors}:
        kind = "output"
    else:
        kind = "activation"
    return Block(buffer.name, max(0, buffer.first), min(steps - 1, buffer.last), buffer.offset, buffer.size, kind)


def _grouped(number: int) -> str:
    return f"{number:,}"
