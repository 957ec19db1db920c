"""The memory plan an archive brings: tensors of one storage id share memory."""

from __future__ import annotations

import itertools

from ..errors import ModelError, quoted
from ..library import Library
from ..memory.lifetimes import Buffer, lifetimes


def archive_size(library: Library, storage: dict[str, int]) -> int:
    """Bytes of the arena by the archive's storage ids, each as large as its largest tensor, plus scratch memory.

    The sizes in the archive are not used: exporters of all versions wrote wrong ones.
    """
    return _bases(library, storage)[1] + _scratch(library)


def place_as_archive(library: Library, storage: dict[str, int]) -> None:
    """Give tensors the places the archive's plan says. Raises :class:`ModelError` when tensors in use would overlap."""
    bases, end = _bases(library, storage)
    for name, tensor in library.tensors.items():
        root = library.root(name)
        tensor.offset = bases[storage[root]] + library.root_offset(name)
    for call in library.calls:
        call.workspace_offset = end if call.workspace else -1
    library.arena_size = end + _scratch(library)
    groups: dict[int, list[Buffer]] = {}
    for buffer in lifetimes(library):
        if buffer.tensors:
            groups.setdefault(storage[buffer.tensors[0]], []).append(buffer)
    for group in groups.values():
        group.sort(key=lambda buffer: (buffer.first, buffer.last))
        for one, other in itertools.pairwise(group):
            if not one.overlaps(other):
                continue
            raise ModelError(
                f"{library.provenance.file_name}: the archive's plan puts {quoted(one.name)} and {quoted(other.name)} "
                "into one place",
                why="both are in use at one time",
                hint="leave --storage archive out",
            )


def _bases(library: Library, storage: dict[str, int]) -> tuple[dict[int, int], int]:
    sizes: dict[int, int] = {}
    for name, number in storage.items():
        sizes[number] = max(sizes.get(number, 0), library.tensors[name].size)
    bases, end = {}, 0
    for number, size in sorted(sizes.items()):
        bases[number] = end
        end += -(-size // library.arena_alignment) * library.arena_alignment
    return bases, end


def _scratch(library: Library) -> int:
    return max((call.workspace for call in library.calls), default=0)
