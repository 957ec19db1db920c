"""Cortex-M33: one instruction a cycle, results that come a cycle later than on M4 when they pass two stages.

Sources: SLOTHY's cortex_m33.py and jnk0le's cortex_m33.md, both measured on RP2350 (cycles).

* Every instruction issues in 1; LDRD 2, LDM and STM their number of registers, MULS (it sets flags) 2.
* A result can be used after 1; after 2: loads (1 as accumulator of a multiply, 1 to be stored), multiplies (1 along the
  accumulator, 1 to be stored), SIMD, PKH, SXTAB (1 along the accumulator), inline shifts other than LSL.
* A 16-bit branch not taken, IT or NOP after a 16-bit instruction: 0. A branch taken: 3; a 16-bit one after a 16-bit
  instruction 2, or 1 when that sets no flags.
* VFMA: result after 3, no FP instruction in the next two cycles. VADD and VMUL: result after 2 (not in the sources).

Not in the sources, chosen here: SXTB16 and SSAT count as SIMD; division 7; VDIV and VSQRT 14; TBB 5.
"""

from __future__ import annotations

from ..trace import Access, Cache
from .instruction import Instruction, Role, names
from .pipeline import NO_ACCESS, Scoreboard

_TAKEN = 3
_ONE_STAGE = names("bfc bfi clz rbit rev rev16 revsh sbfx ubfx sxtb sxth uxtb uxth")
_FLOAT = ("fadd", "fmul", "fma", "fdiv")


def is_float(instruction: Instruction) -> bool:
    """Whether the FPU has a part in it."""
    registers = instruction.writes | {register for register, _ in instruction.reads}
    return instruction.kind in (*_FLOAT, "transfer") or any(register[0] == "s" for register in registers)


class CortexM33(Scoreboard):
    """The M33."""

    # The instruction cache of STM32U5: 8 KiB, 2 ways, lines of 16 bytes; it holds constants too,
    # which compete with the code for it (left out).
    caches = (Cache(512, 2, 16), Cache(512, 2, 16))

    def __init__(self) -> None:
        super().__init__()
        self.before: Instruction | None = None
        self.float_free = 0

    def issue(self, instruction: Instruction, access: Access = NO_ACCESS, target: Instruction | None = None) -> None:
        del access
        start = max(self.cycle, self.ready(instruction))
        if is_float(instruction):
            start = max(start, self.float_free)
        if instruction.kind == "fma":
            self.float_free = start + 3
        self.produce(instruction, start)
        self.cycle = start + self.occupies(instruction, target)
        self.before = instruction

    def occupies(self, instruction: Instruction, target: Instruction | None) -> int:
        """Cycles until the next instruction can issue."""
        kind = instruction.kind
        if kind == "table":
            return 5
        if kind in ("branch", "it", "nop"):
            return self._branch(instruction, target)
        if kind in ("loads", "stores"):
            return instruction.words + (_TAKEN if target is not None else 0)
        cycles = {"div": 7, "fdiv": 14}.get(kind, 1)
        if kind == "mul" and instruction.width == 2:
            cycles = 2
        return cycles + (_TAKEN - 1 if target is not None else 0)

    def _branch(self, instruction: Instruction, target: Instruction | None) -> int:
        before = self.before
        pairs = before is not None and before.width == 2 == instruction.width and before.kind not in ("it", "nop")
        if target is None:
            return 0 if pairs else 1
        if pairs and before is not None and not instruction.indirect:
            return 2 if before.sets_flags else 1
        return _TAKEN

    def latency(self, producer: Instruction, register: str, role: Role, consumer: Instruction) -> int:
        kind = producer.kind
        if register not in producer.writes:  # an updated base
            return 1
        if kind == "load":
            return 1 if role == "data" or (role == "accumulator" and consumer.kind in ("mul", "mull")) else 2
        if kind == "loads":
            return producer.words + 1
        if kind in ("mul", "mull"):
            return 1 if role in ("accumulator", "data") else 2
        if kind == "bits":
            if producer.name in _ONE_STAGE:
                return 1
            return 1 if role == "accumulator" and "xta" in producer.name else 2
        if kind == "shifted":
            return 1 if producer.shift == "lsl" else 2
        return {"fma": 3, "fadd": 2, "fmul": 2}.get(kind, 1)
