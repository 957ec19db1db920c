"""Placements made in one pass: first fit and best fit, each over several orders."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .solver import Ints, Problem


def placements(problem: Problem) -> Iterator[Ints]:
    """Offsets by one rule after the other; what ordinary networks need comes first."""
    lower, sizes = problem.lower, problem.sizes
    width = problem.upper - lower
    for keys in ((lower, -sizes), (-sizes * width,), (-sizes, -width), (-sizes, lower)):
        yield first_fit(problem, np.lexsort(keys))
    for keys in ((-sizes * width * width,), (-sizes, -width), (-sizes * width,)):
        yield best_fit(problem, np.lexsort(keys))


def first_fit(problem: Problem, order: Ints) -> Ints:
    """Place buffers in ``order``, each at the lowest offset free of those in use with it."""
    lower, upper, sizes = problem.lower[order], problem.upper[order], problem.sizes[order]
    starts, ends = np.zeros_like(sizes), np.zeros_like(sizes)
    for i, size in enumerate(sizes.tolist()):
        met = np.flatnonzero((lower[:i] < upper[i]) & (lower[i] < upper[:i]))
        met = met[np.argsort(starts[met], kind="stable")]
        # Free memory begins where all that lie lower have ended.
        free = np.concatenate([[0], np.maximum.accumulate(ends[met])])
        fits = free[:-1] + size <= starts[met]
        gap = int(fits.argmax()) if fits.any() else -1
        starts[i] = free[gap]
        ends[i] = starts[i] + size
    offsets = np.empty_like(starts)
    offsets[order] = starts
    return offsets


def best_fit(problem: Problem, order: Ints) -> Ints:
    """Fill the lowest place of the skyline with the first buffer in ``order`` that fits in there for its whole life.

    Where none does, the place is given up to the lower of its neighbours. After Burke, Kendall and Whitwell, "A New
    Placement Heuristic for the Orthogonal Stock-Cutting Problem" (2004).
    """
    lower, upper, sizes = problem.lower[order], problem.upper[order], problem.sizes[order]
    starts = np.zeros_like(sizes)
    waiting = np.ones(len(sizes), dtype=bool)
    # Places that follow one another in time: offset, first time, time after the last.
    skyline = [(0, int(lower.min()), int(upper.max()))]
    while waiting.any():
        at = skyline.index(min(skyline, key=lambda place: place[0]))
        offset, begin, end = skyline[at]
        fits = waiting & (lower >= begin) & (upper <= end)
        i = int(fits.argmax())
        if fits[i]:
            waiting[i] = False
            starts[i] = offset
            first, last = int(lower[i]), int(upper[i])
            parts = [(offset, begin, first), (offset + int(sizes[i]), first, last), (offset, last, end)]
        else:
            sides = (skyline[j][0] for j in (at - 1, at + 1) if 0 <= j < len(skyline))
            parts = [(min(sides), begin, end)]
        left = max(at - 1, 0)
        skyline[left : at + 2] = _merged([*skyline[left:at], *parts, *skyline[at + 1 : at + 2]])
    offsets = np.empty_like(starts)
    offsets[order] = starts
    return offsets


def _merged(places: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The places that have any time, neighbours of one offset as one."""
    merged: list[tuple[int, int, int]] = []
    for offset, begin, end in places:
        if begin == end:
            continue
        if merged and merged[-1][0] == offset:
            merged[-1] = (offset, merged[-1][1], end)
        else:
            merged.append((offset, begin, end))
    return merged
