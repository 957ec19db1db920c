"""Cortex-M0+: two stages, nothing overlaps (DDI0484C table 3-1).

Data processing 1, MULS 1 (the fast multiplier of STM32), loads and stores 2, LDM, STM, PUSH and POP 1 + registers, POP
of PC 3 + registers, a branch 2 when it is taken, BL 3, MRS and barriers 3.
"""

from __future__ import annotations

from ..trace import Access, Cache
from .instruction import Instruction
from .pipeline import NO_ACCESS, Pipeline


class CortexM0Plus(Pipeline):
    """The M0+."""

    # No cache to speak of: two buffered lines of code, one of constants.
    caches = (Cache(2, 2, 8), Cache(1, 1, 8))

    def issue(self, instruction: Instruction, access: Access = NO_ACCESS, target: Instruction | None = None) -> None:
        del access
        kind = instruction.kind
        if kind in ("load", "store"):
            cycles = 2
        elif kind in ("loads", "stores"):
            cycles = 1 + instruction.words + (2 if target is not None else 0)
        elif kind == "system" or instruction.name == "bl":
            cycles = 3
        else:
            cycles = 2 if target is not None else 1
        self.cycle += cycles
