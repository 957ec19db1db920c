"""Memory stage: lifetimes of tensors and their places in one arena, or in several pools."""

from __future__ import annotations

from collections.abc import Mapping

from ..library import Library
from .lifetimes import Buffer, lifetimes, needed, workspace_name
from .planner import place
from .pools import assign, cycles, pool_notes


def plan(library: Library, pins: Mapping[str, str] | None = None) -> None:
    """Give every tensor and workspace of ``library`` its offset and set the arena's size.

    With pools, also the pool of each and of constants (:mod:`.pools`), where ``pins`` names some.
    """
    if library.pools:
        assign(library, pins)
        return
    buffers = lifetimes(library)
    # C has no empty arrays.
    library.arena_size = max(library.arena_alignment, place(buffers, library.arena_alignment).size)
    offsets = {buffer.name: buffer.offset for buffer in buffers}
    for buffer in buffers:
        for name in buffer.tensors:
            library.tensors[name].offset = buffer.offset
    for name in library.aliases:
        start = library.tensors[library.root(name)].offset
        library.tensors[name].offset = start + library.root_offset(name) if start >= 0 else -1
    for step, call in enumerate(library.calls):
        call.workspace_offset = offsets.get(workspace_name(step), -1)


def arena_size(library: Library) -> int:
    """Bytes of the arena :func:`plan` would give; nothing is changed."""
    return place(lifetimes(library), library.arena_alignment).size


def needed_bytes(library: Library) -> list[int]:
    """Bytes in use at each step at least, before anything is placed: a result may lie over inputs that die."""
    return needed(lifetimes(library), len(library.calls))


__all__ = ["Buffer", "arena_size", "cycles", "needed_bytes", "plan", "pool_notes"]
