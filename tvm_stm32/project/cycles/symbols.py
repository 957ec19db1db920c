"""Which function an instruction belongs to, functions inlined into others apart."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..image import Image

# DW_AT_inline of functions the compiler inlined by its own choice. Those declared inline are part of their caller.
_INLINED = 1


class Symbols:
    """Names of the instructions of an image, and where its functions begin."""

    def __init__(self, path: Path) -> None:
        self._starts = Image(path).functions()
        self._addresses = [address for address, _ in self._starts]
        self._inlined: list[tuple[int, int, str]] = []
        self._entries: set[int] = {address for address, _ in self._starts}
        for name, entry, ranges in _inlined_functions(path):
            self._entries.add(entry)
            self._inlined += [(begin, end, name) for begin, end in ranges]
        self._inlined.sort()
        self._begins = [begin for begin, _, _ in self._inlined]

    def name(self, address: int) -> str:
        """``function``, or ``function [in caller]`` where it is inlined."""
        index = bisect_right(self._addresses, address) - 1
        outer = self._starts[index][1] if index >= 0 else "?"
        place = bisect_right(self._begins, address) - 1
        if place >= 0 and address < self._inlined[place][1]:
            return f"{self._inlined[place][2]} [in {outer}]"
        return outer

    def is_entry(self, address: int) -> bool:
        """Whether a function, inlined or not, begins there."""
        return address in self._entries


def _inlined_functions(path: Path) -> Iterator[tuple[str, int, list[tuple[int, int]]]]:
    """Name, first address and address ranges of each inlined function; nothing without debug information."""
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as stream:
        elf = ELFFile(stream)
        if not elf.has_dwarf_info():
            return
        dwarf = elf.get_dwarf_info()
        for unit in dwarf.iter_CUs():
            for entry in unit.get_top_DIE().iter_children():
                if entry.tag == "DW_TAG_subprogram":
                    yield from _below(dwarf, entry)


def _below(dwarf: Any, entry: Any) -> Iterator[tuple[str, int, list[tuple[int, int]]]]:
    for child in entry.iter_children():
        if child.tag == "DW_TAG_inlined_subroutine":
            origin = child.get_DIE_from_attribute("DW_AT_abstract_origin")
            inline = origin.attributes.get("DW_AT_inline")
            name = origin.attributes.get("DW_AT_name")
            ranges = _ranges(dwarf, child)
            if ranges and name is not None and inline is not None and inline.value == _INLINED:
                pc = child.attributes.get("DW_AT_entry_pc") or child.attributes.get("DW_AT_low_pc")
                yield name.value.decode("utf-8", "replace"), int(pc.value) if pc else ranges[0][0], ranges
        elif child.tag == "DW_TAG_lexical_block":
            yield from _below(dwarf, child)


def _ranges(dwarf: Any, entry: Any) -> list[tuple[int, int]]:
    attributes = entry.attributes
    if "DW_AT_ranges" not in attributes:
        low, high = attributes.get("DW_AT_low_pc"), attributes.get("DW_AT_high_pc")
        if low is None or high is None:
            return []
        # The upper end is an address, or a size in every other form.
        end = high.value if high.form == "DW_FORM_addr" else low.value + high.value
        return [(low.value, end)]
    lists = dwarf.range_lists()
    base = entry.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
    start = base.value if base is not None else 0
    found = []
    for item in lists.get_range_list_at_offset(attributes["DW_AT_ranges"].value, entry.cu):
        if hasattr(item, "base_address"):
            start = item.base_address
        else:
            offset = 0 if getattr(item, "is_absolute", False) else start
            found.append((item.begin_offset + offset, item.end_offset + offset))
    return [(begin, end) for begin, end in found if begin < end]
