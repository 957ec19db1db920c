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
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Which buffer goes first among those that fit equally low: T is the largest load of a section it lies in, W its width
# in time, A its area. No order is best for all problems, so they take turns.
ORDERS = ("TWA", "TAW", "WAT")

# The unit of effort is a buffer placed, or this many numbers looked at for it: some 40 us of a computer of 2020.
_CELLS = 8192

# Choices looked at together: few enough to stop early, many enough for numpy.
_ROWS = 16

# Effort of one search before it is the next one's turn.
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
        # Row i of all that follows is buffer numbers[rank[i]] of the caller's.
        self.rank = rank = np.lexsort([numbers, *(-keys[letter] for letter in reversed(order))])
        self.numbers, self.sizes = numbers[rank], sizes[rank]
        inside = inside[rank]
        self.shares = inside * self.sizes[:, None]
        self.crosses = inside[:, :-1] & inside[:, 1:]
        self.cuts: Ints = self.crosses.sum(axis=0)
        where, self.members = np.nonzero(inside.T)
        self.starts = np.searchsorted(where, sections)
        lower, upper = lower[rank], upper[rank]
        self.overlaps: Bools = (lower[:, None] < upper) & (lower < upper[:, None])
        # The one before with the same life and size: which of the two lies lower makes no difference.
        self.twins = [-1] * len(numbers)
        seen: dict[tuple[int, ...], int] = {}
        for index, key in enumerate(zip(lower.tolist(), upper.tolist(), self.sizes.tolist(), strict=True)):
            self.twins[index] = seen.get(key, -1)
            seen[key] = index


@dataclass(frozen=True)
class _Pending:
    """A part of time still to be solved: its buffers and their floors, and what comes after it.

    No offset may be below ``offset``. ``back`` is the depth of the frame to return to when the part has no solution.
    """

    numbers: Ints
    floors: Ints
    offset: int
    back: int
    rest: _Pending | None


@dataclass
class _Frame:
    """A state of the search: the next buffer of ``part`` is placed, after the one of rank ``index`` at ``offset``.

    ``floors`` is the lowest offset left for each buffer, the capacity for one that is placed; ``loads`` the size still
    to be placed in each section; ``cuts`` how many buffers join each section with the next one.
    """

    part: _Part
    floors: Ints
    loads: Ints
    cuts: Ints
    offset: int
    index: int
    back: int
    rest: _Pending | None
    choices: Iterator[tuple[int, int]] = field(default_factory=lambda: iter(()))
    placed: tuple[int, int] = (-1, -1)


class Search:
    """A search with one order that can be stopped and resumed.

    ``lowest`` is the least capacity for which a branch cut off so far might hold a solution: when the search ends
    without one, no solution needs less.
    """

    def __init__(self, problem: Problem, capacity: int, order: str) -> None:
        self.problem, self.capacity, self.order = problem, capacity, order
        self.effort = 0
        self.lowest = np.iinfo(np.int64).max
        self.exhausted = False
        self.offsets: Ints | None = None
        self._stack: list[_Frame] = []
        self._start(self._split(np.arange(len(problem.sizes)), np.zeros_like(problem.sizes), 0, -1, None))

    def run(self, effort: int) -> None:
        """Go on until ``effort`` is spent; then ``offsets`` are found, the search is exhausted, or neither is known."""
        stack = self._stack
        end = self.effort + effort
        while self.effort < end and not self.exhausted and self.offsets is None:
            choice = next(stack[-1].choices, None)
            if choice is not None:
                self._descend(stack[-1], *choice)
            else:
                del stack[stack[-1].back + 1 :]
                self.exhausted = not stack

    def _descend(self, frame: _Frame, index: int, offset: int) -> None:
        """Place the buffer of rank ``index``."""
        self.effort += 1
        part, depth = frame.part, len(self._stack) - 1
        frame.placed = int(part.numbers[index]), offset
        floors = np.maximum(frame.floors, part.overlaps[index] * (offset + int(part.sizes[index])))
        floors[index] = self.capacity
        loads = frame.loads - part.shares[index]
        cuts = frame.cuts - part.crosses[index]
        if not cuts.all():
            left = np.flatnonzero(floors < self.capacity)
            self._start(self._split(part.numbers[left], floors[left], offset, depth, frame.rest))
        elif loads.any():
            self._push(_Frame(part, floors, loads, cuts, offset, index, depth, frame.rest))
        else:
            self._start(frame.rest)

    def _split(self, numbers: Ints, floors: Ints, offset: int, back: int, rest: _Pending | None) -> _Pending | None:
        """The parts of time that no buffer joins, before the ``rest``."""
        lower, upper = self.problem.lower[numbers], self.problem.upper[numbers]
        order = np.argsort(lower, kind="stable")
        ends = np.maximum.accumulate(upper[order])
        borders = np.flatnonzero(lower[order][1:] >= ends[:-1]) + 1
        for chosen in reversed(np.split(order, borders)):
            if len(chosen):
                rest = _Pending(numbers[chosen], floors[chosen], offset, back, rest)
        return rest

    def _start(self, pending: _Pending | None) -> None:
        """Go on with the next part; after the last one everything is placed."""
        if pending is None:
            self.offsets = np.zeros_like(self.problem.sizes)
            for number, offset in (frame.placed for frame in self._stack):
                self.offsets[number] = offset
            return
        part = _Part(self.problem, pending.numbers, self.order)
        self.effort += 4 * len(part.numbers) * (len(part.numbers) + len(part.starts)) // _CELLS
        floors = pending.floors[part.rank]
        self._push(_Frame(part, floors, part.loads, part.cuts, pending.offset, -1, pending.back, pending.rest))

    def _push(self, frame: _Frame) -> None:
        frame.choices = self._choices(frame)
        self._stack.append(frame)

    def _choices(self, frame: _Frame) -> Iterator[tuple[int, int]]:
        """Rank and offset of what may come next: in canonical order, not dominated, and with room for the rest."""
        floors, twins = frame.floors, frame.part.twins
        top = (floors + frame.part.sizes).min()
        ranks = np.flatnonzero((floors >= frame.offset) & (floors < top))
        candidates = sorted(
            (offset, index)
            for offset, index in zip(floors[ranks].tolist(), ranks.tolist(), strict=True)
            if (offset, index) > (frame.offset, frame.index)
            and (twins[index] < 0 or floors[twins[index]] == self.capacity)
        )
        for start in range(0, len(candidates), _ROWS):
            chosen = candidates[start : start + _ROWS]
            for (offset, index), need in zip(chosen, self._needs(frame, chosen), strict=True):
                if need <= self.capacity:
                    yield index, offset
                else:
                    self.lowest = min(self.lowest, need)

    def _needs(self, frame: _Frame, chosen: list[tuple[int, int]]) -> list[int]:
        """The least capacity for each choice (offset, rank): in a section the lowest floor and the load left."""
        part = frame.part
        self.effort += len(chosen) * (len(part.members) + len(part.numbers)) // _CELLS
        offsets, ranks = np.array(chosen).T
        ends = offsets + part.sizes[ranks]
        floors = np.maximum(frame.floors, part.overlaps.take(ranks, axis=0) * ends[:, None])
        floors[np.arange(len(ranks)), ranks] = self.capacity
        # Where nothing is left to place, the capacity and no load: as much as there is.
        lowest = np.minimum.reduceat(floors.take(part.members, axis=1), part.starts, axis=1)
        loads = frame.loads - part.shares.take(ranks, axis=0)
        needs: list[int] = (np.maximum(lowest, offsets[:, None]) + loads).max(axis=1).tolist()
        return needs


@dataclass(frozen=True)
class Outcome:
    """``offsets``, or what is known without: no capacity below ``bound`` does; 0 when the effort was too little."""

    offsets: Ints | None
    bound: int
    effort: int


def solve(problem: Problem, capacity: int, effort: int, deadline: float) -> Outcome:
    """Look for offsets with all ends within ``capacity``: searches with different orders take turns.

    The outcome depends on ``effort`` only, unless the clock (``time.monotonic``) passes ``deadline`` before.
    """
    searches = [Search(problem, capacity, order) for order in ORDERS]
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
