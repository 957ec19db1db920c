"""Registers for the variables of a block: liveness over loops, then colours in order of definition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .program import VECTORS, Block, Comment, Constant, Instruction, Item, Loop, Park, Repeat, Unpark, Variable

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
    live = _live_after(points)
    conflicts: dict[Variable, set[Variable]] = {}
    order: list[Variable] = list(block.parameters)
    for parameter in block.parameters:
        conflicts[parameter] = {other for other in block.parameters if other is not parameter}
    for point, after in zip(points, live, strict=True):
        for variable in (*point.writes, *point.reads):
            if variable not in conflicts:
                conflicts[variable] = set()
                order.append(variable)
        for variable in point.writes:
            for other in after | set(point.writes):
                if other is not variable:
                    conflicts[variable].add(other)
                    conflicts.setdefault(other, set()).add(variable)
    registers = {parameter: GENERAL[number] for number, parameter in enumerate(block.parameters)}
    for variable in order:
        if variable.register:
            registers[variable] = variable.register
            assert all(registers.get(other) != variable.register for other in conflicts[variable]), variable.name
    for variable in order:
        if variable in registers:
            continue
        taken = {registers[other] for other in conflicts[variable] if other in registers}
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
        if isinstance(item, Comment):
            continue
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


def _live_after(points: list[_Point]) -> list[set[Variable]]:
    before: list[set[Variable]] = [set() for _ in points]
    after: list[set[Variable]] = [set() for _ in points]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(points))):
            point = points[number]
            after[number] = set().union(*(before[n] for n in point.successors if n < len(points)))
            now = (after[number] - set(point.writes)) | set(point.reads)
            if now != before[number]:
                before[number] = now
                changed = True
    return after
