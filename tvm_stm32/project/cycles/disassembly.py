"""The instructions of an image, by address: objdump of the toolchain, decoded."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from ...errors import ToolchainError
from ...target import Target
from ...toolchain import find_gcc, first_lines, run_tool, tool_beside
from .instruction import Instruction, decode

# "   80003a4:	f8d0 3004 	ldr.w	r3, [r0, #4]"
_LINE = re.compile(r"^\s*([0-9a-f]+):\t((?:[0-9a-f]{4} ?){1,2})\s*\t([^.\s].*)$")


def disassemble(image: Path, target: Target, wanted: Collection[int] | None = None) -> dict[int, Instruction]:
    """Instructions of the executable sections; of them those that start at ``wanted`` addresses, when it is given.

    Raises :class:`ToolchainError` when objdump is absent or fails.
    """
    command: list[str | Path] = [tool_beside(find_gcc(), "objdump"), "-d"]
    if target.mve:
        # The ELF attributes do not tell objdump of MVE: without this it prints coprocessor instructions.
        command += ["-m", "armv8.1-m.main"]
    done = run_tool([*command, image])
    if done.returncode != 0:
        raise ToolchainError(f"{image.name} cannot be disassembled", why=first_lines(done.stderr, 3))
    found: dict[int, Instruction] = {}
    for line in done.stdout.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        address = int(match[1], 16)
        if wanted is None or address in wanted:
            found[address] = decode(address, len(match[2].split()) * 2, match[3])
    return found
