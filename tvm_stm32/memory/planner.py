"""Offsets for buffers with lifetimes: by rules in one pass, then by a search when none reaches the lower bound."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .lifetimes import Buffer, needed
from .overlap_fit import fit, overlapping
from .solver import Ints, Problem, solve
from .solver_greedy import placements

# Of the search, in its own units (see `solver`), so that every computer gives the same offsets: a few seconds.
EFFORT = 100_000

# Only a computer that is many times slower than usual meets this one.
TIME_LIMIT_S = 60.0

# The search compares all pairs of buffers and keeps a state for each one placed.
_SEARCHED = 1500


@dataclass(frozen=True)
class Placement:
    """``size`` of the whole and the ``bound`` that no placement can be below, in bytes."""

    size: int
    bound: int

    @property
    def optimal(self) -> bool:
        """Whether the size is known to be the least."""
        return self.size == self.bound


def lower_bound(buffers: Sequence[Buffer], alignment: int) -> int:
    """Largest sum of sizes (each rounded up to ``alignment``) in use at one step, in bytes.

    With buffers that may lie over others, what is needed at one step at least.
    """
    if overlapping(buffers):
        return max(needed(buffers, max(buffer.last for buffer in buffers) + 1))
    return _load(_problem(buffers, alignment))


def place(
    buffers: Sequence[Buffer],
    alignment: int,
    *,
    capacity: int = 0,
    effort: int = EFFORT,
    time_limit: float = TIME_LIMIT_S,
) -> Placement:
    """Set the offset of each buffer, a multiple of ``alignment``, so that none in use together overlap that must not.

    A placement within ``capacity`` bytes is good enough; without one the smallest is looked for. The search ends
    after ``effort`` (some 40 us a unit) with the smallest placement met, which is the same on every computer as long
    as ``time_limit`` seconds are enough for it.
    """
    deadline = time.monotonic() + time_limit
    whole = _problem(buffers, alignment)
    over: tuple[list[int], int] | None = None
    if overlapping(buffers):
        over = fit(buffers, alignment, capacity, improve=effort > 0)
        size = _end(whole, np.array(over[0]))
        if size <= max(over[1], capacity, _load(whole)):
            return _set(buffers, whole, np.array(over[0]), over[1])
    some = np.flatnonzero(whole.sizes)
    offsets = np.zeros_like(whole.sizes)
    bound = 0
    if len(some):
        unit = int(np.gcd.reduce(whole.sizes))
        problem = Problem(whole.lower[some], whole.upper[some], whole.sizes[some] // unit)
        found, bound = _placed(problem, capacity // unit, effort, deadline)
        offsets[some] = found * unit
        bound *= unit
    if over is not None:
        # Nothing over anything else may still be the better one.
        apart, bound = offsets, over[1]
        offsets = min(np.array(over[0]), apart, key=lambda found: _end(whole, found))
    return _set(buffers, whole, offsets, bound)


def _end(problem: Problem, offsets: Ints) -> int:
    return int((offsets + problem.sizes).max(initial=0))


def _set(buffers: Sequence[Buffer], problem: Problem, offsets: Ints, bound: int) -> Placement:
    for buffer, offset in zip(buffers, offsets.tolist(), strict=True):
        buffer.offset = offset
    return Placement(_end(problem, offsets), bound)


def _problem(buffers: Sequence[Buffer], alignment: int) -> Problem:
    lower = np.array([buffer.first for buffer in buffers], dtype=np.int64)
    upper = np.array([buffer.last + 1 for buffer in buffers], dtype=np.int64)
    sizes = np.array([-(-buffer.size // alignment) * alignment for buffer in buffers], dtype=np.int64)
    return Problem(lower, upper, sizes)


def _load(problem: Problem) -> int:
    """Largest sum of sizes in use at one time: it is reached where a buffer begins to be in use."""
    starts, ends = np.argsort(problem.lower, kind="stable"), np.argsort(problem.upper, kind="stable")
    begun = np.cumsum(problem.sizes[starts])
    ended = np.concatenate([[0], np.cumsum(problem.sizes[ends])])
    # Of those that begin at one time the last one's sum is the largest.
    return int(
        (begun - ended[np.searchsorted(problem.upper[ends], problem.lower[starts], side="right")]).max(initial=0)
    )


def _placed(problem: Problem, capacity: int, effort: int, deadline: float) -> tuple[Ints, int]:
    """Offsets and the lower bound of their whole size, both in the unit of the sizes."""
    bound = _load(problem)
    best: Ints | None = None
    for offsets in placements(problem):
        if best is None or _size(problem, offsets) < _size(problem, best):
            best = offsets
        if _size(problem, best) <= max(bound, capacity):
            break
    assert best is not None
    if len(problem.sizes) <= _SEARCHED:
        return _searched(problem, best, bound, capacity, effort, deadline)
    return best, bound


def _size(problem: Problem, offsets: Ints) -> int:
    return int((offsets + problem.sizes).max())


def _searched(
    problem: Problem, best: Ints, bound: int, capacity: int, effort: int, deadline: float
) -> tuple[Ints, int]:
    """The best offsets and bound that searches within ever closer capacities give: first the one that is asked for.

    A search that runs to its end without a solution raises the bound. One that does not get there says nothing: the
    next one is for the middle between its capacity and the best size.
    """
    failed = 0
    part = effort // 2
    while effort > 0 and time.monotonic() < deadline:
        size = _size(problem, best)
        target = max(bound, capacity) if not failed else (failed + size) // 2
        if size <= max(bound, capacity) or target in (failed, size):
            break
        outcome = solve(problem, target, min(part, effort), deadline)
        effort -= outcome.effort
        if outcome.offsets is not None:
            best = outcome.offsets
        elif outcome.bound:
            bound = max(bound, min(outcome.bound, size))
            failed = max(failed, bound - 1) if failed else 0
        else:
            failed = target
            part = max(part // 2, 1)
    return best, bound
