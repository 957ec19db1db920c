"""A block as a naked function whose body is GNU assembly."""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod

from .operations import OPERATIONS
from .program import (
    Block,
    Constant,
    Index,
    Instruction,
    Item,
    Loop,
    Park,
    Repeat,
    Unpark,
    Variable,
)
from .registers import allocate, parked

_SAVED = ("r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11")
# A vector register is two of the double registers that the procedure call standard names.
_SAVED_VECTORS = ("q4", "q5", "q6", "q7")
_HALVES = {register: f"d{2 * n}, d{2 * n + 1}" for n, register in enumerate(_SAVED_VECTORS, 4)}


# Instructions that have a 16-bit form too.
_NARROW = {"ldr", "ldrb", "ldrsb", "str", "strb", "strh", "ldmia", "stmia"}
_NARROW |= {"add", "sub", "subs", "mov", "lsl", "lsr", "asr", "eor", "and", "cmp", "bne"}

# Characters a string of C99 may have everywhere; a repetition is far shorter than the difference kept to it.
_LONGEST_STRING = 4095


def assembly_text(block: Block, title: str = "", *, wide: bool = False) -> str:
    """The function ``NAME`` in C around its assembly, under a comment that begins with ``title``.

    With ``wide`` every instruction is 32 bits long, and so at a multiple of 4: cores fetch whole words, and several
    instructions in a row that lie across two cost a cycle (M3, M4).
    """
    return _Thumb2(block, title, wide).function()


def _naked_function(block: Block, registers: dict[Variable, str], lines: list[str], title: str, first: str = "") -> str:
    """``NAME`` as C around these lines of assembly, under a comment; each statement begins with the line ``first``."""
    names = [
        f"{parameter.ctype}{'' if parameter.ctype.endswith('*') else ' '}{parameter.name} AI_UNUSED"
        for parameter in block.parameters
    ]
    text = [*_legend(title, registers), f"AI_NAKED void NAME({', '.join(names)})", "{"]
    for statement in _statements(lines):
        shown = [first, *statement] if first else statement
        text += ["    __asm__ volatile(", *(f'        "{line}\\n"' for line in shown), "    );"]
    return "\n".join([*text, "}"]) + "\n"


def _legend(title: str, registers: dict[Variable, str]) -> list[str]:
    """Title, and which variables are in which register, as a comment."""
    holders: dict[str, list[str]] = {}
    for variable, register in registers.items():
        holders.setdefault(register, []).append(variable.name)
    order = sorted(holders, key=lambda register: (register[0] == "q", len(register), register))
    words = [f"{register} {'/'.join(dict.fromkeys(holders[register]))}" for register in order]
    lines = textwrap.wrap("; ".join(words), 114, break_long_words=False)
    return ["/*", f" * {title}", *(f" * {line}" for line in lines), " */"]


def _statements(lines: list[str]) -> list[list[str]]:
    """Lines in groups whose text is short enough for a string of C99; repetitions stay whole."""
    groups: list[list[str]] = [[]]
    length, repeating = 0, False
    for line in lines:
        if length > _LONGEST_STRING - 1000 and not repeating:
            groups.append([])
            length = 0
        groups[-1].append(line)
        length += len(line) + 1
        repeating = (repeating or line.startswith(".rept")) and line != ".endr"
    return groups


class Printer(ABC):
    """The walk over a block's items; what an item is as instructions is the core's own (:meth:`_instruction_text` on).

    ``first`` is a line that each statement of assembly begins with.
    """

    first = ""

    def __init__(self, block: Block, title: str) -> None:
        self.block = block
        self.title = title
        self.registers = allocate(block)
        self.slots = {variable: 4 * number for number, variable in enumerate(parked(block))}
        self.lines: list[str] = []
        self.labels = 0

    def function(self) -> str:
        """The whole function in C."""
        self._enter()
        self._items(self.block.body)
        self._leave()
        return _naked_function(self.block, self.registers, self.lines, self.title, self.first)

    @abstractmethod
    def _enter(self) -> None:
        """Save what the caller keeps, and make room for :attr:`slots`."""

    @abstractmethod
    def _leave(self) -> None:
        """Undo :meth:`_enter` and return."""

    @abstractmethod
    def _instruction_text(self, operation: str) -> str:
        """Lines of an operation, with operands as in :mod:`.operations`."""

    @abstractmethod
    def _constant(self, register: str, value: int) -> None:
        """``register = value``."""

    @abstractmethod
    def _end_loop(self, item: Loop, label: int) -> None:
        """Count, and branch back to ``label`` unless that was the last time."""

    def _line(self, text: str) -> None:
        self.lines.append(text)

    def _items(self, items: list[Item]) -> None:
        for item in items:
            self._item(item)

    def _item(self, item: Item) -> None:
        if isinstance(item, Instruction):
            self._instruction(item)
        elif isinstance(item, Constant):
            self._constant(self.registers[item.variable], item.value)
        elif isinstance(item, Park):
            self._line(f"str {self.registers[item.variable]}, [sp, #{self.slots[item.place]}]")
        elif isinstance(item, Unpark):
            self._line(f"ldr {self.registers[item.target]}, [sp, #{self.slots[item.variable]}]")
        elif isinstance(item, Loop):
            self.labels += 1
            label = self.labels
            self._line(f"{label}:")
            self._items(item.body)
            self._end_loop(item, label)
        elif isinstance(item, Repeat):
            self._repeat(item)

    def _instruction(self, item: Instruction) -> None:
        writes = [self.registers[variable] for variable in item.writes]
        reads = [self.registers[variable] for variable in item.reads]
        operands = dict(zip("defg", writes, strict=False)) | dict(zip("abc", reads, strict=False))
        for line in self._instruction_text(item.operation).split("\n"):
            self._line(line.format(**operands, w=writes, r=reads, i=_constant_text(item.constant)))

    def _repeat(self, item: Repeat) -> None:
        symbol = f".L{item.index}"
        self._line(f".set {symbol}, 0")
        self._line(f".rept {item.count}")
        self._items(item.body)
        self._line(f".set {symbol}, {symbol} + 1")
        self._line(".endr")


class _Thumb2(Printer):
    def __init__(self, block: Block, title: str, wide: bool) -> None:
        super().__init__(block, title)
        self.wide = wide
        used = set(self.registers.values())
        self.saved = [register for register in _SAVED if register in used]
        self.vectors = [_HALVES[register] for register in _SAVED_VECTORS if register in used]
        # An even number of words keeps the stack aligned to 8 bytes.
        self.frame = 4 * len(self.slots) + (4 if (len(self.slots) + len(self.saved) + 1) % 2 else 0)

    def _enter(self) -> None:
        self._line(f"push {{{', '.join([*self.saved, 'lr'])}}}")
        if self.vectors:
            self._line(f"vpush {{{', '.join(self.vectors)}}}")
        if self.frame:
            self._line(f"sub sp, sp, #{self.frame}")

    def _leave(self) -> None:
        if self.frame:
            self._line(f"add sp, sp, #{self.frame}")
        if self.vectors:
            self._line(f"vpop {{{', '.join(self.vectors)}}}")
        self._line(f"pop {{{', '.join([*self.saved, 'pc'])}}}")

    def _line(self, text: str) -> None:
        mnemonic, _, operands = text.partition(" ")
        # Negative offsets have no other form, and Clang no suffix for them.
        if self.wide and mnemonic in _NARROW and ", #-" not in operands:
            text = f"{mnemonic}.w {operands}"
        super()._line(text)

    def _instruction_text(self, operation: str) -> str:
        return OPERATIONS[operation].assembly

    def _end_loop(self, item: Loop, label: int) -> None:
        counter = self.registers[item.counter]
        if item.parked:
            slot = self.slots[item.counter]
            self._line(f"ldr {counter}, [sp, #{slot}]")
            self._line(f"subs {counter}, {counter}, #1")
            self._line(f"str {counter}, [sp, #{slot}]")
        else:
            self._line(f"subs {counter}, {counter}, #1")
        self._line(f"bne {label}b")

    def _constant(self, register: str, value: int) -> None:
        unsigned = value & 0xFFFFFFFF
        if is_modified_immediate(unsigned) or is_modified_immediate(unsigned ^ 0xFFFFFFFF):
            self._line(f"mov {register}, #{value}")
            return
        self._line(f"movw {register}, #{unsigned & 0xFFFF}")
        if unsigned >> 16:
            self._line(f"movt {register}, #{unsigned >> 16}")


def _constant_text(constant: int | Index | None) -> str:
    if isinstance(constant, Index):
        step = f"{constant.step} * .L{constant.name}" if constant.step != 1 else f".L{constant.name}"
        return f"{constant.start} + {step}" if constant.start else step
    return str(constant)


def is_modified_immediate(value: int) -> bool:
    """Whether a Thumb-2 data-processing instruction takes this unsigned 32-bit constant (ARM ARM A5.3.2)."""
    low = value & 0xFF
    if value in (low, low << 16 | low, low << 24 | low << 16 | low << 8 | low):
        return True
    high = value >> 8 & 0xFF
    if value == high << 24 | high << 8:
        return True
    return value != 0 and any(value == (value >> shift & 0xFF) << shift for shift in range(1, 25))
