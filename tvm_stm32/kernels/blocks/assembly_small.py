"""A block as a naked function for Armv6-M (M0, M0+): 16-bit instructions, registers given by the block itself.

A counter of a loop is in a high register and counted in r7, which a block must not need where a loop begins or ends.
"""

from __future__ import annotations

from .assembly import naked_function
from .program import Block, Constant, Instruction, Item, Loop, Park, Repeat, Unpark
from .registers import allocate, parked

_SCRATCH = "r7"
_SAVED_LOW, _SAVED_HIGH = ("r4", "r5", "r6", "r7"), ("r8", "r9", "r10", "r11")
# A conditional branch reaches 256 bytes back, an unconditional one 2 KB.
_NEAR = 120

_INSTRUCTIONS = {
    "take_1": "ldmia {a}!, {{{d}}}",
    "take_words_2": "ldmia {a}!, {{{d}, {e}}}",
    "take_words_4": "ldmia {a}!, {{{d}, {e}, {f}, {g}}}",
    "put_words_3": "stmia {d}!, {{{a}, {b}, {c}}}",
    "put_words_4": "stmia {d}!, {{{a}, {b}, {c}, {r[3]}}}",
    "sign_byte": "sxtb {d}, {a}",
    "move": "mov {d}, {a}",
    "copy_pointer": "mov {d}, {a}",
    "multiply_by": "muls {d}, {a}, {d}",
    "add_to": "add {d}, {d}, {a}",
    "and_with": "ands {d}, {d}, {a}",
    "shift_right": "asrs {d}, {a}, #{i}",
    "shift_right_unsigned": "lsrs {d}, {a}, #{i}",
}


def small_assembly_text(block: Block, title: str = "") -> str:
    """The function ``NAME`` in C around its assembly."""
    return _Printer(block, title).function()


class _Printer:
    def __init__(self, block: Block, title: str) -> None:
        self.block, self.title = block, title
        self.registers = allocate(block)
        self.slots = {variable: 4 * number for number, variable in enumerate(parked(block))}
        self.lines: list[str] = []
        self.labels = 0

    def function(self) -> str:
        low = ", ".join(_SAVED_LOW)
        # Nine saved registers and an odd number of words keep the stack aligned to 8 bytes.
        frame = 4 * (len(self.slots) + (len(self.slots) + 1) % 2)
        self._line(f"push {{{low}, lr}}")
        for here, high in zip(_SAVED_LOW, _SAVED_HIGH, strict=True):
            self._line(f"mov {here}, {high}")
        self._line(f"push {{{low}}}")
        self._line(f"sub sp, #{frame}")
        self._items(self.block.body)
        self._line(f"add sp, #{frame}")
        self._line(f"pop {{{low}}}")
        for here, high in zip(_SAVED_LOW, _SAVED_HIGH, strict=True):
            self._line(f"mov {high}, {here}")
        self._line(f"pop {{{low}, pc}}")
        # Compilers leave inline assembly of these cores in the old syntax.
        return naked_function(self.block, self.registers, self.lines, self.title, ".syntax unified")

    def _line(self, text: str) -> None:
        self.lines.append(text)

    def _items(self, items: list[Item]) -> None:
        for item in items:
            self._item(item)

    def _item(self, item: Item) -> None:
        if isinstance(item, Instruction):
            writes = [self.registers[variable] for variable in item.writes]
            reads = [self.registers[variable] for variable in item.reads]
            operands = dict(zip("defg", writes, strict=False)) | dict(zip("abc", reads, strict=False))
            self._line(_INSTRUCTIONS[item.operation].format(**operands, r=reads, i=item.constant))
        elif isinstance(item, Constant):
            self._constant(self.registers[item.variable], item.value)
        elif isinstance(item, Park):
            self._line(f"str {self.registers[item.variable]}, [sp, #{self.slots[item.place]}]")
        elif isinstance(item, Unpark):
            self._line(f"ldr {self.registers[item.target]}, [sp, #{self.slots[item.variable]}]")
        elif isinstance(item, Loop):
            self._loop(item)
        elif isinstance(item, Repeat):
            self._line(f".rept {item.count}")
            self._items(item.body)
            self._line(".endr")

    def _loop(self, item: Loop) -> None:
        self.labels += 1
        label, counter = self.labels, self.registers[item.counter]
        self._line(f"{label}:")
        self._items(item.body)
        self._line(f"mov {_SCRATCH}, {counter}")
        self._line(f"subs {_SCRATCH}, {_SCRATCH}, #1")
        self._line(f"mov {counter}, {_SCRATCH}")
        if _length(item.body) < _NEAR:
            self._line(f"bne {label}b")
            return
        self._line(f"beq {label + 50}f")
        self._line(f"b {label}b")
        self._line(f"{label + 50}:")

    def _constant(self, register: str, value: int) -> None:
        """A number of at most 24 bits, by way of the scratch register."""
        assert 0 <= value < 1 << 24
        first, *rest = value.to_bytes(3, "big") if value > 255 else [value]
        self._line(f"movs {_SCRATCH}, #{first}")
        for byte in rest:
            self._line(f"lsls {_SCRATCH}, {_SCRATCH}, #8")
            if byte:
                self._line(f"adds {_SCRATCH}, {_SCRATCH}, #{byte}")
        if register != _SCRATCH:
            self._line(f"mov {register}, {_SCRATCH}")


def _length(items: list[Item]) -> int:
    """Instructions of a loop's body."""
    return sum(
        item.count * _length(item.body)
        if isinstance(item, Repeat)
        else _length(item.body) + 6
        if isinstance(item, Loop)
        else 6
        if isinstance(item, Constant)
        else 1
        for item in items
    )
