"""A search for offsets within a capacity: depth first over canonical solutions, in steps that can be counted.

The ideas are those of Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning"
(ASPLOS 2023): buffers are placed in the order of their offsets, each as low as those before it allow, so that every
solution is met once; a branch ends where the load that is left no longer fits over the floor of some section of time;
an offset is not tried while another buffer fits wholly below it; parts of time that no buffer joins any more are
solved one by one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Which buffer goes first among those that fit equally low: T is the largest load of a section it lies in, W its width
# in time, A its area. No order is best for all problems, so they take turns.
ORDERS = ("TWA", "TAW", "WAT")

# The unit of effort is a buffer placed, or this many numbers looked at for it: about 0.1 ms of a desktop computer.
_CELLS = 8192

# Choices looked at together: few enough to stop early, many enough for numpy.
_ROWS = 16

_TURN = 256


@dataclass(frozen=True)
class Problem:
    """Buffers in use from time ``lower`` to before ``upper``; ``sizes`` are positive, in any unit."""

    lower: Ints
    upper: Ints
    sizes: Ints


class _Part:
    """Buffers still to be placed, joined in time, in the order they are preferred: an index is a rank.

    A section is a time at which one of them begins to be in use.
    """

    def __init__(self, problem: Problem, numbers: Ints, order: str) -> None:
        lower, upper, sizes = problem.lower[numbers], problem.upper[numbers], problem.sizes[numbers]
        times = np.unique(lower)
        first, last = np.searchsorted(times, lower), np.searchsorted(times, upper)
        sections = np.arange(len(times))
        inside = (first[:, None] <= sections) & (sections < last[:, None])
        self.loads: Ints = sizes @ inside
        width = upper - lower
        keys = {"T": np.where(inside, self.loads, 0).max(axis=1), "W": width, "A": width * sizes}
        rank = np.lexsort([numbers, *(-keys[letter] for letter in reversed(order))])
        self.numbers, self.sizes = numbers[rank], sizes[rank]
        self.first = first[rank]
        inside = inside[rank]
        self.shares = inside * self.sizes[:, None]
        self.crosses = inside[:, :-1] & inside[:, 1:]
        self.cuts: Ints = self.crosses.sum(axis=0)
        where, self.members = np.nonzero(inside.T)
        self.starts = np.searchsorted(where, sections)
        lower, upper = lower[rank], upper[rank]
        self.overlaps: Bools = (lower[:, None] < upper) & (lower < upper[:, None])
        seen: dict[tuple[int, ...], int] = {}
        self.twins = [-1] * len(numbers)
        for index, key in enumerate(zip(lower.tolist(), upper.tolist(), self.sizes.tolist(), strict=True)):
            self.twins[index] = seen.get(key, -1)
            seen[key] = index


@dataclass
class _Frame:
    """A state of the search: one buffer of ``part`` is to be placed next.

    ``floors`` is the lowest offset left for each buffer, the capacity for one that is placed; ``loads`` the size still
    to be placed in each section. ``rest`` is what remains to be solved after this part, and ``back`` the depth of the
    frame to return to when nothing is left to try here.
    """

    part: _Part
    floors: Ints
    loads: Ints
    cuts: Ints
    rest: Any
    back: int
    choices: Iterator[tuple[int, int]]
    number: int = -1
    offset: int = -1


class Search:
    """A search with one order that can be stopped and resumed.

    ``lowest`` is the least capacity for which a branch cut off so far might hold a solution: when the search ends
    without one, no solution needs less.
    """

    def __init__(self, problem: Problem, capacity: int, order: str) -> None:
        self.problem, self.capacity, self.order = problem, capacity, order
        self.lowest = np.iinfo(np.int64).max
        self.effort = 0
        self._stack: list[_Frame] = []
        self.offsets: Ints | None = None
        self.exhausted = False
        numbers = np.arange(len(problem.sizes))
        self.exhausted = not self._start(self._split(numbers, np.zeros_like(problem.sizes), 0, None, -1))

    def run(self, effort: int) -> None:
        """Go on until ``effort`` is spent; then ``offsets`` are found, the search is exhausted, or neither is known."""
        stack, capacity = self._stack, self.capacity
        end = self.effort + effort
        while self.effort < end and not self.exhausted and self.offsets is None:
            frame = stack[-1]
            choice = next(frame.choices, None)
            if choice is None:
                del stack[frame.back + 1 :]
                self.exhausted = not stack
                continue
            self.effort += 1
            index, offset = choice
            part = frame.part
            frame.number, frame.offset = int(part.numbers[index]), offset
            floors = np.maximum(frame.floors, part.overlaps[index] * (offset + int(part.sizes[index])))
            floors[index] = capacity
            cuts = frame.cuts - part.crosses[index]
            depth = len(stack) - 1
            if cuts.all():
                loads = frame.loads - part.shares[index]
                if loads.any():
                    self._push(part, floors, loads, cuts, offset, index, frame.rest, depth)
                else:
                    self._start(frame.rest)
                continue
            left = np.flatnonzero(floors < capacity)
            self._start(self._split(part.numbers[left], floors[left], offset, frame.rest, depth))

    def _split(self, numbers: Ints, floors: Ints, offset: int, rest: Any, back: int) -> Any:
        """The parts of time that no buffer joins, before the ``rest``."""
        lower, upper = self.problem.lower[numbers], self.problem.upper[numbers]
        order = np.argsort(lower, kind="stable")
        ends = np.maximum.accumulate(upper[order])
        borders = np.flatnonzero(lower[order][1:] >= ends[:-1]) + 1
        for chosen in reversed(np.split(order, borders)):
            if len(chosen):
                rest = ((numbers[chosen], floors[chosen], offset, back), rest)
        return rest

    def _start(self, rest: Any) -> bool:
        if rest is None:
            offsets = np.zeros_like(self.problem.sizes)
            for frame in self._stack:
                offsets[frame.number] = frame.offset
            self.offsets = offsets
            return True
        (numbers, floors, offset, back), rest = rest
        part = _Part(self.problem, numbers, self.order)
        self.effort += 4 * len(numbers) * (len(numbers) + len(part.starts)) // _CELLS
        known = dict(zip(numbers.tolist(), floors.tolist(), strict=True))
        floors = np.array([known[number] for number in part.numbers.tolist()])
        self._push(part, floors, part.loads, part.cuts, offset, -1, rest, back)
        return True

    def _push(
        self, part: _Part, floors: Ints, loads: Ints, cuts: Ints, offset: int, index: int, rest: Any, back: int
    ) -> None:
        choices = self._choices(part, floors, loads, offset, index)
        self._stack.append(_Frame(part, floors, loads, cuts, rest, back, choices))

    def _choices(self, part: _Part, floors: Ints, loads: Ints, offset: int, index: int) -> Iterator[tuple[int, int]]:
        """Which buffers may come next and where: in canonical order, not dominated, and with room for the rest."""
        top = (floors + part.sizes).min()
        allowed = np.flatnonzero((floors >= offset) & (floors < top))
        at = floors[allowed]
        candidates = [
            (floor, i)
            for floor, i in zip(at.tolist(), allowed.tolist(), strict=True)
            if (i > index or floor > offset) and (part.twins[i] < 0 or floors[part.twins[i]] == self.capacity)
        ]
        candidates.sort()
        for start in range(0, len(candidates), _ROWS):
            chosen = candidates[start : start + _ROWS]
            needs = self._needs(part, floors, loads, chosen)
            for (floor, i), need in zip(chosen, needs, strict=True):
                if need <= self.capacity:
                    yield i, floor
                else:
                    self.lowest = min(self.lowest, need)

    def _needs(self, part: _Part, floors: Ints, loads: Ints, chosen: list[tuple[int, int]]) -> list[int]:
        """The capacity that each choice (offset, index) needs at least: in a section the floor and the load left."""
        self.effort += len(chosen) * (len(part.members) + len(part.numbers)) // _CELLS
        at, rows = np.array(chosen).T
        ends = at + part.sizes[rows]
        after = np.maximum(floors, part.overlaps.take(rows, axis=0) * ends[:, None])
        after[np.arange(len(rows)), rows] = self.capacity
        lowest = np.minimum.reduceat(after.take(part.members, axis=1), part.starts, axis=1)
        needs = (np.maximum(lowest, at[:, None]) + loads - part.shares.take(rows, axis=0)).max(axis=1)
        return [int(need) for need in needs]


@dataclass(frozen=True)
class Outcome:
    """``offsets``, if found; else the ``bound`` shown: as much as was asked for plus what is known to lack."""

    offsets: Ints | None
    bound: int
    effort: int


def solve(problem: Problem, capacity: int, effort: int, deadline: float) -> Outcome:
    """Look for offsets with all ends within ``capacity``: searches with different orders take turns.

    The outcome only depends on ``effort``, unless the clock (``time.monotonic``) passes ``deadline`` first. Without
    offsets, ``bound`` is the least capacity that might do: more than ``capacity`` if that was proven too little.
    """
    searches = [Search(problem, capacity, order) for order in ORDERS]
    spent = 0
    while True:
        for search in searches:
            search.run(_TURN)
            spent = sum(other.effort for other in searches)
            if search.offsets is not None:
                return Outcome(search.offsets, 0, spent)
            if search.exhausted:
                return Outcome(None, search.lowest, spent)
            if spent >= effort or time.monotonic() >= deadline:
                return Outcome(None, 0, spent)
