"""The description of a block: operations on variables, loops and unrolled repetitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .operations import OPERATIONS

POINTER_IN = "const int8_t *"
POINTER_OUT = "int8_t *"
CODES, HALVES, WORDS = "int8x16_t", "int16x8_t", "int32x4_t"
VECTORS = (CODES, HALVES, WORDS)


@dataclass(eq=False, frozen=True)
class Variable:
    """An integer (int32_t), a pointer or a vector; ``ctype`` is its type in C, ``register`` the one it must have."""

    name: str
    ctype: str = "int32_t"
    register: str = ""


@dataclass(frozen=True)
class Index:
    """``start + step * k`` where ``k`` counts the repetitions of the :class:`Repeat` it belongs to."""

    name: str
    start: int
    step: int

    def __add__(self, more: int) -> Index:
        return Index(self.name, self.start + more, self.step)


@dataclass(frozen=True)
class Instruction:
    """An operation of :data:`OPERATIONS`: what it writes, what it reads, its constant."""

    operation: str
    writes: tuple[Variable, ...]
    reads: tuple[Variable, ...]
    constant: int | Index | None = None


@dataclass(frozen=True)
class Constant:
    """``variable = value``: any 32-bit number."""

    variable: Variable
    value: int


@dataclass(frozen=True)
class Park:
    """The variable moves to the stack, where ``place`` is kept: its register is free until it comes back."""

    variable: Variable
    place: Variable


@dataclass(frozen=True)
class Unpark:
    """A parked variable is in a register again, that of ``target``; it also stays on the stack."""

    variable: Variable
    target: Variable


@dataclass(frozen=True)
class Loop:
    """``do { body } while (--counter != 0)``; a ``parked`` counter lives on the stack.

    ``count`` is how often, or 0 when only the data say.
    """

    counter: Variable
    parked: bool
    body: list[Item]
    count: int = 0


@dataclass(frozen=True)
class Repeat:
    """``body`` unrolled ``count`` times; ``index`` is the name of what counts them."""

    count: int
    index: str
    body: list[Item]


Item = Instruction | Constant | Park | Unpark | Loop | Repeat


@dataclass
class Block:
    """A function under construction: ``NAME(parameters)``, at most four of them."""

    parameters: list[Variable]
    body: list[Item] = field(default_factory=list)
    _open: list[list[Item]] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _indices: int = 0

    def __post_init__(self) -> None:
        assert len(self.parameters) <= 4
        self._open.append(self.body)
        self._names = {parameter.name for parameter in self.parameters}

    def variable(self, name: str, ctype: str = "int32_t", register: str = "") -> Variable:
        """A new variable; a name already taken gets a number."""
        unique, number = name, 2
        while unique in self._names:
            unique, number = f"{name}_{number}", number + 1
        self._names.add(unique)
        return Variable(unique, ctype, register)

    def emit(
        self,
        operation: str,
        target: Variable | tuple[Variable, ...] | None,
        *reads: Variable,
        constant: int | Index | None = None,
    ) -> Variable:
        """Append an operation; returns the first it writes (its first operand for stores)."""
        known = OPERATIONS[operation]
        written = target if isinstance(target, tuple) else () if target is None else (target,)
        read = (*reads, *written) if known.in_place else reads
        self._open[-1].append(Instruction(operation, written, read, constant))
        return written[0] if written else reads[0]

    def set(self, variable: Variable, value: int) -> Variable:
        """``variable = value``."""
        self._open[-1].append(Constant(variable, value))
        return variable

    def move(self, pointer: Variable, distance: int, scratch: Variable) -> None:
        """``pointer += distance``; a far one goes through ``scratch``."""
        if 0 < distance < 4096:
            self.emit("advance", pointer, constant=distance)
        elif -4096 < distance < 0:
            self.emit("retreat", pointer, constant=-distance)
        elif distance:
            self.emit("advance_by", pointer, self.set(scratch, distance))

    def park(self, variable: Variable, place: Variable | None = None) -> None:
        """See :class:`Park`."""
        self._open[-1].append(Park(variable, place or variable))

    def unpark(self, variable: Variable, target: Variable | None = None) -> Variable:
        """See :class:`Unpark`; returns the variable it is in now."""
        self._open[-1].append(Unpark(variable, target or variable))
        return target or variable

    @contextmanager
    def loop(self, name: str, count: int, *, parked: bool = False, register: str = "") -> Iterator[None]:
        """Do what follows ``count`` times (at least once); ``register`` is the one that counts."""
        assert count >= 1
        if count == 1:
            yield
            return
        counter = self.set(self.variable(name, register=register), count)
        if parked:
            self.park(counter)
        body: list[Item] = []
        self._open[-1].append(Loop(counter, parked, body, count))
        self._open.append(body)
        yield
        self._open.pop()

    @contextmanager
    def counted(self, counter: Variable, *, parked: bool = True) -> Iterator[None]:
        """Do what follows as often as ``counter`` says (at least once); a ``parked`` one has been parked before."""
        body: list[Item] = []
        self._open[-1].append(Loop(counter, parked, body))
        self._open.append(body)
        yield
        self._open.pop()

    @contextmanager
    def repeat(self, count: int) -> Iterator[_Steps]:
        """Unroll what follows ``count`` times; :class:`_Steps` makes constants that change from time to time."""
        if count == 0:
            dropped: list[Item] = []
            self._open.append(dropped)
            yield _Steps("")
            self._open.pop()
            return
        self._indices += 1
        name = f"k{self._indices}"
        body: list[Item] = []
        self._open[-1].append(Repeat(count, name, body))
        self._open.append(body)
        yield _Steps(name)
        self._open.pop()


@dataclass(frozen=True)
class _Steps:
    name: str

    def __call__(self, start: int, step: int) -> Index:
        return Index(self.name, start, step)


def chunked(steps: int, most: int) -> tuple[int, int, int]:
    """``steps`` as ``times`` chunks of ``length`` (at most ``most``) and ``rest`` steps: (length, times, rest).

    Among lengths from half of the most upwards the one with the smallest rest is taken; all steps when they are few.
    """
    if steps <= most:
        return steps, 1, 0
    length = min(range(most, most // 2, -1), key=lambda candidate: steps % candidate)
    return length, steps // length, steps % length
