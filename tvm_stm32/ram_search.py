"""Kernels and chains of operators that make a network need less RAM, at the least cost in time.

The search starts from a built library. While some step needs more than the limit, it tries what would make that step
smaller: another form of the operator's kernel, a chain with the operator before or behind it that runs in bands of
rows, other numbers of rows. Of those that help it takes the one with the most bytes for a cycle, and in the end takes
back what was not needed. Nothing is built before the end: trials are calls, of which memory and cost are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from .errors import CapacityError, quoted
from .library import Call, Library
from .memory import arena_size, needed_bytes

if TYPE_CHECKING:
    from .kernels.chains import Chain
    from .kernels.network import NetworkBuilder

# -O ram: instructions may grow by this much over -O balanced.
PATIENCE = 1.08
_ROWS = (1, 2, 4)
_LONGEST = 6
_TRIES = 200
_REASON = "less RAM where the network needs most"


def smallest(builder: NetworkBuilder, library: Library) -> Library:
    """``library`` with as little RAM as :data:`PATIENCE` allows."""
    search = _Search(builder, library)
    state = search.start
    # On cores whose kernels are not counted, bands cost little beside the kernels.
    counted = all(call.costs and call.costs[0].instructions > 1000 for call in library.calls if call.macs > 10_000)
    budget = state.instructions * PATIENCE if counted else float("inf")
    while True:
        lower = search.within(state, state.arena - 1, budget)
        if lower is None or lower.arena >= state.arena:
            break
        state = lower
    return search.built(search.relaxed(state, state.arena))


def fitting(builder: NetworkBuilder, library: Library, limit: int) -> Library:
    """``library`` within ``limit`` bytes of RAM, with few more cycles.

    Raises :class:`CapacityError` when it cannot be done, with the operator that needs most.
    """
    search = _Search(builder, library)
    if search.start.arena <= limit:
        return library
    found = search.within(search.start, limit)
    if found is not None:
        return search.built(search.relaxed(found, limit))
    least = search.start
    while (lower := search.within(least, least.arena - 1)) is not None and lower.arena < least.arena:
        least = lower
    step = max(range(len(least.calls)), key=lambda step: least.needed[step])
    call, most = least.calls[step], least.needed[step]
    why = f"{call.operator} {quoted(call.node)} needs {most:,} bytes at once, however it is run"
    if most <= limit:
        why = f"no operator needs more than {most:,} bytes at once, but at the places left for them buffers end at "
        why += f"{least.arena:,}"
    error = CapacityError(
        f"{library.provenance.file_name} does not fit {limit:,} bytes of RAM",
        why=why,
        hint=f"the least found is {least.arena:,} bytes (--max-ram {least.arena})",
    )
    error.least = least.arena
    raise error


@dataclass(frozen=True)
class _State:
    """Calls of a network, what each stands for, and what they need: bytes at each step, bytes of the arena."""

    library: Library
    parts: tuple[Chain | None, ...]
    rows: tuple[int, ...]

    @property
    def calls(self) -> list[Call]:
        return self.library.calls

    @cached_property
    def needed(self) -> list[int]:
        return needed_bytes(self.library)

    @cached_property
    def arena(self) -> int:
        return arena_size(self.library)

    @property
    def cycles(self) -> int:
        return sum(call.costs[0].cycles for call in self.calls if call.costs)

    @property
    def instructions(self) -> int:
        return sum(call.costs[0].instructions for call in self.calls if call.costs)

    def excess(self, limit: int) -> int:
        """Bytes above ``limit``, over all steps."""
        return sum(max(0, needed - limit) for needed in self.needed)


class _Search:
    def __init__(self, builder: NetworkBuilder, library: Library) -> None:
        self.builder, self.library = builder, library
        self._chains: dict[tuple[Chain, int], Call | None] = {}
        self.start = self._state(tuple(library.calls), tuple(builder.parts), (0,) * len(library.calls))

    def _state(self, calls: tuple[Call, ...], parts: tuple[Chain | None, ...], rows: tuple[int, ...]) -> _State:
        return _State(replace(self.library, calls=list(calls)), parts, rows)

    def within(self, state: _State, limit: int, budget: float = float("inf")) -> _State | None:
        """A state that needs at most ``limit`` bytes and ``budget`` instructions; None when none is found."""
        target = limit
        for _ in range(_TRIES):
            excess = state.excess(target)
            if excess == 0:
                if state.arena <= limit:
                    return state
                # Holes between buffers: every step must need less.
                target = min(target - max(8, state.arena - limit), max(state.needed) - 1)
                continue
            best, score = None, 0.0
            for other in self._neighbours(state, target):
                saved = excess - other.excess(target)
                if saved <= 0 or other.instructions > budget:
                    continue
                worth = saved / max(1.0, float(other.cycles - state.cycles))
                if worth > score:
                    best, score = other, worth
            if best is None:
                return None
            state = best
        return None

    def relaxed(self, state: _State, limit: int) -> _State:
        """Without the changes that were not needed to stay within ``limit``."""
        changed = True
        while changed:
            changed = False
            for other in self._faster(state):
                if other.cycles < state.cycles and other.arena <= limit:
                    state, changed = other, True
                    break
        return state

    def built(self, state: _State) -> Library:
        """The library of a state."""
        forms: dict[str, str] = {}
        chains = {}
        for call, part, rows in zip(state.calls, state.parts, state.rows, strict=True):
            if part is not None and len(part.variables) > 1:
                chains[part] = rows or int(call.costs[0].form.removeprefix("bands-"))
                forms |= {stage.node: stage.form for stage in call.stages if stage.form}
            elif part is not None and call.node in self.builder.alternatives and call.costs:
                forms[call.node] = call.costs[0].form
        known = {call.node: (call.costs[0].form, call.operator) for call in self.library.calls if call.costs}
        library = self.builder.build(forms, chains)
        for call in library.calls:
            if call.costs and known.get(call.node) != (call.costs[0].form, call.operator):
                call.reason = _REASON
            elif call.reason == "set":
                call.reason = next(old.reason for old in self.library.calls if old.node == call.node)
        return library

    def _neighbours(self, state: _State, limit: int) -> Iterator[_State]:
        """States with one change at a step that needs more than ``limit``."""
        for step, needed in enumerate(state.needed):
            part = state.parts[step]
            if needed <= limit or part is None:
                continue
            yield from self._forms(state, step)
            for other in self._next_to(state, step):
                first, last = sorted((step, other))
                yield from self._joined(state, first, last)
            if len(part.variables) > 1:
                yield from self._with_rows(state, step, part)

    def _forms(self, state: _State, step: int) -> Iterator[_State]:
        part, call = state.parts[step], state.calls[step]
        if part is None or len(part.variables) > 1 or call.reason == "set":
            return
        for other in self.builder.alternatives.get(call.node, {}).values():
            if call.costs and other.costs[0].form != call.costs[0].form:
                yield self._replaced(state, step, other, 0)

    def _with_rows(self, state: _State, step: int, part: Chain) -> Iterator[_State]:
        for rows in _ROWS:
            call = self._chain_call(part, rows)
            if call is not None and rows != state.rows[step]:
                yield self._replaced(state, step, call, rows)

    def _next_to(self, state: _State, step: int) -> list[int]:
        """Steps that make what this one reads, or read what it makes."""
        call = state.calls[step]
        before = [n for n, other in enumerate(state.calls[:step]) if set(other.outputs) & set(call.inputs)]
        behind = [n for n, other in enumerate(state.calls) if n > step and set(other.inputs) & set(call.outputs)]
        return [*before, *behind]

    def _joined(self, state: _State, first: int, last: int) -> Iterator[_State]:
        from .kernels.chains import joined

        one, two = state.parts[first], state.parts[last]
        if one is None or two is None or len(one.variables) + len(two.variables) > _LONGEST:
            return
        chain = joined(self.builder.view, one, two)
        if chain is None:
            return
        for rows in _ROWS:
            call = self._chain_call(chain, rows)
            if call is None:
                continue
            kept = [n for n in range(len(state.calls)) if n != first]
            calls = tuple(call if n == last else state.calls[n] for n in kept)
            parts = tuple(chain if n == last else state.parts[n] for n in kept)
            yield self._state(calls, parts, tuple(rows if n == last else state.rows[n] for n in kept))

    def _faster(self, state: _State) -> Iterator[_State]:
        """States with another form or number of rows, the fastest first."""
        found = []
        for step, part in enumerate(state.parts):
            if part is not None and len(part.variables) > 1:
                found += list(self._with_rows(state, step, part))
            else:
                found += list(self._forms(state, step))
        known = {call.node: call.costs[0].cycles for call in self.start.calls if call.costs}
        # No faster than it was at first: that is what the level takes when there is room.
        fair = [
            other
            for other in found
            if all(c.costs[0].cycles >= known.get(c.node, 0) for c in other.calls if c.costs and not c.stages)
        ]
        return iter(sorted(fair, key=lambda other: other.cycles))

    def _replaced(self, state: _State, step: int, call: Call, rows: int) -> _State:
        calls, numbers = list(state.calls), list(state.rows)
        calls[step], numbers[step] = call, rows
        return self._state(tuple(calls), state.parts, tuple(numbers))

    def _chain_call(self, chain: Chain, rows: int) -> Call | None:
        key = (chain, rows)
        if key not in self._chains:
            self._chains[key] = self.builder.chain_call(chain, rows)
        return self._chains[key]
