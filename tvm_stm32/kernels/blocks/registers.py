"""Registers for the variables of a block: liveness over loops, then colours in order of definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .program import VECTORS, Block, Constant, Instruction, Item, Loop, Park, Repeat, Unpark, Variable

VECTOR = tuple(f"q{number}" for number in range(8))
# All but the stack pointer and the program counter.
GENERAL = (*(f"r{number}" for number in range(13)), "lr")


class OutOfRegistersError(Exception):
    """More variables alive at once than there are registers: the block's description is wrong, not the user's model."""


@dataclass
class _Point:
    """A place in the flat program: what it writes and reads, and what may run next."""

    writes: tuple[Variable, ...]
    reads: tuple[Variable, ...]
    successors: list[int]


def allocate(block: Block) -> dict[Variable, str]:
    """A register for each variable. Raises :class:`OutOfRegistersError`."""
    points: list[_Point] = []
    _flatten(block.body, points)
    # In order of definition. Sets of variables are integers with a bit for each.
    order = list(dict.fromkeys([*block.parameters, *(v for point in points for v in (*point.writes, *point.reads))]))
    bits = {variable: 1 << number for number, variable in enumerate(order)}
    conflicts = dict.fromkeys(order, sum(bits[parameter] for parameter in block.parameters))
    conflicts.update((variable, 0) for variable in order[len(block.parameters) :])
    for point, after in zip(points, _live_after(points, bits), strict=True):
        for variable in point.writes:
            conflicts[variable] |= after | sum({bits[other] for other in point.writes})
    # Whom a variable was found alive beside may have been written before it.
    for variable, found in list(conflicts.items()):
        for other in _members(found, order):
            conflicts[other] |= bits[variable]
    registers = {parameter: GENERAL[number] for number, parameter in enumerate(block.parameters)}
    for variable in order:
        if variable.register:
            registers[variable] = variable.register
            others = (other for other in _members(conflicts[variable], order) if other is not variable)
            assert all(registers.get(other) != variable.register for other in others), variable.name
    for variable in order:
        if variable in registers:
            continue
        taken = {registers[other] for other in _members(conflicts[variable], order) if other in registers}
        kind = VECTOR if variable.ctype in VECTORS else GENERAL
        free = [register for register in kind if register not in taken]
        if not free:
            raise OutOfRegistersError(f"no register is left for {variable.name}")
        registers[variable] = free[0]
    return registers


def parked(block: Block) -> list[Variable]:
    """Variables that have a place on the stack, in order."""
    found: dict[Variable, None] = {}
    for item in _walk(block.body):
        if isinstance(item, Park) or (isinstance(item, Loop) and item.parked):
            found[item.place if isinstance(item, Park) else item.counter] = None
    return list(found)


def _walk(items: Iterable[Item]) -> Iterable[Item]:
    for item in items:
        yield item
        if isinstance(item, Loop | Repeat):
            yield from _walk(item.body)


def _flatten(items: list[Item], points: list[_Point]) -> None:
    for item in items:
        if isinstance(item, Loop | Repeat):
            first = len(points)
            points.append(_Point((), (), [first + 1]))
            _flatten(item.body, points)
            if isinstance(item, Loop):
                if item.parked:
                    points.append(_Point((item.counter,), (), [len(points) + 1]))
                points.append(_Point((item.counter,), (item.counter,), [len(points) + 1]))
            else:
                points.append(_Point((), (), [len(points) + 1]))
            points[-1].successors.append(first)
            continue
        if isinstance(item, Instruction):
            writes, reads = item.writes, item.reads
        elif isinstance(item, Constant | Unpark):
            writes, reads = (item.target if isinstance(item, Unpark) else item.variable,), ()
        else:
            writes, reads = (), (item.variable,)
        points.append(_Point(writes, reads, [len(points) + 1]))


def _members(found: int, order: list[Variable]) -> Iterator[Variable]:
    """The variables of a set."""
    while found:
        lowest = found & -found
        yield order[lowest.bit_length() - 1]
        found ^= lowest


def _live_after(points: list[_Point], bits: dict[Variable, int]) -> list[int]:
    """The variables that are alive behind each point."""
    flow = [
        (sum({bits[v] for v in point.writes}), sum({bits[v] for v in point.reads}), tuple(point.successors))
        for point in points
    ]
    # What runs behind the last needs nothing.
    before = [0] * (len(points) + 1)
    after = [0] * len(points)
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(points))):
            writes, reads, successors = flow[number]
            alive = 0
            for successor in successors:
                alive |= before[successor]
            after[number] = alive
            now = (alive & ~writes) | reads
            if now != before[number]:
                before[number] = now
                changed = True
    return after
