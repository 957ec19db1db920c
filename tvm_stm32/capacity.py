"""Does a network fit a board? Said memory by memory before any C is compiled, with the first thing to try if not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .boards import Board, Memory, list_boards, load_board
from .columns import aligned
from .errors import CapacityError, TargetError
from .library import Library

# Bytes of RAM that --max-ram leaves free: the runtime's data and the reserve for the fault report.
_DATA = 512


@dataclass(frozen=True)
class MemoryUse:
    """What goes into a memory of a board: ``parts`` with their bytes, ``later`` what only the linker knows."""

    memory: Memory
    parts: tuple[tuple[str, int], ...] = ()
    later: str = ""

    @property
    def used(self) -> int:
        """Bytes that are known."""
        return sum(size for _, size in self.parts)

    @property
    def free(self) -> int:
        """Bytes left; negative when they are too few."""
        return self.memory.size - self.used


def fit(library: Library, board: Board) -> list[MemoryUse]:
    """What a network needs of each memory of a board, in the board's order; nothing for the host.

    Code and the application's own data come on top, so a network that fits may still fail to link.
    """
    if board.is_host:
        return []
    parts: dict[str, list[tuple[str, int]]] = {memory.name: [] for memory in board.memories}
    later = {board.flash.name: ["code comes on top"]}
    if library.weights == "external":
        later[board.flash.name].insert(0, f"weights {library.constant_bytes:,} where the application places them")
    else:
        parts[board.weights.name].append(("weights", library.constant_bytes))
    parts[board.ram.name] += [("arena", library.arena_size), ("stack", board.stack_size)]
    later.setdefault(board.ram.name, []).append("data comes on top")
    return [
        MemoryUse(memory, tuple(parts[memory.name]), "; ".join(later.get(memory.name, ()))) for memory in board.memories
    ]


def fit_text(library: Library, board: Board) -> str:
    """:func:`fit` as a table; empty for the host."""
    uses = fit(library, board)
    if not uses:
        return ""
    rows = [[board.name, "size", "used", "%", "free", "for"]]
    for use in uses:
        names = ", ".join(f"{name} {size:,}" for name, size in use.parts)
        rows.append(
            [
                use.memory.name,
                f"{use.memory.size:,}",
                f"{use.used:,}",
                f"{100 * use.used / use.memory.size:.1f}",
                f"{use.free:,}",
                "; ".join(text for text in (names, use.later) if text) or "nothing",
            ]
        )
    return "\n".join(aligned(rows, "lrrrrl")) + "\n"


def check_capacity(library: Library, board: Board, *, fixed: bool = False) -> None:
    """Raise :class:`CapacityError` with the table, the numbers and what to try when a memory is too small.

    ``fixed``: the network came with its kernels, so options of the compiler change nothing.
    """
    uses = fit(library, board)
    problems, hints = [], []
    for use in uses:
        if use.free >= 0:
            continue
        parts = dict(use.parts)
        if "weights" in parts:
            problems.append(
                f"constants need {library.constant_bytes:,} bytes of flash and the board has {use.memory.size:,}"
                f" ({-use.free:,} too many)"
            )
            hints += [] if fixed else _for_flash(library)
        if "arena" in parts:
            problems.append(
                f"the arena needs {library.arena_size:,} bytes of RAM beside {board.stack_size:,} of stack and the "
                f"board has {use.memory.size:,} ({-use.free:,} too many)"
            )
            hints += [] if fixed else _for_ram(library, board)
    if problems:
        hints += [*_other_memory(library, board), *_other_boards(library, board)]
        table = "".join(f"\n    {line}" for line in fit_text(library, board).splitlines())
        raise CapacityError(
            f"{library.provenance.file_name} does not fit {board.name}",
            why="; ".join(problems) + table,
            hint="; or ".join(hints) or "a smaller model (tvm-stm32 inspect shows who needs what)",
        )


def _for_flash(library: Library) -> list[str]:
    if library.settings.get("level") != "size":
        return ["-O size, which may need less flash"]
    return []


def _for_ram(library: Library, board: Board) -> list[str]:
    """``--max-ram`` with what the board has, where inputs and outputs alone leave hope."""
    room = (board.ram.size - board.stack_size - _DATA) // 8 * 8
    states = {state.tensor for state in library.states}
    least = max(_bytes(library, {*library.input_tensors, *states}), _bytes(library, {*library.output_tensors, *states}))
    if room >= least and room > 0 and "max-ram" not in library.settings:
        return [f"--max-ram {room}, with which operators may need no more"]
    return []


def _bytes(library: Library, names: Iterable[str]) -> int:
    """Bytes of the tensors in the arena that hold ``names``."""
    outside = {library.root(name) for name in library.external}
    return sum(library.tensors[root].size for root in {library.root(name) for name in names} - outside)


def _other_memory(library: Library, board: Board) -> list[str]:
    """A larger memory of the same board, where only the RAM is too small."""
    need = library.arena_size + board.stack_size
    if board.ram.size >= need:
        return []
    for memory in board.memories:
        other = replace(board, roles={**board.roles, "ram": memory.name})
        if "w" in memory.access and _usable(other) and memory.size >= need + _DATA:
            return [f"a board file with 'image: {{ram: {memory.name}}}' ({memory.size:,} bytes)"]
    return []


def _usable(board: Board) -> bool:
    """Whether the board's emulator has the RAM, too."""
    try:
        return board.memory("ram", emulated=True).size >= board.ram.size
    except TargetError:
        return False


def _other_boards(library: Library, board: Board) -> list[str]:
    """Boards of the project that hold what was compiled, those with the same CPU first."""
    found = []
    for name in list_boards():
        other = load_board(name)
        room = [use.free - (_DATA if "arena" in dict(use.parts) else 0) for use in fit(library, other)]
        if name != board.name and min(room) >= 0:
            found.append((other.target.cpu != board.target.cpu, name, other.target.cpu))
    names = ", ".join(f"{name} ({cpu})" for _, name, cpu in sorted(found)[:3])
    return [f"a board with more memory: {names}"] if names else []
