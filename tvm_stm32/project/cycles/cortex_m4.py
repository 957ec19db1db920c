"""Cortex-M3 and M4: three stages, one instruction at a time, loads that overlap.

Rules and where they come from (cycles):

* Data processing 1, M4 multiplies 1 (DDI0439 table 3-1); M3: MLA 2, 64-bit multiplies 3 to 7 (DDI0337, the middle).
* A load 2; a load or store right after a load that does not need its result saves 1, so n loads take n + 1. Not on M4
  when both update the same base, nor on M3 when the second updates; not when the two go to different memories (jnk0le,
  measured on STM32F103 and F407). A store with an immediate offset 1, with a register offset 2, 1 more before a load.
* LDRD, LDM, STM, PUSH and POP 1 + registers, without overlap.
* An address that needs the data-processing result before it: 1 more.
* A branch taken 1 + P, P 1 for a target in the instruction, 2 for one in a register or from memory; 1 more when the
  target is a 32-bit instruction that is not word-aligned. TBB 6, LDR PC 5. IT after a 16-bit instruction is folded (0).
* The third of a run of misaligned 32-bit instructions: 1 more.
* FP: VADD and VMUL 1, 1 more when the next instruction reads the result; VFMA 3; VDIV and VSQRT 14; VMOV of two
  registers 2.

Divisions take 2 to 12, counted as 7.
"""

from __future__ import annotations

from ..trace import Access
from .instruction import Instruction
from .pipeline import NO_ACCESS, Pipeline, mostly

_DIVISION = 7
_FLOAT_DIVISION = 14
_TABLE_BRANCH = 6
_LOAD_PC = 5


class CortexM4(Pipeline):
    """The M4."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Instruction | None = None
        self.misaligned = 0

    def issue(self, instruction: Instruction, access: Access = NO_ACCESS, target: Instruction | None = None) -> None:
        cycles = self._own(instruction, access) + self._address_stall(instruction) + self._fetch(instruction)
        if instruction.indirect and instruction.kind == "load":
            cycles = max(cycles, _LOAD_PC)
        elif instruction.kind == "table":
            cycles = _TABLE_BRANCH
        elif target is not None:
            cycles += 2 if instruction.indirect else 1
        if target is not None:
            cycles += 1 if target.width == 4 and target.address % 4 else 0
            self.misaligned = 0
        self.before = instruction
        self.cycle += cycles

    def _own(self, instruction: Instruction, access: Access) -> int:
        kind = instruction.kind
        if kind in ("load", "store"):
            return self._memory(instruction, access)
        if kind in ("loads", "stores"):
            return 1 + instruction.words + self._after_store(instruction)
        if kind == "it":
            return 0 if self.before is not None and self.before.width == 2 else 1
        if kind in ("mul", "mull"):
            return self._multiply(instruction)
        if kind == "div":
            return _DIVISION
        return self._float(instruction)

    def _memory(self, instruction: Instruction, access: Access) -> int:
        cycles = 2 if instruction.kind == "load" or instruction.indexed else 1
        if self._overlaps(instruction, access):
            return cycles - 1
        return cycles + self._after_store(instruction)

    def _after_store(self, instruction: Instruction) -> int:
        before = self.before
        return 1 if before is not None and before.kind == "store" and instruction.kind in ("load", "loads") else 0

    def _overlaps(self, instruction: Instruction, access: Access) -> bool:
        """Whether its address phase runs beside the data phase of the load before it."""
        before = self.before
        if before is None or before.kind != "load" or before.writes & instruction.reads_as("address"):
            return False
        return not self._cannot_chain(before, instruction) and mostly(access.same, access, otherwise=True)

    def _cannot_chain(self, before: Instruction, instruction: Instruction) -> bool:
        return before.updates and instruction.updates and before.base == instruction.base

    def _address_stall(self, instruction: Instruction) -> int:
        before = self.before
        if before is None or before.kind in ("load", "loads", "store", "stores"):
            return 0
        return 1 if before.writes & instruction.reads_as("address") else 0

    def _multiply(self, instruction: Instruction) -> int:
        del instruction
        return 1

    def _float(self, instruction: Instruction) -> int:
        before = self.before
        cycles = {"fma": 3, "fdiv": _FLOAT_DIVISION, "transfer": instruction.words}.get(instruction.kind, 1)
        if before is not None and before.kind in ("fadd", "fmul") and before.writes & {r for r, _ in instruction.reads}:
            cycles += 1
        return cycles

    def _fetch(self, instruction: Instruction) -> int:
        straddles = instruction.width == 4 and instruction.address % 4 == 2
        self.misaligned = self.misaligned + 1 if straddles else 0
        return 1 if self.misaligned == 3 else 0


class CortexM3(CortexM4):
    """The M3."""

    def _cannot_chain(self, before: Instruction, instruction: Instruction) -> bool:
        del before
        return instruction.updates

    def _multiply(self, instruction: Instruction) -> int:
        if instruction.kind == "mull":
            return 4 if instruction.name.endswith("ull") else 5
        return 2 if instruction.reads_as("accumulator") else 1
