"""Sizes as people write them in files and options: bytes, or a number with K (1024) or M (1048576)."""

from __future__ import annotations

import re

_UNITS = {"M": 1 << 20, "K": 1 << 10}
_SIZE = re.compile(r"[1-9]\d{0,9}[KMkm]?", re.ASCII)


def is_size(text: str) -> bool:
    """Whether that is a size of one byte or more."""
    return _SIZE.fullmatch(text) is not None


def parse_bytes(size: int | str) -> int:
    """Bytes of a size that :func:`is_size` or a schema has accepted."""
    if isinstance(size, int) or size.isdigit():
        return int(size)
    return int(size[:-1]) * _UNITS[size[-1].upper()]


def size_text(size: int) -> str:
    """A size as files have it: 64K, 1M, 1500."""
    for name, unit in _UNITS.items():
        if size and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)
