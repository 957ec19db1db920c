"""How deep the stack gets: a bound from the instructions of a linked image and its call graph.

Everything is read from the image, so functions of the C library, naked functions and jumps behind calls count like
compiled C, for which GCC's ``-fstack-usage`` gives the same numbers. A function is what its entry reaches without a
call; the depth at each of its instructions follows from those that move the stack pointer. Interrupts come on top.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import FirmwareError
from ..target import Target
from .cycles.disassembly import disassemble
from .image import Image

_DEEPEST = 1 << 20
_CONDITIONS = "eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
_NAME = re.compile(
    rf"(?P<name>blx|bl|bx|b|push|pop|vpush|vpop|v?ldm(?:ia)?|v?stmdb|addw?|subw?|mov|ldr|cbn?z|letp|le|wls(?:tp)?|tb[bh])"
    rf"(?P<condition>{_CONDITIONS})?(?P<size>\.\w+)?$"
)
_WRITES = re.compile(r"(?!st|cmp|cmn|tst|teq)\S+\s+(sp,|msp|psp)", re.IGNORECASE)
_REGISTER_BYTES = {"r": 4, "s": 4, "d": 8, "q": 16}
_ALIASES = {"sb": "r9", "sl": "r10", "fp": "r11", "ip": "r12", "sp": "r13", "lr": "r14", "pc": "r15"}


@dataclass(frozen=True)
class StackBound:
    """``size`` in bytes, None when there is no bound: ``reasons`` say why. ``path`` is the deepest found."""

    size: int | None
    path: tuple[str, ...]
    reasons: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """``stack bound 264 bytes``, or that there is none and why."""
        if self.size is None:
            return f"stack bound unknown ({'; '.join(self.reasons)})"
        return f"stack bound {self.size:,} bytes"


@dataclass
class _Function:
    """Most bytes below the caller's stack pointer, calls with the bytes in use at them, what gives no bound."""

    own: int = 0
    calls: list[tuple[int, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Step:
    """What an instruction does: bytes in use behind it, where it goes on, what it calls."""

    depth: int
    next: tuple[int, ...]
    call: int | None = None
    problem: str = ""


def run_stack(image_file: Path, target: Target, network: str) -> StackBound:
    """The bound of ``ai_run`` with the network of that C name (as in ``ai_<name>_network``).

    Raises :class:`FirmwareError` when the image has no such functions, and the errors of :func:`disassemble`.
    """
    return stack_bound(image_file, target, "ai_run", {"ai_run": f"{network}_run"})


def stack_bound(image_file: Path, target: Target, entry: str, pointers: Mapping[str, str] | None = None) -> StackBound:
    """The most bytes of stack in use below the caller of function ``entry``.

    ``pointers`` says which function another calls through a pointer. Raises :class:`FirmwareError` for functions that
    are not there.
    """
    image = Image(image_file)
    graph = _Graph(image, disassemble(image_file, target), pointers or {})
    return graph.bound(image.function_address(entry), ())


def frame_sizes(image_file: Path, target: Target) -> dict[str, int]:
    """Bytes each function of an image uses itself, by name: what ``-fstack-usage`` says of compiled ones."""
    image = Image(image_file)
    graph = _Graph(image, disassemble(image_file, target), {})
    return {name: graph.function(address).own for address, name in image.functions()}


class _Graph:
    """Functions of an image by their entry, and bounds that are known already."""

    def __init__(self, image: Image, code: dict[int, tuple[int, str]], pointers: Mapping[str, str]) -> None:
        self._code = code
        self._addresses = sorted(code)
        self._names = dict(image.functions())
        self._starts = sorted(self._names)
        self._pointers = {
            image.function_address(caller): image.function_address(callee) for caller, callee in pointers.items()
        }
        self._functions: dict[int, _Function] = {}
        self._bounds: dict[int, StackBound] = {}

    def bound(self, entry: int, active: tuple[int, ...]) -> StackBound:
        """The bound of the function at ``entry``, called from those in ``active``."""
        name = self._name(entry)
        if entry in active:
            return StackBound(None, (name,), (f"{name} calls itself",))
        if entry in self._bounds:
            return self._bounds[entry]
        function = self.function(entry)
        path: tuple[str, ...] = (name,)
        size, reasons = function.own, list(function.problems)
        for depth, callee in function.calls:
            called = self.bound(callee, (*active, entry))
            reasons += called.reasons
            if called.size is not None and depth + called.size > size:
                size, path = depth + called.size, (name, *called.path)
        found = StackBound(None if reasons else size, path, tuple(dict.fromkeys(reasons)))
        self._bounds[entry] = found
        return found

    def function(self, entry: int) -> _Function:
        """What the instructions from ``entry`` do to the stack, calls left out."""
        if entry in self._functions:
            return self._functions[entry]
        found = self._functions[entry] = _Function()
        depths: dict[int, int] = {}
        calls: dict[tuple[int, int], int] = {}
        saved: dict[str, int] = {}
        problems: dict[str, None] = {}
        waiting = [(entry, 0)]
        while waiting:
            address, depth = waiting.pop()
            if address not in self._code or depths.get(address, -1) >= depth:
                continue
            if depth > _DEEPEST:
                problems[f"{self._name(entry)} moves the stack pointer in a loop"] = None
                break
            depths[address] = depth
            step = self._step(entry, address, depth, saved)
            found.own = max(found.own, depth, step.depth)
            if step.problem:
                problems[f"{self._name(entry)} {step.problem}"] = None
            if step.call is not None:
                calls[address, step.call] = depth
            waiting += [(place, step.depth) for place in step.next]
        found.calls = [(depth, callee) for (_, callee), depth in calls.items()]
        found.problems = list(problems)
        return found

    def _step(self, entry: int, address: int, depth: int, saved: dict[str, int]) -> _Step:
        width, text = self._code[address]
        words = text.split(None, 1)
        # Comments of objdump: "@ 0x28", "; 0x28".
        operands = re.split(r"\s*[@;]", words[1])[0] if len(words) > 1 else ""
        after = address + width
        match = _NAME.match(words[0])
        name = match["name"] if match else ""
        maybe = (after,) if match and match["condition"] else ()
        if name in ("b", "bl", "cbz", "cbnz", "le", "letp", "wls", "wlstp"):
            goal = _target(operands)
            if name == "bl" and goal in self._names:
                return _Step(depth, (after,), goal)
            # To no function's start: GCC's far jump on cores with short branches, or a part of assembly.
            return _Step(depth, (*((goal,) if goal is not None else ()), *(maybe if name == "b" else (after,))))
        if name in ("tbb", "tbh"):
            return _Step(depth, self._behind(address))
        if name in ("bx", "blx") or (name == "mov" and operands.startswith("pc,")):
            register = operands.removeprefix("pc,").strip()
            here = (after,) if name == "blx" else maybe
            if register == "lr" and name != "blx":
                return _Step(depth, here)
            if entry in self._pointers:
                return _Step(depth, here, self._pointers[entry])
            return _Step(depth, here, problem="calls a function through a pointer")
        moved = _moved(text, name, operands, depth, saved)
        if moved is None:
            return _Step(depth, (after,), problem="moves the stack pointer by a number that is not known")
        behind = max(depth, moved) if maybe else moved
        if "{" in operands and name in ("pop", "ldm", "ldmia") and re.search(r"\bpc\b", operands):
            return _Step(behind, maybe)
        if name == "ldr" and operands.startswith("pc,"):
            if re.match(r"pc, \[sp\], ", operands):
                return _Step(behind, maybe)
            return _Step(depth, maybe, problem="jumps through a table of addresses")
        return _Step(behind, (after,))

    def _behind(self, address: int) -> tuple[int, ...]:
        """Where a table of branches may lead: every instruction behind it in the same function."""
        end = next((start for start in self._starts if start > address), _DEEPEST << 12)
        return tuple(place for place in self._addresses if address < place < end)

    def _name(self, address: int) -> str:
        return self._names.get(address, f"0x{address:x}")


def _target(operands: str) -> int | None:
    """The address a branch names, ``r3, 1828 <name+0x1c>``."""
    match = re.search(r"(?:^|,\s*)([0-9a-f]+)(?:\s+<.*>)?$", operands)
    return int(match[1], 16) if match is not None else None


def _moved(text: str, name: str, operands: str, depth: int, saved: dict[str, int]) -> int | None:
    """Bytes in use behind an instruction; None when it cannot be told. ``saved``: copies of the pointer."""
    if name in ("push", "vpush", "stmdb", "vstmdb") and (name.endswith("push") or operands.startswith("sp!,")):
        return depth + _list_bytes(operands)
    if name in ("pop", "vpop", "ldm", "ldmia", "vldm", "vldmia") and (
        name.endswith("pop") or operands.startswith("sp!,")
    ):
        return depth - _list_bytes(operands)
    if match := re.search(r"\[sp, #(-?\d+)\]!", operands):
        return depth - int(match[1])
    if match := re.search(r"\[sp\], #(-?\d+)", operands):
        return depth - int(match[1])
    copied = re.fullmatch(r"(\w+), sp(?:, #(\d+))?", operands)
    if copied is not None and name in ("mov", "add", "addw") and copied[1] != "sp":
        saved[copied[1]] = depth - int(copied[2] or 0)
        return depth
    if not name:
        # Of all others those that write it: MSR of MSP and PSP, arithmetic with it as first operand.
        return None if _WRITES.match(text) else depth
    if not operands.startswith("sp,"):
        return depth
    if name in ("add", "addw", "sub", "subw"):
        match = re.fullmatch(r"sp, (?:(\w+), )?#(\d+)", operands)
        if match is None or (match[1] not in (None, "sp") and match[1] not in saved):
            return None
        base = depth if match[1] in (None, "sp") else saved[match[1]]
        return base + (int(match[2]) if name.startswith("sub") else -int(match[2]))
    if name == "mov":
        return saved.get(operands.removeprefix("sp,").strip())
    return None


def _list_bytes(operands: str) -> int:
    """Bytes of a list of registers, ``{r4, r5-r7, lr}``."""
    total = 0
    for part in operands[operands.index("{") + 1 : operands.index("}")].split(","):
        first, _, last = (_ALIASES.get(word, word) for word in part.strip().partition("-"))
        if first not in ("", "vpr") and first[0] in _REGISTER_BYTES:
            count = int(last[1:]) - int(first[1:]) + 1 if last else 1
            total += count * _REGISTER_BYTES[first[0]]
        elif first:
            total += 4
    return total


def check_measured(bound: StackBound, measured: int) -> None:
    """Raise :class:`FirmwareError` when a run took more stack than the bound allows: one of the two is wrong."""
    if bound.size is not None and measured > bound.size:
        raise FirmwareError(
            f"a run took {measured:,} bytes of stack, and its bound is {bound.size:,}",
            why="the deepest calls found are " + " > ".join(bound.path),
            hint="an interrupt during the run, or a bug of tvm-stm32: report it with the model",
        )
