"""What the cycle models of the cores have in common: instructions go in one after the other, cycles add up."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TypeVar

from ..trace import Access, Cache
from .instruction import Instruction, Role

Self = TypeVar("Self", bound="Pipeline")

NO_ACCESS = Access(0, 0, 0, 0, 0)


class Pipeline(ABC):
    """An empty pipeline in front of memory without wait states; ``cycle`` counts from its first instruction."""

    caches = (Cache(64, 64, 16), Cache(8, 8, 16))
    """Instruction and data caches in front of the flash, for wait states: the accelerator of STM32F4 (RM0090)."""

    mispredicted = 0
    """Cycles of a conditional branch that goes the rarer of its two ways, above its usual cost."""

    def __init__(self) -> None:
        self.cycle = 0

    def copy(self: Self) -> Self:
        """This state, to go on from it in several ways."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(other, name, value.copy())
        return other

    @abstractmethod
    def issue(self, instruction: Instruction, access: Access = NO_ACCESS, target: Instruction | None = None) -> None:
        """Let ``cycle`` go on by what ``instruction`` takes.

        ``access`` tells of its data accesses, ``target`` is the instruction a taken branch goes to (None: not taken).
        """


def mostly(part: int, access: Access, *, otherwise: bool) -> bool:
    """Whether that part of an instruction's accesses is the greater one; ``otherwise`` when it has none."""
    return 2 * part > access.count if access.count else otherwise


class Scoreboard(Pipeline):
    """An in-order pipeline in which an instruction waits for the results it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[str, tuple[int, Instruction]] = {}

    @abstractmethod
    def latency(self, producer: Instruction, register: str, role: Role, consumer: Instruction) -> int:
        """Cycles from the issue of ``producer`` to the first issue of a ``consumer`` that reads ``register`` so."""

    def ready(self, instruction: Instruction) -> int:
        """The first cycle all operands of ``instruction`` are there."""
        cycle = 0
        for register, role in instruction.reads:
            entry = self.made.get(register)
            if entry is not None:
                cycle = max(cycle, entry[0] + self.latency(entry[1], register, role, instruction))
        return cycle

    def produce(self, instruction: Instruction, cycle: int) -> None:
        """Remember its results, issued in ``cycle``."""
        for register in instruction.writes:
            self.made[register] = (cycle, instruction)
        if instruction.updates:
            self.made[instruction.base] = (cycle, instruction)
