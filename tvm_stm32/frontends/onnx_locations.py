"""Which other files an ONNX model keeps tensors in, found in its protobuf bytes alone.

Build tools ask this at every build, so neither onnx nor numpy is imported and the tensors' own bytes are skipped.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

# The messages of onnx.proto that lead to a tensor, by field number.
_FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
_KEY = b"location"
_MARK = b"\x0a\x08" + _KEY
"""An entry's key as it stands in the file."""


def external_locations(path: Path) -> list[str]:
    """Places of external data as the model spells them, sorted, those inside of its folder only.

    Empty for a file that cannot be read or is no ONNX model: compiling it says why.
    """
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data.find(_MARK) < 0:
                return []
            return sorted(place for place in set(_locations(data)) if is_inside(place))
    except (OSError, ValueError):
        return []


def is_inside(location: str) -> bool:
    """Whether a place, by its text, is one inside of the model's folder."""
    foreign = PureWindowsPath(location)
    outside = not location or "\0" in location or foreign.drive or foreign.root or "\\" in location
    return not outside and ".." not in PurePosixPath(location).parts


def _locations(data: mmap.mmap) -> Iterator[str]:
    open_ = [("model", 0, len(data))]
    while open_:
        kind, start, end = open_.pop()
        if kind == "entry":
            fields = {number: data[first:last] for number, first, last in _delimited(data, start, end)}
            if fields.get(1) == _KEY:
                yield fields.get(2, b"").decode("utf-8", "replace")
            continue
        inner = _FIELDS[kind]
        open_ += [(inner[n], first, last) for n, first, last in _delimited(data, start, end) if n in inner]


def _delimited(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(number, start, end) of a message's length-delimited fields, up to the first that is damaged."""
    position = start
    while position < end:
        tag, position = _varint(data, position, end)
        if tag & 7 == 0:
            _, position = _varint(data, position, end)
        elif tag & 7 in (1, 5):
            position += 8 if tag & 7 == 1 else 4
        elif tag & 7 == 2:
            size, position = _varint(data, position, end)
            if position + size > end:
                return
            yield tag >> 3, position, position + size
            position += size
        else:
            return


def _varint(data: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    """A number and the place after it; past the end of the message when it is cut off."""
    value = shift = 0
    while position < end and shift < 64:
        byte = data[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
    return 0, end
