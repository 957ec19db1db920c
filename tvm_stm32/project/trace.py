"""Executed blocks, the ways between them and data accesses of an inference: ``trace_plugin.c`` and its output."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..boards import Board
from ..errors import ToolchainError
from .icount import plugin_arguments

OUTSIDE = 0
"""Identifier of the pseudo block before the first and after the last instruction."""


@dataclass(frozen=True)
class Cache:
    """A set-associative cache with least recently used replacement: lines in all, ways, bytes of a line."""

    lines: int
    ways: int
    line: int


@dataclass(frozen=True)
class Block:
    """A translation block: its address, its instructions, and the code lines that were missing when it ran.

    ``jumps`` counts missing lines that were jumped to, ``lines`` missing lines reached in sequence.
    """

    address: int
    instructions: int
    jumps: int = 0
    lines: int = 0


@dataclass(frozen=True)
class Access:
    """Data accesses of one instruction, each compared with the access before it (of any instruction).

    ``same`` hit the same memory, ``bank`` the other one of the even and odd words, ``unaligned`` crossed their size,
    ``misses`` missed the data cache.
    """

    count: int
    same: int
    bank: int
    unaligned: int
    misses: int


@dataclass(frozen=True)
class Trace:
    """One inference. ``edges`` counts how often one block (by identifier) followed another, from and to ``OUTSIDE``."""

    instructions: int
    blocks: dict[int, Block] = field(default_factory=dict)
    edges: dict[tuple[int, int], int] = field(default_factory=dict)
    accesses: dict[int, Access] = field(default_factory=dict)


def trace_arguments(
    plugin: Path, begin: int, end: int, output: Path, board: Board, caches: tuple[Cache, Cache] | None
) -> list[str]:
    """QEMU arguments that load the plugin; ``caches`` are those of instructions and data, None simulates none."""
    option, value = plugin_arguments(plugin, begin, end, output)
    if caches is not None:
        slow = {board.memory(role, emulated=True) for role in ("flash", "weights")}
        value += "".join(f",flash={memory.origin:#x}:{memory.end:#x}" for memory in slow)
        for name, cache in zip(("icache", "dcache"), caches, strict=True):
            value += f",{name}={cache.lines}:{cache.ways}:{cache.line}"
    return [option, value]


def read_trace(output: Path) -> Trace:
    """The trace the plugin wrote. Raises :class:`ToolchainError` when the program never came to the end marker."""
    if not output.is_file():
        raise ToolchainError("the trace plugin wrote nothing", why="the program did not run from begin to end marker")
    total = 0
    blocks: dict[int, Block] = {}
    edges: dict[tuple[int, int], int] = {}
    accesses: dict[int, Access] = {}
    for line in output.read_text(encoding="ascii").splitlines():
        kind, *words = line.split()
        if kind == "total":
            total = int(words[0])
        elif kind == "block":
            blocks[int(words[0])] = Block(int(words[1], 16), *(int(word) for word in words[2:]))
        elif kind == "edge":
            edges[int(words[0]), int(words[1])] = int(words[2])
        elif kind == "access":
            accesses[int(words[0], 16)] = Access(*(int(word) for word in words[1:]))
    return Trace(total, blocks, edges, accesses)
