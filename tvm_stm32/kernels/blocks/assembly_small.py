"""A block as a naked function for Armv6-M (M0, M0+): 16-bit instructions, registers given by the block itself.

A counter of a loop is in a high register and counted in r7, which a block must not need where a loop begins or ends.
"""

from __future__ import annotations

from .assembly import Printer
from .program import Block, Constant, Item, Loop, Repeat

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
    return _Thumb1(block, title).function()


class _Thumb1(Printer):
    # Compilers leave inline assembly of these cores in the old syntax.
    first = ".syntax unified"

    def __init__(self, block: Block, title: str) -> None:
        super().__init__(block, title)
        # Nine saved registers and an odd number of words keep the stack aligned to 8 bytes.
        self.frame = 4 * (len(self.slots) + (len(self.slots) + 1) % 2)

    def _enter(self) -> None:
        low = ", ".join(_SAVED_LOW)
        self._line(f"push {{{low}, lr}}")
        for here, high in zip(_SAVED_LOW, _SAVED_HIGH, strict=True):
            self._line(f"mov {here}, {high}")
        self._line(f"push {{{low}}}")
        self._line(f"sub sp, #{self.frame}")

    def _leave(self) -> None:
        low = ", ".join(_SAVED_LOW)
        self._line(f"add sp, #{self.frame}")
        self._line(f"pop {{{low}}}")
        for here, high in zip(_SAVED_LOW, _SAVED_HIGH, strict=True):
            self._line(f"mov {high}, {here}")
        self._line(f"pop {{{low}, pc}}")

    def _instruction_text(self, operation: str) -> str:
        return _INSTRUCTIONS[operation]

    def _repeat(self, item: Repeat) -> None:
        """Instructions of this core's blocks do not change from time to time."""
        self._line(f".rept {item.count}")
        self._items(item.body)
        self._line(".endr")

    def _end_loop(self, item: Loop, label: int) -> None:
        counter = self.registers[item.counter]
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
