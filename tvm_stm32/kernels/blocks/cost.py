"""What a block executes: instructions exactly, cycles by a simple model, bytes of code.

Cycles follow the published issue rules of Cortex-M4 (loads in a row overlap, a taken branch is 3, LDM and LDRD are one
more than their words), of M7 (two a cycle but one multiply), M33 (a load is 1) and M55 (vector instructions overlap in
pairs). They rank forms of a kernel; ``tvm_stm32.project.cycles`` models a whole trace.
"""

from __future__ import annotations

from dataclasses import dataclass

from .assembly import is_modified_immediate
from .operations import OPERATIONS
from .program import Block, Constant, Instruction, Item, Loop, Park, Repeat, Unpark

_BRANCH = 3.0
# Bytes of an instruction where 16-bit forms are allowed.
_NARROW = 3.6


@dataclass(frozen=True)
class BlockCost:
    """One call of a block."""

    instructions: float
    cycles: float
    code: float


def block_cost(block: Block, cpu: str, *, wide: bool = False, times: dict[str, int] | None = None) -> BlockCost:
    """``times`` are the counts of loops whose number only the data say, by the name of their counter."""
    counter = _Counter(cpu, times or {})
    instructions, cycles, lines = counter.walk(block.body)
    # Entry and exit save and restore eight registers or so.
    return BlockCost(instructions + 4, cycles + 22, (lines + 4) * (4 if wide else _NARROW))


class _Counter:
    def __init__(self, cpu: str, times: dict[str, int]) -> None:
        self.cpu, self.times = cpu, times

    def walk(self, items: list[Item]) -> tuple[float, float, float]:
        """Executed instructions, cycles, and lines of code."""
        total = [0.0, 0.0, 0.0]
        loads = 0
        for item in items:
            if isinstance(item, Loop | Repeat):
                count = item.count or self.times.get(item.counter.name, 1) if isinstance(item, Loop) else item.count
                instructions, cycles, lines = self.walk(item.body)
                if isinstance(item, Loop):
                    extra = 4 if item.parked else 2
                    instructions, lines = instructions + extra, lines + extra
                    cycles += _BRANCH + (4 if item.parked else 1)
                else:
                    lines *= count
                parts = (instructions * count, cycles * count, lines)
                loads = 0
            else:
                lines, cycles, is_load = self._single(item, loads)
                loads = loads + 1 if is_load else 0
                parts = (lines, cycles, lines)
            total = [a + b for a, b in zip(total, parts, strict=True)]
        return total[0], total[1], total[2]

    def _single(self, item: Item, loads: int) -> tuple[int, float, bool]:
        """Lines, cycles, and whether it is a load that one behind it may overlap."""
        if isinstance(item, Constant):
            value = item.value & 0xFFFFFFFF
            short = is_modified_immediate(value) or is_modified_immediate(value ^ 0xFFFFFFFF) or value < 1 << 16
            lines = 1 if short else 2
            return lines, lines * self._plain(), False
        if isinstance(item, Park):
            return 1, self._plain(), False
        if isinstance(item, Unpark):
            return 1, self._load(loads), True
        assert isinstance(item, Instruction)
        lines = OPERATIONS[item.operation].assembly.count("\n") + 1
        name = item.operation
        if name.startswith("v"):
            return lines, 1.25 * lines, False
        if name in ("load", "load_u8", "load_s8", "load_entry", "take_1", "take_any_1"):
            return lines, self._load(loads), True
        if name.startswith(("take_", "load_", "put_")):
            words = int(name.rpartition("_")[2])
            return (
                lines,
                words / 2 if self.cpu == "cortex-m7" else words + (0 if self.cpu == "cortex-m33" else 1),
                False,
            )
        if name.startswith(("sml", "smu", "smm")):
            return lines, float(lines), False
        return lines, lines * self._plain(), False

    def _plain(self) -> float:
        return 0.5 if self.cpu == "cortex-m7" else 1.0

    def _load(self, loads: int) -> float:
        if self.cpu in ("cortex-m7", "cortex-m33", "cortex-m55"):
            return self._plain()
        return 1.0 if loads else 2.0
