"""Cortex-M7: two instructions a cycle in order, with an early and a late ALU.

Sources: jnk0le's cortex_m7.md (measured on STM32H743), quinapalus.com/cm7cycles.html, SLOTHY's cortex_m7.py (cycles).

* Pairs: one multiply a cycle and none beside a store; one bit-field, extension or SIMD instruction a cycle, in the
  first place; none of those, and no second one, beside an inline shift; two loads of different banks (even and odd
  words), a load and a store, not two stores. LDM, LDRD, STM and PUSH alone, half as many cycles as registers (rounded
  up).
* A result can be used in the next cycle, that of a multiply after 2 (1 along the accumulator), of a byte or half-word
  load after 2. Inline-shifted, packed and extended operands, and addresses, are needed a cycle earlier, unless an ADD,
  SUB, MOV or shift made them in the early ALU; those also feed the second instruction of the same pair.
  A multiply takes a loaded factor after 2, a loaded accumulator after 1. Stores take their data in the same cycle.
* A branch that is taken ends the pair; the rarer way of a conditional one is mispredicted each time, 7. TBB 8.
* Byte and half-word stores drain one in 2 cycles from a buffer of 5; an unaligned load 3 more.
* FP: one arithmetic instruction a cycle, VFMA not beside VLDR, VSTR or VMOV; results after 3, those of VFMA after 5 as
  a factor; VLDR after 1, as an accumulator after 3; VDIV 16, VSQRT 14. Division 8 (2 to 12 by its operands).
"""

from __future__ import annotations

from ..trace import Access, Cache
from .instruction import Instruction, Role
from .pipeline import NO_ACCESS, Scoreboard, mostly

_ALONE = ("loads", "stores", "div", "system", "table", "loop", "fdiv")
_MULTIPLIES = ("mul", "mull")
_FLOAT = ("fadd", "fmul", "fma")
_STORE_BUFFER = 5
_DRAIN = 2


class CortexM7(Scoreboard):
    """The M7; ``now`` is the cycle of the newest pair, ``pair`` what is in it."""

    # STM32H743: 16 KiB each, lines of 32 bytes, 2 and 4 ways.
    caches = (Cache(512, 2, 32), Cache(512, 4, 32))
    mispredicted = 7

    def __init__(self) -> None:
        super().__init__()
        self.now = -1
        self.pair: tuple[Instruction, ...] = ()
        self.early: dict[str, bool] = {}
        self.drained = 0

    def issue(self, instruction: Instruction, access: Access = NO_ACCESS, target: Instruction | None = None) -> None:
        ready = self.ready(instruction)
        if ready <= self.now and self._joins(instruction, access):
            self.pair = (*self.pair, instruction)
        else:
            self.now = max(ready, self.now + 1)
            self.pair = (instruction,)
        self._remember(instruction)
        self.now += self._longer(instruction, access)
        self.cycle = self.now + 1
        if target is not None:
            self.pair = (*self.pair, instruction, instruction)

    def _remember(self, instruction: Instruction) -> None:
        # The early ALU works a cycle before the late one, so its operands must have been there by then.
        in_time = all(
            register not in self.made or self._available(register) < self.now for register, _ in instruction.reads
        )
        quick = instruction.kind == "shift" or (
            instruction.kind == "alu" and instruction.name in ("add", "sub", "mov", "movw", "movt", "addw", "subw")
        )
        self.produce(instruction, self.now)
        for register in instruction.writes:
            self.early[register] = quick and in_time and (instruction.kind == "shift" or len(self.pair) == 1)

    def _available(self, register: str) -> int:
        """The cycle a late operand has this register."""
        cycle, producer = self.made[register]
        return cycle if self.early.get(register) else cycle + self.latency(producer, register, "late", producer)

    def _joins(self, second: Instruction, access: Access) -> bool:
        if len(self.pair) != 1:
            return False
        first = self.pair[0]
        kinds = (first.kind, second.kind)
        if any(kind in _ALONE for kind in kinds) or first.writes & second.writes:
            return False
        if any(i.kind == "transfer" and i.words == 2 for i in (first, second)):
            return False
        if second.kind == "bits" or sum(kind in ("bits", "shifted") for kind in kinds) == 2:
            return False
        if sum(kind in _MULTIPLIES for kind in kinds) == 2 or sum(kind in _FLOAT for kind in kinds) == 2:
            return False
        if sum(kind in _MULTIPLIES for kind in kinds) and "store" in kinds:
            return False
        if "fma" in kinds and ("transfer" in kinds or any(i.name in ("vldr", "vstr") for i in (first, second))):
            return False
        if kinds == ("load", "load"):
            return mostly(access.bank, access, otherwise=True)
        return kinds != ("store", "store") and kinds != ("branch", "branch")

    def _longer(self, instruction: Instruction, access: Access) -> int:
        """Cycles an instruction takes above its own."""
        kind = instruction.kind
        if kind in ("loads", "stores"):
            return (instruction.words + 1) // 2 - 1
        if kind == "store" and instruction.bits < 32:
            self.drained = max(self.drained, self.now) + _DRAIN
            return max(0, self.drained - self.now - _STORE_BUFFER * _DRAIN)
        if kind == "load" and mostly(access.unaligned, access, otherwise=False):
            return 3
        if kind == "fdiv":
            return 13 if instruction.name == "vsqrt" else 15
        return {"div": 7, "table": 7}.get(kind, 0)

    def latency(self, producer: Instruction, register: str, role: Role, consumer: Instruction) -> int:
        kind = producer.kind
        if register not in producer.writes:  # an updated base
            return 1
        sooner = 1 if role in ("early", "address") else 0
        if kind in ("load", "loads"):
            return self._load_latency(producer, role, consumer, sooner)
        if kind in _MULTIPLIES:
            return 1 if role in ("accumulator", "data") else 2 + sooner
        if kind in (*_FLOAT, "fdiv"):
            if role == "data":
                return 3 if kind == "fma" else 1
            return 5 if kind == "fma" and role != "accumulator" else 3
        if kind == "transfer":
            return 3 if register[0] == "s" else 1
        if role == "data":
            return 0
        if self.early.get(register):
            # The early ALU's result reaches the late one, not a multiply's factors, in the same cycle.
            return 0 if role in ("late", "accumulator") else 1
        return 0 if role == "accumulator" and consumer.kind in _MULTIPLIES else 1 + sooner

    def _load_latency(self, producer: Instruction, role: Role, consumer: Instruction, sooner: int) -> int:
        if role == "data":
            return 0
        if producer.name.startswith("vld"):
            return 3 if role == "accumulator" else 1
        if role == "accumulator" and consumer.kind in _MULTIPLIES:
            return 1
        narrow = 1 if producer.bits < 32 else 0
        base = (producer.words + 1) // 2 - 1 if producer.kind == "loads" else 0
        return base + 1 + narrow + (1 if role == "factor" else sooner)
