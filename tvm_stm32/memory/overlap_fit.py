"""First fit for buffers that may lie over others: results over inputs that a kernel reads for the last time."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from .lifetimes import Buffer, needed
from .solver import Ints

# Changes of the best order that are tried; ordinary networks reach the bound without any.
_ATTEMPTS = 600
# Of more buffers only the fixed orders are tried.
_IMPROVED = 300


def overlapping(buffers: Sequence[Buffer]) -> bool:
    """Whether any buffer may lie over another of them."""
    names = {buffer.name for buffer in buffers}
    return any(name in names for buffer in buffers for name in buffer.below)


def fit(buffers: Sequence[Buffer], alignment: int, enough: int, *, improve: bool = True) -> tuple[list[int], int]:
    """Offsets and the bound no placement can be below; the search ends at ``enough`` bytes, or before it begins."""
    problem = _Overlaps(buffers, alignment)
    bound = max(problem.bound, enough)
    width = problem.upper - problem.lower
    # Backwards in time, a chain of results a little below their inputs climbs from the arena's start.
    keys = (
        (-problem.sizes, problem.lower),
        (-problem.sizes * width,),
        (-width, -problem.sizes),
        (problem.lower,),
        (-problem.lower, -problem.sizes),
        (-problem.upper, -problem.sizes),
    )
    orders = [np.lexsort(tuple(reversed(key))) for key in keys]
    found = [(problem.first_fit(order), order) for order in orders]
    best, order = min(found, key=lambda pair: problem.size(pair[0]))
    if improve and len(buffers) <= _IMPROVED:
        best = problem.improved(order.tolist(), best, bound)
    return best.tolist(), problem.bound


class _Overlaps:
    def __init__(self, buffers: Sequence[Buffer], alignment: int) -> None:
        def aligned(size: int) -> int:
            return -(-size // alignment) * alignment

        self.lower = np.array([buffer.first for buffer in buffers], dtype=np.int64)
        self.upper = np.array([buffer.last + 1 for buffer in buffers], dtype=np.int64)
        self.sizes = np.array([aligned(buffer.size) for buffer in buffers], dtype=np.int64)
        steps = int(self.upper.max(initial=0))
        self.bound = aligned(max(needed(buffers, steps), default=0))
        numbers = {buffer.name: number for number, buffer in enumerate(buffers)}
        # From the start of the first to that of the second at least, where the first lies below.
        self.room: list[dict[int, int]] = [{} for _ in buffers]
        self.lies_below: list[list[int]] = [[] for _ in buffers]
        for number, buffer in enumerate(buffers):
            for name in buffer.below:
                if name in numbers:
                    other = numbers[name]
                    self.room[number][other] = aligned(buffer.room_below(buffers[other]))
                    self.lies_below[other].append(number)

    def size(self, offsets: Ints) -> int:
        """Of the whole, in bytes."""
        return int((offsets + self.sizes).max(initial=0))

    def first_fit(self, order: Sequence[int] | Ints) -> Ints:
        """Place buffers in ``order``, each at the lowest offset the ones before it allow."""
        starts = np.full_like(self.sizes, -1)
        for i in order:
            met = np.flatnonzero((starts >= 0) & (self.lower < self.upper[i]) & (self.lower[i] < self.upper))
            # Offsets between these are taken.
            below, above = starts[met] - self.sizes[i], starts[met] + self.sizes[met]
            for j, room in self.room[i].items():
                below[met == j] = starts[j] - room
            for j in self.lies_below[i]:
                above[met == j] = starts[j] + self.room[j][i]
            by_start = np.argsort(below, kind="stable")
            below, above = below[by_start], above[by_start]
            free = np.concatenate([[0], np.maximum.accumulate(above)])
            fits = free[:-1] <= below
            starts[i] = free[int(fits.argmax()) if fits.any() else -1]
        return starts

    def improved(self, order: list[int], best: Ints, enough: int) -> Ints:
        """Move buffers in the order until ``enough`` or the limit: mostly one that ends highest, or is in use with it.

        The moves are the same every time: the seed is fixed.
        """
        generator = random.Random(0)
        for _ in range(_ATTEMPTS):
            if self.size(best) <= enough:
                break
            other = list(order)
            moved = self._culprit(best, generator) if generator.random() < 0.7 else generator.choice(other)
            at = other.index(moved)
            other.remove(moved)
            near = max(0, at - generator.randrange(1, 10))
            other.insert(near if generator.random() < 0.5 else generator.randrange(len(other) + 1), moved)
            candidate = self.first_fit(other)
            if self.size(candidate) <= self.size(best):
                order, best = other, candidate
        return best

    def _culprit(self, offsets: Ints, generator: random.Random) -> int:
        """A buffer in use while one is that ends highest."""
        ends = offsets + self.sizes
        top = generator.choice(np.flatnonzero(ends == ends.max()).tolist())
        met = (self.lower < self.upper[top]) & (self.lower[top] < self.upper)
        return int(generator.choice(np.flatnonzero(met).tolist()))
