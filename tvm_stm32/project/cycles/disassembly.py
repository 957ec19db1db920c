"""The instructions of an image, by address: what objdump of the toolchain prints."""

from __future__ import annotations

import re
from pathlib import Path

from ...errors import ToolchainError
from ...target import Target
from ...toolchain import find_gcc, first_lines, run_tool, tool_beside

# "   80003a4:	f8d0 3004 	ldr.w	r3, [r0, #4]"
_LINE = re.compile(r"^\s*([0-9a-f]+):\t((?:[0-9a-f]{4} ?){1,2})\s*\t([^.\s].*)$")


def disassemble(image: Path, target: Target) -> dict[int, tuple[int, str]]:
    """Width in bytes and text of each instruction of the executable sections, by address.

    Raises :class:`ToolchainError` when objdump is absent or fails.
    """
    command: list[str | Path] = [tool_beside(find_gcc(), "objdump"), "-d"]
    if target.mve:
        # The ELF attributes do not tell objdump of MVE: without this it prints coprocessor instructions.
        command += ["-m", "armv8.1-m.main"]
    done = run_tool([*command, image])
    if done.returncode != 0:
        raise ToolchainError(f"{image.name} cannot be disassembled", why=first_lines(done.stderr, 3))
    found: dict[int, tuple[int, str]] = {}
    for line in done.stdout.splitlines():
        match = _LINE.match(line)
        if match is not None:
            found[int(match[1], 16)] = (len(match[2].split()) * 2, match[3])
    return found
