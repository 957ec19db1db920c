"""The planner's search: exact where it ends, the same offsets every time, and hard instances within their capacity."""

from __future__ import annotations

import itertools
import json
import random
import time

import numpy as np
import pytest
from click.testing import CliRunner
from support import shared
from test_benchmarks import script

from tvm_stm32.memory.lifetimes import Buffer
from tvm_stm32.memory.planner import Placement, lower_bound, place
from tvm_stm32.memory.solver import ORDERS, Problem, Search, solve
from tvm_stm32.memory.solver_greedy import placements

benchmark = script("planner")


def drawn(generator: random.Random, count: int, steps: int, longest: int, largest: int) -> list[Buffer]:
    buffers = []
    for number in range(count):
        first = generator.randrange(steps)
        last = min(steps, first + generator.randrange(longest))
        buffers.append(Buffer(str(number), generator.randrange(largest), first, last))
    return buffers


def check(buffers: list[Buffer], alignment: int, placement: Placement) -> None:
    ends = [buffer.offset + -(-buffer.size // alignment) * alignment for buffer in buffers]
    for (a, end_a), (b, end_b) in itertools.combinations(zip(buffers, ends, strict=True), 2):
        assert not a.overlaps(b) or end_a <= b.offset or end_b <= a.offset
    assert all(buffer.offset % alignment == 0 for buffer in buffers)
    assert placement.size == max(ends, default=0)
    assert lower_bound(buffers, alignment) <= placement.bound <= placement.size


def least_size(buffers: list[Buffer]) -> int:
    """By all orders: in the order of a best placement's offsets, each buffer fits as low as it lies there."""
    least = sum(buffer.size for buffer in buffers)
    for order in itertools.permutations(buffers):
        placed: list[tuple[int, int, Buffer]] = []
        for buffer in order:
            met = sorted((start, end) for start, end, other in placed if other.overlaps(buffer))
            offset = 0
            for start, end in met:
                if offset + buffer.size <= start:
                    break
                offset = max(offset, end)
            placed.append((offset, offset + buffer.size, buffer))
        least = min(least, max(end for _, end, _ in placed))
    return least


def hard(name: str) -> list[Buffer]:
    return benchmark.instance(shared(benchmark.DEFAULT_FOLDER / f"{name}.1048576.csv"))[0]


def tight(generator: random.Random, load: int, steps: int) -> list[Buffer]:
    """Buffers whose load is the same at every step: some of those in use end, others take up what they leave."""
    live = [(0, size) for size in split(generator, load, 3)]
    buffers = []
    for step in range(1, steps + 1):
        generator.shuffle(live)
        count = len(live) if step == steps else generator.randrange(1, 1 + min(3, len(live)))
        ended, live = live[:count], live[count:]
        buffers += [Buffer("", size, first, step - 1) for first, size in ended]
        left = sum(size for _, size in ended)
        live += [(step, size) for size in split(generator, left, generator.randrange(1, 4))]
    return buffers


def split(generator: random.Random, size: int, parts: int) -> list[int]:
    cuts = sorted(generator.sample(range(1, size), min(parts, size) - 1))
    return [end - start for start, end in itertools.pairwise([0, *cuts, size])]


def problem(buffers: list[Buffer]) -> Problem:
    columns = zip(*((b.first, b.last + 1, b.size) for b in buffers if b.size), strict=True)
    return Problem(*(np.array(column) for column in columns))


def test_small_problems_are_solved_exactly():
    generator = random.Random(5)
    for _ in range(40):
        for buffers in (drawn(generator, 6, 5, 4, 9), tight(generator, 7, 3)[:7]):
            placement = place(buffers, 1)
            check(buffers, 1, placement)
            assert placement.optimal
            assert placement.size == least_size(buffers)


def test_a_bound_above_the_load_is_proven():
    """Ten bytes are in use at each step; CP-SAT says, too, that eleven are needed."""
    lives = [(0, 0, 4), (1, 1, 2), (0, 1, 3), (0, 2, 3), (2, 2, 4), (1, 2, 1), (2, 3, 1), (1, 3, 1), (3, 3, 8)]
    buffers = [Buffer("", size, first, last) for first, last, size in lives]
    placement = place(buffers, 1)
    check(buffers, 1, placement)
    assert lower_bound(buffers, 1) == 10
    assert placement == Placement(11, 11)


def test_every_order_of_the_search_agrees_on_what_fits():
    generator = random.Random(2)
    above = 0
    for _ in range(400):
        buffers = tight(generator, 10, 5)
        least = place(buffers, 1).size
        above += least > 10
        for order in ORDERS if least > 10 else ():
            fits, lacks = Search(problem(buffers), least, order), Search(problem(buffers), least - 1, order)
            fits.run(10_000)
            lacks.run(10_000)
            assert fits.offsets is not None
            assert (lacks.exhausted, lacks.offsets, lacks.lowest) == (True, None, least)
    assert above


def test_rules_place_any_buffers_without_overlaps():
    generator = random.Random(3)
    for _ in range(30):
        buffers = [b for b in drawn(generator, generator.randrange(1, 60), 20, 8, 500) if b.size]
        for offsets in placements(problem(buffers)) if buffers else ():
            for buffer, offset in zip(buffers, offsets.tolist(), strict=True):
                buffer.offset = offset
            check(buffers, 1, Placement(max(b.offset + b.size for b in buffers), lower_bound(buffers, 1)))


def test_nothing_to_place_and_buffers_of_no_size():
    assert place([], 8) == Placement(0, 0)
    buffers = [Buffer("a", 0, 0, 3), Buffer("b", 9, 1, 2), Buffer("c", 0, 2, 2)]
    assert place(buffers, 8) == Placement(16, 16)
    check(buffers, 8, Placement(16, 16))


@pytest.mark.parametrize("effort", [0, 1, 50, 5000])
def test_offsets_depend_on_the_effort_only(effort):
    buffers = tight(random.Random(9), 300, 40)
    placed = []
    for _ in range(2):
        placement = place(buffers, 4, effort=effort)
        check(buffers, 4, placement)
        placed.append((placement, [buffer.offset for buffer in buffers]))
    assert placed[0] == placed[1]


def test_no_time_still_gives_a_placement():
    buffers = hard("A")
    placement = place(buffers, 8, time_limit=0)
    check(buffers, 8, placement)
    assert placement.bound < placement.size < 2 * placement.bound


@pytest.mark.parametrize("name", ["G", "J", "K"])
def test_hard_instances_fit_their_capacity(name):
    buffers = hard(name)
    placement = place(buffers, 8, capacity=1 << 20)
    check(buffers, 8, placement)
    assert placement.size <= 1 << 20


def test_capacity_ends_the_search_early():
    buffers = hard("J")
    assert place(buffers, 8, effort=0).size > 1_060_000
    loose = place(buffers, 8, capacity=1_300_000)
    assert not loose.optimal
    assert loose.size <= 1_300_000


def test_five_thousand_buffers_are_placed_in_seconds():
    generator = random.Random(1)
    buffers = drawn(generator, 5000, 5000, 20, 20_000)
    start = time.process_time()
    placement = place(buffers, 8)
    assert time.process_time() - start < 5
    assert placement.size <= 1.05 * placement.bound


def test_a_search_says_when_it_does_not_know():
    outcome = solve(problem(hard("A")), 1 << 20, 100, time.monotonic() + 60)
    assert (outcome.offsets, outcome.bound) == (None, 0)


def test_the_benchmark_tells_what_it_missed(tmp_path, monkeypatch):
    hard("K")
    figures = tmp_path / "figures.json"
    result = CliRunner().invoke(benchmark.main, ["K", "--json", str(figures)])
    assert result.exit_code == 0, result.output
    row = json.loads(figures.read_text())[0]
    assert (row["instance"], row["buffers"], row["size"], row["over"]) == ("K", 454, 1 << 20, 0)
    monkeypatch.setattr(benchmark, "EFFORT", 0)
    result = CliRunner().invoke(benchmark.main, ["K"])
    assert result.exit_code == 1
    assert "missed: K is " in result.output
    assert "missed: 1 of 1 are above their capacity: K" in result.output
    assert "no such instance" in CliRunner().invoke(benchmark.main, ["Z"]).output
    assert "--folder" in CliRunner().invoke(benchmark.main, ["--folder", str(tmp_path)]).output
