"""Offsets for buffers with lifetimes: first fit over several orders, then a bounded improvement of the best one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .lifetimes import Buffer

# Order changes tried on the best first fit; ordinary networks reach the bound without any.
_ATTEMPTS = 400


def lower_bound(buffers: Sequence[Buffer], alignment: int) -> int:
    """Largest sum of sizes (each rounded up to ``alignment``) in use at one step; what may lie over others counts half.

    A result over its input takes at least the larger of both.
    """
    sizes = {buffer.name: _aligned(buffer.size, alignment) for buffer in buffers}
    shared: dict[int, int] = {}
    for buffer in buffers:
        if buffer.below:
            saved = min(sizes[buffer.name], sum(sizes.get(name, 0) for name in buffer.below))
            shared[buffer.first] = shared.get(buffer.first, 0) + saved
    steps = {buffer.first for buffer in buffers}
    return max(
        (sum(sizes[b.name] for b in buffers if b.first <= step <= b.last) - shared.get(step, 0) for step in steps),
        default=0,
    )


def place(buffers: list[Buffer], alignment: int) -> int:
    """Set the offset of each buffer so that none in use together overlap; returns the size of the whole in bytes."""
    search = _Search(buffers, alignment)
    orders = [
        sorted(range(len(buffers)), key=lambda i: (-buffers[i].size, buffers[i].first)),
        sorted(range(len(buffers)), key=lambda i: (-buffers[i].size * (buffers[i].last - buffers[i].first + 1), i)),
        sorted(range(len(buffers)), key=lambda i: (buffers[i].first - buffers[i].last, -buffers[i].size)),
        sorted(range(len(buffers)), key=lambda i: (buffers[i].first, -buffers[i].size)),
    ]
    best = min((search.first_fit(order) for order in orders), key=lambda placement: placement.size)
    if len(buffers) <= 200:
        best = search.improved(best, lower_bound(buffers, alignment))
    for buffer, offset in zip(buffers, best.offsets, strict=True):
        buffer.offset = offset
    return best.size


@dataclass(frozen=True)
class _Placement:
    order: list[int]
    offsets: list[int]
    size: int


class _Search:
    def __init__(self, buffers: list[Buffer], alignment: int) -> None:
        self.sizes = [_aligned(buffer.size, alignment) for buffer in buffers]
        # Of each buffer the others in use with it: how far below or above them it must start.
        self.conflicts = [
            [
                (j, _aligned(buffer.room_below(other), alignment), _aligned(other.room_below(buffer), alignment))
                for j, other in enumerate(buffers)
                if j != i and buffer.overlaps(other)
            ]
            for i, buffer in enumerate(buffers)
        ]

    def first_fit(self, order: list[int]) -> _Placement:
        """Place buffers in ``order``, each at the lowest offset free of those in use with it."""
        offsets = [-1] * len(self.sizes)
        size = 0
        for index in order:
            offset = 0
            taken = sorted(
                (offsets[j] - below, offsets[j] + above) for j, below, above in self.conflicts[index] if offsets[j] >= 0
            )
            for start, end in taken:
                if offset <= start:
                    break
                offset = max(offset, end)
            offsets[index] = offset
            size = max(size, offset + self.sizes[index])
        return _Placement(order, offsets, size)

    def improved(self, best: _Placement, bound: int) -> _Placement:
        """Move buffers in the order (same moves every time: the seed is fixed) until the bound or the limit."""
        generator = random.Random(0)
        for _ in range(_ATTEMPTS):
            if best.size <= bound:
                break
            order = list(best.order)
            order.insert(generator.randrange(len(order)), order.pop(generator.randrange(len(order))))
            candidate = self.first_fit(order)
            if candidate.size <= best.size:
                best = candidate
        return best


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
