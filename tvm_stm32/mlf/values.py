"""Constants that old generators wrote into C text, as arrays: initialisers, constant pools, byte lists."""

from __future__ import annotations

import math
import re

import numpy as np

from ..errors import ModelError
from ..library.ctypes import CTYPES
from .ctext import Item, without_attributes

DTYPES = {ctype: dtype for dtype, ctype in CTYPES.items() if dtype != "bool"} | {"bool": "bool", "_Bool": "bool"}
"""Element type of each C type a constant or parameter may have."""

LARGEST_POOL = 256 << 20

_ARRAY = re.compile(
    r"\s*(?:static\s+)?(?:const\s+)?(?:static\s+)?(\w+)\s+(?:const\s+)?(\w+)\s*\[\s*(\d{1,10})\s*\]\s*=\s*\{(.*)\}\s*;?\s*",
    re.DOTALL,
)
_MEMBER = re.compile(r"\s*(\w+)\s+(\w+)\s*\[\s*(\d{1,10})\s*\]\s*__attribute__\s*\(\((.*)\)\)\s*", re.DOTALL)
_FIELD = re.compile(r"\.(\w+)\s*=\s*\{([^{}]*)\}")
_POOL = re.compile(r".*?struct\s+\w+\s*\{(.*?)\}\s*\w+\s*=\s*\{(.*)\}\s*;?\s*", re.DOTALL)
_SPECIAL = {"INFINITY": math.inf, "-INFINITY": -math.inf, "+INFINITY": math.inf, "NAN": math.nan, "-NAN": math.nan}


def constant_array(item: Item) -> tuple[str, np.ndarray] | None:
    """Name and value of ``static const float weights[3] = {...}``; None for data of another form."""
    if "const" not in item.text.split("=", 1)[0]:
        return None
    match = _ARRAY.fullmatch(without_attributes(item.text))
    if match is None or match.group(1) not in DTYPES:
        return None
    ctype, name, count, values = match.groups()
    array = _values(values, DTYPES[ctype])
    return (name, array) if array is not None and array.size == int(count) else None


def constant_pool(item: Item, where: str) -> np.ndarray:
    """The bytes of a ``struct`` of aligned arrays with its initialiser. Raises :class:`ModelError`."""
    match = _POOL.fullmatch(item.text)
    if match is None:
        raise _unclear(where, item.name, "it is not a structure of arrays")
    fields = dict(_FIELD.findall(match.group(2)))
    offset = 0
    parts: list[tuple[int, bytes]] = []
    for text in match.group(1).split(";"):
        if not text.strip():
            continue
        member = _MEMBER.fullmatch(text)
        if member is None or member.group(1) not in DTYPES:
            raise _unclear(where, item.name, f"'{text.strip()[:60]}' is no array of numbers")
        ctype, name, count, attributes = member.groups()
        aligned = re.search(r"aligned\s*\(\s*(\d{1,10})\s*\)", attributes)
        alignment = int(aligned.group(1)) if aligned else np.dtype(DTYPES[ctype]).itemsize
        array = _values(fields.get(name, ""), DTYPES[ctype])
        if array is None or array.size != int(count) or not 0 < alignment <= 4096:
            raise _unclear(where, item.name, f"'{name}' does not hold {count} numbers")
        offset = -(-offset // alignment) * alignment
        parts.append((offset, array.tobytes()))
        offset += array.nbytes
    pool = np.zeros(offset, np.uint8)
    for start, data in parts:
        pool[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return pool


def byte_list(text: str, size: int, where: str, name: str) -> np.ndarray:
    """The bytes of ``0x01, 0xff`` over continued lines. Raises :class:`ModelError` when they are not ``size``."""
    values = [int(value, 16) for value in re.findall(r"0x([0-9a-fA-F]{1,2})\b", text)]
    if len(values) != size:
        raise _unclear(where, name, f"it lists {len(values)} bytes, not {size}")
    return np.array(values, np.uint8)


def _values(text: str, dtype: str) -> np.ndarray | None:
    """Numbers between the braces of an initialiser; None when one is no literal, or does not fit."""
    words = [word for word in (part.strip() for part in text.split(",")) if word]
    try:
        if np.dtype(dtype).kind == "f":
            return np.array([_real(word) for word in words], np.float64).astype(dtype)
        integers = [_integer(word) for word in words]
        if dtype == "bool":
            return np.array(integers, bool)
        # Literals may be written as the unsigned number of the same bits.
        bits = 8 * np.dtype(dtype).itemsize
        if any(not -(1 << (bits - 1)) <= value < 1 << bits for value in integers):
            return None
        return np.array([value % (1 << bits) for value in integers], f"uint{bits}").view(dtype)
    except (ValueError, OverflowError):
        return None


def _real(word: str) -> float:
    if word in _SPECIAL:
        return _SPECIAL[word]
    word = word.rstrip("fFlL") if "x" not in word.lower() or "p" in word.lower() else word
    return float.fromhex(word) if "x" in word.lower() else float(word)


def _integer(word: str) -> int:
    return int(word.rstrip("uUlL"), 0)


def _unclear(where: str, name: str, why: str) -> ModelError:
    return ModelError(f"{where}: the constants '{name}' cannot be read", why=why, hint="export the archive again")
