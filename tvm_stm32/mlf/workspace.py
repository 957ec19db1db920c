"""How much scratch memory a function of an archive takes at most, from its C text.

Generated functions take and give back scratch memory in the order of their text, with sizes written as numbers; what
a function calls takes its own on top.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import ModelError
from .ctext import Item

ALIGNMENT = 8
"""Of each request; AI_TVM_ALIGNMENT of ai_tvm_shim.h."""

_LARGEST = 256 << 20
_EVENT = re.compile(
    r"(?:(?P<variable>\w+)\s*=\s*(?:\([^()]*\)\s*)?)?TVMBackendAllocWorkspace\s*\((?P<alloc>[^;]*?)\)\s*;"
    r"|TVMBackendFreeWorkspace\s*\((?P<free>[^()]*)\)"
    r"|\b(?P<call>[A-Za-z_]\w*)\s*\("
)
_SIZE = re.compile(r"\s*(?:\(\s*uint64_t\s*\)\s*)?\(?\s*(\d{1,12})[uUlL]*\s*\)?\s*")


class Workspaces:
    """Scratch memory of the functions of one module; ``claimed`` are the metadata's numbers."""

    def __init__(self, functions: Mapping[str, Item], claimed: Mapping[str, int], where: str) -> None:
        self._functions = functions
        self._claimed = claimed
        self._where = where
        self._known: dict[str, int | None] = {}
        self._open: list[str] = []
        self.notes: list[str] = []

    def allocates(self, name: str) -> bool:
        """Whether the function's own text asks for scratch memory."""
        return "TVMBackendAllocWorkspace" in self._functions[name].body

    def calls(self, name: str) -> set[str]:
        """Functions of the module that its text names."""
        return set(re.findall(r"\b[A-Za-z_]\w*\b", self._functions[name].body)) & set(self._functions)

    def bytes(self, name: str) -> int:
        """Bytes one call of ``name`` needs. Raises :class:`ModelError` when neither text nor metadata tell."""
        size = self._from_text(name)
        claimed = self._claimed.get(name, 0)
        if size is None:
            if not 0 < claimed <= _LARGEST:
                raise ModelError(
                    f"{self._where}: the scratch memory of '{name}' is not known",
                    why="its sizes are no plain numbers in the C text, and the metadata has none",
                    hint="export the archive again with TVM 0.8 or newer",
                )
            return -(-claimed // ALIGNMENT) * ALIGNMENT
        if claimed < size and name in self._claimed and self.allocates(name):
            self.notes.append(f"'{name}' takes {size:,} bytes of scratch memory, the metadata say {claimed:,}")
        return size

    def _from_text(self, name: str) -> int | None:
        if name in self._known:
            return self._known[name]
        if name in self._open:
            raise ModelError(f"{self._where}: the functions '{name}' and '{self._open[-1]}' call each other")
        self._open.append(name)
        size = self._walk(name)
        self._open.pop()
        self._known[name] = size
        return size

    def _walk(self, name: str) -> int | None:
        taken: list[tuple[str, int]] = []
        peak = 0
        for event in _EVENT.finditer(self._functions[name].body):
            use = sum(size for _, size in taken)
            if event["alloc"] is not None:
                arguments = event["alloc"].split(",")
                size = _SIZE.fullmatch(arguments[2]) if len(arguments) == 5 else None
                if size is None or event["variable"] is None or int(size.group(1)) > _LARGEST:
                    return None
                # A request for nothing still gets a place.
                taken.append((event["variable"], -(-max(1, int(size.group(1))) // ALIGNMENT) * ALIGNMENT))
                peak = max(peak, use + taken[-1][1])
            elif event["free"] is not None:
                variable = event["free"].split(",")[-1].strip()
                if not taken or taken[-1][0] != variable:
                    return None
                taken.pop()
            elif event["call"] in self._functions:
                inner = self._from_text(event["call"])
                if inner is None:
                    return None
                peak = max(peak, use + inner)
        return None if taken else peak
