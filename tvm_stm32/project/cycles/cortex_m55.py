"""Cortex-M55: one instruction a cycle, vector instructions of two beats that overlap when they use different pipes.

Sources: SLOTHY's cortex_m55r1.py; for scalar instructions LLVM's ARMScheduleM55.td (written by Arm) (cycles).

* A vector instruction holds its pipe (load/store, integer, multiply and floating point) for 2; the next instruction can
  issue after 1 when it uses another one. Gather and scatter hold theirs for half as many cycles as lanes, and what
  follows waits. VPST and the like 1.
* Vector results after 1; after 2 those of multiplies (1 to be stored), rounding shifts, VMOVL, VSHLL and narrowing;
  VMLALDAV 3; VLD2 and VLD4 2; what VST2 and VST4 store after 3.
* Scalar results after 1; loads, multiplies, inline shifts, SIMD and saturation 2. LDRD and LDM half as many cycles as
  registers.
* Two 16-bit instructions together when one is NOP, IT, a branch not taken, ADD or SUB of a constant, MOV or an
  extension.
* LE while the loop goes on 0, at its end 3. Other branches taken 3; a 16-bit one after a 16-bit instruction 2, or 1
  when that sets no flags (as M33).

Chosen here: VDIV 14, division 7, TBB 5. A load two cycles after a vector store may stall: left out.
"""

from __future__ import annotations

import re

from ..trace import Access, Cache
from .cortex_m33 import CortexM33
from .instruction import Instruction, Role
from .pipeline import NO_ACCESS

_PIPES = {"vload": "memory", "vstore": "memory", "vint": "integer", "vmul": "multiply"}
_SLOW_VECTOR = re.compile(r"v(q?r?shr?u?n[bt]|r?sh[lr]$|rsh[lr]|qrshl|shll|movl|q?movu?n|sli|sri|m(ax|in)a?v$)")
_SLOW_BITS = re.compile(r"ssat|usat|sel|[su]bfx|qd?(add|sub)|[su]?h?q?(add|sub|asx|sax)(8|16)?|.xta|.xtb16|pkh|bf[ci]")
_SECOND = ("add", "sub", "mov", "sxtb", "sxth", "uxtb", "uxth")


class CortexM55(CortexM33):
    """The M55."""

    # Optional in the core; those of STM32N6 (32 KiB each, lines of 32 bytes).
    caches = (Cache(1024, 2, 32), Cache(1024, 4, 32))

    def __init__(self) -> None:
        super().__init__()
        self.free: dict[str, int] = {}
        self.paired = True

    def issue(self, instruction: Instruction, access: Access = NO_ACCESS, target: Instruction | None = None) -> None:
        del access
        pipe = _PIPES.get(instruction.kind, "memory" if instruction.kind in ("load", "store") else "")
        start = max(self.cycle, self.ready(instruction), self.free.get(pipe, 0))
        if self._pairs(instruction, start) and target is None:
            self.produce(instruction, self.cycle - 1)
            self.before, self.paired = instruction, True
            return
        held = self._held(instruction)
        self.free[pipe] = start + held
        self.produce(instruction, start)
        gathers = instruction.indexed and instruction.lanes > 0
        self.cycle = start + (held if gathers else self.occupies(instruction, target))
        self.before, self.paired = instruction, False

    def _held(self, instruction: Instruction) -> int:
        if instruction.name.startswith(("vpst", "vpnot", "vctp")) or not instruction.lanes:
            return 1
        if instruction.indexed:
            return max(2, instruction.lanes // 2)
        return 2

    def _pairs(self, second: Instruction, start: int) -> bool:
        """Whether it goes with the instruction before it."""
        first = self.before
        if self.paired or first is None or start > self.cycle or first.width != 2 or second.width != 2:
            return False
        if first.writes & (second.writes | {register for register, _ in second.reads}):
            return False
        return any(
            i.kind in ("nop", "it", "branch") or (i.name in _SECOND and len(i.reads) <= 1) for i in (first, second)
        )

    def occupies(self, instruction: Instruction, target: Instruction | None) -> int:
        if instruction.kind == "loop" and instruction.name.startswith("le"):
            return 0 if target is not None else 3
        if instruction.kind in ("loads", "stores"):
            return (instruction.words + 1) // 2 + (3 if target is not None else 0)
        if instruction.kind == "mul":
            return 1
        return super().occupies(instruction, target)

    def latency(self, producer: Instruction, register: str, role: Role, consumer: Instruction) -> int:
        kind, name = producer.kind, producer.name
        if register not in producer.writes:
            return 1
        if kind in _PIPES:
            if consumer.name.startswith(("vst2", "vst4")) and role == "data":
                return 3
            if kind == "vload":
                return 2 if name.startswith(("vld2", "vld4")) else 1
            if kind == "vmul":
                if name.startswith(("vmlald", "vmlalv", "vrmlald", "vmlsld")):
                    return 3
                return 1 if role == "data" else 2
            return 2 if _SLOW_VECTOR.match(name) else 1
        if kind == "load":
            return 2
        if kind == "loads":
            return (producer.words + 1) // 2 + 1
        if kind in ("mul", "mull"):
            return 2
        if kind == "bits":
            return 2 if _SLOW_BITS.match(name) else 1
        if kind == "shifted":
            return 2
        return super().latency(producer, register, role, consumer)
