"""The linker script of an image: ``runtime/port/image.ld.j2`` filled in from a board."""

from __future__ import annotations

from ..boards import Board, pool_section
from ..cnames import comment_text
from ..errors import TargetError
from ..resources import resource_dir
from ..templates import text_templates

FAULT_STACK_SIZE = 256
"""Bytes the script keeps below the stack for the fault report."""


def linker_script(board: Board, *, emulated: bool = True, stack_size: int | None = None) -> str:
    """The text of the linker script.

    ``emulated`` links for the addresses of the board's QEMU machine (never more memory than the device has), otherwise
    for the device's own. ``stack_size`` in bytes overrides the board's reserve; rounded up to a multiple of 8. Raises
    :class:`TargetError` for the host board, or a stack the RAM cannot hold.
    """
    if board.is_host:
        raise TargetError("the host board has no linker script", why="its programs are linked by the host's compiler")
    flash = board.memory("flash", emulated=emulated)
    weights = board.memory("weights", emulated=emulated)
    ram = board.memory("ram", emulated=emulated)
    stack = -(-(board.stack_size if stack_size is None else stack_size) // 8) * 8
    if not 0 < stack <= ram.size - FAULT_STACK_SIZE:
        raise TargetError(f"a stack of {stack} bytes does not fit {ram.name} of {board.name} ({ram.size} bytes)")
    templates = text_templates(
        resource_dir("runtime") / "port", address="{:#010x}".format, hex="{:#x}".format, section=pool_section
    )
    return templates.get_template("image.ld.j2").render(
        title=comment_text(board.title),
        flash=flash,
        weights=weights if weights.name != flash.name else None,
        ram=ram,
        others=board.other_memories(emulated=emulated),
        stack_size=stack,
        fault_stack_size=FAULT_STACK_SIZE,
    )
