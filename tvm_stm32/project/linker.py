"""The linker script of an image: ``runtime/port/image.ld.in`` filled in from a board."""

from __future__ import annotations

from string import Template

from ..boards import Board, Memory, pool_section
from ..cnames import comment_text
from ..errors import TargetError
from ..resources import resource_dir

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
    separate = weights.name != flash.name
    region = f"    WEIGHTS (r) : ORIGIN = {weights.origin:#010x}, LENGTH = {weights.size:#x}\n" if separate else ""
    others = board.other_memories(emulated=emulated)
    region += "".join(
        f"    POOL_{memory.name} ({memory.access}) : ORIGIN = {memory.origin:#010x}, LENGTH = {memory.size:#x}\n"
        for memory in others
    )
    template = Template((resource_dir("runtime") / "port" / "image.ld.in").read_text(encoding="utf-8"))
    return template.substitute(
        title=comment_text(board.title),
        flash_name=flash.name,
        flash_origin=f"{flash.origin:#010x}",
        flash_size=f"{flash.size:#x}",
        other_regions=region,
        pools="".join(_pool_section(memory) for memory in others),
        weights="WEIGHTS" if separate else "FLASH",
        ram_name=ram.name,
        ram_origin=f"{ram.origin:#010x}",
        ram_size=f"{ram.size:#x}",
        stack_size=stack,
        fault_stack_size=FAULT_STACK_SIZE,
    )


def _pool_section(memory: Memory) -> str:
    """The output section of networks' pools in a memory without a role."""
    section, label = pool_section(memory.name), f"__nn_pool_{memory.name.lower()}"
    comment, load = ("Not cleared, likewise. ", " (NOLOAD)") if "w" in memory.access else ("", "")
    return (
        f"    /* {comment}Memory pools in {memory.name}. */\n"
        f"    {section}{load} : ALIGN(16)\n    {{\n        {label}_start__ = .;\n"
        f"        *({section} {section}.*)\n        {label}_end__ = .;\n    }} > POOL_{memory.name}\n"
        f"    ASSERT({label}_end__ - {label}_start__ <= LENGTH(POOL_{memory.name}),"
        f' "pools do not fit {memory.name}")\n\n'
    )
