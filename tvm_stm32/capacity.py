"""Does a network fit a board? Said memory by memory before any C is compiled, with the first thing to try if not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from .boards import Board, Memory, list_boards, load_board, pool_section
from .columns import aligned
from .errors import CapacityError, Error, TargetError
from .library import ARENA_SECTION, WEIGHTS_SECTION, Library
from .pool_files import OF_BOARD, load_pools

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

    Pools count for the memory whose section they have; those with another section are in :func:`elsewhere`. Code and
    the application's own data come on top, so a network that fits may still fail to link.
    """
    if board.is_host:
        return []
    parts: dict[str, list[tuple[str, int]]] = {memory.name: [] for memory in board.memories}
    later = {board.flash.name: ["code comes on top"]}
    if library.weights == "external":
        later[board.flash.name].insert(0, f"weights {library.constant_bytes:,} where the application places them")
    for what, section, size in _wanted(library):
        memory = _memory_of(section, board)
        if memory is not None:
            parts[memory.name].append((what, size))
    parts[board.ram.name].append(("stack", board.stack_size))
    later.setdefault(board.ram.name, []).append("data comes on top")
    return [
        MemoryUse(memory, tuple(parts[memory.name]), "; ".join(later.get(memory.name, ()))) for memory in board.memories
    ]


def elsewhere(library: Library, board: Board) -> list[tuple[str, str, int]]:
    """What lies in sections that the board's linker script does not have: part, section, bytes."""
    return [part for part in _wanted(library) if _memory_of(part[1], board) is None]


def _wanted(library: Library) -> list[tuple[str, str, int]]:
    """The parts of a network in memory: what, the linker's section, bytes."""
    flash: dict[str, int] = {}
    for constant in library.constants.values():
        # A copy in RAM is made of what lies with the other weights.
        pool = library.pool(constant.pool) if constant.pool and constant.offset < 0 else None
        section = pool.section if pool is not None and pool.section else WEIGHTS_SECTION
        flash[section] = flash.get(section, 0) + constant.data.nbytes
    if library.weights == "external":
        flash.pop(WEIGHTS_SECTION, None)
    else:
        flash.setdefault(WEIGHTS_SECTION, 0)
    arena = library.arena_pool
    section = arena.section if arena is not None and arena.section else ARENA_SECTION
    return [
        *(("weights", section, size) for section, size in flash.items()),
        ("arena", section, library.arena_size),
        *((f"pool {pool.name}", pool.section, pool.used) for pool in library.static_pools if pool.used),
    ]


def _memory_of(section: str, board: Board) -> Memory | None:
    """The memory into which the board's linker script puts a section; None for a section it does not have."""
    if section == WEIGHTS_SECTION:
        return board.weights
    if section in (ARENA_SECTION, ""):
        return board.ram
    if section.startswith(".rodata"):
        return board.flash
    taken = (board.flash.name, board.weights.name, board.ram.name)
    others = (memory for memory in board.memories if memory.name not in taken)
    return next((memory for memory in others if pool_section(memory.name) == section), None)


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
    rows += [[section or "?", "", f"{size:,}", "", "", what] for what, section, size in elsewhere(library, board)]
    return "\n".join(aligned(rows, "lrrrrl")) + "\n"


def check_capacity(library: Library, board: Board, again: Callable[..., Library] | None = None) -> None:
    """Raise :class:`CapacityError` with the table, the numbers and what to try when a memory is too small.

    ``again`` compiles the network with other options (fields of ``CompileOptions``), which are proposed when they help;
    None where the network came with its kernels.
    """
    uses = fit(library, board)
    problems, hints = [], []
    for use in uses:
        if use.free >= 0:
            continue
        parts = dict(use.parts)
        too_many = f"the board has {use.memory.size:,} ({-use.free:,} too many)"
        if use.memory == board.ram:
            others = [f"{size:,} of {name}" for name, size in use.parts if name != "arena"]
            beside = f" beside {' and '.join(others)}" if others else ""
            problems.append(f"the arena needs {parts.get('arena', 0):,} bytes of RAM{beside} and {too_many}")
            hint, why = _for_ram(library, use, again)
            problems[-1] += why
            hints += hint
        elif set(parts) <= {"weights"}:
            problems.append(f"constants need {parts['weights']:,} bytes of flash and {too_many}")
            hints += _for_flash(library, board, again)
        else:
            names = " and ".join(f"{name} {size:,}" for name, size in use.parts)
            problems.append(f"{use.memory.name} is to hold {names} bytes and {too_many}")
            hints.append(f"a smaller 'size' for pools in {use.memory.name}")
    if problems:
        hints = [*_pools_of_board(library, board, again), *hints]
        hints += [*_other_memory(library, board), *_other_boards(library, board)]
        table = "".join(f"\n    {line}" for line in fit_text(library, board).splitlines())
        raise CapacityError(
            f"{library.provenance.file_name} does not fit {board.name}",
            why="; ".join(problems) + table,
            hint="; or ".join(hints) or "a smaller model (tvm-stm32 inspect shows who needs what)",
        )


def _pools_of_board(library: Library, board: Board, again: Callable[..., Library] | None) -> list[str]:
    """``--pools board`` where that makes it fit."""
    if again is None or not board.pools or library.pools:
        return []
    try:
        spread = again(pools=load_pools(OF_BOARD, board))
    except Error:
        return []
    return ["--pools board, which spreads it"] if all(use.free >= 0 for use in fit(spread, board)) else []


def _for_flash(library: Library, board: Board, again: Callable[..., Library] | None) -> list[str]:
    """``-O size`` where its weights fit: other kernels may keep theirs packed."""
    if again is None or library.settings.get("level") == "size":
        return []
    try:
        smaller = again(level="size")
    except CapacityError:
        return []
    fits = all(use.free >= 0 for use in fit(smaller, board) if dict(use.parts).keys() == {"weights"})
    return [f"-O size, with which constants need {smaller.constant_bytes:,} bytes"] if fits else []


def _for_ram(library: Library, use: MemoryUse, again: Callable[..., Library] | None) -> tuple[list[str], str]:
    """``--max-ram`` with what the memory has, where that works, or why it does not."""
    room = (use.free + library.arena_size - _DATA) // 8 * 8
    states = {state.tensor for state in library.states}
    # Inputs and outputs alone must fit in any case.
    ends = max(_bytes(library, {*library.input_tensors, *states}), _bytes(library, {*library.output_tensors, *states}))
    if again is None or room < max(ends, 1) or "max-ram" in library.settings or library.pools:
        return [], ""
    try:
        smaller = again(max_ram=room)
    except CapacityError as error:
        return [], f", and --max-ram finds no arena of less than {error.least:,} bytes" if error.least else ""
    return [f"--max-ram {room}, with which the arena has {smaller.arena_size:,} bytes"], ""


def _bytes(library: Library, names: Iterable[str]) -> int:
    """Bytes of the tensors in the arena that hold ``names``."""
    outside = {library.root(name) for name in library.external}
    return sum(library.tensors[root].size for root in {library.root(name) for name in names} - outside)


def _other_memory(library: Library, board: Board) -> list[str]:
    """A larger memory of the same board, where only the RAM is too small."""
    need = library.arena_size + board.stack_size
    if board.ram.size >= need or library.pools:
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
    found: list[tuple[bool, str, str]] = []
    for name in [] if library.pools else list_boards():
        other = load_board(name)
        room = [use.free - (_DATA if "arena" in dict(use.parts) else 0) for use in fit(library, other)]
        if name != board.name and min(room) >= 0:
            found.append((other.target.cpu != board.target.cpu, name, other.target.cpu))
    names = ", ".join(f"{name} ({cpu})" for _, name, cpu in sorted(found)[:3])
    return [f"a board with more memory: {names}"] if names else []
