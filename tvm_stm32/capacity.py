"""Does a network fit a board? Said before any C is compiled."""

from __future__ import annotations

from .boards import Board
from .errors import CapacityError
from .library import Library


def check_capacity(library: Library, board: Board) -> None:
    """Raise :class:`CapacityError` with the numbers when constants or arena exceed the board's memories.

    Code and the application's own data come on top, so a network that passes may still fail to link.
    """
    if board.is_host:
        return
    flash = sum(memory.size for memory in {board.memory(role) for role in ("flash", "weights")})
    ram = board.memory("ram").size
    problems = []
    if library.constant_bytes > flash:
        problems.append(
            f"constants need {library.constant_bytes:,} bytes of flash and the board has {flash:,}"
            f" ({library.constant_bytes - flash:,} too many)"
        )
    if library.arena_size + board.stack_size > ram:
        problems.append(
            f"the arena needs {library.arena_size:,} bytes of RAM beside {board.stack_size:,} of stack and the board "
            f"has {ram:,} ({library.arena_size + board.stack_size - ram:,} too many)"
        )
    if problems:
        raise CapacityError(
            f"{library.provenance.file_name} does not fit {board.name}",
            why="; ".join(problems),
            hint="a smaller model, or a board with more memory (tvm-stm32 inspect shows who needs what)",
        )
